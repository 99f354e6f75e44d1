"""When does a batch of pods end? A second without news, ten seconds at most.

Source: provisioning/batcher.go; BATCH_IDLE_DURATION and BATCH_MAX_DURATION.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairway.kube.timestamps import SECOND_US

IDLE_US, MAX_US = SECOND_US, 10 * SECOND_US


@dataclass(frozen=True, slots=True)
class Batch:
    """A window that is open. Pods that triggered it already do not prolong it."""

    started_us: int
    last_us: int
    pods: frozenset[str] = frozenset()

    def ends_us(self, idle_us: int = IDLE_US, max_us: int = MAX_US) -> int:
        return min(self.last_us + idle_us, self.started_us + max_us)


def triggered(batch: Batch | None, pod: str, now_us: int) -> Batch:
    """The window after a pod asked for room."""
    if batch is None:
        return Batch(now_us, now_us, frozenset((pod,)))
    if pod in batch.pods:
        return batch
    return Batch(batch.started_us, now_us, batch.pods | {pod})
