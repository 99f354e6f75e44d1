"""Pods that use devices, seen by the plugin: why they wait, which nodes will do, how well, what is then written."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from fairway.cluster.records import PodRecord
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.scheduling.cycle import Scheduler
from fairway.scheduling.devices.book import DeviceBook
from fairway.scheduling.devices.selecting import AllocationError
from fairway.scheduling.dynamicresources import (
    NOT_ASKED,
    DynamicResources,
    Plan,
    has_binding_conditions,
    is_late,
    readiness,
    waits_for,
)
from fairway.scheduling.preemption import explain
from fairway.scheduling.verdict import Refusal, Scheduled

DRIVER, GPU = "gpu.example.com", "example.com/gpu"
CLAIM = "ResourceClaim.resource.k8s.io"
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


class World:
    """A store with devices and claims, and a scheduler that knows of them."""

    def __init__(self) -> None:
        self.store = Store()
        self.book = DeviceBook(self.store)
        self.plugin = DynamicResources(self.store, self.store.accounts, self.book)
        self.scheduler = Scheduler(self.store.accounts, view=self.store)
        self.scheduler.give_devices(self.plugin)

    def put(
        self,
        kind: str,
        name: str,
        body: Obj,
        *,
        namespace: str = "",
        group: str = "resource.k8s.io/v1",
        **meta: Any,
    ) -> Obj:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **meta}
        obj = {"apiVersion": group, "kind": kind, "metadata": metadata, **body}
        gk = f"{kind}.{group.partition('/')[0]}" if "/" in group else kind
        key = Key(gk, namespace, name)
        return self.store.replace(obj) if self.store.get(key) is not None else self.store.load(obj)

    def node(self, name: str, labels: dict[str, str] | None = None, gpus: str = "") -> None:
        offers = {"cpu": "8", "memory": "32Gi", "pods": "110", **({GPU: gpus} if gpus else {})}
        self.put("Node", name, {"status": {"allocatable": offers}}, group="v1", labels=labels or {})

    def devices(self, name: str, *names: str, pool: str = "", count: int = 1, **where: Any) -> None:
        of_pool = {"name": pool or name, "generation": 1, "resourceSliceCount": count}
        made = [{"name": n} for n in names]
        spec = {"driver": DRIVER, "pool": of_pool, "devices": made, **(where or {"nodeName": name})}
        self.put("ResourceSlice", name, {"spec": spec})

    def device_class(self, name: str = "gpus", extended: str = "", expression: str = "") -> None:
        spec: Obj = {"extendedResourceName": extended} if extended else {}
        if expression:
            spec["selectors"] = [{"cel": {"expression": expression}}]
        self.put("DeviceClass", name, {"spec": spec})

    def claim(
        self, name: str, count: int = 1, *, requests: Any = None, status: Obj | None = None, **meta: Any
    ) -> None:
        asked = requests or [{"name": "r", "exactly": {"deviceClassName": "gpus", "count": count}}]
        spec = {"devices": {"requests": asked}}
        meta.setdefault("uid", f"uid-{name}")
        self.put("ResourceClaim", name, {"spec": spec, "status": status or {}}, namespace="default", **meta)

    def pod(
        self, name: str, *claims: str, own: tuple[str, ...] = (), gpus: int = 0, **status: Any
    ) -> PodRecord:
        entries: list[Obj] = [{"name": c, "resourceClaimName": c} for c in claims]
        entries += [{"name": c, "resourceClaimTemplateName": "t"} for c in own]
        requests = {"cpu": "1", **({GPU: str(gpus)} if gpus else {})}
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        spec = {"containers": [container], **({"resourceClaims": entries} if entries else {})}
        self.put(
            "Pod", name, {"spec": spec, "status": status}, namespace="default", group="v1", uid=f"uid-{name}"
        )
        return self.record(name)

    def record(self, name: str) -> PodRecord:
        key = Key("Pod", "default", name)
        return self.store.accounts.record(self.store.require(key), key)

    def codes(self, pod: PodRecord, now_us: int = 0) -> dict[str, int]:
        look = self.plugin.look(pod, now_us)
        assert look is not None
        answers = self.plugin.codes(look)
        return {n: self.plugin.code_at(look, answers, row) for n, row in self.store.accounts.row_of.items()}

    def allocate(self, name: str, node: str) -> None:
        pod = self.record(name)
        for binding in self.scheduler.device_plan(pod, node).bindings:
            assert binding.key is not None
            status = {"allocation": binding.allocation, "reservedFor": [{"uid": pod.uid}]}
            self.store.set_status(binding.key, status)


def _results(*devices: str, **more: Any) -> Obj:
    return {
        "devices": {
            "results": [{"request": "r", "driver": DRIVER, "pool": "n", "device": d} for d in devices]
        }
    } | more


# Before the queue


def test_what_a_pod_waits_for() -> None:
    world = World()
    world.claim("c")
    world.claim("going", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])
    owner = {"uid": "uid-p", "controller": True}
    world.claim("made", ownerReferences=[owner])
    world.claim("stray", ownerReferences=[{**owner, "uid": "other"}])

    def status(claim: str | None) -> list[Obj]:
        return [{"name": "x", "resourceClaimName": claim}]

    for number, (claims, own, said, want) in enumerate(
        [
            ((), (), None, ""),
            (("c",), (), None, ""),
            (("no",), (), None, 'resourceclaim "no" not found'),
            (("going",), (), None, 'resourceclaim "going" is being deleted'),
            (("c", "no"), (), None, 'resourceclaim "no" not found'),
            ((), ("x",), None, 'pod "default/p": claim x not created yet'),
            ((), ("x",), status(None), ""),
            ((), ("x",), status("made"), ""),
            ((), ("x",), status("no"), 'resourceclaim "no" not found'),
            (
                (),
                ("x",),
                status("stray"),
                "ResourceClaim default/stray was not created for Pod default/p (Pod is not owner)",
            ),
            # One that it names is anybody's.
            (("stray",), (), None, ""),
        ]
    ):
        more = {} if said is None else {"resourceClaimStatuses": said}
        if number:
            world.store.delete(Key("Pod", "default", "p"), grace_s=0)
        world.pod("p", *claims, own=own, **more)
        assert waits_for(world.store, world.store.require(Key("Pod", "default", "p"))) == want


# Nodes


@pytest.mark.parametrize("seed", range(14))
def test_what_nodes_say_is_what_they_would_say_anew(seed: int) -> None:
    """Devices are taken, given back and published, nodes relabelled, nodes come: memories are never stale."""
    draw, world = Random(seed), World()
    world.device_class()
    world.device_class("special", expression=f"device.driver == '{DRIVER}'")
    # Half of the worlds have nodes that are alike.
    prefix = {n: "" if seed % 2 else n for n in ("n0", "n1", "n2")}
    for n in ("n0", "n1", "n2"):
        world.node(n, {"z": draw.choice("12")})
        world.devices(n, *(f"{prefix[n]}-g{i}" for i in range(draw.randint(0, 2))))
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["1"]}]}]}
    world.devices("shared", "s0", "s1", nodeSelector=zone)
    for i in range(3):
        of_class = draw.choice(("gpus", "special"))
        asked = [{"name": "r", "exactly": {"deviceClassName": of_class, "count": draw.randint(1, 2)}}]
        world.claim(f"c{i}", requests=asked)
        world.pod(f"p{i}", f"c{i}")
    for step in range(16):
        i = draw.randrange(3)
        act = draw.choice(("allocate", "free", "publish", "relabel", "node", "shape"))
        codes = world.codes(world.record(f"p{i}"))
        fits = [n for n, code in codes.items() if code == 0]
        held = world.store.require(Key(CLAIM, "default", f"c{i}")).get("status")
        if act == "allocate" and fits and not held:
            world.allocate(f"p{i}", draw.choice(sorted(fits)))
        elif act == "free":
            world.store.set_status(Key(CLAIM, "default", f"c{i}"), {})
        elif act == "publish":
            n = draw.choice(("n0", "n1"))
            world.devices(n, *(f"{prefix[n]}-g{j}" for j in range(draw.randint(0, 3))))
        elif act == "relabel":
            world.node(draw.choice(("n0", "n1", "n2")), {"z": draw.choice("12")})
        elif act == "node" and step > 8:
            world.node(f"late{step}", {"z": "1"})
        for j in range(3):
            pod = world.record(f"p{j}")
            fresh = DynamicResources(world.store, world.store.accounts, DeviceBook(world.store.fork()))
            look = fresh.look(pod)
            assert look is not None
            anew = fresh.codes(look)
            wanted = {n: fresh.code_at(look, anew, row) for n, row in world.store.accounts.row_of.items()}
            assert world.codes(pod) == wanted, (step, act, j)
            verdict = world.scheduler.place(pod)
            if isinstance(verdict, Scheduled):
                assert wanted[verdict.node] == 0
                assert world.scheduler.device_plan(pod, verdict.node) == fresh.plan(pod, verdict.node)
            else:
                assert all(wanted.values())


@pytest.mark.parametrize("seed", range(4))
def test_where_all_nodes_have_the_devices_the_search_is_what_it_were_without(seed: int) -> None:
    """A pod that is nominated somewhere has every node asked one by one: both schedulers agree at every pod."""
    draw, world = Random(seed), World()
    world.device_class()
    nodes = [f"n{i:03}" for i in range(130)]
    for n in nodes:
        world.node(n)
        if seed < 3 or draw.random() < 0.9:
            world.devices(n, *(f"g{i}" for i in range(draw.choice((4, 8) if seed < 2 else (1, 2)))))
    plain = world.scheduler
    careful = Scheduler(world.store.accounts, view=world.store)
    careful.give_devices(DynamicResources(world.store, world.store.accounts, DeviceBook(world.store)))
    careful.nominated[Key("Pod", "default", "other")] = (world.pod("other"), "nowhere")
    for i in range(150 if seed == 2 else 40):
        world.claim(f"c{i}", count=draw.choice((1, 1, 2)))
        pod, drawn = world.pod(f"p{i}", f"c{i}"), draw.getrandbits(30)
        verdict = plain.place(pod, drawn)
        other = careful.place(pod, drawn)
        assert plain.next_start == careful.next_start
        if not isinstance(verdict, Scheduled):
            assert not isinstance(other, Scheduled)
            continue
        assert verdict == other
        assert plain.device_plan(pod, verdict.node) == careful.device_plan(pod, verdict.node)
        world.allocate(f"p{i}", verdict.node)
        world.store.bind(pod.key, verdict.node, {})


def test_a_node_is_asked_once_about_claims_alike() -> None:
    world = World()
    world.device_class()
    for n in ("n", "m"):
        world.node(n)
        world.devices(n, "g")
    for name in "ab":
        world.claim(name)
        world.pod(f"p{name}", name)
    first, second = world.plugin.look(world.record("pa")), world.plugin.look(world.record("pb"))
    assert first is not None and second is not None
    answers = world.plugin.codes(first)
    rows = world.store.accounts.row_of
    assert answers.codes.tolist() == [NOT_ASKED] * 16
    world.plugin.code_at(first, answers, rows["n"])
    assert world.plugin.codes(second) is answers
    assert [int(answers.codes[rows[n]]) for n in ("n", "m")] == [0, NOT_ASKED]
    world.plugin.code_at(first, answers, rows["m"])
    assert [known.choice is not None for known in answers.said.values()] == [True], "one search for both"
    # A device of m's is taken: n need not be asked again.
    world.allocate("pa", "m")
    assert [int(world.plugin.codes(second).codes[rows[n]]) for n in ("n", "m")] == [0, NOT_ASKED]
    assert world.codes(world.record("pb")) == {"n": 0, "m": Refusal.DEVICES}
    copied = world.plugin.over(world.store.accounts)
    assert copied.codes(second) is not answers


def test_a_node_that_comes_after_its_devices_is_asked_alone_when_they_move() -> None:
    """Whose pool it is was looked up before: it is looked up again for the nodes there are now."""
    world = World()
    world.device_class()
    world.node("n")
    for n in ("n", "late", "other"):
        world.devices(n, "g")
    for name in "ab":
        world.claim(name)
        world.pod(f"p{name}", name)
    key = Key(CLAIM, "default", "a")
    look = world.plugin.look(world.record("pb"))
    assert look is not None

    def known() -> dict[str, int]:
        answers = world.plugin.codes(look)
        return {n: int(answers.codes[row]) for n, row in world.store.accounts.row_of.items()}

    assert world.codes(world.record("pb")) == {"n": 0}
    world.allocate("pa", "n")
    assert known() == {"n": NOT_ASKED}
    world.store.set_status(key, {})
    for come in (("late",), ("late", "other")):
        world.node(come[-1])
        assert world.codes(world.record("pb")) == {"n": 0, **dict.fromkeys(come, 0)}
        world.allocate("pa", come[-1])
        assert known() == {"n": 0, **dict.fromkeys(come, 0), come[-1]: NOT_ASKED}
        world.store.set_status(key, {})
        assert known() == {"n": 0, **dict.fromkeys(come, 0), come[-1]: NOT_ASKED}


def test_answers_about_256_kinds_of_claims_are_kept() -> None:
    world = World()
    world.device_class()
    world.node("n")
    world.devices("n", "g")

    def answers(count: int) -> Any:
        look = world.plugin.look(world.record(f"p{count}"))
        assert look is not None
        return world.plugin.codes(look)

    for count in range(1, 258):
        world.claim(f"c{count}", count)
        world.pod(f"p{count}", f"c{count}")
    kept = {count: answers(count) for count in range(1, 257)}
    assert all(answers(count) is found for count, found in kept.items())
    # One more, and all are forgotten but that one.
    last = answers(257)
    assert answers(1) is not kept[1] and answers(256) is not kept[256]
    assert answers(257) is last


def test_what_keeps_a_pod_from_every_node() -> None:
    world = World()
    world.node("n")
    world.devices("n", "g")
    world.claim("c")
    pod = world.pod("p", "c")
    look = world.plugin.look(pod)
    assert look is not None
    assert look.why == "request r: device class gpus does not exist"
    said = explain(world.scheduler, pod, _refused(world, pod))
    assert said.message.startswith(f"0/1 nodes are available: {look.why}.")
    assert said.plugins == ("DynamicResources",)
    world.device_class()
    others = [{"uid": f"u{i}"} for i in range(256)]
    for reserved, why in (
        (others[:255], ""),
        (others, "resourceclaim in use"),
        ([*others[:255], {"uid": "uid-p"}], ""),
    ):
        world.store.set_status(
            Key(CLAIM, "default", "c"), {"allocation": _results("g"), "reservedFor": reserved}
        )
        look = world.plugin.look(pod)
        assert look is not None and look.why == why
    # An alternative's class is named with its request.
    entries = [{"name": "s", "deviceClassName": "gpus"}, {"name": "t", "deviceClassName": "none"}]
    world.claim("c", requests=[{"name": "r", "firstAvailable": entries}], status={})
    world.store.set_status(Key(CLAIM, "default", "c"), {})
    look = world.plugin.look(pod)
    assert look is not None and look.why == "request r/t: device class none does not exist"
    world.store.delete(Key(CLAIM, "default", "c"))
    look = world.plugin.look(pod)
    assert look is not None and look.why == 'resourceclaim "c" not found'
    assert world.plugin.look(world.pod("q")) is None
    world.store.delete(Key("Pod", "default", "p"))
    assert world.plugin.look(pod) is None


def _refused(world: World, pod: PodRecord, now_us: int = 0) -> Any:
    verdict = world.scheduler.place(pod, now_us=now_us)
    assert not isinstance(verdict, Scheduled)
    return verdict


def test_words_for_nodes_without_devices() -> None:
    world = World()
    world.device_class()
    world.node("n")
    world.node("m")
    world.devices("n", "g", count=2)
    world.claim("c")
    pod = world.pod("p", "c")
    assert world.codes(pod) == {"n": Refusal.DEVICES, "m": Refusal.DEVICES}
    said = explain(world.scheduler, pod, _refused(world, pod))
    assert said.message == (
        "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    invalid = {
        "driver": DRIVER,
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
    }
    world.put("ResourceSlice", "n", {"spec": {**invalid, "devices": [{"name": "g"}] * 2}})
    assert world.codes(pod) == {"n": Refusal.DEVICES_INVALID, "m": Refusal.DEVICES}


def test_a_search_without_end_is_given_up_on_that_node_alone() -> None:
    """Ways to take six of 24 devices: more than anybody tries for a second request that nothing can meet."""
    world = World()
    world.device_class()
    world.device_class("none", expression="device.driver == 'other.example.com'")
    world.node("n")
    world.devices("n", *(f"g{i}" for i in range(24)))
    world.node("m")
    world.devices("m", "g")
    asked = [
        {"name": "r", "exactly": {"deviceClassName": c, "count": n}} for c, n in (("gpus", 6), ("none", 1))
    ]
    world.claim("c", requests=[asked[0], {**asked[1], "name": "s"}])
    pod = world.pod("p", "c")
    assert world.codes(pod) == {"n": Refusal.DEVICES_LATE, "m": Refusal.DEVICES}
    said = explain(world.scheduler, pod, _refused(world, pod)).message
    assert said.startswith(
        "0/2 nodes are available: 1 cannot allocate all claims, 1 timed out trying to allocate devices. "
        "still not schedulable"
    )


def test_a_selector_that_fails_ends_the_attempt() -> None:
    world = World()
    world.device_class(expression="device.attributes['a'].b == 1")
    world.node("n")
    world.devices("n", "g")
    world.claim("c")
    pod = world.pod("p", "c")
    with pytest.raises(AllocationError):
        world.codes(pod)
    verdict = _refused(world, pod)
    why = 'running "DynamicResources" filter plugin: class gpus: selector #0: CEL '
    assert verdict.error.startswith(f"{why}runtime error: ")
    assert world.scheduler.score_sheet(pod).nodes == ()
    # One that cannot be read was never checked, in a simulation.
    world.device_class(expression="device.")
    assert _refused(world, pod).error.startswith(f"{why}compile error: ")


READY = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


def _claim_of(allocation: Obj | None, *devices: Obj) -> Obj:
    status: Obj = {"devices": list(devices)} if devices else {}
    return {
        "metadata": {"name": "c"},
        "status": status | ({} if allocation is None else {"allocation": allocation}),
    }


def _waiting(**more: Any) -> Obj:
    (result,) = _results("g")["devices"]["results"]
    return {"devices": {"results": [{**result, "device": "h"}, {**result, **READY}]}, **more}


def _both(*conditions: str) -> Obj:
    """One device that waits for each of these."""
    (result,) = _results("g")["devices"]["results"]
    return {"devices": {"results": [{**result, "bindingConditions": list(conditions)}]}}


def _about(device: str = "g", **conditions: str) -> Obj:
    said = [{"type": t, "status": s, "reason": "R", "message": "M"} for t, s in conditions.items()]
    return {"driver": DRIVER, "pool": "n", "device": device, "conditions": said}


FAILED = 'device binding failed: claim=c, reason=R, message="M"'


@pytest.mark.parametrize(
    ("claim", "want"),
    [
        (_claim_of(None), ("", False)),
        (_claim_of(_results("g")), ("", True)),
        (_claim_of({}), ("", True)),
        (_claim_of(_waiting()), ("", False)),
        (_claim_of(_waiting(), _about(ready="True")), ("", True)),
        (_claim_of(_waiting(), _about(ready="False")), ("", False)),
        (_claim_of(_waiting(), _about(other="True")), ("", False)),
        (_claim_of(_waiting(), _about("h", ready="True")), ("", False)),
        (_claim_of(_waiting(), _about("h", broken="True"), _about(ready="True")), ("", True)),
        (_claim_of(_waiting(), _about(ready="True", broken="False")), ("", True)),
        (_claim_of(_both("ready", "warm"), _about(ready="True")), ("", False)),
        (_claim_of(_both("warm", "ready"), _about(ready="True", warm="Unknown")), ("", False)),
        (_claim_of(_both("ready", "warm"), _about(ready="True", warm="True")), ("", True)),
        (_claim_of(_waiting(), _about(ready="True", broken="True")), (FAILED, False)),
        (_claim_of(_waiting(), _about(broken="True")), (FAILED, False)),
    ],
)
def test_when_a_claim_is_ready_for_its_pod(claim: Obj, want: tuple[str, bool]) -> None:
    assert readiness(claim) == want


def test_devices_have_ten_minutes_to_get_ready() -> None:
    since = {"allocationTimestamp": "1970-01-01T00:00:00Z"}
    late = 600 * SECOND_US + 1
    assert not is_late(_claim_of(_waiting(**since)), late - 1)
    assert is_late(_claim_of(_waiting(**since)), late)
    assert not is_late(_claim_of(_waiting()), late)
    assert not is_late(_claim_of(_results("g", **since)), late)
    assert not is_late(_claim_of(None), late)
    assert has_binding_conditions(_waiting()) and not has_binding_conditions(_results("g"))
    assert not has_binding_conditions({})


def test_an_allocated_claim_is_where_its_devices_are_and_only_while_they_do() -> None:
    world = World()
    world.device_class()
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["1"]}]}]}
    other = {"matchExpressions": [{"key": "z", "operator": "In", "values": ["2"]}]}
    either = {"nodeSelectorTerms": [*zone["nodeSelectorTerms"], other]}
    for n, z in (("n", "1"), ("m", "2")):
        world.node(n, {"z": z})
    key = Key(CLAIM, "default", "c")
    world.claim("c")
    pod = world.pod("p", "c")
    gone, late = int(Refusal.CLAIM_UNAVAILABLE), 600 * SECOND_US + 1
    since = {"allocationTimestamp": "1970-01-01T00:00:00Z"}
    for status, now_us, codes in (
        ({"allocation": _results("g")}, 0, {"n": 0, "m": 0}),
        ({"allocation": _results("g", nodeSelector=zone)}, 0, {"n": 0, "m": gone}),
        ({"allocation": _results("g", nodeSelector=either)}, 0, {"n": 0, "m": 0}),
        ({"allocation": _results("g", nodeSelector={"nodeSelectorTerms": []})}, 0, {"n": gone, "m": gone}),
        ({"allocation": _waiting(**since)}, late - 1, {"n": 0, "m": 0}),
        ({"allocation": _waiting(**since)}, late, {"n": gone, "m": gone}),
        ({"allocation": _waiting(**since), "devices": [_about(ready="True")]}, late, {"n": 0, "m": 0}),
        ({"allocation": _waiting(), "devices": [_about(broken="True")]}, 0, {"n": gone, "m": gone}),
    ):
        world.store.set_status(key, status)
        assert world.codes(pod, now_us) == codes
        verdict = world.scheduler.place(pod, now_us=now_us)
        assert isinstance(verdict, Scheduled) is any(code == 0 for code in codes.values())
        if isinstance(verdict, Scheduled):
            assert codes[verdict.node] == 0
            (binding,) = world.scheduler.device_plan(pod, verdict.node).bindings
            assert (binding.key, binding.obj, binding.allocation) == (key, world.store.require(key), None)
        else:
            assert list(verdict.refusal[:2]) == [gone, gone]


@pytest.mark.parametrize(
    ("reserved", "release"),
    [
        ([], True),
        ([{"uid": "uid-p"}], True),
        ([{"uid": "other"}], False),
        ([{"uid": "uid-p"}, {"uid": "other"}], False),
    ],
)
def test_a_claim_that_is_nowhere_is_given_back_if_nobody_else_has_it(
    reserved: list[Obj], release: bool
) -> None:
    world = World()
    world.device_class()
    world.node("n")
    nowhere = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "Exists"}]}]}
    for name, selector in (("fine", None), ("c", nowhere)):
        world.claim(name)
        allocation = _results(name) | ({} if selector is None else {"nodeSelector": selector})
        world.store.set_status(
            Key(CLAIM, "default", name), {"allocation": allocation, "reservedFor": reserved}
        )
    pod = world.pod("p", "fine", "c")
    found = explain(world.scheduler, pod, _refused(world, pod)).release
    assert found is not None
    if release:
        words = "deallocation of ResourceClaim completed"
        assert found == (words, Key(CLAIM, "default", "c"), None)
    else:
        assert found == ("still not schedulable", None, None)


def test_where_other_claims_find_no_devices_nothing_is_given_back() -> None:
    """The allocator's no comes first: upstream's Filter returns before it notes which claims are elsewhere."""
    world = World()
    world.device_class()
    world.node("n")
    nowhere = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "Exists"}]}]}
    world.claim("c", status={"allocation": _results("g", nodeSelector=nowhere)})
    world.claim("more")
    pod = world.pod("p", "c", "more")
    assert explain(world.scheduler, pod, _refused(world, pod)).release == (
        "still not schedulable",
        None,
        None,
    )
    world.devices("n", "h")
    assert _refused(world, pod).refusal[0] == Refusal.CLAIM_UNAVAILABLE
    found = explain(world.scheduler, pod, _refused(world, pod)).release
    assert found is not None and found.deallocates == Key(CLAIM, "default", "c")


# Scores


def test_earlier_alternatives_score_higher() -> None:
    world = World()
    world.device_class()
    world.device_class("big", expression="has(device.capacity[''].x)")
    for n in ("n", "m", "k"):
        world.node(n)
    world.devices("n", "a", "b")
    world.devices("m", "a")
    world.devices("k", "a", "b", "c", "d")
    entries = [
        {"name": "three", "deviceClassName": "gpus", "count": 3},
        {"name": "two", "deviceClassName": "gpus", "count": 2},
        {"name": "one", "deviceClassName": "gpus", "count": 1},
    ]
    asked = [{"name": "r", "firstAvailable": entries}]
    world.claim("c", requests=asked)
    pod = world.pod("p", "c")
    look = world.plugin.look(pod)
    assert look is not None
    answers = world.plugin.codes(look)
    rows = np.array([world.store.accounts.row_of[n] for n in ("n", "m", "k")], np.int64)
    for row in rows.tolist():
        assert world.plugin.code_at(look, answers, row) == 0
    assert world.plugin.raw_scores(look, answers, rows).tolist() == [7, 6, 8]
    sheet = world.scheduler.score_sheet(pod)
    shares = dict(zip(sheet.nodes, sheet.by_plugin["DynamicResources"], strict=True))
    assert shares == {"n": 2 * (700 // 8), "m": 2 * (600 // 8), "k": 200}
    # Requests without alternatives score nothing; a choice made before counts everywhere.
    world.claim("plain")
    chosen = {"request": "r/two", "driver": DRIVER, "pool": "x", "device": "d"}
    world.claim("before", requests=asked)
    world.store.set_status(
        Key(CLAIM, "default", "before"), {"allocation": {"devices": {"results": [chosen]}}}
    )
    for claims, scores in (
        (("plain",), None),
        (("before", "c"), [14, 13, 15]),
        (("before", "plain"), [7, 7, 7]),
        (("before",), None),
    ):
        pod = world.pod("q" + claims[0], *claims)
        look = world.plugin.look(pod)
        assert look is not None
        answers = world.plugin.codes(look)
        for row in rows.tolist():
            world.plugin.code_at(look, answers, row)
        found = world.plugin.raw_scores(look, answers, rows)
        assert (None if found is None else found.tolist()) == scores


# What is written


def test_a_plan_binds_claims_in_the_pods_order() -> None:
    world = World()
    world.device_class()
    world.node("n")
    world.devices("n", "a", "b", "c")
    for name, count in (("x", 1), ("had", 1), ("y", 2)):
        world.claim(name, count)
    world.store.set_status(Key(CLAIM, "default", "had"), {"allocation": _results("z")})
    pod = world.pod("p", "y", "had", "x")
    plan = world.scheduler.device_plan(pod, "n")
    given = [
        (
            b.key.name if b.key else "",
            b.allocation and [r["device"] for r in b.allocation["devices"]["results"]],
        )
        for b in plan.bindings
    ]
    assert given == [("y", ["a", "b"]), ("had", None), ("x", ["c"])]
    assert plan.mappings == ()
    assert world.scheduler.device_plan(pod, "nowhere") == Plan()
    assert world.scheduler.device_plan(world.pod("q"), "n") == Plan()
    assert Scheduler(world.store.accounts).device_plan(pod, "n") == Plan()
    # Another pod's look comes between, and a claim changes after it.
    assert world.plugin.look(world.record("q")) is None
    world.claim("z")
    other = world.plugin.look(world.pod("r", "z"))
    assert other is not None
    assert world.scheduler.device_plan(pod, "n") == plan
    world.store.set_status(Key(CLAIM, "default", "x"), {"allocation": _results("b")})
    again = world.scheduler.device_plan(pod, "n").bindings
    assert [b.allocation is None for b in again] == [False, True, True]


@pytest.mark.parametrize("is_alike", [True, False])
def test_what_is_written_is_what_the_filter_found(*, is_alike: bool) -> None:
    """Not what a search would find now: here the filter is made to have found the second device, not the first."""
    world = World()
    world.device_class()
    world.node("n")
    if is_alike:
        world.devices("n", "g", "h")
    else:
        # Devices that say for themselves where they are make a node like no other.
        made = [{"name": d, "nodeName": "n"} for d in ("g", "h")]
        of_pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": of_pool, "perDeviceNodeSelection": True, "devices": made}
        world.put("ResourceSlice", "n", {"spec": spec})
    world.claim("a")
    world.claim("b")
    pod, other = world.pod("p", "a"), world.pod("q", "b")

    def asked(name: str) -> Any:
        look = world.plugin.look(world.record(name))
        assert look is not None
        answers = world.plugin.codes(look)
        assert world.plugin.code_at(look, answers, 0) == 0
        return answers

    def given() -> list[str]:
        (binding,) = world.plugin.plan(pod, "n").bindings
        assert binding.allocation is not None
        return [r["device"] for r in binding.allocation["devices"]["results"]]

    answers = asked("p")
    assert given() == ["g"]
    first = dict(answers.said), dict(answers.solutions)
    assert (len(first[0]), len(first[1])) == ((1, 0) if is_alike else (0, 1))
    world.allocate(other.key.name, "n")
    assert asked("p") is answers
    assert given() == ["h"]
    later = dict(answers.said), dict(answers.solutions)
    world.store.delete(Key(CLAIM, "default", "b"))
    asked("p")
    assert given() == ["g"]
    if is_alike:
        ((now, _),) = first[0].items()
        ((_, found),) = ((k, v) for k, v in later[0].items() if k != now)
        answers.said[now] = found
    else:
        answers.solutions[0] = later[1][0]
    assert given() == ["h"]


def test_extended_resources_are_given_by_claims_where_no_plugin_offers_them() -> None:
    world = World()
    world.device_class(extended=GPU)
    world.node("claims")
    world.node("plugin", gpus="2")
    world.node("bare")
    world.devices("claims", "a", "b")
    pod = world.pod("p", gpus=2)
    assert world.plugin.concerns(pod)
    assert world.plugin.delegated() == {GPU, "deviceclass.resource.kubernetes.io/gpus"}
    assert world.codes(pod) == {"claims": 0, "plugin": 0, "bare": Refusal.DEVICES}
    plan = world.scheduler.device_plan(pod, "claims")
    ((key, made, allocation),) = plan.bindings
    assert (key, allocation is None) == (None, False)
    name = "container-0-request-1"
    exactly = {"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 2}
    assert made == {"spec": {"devices": {"requests": [{"name": name, "exactly": exactly}]}}}
    assert allocation is not None
    assert [r["device"] for r in allocation["devices"]["results"]] == ["a", "b"]
    assert plan.mappings == ({"containerName": "c", "resourceName": GPU, "requestName": name},)
    assert world.scheduler.device_plan(pod, "plugin") == Plan()
    # Three are more than either has; the plugin's node is told by what is short there.
    more = world.pod("q", gpus=3)
    verdict = _refused(world, more)
    rows = world.store.accounts.row_of
    assert {n: int(verdict.refusal[row]) for n, row in rows.items()} == {
        "claims": Refusal.DEVICES,
        "plugin": Refusal.FIT,
        "bare": Refusal.DEVICES,
    }


def test_a_claim_of_an_earlier_attempt_goes_first() -> None:
    world = World()
    world.device_class(extended=GPU)
    world.node("n")
    world.devices("n", "a")
    pod = world.pod("p", gpus=1)
    assert isinstance(world.scheduler.place(pod), Scheduled)
    owner = {"uid": "uid-p", "controller": True}
    world.claim("old", annotations={ANNOTATION: "true"}, ownerReferences=[owner])
    assert world.codes(pod) == {"n": Refusal.DEVICES_STALE}
    said = explain(world.scheduler, pod, _refused(world, pod))
    assert said.release == ("deletion of ResourceClaim completed", None, Key(CLAIM, "default", "old"))
    world.store.delete(Key(CLAIM, "default", "old"))
    assert world.codes(pod) == {"n": 0}


def test_devices_may_come_and_be_handed_on() -> None:
    """A scheduler that is given devices judges shapes anew; its copy has devices over the copied nodes."""
    world = World()
    world.node("n")
    pod = world.pod("p", gpus=1)
    before = world.scheduler.local(pod)
    world.device_class(extended=GPU)
    world.devices("n", "a")
    assert world.scheduler.local(pod) is not before
    local = world.scheduler.local(pod)
    assert world.scheduler.local(pod) is local
    world.scheduler.give_devices(world.plugin)
    assert world.scheduler.local(pod) is not local
    twin = world.scheduler.fork(world.store.accounts.copy(), world.scheduler.default_selector)
    assert twin.devices is not None and twin.devices is not world.plugin
    assert twin.place(pod) == world.scheduler.place(pod)
    assert not world.plugin.concerns(world.pod("q"))
    assert world.plugin.concerns(world.pod("r", "c"))


def test_who_has_no_device_is_not_taken_for_one_who_has() -> None:
    """Whatever node chance would have chosen, and whichever was asked before."""
    world = World()
    world.device_class()
    for n in ("a", "b", "c"):
        world.node(n)
    world.devices("b", "g")
    world.claim("c")
    pod = world.pod("p", "c")
    for draw in range(6):
        verdict = world.scheduler.place(pod, draw)
        assert isinstance(verdict, Scheduled)
        assert (verdict.node, verdict.feasible) == ("b", 1)
        scheduler = Scheduler(world.store.accounts, view=world.store)
        scheduler.give_devices(DynamicResources(world.store, world.store.accounts, world.book))
        scheduler.next_start = draw
        again = scheduler.place(pod, draw)
        assert isinstance(again, Scheduled)
        assert (again.node, again.feasible) == ("b", 1)


def test_more_devices_than_a_claim_may_have_end_the_attempt_in_the_pods_name() -> None:
    world = World()
    world.device_class(extended=GPU)
    world.node("n")
    world.devices("n", *(f"g{i}" for i in range(40)))
    verdict = _refused(world, world.pod("p", gpus=33))
    assert "claim default/<extended-resources>: number of requested devices 33 exceeds" in verdict.error
    assert world.codes(world.pod("q", gpus=32)) == {"n": 0}
