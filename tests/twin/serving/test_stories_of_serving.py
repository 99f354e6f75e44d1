"""Stories of served models: each endpoint as it stands, twice a second, what scrapes find and what requests got.

What is told is compared with `../stories/`; FAIRWAY_UPDATE_GOLDENS=1 writes it anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_parts_of_serving import NAME, NAMESPACE, World, deployed, pod, requests, service
from tests.histories import check_history
from tests.twin.stepwise import STORIES

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.serving import batching as b
from fairway.serving.fleet import Fleet, Gateway
from fairway.telemetry.store import Matcher
from fairway.twin.kubelet import probing
from fairway.twin.serving.component import Room, Serving
from fairway.twin.serving.series import ServingSource

STEPS = ("in", "out", "up", "close", "gone", "probe")
HEALTH = {"httpGet": {"path": "/health", "port": 8000}}
STATUSES = ("coming", "queued", "reading", "writing", "well", "refused", "lost", "late", "long", "failed")


class Told:
    """A world that says what has changed, twice a second."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now_s = 0.0
        self._before: dict[str, str] = {}
        self._samples = 0

    def until(self, at_s: float) -> Iterator[str]:
        while self.now_s < at_s:
            self.now_s += 0.5
            self.world.run_to(self.now_s)
            lines = [*self._changes(), *self._scraped()]
            if lines:
                yield f"== {self.now_s} s"
                yield from lines

    def does(self, *acts: Callable[[], Any]) -> Told:
        for act in acts:
            act()
        self.world.twin.wake()
        return self

    def label(self, name: str, **labels: str | None) -> Callable[[], Any]:
        return lambda: self.world.patch(Key("Pod", NAMESPACE, name), {"metadata": {"labels": labels}})

    def forks(self) -> Told:
        """Goes on as a copy of itself; the original ends here."""
        world = self.world
        copy = object.__new__(World)
        copy.twin, copy.began_us = world.twin.fork(), world.began_us
        found = copy.twin.component("serving")
        assert isinstance(found, Serving)
        copy.serving = found
        self.world = copy
        return self

    def ends(self) -> Iterator[str]:
        self.world.serving.finish()
        for room in self.world.serving.rooms:
            for fleet in _fleets(room):
                what = fleet.what[: fleet.arrived]
                got = Counter((int(r[b.WHERE]), STATUSES[int(r[b.STATUS])]) for r in what)
                yield f"requests by replica: {sorted(got.items())}"
                for word, column in (("group", b.GROUP), ("slow", b.SLOW), ("fails", b.FAILS)):
                    yield f"{word} {fleet.replicas[:, column].tolist()}"
            yield f"labels {room.labels}"
            yield f"accuracy {[(r, n.accuracy) for r, n in room.natures.items()]} memory {room.memory_mib}"
            yield f"runs {room.runs} last {room.last_replica}"
        source = ServingSource(self.world.serving)
        began_ms = self.world.began_us // 1000
        for name in source.names():
            for one in source.select((Matcher("__name__", "=", name),), began_ms, began_ms + 10**9):
                said = dict(one.labels)
                if not name.endswith("_bucket") or said["le"] in ("0.02", "0.25", "1.0", "+Inf"):
                    labels = [
                        f"{k}={v}" for k, v in one.labels if k not in ("__name__", "namespace", "model_name")
                    ]
                    values = [float(f"{v:.6g}") for v in one.values]
                    yield f"{name} {' '.join(labels)}: {values}"

    def _changes(self) -> Iterator[str]:
        now: dict[str, str] = {}
        names = {p["metadata"]["uid"]: p["metadata"]["name"] for p in self.world.twin.store.objects("Pod")}
        for number, room in enumerate(self.world.serving.rooms):
            now[f"room {number}"] = (
                f"{room.backends} from {sorted(room.selectors)}; to come {[(self._s(at), w) for at, w in room.routes]}"
            )
            for uid, end in room.endpoints.items():
                is_in = ("in " if end.gets_requests else "") + ("up " if end.listens else "")
                steps = [f"{STEPS[step]} {self._s(at)}" for at, step in end.steps]
                state = int(room.fleet_of(end).replicas[end.replica, b.STATE])
                more = (" drains" if end.drains else "") + (" reads" if end.reads else "")
                more += f" failed {end.failures}" if end.failures else ""
                now[names.get(uid, uid)] = f"replica {end.replica} {is_in}state {state}, next {steps}{more}"
        for name in [*now, *(n for n in self._before if n not in now)]:
            if self._before.get(name) != now.get(name):
                yield f"{name}: {now.get(name, 'gone')}"
        self._before = now

    def _scraped(self) -> Iterator[str]:
        count = sum(len(room.samples) for room in self.world.serving.rooms)
        if count == self._samples:
            return
        self._samples = count
        for name in self.world.serving.metric_names():
            found = self.world.serving.totals(name)
            pods = [
                (p["metadata"]["name"], value)
                for p in self.world.twin.store.objects("Pod")
                if (value := self.world.serving.pod_metric(p, name)) is not None
            ]
            until = {self._s(at) for *_, at in found} | {self._s(at) for _, (_, at) in pods}
            yield f"{name} {[milli for *_, milli, _ in found]} {[(n, v[0]) for n, v in pods]} until {sorted(until)}"

    def _s(self, at_us: int) -> float:
        return (at_us - self.world.began_us) / SECOND_US


