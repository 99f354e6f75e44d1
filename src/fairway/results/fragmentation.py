"""Where are the free GPUs of a cluster, who has the others, and why can nobody use what is free?

Questions to a store at one moment. Whether a pod fits a node is the scheduler's own answer (its filters over
the accounts), so taints, affinity, spreading and GPU shares count as they do when it places pods.

A shape is what pods ask for, apart from their names. The shapes that count are those of pods waiting for a
node; where none waits for a GPU, those of the GPU pods that are there; or one that the caller gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.gpurequests import DEFAULT_GPUS, MODEL_LABELS, GpuResources, label_of
from fairway.cluster.records import PodRecord
from fairway.cluster.shapes import PodShape
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, controller_of
from fairway.kube.resources import CPU, GPU_MILLI, MEMORY, NVIDIA_GPU, Resources, format_amount
from fairway.scheduling.cycle import Scheduler
from fairway.scheduling.filters import Filters
from fairway.scheduling.podspread import constraints_of
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.scheduling.verdict import Refusal, Scheduled
from fairway.twin.owners import DefaultSelectors

PENDING, PRESENT, GIVEN = "pending", "present", "given"
"""Whose shapes count: pods that wait, GPU pods that are there, or a shape that was asked about."""

# Why free GPU is of no use.
REMAINDER = "remainder"
SHAPE = "shape"
_WORDS: dict[str, str] = {
    SHAPE: "too few GPUs free on the node",
    REMAINDER: "left over beside the pods that fit",
    CPU: "CPU exhausted first",
    MEMORY: "memory exhausted first",
    "cpu and memory": "CPU and memory exhausted first",
    "pods": "too many pods on the node",
    "cordoned": "node cordoned",
    "taint": "taint not tolerated",
    "affinity": "node affinity or selector",
    "pod affinity": "affinity or anti-affinity between pods",
    "spread": "topology spread",
    "ports": "host port taken",
    "gpu share": "no single GPU free enough",
    "other": "another resource exhausted",
}
_CAUSES: dict[int, str] = {
    Refusal.NODE_UNSCHEDULABLE: "cordoned",
    Refusal.NODE_NAME: "affinity",
    Refusal.TAINT: "taint",
    Refusal.NODE_AFFINITY: "affinity",
    Refusal.NODE_AFFINITY_ENFORCED: "affinity",
    Refusal.NODE_PORTS: "ports",
    Refusal.GPU_SHARE: "gpu share",
    Refusal.SPREAD_LABEL: "spread",
    Refusal.SPREAD_SKEW: "spread",
    Refusal.POD_AFFINITY: "pod affinity",
    Refusal.POD_ANTI_AFFINITY: "pod affinity",
    Refusal.EXISTING_ANTI_AFFINITY: "pod affinity",
}
# Pods placed one by one before `fits` says "at least".
FIT_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who has GPUs on a node: the pods of one owner."""

    namespace: str
    owner: str
    pods: int
    gpu_milli: int


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """One node: `total = allocated + free`, and `usable` is the most of `free` that one shape could take."""

    node: str
    model: str
    total_milli: int
    allocated_milli: int
    usable_milli: int
    cause: str
    """Why the rest of what is free is of no use; empty where nothing is lost."""
    cpu_milli_free: int
    memory_bytes_free: int
    holders: tuple[Holder, ...]
    """Most GPUs first."""

    @property
    def free_milli(self) -> int:
        return max(self.total_milli - self.allocated_milli, 0)

    @property
    def lost_milli(self) -> int:
        return self.free_milli - self.usable_milli


@dataclass(frozen=True, slots=True)
class Fit:
    """How many more pods of a shape fit, each node's count beside its name (most first); nothing else moves."""

    count: int
    by_node: tuple[tuple[str, int], ...]
    is_at_least: bool = False
    """Whether counting stopped at `FIT_LIMIT`."""


@dataclass(frozen=True, slots=True)
class ShapeDemand:
    """Pods of one shape that wait (or are there, or were asked about), and how many more would fit now."""

    shape: str
    pods: int
    gpu_milli: int
    """Of each."""
    fits: Fit
    short: str
    """Where none fits: what most nodes with a free GPU lack."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Free GPU that is of no use, by cause."""

    cause: str
    words: str
    gpu_milli: int
    nodes: int


