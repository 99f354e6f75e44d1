"""The status of a scheduler-plugins PodGroup: its phase, and how many of its pods run, succeeded or failed.

Source: kubernetes-sigs/scheduler-plugins pkg/controllers/podgroup_controller.go (master of 2026-08).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairway.cluster.actions import NOTHING_TO_DO, Reconciliation, SetStatus, View
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj, labels_of
from fairway.workloads.controller import NO_KEYS, Controller
from fairway.workloads.pods import FAILED, RUNNING, SUCCEEDED, phase_of

POD_GROUP = "PodGroup.scheduling.x-k8s.io"
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
_PENDING, _SCHEDULING, _RUNNING, _FINISHED, _FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    group = view.get(key)
    if group is None:
        return NOTHING_TO_DO
    status = group.get("status") or {}
    if status.get("phase") in (_FINISHED, _FAILED):
        return NOTHING_TO_DO
    pods = [p for p in view.objects("Pod", key.namespace) if labels_of(p).get(POD_GROUP_LABEL) == key.name]
    new = _next(status, pods, int((group.get("spec") or {}).get("minMember") or 0))
    return NOTHING_TO_DO if new == status else Reconciliation((SetStatus(key, new),))


def _next(status: dict[str, Any], pods: list[Obj], least: int) -> dict[str, Any]:
    """One step: the controller takes one at every look."""
    phase = status.get("phase") or ""
    if not phase:
        return {**status, "phase": _PENDING}
    if phase == _PENDING:
        if len(pods) < least:
            return status
        return {**status, "phase": _SCHEDULING, **_occupied_by(pods)}
    counts = {p: sum(phase_of(pod) == p for pod in pods) for p in (RUNNING, SUCCEEDED, FAILED)}
    running, succeeded, failed = counts[RUNNING], counts[SUCCEEDED], counts[FAILED]
    if len(pods) < least:
        phase = _PENDING
    else:
        phase = _RUNNING if succeeded + running >= least else _SCHEDULING
        if failed and failed + running + succeeded >= least:
            phase = _FAILED
        if succeeded >= least:
            phase = _FINISHED
    kept = {k: v for k, v in status.items() if k not in ("running", "succeeded", "failed")}
    return {**kept, "phase": phase, **{p.lower(): n for p, n in counts.items() if n}}


def _occupied_by(pods: list[Obj]) -> dict[str, str]:
    """The owners of the first pod."""
    for pod in pods[:1]:
        meta = pod["metadata"]
        owners = sorted(f"{meta['namespace']}/{ref['name']}" for ref in meta.get("ownerReferences") or ())
        if owners:
            return {"occupiedBy": ",".join(owners)}
    return {}


def changed_keys(view: View, change: Change) -> Sequence[Key]:
    if change.key.gk == POD_GROUP:
        return NO_KEYS if change.type == DELETED else (change.key,)
    name = labels_of(change.obj).get(POD_GROUP_LABEL)
    return (Key(POD_GROUP, change.key.namespace, name),) if name else NO_KEYS


CONTROLLER = Controller("podgroup-controller", POD_GROUP, (POD_GROUP, "Pod"), changed_keys, reconcile)
