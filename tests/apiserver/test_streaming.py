"""exec, attach, cp, logs and port-forward over all that clients speak: channels, SPDY, SPDY in a WebSocket."""

from __future__ import annotations

import asyncio
import errno
import http.client
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from apiserver_serving import Served, served
from test_kubectl import kubectl

from fairway.apiserver.wire import spdy

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "20"}},
}
POD = "/api/v1/namespaces/default/pods/web"
NO_DECLARED_PORT = "connect: connection refused"
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    data: Path = tmp_path_factory.mktemp("streaming")
    with served(data) as api:
        api.until_ready()
        api.ask("POST", "/api/v1/nodes", NODE)
        main = {"name": "c", "image": "nginx:1", "ports": [{"containerPort": 80}]}
        said = ["sh", "-c", "echo one; sleep 3600; echo two; exit 4"]
        for name, container in (("web", main), ("job", {**main, "command": said})):
            spec = {"restartPolicy": "Never" if name == "job" else "Always", "containers": [container]}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            assert api.ask("POST", "/api/v1/namespaces/default/pods", body)[0] == 201
        api.ask("POST", "/fairway/clock", {"advanceUs": 60_000_000})
        yield api, data


# kubectl, as installed


@needs_kubectl
def test_kubectl_cp_there_and_back(home: tuple[Served, Path], tmp_path: Path) -> None:
    (tmp_path / "there" / "sub").mkdir(parents=True)
    content = bytes(range(256)) * 4000
    (tmp_path / "there" / "sub" / "f").write_bytes(content)
    assert kubectl(home[1], f"cp {tmp_path}/there web:/tmp/copied")[0] == 0
    assert kubectl(home[1], "exec web -- ls /tmp/copied/sub") == (0, "f\n")
    code, said = kubectl(home[1], f"cp web:/tmp/copied {tmp_path}/back")
    assert code == 0, said
    assert (tmp_path / "back" / "sub" / "f").read_bytes() == content


@needs_kubectl
def test_kubectl_exec_streams_both_ways_and_tells_the_exit_code(home: tuple[Served, Path]) -> None:
    assert kubectl(home[1], "exec -i web -- tee /tmp/in", "some\ninput\n") == (0, "some\ninput\n")
    assert kubectl(home[1], "exec web -- wc -l /tmp/in") == (0, "2 /tmp/in\n")
    code, said = kubectl(home[1], "exec -i web -- sh", "cd /tmp\npwd\nexit 7\n")
    assert (code, said) == (7, "/tmp\ncommand terminated with exit code 7\n")
    assert kubectl(home[1], "exec web -c x -- ls")[1].endswith("container x is not valid for pod web\n")


