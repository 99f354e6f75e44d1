"""Counts what happens to Kueue's Workloads, as Kueue's own metrics do: from zero with the process.

Its cycles and preemptions are counted where they happen (`twin.kueue.cycles`).

Source: Kueue pkg/metrics/metrics.go through `queueing.metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.store import Store
from fairway.queueing.metrics.families import families
from fairway.queueing.metrics.gauges import cohorts_above
from fairway.queueing.metrics.observing import of_workload
from fairway.twin.tally import Tally

_WORKLOAD = "Workload.kueue.x-k8s.io"
_SHAPES = ("ClusterQueue.kueue.x-k8s.io", "Cohort.kueue.x-k8s.io")


class QueueMeter:
    """Follows the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cohorts: Mapping[str, Sequence[str]] | None = None
        self.tally = Tally(families())

    def apply(self, change: Change) -> None:
        gk = change.key.gk
        if gk == _WORKLOAD:
            if change.type != DELETED:
                if self._cohorts is None:
                    self._cohorts = cohorts_above(self._store)
                now_us = self._store.now_us
                self.tally.take(of_workload(change.old, change.obj, now_us, cohorts=self._cohorts))
        elif gk in _SHAPES:
            self._cohorts = None
