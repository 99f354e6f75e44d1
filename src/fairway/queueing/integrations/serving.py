"""StatefulSets and LeaderWorkerSets as Kueue sees them: one Workload for all their pods, held by gates.

Their webhooks mark the pod template, so that pods enter behind the gate; `load` puts the pods there are into
`members`. Admitted, the gates go; evicted, the pods are deleted and come back gated. A Deployment needs nothing here:
each of its pods is a job of its own.

Source: pkg/controller/jobs/statefulset, pkg/controller/jobs/leaderworkerset.

Unlike kube: upstream makes the pods a serving pod group with a prebuilt Workload, and of a LeaderWorkerSet one for
each replica; here a LeaderWorkerSet is admitted with all its groups or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fairway.cluster.actions import Action, Delete, Emit, Replace, SetStatus, View
from fairway.cluster.changes import Change
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    key_of,
    labels_of,
    meta_of,
    spec_of,
    status_of,
)
from fairway.queueing.integrations.integration import NORMAL, Finish, Integration, PodSetObj, StopReason
from fairway.queueing.integrations.pod import is_gated, prepared, with_target
from fairway.queueing.integrations.podgroup import IS_GROUP_WORKLOAD, MEMBERS, is_terminated
from fairway.queueing.integrations.podsetinfo import BadPodSets, PodSetInfo
from fairway.queueing.integrations.topologyrequest import topology_request

STATEFUL_SET = "StatefulSet.apps"
LEADER_WORKER_SET = "LeaderWorkerSet.leaderworkerset.x-k8s.io"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
POD_INDEX = "apps.kubernetes.io/pod-index"
OWNER_GVK = "kueue.x-k8s.io/job-owner-gvk"
OWNER_NAME = "kueue.x-k8s.io/job-owner-name"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


class ServingSet(Integration):
    """What both have in common. Never over; on hold while scaled to zero."""

    watches = ("Pod",)
    is_one_object = False

    def pods_of(self, view: View, job: Obj) -> list[Obj]:
        raise NotImplementedError

    def load(self, view: View, key: Key) -> Obj | None:
        obj = view.get(key)
        return None if obj is None else {**obj, MEMBERS: self.pods_of(view, obj)}

    def skips(self, view: View, job: Obj) -> bool:
        """Pods enter without a gate where no queue is named."""
        return not labels_of(job).get(QUEUE_LABEL)

    def is_on_hold(self, job: Obj) -> bool:
        return spec_of(job).get("replicas") == 0

    def is_suspended(self, job: Obj) -> bool:
        members = job.get(MEMBERS) or ()
        return not members or any(is_gated(p) for p in members)

    def with_suspend(self, job: Obj, on: bool) -> Obj:
        return job

    def with_infos(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        return job

    def restored(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        return job

    def set_of(self, pod: Obj) -> str:
        """Which pod set a pod belongs to."""
        return "main"

    def shaped(self, job: Obj, workload: Obj) -> Obj:
        """Owned, not controlled, by the set; with the name of its owner, whatever becomes of that."""
        meta = dict(meta_of(workload))
        plain = {
            k: v
            for k, v in meta["ownerReferences"][0].items()
            if k not in ("controller", "blockOwnerDeletion")
        }
        meta["ownerReferences"] = [plain]
        meta["annotations"] = {
            **(meta.get("annotations") or {}),
            IS_GROUP_WORKLOAD: "true",
            OWNER_GVK: f"{self.api_version}, Kind={self.kind}",
            OWNER_NAME: meta_of(job)["name"],
        }
        return {**workload, "metadata": meta}

    def is_equivalent(self, mine: Sequence[PodSetObj], others: Sequence[PodSetObj]) -> bool | None:
        """A roll-out of another template goes on with the quota there is; another size does not."""
        return [(ps["name"], ps["count"]) for ps in mine] == [(ps["name"], ps["count"]) for ps in others]

    def start(self, view: View, job: Obj, infos: Sequence[PodSetInfo], message: str) -> list[Action]:
        of_set = {info.name: info for info in infos}
        actions: list[Action] = []
        for pod in job.get(MEMBERS) or ():
            if not is_gated(pod):
                continue
            info = of_set.get(self.set_of(pod))
            if info is None:
                raise BadPodSets(
                    f"invalid podset infos: podSetInfo with the name '{self.set_of(pod)}' is not found"
                )
            actions.append(Replace(prepared(pod, info)))
            actions.append(Emit(key_of(pod), NORMAL, "Started", message, self.component))
        return actions

    def stop(
        self, view: View, job: Obj, infos: Sequence[PodSetInfo] | None, reason: str, message: str
    ) -> list[Action]:
        actions: list[Action] = []
        for pod in job.get(MEMBERS) or ():
            is_held = is_terminated(pod) or is_gated(pod)
            if "deletionTimestamp" in meta_of(pod) or (is_held and reason != StopReason.WORKLOAD_DELETED):
                continue
            actions.append(SetStatus(key_of(pod), with_target(pod, reason, message)))
            actions.append(Delete(key_of(pod), meta_of(pod)["uid"]))
            actions.append(Emit(key_of(pod), NORMAL, "Stopped", message, self.component))
        return actions

    def is_active(self, view: View, job: Obj) -> bool:
        return any(status_of(p).get("phase") == "Running" for p in job.get(MEMBERS) or ())

    def finished(self, view: View, job: Obj) -> Finish | None:
        return None

    def pods_ready(self, view: View, job: Obj) -> bool:
        ready: int = sum(
            c.get("type") == "Ready" and c.get("status") == "True"
            for p in job.get(MEMBERS) or ()
            for c in status_of(p).get("conditions") or ()
        )
        return ready >= sum(int(ps["count"]) for ps in self.pod_sets(view, job))

    def _pod_set(self, name: str, count: int, template: Obj, index_label: str) -> PodSetObj:
        made: dict[str, Any] = {"name": name, "count": count, "template": {"spec": spec_of(template)}}
        if self.gates.topology_aware_scheduling:
            request = topology_request(template, pod_index_label=index_label)
            if request is not None:
                made["topologyRequest"] = request
        return made


class StatefulSet(ServingSet):
    """One pod set, `main`. Those that a LeaderWorkerSet made are that one's."""

    name, gk, api_version = "statefulset", STATEFUL_SET, "apps/v1"

    def skips(self, view: View, job: Obj) -> bool:
        return LWS_NAME in labels_of(job) or super().skips(view, job)

    def pods_of(self, view: View, job: Obj) -> list[Obj]:
        return _dependents(view, job)

    def jobs_of(self, view: View, change: Change) -> Iterable[Key]:
        owner = controller_of(change.obj)
        if owner is None or owner["kind"] != "StatefulSet":
            return ()
        return (Key(STATEFUL_SET, change.key.namespace, owner["name"]),)

    def pod_sets(self, view: View, job: Obj) -> list[PodSetObj]:
        replicas = spec_of(job).get("replicas")
        count = 1 if replicas is None else int(replicas)
        return [self._pod_set("main", count, spec_of(job).get("template") or {}, POD_INDEX)]