@needs_kubectl
def test_kubectl_port_forward(home: tuple[Served, Path]) -> None:
    process = subprocess.Popen(
        ["kubectl", "--kubeconfig", str(home[1] / "kubeconfig"), "port-forward", "web", ":80"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().split(" -> ")[0].rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        for _ in range(2):
            connection.request("GET", "/v1/models")
            response = connection.getresponse()
            want = b"port 80 of container c in pod default/web, simulated by Fairway\n"
            assert (response.status, response.read()) == (200, want)
        connection.close()
    finally:
        process.terminate()
        process.communicate(timeout=20)


@needs_kubectl
def test_logs_follow_until_the_container_ends(home: tuple[Served, Path]) -> None:
    command = ["kubectl", "--kubeconfig", str(home[1] / "kubeconfig"), "logs", "-f", "job"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "one\n"
    code, said = home[0].ask("POST", "/fairway/clock", {"advanceUs": 3700 * 1_000_000})
    assert code == 200, said
    assert process.communicate(timeout=20)[0] == "two\n"
    assert process.returncode == 0
    assert kubectl(home[1], "logs job --tail=1") == (0, "two\n")
    code, said = kubectl(home[1], "exec job -- ls")
    assert code == 1 and "completed pod" in said


# SPDY/3.1, as older clients speak it


class SpdyClient:
    """Speaks SPDY with the server, over TLS."""

    def __init__(self, api: Served, path: str, protocol: str, token: str = "") -> None:
        context = ssl.create_default_context(cafile=str(api.pki / "ca.crt"))
        if not token:
            context.load_cert_chain(api.pki / "admin.crt", api.pki / "admin.key")
        raw = socket.create_connection(("127.0.0.1", api.server.port), timeout=20)
        self.socket = context.wrap_socket(raw, server_hostname="127.0.0.1")
        bearer = f"Authorization: Bearer {token}\r\n" if token else ""
        self.socket.sendall(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n{bearer}"
            f"X-Stream-Protocol-Version: {protocol}\r\nContent-Length: 0\r\n\r\n".encode()
        )
        self.head = b""
        while b"\r\n\r\n" not in self.head:
            got = self.socket.recv(4096)
            assert got, self.head
            self.head += got
        self.head, _, self.rest = self.head.partition(b"\r\n\r\n")
        self.status = int(self.head.split()[1])
        self.reader, self.writer = spdy.Reader(), spdy.Writer()
        self.said: dict[int, bytes] = {}
        self.ended: set[int] = set()

    def __enter__(self) -> SpdyClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def open(self, number: int, **headers: str) -> None:
        self.socket.sendall(self.writer.open(number, headers))

    def send(self, number: int, data: bytes, *, is_last: bool = False) -> None:
        self.socket.sendall(spdy.data_frames(number, data, is_last=is_last))

    def read_all(self) -> None:
        """Until the server hangs up."""
        data = self.rest or self.socket.recv(65536)
        while data:
            for frame in self.reader.feed(data):
                self._take(frame)
            data = self.socket.recv(65536)

    def read_until_ended(self, number: int) -> None:
        while number not in self.ended:
            data = self.socket.recv(65536)
            assert data, "hung up"
            for frame in self.reader.feed(data):
                self._take(frame)

    def _take(self, frame: spdy.Frame) -> None:
        if isinstance(frame, spdy.Data):
            self.said[frame.stream] = self.said.get(frame.stream, b"") + frame.data
            if frame.is_last:
                self.ended.add(frame.stream)


def test_exec_over_spdy(home: tuple[Served, Path]) -> None:
    query = "command=sh&command=-c&command=cat;+cat+/nope&stdin=true&stdout=true&stderr=true"
    with SpdyClient(home[0], f"{POD}/exec?{query}", "v4.channel.k8s.io") as client:
        assert client.status == 101 and b"X-Stream-Protocol-Version: v4.channel.k8s.io" in client.head
        for number, name in ((1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")):
            client.open(number, streamtype=name)
        client.send(3, b"some input\n", is_last=True)
        client.read_all()
        assert client.said[5] == b"some input\n"
        assert client.said[7] == b"cat: /nope: No such file or directory\n"
        assert msgspec.json.decode(client.said[1])["details"]["causes"][0]["message"] == "1"
        assert client.ended == {1, 5, 7}


def test_a_kubelets_refusal_comes_before_the_upgrade(home: tuple[Served, Path]) -> None:
    api = home[0]
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "nowhere"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lost"}, "spec": spec}
    assert api.ask("POST", "/api/v1/namespaces/default/pods", body)[0] == 201
    path = "/api/v1/namespaces/default/pods/lost"
    with SpdyClient(api, f"{path}/exec?command=ls&stdout=true", "v4.channel.k8s.io") as refused:
        assert (refused.status, refused.rest) == (500, b'container not found ("c")\n')
    with SpdyClient(api, f"{path}/portforward", "portforward.k8s.io") as refused:
        assert (refused.status, refused.rest) == (500, b'pod not found ("lost_default")\n')


@pytest.mark.parametrize(
    ("query", "protocol", "status", "why"),
    [
        ("command=ls&stdout=true", "v9.channel.k8s.io", 403, b"unable to negotiate protocol"),
        ("stdout=true", "v4.channel.k8s.io", 400, b"you must specify at least 1 command"),
        ("command=ls", "v4.channel.k8s.io", 400, b"you must specify at least 1 of stdin, stdout, stderr"),
    ],
)
def test_upgrades_that_are_refused(
    home: tuple[Served, Path], query: str, protocol: str, status: int, why: bytes
) -> None:
    with SpdyClient(home[0], f"{POD}/exec?{query}", protocol) as client:
        assert client.status == status and why in client.rest
        # The connection goes on as HTTP.
        client.socket.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"gitVersion" in client.socket.recv(65536)


def test_port_forward_over_spdy(home: tuple[Served, Path]) -> None:
    with SpdyClient(home[0], f"{POD}/portforward", "portforward.k8s.io") as client:
        for number, port, request in ((1, "80", "0"), (5, "81", "1")):
            client.open(number, streamtype="error", port=port, requestid=request)
            client.open(number + 2, streamtype="data", port=port, requestid=request)
        client.send(3, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        client.read_until_ended(3)
        assert client.said[3].startswith(b"HTTP/1.1 200 OK\r\n")
        client.read_until_ended(7) if 7 not in client.ended else None
        assert NO_DECLARED_PORT.encode() in client.said[5]
        assert client.said[5].startswith(b"error forwarding port 81 to pod ")


def test_streams_without_a_port_are_refused(home: tuple[Served, Path]) -> None:
    with SpdyClient(home[0], f"{POD}/portforward", "portforward.k8s.io") as client:
        client.open(1, streamtype="error", port="0", requestid="0")
        want = spdy.reset(1, spdy.REFUSED_STREAM)
        assert client.socket.recv(len(want)) == want


# Who may


def test_reading_is_not_enough_to_open_a_websocket(home: tuple[Served, Path]) -> None:
    """A WebSocket is a GET; since v1.35 it takes the right to create as well."""
    api = home[0]
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}
    group = "rbac.authorization.k8s.io/v1"
    role = {"apiVersion": group, "kind": "Role", "metadata": {"name": "reader"}, "rules": [rule]}
    assert api.ask("POST", f"{rbac}/roles", role)[0] == 201
    binding = {
        "apiVersion": group,
        "kind": "RoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    assert api.ask("POST", f"{rbac}/rolebindings", binding)[0] == 201
    headers = {
        "Impersonate-User": "eve",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
    }
    code, said = api.ask("GET", f"{POD}/exec?command=ls&stdout=true", headers=headers)
    assert code == 403 and 'cannot create resource "pods/exec"' in said["message"]


# Python clients


def test_the_official_client_forwards_ports_and_writes_input(home: tuple[Served, Path]) -> None:
    kubernetes = pytest.importorskip("kubernetes")
    from kubernetes.stream import portforward, stream

    client = kubernetes.config.new_client_from_config(str(home[1] / "kubeconfig"))
    core = kubernetes.client.CoreV1Api(client)
    forwarded = portforward(core.connect_get_namespaced_pod_portforward, "web", "default", ports="80")
    port = forwarded.socket(80)
    try:
        port.setblocking(True)
        port.settimeout(20)
        port.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        said = b""
        while not said.endswith(b"by Fairway\n"):
            said += port.recv(4096)
    finally:
        port.close()
    assert said.startswith(b"HTTP/1.1 200 OK\r\n") and forwarded.error(80) is None
    shell = stream(
        core.connect_get_namespaced_pod_exec,
        "web",
        "default",
        command=["sh"],
        stdin=True,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    shell.write_stdin("echo $HOSTNAME; exit 3\n")
    shell.run_forever(timeout=20)
    assert (shell.read_stdout(), shell.returncode) == ("web\n", 3)
    client.close()


@pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_kr8s_forwards_ports(home: tuple[Served, Path]) -> None:
    pytest.importorskip("kr8s")
    config = str(home[1] / "kubeconfig")
    try:
        said = asyncio.run(_kr8s(config))
    except OSError as why:
        # It looks for a port that is free before it takes it: somebody else may be first.
        if why.errno != errno.EADDRINUSE:
            raise
        said = asyncio.run(_kr8s(config))
    assert said.startswith(b"HTTP/1.1 200 OK\r\n")


async def _kr8s(kubeconfig: str) -> bytes:
    import kr8s.asyncio
    from kr8s.asyncio.objects import Pod

    api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
    pod: Any = await Pod.get("web", api=api)
    async with pod.portforward(remote_port=80, local_port=None) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        said = await asyncio.wait_for(reader.readline(), 20)
        writer.close()
        await writer.wait_closed()
    return said
