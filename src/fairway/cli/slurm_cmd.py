"""`fairway slurm`: Slurm beside Kubernetes, and the way over."""

from __future__ import annotations

import typer

from fairway.cli import slurmserving_cmd
from fairway.cli.slurmconvert_cmd import convert
from fairway.cli.slurmmigrate_cmd import migrate

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Slurm: a cluster of it served on this machine; what its scripts and configuration become on Kubernetes.",
)
slurmserving_cmd.add_to(app)
app.command("convert")(convert)
app.command("migrate")(migrate)


@app.callback()
def slurm() -> None:
    """Slurm beside Kubernetes, and the way over."""
