"""What did a served cluster's Alertmanagers send? A file for every notification, and webhooks that are allowed.

`DATA/alerts/sent/NAMESPACE_ALERTMANAGER/RECEIVER/NUMBER-KIND.json` is what a webhook, Slack or a mail would have got.
Every receiver keeps its newest: one that is told a lot loses its own. Nothing leaves the machine: a webhook is POSTed
only to an address of loopback that `fairway up --call` names.
"""

from __future__ import annotations

import ipaddress
import logging
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from fairway.telemetry.alertmanager.dispatching import Notification
from fairway.telemetry.alertmanager.payloads import payload

log = logging.getLogger("fairway.apiserver")
MOST_FILES: Final = 500
"""Of one receiver."""
MOST_BYTES: Final = 16 << 20
"""Of one receiver."""
MOST_RECEIVERS: Final = 1_000
_MOST_WAITING: Final = 1_000
_TIMEOUT_S: Final = 5.0
_LONGEST: Final = 120


class Sent:
    """The folder of one cluster. `calls`: addresses that may be called."""

    def __init__(self, folder: Path, calls: tuple[str, ...]) -> None:
        self._folder, self._calls = folder, calls
        self._files: dict[Path, list[tuple[Path, int]]] = {}
        self._waiting: queue.Queue[tuple[str, bytes] | None] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None

    def deliver(self, alertmanager: str, notes: Iterable[Notification]) -> None:
        for note in notes:
            data = msgspec.json.encode(payload(note))
            self._write(alertmanager, note, data)
            url = str(note.integration.settings.get("url") or "")
            if note.integration.kind == "webhook" and self._calls and self._is_allowed(url):
                self._post(url, data)

    def stop(self) -> None:
        if self._thread is not None:
            try:
                self._waiting.put_nowait(None)
            except queue.Full:
                return

    # Files

    def _write(self, alertmanager: str, note: Notification, data: bytes) -> None:
        folder = self._folder / _plain(alertmanager.replace("/", "_")) / _plain(note.receiver)
        try:
            there = self._there(folder)
            if there is None:
                log.warning("%s: more than %d receivers: nothing is written", folder, MOST_RECEIVERS)
                return
            number = int(there[-1][0].name.partition("-")[0]) + 1 if there else 1
            file = folder / f"{number:08d}-{_plain(note.integration.kind)}.json"
            file.write_bytes(msgspec.json.format(data, indent=2) + b"\n")
            there.append((file, file.stat().st_size))
            size = sum(one for _, one in there)
            while len(there) > MOST_FILES or (size > MOST_BYTES and len(there) > 1):
                oldest, one = there.pop(0)
                size -= one
                oldest.unlink(missing_ok=True)
        except OSError as failed:
            log.warning("%s: cannot be written: %s", folder, failed.strerror)

    def _there(self, folder: Path) -> list[tuple[Path, int]] | None:
        """Files of a receiver, oldest first; None: there are too many receivers."""
        found = self._files.get(folder)
        if found is None:
            if len(self._files) >= MOST_RECEIVERS:
                return None
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            named = sorted(one for one in folder.iterdir() if one.name.partition("-")[0].isdigit())
            found = self._files[folder] = [(one, one.stat().st_size) for one in named]
        return found

    # Calls

    def _is_allowed(self, url: str) -> bool:
        """Whether it is on loopback, and named by whoever started the cluster."""
        try:
            read = urlsplit(url)
            host, port = read.hostname or "", read.port or 80
            is_near = host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False
        named = f"[{host}]" if ":" in host else host
        return (
            read.scheme == "http" and is_near and (named in self._calls or f"{named}:{port}" in self._calls)
        )

    def _post(self, url: str, data: bytes) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="webhooks", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait((url, data))
        except queue.Full:
            log.warning("%s: %d notifications wait: this one is not sent", _host(url), _MOST_WAITING)

    def _work(self) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
        while (one := self._waiting.get()) is not None:
            url, data = one
            headers = {"Content-Type": "application/json", "User-Agent": "Alertmanager/fairway"}
            try:
                with opener.open(urllib.request.Request(url, data, headers), timeout=_TIMEOUT_S):
                    pass
            except (OSError, urllib.error.URLError, ValueError) as failed:
                log.warning("%s: not delivered: %s", _host(url), failed)


def _host(url: str) -> str:
    """What may be told of an address: its path or query may be the secret."""
    return urlsplit(url).netloc.rpartition("@")[2]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Nobody sends us elsewhere."""


def _plain(name: str) -> str:
    """One part of a path, whatever it was."""
    found = quote(name, safe="").replace(".", "%2E")
    if len(found) > _LONGEST:
        from hashlib import sha256

        found = f"{found[:_LONGEST]}-{sha256(name.encode()).hexdigest()[:16]}"
    return found or "%00"
