"""The tool that asks whether tests notice wrong code, on small code made here."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from dataclasses import astuple
from pathlib import Path

from tools.mutants.__main__ import ACCEPTED, PACKAGE
from tools.mutants.changes import Change, changed, changes_of
from tools.mutants.choosing import coverage_of, sample
from tools.mutants.recording import record, recordings
from tools.mutants.trying import BROKEN, NOTICED, SURVIVED, UNTESTED, is_in_kernels

CODE = '''"""Text with a < b, which is no code."""

from __future__ import annotations

LIMIT = 3


def share(part: int, whole: int, extra: dict[str, int] | None = None) -> dict[str, int]:
    if whole <= 0 or part < 0:
        raise ValueError(f"{part} of {whole + 1}")
    held = {**(extra or {}), "share": part * 100 // whole}
    held["limit"] = min(LIMIT, part)
    for name in sorted(held):
        if not name:
            continue
        assert held[name] >= 0
    return held
'''


def found(text: str = CODE) -> set[tuple[str, str]]:
    return {(change.before, change.after.strip("()")) for change in changes_of("m.py", text)}


def test_boundaries_conditions_numbers_and_writes_are_changed() -> None:
    changes = found()
    assert {
        ("whole <= 0", "whole < 0"),
        ("whole <= 0", "whole > 0"),
        ("3", "4"),
        ('held["limit"] = min(LIMIT, part)', "pass"),
        ("min(LIMIT, part)", "max(LIMIT, part"),
        ("sorted(held)", "list(held"),
        ("continue", "break"),
        ("not name", "name"),
        ("return held", "return None"),
    } <= changes
    assert any("'share'" in after and "**" not in after for _, after in changes)


def test_messages_types_and_assertions_are_left_alone() -> None:
    befores = {before for before, _ in found()}
    assert not any("a < b" in b or "whole + 1" in b or "held[name] >= 0" in b for b in befores)
    assert "dict[str, int] | None" not in befores
    assert {before for before, _ in found("a = f(g(x=True), strict=True)")} == {"True"}
    assert not found("a = zip(b, c, strict=True)")


def test_every_change_of_our_own_sources_can_be_parsed() -> None:
    package = Path(__file__).parents[1] / "src/fairway"
    files = sorted((package / "queueing").rglob("*.py"))
    assert files
    for file in files:
        text = file.read_text(encoding="utf-8")
        for change in changes_of(file.name, text)[::17]:
            other = changed(text, change)
            ast.parse(other)
            assert other != text


def test_what_is_accepted_as_the_same_is_a_change_there_is() -> None:
    """As the tool writes it, brackets included; else it would be tried all the same."""
    entries = tomllib.loads(ACCEPTED.read_text(encoding="utf-8"))["same"]
    for file in sorted({entry["file"] for entry in entries}):
        there = {(c.before, c.after) for c in changes_of(file, (PACKAGE / file).read_text(encoding="utf-8"))}
        there = {tuple(" ".join(text.split()) for text in pair) for pair in there}
        for entry in entries:
            if entry["file"] == file:
                assert (entry["before"], entry["after"]) in there, entry


def test_a_seed_draws_the_same_changes_again_and_another_others() -> None:
    package = Path(__file__).parents[1] / "src/fairway"
    first = sample(package, "metering", "a", 10)
    assert first == sample(package, "metering", "a", 10) != sample(package, "metering", "b", 10)
    assert len(set(first)) == 10


def small_project(root: Path, modules: dict[str, str], tests: dict[str, str]) -> tuple[Path, Path]:
    """A package and its tests; no change of it can reach this process."""
    package = root / "src/small"
    for folder, files in ((package, {"__init__.py": "", **modules}), (root / "tests", tests)):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return package, root / "tests"


def changed_to(package: Path, path: str, before: str, after: str) -> Change:
    text = (package / path).read_text()
    start, line = text.index(before), text[: text.index(before)].count("\n") + 1
    return Change(path, line, line, start, start + len(before), before, after)


NUMBERS = """
from small.numbers import double, half, twice


def test_wide():
    assert double(1) == 2 and half(4) == 2


def test_double():
    assert double(2) == 4
"""
PROPERTY = """
from hypothesis import given, strategies
from small.numbers import half


@given(strategies.integers())
def test_half(n):
    assert half(2 * n) == n


def test_wrong():
    assert half(3) == 2
"""


def test_what_ran_a_line_is_recorded_and_found_again_after_an_edit(tmp_path: Path) -> None:
    numbers = "def double(n):\n    return n + n\n\n\ndef half(n):\n    return n // 2\n"
    modules = {"numbers.py": numbers + "\n\ntwice = double\n"}
    package, tests = small_project(
        tmp_path, modules, {"a/test_numbers.py": NUMBERS, "b/test_half.py": PROPERTY, "b/test_none.py": ""}
    )
    data = tmp_path / "data"
    record(data, package, tests, workers=2)

    def told(line: int) -> list[str]:
        known = coverage_of(recordings(data), package, tests, {"numbers.py"})
        names, _ = known.tests_of(Change("numbers.py", line, line, 0, 0, "", ""))
        return [name.removeprefix(f"{tests}/") for name in names]

    wide, property_ = "a/test_numbers.py::test_wide", "b/test_half.py::test_half"
    assert told(2) == ["a/test_numbers.py::test_double", wide]
    assert set(told(6)) == {wide, property_}, (
        "a property has its context; who failed without a change can notice none"
    )
    assert set(told(9)) == {"a/test_numbers.py::test_double", wide, property_}, (
        "run at import: all who use it"
    )
    assert told(30) == []

    (package / "numbers.py").write_text(
        "SPARE = 1\n\n\n" + modules["numbers.py"].replace("n // 2", "int(n / 2)")
    )
    assert told(5) == ["a/test_numbers.py::test_double", wide], "where the line is now"
    assert len(told(9)) == 3, "the line is new: all who use the file"

    before = {file.name: file.stat().st_mtime_ns for file in data.glob("*.json")}
    (tests / "b/test_none.py").write_text(
        "from small.numbers import half\n\ndef test_new():\n    assert half(8) == 4\n"
    )
    record(data, package, tests, workers=1)
    after = {file.name: file.stat().st_mtime_ns for file in data.glob("*.json")}
    assert len(after) == 3 and before.items() < after.items(), "the changed file alone was run"
    assert "b/test_none.py::test_new" in told(9)


MADE_ONCE = """
import pytest
from small.numbers import half