@dataclass(frozen=True, slots=True)
class ClusterGpus:
    """The whole answer."""

    nodes: tuple[NodeGpus, ...]
    """By name."""
    demand: str
    """Whose shapes count: pending, present or given."""
    shapes: tuple[ShapeDemand, ...]
    """Most pods first."""
    losses: tuple[Loss, ...]
    """Most GPU first."""
    gated_pods: int
    """Pods with scheduling gates: they wait, but for no node yet, and are not counted."""

    @property
    def total_milli(self) -> int:
        return sum(n.total_milli for n in self.nodes)

    @property
    def allocated_milli(self) -> int:
        return sum(n.allocated_milli for n in self.nodes)

    @property
    def free_milli(self) -> int:
        return sum(n.free_milli for n in self.nodes)

    @property
    def lost_milli(self) -> int:
        return sum(n.lost_milli for n in self.nodes)


def cluster_gpus(
    store: Store,
    *,
    asked: PodRecord | None = None,
    profile: Profile = DEFAULT_PROFILE,
    gpus: GpuResources = DEFAULT_GPUS,
) -> ClusterGpus:
    """Every node's GPUs, and what of the free ones is lost to which cause. O(shapes × nodes).

    `asked`: a pod (see `pod_asking`) whose shape alone is to count.
    """
    accounts = store.accounts
    scheduler = Scheduler(accounts, profile, DefaultSelectors(store).of)
    demand, samples, gated = _demand(store, asked, gpus)
    verdicts = [_judge(scheduler, sample) for sample, _ in samples]
    nodes = []
    for name in sorted(accounts.row_of):
        node = _node(accounts, accounts.row_of[name], samples, verdicts, store, gpus)
        if node is not None:
            nodes.append(node)
    shapes = [
        ShapeDemand(
            shape_text(s.shape),
            count,
            gpus.asked(s.shape.requests),
            verdict.fit,
            verdict.short(nodes, accounts),
        )
        for (s, count), verdict in zip(samples, verdicts, strict=True)
    ]
    shapes.sort(key=lambda d: (-d.pods, -d.gpu_milli, d.shape))
    return ClusterGpus(tuple(nodes), demand, tuple(shapes), _losses(nodes), gated)


def pod_asking(accounts: NodeAccounts, resources: Mapping[str, str]) -> PodRecord:
    """A pod that asks for these resources (quantities as Kubernetes writes them) and nothing else."""
    container = {"name": "main", "resources": {"requests": dict(resources)}}
    pod: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asked", "namespace": "default"},
        "spec": {"containers": [container]},
    }
    return accounts.record(pod, Key("Pod", "default", "asked"))


# Whose shapes


def _demand(
    store: Store, asked: PodRecord | None, gpus: GpuResources
) -> tuple[str, list[tuple[PodRecord, int]], int]:
    """Whose shapes count, one sample pod of each with how many there are, and how many pods are gated."""
    if asked is not None:
        return GIVEN, [(asked, 1)], 0
    accounts = store.accounts
    waiting: list[PodRecord] = []
    present: list[PodRecord] = []
    gated = 0
    for pod in store.objects("Pod"):
        spec, meta = pod.get("spec") or {}, pod["metadata"]
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in meta:
            continue
        if spec.get("schedulingGates"):
            gated += 1
            continue
        key = Key("Pod", meta.get("namespace") or "", meta["name"])
        record = accounts.records.get(key) or accounts.record(pod, key)
        if gpus.asked(record.shape.requests):
            (present if spec.get("nodeName") else waiting).append(record)
    if waiting:
        return PENDING, _by_shape(waiting), gated
    return PRESENT, _by_shape(present), gated


def _by_shape(records: Iterable[PodRecord]) -> list[tuple[PodRecord, int]]:
    """Pods that filters judge alike, the largest groups first. Labels matter to those that look at other pods."""
    found: dict[tuple[object, ...], list[PodRecord]] = {}
    for record in records:
        shape = record.shape
        minds = shape.has_pod_terms or shape.spread or shape.host_ports
        alike: tuple[object, ...] = (shape.id, record.labels.id)
        if not minds:
            # Images and preferences tell shapes apart that fit the same nodes.
            asked = tuple(sorted(shape.requests.items()))
            chosen = (shape.selection.node_selector, shape.selection.required)
            alike = (asked, chosen, shape.tolerations)
        found.setdefault(alike, []).append(record)
    groups = sorted(found.values(), key=lambda g: (-len(g), g[0].key))
    return [(group[0], len(group)) for group in groups]


# What the scheduler says


