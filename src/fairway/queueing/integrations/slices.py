"""Elastic jobs: one Workload slice after another, each of the size the job has now.

A slice that holds no quota yet, or that only shrinks, is resized; one that has to grow is replaced by a new
slice, which takes over once it is admitted. Pods enter behind a gate, and as many go as the admitted slice grants.

Source: pkg/workloadslicing/workloadslicing.go EnsureWorkloadSlices, pkg/controller/elasticjobs/elastic_job_ungater.go;
KEP-77.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairway.cluster.actions import Action, Replace, SetStatus
from fairway.kube.objects import Obj, annotations_of, key_of, labels_of, meta_of, name_of, spec_of, status_of
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.workloads import SLICE_REPLACEMENT_FOR
from fairway.queueing.facts.workloads import key_of as workload_key
from fairway.queueing.facts.workloadstate import is_finished
from fairway.queueing.integrations.integration import PodSetObj
from fairway.queueing.integrations.podsetinfo import POD_SET_LABEL
from fairway.queueing.outcomes import statuses

# What pods of elastic jobs wait behind.
ELASTIC_GATE: Final = "kueue.x-k8s.io/elastic-job"

Counts = dict[str, int]


def ensured(
    pod_sets: Sequence[PodSetObj], owned: Sequence[Obj], now_us: int
) -> tuple[Obj | None, list[Action]] | None:
    """The slice that is the job's now (None: a new one is needed) and what to do first.

    None: the job changed by more than counts, so that slices do not do.
    """
    there = sorted(
        (w for w in owned if not is_finished(w)),
        key=lambda w: (meta_of(w).get("creationTimestamp") or "", meta_of(w).get("uid") or ""),
    )
    if not there:
        return None, []
    wanted = _counts(pod_sets)
    chosen, actions = (there[0], []) if len(there) == 1 else _normalized(there, now_us)
    if actions or chosen is None:
        return chosen, actions
    present = _counts(spec_of(chosen).get("podSets") or ())
    if list(wanted) != list(present):
        return None
    if wanted == present:
        return chosen, []
    if not _has_quota(chosen) or is_scaled_down(present, wanted):
        resized = [
            {**ps, "count": wanted[ps.get("name") or "main"]} for ps in spec_of(chosen).get("podSets") or ()
        ]
        return chosen, [Replace({**chosen, "spec": {**spec_of(chosen), "podSets": resized}})]
    return None, []


def is_scaled_down(old: Counts, new: Counts) -> bool:
    """Some pod set has fewer pods, none more."""
    return any(new.get(n, 0) < c for n, c in old.items()) and not any(
        old.get(n, 0) < c for n, c in new.items()
    )


def _counts(pod_sets: Sequence[PodSetObj]) -> Counts:
    return {ps.get("name") or "main": int(ps.get("count", 1)) for ps in pod_sets}


def _has_quota(workload: Obj) -> bool:
    return conds.is_true(status_of(workload), conds.QUOTA_RESERVED)


def _normalized(there: Sequence[Obj], now_us: int) -> tuple[Obj | None, list[Action]]:
    """Of several slices at most one holds quota and one waits to replace it; the rest is over."""
    living = [w for w in there if not conds.is_true(status_of(w), conds.EVICTED)]
    replacing: dict[str, Obj] = {}
    for workload in living:
        replaces = annotations_of(workload).get(SLICE_REPLACEMENT_FOR)
        if replaces and (replaces not in replacing or _has_quota(workload)):
            replacing[replaces] = workload
    holder: Obj | None = None
    for workload in living:
        replacement = replacing.get(workload_key(workload))
        if _has_quota(workload) and not (replacement is not None and _has_quota(replacement)):
            holder = workload
    chosen = holder
    if holder is not None:
        waiting = replacing.get(workload_key(holder))
        if waiting is not None and not _has_quota(waiting):
            chosen = waiting
    elif living:
        chosen = living[-1]
    actions: list[Action] = []
    for workload in there:
        if workload is chosen or workload is holder:
            continue
        text = "The workload slice is out of sync with its parent job"
        ended = statuses.finished(workload, "OutOfSync", text, now_us)
        actions.append(SetStatus(key_of(workload), ended["status"]))
    return chosen, actions


def is_gated(pod: Obj) -> bool:
    return any(g.get("name") == ELASTIC_GATE for g in spec_of(pod).get("schedulingGates") or ())


def ungated(slices: Sequence[Obj], pods: Sequence[Obj]) -> list[Action]:
    """Pods let go, up to what the admitted slice grants each pod set. O(pods).

    Unlike kube: what an admission check adds to pods that were made before it is not brought up to date.
    """
    active = [w for w in slices if not is_finished(w) and conds.is_true(status_of(w), conds.ADMITTED)]
    active = [w for w in active if not conds.is_true(status_of(w), conds.EVICTED)]
    if not active:
        return []
    room = {
        ps.get("name") or "main": int(ps.get("count") or 0)
        for ps in status_of(active[-1])["admission"].get("podSetAssignments") or ()
    }
    living = [p for p in pods if status_of(p).get("phase") not in ("Succeeded", "Failed")]
    for pod in living:
        if _pod_set(pod) in room and not is_gated(pod):
            room[_pod_set(pod)] -= 1
    actions: list[Action] = []
    for pod in sorted((p for p in living if is_gated(p)), key=name_of):
        if room.get(_pod_set(pod), 0) > 0:
            room[_pod_set(pod)] -= 1
            actions.append(Replace(_let_go(pod)))
    return actions


def _pod_set(pod: Obj) -> str:
    return labels_of(pod).get(POD_SET_LABEL) or "main"


def _let_go(pod: Obj) -> Obj:
    spec = {k: v for k, v in spec_of(pod).items() if k != "schedulingGates"}
    kept = [g for g in spec_of(pod)["schedulingGates"] if g.get("name") != ELASTIC_GATE]
    return {**pod, "spec": {**spec, "schedulingGates": kept} if kept else spec}
