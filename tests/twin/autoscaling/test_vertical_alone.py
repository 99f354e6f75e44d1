"""One round of the vertical autoscaler's updater and one sample of its recommender, each alone."""

from __future__ import annotations

from typing import Any

import pytest
from scalingstory import NAMES, S, World, deployment, pod
from test_stories_of_scaling import vertical

from fairway.autoscaling.source import PodUsage
from fairway.autoscaling.vpa.recommending import Usage, add_cpu, add_memory, add_oom
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US
from fairway.twin.autoscaling.vertical import Entry, _requested
from fairway.twin.twin import EPOCH_US

MIB = 2**20
KEY = Key(NAMES["VPA"], "default", "web")
TOLD = {
    "containerName": "c",
    "target": {"cpu": "2", "memory": "2Gi"},
    "lowerBound": {"cpu": "1500m", "memory": "1536Mi"},
    "upperBound": {"cpu": "3", "memory": "3Gi"},
}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
UNDER_WAY = {"type": "PodResizeInProgress", "status": "True"}


def replicas(name: str, count: int | None) -> Obj:
    spec = {"selector": {"matchLabels": {"app": "web"}}} | ({} if count is None else {"replicas": count})
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}


class Round(World):
    """With groups of so many pods each, named by group and number; nobody else does anything."""

    def __init__(self, mode: str = "InPlaceOrRecreate", least: int = 2, **groups: int) -> None:
        super().__init__(None, deployment(), vertical(mode, update={"minReplicas": least}))
        self.twin.run(self.twin.now_us)
        self.uids: dict[str, str] = {}
        for group, count in groups.items():
            self.apply(replicas(group, count))
            self.uids[group] = self.twin.store.require(Key("ReplicaSet.apps", "default", group))["metadata"][
                "uid"
            ]
            for number in range(count):
                self.add(f"{group}{number}", group)

    def add(self, name: str, group: str, phase: str = "Running", *conditions: Obj, **more: Any) -> Round:
        made = pod(name, owner=group, **more)
        if group:
            made["metadata"]["ownerReferences"][0]["uid"] = self.uids.get(group, group)
        self.apply(made)
        self.status("Pod", name, phase=phase, conditions=list(conditions), startTime="2026-01-05T00:00:00Z")
        return self

    def say(self, name: str, *conditions: Obj) -> None:
        self.status("Pod", name, conditions=list(conditions))

    def pods(self, *names: str) -> list[Obj]:
        found = self.twin.store.objects("Pod")
        return [p for p in found if not names or p["metadata"]["name"] in names]

    @property
    def entry(self) -> Entry:
        return self.part.vertical.entries[KEY]

    def resize(self, left: dict[str, int], *names: str) -> tuple[list[str], dict[str, int], list[str]]:
        """Who is to be evicted instead, how many more may be disturbed, and who was resized."""
        left = {self.uids.get(group, group): count for group, count in left.items()}
        before = {p["metadata"]["name"]: p["spec"] for p in self.pods()}
        autoscaler = self.twin.store.require(KEY)
        rest = self.part.vertical._resize(KEY, autoscaler, self.pods(*names), {"c": TOLD}, left)
        changed = [p["metadata"]["name"] for p in self.pods() if p["spec"] != before[p["metadata"]["name"]]]
        named = {uid: group for group, uid in self.uids.items()}
        return [p["metadata"]["name"] for p in rest], {named.get(u, u): n for u, n in left.items()}, changed

    def update(self) -> list[str]:
        """Who is left after one round."""
        self.part.vertical._update(
            KEY,
            self.twin.store.require(KEY),
            self.pods(),
            {"recommendation": {"containerRecommendations": [TOLD]}},
        )
        return [p["metadata"]["name"] for p in self.pods() if "deletionTimestamp" not in p["metadata"]]

    def later(self, us: int) -> None:
        self.twin.run(self.twin.now_us + us)


def test_as_many_are_resized_as_may_be_disturbed_each_of_its_group() -> None:
    world = Round(a=3, b=2)
    assert world.resize({"a": 2, "b": 1}) == ([], {"a": 0, "b": 0}, ["a0", "a1", "b0"])
    requests = [p["spec"]["containers"][0]["resources"]["requests"] for p in world.pods()]
    assert requests == [TOLD["target"]] * 2 + [{"cpu": "1", "memory": "1Gi"}] + [TOLD["target"]] + [
        {"cpu": "1", "memory": "1Gi"}
    ]
    told = [(t.about.name, t.uid, t.reason, t.component) for t in world.twin.host.events.told()]
    uids = {p["metadata"]["name"]: p["metadata"]["uid"] for p in world.pods()}
    assert told == [(n, uids[n], "InPlaceResizedByVPA", "vpa-updater") for n in ("a0", "a1", "b0")]
    assert world.resize({"a": 0}) == ([], {"a": 0}, [])