class _Verdict:
    """For one shape: why each row refuses it, and how often it fits there."""

    def __init__(self, causes: dict[int, str], fit: Fit, fits_on: dict[str, int]) -> None:
        self.causes = causes
        self.fit = fit
        self.fits_on = fits_on

    def short(self, nodes: Sequence[NodeGpus], accounts: NodeAccounts) -> str:
        """Where none fits, what most nodes with a free GPU lack."""
        if self.fit.count:
            return ""
        counts: dict[str, int] = {}
        for node in nodes:
            if node.free_milli:
                cause = self.causes.get(accounts.row_of[node.node], "")
                counts[cause] = counts.get(cause, 0) + 1
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{n} × {_WORDS[cause]}" for cause, n in ranked if cause)


def _judge(scheduler: Scheduler, pod: PodRecord) -> _Verdict:
    accounts = scheduler.accounts
    filters = _filters(scheduler, pod)
    shorts = filters.short()
    causes = {}
    for row in np.flatnonzero(accounts.alive & (filters.codes != 0)).tolist():
        code = int(filters.codes[row])
        if code == Refusal.FIT:
            short = int(shorts[row])
            lacking = [r for i, r in enumerate(filters.local.resources) if short >> (i + 1) & 1]
            causes[row] = _cause_of_shortage(lacking, bool(short & 1))
        else:
            causes[row] = _CAUSES[code]
    fit = how_many_fit(scheduler, pod)
    return _Verdict(causes, fit, dict(fit.by_node))


def _filters(scheduler: Scheduler, pod: PodRecord) -> Filters:
    """The scheduler's filters for one more pod like this one."""
    selector = None if pod.shape.spread else scheduler.default_selector(pod.key)
    hard = constraints_of(pod, scheduler.profile, selector, hard=True)
    probe = _another(pod, 0)
    local = scheduler.local(probe)
    return Filters(scheduler.accounts, scheduler.profile, probe, local, spread=hard, nominees={})


def _cause_of_shortage(lacking: Sequence[str], is_full: bool) -> str:
    if any(r in (NVIDIA_GPU, GPU_MILLI) for r in lacking):
        return SHAPE
    if CPU in lacking or MEMORY in lacking:
        return " and ".join(r for r in (CPU, MEMORY) if r in lacking)
    return "other" if lacking or not is_full else "pods"


