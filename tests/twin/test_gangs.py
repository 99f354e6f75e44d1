"""Gangs in the twin, whichever scheduler keeps them together: all or nothing, and nobody waits for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gangworld import KINDS, cluster, gang, group, member, placed, words
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.kube.objects import Key
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US
from fairway.scheduling.coscheduling import CoschedulingArgs
from fairway.scheduling.profile import DEFAULT_PROFILE
from fairway.twin.gangs import Gangs
from fairway.twin.twin import EPOCH_US, Twin


def interleaved(*gangs: list[dict[str, object]]) -> list[dict[str, object]]:
    """Groups first, then pods in turns: what halves gangs without gang scheduling."""
    groups = [o for g in gangs for o in g if o["kind"] == "PodGroup"]
    pods = [[o for o in g if o["kind"] == "Pod"] for g in gangs]
    longest = max(len(p) for p in pods)
    return groups + [p[i] for i in range(longest) for p in pods if i < len(p)]


def test_without_gang_scheduling_both_gangs_are_halved() -> None:
    twin = cluster("plain", 4)
    twin.apply(interleaved(gang("plain", "a", 6, gpu=4), gang("plain", "b", 6, gpu=4)))
    twin.run_for(MINUTE_US)
    assert placed(twin) == {"a": 4, "b": 4}


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_gangs_one_goes_first_and_then_the_other(kind: str) -> None:
    twin = cluster(kind, 4)
    twin.apply(interleaved(gang(kind, "a", 6, gpu=4), gang(kind, "b", 6, gpu=4)))
    twin.run_for(5 * MINUTE_US)
    assert sorted(placed(twin).values()) == [6]
    twin.run_for(HOUR_US)
    assert placed(twin) == {"a": 6, "b": 6}


@pytest.mark.parametrize("kind", KINDS)
def test_a_gang_too_large_for_the_cluster_holds_nothing(kind: str) -> None:
    twin = cluster(kind, 2)
    twin.apply([*gang(kind, "big", 5, gpu=4), *gang(kind, "small", 2, gpu=8)])
    twin.run_for(HOUR_US)
    assert placed(twin) == {"small": 2}


@pytest.mark.parametrize("kind", KINDS)
def test_a_gang_waits_for_its_last_pod(kind: str) -> None:
    twin = cluster(kind, 2)
    twin.apply([*group(kind, "g", 3), *(member(kind, "g", i, gpu=1) for i in range(2))])
    twin.run_for(MINUTE_US)
    assert not placed(twin)
    twin.apply([member(kind, "g", 2, gpu=1)])
    twin.run_for(MINUTE_US)
    assert placed(twin) == {"g": 3}


@pytest.mark.parametrize("kind", KINDS)
def test_pods_before_their_group_wait_for_it(kind: str) -> None:
    twin = cluster(kind, 2)
    twin.apply([member(kind, "g", i, gpu=1) for i in range(2)])
    twin.run_for(MINUTE_US)
    assert not placed(twin)
    twin.apply(group(kind, "g", 2))
    twin.run_for(10 * MINUTE_US)
    assert placed(twin) == {"g": 2}


def test_coscheduling_gives_up_after_the_permit_timeout() -> None:
    """Seven of eight fit: 12 % are missing, but with 20 % allowed the others wait, until time is up."""
    args = CoschedulingArgs(permit_waiting_us=10 * SECOND_US, reject_percentage=20)
    twin = cluster("Coscheduling", 7, 1, args=args)
    twin.apply(gang("Coscheduling", "g", 8))
    scheduler = twin.component("default-scheduler")
    twin.run_for(5 * SECOND_US)
    assert len(scheduler.gangs.waiting) == 7  # type: ignore[attr-defined]
    twin.run_for(5 * SECOND_US)
    assert not placed(twin)
    said = {words(twin, f"g-{i}") for i in range(8)}
    timeout = "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Coscheduling."
    assert timeout in said
    assert "0/1 nodes are available: 1 rejection in Unreserve." in said


def test_coscheduling_leaves_no_claim_while_a_gang_waits() -> None:
    """Whoever waits counts on its node: a pod beside the gang does not get the place."""
    args = CoschedulingArgs(permit_waiting_us=HOUR_US, reject_percentage=100)
    twin = cluster("Coscheduling", 2, 1, args=args)
    twin.apply(gang("Coscheduling", "g", 3))
    twin.run_for(SECOND_US)
    twin.apply([member("plain", "other", 0, gpu=1)])
    twin.run_for(MINUTE_US)
    assert not placed(twin)
    twin.store.delete(Key("Pod", "default", "g-0"))
    twin.wake()
    twin.run_for(MINUTE_US)
    assert placed(twin) == {"other": 1}


DEVICE_CLAIM = "ResourceClaim.resource.k8s.io"


def with_devices(kind: str, devices: int, claims: str) -> tuple[Twin, list[dict[str, Any]]]:
    """One node with so many devices, claims of these names, and a gang of two whose pods each name the next of them."""
    twin, v1 = cluster(kind, 1), "resource.k8s.io/v1"
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    found = [{"name": f"d{i}"} for i in range(devices)]
    spec = {"driver": "d", "pool": pool, "nodeName": "n0", "devices": found}
    asked = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    twin.apply(
        [
            {"apiVersion": v1, "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec},
            {"apiVersion": v1, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        ]
    )
    for name in sorted({*claims}):
        meta = {"name": name, "namespace": "default"}
        twin.apply([{"apiVersion": v1, "kind": "ResourceClaim", "metadata": meta, "spec": asked}])
    pods = [member(kind, "g", i, gpu=0) for i in range(2)]
    for name, pod in zip(claims, pods, strict=True):
        pod["spec"]["resourceClaims"] = [{"name": "r", "resourceClaimName": name}]
    return twin, pods


@pytest.mark.parametrize("kind", KINDS[1:])
def test_devices_of_a_gang_are_promised_to_one_pod_each(kind: str) -> None:
    """A pod that waits for its gang holds its devices as it holds its place: the next one gets others, or none."""
    twin, pods = with_devices(kind, 1, "ab")
    twin.apply([*group(kind, "g", 2), *pods])
    twin.run_for(MINUTE_US)
    assert not placed(twin)
    assert any("1 cannot allocate all claims" in words(twin, f"g-{i}") for i in range(2))
    twin, pods = with_devices(kind, 2, "ab")
    twin.apply([*group(kind, "g", 2), *pods])
    twin.run_for(MINUTE_US)
    assert placed(twin) == {"g": 2}
    given = [twin.store.require(Key(DEVICE_CLAIM, "default", c))["status"]["allocation"] for c in "ab"]
    assert [[r["device"] for r in a["devices"]["results"]] for a in given] == [["d0"], ["d1"]]


@pytest.mark.parametrize("kind", KINDS[1:])
def test_devices_of_a_gang_that_goes_are_somebody_elses(kind: str) -> None:
    twin, pods = with_devices(kind, 1, "ab")
    twin.apply([*group(kind, "g", 2), *pods])
    twin.run_for(MINUTE_US)
    assert not placed(twin)
    for i in range(2):
        twin.store.delete(Key("Pod", "default", f"g-{i}"))
    alone = member("none", "alone", 0, gpu=0)
    alone["spec"]["resourceClaims"] = [{"name": "r", "resourceClaimName": "b"}]
    twin.apply([alone])
    twin.run_for(MINUTE_US)
    assert placed(twin) == {"alone": 1}


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_claim_that_a_gang_shares_is_being_allocated_while_the_first_waits(kind: str) -> None:
    twin, pods = with_devices(kind, 1, "aa")
    twin.apply([*group(kind, "g", 2), *pods])
    twin.run_for(MINUTE_US)
    assert not placed(twin)
    said = [words(twin, f"g-{i}") for i in range(2)]
    assert any("resource claim default/a is in the process of being allocated" in message for message in said)


def test_a_claim_that_goes_while_its_pod_waits_is_told_when_the_gang_is_whole() -> None:
    twin, pods = with_devices("Coscheduling", 2, "ab")
    other = twin.store.require(Key(DEVICE_CLAIM, "default", "b"))
    twin.store.delete(Key(DEVICE_CLAIM, "default", "b"))
    twin.apply([*group("Coscheduling", "g", 2), *pods])
    twin.run_for(SECOND_US)
    twin.store.delete(Key(DEVICE_CLAIM, "default", "a"))
    fork = twin.fork()
    for one in (twin, fork):
        one.apply([{**other, "metadata": {"name": "b", "namespace": "default"}}])
        one.run_for(SECOND_US)
        assert placed(one) == {"g": 1}
        gone = 'add finalizer to claim default/a: resourceclaims.resource.k8s.io "a" not found'
        assert f'running PreBind plugin "DynamicResources": {gone}' in words(one, "g-0")


def test_a_backed_off_group_is_left_alone() -> None:
    args = CoschedulingArgs(backoff_us=30 * SECOND_US)
    twin = cluster("Coscheduling", 1, 2, args=args)
    twin.apply(gang("Coscheduling", "g", 3))
    twin.run_for(10 * SECOND_US)
    twin.apply([member("Coscheduling", "g", 3, gpu=1)])
    twin.run_for(SECOND_US)
    assert not placed(twin)
    assert any("podGroup default/g failed recently" in words(twin, f"g-{i}") for i in range(4))


def test_pod_groups_of_coscheduling_say_how_far_they_are() -> None:
    twin = cluster("Coscheduling", 1)
    key = Key("PodGroup.scheduling.x-k8s.io", "default", "g")
    twin.apply([*group("Coscheduling", "g", 2), member("Coscheduling", "g", 0, gpu=1)])
    twin.run_for(SECOND_US)
    assert twin.store.require(key)["status"] == {"phase": "Pending"}
    twin.apply([member("Coscheduling", "g", 1, gpu=1)])
    twin.run_for(MINUTE_US)
    assert twin.store.require(key)["status"] == {"phase": "Running", "running": 2}
    twin.run_for(HOUR_US)
    assert twin.store.require(key)["status"] == {"phase": "Finished", "succeeded": 2}


def test_a_native_pod_group_keeps_what_else_its_status_says() -> None:
    twin = cluster("GangScheduling", 1)
    (made,) = group("GangScheduling", "g", 2)
    key = Key("PodGroup.scheduling.k8s.io", "default", "g")
    twin.apply([made])
    other = {"type": "Other", "status": "True", "reason": "X", "message": ""}
    twin.store.set_status(key, {"conditions": [other], "more": {"a": 1}})
    twin.apply([member("GangScheduling", "g", i, gpu=1) for i in range(2)])
    twin.run_for(MINUTE_US)
    status = twin.store.require(key)["status"]
    assert status["more"] == {"a": 1}
    assert [(c["type"], c["status"]) for c in status["conditions"]] == [
        ("Other", "True"),
        ("PodGroupScheduled", "True"),
    ]


def test_a_native_gang_that_has_no_room_preempts_nobody() -> None:
    twin = cluster("GangScheduling", 1)
    twin.apply([member("", "low", i, gpu=4, runs="20m") for i in range(2)])
    twin.run_for(SECOND_US)
    (made, *pods) = gang("GangScheduling", "high", 2, gpu=4)
    for one in pods:
        one["spec"]["priority"] = 1000
    twin.apply([made, *pods])
    twin.run_for(10 * MINUTE_US)
    assert placed(twin) == {"low": 2}
    twin.run_for(20 * MINUTE_US)
    assert placed(twin)["high"] == 2


def test_one_profile_of_several_is_enough_to_look_after_gangs() -> None:
    plain, gangs = DEFAULT_PROFILE, replace(DEFAULT_PROFILE, permits=frozenset({"Coscheduling"}))
    assert [Gangs.wanted({"a": a, "b": b}) for a in (plain, gangs) for b in (plain, gangs)] == [
        *(False, True, True, True)
    ]


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[str, int, int, int, int]]:
    """Gangs: name, pods, GPUs each, minMember, and when (s)."""
    count = draw(st.integers(1, 4))
    found = []
    for i in range(count):
        pods = draw(st.integers(1, 5))
        found.append(
            (f"g{i}", pods, draw(st.integers(1, 4)), draw(st.integers(1, pods)), draw(st.integers(0, 90)))
        )
    return sorted(found, key=lambda g: g[4])


def play(kind: str, program: list[tuple[str, int, int, int, int]], seed: int, *, fork: bool) -> Twin:
    twin = cluster(kind, 2, 4, seed=seed)
    for name, pods, gpu, least, at_s in program:
        twin.run(max(twin.now_us, EPOCH_US + at_s * SECOND_US))
        twin.apply(gang(kind, name, pods, gpu=gpu, least=least, runs="2m"))
        if fork:
            twin = twin.fork()
    for _ in range(30):
        twin.run_for(20 * SECOND_US)
        counts = placed(twin)
        for name, _, _, least, _ in program:
            assert counts[name] == 0 or counts[name] >= least, (name, counts)
        if fork:
            twin = twin.fork()
    # Five pods of a gang on two nodes may take three rounds of two minutes, one gang after another.
    twin.run_for(30 * MINUTE_US)
    return twin


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6, deadline=None)
@given(program=programs(), seed=st.integers(0, 3))
def test_random_gangs_are_never_half_placed_and_all_that_can_run_do(
    kind: str, program: list[tuple[str, int, int, int, int]], seed: int
) -> None:
    twin = play(kind, program, seed, fork=False)
    counts = placed(twin)
    for name, _, gpu, least, _ in program:
        assert counts[name] >= least or 2 * (4 // gpu) < least, (name, counts)
    assert twin.digest() == play(kind, program, seed, fork=True).digest()


def test_a_gang_that_was_rejected_is_as_old_as_that() -> None:
    """At 20 s half of it has room, and it is rejected: who came at 10 s goes before it from then on."""
    twin = cluster("Coscheduling", 1)
    twin.apply([member("", "two", 0, gpu=2, runs="20s"), member("", "four", 0, gpu=4, runs="60s")])
    twin.run_for(0)
    twin.apply(gang("Coscheduling", "a", 2, gpu=4, runs="30s"))
    twin.run_for(10 * SECOND_US)
    twin.apply([member("", "whole", 0, gpu=8, runs="30s")])
    twin.run_for(100 * SECOND_US)
    none = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/1 nodes "
    none += "are available: 1 No preemption victims found for incoming pod., "
    rejected = (
        f"{none}PodGroup default/a gets rejected due to Pod {{}} is unschedulable even after PostFilter"
    )
    found = [
        ((t.first_us - EPOCH_US) // SECOND_US, (t.last_us - EPOCH_US) // SECOND_US, t.about.name, t.message)
        for t in twin.host.events.told()
        if t.component == "default-scheduler"
    ]
    assert sorted(found) == sorted(
        [
            (0, 0, "two-0", "Successfully assigned default/two-0 to n0"),
            (0, 0, "four-0", "Successfully assigned default/four-0 to n0"),
            (0, 0, "a-0", rejected.format("a-0")),
            (0, 60, "a-1", rejected.format("a-1")),
            (10, 10, "whole-0", f"{none}can not find pod group"),
            (20, 20, "a-0", "0/1 nodes are available: 1 optimistic rejection in PostFilter."),
            (60, 60, "whole-0", "Successfully assigned default/whole-0 to n0"),
            (90, 90, "a-0", "Successfully assigned default/a-0 to n0"),
            (90, 90, "a-1", "Successfully assigned default/a-1 to n0"),
        ]
    )
