"""What a description of load says: plain data in, frozen data out.

workloads:                            # what the pods of a workload use and report
- {kind: Deployment, name: web, namespace: shop,
   total: {cpu: "0s:2,10m:8", requests_per_second: "0s:100,10m:900"},   # divided among its ready pods
   each: {memory: 2Gi}}                                                  # for every ready pod
series:                               # metrics of objects, or external ones
- {name: queue_depth, labels: {queue: a}, value: "0s:0,5m:200", ramp: true, every: 24h}
- {name: requests_total, labels: {service: web}, perSecond: "0s:100,10m:900"}   # a counter
- {name: hits, object: {kind: Service, name: web}, namespace: shop, value: 40}
- {name: depth, scaler: "scaler.shop:6000", target: 10, value: 40}      # what an external scaler of KEDA answers
queues:                               # messages that arrive and are consumed
- {name: jobs, arrivals: "0s:2,1h:20", consumers: {kind: Deployment, name: worker, namespace: shop, rate: 1.5}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairway.autoscaling.load.curves import GRAIN_US, Curve, parse_curve
from fairway.autoscaling.load.queues import STILL, Consumers, Queue
from fairway.kube.quantity import QuantityError, milli_ceil
from fairway.kube.timestamps import parse_duration

Path = tuple[str | int, ...]
# Entries of one description. 10,000 autoscaled workloads are the size this is measured at.
ENTRIES_MOST: Final = 50_000


class LoadFault(ValueError):
    """A description that says nothing. Fields: where in it, and what was expected."""

    def __init__(self, path: Path, expected: str) -> None:
        self.path = path
        self.expected = expected
        super().__init__(f"{'.'.join(map(str, path))}: {expected}")


@dataclass(frozen=True, slots=True)
class WorkloadLoad:
    """What the ready pods of a workload use and report: `total` divided among them, `each` for every one."""

    kind: str
    name: str
    namespace: str
    total: tuple[tuple[str, Curve], ...] = ()
    each: tuple[tuple[str, Curve], ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """A metric. With `about` (kind, name) of that object, with a `scaler` what that address answers (for triggers whose
    metadata has its labels), else external. An empty namespace is every one."""

    name: str
    namespace: str
    value: Curve
    labels: tuple[tuple[str, str], ...] = ()
    about: tuple[str, str] | None = None
    is_counter: bool = False
    """Whether the value is what every second adds."""
    scaler: str = ""
    target_milli: int = 0

    def at(self, since_us: int) -> int:
        return self.value.total(since_us) if self.is_counter else self.value.at(since_us)

    def changes_at(self, since_us: int) -> int:
        return (
            since_us // GRAIN_US * GRAIN_US + GRAIN_US if self.is_counter else self.value.changes_at(since_us)
        )


@dataclass(frozen=True, slots=True)
class Load:
    """Everything one description says."""

    workloads: tuple[WorkloadLoad, ...] = ()
    series: tuple[Series, ...] = ()
    queues: tuple[Queue, ...] = ()


NO_LOAD: Final = Load()
_PARTS: Final = ("workloads", "series", "queues")


def read_load(raw: Any) -> Load:
    """Raises: LoadFault."""
    given = _mapping(raw, (), _PARTS)
    entries = {part: [] if given.get(part) is None else given[part] for part in _PARTS}
    for part, listed in entries.items():
        if not isinstance(listed, list):
            raise LoadFault((part,), "expected a list")
        if len(listed) > ENTRIES_MOST:
            raise LoadFault((part,), f"expected at most {ENTRIES_MOST} entries")
    return Load(
        tuple(_workload(one, ("workloads", i)) for i, one in enumerate(entries["workloads"])),
        tuple(_series(one, ("series", i)) for i, one in enumerate(entries["series"])),
        tuple(_queue(one, ("queues", i)) for i, one in enumerate(entries["queues"])),
    )


def _workload(raw: Any, path: Path) -> WorkloadLoad:
    given = _mapping(raw, path, ("kind", "name", "namespace", "total", "each", "ramp", "every"))
    every_us, ramp = _every(given, path), bool(given.get("ramp"))
    return WorkloadLoad(
        _text(given, "kind", path, "Deployment"),
        _text(given, "name", path),
        _text(given, "namespace", path, "default"),
        tuple(_curves(given.get("total"), (*path, "total"), ramp, every_us)),
        tuple(_curves(given.get("each"), (*path, "each"), ramp, every_us)),
    )


def _curves(raw: Any, path: Path, ramp: bool, every_us: int) -> Iterator[tuple[str, Curve]]:
    for name, value in _mapping(raw, path).items():
        yield str(name), _curve(value, (*path, str(name)), ramp, every_us)


def _series(raw: Any, path: Path) -> Series:
    known = (
        "name",
        "namespace",
        "labels",
        "object",
        "scaler",
        "target",
        "value",
        "perSecond",
        "ramp",
        "every",
    )
    given = _mapping(raw, path, known)
    scaler, target = _text(given, "scaler", path, ""), _amount(given.get("target", 0), (*path, "target"))
    if bool(scaler) != bool(target):
        raise LoadFault((*path, "target"), "expected a target above 0 beside scaler, and none without")
    about = None
    if given.get("object") is not None:
        at = (*path, "object")
        described = _mapping(given["object"], at, ("kind", "name", "apiVersion"))
        about = (_text(described, "kind", at), _text(described, "name", at))
    told = "perSecond" if "perSecond" in given else "value"
    if told not in given or ("value" in given and told != "value"):
        raise LoadFault(
            (*path, "value"), "expected a value, or steps such as 0s:10,5m:90; or perSecond instead"
        )
    value = _curve(given[told], (*path, told), bool(given.get("ramp")), _every(given, path))
    labels = _mapping(given.get("labels"), (*path, "labels"))
    return Series(
        _text(given, "name", path),
        _text(given, "namespace", path, ""),
        value,
        tuple(sorted((str(k), str(v)) for k, v in labels.items())),
        about,
        told == "perSecond",
        scaler,
        target,
    )


_OF_QUEUES: Final = [
    "name",
    "namespace",
    "arrivals",
    "consumers",
    "length",
    "fails",
    "maxReceives",
    "visibilityTimeout",
    "metric",
    "ramp",
    "every",
]


def _queue(raw: Any, path: Path) -> Queue:
    given = _mapping(raw, path, _OF_QUEUES)
    arrivals = STILL
    if given.get("arrivals") is not None:
        at = (*path, "arrivals")
        arrivals = _curve(given["arrivals"], at, bool(given.get("ramp")), _every(given, path))
    namespace = _text(given, "namespace", path, "")
    return Queue(
        _text(given, "name", path),
        namespace,
        arrivals,
        _consumers(given.get("consumers"), (*path, "consumers"), namespace),
        _amount(given.get("length", 0), (*path, "length")),
        _percent(given.get("fails", 0), (*path, "fails")),
        _whole(given.get("maxReceives", 0), (*path, "maxReceives")),
        _text(given, "metric", path, ""),
        _time(given.get("visibilityTimeout", 0), (*path, "visibilityTimeout")),
    )


def _consumers(raw: Any, path: Path, namespace: str) -> Consumers | None:
    if raw is None:
        return None
    given = _mapping(raw, path, ("kind", "name", "namespace", "rate", "atOnce"))
    return Consumers(
        _text(given, "kind", path, "Deployment"),
        _text(given, "name", path),
        _text(given, "namespace", path, namespace or "default"),
        _amount(given.get("rate", 1), (*path, "rate")),
        _whole(given.get("atOnce", 1), (*path, "atOnce")),
    )


def _mapping(raw: Any, path: Path, known: Any = None) -> Mapping[str, Any]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise LoadFault(path, "expected a mapping")
    for name in raw:
        if known is not None and name not in known:
            raise LoadFault((*path, str(name)), f"unknown; expected one of {', '.join(known)}")
    return raw


def _text(given: Mapping[str, Any], name: str, path: Path, default: str | None = None) -> str:
    value = given.get(name, default)
    if not isinstance(value, str) or (default is None and not value):
        raise LoadFault((*path, name), "expected text")
    return value


def _every(given: Mapping[str, Any], path: Path) -> int:
    if given.get("every") is None:
        return 0
    every_us = _time(given["every"], (*path, "every"))
    if every_us <= 0:
        raise LoadFault((*path, "every"), "expected a duration such as 24h")
    return every_us


def _time(value: Any, path: Path) -> int:
    try:
        return parse_duration(str(value))
    except ValueError:
        raise LoadFault(path, "expected a duration such as 24h") from None


def _curve(value: Any, path: Path, ramp: bool, every_us: int) -> Curve:
    try:
        return parse_curve(value, ramp=ramp, every_us=every_us)
    except ValueError as wrong:
        raise LoadFault(path, str(wrong)) from None


def _amount(value: Any, path: Path) -> int:
    try:
        amount = milli_ceil(value)
    except QuantityError:
        raise LoadFault(path, "expected a number such as 20 or 0.5") from None
    if amount < 0:
        raise LoadFault(path, "expected a number that is not negative")
    return amount


def _whole(value: Any, path: Path) -> int:
    amount = _amount(value, path)
    if amount % 1000:
        raise LoadFault(path, "expected a whole number")
    return amount // 1000


def _percent(value: Any, path: Path) -> int:
    amount = _amount(str(value).removesuffix("%"), path) // 100
    if amount > 1000:
        raise LoadFault(path, "expected a percentage from 0% to 100%")
    return amount
