"""What happened that Karpenter counts; `gauges` says what else its metrics would say now.

Source: see `provisioning/metrics.py`; what counts when: provisioner.go CreateNodeClaims, nodeclaim/expiration,
nodeclaim/lifecycle (launch.go, registration.go, liveness.go, controller.go), disruption/queue.go, node/termination.
"""

from __future__ import annotations

from typing import Final

from fairway.cluster.store import Store
from fairway.kube.objects import Obj, annotations_of, labels_of, meta_of, spec_of, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.provisioning.karpenter.disruption.commands import REPLACE, Command
from fairway.provisioning.karpenter.disruption.methods import DRIFT, SINGLE
from fairway.provisioning.karpenter.disruption.multinode import MULTI
from fairway.provisioning.karpenter.labels import (
    CAPACITY_TYPE,
    MIN_VALUES_RELAXED,
    NODEPOOL,
    PROVIDER_PREFIXES,
    ZONE,
)
from fairway.provisioning.karpenter.nodeclaims import REGISTERED_CONDITION, is_true
from fairway.provisioning.karpenter.nodepools import NodePool, duration_us
from fairway.provisioning.karpenter.podfacts import is_reschedulable
from fairway.provisioning.metrics import families
from fairway.twin.provisioner.cloud import Cloud
from fairway.twin.tally import Tally

PROVISIONED: Final = "provisioned"
EXPIRED: Final = "expired"
NOT_REGISTERED: Final = "registration_timeout"
NO_CAPACITY: Final = "insufficient_capacity"
# Of the AWS provider. Source: karpenter-provider-aws pkg/controllers/interruption/messages.
SPOT_INTERRUPTED: Final = "spot_interrupted"


def new_tally() -> Tally:
    """With the counters that show before anything happened."""
    tally = Tally(families())
    for method in (MULTI, SINGLE):
        tally.begin("karpenter_voluntary_disruption_consolidation_timeouts_total", method)
    return tally


def created(tally: Tally, claim: Obj, reason: str) -> None:
    relaxed = annotations_of(claim).get(MIN_VALUES_RELAXED) or "false"
    pool = labels_of(claim).get(NODEPOOL) or ""
    tally.add("karpenter_nodeclaims_created_total", reason.lower(), pool, relaxed)


def not_launched(tally: Tally, claim: Obj, cloud: Cloud) -> None:
    """The cloud has none of what the claim asks for."""
    tally.add("karpenter_nodeclaims_disrupted_total", *_disrupted(claim, NO_CAPACITY))
    error = ("nodeclaim.lifecycle", "Create", _provider(cloud), "InsufficientCapacityError")
    tally.add("karpenter_cloudprovider_errors_total", *error)


def registered(tally: Tally, claim: Obj) -> None:
    labels = labels_of(claim)
    tally.add("karpenter_nodes_created_total", labels.get(NODEPOOL) or "", labels.get(ZONE) or "")


def terminated(tally: Tally, claim: Obj, now_us: int) -> None:
    """A claim is gone, with its node where it had one."""
    labels = labels_of(claim)
    pool, zone = labels.get(NODEPOOL) or "", labels.get(ZONE) or ""
    tally.add("karpenter_nodeclaims_terminated_total", pool, labels.get(CAPACITY_TYPE) or "", zone)
    tally.add("karpenter_nodes_terminated_total", pool, zone, times=int(is_true(claim, REGISTERED_CONDITION)))
    if "deletionTimestamp" in meta_of(claim):
        lasted_s = _seconds_since(meta_of(claim)["deletionTimestamp"], now_us)
        tally.observe("karpenter_nodeclaims_termination_duration_seconds", lasted_s, pool)


def emptied(tally: Tally, node: Obj, since_us: int, now_us: int) -> None:
    """A node was drained, and is about to be gone. `since_us`: when it was told to go."""
    pool = labels_of(node).get(NODEPOOL) or ""
    tally.add("karpenter_nodes_drained_total", pool)
    lasted_s = (now_us - since_us) / SECOND_US
    tally.observe("karpenter_nodes_termination_duration_seconds", lasted_s, pool, now_us=now_us)
    age_s = _seconds_since(meta_of(node)["creationTimestamp"], now_us)
    tally.observe("karpenter_nodes_lifetime_duration_seconds", age_s, pool)


def disrupted(tally: Tally, store: Store, claim: Obj, reason: str, pool: NodePool | None = None) -> None:
    """A claim is told to go. `pool`: whose consolidation policy it was, None where none was."""
    policy = "" if pool is None else _snake(pool.consolidation_policy)
    labels = _disrupted(claim, reason, policy)
    tally.add("karpenter_nodeclaims_disrupted_total", *labels)
    moving = _movable(store, str(status_of(claim).get("nodeName") or ""))
    tally.add("karpenter_pods_disruption_initiated_total", *labels, times=moving)


def given_up(tally: Tally, claim: Obj) -> None:
    """Its machine did not register in time."""
    tally.add("karpenter_nodeclaims_disrupted_total", *_disrupted(claim, NOT_REGISTERED))


def _disrupted(claim: Obj, reason: str, policy: str = "") -> tuple[str, ...]:
    labels, grace = labels_of(claim), spec_of(claim).get("terminationGracePeriod")
    mode = "graceful" if grace is None else ("eventual" if (duration_us(grace) or 0) > 0 else "forceful")
    of_pool, capacity_type = labels.get(NODEPOOL) or "", labels.get(CAPACITY_TYPE) or ""
    return (_snake(reason), of_pool, capacity_type, policy, mode)


def _movable(store: Store, node: str) -> int:
    row = store.accounts.row_of.get(node)
    if row is None:
        return 0
    pods = [store.get(key) for key in store.accounts.pods[row]]
    return sum(pod is not None and is_reschedulable(pod) for pod in pods)


def performed(tally: Tally, command: Command) -> None:
    kind = "" if command.method == DRIFT else command.method
    what = (command.decision, command.reason.lower(), kind)
    tally.add("karpenter_voluntary_disruption_decisions_total", *what)
    for pool in dict.fromkeys(c.pool.name for c in command.candidates):
        tally.add("karpenter_voluntary_disruption_decisions_by_nodepool_total", pool, *what)


def dropped(tally: Tally, command: Command) -> None:
    name = "karpenter_voluntary_disruption_failed_validations_total"
    tally.add(name, command.method, times=len(command.candidates))


def gave_up(tally: Tally, reason: str, missing: int) -> None:
    """A command whose replacements did not come. Its decision stands in for its consolidation type, as upstream."""
    name = "karpenter_voluntary_disruption_queue_failures_total"
    tally.add(name, REPLACE, _snake(reason), REPLACE, times=missing)


def _snake(text: str) -> str:
    """`WhenEmptyOrUnderutilized` → `when_empty_or_underutilized`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in text).lstrip("_")


def _seconds_since(timestamp: str, now_us: int) -> float:
    return (now_us - parse_rfc3339(timestamp)) / SECOND_US


def _provider(cloud: Cloud) -> str:
    """Whose machines these are, by what their types say of themselves."""
    keys = [r.key for kind in cloud.types[:1] for r in kind.requirements]
    found = (name for name, prefix in PROVIDER_PREFIXES.items() if any(k.startswith(prefix) for k in keys))
    return next(found, "")
