"""A group of pods: which pods it is, what it asks for, whether it is complete, and which pods have to go.

Source: pkg/controller/jobs/pod/pod_controller.go (Load, constructGroupPodSets, ConstructComposableWorkload,
FindMatchingWorkloads, Finished, ReclaimablePods, CustomWorkloadConditions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fairway.cluster.actions import Action, Delete, Emit, Patch, Replace, SetStatus, View
from fairway.kube.integers import natural
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    key_of,
    labels_of,
    meta_of,
    name_of,
    owner_reference,
    spec_of,
    status_of,
)
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.conditions import with_condition
from fairway.queueing.integrations.integration import (
    NORMAL,
    WARNING,
    Finish,
    PodSetObj,
    Reclaimable,
)
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.queueing.integrations.rolehash import role_of

if TYPE_CHECKING:
    from fairway.queueing.integrations.pod import Pod

GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
TOTAL_COUNT = "kueue.x-k8s.io/pod-group-total-count"
FAST_ADMISSION = "kueue.x-k8s.io/pod-group-fast-admission"
SERVING = "kueue.x-k8s.io/pod-group-serving"
RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
IS_GROUP_WORKLOAD = "kueue.x-k8s.io/is-group-workload"
FINALIZER = "kueue.x-k8s.io/managed"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
WAITING_FOR_REPLACEMENT = "WaitingForReplacementPods"
MEMBERS = "members"


def group_name(pod: Obj) -> str:
    return annotations_of(pod).get(GROUP_NAME) or labels_of(pod).get(GROUP_NAME) or ""


def is_group(job: Obj) -> bool:
    return MEMBERS in job


def members_of(job: Obj) -> list[Obj]:
    """The pods of a group; of a single pod itself."""
    found: list[Obj] = job.get(MEMBERS) or [job]
    return found


def is_terminated(pod: Obj) -> bool:
    return status_of(pod).get("phase") in ("Succeeded", "Failed")


def load(view: View, key: Key) -> Obj | None:
    """The pod, or the group it is in. O(pods of the namespace) for a group.

    Of a pod that is gone the Workload still knows the group, so that the others are not taken for gone too.
    """
    pod = view.get(key)
    if pod is not None and not group_name(pod):
        return pod
    name = _group_of_gone(view, key) if pod is None else group_name(pod)
    if not name:
        return None
    members = [p for p in view.objects("Pod", key.namespace) if group_name(p) == name]
    return composed(members) if members else None


def composed(members: list[Obj]) -> Obj:
    """The first pod stands for all; a group is never itself on its way out."""
    first = members[0]
    meta = {k: v for k, v in meta_of(first).items() if k != "deletionTimestamp"}
    return {**first, "metadata": meta, MEMBERS: members}


def _group_of_gone(view: View, key: Key) -> str:
    for workload in view.objects(WORKLOAD, key.namespace):
        if annotations_of(workload).get(IS_GROUP_WORKLOAD) == "true":
            references = meta_of(workload).get("ownerReferences") or ()
            if any(r["kind"] == "Pod" and r["name"] == key.name for r in references):
                return name_of(workload)
    return ""


def total_count(job: Obj) -> int | None:
    """How many pods the group has when it is complete; None where it does not say so in numbers."""
    return natural(annotations_of(job).get(TOTAL_COUNT)) or None


def is_fast(job: Obj) -> bool:
    return annotations_of(job).get(FAST_ADMISSION) == "true"


def is_serving(job: Obj) -> bool:
    return annotations_of(job).get(SERVING) == "true"


def can_run(pod: Obj) -> bool:
    """Whether it runs, has succeeded, or still may: not failed, not deleted before it had a node."""
    if "deletionTimestamp" in meta_of(pod) and not spec_of(pod).get("nodeName"):
        return False
    return status_of(pod).get("phase") != "Failed"


def pod_sets(kind: Pod, job: Obj) -> list[PodSetObj]:
    """One for each role, by name; with fast admission the whole group takes the shape of its first pod."""
    runnable = [p for p in members_of(job) if can_run(p)]
    if is_fast(job):
        return [kind.pod_set(role_of(p), total_count(job) or 1, p) for p in runnable[:1]]
    found: dict[str, PodSetObj] = {}
    for pod in runnable:
        role = role_of(pod)
        if role in found:
            found[role]["count"] += 1
        else:
            found[role] = kind.pod_set(role, 1, pod)
    return [found[role] for role in sorted(found)]


def shaped(job: Obj, workload: Obj) -> Obj:
    """The Workload of a group: owned by all its pods, controlled by none."""
    meta = dict(meta_of(workload))
    members = [p for p in members_of(job) if can_run(p)]
    meta["ownerReferences"] = [owner_reference(p, controller=False, block_deletion=False) for p in members]
    meta["annotations"] = {**(meta.get("annotations") or {}), IS_GROUP_WORKLOAD: "true"}
    return {**workload, "metadata": meta}


def is_group_over(job: Obj) -> Finish | None:
    """All succeeded; or nothing runs and a pod says that it may not be replaced."""
    total = total_count(job)
    if is_serving(job) or total is None:
        return None
    members = members_of(job)
    succeeded = sum(status_of(p).get("phase") == "Succeeded" for p in members)
    is_stuck = all(is_terminated(p) for p in members) and any(
        annotations_of(p).get(RETRIABLE) == "false" for p in members
    )
    if succeeded == total or is_stuck:
        return Finish(f"Pods succeeded: {succeeded}/{total}.", True)
    return None


def reclaimable(job: Obj) -> list[Reclaimable]:
    """Succeeded pods by role."""
    counts: dict[str, int] = {}
    for pod in members_of(job):
        if status_of(pod).get("phase") == "Succeeded":
            counts[role_of(pod)] = counts.get(role_of(pod), 0) + 1
    return [Reclaimable(role, count) for role, count in counts.items()]


def without_finalizer(pod: Obj) -> Action | None:
    finalizers = meta_of(pod).get("finalizers") or []
    if FINALIZER not in finalizers:
        return None
    kept = [f for f in finalizers if f != FINALIZER]
    return Patch(key_of(pod), {"metadata": {"finalizers": kept or None}})


# Looking after the pods


def upkeep(kind: Pod, job: Obj, workload: Obj | None, now_us: int) -> list[Action] | None:
    """What to do before anything else; None: nothing, go on. Empty: nothing, but do not go on."""
    active = [p for p in members_of(job) if can_run(p)]
    inactive = [p for p in members_of(job) if not can_run(p)]
    if workload is None:
        return _before_workload(kind, job, active, inactive)
    sorted_out = _sorted_out(job, workload, active, inactive)
    actions: list[Action] = [
        *_excess(kind, sorted_out.excess),
        *(a for p in sorted_out.replaced if (a := without_finalizer(p)) is not None),
        *owned_by_all(kind, workload, [p for p in sorted_out.kept if can_run(p)]),
    ]
    condition = _replacement_condition(workload, sorted_out.absent, now_us)
    if condition is not None:
        actions.append(condition)
    return actions or None


def kept(job: Obj, workload: Obj) -> Obj:
    """The group as its Workload knows it: without pods of other roles, in excess, or replaced."""
    active = [p for p in members_of(job) if can_run(p)]
    inactive = [p for p in members_of(job) if not can_run(p)]
    pods = _sorted_out(job, workload, active, inactive).kept
    return {**job, MEMBERS: pods} if pods else job


class _SortedOut(NamedTuple):
    """`absent`: how many pods are missing; `excess`: one too many; `replaced`: ended, with another in its place."""

    absent: int
    excess: list[Obj]
    replaced: list[Obj]
    kept: list[Obj]


def _sorted_out(job: Obj, workload: Obj, active: list[Obj], inactive: list[Obj]) -> _SortedOut:
    """Pods by what becomes of them, role by role of the Workload."""
    absent = 0
    excess: list[Obj] = []
    replaced: list[Obj] = []
    stay: list[Obj] = []
    for pod_set in spec_of(workload).get("podSets") or ():
        role, count = pod_set["name"], int(pod_set["count"])
        of_role = _kept_first([p for p in active if role_of(p) == role])
        lost = [p for p in inactive if role_of(p) == role]
        absent += int(count > 0 and not of_role) if is_fast(job) else max(0, count - len(of_role))
        excess.extend(of_role[count:])
        stay.extend(of_role[:count])
        # Of those that are lost so many stay as the role lacks.
        lost.sort(key=lambda p: (FINALIZER not in (meta_of(p).get("finalizers") or ()), _age(p)))
        lacks = max(0, count - len(of_role))
        replaced.extend(lost[lacks:])
        stay.extend(lost[:lacks])
    return _SortedOut(absent, excess, replaced, stay)


def _before_workload(kind: Pod, job: Obj, active: list[Obj], inactive: list[Obj]) -> list[Action] | None:
    actions: list[Action] = [a for p in inactive if (a := without_finalizer(p)) is not None]
    total = total_count(job)
    if total is None:
        return actions
    if not is_fast(job) and len(active) < total:
        message = f"'{group_name(job)}' group has fewer runnable pods than expected"
        return [*actions, kind.told(job, "ErrWorkloadCompose", message, WARNING)]
    queues = {labels_of(p).get(QUEUE_LABEL, "") for p in active}
    if len(queues) > 1 or any(total_count(p) != total for p in active):
        return actions
    actions.extend(_excess(kind, _kept_first(active)[total:]))
    return actions or None


def _kept_first(pods: list[Obj]) -> list[Obj]:
    """Those to keep come first: with the finalizer, not gated, older."""

    def order(pod: Obj) -> tuple[bool, bool, str, str]:
        gates = spec_of(pod).get("schedulingGates") or ()
        is_gated = any(g.get("name") == "kueue.x-k8s.io/admission" for g in gates)
        return (FINALIZER not in (meta_of(pod).get("finalizers") or ()), is_gated, _age(pod), name_of(pod))

    return sorted(pods, key=order)


def _age(pod: Obj) -> str:
    return str(meta_of(pod).get("creationTimestamp") or "")


def _excess(kind: Pod, pods: list[Obj]) -> list[Action]:
    actions: list[Action] = []
    for pod in pods:
        lifted = without_finalizer(pod)
        if lifted is not None:
            actions.append(lifted)
        if "deletionTimestamp" not in meta_of(pod):
            actions.append(Delete(key_of(pod), meta_of(pod)["uid"]))
            actions.append(
                Emit(key_of(pod), NORMAL, "ExcessPodDeleted", "Excess pod deleted", kind.component)
            )
    return actions


def owned_by_all(kind: Pod, workload: Obj, pods: list[Obj]) -> list[Action]:
    """What makes all these pods owners of the Workload; nothing where they are."""
    references = meta_of(workload).get("ownerReferences") or []
    present = {r["uid"] for r in references}
    added = [p for p in pods if meta_of(p)["uid"] not in present]
    if not added:
        return []
    new = [owner_reference(p, controller=False, block_deletion=False) for p in added]
    meta = {**meta_of(workload), "ownerReferences": [*references, *new]}
    message = f"Added {len(added)} owner reference(s)"
    told = Emit(key_of(workload), NORMAL, "OwnerReferencesAdded", message, kind.component)
    return [Replace({**workload, "metadata": meta}), told]


def _replacement_condition(workload: Obj, absent: int, now_us: int) -> Action | None:
    """WaitingForReplacementPods: pods of the group are missing, for the reason it was evicted if it was."""
    status = status_of(workload)
    present = conds.find(status, WAITING_FOR_REPLACEMENT)
    if conds.is_true(status, conds.FINISHED) or (present is None and absent == 0):
        return None
    if absent == 0:
        wanted = ("False", "PodsReady", "No pods need replacement")
    elif conds.is_true(status, conds.EVICTED):
        evicted = conds.find(status, conds.EVICTED) or {}
        wanted = ("True", str(evicted.get("reason") or ""), str(evicted.get("message") or ""))
    elif present is not None and present.get("status") == "True":
        return None
    else:
        wanted = ("True", "PodsFailed", "Some Failed pods need replacement")
    if present is not None and (absent == 0 and present.get("status") == "False"):
        return None
    if present is not None and wanted == (present["status"], present.get("reason"), present.get("message")):
        return None
    changed: dict[str, Any] = dict(status)
    changed["conditions"] = with_condition(
        status.get("conditions") or [],
        WAITING_FOR_REPLACEMENT,
        wanted[0],
        reason=wanted[1],
        message=wanted[2],
        now_us=now_us,
        generation=int(meta_of(workload).get("generation") or 0),
    )
    return SetStatus(key_of(workload), changed)