def test_a_pod_of_nobody_or_of_a_group_that_is_not_counted_is_left_alone() -> None:
    world = Round(a=1, b=1)
    world.add("bare", "").add("lost", "gone")
    assert world.resize({"a": 1}) == ([], {"a": 0}, ["a0"])
    assert world.resize({"gone": 1}, "lost", "bare") == ([], {"gone": 0}, ["lost"])


def test_one_whose_class_of_service_would_change_is_evicted_instead() -> None:
    world = Round(a=0)
    both = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    world.patch("VPA", "web", {"spec": {"resourcePolicy": {"containerPolicies": [REQUESTS_ONLY]}}})
    world.add("sure", "a", resources=both).add("plain", "a")
    # It takes nobody's turn here: that is counted where it is evicted.
    assert world.resize({"a": 2}) == (["sure"], {"a": 1}, ["plain"])


REQUESTS_ONLY = {"containerName": "*", "controlledValues": "RequestsOnly"}


def test_one_that_waits_for_a_node_or_is_being_resized_is_not_touched() -> None:
    world = Round(a=0)
    world.add("waits", "a", "Pending").add("deferred", "a", "Running", DEFERRED)
    world.add("under-way", "a", "Running", UNDER_WAY)
    assert world.resize({"a": 3}) == ([], {"a": 3}, [])
    assert sorted(world.entry.resizing_us.values()) == [world.twin.now_us] * 2


@pytest.mark.parametrize(("condition", "limit_us"), [(DEFERRED, 5 * MINUTE_US), (UNDER_WAY, 60 * MINUTE_US)])
def test_a_resize_has_its_time_from_when_it_was_first_seen(condition: Obj, limit_us: int) -> None:
    """To the moment; anew where there was none at a look between; for each pod by itself."""
    world = Round(a=0)
    world.add("p", "a", "Running", condition)
    first_us = world.twin.now_us
    assert world.resize({"a": 1}) == ([], {"a": 1}, [])
    world.later(30 * S)
    world.add("q", "a", "Running", condition)
    world.resize({"a": 0})
    world.later(limit_us - 30 * S)
    assert world.resize({"a": 1}) == ([], {"a": 1}, [])
    uids = [p["metadata"]["uid"] for p in world.pods("p", "q")]
    assert [world.entry.resizing_us[uid] for uid in uids] == [first_us, first_us + 30 * S]
    world.later(1)
    assert world.resize({"a": 0}) == ([], {"a": 0}, [])
    assert world.resize({"a": 1}) == (["p"], {"a": 1}, [])
    # Carried out: the next one begins anew, and one that is there no more is not remembered for ever.
    world.say("p")
    world.resize({"a": 0})
    assert list(world.entry.resizing_us) == uids[1:]
    world.say("p", condition)
    world.later(1)
    assert world.resize({"a": 1}, "p") == ([], {"a": 1}, [])
    assert world.entry.resizing_us[uids[0]] == world.twin.now_us


def test_a_round_of_evictions() -> None:
    """Half of a group that is all there; the rest waits for the next round; one alone stays, as does one of nobody."""
    world = Round("Recreate", a=4, b=1)
    world.add("bare", "")
    uids = {p["metadata"]["name"]: p["metadata"]["uid"] for p in world.pods()}
    uids["web"] = world.twin.store.require(KEY)["metadata"]["uid"]
    assert world.update() == ["a2", "a3", "b0", "bare"]
    told = [(t.about.name, t.uid, t.type, t.reason, t.component) for t in world.twin.host.events.told()]
    assert told == [
        (name, uids[name], "Normal", reason, "vpa-updater")
        for name, reason in (
            *(("a0", "EvictedByVPA"), ("web", "EvictedPod")),
            *(("a1", "EvictedByVPA"), ("web", "EvictedPod")),
        )
    ]
    # Two of four are gone: nobody else may go.
    assert world.update() == ["a2", "a3", "b0", "bare"]


def test_one_that_waits_for_a_node_is_evicted_beside_those_that_may_go() -> None:
    """It disturbs nobody and takes nobody's turn."""
    world = Round("Recreate", a=4)
    world.add("a4", "a", "Pending").add("a5", "a", "Pending")
    assert world.update() == ["a2", "a3"]


def test_one_that_is_leaving_is_no_candidate_but_there() -> None:
    world = Round("Recreate", a=4)
    world.patch("Pod", "a0", {"metadata": {"finalizers": ["x/y"]}})
    world.delete("Pod", "a0")
    assert world.update() == ["a3"]


def test_one_that_its_budget_keeps_takes_nobodys_turn() -> None:
    world = Round("Recreate", a=4)
    world.patch("Pod", "a0", {"metadata": {"labels": {"held": "yes"}}})
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"held": "yes"}}}
    meta = {"name": "b", "namespace": "default"}
    world.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec})
    assert world.update() == ["a0", "a3"]


