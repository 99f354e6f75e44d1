"""The simulated kubelet behind its seam: who answers for a node, whose files are kept, which ports listen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fairway.apiserver.kubelets import simulated
from fairway.apiserver.kubelets.interface import CannotConnect, Invocation, Kubelets
from fairway.apiserver.kubelets.processes import CommandProcess, ShellProcess
from fairway.apiserver.kubelets.simulated import SimulatedKubelet
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339
from fairway.twin.kubelet.states import RUNNING, WAITING


class Client:
    """A Remote that keeps what it is told."""

    def __init__(self) -> None:
        self.out = b""
        self.code: int | None = None

    def write(self, data: bytes) -> None:
        self.out += data

    def write_error(self, data: bytes) -> None:
        self.out += data

    def exit(self, code: int) -> None:
        self.code = code


class World:
    def __init__(self) -> None:
        self.store = Store(now_us=1_000_000)
        self.kubelet = SimulatedKubelet(self.store, lambda: None)

    def pod(self, name: str, started: str = "2026-01-05T00:00:00Z") -> Obj:
        key = Key("Pod", "default", name)
        if self.store.get(key) is None:
            spec = {"nodeName": "n", "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}
            self.store.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        state: dict[str, Any] = {"running": {"startedAt": started}} if started else {"waiting": {}}
        return self.store.set_status(key, {"containerStatuses": [{"name": "c", "state": state}]})

    def run(self, pod: Obj, script: str) -> Client:
        client = Client()
        self.kubelet.exec(pod, "c", Invocation(("sh", "-c", script)), client).begin()
        return client


def test_files_last_as_long_as_the_containers_run() -> None:
    world = World()
    assert world.run(world.pod("a"), "echo kept > /tmp/x").code == 0
    assert world.run(world.pod("a"), "cat /tmp/x").out == b"kept\n"
    assert world.run(world.pod("b"), "cat /tmp/x").code == 1
    assert world.run(world.pod("a", started="2026-01-05T00:01:00Z"), "cat /tmp/x").code == 1


def test_files_of_runs_that_are_over_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "_MAX_CONTAINERS", 2)
    world = World()
    world.run(world.pod("a"), "echo a > /tmp/x")
    world.run(world.pod("b"), "echo b > /tmp/x")
    world.pod("b", started="")
    world.run(world.pod("c"), "true")
    assert world.run(world.pod("a"), "cat /tmp/x").out == b"a\n"
    world.run(world.pod("d"), "true")
    world.run(world.pod("e"), "true")
    assert world.run(world.pod("a"), "cat /tmp/x").code == 1


def test_files_of_256_containers_are_kept() -> None:
    world = World()
    for number in range(256):
        world.run(world.pod(f"p{number}"), "echo kept > /tmp/x")
    assert world.run(world.pod("p0"), "cat /tmp/x").out == b"kept\n"
    world.run(world.pod("one-more"), "true")
    # Who was entered last is not the one to go.
    assert [world.run(world.pod(name), "cat /tmp/x").code for name in ("p0", "p2", "p1")] == [0, 0, 1]


@pytest.mark.parametrize(("most", "is_kept"), [(35, False), (36, True)])
def test_the_bytes_of_all_containers_have_a_limit(
    monkeypatch: pytest.MonkeyPatch, most: int, is_kept: bool
) -> None:
    """Each begins with its host's name and namespace, nine bytes here, and writes one more or nothing."""
    monkeypatch.setattr(simulated, "_MAX_FILE_BYTES", most)
    world = World()
    world.run(world.pod("a"), "echo 12345678 > /tmp/x")
    world.run(world.pod("b"), "true")
    world.run(world.pod("c"), "true")
    assert world.run(world.pod("a"), "cat /tmp/x").code == (0 if is_kept else 1)
    assert world.run(world.pod("b"), "cat /etc/hostname").out == b"b\n"


def test_files_of_a_pod_that_is_gone_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "_MAX_CONTAINERS", 2)
    world = World()
    world.run(world.pod("a"), "echo a > /tmp/x")
    world.run(world.pod("b"), "true")
    world.store.delete(Key("Pod", "default", "b"), grace_s=0)
    world.run(world.pod("c"), "true")
    assert world.run(world.pod("a"), "cat /tmp/x").out == b"a\n"
    assert len(world.kubelet._files) == 2


