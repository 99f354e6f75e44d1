"""Would the cluster be cheaper without these nodes?

Their pods fit elsewhere: delete. They fit with one new node that costs less: replace, by types that are cheaper than
what goes. A spot node is replaced by spot only where that is switched on and, for a single node, fifteen cheaper
types exist, so that prices do not chase nodes from type to type.

Source: disruption/consolidation.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairway.provisioning.karpenter.claimfacts import CONSOLIDATABLE
from fairway.provisioning.karpenter.disruption.candidates import Candidate
from fairway.provisioning.karpenter.disruption.commands import Command
from fairway.provisioning.karpenter.disruption.context import (
    UNCONSOLIDATABLE,
    UNDERUTILIZED,
    DisruptionContext,
    Notice,
)
from fairway.provisioning.karpenter.disruption.simulation import simulate
from fairway.provisioning.karpenter.fleet import unsatisfied_min_values
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT, ZONE
from fairway.provisioning.karpenter.nodepools import WHEN_EMPTY
from fairway.provisioning.karpenter.packing import Results
from fairway.provisioning.karpenter.planned import PlannedClaim
from fairway.provisioning.karpenter.requirement import one_of

# Source: MinInstanceTypesForSpotToSpotConsolidation.
SPOT_TO_SPOT_TYPES: Final = 15


@dataclass(frozen=True, slots=True)
class Outcome:
    """A command, or nothing and why.

    `in_vain`: methods that tried all they may and found nothing; until something changes they will not.
    `skipped`: methods that did not try, because they found nothing the last time.
    """

    command: Command | None
    notices: tuple[Notice, ...] = ()
    in_vain: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


NOTHING: Final = Outcome(None)


def why_not_consolidatable(candidate: Candidate) -> str | None:
    """What rules a node out before anything is computed; empty where it is simply not its turn."""
    pool, labels = candidate.pool, candidate.node.labels
    if pool.is_static:
        return ""
    if candidate.kind is None:
        return f'Instance Type "{labels.get(INSTANCE_TYPE, "")}" not found'
    for label in (CAPACITY_TYPE, ZONE):
        if label not in labels:
            return f'Node does not have label "{label}"'
    if pool.consolidate_after_us is None:
        return f'NodePool "{pool.name}" has consolidation disabled'
    if candidate.is_empty:
        return ""
    if pool.consolidation_policy == WHEN_EMPTY:
        return f'NodePool "{pool.name}" has consolidation policy WhenEmpty, but node is not empty'
    return None if candidate.node.claim_facts.is_true(CONSOLIDATABLE) else ""


def by_savings(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The most saved per pod moved first. Unlike kube: ties by name."""
    return sorted(candidates, key=lambda c: (-c.savings_ratio, c.name))


def consolidate(context: DisruptionContext, gone: Sequence[Candidate], method: str) -> Outcome:
    """Delete or replace all of these at once."""
    simulation = simulate(context, gone, consolidating=True)
    if simulation.refusals:
        text = simulation.text()
        return _no(gone, text[:1].upper() + text[1:])
    results = simulation.results
    if not results.claims:
        return Outcome(Command(UNDERUTILIZED, method, tuple(gone), results=results))
    if len(results.claims) > 1:
        return _no(gone, f"Can't remove without creating {len(results.claims)} candidates")
    plan, price = results.claims[0], sum(c.price for c in gone)
    if all(c.capacity_type == SPOT for c in gone) and plan.allows(CAPACITY_TYPE, SPOT):
        return _spot_to_spot(context, gone, method, results, price)
    cheaper = plan.cheaper_than(price)
    if isinstance(cheaper, str):
        return _no(gone, f"Filtering by price: {cheaper}")
    if not cheaper.mask:
        return _no(gone, "Can't replace with a cheaper node")
    if cheaper.allows(CAPACITY_TYPE, SPOT) and cheaper.allows(CAPACITY_TYPE, ON_DEMAND):
        # Prices were compared as if spot were launched, so nothing else may be; types without spot stay on the list.
        # Unlike kube: not where no type that is left has spot at all; Karpenter's claim could then never launch.
        spot_only = _on_spot(cheaper)
        cheaper = spot_only if spot_only.offered().mask else cheaper
    return _replace(gone, method, results, cheaper)


def _spot_to_spot(
    context: DisruptionContext, gone: Sequence[Candidate], method: str, results: Results, price: int
) -> Outcome:
    if not context.spot_to_spot:
        return _no(gone, "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node")
    plan = _on_spot(results.claims[0]).offered()
    cheaper = plan.cheaper_than(price)
    if isinstance(cheaper, str):
        return _no(gone, f"Filtering by price: {cheaper}")
    if not cheaper.mask:
        return _no(gone, "Can't replace with a cheaper node")
    if len(gone) > 1:
        return _replace(gone, method, results, cheaper)
    types = cheaper.types()
    if len(types) < SPOT_TO_SPOT_TYPES:
        return _no(
            gone,
            f"SpotToSpotConsolidation requires {SPOT_TO_SPOT_TYPES} cheaper instance type options than the "
            f"current candidate to consolidate, got {len(types)}",
        )
    needed, _ = unsatisfied_min_values(types, cheaper.requirements)
    kept = cheaper.of_types(types[: max(SPOT_TO_SPOT_TYPES, needed)])
    return _replace(gone, method, results, kept)


def _on_spot(plan: PlannedClaim) -> PlannedClaim:
    return plan.asking(plan.requirements.plus((one_of(CAPACITY_TYPE, (SPOT,)),)))


def _replace(gone: Sequence[Candidate], method: str, results: Results, plan: PlannedClaim) -> Outcome:
    return Outcome(Command(UNDERUTILIZED, method, tuple(gone), (plan,), replace(results, claims=(plan,))))


def _no(gone: Sequence[Candidate], message: str) -> Outcome:
    """Only said of a single node: of several, another number of them may yet do."""
    if len(gone) != 1:
        return NOTHING
    return Outcome(None, (Notice(f"Node/{gone[0].name}", UNCONSOLIDATABLE, message),))
