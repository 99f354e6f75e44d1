"""Ended runs as they were (slurmdbd's job table): the latest as records, older ones packed.

A year of a large site is a million runs; packed, each takes a few hundred bytes instead of some thousand. Whoever goes
over the archive gets records of older runs made anew: changing one changes nothing here.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from fairway.slurm.model.job import Dependency, Job, JobRequest, NodeShare, Step

KEPT = 2_000
"""Latest runs kept as records."""
BLOCK = 500
"""Runs packed together."""

_NAMES = tuple(one.name for one in fields(Job) if one.name != "needs")
_PARTS: dict[str, type[Any]] = {"dependencies": Dependency, "shares": NodeShare, "steps": Step}
_JOB, _REQUEST = attrgetter(*_NAMES), tuple(one.name for one in fields(JobRequest))
_VALUES = {
    kind: attrgetter(*(one.name for one in fields(kind)))
    for kind in (JobRequest, Dependency, NodeShare, Step)
}


@dataclass(slots=True)
class Archive:
    """Oldest first. `recent` are the records themselves, of which some may still be known to slurmctld."""

    recent: list[Job] = field(default_factory=list)
    blocks: list[bytes] = field(default_factory=list)
    next_look: int = KEPT + BLOCK
    """So many recent ones, and the oldest are packed."""

    def __len__(self) -> int:
        return len(self.blocks) * BLOCK + len(self.recent)

    def __iter__(self) -> Iterator[Job]:
        for block in self.blocks:
            yield from _unpacked(block)
        yield from self.recent

    def append(self, job: Job) -> None:
        self.recent.append(job)

    def pack(self, known: Mapping[int, Job]) -> None:
        """Pack old runs, unless slurmctld still knows one of them."""
        if len(self.recent) < self.next_look:
            return
        oldest = self.recent[:BLOCK]
        if any(known.get(job.job_id) is job for job in oldest):
            self.next_look = len(self.recent) + BLOCK
            return
        self.blocks.append(_packed(oldest))
        del self.recent[:BLOCK]
        self.next_look = KEPT + BLOCK


def _packed(jobs: list[Job]) -> bytes:
    """Column by column: alike next to alike."""
    columns: list[Any] = []
    for name, values in zip(_NAMES, zip(*map(_JOB, jobs), strict=True), strict=True):
        if name == "request":
            of_request = _VALUES[JobRequest]
            columns.append(list(zip(*[of_request(one) for one in values], strict=True)))
        elif name in _PARTS:
            of_part = _VALUES[_PARTS[name]]
            columns.append([[of_part(part) for part in one] for one in values])
        else:
            columns.append(values)
    return zlib.compress(pickle.dumps(columns, protocol=5), 1)


def _unpacked(block: bytes) -> Iterator[Job]:
    """The block is one of ours, never read from a file."""
    columns = dict(zip(_NAMES, pickle.loads(zlib.decompress(block)), strict=True))
    columns["request"] = [
        JobRequest(**dict(zip(_REQUEST, row, strict=True))) for row in zip(*columns["request"], strict=True)
    ]
    for name, kind in _PARTS.items():
        columns[name] = [[kind(*part) for part in one] for one in columns[name]]
    for row in zip(*columns.values(), strict=True):
        yield Job(**dict(zip(columns, row, strict=True)))
