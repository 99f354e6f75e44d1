"""`fairway verify kubectl`, `verify api`: does the server answer as a real one did?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from fairway.conformance.kubectl.playing import Verification


def kubectl(file: Path, verbose: bool, output: str) -> int:
    """Play a recorded session and print how many commands agree; the exit code: 0 all of them, 1 not all.

    Raises: InvalidInput for a file that is no recording; UserError without kubectl; WorldError.
    """
    from fairway.cli.output import check_output
    from fairway.conformance.kubectl.playing import verify_session

    check_output(output)
    result = verify_session(file)
    return _told(result, output, verbose=verbose)


def api(file: Path, output: str) -> int:
    """Send recorded requests and print what differs and how many agree; the exit code: 0 all of them, 1 not all.

    Raises: InvalidInput for a file that is no recording; WorldError.
    """
    from fairway.cli.output import check_output
    from fairway.conformance.api.requests import verify_requests

    check_output(output)
    return _told(verify_requests(file), output, verbose=True)


def _told(result: Verification, output: str, *, verbose: bool) -> int:
    from fairway.cli.output import print_json

    if output == "json":
        print_json(result.as_json())
    else:
        for difference in result.differences if verbose else ():
            typer.echo(difference.text())
        typer.echo(f"agree {result.agreed} of {result.total}")
    return 0 if result.agreed == result.total else 1
