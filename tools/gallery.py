"""Makes docs/gallery.md and docs/pictures/ from the examples: `make gallery`. The same version gives the same bytes."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from fairway.cli.main import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINES = 34

# What is shown: title, said about it, the command, and the chart drawn of the run beside it.
SHOWN = (
    (
        "Two teams, one fleet",
        "Who waits, and what does a job of higher priority cost the other team?",
        ["simulate", "examples/01-two-teams"],
        "timeline",
    ),
    (
        "Two placement policies at 130 % load",
        "Which free GPUs can nobody use?",
        ["simulate", "examples/06-load-130"],
        "fragmentation",
    ),
    (
        "Three teams, one cohort",
        "Who borrows when?",
        ["simulate", "examples/08-three-teams-cohort"],
        "allocation",
    ),
    ("Who owes what", "A day's bill, by team.", ["cost", "examples/10-showback", "--by", "team"], ""),
    ("Five seeds", "How much of it is luck?", ["simulate", "examples/01-two-teams", "--seeds", "5"], ""),
)


def gallery() -> Iterator[str]:
    yield "# Gallery\n\nMade from the examples by `make gallery`; nothing here is typed by hand.\n"
    for title, said, command, chart in SHOWN:
        yield f"\n## {title}\n\n{said}\n"
        lines = _printed(command).splitlines()
        cut = [*lines[:LINES], *(["…"] if len(lines) > LINES else [])]
        yield "\n```console\n$ fairway " + " ".join(command) + "\n" + "\n".join(cut) + "\n```\n"
        if chart:
            yield f"\n![{title}: {chart}](pictures/{_picture(command[1], chart)})\n"


def _printed(command: list[str]) -> str:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        main(command)
    return out.getvalue().rstrip()


def _picture(example: str, chart: str) -> str:
    name = f"{Path(example).name}-{chart}.svg"
    with tempfile.TemporaryDirectory() as folder:
        run, plots = Path(folder) / "run", Path(folder) / "plots"
        _printed(["simulate", example, "--out", str(run)])
        _printed(["report", str(run), "--plots", str(plots)])
        shutil.copy(plots / f"{chart}.svg", DOCS / "pictures" / name)
    return name


if __name__ == "__main__":
    (DOCS / "pictures").mkdir(exist_ok=True)
    (DOCS / "gallery.md").write_text("".join(gallery()), encoding="utf-8")
    sys.stdout.write("wrote docs/gallery.md\n")
