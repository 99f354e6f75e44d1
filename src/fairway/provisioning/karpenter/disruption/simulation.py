"""If these nodes went, where would their pods go?

Pods that wait anyway, pods of nodes that are going already, and those of the candidates are placed onto what is
left. Pods that cannot be moved for good (a budget that never allows it) are not made room for.

Source: disruption/helpers.go SimulateScheduling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairway.kube.objects import Obj, meta_of, status_of
from fairway.provisioning.karpenter.disruption.candidates import Candidate
from fairway.provisioning.karpenter.disruption.context import DisruptionContext
from fairway.provisioning.karpenter.disruption.evictions import budgets_of, is_currently_reschedulable
from fairway.provisioning.karpenter.packing import Results, Solver
from fairway.provisioning.karpenter.podfacts import Shapes, facts_of, is_provisionable

_ERRORS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Simulation:
    """What would come of it. `refusals`: pods that run now and would find no place, with why."""

    results: Results
    refusals: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """Source: NonPendingPodSchedulingErrors."""
        shown = [f"{key} => {why} " for key, why in self.refusals[:_ERRORS_SHOWN]]
        more = len(self.refusals) - _ERRORS_SHOWN
        return f"not all pods would schedule, {''.join(shown)}" + (
            f" and {more} other(s)" if more > 0 else ""
        )


def simulate(context: DisruptionContext, gone: Sequence[Candidate], *, consolidating: bool) -> Simulation:
    """Place everything that would have to move."""
    budgets = budgets_of(context.budgets)
    nodes = context.world.nodes
    deleting = nodes.named(nodes.marked)

    def movable(pods: Iterable[Obj]) -> list[Obj]:
        return [p for p in pods if is_currently_reschedulable(p, budgets, context.now_us)]

    of_candidates = [p for c in gone for p in movable(c.reschedulable)]
    of_deleting = [p for n in deleting for p in movable(n.pods)]
    options = replace(context.options, is_consolidation=consolidating)
    shapes = context.shapes
    if shapes.respects_preferences != options.respects_preferences:
        shapes = Shapes(respects_preferences=options.respects_preferences)
    waiting = [p for p in context.pending if is_provisionable(p)]
    pods = [*waiting, *of_candidates, *of_deleting]
    # Pods of a node that is going may land anywhere, as pending ones may, bound or not.
    free = {_uid(p) for p in of_deleting}
    facts = [
        facts_of(
            p,
            shapes.of(p, context.world.volumes.get(_uid(p), ())),
            is_pending=_uid(p) in free or status_of(p).get("phase") == "Pending",
        )
        for p in pods
    ]
    world = context.world.without_going(c.name for c in gone)
    results = Solver(world, shapes, options, moving=[_uid(p) for p in pods]).solve(facts)
    pending = {_uid(p) for p in waiting}
    return Simulation(results, _refusals(results, pending, {_uid(p) for p in of_deleting}))


def _refusals(results: Results, pending: set[str], deleting: set[str]) -> tuple[tuple[str, str], ...]:
    found = [(pod.key, str(why)) for pod, why in results.refused if pod.uid not in pending]
    for node, pods in results.pods_on:
        if node.is_initialized:
            continue
        about = ", ".join(
            part
            for part in (f"nodeclaim/{node.claim}" if node.claim else "", f"node/{node.name}" * node.has_node)
            if part
        )
        found += [
            (pod.key, f"would schedule against uninitialized {about}")
            for pod in pods
            if pod.uid not in deleting and pod.uid not in pending
        ]
    return tuple(found)


def _uid(pod: Obj) -> str:
    meta = meta_of(pod)
    return str(meta.get("uid") or f"{meta.get('namespace') or ''}/{meta.get('name') or ''}")
