"""The two experiments on the openb trace, from files to figures.

`arrivals_experiment` is the FGD paper's: ten runs with consecutive seeds, means by arrived percent.
`own_time_experiment` replays the stamps once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairway.errors import FieldProblem, UserError
from fairway.openb.curves import Curve, Curves, curves
from fairway.openb.own_time import DAY_S, OwnTimeRun, run_own_time
from fairway.openb.replicas import run_replicas
from fairway.openb.trace import Trace, read_trace
from fairway.openb.workload import workload
from fairway.scheduling.gpushare.policies import Policy, policy_named

RUNS = 10  # as published
MOST_RUNS = 1000
MOST_ARRIVAL = 100.0  # times the capacity; beyond it every run is one long queue of refusals
MILLI_SECONDS_PER_GPU_HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class ArrivalsResult:
    """pods, placed: per run, in the order of the seeds."""

    policy: str
    arrival: float
    seeds: tuple[int, ...]
    nodes: int
    capacity_gpus: float
    pods: tuple[int, ...]
    placed: tuple[int, ...]
    curves: Curves
    skipped: tuple[FieldProblem, ...]

    def as_json(self, seconds: float) -> dict[str, Any]:
        """Counts are means over the runs; curves have a value at every fifth arrived percent, as text."""
        pods, placed = _mean(self.pods), _mean(self.placed)
        return {
            "policy": self.policy,
            "seed": self.seeds[0],
            "runs": len(self.seeds),
            "arrival": self.arrival,
            "nodes": self.nodes,
            "gpus": self.capacity_gpus,
            "pods": pods,
            "placed": placed,
            "failed": pods - placed,
            "skipped_rows": len(self.skipped),
            "allocated_gpu_pct": _by_text(self.curves.allocated_gpu_pct.mean),
            "frag_ratio_pct": _by_text(self.curves.frag_ratio_pct.mean),
            "spread": {
                "allocated_gpu_pct": _extremes(self.curves.allocated_gpu_pct),
                "frag_ratio_pct": _extremes(self.curves.frag_ratio_pct),
            },
            "seconds": round(seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class OwnTimeResult:
    policy: str
    seed: int
    nodes: int
    run: OwnTimeRun
    skipped: tuple[FieldProblem, ...]

    def as_json(self, seconds: float) -> dict[str, Any]:
        """Percentages are of all GPU; `by_day` counts days from the first stamp."""
        run = self.run
        placed = sum(at is not None for at in run.placed_s)
        return {
            "policy": self.policy,
            "seed": self.seed,
            "nodes": self.nodes,
            "gpus": run.capacity_milli / 1000,
            "pods": len(run.placed_s),
            "placed": placed,
            "unplaced": len(run.placed_s) - placed,
            "waited": len(run.waits_s),
            "wait_s": {
                "p50": _rank(run.waits_s, 50),
                "p99": _rank(run.waits_s, 99),
                "max": _rank(run.waits_s, 100),
            },
            "skipped_rows": len(self.skipped),
            "days": (run.last_s - run.first_s) // DAY_S,
            "gpu_hours": round(sum(run.gpu_milli_seconds) / MILLI_SECONDS_PER_GPU_HOUR, 3),
            "allocated_gpu_pct": {"mean": self.mean_pct(), "peak": self.peak_pct(max(run.peak_milli))},
            "by_day": {
                str(day): {"mean": self.day_mean_pct(day), "peak": self.peak_pct(run.peak_milli[day])}
                for day in range(len(run.peak_milli))
            },
            "seconds": round(seconds, 3),
        }

    def mean_pct(self) -> float:
        return self._pct(sum(self.run.gpu_milli_seconds), self.run.last_s - self.run.first_s)

    def day_mean_pct(self, day: int) -> float:
        """Of one day; the last one is as long as the trace goes on."""
        begins_s = self.run.first_s + day * DAY_S
        return self._pct(self.run.gpu_milli_seconds[day], min(DAY_S, self.run.last_s - begins_s))

    def peak_pct(self, gpu_milli: int) -> float:
        return self._pct(gpu_milli, 1)

    def _pct(self, gpu_milli_seconds: int, seconds: int) -> float:
        return round(100.0 * gpu_milli_seconds / max(seconds * self.run.capacity_milli, 1), 4)


def arrivals_experiment(
    nodes: Path,
    pods: Path,
    policy: str,
    *,
    arrival: float = 1.3,
    seed: int = 42,
    runs: int = RUNS,
    lenient: bool = False,
) -> ArrivalsResult:
    """Read, run with seeds seed … seed+runs-1, average. Raises UserError, InvalidInput."""
    if not 1 <= runs <= MOST_RUNS:
        raise UserError(f"--runs {runs}: expected 1 to {MOST_RUNS}")
    if not 0.0 < arrival <= MOST_ARRIVAL:
        raise UserError(
            f"--arrival {arrival:g}: expected a multiple of the capacity, above 0 to {MOST_ARRIVAL:g}"
        )
    chosen, trace = _inputs(nodes, pods, policy, seed, lenient)
    load = workload(trace)
    seeds = tuple(range(seed, seed + runs))
    done = run_replicas(load, chosen, arrival, seeds)
    return ArrivalsResult(
        policy=chosen.name,
        arrival=arrival,
        seeds=seeds,
        nodes=len(trace.nodes),
        capacity_gpus=load.gpu_milli_capacity / 1000,
        pods=tuple(len(run.row) for run in done),
        placed=tuple(int((run.row >= 0).sum()) for run in done),
        curves=curves(done),
        skipped=trace.skipped,
    )


def own_time_experiment(
    nodes: Path, pods: Path, policy: str, *, seed: int = 42, lenient: bool = False
) -> OwnTimeResult:
    """Read and replay. Raises UserError, InvalidInput."""
    chosen, trace = _inputs(nodes, pods, policy, seed, lenient)
    run = run_own_time(trace, workload(trace), chosen, seed)
    return OwnTimeResult(chosen.name, seed, len(trace.nodes), run, trace.skipped)


def _inputs(nodes: Path, pods: Path, policy: str, seed: int, lenient: bool) -> tuple[Policy, Trace]:
    chosen = policy_named(policy)
    if seed < 0:
        raise UserError(f"--seed {seed}: expected 0 or more")
    trace = read_trace(nodes, pods, lenient=lenient)
    if not any(node.gpu for node in trace.nodes):
        raise UserError(f"{nodes}: none of the {len(trace.nodes)} nodes has a GPU")
    if not trace.pods:
        raise UserError(f"{pods}: no pod is left after skipping {len(trace.skipped)} rows")
    return chosen, trace


def _by_text(points: dict[int, float]) -> dict[str, float]:
    return {str(at): round(value, 3) for at, value in points.items()}


def _extremes(curve: Curve) -> dict[str, list[float]]:
    return {str(at): [round(curve.lowest[at], 3), round(curve.highest[at], 3)] for at in curve.mean}


def _mean(counts: Sequence[int]) -> int:
    return round(sum(counts) / len(counts))


def _rank(ascending: Sequence[int], percent: int) -> int:
    """Nearest-rank percentile; 0 of nothing."""
    return ascending[max(-(-len(ascending) * percent // 100) - 1, 0)] if ascending else 0
