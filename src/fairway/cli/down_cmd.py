"""`fairway down`: stop the server of a data folder. Its state stays."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)
_TIMEOUT_S = 20.0


@app.command()
def down(
    data: Annotated[Path | None, typer.Option("--data", help="Folder of the cluster's state.")] = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Delete the state as well.")] = False,
) -> None:
    """Stop the server. What it held is there again at the next fairway up.

    Example: fairway down
    """
    from fairway.apiserver.folders import is_taken
    from fairway.cli.prometheusbeside import stop
    from fairway.cli.serverclient import folder
    from fairway.errors import WorldError

    where = folder(data)
    stop(where)
    pid = is_taken(where)
    if pid > 0:
        os.kill(pid, signal.SIGTERM)
        until_s = time.monotonic() + _TIMEOUT_S
        while is_taken(where):
            if time.monotonic() > until_s:
                raise WorldError(f"pid {pid} did not stop within {_TIMEOUT_S:.0f} s")
            time.sleep(0.02)
        typer.echo(f"stopped (pid {pid}); state kept in {where}" if not wipe else f"stopped (pid {pid})")
    else:
        typer.echo(f"no server runs on {where}")
    if wipe:
        _wipe(where)


def _wipe(where: Path) -> None:
    """Delete what a server wrote there, and nothing else."""
    import shutil

    for name in ("pki", "prometheus", "history", "alerts"):
        if (where / name).is_dir():
            shutil.rmtree(where / name)
    for name in (
        "journal.a",
        "journal.b",
        "objects.db",
        "objects.db-journal",
        "calibration.json",
        "server.json",
        "kubeconfig",
        "server.log",
        "lock",
    ):
        (where / name).unlink(missing_ok=True)
    typer.echo(f"deleted the state in {where}")
