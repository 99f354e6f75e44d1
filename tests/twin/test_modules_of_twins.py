"""Every module of the room loads and says what it is for: also those that a run imports once it needs them."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest

import fairway.twin

FOLDER = Path(fairway.twin.__file__).parent
MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(fairway.twin.__path__, "fairway.twin.")
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_module_says_what_it_is_for(module: ModuleType) -> None:
    path = FOLDER.joinpath(*module.__name__.split(".")[2:])
    text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text))
    assert said and len(said.splitlines()[0]) > 10


def test_all_of_them_are_looked_at() -> None:
    assert len(MODULES) > 100 and "fairway.twin.rules.watching" in {m.__name__ for m in MODULES}
