"""What is done about nodes, first of all? Empty ones go, drifted ones are replaced, then costs are cut.

One method acts at a time: emptiness, drift, several nodes at once, a single node. Each looks at the nodes that are
its business, within the budgets for its reason. The last two, which simulate, leave off once they found nothing until
the cluster is another (`settled`).

Source: disruption/controller.go NewMethods; emptiness.go, drift.go, singlenodeconsolidation.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Final

from fairway.provisioning.karpenter.claimfacts import CONSOLIDATABLE
from fairway.provisioning.karpenter.disruption.balanced import can_be_worth_it, is_worth_it
from fairway.provisioning.karpenter.disruption.budgets import budget_left
from fairway.provisioning.karpenter.disruption.candidates import (
    EVENTUAL,
    GRACEFUL,
    Candidate,
    candidates,
    candidates_among,
    notices_of,
    why_blocked,
)
from fairway.provisioning.karpenter.disruption.commands import Command
from fairway.provisioning.karpenter.disruption.consolidation import (
    Outcome,
    by_savings,
    consolidate,
    why_not_consolidatable,
)
from fairway.provisioning.karpenter.disruption.context import (
    BLOCKED,
    DRIFTED_REASON,
    EMPTY,
    UNCONSOLIDATABLE,
    UNDERUTILIZED,
    DisruptionContext,
    Notice,
)
from fairway.provisioning.karpenter.disruption.multinode import MULTI, first_n
from fairway.provisioning.karpenter.disruption.simulation import simulate
from fairway.provisioning.karpenter.nodeclaims import DRIFTED

EMPTINESS: Final = "empty"
DRIFT: Final = "drift"
SINGLE: Final = "single"
Budget = dict[str, int]


def decide(context: DisruptionContext) -> Outcome:
    """The next command, and notices of what stands in the way of others."""
    notices: list[Notice] = []
    in_vain: list[str] = []
    skipped: list[str] = []
    command = None
    for method in (emptiness, drift, multi_node, single_node):
        outcome = method(context)
        notices += outcome.notices
        in_vain += outcome.in_vain
        skipped += outcome.skipped
        command = outcome.command
        if command is not None:
            break
    return Outcome(command, _once(notices), tuple(in_vain), tuple(skipped))


def eligible(context: DisruptionContext) -> dict[str, int]:
    """How many nodes each reason concerns, budgets aside. O(nodes)."""
    nodes, blocked = context.world.nodes, why_blocked(context)
    empty = [
        c
        for c in candidates_among(context, nodes.named(nodes.empty), blocked)
        if not c.pool.is_static and c.pool.consolidate_after_us is not None and _may_go_empty(c)
    ]
    drifted = _drifted(context, why_blocked(context, EVENTUAL))
    return {EMPTY: len(empty), DRIFTED_REASON: len(drifted), UNDERUTILIZED: len(_consolidatable(context)[0])}


def _once(notices: Sequence[Notice]) -> tuple[Notice, ...]:
    return tuple(dict.fromkeys(notices))


def emptiness(context: DisruptionContext) -> Outcome:
    """Nodes whose pods cost nothing to move: all that the budgets let go, at once."""
    blocked = why_blocked(context)
    notices = notices_of(context, blocked)
    nodes = context.world.nodes
    is_off = any(p.consolidate_after_us is None and not p.is_static for p in context.world.pools)
    fitting = []
    # Where consolidation is disabled every node is told so; else only those that are empty matter.
    for candidate in candidates_among(context, nodes if is_off else nodes.named(nodes.empty), blocked):
        pool = candidate.pool
        if pool.is_static:
            continue
        if pool.consolidate_after_us is None:
            text = f'NodePool "{pool.name}" has consolidation disabled'
            notices.append(Notice(f"Node/{candidate.name}", UNCONSOLIDATABLE, text))
        elif _may_go_empty(candidate):
            fitting.append(candidate)
    left, by_budgets = budget_left(context, EMPTY)
    notices += by_budgets if fitting else []
    empty = tuple(_within(by_savings(fitting), left))
    command = Command(EMPTY, EMPTINESS, empty) if empty else None
    return Outcome(command, tuple(notices))


def _may_go_empty(candidate: Candidate) -> bool:
    return candidate.is_empty and candidate.node.claim_facts.is_true(CONSOLIDATABLE)


def _within(found: Sequence[Candidate], left: Budget) -> list[Candidate]:
    kept = []
    for candidate in found:
        if left.get(candidate.pool.name, 0) > 0:
            left[candidate.pool.name] -= 1
            kept.append(candidate)
    return kept


def drift(context: DisruptionContext) -> Outcome:
    """The node that drifted first, one without pods before one with; its replacements come first."""
    nodes = context.world.nodes
    if not nodes.drifted:
        return Outcome(None)
    blocked = why_blocked(context, EVENTUAL)
    drifted = _drifted(context, blocked)
    if not drifted:
        return Outcome(None)
    left, by_budgets = budget_left(context, DRIFTED_REASON)
    notices = [*notices_of(context, blocked), *by_budgets]
    drifted.sort(key=lambda c: (bool(c.reschedulable), c.node.claim_facts.true_since_us(DRIFTED), c.name))
    for candidate in drifted:
        if left.get(candidate.pool.name, 0) == 0:
            continue
        simulation = simulate(context, [candidate], consolidating=False)
        if simulation.refusals:
            text = simulation.text()
            notices.append(Notice(f"Node/{candidate.name}", BLOCKED, text[:1].upper() + text[1:]))
            continue
        results = simulation.results
        command = Command(DRIFTED_REASON, DRIFT, (candidate,), results.claims, results)
        return Outcome(command, tuple(notices))
    return Outcome(None, tuple(notices))


def _drifted(context: DisruptionContext, blocked: Mapping[str, str]) -> list[Candidate]:
    nodes = context.world.nodes
    found = candidates_among(context, nodes.named(nodes.drifted), blocked)
    return [c for c in found if not c.pool.is_static]


def multi_node(context: DisruptionContext) -> Outcome:
    found, notices = _consolidatable(context)
    if not found:
        return Outcome(None, notices)
    left, blocked = budget_left(context, UNDERUTILIZED)
    notices = (*notices, *blocked)
    if MULTI in context.consolidated:
        return Outcome(None, notices, skipped=(MULTI,))
    allowed = _within(by_savings(found), left)
    command = first_n(context, allowed)
    is_final = command is None and len(allowed) == len(found)
    return Outcome(command, notices, in_vain=(MULTI,) if is_final else ())


def single_node(context: DisruptionContext) -> Outcome:
    """Each node by itself, pools taking turns, until one can go."""
    found, first = _consolidatable(context)
    if found and SINGLE in context.consolidated:
        return Outcome(None, first, skipped=(SINGLE,))
    notices = list(first)
    left, _ = budget_left(context, UNDERUTILIZED)
    is_final = bool(found)
    for candidate in _taking_turns(by_savings(found)):
        if left.get(candidate.pool.name, 0) == 0:
            is_final = False
            continue
        if not can_be_worth_it(context, candidate):
            continue
        outcome = consolidate(context, [candidate], SINGLE)
        notices += outcome.notices
        if outcome.command is not None and is_worth_it(context, outcome.command):
            return Outcome(outcome.command, tuple(notices))
    return Outcome(None, tuple(notices), in_vain=(SINGLE,) if is_final else ())


def _consolidatable(context: DisruptionContext) -> tuple[list[Candidate], tuple[Notice, ...]]:
    found, notices = candidates(context, GRACEFUL)
    kept = []
    for candidate in found:
        why = why_not_consolidatable(candidate)
        if why is None:
            kept.append(candidate)
        elif why:
            notices.append(Notice(f"Node/{candidate.name}", UNCONSOLIDATABLE, why))
    return kept, tuple(notices)


def _taking_turns(found: Sequence[Candidate]) -> list[Candidate]:
    """The first of each NodePool, then the second of each. Unlike kube: pools by name."""
    by_pool: dict[str, list[Candidate]] = {}
    for candidate in found:
        by_pool.setdefault(candidate.pool.name, []).append(candidate)
    rounds = zip_longest(*(by_pool[name] for name in sorted(by_pool)))
    return [c for turn in rounds for c in turn if c is not None]
