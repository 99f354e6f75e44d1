"""The examples can be found and copied without a checkout at hand, and shells complete commands."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fairway.cli.completion_cmd import SHELLS
from fairway.cli.main import COMMANDS, main

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_all_are_listed_with_what_they_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "list", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [e["name"] for e in found] == sorted(f.name for f in EXAMPLES.iterdir() if f.is_dir())
    assert all(e["title"] for e in found)


def test_a_copy_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "copy", "02", str(tmp_path / "mine")]) == 0
    assert main(["simulate", str(tmp_path / "mine")]) == 0
    assert main(["examples", "copy", "02", str(tmp_path / "mine")]) == 2
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["99", "0", "../02"])
def test_a_name_that_is_none(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "copy", name, str(tmp_path / "x")]) == 2
    assert f"{name}: expected " in capsys.readouterr().err


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert [c for c in COMMANDS if c not in text] == []


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        (["fairway", "simul"], "simulate"),
        (["fairway", "verify", "pla"], "placements"),
        (["fairway", "simulate", "--ht"], "--html"),
        (["fairway", "simulate", "dir", "--seeds", "3", "--ht"], "--html"),
    ],
)
def test_bash_completes(typed: list[str], wanted: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    asked = f'COMP_WORDS=({" ".join(typed)}); COMP_CWORD={len(typed) - 1}; _fairway; echo "${{COMPREPLY[@]}}"'
    script = capsys.readouterr().out + asked
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [wanted]


def test_a_shell_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "expected one of bash, zsh, fish" in capsys.readouterr().err
