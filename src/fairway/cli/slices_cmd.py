"""`fairway plan slices`: which way of cutting and sharing GPUs holds a mix of services at the least cost?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fairway.catalog.catalog import Catalog
    from fairway.devices.layouts import Online, Plan
    from fairway.devices.mixreading import Mix

# A card that is cut anew: pods leave, MIG Manager works, pods come. Seconds, an estimate.
RECUT_S = 120


def slices(
    mix: Annotated[Path | None, typer.Argument(metavar="[MIX]", exists=True, help="A ServiceMix.")] = None,
    run: Annotated[
        Path | None, typer.Option("--run", metavar="RUN", help="Services of a run on whole GPUs.")
    ] = None,
    model: Annotated[str, typer.Option("--gpu", metavar="GPU", help="With --run: which GPU.")] = "",
    gpu_price: Annotated[str, typer.Option("--gpu-price", metavar="$", help="A GPU's hour.")] = "",
    instance_type: Annotated[
        str, typer.Option("--instance-type", metavar="TYPE", help="Whose price, divided by its GPUs.")
    ] = "",
    zone: Annotated[str, typer.Option("--zone", help="Prices of this zone.")] = "",
    books: Annotated[
        list[Path] | None,
        typer.Option("--book", "-b", metavar="FILE|DIR", exists=True, help="Prices that win over ours."),
    ] = None,
    layout: Annotated[str, typer.Option("--layout", metavar="WAY", help="Show this way's cards.")] = "",
    compare: Annotated[
        bool, typer.Option("--compare", help="The mix's jobs: static layouts, online, with foresight.")
    ] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Whole GPUs, MIG, MPS, time-slicing or a mixture: cards, cost, latency, interference side by side.

    With phases in the mix also: layouts that follow them against one for all. Exits 1 when only whole GPUs serve.

    Example: fairway plan slices examples/15-fifty-services/mix.yaml --gpu-price 4.10
    """
    from fairway.cli.output import check_output, print_json
    from fairway.cli.planprices import gpu_price_of, loaded
    from fairway.devices.layouts import WAYS, WHOLE, online, plans
    from fairway.errors import UserError

    check_output(output)
    if bool(mix) == bool(run):
        raise UserError("expected one of a ServiceMix and --run")
    if layout and layout not in WAYS:
        raise UserError(f"--layout {layout!r}: expected one of {', '.join(WAYS)}")
    costed, catalog = loaded(run, books)
    asked = _mix_of(mix, costed, model, catalog)
    micros = gpu_price_of(catalog, gpu_price, instance_type, zone)
    if compare:
        _compare(asked, micros, output)
        return
    if not asked.services:
        raise UserError("the mix has jobs and no services: --compare compares layouts for them")
    found = plans(asked.services, asked.model)
    follow = online(asked.phases, asked.model, micros, RECUT_S) if len(asked.phases) > 1 else None
    best = min((p for p in found if not p.lacking), key=lambda p: p.count)
    if output == "json":
        print_json(_data(asked, found, follow, micros))
    else:
        _print(asked, found, follow, micros, layout or best.way)
    raise typer.Exit(0 if best.count < found[0].count or best.way != WHOLE else 1)


def _compare(mix: Mix, micros: int, output: str) -> None:
    """Every static layout, the online policy and foresight on the same jobs and cards."""
    from fairway.cli.output import print_json, print_table
    from fairway.devices.partitioning import Options
    from fairway.devices.partitionplay import jobs_of, ways
    from fairway.errors import UserError
    from fairway.results.costs.money import dollars

    if not mix.works:
        raise UserError("--compare: expected a mix with jobs: [{name, profile, count, lasts}]")
    jobs = jobs_of(mix.works, mix.phases)
    cards = mix.nodes * mix.cards
    found = ways(jobs, mix.model, mix.nodes, mix.cards, Options())
    owed = {p.way: round(cards * p.until_us / 3600e6 * micros) for p in found}
    if output == "json":
        print_json(
            [
                {
                    "way": p.way,
                    "started": len(p.waits_us),
                    "never": p.never,
                    "wait_s_mean": p.mean_s,
                    "wait_s_max": max(p.waits_us, default=0) / 1e6,
                    "until_s": p.until_us / 1e6,
                    "micros": owed[p.way],
                    "repartitions": p.changes,
                    "cards_cut": len(p.cuts),
                }
                for p in found
            ]
        )
        return
    typer.echo(
        f"{len(jobs)} jobs on {mix.nodes} x {mix.cards} {mix.model.name}, {dollars(micros)} an hour and GPU\n"
    )
    rows = [
        (
            p.way,
            str(len(p.waits_us)),
            str(p.never),
            f"{p.mean_s / 60:,.1f}",
            f"{max(p.waits_us, default=0) / 60e6:,.1f}",
            f"{p.until_us / 3600e6:,.1f}",
            dollars(owed[p.way]),
            str(p.changes),
            str(len(p.cuts)),
        )
        for p in found
    ]
    header = ("layout", "start", "never", "mean wait min", "longest", "done h", "$", "repartitions", "cards")
    print_table(header, rows, right=tuple(range(1, 9)))


