"""Calling an admission webhook for real: HTTPS to its URL, or to its service where that is reachable.

Nobody is held up: a call is awaited, and `timeoutSeconds` is all it gets, from looking up the name to the last byte of
the answer. Connections and what is known of certificates are kept for the next call. Services of simulated pods have no
address to connect to; those calls fail as on a cluster without endpoints.

Source: apiserver pkg/admission/plugin/webhook, pkg/util/webhook/client.go (v1.36).
"""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
import ssl
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from fairway.admission.door import Settle, Steps
from fairway.admission.request import CallWebhook, Outcome, WebhookAnswer
from fairway.apiserver.cluster import Cluster
from fairway.apiserver.serviceaddresses import Unresolved, resolved
from fairway.apiserver.wire.client import Link, Target, Unanswered
from fairway.cluster.actions import View
from fairway.cluster.errors import ApiError

log = logging.getLogger("fairway.apiserver")
_PORT = 443
# Connections in use for one place at a time, and kept for it; places known.
_AT_ONCE, _IDLE, _PLACES = 64, 4, 256
_PATH_CHARS = "/%:@!$&'()*+,;=~-._"


@dataclass(slots=True)
class _Place:
    """Somebody to call: those who wait for a connection, and connections that nobody uses."""

    turns: asyncio.Semaphore
    idle: list[Link]


class Webhooks:
    """Everybody who is called, and the connections to them."""

    def __init__(self, view: View, cluster: Cluster) -> None:
        self._view = view
        self._cluster = cluster
        self._asking: set[asyncio.Task[None]] = set()
        self._places: dict[tuple[Target, str], _Place] = {}

    def begin(self, steps: Steps, wanted: CallWebhook, settle: Settle) -> None:
        """Ask about an object of the cluster's own controllers, while they and everybody else go on."""
        task = asyncio.get_running_loop().create_task(self._ask(steps, wanted, settle))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, steps: Steps, wanted: CallWebhook, settle: Settle) -> None:
        outcome: Outcome | ApiError
        with self._cluster.no_faster():
            try:
                while True:
                    answer = await self.call(wanted)
                    self._cluster.touch()
                    wanted = steps.send(answer)
            except StopIteration as end:
                outcome = end.value
            except ApiError as refused:
                outcome = refused
            except Exception as bug:
                log.exception("asking webhooks about an object of a controller failed")
                outcome = ApiError(500, "InternalError", f"Internal error occurred: {type(bug).__name__}")
        settle(outcome)
        self._cluster.poke()

    async def call(self, wanted: CallWebhook) -> WebhookAnswer:
        """The webhook's answer, or why there is none."""
        config = wanted.client_config
        service = config.get("service") or {}
        url = config.get("url") or _service_url(service)
        shown = f"{url}{'&' if '?' in url else '?'}timeout={wanted.timeout_s}s"
        where = ("", 0)
        try:
            target = _target(url, None if config.get("url") else resolved(self._view, service))
            where = target.address
            body = msgspec.json.encode(wanted.body)
            async with asyncio.timeout(wanted.timeout_s):
                status, answer = await self._post(target, config.get("caBundle") or "", shown, body)
        except TimeoutError:
            return WebhookAnswer(error=f'Post "{shown}": context deadline exceeded')
        except Unresolved as nowhere:
            return WebhookAnswer(error=f'Post "{shown}": {nowhere}')
        except (OSError, ValueError) as failed:
            return WebhookAnswer(error=f'Post "{shown}": {_go_words(failed, where)}')
        if status != 200:
            return WebhookAnswer(
                error=f"the server rejected our request for an unknown reason (status {status})"
            )
        return _decoded(answer)

    async def _post(self, target: Target, ca_bundle: str, url: str, body: bytes) -> tuple[int, bytes]:
        """Raises: OSError, ValueError."""
        place = self._place((target, ca_bundle))
        parts = urlsplit(url)
        path = f"{quote(parts.path or '/', safe=_PATH_CHARS)}?{parts.query}"
        async with place.turns:
            while place.idle:
                link = place.idle[-1]
                link.take()
                try:
                    return await self._sent(place, link, path, body)
                except Unanswered:
                    # Closed while nobody used it: the next one, and in the end a new one.
                    continue
            link = await Link.open(target, _context(ca_bundle))
            return await self._sent(place, link, path, body)

    async def _sent(self, place: _Place, link: Link, path: str, body: bytes) -> tuple[int, bytes]:
        answered = await link.post(path, body)
        if link.is_open:
            if len(place.idle) < _IDLE:
                link.keep(place.idle)
            else:
                link.close()
        return answered

    def _place(self, key: tuple[Target, str]) -> _Place:
        found = self._places.get(key)
        if found is None:
            if len(self._places) >= _PLACES:
                self.close()
            found = self._places[key] = _Place(asyncio.Semaphore(_AT_ONCE), [])
        return found

    def close(self) -> None:
        """Hang up where nobody is being asked."""
        for place in self._places.values():
            for link in list(place.idle):
                link.close()
        self._places.clear()

    def stop(self) -> None:
        """Nobody is asked any more."""
        for task in list(self._asking):
            task.cancel()
        self.close()


def _decoded(answer: bytes) -> WebhookAnswer:
    try:
        review: Any = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        return WebhookAnswer(error=f"couldn't get version/kind; json parse error: {broken}")
    if not isinstance(review, dict):
        return WebhookAnswer(error="couldn't get version/kind; json parse error: not an object")
    return WebhookAnswer(review=review)


@lru_cache(maxsize=64)
def _context(ca_bundle: str) -> ssl.SSLContext:
    """Who signs for the webhook: its caBundle alone, or those this machine trusts. Raises: OSError, ValueError."""
    if ca_bundle:
        return ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode())
    return ssl.create_default_context()


def _service_url(service: dict[str, Any]) -> str:
    """Certificates are checked against the Service's name in the cluster, whatever answers there."""
    host = f"{service.get('name', '')}.{service.get('namespace', '')}.svc"
    return f"https://{host}:{service.get('port') or _PORT}/{(service.get('path') or '').lstrip('/')}"


def _target(url: str, address: tuple[str, int] | None) -> Target:
    """Raises: ValueError."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https" or not host:
        raise ValueError(f"webhook URL must be https: {url}")
    if not host.isascii() or not host.isprintable() or " " in host:
        raise ValueError(f"invalid host in webhook URL: {url}")
    port = parts.port or _PORT
    return Target(address or (host, port), host, host if port == _PORT else f"{host}:{port}")


def _go_words(failed: Exception, where: tuple[str, int]) -> str:
    """As Go's dialer says it."""
    if isinstance(failed, ConnectionRefusedError):
        return f"dial tcp {where[0]}:{where[1]}: connect: connection refused"
    if isinstance(failed, ssl.SSLCertVerificationError):
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    if isinstance(failed, socket.gaierror):
        return f"dial tcp: lookup {where[0]}: no such host"
    if isinstance(failed, Unanswered):
        return "EOF"
    return f"{type(failed).__name__}: {failed}"
