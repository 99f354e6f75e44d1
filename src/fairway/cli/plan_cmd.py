"""`fairway plan`: what would another way of buying or cutting GPUs cost?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairway.cli.plan_serving_cmd import serving
from fairway.cli.planprices import gpu_price_of, loaded, price_of
from fairway.cli.slices_cmd import slices

if TYPE_CHECKING:
    from fairway.catalog.catalog import Catalog
    from fairway.metering.planning.rightsizing import Service
    from fairway.metering.planning.spot import SpotEconomics
    from fairway.results.costs.costing import Costed
    from fairway.results.run import Run

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Planning in money: is spot worth it, what to reserve, which MIG slices, what to switch off.\n\n"
    "Example: fairway plan spot p4d.24xlarge --interrupted-every 4h --checkpoint-every 30m",
)
app.command("slices")(slices)
app.command("serving")(serving)

Type = Annotated[str, typer.Argument(metavar="INSTANCE-TYPE", help="As in fairway catalog instances.")]
Books = Annotated[
    list[Path] | None,
    typer.Option("--book", "-b", metavar="FILE|DIR", exists=True, help="Prices that win over ours."),
]
Zone = Annotated[str, typer.Option("--zone", help="Prices of this zone.")]
RunDir = Annotated[Path | None, typer.Option("--run", metavar="RUN", help="Learn it from a run directory.")]
Output = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]
_HOURS_PER_YEAR = 8760


@app.command("spot")
def spot(
    instance_type: Type,
    interrupted_every: Annotated[
        str,
        typer.Option(
            "--interrupted-every", metavar="TIME", help="Mean time between interruptions of one node."
        ),
    ],
    checkpoint_every: Annotated[
        str, typer.Option("--checkpoint-every", metavar="TIME", help="Work between two checkpoints.")
    ] = "30m",
    save: Annotated[str, typer.Option("--save", metavar="TIME", help="What a checkpoint takes.")] = "0s",
    restore: Annotated[
        str, typer.Option("--restore", metavar="TIME", help="From interruption to work.")
    ] = "0s",
    machines: Annotated[
        int, typer.Option("--machines", min=1, help="Nodes that all stop when one does.")
    ] = 1,
    zone: Zone = "",
    books: Books = None,
    output: Output = "table",
) -> None:
    """Does spot pay, with the work that interruptions lose reckoned in? Exits 1 when it does not.

    Example: fairway plan spot p4d.24xlarge --interrupted-every 4h --checkpoint-every 30m --save 2m --restore 5m
    """
    from fairway.catalog.catalog import load_catalog
    from fairway.cli.output import check_output
    from fairway.metering.planning.spot import Checkpoints, spot_economics

    check_output(output)
    catalog = load_catalog(books or ())
    every = _hours("--interrupted-every", interrupted_every, positive=True)
    checkpoints = Checkpoints(
        _hours("--checkpoint-every", checkpoint_every, positive=True),
        _hours("--save", save),
        _hours("--restore", restore),
    )
    answer = spot_economics(
        price_of(catalog, instance_type, "on-demand", zone),
        price_of(catalog, instance_type, "spot", zone),
        1 / every,
        checkpoints,
        machines,
    )
    _print(output, asdict(answer), lambda: _spot_rows(answer))
    raise typer.Exit(0 if answer.effective_micros < answer.on_demand_micros else 1)


def _spot_rows(answer: SpotEconomics) -> list[tuple[str, str]]:
    from math import isinf

    from fairway.results.costs.money import dollars
    from fairway.results.words import percent

    never = isinf(answer.effective_micros)
    hazard = answer.break_even_hazard_per_h
    even = (
        "never"
        if isinf(hazard)
        else "at any hazard"
        if not hazard
        else f"one in {_time(1 / hazard)} and node"
    )
    return [
        ("on demand, an hour", dollars(answer.on_demand_micros)),
        ("spot, an hour paid", dollars(answer.spot_micros)),
        ("spot, an hour of work", "never done" if never else dollars(answer.effective_micros)),
        ("saving that is kept", percent(None if never else answer.kept_saving)),
        ("paid time lost", percent(answer.lost_share)),
        ("best checkpoint interval (Daly)", _time(answer.best_interval_h)),
        ("the same to first order (Young)", _time(answer.young_interval_h)),
        ("breaks even when interrupted", even),
    ]


@app.command("mix")
def mix(
    instance_type: Type,
    load: Annotated[
        Path | None,
        typer.Option(
            "--load", metavar="FILE", exists=True, help="Machines needed: one number a line, by the hour."
        ),
    ] = None,
    run: RunDir = None,
    machines: Annotated[float, typer.Option("--machines", min=0, help="A flat load instead.")] = 0,
    hours: Annotated[
        int, typer.Option("--hours", min=1, max=10_000_000, help="Hours of it.")
    ] = _HOURS_PER_YEAR,
    terms: Annotated[
        str, typer.Option("--terms", metavar="1y,3y", help="Commitments to consider.")
    ] = "1y,3y",
    spot_share: Annotated[
        float, typer.Option("--spot-share", min=0, max=1, help="Of every hour's load, what may be on spot.")
    ] = 0.0,
    slowdown: Annotated[
        float, typer.Option("--slowdown", min=1, help="Of work on spot: see plan spot.")
    ] = 1.0,
    zone: Zone = "",
    books: Books = None,
    output: Output = "table",
) -> None:
    """How much of a load to reserve for one year or three, and what to buy by the hour?

    The cheapest mix, found by optimisation. The load is taken as typical: reservations are priced per hour of it.

    Example: fairway plan mix p5.48xlarge --machines 10 --hours 8760
    """
    from fairway.cli.output import check_output
    from fairway.metering.planning.commitments import Offers, cheapest_mix

    check_output(output)
    loaded_run, catalog = loaded(run, books)
    curve = _load(load, loaded_run, instance_type, catalog, machines, hours)
    allowed = _terms(terms)
    spot_micros = _maybe(catalog, instance_type, "spot", zone)
    offers = Offers(
        on_demand_micros=price_of(catalog, instance_type, "on-demand", zone),
        one_year_micros=_maybe(catalog, instance_type, "on-demand", zone, "1y") if "1y" in allowed else None,
        three_year_micros=_maybe(catalog, instance_type, "on-demand", zone, "3y")
        if "3y" in allowed
        else None,
        spot_micros=None if spot_micros is None else round(spot_micros * slowdown),
        spot_share_most=spot_share,
    )
    answer = cheapest_mix(curve, offers)
    data = {**asdict(answer), "saving_share": answer.saving_share, "hours": len(curve), "most": max(curve)}
    _print(output, data, lambda: _mix_rows(data, offers))


def _mix_rows(data: dict[str, Any], offers: Any) -> list[tuple[str, str]]:
    from fairway.results.costs.money import dollars
    from fairway.results.words import percent

    def offered(micros: int | None, text: str) -> str:
        return text if micros is not None else "not to be had"

    return [
        ("load", f"{data['hours']:,} hours, up to {data['most']:g} machines"),
        ("reserve for one year", offered(offers.one_year_micros, f"{data['one_year']} machines")),
        ("reserve for three years", offered(offers.three_year_micros, f"{data['three_year']} machines")),
        ("on demand", f"{data['on_demand_hours']:,.0f} machine-hours"),
        ("on spot", offered(offers.spot_micros, f"{data['spot_hours']:,.0f} machine-hours")),
        ("reserved and not needed", f"{data['reserved_idle_hours']:,.0f} machine-hours"),
        ("costs", dollars(data["micros"])),
        ("all on demand would cost", dollars(data["on_demand_only_micros"])),
        ("saved", percent(data["saving_share"])),
    ]


def _terms(text: str) -> tuple[str, ...]:
    from fairway.catalog.prices import COMMITMENTS
    from fairway.errors import UserError

    found = tuple(term.strip() for term in text.split(",") if term.strip())
    for term in found:
        if term not in COMMITMENTS:
            raise UserError(f"--terms {term!r}: expected some of {', '.join(COMMITMENTS)}")
    return found


def _load(
    file: Path | None, run: Run | None, instance_type: str, catalog: Catalog, machines: float, hours: int
) -> list[float]:
    """The load curve, from exactly one of its sources."""
    from fairway.errors import UserError
    from fairway.results.costs.lessons import load_curve

    told = [
        name for name, is_given in (("--load", file), ("--run", run), ("--machines", machines)) if is_given
    ]
    if len(told) != 1:
        said = " and ".join(told) if told else "none"
        raise UserError(
            f"expected one of --load, --run and --machines, which say how much is needed; got {said}"
        )
    if file is not None:
        return _numbers(file)
    return [machines] * hours if run is None else load_curve(_costed(run, catalog), instance_type)


def _numbers(file: Path) -> list[float]:
    """One number a line; a first line that is none is a heading. Raises: InvalidInput with file and line."""
    from math import isfinite

    from fairway.errors import FieldProblem, InvalidInput

    found: list[float] = []
    problems = []
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        text = line.strip()
        if not text or (number == 1 and not any(c.isdigit() for c in text)):
            continue
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not isfinite(value) or value < 0:
            problems.append(
                FieldProblem(str(file), number, "", text, "expected machines needed in an hour, 0 or more")
            )
        found.append(value)
    if problems:
        raise InvalidInput(tuple(problems))
    return found


@app.command("rightsize")
def rightsize(
    model: Annotated[str, typer.Argument(metavar="GPU-MODEL", help="As in fairway catalog gpus.")],
    service: Annotated[
        list[str] | None,
        typer.Option(
            "--service", "-s", metavar="NAME=MEMORY[,SHARE%][xN]", help="One service: chat=9Gi,15%x50."
        ),
    ] = None,
    run: RunDir = None,
    gpu_price: Annotated[
        str, typer.Option("--gpu-price", metavar="DOLLARS", help="Of one GPU and hour.")
    ] = "",
    instance_type: Annotated[
        str, typer.Option("--instance-type", help="Take the price of this machine's GPUs instead.")
    ] = "",
    zone: Zone = "",
    books: Books = None,
    output: Output = "table",
) -> None:
    """Which MIG slice holds each service, how many GPUs do all of them need, and what does that save?

    Example: fairway plan rightsize H100-SXM5-80GB --service chat=9Gi,14%x50 --gpu-price 40
    """
    from fairway.cli.output import check_output
    from fairway.errors import UserError
    from fairway.metering.planning.rightsizing import rightsize as rightsized
    from fairway.results.costs.lessons import services_of

    check_output(output)
    loaded_run, catalog = loaded(run, books)
    gpu = catalog.gpu(model)
    if gpu is None:
        known = ", ".join(m.name for m in catalog.gpus())
        raise UserError(f"no GPU model {model!r}: expected one of {known}")
    services = [_service(text) for text in service or ()]
    if loaded_run is not None:
        services += services_of(_costed(loaded_run, catalog), gpu)
    if not services:
        where = " that tells its GPU memory on a whole GPU of this model in the run" if run else ""
        raise UserError(f"no service{where}: expected --service NAME=MEMORY, such as chat=9Gi")
    answer = rightsized(services, gpu, gpu_price_of(catalog, gpu_price, instance_type, zone))
    data = {
        "gpu": gpu.name,
        "services": [
            {**asdict(s), "profile": p} for s, (_, p) in zip(services, answer.profiles, strict=True)
        ],
        **{k: v for k, v in asdict(answer).items() if k != "profiles"},
        "saving_share": answer.saving_share,
    }
    _print(output, data, lambda: _rightsize_rows(data))


def _rightsize_rows(data: dict[str, Any]) -> list[tuple[str, str]]:
    from fairway.results.costs.money import dollars
    from fairway.results.words import percent

    rows = [
        (
            f"{s['name']} ({s['memory_bytes'] / 2**30:.1f} GiB, {percent(s['compute_share'])} of compute)",
            f"{s['replicas']} × {s['profile'] or 'a whole GPU'}",
        )
        for s in data["services"]
    ]
    return [
        *rows,
        (f"GPUs, one each ({data['gpu']})", f"{data['gpus_whole']}, {dollars(data['micros_whole'])} an hour"),
        ("GPUs, cut", f"{data['gpus_cut']}, {dollars(data['micros_cut'])} an hour"),
        ("saved", percent(data["saving_share"])),
    ]


def _service(text: str) -> Service:
    """`NAME=MEMORY[,SHARE%][xN]`."""
    import re

    from fairway.errors import UserError
    from fairway.kube.quantity import QuantityError, whole_ceil
    from fairway.metering.planning.rightsizing import Service

    parts = re.fullmatch(r"([^=]+)=([^,x]+)(?:,([0-9.]+)%)?(?:x([0-9]{1,7}))?", text)
    try:
        if parts is None or not int(parts[4] or 1) or float(parts[3] or 0) > 100:
            raise ValueError
        return Service(parts[1], whole_ceil(parts[2]), float(parts[3] or 0) / 100, int(parts[4] or 1))
    except (ValueError, QuantityError):
        raise UserError(
            f"--service {text!r}: expected NAME=MEMORY[,SHARE%][xN], such as chat=9Gi,15%x50"
        ) from None


@app.command("idle")
def idle(
    run: Annotated[Path, typer.Argument(metavar="RUN", exists=True, help="A run directory.")],
    at_least: Annotated[
        str, typer.Option("--at-least", metavar="TIME", help="Shorter pauses are not worth it.")
    ] = "30m",
    start: Annotated[
        str, typer.Option("--start", metavar="TIME", help="Paid time until a node is back.")
    ] = "5m",
    books: Books = None,
    output: Output = "table",
) -> None:
    """What would it save to switch nodes off while no pod is on them?

    Example: fairway plan idle runs/two-teams --at-least 1h
    """
    from fairway.cli.output import check_output, print_json, print_table
    from fairway.results.costs.lessons import empty_machines
    from fairway.results.costs.money import dollars
    from fairway.results.costs.pricing import catalog_of_run
    from fairway.results.rundir import load_run

    check_output(output)
    least_us = round(_hours("--at-least", at_least, positive=True) * 3_600_000_000)
    start_h = _hours("--start", start)
    there = load_run(run)
    found = empty_machines(_costed(there, catalog_of_run(there.info, books or ())), least_us)
    # Each pause ends with a start that is paid for.
    warmups = [round(e.stretches * e.micros_per_hour * start_h) for e in found]
    if output == "json":
        print_json([{**asdict(e), "warmup_micros": w} for e, w in zip(found, warmups, strict=True)])
        return
    header = (
        "INSTANCE TYPE",
        "CAPACITY",
        "NODES",
        "PAUSES",
        "EMPTY HOURS",
        "COST",
        "STARTS",
        "SAVED",
        "UNPRICED H",
    )
    rows = [
        (
            e.instance_type or "(none)",
            e.capacity_type,
            f"{e.machines:,}",
            f"{e.stretches:,}",
            f"{e.hours:,.1f}",
            dollars(e.micros),
            dollars(w),
            dollars(max(e.micros - w, 0)),
            f"{e.unpriced_hours:,.1f}" if e.unpriced_hours else "-",
        )
        for e, w in zip(found, warmups, strict=True)
    ]
    print_table(header, rows, right=tuple(range(2, len(header))))


# What the commands share


def _costed(run: Run, catalog: Catalog) -> Costed:
    from fairway.results.costs.costing import costed

    return costed(run, catalog)


def _maybe(
    catalog: Catalog, instance_type: str, capacity_type: str, zone: str, commitment: str = ""
) -> int | None:
    from fairway.catalog.prices import Price

    found = catalog.price(instance_type, capacity_type, zone=zone, commitment=commitment)
    return found.micros_per_hour if isinstance(found, Price) else None


def _hours(option: str, text: str, *, positive: bool = False) -> float:
    from fairway.errors import UserError
    from fairway.kube.timestamps import HOUR_US, parse_duration

    try:
        micros = parse_duration(text)
    except ValueError as wrong:
        raise UserError(f"{option} {text!r}: {wrong}") from None
    if micros < 0 or (positive and not micros):
        raise UserError(f"{option} {text!r}: expected a duration above 0")
    return micros / HOUR_US


def _time(hours: float | None) -> str:
    from fairway.kube.timestamps import HOUR_US, SECOND_US
    from fairway.results.words import NOTHING, duration

    return NOTHING if hours is None else duration(round(hours * HOUR_US / SECOND_US) * SECOND_US)


def _print(output: str, data: Any, rows: Any) -> None:
    """JSON, or names and values side by side."""
    from fairway.cli.output import print_json

    if output == "json":
        print_json(data)
        return
    lines: Sequence[tuple[str, str]] = rows()
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        typer.echo(f"{name:<{width}}  {value}"[:100])
