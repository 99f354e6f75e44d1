"""The questions' commands on a Slurm ground: one function each, called where `--on` is a folder with slurm.conf."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

from fairway.ground.opening import is_served_slurm

if TYPE_CHECKING:
    from fairway.answers.onslurm.texts import Rows
    from fairway.ground.slurmground import SlurmGround


LIVE = "slurm"
"""The name of the cluster whose commands are on PATH."""


class Counting(Protocol):
    """Says how far something is, on one line."""

    def __call__(self, done: int, total: int, /) -> None: ...
    def end(self) -> None: ...


def slurm_on(path: Path | None) -> SlurmGround | None:
    """The Slurm site at a path, its files or itself; None for any other ground. Raises: InvalidInput, WorldError."""
    if path is None:
        return None
    if not (path / "slurm.conf").is_file():
        if str(path) != LIVE and not is_served_slurm(path):
            return None
        from fairway.ground.slurmlive import live_ground

        return live_ground(path)
    from fairway.ground.slurmground import SlurmGround

    return SlurmGround(path)


def explain(ground: SlurmGround, name: str, at: str | None, changes: bool, output: str) -> None:
    from fairway.answers.onslurm.explaining import explain_job
    from fairway.answers.onslurm.texts import explanation_lines

    moment = ground.at(at)
    found = explain_job(moment, name, changes=changes)
    _say(output, found.as_json(), explanation_lines(found, moment.now))
    if found.blocked:
        raise typer.Exit(1)


def check(
    ground: SlurmGround, files: Sequence[Path], at: str | None, user: str, within_s: float | None, output: str
) -> None:
    from fairway.answers.onslurm.checking import REFUSED, check_script
    from fairway.answers.onslurm.texts import check_lines

    moment = ground.at(at)
    found = [check_script(moment, file, user) for file in files]
    _say(output, [one.as_json() for one in found], [line for one in found for line in check_lines(one)])
    late = within_s is not None and any(not one.ours or one.ours - one.now > within_s for one in found)
    if late or any(one.verdict == REFUSED for one in found):
        raise typer.Exit(1)


def forecast(
    ground: SlurmGround,
    at: str | None,
    futures: int | None,
    seed: int,
    horizon_s: int,
    counter: Counting,
    output: str,
) -> None:
    from fairway.answers.onslurm.forecasting import FUTURES
    from fairway.answers.onslurm.forecasting import forecast as forecasted
    from fairway.answers.onslurm.texts import estimate_rows
    from fairway.slurm.words.durations import stamp

    moment = ground.at(at)
    found = forecasted(moment, futures=futures or FUTURES, seed=seed, horizon_s=horizon_s, progress=counter)
    counter.end()
    head = f"{len(found)} jobs wait at {stamp(moment.now)}"
    _say_rows(output, [one.as_json() for one in found], [head], estimate_rows(found, moment.now))


def backtest(
    ground: SlurmGround,
    moments: Sequence[str],
    futures: int | None,
    seed: int,
    counter: Counting,
    output: str,
) -> None:
    from fairway.answers.onslurm.forecasting import FUTURES
    from fairway.answers.onslurm.forecasting import backtest as tested
    from fairway.answers.onslurm.texts import backtest_lines

    times = [ground.at(when).now for when in moments]
    by_time = dict(zip(times, moments, strict=True))
    found = tested(
        lambda now: ground.at(by_time[now]), times, futures=futures or FUTURES, seed=seed, progress=counter
    )
    counter.end()
    _say(output, found.as_json(), backtest_lines(found))


def cost(ground: SlurmGround, by: str, books: Sequence[Path], output: str) -> None:
    from fairway.answers.onslurm.owing import COLUMNS, owed
    from fairway.answers.onslurm.texts import cost_notes, cost_rows
    from fairway.errors import UserError

    by = "account" if by == "namespace" else by
    if by not in COLUMNS:
        raise UserError(f"--by {by!r}: of a Slurm site expected one of {', '.join(COLUMNS)}")
    found = owed(ground.end(), by, books)
    _say_rows(output, found.as_json(), cost_notes(found), cost_rows(found))


def report(ground: SlurmGround, output: str) -> None:
    from fairway.answers.onslurm.telling import stays_of, told
    from fairway.answers.onslurm.texts import told_lines, told_rows

    moment = ground.end()
    found = told(stays_of(moment.records, moment.now), moment.site.conf.nodes)
    _say_rows(output, found.as_json(), told_lines(found), told_rows(found))


def fragmentation(ground: SlurmGround, at: str | None, output: str) -> None:
    from fairway.answers.onslurm.free import fragmentation as of
    from fairway.answers.onslurm.texts import fragmentation_rows

    found = of(ground.at(at))
    for note in found.notes:
        typer.echo(f"fairway: {note}", err=True)
    head = [
        f"{found.free} of {found.gpus} GPUs are free",
        f"{found.unusable} of them no use to any of the {found.waiting} jobs that wait for GPUs"
        if found.waiting
        else "no job waits for GPUs",
    ]
    _say_rows(output, found.as_json(), head, fragmentation_rows(found))
    if found.waiting and found.free and found.unusable == found.free:
        raise typer.Exit(1)


def what_if(ground: SlurmGround, changes: Sequence[str], at: str | None, output: str) -> None:
    from fairway.answers.onslurm.texts import told_lines, told_rows
    from fairway.answers.onslurm.whatif import what_if as compared
    from fairway.cli.output import print_json, print_table

    before, after, notes = compared(ground.at(at), changes)
    for note in notes:
        typer.echo(f"fairway: {note}", err=True)
    if output == "json":
        print_json({"before": before.as_json(), "after": after.as_json()})
        return
    for name, found in (("as it is", before), (" ".join(changes), after)):
        typer.echo(name)
        for line in told_lines(found):
            typer.echo(line)
        print_table(*told_rows(found))
        typer.echo("")


def _say(output: str, data: Any, lines: Sequence[str]) -> None:
    from fairway.cli.output import print_json

    if output == "json":
        print_json(data)
    else:
        typer.echo("\n".join(lines))


def _say_rows(output: str, data: Any, head: Sequence[str], rows: Rows) -> None:
    from fairway.cli.output import print_json, print_table

    if output == "json":
        print_json(data)
        return
    for line in head:
        typer.echo(line)
    print_table(*rows)
