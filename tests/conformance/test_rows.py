"""Recordings are files from outside: whatever is wrong with one is said, with its line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from fairway.conformance import rows
from fairway.conformance.rows import read_rows
from fairway.errors import InvalidInput


def shape(row: Any) -> tuple[str, str] | None:
    return None if isinstance(row, dict) else ("", "expected an object")


def test_plain_and_gzipped_files_are_the_same(tmp_path: Path) -> None:
    text = b'{"a": 1}\n\n{"a": 2}\n'
    plain, packed = tmp_path / "r.jsonl", tmp_path / "r.jsonl.gz"
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    assert list(read_rows(plain, shape)) == list(read_rows(packed, shape)) == [(1, {"a": 1}), (3, {"a": 2})]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("r.jsonl", b"{}\n[1]\n", "r.jsonl:2: expected an object"),
        ("r.jsonl", b"{}\n{\n", "r.jsonl:2: expected a JSON object"),
        ("r.jsonl", b"\xff\n", "r.jsonl:1: expected a JSON object"),
        ("r.jsonl.gz", b"{}\n", "cannot read the recording"),
        (
            "r.jsonl.gz",
            gzip.compress(b"{}", mtime=0)[:15],
            "cannot read the recording",
        ),
    ],
    ids=["an array", "cut off", "no UTF-8", "not gzipped", "gzip cut off"],
)
def test_what_is_no_recording(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        list(read_rows(tmp_path / name, shape))
    assert says in str(refused.value)


def test_a_file_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BYTES_MOST", 1 << 20)
    (tmp_path / "r.jsonl.gz").write_bytes(gzip.compress(b" " * (1 << 21)))
    with pytest.raises(InvalidInput) as refused:
        list(read_rows(tmp_path / "r.jsonl.gz", shape))
    assert "at most 1 MiB" in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        list(read_rows(tmp_path / "none.jsonl", shape))
    assert "No such file" in str(refused.value)
