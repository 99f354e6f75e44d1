"""A server in this process over loopback, and a client that speaks to it as a stranger would."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairway.apiserver.serving import Server, Settings

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Served:
    """A running server; `call` runs something on its loop."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.loop = loop

    @property
    def pki(self) -> Path:
        return self.server.settings.data / "pki"

    def connect(self, *, certificate: bool = True) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        if certificate:
            context.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
        return http.client.HTTPSConnection("127.0.0.1", self.server.port, context=context, timeout=120)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        certificate: bool = True,
    ) -> tuple[int, Any]:
        """Status and decoded body."""
        connection = self.connect(certificate=certificate)
        try:
            data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            text = response.read()
            is_json = "json" in (response.headers["Content-Type"] or "")
            return response.status, json.loads(text) if is_json else text.decode()
        finally:
            connection.close()

    def call(self, function: Callable[[], Any]) -> Any:
        done: asyncio.Future[Any] = asyncio.run_coroutine_threadsafe(_called(function), self.loop)  # type: ignore[assignment]
        return done.result(20)  # type: ignore[call-arg]

    def until_ready(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.api.cluster.ready.wait(), self.loop).result(60)


async def _called(function: Callable[[], Any]) -> Any:
    return function()


@contextmanager
def served(data: Path, **settings: Any) -> Iterator[Served]:
    """A server on a folder, stopped at the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> Server:
        server = Server(Settings(data=data, latency=settings.pop("latency", "zero"), **settings))
        await server.start()
        return server

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(60)
    try:
        yield Served(server, loop)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
