"""Does a Workload still describe its job?

Source: pkg/controller/jobframework/reconciler.go (EquivalentToWorkload, expectedRunningPodSets),
pkg/util/equality/podset.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairway.cluster.actions import View
from fairway.kube.objects import Obj, controller_of, meta_of, name_of, spec_of, status_of
from fairway.queueing.facts import conditions as conds
from fairway.queueing.integrations.construct import job_pod_sets, max_execution_s
from fairway.queueing.integrations.integration import Integration, PodSetObj
from fairway.queueing.integrations.podsetinfo import BadPodSets, FlavorMissing, admitted_infos
from fairway.queueing.integrations.settings import JobSettings


def is_equivalent(
    view: View, integration: Integration, job: Obj, workload: Obj, settings: JobSettings
) -> bool:
    """Whether it is this job's, and asks for what the job would ask for."""
    owner = controller_of(workload)
    if owner is not None and (
        owner.get("name") != name_of(job) or owner.get("uid") != meta_of(job).get("uid")
    ):
        return False
    if spec_of(workload).get("maximumExecutionTimeSeconds") != max_execution_s(job):
        return False
    mine = job_pod_sets(view, integration, job)
    asked = spec_of(workload).get("podSets") or []
    own = integration.is_equivalent(job, mine, asked)
    if own is not None:
        return own
    status = status_of(workload)
    if not conds.is_true(status, conds.QUOTA_RESERVED):
        return are_equal(mine, asked)
    is_admitted = conds.is_true(status, conds.ADMITTED)
    try:
        running = _running(view, workload, asked, settings, with_tolerations=not is_admitted)
    except (BadPodSets, FlavorMissing):
        return are_equal(mine, asked)
    if are_equal(mine, running, ignores_tolerations=is_admitted):
        return True
    return integration.is_suspended(job) and are_equal(mine, asked, ignores_tolerations=is_admitted)


def _running(
    view: View, workload: Obj, asked: Sequence[PodSetObj], settings: JobSettings, *, with_tolerations: bool
) -> list[PodSetObj]:
    """The pod sets as they run: with the counts that were admitted, and what was injected."""
    if not with_tolerations:
        counts = {
            a.get("name") or "main": a.get("count")
            for a in (status_of(workload).get("admission") or {}).get("podSetAssignments") or ()
        }
        return [_with_count(ps, counts.get(ps.get("name") or "main")) for ps in asked]
    infos = {i.name: i for i in admitted_infos(view, workload, settings.gates)}
    running = []
    for pod_set in asked:
        info = infos.get(pod_set.get("name") or "main")
        changed = _with_count(pod_set, None if info is None else info.count)
        if info is not None and info.tolerations:
            spec = _pod_spec(pod_set)
            own = list(spec.get("tolerations") or ())
            own.extend(t for t in info.tolerations if t not in own)
            changed = {**changed, "template": {"spec": {**spec, "tolerations": own}}}
        running.append(changed)
    return running


def _with_count(pod_set: PodSetObj, count: int | None) -> PodSetObj:
    if pod_set.get("minCount") is None or count is None or count == pod_set.get("count"):
        return pod_set
    return {**pod_set, "count": count}


def are_equal(a: Sequence[PodSetObj], b: Sequence[PodSetObj], *, ignores_tolerations: bool = False) -> bool:
    """Counts, containers and tolerations; nothing else counts."""
    return len(a) == len(b) and all(_is_equal(x, y, ignores_tolerations) for x, y in zip(a, b, strict=True))


def _is_equal(a: PodSetObj, b: PodSetObj, ignores_tolerations: bool) -> bool:
    if a.get("count", 1) != b.get("count", 1) or a.get("minCount") != b.get("minCount"):
        return False
    x, y = _pod_spec(a), _pod_spec(b)
    if x is y:
        return True
    fields = (
        ("containers", "initContainers")
        if ignores_tolerations
        else (
            "containers",
            "initContainers",
            "tolerations",
        )
    )
    return all((x.get(f) or []) == (y.get(f) or []) for f in fields)


def _pod_spec(pod_set: PodSetObj) -> dict[str, Any]:
    return (pod_set.get("template") or {}).get("spec") or {}
