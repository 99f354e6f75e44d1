"""What a cluster went through, as text: every write and every event, with what it changed.

A history is compared with the file that holds it; FAIRWAY_UPDATE_GOLDENS=1 writes the file instead. It says that
nothing else happens than did, in no other order, with no other side effect. Whether that is right is for whoever
reads the file when it changes, and for the tests beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fairway.cluster.changes import ADDED, DELETED, Change

# Every write changes them, whatever it is about.
_UNTOLD = ("resourceVersion", "uid", "creationTimestamp")


def told(change: Change, *, is_brief: bool = False) -> Iterator[str]:
    """A line for the object, and one for each field that was changed. `is_brief`: a digest of what is new."""
    key = change.key
    yield f"{change.type.lower()} {key.gk} {key.namespace + '/' if key.namespace else ''}{key.name}"
    if change.type == DELETED:
        return
    before = {} if change.type == ADDED or change.old is None else _fields(change.old)
    after = _fields(change.obj)
    if is_brief and not before:
        digest = hashlib.sha256(json.dumps(after, sort_keys=True).encode()).hexdigest()[:12]
        yield f"  {len(after)} fields, {digest}"
        return
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            yield f"  {path} = {after.get(path, 'gone')}"


def digests(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Of lines and who tells them: a line for each teller, which says that they were the same."""
    by_teller: dict[str, list[str]] = {}
    for teller, line in pairs:
        by_teller.setdefault(teller, []).append(line)
    return [
        f"{teller}: {len(lines)} lines, {hashlib.sha256('|'.join(lines).encode()).hexdigest()[:12]}"
        for teller, lines in sorted(by_teller.items())
    ]


def _fields(value: Any, path: str = "") -> dict[str, str]:
    """Each leaf by its path; owners by their kind and name, as uids say nothing."""
    if isinstance(value, dict) and value:
        found: dict[str, str] = {}
        for name, inner in value.items():
            if not (name in _UNTOLD and (path == "metadata" or "ownerReferences" in path)):
                found |= _fields(inner, f"{path}.{name}" if path else str(name))
        return found
    if isinstance(value, list) and value:
        found = {}
        for i, inner in enumerate(value):
            found |= _fields(inner, f"{path}[{i}]")
        return found
    return {path: json.dumps(value, ensure_ascii=False)}


def check_history(path: Path, lines: Iterable[str]) -> None:
    text = "\n".join(lines) + "\n"
    if os.environ.get("FAIRWAY_UPDATE_GOLDENS"):
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path} is missing: run the test with FAIRWAY_UPDATE_GOLDENS=1, then read it"
    want, got = path.read_text(encoding="utf-8").splitlines(), text.splitlines()
    for number, (old, new) in enumerate(zip(want, got, strict=False), 1):
        assert new == old, f"{path}:{number}: {new!r} instead of {old!r}"
    assert len(got) == len(want), f"{path} has {len(want)} lines, there are {len(got)}"
