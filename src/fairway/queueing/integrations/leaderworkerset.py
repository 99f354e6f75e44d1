"""LeaderWorkerSets as Kueue sees them: a Workload for each replica, which is a leader and its workers.

The Workloads' names carry the index of the replica; those of replicas that are no longer wanted are deleted. A pod
joins its group once the LeaderWorkerSet's webhook has said which replica it is of.

Source: pkg/controller/jobs/leaderworkerset/leaderworkerset_reconciler.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fairway.cluster.actions import Action, Create, Delete, Patch, Replace, View
from fairway.cluster.changes import Change
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    key_of,
    labels_of,
    meta_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from fairway.queueing.facts.workloads import key_of as workload_key
from fairway.queueing.integrations import podgroup
from fairway.queueing.integrations.construct import IN_USE_FINALIZER, constructed, queue_name
from fairway.queueing.integrations.integration import PodSetObj
from fairway.queueing.integrations.names import workload_name
from fairway.queueing.integrations.pod import MANAGED, SUSPENDED_BY_PARENT, is_gated
from fairway.queueing.integrations.priorities import priority_change
from fairway.queueing.integrations.rolehash import ROLE_HASH
from fairway.queueing.integrations.serving import (
    LWS_NAME,
    PREBUILT,
    QUEUE_LABEL,
    STATEFUL_SET,
    ServingSet,
    is_alive,
    is_of_old_revision,
    made_pod_set,
    marked,
    ungated,
)
from fairway.queueing.integrations.settings import JobSettings

LEADER_WORKER_SET = "LeaderWorkerSet.leaderworkerset.x-k8s.io"
COMPONENT_INDEX = "kueue.x-k8s.io/component-workload-index"
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
LEADER_NAME = "leaderworkerset.sigs.k8s.io/leader-name"
_PREFIX = "leaderworkerset.sigs.k8s.io"

# Workloads made at one look; the next one, which their coming brings about, goes on.
_MOST_AT_ONCE = 500


class LeaderWorkerSet(ServingSet):
    """`main`, or `leader` and `worker` where leaders have a template of their own: of each replica."""

    name, gk, api_version = (
        "leaderworkerset.x-k8s.io/leaderworkerset",
        LEADER_WORKER_SET,
        "leaderworkerset.x-k8s.io/v1",
    )

    def jobs_of(self, view: View, change: Change) -> Iterable[Key]:
        name = labels_of(change.obj).get(LWS_NAME)
        return () if name is None else (Key(LEADER_WORKER_SET, change.key.namespace, name),)

    def pod_sets(self, view: View, job: Obj) -> list[PodSetObj]:
        both = spec_of(job).get("leaderWorkerTemplate") or {}
        if both.get("leaderTemplate") is None:
            return [self._pod_set("main", _size(job), both["workerTemplate"], WORKER_INDEX)]
        return [
            self._pod_set("leader", 1, both["leaderTemplate"], ""),
            self._pod_set("worker", _size(job) - 1, both["workerTemplate"], WORKER_INDEX),
        ]

    def _pod_set(self, name: str, count: int, template: Obj, index_label: str) -> PodSetObj:
        made = made_pod_set(self, name, count, template, index_label)
        meta = {
            field: {k: v for k, v in found.items() if k == LWS_NAME or not k.startswith(_PREFIX)}
            for field in ("labels", "annotations")
            if (found := meta_of(template).get(field))
        }
        return {**made, "template": {"metadata": meta, **made["template"]}} if meta else made

    def groups(
        self, view: View, job: Obj, workloads: Sequence[Obj], settings: JobSettings, now_us: int
    ) -> list[Action]:
        """A Workload for each replica, none more; every pod a member of its replica's group.

        Raises: ClassMissing.
        """
        surplus = {name_of(w): w for w in workloads}
        actions: list[Action] = []
        missing = 0
        for index in range(_groups(job)):
            name = self._workload_name(job, str(index))
            workload = surplus.pop(name, None)
            if workload is None:
                missing += 1
                if missing > _MOST_AT_ONCE:
                    break
                made = self._made(view, job, name, index, settings)
                actions.extend((Create(made), self.told_created(job, made)))
            else:
                actions.extend(self._kept(view, job, workload))
        # Those of groups that were not come to are wanted.
        if missing <= _MOST_AT_ONCE:
            for workload in surplus.values():
                actions.extend(_deleted(workload))
        for leaders, leader in _pods_of(view, namespace_of(job), name_of(job)):
            actions.extend(self._member(job, leaders, leader))
            for workers, worker in _pods_of(view, namespace_of(job), name_of(leader)):
                actions.extend(self._member(job, workers, worker))
        return actions

    def _workload_name(self, job: Obj, index: str) -> str:
        return workload_name(f"{name_of(job)}-{index}", meta_of(job).get("uid") or "", self.gk)

    def _made(self, view: View, job: Obj, name: str, index: int, settings: JobSettings) -> Obj:
        made = constructed(view, self, job, settings)
        annotations = {**annotations_of(made), COMPONENT_INDEX: str(index)}
        return {**made, "metadata": {**meta_of(made), "name": name, "annotations": annotations}}

    def _kept(self, view: View, job: Obj, workload: Obj) -> list[Action]:
        changed, told = self.gate_synced(job, workload)
        if (spec_of(workload).get("queueName") or "") != queue_name(job):
            changed = {**changed, "spec": {**spec_of(changed), "queueName": queue_name(job)}}
        spec = priority_change(view, job, changed, None)
        if spec is not None:
            changed = {**changed, "spec": spec}
            text = f"Updated workload priority class: {workload_key(workload)}"
            told = [*told, self.told(job, "UpdatedWorkload", text)]
        return [*told] if changed is workload else [Replace(changed), *told]

    def _member(self, job: Obj, stateful_set: Obj, pod: Obj) -> list[Action]:
        """The pod in its replica's group; without its gates where a roll-out replaces it anyhow."""
        if is_of_old_revision(stateful_set, pod):
            return ungated(pod)
        if not is_alive(pod) or annotations_of(pod).get(SUSPENDED_BY_PARENT) != self.name:
            return []
        queue = queue_name(job)
        labels = labels_of(pod)
        needs_queue = queue and is_gated(pod) and labels.get(QUEUE_LABEL) != queue
        if MANAGED in labels:
            return [marked(pod, {QUEUE_LABEL: queue}, {})] if needs_queue else []
        if GROUP_INDEX not in labels:
            return []
        group = self._workload_name(job, labels[GROUP_INDEX])
        given = {MANAGED: "true", QUEUE_LABEL: queue} if needs_queue else {MANAGED: "true"}
        return [marked(pod, given, self._marks(job, pod, group))]

    def _marks(self, job: Obj, pod: Obj, group: str) -> Mapping[str, str]:
        has_leaders = (spec_of(job).get("leaderWorkerTemplate") or {}).get("leaderTemplate") is not None
        # A leader does not bear the leader's name.
        role = "worker" if LEADER_NAME in annotations_of(pod) else "leader"
        return {
            podgroup.GROUP_NAME: group,
            PREBUILT: group,
            podgroup.TOTAL_COUNT: str(_size(job)),
            ROLE_HASH: role if has_leaders else "main",
        }


