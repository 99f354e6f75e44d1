"""How soon are pods bound by a real kube-scheduler, on Fairway's API and on kube-apiserver's with etcd?

The programs are looked for in PATH: kube-scheduler, and for the ratio kube-apiserver and etcd beside it. Both servers
get the same certificates, nodes, pods and clients; the scheduler runs as it comes, its requests not rationed. Fairway
runs everything but its own scheduler and simulated nodes, which kube-apiserver has none of either.

Without kube-apiserver or etcd the reference is what they did on a machine of two cores.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from statistics import median

from fairway.apiserver import kubeconfig
from fairway.apiserver.auth.certificates import ensure
from fairway.apiserver.folders import running
from fairway.bench import BenchRow, api
from fairway.errors import WorldError

_NODES, _CLIENTS = 200, 4
_REFERENCE_S = {500: 0.83, 5_000: 6.56}
_PODS = "/api/v1/namespaces/default/pods"
_SCHEDULER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {kubeconfig}, qps: 100000, burst: 100000}}
"""
_MERGE = {"Content-Type": "application/merge-patch+json"}
_SERVES_S = 120.0


def run(quick: bool) -> Iterator[BenchRow]:
    """Rows as they are measured. Raises: WorldError (no kube-scheduler)."""
    if shutil.which("kube-scheduler") is None:
        raise WorldError(
            "bench binding needs a kube-scheduler in PATH: Fairway's own is what it takes the place of"
        )
    with_real = all(shutil.which(name) for name in ("kube-apiserver", "etcd"))
    for count, rounds in ((500, 3),) if quick else ((500, 5), (5_000, 3)):
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(rounds):
            ours.append(_measured(_fairway, count))
            if with_real:
                theirs.append(_measured(_kubernetes, count))
        took_s = median(ours)
        real_s = median(theirs) if theirs else _REFERENCE_S[count]
        said = f"{real_s:.2f} s, kube-apiserver + etcd" + (", in turns" if theirs else "")
        yield BenchRow(f"binding {count:,} pods, kube-scheduler", took_s, "s", real_s / took_s, said)


def _measured(server: Callable[[Path], AbstractContextManager[str]], count: int) -> float:
    """Seconds from the first creation to the last binding."""
    folder = Path(tempfile.mkdtemp(prefix="fairway-binding-"))
    try:
        with server(folder) as url:
            _furnish(folder, url)
            with _scheduler(folder, url):
                _bind(folder, url, "first", 1)
                return _bind(folder, url, "p", count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _fairway(folder: Path) -> Iterator[str]:
    process, _ = api.start_server(folder, without=("kube-scheduler", "kubelet"))
    try:
        found = running(folder)
        assert found is not None
        api._until_ready(folder, found)
        yield found.url
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _kubernetes(folder: Path) -> Iterator[str]:
    pki = ensure(folder / "pki", "127.0.0.1")
    client, peer, port = (_free_port() for _ in range(3))
    etcd_url = f"http://127.0.0.1:{client}"
    etcd = [
        "etcd",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={etcd_url}",
        f"--advertise-client-urls={etcd_url}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
    ]
    server = [
        "kube-apiserver",
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={pki.server}",
        f"--tls-private-key-file={pki.server_key}",
        f"--client-ca-file={pki.ca}",
        f"--service-account-key-file={pki.server}",
        f"--service-account-signing-key-file={pki.server_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=RBAC",
        f"--cert-dir={folder}",
    ]
    with _process(etcd, folder), _process(server, folder):
        url = f"https://127.0.0.1:{port}"
        _until_answered(folder, url)
        yield url


@contextmanager
def _scheduler(folder: Path, url: str) -> Iterator[None]:
    known, settings = folder / "scheduler.kubeconfig", folder / "scheduler.yaml"
    kubeconfig.write(known, ensure(folder / "pki", "127.0.0.1"), url)
    settings.write_text(_SCHEDULER.format(kubeconfig=known), encoding="utf-8")
    called = [
        "kube-scheduler",
        f"--config={settings}",
        f"--secure-port={_free_port()}",
        f"--cert-dir={folder}",
    ]
    with _process(called, folder):
        yield


@contextmanager
def _process(command: list[str], folder: Path) -> Iterator[None]:
    """What it says goes to a file: a process that stops says why."""
    log = folder / f"{command[0]}.log"
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port


def _until_answered(folder: Path, url: str) -> None:
    until_s = time.monotonic() + _SERVES_S
    while time.monotonic() < until_s:
        with suppress(OSError), closing(api.connect(folder, url)) as connection:
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            response.read()
            if response.status == 200:
                return
        time.sleep(0.2)
    raise WorldError(f"kube-apiserver was not ready within {_SERVES_S:.0f} s")


def _furnish(folder: Path, url: str) -> None:
    """Nodes that are Ready, and the account that pods get: without a controller manager nobody makes it."""
    resources = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    with closing(api.connect(folder, url)) as connection:
        api._post(connection, json.dumps(account), "/api/v1/namespaces/default/serviceaccounts")
        for i in range(_NODES):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n-{i}"}, "status": status}
            api._post(connection, json.dumps(node), "/api/v1/nodes")
            untainted = '{"spec":{"taints":null}}'
            api._sent(connection, "PATCH", f"/api/v1/nodes/n-{i}", untainted, _MERGE)


def _bind(folder: Path, url: str, prefix: str, count: int) -> float:
    """Create pods from several connections at once, and wait until a watch has seen all of them bound."""
    bound = api.connect(folder, url)
    # Of version 0: kube-apiserver asks an old etcd in vain for the newest before it answers.
    chosen = f"resourceVersion=0&fieldSelector=spec.nodeName!%3D&labelSelector=of%3D{prefix}"
    bound.request("GET", f"{_PODS}?watch=1&{chosen}")
    watch = bound.getresponse()
    share = -(-count // _CLIENTS)
    clients = [
        multiprocessing.Process(target=_create, args=(folder, url, prefix, range(i, min(i + share, count))))
        for i in range(0, count, share)
    ]
    began_s = time.perf_counter()
    for client in clients:
        client.start()
    seen, rest = 0, b""
    while seen < count:
        data = rest + watch.read1(1 << 20)
        if data == rest:
            raise WorldError(f"the watch ended after {seen:,} of {count:,} bindings")
        lines = data.split(b"\n")
        rest = lines.pop()
        seen += sum(line.startswith(b'{"type":"ADDED"') for line in lines)
    took_s = time.perf_counter() - began_s
    for client in clients:
        client.join()
    bound.close()
    return took_s


def _create(folder: Path, url: str, prefix: str, numbers: range) -> None:
    wanted = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": wanted}]}
    with closing(api.connect(folder, url)) as connection:
        for i in numbers:
            meta = {"name": f"{prefix}-{i}", "labels": {"of": prefix}}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
            status = api._post(connection, json.dumps(pod), _PODS)
            if status != 201:
                raise WorldError(f"pod {prefix}-{i} was not created: {status}")
