"""Resources as arrays: one column per resource name, in Volcano's units.

Volcano counts cpu in milli, memory in bytes, pods in whole and every other resource in thousandths, so that a
share of 8 GPUs over 3 queues is 2666 thousandths each.

Unlike kube: shares are whole units, rounded down, where Volcano divides floats.

Source: volcano-sh/volcano pkg/scheduler/api/resource_info.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from fairway.kube.resources import CPU, MEMORY, PODS, Resources, format_amount
from fairway.volcano.facts import Ints

# What a dimension that limits nobody holds; sums of a few of them stay within int64.
NO_LIMIT = 2**61
_WHOLE = (CPU, MEMORY, PODS)
# What one object may ask for: a few dozen of them still add up. Upstream counts in floats, which end nowhere.
_MOST = 2**58
_MILLI = 1000


class Columns:
    """The resource names of a session, in a fixed order: cpu, memory, then the others by name."""

    def __init__(self, vectors: Iterable[Mapping[str, int]]) -> None:
        seen = {name: None for vector in vectors for name in vector}
        self.names = (CPU, MEMORY, *sorted(n for n in seen if n not in (CPU, MEMORY)))
        self._at = {name: i for i, name in enumerate(self.names)}
        self._scale = [1 if n in _WHOLE else _MILLI for n in self.names]
        # Volcano ignores pods where it asks whether a request is empty.
        self._weighed = np.array([n != PODS for n in self.names], np.bool_)

    def zeros(self) -> Ints:
        return np.zeros(len(self.names), np.int64)

    def read(self, vector: Mapping[str, int] | None, missing: int = 0) -> Ints:
        """The vector as an array; `missing` stands for what it does not name."""
        found = np.full(len(self.names), missing, np.int64)
        for name, value in (vector or {}).items():
            at = self._at[name]
            found[at] = max(min(value * self._scale[at], _MOST), -_MOST)
        return found

    def write(self, amounts: Ints) -> Resources:
        """Back to a vector of the usual units, without zeros. Thousandths round up."""
        return {
            name: -(-int(v) // scale)
            for name, v, scale in zip(self.names, amounts.tolist(), self._scale, strict=True)
            if v
        }

    def text(self, amounts: Ints) -> dict[str, str]:
        """As a resource list of a status: cpu and memory always, others where there are any."""
        found = {CPU: "0", MEMORY: "0"}
        found.update({n: format_amount(n, v) for n, v in self.write(amounts).items()})
        return found

    def is_empty(self, amounts: Ints) -> bool:
        """Nothing asked for but a pod's place."""
        return not bool(amounts[self._weighed].any())

    def short(self, wanted: Ints, limit: Ints, asked: Ints | None = None) -> list[str]:
        """The names in which `wanted` exceeds `limit`; with `asked`, only among what that asks for."""
        over = wanted > limit
        if asked is not None:
            over &= asked > 0
        return [self.names[i] for i in np.flatnonzero(over).tolist()]


def fits(wanted: Ints, limit: Ints) -> bool:
    return not bool((wanted > limit).any())


def share(part: Ints, whole: Ints) -> float:
    """The greatest ratio over all columns; something of nothing is 1. Source: api/helpers Share."""
    greatest = 0.0
    for a, b in zip(part.tolist(), whole.tolist(), strict=True):
        ratio = (1.0 if a else 0.0) if b == 0 else a / b
        greatest = max(greatest, ratio)
    return greatest
