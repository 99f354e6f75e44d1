"""What kube-scheduler, the provisioners and the kubelet say of one pod, asked now, in their own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairway.answers.explanation import (
    ADMISSION,
    BLOCKED,
    GANG,
    KUBELET,
    NOTED,
    PASSED,
    PREEMPTION,
    PROVISIONING,
    QUEUE,
    SCHEDULER,
    UNKNOWN,
    VOLUMES,
    WAITS,
    Link,
)
from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.store import Store
from fairway.ground import Moment
from fairway.kube.conditions import is_condition_true
from fairway.kube.objects import Key, Obj, key_of, labels_of, meta_of, spec_of, status_of
from fairway.kube.resources import format_amount
from fairway.provisioning.karpenter.fleet import NO_PRICE
from fairway.scheduling import coscheduling, gangscheduling
from fairway.scheduling.cycle import Scheduler
from fairway.scheduling.diagnosis import Diagnosis
from fairway.scheduling.verdict import REASONS, Refusal, Scheduled, Unschedulable
from fairway.twin.kubelet.references import missing, mounts_of, variables_of
from fairway.twin.nodegroups.component import ClusterAutoscaler
from fairway.twin.owners import DefaultSelectors
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.scheduler import SchedulerComponent

_OF_VOLUMES = frozenset({"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"})
_OF_GANGS = frozenset({coscheduling.NAME, gangscheduling.NAME})
_NODES_NAMED = 3
_KUEUE_GATE = "kueue.x-k8s.io/"
_TYPES_NAMED = 3
_NOBODY_OPENS = "there are NodePools, but nothing opens nodes for them here (fairway up --cloud FILE)"


def pod_links(moment: Moment, pod: Obj) -> list[Link]:
    """The links of one pod that has not ended, from its gates to its kubelet."""
    node = spec_of(pod).get("nodeName")
    if node:
        return [Link(SCHEDULER, PASSED, "", f"on node {node}"), *kubelet_links(moment, pod)]
    gates = [str(g.get("name")) for g in spec_of(pod).get("schedulingGates") or ()]
    if gates:
        layer = QUEUE if any(g.startswith(_KUEUE_GATE) for g in gates) else ADMISSION
        said = "Scheduling is blocked due to non-empty scheduling gates"
        return [Link(layer, BLOCKED, "SchedulingGated", said, {"gates": gates})]
    return scheduler_links(moment, pod)


def scheduler_links(moment: Moment, pod: Obj) -> list[Link]:
    """Of a pod that is, or would be, tried now."""
    scheduler = moment.twin.component("default-scheduler")
    assert isinstance(scheduler, SchedulerComponent)
    name = spec_of(pod).get("schedulerName") or "default-scheduler"
    if name not in scheduler.schedulers:
        return [Link(SCHEDULER, UNKNOWN, "", f"it is scheduled by {name}, which is not asked here")]
    if "Node" in moment.unseen:
        return [Link(SCHEDULER, UNKNOWN, "", "no nodes were read: where it fits is not known")]
    verdict, diagnosis = scheduler.asked(pod)
    if isinstance(verdict, Scheduled):
        said = f"{verdict.feasible} of {scheduler.accounts.node_count} nodes would take it; {verdict.node} is next"
        short = _gang_links(moment, scheduler, pod, said)
        if short:
            return short
        return [Link(SCHEDULER, WAITS, "", said, {"node": verdict.node, "feasible": verdict.feasible})]
    layer = _layer(verdict)
    if layer == VOLUMES and "PersistentVolumeClaim" in moment.unseen:
        said = f"no PersistentVolumeClaims were read: {verdict.message}"
        return [Link(VOLUMES, UNKNOWN, ",".join(verdict.plugins), said)]
    numbers, details = _evidence(scheduler.accounts, verdict, diagnosis)
    is_native = (
        scheduler.gangs is not None and scheduler.gangs.plugin_of(key_of(pod), pod) == gangscheduling.NAME
    )
    if layer == SCHEDULER and (verdict.preemption is None or is_native):
        # A group that is tried as one preempts nobody.
        short = _gang_links(moment, scheduler, pod, verdict.message)
        if short:
            return [
                replace(short[0], numbers=numbers | short[0].numbers, details=short[0].details + details),
                *short[1:],
            ]
    links = []
    if verdict.preemption is not None and not is_native:
        victims = [f"{k.namespace}/{k.name}" for k in verdict.preemption.victims]
        said = f"it will evict {', '.join(victims[:_NODES_NAMED])} from {verdict.preemption.node}"
        links.append(Link(PREEMPTION, WAITS, "Preemption", said, {"evicts": victims}))
    opening = [] if layer == GANG else provisioning_links(moment, [pod])
    if links:
        # Room is made for it: that nobody opens a node is no matter.
        opening = [replace(link, state=NOTED) if link.state == BLOCKED else link for link in opening]
    is_helped = bool(links) or any(link.state == WAITS for link in opening)
    refused = Link(
        layer, NOTED if is_helped else BLOCKED, ",".join(verdict.plugins), verdict.message, numbers, details
    )
    beside = [] if layer != VOLUMES or is_helped else _without_volumes(scheduler, pod)
    return [*beside, refused, *links, *opening]


def _without_volumes(scheduler: SchedulerComponent, pod: Obj) -> list[Link]:
    """What a claim that is not there, or not bound, hides: no node would take the pod without its volumes either."""
    spec = {key: value for key, value in spec_of(pod).items() if key != "volumes"}
    verdict, diagnosis = scheduler.asked({**pod, "spec": spec})
    if isinstance(verdict, Scheduled):
        return []
    numbers, details = _evidence(scheduler.accounts, verdict, diagnosis)
    return [Link(SCHEDULER, BLOCKED, ",".join(verdict.plugins), verdict.message, numbers, details)]


def _gang_links(moment: Moment, scheduler: SchedulerComponent, pod: Obj, alone: str) -> list[Link]:
    """Of a pod whose gang has no room, and who would make some: its members are placed one after another on a copy of
    what is taken. `alone`: what is said of the pod by itself. Empty: the gang is no matter."""
    company = None if scheduler.gangs is None else scheduler.gangs.company(key_of(pod), pod)
    if scheduler.gangs is None or company is None:
        return []
    group, least, members = company
    plugin = gangscheduling.NAME if group.gk == gangscheduling.POD_GROUP else coscheduling.NAME
    if least < 0:
        return [Link(GANG, BLOCKED, plugin, coscheduling.NOT_FOUND, {"group": group.name})]
    store = scheduler.host.store
    pods = [p for k in members if (p := store.get(k)) is not None]
    has_place = [bool(spec_of(p).get("nodeName")) or key_of(p) in scheduler.gangs.waiting for p in pods]
    placed = sum(has_place)
    accounts = scheduler.accounts.copy()
    profile = scheduler.schedulers[spec_of(pod).get("schedulerName") or "default-scheduler"].profile
    asking = Scheduler(accounts, profile, DefaultSelectors(store).of, view=store)
    fit, refused = 0, set[int]()
    for other, is_placed in zip(pods, has_place, strict=True):
        record = accounts.record(other, key_of(other))
        if is_placed or placed + fit >= least or record.shape.id in refused:
            continue
        verdict = asking.place(record, 0)
        if isinstance(verdict, Scheduled):
            accounts.place(record, accounts.row_of[verdict.node])
            fit += 1
        else:
            # Others like it fit no better.
            refused.add(record.shape.id)
    if placed + fit >= least:
        return []
    opening = provisioning_links(moment, [p for p, has in zip(pods, has_place, strict=True) if not has])
    state = NOTED if any(link.state == WAITS for link in opening) else BLOCKED
    said = f"PodGroup {group.name} needs {least} pods placed together: {placed} have a node, {fit} more would fit"
    numbers = {"group": group.name, "least": least, "placed": placed, "fit": fit, "pods": len(pods)}
    return [Link(GANG, state, plugin, said, numbers, (f"by itself: {alone}",)), *opening]


def _layer(verdict: Unschedulable) -> str:
    plugins = set(verdict.plugins)
    if plugins and plugins <= _OF_VOLUMES:
        return VOLUMES
    return GANG if plugins & _OF_GANGS else SCHEDULER


# Every node's filter


def _evidence(
    accounts: NodeAccounts, verdict: Unschedulable, diagnosis: Diagnosis | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    numbers: dict[str, Any] = {"nodes": verdict.node_count, "reasons": dict(verdict.reasons)}
    if diagnosis is None or diagnosis.filters is None:
        return numbers, ()
    by_reason: dict[str, list[str]] = {}
    for row in accounts.order().tolist():
        code = int(diagnosis.refusal[row])
        if code not in (Refusal.NONE, Refusal.FIT):
            words = diagnosis.said.get(row, "") if code == Refusal.EXTENDER else REASONS[Refusal(code)]
            if words:
                by_reason.setdefault(words, []).append(accounts.names[row])
    details = [_few(reason, names) for reason, names in sorted(by_reason.items())]
    nearest = _nearest(accounts, diagnosis)
    if nearest is not None:
        numbers["nearest"] = nearest
        lacks = ", ".join(
            f"{format_amount(r, s['short'])} {r} ({format_amount(r, s['asked'])} asked, "
            f"{format_amount(r, s['free'])} free)"
            for r, s in nearest["short"].items()
        )
        details.append(f"nearest by resources: {nearest['node']} lacks {lacks or 'room for another pod'}")
    return numbers, tuple(details)


def _few(reason: str, names: list[str]) -> str:
    more = f" and {len(names) - _NODES_NAMED} more" if len(names) > _NODES_NAMED else ""
    return f"{reason}: {', '.join(names[:_NODES_NAMED])}{more}"


def _nearest(accounts: NodeAccounts, diagnosis: Diagnosis) -> dict[str, Any] | None:
    """The node that only lacks resources, and the least part of what is asked."""
    assert diagnosis.filters is not None
    rows = np.flatnonzero((diagnosis.refusal == Refusal.FIT) & accounts.alive[: len(diagnosis.refusal)])
    local = diagnosis.filters.local
    asked = {r: local.shape.requests[r] for r in local.resources}
    if not len(rows):
        return None
    columns = np.array([accounts.column(r) for r in asked], np.int64)
    wanted = np.array(list(asked.values()), np.int64)
    free = accounts.allocatable[np.ix_(rows, columns)] - accounts.requested[np.ix_(rows, columns)]
    lack = np.maximum(wanted - free, 0)
    best = int((lack / np.maximum(wanted, 1)).sum(axis=1).argmin())
    short = {
        r: {"asked": int(wanted[i]), "free": int(free[best, i]), "short": int(lack[best, i])}
        for i, r in enumerate(asked)
        if lack[best, i]
    }
    return {"node": accounts.names[int(rows[best])], "short": short}


# Provisioning


def provisioning_links(moment: Moment, pods: Sequence[Obj]) -> list[Link]:
    """What would be opened for one pod or for those of a gang, or why nothing is; nothing where nobody would."""
    parts = moment.twin.host.parts
    links = []
    karpenter, pools = parts.get("karpenter"), moment.store.count("NodePool.karpenter.sh")
    if pools and isinstance(karpenter, Provisioner):
        links.append(_of_karpenter(karpenter, pods))
    elif pools:
        links.append(Link(PROVISIONING, NOTED, "", _NOBODY_OPENS, {"node_pools": pools}))
    return links + [_of_autoscaler(p, pods) for p in parts.values() if isinstance(p, ClusterAutoscaler)]


def _of_karpenter(karpenter: Provisioner, pods: Sequence[Obj]) -> Link:
    results = karpenter.asked(list(pods))
    for _, why in results.refused:
        return Link(PROVISIONING, BLOCKED, "FailedScheduling", f"Failed to schedule pod, {why}")
    for plan in results.claims:
        types, price = plan.type_names, plan.cheapest()
        cost = None if price == NO_PRICE else price / 1e6
        more = f" or {len(types) - 1} other types" if len(types) > 1 else ""
        at = "" if cost is None else f" at ${cost:.2f} an hour"
        said = f"NodePool {plan.pool.name} opens a {types[0] if types else 'node'}{more}{at}"
        numbers = {"node_pool": plan.pool.name, "types": types[:_TYPES_NAMED], "usd_per_hour": cost}
        return Link(PROVISIONING, WAITS, "Nominated", said, numbers)
    for node, _ in results.pods_on:
        # One that is in use was asked by the scheduler, which knows better; one on its way is waited for.
        state = NOTED if _is_in_use(karpenter.host.store, node.name) else WAITS
        return Link(
            PROVISIONING, state, "Nominated", f"Pod should schedule on: node/{node.name}", {"node": node.name}
        )
    return Link(PROVISIONING, NOTED, "", "Karpenter leaves this pod out")


def _is_in_use(store: Store, name: str) -> bool:
    node = store.get(Key("Node", "", name))
    if node is None or not is_condition_true(status_of(node).get("conditions"), "Ready"):
        return False
    labels = labels_of(node)
    return "karpenter.sh/nodepool" not in labels or labels.get("karpenter.sh/initialized") == "true"


def _of_autoscaler(autoscaler: ClusterAutoscaler, pods: Sequence[Obj]) -> Link:
    decided = autoscaler.asked(list(pods))
    if decided.resizes:
        groups = ", ".join(str(r) for r in decided.resizes)
        return Link(PROVISIONING, WAITS, "TriggeredScaleUp", f"pod triggers scale-up: [{groups}]")
    for _, why in decided.unhelped:
        return Link(PROVISIONING, BLOCKED, "NotTriggerScaleUp", f"pod didn't trigger scale-up: {why}")
    return Link(PROVISIONING, WAITS, "", "the Cluster Autoscaler waits for more pods before it looks")


# Kubelet


def kubelet_links(moment: Moment, pod: Obj) -> list[Link]:
    """Of a pod that has a node: what keeps its containers from running, or that they run."""
    store, status = moment.store, status_of(pod)
    node = store.get(Key("Node", "", spec_of(pod)["nodeName"]))
    if node is None and "Node" not in moment.unseen:
        return [Link(KUBELET, BLOCKED, "NodeLost", f"node {spec_of(pod)['nodeName']} is not there any more")]
    if node is not None and not is_condition_true(status_of(node).get("conditions"), "Ready"):
        return [Link(KUBELET, BLOCKED, "NodeNotReady", f"node {spec_of(pod)['nodeName']} is not Ready")]
    lack = _lacks(moment, pod)
    if lack is not None:
        return [lack]
    told = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in told:
        waiting = (container.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") not in (None, "PodInitializing"):
            return [_waiting(container, waiting)]
    if status.get("phase") == "Running":
        return [Link(KUBELET, PASSED, "", "its containers run")]
    return [Link(KUBELET, WAITS, "", "its kubelet is starting it")]


def _waiting(container: Obj, waiting: dict[str, Any]) -> Link:
    reason = str(waiting["reason"])
    last = ((container.get("lastState") or {}).get("terminated")) or {}
    said = str(waiting.get("message") or reason)
    numbers: dict[str, Any] = {
        "container": container.get("name"),
        "restarts": container.get("restartCount") or 0,
    }
    if last:
        said += f"; last time it ended with {last.get('reason') or 'Error'}, exit code {last.get('exitCode')}"
        numbers |= {"exit_code": last.get("exitCode"), "last_reason": last.get("reason")}
    state = WAITS if reason == "ContainerCreating" else BLOCKED
    return Link(KUBELET, state, reason, f"container {container.get('name')}: {said}", numbers)


def _lacks(moment: Moment, pod: Obj) -> Link | None:
    """A ConfigMap, Secret or key that is not there."""
    spec, home = spec_of(pod), meta_of(pod).get("namespace") or ""
    if status_of(pod).get("phase") not in (None, "Pending"):
        return None
    lack = missing(moment.store, home, mounts_of(spec.get("volumes") or []))
    reason = "FailedMount"
    if lack is None:
        reason = "CreateContainerConfigError"
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            lack = lack or missing(moment.store, home, variables_of(container))
    if lack is None:
        return None
    reference, words = lack
    if reference.kind in moment.unseen:
        return Link(
            KUBELET,
            UNKNOWN,
            "",
            f"{reference.kind}s were not read: whether {reference.name} is there is not known",
        )
    text = (
        f'MountVolume.SetUp failed for volume "{reference.volume}" : {words}' if reference.volume else words
    )
    return Link(KUBELET, BLOCKED, reason, text, {"kind": reference.kind, "name": reference.name})


__all__ = ["key_of", "pod_links", "provisioning_links", "scheduler_links"]
