"""Lines on a terminal, as wide as it is; in colour where there is one."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from fairway.cli.guardedstreams import unguarded

if TYPE_CHECKING:
    from fairway.results.textlayout import Line

# Where the output goes to a file or a pipe; and the widest that is still read with pleasure.
_DEFAULT_WIDTH, _MAX_WIDTH = 100, 140


def print_lines(make: Callable[[int], Sequence[Line]]) -> None:
    """Print what `make` returns for the width at hand. NO_COLOR is honoured."""
    from fairway.results.textlayout import as_text

    width = min(shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns, _MAX_WIDTH)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    typer.echo(as_text(make(width), colour=colour), unguarded(sys.stdout), nl=False)
