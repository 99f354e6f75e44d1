"""Whom a pod evicts, where, and what is said when it may not: DefaultPreemption, case by case."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from judging import Cluster

from builders import HOSTNAME, ZONE, NodeBuilder, PodBuilder, budget, named, node, pod
from fairway.kube.objects import Key
from fairway.scheduling.profile import DEFAULT_PROFILE, PreemptionArgs, Profile
from fairway.scheduling.verdict import Scheduled

N1, N2, N3 = "n1", "n2", "n3"
AFTER = "no new claims to deallocate, preemption: "


@dataclass
class Case:
    """`want`: node and victims, most important first; or the end of the message."""

    nodes: list[NodeBuilder]
    running: dict[str, list[PodBuilder]]
    pod: PodBuilder
    want: str
    budgets: list[dict[str, Any]] = field(default_factory=list)
    violations: int = 0
    nominated: dict[str, list[PodBuilder]] = field(default_factory=dict)
    profile: Profile = DEFAULT_PROFILE


def _node(name: str, cpu: int = 4) -> NodeBuilder:
    return node(name).cpu(cpu)


def _low(name: str, cpu: int = 2, priority: int = 0, second: int = 0) -> PodBuilder:
    return pod(name).cpu(cpu).priority(priority).started(second).label(app=name)


def _high(cpu: int = 2) -> PodBuilder:
    return pod("p").cpu(cpu).priority(100)


CASES = {
    "one victim is enough": Case(
        [_node(N1)], {N1: [_low("a", second=1), _low("b", second=2)]}, _high(), "n1: b"
    ),
    "of equals the one that started last goes": Case(
        [_node(N1)], {N1: [_low("a", second=2), _low("b", second=1)]}, _high(), "n1: a"
    ),
    "priority goes before age": Case(
        [_node(N1)], {N1: [_low("a", priority=1, second=2), _low("b", second=1)]}, _high(), "n1: b"
    ),
    "as many as it takes, most important first": Case(
        [_node(N1)], {N1: [_low("a", 1, 1), _low("b", 1, 2), _low("c", 2, 3)]}, _high(4), "n1: c b a"
    ),
    "a big one goes where the small ones can stay": Case(
        [_node(N1)], {N1: [_low("a", 1, 5), _low("b", 1, 4), _low("c", 2, 3)]}, _high(2), "n1: c"
    ),
    "of two that have not started, the one that came first": Case(
        [_node(N1)],
        {N1: [pod("a").cpu(2), pod("b").cpu(2)]},
        _high(),
        "n1: a",
    ),
    "equal priority is no victim": Case(
        [_node(N1)],
        {N1: [_low("a", 4, 100)]},
        _high(),
        "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    ),
    "nor is a higher one": Case(
        [_node(N1)],
        {N1: [_low("a", 2, 200), _low("b", 2, 0)]},
        _high(4),
        "0/1 nodes are available: 1 Insufficient cpu.",
    ),
    "a request larger than the node is hopeless": Case(
        [_node(N1, 2)],
        {N1: [_low("a")]},
        _high(4),
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    ),
    "so are taints, cordons and affinity": Case(
        [_node(N1).taint("k"), _node(N2).cordoned()],
        {N1: [_low("a", 4)], N2: [_low("b", 4)]},
        _high(),
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    ),
    "nodes are counted by what they say": Case(
        [_node(N1), _node(N2).taint("k"), _node(N3)],
        {N1: [_low("a", 4, 100)], N3: [_low("b", 3, 200), _low("c", 1)]},
        _high(2),
        "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling.",
    ),
    "preemptionPolicy Never": Case(
        [_node(N1)],
        {N1: [_low("a", 4)]},
        _high().spec(preemptionPolicy="Never"),
        "not eligible due to preemptionPolicy=Never.",
    ),
    "the node whose highest victim is lowest": Case(
        [_node(N1), _node(N2)],
        {N1: [_low("a", 4, 10)], N2: [_low("b", 2, 5), _low("c", 2, 5)]},
        _high(4),
        "n2: b c",
    ),
    "then the lowest sum of priorities, which is the fewest of a kind": Case(
        [_node(N1), _node(N2)],
        {N1: [_low("a", 2, 5), _low("b", 2, 5)], N2: [_low("c", 4, 5)]},
        _high(4),
        "n2: c",
    ),
    "negative priorities do not make many victims cheap": Case(
        [_node(N1), _node(N2)],
        {N1: [_low("a", 2, -5), _low("b", 2, -5)], N2: [_low("c", 4, -5)]},
        _high(4),
        "n2: c",
    ),
    "then the one whose victim started last": Case(
        [_node(N1), _node(N2)],
        {N1: [_low("a", 4, second=1)], N2: [_low("b", 4, second=2)]},
        _high(4),
        "n2: b",
    ),
    "then by the first start among its most important victims": Case(
        [_node(N1), _node(N2)],
        {
            N1: [_low("a", 2, 5, second=1), _low("b", 2, 5, second=9)],
            N2: [_low("c", 2, 5, second=2), _low("d", 2, 5, second=3)],
        },
        _high(4),
        "n2: c d",
    ),
    "whatever the less important ones did": Case(
        [_node(N1), _node(N2)],
        {
            N1: [_low("a", 2, 5, second=7), _low("b", 2, 0, second=1)],
            N2: [_low("c", 2, 5, second=6), _low("d", 2, 0, second=9)],
        },
        _high(4),
        "n1: a b",
    ),
    "one that has not started is the latest": Case(
        [_node(N1), _node(N2)],
        {N1: [_low("a", 4, second=50)], N2: [pod("b").cpu(4)]},
        _high(4),
        "n2: b",
    ),
    "a budget is spared where another node is free to give": Case(
        [_node(N1), _node(N2)],
        {N1: [_low("a", 4)], N2: [_low("b", 4, 50)]},
        _high(4),
        "n2: b",
        [budget("keep", 0, app="a")],
    ),
    "on one node, those without a budget go first": Case(
        [_node(N1)],
        {N1: [_low("a", second=2), _low("b", second=1)]},
        _high(),
        "n1: b",
        [budget("keep", 0, app="a")],
    ),
    "a budget is broken where there is no other way": Case(
        [_node(N1)], {N1: [_low("a", 4)]}, _high(), "n1: a", [budget("keep", 0, app="a")], violations=1
    ),
    "a budget that allows one": Case(
        [_node(N1)], {N1: [_low("a", 4)]}, _high(), "n1: a", [budget("keep", 1, app="a")]
    ),
    "the more important pod spends the budget": Case(
        [_node(N1)],
        {N1: [_low("a", 2, 2).label(app="x"), _low("b", 2, 1).label(app="x")]},
        _high(4),
        "n1: a b",
        [budget("keep", 1, app="x")],
        violations=1,
    ),
    "a budget of another namespace does not cover it": Case(
        [_node(N1)], {N1: [_low("a", 4)]}, _high(), "n1: a", [budget("keep", 0, "red", app="a")]
    ),
    "a budget without a selector covers nothing": Case(
        [_node(N1)], {N1: [_low("a", 4)]}, _high(), "n1: a", [budget("keep", 0)]
    ),
    "a pod already counted as disrupted is free": Case(
        [_node(N1)],
        {N1: [_low("a", 4)]},
        _high(),
        "n1: a",
        [{**budget("keep", 0, app="a"), "status": {"disruptionsAllowed": 0, "disruptedPods": {"a": "now"}}}],
    ),
    "evicting makes room on a port": Case(
        [_node(N1)], {N1: [_low("a").port(80)]}, _high(1).port(80), "n1: a"
    ),
    "and ends an anti-affinity": Case(
        [_node(N1)], {N1: [_low("a", 1).label(app="web")]}, _high(1).apart(HOSTNAME), "n1: a"
    ),
    "of those that were there, too": Case(
        [_node(N1)], {N1: [_low("a", 1).apart(HOSTNAME)]}, _high(1).label(app="web"), "n1: a"
    ),
    "but not one in the zone beyond the node": Case(
        [_node(N1).zone("z"), _node(N2).zone("z")],
        {N1: [_low("a", 1).label(app="web")], N2: [_low("b", 1).label(app="web")]},
        _high(1).apart(ZONE),
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.",
    ),
    "evicting evens out a spread": Case(
        [_node(N1).zone("a"), _node(N2).zone("b").cordoned()],
        {N1: [_low("a", 1).label(app="web")]},
        _high(1).label(app="web").spread(ZONE),
        "n1: a",
    ),
    "pods nominated to a node are left their room": Case(
        [_node(N1)],
        {N1: [_low("a", 2), _low("b", 2)]},
        _high(),
        "n1: a b",
        nominated={N1: [pod("first").cpu(2).priority(200)]},
    ),
    "a name the pod requires": Case(
        [_node(N1), _node(N2)],
        {N1: [_low("a", 4)], N2: [_low("b", 4, 50)]},
        _high().node_affinity(named("In", N2)),
        "n2: b",
    ),
    "names that contradict each other": Case(
        [_node(N1)],
        {N1: [_low("a", 4)]},
        _high().node_affinity(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [n]} for n in (N1, N2)]}
        ),
        "0/1 nodes are available: pod affinity terms conflict. not found",
    ),
    "a profile without preemption": Case(
        [_node(N1)],
        {N1: [_low("a", 4)]},
        _high(),
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate",
        profile=replace(DEFAULT_PROFILE, preempts=False),
    ),
    "a profile with neither": Case(
        [_node(N1)],
        {N1: [_low("a", 4)]},
        _high(),
        "0/1 nodes are available: 1 Insufficient cpu.",
        profile=replace(DEFAULT_PROFILE, preempts=False, has_dynamic_resources=False),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_preemption(name: str) -> None:
    case = CASES[name]
    cluster = Cluster(
        case.nodes,
        case.running,
        budgets=case.budgets,
        nominated=case.nominated,
        profile=case.profile,
    )
    found = cluster.judge(case.pod)
    assert found.refused is not None
    if found.refused.preemption is None:
        assert found.message.endswith(case.want)
        return
    assert f"{found.evicts_on}: {' '.join(found.victims)}" == case.want
    assert found.refused.preemption.pdb_violations == case.violations
    # A pod that found a preemption is told the reasons alone.
    assert "preemption" not in found.message


def test_the_sentence_comes_after_the_reasons() -> None:
    found = Cluster([_node(N1)], {N1: [_low("a", 4, 100)]}).judge(_high())
    assert found.message == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_no_nodes_at_all() -> None:
    found = Cluster([]).judge(_high())
    assert found.message == "no nodes available to schedule pods"
    assert found.refused is not None
    assert found.refused.plugins == ()


def _preempting() -> tuple[Cluster, PodBuilder]:
    """A cluster where `p` is nominated to n1 and its victim is on its way out."""
    cluster = Cluster([_node(N1), _node(N2)], {N1: [_low("a", 4)], N2: [_low("b", 4)]})
    first = _high(4)
    stored = cluster.store.create(first.build())
    key = Key("Pod", "default", "p")
    record = cluster.store.accounts.record(stored, key)
    cluster.scheduler.nominated[key] = (record, N1)
    cluster.store.delete(key, grace_s=0)
    victim = Key("Pod", "default", "a")
    status = dict(cluster.store.require(victim)["status"])
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    cluster.store.set_status(victim, {**status, "conditions": [condition]})
    return cluster, first


def test_it_waits_for_its_victims() -> None:
    cluster, first = _preempting()
    cluster.delete("a", grace_s=30)
    found = cluster.judge(first)
    assert found.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")
    assert found.refused is not None
    assert not found.refused.clears_nomination


def test_a_pod_somebody_else_deletes_is_not_waited_for() -> None:
    cluster, first = _preempting()
    found = cluster.judge(first)
    assert found.victims


def test_it_does_not_wait_on_a_node_that_became_hopeless() -> None:
    cluster, first = _preempting()
    cluster.delete("a", grace_s=30)
    cluster.store.replace(_node(N1).cordoned().build())
    found = cluster.judge(first)
    assert (found.evicts_on, found.victims) == (N2, ["b"])


def test_a_nominated_pod_goes_to_its_node_once_it_fits() -> None:
    cluster, first = _preempting()
    cluster.delete("a", grace_s=0)
    cluster.delete("b", grace_s=0)
    placed = cluster.judge(first).placed
    # One node was looked at: there was nothing to score, and no tie.
    assert placed == Scheduled(N1, total=0, feasible=1, evaluated=1, tied=1, devices=0)


def test_lower_priority_keeps_off_a_nominated_node() -> None:
    cluster = Cluster([_node(N1), _node(N2)], nominated={N1: [_high(4)]})
    assert cluster.judge(_low("q", 2)).feasible == [N2]


def test_the_reason_given_is_that_of_the_room_it_must_leave() -> None:
    cluster = Cluster([_node(N1).pods(1)], nominated={N1: [_high(4)]})
    assert cluster.judge(_low("q", 2)).message.startswith(
        "0/1 nodes are available: 1 Insufficient cpu, 1 Too many pods."
    )


@pytest.mark.parametrize("wants", ["room", "a port", "an even spread", "company"])
def test_who_is_nominated_counts_for_filters_and_for_no_score(wants: str) -> None:
    """Source: runtime.go RunFilterPluginsWithNominatedPods adds them to a copy of the node."""
    asks = {
        "room": pod("p").cpu(1),
        "a port": pod("p").cpu(1).port(80),
        "an even spread": pod("p").cpu(1).label(app="web").spread(HOSTNAME),
        "company": pod("p").cpu(1).near(HOSTNAME, app="y"),
    }
    running = {n: [pod(f"y-{n}").cpu(1).label(app="y")] for n in (N1, N2)}
    first = pod("first").cpu(2).priority(200).label(app="web")
    alone = Cluster([_node(N1, 8), _node(N2, 8)], running).judge(asks[wants])
    found = Cluster([_node(N1, 8), _node(N2, 8)], running, nominated={N1: [first]}).judge(asks[wants])
    assert found.feasible == ([N2] if wants == "an even spread" else [N1, N2])
    assert found.scores == {n: alone.scores[n] for n in found.feasible}
    assert found.parts == {name: {n: of[n] for n in found.feasible} for name, of in alone.parts.items()}


def test_higher_priority_does_not_mind_the_nominated() -> None:
    cluster = Cluster([_node(N1)], nominated={N1: [_low("x", 4)]})
    assert cluster.judge(_high(4)).feasible == [N1]


def test_a_nominated_pods_anti_affinity_is_not_minded_unless_somebody_there_has_one() -> None:
    """Inter-pod affinity is skipped for a cycle in which no pod on a node made it matter."""
    shy = pod("x").priority(200).apart(HOSTNAME)
    web = pod("p").label(app="web")
    assert Cluster([_node(N1)], nominated={N1: [shy]}).judge(web).feasible == [N1]
    crowd = Cluster([_node(N1), _node(N2)], {N2: [pod("y").apart(HOSTNAME)]}, nominated={N1: [shy]})
    assert crowd.judge(web).feasible == []


def test_enough_candidates_end_the_search() -> None:
    args = replace(DEFAULT_PROFILE, preemption=PreemptionArgs(0, 1))
    nodes = [_node(n) for n in (N1, N2, N3)]
    running = {n: [_low(f"v{i}", 4, 3 - i)] for i, n in enumerate((N1, N2, N3))}
    assert Cluster(nodes, running, profile=args).judge(_high(4), draw=0).evicts_on == N1
    assert Cluster(nodes, running, profile=args).judge(_high(4), draw=1).evicts_on == N2
    assert Cluster(nodes, running).judge(_high(4), draw=0).evicts_on == N3


def test_a_candidate_that_breaks_a_budget_does_not_end_the_search() -> None:
    args = replace(DEFAULT_PROFILE, preemption=PreemptionArgs(0, 1))
    cluster = Cluster(
        [_node(N1), _node(N2)],
        {N1: [_low("a", 4)], N2: [_low("b", 4)]},
        profile=args,
        budgets=[budget("keep", 0, app="a")],
    )
    assert cluster.judge(_high(4), draw=0).evicts_on == N2
