"""`fairway scrub`: is everything a stopped server left on disk as it was written?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def scrub(
    data: Annotated[Path | None, typer.Option("--data", help="Folder of the cluster's state.")] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Read every row and record of a cluster's state and check it; nothing is changed. Exit code 1: damaged.

    Example: fairway scrub --data ~/clusters/a
    """
    from fairway.apiserver.inspection import checked
    from fairway.cli.output import check_output, print_json
    from fairway.cli.serverclient import folder
    from fairway.errors import UserError

    check_output(output)
    where = folder(data)
    if not where.is_dir():
        raise UserError(f"{where}: no such folder")
    found = checked(where)
    if output == "json":
        damages = [{"file": d.file, "where": d.where, "why": d.why, "lost": d.lost} for d in found.damages]
        said = {"data": str(where), "objects": found.rows, "records": found.records}
        print_json({**said, "version": found.facts.get("version", "0"), "damages": damages})
    else:
        for damage in found.damages:
            typer.echo(f"damaged  {damage}")
        version = found.facts.get("version", "0")
        typer.echo(
            f"{where}: {found.rows} objects at version {version}, {found.records} newer records in the log"
        )
        typer.echo(f"{len(found.damages)} damaged" if found.damages else "all of it is as it was written")
    if found.damages:
        raise typer.Exit(1)
