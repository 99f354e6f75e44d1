"""What do ClusterQueues, LocalQueues and Cohorts say of themselves? Counts, usage, conditions, shares.

Source: pkg/controller/core/clusterqueue_controller.go, localqueue_controller.go, cohort_controller.go;
pkg/cache/scheduler/cache.go (Usage, LocalQueueUsage, ClusterQueueReadiness).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from fairway.kube.objects import Obj, meta_of, status_of
from fairway.kube.quantity import canonical
from fairway.kube.timestamps import rfc3339
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.amounts import MAX_INT64, amount_text
from fairway.queueing.facts.conditions import with_condition
from fairway.queueing.facts.objects import NO_STOP, FlavorResource, LocalQueue
from fairway.queueing.facts.workloads import Usage, Workload
from fairway.queueing.quota.accounts import QueueAccount
from fairway.queueing.quota.inactivity import ACTIVE_MESSAGE, ACTIVE_REASON
from fairway.queueing.quota.quotatree import QuotaNode
from fairway.queueing.quota.shares import share_of

ACTIVE: Final = "Active"

_STOPPED: Final = "LocalQueue is stopped"
_INACTIVE: Final = "Can't submit new workloads to clusterQueue"
_READY: Final = "Can submit new workloads to localQueue"


@dataclass(slots=True)
class Held:
    """What holds quota of a queue: how many, how many of them admitted, and how much of what."""

    reserving: int = 0
    admitted: int = 0
    reserved_usage: dict[FlavorResource, int] = field(default_factory=dict)
    admitted_usage: dict[FlavorResource, int] = field(default_factory=dict)

    def add(self, workload: Workload, sign: int) -> None:
        self.reserving += sign
        _count(self.reserved_usage, workload.usage, sign)
        if workload.is_admitted:
            self.admitted += sign
            _count(self.admitted_usage, workload.usage, sign)

    def copy(self) -> Held:
        return Held(self.reserving, self.admitted, dict(self.reserved_usage), dict(self.admitted_usage))


NOTHING_HELD: Final = Held()


def _count(total: dict[FlavorResource, int], usage: Usage, sign: int) -> None:
    for fr, value in usage:
        total[fr] = total.get(fr, 0) + sign * value


def cluster_queue_status(
    obj: Obj, account: QueueAccount, held: Held, pending: int, *, fair_sharing: bool, now_us: int
) -> dict[str, Any]:
    """The whole next status. O(flavors × resources)."""
    spec = account.spec
    status = dict(status_of(obj))
    in_cohort = bool(spec.cohort)
    reserved = status["flavorsReservation"] = _usage(account, held.reserved_usage, in_cohort)
    # The same, most of the time: nothing waits between quota and admission.
    same = held.admitted_usage == held.reserved_usage
    status["flavorsUsage"] = reserved if same else _usage(account, held.admitted_usage, in_cohort)
    status["reservingWorkloads"] = held.reserving
    status["admittedWorkloads"] = held.admitted
    status["pendingWorkloads"] = pending
    if account.inactivity is None:
        value, reason, message = conds.TRUE, ACTIVE_REASON, ACTIVE_MESSAGE
    else:
        value, reason, message = conds.FALSE, account.inactivity.reason, account.inactivity.message
    status["conditions"] = _active(obj, value, reason, message, now_us)
    _set_share(status, account, fair_sharing)
    return status


def cohort_status(obj: Obj, node: QuotaNode | None, *, fair_sharing: bool) -> dict[str, Any]:
    status = dict(status_of(obj))
    if node is not None:
        _set_share(status, node, fair_sharing)
    return status


def _set_share(status: dict[str, Any], node: QuotaNode, fair_sharing: bool) -> None:
    if fair_sharing:
        share = share_of(node).weighted
        whole = MAX_INT64 if share == math.inf else math.ceil(share)
        status["fairSharing"] = {**(status.get("fairSharing") or {}), "weightedShare": whole}
    else:
        status.pop("fairSharing", None)


def consumption_status(obj: Obj, consumed: Mapping[str, Decimal], now_us: int) -> dict[str, Any]:
    """A LocalQueue's status with what it consumed lately, under admission fair sharing.

    Source: localqueue_controller.go updateAdmissionFsStatus.
    """
    status = dict(status_of(obj))
    said = {
        "consumedResources": {name: canonical(f"{value:f}") for name, value in sorted(consumed.items())},
        "lastUpdate": rfc3339(now_us),
    }
    share = {"weightedShare": 0, **(status.get("fairSharing") or {}), "admissionFairSharingStatus": said}
    return {**status, "fairSharing": share}


def local_queue_status(
    obj: Obj,
    queue: LocalQueue,
    cluster_queue: QueueAccount | None,
    held: Held,
    pending: int,
    *,
    is_queue_active: bool,
    now_us: int,
) -> dict[str, Any]:
    """`is_queue_active`: what its ClusterQueue's status says."""
    status = dict(status_of(obj))
    if queue.stop_policy != NO_STOP:
        value, reason, message, pending = conds.FALSE, "Stopped", _STOPPED, 0
    elif cluster_queue is None:
        value, reason, message = conds.FALSE, "ClusterQueueDoesNotExist", _INACTIVE
    elif is_queue_active:
        value, reason, message = conds.TRUE, "Ready", _READY
    else:
        value, reason, message = conds.FALSE, "ClusterQueueIsInactive", _INACTIVE
    status["pendingWorkloads"] = pending
    if cluster_queue is None:
        held = NOTHING_HELD
        status.pop("flavorsReservation", None)
        status.pop("flavorsUsage", None)
    else:
        reserved = status["flavorsReservation"] = _plain_usage(cluster_queue, held.reserved_usage)
        same = held.admitted_usage == held.reserved_usage
        status["flavorsUsage"] = reserved if same else _plain_usage(cluster_queue, held.admitted_usage)
    status["reservingWorkloads"] = held.reserving
    status["admittedWorkloads"] = held.admitted
    status["conditions"] = _active(obj, value, reason, message, now_us)
    return status


