"""When does a batch of pods end? A second without news, ten seconds at most.

Source: provisioning/batcher.go; BATCH_IDLE_DURATION and BATCH_MAX_DURATION.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US

IDLE_US: Final = SECOND_US
MAX_US: Final = 10 * SECOND_US


class Batch:
    """A window that is open. Pods that asked for room in it already do not prolong it."""

    __slots__ = ("_pods", "last_us", "started_us")

    def __init__(self, now_us: int) -> None:
        self.started_us = now_us
        self.last_us = now_us
        self._pods: set[Key] = set()

    def ask(self, pods: Iterable[Key], now_us: int) -> None:
        """These pods ask for room, perhaps again."""
        known = len(self._pods)
        self._pods.update(pods)
        if len(self._pods) > known:
            self.last_us = now_us

    def ends_us(self, idle_us: int = IDLE_US, max_us: int = MAX_US) -> int:
        return min(self.last_us + idle_us, self.started_us + max_us)

    def copy(self) -> Batch:
        twin = Batch(self.started_us)
        twin.last_us, twin._pods = self.last_us, set(self._pods)
        return twin
