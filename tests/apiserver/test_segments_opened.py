"""A journal's file is filled once: opened again it keeps what was written; one that was cut short is filled anew."""

from __future__ import annotations

import os
import sys
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


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which files are open")
def test_a_new_files_folder_is_on_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a crash of the machine would lose the file's name, and with it the file."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 64)
    monkeypatch.setattr(segments, "_FILL_BYTES", 16)
    synced, fsync = list[str](), os.fsync

    def noted(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))
        fsync(file)

    monkeypatch.setattr(os, "fsync", noted)
    before = len(os.listdir("/proc/self/fd"))
    file = segments._opened(tmp_path / "segment")
    assert synced == [str(tmp_path / "segment"), str(tmp_path)]
    os.close(file)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(segments._opened(tmp_path / "segment"))
    assert len(synced) == 2, "one that is there has been"
