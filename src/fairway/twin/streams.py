"""Chance: named random streams, all derived from one seed.

A stream's numbers depend on the seed and its name only, not on the hash seed, on who asked first or on how
many other streams there are, so adding a component does not change what the others draw.

`draw_for` has no state at all: the number belongs to a subject (a pod's run time, a node's heartbeat phase).
Two runs that differ in policy give the same pod the same luck, which is what makes them comparable.
"""

from __future__ import annotations

import hashlib
import struct
from random import Random
from typing import Final

_TO_UNIT: Final = 1.0 / (1 << 53)
_FOUR: Final = struct.Struct(">4Q")


def seed_of(seed: int, name: str) -> int:
    """A 128-bit seed for the stream of this name."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest(), "big")


class Streams:
    """Streams by name, made when first asked for."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, Random] = {}

    def stream(self, name: str) -> Random:
        """The generator of this name; the same object every time, so its position is shared."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = Random(seed_of(self.seed, name))
        return found

    def draw_for(self, *subject: str) -> float:
        """A number in [0, 1) that belongs to the subject: the same whenever and however often it is asked."""
        digest = hashlib.blake2b(f"{self.seed}/{'/'.join(subject)}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> 11) * _TO_UNIT

    def draws_for(self, *subject: str) -> tuple[float, float, float, float]:
        """Four independent numbers in [0, 1) that belong to the subject, for little more than the price of one."""
        digest = hashlib.blake2b(f"{self.seed}/{'/'.join(subject)}/4".encode(), digest_size=32).digest()
        a, b, c, d = _FOUR.unpack(digest)
        return (
            (a >> 11) * _TO_UNIT,
            (b >> 11) * _TO_UNIT,
            (c >> 11) * _TO_UNIT,
            (d >> 11) * _TO_UNIT,
        )

    def copy(self) -> Streams:
        """Independent streams at the same positions."""
        twin = Streams(self.seed)
        for name, stream in self._streams.items():
            twin._streams[name] = generator = Random()
            generator.setstate(stream.getstate())
        return twin
