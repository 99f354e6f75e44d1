"""What LocalQueues used before a row of Kueue's admission fair sharing table begins, and what they use in it.

That suite runs one cycle per workload, under settings of its own (`_SETTINGS`). A LocalQueue it deletes is gone
from the API server only: the queues keep what they knew of it.

Source: pkg/scheduler/scheduler_afs_test.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.gates import FeatureGates
from fairway.queueing.quota.queueusage import QueueUsageLedger, UsageSettings

Row = Mapping[str, Any]

_NAMESPACE = "default"
# usageHalfLifeTime 10 s, usageSamplingInterval 1 s, every resource counts alike.
_SETTINGS = UsageSettings(half_life_s=10.0, sampling_interval_s=1.0, weights={})


@dataclass(frozen=True, slots=True)
class LocalQueueUsage:
    """The ledger, and the fair-sharing weight of every LocalQueue by key."""

    ledger: QueueUsageLedger
    weights: Mapping[str, float]

    def of(self, key: str) -> float:
        """What the LocalQueue used, by its weight."""
        return self.ledger.usage(key, self.weights.get(key, 1.0))


def counts_usage(row: Row) -> bool:
    """Whether the row is of the suite that does."""
    return str(row.get("suite") or "") == "TestScheduleForAFS"


def usage_of(row: Row, gates: FeatureGates, now_us: int) -> LocalQueueUsage | None:
    """None where LocalQueues do not take turns by usage."""
    if not counts_usage(row) or not gates.admission_fair_sharing:
        return None
    ledger = QueueUsageLedger(_SETTINGS)
    for name, consumed in (row.get("initialUsage") or {}).items():
        ledger.set_consumed(f"{_NAMESPACE}/{name}", consumed, now_us)
    queues = map(facts.local_queue, row.get("localQueues") or ())
    return LocalQueueUsage(ledger, {queue.key: queue.fair_weight for queue in queues})
