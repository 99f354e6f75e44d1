"""`fairway clock`: move the time of the cluster that is served."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)
_DATA = Annotated[Path | None, typer.Option("--data", help="Folder of the cluster's state.")]
_OUTPUT = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]
# How long run-until goes on where its condition never holds.
_DEFAULT_LIMIT = "30d"


@app.command()
def show(data: _DATA = None, output: _OUTPUT = "table") -> None:
    """What time it is, and how fast it goes.

    Example: fairway clock show
    """
    _tell(data, None, output)


@app.command()
def advance(
    duration: Annotated[str, typer.Argument(help="Such as 90s, 1h30m or 2d.")],
    data: _DATA = None,
    output: _OUTPUT = "table",
) -> None:
    """Go this far as fast as possible; returns when it is there.

    Example: fairway clock advance 8h
    """
    _tell(data, {"advanceUs": _duration(duration)}, output)


@app.command("run-until")
def run_until(
    time: Annotated[str, typer.Argument(help="A time (2026-01-31T08:00:00Z), or KIND/NAME with --for.")],
    wanted: Annotated[
        str, typer.Option("--for", help="condition=TYPE, jsonpath={.PATH}=VALUE, create or delete.")
    ] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Of KIND/NAME.")] = "default",
    limit: Annotated[
        str, typer.Option("--limit", help="Give up after this much virtual time.")
    ] = _DEFAULT_LIMIT,
    data: _DATA = None,
    output: _OUTPUT = "table",
) -> None:
    """Go to a time, or until an object is as it should be. Exit code 1: it never was.

    Example: fairway clock run-until job/train --for condition=Complete -n team-a
    """
    if wanted:
        condition = {"target": time, "namespace": namespace, "for": wanted}
        said = _tell(data, {"advanceUs": _duration(limit), "condition": condition}, output)
        if not said["held"]:
            typer.echo(f"fairway: {time} did not reach {wanted} within {limit}", err=True)
            raise typer.Exit(1)
        return
    _tell(data, {"untilUs": _time(time)}, output)


@app.command()
def pause(data: _DATA = None, output: _OUTPUT = "table") -> None:
    """Let time stand.

    Example: fairway clock pause
    """
    _tell(data, {"paused": True}, output)


@app.command()
def resume(data: _DATA = None, output: _OUTPUT = "table") -> None:
    """Let time go on.

    Example: fairway clock resume
    """
    _tell(data, {"paused": False}, output)


@app.command()
def speed(
    factor: Annotated[float, typer.Argument(help="Virtual seconds per second.")],
    data: _DATA = None,
    output: _OUTPUT = "table",
) -> None:
    """Let time go this fast.

    Example: fairway clock speed 60
    """
    _tell(data, {"speed": factor}, output)


def _tell(data: Path | None, command: dict[str, Any] | None, output: str) -> dict[str, Any]:
    from fairway.cli.output import check_output, print_json
    from fairway.cli.serverclient import ask, folder
    from fairway.cli.status_cmd import clock_text

    check_output(output)
    method = "GET" if command is None else "POST"
    said: dict[str, Any] = ask(folder(data), method, "/fairway/clock", command, is_long=True)
    if output == "json":
        print_json(said)
    else:
        typer.echo(clock_text(said))
    return said


def _duration(text: str) -> int:
    from fairway.errors import UserError
    from fairway.kube.timestamps import parse_duration

    try:
        return parse_duration(text)
    except ValueError as wrong:
        raise UserError(f"{text!r}: {wrong}") from wrong


def _time(text: str) -> int:
    from fairway.errors import UserError
    from fairway.kube.timestamps import parse_rfc3339

    try:
        return parse_rfc3339(text)
    except ValueError as wrong:
        raise UserError(
            f"{text!r}: expected a time such as 2026-01-31T08:00:00Z, or KIND/NAME with --for"
        ) from wrong