class LeaderWorkerSet(ServingSet):
    """`main`, or `leader` and `worker` where leaders have a template of their own; times the replicas."""

    name, gk, api_version = (
        "leaderworkerset.x-k8s.io/leaderworkerset",
        LEADER_WORKER_SET,
        "leaderworkerset.x-k8s.io/v1",
    )

    def pods_of(self, view: View, job: Obj) -> list[Obj]:
        """Leaders and, through the set of each, workers."""
        namespace, name = meta_of(job)["namespace"], meta_of(job)["name"]
        leaders = _dependents(view, view.get(Key(STATEFUL_SET, namespace, name)))
        sets = [view.get(Key(STATEFUL_SET, namespace, meta_of(p)["name"])) for p in leaders]
        return [*leaders, *(pod for one in sets for pod in _dependents(view, one))]

    def jobs_of(self, view: View, change: Change) -> Iterable[Key]:
        name = labels_of(change.obj).get(LWS_NAME)
        return () if name is None else (Key(LEADER_WORKER_SET, change.key.namespace, name),)

    def pod_sets(self, view: View, job: Obj) -> list[PodSetObj]:
        both = spec_of(job).get("leaderWorkerTemplate") or {}
        replicas = spec_of(job).get("replicas")
        groups = 1 if replicas is None else int(replicas)
        size = 1 if both.get("size") is None else int(both["size"])
        if both.get("leaderTemplate") is None:
            return [self._pod_set("main", groups * size, both["workerTemplate"], LWS_WORKER_INDEX)]
        sets = [self._pod_set("leader", groups, both["leaderTemplate"], "")]
        if size > 1:
            workers = groups * (size - 1)
            sets.append(self._pod_set("worker", workers, both["workerTemplate"], LWS_WORKER_INDEX))
        return sets

    def set_of(self, pod: Obj) -> str:
        """The leader's name is on its workers alone."""
        if annotations_of(pod).get("leaderworkerset.sigs.k8s.io/leader-name"):
            return "worker"
        return "leader"

    def start(self, view: View, job: Obj, infos: Sequence[PodSetInfo], message: str) -> list[Action]:
        if len(infos) == 1 and infos[0].name == "main":
            both = [_named(infos[0], name) for name in ("leader", "worker")]
            return super().start(view, job, both, message)
        return super().start(view, job, infos, message)


def _named(info: PodSetInfo, name: str) -> PodSetInfo:
    return PodSetInfo(
        name, info.count, info.annotations, info.labels, info.node_selector, info.tolerations, info.gates
    )


def _dependents(view: View, owner: Obj | None) -> list[Obj]:
    keys = [] if owner is None else view.dependents(meta_of(owner)["uid"])
    return [p for k in keys if k.gk == "Pod" and (p := view.get(k)) is not None]