@pytest.mark.parametrize(
    ("configured", "running", "least", "allowed"),
    [
        (4, 4, 2, 2),
        (4, 3, 2, 1),
        (4, 2, 2, 0),
        (None, 4, 2, 2),
        (None, 5, 2, 2),
        (1, 1, 2, 0),
        (1, 1, 1, 1),
        (1, 0, 1, 0),
        (2, 2, 3, 0),
    ],
)
def test_how_many_of_a_group_may_go(configured: int | None, running: int, least: int, allowed: int) -> None:
    """A group that is not there, or says no number, has as many as run. One that does not run is of the group."""
    world = Round(least=least, a=0)
    world.apply(replicas("b", configured))
    world.uids["b"] = world.twin.store.require(Key("ReplicaSet.apps", "default", "b"))["metadata"]["uid"]
    for number in range(running):
        world.add(f"b{number}", "b")
    world.add("ended", "b", "Failed").add("bare", "")
    found = world.part.vertical._allowed(world.twin.store.require(KEY), world.pods())
    assert found == {world.uids["b"]: allowed}


def out_of_memory(at: str, reason: str = "OOMKilled") -> Obj:
    ended = {"reason": reason, "finishedAt": at, "startedAt": "2026-01-05T00:00:00Z", "exitCode": 137}
    return {"name": "c", "lastState": {"terminated": ended}}


def test_each_end_for_want_of_memory_counts_once() -> None:
    """By what the container asks for, where it does; another pod's of the same moment is another."""
    world, entry = Round(a=2), Entry()
    sample = world.part.vertical._sample
    one, other = world.pods("a0", "a1")
    sample(entry, {**one, "status": {"containerStatuses": [{"name": "c"}]}}, None)
    sample(
        entry,
        {**one, "status": {"containerStatuses": [out_of_memory("2026-01-05T00:01:00Z", "Error")]}},
        None,
    )
    assert (entry.usages, entry.ooms) == ({}, {})
    told = []
    for who, at in (
        (one, "2026-01-05T00:01:00Z"),
        (one, "2026-01-05T00:01:00Z"),
        (other, "2026-01-05T00:01:00Z"),
        (one, "2026-01-05T00:02:00Z"),
    ):
        sample(entry, {**who, "status": {"containerStatuses": [out_of_memory(at)]}}, None)
        told.append(len(entry.ooms))
    assert told == [1, 1, 2, 2]
    assert entry.ooms == {
        f"{one['metadata']['uid']}/c": "2026-01-05T00:02:00Z",
        f"{other['metadata']['uid']}/c": "2026-01-05T00:01:00Z",
    }
    want = Usage()
    for who, at_s in ((one, 60), (other, 60), (one, 120)):
        add_oom(want, who["metadata"]["uid"], 2**30, EPOCH_US + at_s * S)
    assert entry.usages == {"c": want}


def test_a_sample_counts_once_for_each_pod() -> None:
    """By container; a later one of the same scrape, or an older one, is none."""
    world, entry = Round(a=2), Entry()
    one, other = world.pods("a0", "a1")
    want = {"c": Usage(), "side": Usage()}

    def amounts(cpu: int) -> dict[str, dict[str, int]]:
        return {
            name: {"cpu": cpu * n, "memory": cpu * n * MIB * 1000 + 999} for n, name in enumerate(want, 1)
        }

    for who, at_s, cpu, counts in (
        (one, 15, 100, True),
        (one, 15, 900, False),
        (other, 15, 300, True),
        (one, 14, 900, False),
        (one, 30, 200, True),
    ):
        at_us = EPOCH_US + at_s * S
        world.part.vertical._sample(entry, who, PodUsage(at_us, 15 * S, amounts(cpu)))
        for number, usage in enumerate(want.values(), 1):
            if counts:
                add_cpu(usage, cpu * number, at_us)
                add_memory(usage, who["metadata"]["uid"], cpu * number * MIB, at_us)
        assert entry.usages == want
    assert entry.sampled_us == {
        one["metadata"]["uid"]: EPOCH_US + 30 * S,
        other["metadata"]["uid"]: EPOCH_US + 15 * S,
    }


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        (None, 0),
        ({}, 0),
        ({"requests": {"cpu": "1"}}, 0),
        ({"limits": {"memory": "1Gi"}}, 0),
        ({"requests": {"memory": "1Gi"}}, 2**30),
        ({"requests": {"memory": "1500m"}}, 2),
    ],
)
def test_what_a_container_asks_for(resources: Obj | None, want: int) -> None:
    other = {"name": "other", "resources": {"requests": {"memory": "7"}}}
    own = {"name": "c"} if resources is None else {"name": "c", "resources": resources}
    assert _requested({"spec": {"containers": [other, own]}}, "c") == want
    assert _requested({"spec": {"containers": [other]}}, "c") == 0
