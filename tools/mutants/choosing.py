"""Which changes are tried, and which tests run the line of a change?

Test functions are known by their coverage contexts (`test_module.test_function`), their files by the modules' names,
which are unique in this suite. Those that touch the least come first: they say most about the line.
"""

from __future__ import annotations

import random
import sqlite3
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path

from tools.mutants.changes import Change, changes_of
from tools.mutants.recording import EVERY, Recording

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

    paths: set[str]
    """The source files that are asked about."""
    by_line: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    by_file: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    breadth: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    cases: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    failed: set[str] = field(default_factory=set)
    """Functions of which a case failed when it was recorded."""
    edited: set[str] = field(default_factory=set)
    """Source files that are not what they were when recorded."""

    def tests_of(self, change: Change, budget_s: float = 60.0) -> tuple[tuple[str, ...], float]:
        """Node ids within the budget of time, and how long they took when recorded: those that ran the line, then who
        else may notice; of each the narrowest first. Empty: no test runs the line."""
        ran: set[str] = set()
        for line in range(change.line, change.last + 1):
            ran |= self.by_line.get((change.path, line), set())
        names = ran
        if "" in ran or (not ran and change.path in self.edited):
            # Run at import, or not there when the tests were recorded: whoever uses the module may notice.
            names = names | self.by_file.get(change.path, set())
        chosen, left = [], budget_s
        for name in sorted(names - self.failed - {""}, key=lambda n: (n not in ran, self.breadth[n], n)):
            for test, cost in self._affordable(name, left):
                chosen.append(test)
                left -= cost
        return tuple(chosen), budget_s - left

    def each_of(self, name: str | None) -> list[str]:
        """The test functions that a context of this name stands for."""
        if name is None:
            return []
        file, _, function = name.rpartition("::")
        return [n for n in self.seconds if n.startswith(f"{file}::")] if function == EVERY else [name]

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


def coverage_of(recordings: list[Recording], package: Path, tests: Path, paths: set[str]) -> Coverage:
    """Which test runs which line of these files. Recordings come newest first: what an older one says of a test file
    that a newer one ran is passed over."""
    files = {file.stem: file for file in tests.rglob("test_*.py")}
    found = Coverage(paths)
    seen: set[str] = set()
    for recording in recordings:
        own = {str(tests / name) for name in recording.tests} - seen
        node_id = partial(_node_id, files, own)
        _add_times(found, recording.times, node_id)
        _add_lines(found, recording, package, node_id)
        seen |= own
    return found


def _add_times(found: Coverage, times: Path, node_id: Callable[[str], str | None]) -> None:
    for case in ElementTree.parse(times).iter("testcase"):
        function, _, parameters = case.get("name", "").partition("[")
        name = node_id(f"{case.get('classname', '')}.{function}")
        if name:
            took = float(case.get("time") or 0)
            found.seconds[name] = found.seconds.get(name, 0.0) + took
            if parameters:
                found.cases[name][parameters.removesuffix("]")] = took
            if case.find("failure") is not None or case.find("error") is not None:
                found.failed.add(name)


def _add_lines(
    found: Coverage, recording: Recording, package: Path, node_id: Callable[[str], str | None]
) -> None:
    with sqlite3.connect(recording.data) as database:
        contexts = {
            row: found.each_of(node_id(name))
            for row, name in database.execute("select id, context from context")
        }
        paths = {
            row: path.rpartition(f"/{package.name}/")[2]
            for row, path in database.execute("select id, path from file")
        }
        rows = database.execute("select file_id, context_id, numbits from line_bits").fetchall()
    moved = {
        path: _moved(recording.source(path), package / path) for path in found.paths & set(paths.values())
    }
    found.edited |= {path for path, lines in moved.items() if lines is not None}
    for file, context, bits in rows:
        for test in contexts[context]:
            _add(found, paths[file], test, bits, moved.get(paths[file]))


def _moved(before: str, file: Path) -> dict[int, int] | None:
    """Where the lines of a file that was edited are now; None: where they were."""
    now = file.read_text(encoding="utf-8") if file.exists() else ""
    if now == before or not before:
        return None
    blocks = SequenceMatcher(
        None, before.splitlines(), now.splitlines(), autojunk=False
    ).get_matching_blocks()
    return {a + i + 1: b + i + 1 for a, b, size in blocks for i in range(size)}


def _add(found: Coverage, path: str, test: str, bits: bytes, moved: dict[int, int] | None) -> None:
    if test:
        found.by_file[path].add(test)
    found.breadth[test] += int.from_bytes(bits, "little").bit_count()
    if path in found.paths:
        for line in (
            8 * index + bit for index, byte in enumerate(bits) if byte for bit in range(8) if byte >> bit & 1
        ):
            found.by_line[path, line if moved is None else moved.get(line, 0)].add(test)


def _node_id(files: dict[str, Path], own: set[str], name: str) -> str | None:
    """`tests.room.test_module.TestX.test_y` as pytest takes it; empty for what is no test; None: of other files."""
    parts = name.split(".")
    at = next((i for i, part in enumerate(parts) if part in files), None)
    if at is None or at + 1 == len(parts):
        return ""
    file = str(files[parts[at]])
    return "::".join([file, *parts[at + 1 :]]) if file in own else None
