"""Compiled code is used for the sources it was made from, and for no others."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairway.compiled import loading

Change = Callable[[Path], None]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    found = tmp_path / "package"
    (found / "room").mkdir(parents=True)
    (found / "__init__.py").write_text("")
    (found / "room" / "a.py").write_text("A = 1\n")
    return found


def edit(package: Path) -> None:
    (package / "room" / "a.py").write_text("A = 2\n")


def edit_and_backdate(package: Path) -> None:
    before = (package / "room" / "a.py").stat()
    edit(package)
    os.utime(package / "room" / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns - 1))


def touch(package: Path) -> None:
    os.utime(package / "room" / "a.py", ns=(1, 1))


def remove(package: Path) -> None:
    (package / "room" / "a.py").unlink()


def add(package: Path) -> None:
    (package / "room" / "b.py").write_text("")


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(lambda _: None, None, id="nothing changed"),
        pytest.param(touch, None, id="written again as it was"),
        pytest.param(add, None, id="a file nothing compiled knows"),
        pytest.param(edit, "room/a.py", id="edited"),
        pytest.param(edit_and_backdate, "room/a.py", id="edited, the same size, another time"),
        pytest.param(remove, "room/a.py", id="gone"),
    ],
)
def test_a_build_is_for_the_sources_it_was_made_from(package: Path, change: Change, want: str | None) -> None:
    sources = loading.sources_of(package)
    change(package)
    assert loading.first_difference(package, sources) == want


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python environment with nothing compiled in it."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not isinstance(f, loading.Compiled)])
    monkeypatch.delenv(loading.SWITCH, raising=False)
    return loading.build_directory()


def install(build: Path, sources: dict[str, list[object]]) -> None:
    build.mkdir(parents=True)
    modules = {"fairway.room.a": "build-1/fairway/room/a.so"}
    manifest = {"directory": "build-1", "modules": modules, "sources": sources}
    (build / loading.MANIFEST).write_text(json.dumps(manifest))


def test_a_fresh_build_is_found_before_the_sources(environment: Path) -> None:
    install(environment, loading.sources_of(loading.PACKAGE))
    loading.activate()
    assert loading.is_active() and "compiled modules from" in loading.state()
    finder = sys.meta_path[0]
    assert isinstance(finder, loading.Compiled)
    spec = finder.find_spec("fairway.room.a", None)
    assert spec is not None and spec.origin == str(environment / "build-1/fairway/room/a.so")
    assert finder.find_spec("fairway.room.b", None) is None
    loading.activate()
    assert sum(isinstance(f, loading.Compiled) for f in sys.meta_path) == 1


def test_the_switch_turns_it_off(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(environment, loading.sources_of(loading.PACKAGE))
    monkeypatch.setenv(loading.SWITCH, "0")
    loading.activate()
    assert not loading.is_active() and loading.state() == "pure Python: FAIRWAY_COMPILED=0"


def test_a_build_of_other_sources_is_left_alone(environment: Path) -> None:
    install(environment, {"errors.py": [1, 1, "none"]})
    loading.activate()
    assert not loading.is_active()
    assert "errors.py changed since" in loading.state()


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"modules": {}}'])
def test_without_a_readable_build_the_sources_run(environment: Path, text: str) -> None:
    if text:
        environment.mkdir(parents=True)
        (environment / loading.MANIFEST).write_text(text)
    loading.activate()
    assert not loading.is_active() and "nothing is compiled" in loading.state()
