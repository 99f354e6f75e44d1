"""What scripts of containers come to, against a shell: every short one of a few words."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product

import pytest

from fairway.twin.commands import CommandRun, understand

WORDS = ("true", "false", "exit 3", "exit", "set -e")
JOINTS = ("; ", "\n", " && ", " || ", " &&\n", "\n# false\n")
SCRIPTS = [
    *WORDS,
    *(a + j + b for a, b, j in product(WORDS, WORDS, JOINTS)),
    *(
        a + j + b + k + c
        for a, b, c, j, k in product(WORDS[:3], WORDS[:3], WORDS[:3], JOINTS[2:4], JOINTS[1:4])
    ),
]


@pytest.mark.skipif(shutil.which("dash") is None, reason="compares with dash: there is none here")
@pytest.mark.parametrize("flag", ["-c", "-ec"])
def test_scripts_end_as_a_shell_ends_them(flag: str) -> None:
    """All in one shell, each in a subshell of its own."""
    stops = "set -e\n" if "e" in flag else ""
    whole = "".join(f"(\n{stops}{script}\n)\necho $?\n" for script in SCRIPTS)
    done = subprocess.run(["dash"], input=whole, capture_output=True, text=True, check=True)
    wanted = [int(line) for line in done.stdout.split()]
    for script, want in zip(SCRIPTS, wanted, strict=True):
        assert understand(("sh", flag, script)) == CommandRun(0, want), script


def test_how_long_scripts_run() -> None:
    s = 1_000_000
    said = {
        "sleep 5; exit 1; sleep 9": CommandRun(5 * s, 1),
        "sleep 5 && sleep 1m || sleep 1h": CommandRun(65 * s, 0),
        "false && sleep 5; sleep 1.5": CommandRun(1_500_000, 0),
        "exec sleep 2; sleep 9": CommandRun(2 * s, 0),
        "sleep 1h 30m": CommandRun(5400 * s, 0),
        "sleep 5; sleep infinity; exit 1": CommandRun(None, 0),
        "sleep 1; python train.py; sleep 2": None,
        "sleep 1; exit 300": CommandRun(s, 300 & 0xFF),
        "while true; do date; sleep 5; done": CommandRun(None, 0),
        "": CommandRun(0, 0),
        "sleep": None,
        "sleep 1x": None,
        "echo 'a": None,
    }
    assert {script: understand(("bash", "-c", script)) for script in said} == said
