"""What the API server writes into a Kueue object that leaves fields out.

Source: the `+kubebuilder:default` markers in apis/kueue/v1beta2.
"""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Obj, spec_of
from fairway.queueing.objects import BEST_EFFORT_FIFO, MAY_STOP_SEARCH, NEVER, NO_STOP, TRY_NEXT_FLAVOR


def defaulted_cluster_queue(obj: Obj) -> Obj:
    """A ClusterQueue with its defaults filled in."""
    spec = dict(spec_of(obj))
    spec.setdefault("queueingStrategy", BEST_EFFORT_FIFO)
    spec.setdefault("stopPolicy", NO_STOP)
    fungibility = {"whenCanBorrow": MAY_STOP_SEARCH, "whenCanPreempt": TRY_NEXT_FLAVOR}
    spec["flavorFungibility"] = fungibility | (spec.get("flavorFungibility") or {})
    preemption: dict[str, Any] = {"reclaimWithinCohort": NEVER, "withinClusterQueue": NEVER}
    preemption |= spec.get("preemption") or {}
    preemption["borrowWithinCohort"] = {"policy": NEVER} | (preemption.get("borrowWithinCohort") or {})
    spec["preemption"] = preemption
    return {**obj, "spec": spec}


def defaulted_local_queue(obj: Obj) -> Obj:
    """A LocalQueue with its defaults filled in."""
    return {**obj, "spec": {"stopPolicy": NO_STOP, **spec_of(obj)}}


def defaulted_workload(obj: Obj) -> Obj:
    """A Workload with its defaults filled in: active, and every pod set named and counted."""
    spec = {"active": True, **spec_of(obj)}
    spec["podSets"] = [{"name": "main", "count": 1, **pod_set} for pod_set in spec.get("podSets") or ()]
    return {**obj, "spec": spec}
