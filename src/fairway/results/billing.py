"""A run as something to be billed: its nodes as machines, its intervals as stays, its pods as owners.

What a run does not know is not made up: a node without the label `node.kubernetes.io/instance-type` is unpriced, a
pod without a team label owes as `__unallocated__`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from fairway.catalog.catalog import Catalog
from fairway.catalog.gpus import GpuModel
from fairway.kube.resources import GPU_MILLI, NVIDIA_GPU
from fairway.metering.apportion import Floats
from fairway.metering.bill import Owners
from fairway.metering.devices import MIG_PREFIX, REPLICAS_LABEL, gpu_memory_of, gpus_of
from fairway.metering.ground import UNKNOWN_USE, Machines, Stays
from fairway.metering.ledger import Ledger, LedgerOptions, ledger_of
from fairway.metering.rates import Rates, Terms, rates_of
from fairway.recorder.tables import Outcome

ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
# Karpenter's own first; then what EKS managed node groups, GKE and AKS write.
CAPACITY_LABELS = (
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "cloud.google.com/gke-spot",
    "kubernetes.azure.com/scalesetpriority",
)
# How many GPUs a node has, however they are cut. Source: NVIDIA GPU feature discovery.
COUNT_LABEL = "nvidia.com/gpu.count"
_CAPACITY_WORDS = {
    "spot": "spot",
    "SPOT": "spot",
    "true": "spot",
    "on-demand": "on-demand",
    "ON_DEMAND": "on-demand",
    "reserved": "reserved",
    "": "on-demand",
}


@dataclass(frozen=True, slots=True)
class LabelNames:
    """Which labels say who pays: the first that a pod carries. Columns of the bill, in this order."""

    names: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {
            "team": ("team", "app.kubernetes.io/team"),
            "project": ("project",),
            "cost_center": ("cost-center", "costcenter"),
            "environment": ("environment", "env"),
            "model": ("model",),
            "experiment": ("experiment", "fairway.dev/experiment"),
        }
    )


class Metered(NamedTuple):
    """A run's ledger, and who its owners are. Times count from `origin_us`."""

    ledger: Ledger
    owners: Owners
    origin_us: int
    stays: Stays


def metered(
    outcome: Outcome,
    catalog: Catalog,
    options: LedgerOptions | None = None,
    terms: Terms | None = None,
    labels: LabelNames | None = None,
) -> Metered:
    """The ledger of a run. O(n log n) in intervals."""
    sites = _sites(outcome, catalog)
    machines, at = _machines(outcome, sites)
    stays = _stays(outcome, at, sites)
    rates = rates_of(machines, catalog, outcome.began_us, terms)
    owners = _owners(outcome, labels or LabelNames())
    return Metered(ledger_of(machines, stays, rates, options), owners, outcome.began_us, stays)


def machine_rates(outcome: Outcome, catalog: Catalog) -> tuple[Machines, Rates]:
    """What an hour of each machine of a run cost."""
    machines, _ = _machines(outcome, _sites(outcome, catalog))
    return machines, rates_of(machines, catalog, outcome.began_us)


