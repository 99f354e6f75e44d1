"""What would Karpenter's metrics say now?

Source: see `provisioning/metrics.py`; what counts when: provisioner.go CreateNodeClaims, lifecycle/registration.go,
disruption/queue.go, node/termination.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairway.kube.metricfamilies import Sample
from fairway.kube.objects import Obj, annotations_of, labels_of
from fairway.kube.resources import CPU
from fairway.provisioning.karpenter.disruption.commands import Command
from fairway.provisioning.karpenter.disruption.methods import DRIFT
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, MIN_VALUES_RELAXED, NODEPOOL, ZONE
from fairway.provisioning.karpenter.nodepools import NodePool, duration_us
from fairway.twin.tally import Tally

if TYPE_CHECKING:
    from fairway.twin.provisioner.component import Provisioner

PROVISIONED: Final = "provisioned"


def created(tally: Tally, claim: Obj, reason: str) -> None:
    relaxed = annotations_of(claim).get(MIN_VALUES_RELAXED) or "false"
    pool = labels_of(claim).get(NODEPOOL) or ""
    tally.add("karpenter_nodeclaims_created_total", reason.lower(), pool, relaxed)


def registered(tally: Tally, claim: Obj) -> None:
    labels = labels_of(claim)
    tally.add("karpenter_nodes_created_total", labels.get(NODEPOOL) or "", labels.get(ZONE) or "")


def terminated(tally: Tally, claim: Obj, *, had_node: bool) -> None:
    labels = labels_of(claim)
    pool, zone = labels.get(NODEPOOL) or "", labels.get(ZONE) or ""
    tally.add("karpenter_nodeclaims_terminated_total", pool, labels.get(CAPACITY_TYPE) or "", zone)
    tally.add("karpenter_nodes_terminated_total", pool, zone, times=int(had_node))


def disrupted(tally: Tally, claim: Obj, reason: str, pool: NodePool | None, *, is_drift: bool) -> None:
    """`pool`: whose consolidation policy it was, which drift does not tell."""
    labels, grace = labels_of(claim), (claim.get("spec") or {}).get("terminationGracePeriod")
    mode = "graceful" if grace is None else ("eventual" if (duration_us(grace) or 0) > 0 else "forceful")
    policy = "" if pool is None or is_drift else _snake(pool.consolidation_policy)
    of_pool, capacity_type = labels.get(NODEPOOL) or "", labels.get(CAPACITY_TYPE) or ""
    tally.add("karpenter_nodeclaims_disrupted_total", _snake(reason), of_pool, capacity_type, policy, mode)


def performed(tally: Tally, command: Command) -> None:
    kind = "" if command.method == DRIFT else command.method
    name = "karpenter_voluntary_disruption_decisions_total"
    tally.add(name, command.decision, command.reason.lower(), kind)


def dropped(tally: Tally, command: Command) -> None:
    name = "karpenter_voluntary_disruption_failed_validations_total"
    tally.add(name, command.method, times=len(command.candidates))


def _snake(text: str) -> str:
    """`WhenEmptyOrUnderutilized` → `when_empty_or_underutilized`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in text).lstrip("_")


def samples(provisioner: Provisioner) -> list[Sample]:
    """Counters so far, and gauges as of now. O(nodes)."""
    world = provisioner.world()
    out = provisioner.tally.samples()
    usage = world.nodes.usage()
    for pool in world.pools:
        out += [
            Sample("karpenter_nodepools_limit", (_resource(name), pool.name), _amount(name, amount))
            for name, amount in sorted((pool.limits or {}).items())
        ]
        out += [
            Sample("karpenter_nodepools_usage", (_resource(name), pool.name), _amount(name, amount))
            for name, amount in sorted(usage.get(pool.name, {}).items())
        ]
    name = "karpenter_scheduler_unschedulable_pods_count"
    return [*out, Sample(name, ("provisioner",), float(provisioner.refused))]


def _resource(name: str) -> str:
    return name.lower().replace("-", "_")


def _amount(name: str, amount: int) -> float:
    """CPU in cores, everything else as it is."""
    return amount / 1000 if name == CPU else float(amount)
