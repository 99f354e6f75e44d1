"""The core/v1 Events of the twin: who said what about which object, how often, first and last.

Like the real recorder it counts repetitions instead of storing them, and like the API server it forgets:
events older than the TTL go, and beyond `limit` the ones quiet for longest. Counts per reason are kept for
ever. Event objects are only built when somebody lists them.

Source: client-go tools/record/events_cache.go (eventLogger); kube-apiserver --event-ttl.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import HOUR_US, rfc3339

NORMAL = "Normal"
WARNING = "Warning"

# kube-apiserver --event-ttl, default.
EVENT_TTL_US = HOUR_US
# Distinct events kept. At about 300 bytes each: 15 MB.
EVENT_LIMIT = 50_000

_Ident = tuple[Key, str, str, str, str, str]


@dataclass(slots=True)
class EventSeries:
    """One distinct event. Identified by about, uid, type, reason, message and component."""

    count: int
    first_us: int
    last_us: int
    serial: int


class KubeEvents:
    """Distinct events by what they say, in the order in which they were last seen."""

    def __init__(self, *, ttl_us: int = EVENT_TTL_US, limit: int = EVENT_LIMIT) -> None:
        self.ttl_us = ttl_us
        self.limit = limit
        self.totals: dict[tuple[str, str, str], int] = {}
        """How often anything was said: by (component, type, reason)."""
        self._series: dict[_Ident, EventSeries] = {}
        self._serial = 0

    def emit(
        self,
        now_us: int,
        about: Key,
        uid: str,
        type_: str,
        reason: str,
        message: str,
        component: str,
        times: int = 1,
    ) -> None:
        """Say it (or count it, when it was said before)."""
        total = (component, type_, reason)
        self.totals[total] = self.totals.get(total, 0) + times
        ident = (about, uid, type_, reason, message, component)
        series = self._series.pop(ident, None)
        if series is not None and now_us - series.last_us <= self.ttl_us:
            series.count += times
            series.last_us = now_us
        else:
            self._serial += 1
            series = EventSeries(times, now_us, now_us, self._serial)
        self._series[ident] = series
        if len(self._series) > self.limit:
            del self._series[next(iter(self._series))]

    def objects(self, now_us: int, namespace: str | None = None) -> list[Obj]:
        """The events still alive, as core/v1 Event objects, in the order in which they were last seen."""
        oldest = now_us - self.ttl_us
        return [
            _event(ident, series)
            for ident, series in self._series.items()
            if series.last_us >= oldest and (namespace is None or _namespace(ident[0]) == namespace)
        ]

    def about(self, key: Key) -> list[tuple[EventSeries, str, str, str]]:
        """What was said about one object: (series, type, reason, message), oldest first."""
        return [(s, i[2], i[3], i[4]) for i, s in self._series.items() if i[0] == key]

    def fork(self) -> KubeEvents:
        twin = KubeEvents(ttl_us=self.ttl_us, limit=self.limit)
        twin.totals = dict(self.totals)
        twin._series = {
            i: EventSeries(s.count, s.first_us, s.last_us, s.serial) for i, s in self._series.items()
        }
        twin._serial = self._serial
        return twin


def _namespace(about: Key) -> str:
    """Events about cluster-scoped objects live in `default`."""
    return about.namespace or "default"


def _event(ident: _Ident, series: EventSeries) -> Obj:
    about, uid, type_, reason, message, component = ident
    kind, _, group = about.gk.partition(".")
    involved: dict[str, Any] = {"kind": kind, "name": about.name, "uid": uid}
    if group:
        involved["apiVersion"] = group
    if about.namespace:
        involved["namespace"] = about.namespace
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{about.name}.{series.serial:016x}",
            "namespace": _namespace(about),
            "creationTimestamp": rfc3339(series.first_us),
        },
        "involvedObject": involved,
        "type": type_,
        "reason": reason,
        "message": message,
        "count": series.count,
        "firstTimestamp": rfc3339(series.first_us),
        "lastTimestamp": rfc3339(series.last_us),
        "source": {"component": component},
        "reportingComponent": component,
    }