def _pods_of(view: View, namespace: str, name: str) -> list[tuple[Obj, Obj]]:
    """The StatefulSet of that name with each of its pods: of leaders, or of one leader's workers."""
    stateful_set = view.get(Key(STATEFUL_SET, namespace, name))
    if stateful_set is None:
        return []
    keys = view.dependents(meta_of(stateful_set)["uid"])
    return [(stateful_set, pod) for key in keys if key.gk == "Pod" and (pod := view.get(key)) is not None]


def _size(job: Obj) -> int:
    size = (spec_of(job).get("leaderWorkerTemplate") or {}).get("size")
    return 1 if size is None else int(size)


def _groups(job: Obj) -> int:
    """Replicas, with those that a rolling update adds for its time."""
    given = spec_of(job).get("replicas")
    replicas = 1 if given is None else int(given)
    rollout = (spec_of(job).get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}
    surge = rollout.get("maxSurge")
    status = status_of(job)
    is_surging = isinstance(surge, int) and surge > 0 and (status.get("updatedReplicas") or 0) < replicas
    return max(replicas, int(status.get("replicas") or replicas)) if is_surging else replicas


def _deleted(workload: Obj) -> list[Action]:
    """Kueue lets go of it, and deletes it."""
    actions: list[Action] = []
    finalizers = meta_of(workload).get("finalizers") or []
    if IN_USE_FINALIZER in finalizers:
        kept = [f for f in finalizers if f != IN_USE_FINALIZER]
        actions.append(Patch(key_of(workload), {"metadata": {"finalizers": kept or None}}))
    if "deletionTimestamp" not in meta_of(workload):
        actions.append(Delete(key_of(workload), meta_of(workload).get("uid") or ""))
    return actions
