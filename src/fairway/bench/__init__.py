"""How fast is Fairway, beside what else there is?

In: nothing. Out: rows of `name figure unit ratio reference`; a ratio above 1 is better than the reference.
Each module measures one room; `lifecycles` measures pods end to end. A figure is what one process measured once,
just now: compare rows of one run, since machines are shared. The reference is somebody else's published number
or a limit we set, named in the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One figure. `ratio` is ours to the reference, above 1 when ours is better; 0 where there is none."""

    name: str
    figure: float
    unit: str
    ratio: float
    reference: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Where a benchmark lives: a module of this package with `run(quick: bool) -> Iterable[BenchRow]`.

    One with `setups` takes the name of one of them as `run(quick, setup)`.
    """

    module: str
    summary: str
    setups: tuple[str, ...] = ()


BENCHMARKS: dict[str, Benchmark] = {
    "scheduling": Benchmark("scheduling", "pods scheduled per second on 1,000 and 5,000 nodes"),
    "claims": Benchmark("claims", "claims for devices made, allocated and bound per second"),
    "lifecycles": Benchmark("lifecycles", "100,000 pods, and 100,000 Jobs, from creation to their end"),
    "forecast": Benchmark(
        "forecast",
        "200 futures of 1,000 nodes with 500 pending jobs; weeks under Kueue, forecast and compared",
        ("speed", "backtest"),
    ),
    "provisioning": Benchmark("provisioning", "nodes found for 10,000 pods over 400 instance types"),
    "fleet": Benchmark("fleet", "a month of a 500-node elastic fleet with 100,000 jobs, ledger included"),
    "telemetry": Benchmark(
        "telemetry", "a month of 8,000 GPUs' metrics with rules evaluated; a scrape of 1,000 nodes"
    ),
    "promql": Benchmark("promql", "queries over 1,000 series, beside a real Prometheus where there is one"),
    "autoscaling": Benchmark("autoscaling", "a day of 10,000 autoscaled Deployments"),
    "serving": Benchmark("serving", "10,000,000 requests to 32 model servers"),
    "api": Benchmark("api", "the API server: writes, reads, watchers, boot, memory, lists"),
    "binding": Benchmark(
        "binding", "500 and 5,000 pods bound by a real kube-scheduler, beside kube-apiserver"
    ),
    "kueue": Benchmark(
        "kueue", "Kueue's own performance test: how fast, and how long Workloads wait", ("baseline", "large")
    ),
    "million": Benchmark(
        "million",
        "up to 1,000,000 Workloads of 200 queues on 8,000 GPUs in a month, by themselves or as Jobs",
        (
            "workloads-20000",
            "workloads-100000",
            "workloads-1000000",
            "jobs-20000",
            "jobs-100000",
            "jobs-1000000",
        ),
    ),
    "slurm": Benchmark(
        "slurm",
        "100,000 Slurm jobs over 1,000 nodes with backfill, also crowded; a year of a million",
        ("crowded", "year"),
    ),
    "kills": Benchmark("kills", "kill -9 under write load: what is lost of what was acknowledged"),
    "survival": Benchmark(
        "survival",
        "the API server under silent and slow connections, watchers, objects and large updates",
        ("silent", "idle", "slowloris", "watchers", "objects", "updates"),
    ),
    "fuzz": Benchmark(
        "fuzz", "200,000 requests that nobody should send: 500s, tracebacks, who is alive, memory"
    ),
    "explain": Benchmark("explain", "why 1,000 nodes' pending work waits, what would start it, and checks"),
    "ledger": Benchmark("ledger", "who owes what, out of ten million stays"),
    "openb": Benchmark("openb", "the FGD experiment, and the trace in its own time"),
}


def run_benchmarks(names: Iterable[str], *, quick: bool = False, setup: str = "") -> Iterator[BenchRow]:
    """Rows as they are measured. `setup`: only this one, of those that have several."""
    for name in names:
        module = import_module(f"fairway.bench.{BENCHMARKS[name].module}")
        yield from module.run(quick, setup) if setup else module.run(quick)
