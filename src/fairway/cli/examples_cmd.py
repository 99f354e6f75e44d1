"""`fairway examples`: the numbered examples, listed and copied."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Scenarios that run in seconds, each with a README that says what to look at.\n\n"
    "Example: fairway examples copy 08 my-copy",
)

Output = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]


@app.command("list")
def listed(output: Output = "table") -> None:
    """What there is.

    Example: fairway examples list
    """
    from fairway.cli.output import check_output, print_json, print_table

    check_output(output)
    found = [(e.name, _title(e)) for e in _examples()]
    if output == "json":
        print_json([{"name": name, "title": title} for name, title in found])
    else:
        print_table(("NAME", "WHAT IT SHOWS"), found)


@app.command("copy")
def copy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, or the start of it.")],
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Where to; a new directory. Else its name.")
    ] = None,
) -> None:
    """Copy one, to run and to change.

    Example: fairway examples copy 01
    """
    from shutil import copytree

    from fairway.errors import UserError, WorldError

    found = [e for e in _examples() if e.name.startswith(name)]
    if len(found) != 1:
        known = ", ".join(e.name for e in found or _examples())
        raise UserError(f"{name}: expected {'one' if found else 'the start of one'} of {known}")
    target = directory if directory is not None else Path(found[0].name)
    if target.exists():
        raise UserError(f"{target}: is there already; expected the name of a new directory")
    try:
        copytree(found[0], target)
    except OSError as failed:
        raise WorldError(f"{target}: cannot be written: {failed.strerror or failed}") from failed
    typer.echo(f"fairway: copied to {target}; next: fairway simulate {target}", err=True)


def _examples() -> list[Path]:
    """The examples' directories: of the package, or of the checkout it is installed from."""
    package = Path(__file__).parents[1]
    folder = next(f for f in (package / "examples", package.parents[1] / "examples") if f.is_dir())
    return sorted(e for e in folder.iterdir() if (e / "README.md").exists())


def _title(example: Path) -> str:
    """The first line of its README."""
    return (example / "README.md").read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
