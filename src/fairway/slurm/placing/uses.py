"""What is taken of every node, and numbers for uses that fit alike.

Two uses of equal nodes are of one kind when they leave as many cores, as much memory and as many devices of each type:
most needs fit nodes of one kind alike, so arrays over nodes hold kinds and each kind is looked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairway.slurm.model.node import NodeConf
from fairway.slurm.placing.need import Use

Kinds = NDArray[np.int32]

MOST_KINDS = 50_000
"""Kinds kept before they are numbered anew, so that a long run's memory stays bounded."""


@dataclass(slots=True)
class Numbering:
    """Kind → its class of nodes and a use of it. `classes[node]`: equal but for name, address, weight and features."""

    confs: Sequence[NodeConf]
    classes: list[int] = field(default_factory=list)
    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    examples: list[tuple[int, Use]] = field(default_factory=list)
    """(a node, a use) of each kind."""
    masks: list[tuple[int, ...]] = field(default_factory=list)
    tied: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        kinds: dict[NodeConf, int] = {}
        for conf in self.confs:
            plain = replace(conf, name="", port=0, address="", weight=0, features=(), reason="", state="")
            number = kinds.setdefault(plain, len(kinds))
            self.classes.append(number)
            if number == len(self.masks):
                self.masks.append(
                    tuple(gres.mask(of) for gres in conf.gres for of in dict.fromkeys(gres.types))
                )
                self.tied.append(any(gres.cores for gres in conf.gres) or len(conf.gres) > 1)

    def kind(self, node: int, use: Use) -> int:
        """The number of a node's use. O(GRES types)."""
        number = self.classes[node]
        cores, mem, gres = use
        key: tuple[Any, ...] = (number, cores, mem, gres)
        if not self.tied[number]:
            held = gres[0] if gres else 0
            key = (
                number,
                cores.bit_count(),
                mem,
                *[(held & mask).bit_count() for mask in self.masks[number]],
            )
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.examples)
            self.examples.append((node, use))
        return found

    def forget(self) -> None:
        self.numbers.clear()
        self.examples.clear()


@dataclass(slots=True)
class Uses:
    """Every node's use: `exact[node]`, and `kinds: int32[node]`."""

    numbering: Numbering
    exact: list[Use]
    kinds: Kinds

    def put(self, node: int, use: Use) -> None:
        self.exact[node] = use
        self.kinds[node] = self.numbering.kind(node, use)

    def copy(self) -> Uses:
        return Uses(self.numbering, list(self.exact), self.kinds.copy())


def all_uses(numbering: Numbering, uses: Iterable[Use]) -> Uses:
    exact = list(uses)
    kinds = np.array([numbering.kind(node, use) for node, use in enumerate(exact)], dtype=np.int32)
    return Uses(numbering, exact, kinds)


def indexes(mask: int, nodes: int) -> NDArray[np.intp]:
    """The numbers of a bitmap's nodes, ascending."""
    raw = np.frombuffer(mask.to_bytes((nodes + 7) // 8 or 1, "little"), dtype=np.uint8)
    return np.unpackbits(raw, bitorder="little").nonzero()[0]


def bits(mask: int) -> tuple[int, ...]:
    """The numbers of a bitmap's nodes, ascending: for bitmaps with few."""
    found = []
    while mask > 0:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


def bitmap(nodes: Iterable[int]) -> int:
    """Nodes as a bitmap."""
    found = 0
    for node in nodes:
        found |= 1 << node
    return found
