"""`fairway plan serving`: the cheapest way to serve a model to a load within an SLO."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fairway.results.servingplan import Option, Wanted


def serving(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Short name, or a Hugging Face path.")],
    rate: Annotated[
        float, typer.Option("--rate", min=0.001, max=100_000, help="Requests a second at the peak.")
    ],
    prompt: Annotated[
        int, typer.Option("--prompt", min=1, max=1_000_000, help="Median tokens of a prompt.")
    ] = 512,
    answer: Annotated[
        int, typer.Option("--answer", min=1, max=1_000_000, help="Median tokens of an answer.")
    ] = 128,
    spread: Annotated[
        float, typer.Option("--spread", min=0, max=3, help="Of both: log-normal; 0: all alike.")
    ] = 0.7,
    ttft: Annotated[str, typer.Option("--ttft", metavar="TIME", help="SLO: time to the first token.")] = "1s",
    tpot: Annotated[str, typer.Option("--tpot", metavar="TIME", help="SLO: time per output token.")] = "50ms",
    attain: Annotated[
        float, typer.Option("--attain", min=1, max=100, help="Per cent of requests within the SLO.")
    ] = 99.0,
    trough: Annotated[float, typer.Option("--trough", min=0, help="Requests a second in quiet hours.")] = 0.0,
    quiet_hours: Annotated[float, typer.Option("--quiet-hours", min=0, max=24, help="Of a day.")] = 12.0,
    gpu: Annotated[
        list[str] | None, typer.Option("--gpu", help="Only these; as in fairway catalog gpus.")
    ] = None,
    quantization: Annotated[
        list[str] | None,
        typer.Option("--quantization", "-q", help="auto, fp8, int8, int4 …; several are tried."),
    ] = None,
    zone: Annotated[
        str, typer.Option("--zone", help="Prices of this zone; absent: the least anywhere.")
    ] = "",
    book: Annotated[
        list[Path] | None,
        typer.Option("--book", "-b", metavar="FILE|DIR", exists=True, help="Prices that win over ours."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="DIR", help="Draw the frontier there.")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Which GPU or MIG slice, parallelism, batch limits, replicas and autoscaling serve a model for the least money?

    Every way is tried with a few thousand requests; it exits 1 where none keeps the SLO.

    Example: fairway plan serving llama-3.1-8b --rate 10 --prompt 600 --answer 180 --ttft 1s --tpot 60ms
    """
    from fairway.catalog.catalog import load_catalog
    from fairway.cli.output import check_output
    from fairway.errors import UserError
    from fairway.kube.timestamps import SECOND_US, parse_duration
    from fairway.results.servingplan import Wanted, planned
    from fairway.serving.models import bytes_per_weight, model_named
    from fairway.serving.readings import Slo
    from fairway.serving.traffic import Tokens

    check_output(output)

    def seconds(text: str, option: str) -> float:
        try:
            return parse_duration(text) / SECOND_US
        except ValueError:
            raise UserError(f"{option} {text!r}: expected a time such as 500ms") from None

    quantizations = tuple(quantization or ("auto",))
    for one in quantizations:
        bytes_per_weight(one)
    found = model_named(model)
    most = min(8 * prompt, found.context) if spread else prompt
    if prompt + answer > found.context:
        raise UserError(
            f"--prompt {prompt} --answer {answer}: {found.name} has a context of {found.context} tokens; expected fewer"
        )
    wanted = Wanted(
        model=found,
        rate=rate,
        prompt=Tokens(prompt, spread, most),
        output=Tokens(answer, spread, 8 * answer),
        slo=Slo(seconds(ttft, "--ttft"), seconds(tpot, "--tpot")),
        attain=attain / 100,
        trough=trough,
        quiet_hours=quiet_hours,
    )
    catalog = load_catalog(book or ())
    options, why = planned(wanted, catalog, gpu or (), quantizations, zone)
    _tell(wanted, options, why, plot, output)
    raise typer.Exit(0 if options else 1)


def _tell(wanted: Wanted, options: list[Option], why: dict[str, int], plot: Path | None, output: str) -> None:
    from fairway.cli.output import print_json
    from fairway.cli.screen import print_lines
    from fairway.results.plots import write_drawings
    from fairway.results.servingplan import frontier
    from fairway.results.servingplantext import frontier_drawing, plan_lines

    if output == "json":
        edge = frontier(options)
        rows = [{**o.as_json(), "onFrontier": o in edge} for o in options]
        print_json(
            {"model": wanted.model.name, "attain": round(100 * wanted.attain, 6), "options": rows, "not": why}
        )
    else:
        print_lines(lambda width: plan_lines(options, why, wanted.trough > 0, width))
    if plot is not None and options:
        title = f"{wanted.model.name}, {wanted.rate:g} requests a second"
        (name,) = write_drawings({"serving-plan": frontier_drawing(options, title)}, plot)
        typer.echo(f"{plot / name}.svg", err=True)
