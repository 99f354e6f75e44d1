"""Odd terminals: other encodings, narrow ones, readers that leave, homes that cannot be written, no colour."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairway.cli import progressline
from fairway.cli.progressline import ProgressLine
from fairway.kube.timestamps import SECOND_US
from fairway.twin.twin import Progress

EXAMPLE = str(Path(__file__).parents[2] / "examples/02-rollout-scarce-gpus")


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    code = "from fairway.cli.main import run; run()"
    return subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252", "utf-8"])
def test_an_encoding_that_lacks_characters(encoding: str) -> None:
    done = run("simulate", EXAMPLE, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert b"6 of 6 hold" in done.stdout


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_narrow_terminal_is_kept_within(width: int) -> None:
    done = run("simulate", EXAMPLE, COLUMNS=str(width), PYTHONIOENCODING="utf-8")
    assert max(len(line) for line in done.stdout.decode().splitlines()) <= max(width, 80)


def test_a_pipe_gets_no_colour_and_no_progress() -> None:
    done = run("simulate", EXAMPLE)
    assert b"\x1b" not in done.stdout + done.stderr


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "file")
    Path(nowhere).write_text("")
    assert run("simulate", EXAMPLE, HOME=nowhere, XDG_CACHE_HOME=nowhere).returncode == 0


def test_a_reader_that_leaves() -> None:
    code = "from fairway.cli.main import run; run()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "catalog", "prices"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


class Terminal:
    def __init__(self) -> None:
        self.said = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.said += text

    def flush(self) -> None:
        pass


@pytest.mark.parametrize(
    ("now_s", "speed_up", "wanted"),
    [(100, 10.0, "about 1m30s left"), (990, 10.0, ""), (500, 0.0, ""), (1000, 5.0, "")],
)
def test_the_progress_line_says_what_is_left(
    now_s: int, speed_up: float, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(progressline.sys, "stderr", terminal)
    ProgressLine(0)(Progress(now_s * SECOND_US, 1000 * SECOND_US, 7, speed_up))
    line = terminal.said.removeprefix("\r\x1b[K")
    assert len(line) <= 99
    assert re.findall(r"about \S+ left", line) == ([wanted] if wanted else [])
