"""How fast, how faithful, and how full is the openb experiment?

Needs the openb trace: a directory with its CSV files, and for the deviations the published curves beside them
(expected_curves.json), named by the environment variable FAIRWAY_OPENB.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from fairway.bench import BenchRow
from fairway.openb.curves import Curves, curves
from fairway.openb.own_time import run_own_time
from fairway.openb.replicas import run_replicas
from fairway.openb.trace import Trace, read_trace
from fairway.openb.workload import Workload, workload
from fairway.scheduling.gpushare.policies import ALIASES, FGD, HEADROOM, PUBLISHED, Policy

DIRECTORY = "FAIRWAY_OPENB"
NODES = "openb_node_list_gpu_node.csv"
WORKLOADS = ("cpu100", "default", "gpushare40", "gpuspec10", "multigpu20")
ARRIVAL, SEEDS = 1.3, tuple(range(42, 52))
SIMULATOR_RUN_S = (
    600.0  # "around 10 minutes for 1 experiment on 2 vCPU": experiments/README.md of the simulator
)
EXPERIMENT_LIMIT_S, CELLS_LIMIT_S, OWN_TIME_LIMIT_S = 5.0, 180.0, 10.0
ALLOCATED_BAND, RATIO_BAND = 0.5, 1.5  # points around the published means
ALLOCATED_AT, RATIO_AT = (60, 80, 90, 100, 130), (60, 65, 70, 75, 80, 85, 90)  # arrived percents compared


def run(quick: bool) -> Iterable[BenchRow]:
    """The figures; quick leaves out the thirty cells."""
    directory = os.environ.get(DIRECTORY)
    if not directory:
        yield BenchRow("openb", 0.0, "-", 0.0, f"set {DIRECTORY} to a directory with the openb CSV files")
        return
    traces = Path(directory)
    trace = _trace(traces, "default")
    load = workload(trace)
    yield from _speed(traces, trace, load)
    yield from _beating_fgd(load)
    if not quick:
        yield from _cells(traces)


def _speed(traces: Path, trace: Trace, load: Workload) -> Iterator[BenchRow]:
    """One run, the whole experiment with reading, and the trace's own time; the kernels are compiled first."""
    run_replicas(load, FGD, ARRIVAL, SEEDS[:1], workers=1)
    began = perf_counter()
    run_replicas(load, FGD, ARRIVAL, SEEDS[:1], workers=1)
    once_s = perf_counter() - began
    yield BenchRow(
        "openb-fgd-run", once_s, "s", SIMULATOR_RUN_S / once_s, "the FGD simulator: 600 s of 2 cores"
    )
    began = perf_counter()
    run_replicas(workload(_trace(traces, "default")), FGD, ARRIVAL, SEEDS)
    ten_s = perf_counter() - began
    yield BenchRow("openb-fgd-ten-runs", ten_s, "s", EXPERIMENT_LIMIT_S / ten_s, "limit: 5 s")
    began = perf_counter()
    run_own_time(trace, load, FGD, SEEDS[0])
    own_s = perf_counter() - began
    yield BenchRow("openb-own-time", own_s, "s", OWN_TIME_LIMIT_S / own_s, "149 days of trace; limit: 10 s")


def _beating_fgd(load: Workload) -> Iterator[BenchRow]:
    """GPU left unallocated at 100 % arrival, default workload, by our policy and by FGD."""
    ours, theirs = (
        100.0 - curves(run_replicas(load, policy, ARRIVAL, SEEDS)).allocated_gpu_pct.mean[100]
        for policy in (HEADROOM, FGD)
    )
    yield BenchRow("openb-headroom-left", ours, "% of GPU", theirs / ours, f"FGD leaves {theirs:.2f} %")


def _cells(traces: Path) -> Iterator[BenchRow]:
    """All published policies on all workloads: the time, and the largest deviation from the published means."""
    published = json.loads((traces / "expected_curves.json").read_text(encoding="utf-8"))
    allocated = ratio = 0.0
    began = perf_counter()
    for name in WORKLOADS:
        load = workload(_trace(traces, name))
        for policy in PUBLISHED:
            got = curves(run_replicas(load, policy, ARRIVAL, SEEDS))
            want = published[name][_published_name(policy)]
            allocated = max(allocated, _deviation(got, want, "allocated_gpu_pct", ALLOCATED_AT))
            ratio = max(ratio, _deviation(got, want, "frag_ratio_pct", RATIO_AT))
    cells_s = perf_counter() - began
    yield BenchRow("openb-30-cells", cells_s, "s", CELLS_LIMIT_S / cells_s, "ten runs each; limit: 180 s")
    yield BenchRow(
        "openb-allocated-off", allocated, "points", ALLOCATED_BAND / allocated, "worst cell; band 0.5"
    )
    yield BenchRow("openb-fragmented-off", ratio, "points", RATIO_BAND / ratio, "worst cell; band 1.5")


def _deviation(got: Curves, want: dict[str, Any], curve: str, at: tuple[int, ...]) -> float:
    mean = getattr(got, curve).mean
    return float(max(abs(mean[pct] - want[curve]["mean"][str(pct)]) for pct in at))


def _published_name(policy: Policy) -> str:
    return next((alias for alias, name in ALIASES.items() if name == policy.name), policy.name)


def _trace(traces: Path, name: str) -> Trace:
    return read_trace(traces / NODES, traces / f"openb_pod_list_{name}.csv")
