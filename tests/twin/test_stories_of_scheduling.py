"""Stories of kube-scheduler alone, with and without gangs: each write and word of it, and when.

What is told is compared with `stories/`; FAIRWAY_UPDATE_GOLDENS=1 writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from gangworld import gang, group, member
from gangworld import node as gpu_node
from tests.histories import check_history
from tests.twin.stepwise import STORIES, Watched

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.scheduling.coscheduling import CoschedulingArgs
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.scheduling.verdict import Scheduled
from fairway.twin.distributions import constant
from fairway.twin.latency import NONE
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.twin import Twin

BOTH = replace(
    DEFAULT_PROFILE,
    permits=frozenset({"Coscheduling"}),
    coscheduling=CoschedulingArgs(permit_waiting_us=10 * SECOND_US, backoff_us=30 * SECOND_US),
)
PATIENT = replace(
    BOTH, coscheduling=CoschedulingArgs(permit_waiting_us=10 * SECOND_US, reject_percentage=100)
)
NATIVE = replace(DEFAULT_PROFILE, permits=frozenset({"GangScheduling"}))


def node(name: str, cpu: str = "4", **more: Any) -> Obj:
    held = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": held},
        **more,
    }


def pod(name: str, cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "namespace": "default", "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


class World(Watched):
    def __init__(
        self, *objects: Obj, profiles: tuple[Profile, ...] = (DEFAULT_PROFILE,), **latency: Any
    ) -> None:
        made = [SchedulerComponent(profiles)]
        super().__init__(Twin(seed=3, latency=replace(NONE, **latency), components=made))
        self.apply(*objects)

    def forks(self) -> World:
        copy = World()
        Watched.__init__(copy, self.twin.fork())
        return copy

    def apply(self, *objects: Obj) -> World:
        self.twin.apply(objects)
        return self

    def delete(self, name: str, gk: str = "Pod", grace_s: int | None = 0) -> World:
        self.twin.store.delete(Key(gk, "" if gk == "Node" else "default", name), grace_s=grace_s)
        self.twin.wake()
        return self

    def patch(self, name: str, change: Obj, gk: str = "Pod") -> World:
        self.twin.store.patch(Key(gk, "" if gk == "Node" else "default", name), change)
        self.twin.wake()
        return self

    def ends(self, name: str) -> World:
        key = Key("Pod", "default", name)
        self.twin.store.set_status(key, {**self.twin.store.require(key)["status"], "phase": "Succeeded"})
        self.twin.wake()
        return self


def one_by_one() -> Iterator[str]:
    """A cycle takes 10 ms, and a client may write three times at once and twice a second."""
    cycle = constant(10_000)
    world = World(
        node("n", "6"), scheduler_cycle=cycle, scheduler_qps=2, scheduler_burst=3, watch=constant(1_000)
    )
    world.apply(*(pod(f"p{i}") for i in range(8)))
    yield from world.until(2.6)
    yield from world.apply(pod("late")).delete("p0").until(20)
    yield from world.apply(node("m")).until(40)
    yield from world.said()


def refusals() -> Iterator[str]:
    """Pods alike are refused together; who comes later hears the same while nothing has changed."""
    world = World(node("n", "2"), pod("a", "2"), pod("b", "2"), pod("c", "2"), pod("d", "3"))
    yield from world.until(1)
    yield from world.apply(pod("e", "2"), pod("f", "2", {"x": "y"})).until(2)
    yield from world.patch("n", {"metadata": {"labels": {"a": "b"}}}, "Node").apply(pod("g", "2")).until(3)
    yield from world.patch("b", {"metadata": {"labels": {"a": "b"}}}).until(4)
    yield from world.ends("a").until(30)
    yield from world.delete("c").apply(node("m", "3")).until(60)
    # From here on labels matter to somebody.
    keep = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"x": "y"}}}
        ]
    }
    yield from world.apply(
        pod("h", "1", {"x": "y"}, affinity={"podAntiAffinity": keep}), pod("i", "1", {"x": "y"})
    ).until(90)
    yield from world.said()


def preemption() -> Iterator[str]:
    """Victims are told why and go; their place is kept; who was promised it before looks elsewhere."""
    world = World(node("n", "4"), node("m", "2"))
    world.apply(pod("low", "2", priority=1), pod("lower", "2"), pod("other", "2", priority=50))
    budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "kept"}}}
    meta = {"name": "kept", "namespace": "default"}
    world.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": budget})
    yield from world.until(1)
    for name in ("low", "lower"):
        world.patch(name, {"metadata": {"finalizers": ["x/y"]}})
    yield from world.apply(pod("mid", "2", priority=10)).until(2)
    yield from world.apply(pod("polite", "2", priority=20, preemptionPolicy="Never")).until(3)
    yield from world.apply(pod("high", "2", priority=30)).until(4)
    yield from world.apply(pod("higher", "2", priority=40)).until(5)
    yield from world.delete("lower").until(6)
    for name in ("low", "lower"):
        world.patch(name, {"metadata": {"finalizers": None}})
    yield from world.delete("low").until(20)
    yield from world.delete("high").until(60)
    # What it was promised is of no use any more.
    yield from world.apply(pod("last", "2", priority=35)).until(61)
    world.patch("n", {"spec": {"unschedulable": True}}, "Node")
    yield from world.delete("polite").until(80)
    yield from world.said()


def left_alone() -> Iterator[str]:
    """Others' pods, gated ones, those that end, are bound by others, or go before it is their turn."""
    other = replace(DEFAULT_PROFILE, scheduler_name="second")
    world = World(node("n", "2"), profiles=(DEFAULT_PROFILE, other), scheduler_cycle=constant(100_000))
    world.apply(pod("others", schedulerName="nobody"), pod("seconds", schedulerName="second"))
    world.apply(
        pod("gated", schedulingGates=[{"name": "g"}]), pod("done"), pod("bound"), pod("gone"), pod("last")
    )
    yield from world.until(0.05)
    world.ends("done").delete("gone")
    world.twin.store.bind(Key("Pod", "default", "bound"), "n", {"phase": "Pending"}, None)
    world.twin.wake()
    yield from world.until(1)
    yield from world.patch("gated", {"spec": {"schedulingGates": None}}).until(2)
    yield from world.apply(pod("again")).until(3)
    yield from world.delete("again").apply(pod("again")).until(4)
    yield from world.delete("bound").until(20)
    yield from world.said()


