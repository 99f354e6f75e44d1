"""`fairway forecast`: when will what is pending start and end?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairway.cli.onground import At, On

if TYPE_CHECKING:
    from fairway.answers.forecasting.forecast import Forecast, Options

app = typer.Typer(rich_markup_mode=None, add_completion=False)

MOST_FUTURES = 10_000
MOST_MOMENTS = 1_000


@app.command()
def forecast(
    on: On = None,
    at: At = None,
    futures: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_FUTURES,
            help="Default: 200, 20 where all engines play them; with --backtest 40 a moment.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="All chance comes from it.")] = 0,
    horizon: Annotated[str, typer.Option(metavar="DURATION", help="How far to look.")] = "72h",
    load: Annotated[float, typer.Option(metavar="FACTOR", help="Arrivals, in times of the past's.")] = 1.0,
    processes: Annotated[int, typer.Option(min=0, max=256, help="0: as many as there are cores.")] = 0,
    executor: Annotated[
        str,
        typer.Option(
            metavar="processes|ray|ray://HOST:PORT",
            help="Where futures run: here, or on a Ray cluster whose workers can open the path.",
        ),
    ] = "processes",
    engine: Annotated[
        str, typer.Option(metavar="auto|quick|twin", help="quick: kube-scheduler's alone; twin: all engines.")
    ] = "auto",
    is_backtest: Annotated[
        bool,
        typer.Option("--backtest", help="Ask at many past moments, and compare with what came."),
    ] = False,
    first: Annotated[
        str, typer.Option("--from", metavar="TIME", help="--backtest: the first moment.")
    ] = "24h",
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="--backtest: the last one.")] = "48h",
    every: Annotated[str, typer.Option(metavar="DURATION", help="--backtest: between moments.")] = "2h",
    calibration: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Written by --backtest, used by forecasts. Default: calibration.json in a run or data folder.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Start and end of everything pending as P10, P50 and P90, and queues, GPUs and money ahead.

    Copies of the cluster are run forward: run times drawn from what similar jobs did, given how long each runs already;
    arrivals taken again from the past by hour and kind of day. --backtest says how good that was, beside plain rules.

    Example: fairway forecast --on examples/06-load-130 --at 30h --futures 50
    """
    from fairway.answers.forecasting.forecast import Options
    from fairway.cli import slurmanswers
    from fairway.cli.output import check_output
    from fairway.errors import UserError

    check_output(output)
    if engine not in ("auto", "quick", "twin"):
        raise UserError(f"--engine {engine!r}: expected auto, quick or twin")
    if not 0 <= load <= 100:
        raise UserError(f"--load {load:g}: expected a factor from 0 to 100")
    if executor not in ("processes", "ray") and not executor.startswith("ray://"):
        raise UserError(f"--executor {executor!r}: expected processes, ray or ray://HOST:PORT")
    horizon_us = read_duration("--horizon", horizon)
    options = Options(futures or 0, seed, horizon_us, processes, load, engine)
    site = slurmanswers.slurm_on(on)
    if executor != "processes" and (is_backtest or site is not None):
        what = "--backtest" if is_backtest else "a Slurm site"
        raise UserError(f"--executor {executor}: not with {what}, whose futures run here")
    if site is not None and not is_backtest:
        slurmanswers.forecast(site, at, futures, seed, horizon_us // 1_000_000, Counter("futures"), output)
        return
    if is_backtest:
        _backtest(on, options, futures, (first, to, every), calibration, output)
        return
    _tell(_played(on, at, options, executor, calibration), output)


def _played(
    on: Path | None, at: str | None, options: Options, executor: str, calibration: Path | None
) -> Forecast:
    """All futures, here or on a Ray cluster."""
    from fairway.answers.forecasting.forecast import forecast as forecasted
    from fairway.answers.forecasting.keeping import read_calibration
    from fairway.cli.onground import ground_on

    known = None if calibration is None else read_calibration(calibration)
    counter = Counter("futures")
    ground = ground_on(on)
    if executor == "processes":
        found = forecasted(ground, at, options, calibration=known, progress=counter)
    else:
        from fairway.answers.forecasting.elsewhere import RAY, RayExecutor, play_on, source_of

        source = source_of(ground.name, at, options)
        with RayExecutor("" if executor == RAY else executor) as ray:
            found = forecasted(
                ground,
                at,
                options,
                calibration=known,
                progress=counter,
                elsewhere=lambda question, count, told: play_on(ray, source, question, count, progress=told),
            )
    counter.end()
    return found


def _tell(found: Forecast, output: str) -> None:
    from fairway.answers.forecasting.forecasttext import forecast_lines
    from fairway.cli.output import print_json

    for note in found.notes:
        typer.echo(f"fairway: {note}", err=True)
    if output == "json":
        print_json(found.as_json())
    else:
        typer.echo("\n".join(forecast_lines(found)))


def _backtest(
    on: Path | None,
    options: Options,
    futures: int | None,
    times: tuple[str, str, str],
    calibration: Path | None,
    output: str,
) -> None:
    from dataclasses import replace

    from fairway.answers.forecasting.backtest import FUTURES, backtest
    from fairway.answers.forecasting.forecasttext import backtest_lines
    from fairway.answers.forecasting.keeping import kept, text_of
    from fairway.cli import slurmanswers
    from fairway.cli.onground import ground_on
    from fairway.cli.output import print_json
    from fairway.errors import UserError
    from fairway.kube.timestamps import SECOND_US

    first_us, last_us, every_us = (
        read_duration(name, text) for name, text in zip(("--from", "--to", "--every"), times, strict=True)
    )
    if every_us <= 0 or last_us < first_us or (last_us - first_us) // every_us >= MOST_MOMENTS:
        raise UserError(
            f"--from {times[0]} --to {times[1]} --every {times[2]}: expected 1 to {MOST_MOMENTS} moments in order"
        )
    moments = [f"{at // SECOND_US}s" for at in range(first_us, last_us + 1, every_us)]
    site = slurmanswers.slurm_on(on)
    if site is not None:
        slurmanswers.backtest(site, moments, futures, options.seed, Counter("moments"), output)
        return
    counter = Counter("moments")
    ground = ground_on(on)
    found = backtest(ground, moments, options=replace(options, futures=futures or FUTURES), progress=counter)
    counter.end()
    if calibration is None:
        found = kept(ground, found)
    for note in found.notes:
        typer.echo(f"fairway: {note}", err=True)
    if calibration is not None:
        calibration.write_text(text_of(found.calibration), encoding="utf-8")
    if output == "json":
        print_json(found.as_json())
    else:
        typer.echo("\n".join(backtest_lines(found)))


def read_duration(name: str, text: str) -> int:
    from fairway.errors import UserError
    from fairway.kube.timestamps import parse_duration

    try:
        found = parse_duration(text)
    except ValueError as wrong:
        raise UserError(f"{name} {text!r}: expected a duration such as 72h: {wrong}") from None
    if not 0 < found <= 366 * 86_400_000_000:
        raise UserError(f"{name} {text!r}: expected a duration from 1s to a year")
    return found


class Counter:
    """How far it is, on stderr; nothing where that is no terminal."""

    def __init__(self, what: str) -> None:
        self._what, self._shown = what, sys.stderr.isatty()

    def __call__(self, done: int, of: int) -> None:
        if self._shown:
            typer.echo(f"\r{done} of {of} {self._what} ", nl=False, err=True)

    def end(self) -> None:
        if self._shown:
            typer.echo("\r\x1b[K", nl=False, err=True)
