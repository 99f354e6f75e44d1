"""Which pods leave devices that were tainted, when, and what calls it off: the device taint eviction by itself."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Key, Obj, key_of
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.twin.devices.evicting import DeviceTaintEviction
from fairway.twin.latency import NONE
from fairway.twin.twin import EPOCH_US, Twin

S = SECOND_US
NO_EXECUTE = "NoExecute"
SLICE = "ResourceSlice.resource.k8s.io"


def taint(key: str = "bad", effect: str = NO_EXECUTE, value: str = "x", added_s: int | None = 0) -> Obj:
    at = {} if added_s is None else {"timeAdded": rfc3339(EPOCH_US + added_s * S)}
    return {"key": key, "value": value, "effect": effect, **at}


def tolerates(seconds: int | None = None, key: str = "bad", effect: str = NO_EXECUTE, **more: str) -> Obj:
    lasts = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": effect, **lasts, **more}


def devices(
    *taints: Obj, name: str = "s", generation: int = 1, pool: str = "n", device: str = "gpu-0"
) -> Obj:
    """A slice with one device, and another that is well."""
    listed = [{"name": "well"}, {"name": device, **({"taints": list(taints)} if taints else {})}]
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "n",
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
        "devices": listed,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": name},
        "spec": spec,
    }


def claim(
    *tolerations: Obj,
    name: str = "c",
    users: tuple[str, ...] = ("p",),
    pool: str = "n",
    device: str = "gpu-0",
) -> Obj:
    result: Obj = {"request": "r", "driver": "gpu.example.com", "pool": pool, "device": device}
    if tolerations:
        result["tolerations"] = list(tolerations)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "d", "uid": name},
        "spec": {},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": u, "uid": u} for u in users],
        },
    }


def pod(name: str = "p", *claims: str, node: str = "n", held: bool = True) -> Obj:
    named = [{"name": f"e{i}", "resourceClaimName": c} for i, c in enumerate(claims or ("c",))]
    spec: Obj = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": named}
    if node:
        spec["nodeName"] = node
    meta: Obj = {"name": name, "namespace": "d", "uid": name}
    if held:
        meta["finalizers"] = ["x/y"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Running"}}


class World:
    def __init__(self, *objects: Obj) -> None:
        self.twin = Twin(latency=NONE, components=[DeviceTaintEviction()])
        self.load(*objects)

    def load(self, *objects: Obj) -> World:
        """What is there already gets its devices, or its status."""
        store = self.twin.store
        for obj in objects:
            key = key_of(obj)
            if store.get(key) is None:
                store.load(obj)
            elif obj["kind"] == "ResourceSlice":
                store.patch(key, {"spec": {"devices": obj["spec"]["devices"]}})
            else:
                store.set_status(key, obj["status"])
        self.twin.wake()
        self.twin.run(self.twin.now_us)
        return self

    def until(self, at_s: int) -> World:
        self.twin.run(EPOCH_US + at_s * S)
        return self

    def going(self) -> list[str]:
        pods = self.twin.store.objects("Pod")
        return [p["metadata"]["name"] for p in pods if "deletionTimestamp" in p["metadata"]]

    def said(self, name: str = "p") -> list[tuple[int, str, str, str]]:
        told = self.twin.host.events.about(Key("Pod", "d", name))
        return [((t.last_us - EPOCH_US) // S, t.type, t.reason, t.message) for t in told]


MARKED = ("Normal", "DeviceTaintManagerEviction", "Marking for deletion")
CANCELLED = ("Normal", "DeviceTaintManagerEviction", "Cancelling deletion")

# When a pod goes, in seconds; None: never.
CASES: dict[str, tuple[list[Obj], list[Obj], int | None]] = {
    "no taint": ([], [], None),
    "one that keeps others away alone": ([taint(effect="NoSchedule")], [], None),
    "one that nobody tolerates": ([taint()], [], 0),
    "one from before": ([taint(added_s=-100)], [], 0),
    "tolerated for ever": ([taint()], [tolerates()], None),
    "tolerated for a while": ([taint()], [tolerates(30)], 30),
    "tolerated for a while, since before": ([taint(added_s=-20)], [tolerates(30)], 10),
    "tolerated for a while that is over": ([taint(added_s=-50)], [tolerates(30)], 0),
    "without a time it is new now": ([taint(added_s=None)], [tolerates(30)], 30),
    "the shortest of several tolerations": ([taint()], [tolerates(50), tolerates(20), tolerates(70)], 20),
    "for ever beside a while": ([taint()], [tolerates(20), tolerates()], None),
    "for less than no time": ([taint()], [tolerates(-5)], 0),
    "another key": ([taint()], [tolerates(key="other")], 0),
    "another effect": ([taint()], [tolerates(effect="NoSchedule")], 0),
    "another value": ([taint()], [tolerates(operator="Equal", value="y")], 0),
    "its value": ([taint()], [tolerates(operator="Equal", value="x")], None),
    "every key": ([taint()], [tolerates(key="")], None),
    "two taints, of which one is not tolerated": ([taint(), taint("worse")], [tolerates()], 0),
    "two taints, the first to be over": (
        [taint(), taint("worse")],
        [tolerates(40), tolerates(20, "worse")],
        20,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_when_a_pod_goes(name: str) -> None:
    taints, tolerations, at_s = CASES[name]
    world = World(devices(*taints), pod(), claim(*tolerations))
    if at_s is None:
        assert (world.until(1000).going(), world.said()) == ([], [])
        return
    if at_s:
        assert (world.until(at_s - 1).going(), world.said()) == ([], [])
    assert world.until(at_s).going() == ["p"] and world.said() == [(at_s, *MARKED)]
    (condition,) = world.twin.store.require(Key("Pod", "d", "p"))["status"]["conditions"]
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByDeviceTaintManager",
        "message": "Device Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": rfc3339(EPOCH_US + at_s * S),
    }
    # It is asked once.
    assert world.until(1000).said() == [(at_s, *MARKED)]


def test_whom_it_concerns() -> None:
    """Who uses the device, on a node, by a claim that is reserved for it; nobody of another device or pool."""
    world = World(
        devices(taint()),
        *(pod("p"), pod("q"), pod("unreserved"), pod("nowhere", node=""), pod("well", "w"), pod("far", "f")),
        *(pod("both", "w2", "c"), pod("none", "missing")),
        claim(users=("p", "q", "nowhere", "both", "gone")),
        claim(name="w", users=("well",), device="well"),
        claim(name="w2", users=("both",), device="well"),
        claim(name="f", users=("far",), pool="m"),
    )
    assert world.until(1).going() == ["both", "p", "q"]


@pytest.mark.parametrize(
    "mended",
    [
        [devices()],
        [devices(taint(effect="NoSchedule"))],
        [devices(taint("other")), claim(tolerates(key="other"))],
        [claim(tolerates())],
    ],
)
def test_what_calls_it_off(mended: list[Obj]) -> None:
    world = World(devices(taint()), pod(), claim(tolerates(60))).until(30)
    world.load(*mended)
    assert (world.until(1000).going(), world.said()) == ([], [(30, *CANCELLED)])
    # What comes again has its time from then.
    world.load(devices(taint(added_s=1000)), claim(tolerates(60)))
    assert world.until(1059).going() == [] and world.until(1060).going() == ["p"]


def test_what_was_called_off_is_not_done_when_it_would_have_been() -> None:
    world = World(devices(taint()), pod(), claim(tolerates(60))).until(10)
    world.load(devices())
    assert world.until(30).said() == [(10, *CANCELLED)]
    world.load(devices(taint(added_s=30)))
    assert world.until(89).going() == [] and world.until(90).going() == ["p"]


def test_a_time_that_changes_moves_it() -> None:
    world = World(devices(taint()), pod(), claim(tolerates(60))).until(10)
    world.load(claim(tolerates(90)))
    assert world.until(89).going() == [] and world.said() == []
    world.load(claim(tolerates(85)))
    assert world.going() == ["p"] and world.said() == [(89, *MARKED)]


def test_a_pod_that_is_gone_or_goes_is_left_alone() -> None:
    world = World(devices(taint()), pod(held=False), pod("q"), claim(tolerates(60), users=("p", "q"))).until(
        10
    )
    for name in ("p", "q"):
        world.twin.store.delete(Key("Pod", "d", name), grace_s=0)
    world.twin.wake()
    assert world.until(1000).going() == ["q"]
    assert (world.said(), world.said("q")) == ([], [])


def test_the_newest_generation_of_a_pool_counts() -> None:
    old, new = devices(taint(), name="a", generation=1), devices(name="b", generation=2)
    assert World(old, new, pod(), claim()).until(5).going() == []
    assert World(devices(name="a"), devices(taint(), name="b", generation=2), pod(), claim()).until(
        5
    ).going() == ["p"]
    # Slices of one generation are parts of one pool.
    parts = devices(name="a", device="gpu-7"), devices(taint(), name="b")
    assert World(*parts, pod(), claim()).until(5).going() == ["p"]
    # With its slice its taint goes, too.
    world = World(devices(taint()), pod(), claim(tolerates(60))).until(5)
    world.twin.store.delete(Key(SLICE, "", "s"))
    world.twin.wake()
    assert world.until(100).going() == [] and world.said() == [(5, *CANCELLED)]


def test_what_comes_after_the_taint_is_seen_too() -> None:
    world = World(devices(taint(added_s=-100))).until(5)
    assert world.load(pod(), claim(tolerates(130))).until(29).going() == []
    assert world.until(30).going() == ["p"]
    assert world.load(pod("late"), claim(name="c", users=("p", "late"))).until(31).going() == ["late", "p"]


def test_a_copy_evicts_alone() -> None:
    world = World(devices(taint()), pod(), claim(tolerates(60))).until(10)
    fork: Any = world.twin.fork()
    fork.run(EPOCH_US + 60 * S)
    assert "deletionTimestamp" in fork.store.require(Key("Pod", "d", "p"))["metadata"]
    assert world.going() == [] and world.until(60).going() == ["p"]
    # Whoever comes to a tainted device later is seen by both.
    for one in (world.twin, fork):
        one.store.load(pod("late"))
        one.store.load(claim(name="later", users=("late",)))
        one.store.patch(
            Key("Pod", "d", "late"),
            {"spec": {"resourceClaims": [{"name": "e", "resourceClaimName": "later"}]}},
        )
        one.run_for(S)
        assert "deletionTimestamp" in one.store.require(Key("Pod", "d", "late"))["metadata"]
