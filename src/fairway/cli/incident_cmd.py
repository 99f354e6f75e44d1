"""`fairway incident`: the report of what went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairway.cli.onground import At, On

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def incident(
    on: On = None,
    at: At = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="2h before the end, or an RFC 3339 time. Default: all there is."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NS", help="Only there.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it there.", show_default=False)
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option("--plots", metavar="DIR", help="Write charts and link them.", show_default=False),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="markdown|json", help="How to print.")
    ] = "markdown",
) -> None:
    """Write an incident report: timeline, scope, graphs, factors, what was tried, remediation, an alert.

    Example: fairway incident --on runs/two-teams --since 6h --out incident.md --plots incident
    """
    from fairway.answers.incident import incident as reported
    from fairway.answers.incidenttext import incident_json, incident_markdown
    from fairway.cli.onground import ground_on
    from fairway.cli.output import check_output, print_json

    check_output(output, ("markdown", "json"))
    ground = ground_on(on)
    found = reported(ground, at, since=since, namespace=namespace)
    pictures: list[Path] = []
    if plots is not None:
        from fairway.results.plots import write_plots

        pictures = [plots / f"{name}.svg" for name in write_plots(ground.history(at), plots)]
    if output == "json":
        print_json(incident_json(found))
        return
    text = incident_markdown(found, pictures)
    if out is None:
        typer.echo(text, nl=False)
        return
    from fairway.results.atomic import replace_text

    replace_text(out, text)
    typer.echo(f"fairway: wrote {out}", err=True)
