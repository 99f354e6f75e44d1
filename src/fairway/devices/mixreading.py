"""From a ServiceMix document to services: what is asked of GPUs, and what must hold.

apiVersion: fairway.dev/v1alpha1
kind: ServiceMix
metadata: {name: fifty}
spec:
  gpu: H100-SXM5-80GB
  phases: {day: 14h, night: 10h}      # optional: how long each lasts, in turn
  services:
  - {name: chat, replicas: 10, memory: 16Gi, latency: 80ms, rate: {day: 2, night: 0.5}, width: 60%, p95: 400ms}

Rates and replicas may differ by phase. For `plan slices --compare` jobs on a pool of cards:

  nodes: 2
  cards: 4                            # of each node
  jobs:
  - {name: notebooks, profile: 1g.10gb, count: {day: 150, night: 5}, lasts: 2h}   # profile: whole for a whole card
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairway.catalog.catalog import Catalog
from fairway.catalog.gpus import GpuModel
from fairway.devices.interference import Demand
from fairway.devices.layouts import REPLICAS_MOST, Phase, Service
from fairway.devices.partitionplay import JOBS_MOST, Work
from fairway.errors import InvalidInput, UserError
from fairway.kube.located import Field, Reading, did_you_mean
from fairway.kube.manifest import Manifest, capped, read_path
from fairway.kube.quantity import whole_ceil
from fairway.kube.resources import NVIDIA_GPU
from fairway.kube.timestamps import HOUR_US, parse_duration

KIND = "ServiceMix"
_SPEC = ("gpu", "phases", "services", "jobs", "nodes", "cards")
_JOB = ("name", "profile", "count", "lasts")
_SERVICE = ("name", "replicas", "memory", "latency", "rate", "width", "bandwidth", "p95", "slowdown")
_MILLISECONDS = re.compile(r"(\d+(?:\.\d+)?)ms")


@dataclass(frozen=True, slots=True)
class Mix:
    """`services`: at their highest rates; `phases`: as they go by, none where the mix has none."""

    model: GpuModel
    services: tuple[Service, ...]
    phases: tuple[Phase, ...]
    works: tuple[Work, ...] = ()
    nodes: int = 1
    cards: int = 8


def read_mix(path: Path, catalog: Catalog) -> Mix:
    """The one ServiceMix of a file. Raises: InvalidInput with every problem."""
    found = [m for m in read_path(path) if m.obj.get("kind") == KIND]
    if len(found) != 1:
        raise UserError(f"{path}: expected one {KIND} of fairway.dev/v1alpha1, found {len(found)}")
    return _mix(found[0], catalog)


def _mix(manifest: Manifest, catalog: Catalog) -> Mix:
    reading = Reading(manifest)
    root = reading.root().members("apiVersion", "kind", "metadata", "spec", required=("spec",))
    given = root["spec"].members(*_SPEC, required=("gpu",))
    model = catalog.gpu(given["gpu"].text())
    if model is None:
        names = [m.name for m in catalog.gpus()]
        given["gpu"].reject(did_you_mean(given["gpu"].text(), names, "expected a GPU model of the catalog:"))
    lasts = [(name, at.duration(HOUR_US, positive=True)) for name, at in given["phases"].entries()]
    read = [_service(item, [name for name, _ in lasts]) for item in given["services"].items()]
    names = [one[0].demand.name for one in read]
    for name in sorted({n for n in names if names.count(n) > 1}):
        given["services"].reject(
            f"expected services with names of their own, {name} is there {names.count(name)} times"
        )
    works = [_work(item, model, [name for name, _ in lasts]) for item in given["jobs"].items()]
    nodes, cards = given["nodes"].integer(1, 1, 1000), given["cards"].integer(8, 1, 16)
    jobs = sum(sum(w.counts) for w in works)
    if jobs > JOBS_MOST:
        given["jobs"].reject(f"expected at most {JOBS_MOST:,} jobs in all phases, found {jobs:,}")
    if not read and not works:
        root["spec"].reject("expected services or jobs")
    if works and not lasts:
        given["jobs"].reject("expected phases beside jobs: how long each lasts")
    if reading.problems:
        raise InvalidInput(capped(reading.problems))
    assert model is not None
    phases = tuple(
        Phase(name, us / HOUR_US, tuple(one[i] for one in read)) for i, (name, us) in enumerate(lasts)
    )
    return Mix(model, tuple(_highest(one) for one in read), phases, tuple(works), nodes, cards)


def _highest(phases: Sequence[Service]) -> Service:
    """With the rate and the replicas of its busiest phases."""
    rate = max(s.demand.rate for s in phases)
    return Service(replace(phases[0].demand, rate=rate), max(s.replicas for s in phases))


def _service(item: Field, phases: Sequence[str]) -> list[Service]:
    """By phase; one where there are none."""
    given = item.members(*_SERVICE, required=("name", "memory", "latency", "rate"))
    rates = [at.number(0.0, 0.0, 1e6) for at in _by_phase(given["rate"], phases)]
    replicas = [at.integer(1, 0, REPLICAS_MOST) for at in _by_phase(given["replicas"], phases)]
    demand = Demand(
        name=given["name"].text(),
        memory_bytes=given["memory"].parsed(whole_ceil, "expected a quantity such as 16Gi", 0),
        latency_s=given["latency"].parsed(_seconds, "expected a time above 0, such as 80ms or 1.5s", 1.0),
        rate=0.0,
        width=given["width"].parsed(_share, "expected a share such as 60%, above 0", 1.0),
        bandwidth=given["bandwidth"].parsed(_share, "expected a share such as 60%, above 0", 1.0),
        p95_most_s=given["p95"].parsed(_seconds, "expected a time above 0, such as 400ms", 0.0),
        slowdown_most=given["slowdown"].number(0.0, 1.0, 1000.0) if given["slowdown"].is_given else 0.0,
    )
    return [Service(replace(demand, rate=r), n) for r, n in zip(rates, replicas, strict=True)]


def _work(item: Field, model: GpuModel | None, phases: Sequence[str]) -> Work:
    given = item.members(*_JOB, required=_JOB)
    name = given["profile"].text()
    profile = model.profile(name) if model is not None else None
    if profile is None and name != "whole" and model is not None:
        known = [p.name for p in model.mig]
        given["profile"].reject(
            did_you_mean(name, known, f"expected whole or a MIG profile of a {model.name}:")
        )
    counts = tuple(at.integer(0, 0, JOBS_MOST) for at in _by_phase(given["count"], phases))
    lasts_us = given["lasts"].duration(HOUR_US, positive=True)
    return Work(given["name"].text(), NVIDIA_GPU if profile is None else profile.resource, lasts_us, counts)


def _by_phase(given: Field, phases: Sequence[str]) -> list[Field]:
    if not isinstance(given.value, dict):
        return [given] * max(len(phases), 1)
    by_name = given.members(*phases, required=tuple(phases))
    return [by_name[name] for name in phases] or [given]


def _seconds(value: Any) -> float:
    match = _MILLISECONDS.fullmatch(str(value).strip())
    found = float(match[1]) / 1000 if match else parse_duration(value) / 1e6
    if not 0 < found <= 86_400:
        raise ValueError("out of range")
    return found


def _share(value: Any) -> float:
    found = float(str(value).strip().removesuffix("%")) / 100
    if not 0 < found <= 1:
        raise ValueError("out of range")
    return found
