"""`fairway explain`: why does it wait, and what would start it?"""

from __future__ import annotations

from typing import Annotated

import typer

from fairway.cli.onground import At, On

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def explain(
    name: Annotated[
        str,
        typer.Argument(
            metavar="OBJECT",
            help="pod/NAME, job/NAME, workload/NAME, any kind of job, a queue, node/NAME; a Slurm job's id.",
        ),
    ],
    on: On = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NS", help="Default: any.", show_default=False)
    ] = None,
    at: At = None,
    changes: Annotated[
        bool, typer.Option("--changes/--no-changes", help="Try what would start it, on copies.")
    ] = True,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Say why an object waits, layer by layer in the engines' own words, and the smallest change that would start it.

    Every change was tried on a copy of the cluster. Exits 1 when something blocks it.

    Example: fairway explain job/ablation-pending -n research --on examples/07-training-gang --at 2h
    """
    from fairway.answers.explain import explain_named
    from fairway.answers.explaintext import explanation_lines
    from fairway.answers.explanation import NONE
    from fairway.cli import slurmanswers
    from fairway.cli.onground import ground_on
    from fairway.cli.output import check_output, print_json
    from fairway.cli.screen import print_lines

    check_output(output)
    site = slurmanswers.slurm_on(on)
    if site is not None:
        slurmanswers.explain(site, name, at, changes, output)
        return
    moment = ground_on(on).at(at)
    found = explain_named(moment, name, namespace)
    if changes:
        from fairway.answers.changes import with_changes

        found = with_changes(moment, found)
    if output == "json":
        print_json(found.as_json())
    else:
        print_lines(lambda width: explanation_lines(found, width))
    if found.blocker.layer != NONE:
        raise typer.Exit(1)
