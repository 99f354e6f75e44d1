"""`fairway gpus`: why has a node no GPUs, or fewer than it should?"""

from __future__ import annotations

from typing import Annotated

import typer

from fairway.cli.onground import At, On

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def gpus(
    nodes: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE]…", help="Default: every node that has GPUs.")
    ] = None,
    on: On = None,
    at: At = None,
    every: Annotated[bool, typer.Option("--all", help="Also what is as it should be.")] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Check NVIDIA's stack on nodes from the machine up: what was expected, what is there, the command, the fix.

    Exits 1 when something is not as it should be.

    Example: fairway gpus --on examples/15-fifty-services --at 10m
    """
    from fairway.catalog.nodegpus import gpus_of_node
    from fairway.cli.onground import ground_on
    from fairway.cli.output import check_output, print_json
    from fairway.devices.checklist import checks
    from fairway.errors import UserError
    from fairway.kube.objects import meta_of

    check_output(output)
    store = ground_on(on).at(at).twin.store
    there = {meta_of(node)["name"]: node for node in store.objects("Node")}
    unknown = [name for name in nodes or () if name not in there]
    if unknown:
        raise UserError(
            f"no node {unknown[0]}: expected one of {', '.join(list(there)[:20]) or 'none: there are none'}"
        )
    chosen = nodes or [name for name, node in there.items() if gpus_of_node(node).count]
    found = {name: checks(store, there[name]) for name in chosen}
    if output == "json":
        print_json({name: [{**c._asdict(), "holds": c.holds} for c in done] for name, done in found.items()})
    for name, done in found.items() if output != "json" else ():
        wrong = [c for c in done if not c.holds]
        typer.echo(f"{name}: {len(done) - len(wrong)} of {len(done)} checks hold")
        for c in done if every else wrong:
            typer.echo(
                f"  {'ok ' if c.holds else 'NO '} {c.name}: {c.expected if c.holds else c.found}"[:100]
            )
            if not c.holds:
                typer.echo(f"      $ {c.command}")
                typer.echo(f"      {c.fix}"[:100])
    if any(not c.holds for done in found.values() for c in done):
        raise typer.Exit(1)
