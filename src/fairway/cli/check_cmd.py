"""`fairway check`: what would become of a manifest, before it is submitted?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairway.cli.onground import At, On

if TYPE_CHECKING:
    from fairway.kube.manifest import Manifest

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def check(
    files: Annotated[
        list[Path],
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE|DIR|-",
            help="Manifests, - is standard input; a Slurm site: scripts.",
        ),
    ],
    on: On = None,
    at: At = None,
    within: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Exit 1 unless all of it starts so soon.", show_default=False),
    ] = None,
    as_user: Annotated[
        str, typer.Option("--as", metavar="USER", help="Who submits it.")
    ] = "kubernetes-admin",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Say what the cluster would do with manifests: refused by which policy, admitted where, preempting whom, when.

    They are applied to a copy that goes on for a while. Exits 1 when something is refused, or could never start as it
    is; with --within also when it starts too late.

    Example: helm template my-chart | fairway check -f - --on dump.yaml --within 10m
    """
    from fairway.admission.request import ADMIN, ALL_AUTHENTICATED, User
    from fairway.answers.check import check as checked
    from fairway.answers.checktext import check_lines
    from fairway.answers.trials import HORIZON_US
    from fairway.cli import slurmanswers
    from fairway.cli.onground import ground_on
    from fairway.cli.output import check_output, print_json
    from fairway.cli.screen import print_lines

    check_output(output)
    limit_us = None if within is None else _duration_us(within)
    site = slurmanswers.slurm_on(on)
    if site is not None:
        who = "root" if as_user == ADMIN.name else as_user
        slurmanswers.check(site, files, at, who, None if limit_us is None else limit_us / 1e6, output)
        return
    user = ADMIN if as_user == ADMIN.name else User(as_user, (ALL_AUTHENTICATED,))
    manifests = [m for file in files for m in _read(file)]
    found = checked(ground_on(on).at(at), manifests, user, max(HORIZON_US, limit_us or 0))
    if output == "json":
        print_json(found.as_json())
    else:
        print_lines(lambda width: check_lines(found, width))
    if not found.is_fine(None if limit_us is None else limit_us / 1e6):
        raise typer.Exit(1)


def _read(file: Path) -> list[Manifest]:
    import sys

    from fairway.kube.manifest import read_path, read_text

    return read_text(sys.stdin.read(), "standard input") if str(file) == "-" else read_path(file)


def _duration_us(text: str) -> int:
    """Raises: UserError."""
    from fairway.errors import UserError
    from fairway.kube.timestamps import parse_duration

    try:
        return parse_duration(text)
    except ValueError as wrong:
        raise UserError(f"--within {text!r}: {wrong}") from None