def waiting_for_others() -> Iterator[str]:
    """Coscheduling: pods wait on their nodes for the rest, ten seconds at most; a failed group has half a minute."""
    world = World(*(gpu_node(f"n{i}", 1) for i in range(3)), profiles=(BOTH,))
    yield from world.apply(*group("Coscheduling", "g", 3), member("Coscheduling", "g", 0, gpu=1)).until(1)
    yield from world.apply(
        member("Coscheduling", "g", 1, gpu=1), member("Coscheduling", "g", 2, gpu=1)
    ).until(5)
    yield from world.apply(*gang("Coscheduling", "late", 2, least=2)).until(20)
    yield from world.apply(member("Coscheduling", "nobody", 0, gpu=1)).until(40)
    yield from world.ends("g-0").until(45)
    yield from world.ends("g-1").until(400)
    yield from world.said()


def short_of_room() -> Iterator[str]:
    """A PodGroup that says how much it needs in all: it waits as one; refused, it is left alone a while."""
    world = World(*(gpu_node(f"n{i}", 1) for i in range(2)), profiles=(BOTH,))
    (asks,) = group("Coscheduling", "g", 2)
    asks["spec"]["minResources"] = {"nvidia.com/gpu": "3"}
    yield from world.apply(asks, *(member("Coscheduling", "g", i, gpu=1) for i in range(2))).until(20)
    yield from world.apply(gpu_node("n2", 1)).until(30)
    # Of another group one pod is there, and room for both at first.
    (other,) = group("Coscheduling", "h", 2)
    other["spec"] |= {"minResources": {"cpu": "2"}, "scheduleTimeoutSeconds": 25}
    yield from world.apply(gpu_node("n3", 1), other, member("Coscheduling", "h", 0, gpu=1)).until(40)
    yield from world.apply(member("Coscheduling", "h", 1, gpu=4)).until(60)
    yield from world.delete("h-1").apply(member("Coscheduling", "h", 2, gpu=1)).until(64)
    yield from world.delete("h-0", grace_s=30).until(120)
    yield from world.said()


