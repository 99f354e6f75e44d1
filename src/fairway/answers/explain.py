"""Why does it wait? One object, its chain from admission to its kubelet, and the first layer that says no.

    explain(moment, find(moment.store, "job/train", "team"))

Nothing is run and nothing is changed: every layer's engine is asked once, at the moment. O(nodes + what is queued).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fairway.answers.admissionlinks import admission_links, refusal_of, suspended_at, suspension
from fairway.answers.explanation import (
    ADMISSION,
    BLOCKED,
    GANG,
    KUBELET,
    NONE,
    PASSED,
    PREEMPTION,
    PROVISIONING,
    QUEUE,
    QUOTA,
    SCHEDULER,
    UNKNOWN,
    VOLUMES,
    WAITS,
    Explanation,
    Link,
)
from fairway.answers.naming import WORKLOAD, find, job_of, named, pods_of, ref, workload_of
from fairway.answers.places import node_explanation, pool_explanation, queue_explanation
from fairway.answers.podlinks import pod_links
from fairway.answers.queuelinks import gang_link, queue_links
from fairway.answers.scalinglinks import SCALERS, scaler_explanation, scaling_links
from fairway.errors import UserError
from fairway.ground import Moment
from fairway.kube.conditions import get_condition, is_condition_true
from fairway.kube.objects import (
    Key,
    Obj,
    key_of,
    labels_of,
    meta_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from fairway.results.queuestate import state_of
from fairway.traces.arrival import QUEUE_LABEL
from fairway.twin.kueue.component import Kueue

_ENDED = ("Complete", "Failed", "Succeeded", "Completed", "Finished")
_KUEUE = ".kueue.x-k8s.io"
_PHRASES = {
    (ADMISSION, BLOCKED): "is refused at admission",
    (QUEUE, BLOCKED): "is held in its queue",
    (QUEUE, WAITS): "waits in its queue",
    (QUOTA, BLOCKED): "waits for quota",
    (PREEMPTION, WAITS): "waits for others to be preempted",
    (GANG, BLOCKED): "waits for its gang",
    (SCHEDULER, BLOCKED): "fits on no node",
    (SCHEDULER, WAITS): "is about to be placed",
    (VOLUMES, BLOCKED): "waits for a volume",
    (PROVISIONING, BLOCKED): "waits for a node that nobody opens",
    (PROVISIONING, WAITS): "waits for a node to be opened",
    (KUBELET, BLOCKED): "does not run on its node",
    (KUBELET, WAITS): "is being started",
}


def explain_named(moment: Moment, text: str, namespace: str | None = None) -> Explanation:
    """`explain` of what a user calls it; what the cluster did not let in is explained, too.

    Raises: UserError where nothing of this name is, or ever knocked.
    """
    try:
        key = find(moment.store, text, namespace)
    except UserError:
        refused = refusal_of(moment, text, namespace)
        if refused is None:
            raise
        return refused
    return explain(moment, key)


def explain(moment: Moment, key: Key) -> Explanation:
    """The explanation of an object that is there."""
    obj = moment.store.require(key)
    if key.gk == "Node":
        return node_explanation(moment, obj)
    if key.gk == "NodePool.karpenter.sh":
        return pool_explanation(moment, obj)
    if key.gk in (f"ClusterQueue{_KUEUE}", f"LocalQueue{_KUEUE}"):
        return queue_explanation(moment, key)
    if key.gk in SCALERS:
        return scaler_explanation(moment, obj)
    chain = (*_chain(moment, key, obj), *(scaling_links(moment, obj) if key.gk != "Pod" else ()))
    state = _state(obj)
    return Explanation(
        _written(key),
        state,
        _since(moment, key, obj),
        _sentence(obj, state, chain),
        chain,
        unknown=moment.notes,
    )


def _written(key: Key) -> str:
    return f"{key.namespace}/{ref(key)}" if key.namespace else ref(key)


# The chain


def _chain(moment: Moment, key: Key, obj: Obj) -> list[Link]:
    if has_ended(obj):
        return []
    links = _queueing(moment, key, obj)
    if any(link.state in (BLOCKED, WAITS) for link in links):
        return links
    pods = pods_of(moment.store, key)
    links += admission_links(moment, _makers(moment, key))
    if any(link.state == BLOCKED for link in links) or (not pods and key.gk == "Pod"):
        return links
    return links + _of_pods(moment, pods)


def _queueing(moment: Moment, key: Key, obj: Obj) -> list[Link]:
    """What its queue says; nothing of work that names none."""
    name = workload_of(moment.store, key)
    workload = None if name is None else moment.store.get(name)
    if workload is not None:
        over = get_condition(status_of(workload).get("conditions"), "Finished") or {}
        if over.get("status") == "True":
            # Its job has not ended: it never began.
            return [
                Link(QUEUE, BLOCKED, str(over.get("reason")), f"its Workload is over: {over.get('message')}")
            ]
        state = state_of(moment.twin)
        if "ClusterQueue.kueue.x-k8s.io" in moment.unseen and not state.backlog.accounts.queues:
            return [Link(QUEUE, UNKNOWN, "", "no ClusterQueues were read: where it stands is not known")]
        links = [_with_place(moment, workload, link) for link in queue_links(state, workload)]
        gang = gang_link(workload)
        return links if gang is None or any(link.state == BLOCKED for link in links) else [*links, gang]
    job = moment.store.get(job_of(moment.store, key)) or obj
    queue = labels_of(job).get(QUEUE_LABEL)
    stands = suspension(moment, job)
    if not queue or stands:
        return stands
    if moment.store.get(Key(f"LocalQueue{_KUEUE}", namespace_of(job), queue)) is None:
        kueue = moment.twin.component("kueue")
        if isinstance(kueue, Kueue) and kueue.webhook_settings is None and not suspended_at(job):
            # Nothing of Kueue's is here: the label says nothing to anybody.
            return []
        verdict = UNKNOWN if f"LocalQueue{_KUEUE}" in moment.unseen else BLOCKED
        numbers = {"local_queue": f"{namespace_of(job)}/{queue}"}
        said = f"LocalQueue {queue} doesn't exist"
        return [
            Link(QUEUE, verdict, "Misconfigured", said, numbers, _elsewhere(moment, namespace_of(job), queue))
        ]
    if suspended_at(job) or not pods_of(moment.store, key):
        return [Link(QUEUE, WAITS, "", f"Kueue is about to make its Workload for LocalQueue {queue}")]
    return []


def _with_place(moment: Moment, workload: Obj, link: Link) -> Link:
    """Of a queue that is not there: where one of its name is."""
    queue = str(spec_of(workload).get("queueName") or "")
    is_there = moment.store.get(Key(f"LocalQueue{_KUEUE}", namespace_of(workload), queue)) is not None
    if link.reason != "Misconfigured" or is_there:
        return link
    return replace(link, details=_elsewhere(moment, namespace_of(workload), queue))


def _elsewhere(moment: Moment, namespace: str, queue: str) -> tuple[str, ...]:
    homes = [namespace_of(o) for o in moment.store.objects(f"LocalQueue{_KUEUE}") if name_of(o) == queue]
    return (f"a LocalQueue {queue} is in {', '.join(homes[:3])}, not in {namespace}",) if homes else ()


def _makers(moment: Moment, key: Key) -> list[Obj]:
    """Objects that make pods: this one, and those below it."""
    store = moment.store
    top = job_of(store, key) if key.gk == WORKLOAD else key
    wave = [top]
    found: list[Obj] = []
    while wave and len(found) < 1000:
        found += [o for k in wave if k.gk != "Pod" and (o := store.get(k)) is not None]
        wave = [
            d for k in wave if (o := store.get(k)) is not None for d in store.dependents(meta_of(o)["uid"])
        ]
        wave = [k for k in wave if k.gk not in ("Pod", WORKLOAD)]
    return found


def _of_pods(moment: Moment, pods: Sequence[Obj]) -> list[Link]:
    """The links of the pod that is furthest behind, and how many are like it."""
    if not pods:
        return []
    waiting = [p for p in pods if not spec_of(p).get("nodeName")]
    starting = [p for p in pods if spec_of(p).get("nodeName") and not runs(p)]
    behind = waiting or starting
    if not behind:
        return pod_links(moment, pods[0])
    links: list[Link] = []
    for pod in behind[:_PODS_ASKED]:
        links = _of_pod(moment, pod)
        if any(link.state == BLOCKED for link in links):
            break
    if len(pods) > 1:
        what = "have no node" if waiting else "do not run yet"
        counts = {"pods": len(pods), "waiting": len(waiting), "starting": len(starting)}
        said = f"{len(behind)} of {len(pods)} pods {what}; such as {meta_of(behind[0])['name']}"
        links = [Link(GANG, PASSED, "", said, counts), *links]
    return links


_PODS_ASKED = 8


def _of_pod(moment: Moment, pod: Obj) -> list[Link]:
    """Of one that Kueue gates by itself, as it does those of Deployments: what its queue says first."""
    queued = _queueing(moment, key_of(pod), pod) if labels_of(pod).get(QUEUE_LABEL) else []
    return queued if any(link.state in (BLOCKED, WAITS) for link in queued) else pod_links(moment, pod)


# States


def has_ended(obj: Obj) -> bool:
    status = status_of(obj)
    if status.get("phase") in ("Succeeded", "Failed") or any(
        str(status.get(name)) in _ENDED for name in ("state", "jobDeploymentStatus")
    ):
        return True
    return (
        any(is_condition_true(status.get("conditions"), c) for c in _ENDED)
        if obj.get("kind") != "Pod"
        else False
    )


def runs(pod: Obj) -> bool:
    """Whether its containers run: those that crash between two starts do not."""
    status = status_of(pod)
    if status.get("phase") != "Running":
        return False
    told = status.get("containerStatuses") or ()
    return all("waiting" not in (c.get("state") or {}) for c in told)


def _state(obj: Obj) -> str:
    status = status_of(obj)
    if "deletionTimestamp" in meta_of(obj):
        return "Terminating"
    if obj.get("kind") == "Pod":
        return str(status.get("phase") or "Pending")
    conditions = status.get("conditions")
    for name in _ENDED:
        if is_condition_true(conditions, name):
            return name
    if obj.get("kind") == "Workload":
        for name in ("Evicted", "Admitted", "QuotaReserved"):
            if is_condition_true(conditions, name):
                return name
        return "Pending"
    if suspended_at(obj):
        return "Suspended"
    return "Running" if status.get("active") or status.get("readyReplicas") else "Pending"


def _since(moment: Moment, key: Key, obj: Obj) -> str:
    """When its state began, as far as its conditions say."""
    name = workload_of(moment.store, key)
    workload = None if name is None else moment.store.get(name)
    created = str(meta_of(obj).get("creationTimestamp") or "")
    if workload is not None and not is_condition_true(status_of(workload).get("conditions"), "QuotaReserved"):
        found = get_condition(status_of(workload).get("conditions"), "QuotaReserved")
        return str((found or {}).get("lastTransitionTime") or created)
    if obj.get("kind") == "Pod" and runs(obj):
        return str(status_of(obj).get("startTime") or created)
    return created


def _sentence(obj: Obj, state: str, chain: Sequence[Link]) -> str:
    who = named(obj)
    blocker = next((link for s in (BLOCKED, WAITS) for link in chain if link.state == s), None)
    if blocker is not None:
        phrase = _PHRASES.get((blocker.layer, blocker.state), "waits")
        if blocker.layer == SCHEDULER and "mismatches" in blocker.numbers:
            phrase = "finds no place in its queue's flavors"
        return f"{who} {phrase}: {blocker.message}"
    unknown = next((link for link in chain if link.state == UNKNOWN), None)
    if unknown is not None:
        return f"{who} is {state}; why cannot be told: {unknown.message}"
    return f"{who} is {state}: nothing holds it"


__all__ = ["NONE", "explain", "explain_named", "has_ended", "runs"]
