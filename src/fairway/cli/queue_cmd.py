"""`fairway queue`: where do Kueue's queues stand?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairway.cli.onground import On, path_on

if TYPE_CHECKING:
    from fairway.results.queuestate import QueueState
    from fairway.results.textlayout import Line

app = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)

_Path = Annotated[
    Path | None,
    typer.Argument(
        metavar="[GROUND]",
        help="A scenario, a run, a dump (kubectl get -A -o json), a data folder of up, a kubeconfig.",
        show_default=False,
    ),
]
_At = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="When: 8h since the start, or an RFC 3339 time. Default: the end.",
        show_default=False,
    ),
]
_Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Kueue's Configuration, for a dump.", show_default=False),
]
_Output = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]


@app.command("list")
def list_(
    path: _Path = None, on: On = None, at: _At = None, config: _Config = None, output: _Output = "table"
) -> None:
    """ClusterQueues: what waits, what is admitted, and quota: nominal, used, borrowed, lent, free.

    Example: fairway queue list examples/09-night-borrowing --at 8h
    """
    from fairway.results.queuestate import queue_lines
    from fairway.results.queuestatetext import list_text

    _answer(path_on(path, on), at, config, output, queue_lines, list_text)


@app.command()
def pending(
    path: _Path = None,
    queue: Annotated[
        str | None,
        typer.Argument(metavar="[QUEUE]", help="A ClusterQueue, or a LocalQueue as namespace/name."),
    ] = None,
    on: On = None,
    at: _At = None,
    config: _Config = None,
    output: _Output = "table",
) -> None:
    """Workloads without quota, in the order of their turn, and what keeps each of them, at this moment.

    Each is put to Kueue's scheduler anew, as if it were the head of its queue; what its condition says may be older.

    Exits 1 when something waits.

    Example: fairway queue pending examples/09-night-borrowing research --at 8h
    """
    from fairway.results.queuestate import pending_lines
    from fairway.results.queuestatetext import pending_text

    if on is not None and queue is None and path is not None:
        path, queue = None, str(path)  # `pending QUEUE --on GROUND`
    found = _answer(
        path_on(path, on), at, config, output, lambda state: pending_lines(state, queue), pending_text
    )
    if found:
        raise typer.Exit(1)


@app.command()
def borrow(
    path: _Path = None, on: On = None, at: _At = None, config: _Config = None, output: _Output = "table"
) -> None:
    """Who borrows quota from whom, at this moment.

    Example: fairway queue borrow examples/09-night-borrowing --at 8h
    """
    from fairway.results.queuestate import loan_lines
    from fairway.results.queuestatetext import borrow_text

    _answer(path_on(path, on), at, config, output, loan_lines, borrow_text)


def _answer(
    path: Path,
    at: str | None,
    config: Path | None,
    output: str,
    ask: Callable[[QueueState], Sequence[Any]],
    render: Callable[[QueueState, Any, int], Sequence[Line]],
) -> Sequence[Any]:
    from fairway.cli.output import check_output, print_json
    from fairway.cli.screen import print_lines
    from fairway.ground import open_ground
    from fairway.results.queuestate import as_json, state_of

    check_output(output)
    moment = open_ground(path, kueue_config=config).at(at)
    state = state_of(moment.twin, moment.notes)
    found = ask(state)
    if output == "json":
        for note in state.notes:
            typer.echo(f"fairway: {note}", err=True)
        print_json([as_json(line) for line in found])
    else:
        print_lines(lambda width: render(state, found, width))
    return found
