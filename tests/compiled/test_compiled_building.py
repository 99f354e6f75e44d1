"""A small package, compiled and imported; what is said when it cannot be."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairway.compiled import building, loading
from fairway.errors import BugError, WorldError

HAS_COMPILER = building.what_is_missing() is None

SHOW = """
import sys
sys.path.insert(0, sys.argv[1])
from fairway.compiled.loading import Compiled
sys.meta_path.insert(0, Compiled({sys.argv[2]: sys.argv[3], sys.argv[4]: sys.argv[5]}))
import small.sums as sums
print(sums.__file__.endswith(".py"), sums.total([1, 2, 3]))
"""


def small(tmp_path: Path, body: str) -> Path:
    package = tmp_path / "small"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sums.py").write_text(body)
    return package


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler, or no Python headers")
def test_a_package_compiles_and_imports(tmp_path: Path) -> None:
    package = small(tmp_path, "def total(xs: list[int]) -> int:\n    return sum(xs)\n")
    target = tmp_path / "env" / "build"
    assert building.build(package, ("*.py",), target) == 1
    manifest = json.loads((target / loading.MANIFEST).read_text())
    assert sorted(manifest["sources"]) == ["__init__.py", "sums.py"]
    paths = [x for name, file in sorted(manifest["modules"].items()) for x in (name, str(target / file))]
    shown = subprocess.run(
        [sys.executable, "-c", SHOW, str(tmp_path), *paths],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert shown.stdout == "False 6\n", shown.stderr
    broken = tmp_path / "again"
    broken.mkdir()
    with pytest.raises(BugError, match="compiling failed"):
        building.build(small(broken, 'def total() -> int:\n    return "x"\n'), ("*.py",), target)
    assert json.loads((target / loading.MANIFEST).read_text()) == manifest, "the build before stays"


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _name: "nosuchcc -pthread")
    with pytest.raises(WorldError, match="no C compiler: expected nosuchcc on the PATH"):
        building.build(small(tmp_path, ""), ("*.py",), tmp_path / "build")


def test_every_module_named_for_compiling_exists() -> None:
    for pattern in building.MODULES:
        assert list(loading.PACKAGE.glob(pattern)), pattern
    named = {
        file.relative_to(loading.PACKAGE).as_posix()
        for p in building.MODULES
        for file in loading.PACKAGE.glob(p)
    }
    assert named >= building.LEFT_OUT.keys()


def made(tmp_path: Path, text: str) -> Path:
    """What a compiler would leave: one module."""
    folder = tmp_path / text
    folder.mkdir()
    (folder / f"fairway_a{sysconfig.get_config_var('EXT_SUFFIX')}").write_text(text)
    return folder


def test_a_build_takes_over_whole_and_the_one_before_stays_for_who_still_loads_from_it(
    tmp_path: Path,
) -> None:
    target = tmp_path / "env" / "build"
    directories = []
    for text in ("first", "second", "third"):
        building._install(made(tmp_path, text), {}, target)
        manifest = loading.read_manifest(target)
        assert manifest is not None
        assert (target / manifest["modules"]["fairway_a"]).read_text() == text
        directories.append(manifest["directory"])
    assert {e.name for e in target.iterdir() if e.is_dir()} == set(directories[1:])


def test_what_a_killed_build_left_is_neither_used_nor_kept(tmp_path: Path) -> None:
    target = tmp_path / "build"
    (target / "build-half").mkdir(parents=True)
    assert loading.read_manifest(target) is None
    building._install(made(tmp_path, "whole"), {}, target)
    assert not (target / "build-half").exists()


def test_builds_at_once_leave_a_whole_one(tmp_path: Path) -> None:
    target = tmp_path / "build"
    folders = [made(tmp_path, str(i)) for i in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda folder: building._install(folder, {}, target), folders))
    manifest = loading.read_manifest(target)
    assert manifest is not None and (target / manifest["modules"]["fairway_a"]).exists()
