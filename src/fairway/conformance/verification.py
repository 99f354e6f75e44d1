"""What a replay found: how many cases agree, and every difference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    """One disagreement. `where`: the case within the recording; `aspect`: what of it."""

    line: int
    where: str
    aspect: str
    wanted: str
    got: str

    def text(self) -> str:
        where = f"line {self.line} {self.where}: {self.aspect}"
        return f"{where}\n  recorded: {_indented(self.wanted)}\n  fairway:  {_indented(self.got)}"

    def as_json(self) -> dict[str, Any]:
        return {
            "line": self.line,
            "where": self.where,
            "aspect": self.aspect,
            "recorded": self.wanted,
            "fairway": self.got,
        }


def _indented(text: str) -> str:
    return text.rstrip("\n").replace("\n", "\n            ") or "(nothing)"


@dataclass(frozen=True, slots=True)
class Inapplicable:
    """A case that says nothing about Fairway, and why."""

    line: int
    where: str
    reason: str

    def text(self) -> str:
        return f"line {self.line} {self.where}: not applicable: {self.reason}"


@dataclass(slots=True)
class Verification:
    """How many cases agree, and what differs."""

    total: int = 0
    agreed: int = 0
    differences: list[Difference] = field(default_factory=list)
    inapplicable: list[Inapplicable] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.agreed == self.total

    def count(self, found: list[Difference]) -> None:
        """One more case, with what differs in it."""
        self.total += 1
        self.agreed += not found
        self.differences.extend(found)

    def as_json(self) -> dict[str, Any]:
        return {
            "agreed": self.agreed,
            "total": self.total,
            "differences": [d.as_json() for d in self.differences],
        }
