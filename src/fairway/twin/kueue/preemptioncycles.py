"""Does preemption go round in a circle while no time passes?

It can, in Kueue as here, under fair sharing: whoever is entitled to quota evicts a workload that borrows it; that
workload is back in its queue before the next cycle, wins its tournament (the smaller share goes first, entitled or
not), is admitted, and is evicted again. Kueue's scheduler went on so for as long as it was asked to; its gate
PrioritizePreemptorWorkloads (alpha) ends it. In a cluster every round takes the time that a job takes to stop.

Unlike kube: where nothing takes time, rounds would follow each other forever within one microsecond. There an eviction
takes a second from the fourth round on.

Source: pkg/scheduler/fair_sharing_iterator.go; pkg/controller/core/workload_controller.go Update (the evicted
workload is queued under the same lock that lets its quota go).
"""

from __future__ import annotations

from typing import Final

from fairway.kube.timestamps import SECOND_US

_FREE_ROUNDS: Final = 3


class PreemptionCycles:
    """When workloads were preempted last, and how often in a row with no time between."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}
        self._swept_us = 0

    def copy(self) -> PreemptionCycles:
        twin = PreemptionCycles()
        twin._seen, twin._swept_us = dict(self._seen), self._swept_us
        return twin

    def earliest_us(self, key: str, now_us: int) -> int:
        """When a workload may be preempted: later than now where it goes round in a circle."""
        last_us, rounds = self._seen.get(key, (now_us, 0))
        return (
            last_us + SECOND_US
            if rounds >= _FREE_ROUNDS and self._follows(last_us, rounds, now_us)
            else now_us
        )

    def note(self, key: str, now_us: int) -> None:
        """It is preempted now. O(1) amortised: what is older than a second is forgotten once a second."""
        if now_us - self._swept_us > SECOND_US:
            self._seen = {k: seen for k, seen in self._seen.items() if now_us - seen[0] <= SECOND_US}
            self._swept_us = now_us
        last_us, rounds = self._seen.get(key, (now_us, 0))
        self._seen[key] = now_us, rounds + 1 if self._follows(last_us, rounds, now_us) else 1

    def _follows(self, last_us: int, rounds: int, now_us: int) -> bool:
        """Whether it is the same circle: no time passed, or the second that a lap was made to take."""
        return now_us == last_us or (rounds >= _FREE_ROUNDS and now_us - last_us <= SECOND_US)