def given_up() -> Iterator[str]:
    """Nine of ten fit, which is little enough to wait for; one is deleted, or nobody comes in time."""
    world = World(*(gpu_node(f"n{i}", 1) for i in range(9)), profiles=(BOTH,))
    yield from world.apply(*gang("Coscheduling", "g", 10)).until(5)
    yield from world.apply(pod("alone", "64", priority=5)).until(12)
    yield from world.until(60)
    yield from world.delete("g-4").until(80)
    yield from world.apply(gpu_node("n9", 1), member("Coscheduling", "g", 4, gpu=1)).until(500)
    yield from world.said()


V1 = "resource.k8s.io/v1"


def devices(node: str, *names: str) -> list[Obj]:
    """One of a node, unless more are named, and their class."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {
        "driver": "d",
        "pool": pool,
        "nodeName": node,
        "devices": [{"name": n} for n in names or (f"d-{node}",)],
    }
    return [
        {"apiVersion": V1, "kind": "ResourceSlice", "metadata": {"name": f"s-{node}"}, "spec": spec},
        {"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
    ]


def claims(names: str) -> Iterator[Obj]:
    asked = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    for name in names:
        meta = {"name": name, "namespace": "default"}
        yield {"apiVersion": V1, "kind": "ResourceClaim", "metadata": meta, "spec": asked}


def claiming(made: Obj, claim: str) -> Obj:
    made["spec"]["resourceClaims"] = [{"name": "r", "resourceClaimName": claim}]
    return made


def promised() -> Iterator[str]:
    """A device that a waiting pod was promised is nobody else's until its time is up; then it is forgotten."""
    world = World(gpu_node("n0", 8), profiles=(PATIENT,)).apply(*devices("n0"), *claims("abc"))

    def of_gang(number: int, claim: str = "") -> Obj:
        made = member("Coscheduling", "g", number, gpu=9 if number == 1 else 0)
        made["spec"]["priority"] = 5 if number > 1 else 0
        return claiming(made, claim) if claim else made

    # The second of three finds no room: the others wait, and the first holds what it was promised.
    yield from world.apply(*group("Coscheduling", "g", 3), of_gang(0, "a"), of_gang(1), of_gang(2)).until(2)
    yield from world.apply(claiming(pod("single"), "b")).until(8)
    yield from world.until(14)
    # With a device more, and one in place of the second, it comes last, and gets what is there now.
    world.apply(gpu_node("n1", 8), *devices("n1"))
    yield from world.delete("g-1").apply(of_gang(3)).until(400)
    yield from world.said()


def together() -> Iterator[str]:
    """GangScheduling: held back until they are all there; placed in one cycle or not at all."""
    world = World(gpu_node("n0", 2), profiles=(NATIVE,))
    yield from world.apply(
        member("GangScheduling", "g", 0, gpu=1), member("GangScheduling", "g", 1, gpu=1)
    ).until(1)
    yield from world.apply(*group("GangScheduling", "g", 3)).until(2)
    yield from world.apply(member("GangScheduling", "g", 2, gpu=1)).until(20)
    yield from world.apply(gpu_node("n1", 1)).until(60)
    yield from world.apply(
        member("GangScheduling", "g", 3, gpu=1), member("GangScheduling", "g", 4, gpu=1)
    ).until(80)
    yield from world.ends("g-0").until(500)
    yield from world.said()


def waiting_again() -> Iterator[str]:
    """Who waits a second time has all its time anew; whether there is room is asked anew, too."""
    world = World(gpu_node("n0", 3), profiles=(PATIENT,))
    yield from world.apply(
        *group("Coscheduling", "g", 3),
        *(member("Coscheduling", "g", i, gpu=9 if i == 2 else 1) for i in range(3)),
    ).until(4)
    yield from world.delete("g-0").apply(member("Coscheduling", "g", 3, gpu=1)).until(30)
    copy = world.forks()
    yield from copy.delete("g-2").apply(member("Coscheduling", "g", 4, gpu=1)).until(60)
    yield from copy.said()
    yield from world.until(330)


