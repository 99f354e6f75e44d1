"""What is to be done: delete these nodes, or replace them.

Source: disruption/types.go Command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairway.provisioning.karpenter.disruption.candidates import Candidate
from fairway.provisioning.karpenter.fleet import NO_PRICE
from fairway.provisioning.karpenter.packing import Results
from fairway.provisioning.karpenter.planned import PlannedClaim

NO_OP: Final = "no-op"
REPLACE: Final = "replace"
DELETE: Final = "delete"


@dataclass(frozen=True, slots=True, eq=False)
class Command:
    """Nodes to go, claims to come first. `savings`: µ$ an hour, an estimate."""

    reason: str
    method: str
    candidates: tuple[Candidate, ...]
    replacements: tuple[PlannedClaim, ...] = ()
    results: Results | None = None

    @property
    def decision(self) -> str:
        if not self.candidates:
            return NO_OP
        return REPLACE if self.replacements else DELETE

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.candidates)

    @property
    def savings(self) -> int:
        prices = [r.cheapest() for r in self.replacements]
        return sum(c.price for c in self.candidates) - sum(p for p in prices if p != NO_PRICE)

    def text(self) -> str:
        """As events and logs put it: `delete: [a, b]`."""
        sources = ", ".join(self.names)
        if not self.replacements:
            return f"{self.decision}: [{sources}]"
        count = len(self.replacements)
        return f"{self.decision}: [{sources}] -> [{count} replacement{'s' if count > 1 else ''}]"

    def text_for(self, name: str) -> str:
        if len(self.candidates) == 1:
            return self.text()
        return f"{self.decision}: [{name}] (part of {len(self.candidates)}-node consolidation)"


def dollars(micros: int) -> str:
    return f"${micros / 1e6:.2f}"
