"""`fairway trace`: make, convert and describe workload traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fairway.traces.describe import Description
    from fairway.traces.jobs import JobTrace

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Make, convert and describe workload traces. The format is documented in docs/traces.md.",
)

TraceFile = Annotated[Path, typer.Argument(metavar="FILE", help="The trace, or a kubectl dump.")]
Form = Annotated[
    str,
    typer.Option(
        "--format", metavar="auto|generic|openb|kubectl", help="What FILE is, if its name is vague."
    ),
]
Lenient = Annotated[bool, typer.Option("--lenient", help="Skip rows that are wrong, and count them.")]
Window = Annotated[str, typer.Option("--window", metavar="2d..9d", help="Only jobs submitted in this time.")]
Load = Annotated[float, typer.Option("--load", help="So many times as many jobs: 1.3 adds 30 %, 0.5 halves.")]
Speed = Annotated[float, typer.Option("--speed", help="Arrivals come so many times as fast.")]
Seed = Annotated[int, typer.Option("--seed", help="For everything drawn at random.")]
Output = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]
To = Annotated[
    Path | None,
    typer.Option("--to", metavar="FILE", help="Write here: .csv, .jsonl or .parquet. Else CSV on stdout."),
]


@app.command("generate")
def generate(
    rate: Annotated[
        str, typer.Option("--rate", metavar="40/h", help="Mean arrivals: per s, m, h or d.")
    ] = "20/h",
    duration: Annotated[str, typer.Option("--duration", metavar="24h", help="How long jobs arrive.")] = "24h",
    jobs: Annotated[int, typer.Option("--jobs", help="Exactly so many jobs instead of a duration.")] = 0,
    pattern: Annotated[
        str, typer.Option("--pattern", metavar="poisson|diurnal", help="Constant, or with a day's rhythm.")
    ] = "poisson",
    run_time: Annotated[
        str,
        typer.Option(
            "--run-time", metavar="DIST", help="lognormal(30m, 1.2): median, sigma; or 1h, uniform(…)."
        ),
    ] = "lognormal(30m, 1.2)",
    gpus: Annotated[
        str, typer.Option("--gpus", metavar="N=WEIGHT,…", help="GPU counts and their weights.")
    ] = "1=6,2=1,4=1,8=2",
    users: Annotated[
        int, typer.Option("--users", help="So many users, the n-th 1/n as busy as the first.")
    ] = 0,
    namespaces: Annotated[
        str, typer.Option("--namespaces", metavar="A=WEIGHT,…", help="Namespaces and their weights.")
    ] = "",
    recipe: Annotated[
        Path | None,
        typer.Option("--recipe", metavar="FILE", help="All of it from a YAML file (docs/traces.md)."),
    ] = None,
    seed: Seed = 0,
    to: To = None,
) -> None:
    """Make a trace: Poisson or diurnal arrivals, log-normal run times, mixes of GPUs, users and namespaces.

    Example: fairway trace generate --rate 40/h --duration 2d --pattern diurnal --users 20 --to jobs.csv
    """
    from fairway.scenario.recipes import recipe_from_file, recipe_from_values
    from fairway.traces.generate import generate as make

    if recipe is not None:
        chosen = recipe_from_file(recipe)
    else:
        values: dict[str, Any] = {
            "name": "job",
            "rate": rate,
            "duration": duration,
            "pattern": pattern,
            "runTime": run_time,
            "gpus": _mix(gpus),
        }
        values.update({"jobs": jobs} if jobs else {})
        values.update({"users": {"count": users}} if users else {})
        values.update({"namespaces": _mix(namespaces)} if namespaces else {})
        chosen = recipe_from_values(values)
    _write(make(chosen, seed), to)


def _mix(text: str) -> dict[str, float]:
    """`1=6,8=2` as values and weights.

    Raises: UserError.
    """
    from fairway.errors import UserError

    mix = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        value, _, weight = part.partition("=")
        try:
            mix[value] = float(weight or 1)
        except ValueError:
            raise UserError(f"{text!r}: expected values and weights such as 1=6,8=2") from None
    return mix


@app.command("convert")
def convert(
    file: TraceFile,
    form: Form = "auto",
    window: Window = "",
    load: Load = 1.0,
    speed: Speed = 1.0,
    seed: Seed = 0,
    lenient: Lenient = False,
    to: To = None,
) -> None:
    """Write any trace in the generic format: openb CSV, a kubectl dump, or another generic file.

    Example: kubectl get nodes,pods,jobs -A -o json > dump.json && fairway trace convert dump.json --to jobs.csv
    """
    _write(_trace(file, form, window, load, speed, seed, lenient), to)


@app.command("describe")
def describe(
    file: TraceFile,
    form: Form = "auto",
    window: Window = "",
    load: Load = 1.0,
    speed: Speed = 1.0,
    seed: Seed = 0,
    lenient: Lenient = False,
    output: Output = "table",
) -> None:
    """Say what is in a trace: jobs, span, rate, GPU-hours, run times, GPU counts, users.

    Example: fairway trace describe jobs.csv --window 2d..9d -o json
    """
    from fairway.cli.output import check_output, print_json
    from fairway.traces.describe import describe as look

    check_output(output)
    found = look(_trace(file, form, window, load, speed, seed, lenient))
    if output == "json":
        print_json(description_json(found))
        return
    for line in description_lines(found):
        typer.echo(line)


def _trace(
    file: Path, form: str, window: str, load: float, speed: float, seed: int, lenient: bool
) -> JobTrace:
    from fairway.errors import UserError
    from fairway.traces.scaling import MAX_LOAD, parse_window
    from fairway.traces.sources import FORMATS, TraceUse, jobs_of, read_trace

    if form not in FORMATS:
        raise UserError(f"--format {form!r}: expected one of {', '.join(FORMATS)}")
    if not 0 <= load <= MAX_LOAD:
        raise UserError(f"--load {load:g}: expected a number from 0 to {MAX_LOAD:g}")
    if speed <= 0:
        raise UserError(f"--speed {speed:g}: expected a number above 0")
    try:
        within = parse_window(window) if window else None
    except ValueError as wrong:
        raise UserError(f"--window {window!r}: {wrong}") from None
    trace = read_trace(file, form=form, lenient=lenient)
    return jobs_of(TraceUse(trace, str(file), window_us=within, load=load, speed=speed), seed)


def _write(trace: JobTrace, to: Path | None) -> None:
    """The trace as data; what should be known about it as speech."""
    from fairway.traces.generic import to_csv, write_generic

    for note in trace.notes:
        typer.echo(f"note: {note}", err=True)
    for problem in trace.skipped[:5]:
        typer.echo(f"skipped: {problem}", err=True)
    if trace.skipped:
        typer.echo(f"{len(trace.skipped)} rows skipped", err=True)
    if to is None:
        typer.echo(to_csv(trace), nl=False)
    else:
        write_generic(trace, to)
        typer.echo(f"{len(trace.jobs):,} jobs in {to}", err=True)


def description_lines(found: Description) -> list[str]:
    """At most 100 columns."""
    from fairway.kube.timestamps import format_duration

    runs = "  ".join(f"{name} {format_duration(us)}" for name, us in found.run_time_us.items())
    lines = [
        f"jobs        {found.jobs:,} over {format_duration(found.span_us)} ({found.rate_per_hour:.3g}/h)",
        f"GPU time    {found.gpu_hours:,.1f} GPU-hours: {found.gpus_needed:,.1f} GPUs busy all the time",
        f"run time    {runs or 'unknown'}",
        f"GPUs        {_counts(found.gpus)}",
    ]
    if found.users:
        lines.append(f"users       {_counts(found.users)}")
    if found.namespaces:
        lines.append(f"namespaces  {_counts(found.namespaces)}")
    for count, text in (
        (found.failing, "jobs end with an exit code other than 0"),
        (found.without_run_time, "jobs have no run time"),
        (found.censored, "jobs were still running: their run times are lower bounds"),
        (found.skipped, "rows skipped"),
    ):
        if count:
            lines.append(f"note        {count:,} {text}")
    lines.extend(f"note        {note}" for note in found.notes)
    return [line if len(line) <= 100 else line[:99] + "…" for line in lines]


def _counts(pairs: tuple[tuple[str, int], ...]) -> str:
    return "  ".join(f"{name}: {count:,}" for name, count in pairs)


def description_json(found: Description) -> dict[str, Any]:
    return {
        "source": found.source,
        "jobs": found.jobs,
        "span_s": found.span_us / 1e6,
        "rate_per_hour": round(found.rate_per_hour, 6),
        "gpu_hours": round(found.gpu_hours, 6),
        "gpus_needed": round(found.gpus_needed, 6),
        "run_time_s": {name: us / 1e6 for name, us in found.run_time_us.items()},
        "gpus": dict(found.gpus),
        "users": dict(found.users),
        "namespaces": dict(found.namespaces),
        "failing": found.failing,
        "without_run_time": found.without_run_time,
        "censored": found.censored,
        "skipped": found.skipped,
        "notes": list(found.notes),
    }
