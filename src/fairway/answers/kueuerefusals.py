"""Is it quota that Kueue refuses by, or where the pods may run?

Kueue's flavor assigner says both in one condition: a taint, a label, a missing topology level hide whether there is
quota, and quota that is short hides whether the pods would find a place. So its cycle is asked again on books where
one of the two is no matter, and then the other.

Source: pkg/scheduler/flavorassigner/flavorassigner.go, tas_flavorassigner.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairway.queueing.control.pendingreasons import Standing
from fairway.queueing.cycle.cycle import run_cycle
from fairway.queueing.cycle.entries import Head, Outcome, Status
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.gates import FeatureGates
from fairway.queueing.facts.objects import (
    ClusterQueue,
    FlavorResource,
    Quota,
    ResourceFlavor,
    flavor_resource,
)
from fairway.queueing.quota.accounts import QueueAccount
from fairway.results.queuestate import QueueState, cycle_options

_UNBOUNDED = Quota(2**50)


@dataclass(frozen=True, slots=True)
class Said:
    """Kueue's words."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Refusals:
    """What each of the two would say by itself; None: it lets the Workload pass. Both None: something else refuses."""

    quota: Said | None
    placement: Said | None


def refusals_of(
    state: QueueState,
    account: QueueAccount,
    standing: Standing,
    uncovered: dict[str, int],
    mismatches: dict[str, str],
) -> Refusals:
    """Of a Workload that waits. At most three cycles of one head, each on books of its own: O(books)."""
    said = Said(standing.reason, standing.message)
    workload = standing.workload
    may_be_placed_wrongly = workload.shape.is_explicitly_topology_aware or account.topologies
    if not mismatches and not may_be_placed_wrongly:
        return Refusals(said, None)
    accounts = state.backlog.accounts
    roomy = _without_limits(account.spec, uncovered)
    gates = replace(accounts.gates, topology_aware_scheduling=False)
    plain = {name: _anywhere(flavor) for name, flavor in accounts.flavors.items()}
    placement = _asked(state, standing, None, None, roomy)
    if placement is None:
        return Refusals(said, None)
    quota = _asked(state, standing, gates, plain, None)
    if quota is None:
        return Refusals(None, _named(said))
    if _asked(state, standing, gates, plain, roomy) is not None:
        return Refusals(None, None)
    return Refusals(quota, _named(placement))


def _asked(
    state: QueueState,
    standing: Standing,
    gates: FeatureGates | None,
    flavors: dict[str, ResourceFlavor] | None,
    spec: ClusterQueue | None,
) -> Said | None:
    """What a cycle would say on books that are otherwise so; None: it lets the Workload pass."""
    backlog = state.backlog
    accounts = backlog.accounts.copy(gates=gates, flavors=flavors, spec=spec)
    head = Head(standing.workload, standing.cluster_queue)
    (outcome,) = run_cycle(accounts, [head], backlog.namespaces, cycle_options(state)).entries
    return None if _passes(outcome) else Said(outcome.reason, outcome.message)


def _passes(outcome: Outcome) -> bool:
    waits_for_others = outcome.status == Status.WAITING_FOR_PODS_READY
    return outcome.is_admitted or bool(outcome.evictions) or waits_for_others


def _named(said: Said) -> Said:
    """A full topology is no matter of quota, though Kueue's reason says so."""
    if said.reason in ("", conds.WAITING_FOR_QUOTA, conds.EXCEEDS_MAX_QUOTA):
        return Said(conds.TOPOLOGY_PLACEMENT_FAILED, said.message)
    return said


def _without_limits(spec: ClusterQueue, uncovered: dict[str, int]) -> ClusterQueue:
    """The ClusterQueue with more than enough of everything in every flavor."""
    quotas: dict[FlavorResource, Quota] = dict.fromkeys(spec.quotas, _UNBOUNDED)
    groups = list(spec.groups)
    if uncovered and groups:
        groups[0] = replace(groups[0], covered=groups[0].covered | frozenset(uncovered))
        quotas |= {flavor_resource(f, r): _UNBOUNDED for f in groups[0].flavors for r in uncovered}
    return replace(spec, groups=tuple(groups), quotas=quotas)


def _anywhere(flavor: ResourceFlavor) -> ResourceFlavor:
    return ResourceFlavor(flavor.name, {}, (), (), "")
