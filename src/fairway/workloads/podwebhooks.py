"""What the webhooks of workload operators do to pods on their way in: LeaderWorkerSet's, JobSet's and KServe's.

Injection of variables, labels and affinities, and one refusal: with exclusive placement the followers of a Job of a
JobSet wait until their leader has a node, whose domain they then share.

Source: lws pkg/webhooks/pod_webhook.go; jobset pkg/webhooks/pod_webhook.go.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, annotations_of, controller_of, labels_of, spec_of
from fairway.workloads.job.podspec import COMPLETION_INDEX
from fairway.workloads.jobset.childjobs import EXCLUSIVE, JOB_KEY, JOBSET_NAME, NODE_SELECTOR_STRATEGY
from fairway.workloads.kserve import storage
from fairway.workloads.leaderworkerset import marks
from fairway.workloads.pods import is_deleting, is_terminal, node_of

PRIORITY = "jobset.sigs.k8s.io/priority"
_DENIED = 'admission webhook "vpod.kb.io" denied the request: '


def entered(view: View, pod: Obj, without: Collection[str] = ()) -> Obj | str:
    """The pod as it goes in, or why it may not. `without`: operators that run elsewhere, with their webhooks."""
    labels = labels_of(pod)
    if marks.SET_NAME in labels and "leaderworkerset" not in without:
        return marks.injected(pod)
    if JOBSET_NAME in labels and "jobset" not in without:
        return _of_jobset(view, pod)
    if storage.SOURCE in annotations_of(pod):
        return storage.with_model(pod)
    return pod


def _of_jobset(view: View, pod: Obj) -> Obj | str:
    annotations, spec = annotations_of(pod), spec_of(pod)
    if NODE_SELECTOR_STRATEGY in annotations or JOBSET_NAME not in annotations:
        return pod
    if spec.get("priority") is not None:
        pod = _labelled(pod, str(spec["priority"]))
    topology_key = annotations.get(EXCLUSIVE)
    if topology_key is None:
        return pod
    if annotations.get(COMPLETION_INDEX) == "0":
        return {**pod, "spec": _alone(pod, topology_key)}
    leader = _leader(view, pod)
    if leader is None or not node_of(leader):
        return f"{_DENIED}follower pod node selector not set"
    node = view.get(Key("Node", "", node_of(leader)))
    domain = None if node is None else labels_of(node).get(topology_key)
    if domain is None:
        return f"{_DENIED}node does not have topology label: {topology_key}"
    selector = {**(spec.get("nodeSelector") or {}), topology_key: domain}
    return {**pod, "spec": {**spec, "nodeSelector": selector}}


def _labelled(pod: Obj, priority: str) -> Obj:
    labels = {**labels_of(pod), PRIORITY: priority}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


def _alone(pod: Obj, topology_key: str) -> dict[str, Any]:
    """The leader's Job shares its domain with no other Job of its priority."""
    key = labels_of(pod).get(JOB_KEY, "")
    here = [{"key": JOB_KEY, "operator": "In", "values": [key]}]
    others: list[dict[str, Any]] = [
        {"key": JOB_KEY, "operator": "Exists"},
        {"key": JOB_KEY, "operator": "NotIn", "values": [key]},
        {"key": PRIORITY, "operator": "In", "values": [labels_of(pod).get(PRIORITY, "")]},
    ]
    return marks.with_affinity(spec_of(pod), topology_key, here, others, namespaceSelector={})


def _leader(view: View, pod: Obj) -> Obj | None:
    """The pod of completion index 0 of the same Job."""
    owner = controller_of(pod)
    for key in view.dependents(owner["uid"]) if owner is not None else ():
        found = view.get(key) if key.gk == "Pod" else None
        if found is None or annotations_of(found).get(COMPLETION_INDEX) != "0":
            continue
        if not is_deleting(found) and not is_terminal(found):
            return found
    return None
