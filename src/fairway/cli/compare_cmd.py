"""`fairway compare`: how do runs differ?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fairway.results.costs.figures import CostFigures
    from fairway.results.run import Run

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def compare(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="A B [C…]", help="Run directories; A is what others are measured against."),
    ],
    book: Annotated[
        list[Path] | None,
        typer.Option("--book", "-b", metavar="FILE|DIR", exists=True, help="Prices that win over ours."),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Put runs side by side, the differences that matter first; dollars, too, where nodes have prices.

    A difference matters when it is large both absolutely and relatively: a wait that changed by 10 % and by
    10 s, a share that changed by a point.

    Example: fairway compare runs/fifo runs/priority
    """
    from fairway.cli.output import check_output, print_json
    from fairway.cli.screen import print_lines
    from fairway.errors import UserError
    from fairway.results.compare import compare as compared
    from fairway.results.comparetext import comparison_lines
    from fairway.results.rundir import load_run

    check_output(output)
    if len(directories) < 2:
        raise UserError("expected two run directories or more, such as: fairway compare runs/a runs/b")
    runs = [load_run(directory) for directory in directories]
    comparison = compared(runs, _costs(runs, book or []))
    if output == "json":
        print_json(comparison.as_json())
    else:
        print_lines(lambda width: comparison_lines(comparison, width))


def _costs(runs: list[Run], books: list[Path]) -> list[CostFigures | None]:
    """What each run cost; None for one that says of no node what it is, and for all of them without Polars."""
    from fairway.extras import have
    from fairway.results.costs.costing import costed
    from fairway.results.costs.figures import cost_figures
    from fairway.results.costs.pricing import catalog_of_run

    if not have("polars"):
        typer.echo("fairway: without dollars: pip install 'fairway[cost]' for those", err=True)
        return [None] * len(runs)
    found = []
    for run in runs:
        is_known = any(run.outcome.nodes.column("instance_type"))
        found.append(cost_figures(costed(run, catalog_of_run(run.info, books))) if is_known else None)
    return found
