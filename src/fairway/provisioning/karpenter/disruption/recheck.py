"""Does a command still hold, fifteen seconds later?

Nodes that are no longer candidates, or were promised to a pod, or exceed a budget, end it (an empty one merely
leaves the command). A consolidation is simulated again: it must still come to as many nodes, and allow every type it
wanted to launch.

Source: disruption/validation.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from fairway.kube.timestamps import SECOND_US
from fairway.provisioning.karpenter.claimfacts import CONSOLIDATABLE
from fairway.provisioning.karpenter.disruption.budgets import budget_left
from fairway.provisioning.karpenter.disruption.candidates import Candidate, candidates_among, why_blocked
from fairway.provisioning.karpenter.disruption.commands import Command
from fairway.provisioning.karpenter.disruption.consolidation import why_not_consolidatable
from fairway.provisioning.karpenter.disruption.context import DisruptionContext
from fairway.provisioning.karpenter.disruption.methods import DRIFT, EMPTINESS
from fairway.provisioning.karpenter.disruption.simulation import simulate

# Source: commandValidationDelay.
RECHECK_AFTER_US: Final = 15 * SECOND_US
CHURN: Final = "churn"
BUDGET: Final = "budget"
SCHEDULING: Final = "scheduling"
_NEW_RESULTS: Final = "scheduling simulation produced new results"


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Why a command is dropped; `kind` is what its event calls it."""

    kind: str
    message: str


def recheck(command: Command, context: DisruptionContext) -> Command | Abandoned:
    """The command as it holds now. Drift is carried out without waiting."""
    if command.method == DRIFT:
        return command
    nodes = context.world.nodes.named(command.names)
    found = {c.name: c for c in candidates_among(context, nodes, why_blocked(context))}
    valid = [found[name] for name in command.names if name in found and _is_still(command, found[name])]
    if command.method == EMPTINESS:
        return _empty_left(command, valid, context)
    if len(valid) != len(command.candidates):
        return Abandoned(CHURN, f"{len(command.candidates) - len(valid)} candidates are no longer valid")
    left, _ = budget_left(context, command.reason)
    for candidate in valid:
        if left.get(candidate.pool.name, 0) == 0:
            return Abandoned(BUDGET, "a candidate can no longer be disrupted without violating budgets")
        left[candidate.pool.name] -= 1
    return _still_schedules(command, valid, context)


def _is_still(command: Command, candidate: Candidate) -> bool:
    if command.method == EMPTINESS:
        return candidate.is_empty and candidate.node.claim_facts.is_true(CONSOLIDATABLE)
    return why_not_consolidatable(candidate) is None


def _empty_left(command: Command, valid: list[Candidate], context: DisruptionContext) -> Command | Abandoned:
    if not valid:
        return Abandoned(CHURN, f"{len(command.candidates)} candidates are no longer valid")
    left, _ = budget_left(context, command.reason)
    kept = []
    for candidate in valid:
        if left.get(candidate.pool.name, 0) > 0:
            left[candidate.pool.name] -= 1
            kept.append(candidate)
    if kept:
        return replace(command, candidates=tuple(kept))
    return Abandoned(
        BUDGET,
        f"{len(command.candidates)} candidates failed validation because it they were nominated for a pod or "
        "would violate disruption budgets",
    )


def _still_schedules(
    command: Command, valid: list[Candidate], context: DisruptionContext
) -> Command | Abandoned:
    simulation = simulate(context, valid, consolidating=True)
    if simulation.refusals:
        return Abandoned(SCHEDULING, simulation.text())
    claims = simulation.results.claims
    if len(claims) != len(command.replacements):
        return Abandoned(SCHEDULING, _NEW_RESULTS)
    if claims and not set(command.replacements[0].type_names) <= set(claims[0].type_names):
        return Abandoned(SCHEDULING, _NEW_RESULTS)
    return replace(command, candidates=tuple(valid))
