"""Which test runs which line? The suite is run folder by folder, each into files of its own; later, what changed since.

A recording is `NAME.coverage` (coverage's database, one context a test function), `NAME.xml` (pytest's times and
failures) and `NAME.json`: which test files it speaks for, and what the sources were. Sources are kept by their hash, so
that a line can be found again after an edit. Loaded by pytest (`-p`), this module names the contexts: coverage's own
way does not see through Hypothesis's wrapper.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest

_ROOT = Path(__file__).parents[2]
# Folders of tests that say nothing about one line: whole runs of the program.
_NOT_RECORDED = ("bench", "compiled", "examples")
# Compiled kernels leave no trace: the tests made for them run them interpreted.
_INTERPRETED = "scheduling"
# In a context's name, for a test function: every one of the file.
EVERY = "*"


@dataclass(frozen=True, slots=True)
class Recording:
    """One run. `tests`: the hash of each file it ran; `sources`: of each file of the package, by its path there."""

    data: Path
    tests: dict[str, str]
    sources: dict[str, str]

    @property
    def times(self) -> Path:
        return self.data.with_suffix(".xml")

    def source(self, path: str) -> str:
        """The text of a source file when this was recorded; empty: there was none."""
        file = self.data.parent / "sources" / self.sources.get(path, "none")
        return file.read_text(encoding="utf-8") if file.exists() else ""


def recordings(folder: Path) -> list[Recording]:
    """Those there are, the newest first."""
    files = sorted(folder.glob("*.json"), key=lambda file: (-file.stat().st_mtime_ns, file.name))
    found = ((file.with_suffix(".coverage"), json.loads(file.read_text(encoding="utf-8"))) for file in files)
    return [Recording(data, said["tests"], said["sources"]) for data, said in found if data.exists()]


def record(folder: Path, package: Path, tests: Path, *, workers: int, anew: bool = False) -> None:
    """Run the tests that no recording has as they are now: all of a folder where most are such, else those files."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {file: sha for recording in reversed(recordings(folder)) for file, sha in recording.tests.items()}
    jobs = []
    for room in sorted(f for f in tests.iterdir() if f.is_dir() and f.name not in _NOT_RECORDED):
        files = {file.relative_to(tests).as_posix(): _hash(file) for file in sorted(room.rglob("test_*.py"))}
        new = files if anew else {file: sha for file, sha in files.items() if known.get(file) != sha}
        if new:
            is_most = 2 * len(new) > len(files)
            digest = hashlib.sha256("".join(new.values()).encode()).hexdigest()[:8]
            jobs.append((room.name if is_most else f"{room.name}-{digest}", files if is_most else new))
    if not jobs:
        return
    count = sum(len(files) for _, files in jobs)
    sys.stderr.write(
        f"recording which line is run by which test: {count} files; all of them take some twenty minutes\n"
    )
    sources = _keep_sources(folder / "sources", package)
    with ThreadPoolExecutor(workers) as pool:
        for done in [
            pool.submit(_run, folder / name, files, sources, package, tests) for name, files in jobs
        ]:
            done.result()


def _keep_sources(kept: Path, package: Path) -> dict[str, str]:
    kept.mkdir(exist_ok=True)
    sources = {file.relative_to(package).as_posix(): file for file in sorted(package.rglob("*.py"))}
    hashes = {path: _hash(file) for path, file in sources.items()}
    for path, sha in hashes.items():
        if not (kept / sha).exists():
            (kept / sha).write_bytes(sources[path].read_bytes())
    return hashes


def _run(name: Path, files: dict[str, str], sources: dict[str, str], package: Path, tests: Path) -> None:
    said = name.with_suffix(".json")
    said.unlink(missing_ok=True)
    room = name.name.partition("-")[0]
    ours = os.pathsep.join((str(package.parent), str(_ROOT)))
    environment = {**os.environ, "FAIRWAY_COMPILED": "0", "PYTHONPATH": ours, "COLUMNS": "100"}
    if room == _INTERPRETED:
        environment["NUMBA_DISABLE_JIT"] = "1"
    command = [
        sys.executable,
        "-m",
        "coverage",
        "run",
        f"--source={package.name}",
        f"--data-file={name}.coverage",
    ]
    command += [
        "-m",
        "pytest",
        "-q",
        "-p",
        __name__,
        f"--junitxml={name}.xml",
        *(str(tests / file) for file in files),
    ]
    subprocess.run(command, cwd=tests.parent, env=environment, check=False, stdout=subprocess.DEVNULL)
    said.write_text(json.dumps({"tests": files, "sources": sources}), encoding="utf-8")


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _switch(name: str) -> None:
    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context(name)


def _context(nodeid: str) -> str:
    file, _, function = nodeid.partition("::")
    return file.removesuffix(".py").replace("/", ".") + "." + function.partition("[")[0].replace("::", ".")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What runs from here on, runs for this test: its fixtures, too."""
    _switch(_context(item.nodeid))
    result = yield
    _switch("")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """But what is made once for all tests of a file runs for each of them."""
    if fixturedef.scope != "module":
        return (yield)
    item = request._pyfuncitem
    _switch(_context(f"{request.node.nodeid}::{EVERY}"))
    try:
        return (yield)
    finally:
        _switch(_context(item.nodeid))