def _fleets(room: Room) -> list[Fleet]:
    before = getattr(room.fleet, "before", None)
    return [room.fleet, *([] if before is None else [before])]


def steady(every_s: float, until_s: float, **more: Any) -> Any:
    return requests(*np.arange(5.0, until_s, every_s), **more)


def fails(told: Told, name: str, container: int = 0) -> Callable[[], Any]:
    """A liveness probe does: the container is started again."""

    def act() -> None:
        uid = told.world.twin.store.require(Key("Pod", NAMESPACE, name))["metadata"]["uid"]
        kubelet: Any = told.world.twin.component("kubelet")
        probing.fail_liveness(kubelet, uid, container, "no answer")

    return act


def plain() -> Iterator[str]:
    """Pods come, fail, lose what they are found by, and go; a Service that selects others meanwhile."""
    told = Told(World(steady(0.9, 118, output=60)))
    says = {"fairway.dev/serving": "errors=30%,accuracy=0.5,slowdown=2", "fairway.dev/gpu-memory": "4096Mi"}
    by_container = {"fairway.dev/gpu-memory": "c:3Gi"}
    world = told.world
    sidecar = pod("sidecar", startup_s=3, annotations=by_container, livenessProbe=HEALTH)
    sidecar["spec"]["initContainers"] = [
        {"name": "first", "image": "i", "command": ["sh", "-c", "sleep 2"]},
        {"name": "side", "image": "i", "restartPolicy": "Always"},
    ]
    prefill = pod("reads", {"app": NAME, "llm-d.ai/role": "prefill"})
    world.apply(pod("one", livenessProbe=HEALTH), pod("two", annotations=says, startup_s=4), sidecar, prefill)
    yield from told.until(10.5)
    yield from told.does(told.label("one", app="else")).until(14)
    yield from told.does(told.label("one", app=NAME)).until(21)
    yield from told.does(fails(told, "one"), told.label("two", app="else")).until(24)
    yield from told.does(told.label("sidecar", app="else")).until(25)
    yield from told.does(told.label("sidecar", app=NAME)).until(26)
    yield from told.does(told.label("two", app=NAME)).until(30)
    knative = {"app": NAME, "serving.knative.dev/revision": "r"}
    yield from told.does(lambda: world.apply(pod("revision", knative, startup_s=2))).until(40)
    yield from told.does(lambda: world.delete("revision"), lambda: world.delete("two")).until(44)
    change = {"spec": {"selector": {"app": NAME, "x": "y"}}}
    yield from told.does(lambda: world.patch(Key("Service", NAMESPACE, NAME), change)).until(48)
    yield from told.does(fails(told, "sidecar", 2), told.label("one", x="y")).until(60)
    yield from told.does(told.label("sidecar", x="y")).until(66)
    told.forks()
    again = told.world
    yield from told.until(70)
    yield from told.does(lambda: again.twin.store.delete(Key("Service", NAMESPACE, NAME))).until(75)
    yield from told.does(lambda: again.apply(service(NAME, app=NAME))).until(80)
    yield from told.does(lambda: again.twin.store.delete(Key("Pod", NAMESPACE, "one"), grace_s=0)).until(84)
    yield from told.does(
        lambda: again.delete("sidecar"),
        lambda: again.patch(Key("Service", NAMESPACE, NAME), {"spec": {"selector": None}}),
    ).until(120)
    yield from told.until(135)
    yield from told.ends()


