"""Does a test notice one change? One process imports what is not ours, once, and forks a child for each change.

The child reads the changed module from memory, runs the tests of its line and says by its exit status what became of
it. It leads a session of its own, so that all it started goes with it when its time is up. A change after which the
module, or a test's own file, cannot be imported is not counted: no test is needed to notice that.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.machinery import SourceFileLoader
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

import pytest

from tools.mutants.changes import Change, changed

NOTICED, SURVIVED, UNTESTED, BROKEN = "noticed", "survived", "untested", "broken"
# A change that makes a loop endless is noticed by whoever waits: twice the processor time that the tests took, and
# some; and, for a loop that sleeps, so many times as long by the clock (others may be busy beside it).
_TIMES_AS_LONG, _AT_LEAST_S, _WAITS = 2, 20, 20
# What a loop that writes leaves in one file, before its test fails: it would fill the disk.
MOST_BYTES = 1 << 28
_NUMBERS = count()
_LOADED_FIRST = (
    *(
        "_pytest.assertion.rewrite",
        "hypothesis.strategies",
        "numpy",
        "numba",
        "yaml",
        "msgspec",
        "httpx",
        "jinja2",
    ),
    *(
        "asyncio",
        "concurrent.futures",
        "sqlite3",
        "ssl",
        "unittest.mock",
        "http.server",
        "xml.etree.ElementTree",
    ),
)
_QUIETLY = (
    *("-q", "-x", "--no-header", "--tb=no", "--assert=plain", "--hypothesis-seed=0"),
    *("-p", "no:cacheprovider", "-p", "no:faulthandler"),
)
_PASSED, _FAILED, _NONE_LEFT, _CANNOT_BE_IMPORTED, _STOPPED = 0, 1, 5, 77, 99
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a change; `by`: the test that noticed it."""

    change: Change
    outcome: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A change and the tests it is tried against, in this order (node ids; without brackets: every case), and how long
    they took without it."""

    change: Change
    tests: tuple[str, ...]
    seconds: float = 60.0

    @property
    def limit_s(self) -> int:
        """Processor time after which a test has noticed."""
        return int(_TIMES_AS_LONG * self.seconds) + _AT_LEAST_S


@dataclass(slots=True)
class _Child:
    place: int
    pid: int
    ends: float
    notes: Path


def attempts(
    jobs: Sequence[Attempt], package: Path, root: Path, workers: int = 1
) -> Iterator[tuple[int, Verdict]]:
    """The verdict of each attempt as it comes, with the attempt's place. A test that fails without the change as well
    has noticed nothing: the change is tried again without it."""
    _load_first()
    with TemporaryDirectory(prefix="fairway-", ignore_cleanup_errors=True) as scratch:
        os.environ.update(FAIRWAY_COMPILED="0", COLUMNS="100", HYPOTHESIS_STORAGE_DIRECTORY=scratch)
        honest: dict[str, bool] = {}
        waiting = list(enumerate(jobs))
        while waiting:
            again = []
            for place, verdict in _run_all(waiting, package, root, Path(scratch), workers):
                if verdict.outcome == NOTICED and verdict.by:
                    if verdict.by not in honest:
                        honest[verdict.by] = _passes_unchanged(verdict, package, root, Path(scratch))
                    if not honest[verdict.by]:
                        again.append((place, _without(jobs[place], honest)))
                        continue
                yield place, verdict
            waiting = again


def _load_first() -> None:
    for name in _LOADED_FIRST:
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def _without(job: Attempt, honest: dict[str, bool]) -> Attempt:
    return replace(
        job, tests=(*job.tests, *(f"!{test}" for test, kept in sorted(honest.items()) if not kept))
    )


def _passes_unchanged(verdict: Verdict, package: Path, root: Path, scratch: Path) -> bool:
    same = replace(verdict.change, after=verdict.change.before)
    [(_, found)] = _run_all([(0, Attempt(same, (verdict.by,)))], package, root, scratch, 1)
    return found.outcome != NOTICED


def _run_all(
    jobs: Iterable[tuple[int, Attempt]], package: Path, root: Path, scratch: Path, workers: int
) -> Iterator[tuple[int, Verdict]]:
    waiting, running = list(jobs)[::-1], list[_Child]()
    changes = {place: job.change for place, job in waiting}
    while waiting or running:
        while waiting and len(running) < workers:
            place, job = waiting.pop()
            if job.tests:
                running.append(_fork(place, job, package, root, scratch / f"{next(_NUMBERS)}"))
            else:
                yield place, Verdict(job.change, UNTESTED)
        time.sleep(_POLL_S)
        for child in list(running):
            code = _ended(child)
            if code is not None:
                running.remove(child)
                yield child.place, _verdict(changes[child.place], code, child.notes)


def _ended(child: _Child) -> int | None:
    """The exit status of a child that has ended, or whose time is up."""
    pid, status = os.waitpid(child.pid, os.WNOHANG)
    is_late = not pid and time.monotonic() > child.ends
    if not pid and not is_late:
        return None
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # and whatever it left running
    rmtree(_files_of(child.notes), ignore_errors=True)
    if is_late:
        status = os.waitpid(child.pid, 0)[1]
    return os.waitstatus_to_exitcode(status)


def _files_of(notes: Path) -> Path:
    """Where the tests of a child write. Sockets are made there, whose paths are short."""
    return notes.with_suffix(".d")


def _verdict(change: Change, code: int, notes: Path) -> Verdict:
    said = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    if code == _PASSED:
        return Verdict(change, SURVIVED)
    if code == _NONE_LEFT:
        return Verdict(change, UNTESTED)
    if code == _FAILED:
        return Verdict(change, NOTICED, said[0] if said else "")
    if code in (-signal.SIGKILL, -signal.SIGXCPU):
        return Verdict(change, NOTICED)
    return Verdict(change, BROKEN, f"status {code}")


def _fork(place: int, job: Attempt, package: Path, root: Path, notes: Path) -> _Child:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        code = _STOPPED
        try:
            code = _in_child(job, package, root, notes)
        finally:
            os._exit(code)
    return _Child(place, pid, time.monotonic() + _WAITS * job.limit_s, notes)


def _in_child(job: Attempt, package: Path, root: Path, notes: Path) -> int:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (job.limit_s, job.limit_s + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    os.chdir(root)
    sys.path[:0] = [str(package.parent), str(root)]
    os.environ["PYTHONPATH"] = str(package.parent)
    _read_from_memory(package, job.change)
    module = f"{package.name}." + job.change.path.removesuffix(".py").replace("/", ".").removesuffix(
        ".__init__"
    )
    if is_in_kernels(module, package):
        os.environ["NUMBA_DISABLE_JIT"] = "1"
        importlib.import_module("numba.core.config").DISABLE_JIT = 1
    try:
        importlib.import_module(module)
    except BaseException:  # whatever the changed module does at import
        return _CANNOT_BE_IMPORTED
    wanted = _Wanted(job.tests, notes)
    code = _NONE_LEFT
    # Most changes are noticed by the first tests: the others' files need not be collected.
    for files in (wanted.files[:1], wanted.files[1:4], wanted.files[4:]):
        if files:
            places = (f"--rootdir={root}", f"--basetemp={_files_of(notes)}")
            ended = int(pytest.main([*_QUIETLY, *places, *files], plugins=[wanted]))
            if ended not in (_PASSED, _NONE_LEFT):
                return ended
            code = min(code, ended)
    return code


def _read_from_memory(package: Path, change: Change) -> None:
    target = str(package / change.path)
    text = changed(Path(target).read_text(encoding="utf-8"), change)
    from_file = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> object:
        if self.path == target:
            return compile(text, target, "exec", dont_inherit=True)
        return from_file(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


def is_in_kernels(module: str, package: Path) -> bool:
    """Is it compiled to machine code, or does what is name it? Such code is kept by the source's time, which a change
    in memory leaves as it was."""
    kernels = [
        (
            f"{package.name}." + file.relative_to(package).as_posix().removesuffix(".py").replace("/", "."),
            text,
        )
        for file in sorted(package.rglob("*.py"))
        if f"{package.name}.kernels import" in (text := file.read_text(encoding="utf-8"))
    ]
    return any(module == name or f"{module} import" in text for name, text in kernels)


class _Wanted:
    """A plugin: of the files collected, the wanted tests alone, in the order wanted; notes the first that fails."""

    def __init__(self, tests: Sequence[str], notes: Path) -> None:
        self.files = list(
            dict.fromkeys(test.partition("::")[0] for test in tests if not test.startswith("!"))
        )
        self._order = {test: place for place, test in enumerate(tests)}
        self._notes = notes
        self._names: dict[str, str] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        placed = [(self._place(item), item) for item in items]
        items[:] = [item for place, item in sorted(placed, key=lambda p: p[0]) if place >= 0]

    def _place(self, item: pytest.Item) -> int:
        """Where the item stands among the tests wanted, -1: nowhere."""
        file = str(item.path)
        case = self._names[item.nodeid] = f"{file}::" + item.nodeid.partition("::")[2]
        if f"!{case}" in self._order:
            return -1
        places = (self._order.get(name) for name in (case, case.partition("[")[0], file))
        return next((place for place in places if place is not None), -1)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._notes.exists():
            self._notes.write_text(self._names[report.nodeid], encoding="utf-8")
