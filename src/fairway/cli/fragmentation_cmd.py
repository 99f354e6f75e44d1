"""`fairway fragmentation`: which free GPUs can nobody use, and why?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairway.cli.onground import On, path_on

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def fragmentation(
    ground: Annotated[
        Path | None,
        typer.Argument(
            metavar="[GROUND]",
            help="A scenario, a run, a dump (kubectl get nodes,pods,ns -A -o json), a data folder, a kubeconfig.",
            show_default=False,
        ),
    ] = None,
    on: On = None,
    shape: Annotated[
        str | None,
        typer.Option(
            metavar="RESOURCES",
            help="Ask about this instead of the pods that wait, such as cpu=8,memory=64Gi,nvidia.com/gpu=1.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="When: 8h since the start, or an RFC 3339 time. Default: the end.",
            show_default=False,
        ),
    ] = None,
    all_nodes: Annotated[bool, typer.Option("--all-nodes", help="List every node.")] = False,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Of a scenario: skip objects that will not do.")
    ] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Every node's GPUs: allocated by whom, free, and what of the free ones no waiting pod can use, and why.

    Without pods that wait for a GPU, the shapes of the GPU pods that are there are asked about.

    Exits 1 when pods wait (or a shape was given) and none of them fits anywhere now.

    Example: fairway fragmentation cluster.json --shape cpu=8,memory=64Gi,nvidia.com/gpu=1
    """
    from fairway.cli import slurmanswers
    from fairway.cli.output import check_output, print_json
    from fairway.cli.screen import print_lines
    from fairway.ground import open_ground
    from fairway.results.fragmentation import PRESENT, cluster_gpus, pod_asking
    from fairway.results.fragmentationtext import fragmentation_json, fragmentation_lines

    check_output(output)
    path = path_on(ground, on)
    site = slurmanswers.slurm_on(path)
    if site is not None:
        slurmanswers.fragmentation(site, at, output)
        return
    moment = open_ground(path, lenient=lenient).at(at)
    store = moment.store
    for note in moment.notes:
        typer.echo(f"fairway: {note}", err=True)
    asked = None if shape is None else pod_asking(store.accounts, _resources(shape))
    found = cluster_gpus(store, asked=asked)
    if output == "json":
        print_json(fragmentation_json(found))
    else:
        print_lines(lambda width: fragmentation_lines(found, width, all_nodes=all_nodes))
    if found.demand != PRESENT and found.shapes and not any(s.fits.count for s in found.shapes):
        raise typer.Exit(1)


def _resources(text: str) -> dict[str, str]:
    """`cpu=8,memory=64Gi,nvidia.com/gpu=1` as a map.

    Raises: UserError.
    """
    from fairway.errors import UserError
    from fairway.kube.quantity import QuantityError
    from fairway.kube.resources import amount, is_extended

    found: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = (x.strip() for x in part.partition("="))
        try:
            if not equals or not name:
                raise ValueError("expected NAME=QUANTITY, such as cpu=8 or nvidia.com/gpu=1")
            asked = amount(name, value)
            if asked <= 0:
                raise ValueError("expected more than 0")
            if is_extended(name) and not value.isdigit():
                raise ValueError("expected a whole number: devices cannot be divided")
        except (ValueError, QuantityError) as wrong:
            raise UserError(f"--shape {part!r}: {wrong}") from None
        found[name] = value
    if not found:
        raise UserError("--shape: expected resources, such as cpu=8,memory=64Gi,nvidia.com/gpu=1")
    return found
