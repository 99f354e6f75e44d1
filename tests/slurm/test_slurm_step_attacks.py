"""Numbers and files of a step that somebody made up: each is read, or refused in words; none raises or hangs."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from fairway.slurm.commands.multiprog import read_programs
from fairway.slurm.commands.steplaunch import _bound, _dealt

NINES = "9" * 5000


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ("map_gpu:ff", 0b0001),
        ("map_gpu:1*²", 0b0010),
        (f"map_gpu:1*{NINES}", 0b0010),
        ("map_gpu:0x2", 0b0100),
        (f"map_gpu:{NINES}", 0b0001),
        (f"single:{NINES}", 0b0001),
        ("single:0", 0b0001),
        (f"per_task:{NINES}", 0),
        ("per_task:2", 0b0011),
        ("mask_gpu:0xa", 0b1010),
        ("mask_gpu:,,", 0b1111),
    ],
)
def test_devices_that_are_left(how: str, left: int) -> None:
    assert _bound(0b1111, how, 0) == left


@pytest.mark.parametrize(
    ("text", "size"),
    [("plane=4", 4), ("cyclic:block", 1), ("block", 0), (f"plane={NINES}", 0), ("plane=²", 0)],
)
def test_how_many_tasks_are_dealt_at_a_time(text: str, size: int) -> None:
    assert _dealt(text) == size


class _Refused(Exception):
    pass


class _Asker:
    """Where a command runs, and what it says."""

    def __init__(self, folder: Path) -> None:
        self.cwd, self.said = str(folder), list[str]()
        self.site = SimpleNamespace(real_path=lambda path: path)

    def error(self, text: str) -> None:
        self.said.append(text)

    def fail(self, text: str) -> NoReturn:
        self.said.append(text)
        raise _Refused(text)

    def quit(self, code: int) -> NoReturn:
        raise _Refused(str(code))


def programs(folder: Path, text: str, tasks: int | None = None) -> Any:
    (folder / "p.conf").write_text(text, encoding="utf-8")
    return read_programs(_Asker(folder), "p.conf", tasks)  # type: ignore[arg-type]


def test_each_task_has_its_program(tmp_path: Path) -> None:
    found = programs(tmp_path, "1-2 say %t %o\n* rest %t %o\n", 5)
    assert found == [
        ["rest", "0", "0"],
        ["say", "1", "0"],
        ["say", "2", "1"],
        ["rest", "3", "1"],
        ["rest", "4", "2"],
    ]


def test_a_hundred_thousand_others_take_no_longer_than_they_are(tmp_path: Path) -> None:
    assert len(programs(tmp_path, "99999 last\n* rest %o\n")) == 100_000


@pytest.mark.parametrize(
    "text",
    [
        "9999999 far\n* rest\n",
        "0-9999999 many\n",
        "".join(f"{n * 1000}-{n * 1000 + 999} a\n" for n in range(200)),
        "1-0 a\n",
        "x a\n",
        "0 'open\n",
        "0 a\n0 b\n",
        "\x00\n",
        "²  a\n",
    ],
)
def test_programs_that_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(_Refused):
        programs(tmp_path, text)


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / "p.conf")
    elif kind == "folder":
        (tmp_path / "p.conf").mkdir()
    asker = _Asker(tmp_path)
    with pytest.raises(_Refused):
        read_programs(asker, "p.conf", 1)  # type: ignore[arg-type]
    assert asker.said == ["Could not open multi_prog config file p.conf"]