@pytest.fixture(scope="module")
def made():
    return half(4)


def test_first(made):
    assert made


def test_second(made):
    assert made == 2


def test_alone():
    assert half(0) == 0
"""


def test_what_a_fixture_makes_for_a_whole_file_is_run_for_each_of_its_tests(tmp_path: Path) -> None:
    numbers = "def half(n):\n    if n:\n        return n // 2\n    return 0\n"
    package, tests = small_project(tmp_path, {"numbers.py": numbers}, {"a/test_made.py": MADE_ONCE})
    record(tmp_path / "data", package, tests, workers=1)
    known = coverage_of(recordings(tmp_path / "data"), package, tests, {"numbers.py"})

    def told(line: int) -> list[str]:
        return [
            name.rpartition("_")[2]
            for name in known.tests_of(Change("numbers.py", line, line, 0, 0, "", ""))[0]
        ]

    assert set(told(3)) == {"first", "second", "alone"}
    assert told(4) == ["alone"]


TRIED = """
import os
import time
from pathlib import Path

from small.m import LIMIT, chosen, endless, written


def test_elsewhere(tmp_path, monkeypatch):
    os.chdir(tmp_path)


def test_limit():
    assert LIMIT == 3


def test_choice():
    assert chosen(1) == 1


def test_end():
    endless(False)


def test_size(tmp_path):
    with (tmp_path / "log").open("wb") as file:
        file.truncate(written(1))


def test_wrong_anyway():
    assert False
"""
MODULE = """
LIMIT = 3
SPARE = 1


def chosen(n):
    return n + 0


def endless(on):
    while on:
        pass


def written(n):
    return n
"""
ALL = "test_elsewhere test_limit test_choice test_end"
CASES = {
    "by its own test": ("LIMIT = 3", "LIMIT = 4", ALL, NOTICED, "test_limit"),
    "after a test that changed the working folder": ("n + 0", "n + 1", ALL, NOTICED, "test_choice"),
    "nobody": ("SPARE = 1", "SPARE = 2", ALL, SURVIVED, ""),
    "by a test that fails without it": ("SPARE = 1", "SPARE = 3", f"test_wrong_anyway {ALL}", SURVIVED, ""),
    "cannot be imported": ("SPARE = 1", "1 / 0", ALL, BROKEN, "status 77"),
    "its tests' file cannot": ("def chosen", "def choosing", ALL, BROKEN, "status 2"),
    "no test": ("SPARE = 1", "SPARE = 4", "", UNTESTED, ""),
    "its test is gone": ("SPARE = 1", "SPARE = 5", "test_gone", UNTESTED, ""),
    "by the size of what it writes": ("return n\n", "return n << 30\n", "test_size", NOTICED, "test_size"),
    "by who waits": ("while on", "while not on", ALL, NOTICED, ""),
}
DRIVER = """
import json, sys
from pathlib import Path
from tools.mutants import trying
from tools.mutants.__main__ import ACCEPTED, PACKAGE
from tools.mutants.changes import Change

trying._AT_LEAST_S = 3
root = Path(sys.argv[1])
jobs = [trying.Attempt(Change(*change), tuple(tests), 0) for change, tests in json.loads(sys.argv[2])]
for place, verdict in trying.attempts(jobs, root / "src/small", root, workers=2):
    print(place, verdict.outcome, verdict.by.rpartition("::")[2] or verdict.by)
"""


def test_a_change_is_noticed_survives_or_cannot_be_imported(tmp_path: Path) -> None:
    package, tests = small_project(tmp_path, {"m.py": MODULE}, {"test_small.py": TRIED})
    jobs = [
        (
            astuple(changed_to(package, "m.py", before, after)),
            [f"{tests}/test_small.py::{t}" for t in names.split()],
        )
        for before, after, names, _, _ in CASES.values()
    ]
    room = tmp_path / "room"
    room.mkdir()
    said = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path), json.dumps(jobs)],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "TMPDIR": str(room)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = {
        int(place): (outcome, by) for place, outcome, by in (line.split(" ", 2) for line in said.splitlines())
    }
    assert {name: found[place] for place, name in enumerate(CASES)} == {
        name: (outcome, by) for name, (_, _, _, outcome, by) in CASES.items()
    }
    assert (package / "m.py").read_text() == MODULE
    assert not list(room.iterdir())


def test_what_is_compiled_to_machine_code_is_run_interpreted(tmp_path: Path) -> None:
    package, _ = small_project(
        tmp_path,
        {
            "k.py": "from small.kernels import kernel\nfrom small.limits import LIMIT\n",
            "limits.py": "LIMIT = 3\n",
            "plain.py": "",
        },
        {},
    )
    kernels = {name for name in ("k", "limits", "plain") if is_in_kernels(f"small.{name}", package)}
    assert kernels == {"k", "limits"}
