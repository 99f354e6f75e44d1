"""Paths that are no resources: version, health, metrics, OpenAPI, and the clock, which only Fairway has.

Source: apiserver pkg/server/routes (v1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairway.admission.request import User
from fairway.apiserver import health
from fairway.apiserver.asking import Api
from fairway.apiserver.buildinfo import version
from fairway.apiserver.decoding import decoded
from fairway.apiserver.historyfiles import FOLDER, named
from fairway.apiserver.statuses import StatusError, bad_request, method_not_allowed, page_not_found
from fairway.apiserver.wire.messages import Answer, Request, Response, json_response

if TYPE_CHECKING:
    from fairway.apiserver.cluster import Cluster
    from fairway.apiserver.exporter.page import MetricsPage
    from fairway.apiserver.openapi import Documents
    from fairway.twin.containment import Containment

_FAILURES_SHOWN = 20


class Pages:
    """Their handlers, by first segment."""

    def __init__(self, api: Api, clock: Callable[[Request], Answer]) -> None:
        self._api = api
        self._documents: Documents | None = None
        self._health = health.Health(api)
        self._exporter: MetricsPage | None = None
        self.handlers: dict[str, Callable[[Request, User], Answer]] = {
            "/version": self._version,
            **dict.fromkeys(health.PAGES, lambda request, _user: self._health.answer(request)),
            "/metrics": self._metrics,
            "/openapi": self._openapi,
            "/fairway/clock": lambda request, _user: clock(request),
            "/fairway/history": lambda request, _user: self._history(request),
            "/fairway/discovery": lambda request, _user: self._discovery(request),
        }

    def _version(self, _request: Request, _user: User) -> Response:
        return json_response(200, version())

    def _metrics(self, request: Request, _user: User) -> Response:
        """Raises: StatusError (404, 405)."""
        from fairway.apiserver.exporter.page import MetricsPage

        if request.path.rstrip("/") != "/metrics":
            raise page_not_found()
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed(None)
        if self._exporter is None:
            self._exporter = MetricsPage(self._api, self._health)
        return self._exporter.answer(request)

    def _discovery(self, request: Request) -> Response:
        """Raises: StatusError (400, 405)."""
        from fairway.apiserver.scrapes import discovery

        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed(None)
        return discovery.answer(self._api.store, request)

    async def _history(self, request: Request) -> Response:
        """The files of the cluster's history, or one of them. Raises: StatusError (404, 405)."""
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed(None)
        path, version = request.path.rstrip("/"), self._api.store.version
        files = {p.name: p for p in named(self._api.journal.folder / FOLDER)}
        if path == "/fairway/history":
            said = [{"name": name, "bytes": file.stat().st_size} for name, file in files.items()]
            return json_response(200, {"files": said}, durable=version)
        file = files.get(path.removeprefix("/fairway/history/"))
        if file is None:
            raise page_not_found()
        try:
            body = await asyncio.to_thread(file.read_bytes)
        except FileNotFoundError:
            raise page_not_found() from None
        return Response(200, body, "application/octet-stream", durable=version)

    def _openapi(self, request: Request, _user: User) -> Response:
        documents = self._built()
        path = request.path.rstrip("/")
        if path == "/openapi/v2":
            document = documents.v2(request.header("accept") or "")
        elif path == "/openapi/v3":
            document = documents.index()
        else:
            found = documents.v3(path.removeprefix("/openapi/v3/"))
            if found is None:
                raise page_not_found()
            document = found
        if request.header("if-none-match") == document.etag:
            return Response(304, b"", headers=(("Etag", document.etag),))
        headers = (("Etag", document.etag), ("Vary", "Accept"))
        return Response(200, document.body, document.media_type, headers=headers)

    def _built(self) -> Documents:
        from fairway.apiserver.openapi import Documents

        if self._documents is None:
            self._documents = Documents(self._api.resources)
        return self._documents


class Clock:
    """`/fairway/clock`: GET says what time it is and how fast it goes; POST changes it."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def answer(self, request: Request) -> Answer:
        """Raises: StatusError (400, 405, 503)."""
        if request.method == "GET":
            return json_response(200, self.status())
        if request.method != "POST":
            raise method_not_allowed(None)
        return self._command(decoded(request.body, "Object", is_yaml=False))

    def status(self) -> dict[str, Any]:
        pump = self._api.cluster.pump
        store = self._api.store
        return {
            "nowUs": store.now_us,
            "speed": self._api.cluster.speed if pump is None else pump.speed,
            "paused": self._api.cluster.paused if pump is None else pump.paused,
            "lagUs": 0 if pump is None else pump.lag_us,
            "resourceVersion": str(store.version),
            "objects": sum(store.count(gk) for gk in store.kinds()),
            "nodes": store.count("Node"),
            "pods": store.count("Pod"),
            "watchers": len(self._api.watches),
            "components": _told(self._api.cluster),
            **_contained(self._api.cluster.containment),
        }

    async def _command(self, said: dict[str, Any]) -> Response:
        from fairway.apiserver.conditions import condition_of
        from fairway.errors import UserError

        await self._api.cluster.ready.wait()
        pump = self._api.cluster.pump
        assert pump is not None
        held = True
        try:
            if "speed" in said or "paused" in said:
                speed = said.get("speed")
                if speed is not None and (isinstance(speed, bool) or not isinstance(speed, (int, float))):
                    raise bad_request(f"speed: expected a number, not {speed!r}")
                pump.set(speed=speed, paused=said.get("paused"))
            if "advanceUs" in said or "untilUs" in said:
                until_us = _until_us(said, pump.now_us)
                condition = (
                    condition_of(self._api.store, said["condition"]) if said.get("condition") else None
                )
                held = await pump.advance(until_us, condition)
        except UserError as wrong:
            raise bad_request(str(wrong)) from wrong
        except asyncio.CancelledError:
            raise StatusError(503, "ServiceUnavailable", "the server is shutting down") from None
        body = {**self.status(), "held": held}
        return json_response(200, body, durable=self._api.store.version)


def _told(cluster: Cluster) -> dict[str, bool]:
    """Every part of the cluster that can be left out, and whether it is on."""
    return cluster.left.told(() if cluster.twin is None else tuple(cluster.twin.host.parts))


def _contained(contained: Containment | None) -> dict[str, Any]:
    """What components failed at and do without."""
    standing = [] if contained is None else contained.standing()
    return {
        "failures": len(standing),
        "failing": [
            {
                "component": f.component,
                "object": f.subject,
                "error": f.error,
                "where": f.where,
                "sinceUs": f.since_us,
                "count": f.times,
                "nextUs": f.next_us,
            }
            for f in standing[:_FAILURES_SHOWN]
        ],
    }


def _until_us(said: dict[str, Any], now_us: int) -> int:
    """Raises: StatusError (400)."""
    name = "advanceUs" if "advanceUs" in said else "untilUs"
    value = said[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise bad_request(f"{name}: expected microseconds, 0 or more, not {value!r}")
    return now_us + value if name == "advanceUs" else value