def room_for_a_while() -> Iterator[str]:
    """That there is room for a group counts for ten seconds, and until it is refused as a whole."""
    (asks,) = group("Coscheduling", "h", 3)
    asks["spec"] |= {"minResources": {"nvidia.com/gpu": "3"}, "scheduleTimeoutSeconds": 25}
    world = World(gpu_node("n0", 4), asks, profiles=(PATIENT,))

    def comes(number: int, gpu: int = 1) -> World:
        return world.apply(member("Coscheduling", "h", number, gpu=gpu))

    comes(0)
    comes(1)
    yield from comes(2, 9).until(1)
    alone = pod("alone")
    alone["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "2"}
    yield from world.apply(alone).until(5)
    # Of a copy one member goes: the room that was there counts no longer.
    copy = world.forks()
    yield from copy.apply(member("Coscheduling", "h", 5, gpu=9)).delete("h-0").until(9)
    yield from world.until(9)
    yield from comes(3).until(10)
    yield from comes(4).until(15)
    yield from world.ends("alone").until(24)
    alone = {**alone, "metadata": {**alone["metadata"], "name": "second"}}
    yield from world.delete("h-3").apply(alone).until(26)
    yield from world.delete("h-0").until(45)
    yield from world.apply(gpu_node("n1", 4)).until(100)
    yield from world.said()


def promises_let_go() -> Iterator[str]:
    """Whoever waited with a device and goes, or is given up, leaves it to others; in one cycle, too."""
    world = World(gpu_node("n0", 8), profiles=(PATIENT,)).apply(*devices("n0"), *claims("abcde"))
    first, large = member("Coscheduling", "g", 0, gpu=1), member("Coscheduling", "g", 1, gpu=9)
    yield from world.apply(*group("Coscheduling", "g", 2), claiming(first, "a"), large).until(2)
    yield from world.apply(claiming(pod("single"), "b")).until(4)
    copy = world.forks()
    yield from copy.delete("g-0").until(6)
    # Another by its name asks for no device, and holds none.
    yield from copy.apply(member("Coscheduling", "g", 0, gpu=1)).until(8)
    yield from copy.delete("single").delete("b", "ResourceClaim.resource.k8s.io").until(9)
    copy.twin.store.set_finalizers(Key("ResourceClaim.resource.k8s.io", "default", "b"), [])
    copy.twin.wake()
    yield from copy.apply(claiming(pod("other"), "c")).until(12)
    yield from copy.said()
    yield from world.until(40)
    native = World(gpu_node("n0", 8), profiles=(NATIVE,)).apply(*devices("n0", "d0", "d1"), *claims("abcde"))
    large = member("GangScheduling", "g", 1, gpu=9)
    first, third = member("GangScheduling", "g", 0, gpu=1), member("GangScheduling", "g", 2, gpu=1)
    native.apply(*group("GangScheduling", "g", 3), claiming(first, "a"), large, claiming(third, "b"))
    yield from native.until(2)
    yield from native.apply(claiming(pod("single"), "c")).until(4)
    yield from native.delete("g-1").apply(member("GangScheduling", "g", 3, gpu=1)).until(20)
    yield from native.delete("single").until(400)
    yield from native.said()


def heard_a_second_later() -> Iterator[str]:
    """Cycles find pods that are gone or others by now; bindings count before they are heard of."""
    world = World(node("n", "4"), watch=constant(SECOND_US), scheduler_cycle=constant(100_000))
    yield from world.apply(pod("a"), pod("b"), pod("c"), pod("d")).until(1.05)
    world.delete("b").delete("c").apply(pod("c", "2"))
    yield from world.until(1.35)
    yield from world.delete("a").until(20)
    # Two were promised a node by name; who comes later takes it from both.
    for name in ("low", "lower"):
        world.apply(pod(name, "0.5", priority=-1)).patch(name, {"metadata": {"finalizers": ["x/y"]}})
    yield from world.until(22)
    yield from world.apply(pod("y", "0.4", priority=5)).until(24)
    yield from world.apply(pod("x", "0.4", priority=5)).until(26)
    yield from world.apply(pod("z", "1", priority=9)).until(27.15)
    # When its turn comes, nobody has heard that `z` has what it was promised: it counts once.
    yield from world.apply(pod("late", "0.2", priority=9)).until(28)
    for name in ("low", "lower"):
        world.patch(name, {"metadata": {"finalizers": None}}).delete(name)
    yield from world.delete("d").until(60)
    yield from world.said()


TOLD: tuple[Callable[[], Iterator[str]], ...] = (
    *(one_by_one, refusals, preemption, left_alone, heard_a_second_later),
    *(waiting_for_others, short_of_room, given_up, promised, together),
    *(waiting_again, room_for_a_while, promises_let_go),
)


@pytest.mark.parametrize("story", TOLD, ids=lambda story: story.__name__)
def test_nothing_else_happens(story: Callable[[], Iterator[str]]) -> None:
    check_history(STORIES / f"{story.__name__}.txt", story())


@pytest.mark.parametrize("story", TOLD, ids=lambda story: story.__name__)
def test_nor_in_a_copy_made_at_any_moment(
    story: Callable[[], Iterator[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watched, "goes_on_in_copies", True)
    check_history(STORIES / f"{story.__name__}.txt", story())


def test_what_a_cycle_would_decide_is_told_and_nothing_changed() -> None:
    world = World(node("n", "4"), gpu_node("g", 2), profiles=(BOTH, replace(NATIVE, scheduler_name="native")))
    list(world.apply(pod("low", "4", priority=-1), *gang("Coscheduling", "whole", 2)).until(10))
    (large,) = group("Coscheduling", "large", 1)
    large["spec"]["minResources"] = {"nvidia.com/gpu": "9"}
    list(
        world.apply(*group("Coscheduling", "few", 3), large, *group("GangScheduling", "native", 2)).until(20)
    )
    part = world.twin.component("default-scheduler")
    assert isinstance(part, SchedulerComponent)

    def asked(obj: Obj, **spec: Any) -> tuple[str, str]:
        obj = {**obj, "spec": {**obj["spec"], **spec}, "status": {"phase": "Pending"}}
        obj["metadata"] = {"uid": "u", **obj["metadata"]}
        before = [s.next_start for s in part.schedulers.values()]
        verdict, diagnosis = part.asked(obj)
        assert [s.next_start for s in part.schedulers.values()] == before and not part.is_asked
        if isinstance(verdict, Scheduled):
            assert diagnosis is None
            return verdict.node, ""
        assert diagnosis is not None
        return "" if verdict.preemption is None else verdict.preemption.node, verdict.message

    version = world.twin.store.version
    full = "no new claims to deallocate, preemption: 0/2 nodes are available: "
    assert asked(pod("a", "3")) == ("g", "")
    assert asked(pod("a", "4"), nodeSelector={"kubernetes.io/hostname": "n"})[0] == ""
    found, said = asked(pod("b", "99"))
    assert (found, said) == (
        "",
        f"0/2 nodes are available: 2 Insufficient cpu. {full}2 Preemption is not helpful for scheduling.",
    )
    for made, want in (
        (member("Coscheduling", "few", 0, gpu=0), "pre-filter pod few-0 cannot find enough sibling pods"),
        (member("Coscheduling", "large", 0, gpu=0), "not found"),
        (member("Coscheduling", "nobody", 0, gpu=0), ""),
    ):
        assert want in asked(made)[1], made["metadata"]["name"]
    held = member("GangScheduling", "native", 0, gpu=0)
    assert "waiting for minCount pods from a gang" in asked(held, schedulerName="native")[1]
    with pytest.raises(KeyError):
        asked(pod("c"), schedulerName="nobody")
    assert world.twin.store.version == version


def test_what_a_cycle_would_decide_where_there_are_no_gangs() -> None:
    """Of nodes alike the first; one that turns are taken from is taken up where it was left."""
    world = World(*(node(name) for name in "abcd"))
    list(world.until(1))
    part = world.twin.component("default-scheduler")
    assert isinstance(part, SchedulerComponent)
    asked = {**pod("p"), "status": {"phase": "Pending"}}
    asked["metadata"]["uid"] = "u"
    verdicts = {part.asked(asked) for _ in range(5)}
    assert len(verdicts) == 1
    ((verdict, diagnosis),) = verdicts
    assert isinstance(verdict, Scheduled) and verdict.node == "a" and diagnosis is None


def test_what_is_known_of_a_pods_group() -> None:
    """Of pods that are there and of those that are not yet; a group counts the pods that are there and not finished."""
    world = World(gpu_node("g", 4), profiles=(BOTH, replace(NATIVE, scheduler_name="native")))
    (large,) = group("Coscheduling", "large", 1)
    large["spec"]["minResources"] = {"nvidia.com/gpu": "9"}
    natives = [member("GangScheduling", "native", i, gpu=0) for i in range(2)]
    for one in natives:
        one["spec"]["schedulerName"] = "native"
    pairs = [member("Coscheduling", "pair", i, gpu=0) for i in range(3)]
    world.apply(*group("Coscheduling", "pair", 3), large, *group("GangScheduling", "native", 2))
    list(world.apply(*pairs[:2], natives[0], member("Coscheduling", "nobody", 0, gpu=0)).until(5))
    part = world.twin.component("default-scheduler")
    assert isinstance(part, SchedulerComponent) and part.gangs is not None
    gangs = part.gangs

    def known(obj: Obj) -> tuple[str, str, int, list[str], str]:
        key = Key("Pod", "default", obj["metadata"]["name"])
        found = gangs.company(key, obj)
        if found is None:
            return gangs.plugin_of(key, obj), "", 0, [], gangs.why_not(key, obj)
        of, least, members = found
        return gangs.plugin_of(key, obj), of.name, least, [k.name for k in members], gangs.why_not(key, obj)

    few = "pre-filter pod {} cannot find enough sibling pods, current pods number: 2, minMember of group: 3"
    assert known(pairs[0]) == ("Coscheduling", "pair", 3, ["pair-0", "pair-1"], few.format("pair-0"))
    assert known(pairs[2]) == ("Coscheduling", "pair", 3, ["pair-0", "pair-1"], few.format("pair-2"))
    assert known(member("Coscheduling", "nobody", 0, gpu=0)) == ("Coscheduling", "nobody", -1, [], "")
    asks = known(member("Coscheduling", "large", 0, gpu=0))
    assert asks[:4] == ("Coscheduling", "large", 1, []) and "cannot find enough sibling" in asks[4]
    assert known(pod("alone")) == ("Coscheduling", "", 0, [], "")
    held = "waiting for minCount pods from a gang to appear in scheduling queue"
    assert known(natives[0]) == ("GangScheduling", "native", 2, ["native-0"], held)
    assert known(natives[1]) == ("GangScheduling", "native", 2, ["native-0"], held)
    other = member("GangScheduling", "missing", 0, gpu=0)
    other["spec"]["schedulerName"] = "native"
    found = known(other)
    assert found[:4] == ("GangScheduling", "missing", -1, []) and found[4]
    list(world.apply(natives[1], pairs[2]).until(6))
    assert known(natives[1])[3:] == (["native-0", "native-1"], "")
    assert known(pairs[1])[3:] == (["pair-0", "pair-1", "pair-2"], "")
    list(world.ends("pair-0").until(7))
    assert known(pairs[1])[3] == ["pair-1", "pair-2"]
    list(world.apply(member("Coscheduling", "large", 0, gpu=0)).until(8))
    assert known(member("Coscheduling", "large", 0, gpu=0))[3:] == (
        ["large-0"],
        "resource gap: {'nvidia.com/gpu': '5'}",
    )


def test_who_joins_others_that_wait_is_told_why_whatever_changed_meanwhile() -> None:
    """In their words while nothing did; else it is tried, and they with it."""
    world = World(node("n", "2"), node("m", "2"), pod("first", "3"))
    list(world.until(1))
    list(world.apply(pod("second", "3")).until(2))
    assert "conditions" in world.twin.store.require(Key("Pod", "default", "second"))["status"]
    list(world.apply(pod("small")).until(3))
    list(world.apply(pod("third", "3")).until(4))
    for name in ("first", "second", "third"):
        (condition,) = world.twin.store.require(Key("Pod", "default", name))["status"]["conditions"]
        assert condition["message"].startswith("0/2 nodes are available: 2 Insufficient cpu."), name
    component = world.twin.component("default-scheduler")
    assert isinstance(component, SchedulerComponent)
    tried = [pod_.key.name for pod_ in component.queue.pods() if pod_.is_told]
    assert sorted(tried) == ["first", "second", "third"]
