"""The condition PodsReady of a Workload.

Source: pkg/controller/jobframework/reconciler.go generatePodsReadyCondition.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fairway.kube.objects import Obj, status_of
from fairway.queueing.facts import conditions as conds

WAIT_FOR_START: Final = "WaitForStart"
WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
STARTED: Final = "Started"
RECOVERED: Final = "Recovered"

_READY: Final = "All pods reached readiness and the workload is running"
_NOT_READY: Final = "Not all pods are ready or succeeded"
_RECOVERING: Final = "At least one pod has failed, waiting for recovery"


class Readiness(NamedTuple):
    status: str
    reason: str
    message: str


def readiness(workload: Obj, pods_ready: bool) -> Readiness:
    """What PodsReady should say. `pods_ready` counts only while the Workload is admitted."""
    status = status_of(workload)
    if not conds.is_true(status, conds.ADMITTED):
        return Readiness(conds.FALSE, WAIT_FOR_START, _NOT_READY)
    old = conds.find(status, conds.PODS_READY)
    reason = "" if old is None else old.get("reason")
    if pods_ready:
        has_recovered = reason in (WAIT_FOR_RECOVERY, RECOVERED)
        return Readiness(conds.TRUE, RECOVERED if has_recovered else STARTED, _READY)
    if old is not None and (old.get("status") == conds.TRUE or reason == WAIT_FOR_RECOVERY):
        return Readiness(conds.FALSE, WAIT_FOR_RECOVERY, _RECOVERING)
    return Readiness(conds.FALSE, WAIT_FOR_START, _NOT_READY)


def is_up_to_date(workload: Obj, wanted: Readiness) -> bool:
    old = conds.find(status_of(workload), conds.PODS_READY)
    return old is not None and (old.get("status"), old.get("reason")) == (wanted.status, wanted.reason)
