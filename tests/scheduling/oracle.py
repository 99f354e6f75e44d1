"""kube-scheduler's default profile, said again slowly: plain dicts, one node at a time, nothing cached.

Written from the upstream source (v1.36), plugin by plugin, to disagree with Fairway wherever Fairway is wrong.
It shares no code with Fairway. A `World` is everything the scheduler would see; `decide` is one cycle.
"""

from __future__ import annotations

import copy
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Obj = dict[str, Any]

UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"
MAX_INT32 = 2**31 - 1
HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass
class World:
    """`pods` are bound (spec.nodeName) and have not ended; `nominated` pairs pending pods with node names."""

    nodes: list[Obj]
    pods: list[Obj] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    services: list[Obj] = field(default_factory=list)
    budgets: list[Obj] = field(default_factory=list)
    nominated: list[tuple[Obj, str]] = field(default_factory=list)


@dataclass
class NodeInfo:
    node: Obj
    pods: list[Obj]

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def labels(self) -> dict[str, str]:
        return self.node["metadata"].get("labels") or {}


@dataclass
class Status:
    code: str
    reasons: list[str]


@dataclass
class Decision:
    """`scores` has every feasible node; `message` is the whole of it, preemption included."""

    feasible: list[str]
    scores: dict[str, int] = field(default_factory=dict)
    message: str = ""
    candidates: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    best: list[str] = field(default_factory=list)


# Quantities and requests

_SUFFIX = {
    "": Fraction(1), "m": Fraction(1, 1000), "k": Fraction(1000), "M": Fraction(10**6), "G": Fraction(10**9),
    "T": Fraction(10**12), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
}  # fmt: skip


def quantity(value: Any) -> Fraction:
    number, suffix = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(value)).groups()  # type: ignore[union-attr]
    return Fraction(number) * _SUFFIX[suffix]


def as_int(name: str, value: Fraction) -> int:
    return math.ceil(value * 1000) if name == "cpu" else math.ceil(value)


def requests_of(container: Obj) -> dict[str, Fraction]:
    """With the API server's default: a limit is a request where there is none."""
    resources = container.get("resources") or {}
    found = {k: quantity(v) for k, v in (resources.get("limits") or {}).items()}
    found.update({k: quantity(v) for k, v in (resources.get("requests") or {}).items()})
    return found


def aggregate(spec: Obj, missing: dict[str, Fraction]) -> dict[str, Fraction]:
    """AggregateContainerRequests."""
    total: Counter[str] = Counter()
    for c in spec["containers"]:
        for k, v in {**missing, **requests_of(c)}.items():
            total[k] += v
    sidecars: Counter[str] = Counter()
    peak: dict[str, Fraction] = {}
    for c in spec.get("initContainers") or []:
        asked = {**missing, **requests_of(c)}
        if c.get("restartPolicy") == "Always":
            for k, v in asked.items():
                total[k] += v
                sidecars[k] += v
            now = dict(sidecars)
        else:
            now = {k: asked.get(k, Fraction(0)) + sidecars.get(k, 0) for k in {**asked, **sidecars}}
        for k, v in now.items():
            peak[k] = max(peak.get(k, Fraction(0)), Fraction(v))
    return {k: max(Fraction(total.get(k, 0)), peak.get(k, Fraction(0))) for k in {**total, **peak}}


def pod_level(spec: Obj) -> dict[str, Fraction]:
    """spec.resources.requests after defaulting."""
    resources = spec.get("resources") or {}
    asked = {k: quantity(v) for k, v in (resources.get("requests") or {}).items()}
    if resources.get("limits"):
        for k, v in aggregate(spec, {}).items():
            if k in ("cpu", "memory"):
                asked.setdefault(k, v)
        for k, v in resources["limits"].items():
            asked.setdefault(k, quantity(v))
    return {k: v for k, v in asked.items() if k in ("cpu", "memory") or k.startswith("hugepages-")}


