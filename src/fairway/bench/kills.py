"""Does kill -9 lose anything that was acknowledged? One folder, many deaths.

Every trial starts a server on the same folder, checks that all writes acknowledged so far are there (and every delete
stayed one), lets clients write, and kills the process at a random moment. A watch from before the death must get 410
or go on.
"""

from __future__ import annotations

import http.client
import json
import random
import shutil
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairway.apiserver.folders import running
from fairway.bench import BenchRow
from fairway.bench.api import connect, start_server

_CLIENTS = 3
_PATH = "/api/v1/namespaces/default/configmaps"
_LONGEST_S = 0.4
# The first write loads admission: whoever kills before it is done tries nothing.
_FIRST_WRITE_S = 20.0


def run(quick: bool) -> Iterator[BenchRow]:
    """Rows as they are measured."""
    trials = 20 if quick else 1000
    folder = Path(tempfile.mkdtemp(prefix="fairway-kills-"))
    try:
        acknowledged, lost = trial_run(folder, trials, seed=1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    yield BenchRow("kill -9 trials", trials, "", 0, "1,000, asked for in the issue")
    yield BenchRow("kill -9 writes acknowledged", acknowledged, "", 0, "the more, the better a test")
    yield BenchRow("kill -9 acknowledged writes lost", len(lost), "", 0, "none may be")


def trial_run(folder: Path, trials: int, seed: int) -> tuple[int, list[str]]:
    """How many writes were acknowledged, and which of them were not there afterwards."""
    draw = random.Random(seed)
    present: dict[str, str] = {}
    gone: set[str] = set()
    unsure: set[str] = set()
    lost: list[str] = []
    count, version = 0, ""
    for trial in range(trials + 1):
        process, _ = start_server(folder)
        found = running(folder)
        assert found is not None
        connection = connect(folder, found.url)
        lost += _missing(connection, present, gone, unsure)
        if version:
            lost += _watched(connection, version)
        connection.close()
        if trial == trials:
            process.kill()
            process.wait()
            break
        clients = [_Client(folder, found.url, f"t{trial}-{i}", list(present)[-20:]) for i in range(_CLIENTS)]
        for client in clients:
            client.start()
        _until_acknowledged(clients)
        time.sleep(draw.uniform(0.0, _LONGEST_S))
        process.kill()
        process.wait()
        for client in clients:
            client.join()
            count += len(client.made) + len(client.deleted)
            present.update(client.made)
            gone |= client.deleted
            unsure |= client.unsure
            version = max(version, client.version, key=lambda v: int(v or 0))
        for name in (*gone, *unsure):
            present.pop(name, None)
    return count, lost


def _until_acknowledged(clients: list[_Client]) -> None:
    """Wait for the first write that was acknowledged."""
    until_s = time.monotonic() + _FIRST_WRITE_S
    while not any(c.made or c.deleted for c in clients) and time.monotonic() < until_s:
        time.sleep(0.002)


def _missing(
    connection: http.client.HTTPSConnection, present: dict[str, str], gone: set[str], unsure: set[str]
) -> list[str]:
    connection.request("GET", _PATH)
    items = json.loads(connection.getresponse().read())["items"]
    there = {o["metadata"]["name"]: (o.get("data") or {}).get("k") for o in items}
    lost = [f"{name} is not there" for name, value in present.items() if there.get(name) != value]
    return lost + [f"{name} is back" for name in sorted(gone - unsure) if name in there]


def _watched(connection: http.client.HTTPSConnection, version: str) -> list[str]:
    """A watch from a version of the server before: gone, or it goes on."""
    connection.request("GET", f"{_PATH}?watch=1&resourceVersion={version}&timeoutSeconds=1")
    response = connection.getresponse()
    line = response.readline()
    response.close()
    connection.close()
    if response.status == 410 or b'"code":410' in line or b'"type":"ADDED"' in line or not line.strip():
        return []
    return [f"a watch from {version} got {response.status} {line[:200]!r}"]


class _Client(threading.Thread):
    """Writes until the server is dead; keeps what was acknowledged."""

    def __init__(self, folder: Path, url: str, prefix: str, known: list[str]) -> None:
        super().__init__(daemon=True)
        self._connection = connect(folder, url)
        self._prefix = prefix
        self._known = known
        self.made: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.unsure: set[str] = set()
        self.version = ""

    def run(self) -> None:
        number = 0
        try:
            while True:
                number += 1
                self._create(f"{self._prefix}-{number}", str(number))
                if number % 5 == 0 and self._prefix.endswith("-0") and self._known:
                    self._remove(self._known.pop())
        except (OSError, http.client.HTTPException, ssl.SSLError, ValueError):
            return
        finally:
            self._connection.close()

    def _create(self, name: str, value: str) -> None:
        self.unsure.add(name)
        meta: dict[str, Any] = {"name": name, "namespace": "default"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": value}}
        self._connection.request("POST", _PATH, json.dumps(body), {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        self.unsure.discard(name)
        if response.status == 201:
            self.made[name] = value
            self.version = answer["metadata"]["resourceVersion"]

    def _remove(self, name: str) -> None:
        self.unsure.add(name)
        self._connection.request("DELETE", f"{_PATH}/{name}")
        response = self._connection.getresponse()
        response.read()
        self.unsure.discard(name)
        if response.status == 200:
            self.deleted.add(name)
