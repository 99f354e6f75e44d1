"""Why does no instance type do? Karpenter's sentences.

What is known is cheap to keep (sets as bits); the sentence is made only for who reads it.

Source: InstanceTypeFilterError in pkg/controllers/provisioning/scheduling/nodeclaim.go; serrors' `text (key=value)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairway.kube.resources import CPU, Resources, add_into, format_resources
from fairway.provisioning.karpenter.requirements import Requirements

_TYPO_MILLI: Final = 1_000_000 * 1000


def wrapped(text: str, **where: object) -> str:
    """An error with what it is about: `pdb prevents pod evictions (PodDisruptionBudget=[a/b])`."""
    return f"{text} ({', '.join(f'{key}={value}' for key, value in where.items())})"


def resources_text(amounts: Mapping[str, int]) -> str:
    """As a resource list is written: `{"cpu":"1","memory":"2Gi"}`."""
    parts = (f'"{name}":"{text}"' for name, text in sorted(format_resources(amounts).items()))
    return "{" + ",".join(parts) + "}"


@dataclass(frozen=True, slots=True)
class TypeRefusal:
    """No type met requirements, resources and offering at once; the flags say which of them some type met."""

    requirements: Requirements
    requests: Resources
    overheads: tuple[Resources, ...] = ()
    met: bool = False
    fits: bool = False
    offered: bool = False
    min_values: str = ""

    def __str__(self) -> str:
        what = f"requirements={self.requirements}, resources={self._resources()}"
        return f"{self.min_values or self._which()}, {what}{self._typo()}"

    def _which(self) -> str:
        missing = [
            text
            for text, there in (
                ("met the scheduling requirements", self.met),
                ("had enough resources", self.fits),
                ("had a required offering", self.offered),
            )
            if not there
        ]
        if len(missing) > 1:
            return f"no instance type {' or '.join(missing)}"
        if not self.met:
            return "no instance type met all requirements"
        if not self.fits:
            return "no instance type has enough resources"
        if not self.offered:
            return "no instance type has the required offering"
        # What fits is offered, or it would not have been asked: only the labels are left to fail. Upstream has two more
        # sentences, which nobody can get.
        return "no instance type which had enough resources and the required offering met the scheduling requirements"

    def _typo(self) -> str:
        only_size = self.met and self.offered and not self.fits and not self.min_values
        huge = self.requests.get(CPU, 0) >= _TYPO_MILLI
        return " (CPU request >= 1 Million, m vs M typo?)" if only_size and huge else ""

    def _resources(self) -> str:
        if not any(self.overheads):
            return resources_text(self.requests)
        least, most = _bounds(self.overheads)
        low, high = (resources_text(_sum(self.requests, bound)) for bound in (least, most))
        return low if low == high else f"min={low}, max={high}"


def _bounds(overheads: tuple[Resources, ...]) -> tuple[Resources, Resources]:
    shared = [o for o in overheads if o]
    names = sorted({n for o in shared for n in o})
    least = {n: min(o[n] for o in shared) for n in names if all(n in o for o in shared)}
    return least, {n: max(o.get(n, 0) for o in shared) for n in names}


def _sum(a: Resources, b: Resources) -> Resources:
    total = dict(a)
    add_into(total, b)
    return total
