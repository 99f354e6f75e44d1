"""`fairway slurm migrate`: a site's accounting on both sides, and a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def migrate(
    trace: Annotated[Path, typer.Option("--trace", metavar="FILE", help="What sacct -P printed.")],
    conf: Annotated[Path, typer.Option("--conf", metavar="DIR", help="The folder of slurm.conf.")],
    phases: Annotated[bool, typer.Option("--phases/--no-phases", help="A plan, each phase replayed.")] = True,
    slinky: Annotated[
        Path | None,
        typer.Option("--slinky", metavar="FILE", help="Write slurm-operator's objects of this site here."),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Replay a site's accounting by Slurm's rules and by Kueue's: waits, fairness, use and dollars side by side.

    Then a plan: partitions that share nodes move together, those whose work is of single nodes first; each phase is
    replayed with what has moved and what has not. Exits 1 when a phase waits much longer than Slurm did.

    Example: fairway slurm migrate --trace sacct.csv --conf examples/19-leaving-slurm/site
    """
    from fairway.answers.onslurm.migrating import migrate as migrated
    from fairway.answers.onslurm.texts import THIRD_WAY, migration_rows, phase_rows
    from fairway.cli.output import check_output, print_json, print_table
    from fairway.slurm.records.sacct import read_sacct
    from fairway.slurm.sitefolder import read_site

    check_output(output)
    site, records = read_site(conf), read_sacct(trace)
    if slinky is not None:
        _write_slinky(conf, slinky)

    def progress(text: str) -> None:
        typer.echo(f"fairway: replaying {text} …", err=True)

    found = migrated(site, records, phases=phases, progress=progress)
    for note in found.notes:
        typer.echo(f"fairway: {note}", err=True)
    if output == "json":
        print_json(found.as_json())
    else:
        print_table(*migration_rows(found))
        if found.phases:
            typer.echo("")
            print_table(*phase_rows(found))
        typer.echo("\n" + THIRD_WAY)
    if not found.holds:
        raise typer.Exit(1)


def _write_slinky(conf: Path, file: Path) -> None:
    from fairway.kube.manifestwriting import write_yaml
    from fairway.results.atomic import replace_text
    from fairway.slurm.converting.notes import note_lines
    from fairway.slurm.converting.sites import convert_site
    from fairway.slurm.converting.slinky import operator_objects
    from fairway.slurm.sitefolder import read_site

    site = read_site(conf)
    made = convert_site(site, site.controller(0, enforce=False).cluster)
    objects, notes = operator_objects(site, made.kinds)
    replace_text(file, write_yaml(objects))
    for line in note_lines(notes):
        typer.echo(line, err=True)
