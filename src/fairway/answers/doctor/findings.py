"""What a check finds: how many, which, in which words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from fairway.ground import Moment
from fairway.recorder.tables import Outcome

WELL, ILL, UNKNOWN = "well", "ill", "unknown"
# Examples a finding keeps.
MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """`state`: well, ill, or unknown where the ground cannot tell. `count`: how many are concerned; `evidence`: a line
    each of the first few."""

    state: str
    count: int = 0
    evidence: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


@dataclass(frozen=True)
class Patient:
    """What checks look at: a cluster at one moment, and the record of the time before. `namespace`: only there."""

    moment: Moment
    history: Outcome
    namespace: str | None = None

    def is_mine(self, namespace: str) -> bool:
        return self.namespace is None or namespace == self.namespace


Look = Callable[[Patient], Finding]


def found(lines: Iterable[tuple[str, str]]) -> Finding:
    """Ill where there is any line: `(object, sentence)`."""
    listed = list(lines)
    if not listed:
        return Finding(WELL)
    shown = listed[:MOST_NAMED]
    return Finding(
        ILL, len(listed), tuple(f"{o}: {s}" for o, s in shown), tuple(dict.fromkeys(o for o, _ in listed))
    )


def unknown(why: str) -> Finding:
    return Finding(UNKNOWN, evidence=(why,))
