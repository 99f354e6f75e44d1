"""Which machines were asked of a cloud, since when, and which of them never became nodes?

A cloud bills a machine while it boots: from its launch, not from the moment its Node appears. Whoever launches machines
notes them here; the recorder reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairway.kube.resources import CPU, MEMORY


class Launch(NamedTuple):
    """A machine, named as its Node will be. `labels` say what it is; `cpu_milli`, `memory_bytes`: its capacity."""

    name: str
    at_us: int
    labels: Mapping[str, str]
    cpu_milli: int
    memory_bytes: int


class Launches:
    """O(machines): names come once."""

    def __init__(self) -> None:
        self.booting: dict[str, Launch] = {}
        self.lost: list[tuple[Launch, int]] = []
        """Those that went before they were nodes, and when."""
        self._joined: dict[str, int] = {}

    def begin(self, name: str, now_us: int, labels: Mapping[str, str], capacity: Mapping[str, int]) -> None:
        self.booting[name] = Launch(name, now_us, labels, capacity.get(CPU, 0), capacity.get(MEMORY, 0))

    def join(self, name: str) -> None:
        """Its Node is there."""
        found = self.booting.pop(name, None)
        if found is not None:
            self._joined[name] = found.at_us

    def lose(self, name: str, now_us: int) -> None:
        """It goes; where it is a Node by now, that is no loss."""
        found = self.booting.pop(name, None)
        if found is not None:
            self.lost.append((found, now_us))

    def launched_us(self, name: str) -> int | None:
        """When the machine of a Node was launched; None: nobody launched it here."""
        return self._joined.get(name)

    def fork(self) -> Launches:
        twin = Launches()
        twin.booting, twin.lost, twin._joined = dict(self.booting), list(self.lost), dict(self._joined)
        return twin
