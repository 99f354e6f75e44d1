"""The core/v1 Events of the twin: who said what about which object, how often, first and last.

Like the real recorder it counts repetitions instead of storing them, and like the API server it forgets:
events older than the TTL go, and beyond `limit` the ones quiet for longest. Counts per reason are kept for
ever. Event objects are only built when somebody lists them.

Source: client-go tools/record/events_cache.go (eventLogger); kube-apiserver --event-ttl.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, NamedTuple

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import HOUR_US, rfc3339

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

# kube-apiserver --event-ttl, default.
EVENT_TTL_US: Final = HOUR_US
# Series kept. At about 400 bytes each: 20 MB.
EVENT_LIMIT: Final = 50_000

Said = tuple[str, str, str]
"""`(type, reason, message)`."""


class Told(NamedTuple):
    """One distinct event: what was said about what, how often, first and last."""

    about: Key
    uid: str
    type: str
    reason: str
    message: str
    component: str
    times: int
    first_us: int
    last_us: int
    serial: int


_Ident = tuple[str, tuple[Said, ...], str, Key]
_Series = tuple[int, int, int, int]


class KubeEvents:
    """Events in series: what is always said together (pulled, created, started) is kept together.

    A series is `(count, first µs, last µs, serial)` by `(uid, what was said, component, about)`, in the order
    in which it was last heard.
    """

    def __init__(self, *, ttl_us: int = EVENT_TTL_US, limit: int = EVENT_LIMIT) -> None:
        self.ttl_us = ttl_us
        self.limit = limit
        self._totals: dict[tuple[str, tuple[Said, ...]], int] = {}
        self._reasons: dict[tuple[str, str, str], int] = {}
        self._series: dict[_Ident, _Series] = {}
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
        part: str = "",
    ) -> None:
        """Say it (or count it, when it was said before). `part`: a path within the object, which is not kept here."""
        total = (component, type_, reason)
        self._reasons[total] = self._reasons.get(total, 0) + times
        self._keep(now_us, (uid, ((type_, reason, message),), component, about), times)

    def emit_all(
        self, now_us: int, about: Key, uid: str, said: tuple[Said, ...], component: str, part: str = ""
    ) -> None:
        """Say several things at once. `said` is best a shared constant: totals are kept per such tuple."""
        total = (component, said)
        self._totals[total] = self._totals.get(total, 0) + 1
        self._keep(now_us, (uid, said, component, about), 1)

    def _keep(self, now_us: int, ident: _Ident, times: int) -> None:
        all_series = self._series
        series = all_series.pop(ident, None)
        if series is not None and now_us - series[2] <= self.ttl_us:
            all_series[ident] = (series[0] + times, series[1], now_us, series[3])
            return
        self._serial += 1
        all_series[ident] = (times, now_us, now_us, self._serial)
        if len(all_series) > self.limit + self.limit // 4:
            # A quarter at a time: taking the first of a dict again and again would scan its holes each time.
            for old in list(islice(all_series, len(all_series) - self.limit)):
                del all_series[old]

    @property
    def totals(self) -> dict[tuple[str, str, str], int]:
        """How often anything was said, ever: by (component, type, reason), sorted."""
        totals = dict(self._reasons)
        for (component, said), count in self._totals.items():
            for type_, reason, _ in said:
                key = (component, type_, reason)
                totals[key] = totals.get(key, 0) + count
        return dict(sorted(totals.items()))

    def told(self) -> list[Told]:
        """Everything still kept, in the order in which it was last said."""
        return [
            Told(about, uid, type_, reason, message, component, *series)
            for (uid, said, component, about), series in self._series.items()
            for type_, reason, message in said
        ]

    def about(self, key: Key) -> list[Told]:
        """What was said about one object, in the order in which it was last said."""
        return [
            Told(about, uid, type_, reason, message, component, *series)
            for (uid, said, component, about), series in self._series.items()
            if about == key
            for type_, reason, message in said
        ]

    def objects(self, now_us: int, namespace: str | None = None) -> list[Obj]:
        """The events still alive as core/v1 Event objects."""
        oldest_us = now_us - self.ttl_us
        return [
            _event(told)
            for told in self.told()
            if told.last_us >= oldest_us and (namespace is None or _namespace(told.about) == namespace)
        ]

    def fork(self) -> KubeEvents:
        twin = KubeEvents(ttl_us=self.ttl_us, limit=self.limit)
        twin._totals = dict(self._totals)
        twin._reasons = dict(self._reasons)
        twin._series = dict(self._series)
        twin._serial = self._serial
        return twin


def _namespace(about: Key) -> str:
    """Events about cluster-scoped objects live in `default`."""
    return about.namespace or "default"


def _event(told: Told) -> Obj:
    kind, _, group = told.about.gk.partition(".")
    involved: dict[str, Any] = {"kind": kind, "name": told.about.name, "uid": told.uid}
    if group:
        involved["apiVersion"] = group
    if told.about.namespace:
        involved["namespace"] = told.about.namespace
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{told.about.name}.{told.serial:012x}{told.reason.lower()[:4]}",
            "namespace": _namespace(told.about),
            "creationTimestamp": rfc3339(told.first_us),
        },
        "involvedObject": involved,
        "type": told.type,
        "reason": told.reason,
        "message": told.message,
        "count": told.times,
        "firstTimestamp": rfc3339(told.first_us),
        "lastTimestamp": rfc3339(told.last_us),
        "source": {"component": told.component},
        "reportingComponent": told.component,
    }
