"""Does a test notice one change? The sources are laid out once more, linked, with one file changed.

A change after which the module cannot be imported is not counted: no test is needed to notice that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.mutants.changes import Change, changed

NOTICED, SURVIVED, UNTESTED, BROKEN = "noticed", "survived", "untested", "broken"
# A change that makes a loop endless is noticed by whoever waits.
_TIMEOUT_S = 240
_FAILED = 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a change; `by`: the test that noticed it."""

    change: Change
    outcome: str
    by: str = ""


def attempt(change: Change, package: Path, tests: list[str]) -> Verdict:
    """Run the tests against the changed sources."""
    if not tests:
        return Verdict(change, UNTESTED)
    with TemporaryDirectory(prefix="fairway-mutant-") as scratch:
        _lay_out(package, Path(scratch), change)
        environment = {**os.environ, "PYTHONPATH": scratch, "FAIRWAY_COMPILED": "0", "COLUMNS": "100"}
        module = "fairway." + change.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        if _run([sys.executable, "-c", f"import {module}"], environment)[0] != 0:
            return Verdict(change, BROKEN)
        code, said = _run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                "--no-header",
                "--tb=no",
                "-p",
                "no:cacheprovider",
                *tests,
            ],
            environment,
        )
    if code == 0:
        return Verdict(change, SURVIVED)
    if code != _FAILED and code is not None:
        return Verdict(change, BROKEN, said.strip().splitlines()[-1] if said.strip() else "")
    failed = [line.split(" ")[1] for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return Verdict(change, NOTICED, failed[0] if failed else "time")


def _lay_out(package: Path, scratch: Path, change: Change) -> None:
    target = scratch / package.name
    # Bytecode comes along: the changed file is newer than its own, so that alone is compiled.
    shutil.copytree(package, target, copy_function=os.link)
    file = target / change.path
    text = file.read_text(encoding="utf-8")
    file.unlink()
    file.write_text(changed(text, change), encoding="utf-8")


def _run(command: list[str], environment: dict[str, str]) -> tuple[int | None, str]:
    """The exit status (None: it took too long) and what it said."""
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout
