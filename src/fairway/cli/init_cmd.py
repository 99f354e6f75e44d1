"""`fairway init`: a first scenario, from a few answers or from a cluster's own objects."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_MODEL, _NODES, _GPUS, _TEAMS = "H100-80GB", 4, 8, ("research", "serving")


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty directory.")],
    nodes: Annotated[int | None, typer.Option("--nodes", metavar="N", help="GPU nodes.")] = None,
    gpus: Annotated[int, typer.Option("--gpus", metavar="N", help="GPUs of each node.")] = _GPUS,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="As `fairway catalog gpus` has it.")
    ] = None,
    team: Annotated[
        list[str] | None, typer.Option("--team", metavar="NAME", help="Once for each team.")
    ] = None,
    region: Annotated[
        str,
        typer.Option("--region", metavar="REGION", help="Machines come and go there, as Karpenter decides."),
    ] = "",
    dump: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE|DIR", exists=True, help="Objects of a cluster: kubectl get … -o yaml."
        ),
    ] = None,
) -> None:
    """Write a scenario to start from: nodes, queues for the teams, jobs, assertions. It runs as it is.

    On a terminal, what is not given is asked.

    Example: fairway init my-cluster --nodes 4 --model H100-80GB --team vision --team chat
    """
    from fairway.scenario.scaffold.dumped import files_of_dump
    from fairway.scenario.scaffold.files import files_of

    _check_empty(directory)
    name = _name_of(directory)
    if dump is not None:
        from fairway.errors import UserError
        from fairway.kube.manifest import read_path

        files = files_of_dump((m.obj for m in read_path(dump)), name)
        if not files:
            raise UserError(
                f"{dump}: nothing in it to start from: expected nodes, queues, jobs, deployments …"
            )
    else:
        from fairway.catalog.catalog import load_catalog
        from fairway.scenario.scaffold.answers import checked

        if nodes is None and model is None and not region and sys.stdin.isatty():
            nodes = typer.prompt("How many GPU nodes", default=_NODES, type=int)
            model = typer.prompt("Of which GPU (fairway catalog gpus lists them)", default=_MODEL)
        if not team and sys.stdin.isatty():
            team = typer.prompt("Which teams share them", default=" ".join(_TEAMS)).replace(",", " ").split()
        teams = tuple(team or _TEAMS)
        found = checked(
            load_catalog(), name, model or _MODEL, _NODES if nodes is None else nodes, gpus, teams, region
        )
        files = files_of(found)
    _write(directory, files)
    typer.echo(f"fairway: wrote {', '.join(files)} to {directory}", err=True)
    typer.echo(f"fairway: next: fairway simulate {directory}", err=True)


def _check_empty(directory: Path) -> None:
    from fairway.errors import UserError

    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(f"{directory}: expected a new or empty directory; nothing was written")


def _name_of(directory: Path) -> str:
    """The scenario's name: that of its directory, as Kubernetes lets one be."""
    letters = "".join(c if c.isascii() and c.isalnum() else "-" for c in directory.resolve().name.lower())
    return letters.strip("-")[:63].strip("-") or "scenario"


def _write(directory: Path, files: dict[str, str]) -> None:
    from fairway.errors import WorldError

    try:
        for name, text in files.items():
            file = directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as failed:
        raise WorldError(f"{directory}: cannot be written: {failed.strerror or failed}") from failed
