"""How long do a month of a fleet's GPU metrics with their rules take, and a scrape of all its nodes?

1,000 nodes of 8 H100, held by jobs of a node each for half a day on average, every 30 seconds for 30 days: 691 million
samples of each metric that a rule asks for, derived and evaluated a day at a time. The scrape is every node's
dcgm-exporter page, one after another, as Prometheus would ask for them within a tick. `quick`: a tenth of the nodes for
three days.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import numpy as np

from fairway.bench import BenchRow
from fairway.catalog.catalog import load_catalog
from fairway.cluster.store import Store
from fairway.telemetry.dcgm.identity import Device, Holder
from fairway.telemetry.dcgm.source import DcgmSource, Stay
from fairway.telemetry.exposition import text
from fairway.telemetry.gpus import TICK_S, FleetBuilder, Use
from fairway.telemetry.gpus.boards import board_of
from fairway.telemetry.gpus.fleet import TICK_US, Row
from fairway.telemetry.gpus.kinds import KINDS, NOTEBOOK, SERVING, TRAINING
from fairway.telemetry.rules.dividing import evaluate_long
from fairway.telemetry.rules.reading import rules_of
from fairway.twin.gpupages import GpuPages

_GPUS = 8
_DAY_US = 86_400_000_000
_START_US = 1_767_225_600_000_000
_MEAN_HOURS = 12.0
_LIMIT_S, _SCRAPE_S = 60.0, 1.0
_PRODUCT = "NVIDIA-H100-80GB-HBM3"
# What a fleet is watched by: heat, idle GPUs, use, over every device at every half minute or minute.
_RULES = (
    {"record": "fleet:gpu_utilization:avg", "expr": "avg(DCGM_FI_DEV_GPU_UTIL)"},
    {"alert": "GPUTemperatureHigh", "expr": "DCGM_FI_DEV_GPU_TEMP > 85", "for": "5m"},
    {"alert": "GPUUnderutilized", "expr": "avg_over_time(DCGM_FI_DEV_GPU_UTIL[1h]) < 5", "for": "4h"},
)


def run(quick: bool = False) -> Iterator[BenchRow]:
    nodes, days = (100, 3) if quick else (1000, 30)
    began = time.perf_counter()
    source = _source(nodes, days)
    built_s = time.perf_counter() - began
    spec = {"groups": [{"name": "fleet", "interval": f"{TICK_S}s", "rules": list(_RULES)}]}
    groups, _ = rules_of({"kind": "PrometheusRule", "metadata": {"name": "fleet"}, "spec": spec})
    end_ms = (_START_US + days * _DAY_US) // 1000
    found = evaluate_long(groups, source, _START_US // 1000, end_ms - 1)
    took_s = time.perf_counter() - began
    # Of both processes together; what they share is counted twice.
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak = sum(resource.getrusage(which).ru_maxrss for which in both) / 2**20
    gpus = nodes * _GPUS
    share = gpus * days / (8000 * 30)
    what = f"{gpus:,} GPUs, {days} days, {TICK_S} s, {len(_RULES)} rules"
    yield BenchRow(
        f"metrics and rules ({what})",
        took_s,
        "s",
        _LIMIT_S * share / took_s,
        "60 s for 8,000 GPUs and 30 days",
    )
    used_s = sum(resource.getrusage(which).ru_utime + resource.getrusage(which).ru_stime for which in both)
    yield BenchRow(
        "processor time of both processes", used_s, "s", 2 * _LIMIT_S * share / used_s, "twice 60 s"
    )
    yield BenchRow("of that, who held what", built_s, "s", 0.0, "")
    yield BenchRow("memory at its highest", peak, "GiB", 4.0 / peak, "4 GiB")
    yield BenchRow("alerts that fired", sum(a.fired_ms is not None for a in found.alerts), "", 0.0, "")
    scraped_s = _scrape(nodes)
    limit_s = _SCRAPE_S * nodes / 1000
    yield BenchRow(f"scrape of {nodes:,} nodes", scraped_s, "s", limit_s / scraped_s, "1 s for 1,000 nodes")


def _source(nodes: int, days: int) -> DcgmSource:
    board = board_of(load_catalog(), _PRODUCT)
    builder, rng = FleetBuilder([board], 1), np.random.default_rng(1)
    devices: list[Device] = []
    stays: list[Stay] = []
    end_us = _START_US + days * _DAY_US
    for node in range(nodes):
        name = f"n{node}"
        rows = []
        for slot in range(_GPUS):
            rows.append(
                builder.add(Row(0, len(devices), slot, f"{name}/{slot}", _START_US, end_us + TICK_US))
            )
            devices.append(Device(name, slot, board.name))
        held = _held(rng, name, end_us)
        for row in rows:
            for use, holder in held:
                builder.use(row, use)
                stays.append(Stay(row, -(-use.start_us // TICK_US), -(-use.end_us // TICK_US), holder))
    return DcgmSource(builder.build(), devices, stays, end_us // 1000)


def _held(rng: np.random.Generator, node: str, end_us: int) -> list[tuple[Use, Holder]]:
    """One job after another, with a pause between them."""
    found: list[tuple[Use, Holder]] = []
    at_us = _START_US
    while at_us < end_us:
        until_us = at_us + int(rng.exponential(_MEAN_HOURS) * 3.6e9) + TICK_US
        kind = (TRAINING, TRAINING, SERVING, NOTEBOOK)[int(rng.integers(4))]
        job = f"{node}-{len(found)}"
        dip_us = 60_000_000 if kind == TRAINING else 0
        use = Use(
            at_us,
            until_us,
            kind,
            KINDS[kind].level,
            60_000.0,
            0.0,
            0.04,
            3_600_000_000,
            dip_us,
            at_us,
            True,
            job,
        )
        found.append((use, Holder("team", job)))
        at_us = until_us + int(rng.exponential(0.5) * 3.6e9)
    return found


def _scrape(nodes: int) -> float:
    store = Store()
    for number in range(nodes):
        store.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"n{number}", "labels": {"nvidia.com/gpu.product": _PRODUCT}},
                "status": {"capacity": {"nvidia.com/gpu": str(_GPUS)}},
            }
        )
        container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(_GPUS)}}}
        store.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{number}", "namespace": "team"},
                "spec": {"nodeName": f"n{number}", "containers": [container]},
                "status": {"phase": "Running"},
            }
        )
    pages = GpuPages(store)
    # Tables of patterns are drawn once in a process.
    text(pages.blocks("n0"))
    pages = GpuPages(store)
    began = time.perf_counter()
    for number in range(nodes):
        text(pages.blocks(f"n{number}")).encode()
    return time.perf_counter() - began
