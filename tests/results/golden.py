"""Texts that are compared with a file; FAIRWAY_UPDATE_GOLDENS=1 writes the file instead."""

from __future__ import annotations

import os
from pathlib import Path

_HERE = Path(__file__).parent / "goldens"


def check_golden(name: str, text: str) -> None:
    path = _HERE / name
    if os.environ.get("FAIRWAY_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path} is missing: run the test with FAIRWAY_UPDATE_GOLDENS=1, then read it"
    assert text == path.read_text(encoding="utf-8"), (
        f"differs from {path}; FAIRWAY_UPDATE_GOLDENS=1 updates it"
    )