def _mix_of(path: Path | None, run: Any, name: str, catalog: Catalog) -> Mix:
    from fairway.devices.interference import Demand
    from fairway.devices.layouts import Service
    from fairway.devices.mixreading import Mix, read_mix
    from fairway.errors import UserError
    from fairway.results.costs.costing import costed
    from fairway.results.costs.lessons import services_of

    if path is not None:
        return read_mix(path, catalog)
    gpu = catalog.gpu(name)
    if gpu is None:
        known = ", ".join(m.name for m in catalog.gpus())
        raise UserError(f"--gpu {name!r}: expected one of {known}")
    # A tenth of a second a request: a run says how busy a GPU was, not in which pieces.
    services = [
        Service(Demand(s.name, s.memory_bytes, 0.1, min(s.compute_share, 0.99) * 10), s.replicas)
        for s in services_of(costed(run, catalog), gpu)
    ]
    if not services:
        raise UserError("no service that tells its GPU memory on a whole GPU of this model in the run")
    return Mix(gpu, tuple(services), ())


def _worst(plan: Plan) -> tuple[float, float]:
    """The largest slowdown of a request, and the largest 95th percentile against a whole card's."""
    return max((p.stretch for _, p in plan.paces), default=1.0), max(
        (p.p95_s for _, p in plan.paces), default=0.0
    )


def _print(mix: Mix, found: Sequence[Plan], follow: Online | None, micros: int, way: str) -> None:
    from fairway.cli.output import print_table
    from fairway.results.costs.money import dollars

    replicas = sum(s.replicas for s in mix.services)
    typer.echo(
        f"{replicas} replicas of {len(mix.services)} services on {mix.model.name}, {dollars(micros)} an hour and GPU\n"
    )
    rows = []
    for plan in found:
        stretch, p95 = _worst(plan)
        lacking = ", ".join(plan.lacking)
        rows.append(
            (
                plan.way,
                str(plan.count),
                str(plan.bound),
                dollars(plan.count * micros),
                f"{replicas / plan.count:.1f}" if plan.count else "-",
                f"{stretch:.2f}x",
                f"{p95 * 1000:,.0f}",
                f"not: {lacking}"[:28] if lacking else "all",
            )
        )
    header = ("way", "GPUs", "at least", "$/h", "replicas/GPU", "slowest", "p95 ms", "serves")
    print_table(header, rows, right=tuple(range(1, 7)))
    typer.echo("\n95th percentile of the latency, ms:")
    names = [s.demand.name for s in mix.services]
    table = {plan.way: dict(plan.paces) for plan in found}
    paces: list[tuple[str, ...]] = []
    for name, service in zip(names, mix.services, strict=True):
        cells = [f"{table[p.way][name].p95_s * 1000:,.0f}" if name in table[p.way] else "-" for p in found]
        limit = service.demand.p95_most_s
        paces.append((name[:24], *cells, f"{limit * 1000:,.0f}" if limit else "-"))
    print_table(("service", *table, "limit"), paces, right=tuple(range(1, len(found) + 2)))
    chosen = next(p for p in found if p.way == way)
    typer.echo(f"\n{way}:")
    held = [
        (str(c.count), c.way, c.made[:40], ", ".join(f"{n} {what}" for what, n in c.holds)[:44])
        for c in chosen.cards[:12]
    ]
    print_table(("GPUs", "way", "cut", "each holds"), held, right=(0,))
    if len(chosen.cards) > 12:
        typer.echo(f"and {len(chosen.cards) - 12} other kinds of card")
    if follow is not None:
        hours = sum(p.hours for p in mix.phases)
        by_phase = ", ".join(f"{name} {n}" for name, n in follow.cards)
        typer.echo(
            f"\nMIG in {hours:g} h: one layout {follow.static_cards} GPUs, {dollars(follow.static_micros)}; "
            f"following the phases\n{by_phase} GPUs, {dollars(follow.online_micros)}, {follow.recut} cut anew"
        )


def _data(mix: Mix, found: Sequence[Plan], follow: Online | None, micros: int) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "gpu": mix.model.name,
        "services": [{**asdict(s.demand), "replicas": s.replicas} for s in mix.services],
        "ways": [
            {
                "way": p.way,
                "gpus": p.count,
                "gpus_at_least": p.bound,
                "micros_per_hour": p.count * micros,
                "lacking": list(p.lacking),
                "cards": [asdict(c) for c in p.cards],
                "paces": {name: asdict(pace) for name, pace in p.paces},
            }
            for p in found
        ],
        "online": asdict(follow) if follow is not None else None,
    }
