"""`--on PATH`: the cluster that a question is asked of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fairway.ground import Ground

On = Annotated[
    Path | None,
    typer.Option(
        "--on",
        metavar="GROUND",
        help="A scenario, run, dump, data folder of up, kubeconfig, Slurm site. Default: the cluster up serves.",
        show_default=False,
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="When: 8h since the start, or an RFC 3339 time. Default: the end, or now.",
        show_default=False,
    ),
]


def ground_on(path: Path | None) -> Ground:
    """The ground of `--on`; without it the data folder of `fairway up`.

    Raises: UserError where neither is there; InvalidInput.
    """
    from fairway.ground import open_ground

    return open_ground(path_on(None, path))


def path_on(argument: Path | None, on: Path | None) -> Path:
    """Where the ground is: an argument or `--on`; without either the data folder of `fairway up`.

    Raises: UserError where both are given, or neither is there.
    """
    from fairway.cli.serverclient import folder
    from fairway.errors import UserError

    if argument is not None and on is not None:
        raise UserError(f"{argument} and --on {on}: expected one ground")
    path = argument or on
    if path is not None:
        return path
    served = folder(None)
    if not (served / "pki").exists():
        raise UserError(
            f"--on is needed: a scenario, run, dump or kubeconfig (nothing was ever served from {served})"
        )
    return served
