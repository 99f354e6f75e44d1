"""PreFilter state, and the filters of a profile in their order."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from oracle.matching import (
    host_ports,
    is_empty,
    node_term_matches,
    priority,
    required_node_affinity_matches,
    selects,
    term_matches,
    terms_of,
    tolerates,
    untolerated,
    with_label_keys,
)
from oracle.requests import allocatable, as_int, pod_requests, requested
from oracle.settings import args_of, filters_with
from oracle.world import (
    HOSTNAME,
    MAX_INT32,
    REQUIRED,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    NodeInfo,
    Obj,
    Status,
    World,
)


@dataclass
class State:
    existing_anti: Counter[tuple[str, str]]
    affinity: Counter[tuple[str, str]]
    anti: Counter[tuple[str, str]]
    skips_affinity: bool
    spread: list[Obj]
    matched: list[dict[str, int]]


def prefilter(world: World, pod: Obj, infos: list[NodeInfo]) -> State:
    state = State(Counter(), Counter(), Counter(), False, constraints(world, pod, "DoNotSchedule"), [])
    for info in infos:
        for there in info.pods:
            update_affinity(world, state, pod, there, info, 1)
    needed = terms_of(pod, "podAffinity", REQUIRED) or terms_of(pod, "podAntiAffinity", REQUIRED)
    state.skips_affinity = not state.existing_anti and not needed
    state.matched = [{} for _ in state.spread]
    for info in infos:
        if not all(c["topologyKey"] in info.labels for c in state.spread):
            continue
        for c, matched in zip(state.spread, state.matched, strict=True):
            if included(c, pod, info):
                value = info.labels[c["topologyKey"]]
                matched[value] = matched.get(value, 0) + count_matching(c, pod, info)
    return state


def update_affinity(world: World, state: State, pod: Obj, there: Obj, info: NodeInfo, sign: int) -> None:
    def mark(counter: Counter[tuple[str, str]], key: str) -> None:
        if key in info.labels:
            counter[key, info.labels[key]] += sign
            if not counter[key, info.labels[key]]:
                del counter[key, info.labels[key]]

    for t in terms_of(there, "podAntiAffinity", REQUIRED):
        if term_matches(world, t, there, pod):
            mark(state.existing_anti, t["topologyKey"])
    mine = terms_of(pod, "podAffinity", REQUIRED)
    if mine and all(term_matches(world, t, pod, there) for t in mine):
        for t in mine:
            mark(state.affinity, t["topologyKey"])
    for t in terms_of(pod, "podAntiAffinity", REQUIRED):
        if term_matches(world, t, pod, there):
            mark(state.anti, t["topologyKey"])


def constraints(world: World, pod: Obj, action: str) -> list[Obj]:
    own = pod["spec"].get("topologySpreadConstraints") or []
    if own:
        return [
            {**c, "labelSelector": with_label_keys(c, pod)} for c in own if c["whenUnsatisfiable"] == action
        ]
    labels, chosen = pod["metadata"].get("labels") or {}, {}
    for service in world.services:
        selector = service["spec"].get("selector")
        same = service["metadata"]["namespace"] == pod["metadata"]["namespace"]
        if same and selector and all(labels.get(k) == v for k, v in selector.items()):
            chosen.update(selector)
    if not chosen:
        return []
    args = args_of(world, "PodTopologySpread")
    return [
        {**c, "labelSelector": {"matchLabels": chosen}}
        for c in (args["defaultConstraints"] if is_listed(world) else SYSTEM_DEFAULTS)
        if c["whenUnsatisfiable"] == action
    ]


SYSTEM_DEFAULTS = [
    {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"}
    for skew, key in ((3, HOSTNAME), (5, "topology.kubernetes.io/zone"))
]


def is_listed(world: World) -> bool:
    """Whether the default constraints are the profile's own."""
    return args_of(world, "PodTopologySpread").get("defaultingType") == "List"


def included(c: Obj, pod: Obj, info: NodeInfo) -> bool:
    if (c.get("nodeAffinityPolicy") or "Honor") == "Honor" and not required_node_affinity_matches(pod, info):
        return False
    return not (c.get("nodeTaintsPolicy") == "Honor" and untolerated(pod, info, ("NoSchedule", "NoExecute")))


