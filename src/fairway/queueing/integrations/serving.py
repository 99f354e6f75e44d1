"""StatefulSets and LeaderWorkerSets as Kueue sees them: makers of groups of pods.

Neither runs by itself. Each makes Workloads by the names that its pods then give, and marks its pods as members of
a group; `pod` and `podgroup` start, stop and watch the group. Their webhooks mark the pod template, so that pods
enter behind the gate. A Deployment needs nothing here: each of its pods is a job of its own.

Source: pkg/controller/jobs/statefulset (reconciler, pod reconciler), pkg/util/statefulset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairway.cluster.actions import Action, Create, Patch, Replace, SetStatus, View
from fairway.cluster.changes import Change
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    key_of,
    labels_of,
    meta_of,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
)
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.workloads import key_of as workload_key
from fairway.queueing.facts.workloadstate import ADMISSION_GATED_BY, is_active, is_finished, is_on_hold
from fairway.queueing.integrations import podgroup
from fairway.queueing.integrations.construct import constructed, queue_name
from fairway.queueing.integrations.integration import Finish, Integration, PodSetObj
from fairway.queueing.integrations.names import workload_name
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.queueing.integrations.pod import (
    ADMISSION_GATE,
    MANAGED,
    POD_INDEX_LABEL,
    SUSPENDED_BY_PARENT,
    is_gated,
)
from fairway.queueing.integrations.podsetinfo import TOPOLOGY_GATE, PodSetInfo
from fairway.queueing.integrations.priorities import PRIORITY_CLASS_LABEL
from fairway.queueing.integrations.rolehash import ROLE_HASH
from fairway.queueing.integrations.settings import JobSettings
from fairway.queueing.integrations.topologyrequest import topology_request
from fairway.queueing.outcomes import statuses

STATEFUL_SET = "StatefulSet.apps"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
POD_INDEX = "apps.kubernetes.io/pod-index"
REVISION = "controller-revision-hash"
OWNER_GVK = "kueue.x-k8s.io/job-owner-gvk"
OWNER_NAME = "kueue.x-k8s.io/job-owner-name"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

_ON_HOLD = "StatefulSet scaled to zero; workload on hold"
_HELD_NO_MORE = "Workload no longer on hold; waiting for quota reservation"


class ServingSet(Integration):
    """What both have in common: all they do is `groups`. What a job that runs would answer is never asked."""

    makes_groups = True
    watches = ("Pod",)
    is_one_object = False

    def is_suspended(self, job: Obj) -> bool:
        return False

    def with_suspend(self, job: Obj, on: bool) -> Obj:
        return job

    def with_infos(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        return job

    def restored(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        return job

    def is_active(self, view: View, job: Obj) -> bool:
        return False

    def finished(self, view: View, job: Obj) -> Finish | None:
        return None

    def pods_ready(self, view: View, job: Obj) -> bool:
        return False

    def shaped(self, job: Obj, workload: Obj) -> Obj:
        """Owned, not controlled, by the set; with the name of its owner, whatever becomes of that."""
        meta = dict(meta_of(workload))
        meta["ownerReferences"] = [owner_reference(job, controller=False, block_deletion=False)]
        meta["annotations"] = {
            **(meta.get("annotations") or {}),
            podgroup.IS_GROUP_WORKLOAD: "true",
            **self.owner_marks(job),
        }
        return {**workload, "metadata": meta}

    def owner_marks(self, job: Obj) -> dict[str, str]:
        return {OWNER_GVK: f"{self.api_version}, Kind={self.kind}", OWNER_NAME: name_of(job)}

    def told_created(self, job: Obj, workload: Obj) -> Action:
        return self.told(job, "CreatedWorkload", f"Created Workload: {workload_key(workload)}")

    def gate_synced(self, job: Obj, workload: Obj) -> tuple[Obj, list[Action]]:
        """The Workload with its job's admission gate, and the event that tells of the change."""
        gate = annotations_of(job).get(ADMISSION_GATED_BY) or ""
        if not self.gates.admission_gated_by or gate == annotations_of(workload).get(ADMISSION_GATED_BY, ""):
            return workload, []
        annotations = {k: v for k, v in annotations_of(workload).items() if k != ADMISSION_GATED_BY}
        if gate:
            annotations[ADMISSION_GATED_BY] = gate
        changed = {**workload, "metadata": {**meta_of(workload), "annotations": annotations}}
        return changed, [self.told(job, "UpdatedWorkload", f'Updated workload AdmissionGatedBy to "{gate}"')]


def made_pod_set(kind: Integration, name: str, count: int, template: Obj, index_label: str) -> PodSetObj:
    made: dict[str, Any] = {"name": name, "count": count, "template": {"spec": spec_of(template)}}
    if kind.gates.topology_aware_scheduling:
        request = topology_request(template, pod_index_label=index_label)
        if request is not None:
            made["topologyRequest"] = request
    return made


def is_of_old_revision(stateful_set: Obj, pod: Obj) -> bool:
    """Whether a roll-out is about to replace this pod: it must not wait for quota."""
    status = status_of(stateful_set)
    current = status.get("currentRevision")
    return current != status.get("updateRevision") and current == labels_of(pod).get(REVISION)


def ungated(pod: Obj) -> list[Action]:
    """Without Kueue's gates."""
    gates = spec_of(pod).get("schedulingGates") or ()
    kept = [g for g in gates if g.get("name") not in (ADMISSION_GATE, TOPOLOGY_GATE)]
    if len(kept) == len(gates):
        return []
    spec = {k: v for k, v in spec_of(pod).items() if k != "schedulingGates"}
    return [Replace({**pod, "spec": {**spec, "schedulingGates": kept} if kept else spec})]


