"""How fast is the API server, beside kube-apiserver with etcd?

A server in a process of its own, clients in theirs, over TLS on loopback, as `load` plays them: small ConfigMaps
created and read over four kept connections. References: kube-apiserver v1.36 with etcd on a machine of two cores
under the same load; the others are limits we set ourselves.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import IO, Any
from urllib.parse import urlsplit

from fairway.apiserver.folders import Running, running
from fairway.apiserver.history import BUDGET_BYTES
from fairway.bench import BenchRow
from fairway.errors import WorldError

_CLIENTS = 4
_REAL = "kube-apiserver v1.36 + etcd, same load"
_SET = "limit set in the issue"
_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_PODS = "/api/v1/namespaces/default/pods"
_HEADERS = {"Content-Type": "application/json"}


def run(quick: bool) -> Iterator[BenchRow]:
    """Rows as they are measured."""
    seconds = 3.0 if quick else 10.0
    folder = Path(tempfile.mkdtemp(prefix="fairway-bench-"))
    try:
        with _server(folder) as (server, boot_s):
            yield BenchRow("api boot to first answer", boot_s, "s", 1.0 / boot_s, f"1 s, {_SET}")
            _until_ready(folder, server)
            memory_mb = _resident_mb(server.pid)
            yield BenchRow("api empty server, resident", memory_mb, "MB", 150 / memory_mb, f"150 MB, {_SET}")
            yield from _load(folder, server, seconds)
            yield from _watchers(folder, server, 200 if quick else 1000)
            yield from _lists(folder, quick)
        yield from _history(folder, quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _server(folder: Path) -> Iterator[tuple[Running, float]]:
    """A server on a folder, and how long its second start took (the first makes certificates)."""
    start_server(folder)[0].terminate()
    _wait_gone(folder)
    process, boot_s = start_server(folder)
    try:
        found = running(folder)
        assert found is not None
        yield found, boot_s
    finally:
        process.terminate()
        process.wait()


def start_server(
    folder: Path,
    errors: IO[bytes] | None = None,
    without: tuple[str, ...] = (),
    history: int = BUDGET_BYTES,
) -> tuple[subprocess.Popen[bytes], float]:
    """`errors`: where its standard error goes; `without`: components that are left out; `history`: bytes of it."""
    settings: dict[str, Any] = {
        "data": str(folder),
        "kubeconfig": None,
        "fleet": [],
        "without": without,
        "history": history,
    }
    began_s = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "fairway.apiserver", json.dumps(settings)], stderr=errors
    )
    while True:
        if process.poll() is not None:
            raise WorldError(f"the server on {folder} ended with {process.returncode} before it answered")
        found = running(folder)
        if found is not None and found.pid == process.pid:
            with suppress(OSError), closing(connect(folder, found.url)) as connection:
                connection.request("GET", "/version")
                if connection.getresponse().read():
                    return process, time.perf_counter() - began_s
        time.sleep(0.005)


def _wait_gone(folder: Path) -> None:
    while running(folder) is not None:
        time.sleep(0.01)


def _until_ready(folder: Path, server: Running) -> None:
    """Components are loaded after the first answers."""
    connection = connect(folder, server.url)
    while True:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        response.read()
        if response.status == 200:
            return
        time.sleep(0.05)


def connect(folder: Path, url: str) -> http.client.HTTPSConnection:
    parts = urlsplit(url)
    context = ssl.create_default_context(cafile=str(folder / "pki" / "ca.crt"))
    context.load_cert_chain(folder / "pki" / "admin.crt", folder / "pki" / "admin.key")
    return http.client.HTTPSConnection(parts.hostname or "", parts.port, context=context, timeout=60)


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


# Load


def _load(folder: Path, server: Running, seconds: float) -> Iterator[BenchRow]:
    connection = connect(folder, server.url)
    _post(connection, _config_map("seed"))
    for verb, per_second, p99_ms in (("create", 915, 13), ("get", 1353, 10)):
        took = _played(folder, server, seconds, verb)
        rate, slow_ms = len(took) / seconds, took[int(len(took) * 0.99)] * 1000
        yield BenchRow(f"api {verb}s", rate, "/s", rate / per_second, f"{per_second}/s, {_REAL}")
        yield BenchRow(f"api {verb} p99", slow_ms, "ms", p99_ms / slow_ms, f"{p99_ms} ms, {_REAL}")


def _played(folder: Path, server: Running, seconds: float, verb: str) -> list[float]:
    """How long each request of all clients took, ascending."""
    queue: Any = multiprocessing.Queue()
    work = (str(folder), server.url, seconds, verb, queue)
    clients = [multiprocessing.Process(target=_client, args=work) for _ in range(_CLIENTS)]
    for client in clients:
        client.start()
    took = sorted(t for _ in clients for t in queue.get())
    for client in clients:
        client.join()
    return took


def _history(folder: Path, quick: bool) -> Iterator[BenchRow]:
    """What keeping the past costs: pods created with and without it, in turns, each on an empty server."""
    rates: dict[int, list[float]] = {0: [], BUDGET_BYTES: []}
    seconds = 3.0 if quick else 10.0
    for turn in range(2 if quick else 5):
        for kept, found in rates.items():
            other = folder / f"history-{turn}-{kept}"
            shutil.copytree(folder / "pki", other / "pki")
            process, _ = start_server(other, history=kept)
            server = running(other)
            assert server is not None
            _until_ready(other, server)
            found.append(len(_played(other, server, seconds, "pod")) / seconds)
            process.terminate()
            process.wait()
    without, with_ = (median(found) for found in rates.values())
    yield BenchRow("api pods created, history kept", with_, "/s", with_ / without, "without it, in turns")


def _client(folder: str, url: str, seconds: float, verb: str, queue: Any) -> None:
    connection = connect(Path(folder), url)
    took: list[float] = []
    until_s = time.time() + seconds
    while time.time() < until_s:
        began_s = time.perf_counter()
        if verb == "create":
            _post(connection, _config_map(f"l-{os.getpid()}-{len(took)}"))
        elif verb == "pod":
            _post(connection, _pod(f"l-{os.getpid()}-{len(took)}"), _PODS)
        else:
            connection.request("GET", f"{_CONFIG_MAPS}/seed")
            connection.getresponse().read()
        took.append(time.perf_counter() - began_s)
    queue.put(took)


def _config_map(name: str) -> str:
    meta = {"name": name, "namespace": "default"}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": "v"}})


def _pod(name: str) -> str:
    asked = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": "c",
        "image": "i",
        "resources": {"limits": asked},
        "env": [{"name": "A", "value": "b"}],
    }
    meta = {"name": name, "namespace": "default", "labels": {"app": "a"}}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
    )


def _post(connection: http.client.HTTPSConnection, body: str, path: str = _CONFIG_MAPS) -> int:
    return _sent(connection, "POST", path, body, _HEADERS)


def _sent(
    connection: http.client.HTTPSConnection, verb: str, path: str, body: str, headers: dict[str, str]
) -> int:
    connection.request(verb, path, body, headers)
    response = connection.getresponse()
    response.read()
    return response.status


# Watchers


def _watchers(folder: Path, server: Running, count: int) -> Iterator[BenchRow]:
    """How long until the last of many watchers has seen one event."""
    parts = urlsplit(server.url)
    context = ssl.create_default_context(cafile=str(folder / "pki" / "ca.crt"))
    context.load_cert_chain(folder / "pki" / "admin.crt", folder / "pki" / "admin.key")
    path = "/api/v1/namespaces/kube-public/configmaps?watch=1&fieldSelector=metadata.name%3Dnews"
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    sockets = []
    for _ in range(count):
        raw = socket.create_connection((parts.hostname or "", parts.port or 0))
        secure = context.wrap_socket(raw, server_hostname=parts.hostname)
        secure.sendall(request)
        sockets.append(secure)
    for watching in sockets:
        while b"\r\n\r\n" not in watching.recv(4096):
            pass
    connection = connect(folder, server.url)
    news = json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "news", "namespace": "kube-public"}}
    )
    began_s = time.perf_counter()
    _post(connection, news, "/api/v1/namespaces/kube-public/configmaps")
    for watching in sockets:
        while b"ADDED" not in watching.recv(4096):
            pass
    took_ms = (time.perf_counter() - began_s) * 1000
    for watching in sockets:
        watching.close()
    yield BenchRow(f"api {count:,} watchers, last told", took_ms, "ms", 100 / took_ms, f"100 ms, {_SET}")


# Lists


def _lists(folder: Path, quick: bool) -> Iterator[BenchRow]:
    """Pages of 500 of many objects. They are written to the journal's database while no server runs on it."""
    nodes, pods = (500, 10_000) if quick else (5_000, 100_000)
    with _filled_server(folder, nodes, pods) as (other, server, _):
        _until_ready(other, server)
        connection = connect(other, server.url)
        began_s = time.perf_counter()
        seen = _listed(connection, "/api/v1/nodes") + _listed(connection, "/api/v1/pods")
        took_s = time.perf_counter() - began_s
        # The control plane's own pods come on top.
        assert seen >= nodes + pods, f"{seen} objects were listed"
    limit_s = 3.0 * (nodes + pods) / 105_000
    yield BenchRow(
        f"api list {pods:,} pods, {nodes:,} nodes", took_s, "s", limit_s / took_s, f"{limit_s:.1f} s, {_SET}"
    )


