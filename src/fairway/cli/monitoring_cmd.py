"""`fairway monitoring`: exporters, rules and dashboards for GPU clusters, and how Prometheus scrapes a served one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fairway.kube.objects import Obj

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    help="Exporters, rules, dashboards, and how they are scraped.",
)
_Only = Annotated[
    str, typer.Option("--only", metavar="PARTS", help="exporters, monitors, rules, dashboards; by commas.")
]
_Data = Annotated[Path | None, typer.Option("--data", help="Folder of the served cluster's state.")]


@app.command()
def render(
    only: _Only = "",
    out: Annotated[Path | None, typer.Option("--out", help="A folder: one file an object.")] = None,
) -> None:
    """Print the manifests, for kubectl apply -f -; dashboards are ConfigMaps for Grafana's sidecar.

    Example: fairway monitoring render --only rules | kubectl apply -f -
    """
    import yaml

    from fairway.errors import WorldError

    chosen = list(_chosen(only))
    if out is None:
        typer.echo(yaml.safe_dump_all(chosen, sort_keys=False, width=110, allow_unicode=True), nl=False)
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        for obj in chosen:
            name = f"{obj['kind'].lower()}-{obj['metadata']['name']}.yaml"
            (out / name).write_text(yaml.safe_dump(obj, sort_keys=False, width=110, allow_unicode=True))
    except OSError as failed:
        raise WorldError(f"{out}: cannot be written: {failed.strerror or failed}") from failed
    typer.echo(f"{len(chosen)} files in {out}")


@app.command()
def install(only: _Only = "", data: _Data = None) -> None:
    """Put them on the served cluster (fairway up), or bring them up to date there.

    Example: fairway monitoring install
    """
    from fairway.cli.serverclient import ask, folder

    where, done = folder(data), 0
    for obj in _chosen(only):
        path = f"{_path(obj)}?fieldManager=fairway-monitoring&force=true"
        ask(where, "PATCH", path, obj, content_type="application/apply-patch+yaml")
        done += 1
    typer.echo(f"{done} objects applied")


@app.command("scrape-config")
def scrape_config(
    data: _Data = None,
    discovery: Annotated[
        str,
        typer.Option(
            "--discovery", metavar="http|kubernetes", help="kubernetes: Prometheus must have it built in."
        ),
    ] = "http",
) -> None:
    """Print a Prometheus configuration that discovers and scrapes the served cluster.

    Example: fairway monitoring scrape-config > prometheus.yml

    It follows the cluster's ServiceMonitors and PodMonitors, as the Prometheus Operator would.
    """
    import yaml

    from fairway.cli.prometheusbeside import scrape_configuration
    from fairway.cli.serverclient import folder
    from fairway.errors import UserError

    if discovery not in ("http", "kubernetes"):
        raise UserError(f"--discovery: expected http or kubernetes, not {discovery!r}")
    config = scrape_configuration(folder(data), discovery)
    typer.echo(yaml.safe_dump(config, sort_keys=False, width=110), nl=False)


def _chosen(only: str) -> Iterator[Obj]:
    """Raises: UserError for what is no part."""
    from fairway.errors import UserError
    from fairway.telemetry.installing.bundle import objects, parts

    wanted = [part.strip() for part in only.split(",") if part.strip()]
    for part in wanted:
        if part not in parts():
            raise UserError(f"--only: {part!r} is no part; expected some of {', '.join(parts())}")
    return objects(wanted)


def _path(obj: Obj) -> str:
    """Where an object is served."""
    from fairway.kube.kinds import BY_GROUP_KIND
    from fairway.kube.objects import gk_of
    from fairway.kube.published import kinds

    gk, version = gk_of(obj), str(obj["apiVersion"])
    own = BY_GROUP_KIND.get(gk)
    plural, namespaced = (own.plural, own.namespaced) if own else (kinds()[gk].plural, kinds()[gk].namespaced)
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = f"/namespaces/{obj['metadata']['namespace']}" if namespaced else ""
    return f"{root}{place}/{plural}/{obj['metadata']['name']}"
