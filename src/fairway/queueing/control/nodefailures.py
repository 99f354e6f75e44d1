"""A node failed, or is tainted: which Workloads have to find another one for their pods there?

A Workload whose topology assignment names the node is marked (`status.unhealthyNodes`) once nothing of it runs
there any more, and scheduled again for the pods of that node; a second node failing before that evicts it. Pods
that were sent to the node and never got there are failed, so that their job makes others.

Source: pkg/controller/tas/node_controller.go; KEP-2724 "node failures".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from fairway.cluster.actions import Action, Emit, SetStatus, View
from fairway.kube.objects import Obj, key_of, meta_of, spec_of, status_of
from fairway.kube.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    Taint,
    Toleration,
    is_tolerated,
    parse_taints,
    parse_tolerations,
)
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.queueing.control.ungating import has_gate
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.gates import FeatureGates
from fairway.queueing.facts.objects import HOSTNAME_LABEL
from fairway.queueing.facts.topologyassignments import read_assignment
from fairway.queueing.facts.workloadstate import is_finished
from fairway.queueing.integrations.podsetinfo import BadPodSets, FlavorMissing, admitted_infos
from fairway.queueing.outcomes import statuses
from fairway.queueing.outcomes.events import evicted_event

COMPONENT: Final = "tas-node-reconciler"

# Without TASReplaceNodeOnPodTermination a node may be unready this long before it counts as failed.
NODE_FAILURE_DELAY_US: Final = 30 * SECOND_US

_FOR_EVER: Final = "for ever"
_FOR_A_WHILE: Final = "for a while"
_NOT_AT_ALL: Final = "not at all"

_TERMINATED: Final = "Pod terminated by Kueue NodeController due to node taint"


class Member(NamedTuple):
    """A Workload that may have to do with the node, and those of its pods that are there."""

    workload: Obj
    pods: Sequence[Obj]


class NodeDecision(NamedTuple):
    """What to do, and when to look again in any case."""

    actions: tuple[Action, ...] = ()
    again_at_us: int | None = None


def is_on(workload: Obj, node: str) -> bool:
    """Whether its topology assignment names the node, and still counts."""
    status = status_of(workload)
    if is_finished(workload) or conds.is_true(status, conds.EVICTED):
        return False
    return any(_names(raw, node) for raw in _assignments(workload))


def is_ill(node: Obj | None) -> bool:
    """Whether a pod that ends, or waits, on this node can mean a failure: it is gone, unready or tainted."""
    return node is None or not _is_ready(node) or bool(_taints(node))


def on_node(
    view: View, name: str, node: Obj | None, members: Sequence[Member], gates: FeatureGates, now_us: int
) -> NodeDecision:
    """What to do about the Workloads of one node. O(members and their pods)."""
    if node is not None and _ready_condition(node) is None:
        node = None
    if node is not None and not gates.tas_replace_node_on_pod_termination:
        again_us = _ready_since_us(node) + NODE_FAILURE_DELAY_US
        if not _is_ready(node) and again_us > now_us:
            return NodeDecision((), again_us)
    actions: list[Action] = []
    for member in members:
        actions.extend(_of_one(view, name, node, member, gates, now_us))
    return NodeDecision(tuple(actions))


def _of_one(
    view: View, name: str, node: Obj | None, member: Member, gates: FeatureGates, now_us: int
) -> Iterator[Action]:
    workload = member.workload
    is_assigned = is_on(workload, name)
    if node is None:
        if is_assigned:
            yield from _failed(workload, name, now_us)
        return
    waits = gates.tas_replace_node_on_pod_termination
    looks_at_pods = not is_assigned or not _is_ready(node)
    if not looks_at_pods and gates.tas_replace_node_on_node_taints:
        tolerated = _tolerated(view, workload, name, node, gates)
        looks_at_pods = tolerated != _FOR_EVER
        # Pods that may stay a while are waited for in any case.
        waits = waits or tolerated == _FOR_A_WHILE
    if not looks_at_pods:
        yield from _healthy(workload, name)
        return
    if is_assigned and not (waits and any(_is_progressing(pod, name) for pod in member.pods)):
        yield from _failed(workload, name, now_us)
    else:
        yield from _healthy(workload, name)
    for pod in member.pods:
        if _is_stuck(pod, name):
            yield from _terminated(pod, now_us)


# What becomes of a Workload


def _failed(workload: Obj, name: str, now_us: int) -> Iterator[Action]:
    status, key = status_of(workload), key_of(workload)
    unhealthy = [n["name"] for n in status.get("unhealthyNodes") or ()]
    if name in unhealthy:
        return
    if not unhealthy:
        yield SetStatus(key, {**status, "unhealthyNodes": [{"name": name}]})
        return
    named = ", ".join((*unhealthy, name))
    message = f"Workload eviction triggered due to multiple TAS assigned node failures, including: {named}"
    changed = statuses.evicted(workload, conds.EVICTED_BY_NODE_FAILURES, message, now_us)
    yield SetStatus(key, changed["status"])
    told = evicted_event("", conds.EVICTED_BY_NODE_FAILURES, message)
    yield Emit(key, told.type, told.reason, told.message, COMPONENT)


def _healthy(workload: Obj, name: str) -> Iterator[Action]:
    status = status_of(workload)
    unhealthy = status.get("unhealthyNodes") or ()
    kept = [n for n in unhealthy if n["name"] != name]
    if len(kept) == len(unhealthy):
        return
    changed = {k: v for k, v in status.items() if k != "unhealthyNodes"}
    if kept:
        changed["unhealthyNodes"] = kept
    yield SetStatus(key_of(workload), changed)


def _terminated(pod: Obj, now_us: int) -> Iterator[Action]:
    status = status_of(pod)
    condition = {
        "type": "TerminatedByKueue",
        "status": "True",
        "reason": "UnschedulableOnAssignedNode",
        "message": _TERMINATED,
        "lastTransitionTime": rfc3339(now_us),
    }
    conditions = [*(status.get("conditions") or ()), condition]
    yield SetStatus(key_of(pod), {**status, "phase": "Failed", "conditions": conditions})
    yield Emit(key_of(pod), "Normal", "PodTerminatedByKueue", _TERMINATED, COMPONENT)


# Looking at it


def _assignments(workload: Obj) -> Sequence[dict[str, Any]]:
    return (status_of(workload).get("admission") or {}).get("podSetAssignments") or ()


def _names(raw: dict[str, Any], node: str) -> bool:
    assignment = read_assignment(raw.get("topologyAssignment"))
    if assignment is None or assignment.levels[-1:] != (HOSTNAME_LABEL,):
        return False
    return any(domain.values[-1] == node for domain in assignment.domains)


def _is_progressing(pod: Obj, node: str) -> bool:
    return (
        spec_of(pod).get("nodeName") == node
        and "deletionTimestamp" not in meta_of(pod)
        and status_of(pod).get("phase") not in ("Succeeded", "Failed")
    )


def _is_stuck(pod: Obj, node: str) -> bool:
    """Sent to the node, and not there."""
    spec = spec_of(pod)
    return (
        not spec.get("nodeName")
        and (spec.get("nodeSelector") or {}).get(HOSTNAME_LABEL) == node
        and status_of(pod).get("phase") in (None, "", "Pending")
        and not has_gate(pod)
    )


def _ready_condition(node: Obj) -> dict[str, Any] | None:
    return next((c for c in status_of(node).get("conditions") or () if c.get("type") == "Ready"), None)


def _is_ready(node: Obj) -> bool:
    ready = _ready_condition(node)
    return ready is not None and ready.get("status") == "True"


def _ready_since_us(node: Obj) -> int:
    ready = _ready_condition(node)
    assert ready is not None
    return conds.since_us(ready)


def _taints(node: Obj) -> tuple[Taint, ...]:
    return tuple(
        t for t in parse_taints(spec_of(node).get("taints")) if t.effect in (NO_EXECUTE, NO_SCHEDULE)
    )


def _tolerated(view: View, workload: Obj, name: str, node: Obj, gates: FeatureGates) -> str:
    """How long the pod sets on the node put up with its taints, at worst."""
    taints = _taints(node)
    if not taints:
        return _FOR_EVER
    worst = _FOR_EVER
    for tolerations in _tolerations_on(view, workload, name, gates):
        lasting = [t for t in tolerations if t.seconds is None]
        for taint in taints:
            if not is_tolerated(taint, tolerations):
                return _NOT_AT_ALL
            if not is_tolerated(taint, lasting):
                worst = _FOR_A_WHILE
    return worst


def _tolerations_on(
    view: View, workload: Obj, node: str, gates: FeatureGates
) -> Iterator[tuple[Toleration, ...]]:
    """Per pod set on the node: what its pods tolerate, their own and what their admission gave them."""
    templates = {ps.get("name") or "main": ps.get("template") or {} for ps in spec_of(workload)["podSets"]}
    try:
        infos = {info.name: info for info in admitted_infos(view, workload, gates)}
    except (BadPodSets, FlavorMissing):
        return
    for raw in _assignments(workload):
        name = raw.get("name") or "main"
        if _names(raw, node) and name in templates:
            own = spec_of(templates[name]).get("tolerations") or ()
            yield parse_tolerations((*own, *infos[name].tolerations))