@contextmanager
def _filled_server(folder: Path, nodes: int, pods: int) -> Iterator[tuple[Path, Running, float]]:
    """A server that starts on many objects: its folder, and how long its first answer took."""
    other = folder / "large"
    shutil.copytree(folder / "pki", other / "pki")
    _fill(other, nodes, pods)
    process, boot_s = start_server(other)
    try:
        found = running(other)
        assert found is not None
        yield other, found, boot_s
    finally:
        process.terminate()
        process.wait()


def _listed(connection: http.client.HTTPSConnection, path: str) -> int:
    count, token = 0, ""
    while True:
        connection.request("GET", f"{path}?limit=500" + (f"&continue={token}" if token else ""))
        body = connection.getresponse().read()
        count += body.count(b'"uid":')
        head = body[: body.index(b'"items"')]
        if b'"continue":"' not in head:
            return count
        token = head.split(b'"continue":"')[1].split(b'"')[0].decode()


def _fill(folder: Path, nodes: int, pods: int) -> None:
    """Nodes and running pods, as a server would have left them."""
    from fairway.apiserver.bodies import Bodies
    from fairway.apiserver.journal import Journal, fill
    from fairway.cluster.store import Store

    store = Store(seed=1)
    for i in range(nodes):
        resources = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
        status = {"capacity": resources, "allocatable": resources}
        store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n-{i}"}, "status": status})
    since = "2026-01-05T00:00:00Z"
    ran = {"name": "c", "ready": True, "started": True, "restartCount": 0, "image": "i", "imageID": ""}
    running_status: dict[str, Any] = {
        "phase": "Running",
        "startTime": since,
        "containerStatuses": [{**ran, "state": {"running": {"startedAt": since}}, "lastState": {}}],
    }
    for i in range(pods):
        meta = {"name": f"p-{i}", "namespace": f"team-{i % 10}", "labels": {"app": "a"}}
        spec = {"nodeName": f"n-{i % nodes}", "containers": [{"name": "c", "image": "i"}]}
        pod = store.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        store.set_status(_key(pod), running_status)
    fill(Journal(folder, Bodies()), store)


def _key(obj: dict[str, Any]) -> Any:
    from fairway.kube.objects import key_of

    return key_of(obj)
