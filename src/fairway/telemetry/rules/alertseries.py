"""What do alerts say of themselves as series? `ALERTS` and `ALERTS_FOR_STATE`, derived from when each was active.

Source: rules/alerting.go, sample and forStateSample (Prometheus 3.14).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fairway.telemetry.rules.alerts import Alert, Tracker
from fairway.telemetry.store import (
    NAME,
    STALE,
    Labels,
    Matcher,
    MemoryStore,
    Series,
    Times,
    fits,
    labels,
    name_of,
)

ALERTS: Final = "ALERTS"
FOR_STATE: Final = "ALERTS_FOR_STATE"
_Piece = tuple[int, int | None, float]


class Recorded:
    """What rules recorded, and their alerts. `follow`: a rule's alerts, and its evaluations (ms apart)."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = MemoryStore() if store is None else store
        self._followed: list[tuple[Tracker, int]] = []

    def follow(self, tracker: Tracker, interval_ms: int) -> None:
        self._followed.append((tracker, interval_ms))

    def trackers(self) -> list[Tracker]:
        return [tracker for tracker, _ in self._followed]

    def names(self) -> list[str]:
        """The metrics there are, sorted."""
        has_alerts = any(tracker.alerts for tracker, _ in self._followed)
        return sorted([*self.store.names(), *((ALERTS, FOR_STATE) if has_alerts else ())])

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Series]:
        yield from self.store.select(matchers, start_ms, end_ms)
        if name_of(matchers) in (None, ALERTS, FOR_STATE):
            for tracker, interval_ms in self._followed:
                for found, pieces in _pieces(tracker, start_ms, end_ms).items():
                    if fits(found, matchers):
                        series = _sampled(found, pieces, tracker, interval_ms, start_ms, end_ms)
                        if len(series.times):
                            yield series


def _pieces(tracker: Tracker, start_ms: int, end_ms: int) -> dict[Labels, list[_Piece]]:
    """From when to when each series of a rule is there, in the order of time."""
    pieces: dict[Labels, list[_Piece]] = {}
    for alert in tracker.alerts:
        if alert.active_ms > end_ms or (alert.ended_ms is not None and alert.ended_ms < start_ms):
            continue
        for one, piece in _of_alert(alert):
            pieces.setdefault(one, []).append(piece)
    return pieces


def _of_alert(alert: Alert) -> Iterator[tuple[Labels, _Piece]]:
    pairs = dict(alert.labels)
    pending_until = alert.fired_ms if alert.fired_ms is not None else alert.ended_ms
    if pending_until != alert.active_ms:
        yield labels(ALERTS, {**pairs, "alertstate": "pending"}), (alert.active_ms, pending_until, 1.0)
    if alert.fired_ms is not None:
        yield labels(ALERTS, {**pairs, "alertstate": "firing"}), (alert.fired_ms, alert.ended_ms, 1.0)
    yield for_state_labels(alert), (alert.active_ms, alert.ended_ms, float(alert.active_ms // 1000))


def for_state_labels(alert: Alert) -> Labels:
    """Of its `ALERTS_FOR_STATE`."""
    return tuple(sorted((*alert.labels, (NAME, FOR_STATE))))


def _sampled(
    found: Labels, pieces: list[_Piece], tracker: Tracker, interval_ms: int, start_ms: int, end_ms: int
) -> Series:
    """A sample for every evaluation, a marker where it ends."""
    reached = min(end_ms, tracker.reached_ms if tracker.reached_ms is not None else end_ms)
    times: list[Times] = []
    values = []
    for place, (first, end, value) in enumerate(pieces):
        goes_on = place + 1 < len(pieces) and pieces[place + 1][0] == end
        last = reached if end is None else min(reached, end - goes_on)
        begin = max(first, -(-start_ms // interval_ms) * interval_ms)
        at = np.arange(begin, last + 1, interval_ms, dtype=np.int64)
        for lo, hi in tracker.failed_ms:
            at = at[(at < lo) | (at > hi)]
        times.append(at)
        values.append(np.where(at == end, STALE, value) if end is not None else np.full(len(at), value))
    return Series(found, np.concatenate(times), np.concatenate(values))
