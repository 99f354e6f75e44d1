"""Which nodes go: emptiness, drift, consolidation, budgets, and what stands in the way."""

from __future__ import annotations

from typing import Any

import pytest
from karpenterworlds import context, kind, pod, pool, state_node, wants, world

from fairway.kube.objects import Obj
from fairway.kube.timestamps import parse_rfc3339
from fairway.provisioning.karpenter.disruption.balanced import can_be_worth_it, is_worth_it
from fairway.provisioning.karpenter.disruption.budgets import allowed_disruptions
from fairway.provisioning.karpenter.disruption.candidates import candidates
from fairway.provisioning.karpenter.disruption.commands import Command
from fairway.provisioning.karpenter.disruption.consolidation import Outcome
from fairway.provisioning.karpenter.disruption.context import DisruptionContext
from fairway.provisioning.karpenter.disruption.methods import decide
from fairway.provisioning.karpenter.disruption.recheck import Abandoned, recheck
from fairway.provisioning.karpenter.events import consolidation_candidate, consolidation_rejected
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, DO_NOT_DISRUPT, SPOT
from fairway.provisioning.karpenter.nodepools import NodePool
from fairway.provisioning.karpenter.podfacts import eviction_cost
from fairway.provisioning.karpenter.statenode import StateNode

SMALL = kind("s.small", 4, price=200_000)
LARGE = kind("l.large", 16, price=800_000)
ALL = {"disruption": {"budgets": [{"nodes": "100%"}]}}
FREE = pool(**ALL)
WHEN_EMPTY = pool(disruption={"consolidationPolicy": "WhenEmpty", "budgets": [{"nodes": "1"}]})


def run(
    nodes: list[StateNode], pools: list[NodePool] | None = None, types: list[Any] | None = None, **more: Any
) -> Outcome:
    return decide(made(nodes, pools, types, **more))


def made(
    nodes: list[StateNode], pools: list[NodePool] | None = None, types: list[Any] | None = None, **more: Any
) -> DisruptionContext:
    return context(world(types or [SMALL, LARGE], pools or [FREE], tuple(nodes)), **more)


def on(node: str, cpu: str = "1", name: str = "", **spec: Any) -> Obj:
    return pod(name or f"p-{node}", cpu, node=node, **spec)


def said(outcome: Outcome) -> list[str]:
    return [n.message for n in outcome.notices]


def shown(outcome: Outcome) -> tuple[str, str, str] | None:
    command = outcome.command
    return None if command is None else (command.reason, command.method, command.text())


def busy(name: str, of: Any = SMALL, cpu: str = "1", **state: Any) -> StateNode:
    return state_node(name, of, (on(name, cpu),), **state)


DEAR_SPOT = kind("d.dear", 4, price=900_000, spot=500_000)
CHEAP_SPOTS = [kind(f"c{i}.cheap", 4, price=900_000, spot=100_000 + i) for i in range(20)]
SPOT_POOL = pool(requirements=[wants(CAPACITY_TYPE, "In", SPOT)], **ALL)

