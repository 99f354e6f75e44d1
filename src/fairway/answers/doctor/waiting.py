"""Work that does not start: who says no, who is refused pods, whom no autoscaler helps, whose queue is elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from fairway.answers.admissionlinks import admission_links
from fairway.answers.doctor.findings import Finding, Patient, found, unknown
from fairway.answers.explain import explain, has_ended
from fairway.answers.explanation import BLOCKED, PROVISIONING, Explanation
from fairway.answers.naming import job_of
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
from fairway.traces.arrival import QUEUE_LABEL

_LOCAL = "LocalQueue.kueue.x-k8s.io"
_MAKERS = ("Job.batch", "ReplicaSet.apps", "StatefulSet.apps", "ReplicationController")
_SYSTEM = ("kube-system", "gpu-operator", "kueue-system", "karpenter", "monitoring", "cert-manager")
# Kinds of work that are explained at most; alike ones are asked about once.
_MOST_ASKED = 200


def pending(patient: Patient) -> Finding:
    """Everything that waits, by what says no to it: one line a reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    words: dict[tuple[str, str], str] = {}
    for explanation in _explained(patient):
        blocker = explanation.blocker
        if blocker.state == BLOCKED:
            why = (blocker.layer, blocker.reason)
            by_reason.setdefault(why, []).append(explanation.object)
            words.setdefault(why, blocker.message)
    ranked = sorted(by_reason.items(), key=lambda r: (-len(r[1]), r[0]))
    lines = [
        (of[0], f"{len(of)} at {why[0]}{f' ({why[1]})' if why[1] else ''}: {words[why]}")
        for why, of in ranked
    ]
    one = found(lines)
    everyone = tuple(o for _, of in ranked for o in of)
    return Finding(one.state, len(everyone), one.evidence, everyone)


def _explained(patient: Patient) -> Iterator[Explanation]:
    """Every job and lone pod that has not started, up to a limit."""
    moment, asked = patient.moment, 0
    tops: dict[Key, None] = {}
    for pod in moment.store.objects("Pod"):
        if not spec_of(pod).get("nodeName") and not has_ended(pod) and patient.is_mine(namespace_of(pod)):
            tops[job_of(moment.store, key_of(pod))] = None
    for workload in moment.store.objects("Workload.kueue.x-k8s.io"):
        if not has_ended(workload) and patient.is_mine(namespace_of(workload)):
            tops[job_of(moment.store, key_of(workload))] = None
    for job in moment.store.objects("Job.batch"):
        is_open = spec_of(job).get("suspend") or not status_of(job).get("active")
        if is_open and not has_ended(job) and patient.is_mine(namespace_of(job)):
            tops[job_of(moment.store, key_of(job))] = None
    for key in tops:
        if moment.store.get(key) is None:
            continue
        asked += 1
        if asked > _MOST_ASKED:
            return
        yield explain(moment, key)


def refused_pods(patient: Patient) -> Finding:
    """Controllers whose next pod the door would refuse."""
    return found(_refusals(patient, lambda namespace: namespace not in _SYSTEM))


def blocked_system(patient: Patient) -> Finding:
    """The same of namespaces that the cluster itself lives in, DaemonSets included."""
    return found(_refusals(patient, lambda namespace: namespace in _SYSTEM))


def _refusals(patient: Patient, wanted: object) -> Iterator[tuple[str, str]]:
    assert callable(wanted)
    for gk in _MAKERS:
        for maker in patient.moment.store.objects(gk):
            if wanted(namespace_of(maker)) and patient.is_mine(namespace_of(maker)) and not has_ended(maker):
                for link in admission_links(patient.moment, [maker]):
                    yield _named(maker), link.message


def unhelped(patient: Patient) -> Finding:
    """Those that wait for a node which nobody can open."""
    moment = patient.moment
    if not moment.store.count("NodePool.karpenter.sh") and "cluster-autoscaler" not in moment.twin.host.parts:
        return Finding("well")
    lines = []
    for explanation in _explained(patient):
        lines += [
            (explanation.object, link.message)
            for link in explanation.chain
            if link.layer == PROVISIONING and link.state == BLOCKED
        ]
    return found(lines)


def lost_queues(patient: Patient) -> Finding:
    """Jobs whose LocalQueue is not in their namespace."""
    moment = patient.moment
    if _LOCAL in moment.unseen:
        return unknown("no LocalQueues were read")
    homes: dict[str, list[str]] = {}
    for queue in moment.store.objects(_LOCAL):
        homes.setdefault(name_of(queue), []).append(namespace_of(queue))
    lines = []
    for gk in moment.store.kinds():
        for job in moment.store.objects(gk) if gk not in ("Pod", _LOCAL) else ():
            name = labels_of(job).get(QUEUE_LABEL)
            is_lost = (
                name is not None
                and namespace_of(job) not in homes.get(name, ())
                and not meta_of(job).get("ownerReferences")
            )
            if name is not None and is_lost and namespace_of(job) and patient.is_mine(namespace_of(job)):
                where = f"it is in {', '.join(homes[name][:3])}" if name in homes else "it is nowhere"
                lines.append((_named(job), f"LocalQueue {name} is not in {namespace_of(job)}; {where}"))
    return found(lines)


def lost_quotas(patient: Patient) -> Finding:
    """GPU quotas in namespaces without GPU work, while GPU work runs where there is none."""
    store = patient.moment.store
    if "ResourceQuota" in patient.moment.unseen and not patient.moment.is_simulated:
        return unknown("no ResourceQuotas were read")
    quotas = {
        namespace_of(q): name_of(q)
        for q in store.objects("ResourceQuota")
        if any("gpu" in name for name in spec_of(q).get("hard") or {})
    }
    shapes = store.accounts.shapes
    used = {namespace_of(p) for p in store.objects("Pod") if any("gpu" in r for r in shapes.of(p).requests)}
    bare = sorted(n for n in used - quotas.keys() if n not in _SYSTEM)
    idle = sorted(n for n in quotas.keys() - used if patient.is_mine(n))
    if not bare:
        return Finding("well")
    return found(
        (
            f"{n}/resourcequota/{quotas[n]}",
            f"no GPU work is in {n}; GPU pods without a quota are in {', '.join(bare[:3])}",
        )
        for n in idle
    )


def _named(obj: Obj) -> str:
    return f"{namespace_of(obj)}/{str(obj.get('kind')).lower()}/{name_of(obj)}"
