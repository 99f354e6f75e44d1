"""KEDA's external scalers, really called over gRPC from a served cluster; and scalers that mean no good."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from apiserver_serving import Served, served

grpc = pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'fairway[grpc]'")

SERVICE = "externalscaler.ExternalScaler"
OBJECTS = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def _text(number: int, text: str) -> bytes:
    return bytes([number << 3 | 2, len(text)]) + text.encode()


def _named(name: str, number: float) -> bytes:
    body = _text(1, name) + bytes([3 << 3 | 1]) + struct.pack("<d", number)
    return bytes([1 << 3 | 2, len(body)]) + body


class Scaler:
    """One that says what a test sets."""

    def __init__(self) -> None:
        self.value, self.target, self.is_active = 0.0, 10.0, False
        self.asked: list[tuple[str, bytes]] = []
        self.answers: dict[str, Callable[[], bytes]] = {
            "GetMetricSpec": lambda: _named("depth", self.target),
            "GetMetrics": lambda: _named("depth", self.value),
            "IsActive": lambda: b"\x08\x01" if self.is_active else b"",
        }
        self.pushes = threading.Event()
        handlers = {name: grpc.unary_unary_rpc_method_handler(self._answering(name)) for name in self.answers}
        handlers["StreamIsActive"] = grpc.unary_stream_rpc_method_handler(self._stream)
        self.server = grpc.server(ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def _answering(self, name: str) -> Callable[[bytes, Any], bytes]:
        def answer(request: bytes, _context: Any) -> bytes:
            self.asked.append((name, request))
            return self.answers[name]()

        return answer

    def _stream(self, _request: bytes, context: Any) -> Iterator[bytes]:
        while context.is_active():
            if self.pushes.wait(0.1):
                self.pushes.clear()
                yield b"\x08\x01"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A cluster that may call this machine."""
    with served(tmp_path_factory.mktemp("cluster"), call=("127.0.0.1",)) as found:
        yield found


@pytest.fixture
def scaler() -> Iterator[Scaler]:
    made = Scaler()
    yield made
    made.server.stop(None)


@pytest.fixture
def target(api: Served) -> Iterator[str]:
    api.until_ready()
    labels = {"app": "web"}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    assert api.ask("POST", DEPLOYMENTS, body)[0] == 201
    yield "web"
    api.ask("DELETE", f"{OBJECTS}/web")
    api.ask("DELETE", f"{DEPLOYMENTS}/web")


def scaled(api: Served, address: str, kind: str = "external") -> None:
    triggers = [{"type": kind, "metadata": {"scalerAddress": address, "queue": "a"}}]
    spec = {"scaleTargetRef": {"name": "web"}, "pollingInterval": 1, "triggers": triggers}
    body = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    code, made = api.ask("POST", OBJECTS, body)
    assert code == 201, made


def until(api: Served, condition: Callable[[], bool]) -> None:
    """The cluster's time goes with the wall's, and a scaler is asked once a second."""
    for _ in range(300):
        api.ask("POST", "/fairway/clock", {"advanceUs": 1_000_000})
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come to that in half a minute")


def replicas(api: Served) -> int:
    found: int = api.ask("GET", f"{DEPLOYMENTS}/web")[1]["spec"]["replicas"]
    return found


def ready(api: Served) -> str:
    conditions = (api.ask("GET", f"{OBJECTS}/web")[1].get("status") or {}).get("conditions") or ()
    return next((c.get("message") or "" for c in conditions if c["type"] == "Ready"), "")


def said(api: Served) -> str:
    events = api.ask("GET", "/api/v1/namespaces/default/events")[1]["items"]
    return "\n".join(e["message"] for e in events if e["reason"] == "KEDAScalerFailed")


