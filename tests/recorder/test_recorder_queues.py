"""Tables of queues, against what Kueue's books said at the time, and by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.control.settings import KueueSettings
from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.quota.lending import loans_of
from fairway.queueing.quota.shares import share_of
from fairway.recorder import Outcome, Recorder
from fairway.recorder.queueseries import POINTS
from fairway.recorder.queuetables import QuotaRow
from fairway.scenario.entering import create_or_replace
from fairway.twin.kueue.component import Kueue
from fairway.twin.latency import NONE
from fairway.twin.standard import standard_components
from fairway.twin.twin import EPOCH_US, Twin

GPU = "nvidia.com/gpu"
FR = FlavorResource("default", GPU)
_API = "kueue.x-k8s.io/v1beta2"


class World:
    """A cluster with Kueue and a recorder; times are seconds since it began."""

    def __init__(self, **settings: Any) -> None:
        self.recorder = Recorder()
        kueue = KueueSettings(pods_ready=None, **settings)
        components = [*standard_components(kueue=kueue), self.recorder]
        self.twin = Twin(latency=NONE, components=components)
        self.apply(
            {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": "default"}, "spec": {}}
        )

    @property
    def kueue(self) -> Kueue:
        found = self.twin.component("kueue")
        assert isinstance(found, Kueue)
        return found

    def apply(self, *objects: Obj) -> World:
        for obj in objects:
            create_or_replace(self.twin.host, obj)
        self.twin.wake()
        return self

    def queue(self, name: str, gpus: int, cohort: str = "", weight: str = "", **limits: int) -> World:
        """A ClusterQueue, a namespace and a LocalQueue of one name."""
        quota = {"name": GPU, "nominalQuota": gpus, **limits}
        spec: dict[str, Any] = {
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [
                {"coveredResources": [GPU], "flavors": [{"name": "default", "resources": [quota]}]}
            ],
        }
        if cohort:
            spec["cohortName"] = cohort
        if weight:
            spec["fairSharing"] = {"weight": weight}
        return self.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            {"apiVersion": _API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec},
            {
                "apiVersion": _API,
                "kind": "LocalQueue",
                "metadata": {"name": "main", "namespace": name},
                "spec": {"clusterQueue": name},
            },
        )

    def job(self, name: str, queue: str, gpus: int, seconds: int, pods: int = 1, priority: str = "") -> World:
        template: dict[str, Any] = {
            "metadata": {"annotations": {"fairway.dev/run-time": f"{seconds}s"}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i", "resources": {"limits": {GPU: gpus}}}],
            },
        }
        labels = {"kueue.x-k8s.io/queue-name": "main"}
        if priority:
            labels["kueue.x-k8s.io/priority-class"] = priority
        return self.apply(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": name, "namespace": queue, "labels": labels},
                "spec": {"parallelism": pods, "completions": pods, "template": template},
            }
        )

    def nodes(self, count: int, gpus: int = 8) -> World:
        offers = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
        return self.apply(
            *(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": f"n{i}"},
                    "status": {
                        "capacity": offers,
                        "allocatable": offers,
                        "conditions": [{"type": "Ready", "status": "True"}],
                    },
                }
                for i in range(count)
            )
        )

    def at(self, seconds: float) -> World:
        self.twin.run(EPOCH_US + round(seconds * SECOND_US))
        return self

    def outcome(self) -> Outcome:
        return self.recorder.outcome()


def _sample(world: World, queues: tuple[str, ...]) -> dict[str, tuple[float, ...]]:
    """Used, borrowed, weighted share, waiting, of every queue: what the books say now."""
    backlog = world.kueue.backlog
    backlog.accounts.settle()
    found = {}
    for name in queues:
        account = backlog.accounts.queues[name]
        used = account.usage.get(FR, 0)
        over = max(0, used - account.subtree[FR])
        found[name] = (used, over, share_of(account).weighted, backlog.pending_in(name))
    return found


@pytest.mark.parametrize("fair", [False, True])
def test_rows_say_what_the_books_said(fair: bool) -> None:
    draws = random.Random(7)
    world = World(uses_fair_sharing=fair).nodes(4)
    world.queue("a", 8, "all", "2").queue("b", 8, "all").queue("c", 4, "all", lendingLimit=2).queue("d", 4)
    queues = ("a", "b", "c", "d")
    samples: list[tuple[float, dict[str, tuple[float, ...]], dict[str, int]]] = []
    for step in range(40):
        world.at(5 * step)
        if step < 25:
            for n in range(draws.randint(0, 2)):
                pods = draws.choice((1, 1, 2, 4))
                name = f"j{step}-{n}"
                world.job(name, draws.choice(queues), draws.choice((1, 2)), draws.randint(5, 60), pods)
        world.at(5 * step + 3.5)
        lent: dict[str, int] = {}
        for loan in loans_of(world.kueue.backlog.accounts.cohorts["all"], FR):
            lent[loan.lender] = lent.get(loan.lender, 0) + loan.amount
        samples.append((5 * step + 3.5, _sample(world, queues), lent))
    world.at(300)
    outcome = world.outcome()
    stretches = {(r.start_us, r.end_us) for r in outcome.queues.quotas}
    assert 10 < len(stretches) <= POINTS
    assert any(s["a"][1] or s["b"][1] or s["c"][1] for _, s, _ in samples), "somebody has to borrow"
    for seconds, said, lent in samples:
        moment = EPOCH_US + round(seconds * SECOND_US)
        for row in outcome.queues.quotas:
            if row.start_us <= moment < row.end_us:
                used, over, _, _ = said[row.cluster_queue]
                in_cohort = row.cluster_queue != "d"
                assert (row.used, row.borrowed) == (used, over if in_cohort else 0), (seconds, row)
                assert row.lent == pytest.approx(lent.get(row.cluster_queue, 0), abs=1)
        for line in outcome.queues.queues:
            if line.start_us <= moment < line.end_us:
                _, _, share, waiting = said[line.cluster_queue]
                assert (line.weighted_share, line.pending) == (pytest.approx(share), waiting), (seconds, line)
                assert line.weight == (2.0 if line.cluster_queue == "a" else 1.0)


def test_what_is_borrowed_is_lent() -> None:
    world = World().nodes(2).queue("a", 2, "all").queue("b", 6, "all").job("one", "a", 6, 50).at(10)
    rows = [r for r in world.outcome().queues.quotas if r.end_us - r.start_us > SECOND_US]
    assert [(r.cluster_queue, r.used, r.borrowed, r.lent) for r in rows] == [("a", 6, 4, 0), ("b", 0, 0, 4)]


def test_a_preemption_from_both_sides() -> None:
    world = World().nodes(2)
    for name, value in (("high", 100), ("low", 1)):
        kind = {"apiVersion": _API, "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
        world.apply({**kind, "value": value})
    world.queue("a", 8).job("first", "a", 8, 600, priority="low").at(60)
    world.job("second", "a", 4, 100, pods=2, priority="high").at(800)
    outcome = world.outcome()
    rows = {r.owner_name: r for r in outcome.queues.workloads}
    first, second = rows["first"], rows["second"]
    assert (first.evictions, first.preemptions, first.eviction) == (1, 1, "Preempted")
    assert (first.preemption, first.preempted_by) == ("InClusterQueue", f"a/{second.name}")
    assert (second.pods, second.is_gang, second.gpu_milli, second.outcome) == (2, True, 8000, "Finished")
    assert (first.priority, first.priority_class) == (1, "low")
    assert first.wait_us == 0 and first.waited_us > 100 * SECOND_US
    assert first.flavors == {GPU: "default"} and first.requests == {GPU: "8"}
    (eviction,) = outcome.queues.evictions
    assert (eviction.cluster_queue, eviction.preemptor_cluster_queue) == ("a", "a")
    assert eviction.ran_us == pytest.approx(60 * SECOND_US, abs=SECOND_US)
    assert eviction.gpu_milli == 8000
    ended = [p for p in outcome.pods if p.queue_eviction]
    assert [(p.root_name, p.queue_eviction, p.preempted_by) for p in ended] == [
        ("first", "Preempted", f"a/{second.name}")
    ]
    assert all(p.cluster_queue == "a" for p in outcome.pods) and ended[0].is_evicted and ended[0].is_wasted
    holds = [h for h in outcome.queues.holds if h.name == first.name]
    assert [h.amount for h in holds] == [8, 8] and holds[0].end_us is not None


def test_waits_go_on_until_the_end_and_say_why() -> None:
    world = World().nodes(1).queue("a", 4).job("big", "a", 8, 10).at(20)
    (row,) = world.outcome().queues.workloads
    assert (row.outcome, row.wait_us, row.waited_us) == ("Pending", None, 20 * SECOND_US)
    assert row.reason == "ExceedsMaxQuota" and GPU in row.message
    world.twin.store.delete(Key("Job.batch", "a", "big"))
    world.twin.wake()
    (row,) = world.at(40).outcome().queues.workloads
    assert row.outcome == "Deleted" and row.waited_us < 25 * SECOND_US


def test_rows_end_where_the_quota_changes() -> None:
    world = World().nodes(2).queue("a", 4).job("j", "a", 4, 100).at(20).queue("a", 2).at(40)
    rows = [r for r in world.outcome().queues.quotas if r.end_us > r.start_us]
    assert [(r.nominal, r.used) for r in _merged(rows)] == [(4, 4), (2, 4)]


def _merged(rows: list[QuotaRow]) -> list[QuotaRow]:
    found: list[QuotaRow] = []
    for row in rows:
        if not found or (found[-1].nominal, found[-1].used) != (row.nominal, row.used):
            found.append(row)
    return found


def test_fairness_is_between_those_that_contend() -> None:
    world = World().nodes(1).queue("a", 4, "all").queue("b", 4, "all")
    world.job("long", "a", 8, 100).at(10)
    assert all(r.jain is None for r in world.outcome().queues.fairness), "one alone"
    # b has nothing of its own while a is on its way out: as unfair as it gets.
    world.job("other", "b", 8, 50).at(11)
    last = [r.jain for r in world.outcome().queues.fairness if r.jain is not None]
    assert last and min(last) == pytest.approx(0.5)


def test_nothing_is_kept_without_kueue() -> None:
    world = World().nodes(1)
    world.twin.store.delete(Key("ResourceFlavor.kueue.x-k8s.io", "", "default"))
    world.twin.wake()
    assert world.at(5).outcome().queues.is_empty


def test_a_fork_goes_on_alone() -> None:
    world = World().nodes(1).queue("a", 8).job("one", "a", 8, 100).at(10)
    twin = world.twin.fork()
    world.job("two", "a", 8, 100).at(300)
    twin.run(EPOCH_US + 300 * SECOND_US)
    recorder = twin.component("recorder")
    assert isinstance(recorder, Recorder)
    assert len(recorder.outcome().queues.workloads) == 1
    assert [r.outcome for r in world.outcome().queues.workloads] == ["Finished", "Finished"]
