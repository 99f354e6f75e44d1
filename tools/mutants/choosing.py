"""Which changes are tried, and which tests run the line of a change?

Test functions are known by their coverage contexts (`test_module.test_function`), their files by the modules' names,
which are unique in this suite. Those that touch the least come first: they say most about the line.
"""

from __future__ import annotations

import random
import sqlite3
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tools.mutants.changes import Change, changes_of

# Seconds of tests a change is tried against, by what they took when their lines were recorded.
_BUDGET_S = 60.0
_SHORTEST_S = 0.01


def sample(package: Path, room: str, seed: str, count: int) -> list[Change]:
    """`count` changes of a room, every possible one as likely as any other; fewer where there are fewer."""
    found = [
        change
        for file in sorted((package / room).rglob("*.py"))
        for change in changes_of(file.relative_to(package).as_posix(), file.read_text(encoding="utf-8"))
    ]
    return random.Random(f"{seed}/{room}").sample(found, min(count, len(found)))


@dataclass(slots=True)
class Coverage:
    """Which test functions ran which lines, and how long each took: all its cases together, and each of them."""

    by_line: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    by_file: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    breadth: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    cases: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    unrecorded: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By file: its functions that ran, but under no context: coverage does not see through Hypothesis's wrapper."""

    def tests_of(self, change: Change) -> list[str]:
        """Node ids within the budget of time: those that ran the line, properties beside them, who else may notice;
        of each the narrowest first. Empty: no test runs the line."""
        ran: set[str] = set()
        for line in range(change.line, change.last + 1):
            ran |= self.by_line.get((change.path, line), set())
        names = ran
        if (
            "" in ran
        ):  # run at import, be it within a test, or by a property: whoever uses the module may notice
            names = names | self.by_file.get(change.path, set())
        beside = {other for name in names for other in self.unrecorded.get(_file_of(name), ())}
        names = names | beside
        chosen, left = [], _BUDGET_S
        for name in sorted(names - {""}, key=lambda n: (n not in ran, n not in beside, self.breadth[n], n)):
            for test, cost in self._affordable(name, left):
                chosen.append(test)
                left -= cost
        return chosen

    def _affordable(self, name: str, left: float) -> list[tuple[str, float]]:
        """A function's node id, or those of its quickest cases where all of them together take too long."""
        together = self.seconds.get(name, _SHORTEST_S)
        if together <= left:
            return [(name, together)]
        found = []
        for case, cost in sorted(self.cases[name].items(), key=lambda c: (c[1], c[0])):
            left -= cost
            if left < 0:
                break
            found.append((f"{name}[{case}]", cost))
        return found


def coverage_of(data: Path, times: list[Path], tests: Path) -> Coverage:
    """Reads coverage's database and pytest's JUnit reports."""
    files = {file.stem: file for file in tests.rglob("test_*.py")}
    found = Coverage()
    for case in (case for file in times for case in ElementTree.parse(file).iter("testcase")):
        function, _, parameters = case.get("name", "").partition("[")
        name = _node_id(f"{case.get('classname', '')}.{function}", files)
        if name:
            took = float(case.get("time") or 0)
            found.seconds[name] = found.seconds.get(name, 0.0) + took
            if parameters:
                found.cases[name][parameters.removesuffix("]")] = took
    with sqlite3.connect(data) as database:
        contexts = {
            row: _node_id(name, files) for row, name in database.execute("select id, context from context")
        }
        paths = {
            row: path.partition("/fairway/")[2] for row, path in database.execute("select id, path from file")
        }
        for file, context, bits in database.execute("select file_id, context_id, numbits from line_bits"):
            _add(found, paths[file], contexts[context], bits)
    _note_unrecorded(found)
    return found


def _note_unrecorded(found: Coverage) -> None:
    for name in found.seconds:
        if name not in found.breadth:
            found.unrecorded[_file_of(name)].add(name)


def _file_of(name: str) -> str:
    return name.partition("::")[0]


def _add(found: Coverage, path: str, test: str, bits: bytes) -> None:
    if test:
        found.by_file[path].add(test)
    for index, byte in enumerate(bits):
        for bit in range(8):
            if byte >> bit & 1:
                found.by_line[path, index * 8 + bit].add(test)
                found.breadth[test] += 1


def _node_id(name: str, files: dict[str, Path]) -> str:
    """`tests.room.test_module.TestX.test_y` as pytest takes it; empty for what is no test."""
    parts = name.split(".")
    at = next((i for i, part in enumerate(parts) if part in files), None)
    return "" if at is None or at + 1 == len(parts) else "::".join([str(files[parts[at]]), *parts[at + 1 :]])