CASES: dict[str, tuple[Outcome, Any]] = {
    "an empty node goes": (run([state_node("a", SMALL)]), ("Empty", "empty", "delete: [a]")),
    "all empty nodes go at once": (
        run([state_node("a", SMALL), state_node("b", LARGE)]), ("Empty", "empty", "delete: [b, a]")
    ),
    "not before it is consolidatable": (run([state_node("a", SMALL, consolidatable=False)]), None),
    "consolidateAfter Never": (
        run([state_node("a", SMALL)], [pool(disruption={"consolidateAfter": "Never"})]), None
    ),
    "WhenEmpty also deletes empty nodes": (
        run([state_node("a", SMALL)], [WHEN_EMPTY]),
        ("Empty", "empty", "delete: [a]"),
    ),
    "WhenEmpty leaves others": (
        run([busy("a", LARGE)], [WHEN_EMPTY]), None
    ),
    "a node of DaemonSet pods is empty": (
        run([state_node("a", SMALL, ({**on("a"), "metadata": {**on("a")["metadata"],
             "ownerReferences": [{"kind": "DaemonSet", "name": "d"}]}},))]),
        ("Empty", "empty", "delete: [a]"),
    ),
    "pods fit on another node: delete": (
        run([busy("a", SMALL, "3"), busy("b", SMALL, "1")]), ("Underutilized", "single", "delete: [a]")
    ),
    "pods fit on a cheaper node: replace": (
        run([busy("a", LARGE)]), ("Underutilized", "single", "replace: [a] -> [1 replacement]")
    ),
    "nothing cheaper": (run([busy("a", SMALL)]), None),
    "several nodes at once": (
        run([busy("a"), busy("b"), busy("c"), busy("d", LARGE, "2")]),
        ("Underutilized", "multi", "delete: [d, a]"),
    ),
    "two nodes into one of their own type: rather delete one": (
        run([busy("a", SMALL, "1"), busy("b", SMALL, "2")]), ("Underutilized", "single", "delete: [a]")
    ),
    "a nominated node stays": (run([state_node("a", SMALL, is_nominated=True)]), None),
    "a node already going": (run([state_node("a", SMALL, is_marked_for_deletion=True)]), None),
    "an annotated node stays": (run([state_node("a", SMALL, annotations={DO_NOT_DISRUPT: "true"})]), None),
    "an annotated pod keeps its node": (
        run([state_node("a", LARGE, (on("a", annotations={DO_NOT_DISRUPT: "true"}),))]), None
    ),
    "an unknown type cannot be compared": (run([busy("a", kind("x.gone", 4))]), None),
    "a drifted node is replaced, whatever it costs": (
        run([busy("a", SMALL, drifted_s=60)]), ("Drifted", "drift", "replace: [a] -> [1 replacement]")
    ),
    "the longest drifted first": (
        run([busy("a", SMALL, "4", drifted_s=60), busy("b", SMALL, "4", drifted_s=90)]),
        ("Drifted", "drift", "replace: [b] -> [1 replacement]"),
    ),
    "spot to spot is off": (
        run([state_node("a", DEAR_SPOT, (on("a"),), capacity_type=SPOT)], [SPOT_POOL], [DEAR_SPOT, *CHEAP_SPOTS]), None
    ),
    "spot to spot with fifteen cheaper types": (
        run([state_node("a", DEAR_SPOT, (on("a"),), capacity_type=SPOT)], [SPOT_POOL], [DEAR_SPOT, *CHEAP_SPOTS],
            spot_to_spot=True),
        ("Underutilized", "single", "replace: [a] -> [1 replacement]"),
    ),
    "spot to spot with fewer": (
        run([state_node("a", DEAR_SPOT, (on("a"),), capacity_type=SPOT)], [SPOT_POOL], [DEAR_SPOT, *CHEAP_SPOTS[:9]],
            spot_to_spot=True),
        None,
    ),
    "a node that is not initialized takes no pods of a command": (
        run([busy("a", SMALL, "1"), state_node("z", SMALL, is_initialized=False)]), None
    ),
    "the budget of zero": (run([state_node("a", SMALL)], [pool(disruption={"budgets": [{"nodes": "0"}]})]), None),
    "a budget for another reason": (
        run([state_node("a", SMALL)], [pool(disruption={"budgets": [{"nodes": "0", "reasons": ["Drifted"]}]})]),
        ("Empty", "empty", "delete: [a]"),
    ),
    "ten percent of three nodes is one": (
        run([state_node(n, SMALL) for n in "abc"], [pool()]), ("Empty", "empty", "delete: [a]")
    ),
    "nodes that are not ready use the budget up": (
        run([state_node("a", SMALL), state_node("b", SMALL, is_ready=False)],
            [pool(disruption={"budgets": [{"nodes": "1"}]})]),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    outcome, want = CASES[case]
    assert shown(outcome) == want


NOTICES = {
    "nothing cheaper": (CASES["nothing cheaper"], "Can't replace with a cheaper node"),
    "WhenEmpty": (
        CASES["WhenEmpty leaves others"],
        'NodePool "default" has consolidation policy WhenEmpty, but node is not empty',
    ),
    "Never": (CASES["consolidateAfter Never"], 'NodePool "default" has consolidation disabled'),
    "nominated": (CASES["a nominated node stays"], "Node is nominated for a pending pod"),
    "annotated": (
        CASES["an annotated node stays"],
        'Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation',
    ),
    "annotated pod": (
        CASES["an annotated pod keeps its node"],
        'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/p-a)',
    ),
    "unknown type": (CASES["an unknown type cannot be compared"], 'Instance Type "x.gone" not found'),
    "spot to spot": (
        CASES["spot to spot is off"],
        "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node",
    ),
    "too few types": (
        CASES["spot to spot with fewer"],
        "SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to "
        "consolidate, got 9",
    ),
    "uninitialized": (
        CASES["a node that is not initialized takes no pods of a command"],
        "Not all pods would schedule, default/p-a => would schedule against uninitialized nodeclaim/z-claim, "
        "node/z ",
    ),
    "budget": (
        CASES["the budget of zero"],
        "No allowed disruptions for disruption reason Empty due to blocking budget",
    ),
}


@pytest.mark.parametrize("case", NOTICES)
def test_what_stands_in_the_way_is_said(case: str) -> None:
    (outcome, _), message = NOTICES[case]
    assert message in said(outcome)


def budget_of(namespace: str = "default", *, allowed: int = 0, **spec: Any) -> Obj:
    return {
        "metadata": {"name": "pdb", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec},
        "status": {"disruptionsAllowed": allowed},
    }


@pytest.mark.parametrize(
    ("budgets", "goes", "words"),
    [
        ([budget_of(allowed=0)], False, "Pdb prevents pod evictions (PodDisruptionBudget=[default/pdb])"),
        ([budget_of(allowed=1)], True, ""),
        ([budget_of("other")], True, ""),
        ([budget_of(allowed=1), budget_of(allowed=1)], False, "Eviction does not support multiple PDBs"),
    ],
)
def test_budgets_for_pods(budgets: list[Obj], goes: bool, words: str) -> None:
    node = state_node("a", LARGE, (on("a", labels={"app": "x"}),))
    outcome = run([node], budgets=tuple(budgets))
    assert (outcome.command is not None) is goes
    assert not words or any(m.startswith(words) for m in said(outcome))


def test_a_termination_grace_period_lets_drift_past_a_budget() -> None:
    held = {"labels": {"app": "x"}}
    spec = {"claim_spec": {"terminationGracePeriod": "1h"}}
    node = state_node("a", SMALL, (on("a", **held),), drifted_s=9, **spec)
    assert shown(run([node], budgets=(budget_of(allowed=0),))) == (
        "Drifted", "drift", "replace: [a] -> [1 replacement]",
    )  # fmt: skip


def test_no_new_node_for_pods_that_no_budget_ever_lets_go() -> None:
    spec = {"claim_spec": {"terminationGracePeriod": "1h"}}
    node = state_node("a", SMALL, (on("a", labels={"app": "x"}),), drifted_s=9, **spec)
    outcome = run([node], budgets=(budget_of(maxUnavailable=0),))
    assert shown(outcome) == ("Drifted", "drift", "delete: [a]")


def test_what_is_replaced_is_replaced_by_cheaper_types_only() -> None:
    command = CASES["pods fit on a cheaper node: replace"][0].command
    assert command is not None and command.replacements[0].type_names == ["s.small"]
    assert command.savings == 600_000


def test_on_demand_is_replaced_by_spot_where_both_are_allowed_and_then_only_by_spot() -> None:
    types = [LARGE, kind("m.mid", 4, price=300_000, spot=90_000)]
    command = run([busy("a", LARGE)], types=types).command
    assert command is not None
    assert command.replacements[0].requirements.get(CAPACITY_TYPE).sorted_values() == [SPOT]


def test_the_hundred_most_promising_are_halved_down() -> None:
    nodes = [state_node(f"n{i:03d}", SMALL, (on(f"n{i:03d}", "100m"),)) for i in range(120)]
    command = run(nodes).command
    assert command is not None and command.method == "multi"
    assert len(command.candidates) == 101


@pytest.mark.parametrize(
    ("annotations", "priority", "want"),
    [
        ({}, None, 1.0),
        ({}, 2**25, 2.0),
        ({}, 2_000_000_000, 10.0),
        ({"controller.kubernetes.io/pod-deletion-cost": str(2**27)}, None, 2.0),
        ({"controller.kubernetes.io/pod-deletion-cost": str(-(2**30))}, -(2**30), -10.0),
        ({"controller.kubernetes.io/pod-deletion-cost": "much"}, None, 1.0),
    ],
)
def test_what_it_costs_to_move_a_pod(annotations: dict[str, str], priority: int | None, want: float) -> None:
    assert eviction_cost(pod("a", annotations=annotations, priority=priority)) == want


def test_pods_of_negative_cost_leave_a_node_empty() -> None:
    cheap = {"controller.kubernetes.io/pod-deletion-cost": str(-(2**31) + 1)}
    outcome = run([state_node("a", SMALL, (on("a", annotations=cheap),))])
    assert shown(outcome) == ("Empty", "empty", "delete: [a]")


NIGHT = {"nodes": "0", "schedule": "0 22 * * *", "duration": "8h"}
BUDGETS = {
    "none given: a tenth": (None, 11, "2026-01-05T12:00:00Z", 2),
    "a number": ([{"nodes": "5"}], 3, "2026-01-05T12:00:00Z", 5),
    "the smallest": ([{"nodes": "5"}, {"nodes": "20%"}], 10, "2026-01-05T12:00:00Z", 2),
    "rounded up": ([{"nodes": "1%"}], 10, "2026-01-05T12:00:00Z", 1),
    "nothing of nothing": ([{"nodes": "50%"}], 0, "2026-01-05T12:00:00Z", 0),
    "before the schedule": ([{"nodes": "5"}, NIGHT], 10, "2026-01-05T21:59:59Z", 5),
    "as it starts": ([{"nodes": "5"}, NIGHT], 10, "2026-01-05T22:00:00Z", 0),
    "after midnight": ([{"nodes": "5"}, NIGHT], 10, "2026-01-06T05:59:00Z", 0),
    "as it ends": ([{"nodes": "5"}, NIGHT], 10, "2026-01-06T06:00:01Z", 5),
    "unreadable: nothing": (
        [{"nodes": "5", "schedule": "never", "duration": "1h"}],
        10,
        "2026-01-05T00:00:00Z",
        0,
    ),
    "for empty nodes only": ([{"nodes": "0", "reasons": ["Drifted"]}], 10, "2026-01-05T00:00:00Z", 2**31 - 1),
}


@pytest.mark.parametrize("case", BUDGETS)
def test_budgets(case: str) -> None:
    budgets, nodes, at, want = BUDGETS[case]
    of = pool(**({"disruption": {"budgets": budgets}} if budgets else {}))
    assert allowed_disruptions(of, "Empty", nodes, parse_rfc3339(at)) == want


# Fifteen seconds later


def test_a_command_that_still_holds() -> None:
    before = made([busy("a", LARGE)])
    command = decide(before).command
    assert command is not None and recheck(command, before) is not None
    assert not isinstance(recheck(command, before), Abandoned)


LATER = {
    "its node is promised": (
        [busy("a", LARGE, is_nominated=True)],
        "churn",
        "1 candidates are no longer valid",
    ),
    "it is gone": ([busy("b", LARGE)], "churn", "1 candidates are no longer valid"),
    "a pod came that fits no cheaper node": (
        [state_node("a", LARGE, (on("a", "9"),))],
        "scheduling",
        "scheduling simulation produced new results",
    ),
    "its pods now fit elsewhere": (
        [busy("a", LARGE), busy("b", SMALL)],
        "scheduling",
        "scheduling simulation produced new results",
    ),
}


@pytest.mark.parametrize("case", LATER)
def test_a_command_that_no_longer_holds(case: str) -> None:
    nodes, reason, message = LATER[case]
    command = decide(made([busy("a", LARGE)])).command
    assert command is not None
    found = recheck(command, made(nodes))
    assert isinstance(found, Abandoned) and (found.kind, found.message) == (reason, message)


def test_a_budget_that_closed_meanwhile() -> None:
    command = decide(made([busy("a", LARGE)])).command
    assert command is not None
    found = recheck(command, made([busy("a", LARGE)], [pool(disruption={"budgets": [{"nodes": "0"}]})]))
    assert isinstance(found, Abandoned) and found.kind == "budget"


def test_of_empty_nodes_those_that_are_still_empty_go() -> None:
    command = decide(made([state_node("a", SMALL), state_node("b", SMALL)])).command
    assert command is not None
    found = recheck(command, made([state_node("a", SMALL), busy("b", SMALL)]))
    assert not isinstance(found, Abandoned) and found.names == ("a",)


def test_events_of_consolidation() -> None:
    command = decide(made([busy("a", LARGE)])).command
    assert command is not None
    assert consolidation_candidate(command, "a").message == (
        "Consolidation candidate: replace: [a] -> [1 replacement] (savings: $0.60)"
    )
    assert consolidation_rejected(command, "a", "churn").message == (
        "Consolidation rejected: replace: [a] -> [1 replacement], reason: churn (savings: $0.60)"
    )


BALANCED = pool(disruption={"consolidationPolicy": "Balanced", "budgets": [{"nodes": "100%"}]})


def test_balanced_takes_what_saves_much_for_little() -> None:
    # Half the pool's cost for a sixth of its disruption.
    nodes = [busy("a", LARGE), state_node("b", LARGE, tuple(on("b", "3", f"b{i}") for i in range(5)))]
    assert shown(run(nodes, [BALANCED])) == ("Underutilized", "single", "delete: [a]")


def test_balanced_leaves_what_saves_little_for_much() -> None:
    many = tuple(on("a", "100m", f"a{i}") for i in range(9))
    nodes = [state_node("a", SMALL, many), *(busy(n, LARGE, "12") for n in "bcd")]
    free = pool(disruption={"budgets": [{"nodes": "100%"}]})
    assert shown(run(nodes, [free])) == ("Underutilized", "single", "delete: [a]")
    assert shown(run(nodes, [BALANCED])) is None


def test_static_pools_do_not_end_the_search_for_empty_nodes() -> None:
    static = pool("a-static", replicas=1, disruption={"consolidateAfter": "Never"})
    nodes = [state_node("a", SMALL, owner="a-static"), state_node("b", SMALL)]
    assert shown(run(nodes, [static, FREE])) == ("Empty", "empty", "delete: [b]")
    never = pool("never", disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    outcome = run([*nodes, state_node("c", SMALL, owner="never")], [static, never, FREE])
    assert shown(outcome) == ("Empty", "empty", "delete: [b]")
    assert said(outcome) == ['NodePool "never" has consolidation disabled']


def test_what_costs_a_micro_dollar_is_weighed_too() -> None:
    """The savings of a command over two balanced pools are divided by what goes, however little that is."""
    cheap = kind("c.cheap", 4, price=1)
    free = kind("f.free", 4, price=0)
    pools = [
        pool(n, disruption={"consolidationPolicy": "Balanced", "budgets": [{"nodes": "100%"}]}) for n in "pq"
    ]
    nodes = [busy("a", cheap, owner="p"), busy("b", free, owner="q"), busy("c", cheap, owner="q")]
    context_ = made(nodes, pools, [cheap, free])
    gone = [c for c in candidates(context_)[0] if c.name in "ab"]
    assert sum(c.price for c in gone) == 1
    assert not is_worth_it(context_, Command("Underutilized", "multi", tuple(gone)))


@pytest.mark.parametrize(("price", "is_judged"), [(0, False), (1, True)])
def test_a_pool_that_costs_nothing_is_not_judged(price: int, is_judged: bool) -> None:
    free, other = kind("f.free", 4, price=0), kind("o.other", 4, price=price)
    context_ = made([busy("a", free), busy("b", other)], [BALANCED], [free, other])
    (first, _) = candidates(context_)[0]
    assert can_be_worth_it(context_, first) is not is_judged