def pod_requests(
    pod: Obj, missing: dict[str, Fraction], *, skip_pod_level: bool = False
) -> dict[str, Fraction]:
    spec = pod["spec"]
    found = aggregate(spec, missing)
    if not skip_pod_level:
        found.update(pod_level(spec))
    for k, v in (spec.get("overhead") or {}).items():
        found[k] = found.get(k, Fraction(0)) + quantity(v)
    return found


NON_ZERO = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 2**20)}


def counted_requests(pod: Obj) -> tuple[dict[str, int], int, int]:
    """CalculateResource: what a pod on a node takes, and its non-zero cpu and memory."""
    plain = pod_requests(pod, {})
    missing = (
        NON_ZERO if not pod_level(pod["spec"]) else {k: v for k, v in NON_ZERO.items() if k not in plain}
    )
    non_zero = pod_requests(pod, missing)
    return (
        {k: as_int(k, v) for k, v in plain.items()},
        as_int("cpu", non_zero.get("cpu", Fraction(0))),
        as_int("memory", non_zero.get("memory", Fraction(0))),
    )


def allocatable(info: NodeInfo) -> dict[str, int]:
    status = info.node.get("status") or {}
    return {
        k: as_int(k, quantity(v))
        for k, v in (status.get("allocatable") or status.get("capacity") or {}).items()
    }


def requested(info: NodeInfo) -> tuple[Counter[str], int, int]:
    total: Counter[str] = Counter()
    cpu = memory = 0
    for pod in info.pods:
        plain, non_zero_cpu, non_zero_memory = counted_requests(pod)
        total.update(plain)
        cpu += non_zero_cpu
        memory += non_zero_memory
    return total, cpu, memory


# Selectors


def _int64(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) and abs(int(text)) < 2**63 else None


def expression_matches(e: Obj, labels: dict[str, str]) -> bool:
    key, op, values = e["key"], e["operator"], e.get("values") or []
    if op == "In":
        return key in labels and labels[key] in values
    if op == "NotIn":
        return key not in labels or labels[key] not in values
    if op == "Exists":
        return key in labels
    if op == "DoesNotExist":
        return key not in labels
    if key not in labels:
        return False
    there, asked = _int64(labels[key]), _int64(values[0])
    if there is None or asked is None:
        return False
    return there > asked if op == "Gt" else there < asked


def selects(selector: Obj | None, labels: dict[str, str]) -> bool:
    """metav1.LabelSelector: null nothing, empty everything."""
    if selector is None:
        return False
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    return all(expression_matches(e, labels) for e in selector.get("matchExpressions") or [])


def is_empty(selector: Obj | None) -> bool:
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def node_term_matches(term: Obj, info: NodeInfo) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(expression_matches(e, info.labels) for e in expressions) and all(
        expression_matches(f, {"metadata.name": info.name}) for f in fields
    )


def node_affinity(pod: Obj) -> Obj:
    return (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}


def required_node_affinity_matches(pod: Obj, info: NodeInfo) -> bool:
    if any(info.labels.get(k) != v for k, v in (pod["spec"].get("nodeSelector") or {}).items()):
        return False
    required = node_affinity(pod).get(REQUIRED)
    return required is None or any(node_term_matches(t, info) for t in required["nodeSelectorTerms"])


def tolerates(tolerations: list[Obj], taint: Obj) -> bool:
    for t in tolerations:
        if t.get("effect") and t["effect"] != taint["effect"]:
            continue
        if t.get("key") and t["key"] != taint["key"]:
            continue
        op = t.get("operator") or "Equal"
        if op == "Exists" or (op == "Equal" and (t.get("value") or "") == (taint.get("value") or "")):
            return True
    return False


def untolerated(pod: Obj, info: NodeInfo, effects: tuple[str, ...]) -> list[Obj]:
    tolerations = pod["spec"].get("tolerations") or []
    taints = (info.node.get("spec") or {}).get("taints") or []
    return [t for t in taints if t["effect"] in effects and not tolerates(tolerations, t)]


# Pod terms


def terms_of(pod: Obj, kind: str, when: str) -> list[Obj]:
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return list(affinity.get(when) or [])


