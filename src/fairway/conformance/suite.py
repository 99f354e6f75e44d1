"""All recordings of a folder, replayed one after another.

The folder's `recordings.toml` names them: which file, which check replays it, and which engine in which version it was
made of. A check is one of `fairway verify`'s; its room is imported when it runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from fairway.conformance.verification import Verification
from fairway.errors import FieldProblem, InvalidInput

INDEX = "recordings.toml"

CHECKS: dict[str, str] = {
    "placements": "fairway.conformance.placements:verify_placements",
    "kueue-table": "fairway.conformance.kueue_tables:verify_table",
    "kueue-scenarios": "fairway.conformance.kueue_scenarios:verify_scenarios",
    "slurm-scheduling": "fairway.conformance.slurm.scheduling:verify_scheduling",
    "hpa": "fairway.conformance.hpa:verify_hpa",
    "api": "fairway.conformance.api.requests:verify_requests",
    "dra": "fairway.conformance.dra.clusters:verify_clusters",
    "dra-validation": "fairway.conformance.dra.validation:verify_validation",
    "slurm-commands": "fairway.conformance.slurm.commands:verify_commands",
    "kubectl": "fairway.conformance.kubectl.playing:verify_session",
    "kubelet": "fairway.conformance.kubelet:verify_kubelet",
    "promql": "fairway.conformance.promql:verify_promql",
}
"""`fairway verify CHECK` and the function that does it: Path → Verification."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One file and what it was made of."""

    file: str
    check: str
    engine: str
    version: str
    what: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """One recording and what its replay found."""

    recording: Recording
    found: Verification

    def as_json(self) -> dict[str, Any]:
        of = {f.name: getattr(self.recording, f.name) for f in fields(Recording)}
        return of | self.found.as_json()


def replay_all(folder: Path) -> Iterator[Replayed]:
    """Replay what the folder's index names, in its order, each when it is asked for.

    Raises: InvalidInput for an index or a recording that cannot be read; what the checks raise.
    """
    for recording in read_index(folder):
        yield Replayed(recording, check_of(recording.check)(folder / recording.file))


def check_of(name: str) -> Callable[[Path], Verification]:
    module, _, function = CHECKS[name].partition(":")
    found: Callable[[Path], Verification] = getattr(import_module(module), function)
    return found


def read_index(folder: Path) -> list[Recording]:
    """What the index names. Raises: InvalidInput with every entry that is none."""
    index = folder / INDEX
    try:
        rows = tomllib.loads(index.read_text(encoding="utf-8")).get("recording")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as broken:
        reason = getattr(broken, "strerror", None) or str(broken)
        raise InvalidInput(
            (FieldProblem(str(index), 0, "", "", f"cannot read the index: {reason}"),)
        ) from broken
    if not isinstance(rows, list) or not rows:
        raise InvalidInput((FieldProblem(str(index), 0, "recording", "", "expected [[recording]] entries"),))
    problems = [
        FieldProblem(str(index), 0, f"recording[{i}].{path}", "", expected)
        for i, row in enumerate(rows)
        for path, expected in _problems(row)
    ]
    if problems:
        raise InvalidInput(tuple(problems))
    return [Recording(**row) for row in rows]


def _problems(row: Any) -> Iterator[tuple[str, str]]:
    names = [f.name for f in fields(Recording)]
    if not isinstance(row, dict):
        yield "", "expected a table"
        return
    for name in names:
        if not isinstance(row.get(name), str):
            yield name, "expected text"
    for name in sorted(set(row) - set(names)):
        yield name, f"unknown; expected {', '.join(names)}"
    if row.get("check") not in CHECKS:
        yield "check", f"expected one of {', '.join(CHECKS)}"
    if Path(str(row.get("file"))).name != row.get("file"):
        yield "file", "expected the name of a file beside the index"