def count_matching(c: Obj, pod: Obj, info: NodeInfo) -> int:
    if is_empty(c["labelSelector"]):
        return 0
    return sum(
        "deletionTimestamp" not in p["metadata"]
        and p["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and selects(c["labelSelector"], p["metadata"].get("labels") or {})
        for p in info.pods
    )


def move(world: World, state: State, pod: Obj, other: Obj, info: NodeInfo, sign: int) -> None:
    """The AddPod and RemovePod extensions, with the pod list of the node."""
    if sign > 0:
        info.pods.append(other)
    else:
        info.pods.remove(other)
    if not state.skips_affinity:
        update_affinity(world, state, pod, other, info, sign)
    if other["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return
    if not all(c["topologyKey"] in info.labels for c in state.spread):
        return
    for c, matched in zip(state.spread, state.matched, strict=True):
        if selects(c["labelSelector"], other["metadata"].get("labels") or {}) and included(c, pod, info):
            value = info.labels[c["topologyKey"]]
            matched[value] = matched.get(value, 0) + sign


def run_filters(world: World, state: State, pod: Obj, info: NodeInfo) -> Status | None:
    for plugin, judge in FILTERS.items():
        if filters_with(world, plugin):
            refused = judge(world, state, pod, info)
            if refused:
                return refused
    return None


def cordon_filter(world: World, state: State, pod: Obj, info: NodeInfo) -> Status | None:
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    is_cordoned = (info.node.get("spec") or {}).get("unschedulable")
    if is_cordoned and not tolerates(pod["spec"].get("tolerations") or [], cordon):
        return Status(UNRESOLVABLE, ["node(s) were unschedulable"])
    return None


def taint_filter(world: World, state: State, pod: Obj, info: NodeInfo) -> Status | None:
    if untolerated(pod, info, ("NoSchedule", "NoExecute")):
        return Status(UNRESOLVABLE, ["node(s) had untolerated taint(s)"])
    return None


def node_filter(world: World, state: State, pod: Obj, info: NodeInfo) -> Status | None:
    added = (args_of(world, "NodeAffinity").get("addedAffinity") or {}).get(REQUIRED)
    if added and not any(node_term_matches(term, info) for term in added["nodeSelectorTerms"]):
        return Status(UNRESOLVABLE, ["node(s) didn't match scheduler-enforced node affinity"])
    if not required_node_affinity_matches(pod, info):
        return Status(UNRESOLVABLE, ["node(s) didn't match Pod's node affinity/selector"])
    return None


def port_filter(world: World, state: State, pod: Obj, info: NodeInfo) -> Status | None:
    used = [port for p in info.pods for port in host_ports(p)]
    for ip, protocol, number in host_ports(pod):
        for other_ip, other_protocol, other_number in used:
            same = (protocol, number) == (other_protocol, other_number)
            if same and (ip == other_ip or "0.0.0.0" in (ip, other_ip)):
                return Status(UNSCHEDULABLE, ["node(s) didn't have free ports for the requested pod ports"])
    return None


def fit(world: World, state: State, pod: Obj, info: NodeInfo) -> Status | None:
    capacity = allocatable(info)
    taken, _, _ = requested(info)
    ignored = args_of(world, "NodeResourcesFit").get("ignoredResources") or []
    reasons = []
    code = UNSCHEDULABLE
    if len(info.pods) + 1 > capacity.get("pods", 0):
        reasons.append("Too many pods")
    for name, exact in pod_requests(pod, {}).items():
        asked = as_int(name, exact)
        if asked > 0 and name not in ignored and asked > capacity.get(name, 0) - taken.get(name, 0):
            reasons.append(f"Insufficient {name}")
            if asked > capacity.get(name, 0):
                code = UNRESOLVABLE
    return Status(code, reasons) if reasons else None


def spread_filter(world: World, state: State, pod: Obj, info: NodeInfo) -> Status | None:
    text = "node(s) didn't match pod topology spread constraints"
    for c, matched in zip(state.spread, state.matched, strict=True):
        if c["topologyKey"] not in info.labels:
            return Status(UNRESOLVABLE, [f"{text} (missing required label)"])
        least = min(matched.values(), default=MAX_INT32)
        if len(matched) < (c.get("minDomains") or 1):
            least = 0
        own = 1 if selects(c["labelSelector"], pod["metadata"].get("labels") or {}) else 0
        if matched.get(info.labels[c["topologyKey"]], 0) + own - least > c["maxSkew"]:
            return Status(UNSCHEDULABLE, [text])
    return None


def affinity_filter(world: World, state: State, pod: Obj, info: NodeInfo) -> Status | None:
    if state.skips_affinity:
        return None
    mine = terms_of(pod, "podAffinity", REQUIRED)
    if any(t["topologyKey"] not in info.labels for t in mine):
        return Status(UNRESOLVABLE, ["node(s) didn't match pod affinity rules"])
    exists = all(state.affinity[t["topologyKey"], info.labels[t["topologyKey"]]] > 0 for t in mine)
    first = not state.affinity and all(term_matches(world, t, pod, pod) for t in mine)
    if mine and not exists and not first:
        return Status(UNRESOLVABLE, ["node(s) didn't match pod affinity rules"])
    for t in terms_of(pod, "podAntiAffinity", REQUIRED):
        key = t["topologyKey"]
        if key in info.labels and state.anti[key, info.labels[key]] > 0:
            return Status(UNSCHEDULABLE, ["node(s) didn't match pod anti-affinity rules"])
    if any(state.existing_anti[pair] > 0 for pair in info.labels.items()):
        return Status(UNSCHEDULABLE, ["node(s) didn't satisfy existing pods anti-affinity rules"])
    return None


FILTERS: dict[str, Callable[[World, State, Obj, NodeInfo], Status | None]] = {
    "NodeUnschedulable": cordon_filter,
    "TaintToleration": taint_filter,
    "NodeAffinity": node_filter,
    "NodePorts": port_filter,
    "NodeResourcesFit": fit,
    "PodTopologySpread": spread_filter,
    "InterPodAffinity": affinity_filter,
}


def filters_with_nominated(world: World, state: State, pod: Obj, info: NodeInfo) -> Status | None:
    others = [
        p
        for p, node in world.nominated
        if node == info.name
        and priority(p) >= priority(pod)
        and p["metadata"]["name"] != pod["metadata"]["name"]
    ]
    if others:
        state_out, info_out = copy.deepcopy(state), NodeInfo(info.node, list(info.pods))
        for other in others:
            move(world, state_out, pod, other, info_out, 1)
        refused = run_filters(world, state_out, pod, info_out)
        if refused:
            return refused
    return run_filters(world, state, pod, info)
