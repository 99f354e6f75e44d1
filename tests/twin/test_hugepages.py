"""Python's objects on large pages: what was written stays, what is freed goes back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairway.compiled import building, loading
from fairway.twin import hugepages

needs_compiler = pytest.mark.skipif(
    sys.platform != "linux" or building.what_is_missing() is not None,
    reason="large pages are asked of Linux only, by code that has to be compiled",
)

# Objects made before the switch, after it, freed, and made again in what came back; MiB held at each step.
STORY = """
import gc, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from fairway.compiled.loading import Compiled
sys.meta_path.insert(0, Compiled({"small.arenas": sys.argv[2]}))
from small.arenas import on_large_pages

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

def many(seed, n=400_000):
    return [(seed + i, str(seed + i)) for i in range(n)]

def is_whole(seed, made):
    return all(pair == (seed + i, str(seed + i)) for i, pair in enumerate(made))

before = many(0)
assert on_large_pages() is True
first, second = many(10**7), many(2 * 10**7)
full = held()
assert is_whole(0, before) and is_whole(10**7, first) and is_whole(2 * 10**7, second)
del before, first
gc.collect()
left = held()
third = many(3 * 10**7)
assert is_whole(2 * 10**7, second) and is_whole(3 * 10**7, third)
print(full, left, held())
"""


@needs_compiler
def test_objects_survive_and_what_is_freed_goes_back(tmp_path: Path) -> None:
    package = tmp_path / "small"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sums.py").write_text("def total(xs: list[int]) -> int:\n    return sum(xs)\n")
    (package / "arenas.c").write_text((loading.PACKAGE / "compiled" / "arenas.c").read_text())
    target = tmp_path / "env" / "build"
    building.build(package, ("*.py",), target)
    manifest = loading.read_manifest(target)
    assert manifest is not None and "arenas.c" in manifest["sources"]
    told = subprocess.run(
        [sys.executable, "-c", STORY, str(tmp_path), str(target / manifest["modules"]["small.arenas"])],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.returncode == 0, told.stderr
    full, left, again = map(int, told.stdout.split())
    assert left < full - 40, "two thirds of the objects are gone"
    assert again < full + 10, "what came back is used again"


def test_without_compiled_code_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fairway.compiled.arenas", None)
    hugepages.ask.cache_clear()
    assert hugepages.ask() is False
    hugepages.ask.cache_clear()