def is_active_by_status(cluster_queue: Obj | None) -> bool:
    return cluster_queue is not None and conds.is_true(status_of(cluster_queue), ACTIVE)


def _active(obj: Obj, value: str, reason: str, message: str, now_us: int) -> list[conds.Condition]:
    return with_condition(
        status_of(obj).get("conditions") or [],
        ACTIVE,
        value,
        reason=reason,
        message=message,
        now_us=now_us,
        generation=int(meta_of(obj).get("generation") or 0),
    )


def _usage(
    account: QueueAccount, used: Mapping[FlavorResource, int], in_cohort: bool
) -> list[dict[str, Any]]:
    """What is used, and how much of it is borrowed: beyond the nominal quota, in a cohort."""
    flavors: list[dict[str, Any]] = []
    for flavor, frs in account.listed:
        resources: list[dict[str, Any]] = []
        for fr in frs:
            amount, quota = used.get(fr, 0), account.quotas.get(fr)
            entry = {"name": fr.resource, "total": amount_text(fr.resource, amount), "borrowed": "0"}
            if in_cohort:
                over = amount - (quota.nominal if quota is not None else 0)
                entry["borrowed"] = amount_text(fr.resource, max(over, 0))
            resources.append(entry)
        flavors.append({"name": flavor, "resources": resources})
    return flavors


def _plain_usage(account: QueueAccount, used: Mapping[FlavorResource, int]) -> list[dict[str, Any]]:
    return [
        {
            "name": flavor,
            "resources": [
                {"name": fr.resource, "total": amount_text(fr.resource, used.get(fr, 0))} for fr in frs
            ],
        }
        for flavor, frs in account.listed
    ]
