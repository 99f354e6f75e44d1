"""The same job placed in several ways: where would it go, from when on, who pays, and how long is a step of it?

Each way is a rule that anybody can write into the job's pod template: a copy of the cluster gets the job with it,
and its own scheduler and queues decide. What a step takes is `devices.collectives`' answer for the nodes it got.

| way | what the template says |
|---|---|
| as written | nothing more |
| spread | no two pods on one node |
| packed | rather on nodes that have others of it |
| aligned | all within one NVLink domain: `nvidia.com/gpu.clique` where nodes have it, else one node |
| per rail | all under one leaf switch, as nodes' labels or a Kueue Topology say it |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from fairway.answers.naming import pods_of
from fairway.answers.trials import HORIZON_US, price_of, started_after_us, stopped
from fairway.cluster.errors import ApiError
from fairway.errors import FairwayError, UserError
from fairway.ground import Moment
from fairway.kube.computedomains import GPU_CLIQUE
from fairway.kube.objects import Key, Obj, labels_of, meta_of, spec_of
from fairway.kube.timestamps import HOUR_US, SECOND_US
from fairway.scenario.entering import create_or_replace, stored_key
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.kubelet.talking import LEAVES, step_us
from fairway.twin.loop import LoopLimit
from fairway.twin.twin import Twin

HOSTNAME: Final = "kubernetes.io/hostname"
LABEL: Final = "fairway.dev/placed-with"
_TOPOLOGY: Final = "Topology.kueue.x-k8s.io"
_DEPTH: Final = 12
STEPS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Placement:
    """One way. `nodes`: where its pods went; `step_ms`, `step_usd` (of 1,000 steps): None where the job does not say
    what a step is, or nobody what a node costs. `why`: what is in the way where it is not feasible."""

    way: str
    feasible: bool
    nodes: tuple[str, ...] = ()
    starts_s: float | None = None
    evicts: tuple[str, ...] = ()
    step_ms: float | None = None
    usd_per_1000_steps: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Placements:
    """`best`: the shortest step of those that are feasible, else the first to start; empty: none is."""

    ground: str
    object: str
    placements: tuple[Placement, ...]
    best: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def compare_placements(name: str, moment: Moment, objects: tuple[Obj, ...]) -> Placements:
    """`objects`: one job and what belongs to it; the job is the last with a pod template. Raises: UserError."""
    jobs = [o for o in objects if _templates(o)]
    if not jobs:
        raise UserError(
            "--placements: none of the manifests has a pod template: expected a job, such as a Job"
        )
    job = jobs[-1]
    if moment.store.get(stored_key(job)) is not None:
        raise UserError(
            f"--placements: {_title(job)} is there already: give it another name to compare its places"
        )
    found = tuple(_placed(moment, objects, job, way, rule) for way, rule in _ways(moment).items())
    return Placements(name, _title(job), found, _best(found))


def _best(found: tuple[Placement, ...]) -> str:
    def order(one: Placement) -> tuple[float, float]:
        step = float("inf") if one.step_ms is None else one.step_ms
        return (step, one.starts_s or 0.0)

    return min((p for p in found if p.feasible), key=order).way if any(p.feasible for p in found) else ""


# The ways

Rule = Callable[[], Obj] | str


def _ways(moment: Moment) -> dict[str, Rule]:
    """What each adds to the affinity of a pod; a text: why nobody can be placed like that here."""
    nodes = moment.store.objects("Node")
    clique = GPU_CLIQUE if any(labels_of(n).get(GPU_CLIQUE) for n in nodes) else HOSTNAME
    leaf = _leaf(moment, nodes)
    rail: Rule = "no node says under which leaf switch it is"
    if leaf:
        rail = lambda: {"podAffinity": _required(leaf)}  # noqa: E731
    return {
        "as written": dict,
        "spread": lambda: {"podAntiAffinity": _required(HOSTNAME)},
        "packed": lambda: {"podAffinity": _preferred(HOSTNAME)},
        "aligned": lambda: {"podAffinity": _required(clique)},
        "per rail": rail,
    }


def _leaf(moment: Moment, nodes: list[Obj]) -> str:
    """The label of the lowest switch above the nodes."""
    levels = [
        str(level.get("nodeLabel") or "")
        for topology in moment.store.objects(_TOPOLOGY)[:1]
        for level in spec_of(topology).get("levels") or ()
    ]
    wanted = [*(n for n in reversed(levels) if n != HOSTNAME), *LEAVES]
    return next((name for name in wanted if any(labels_of(node).get(name) for node in nodes)), "")


def _term(key: str) -> Obj:
    return {"labelSelector": {"matchLabels": {LABEL: "this"}}, "topologyKey": key}


def _required(key: str) -> Obj:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [_term(key)]}


def _preferred(key: str) -> Obj:
    one = {"weight": 100, "podAffinityTerm": _term(key)}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [one]}


def _templates(obj: Any, depth: int = 0) -> list[Obj]:
    """The pod templates within an object."""
    if depth > _DEPTH:
        return []
    if isinstance(obj, list):
        return [t for part in obj for t in _templates(part, depth + 1)]
    if not isinstance(obj, dict):
        return []
    template = obj.get("template")
    if isinstance(template, dict) and isinstance((template.get("spec") or {}).get("containers"), list):
        return [template]
    return [t for part in obj.values() for t in _templates(part, depth + 1)]


def _ruled(obj: Any, affinity: Obj, depth: int = 0) -> Any:
    """The object with the rule in each of its pod templates."""
    if depth > _DEPTH:
        return obj
    if isinstance(obj, list):
        return [_ruled(part, affinity, depth + 1) for part in obj]
    if not isinstance(obj, dict):
        return obj
    template = obj.get("template")
    if not (isinstance(template, dict) and isinstance((template.get("spec") or {}).get("containers"), list)):
        return {name: _ruled(part, affinity, depth + 1) for name, part in obj.items()}
    meta, spec = template.get("metadata") or {}, template["spec"]
    before = spec.get("affinity") or {}
    merged = {**before, **{name: _joined(before.get(name) or {}, rule) for name, rule in affinity.items()}}
    labels = {**(meta.get("labels") or {}), LABEL: "this"}
    ruled = {**template, "metadata": {**meta, "labels": labels}, "spec": {**spec, "affinity": merged}}
    return {**obj, "template": ruled}


def _joined(before: Obj, rule: Obj) -> Obj:
    return {**before, **{name: [*(before.get(name) or ()), *terms] for name, terms in rule.items()}}


# One of them


def _placed(moment: Moment, objects: tuple[Obj, ...], job: Obj, way: str, rule: Rule) -> Placement:
    if isinstance(rule, str):
        return Placement(way, feasible=False, why=rule)
    twin, affinity = moment.fork(), rule()
    try:
        for obj in objects:
            create_or_replace(twin.host, _ruled(obj, affinity) if obj is job and affinity else obj)
        twin.wake()
        starts_us = started_after_us(twin, stored_key(job), HORIZON_US)
    except (ApiError, FairwayError, LoopLimit) as failed:
        return Placement(way, feasible=False, why=str(failed))
    pods = pods_of(twin.store, stored_key(job))
    if starts_us is None:
        return Placement(way, feasible=False, why=_why_not(pods))
    nodes = tuple(sorted({str(spec_of(p)["nodeName"]) for p in pods if spec_of(p).get("nodeName")}))
    step = _step_us(twin, pods)
    return Placement(
        way,
        feasible=True,
        nodes=nodes,
        starts_s=starts_us / SECOND_US,
        evicts=stopped(moment, twin, stored_key(job)),
        step_ms=None if step is None else step / 1000,
        usd_per_1000_steps=None if step is None else _usd(twin, nodes, step),
    )


def _why_not(pods: list[Obj]) -> str:
    """What the scheduler says of the first pod that waits."""
    for pod in pods:
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return str(condition.get("message") or condition.get("reason") or "")
    return f"not all of its pods ran within {HORIZON_US // (60 * SECOND_US)} minutes"


def _step_us(twin: Twin, pods: list[Obj]) -> float | None:
    kubelet = twin.host.parts.get("kubelet")
    if not isinstance(kubelet, Kubelet):
        return None
    states = [kubelet.pods[uid] for p in pods if (uid := meta_of(p)["uid"]) in kubelet.pods]
    return step_us(kubelet, states)


def _usd(twin: Twin, nodes: tuple[str, ...], step: float) -> float | None:
    """Of 1,000 steps: its nodes whole, which nobody else can use as it does."""
    total = 0
    for name in nodes:
        node = twin.store.get(Key("Node", "", name))
        price = None if node is None else price_of(twin, node)
        if price is None:
            return None
        total += price
    return total * step * STEPS / HOUR_US / 1e6


def _title(obj: Obj) -> str:
    return f"{obj.get('kind')}/{meta_of(obj).get('name')}"