def waiting() -> Iterator[str]:
    """A gateway that holds requests while nobody is there; liveness probes that wait in line with them."""
    slow = replace(deployed(), seqs_most=2)
    told = Told(World(steady(1.5, 60, output=900), of=slow, gateway=Gateway(holds=True)))
    probe = {"httpGet": {"path": "/generate"}, "periodSeconds": 4, "timeoutSeconds": 3, "failureThreshold": 2}
    yield from told.until(16)
    yield from told.does(lambda: told.world.apply(pod("one", livenessProbe=probe, startup_s=2))).until(70)
    yield from told.does(lambda: told.world.delete("one")).until(80)
    yield from told.forks().does(lambda: told.world.apply(pod("two", startup_s=1))).until(150)
    yield from told.ends()


def route(*rules: Any, name: str = NAME) -> Obj:
    meta = {"name": name, "namespace": NAMESPACE}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": meta,
        "spec": {"rules": list(rules)},
    }


def refs(**weights: int | None) -> Obj:
    return {
        "backendRefs": [
            {"name": n, "port": 80, **({} if w is None else {"weight": w})} for n, w in weights.items()
        ]
    }


def pool(name: str, **labels: str) -> Obj:
    meta = {"name": name, "namespace": NAMESPACE}
    spec = {"selector": {"matchLabels": labels}, "targetPorts": [{"number": 8000}]}
    return {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": meta,
        "spec": spec,
    }


def weighed() -> Iterator[str]:
    """A route whose weights change while another change is on its way; Services and pools that share pods."""
    told = Told(World(steady(0.25, 70, output=5), is_route=True))
    world = told.world
    key = Key("HTTPRoute.gateway.networking.k8s.io", NAMESPACE, NAME)
    world.apply(
        service("a", app="a"), service("b", app="b"), pod("a1", {"app": "a", "of": "all"}, startup_s=1)
    )
    world.apply(
        pod("b1", {"app": "b", "of": "all"}, startup_s=1),
        pool("all", of="all"),
        route(refs(a=1), name="other"),
    )
    yield from told.until(3)
    yield from told.does(
        lambda: world.apply(route({"backendRefs": []}, refs(a=3, b=1, late=None), refs(x=1)))
    ).until(20)
    yield from told.does(
        lambda: world.patch(key, {"spec": {"rules": [refs(a=1, b=3)]}}),
        lambda: world.run_to(told.now_s + 1),
        lambda: world.patch(key, {"spec": {"rules": [refs(a=0, b=2, all=2)]}}),
    ).until(35)
    yield from told.does(lambda: world.apply(service("late", app="b"))).until(36)
    yield from told.does(told.label("a1", of=None, app="b")).until(42)
    told.forks()
    copy = told.world
    yield from told.does(lambda: copy.patch(key, {"spec": {"rules": [refs(late=None, all=5)]}})).until(50)
    yield from told.does(
        lambda: copy.twin.store.delete(Key("InferencePool.inference.networking.k8s.io", NAMESPACE, "all"))
    ).until(55)
    yield from told.does(lambda: copy.twin.store.delete(key)).until(75)
    yield from told.ends()


def apart() -> Iterator[str]:
    """Pods that read prompts beside pods that write: each is a server of its own fleet."""
    told = Told(World(steady(0.8, 60, prompt=3000, output=20), reads=deployed()))
    world = told.world
    reads = {"app": NAME, "llm-d.ai/role": "prefill"}
    slow = {"fairway.dev/serving": "slowdown=4"}
    yield from told.does(lambda: world.apply(pod("writes", startup_s=2))).until(12)
    yield from told.does(
        lambda: world.apply(
            pod("reads", reads, startup_s=2, livenessProbe=HEALTH),
            pod("slowly", reads, startup_s=2, annotations=slow),
        )
    ).until(30)
    yield from told.does(fails(told, "reads"), lambda: world.delete("slowly")).until(45)
    yield from told.forks().does(lambda: told.world.delete("writes")).until(65)
    yield from told.ends()


@pytest.mark.parametrize("story", [plain, waiting, weighed, apart], ids=lambda one: one.__name__)
def test_nothing_else_happens_to_servers(story: Callable[[], Iterator[str]]) -> None:
    check_history(STORIES / f"served-{story.__name__}.txt", story())