def test_a_container_knows_its_host_and_namespace() -> None:
    world = World()
    pod = world.pod("a")
    script = "cat /etc/hostname /var/run/secrets/kubernetes.io/serviceaccount/namespace"
    assert world.run(pod, script).out == b"a\ndefault"
    named = {**world.pod("b"), "spec": {**pod["spec"], "hostname": "web"}}
    assert world.run(named, f"{script}; hostname; printenv HOSTNAME").out == b"web\ndefaultweb\nweb\n"


@pytest.mark.parametrize(
    ("argv", "stdin", "is_shell"),
    [
        (("sh",), True, True),
        (("/bin/bash",), True, True),
        (("sh",), False, False),
        (("sh", "-i"), True, False),
        (("cat",), True, False),
    ],
)
def test_which_commands_are_a_shell_to_type_into(argv: tuple[str, ...], stdin: bool, is_shell: bool) -> None:
    world = World()
    process = world.kubelet.exec(world.pod("a"), "c", Invocation(argv, stdin=stdin), Client())
    assert type(process) is (ShellProcess if is_shell else CommandProcess)


def test_a_container_that_does_not_run_cannot_be_entered() -> None:
    world = World()
    with pytest.raises(CannotConnect, match=r'container not found \("c"\)'):
        world.run(world.pod("a", started=""), "ls")


def test_nodes_are_given_to_other_kubelets() -> None:
    first, second = World().kubelet, World().kubelet
    kubelets = Kubelets(first)
    kubelets.take("local", second)
    assert kubelets.of("local") is second and kubelets.of("gpu-0") is first


def test_input_is_limited() -> None:
    world = World()
    client = Client()
    process = world.kubelet.exec(world.pod("a"), "c", Invocation(("tee", "/tmp/x"), stdin=True), client)
    process.begin()
    for _ in range(40):
        process.receive(bytes(1024 * 1024))
    assert client.code == 1 and client.out == b"simulated container: too much input\n"


# Ports


class Wire:
    """The other end of a port."""

    def __init__(self) -> None:
        self.read = b""

    def write(self, data: bytes) -> None:
        self.read += data

    def end(self) -> None:
        self.read += b"END"


class Nodes:
    """The twin's kubelets, as far as a port or a measurement asks them."""

    def __init__(self, *containers: tuple[str, int, int]) -> None:
        """Of the pod: name, state, and when it is at work."""
        made = [SimpleNamespace(name=name) for name, _, _ in containers]
        now = [SimpleNamespace(state=state, work_from_us=from_us) for _, state, from_us in containers]
        self.pods = {"u": SimpleNamespace(plan=SimpleNamespace(containers=made), containers=now)}
        self.nodes: dict[str, Any] = {}


GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
WEB: Obj = {"name": "web", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]}
VLLM: Obj = {"name": "llm", "image": "vllm/vllm-openai", "args": ["--model", "microsoft/phi-2"]}
SIDE: Obj = {"name": "side", "ports": [{"containerPort": 90, "protocol": "TCP"}]}


def served(
    port: int,
    nodes: Nodes | None,
    pages: dict[str, bytes] | None = None,
    *,
    store: Store | None = None,
    **llm: Any,
) -> str:
    pod: Obj = {
        "metadata": {"name": "p", "namespace": "team", "uid": "u"},
        "spec": {"nodeName": "n", "containers": [WEB, {**VLLM, **llm}], "initContainers": [SIDE]},
    }
    there: Any = nodes

    def page(of: Obj, path: str) -> bytes | None:
        return (pages or {}).get(f"{of['metadata']['uid']}{path}")

    kubelet = SimulatedKubelet(store or Store(now_us=5), lambda: there, page)
    wire = Wire()
    try:
        kubelet.connect(pod, port, wire).receive(GET)
    except CannotConnect as refused:
        return str(refused)
    return wire.read.decode().partition("\r\n\r\n")[2].partition("\n")[0]


REFUSED = (
    'failed to execute portforward in network namespace "/var/run/netns/cni-u": '
    'failed to connect to localhost:{0} inside namespace "u", '
    "IPv4: dial tcp4 127.0.0.1:{0}: connect: connection refused "
    "IPv6 dial tcp6 [::1]:{0}: connect: connection refused "
)
UP = (("web", RUNNING, 5), ("llm", RUNNING, 0), ("side", RUNNING, 0))


