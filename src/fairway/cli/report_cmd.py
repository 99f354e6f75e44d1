"""`fairway report`: what did a run do?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairway.cli.onground import On, path_on

if TYPE_CHECKING:
    from fairway.results.run import Run

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def report(
    ground: Annotated[
        Path | None,
        typer.Argument(
            metavar="[GROUND]",
            help="A run (simulate --out DIR), or any cluster that can be asked.",
            show_default=False,
        ),
    ] = None,
    on: On = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a self-contained HTML report.")
    ] = None,
    plots: Annotated[
        Path | None, typer.Option("--plots", metavar="DIR", help="Write every chart as SVG and PNG.")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Show what a run did: allocation and use over time, waits, fragmentation, and what went wrong.

    A run that was interrupted is shown as far as it got, and says so; a cluster without a record by what its objects
    still tell.

    Example: fairway report runs/two-teams --html two-teams.html --plots plots/
    """
    from fairway.cli import slurmanswers
    from fairway.cli.output import check_output, print_json
    from fairway.cli.screen import print_lines
    from fairway.ground import open_ground
    from fairway.results.summary import summary_of
    from fairway.results.textreport import report_lines

    check_output(output)
    path = path_on(ground, on)
    site = slurmanswers.slurm_on(path)
    if site is not None:
        slurmanswers.report(site, output)
        return
    run = open_ground(path).history()
    if output == "json":
        print_json(summary_of(run))
    else:
        print_lines(lambda width: report_lines(run, width))
    if html is not None:
        _write_html(run, html)
    if plots is not None:
        _write_plots(run, plots)


def _write_html(run: Run, html: Path) -> None:
    from fairway.results.atomic import replace_text
    from fairway.results.htmlreport import html_report

    replace_text(html, html_report(run))
    typer.echo(f"fairway: wrote {html}", err=True)


def _write_plots(run: Run, plots: Path) -> None:
    from fairway.results.plots import forms, write_plots

    names = write_plots(run, plots)
    typer.echo(f"fairway: wrote {', '.join(names)} as {forms()} to {plots}", err=True)
