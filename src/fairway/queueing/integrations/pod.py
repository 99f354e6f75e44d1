"""Plain pods and groups of pods as Kueue sees them.

A pod cannot be suspended, so it is held by a scheduling gate, and stopped by deleting it. Pods of one group
(`kueue.x-k8s.io/pod-group-name`) are one job: `load` composes it of the pods there are, which stand in `members`.
The group waits until it is complete, or for the first pod with fast admission; pods in excess go, pods that fail
are replaced by new ones of the same role, and a finalizer keeps each pod until it has been counted.

Source: pkg/controller/jobs/pod/{pod_controller,pod_webhook}.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairway.cluster.actions import Action, Delete, Emit, Replace, SetStatus, View
from fairway.cluster.changes import Change
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    key_of,
    labels_of,
    meta_of,
    spec_of,
    status_of,
)
from fairway.queueing.integrations import podgroup
from fairway.queueing.integrations.integration import (
    NORMAL,
    Finish,
    Integration,
    PodSetObj,
    Reclaimable,
    StopReason,
)
from fairway.queueing.integrations.podgroup import (
    FINALIZER,
    group_name,
    is_group,
    is_group_over,
    is_terminated,
    members_of,
    without_finalizer,
)
from fairway.queueing.integrations.podsetinfo import (
    TOPOLOGY_GATE,
    BadPodSets,
    PodSetInfo,
    into_template,
)
from fairway.queueing.integrations.rolehash import ROLE_HASH, role_hash, role_of
from fairway.queueing.integrations.topologyrequest import topology_request

ADMISSION_GATE = "kueue.x-k8s.io/admission"
MANAGED = "kueue.x-k8s.io/managed"
SUSPENDED_BY_PARENT = "kueue.x-k8s.io/pod-suspending-parent"
POD_INDEX = "kueue.x-k8s.io/pod-group-pod-index"
POD_INDEX_LABEL = "kueue.x-k8s.io/pod-group-pod-index-label"
TERMINATION_TARGET = "TerminationTarget"


class Pod(Integration):
    """One pod, or a group of them."""

    name, gk, api_version = "pod", "Pod", "v1"
    is_one_object = False
    is_top_level = True

    # What it is

    def load(self, view: View, key: Key) -> Obj | None:
        return podgroup.load(view, key)

    def skips(self, view: View, job: Obj) -> bool:
        return labels_of(job).get(MANAGED) != "true"

    def concerns(self, change: Change) -> bool:
        """Pods that Kueue does not hold are most pods there are."""
        return labels_of(change.obj).get(MANAGED) == "true" and change.old is not change.obj

    def workload_name(self, job: Obj) -> str | None:
        return group_name(job) or None

    def shaped(self, job: Obj, workload: Obj) -> Obj:
        return podgroup.shaped(job, workload) if is_group(job) else workload

    def upkeep(self, view: View, job: Obj, workload: Obj | None, now_us: int) -> list[Action] | None:
        return podgroup.upkeep(self, job, workload, now_us) if is_group(job) else None

    def known(self, job: Obj, workload: Obj) -> Obj:
        return podgroup.kept(job, workload) if is_group(job) else job

    def claimed(self, job: Obj, workload: Obj) -> list[Action] | None:
        return podgroup.owned_by_all(self, workload, members_of(job)) if is_group(job) else None

    def pod_sets(self, view: View, job: Obj) -> list[PodSetObj]:
        if not is_group(job):
            return [self.pod_set("main", 1, job)]
        return podgroup.pod_sets(self, job)

    def pod_set(self, name: str, count: int, pod: Obj) -> PodSetObj:
        made: dict[str, Any] = {"name": name, "count": count, "template": {"spec": _ungated(spec_of(pod))}}
        if self.gates.topology_aware_scheduling:
            request = topology_request(pod, pod_index_label=POD_INDEX)
            if request is not None:
                made["topologyRequest"] = request
        return made

    def is_equivalent(self, job: Obj, mine: Sequence[PodSetObj], others: Sequence[PodSetObj]) -> bool | None:
        """Of a group: the Workload has every role, with room for its pods."""
        if not is_group(job):
            return None
        room = {ps["name"]: ps["count"] for ps in others}
        return all(ps["name"] in room and room[ps["name"]] >= ps["count"] for ps in mine)

    # How it is

    def is_suspended(self, job: Obj) -> bool:
        """A pod that has ended counts as suspended: it does not run."""
        return any(is_terminated(p) or is_gated(p) for p in members_of(job))

    def is_active(self, view: View, job: Obj) -> bool:
        return is_group(job) and any(status_of(p).get("phase") == "Running" for p in members_of(job))

    def finished(self, view: View, job: Obj) -> Finish | None:
        if is_group(job):
            return is_group_over(job)
        if not is_terminated(job):
            return None
        status = status_of(job)
        return Finish(status.get("message") or "", status.get("phase") == "Succeeded")

    def pods_ready(self, view: View, job: Obj) -> bool:
        members = members_of(job)
        wanted = podgroup.total_count(job) if is_group(job) else 1
        return wanted is not None and len(members) >= wanted and all(_is_ready(p) for p in members)

    def reclaimable(self, view: View, job: Obj) -> list[Reclaimable] | None:
        return podgroup.reclaimable(job) if is_group(job) and not podgroup.is_serving(job) else []

    # How it starts and stops

    def with_suspend(self, job: Obj, on: bool) -> Obj:
        """As it enters the API: held by the gate, kept by the finalizer, marked with its role."""
        return held(job, with_topology_gate=self.gates.topology_aware_scheduling) if on else job

    def with_infos(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        return prepared(job, infos[0])

    def restored(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        """A pod's spec is fixed: one that was stopped is gone."""
        return job

    def start(self, view: View, job: Obj, infos: Sequence[PodSetInfo], message: str) -> list[Action]:
        of_role = {info.name: info for info in infos}
        if not is_group(job) and len(infos) != 1:
            raise BadPodSets(f"invalid podset infos: expecting 1 pod set got {len(infos)}")
        actions: list[Action] = []
        for pod in members_of(job):
            if not is_gated(pod):
                continue
            role = role_of(pod)
            info = of_role.get(role) if is_group(job) else infos[0]
            if info is None:
                raise BadPodSets(f"invalid podset infos: podSetInfo with the name '{role}' is not found")
            actions.append(Replace(prepared(pod, info)))
            actions.append(Emit(key_of(pod), NORMAL, "Started", message, self.component))
        return actions

    def stop(
        self, view: View, job: Obj, infos: Sequence[PodSetInfo] | None, reason: str, message: str
    ) -> list[Action]:
        """Delete its pods, saying why; gated and ended ones only with their Workload."""
        is_end = reason == StopReason.WORKLOAD_DELETED
        actions: list[Action] = []
        for pod in members_of(job):
            if "deletionTimestamp" in meta_of(pod) or (not is_end and (is_terminated(pod) or is_gated(pod))):
                continue
            actions.append(SetStatus(key_of(pod), with_target(pod, reason, message)))
            actions.append(Delete(key_of(pod), meta_of(pod)["uid"]))
            actions.append(Emit(key_of(pod), NORMAL, "Stopped", message, self.component))
        if is_group(job) and is_end:
            actions.extend(self.finalized(view, job))
        return actions

    def finalized(self, view: View, job: Obj) -> list[Action]:
        return [a for pod in members_of(job) if (a := without_finalizer(pod)) is not None]