@pytest.mark.parametrize(
    ("port", "containers", "want"),
    [
        (80, UP, "port 80 of container web in pod team/p, simulated by Fairway"),
        (90, UP, "port 90 of container side in pod team/p, simulated by Fairway"),
        (8000, UP, "# HELP vllm:num_requests_running Number of requests in model execution batches."),
        (53, UP, None),
        (81, UP, None),
        (80, (("web", RUNNING, 6), *UP[1:]), None),
        (80, (("web", WAITING, 0), *UP[1:]), None),
        (90, (*UP[:2], ("side", WAITING, 0)), None),
        (8000, (UP[0], ("llm", WAITING, 0)), None),
        (8000, UP[:1], None),
    ],
)
def test_who_listens(port: int, containers: Any, want: str | None) -> None:
    assert served(port, Nodes(*containers)) == (want or REFUSED.format(port))


def test_of_two_that_declare_a_port_the_one_that_is_up_listens() -> None:
    ports = [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80}, {"containerPort": 8000}]
    down = (("web", WAITING, 0), *UP[1:])
    assert (
        served(80, Nodes(*down), ports=ports)
        == "port 80 of container llm in pod team/p, simulated by Fairway"
    )
    assert served(80, Nodes(*UP), ports=ports).startswith("port 80 of container web")
    assert served(8000, Nodes(*down), ports=ports).startswith("# HELP vllm:")
    assert served(80, Nodes(*down), ports=ports[:1]) == REFUSED.format(80)


def test_nobody_listens_before_the_nodes_are_there_or_where_the_pod_is_not() -> None:
    assert served(80, None) == REFUSED.format(80)
    other = Nodes(*UP)
    other.pods = {"v": other.pods["u"]}
    assert served(80, other) == REFUSED.format(80)


def test_an_exporter_has_its_pages_and_a_model_server_says_what_is_wrong() -> None:
    assert served(80, Nodes(*UP), {"u/metrics": b"up 1\n"}) == "up 1"
    assert served(80, Nodes(*UP), {"v/metrics": b"up 1\n"}).startswith("port 80 of container web")
    said = served(8000, Nodes(*UP), args=["--model", "nobody"])
    assert "nobody" in said and "refused" not in said


def test_the_engine_of_a_run_is_kept_until_another_begins() -> None:
    store = Store(now_us=1_000_000)
    spec = {"nodeName": "n", "containers": [VLLM]}
    for name in ("a", "b"):
        meta = {"name": name, "namespace": "team"}
        store.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    kubelet = SimulatedKubelet(store, lambda: None)

    def engine(name: str, started: str) -> Any:
        state = {"running": {"startedAt": started}}
        pod = store.set_status(
            Key("Pod", "team", name), {"containerStatuses": [{"name": "llm", "state": state}]}
        )
        return kubelet._engine(pod, VLLM)

    first = engine("a", "2026-01-05T00:00:00Z")
    assert engine("a", "2026-01-05T00:00:00Z") is first
    other = engine("b", "2026-01-05T00:00:00Z")
    assert engine("a", "2026-01-05T00:00:00Z") is first and other is not first
    again = engine("a", "2026-01-05T00:01:00Z")
    assert again is not first and engine("b", "2026-01-05T00:00:00Z") is other
    assert len(kubelet._engines) == 2
    store.delete(Key("Pod", "team", "b"), grace_s=0)
    engine("a", "2026-01-05T00:02:00Z")
    assert [uid for uid, _, _ in kubelet._engines] == [
        store.require(Key("Pod", "team", "a"))["metadata"]["uid"]
    ]


# What a node uses


def test_only_a_node_that_is_up_and_heard_says_what_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def use(*given: Any) -> str:
        asked.append(given)
        return "use"

    monkeypatch.setattr(simulated, "node_use", use)
    store = Store(now_us=parse_rfc3339("2026-01-05T00:00:00Z"))
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    nodes = Nodes(*UP)
    kubelet: Any = SimulatedKubelet(store, lambda: nodes)  # type: ignore[arg-type, return-value]
    assert SimulatedKubelet(store, lambda: None).use("n", 9) is None
    for name, is_up, is_reachable, since_us in (
        ("n", True, True, store.now_us),
        ("gone", True, True, 9),
        ("n", False, True, None),
        ("n", True, False, None),
    ):
        asked.clear()
        found = SimpleNamespace(is_up=is_up, is_reachable=is_reachable, key=Key("Node", "", name))
        nodes.nodes = {"n": found}
        assert kubelet.use("n", 9) == (None if since_us is None else "use")
        assert asked == ([] if since_us is None else [(found, nodes.pods, since_us, 9)])
        assert kubelet.use("m", 9) is None