def with_label_keys(raw: Obj, pod: Obj) -> Obj | None:
    """matchLabelKeys and mismatchLabelKeys, merged into the selector."""
    selector = raw.get("labelSelector")
    if selector is None:
        return None
    labels = pod["metadata"].get("labels") or {}
    extra = [
        {"key": k, "operator": "In", "values": [labels[k]]}
        for k in raw.get("matchLabelKeys") or []
        if k in labels
    ]
    extra += [
        {"key": k, "operator": "NotIn", "values": [labels[k]]}
        for k in raw.get("mismatchLabelKeys") or []
        if k in labels
    ]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or []), *extra]}


def term_matches(world: World, term: Obj, owner: Obj, other: Obj) -> bool:
    """Whether `other` is a pod that this term of `owner` speaks of."""
    namespace = other["metadata"]["namespace"]
    named, by_labels = term.get("namespaces") or [], term.get("namespaceSelector")
    if not named and by_labels is None:
        named = [owner["metadata"]["namespace"]]
    if namespace not in named and not selects(by_labels, world.namespaces[namespace]):
        return False
    return selects(with_label_keys(term, owner), other["metadata"].get("labels") or {})


def host_ports(pod: Obj) -> list[tuple[str, str, int]]:
    spec = pod["spec"]
    sidecars = [c for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"]
    found = []
    for c in [*sidecars, *spec["containers"]]:
        for p in c.get("ports") or []:
            number = p.get("hostPort") or (p["containerPort"] if spec.get("hostNetwork") else 0)
            if number:
                found.append((p.get("hostIP") or "0.0.0.0", p.get("protocol") or "TCP", number))
    return found


def priority(pod: Obj) -> int:
    return int(pod["spec"].get("priority") or 0)


# PreFilter state: what the pods that are there mean to this one


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
    if action != "ScheduleAnyway":
        return []
    labels, chosen = pod["metadata"].get("labels") or {}, {}
    for service in world.services:
        selector = service["spec"].get("selector")
        same = service["metadata"]["namespace"] == pod["metadata"]["namespace"]
        if same and selector and all(labels.get(k) == v for k, v in selector.items()):
            chosen.update(selector)
    if not chosen:
        return []
    return [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": action,
            "labelSelector": {"matchLabels": chosen},
        }
        for skew, key in ((3, HOSTNAME), (5, "topology.kubernetes.io/zone"))
    ]


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


# Filters, in order


def run_filters(world: World, state: State, pod: Obj, info: NodeInfo) -> Status | None:
    spec = info.node.get("spec") or {}
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if spec.get("unschedulable") and not tolerates(pod["spec"].get("tolerations") or [], cordon):
        return Status(UNRESOLVABLE, ["node(s) were unschedulable"])
    if untolerated(pod, info, ("NoSchedule", "NoExecute")):
        return Status(UNRESOLVABLE, ["node(s) had untolerated taint(s)"])
    if not required_node_affinity_matches(pod, info):
        return Status(UNRESOLVABLE, ["node(s) didn't match Pod's node affinity/selector"])
    used = [port for p in info.pods for port in host_ports(p)]
    for ip, protocol, number in host_ports(pod):
        for other_ip, other_protocol, other_number in used:
            same = (protocol, number) == (other_protocol, other_number)
            if same and (ip == other_ip or "0.0.0.0" in (ip, other_ip)):
                return Status(UNSCHEDULABLE, ["node(s) didn't have free ports for the requested pod ports"])
    return fit(pod, info) or spread_filter(state, pod, info) or affinity_filter(world, state, pod, info)


def fit(pod: Obj, info: NodeInfo) -> Status | None:
    capacity = allocatable(info)
    taken, _, _ = requested(info)
    reasons = []
    code = UNSCHEDULABLE
    if len(info.pods) + 1 > capacity.get("pods", 0):
        reasons.append("Too many pods")
    for name, exact in pod_requests(pod, {}).items():
        asked = as_int(name, exact)
        if asked > 0 and asked > capacity.get(name, 0) - taken.get(name, 0):
            reasons.append(f"Insufficient {name}")
            if asked > capacity.get(name, 0):
                code = UNRESOLVABLE
    return Status(code, reasons) if reasons else None


def spread_filter(state: State, pod: Obj, info: NodeInfo) -> Status | None:
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


