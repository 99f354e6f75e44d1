"""`fairway status`: is a server running, what time is it there, how much does it hold?"""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)
_VALUE_COLUMNS = 88


@app.command()
def status(
    data: Annotated[Path | None, typer.Option("--data", help="Folder of the cluster's state.")] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Exit code 1 where no server runs.

    Example: fairway status -o json
    """
    from fairway.apiserver.folders import running
    from fairway.cli.output import check_output, print_json
    from fairway.cli.serverclient import ask, folder

    check_output(output)
    where = folder(data)
    server = running(where)
    if server is None:
        if output == "json":
            print_json({"running": False, "data": str(where)})
        else:
            typer.echo(f"no server runs on {where}")
        raise typer.Exit(1)
    said = ask(where, "GET", "/fairway/clock")
    if output == "json":
        facts = {"running": True, "data": str(where), "pid": server.pid, "url": server.url}
        print_json({**facts, "kubeconfig": server.kubeconfig, **said})
        return
    for name, value in _rows(server.url, server.pid, server.kubeconfig, where, said):
        typer.echo(f"{name:<12}{value}")
    for line in _failing(said):
        typer.echo(line)


def _rows(url: str, pid: int, kubeconfig: str, where: Path, said: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("server", f"{url} (pid {pid})"),
        ("kubeconfig", kubeconfig),
        ("state", str(where)),
        ("clock", clock_text(said)),
        ("objects", f"{said['objects']} ({said['nodes']} nodes, {said['pods']} pods)"),
        ("watchers", str(said["watchers"])),
        ("version", said["resourceVersion"]),
        *_components(said["components"]),
    ]


def _components(told: dict[str, bool]) -> list[tuple[str, str]]:
    """Which run, and which were left out for real ones."""
    from fairway.apiserver.leftout import summary

    rows = []
    for heading, names in zip(("running", "off"), summary(told), strict=True):
        lines = wrap(", ".join(names), _VALUE_COLUMNS, break_on_hyphens=False)
        rows += [(heading if i == 0 else "", line) for i, line in enumerate(lines)]
    return rows


def _failing(said: dict[str, Any]) -> list[str]:
    """What components do without, and why."""
    from fairway.kube.timestamps import format_duration, rfc3339

    lines = []
    for f in said["failing"]:
        wait_us = f["nextUs"] - said["nowUs"]
        again = f"again in {format_duration(wait_us)}" if wait_us > 0 else "again when it changes"
        times = f"{f['count']} time{'s' if f['count'] != 1 else ''} since {rfc3339(f['sinceUs'])}"
        lines += [f"failing     {f['component']}: {f['object'] or 'its own work'} ({times}, {again})"]
        lines += [f"{'':<12}{f['error']} at {f['where']}"]
    left = said["failures"] - len(said["failing"])
    return lines + ([f"{'':<12}and {left} more"] if left else [])


def clock_text(said: dict[str, Any]) -> str:
    """`2026-11-21T06:00:00Z at speed 60`."""
    from fairway.kube.timestamps import SECOND_US, format_duration, rfc3339

    pace = "paused" if said["paused"] else f"at speed {said['speed']:g}"
    behind = said["lagUs"]
    late = f", {format_duration(behind)} behind" if behind > SECOND_US * max(said["speed"], 1) else ""
    return f"{rfc3339(said['nowUs'])} {pace}{late}"