def test_a_scaler_wakes_a_target_and_says_how_large_it_is(api: Served, target: str, scaler: Scaler) -> None:
    scaled(api, f"127.0.0.1:{scaler.port}")
    hpas = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/keda-hpa-web"
    until(api, lambda: api.ask("GET", hpas)[0] == 200)
    (metric,) = api.ask("GET", hpas)[1]["spec"]["metrics"]
    assert metric["external"]["metric"]["name"] == "s0-depth"
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "10"}
    assert replicas(api) == 0
    scaler.value, scaler.is_active = 35, True
    until(api, lambda: replicas(api) == 4)
    names = {name for name, _ in scaler.asked}
    assert names == {"GetMetricSpec", "GetMetrics", "IsActive"}
    ref = next(request for name, request in scaler.asked if name == "IsActive")
    assert ref.startswith(_text(1, "web") + _text(2, "default")) and b"queue" in ref


def test_a_scaler_that_pushes_wakes_a_target_between_two_polls(
    api: Served, target: str, scaler: Scaler
) -> None:
    scaled(api, f"127.0.0.1:{scaler.port}", "external-push")
    until(api, lambda: any(name == "IsActive" for name, _ in scaler.asked))
    assert replicas(api) == 0
    scaler.pushes.set()
    until(api, lambda: replicas(api) >= 1)


HOSTILE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "too large": ("GetMetricSpec", lambda: b"x" * 200_000, "code = ResourceExhausted"),
    "not a message": ("GetMetricSpec", lambda: b"\xff\xff\xff", "not a message of externalscaler.proto"),
    "endless": ("GetMetrics", lambda: _named("depth", float("inf")), "out of range"),
    "many": ("GetMetricSpec", lambda: _named("m", 1) * 40, "more than 32 metrics"),
    "no target": ("GetMetricSpec", lambda: _named("depth", 0), "is not greater than 0"),
}


@pytest.mark.parametrize("case", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_a_scaler_says_is_not_believed(
    api: Served, target: str, scaler: Scaler, case: tuple[str, Callable[[], bytes], str]
) -> None:
    method, answer, words = case
    scaler.answers[method] = answer
    scaled(api, f"127.0.0.1:{scaler.port}")
    until(api, lambda: words in said(api))
    assert "no metric specs returned from scalers for ScaledObject default/web" in ready(api)
    assert replicas(api) == 0


@pytest.mark.parametrize(
    "address", ["unix:///var/run/docker.sock", "xds:///a", "127.0.0.1:99999", "a b:1", "ipv4:127.0.0.1:1"]
)
def test_only_hosts_and_ports_are_called(api: Served, target: str, address: str) -> None:
    scaled(api, address)
    until(
        api, lambda: f"external: {address}: expected an address such as my-scaler.default:6000" in said(api)
    )


def test_a_host_outside_that_nobody_allowed_is_not_called(api: Served, target: str) -> None:
    """Whoever may write a ScaledObject may not look around in the machine's network; a Service is no way around."""
    for address in ("localhost:1", "169.254.169.254:80", "detour.default:80"):
        services = "/api/v1/namespaces/default/services"
        spec = {"type": "ExternalName", "externalName": "inner.example"}
        api.ask("POST", services, {"metadata": {"name": "detour"}, "spec": spec})
        scaled(api, address)
        led = address.replace("detour.default", "inner.example")
        words = f"external: {address}: {led} is outside the cluster: fairway up --call {led} allows it"
        until(api, lambda words=words: words in said(api))
        api.ask("DELETE", f"{OBJECTS}/web")
        api.ask("DELETE", f"{services}/detour")


def test_nobody_answers(api: Served, target: str) -> None:
    scaled(api, "127.0.0.1:1")
    until(api, lambda: "rpc error: code = Unavailable desc = " in said(api))


def test_a_scaler_that_never_answers(
    api: Served, target: str, scaler: Scaler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it: the cluster goes on, and its time is over after ten seconds (here, half of one)."""
    from fairway.apiserver import externalscalers

    monkeypatch.setattr(externalscalers, "CALL_S", 0.5)

    def late() -> bytes:
        time.sleep(3)
        return b""

    scaler.answers["GetMetricSpec"] = late
    scaled(api, f"127.0.0.1:{scaler.port}")
    began = time.monotonic()
    assert api.ask("GET", f"{DEPLOYMENTS}/web")[0] == 200 and time.monotonic() - began < 3
    until(api, lambda: "code = DeadlineExceeded" in said(api))
