"""Help: complete, with an example that can be copied, within 100 columns, and instant."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fairway.cli.main import COMMANDS, help_text, main


def test_the_list_names_every_command_within_100_columns() -> None:
    text = help_text()
    assert all(name in text for name in COMMANDS)
    assert max(len(line) for line in text.splitlines()) <= 100


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    out, _ = capsys.readouterr()
    assert max(len(line) for line in out.splitlines()) <= 100
    assert f"fairway {command}" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("fairway ")


def test_help_imports_nothing_heavy() -> None:
    heavy = "('numpy', 'numba', 'polars', 'yaml')"
    code = (
        "import sys; from fairway.cli.main import main; main(['--help']); "
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