def marked(pod: Obj, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Action:
    return Patch(key_of(pod), {"metadata": {"labels": dict(labels), "annotations": dict(annotations)}})


def is_alive(pod: Obj) -> bool:
    return not podgroup.is_terminated(pod) and "deletionTimestamp" not in meta_of(pod)


class StatefulSet(ServingSet):
    """One Workload with one pod set, `main`. Those that a LeaderWorkerSet made are that one's."""

    name, gk, api_version = "statefulset", STATEFUL_SET, "apps/v1"

    def skips(self, view: View, job: Obj) -> bool:
        template = (spec_of(job).get("template") or {}).get("metadata") or {}
        parent = (template.get("annotations") or {}).get(SUSPENDED_BY_PARENT)
        return LWS_NAME in labels_of(job) or (parent is not None and parent != self.name)

    def jobs_of(self, view: View, change: Change) -> Iterable[Key]:
        owner = controller_of(change.obj)
        if owner is None or owner["kind"] != "StatefulSet":
            return ()
        return (Key(STATEFUL_SET, change.key.namespace, owner["name"]),)

    def pod_sets(self, view: View, job: Obj) -> list[PodSetObj]:
        return [made_pod_set(self, "main", _replicas(job), spec_of(job).get("template") or {}, POD_INDEX)]

    def groups(
        self, view: View, job: Obj, workloads: Sequence[Obj], settings: JobSettings, now_us: int
    ) -> list[Action]:
        """Its Workload, kept as the set wants it; its pods, members of the group of that name.

        Raises: ClassMissing.
        """
        name = workload_name(name_of(job), meta_of(job).get("uid") or "", self.gk)
        workload = view.get(Key(WORKLOAD, namespace_of(job), name))
        if workload is not None:
            actions = self._kept(job, workload, now_us)
        elif _replicas(job) > 0 and (queue_name(job) or settings.manages_without_queue_name):
            plain = replace(settings, label_keys_to_copy=())
            made = constructed(view, self, job, plain)
            actions = [Create(made), self.told_created(job, made)]
        else:
            actions = []
        for key in view.dependents(meta_of(job)["uid"]):
            pod = view.get(key) if key.gk == "Pod" else None
            if pod is not None and is_alive(pod):
                actions.extend(self._member(job, pod, name, settings))
        return actions

    def _kept(self, job: Obj, workload: Obj, now_us: int) -> list[Action]:
        replicas = _replicas(job)
        changed, told = self.gate_synced(job, workload)
        if replicas > 0 and not _is_owned(workload, job):
            meta = meta_of(changed)
            mine = owner_reference(job, controller=False, block_deletion=False)
            owners = [*(meta.get("ownerReferences") or ()), mine]
            annotations = {**annotations_of(changed), **self.owner_marks(job)}
            meta = {**meta, "ownerReferences": owners, "annotations": annotations}
            changed = {**changed, "metadata": meta}
        if replicas > 0 and (spec_of(workload).get("queueName") or "") != queue_name(job):
            changed = {**changed, "spec": {**spec_of(changed), "queueName": queue_name(job)}}
        actions = [*told] if changed is workload else [Replace(changed), *told]
        has_quota = conds.is_true(status_of(workload), conds.QUOTA_RESERVED)
        if replicas == 0 and has_quota and is_active(workload) and not is_finished(workload):
            held = statuses.without_quota(workload, conds.ON_HOLD, _ON_HOLD, now_us, self.gates)
            actions.append(SetStatus(key_of(workload), held["status"]))
        elif replicas > 0 and is_on_hold(workload):
            reason = conds.PENDING_EVALUATION if self.gates.unadmitted_workloads_observability else "Pending"
            free = statuses.without_quota(workload, reason, _HELD_NO_MORE, now_us, self.gates)
            actions.append(SetStatus(key_of(workload), free["status"]))
        return actions

    def _member(self, job: Obj, pod: Obj, group: str, settings: JobSettings) -> list[Action]:
        """The pod as a member of the group; without its gates where a roll-out replaces it anyhow."""
        if annotations_of(pod).get(SUSPENDED_BY_PARENT) != self.name:
            return []
        queue = queue_name(job)
        if podgroup.group_name(pod) == group:
            if queue and labels_of(pod).get(QUEUE_LABEL) != queue:
                return [marked(pod, {QUEUE_LABEL: queue}, {})]
            return ungated(pod) if is_gated(pod) and is_of_old_revision(job, pod) else []
        if not queue and not settings.manages_without_queue_name:
            return []
        labels = {MANAGED: "true", QUEUE_LABEL: queue} if queue else {MANAGED: "true"}
        if labels_of(job).get(PRIORITY_CLASS_LABEL):
            labels[PRIORITY_CLASS_LABEL] = labels_of(job)[PRIORITY_CLASS_LABEL]
        annotations = {
            PREBUILT: group,
            podgroup.GROUP_NAME: group,
            podgroup.TOTAL_COUNT: str(_replicas(job)),
            podgroup.FAST_ADMISSION: "true",
            podgroup.SERVING: "true",
            POD_INDEX_LABEL: POD_INDEX,
            ROLE_HASH: "main",
        }
        return [marked(pod, labels, annotations)]


def _replicas(job: Obj) -> int:
    replicas = spec_of(job).get("replicas")
    return 1 if replicas is None else int(replicas)


def _is_owned(workload: Obj, job: Obj) -> bool:
    uid = meta_of(job).get("uid")
    return any(r.get("uid") == uid for r in meta_of(workload).get("ownerReferences") or ())