# Scores


def normalize(raw: dict[str, int], *, reverse: bool) -> dict[str, int]:
    top = max(raw.values())
    if top <= 0:
        return dict.fromkeys(raw, 100 if reverse else 0)
    return {n: 100 - 100 * s // top if reverse else 100 * s // top for n, s in raw.items()}


def score_all(world: World, pod: Obj, feasible: list[NodeInfo], infos: list[NodeInfo]) -> dict[str, int]:
    total: Counter[str] = Counter()
    parts = (
        (
            3,
            normalize(
                {i.name: len(untolerated(pod, i, ("PreferNoSchedule",))) for i in feasible}, reverse=True
            ),
        ),
        (2, normalize({i.name: preference(pod, i) for i in feasible}, reverse=False)),
        (1, {i.name: least_allocated(pod, i) for i in feasible}),
        (1, {i.name: balanced(pod, i) for i in feasible}),
        (1, {i.name: image_locality(pod, i, infos) for i in feasible}),
        (2, spread_scores(world, pod, feasible, infos)),
        (2, affinity_scores(world, pod, feasible, infos)),
    )
    for weight, scores in parts:
        for name, score in scores.items():
            total[name] += weight * score
    return {i.name: total[i.name] for i in feasible}


def preference(pod: Obj, info: NodeInfo) -> int:
    terms = node_affinity(pod).get(PREFERRED) or []
    return sum(t["weight"] for t in terms if node_term_matches(t["preference"], info))


def least_allocated(pod: Obj, info: NodeInfo) -> int:
    asked = pod_requests(pod, NON_ZERO, skip_pod_level=True)
    capacity = allocatable(info)
    _, cpu, memory = requested(info)
    scores = []
    for name, used in (("cpu", cpu), ("memory", memory)):
        have = capacity.get(name, 0)
        if have:
            use = used + as_int(name, asked.get(name, Fraction(0)))
            scores.append(0 if use > have else (have - use) * 100 // have)
    return sum(scores) // len(scores) if scores else 0


def balanced(pod: Obj, info: NodeInfo) -> int:
    asked = {k: as_int(k, v) for k, v in pod_requests(pod, {}).items()}
    if not asked.get("cpu") and not asked.get("memory"):
        return 0
    capacity = allocatable(info)
    taken, _, _ = requested(info)

    def score(extra: bool) -> int:
        fractions = [
            min((taken.get(n, 0) + (asked.get(n, 0) if extra else 0)) / capacity[n], 1.0)
            for n in ("cpu", "memory")
            if capacity.get(n)
        ]
        std = abs((fractions[0] - fractions[1]) / 2) if len(fractions) == 2 else 0.0
        return int((1 - std) * 100.0)

    return 50 + (50 + score(True) - score(False)) // 2


def image_locality(pod: Obj, info: NodeInfo, infos: list[NodeInfo]) -> int:
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    names = [c.get("image") or "" for c in containers]
    names += [v["image"]["reference"] for v in spec.get("volumes") or [] if v.get("image")]
    total = 0
    for name in names:
        name = name if name.rfind(":") > name.rfind("/") else name + ":latest"
        sizes: dict[str, int] = {}
        for i in infos:
            for n, size in image_names(i):
                if n == name:
                    sizes.setdefault(i.name, size)
        if info.name in sizes:
            total += int(float(next(iter(sizes.values()))) * (len(sizes) / len(infos)))
    low, high = 23 * 2**20, 1000 * 2**20 * len(containers)
    return 100 * (min(max(total, low), high) - low) // (high - low)


def image_names(info: NodeInfo) -> list[tuple[str, int]]:
    images = (info.node.get("status") or {}).get("images") or []
    return [(n, i["sizeBytes"]) for i in images for n in i["names"]]


def spread_scores(world: World, pod: Obj, feasible: list[NodeInfo], infos: list[NodeInfo]) -> dict[str, int]:
    soft = constraints(world, pod, "ScheduleAnyway")
    if not soft:
        return {}
    strict = bool(pod["spec"].get("topologySpreadConstraints"))
    ignored = [i.name for i in feasible if strict and not all(c["topologyKey"] in i.labels for c in soft)]
    counted = [i for i in feasible if i.name not in ignored]
    raw = {i.name: 0.0 for i in feasible}
    for c in soft:
        key = c["topologyKey"]
        buckets = {i.labels.get(key, ""): 0 for i in counted}
        for i in infos:
            if strict and not all(other["topologyKey"] in i.labels for other in soft):
                continue
            value = i.labels.get(key, "")
            if value in buckets and included(c, pod, i):
                buckets[value] += count_matching(c, pod, i)
        weight = math.log((len(counted) if key == HOSTNAME else len(buckets)) + 2)
        for i in counted:
            if key in i.labels:
                count = count_matching(c, pod, i) if key == HOSTNAME else buckets[i.labels[key]]
                raw[i.name] += count * weight + float(c["maxSkew"] - 1)
    scores = {n: math.floor(s + 0.5) for n, s in raw.items()}
    of_counted = [scores[i.name] for i in counted]
    out = {}
    for name, score in scores.items():
        if name in ignored:
            out[name] = 0
        elif max(of_counted) == 0:
            out[name] = 100
        else:
            out[name] = 100 * (max(of_counted) + min(of_counted) - score) // max(of_counted)
    return out


def affinity_scores(
    world: World, pod: Obj, feasible: list[NodeInfo], infos: list[NodeInfo]
) -> dict[str, int]:
    score: Counter[tuple[str, str]] = Counter()
    for info in infos:
        for there in info.pods:
            for owner, other in ((pod, there), (there, pod)):
                for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
                    for w in terms_of(owner, kind, PREFERRED):
                        add_term(world, score, w["podAffinityTerm"], owner, other, info, sign * w["weight"])
            for t in terms_of(there, "podAffinity", REQUIRED):
                add_term(world, score, t, there, pod, info, 1)
    raw = {i.name: sum(score.get(pair, 0) for pair in i.labels.items()) for i in feasible}
    low, high = min(raw.values()), max(raw.values())
    if high == low:
        return {}
    return {n: int(100.0 * (float(s - low) / float(high - low))) for n, s in raw.items()}


def add_term(
    world: World,
    score: Counter[tuple[str, str]],
    term: Obj,
    owner: Obj,
    other: Obj,
    info: NodeInfo,
    weight: int,
) -> None:
    key = term["topologyKey"]
    if key in info.labels and term_matches(world, term, owner, other):
        score[key, info.labels[key]] += weight


# A cycle


def infos_of(world: World) -> list[NodeInfo]:
    return [
        NodeInfo(n, [p for p in world.pods if p["spec"].get("nodeName") == n["metadata"]["name"]])
        for n in world.nodes
    ]


def pinned(pod: Obj) -> set[str] | None:
    """NodeAffinity's PreFilter: the names the required terms allow, None for any."""
    terms = (node_affinity(pod).get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    allowed: set[str] = set()
    for term in terms:
        named = [
            set(f["values"])
            for f in term.get("matchFields") or []
            if f["key"] == "metadata.name" and f["operator"] == "In"
        ]
        if not named:
            return None
        allowed |= set.intersection(*named)
    return allowed if terms else None


def fit_error(count: int, statuses: dict[str, Status], absent: str) -> str:
    reasons: Counter[str] = Counter(r for s in statuses.values() for r in s.reasons)
    if len(statuses) < count and absent:
        reasons[absent] += count - len(statuses)
    text = f"0/{count} nodes are available:"
    return text + (f" {', '.join(sorted(f'{n} {r}' for r, n in reasons.items()))}." if reasons else "")


def decide(world: World, pod: Obj) -> Decision:
    infos = infos_of(world)
    if not infos:
        return Decision([], message="no nodes available to schedule pods")
    names = pinned(pod)
    if names is not None and not names:
        return Decision(
            [], message=f"0/{len(infos)} nodes are available: pod affinity terms conflict. not found"
        )
    state = prefilter(world, pod, infos)
    statuses: dict[str, Status] = {}
    feasible: list[NodeInfo] = []
    for info in infos:
        if names is not None and info.name not in names:
            continue
        refused = filters_with_nominated(world, state, pod, info)
        if refused:
            statuses[info.name] = refused
        else:
            feasible.append(info)
    if feasible:
        return Decision([i.name for i in feasible], score_all(world, pod, feasible, infos))
    absent = "" if names is None else "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    message = fit_error(len(infos), statuses, absent)
    decision = Decision([], message=message)
    preempt(world, state, pod, infos, statuses, decision)
    return decision


# Preemption


def preempt(
    world: World,
    state: State,
    pod: Obj,
    infos: list[NodeInfo],
    statuses: dict[str, Status],
    decision: Decision,
) -> None:
    after = f"{decision.message} no new claims to deallocate, preemption:"
    if pod["spec"].get("preemptionPolicy") == "Never":
        decision.message = f"{after} not eligible due to preemptionPolicy=Never."
        return
    said: dict[str, Status] = {}
    for info in infos:
        if info.name in statuses and statuses[info.name].code == UNSCHEDULABLE:
            found = victims_on(world, copy.deepcopy(state), pod, NodeInfo(info.node, list(info.pods)))
            if isinstance(found, Status):
                said[info.name] = found
            elif found[0]:
                decision.candidates[info.name] = found
            else:
                said[info.name] = Status(UNSCHEDULABLE, [])
    if decision.candidates:
        decision.best = best_candidates(world, decision.candidates)
        return
    decision.message = f"{after} {fit_error(len(infos), said, 'Preemption is not helpful for scheduling')}"


def start_time(pod: Obj) -> str:
    return (pod.get("status") or {}).get("startTime") or "9999"


def importance(pod: Obj) -> tuple[int, str]:
    """Most important first."""
    return (-priority(pod), start_time(pod))


def victims_on(world: World, state: State, pod: Obj, info: NodeInfo) -> Status | tuple[tuple[str, ...], int]:
    lower = [p for p in info.pods if priority(p) < priority(pod)]
    for p in lower:
        move(world, state, pod, p, info, -1)
    if not lower:
        return Status(UNRESOLVABLE, ["No preemption victims found for incoming pod"])
    refused = filters_with_nominated(world, state, pod, info)
    if refused:
        return refused
    lower.sort(key=importance)
    violating, harmless = by_budget(world, lower)
    victims, violations = [], 0
    for p in [*violating, *harmless]:
        move(world, state, pod, p, info, 1)
        if filters_with_nominated(world, state, pod, info):
            move(world, state, pod, p, info, -1)
            victims.append(p)
            violations += p in violating
    victims.sort(key=importance)
    return tuple(p["metadata"]["name"] for p in victims), violations


def by_budget(world: World, pods: list[Obj]) -> tuple[list[Obj], list[Obj]]:
    left = [b["status"]["disruptionsAllowed"] for b in world.budgets]
    violating, harmless = [], []
    for p in pods:
        breaks = False
        labels = p["metadata"].get("labels") or {}
        for i, b in enumerate(world.budgets):
            if not labels or b["metadata"]["namespace"] != p["metadata"]["namespace"]:
                continue
            selector = b["spec"].get("selector")
            if is_empty(selector) or not selects(selector, labels):
                continue
            if p["metadata"]["name"] in (b["status"].get("disruptedPods") or {}):
                continue
            left[i] -= 1
            breaks = breaks or left[i] < 0
        (violating if breaks else harmless).append(p)
    return violating, harmless


def best_candidates(world: World, candidates: dict[str, tuple[tuple[str, ...], int]]) -> list[str]:
    pods = {p["metadata"]["name"]: p for p in world.pods}

    def harm(node: str) -> tuple[Any, ...]:
        names, violations = candidates[node]
        victims = [pods[n] for n in names]
        top = priority(victims[0])
        earliest = min(start_time(v) for v in victims if priority(v) == top)
        later_is_better = tuple(-ord(ch) for ch in earliest)
        total = sum(priority(v) + 2**31 for v in victims)
        return (violations, top, total, len(victims), later_is_better)

    least = min(harm(n) for n in candidates)
    return [n for n in candidates if harm(n) == least]
