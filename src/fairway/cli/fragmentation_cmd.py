"""`fairway fragmentation`: which free GPUs can nobody use, and why?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fairway.cluster.store import Store

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_READ = (
    "Node",
    "Namespace",
    "Service",
    "ReplicationController",
    "ReplicaSet.apps",
    "StatefulSet.apps",
    "Pod",
)


@app.command()
def fragmentation(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="DIR|FILE",
            exists=True,
            help="Manifests, a dump (kubectl get nodes,pods,namespaces -A -o json), or a scenario, which is run.",
        ),
    ],
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
            help="Of a scenario: 8h since the start, or an RFC 3339 time. Default: the end.",
            show_default=False,
        ),
    ] = None,
    all_nodes: Annotated[bool, typer.Option("--all-nodes", help="List every node.")] = False,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Skip objects that will not do, and count them.")
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
    from fairway.cli.output import check_output, print_json
    from fairway.cli.screen import print_lines
    from fairway.results.fragmentation import PRESENT, cluster_gpus, pod_asking
    from fairway.results.fragmentationtext import fragmentation_json, fragmentation_lines

    check_output(output)
    store = _of_scenario(path, at, lenient)
    asked = None if shape is None else pod_asking(store.accounts, _resources(shape))
    found = cluster_gpus(store, asked=asked)
    if output == "json":
        print_json(fragmentation_json(found))
    else:
        print_lines(lambda width: fragmentation_lines(found, width, all_nodes=all_nodes))
    if found.demand != PRESENT and found.shapes and not any(s.fits.count for s in found.shapes):
        raise typer.Exit(1)


def _of_scenario(path: Path, at: str | None, lenient: bool) -> Store:
    """A scenario's cluster as it stands then; of anything else the objects as they are in the files."""
    from fairway.errors import UserError
    from fairway.scenario.loading import holds_scenario, load_scenario
    from fairway.scenario.running import run_until

    if not holds_scenario(path):
        if at is not None:
            raise UserError("--at goes with a scenario: manifests stand as they are")
        return _store(path, lenient)
    return run_until(load_scenario(path, lenient=lenient), at).store


def _store(path: Path, lenient: bool) -> Store:
    """The objects that matter to placement, as they are in the files."""
    from fairway.cluster.errors import ApiError
    from fairway.cluster.store import Store
    from fairway.errors import FieldProblem, InvalidInput
    from fairway.kube.manifest import read_path
    from fairway.kube.objects import gk_of, meta_of

    store = Store()
    problems = []
    skipped = 0
    for manifest in read_path(path, lenient=lenient):
        if manifest.broken is not None:
            skipped += 1
            continue
        gk = gk_of(manifest.obj)
        if gk not in _READ:
            continue
        try:
            if not meta_of(manifest.obj).get("name"):
                raise ValueError("metadata.name is required")
            store.load(_with_spec(manifest.obj))
        except (ApiError, ValueError, KeyError, TypeError, AttributeError) as wrong:
            subject = f"{gk} {meta_of(manifest.obj).get('name', '')}".strip()
            problems.append(FieldProblem(manifest.file, manifest.line, "", "", str(wrong), subject))
    if problems and not lenient:
        raise InvalidInput(tuple(problems))
    skipped += len(problems)
    if skipped:
        typer.echo(f"fairway: skipped {skipped} objects that will not do", err=True)
    return store


def _with_spec(obj: dict[str, object]) -> dict[str, object]:
    """Pods and nodes always have a spec to look into."""
    return obj if isinstance(obj.get("spec"), dict) else {**obj, "spec": {}}


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
