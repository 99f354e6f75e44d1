"""`fairway verify kueue-table` and `kueue-scenarios`: does Fairway decide and act as Kueue does?"""

from __future__ import annotations

from pathlib import Path

import typer


def kueue_table(file: Path, verbose: bool) -> int:
    """Run a table and print how many rows agree; the exit code: 0 all of them, 1 not all.

    Raises: InvalidInput for a file that is no table.
    """
    from fairway.conformance.kueue_tables import verify_table

    result = verify_table(file)
    for difference in result.differences if verbose else ():
        typer.echo(difference.text())
    for row in result.inapplicable:
        typer.echo(row.text())
    typer.echo(f"agree {result.agreed} of {result.total}")
    return 0 if result.agreed == result.total else 1


def kueue_scenarios(file: Path, verbose: bool, output: str) -> int:
    """Play recorded scenarios and print how many agree; the exit code: 0 all of them, 1 not all.

    Raises: InvalidInput for a file that is no recording.
    """
    from fairway.cli.output import check_output, print_json
    from fairway.conformance.kueue_scenarios import verify_scenarios

    check_output(output)
    result = verify_scenarios(file)
    if output == "json":
        print_json(result.as_json())
    else:
        for difference in result.differences if verbose else ():
            typer.echo(difference.text())
        typer.echo(f"agree {result.agreed} of {result.total}")
    return 0 if result.agreed == result.total else 1
