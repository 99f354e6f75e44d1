"""What does a server do under loads and attacks that stop others? The figures of docs/security.md.

Each setup is a server of its own, in a process of its own: what it costs, and what somebody else's GET takes
meanwhile. Few rows have a reference: what counts is that the server answers and that nothing grows without end.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import shutil
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from fairway.apiserver.folders import Running
from fairway.bench import BENCHMARKS, BenchRow, api

_MAP = f"{api._CONFIG_MAPS}/big"
_DRIP_S = 3.0
_HANDSHAKE_S, _REQUEST_S = 10.0, 32.0
_LONGEST_S = 60.0
_NONE = "no reference"

Setup = Callable[[Path, Running, bool], Iterator[BenchRow]]


def run(quick: bool, setup: str = "") -> Iterator[BenchRow]:
    """Rows as they are measured."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for name in (setup,) if setup else BENCHMARKS["survival"].setups:
        folder = Path(tempfile.mkdtemp(prefix="fairway-survival-"))
        try:
            with api._server(folder) as (server, _):
                api._until_ready(folder, server)
                yield from _SETUPS[name](folder, server, quick)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _silent(folder: Path, server: Running, quick: bool) -> Iterator[BenchRow]:
    """Connections that never begin their handshake."""
    count = 600 if quick else 6000
    said = f"survival {count:,} silent connections"
    opened = [_connected(server) for _ in range(count)]
    yield from _meanwhile(said, _answers(folder, server, 100))
    time.sleep(_HANDSHAKE_S + 2)
    left = len(os.listdir(f"/proc/{server.pid}/fd"))
    yield BenchRow(f"{said}, descriptors 12 s later", left, "", 0, _NONE)
    _close(opened)


def _idle(folder: Path, server: Running, quick: bool) -> Iterator[BenchRow]:
    """Connections with TLS that never ask."""
    count = 150 if quick else 1500
    said = f"survival {count:,} idle TLS connections"
    opened = [_with_tls(folder, server) for _ in range(count)]
    yield from _meanwhile(said, _answers(folder, server, 100))
    yield _resident(said, server)
    _close(opened)


def _slowloris(folder: Path, server: Running, quick: bool) -> Iterator[BenchRow]:
    """Requests that come a byte at a time."""
    count = 50 if quick else 500
    said = f"survival {count:,} requests by the byte"
    slow = [_with_tls(folder, server) for _ in range(count)]
    for one in slow:
        one.sendall(b"GET /version HTTP/1.1\r\nX-Slow: ")
        one.setblocking(False)
    began_s, took = time.monotonic(), []
    left = slow
    while left and time.monotonic() - began_s < _LONGEST_S:
        until_s = time.monotonic() + _DRIP_S
        took += _answers(folder, server, 50)
        time.sleep(max(0.0, until_s - time.monotonic()))
        left = [one for one in left if _drips(one)]
    cut_s = time.monotonic() - began_s
    reference = f"{_REQUEST_S:g} s from a request's first byte, and {_DRIP_S:g} between looks"
    yield BenchRow(f"{said}, left at the end", len(left), "", 0, "none may be")
    yield BenchRow(f"{said}, cut off", cut_s, "s", (_REQUEST_S + _DRIP_S) / cut_s, reference)
    yield from _meanwhile(said, took)
    _close(slow)


def _watchers(folder: Path, server: Running, quick: bool) -> Iterator[BenchRow]:
    count = 300 if quick else 3000
    yield from api._watchers(folder, server, count)
    yield _resident(f"survival {count:,} watchers", server)


def _objects(folder: Path, _server: Running, quick: bool) -> Iterator[BenchRow]:
    """A server that starts on many objects."""
    nodes, pods = (500, 10_000) if quick else (5_000, 100_000)
    said = f"survival {pods:,} pods, {nodes:,} nodes"
    with api._filled_server(folder, nodes, pods) as (other, server, boot_s):
        yield BenchRow(f"{said}, first answer", boot_s, "s", 0, _NONE)
        began_s = time.perf_counter()
        api._until_ready(other, server)
        ready_s = boot_s + time.perf_counter() - began_s
        yield BenchRow(f"{said}, controllers run", ready_s, "s", 0, _NONE)
        connection = api.connect(other, server.url)
        began_s = time.perf_counter()
        api._listed(connection, "/api/v1/pods")
        yield BenchRow(f"{said}, all in pages", time.perf_counter() - began_s, "s", 0, _NONE)
        began_s = time.perf_counter()
        _get(connection, "/api/v1/pods")
        yield BenchRow(f"{said}, all at once", time.perf_counter() - began_s, "s", 0, _NONE)
        yield _resident(said, server)


def _updates(folder: Path, server: Running, quick: bool) -> Iterator[BenchRow]:
    """One large object, written again and again."""
    count = 250 if quick else 2500
    connection = api.connect(folder, server.url)
    before_mb = api._resident_mb(server.pid)
    for i in range(count + 1):
        obj = json.loads(api._config_map("big")) | {"data": {"k": f"{i:06}" + "x" * 1_000_000}}
        connection.request(
            "PUT" if i else "POST", _MAP if i else api._CONFIG_MAPS, json.dumps(obj), api._HEADERS
        )
        connection.getresponse().read()
    grown_mb = api._resident_mb(server.pid) - before_mb
    yield BenchRow(f"survival {count:,} updates of 1 MB, more memory", grown_mb, "MB", 0, _NONE)


_SETUPS: dict[str, Setup] = {
    "silent": _silent,
    "idle": _idle,
    "slowloris": _slowloris,
    "watchers": _watchers,
    "objects": _objects,
    "updates": _updates,
}


def _connected(server: Running) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), 20)


def _with_tls(folder: Path, server: Running) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(folder / "pki" / "ca.crt"))
    return context.wrap_socket(_connected(server), server_hostname=urlsplit(server.url).hostname)


def _close(opened: list[socket.socket] | list[ssl.SSLSocket]) -> None:
    for one in opened:
        one.close()


def _drips(one: ssl.SSLSocket) -> bool:
    """Send another byte; whether the server still listens."""
    try:
        one.send(b"x")
        one.recv(1)
    except ssl.SSLWantReadError:
        return True
    except OSError:
        return False
    return False


def _answers(folder: Path, server: Running, count: int) -> list[float]:
    """Milliseconds that GETs on one new connection take; the first makes the connection."""
    connection = api.connect(folder, server.url)
    took = []
    for _ in range(count):
        began_s = time.perf_counter()
        _get(connection, "/version")
        took.append((time.perf_counter() - began_s) * 1000)
    connection.close()
    return took


def _get(connection: http.client.HTTPSConnection, path: str) -> None:
    connection.request("GET", path)
    connection.getresponse().read()


def _meanwhile(said: str, took: list[float]) -> Iterator[BenchRow]:
    yield BenchRow(f"{said}, a GET, median", median(took), "ms", 0, _NONE)
    yield BenchRow(f"{said}, a GET, worst", max(took), "ms", 0, _NONE)


def _resident(said: str, server: Running) -> BenchRow:
    return BenchRow(f"{said}, resident", api._resident_mb(server.pid), "MB", 0, _NONE)