def _label(labels: Mapping[str, str], names: Sequence[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


@dataclass(frozen=True, slots=True)
class _Site:
    """A machine's GPUs: their model, how many, and in how many shares the device plugin cuts each."""

    model: GpuModel | None
    model_name: str
    gpus: float
    replicas: int
    instance: str = ""
    """What it calls `nvidia.com/gpu`, where that is an instance: under MIG's strategy single."""

    def part(self, devices: Mapping[str, str]) -> tuple[float, float]:
        """Whole GPUs and bytes of their memory (0: of a model nobody knows) that resources come to."""
        counts = [(self._named(name), int(count)) for name, count in devices.items()]
        gpus = sum(gpus_of(name, n, self.model, replicas=self.replicas) for name, n in counts)
        if self.model is None:
            return gpus, 0.0
        model = self.model
        return gpus, sum(gpu_memory_of(name, n, model, replicas=self.replicas) for name, n in counts)

    def _named(self, resource: str) -> str:
        return self.instance if self.instance and resource == NVIDIA_GPU else resource


def _sites(outcome: Outcome, catalog: Catalog) -> list[_Site]:
    """By row of the nodes. Machines that are alike share theirs."""
    nodes = outcome.nodes.columns
    columns = (nodes[name] for name in ("labels", "instance_type", "gpu_model", "devices"))
    known: dict[tuple[Any, ...], _Site] = {}
    found = []
    for labels, instance_type, product, devices in zip(*columns, strict=True):
        counts = labels.get(REPLICAS_LABEL), labels.get(COUNT_LABEL)
        key = (instance_type, product, labels.get("nvidia.com/mig.strategy"), *counts, *devices.items())
        site = known.get(key)
        if site is None:
            site = known[key] = _site(catalog, labels, instance_type, product, devices)
        found.append(site)
    return found


def _site(
    catalog: Catalog, labels: Mapping[str, str], instance_type: str, product: str, devices: Mapping[str, str]
) -> _Site:
    """A machine has the GPUs it is sold with, also those that no layout, and no pod, makes use of."""
    sold = catalog.instance_type(instance_type) if instance_type else None
    model = catalog.gpu(product or (sold.gpu if sold else "")) if product or sold else None
    replicas = _count(labels.get(REPLICAS_LABEL)) or 1
    instance = _instance(labels, product, model)
    site = _Site(model, model.name if model else product, 0.0, replicas, instance)
    shared = {name: n for name, n in devices.items() if name == GPU_MILLI}
    others = {name: n for name, n in devices.items() if name != GPU_MILLI}
    # Whole GPUs and their thousandths are two names for the same devices.
    offered = max(site.part(shared)[0], site.part(others)[0])
    whole = ceil(offered - 1e-9)
    told = _count(labels.get(COUNT_LABEL)) if devices and not instance else 0
    return replace(site, gpus=float(max(whole, sold.gpus if sold else 0, told)))


def _instance(labels: Mapping[str, str], product: str, model: GpuModel | None) -> str:
    """The resource that the mixed strategy would advertise instead, where the strategy is single."""
    profile = product.partition("-MIG-")[2].replace(".me", "+me")
    if labels.get("nvidia.com/mig.strategy") != "single" or model is None or not model.profile(profile):
        return ""
    return MIG_PREFIX + profile.replace("+", ".")


def _count(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def machines_of(outcome: Outcome, catalog: Catalog) -> tuple[Machines, dict[str, list[tuple[int, int]]]]:
    """The machines of a run, and by a node's name the lives that bore it: (start, row), the oldest first."""
    return _machines(outcome, _sites(outcome, catalog))


def _machines(outcome: Outcome, sites: Sequence[_Site]) -> tuple[Machines, dict[str, list[tuple[int, int]]]]:
    """The machines, and by a node's name the lives that bore it: (start, row), the oldest first."""
    nodes, began = outcome.nodes.columns, outcome.began_us
    labels = nodes["labels"]
    deleted = [outcome.ended_us if t is None else t for t in nodes["deleted_us"]]
    at: dict[str, list[tuple[int, int]]] = {}
    for row, (name, start) in enumerate(zip(nodes["name"], nodes["created_us"], strict=True)):
        at.setdefault(name, []).append((start, row))
    for lives in at.values():
        lives.sort()
    launched = [
        created if known is None else known
        for known, created in zip(nodes["launched_us"], nodes["created_us"], strict=True)
    ]
    whole = [
        np.array(nodes[part], np.int64) + np.array(nodes[kept], np.int64)
        for part, kept in (("cpu_milli", "system_cpu_milli"), ("memory_bytes", "system_memory_bytes"))
    ]
    machines = Machines(
        names=tuple(nodes["name"]),
        instance_types=tuple(nodes["instance_type"]),
        zones=tuple(_label(found, ZONE_LABELS) for found in labels),
        capacity_types=tuple(_capacity_type(found) for found in labels),
        gpu_models=tuple(site.model_name for site in sites),
        start_us=np.array(launched, np.int64) - began,
        ready_us=np.array(nodes["created_us"], np.int64) - began,
        end_us=np.array(deleted, np.int64) - began,
        gpus=np.array([site.gpus for site in sites], np.float64),
        cpu_milli=whole[0],
        memory_bytes=whole[1],
        system_cpu_milli=np.array(nodes["system_cpu_milli"], np.int64),
        system_memory_bytes=np.array(nodes["system_memory_bytes"], np.int64),
    )
    return machines, at


def _capacity_type(labels: Mapping[str, str]) -> str:
    said = _label(labels, CAPACITY_LABELS)
    # A word nobody knows is asked of the price books as it is: they will say that they do not know it.
    return _CAPACITY_WORDS.get(said, said)


def _stays(outcome: Outcome, at: Mapping[str, Sequence[tuple[int, int]]], sites: Sequence[_Site]) -> Stays:
    intervals, began = outcome.intervals.columns, outcome.began_us
    start = np.array(intervals["start_us"], np.int64)
    end = np.array([outcome.ended_us if t is None else t for t in intervals["end_us"]], np.int64)
    machine = [_life(at[n], t) for n, t in zip(intervals["node"], start.tolist(), strict=True)]
    parts = _parts(outcome, machine, sites)
    # What the recorder counts as held is what use is a share of.
    held = np.array(intervals["gpu_milli"], np.float64) * (end - start)
    used = np.array([-1 if u is None else u for u in intervals["used_gpu_milli_us"]], np.float64)
    is_known = (used >= 0) & (held > 0)
    used_sm = np.where(is_known, np.minimum(used / np.where(held > 0, held, 1.0), 1.0), UNKNOWN_USE)
    return Stays(
        machine=np.array(machine, np.int64),
        owner=np.array(intervals["pod"], np.int64),
        start_us=start - began,
        end_us=end - began,
        gpus=parts[:, 0],
        cpu_milli=np.array(intervals["cpu_milli"], np.int64),
        memory_bytes=np.array(intervals["memory_bytes"], np.int64),
        used_sm=used_sm,
        used_memory=_used_memory(intervals["used_gpu_memory_bytes"], parts[:, 1]),
    )


def _parts(outcome: Outcome, machine: Sequence[int], sites: Sequence[_Site]) -> Floats:
    """`float64[interval, 2]`: whole GPUs held, and bytes of their memory."""
    devices = outcome.pods.columns["devices"]
    known: dict[tuple[int, int], tuple[float, float]] = {}
    rows = []
    for row, pod in zip(machine, outcome.intervals.columns["pod"], strict=True):
        asked = devices[pod]
        # Pods of one shape share their map, also when read from disk: it is looked at once per sort of machine.
        key = (id(sites[row]), id(asked))
        found = known.get(key)
        if found is None:
            found = known[key] = sites[row].part(asked)
        rows.append(found)
    return np.array(rows, np.float64).reshape(-1, 2)


def _used_memory(used: Sequence[int | None], held: Floats) -> Floats:
    """Shares of the GPU memory held, where the pod told and the model's memory is known."""
    told = np.array([-1 if u is None else u for u in used], np.float64)
    is_known = (told >= 0) & (held > 0)
    return np.where(is_known, np.minimum(told / np.where(held > 0, held, 1.0), 1.0), UNKNOWN_USE)


def _life(lives: Sequence[tuple[int, int]], at_us: int) -> int:
    """The row of the node that bore a name at a time."""
    found = lives[0][1]
    for start, row in lives:
        if start > at_us:
            break
        found = row
    return found


def _owners(outcome: Outcome, labels: LabelNames) -> Owners:
    pods = outcome.pods.columns
    columns: dict[str, Sequence[str]] = {
        "namespace": pods["namespace"],
        "pod": pods["name"],
        "workload": [
            f"{kind}/{name}" if kind else f"Pod/{pod}"
            for kind, name, pod in zip(pods["root_kind"], pods["root_name"], pods["name"], strict=True)
        ],
        "queue": pods["queue"],
        "priority_class": pods["priority_class"],
    }
    # Most pods of a run that nobody bills by team carry none of them.
    maps = pods["labels"]
    paying = frozenset(name for names in labels.names.values() for name in names)
    telling = [row for row, found in enumerate(maps) if not paying.isdisjoint(found)]
    for column, names in labels.names.items():
        texts = [""] * len(maps)
        # Pods of one template share their labels: each map is looked at once.
        known: dict[int, str] = {}
        for row in telling:
            at = id(maps[row])
            if at not in known:
                known[at] = _label(maps[row], names)
            texts[row] = known[at]
        columns[column] = texts
    return Owners(columns)
