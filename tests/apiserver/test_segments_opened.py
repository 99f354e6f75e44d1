"""A journal's file is filled once: opened again it keeps what was written; one that was cut short is filled anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairway.apiserver import segments


def test_a_file_is_filled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 64)
    monkeypatch.setattr(segments, "_FILL_BYTES", 16)
    path = tmp_path / "segment"
    os.close(segments._opened(path))
    assert path.read_bytes() == bytes(64) and oct(path.stat().st_mode & 0o777) == "0o600"
    path.write_bytes(b"x" * 64)
    os.close(segments._opened(path))
    assert path.read_bytes() == b"x" * 64
    path.write_bytes(b"x" * 63)
    os.close(segments._opened(path))
    assert path.read_bytes() == bytes(64)