def how_many_fit(scheduler: Scheduler, pod: PodRecord) -> Fit:
    """How many more pods like this one fit now, besides what is there. Changes nothing.

    Where nodes can be counted by themselves: whole divisions, O(nodes). Where pods mind each other (spreading,
    affinity, host ports) or share GPUs: placed one after the other on a copy, as the scheduler would.
    """
    if _minds_others(scheduler, pod):
        return _fit_one_by_one(scheduler, pod)
    accounts = scheduler.accounts
    rows = np.flatnonzero((_filters(scheduler, pod).codes == 0) & accounts.alive)
    counts = accounts.allowed_pods[rows] - accounts.pod_count[rows]
    for name, value in pod.shape.requests.items():
        if value > 0:
            column = accounts.column(name)
            free = accounts.allocatable[rows, column] - accounts.requested[rows, column]
            counts = np.minimum(counts, free // value)
    found = [
        (accounts.names[r], int(c)) for r, c in zip(rows.tolist(), counts.tolist(), strict=True) if c > 0
    ]
    return _fit(dict(found))


def _minds_others(scheduler: Scheduler, pod: PodRecord) -> bool:
    shape = pod.shape
    return bool(
        shape.has_pod_terms
        or shape.host_ports
        or any(c.is_hard for c in shape.spread)
        or scheduler.accounts.counts.has_carried
        or (shape.gpu_count and scheduler.accounts.devices.shared_rows)
        or any(c.is_hard for c in scheduler.profile.default_spread)
    )


def _fit_one_by_one(scheduler: Scheduler, pod: PodRecord) -> Fit:
    accounts = scheduler.accounts.copy()
    what_if = scheduler.fork(accounts, scheduler.default_selector)
    found: dict[str, int] = {}
    for number in range(1, FIT_LIMIT + 1):
        one_more = _another(pod, number)
        verdict = what_if.place(one_more)
        if not isinstance(verdict, Scheduled):
            return _fit(found)
        one_more.devices = verdict.devices
        accounts.place(one_more, accounts.row_of[verdict.node])
        found[verdict.node] = found.get(verdict.node, 0) + 1
    return _fit(found, is_at_least=True)


def _another(pod: PodRecord, number: int) -> PodRecord:
    """A pod like this one that is nowhere yet."""
    key = Key("Pod", pod.key.namespace, f"{pod.key.name}\x00{number}")
    return PodRecord(key=key, uid="", shape=pod.shape, labels=pod.labels)


def _fit(by_node: dict[str, int], *, is_at_least: bool = False) -> Fit:
    ranked = tuple(sorted(by_node.items(), key=lambda item: (-item[1], item[0])))
    return Fit(sum(by_node.values()), ranked, is_at_least)


# What follows for each node


def _node(
    accounts: NodeAccounts,
    row: int,
    samples: Sequence[tuple[PodRecord, int]],
    verdicts: Sequence[_Verdict],
    store: Store,
    gpus: GpuResources,
) -> NodeGpus | None:
    offered = _vector(accounts, accounts.allocatable[row].tolist())
    total = gpus.capacity(offered)
    if not total:
        return None
    taken = _vector(accounts, accounts.requested[row].tolist())
    holders = _holders(accounts, row, store, gpus)
    allocated = sum(h.gpu_milli for h in holders)
    free = max(total - allocated, 0)
    name = accounts.names[row]
    # Where nobody asks for GPUs, none of the free ones is lost.
    usable, weights = 0 if samples else free, dict[str, int]()
    for (sample, pods), verdict in zip(samples, verdicts, strict=True):
        here = verdict.fits_on.get(name, 0) * gpus.asked(sample.shape.requests)
        usable = max(usable, min(here, free))
        cause = verdict.causes.get(row)
        if cause:
            weights[cause] = weights.get(cause, 0) + pods
    cause = ""
    if free > usable:
        cause = REMAINDER if usable else _heaviest(weights)
    return NodeGpus(
        node=name,
        model=label_of(accounts.labels[row], MODEL_LABELS),
        total_milli=total,
        allocated_milli=allocated,
        usable_milli=usable,
        cause=cause,
        cpu_milli_free=offered.get(CPU, 0) - taken.get(CPU, 0),
        memory_bytes_free=offered.get(MEMORY, 0) - taken.get(MEMORY, 0),
        holders=holders,
    )


def _heaviest(weights: dict[str, int]) -> str:
    """The cause that keeps most pods away; the empty text where there are no pods to keep away."""
    return min(weights, key=lambda c: (-weights[c], c)) if weights else ""


def _vector(accounts: NodeAccounts, values: Sequence[int]) -> Resources:
    return dict(zip(accounts.columns, values, strict=False))


def _holders(accounts: NodeAccounts, row: int, store: Store, gpus: GpuResources) -> tuple[Holder, ...]:
    found: dict[tuple[str, str], list[int]] = {}
    for key, record in accounts.pods[row].items():
        asked = gpus.asked(record.shape.requests)
        if asked:
            owner = controller_of(store.get(key) or {})
            name = key.name if owner is None else f"{owner['kind']}/{owner['name']}"
            entry = found.setdefault((key.namespace, name), [0, 0])
            entry[0] += 1
            entry[1] += asked
    holders = [Holder(namespace, name, pods, gpu) for (namespace, name), (pods, gpu) in found.items()]
    return tuple(sorted(holders, key=lambda h: (-h.gpu_milli, h.namespace, h.owner)))


def _losses(nodes: Iterable[NodeGpus]) -> tuple[Loss, ...]:
    sums: dict[str, list[int]] = {}
    for node in nodes:
        if node.lost_milli and node.cause:
            entry = sums.setdefault(node.cause, [0, 0])
            entry[0] += node.lost_milli
            entry[1] += 1
    losses = [Loss(cause, _WORDS[cause], gpu, count) for cause, (gpu, count) in sums.items()]
    return tuple(sorted(losses, key=lambda x: (-x.gpu_milli, x.cause)))


def shape_text(shape: PodShape) -> str:
    """`1 GPU, 8 CPU, 64Gi`: what pods of a shape ask for, and that they are choosy where they are."""
    asked = shape.requests
    parts = [f"{asked[NVIDIA_GPU]} GPU"] if asked.get(NVIDIA_GPU) else []
    if asked.get(GPU_MILLI):
        parts.append(f"{asked[GPU_MILLI] / 1000:g} of a GPU")
    if asked.get(CPU):
        parts.append(f"{asked[CPU] / 1000:g} CPU")
    if asked.get(MEMORY):
        parts.append(format_amount(MEMORY, asked[MEMORY]))
    known = (NVIDIA_GPU, GPU_MILLI, CPU, MEMORY)
    parts += [f"{format_amount(n, v)} {n}" for n, v in sorted(asked.items()) if v and n not in known]
    choosy = []
    if shape.selection.node_selector.requirements or shape.selection.required is not None:
        choosy.append("certain nodes")
    if shape.required_affinity or shape.required_anti_affinity:
        choosy.append("affinity")
    if any(c.is_hard for c in shape.spread):
        choosy.append("spread")
    return ", ".join(parts) + (f" ({', '.join(choosy)})" if choosy else "")
