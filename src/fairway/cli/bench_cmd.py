"""`fairway bench`: figures beside stated references."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="Which; all without one.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes: a minute instead of ten.")] = False,
    setup: Annotated[
        str, typer.Option("--setup", metavar="NAME", help="Only this setup, of a benchmark with several.")
    ] = "",
    list_only: Annotated[bool, typer.Option("--list", help="Only list the names.")] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Measure, and print `name figure unit ratio reference` a line: a ratio above 1 beats the reference.

    Example: fairway bench scheduling
    """
    from fairway.bench import BENCHMARKS, run_benchmarks
    from fairway.cli.output import check_output, print_json, table
    from fairway.compiled.loading import state
    from fairway.errors import UserError

    check_output(output)
    if list_only:
        for name, benchmark in BENCHMARKS.items():
            typer.echo(f"{name:<12}  {benchmark.summary}")
        return
    unknown = [n for n in names or () if n not in BENCHMARKS]
    if unknown:
        raise UserError(f"no benchmark {unknown[0]!r}: expected one of {', '.join(BENCHMARKS)}")
    if setup:
        _check_setup(names or [], setup)
    typer.echo(f"fairway: {state()}", err=True)
    rows = []
    for row in run_benchmarks(names or list(BENCHMARKS), quick=quick, setup=setup):
        rows.append(row)
        typer.echo(f"… {row.name}", err=True)
    if output == "json":
        print_json([row.as_json() for row in rows])
        return
    cells = [
        (r.name, f"{r.figure:,.6g}", r.unit, f"{r.ratio:.2f}" if r.ratio else "-", r.reference) for r in rows
    ]
    for line in table(("name", "figure", "unit", "ratio", "reference"), cells, right=(1, 3)):
        typer.echo(line)


def _check_setup(names: list[str], setup: str) -> None:
    """Raises: UserError, unless every benchmark named has this setup."""
    from fairway.bench import BENCHMARKS
    from fairway.errors import UserError

    having = [f"{name} ({', '.join(b.setups)})" for name, b in BENCHMARKS.items() if b.setups]
    if not names or any(not BENCHMARKS[name].setups for name in names):
        raise UserError(f"--setup is for one benchmark by name: {'; '.join(having)}")
    for name in names:
        if setup not in BENCHMARKS[name].setups:
            expected = ", ".join(BENCHMARKS[name].setups)
            raise UserError(f"benchmark {name!r} has no setup {setup!r}: expected one of {expected}")
