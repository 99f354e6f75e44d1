"""`fairway verify kubectl`: does the server answer kubectl as a real cluster did?"""

from __future__ import annotations

from pathlib import Path

import typer


def kubectl(file: Path, verbose: bool, output: str) -> int:
    """Play a recorded session and print how many commands agree; the exit code: 0 all of them, 1 not all.

    Raises: InvalidInput for a file that is no recording; UserError without kubectl; WorldError.
    """
    from fairway.cli.output import check_output, print_json
    from fairway.conformance.kubectl.playing import verify_session

    check_output(output)
    result = verify_session(file)
    if output == "json":
        print_json(result.as_json())
    else:
        for difference in result.differences if verbose else ():
            typer.echo(difference.text())
        typer.echo(f"agree {result.agreed} of {result.total}")
    return 0 if result.agreed == result.total else 1
