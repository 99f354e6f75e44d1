"""`fairway replay`: what does a placement policy do to a recorded GPU trace?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway.errors import FieldProblem
    from fairway.openb.experiment import ArrivalsResult, OwnTimeResult

SHOWN_SKIPS = 5  # skipped rows named one by one; the rest are counted
SHOWN_PCT = (20, 40, 60, 70, 80, 90, 95, 100, 110, 120, 130)  # arrived percents in the table

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Replay a recorded GPU trace under a placement policy.",
)


@app.callback()
def replay() -> None:
    """Keep `openb` a command of a group."""


@app.command("openb")
def openb(
    nodes: Annotated[Path, typer.Option("--nodes", metavar="NODES.csv", help="The trace's node list.")],
    pods: Annotated[Path, typer.Option("--pods", metavar="PODS.csv", help="One of its pod lists.")],
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="Random, DotProduct, GpuClustering, GpuPacking, BestFit, FGD, Headroom (our own), or all.",
        ),
    ] = "FGD",
    arrival: Annotated[
        float, typer.Option("--arrival", metavar="RATIO", help="GPU demand to arrive, in capacities.")
    ] = 1.3,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the first run.")] = 42,
    runs: Annotated[
        int, typer.Option("--runs", help="Runs with consecutive seeds to average; published are ten.")
    ] = 10,
    trace_time: Annotated[
        bool, typer.Option("--trace-time", help="Replay creation and deletion stamps instead.")
    ] = False,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip and count rows that will not do.")] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Alibaba's openb trace placed node by node, as in the FGD paper.

    By default pods arrive in random order and stay, until their GPU demand is RATIO times the capacity;
    printed are, by arrived percent, the GPU allocated (percent of all) and the fragmentation ratio (percent
    of the free GPU that the typical pods cannot use), both means over the runs. Seed 42 with 10 runs is the
    published experiment.

    Example: fairway replay openb --nodes openb_node_list_gpu_node.csv
    --pods openb_pod_list_default.csv --policy FGD --arrival 1.3 --seed 42
    """
    from fairway.cli.output import check_output, print_json

    check_output(output)
    reports = []
    for name in _policies(policy):
        if trace_time:
            reports.append(_own_time(nodes, pods, name, seed=seed, lenient=lenient, output=output))
        else:
            reports.append(
                _arrivals(
                    nodes, pods, name, arrival=arrival, seed=seed, runs=runs, lenient=lenient, output=output
                )
            )
    if output == "json":
        print_json(reports if policy.lower() == "all" else reports[0])


def _policies(policy: str) -> Sequence[str]:
    from fairway.scheduling.gpushare.policies import POLICIES

    return tuple(POLICIES) if policy.lower() == "all" else (policy,)


def _arrivals(
    nodes: Path,
    pods: Path,
    policy: str,
    *,
    arrival: float,
    seed: int,
    runs: int,
    lenient: bool,
    output: str,
) -> dict[str, object]:
    from time import perf_counter

    from fairway.openb.experiment import arrivals_experiment

    began = perf_counter()
    result = arrivals_experiment(nodes, pods, policy, arrival=arrival, seed=seed, runs=runs, lenient=lenient)
    report = result.as_json(perf_counter() - began)
    _say_skipped(result.skipped)
    if output == "table":
        typer.echo("\n".join(arrivals_lines(result, report)))
    return report


def _own_time(
    nodes: Path, pods: Path, policy: str, *, seed: int, lenient: bool, output: str
) -> dict[str, object]:
    from time import perf_counter

    from fairway.openb.experiment import own_time_experiment

    began = perf_counter()
    result = own_time_experiment(nodes, pods, policy, seed=seed, lenient=lenient)
    report = result.as_json(perf_counter() - began)
    _say_skipped(result.skipped)
    if output == "table":
        typer.echo("\n".join(own_time_lines(result, report)))
    return report


def arrivals_lines(result: ArrivalsResult, report: dict[str, object]) -> list[str]:
    """The table for people."""
    from fairway.cli.output import table

    seeds = (
        f"seed {result.seeds[0]}" if len(result.seeds) == 1 else f"seeds {result.seeds[0]}…{result.seeds[-1]}"
    )
    allocated, ratio = result.curves.allocated_gpu_pct, result.curves.frag_ratio_pct
    shown = [at for at in SHOWN_PCT if at in allocated.mean]
    rows = [
        (
            f"{at} %",
            f"{allocated.mean[at]:.2f} %",
            f"{allocated.lowest[at]:.2f} … {allocated.highest[at]:.2f}",
            f"{ratio.mean[at]:.2f} %",
            f"{ratio.lowest[at]:.2f} … {ratio.highest[at]:.2f}",
        )
        for at in shown
    ]
    header = ("arrived", "allocated", "lowest … highest", "fragmented", "lowest … highest")
    return [
        f"{result.policy}: {report['pods']:,} pods on {result.nodes:,} nodes with {result.capacity_gpus:,.0f} GPUs, "
        f"{seeds}",
        f"placed {report['placed']:,}, failed {report['failed']:,} (mean of {len(result.seeds)} runs), "
        f"{report['seconds']} s",
        "",
        *table(header, rows, right=(0, 1, 2, 3, 4)),
    ]


def own_time_lines(result: OwnTimeResult, report: dict[str, object]) -> list[str]:
    """The table for people: the account, then one line a week."""
    from fairway.cli.output import table

    run = result.run
    waits = run.waits_s
    rows = []
    for first in range(0, len(run.peak_milli), 7):
        days = range(first, min(first + 7, len(run.peak_milli)))
        mean = sum(result.day_mean_pct(day) for day in days) / len(days)
        peak = result.peak_pct(max(run.peak_milli[day] for day in days))
        rows.append((f"{days[0]}…{days[-1]}", f"{mean:.3f} %", f"{peak:.3f} %"))
    waited = f"waited {len(waits):,}, the longest {waits[-1]:,} s" if waits else "none waited"
    return [
        f"{result.policy}: {report['pods']:,} pods on {result.nodes:,} nodes with "
        f"{run.capacity_milli / 1000:,.0f} GPUs over {report['days']} days, seed {result.seed}",
        f"placed {report['placed']:,}, {waited}, unplaced {report['unplaced']:,}; "
        f"{report['gpu_hours']:,} GPU-hours; {report['seconds']} s",
        "",
        *table(("days", "allocated", "peak"), rows, right=(0, 1, 2)),
    ]


def _say_skipped(skipped: tuple[FieldProblem, ...]) -> None:
    """Name a few skipped rows and count all, on stderr."""
    for problem in skipped[:SHOWN_SKIPS]:
        typer.echo(f"skipped {problem}", err=True)
    if skipped:
        typer.echo(f"skipped {len(skipped)} row{'s' if len(skipped) != 1 else ''} in all", err=True)
