"""Preemption that goes round in a circle: as Kueue's does, and yet every run comes to an end.

`owner` reclaims its own from `b2`; back in its queue, the workload of `b2` goes before it, for its share is smaller
than that of `right`, where another borrows as well. Kueue's own scheduler, played this world, went round a thousand
times, and once with the gate.
"""

from __future__ import annotations

from collections import Counter

from kueueworld import KUEUE, World, flavor, job, local_queue, node, queue

from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.configuration import configured
from fairway.twin.eventlog import Record

FAIR: Obj = {"fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}}


class Circle:
    """9 of 11 GPUs are in use, 5 of them next to the owner; now it asks for its 6. Nothing takes any time."""

    def __init__(self, configuration: Obj) -> None:
        any_: Obj = {"reclaimWithinCohort": "Any"}
        world = World(configured(configuration).kueue_settings()).apply(
            cohort("root", gpus=2),
            cohort("right", "root"),
            queue("owner", 6, cohort="right", preemption=any_),
            queue("b1", 1, cohort="right", preemption=any_),
            queue("b2", 2, cohort="root", quota={"borrowingLimit": "2"}, preemption=any_),
            *(local_queue(name) for name in ("owner", "b1", "b2")),
            *(node(f"n{i}", 8) for i in range(3)),
        )
        world.apply(*(job(f"small{i}", "b1") for i in range(5)), job("large", "b2", gpus=4)).run(5)
        assert len(world.admitted()) == 6
        self.world = world
        self.told: list[Record] = []
        world.twin.host.log.sinks.append(self.told.extend)
        world.apply(job("own", "owner", gpus=6)).run(0)

    def count(self, reason: str) -> int:
        self.world.twin.host.log.flush()
        return Counter(r.reason for r in self.told)[reason]


def cohort(name: str, parent: str = "", gpus: int = 0) -> Obj:
    spec: Obj = {"resourceGroups": queue("x", gpus)["spec"]["resourceGroups"]} if gpus else {}
    if parent:
        spec["parentName"] = parent
    return {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def test_where_nothing_takes_time_a_lap_takes_a_second_from_the_fourth_on() -> None:
    circle = Circle(FAIR)
    assert circle.count("Preempted") == 3
    circle.world.run(10)
    assert circle.count("Preempted") == 13
    assert circle.count("PreemptedInCircle") >= 10
    assert "own" not in circle.world.admitted(), "as in Kueue: nothing in the circle ends it"
    circle.world.check_books()


def test_a_fork_in_the_middle_of_a_circle_goes_on_like_its_original() -> None:
    world = Circle(FAIR).world.run(2.5)
    fork = world.twin.fork()
    fork.run_for(4 * SECOND_US)
    world.run(4)
    assert fork.digest() == world.twin.digest()


def test_a_preemptor_that_goes_first_ends_the_circle() -> None:
    circle = Circle({**FAIR, "featureGates": {"PrioritizePreemptorWorkloads": True}})
    circle.world.run(5)
    assert circle.count("Preempted") == 1
    assert circle.world.admitted() == ["own", *(f"small{i}" for i in range(5))]


def test_whoever_lets_go_ends_the_circle() -> None:
    circle = Circle(FAIR)
    circle.world.run(3)
    for i in range(4):
        circle.world.delete("Job.batch", f"small{i}", "b1")
    circle.world.run(5)
    assert circle.world.admitted() == ["large", "own", "small4"]
    laps = circle.count("Preempted")
    circle.world.run(10)
    assert circle.count("Preempted") == laps


def two_flavors(**quotas: tuple[str, ...]) -> list[Obj]:
    """Of each resource, a quota in flavor one and in flavor two."""
    return [
        {"name": name, "resources": [{"name": r, "nominalQuota": q[at]} for r, q in quotas.items()]}
        for at, name in enumerate(("one", "two"))
    ]


def test_a_search_that_stands_at_two_places_in_turn_does_not_go_on_for_ever() -> None:
    """Its second pod set fits nowhere; where the search goes on from differs from one try to the next."""
    group = {"coveredResources": ["cpu"], "flavors": two_flavors(cpu=("1", "1"))}
    found = queue("q", 1, cohort="c", queueingStrategy="StrictFIFO")
    found["spec"] |= {
        "resourceGroups": [group],
        "preemption": {"reclaimWithinCohort": "Any"},
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
    }
    world = World().apply(flavor("one"), flavor("two"), found, local_queue("q"), node("n", 1))
    pod_sets = [pod_set("head", "1"), pod_set("w", "8"), pod_set("submitter", "500m")]
    waits = {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": "waits", "namespace": "q"},
        "spec": {"queueName": "lq", "podSets": pod_sets},
    }
    world.apply(waits)
    world.twin.run(world.twin.now_us + 60 * SECOND_US, limit=5_000)
    assert world.kueue.cycles.number < 20
    # What changes is heard.
    world.apply(group_of(found, two_flavors(cpu=("10", "1")))).run(5)
    (workload,) = world.objects("Workload.kueue.x-k8s.io")
    assert {c["type"]: c["status"] for c in workload["status"]["conditions"]}["QuotaReserved"] == "True"


def group_of(found: Obj, flavors: list[Obj]) -> Obj:
    groups = [{**found["spec"]["resourceGroups"][0], "flavors": flavors}]
    return {**found, "spec": {**found["spec"], "resourceGroups": groups}}


def pod_set(name: str, cpu: str) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"name": name, "count": 1, "template": {"spec": spec}}
