"""Volcano's sessions: who is bound, who is evicted, and what everybody is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from volcanoworld import World, bound, condition, evicted, phase

from fairway.volcano.configuration import (
    DEFAULT_CONFIGURATION,
    PluginOption,
    VolcanoConfiguration,
)
from fairway.volcano.facts import Floats, Ints, NoOpinion, Refusals

ALL_ACTIONS = replace(
    DEFAULT_CONFIGURATION, actions=("enqueue", "allocate", "backfill", "preempt", "reclaim")
)
# Gang has a say in preemption, and no later tier overrules it.
SPARING = replace(
    ALL_ACTIONS,
    tiers=((PluginOption("priority"), PluginOption("gang")), (PluginOption("proportion"),)),
)
ONE_TIER = replace(ALL_ACTIONS, tiers=((PluginOption("gang"), PluginOption("proportion")),))


def test_a_gang_that_fits_is_bound_whole() -> None:
    result = World().node("a").node("b").gang("g", 4, gpu=4).session()
    assert len(result.bindings) == 4
    assert condition(result, "g") == ("Scheduled", "tasks in gang are ready to be scheduled", "")
    assert phase(result, "g") == "Inqueue"


def test_a_gang_that_does_not_fit_binds_nothing_and_says_why() -> None:
    result = World().node("a", gpu=6).node("b", gpu=6).gang("g", 3, gpu=4, phase="Inqueue").session()
    assert not result.bindings
    said = (
        "1/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable; "
        "Pending: 1 Unschedulable, 2 Schedulable. "
        "Origin reason is g-2: 0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu."
    )
    assert condition(result, "g") == ("Unschedulable", "NotEnoughResources", said)
    words = {p.pod: (p.reason, p.message) for p in result.pods}
    assert words["g-2"] == ("Unschedulable", "0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu.")
    reason, message = words["g-0"]
    assert reason == "Schedulable"
    assert message.startswith("Pod ns/g-0 can possibly be assigned to ")
    assert message.endswith(", once minAvailable is satisfied")


def test_two_gangs_for_whom_there_is_room_once_do_not_halve_it() -> None:
    world = (
        World().node("a").node("b").gang("g", 3, gpu=4, phase="Inqueue").gang("h", 3, gpu=4, phase="Inqueue")
    )
    assert sorted(bound(world.session())) == ["g-0", "g-1", "g-2"]


def test_beyond_min_member_as_many_as_fit() -> None:
    assert len(World().node("a").gang("g", 6, gpu=2, least=2).session().bindings) == 4


def test_pods_that_do_not_exist_yet_make_a_gang_invalid() -> None:
    world = World().node("a").gang("g", 2, gpu=1, phase="Inqueue")
    world.groups[0] = replace(world.groups[0], min_member=3)
    assert not world.session().bindings


def test_the_job_with_the_higher_priority_goes_first() -> None:
    world = World().node("a").gang("low", 2, gpu=4).gang("top", 2, gpu=4, priority=10)
    assert sorted(bound(world.session())) == ["top-0", "top-1"]


def test_the_job_with_the_smaller_dominant_share_goes_first() -> None:
    world = World().node("a").node("b", gpu=4)
    world.gang("rich", 4, gpu=4, least=1, on=("a", "a")).gang("poor", 1, gpu=4, created="later")
    assert bound(world.session()) == {"poor-0": "b"}


def test_overcommit_keeps_the_third_job_from_making_pods() -> None:
    world = World().node("a", gpu=10)
    for name in ("g", "h", "i"):
        world.gang(name, 6, gpu=1, queue=f"of-{name}")
    result = world.session()
    assert [phase(result, n) for n in ("g", "h", "i")] == ["Inqueue", "Inqueue", "Pending"]
    events = {(e.group, e.message) for e in result.events if e.type == "Normal"}
    assert ("ns/i", "resource in cluster is overused: overused nvidia.com/gpu") in events


def test_a_queue_gets_no_more_than_its_capability() -> None:
    world = World().node("a").node("b").queue("small", capability={"nvidia.com/gpu": 4})
    world.gang("g", 8, gpu=1, least=1, queue="small", phase="Inqueue")
    assert len(world.session().bindings) == 4


def test_what_a_queue_may_never_have_is_not_enqueued() -> None:
    world = World().node("a").queue("small", capability={"nvidia.com/gpu": 4}).gang("g", 8, queue="small")
    result = world.session()
    assert not result.bindings
    message = "queue resource quota insufficient: insufficient nvidia.com/gpu"
    assert ("ns/g", message) in {(e.group, e.message) for e in result.events}


def test_nothing_enters_a_closed_queue() -> None:
    world = World().node("a").queue("shut", state="Closed").gang("g", 1, queue="shut")
    assert not world.session().bindings


def test_weights_share_what_both_ask_for() -> None:
    world = World().node("a", gpu=12).queue("one", weight=1).queue("two", weight=2)
    world.gang("g", 12, least=1, queue="one", phase="Inqueue").gang(
        "h", 12, least=1, queue="two", phase="Inqueue"
    )
    names = [name.partition("-")[0] for name in bound(world.session())]
    assert (names.count("g"), names.count("h")) == (4, 8)


def test_reclaim_gives_a_queue_back_what_it_deserves() -> None:
    world = World().node("a").queue("lender").queue("borrower")
    world.gang("big", 8, least=1, queue="borrower", on=("a",) * 8)
    world.gang("g", 4, queue="lender", phase="Inqueue")
    assert len(evicted(world.session(ALL_ACTIONS))) == 4


def test_reclaim_asks_no_queue_that_gives_nothing_back() -> None:
    world = World().node("a").queue("lender").queue("borrower", is_reclaimable=False)
    world.gang("big", 8, least=1, queue="borrower", on=("a",) * 8).gang(
        "g", 4, queue="lender", phase="Inqueue"
    )
    assert not evicted(world.session(ALL_ACTIONS))


@pytest.mark.parametrize(
    ("narrative", "configuration", "want"),
    [("gang and proportion agree on nobody", ONE_TIER, 0), ("the next tier overrules gang", ALL_ACTIONS, 4)],
)
def test_reclaim_below_min_member(narrative: str, configuration: VolcanoConfiguration, want: int) -> None:
    world = World().node("a").queue("lender").queue("borrower")
    world.gang("big", 8, queue="borrower", on=("a",) * 8).gang("g", 4, queue="lender", phase="Inqueue")
    assert len(evicted(world.session(configuration))) == want


@pytest.mark.parametrize(
    ("narrative", "least", "is_preemptable", "configuration", "want"),
    [
        ("lower priority gives way", 1, True, ALL_ACTIONS, 4),
        ("though its gang breaks, where gang has no say", 8, True, ALL_ACTIONS, 4),
        ("not below minMember, where it has", 6, True, SPARING, 0),
        ("not those who asked to be spared", 1, False, ALL_ACTIONS, 0),
    ],
)
def test_preemption_within_a_queue(
    narrative: str, least: int, is_preemptable: bool, configuration: VolcanoConfiguration, want: int
) -> None:
    world = World().node("a").gang("low", 8, least=least, on=("a",) * 8, is_preemptable=is_preemptable)
    world.gang("top", 4, priority=10, phase="Inqueue")
    # Proportion counts both in one queue that deserves all of it: what is taken it can have.
    result = world.session(configuration)
    assert len(evicted(result)) == want
    assert {e.reason for e in result.evictions} <= {"preempt"}
    nominated = {p.pod: p.nominate for p in result.pods if p.nominate}
    assert set(nominated.values()) <= {"a"}


def test_a_preempting_gang_takes_all_it_needs_or_nothing() -> None:
    world = World().node("a").node("b", gpu=0)
    world.gang("low", 4, least=1, on=("a",) * 4).gang("other", 4, priority=20, on=("a",) * 4)
    world.gang("top", 6, priority=10, phase="Inqueue")
    assert not evicted(world.session(ALL_ACTIONS))


def test_pods_that_ask_for_nothing_are_backfilled() -> None:
    world = World().node("a", gpu=0).gang("g", 1)
    world.pods[0] = replace(world.pods[0], requests={"pods": 1})
    world.groups[0] = replace(world.groups[0], min_resources=None)
    assert bound(world.session()) == {"g-0": "a"}


class _Refusing(NoOpinion):
    """Every node but the last is refused for good."""

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes)
        self._said = Refusals(
            np.array([7] * (nodes - 1) + [0]), {7: "node(s) were full of bees"}, np.ones(nodes, np.bool_)
        )

    def refusals(self, pod: str) -> Refusals:
        return self._said

    def scores(self, pod: str, nodes: Ints, weights: object) -> Floats:
        return np.zeros(len(nodes))


def test_predicates_refuse_nodes_and_their_words_are_told() -> None:
    world = World().node("a").node("b").node("c").gang("g", 2, gpu=5, phase="Inqueue")
    result = world.session(feasibility=_Refusing(3))
    assert not result.bindings
    assert condition(result, "g")[2].endswith(
        "0/3 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 2 node(s) were full of bees."
    )


def test_binpack_fills_the_fuller_node() -> None:
    world = World().node("a").node("b").gang("there", 1, gpu=2, on=("b",)).gang("g", 1, gpu=1)
    configuration = replace(
        DEFAULT_CONFIGURATION,
        tiers=(
            (
                PluginOption("gang"),
                PluginOption("binpack", arguments={"binpack.resources": "nvidia.com/gpu"}),
            ),
        ),
    )
    assert bound(world.session(configuration)) == {"g-0": "b"}


@pytest.mark.parametrize(
    ("narrative", "on", "want"),
    [("enough run", ("a", "a"), "Running"), ("too few run", ("a",), "Unknown")],
)
def test_phases_of_running_groups(narrative: str, on: tuple[str, ...], want: str) -> None:
    world = World().node("a", gpu=2).gang("g", 2, gpu=1, on=on, phase="Inqueue")
    if len(on) == 1:
        world.gang("other", 1, gpu=1, on=("a",))
    assert phase(world.session(), "g") == want


def test_what_cannot_be_read_is_left_out_and_named() -> None:
    """One PodGroup that makes no sense must not end every session."""
    from fairway.volcano.reading import POD_GROUP, QUEUE, read_cluster

    def named(name: str, **spec: object) -> dict[str, object]:
        return {"metadata": {"name": name, "namespace": "d"}, "spec": spec}

    there = {
        POD_GROUP: [named("good", minMember=1), named("odd", minResources={"cpu": "lots"})],
        QUEUE: [named("also-odd", weight="heavy"), named("fine", weight=2)],
    }
    unread: list[str] = []
    facts = read_cluster(
        lambda gk: there.get(gk, []), unread=lambda obj, _error: unread.append(obj["metadata"]["name"])
    )
    assert [g.name for g in facts.groups] == ["good"]
    assert [q.name for q in facts.queues] == ["fine"]
    assert unread == ["also-odd", "odd"]


def test_amounts_beyond_all_counting_are_capped() -> None:
    """One PodGroup that asks for 2^63 thousandths ended every session."""
    from fairway.volcano.vectors import Columns

    columns = Columns([{"example.com/gpu": 2**63 - 1}])
    asked = columns.read({"example.com/gpu": 2**63 - 1})
    assert (asked + asked).max() > asked.max() > 2**50