def is_gated(pod: Obj) -> bool:
    return any(g.get("name") == ADMISSION_GATE for g in spec_of(pod).get("schedulingGates") or ())


def _ungated(spec: dict[str, Any]) -> dict[str, Any]:
    """A template does not hold its pods."""
    gates = [
        g for g in spec.get("schedulingGates") or () if g.get("name") not in (ADMISSION_GATE, TOPOLOGY_GATE)
    ]
    kept = {k: v for k, v in spec.items() if k != "schedulingGates"}
    return {**kept, "schedulingGates": gates} if gates else kept


def held(pod: Obj, *, with_topology_gate: bool = False) -> Obj:
    """The pod as Kueue's webhook lets it in."""
    meta, spec = dict(meta_of(pod)), dict(spec_of(pod))
    is_childs = SUSPENDED_BY_PARENT in annotations_of(pod)
    labels, annotations = dict(labels_of(pod)), dict(annotations_of(pod))
    if not is_childs:
        labels[MANAGED] = "true"
        finalizers = meta.get("finalizers") or []
        if FINALIZER not in finalizers:
            meta["finalizers"] = [*finalizers, FINALIZER]
    gates = list(spec.get("schedulingGates") or ())
    for name in (ADMISSION_GATE, *((TOPOLOGY_GATE,) if with_topology_gate else ())):
        if not any(g.get("name") == name for g in gates):
            gates.append({"name": name})
    if with_topology_gate and POD_INDEX_LABEL in annotations:
        labels[POD_INDEX] = labels.get(annotations[POD_INDEX_LABEL], "")
    annotations.setdefault(ROLE_HASH, role_hash(spec))
    meta.update(labels=labels, annotations=annotations)
    return {**pod, "metadata": meta, "spec": {**spec, "schedulingGates": gates}}


def prepared(pod: Obj, info: PodSetInfo) -> Obj:
    """With its admission injected and the gate lifted; the topology gate stays where a topology was assigned.

    Raises: BadPodSets.
    """
    changed = into_template(pod, info)
    lifted = {ADMISSION_GATE}
    if not any(g.get("name") == TOPOLOGY_GATE for g in info.gates):
        lifted.add(TOPOLOGY_GATE)
    spec = dict(spec_of(changed))
    gates = [g for g in spec.get("schedulingGates") or () if g.get("name") not in lifted]
    spec.pop("schedulingGates", None)
    if gates:
        spec["schedulingGates"] = gates
    return {**changed, "spec": spec}


def with_target(pod: Obj, reason: str, message: str) -> dict[str, Any]:
    made = {"type": TERMINATION_TARGET, "status": "True", "reason": reason, "message": message}
    kept = [c for c in status_of(pod).get("conditions") or () if c.get("type") != TERMINATION_TARGET]
    return {**status_of(pod), "conditions": [*kept, made]}


def _is_ready(pod: Obj) -> bool:
    conditions = status_of(pod).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
