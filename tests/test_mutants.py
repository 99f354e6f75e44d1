"""The tool that asks whether tests notice wrong code, on small code made here."""

from __future__ import annotations

import ast
import sqlite3
from pathlib import Path

import pytest
from tools.mutants.changes import Change, changed, changes_of
from tools.mutants.choosing import coverage_of, sample
from tools.mutants.trying import BROKEN, NOTICED, SURVIVED, UNTESTED, attempt

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


def test_a_seed_draws_the_same_changes_again_and_another_others() -> None:
    package = Path(__file__).parents[1] / "src/fairway"
    first = sample(package, "metering", "a", 10)
    assert first == sample(package, "metering", "a", 10) != sample(package, "metering", "b", 10)
    assert len(set(first)) == 10


def test_tests_of_a_line_come_narrowest_first(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    file = tests / "test_m.py"
    file.write_text("")
    times = tmp_path / "times.xml"
    times.write_text(
        '<testsuites><testsuite><testcase classname="tests.test_m" name="test_wide[1]" time="1.0"/>'
        '<testcase classname="tests.test_m" name="test_slow" time="600"/>'
        '<testcase classname="tests.test_m" name="test_under_hypothesis" time="0.5"/>'
        '<testcase classname="tests.test_m" name="test_many[b]" time="9"/>'
        '<testcase classname="tests.test_m" name="test_many[a.c]" time="20"/>'
        '<testcase classname="tests.test_m" name="test_many[all]" time="300"/></testsuite></testsuites>'
    )
    with sqlite3.connect(tmp_path / "data") as data:
        data.executescript(
            "create table context (id, context); create table file (id, path);"
            "create table line_bits (file_id, context_id, numbits);"
            "insert into context values (0, ''), (1, 'test_m.test_wide'), (2, 'tests.test_m.test_one'),"
            " (3, 'test_m.test_slow'), (4, 'test_m.test_many');"
            "insert into file values (1, '/x/src/fairway/room/m.py')"
        )
        for context, bits in ((0, b"\x02"), (1, b"\xf2"), (2, b"\x10"), (3, b"\x10"), (4, b"\x10\xff\xff")):
            data.execute("insert into line_bits values (1, ?, ?)", (context, bits))
    known = coverage_of(tmp_path / "data", [times], tests)
    change = Change("room/m.py", 4, 4, 0, 0, "", "")
    cases = [f"{file}::test_many[{case}]" for case in ("b", "a.c")]
    # Coverage knows no context of a property: it may run what its neighbours run.
    unseen = f"{file}::test_under_hypothesis"
    assert known.tests_of(change) == [f"{file}::test_one", f"{file}::test_wide", *cases, unseen]
    at_import = Change("room/m.py", 1, 1, 0, 0, "", "")
    assert set(known.tests_of(at_import)) == set(known.tests_of(change))
    assert known.tests_of(Change("room/m.py", 30, 30, 0, 0, "", "")) == []


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ("LIMIT = 3", "LIMIT = 4", NOTICED),
        ("SPARE = 1", "SPARE = 2", SURVIVED),
        ("SPARE = 1", "1 / 0", BROKEN),
    ],
)
def test_a_change_is_noticed_survives_or_cannot_be_imported(
    tmp_path: Path, before: str, after: str, outcome: str
) -> None:
    package = tmp_path / "src/fairway"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    text = "LIMIT = 3\nSPARE = 1\n"
    (package / "m.py").write_text(text)
    test = tmp_path / "test_small.py"
    test.write_text("from fairway.m import LIMIT\n\n\ndef test_limit():\n    assert LIMIT == 3\n")
    start = text.index(before)
    change = Change("m.py", 1, 1, start, start + len(before), before, after)
    verdict = attempt(change, package, [str(test)])
    assert verdict.outcome == outcome
    assert attempt(change, package, []).outcome == UNTESTED
    assert (package / "m.py").read_text() == text
