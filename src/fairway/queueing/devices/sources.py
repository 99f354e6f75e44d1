"""How much of a quota does one request take where partitions are counted by a counter, and shared devices by capacity?

The largest value among the devices that the selectors choose, times the devices asked for: which of them a claim will
get is not known before its pod is placed.

Source: pkg/dra/counters.go, capacity.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.cluster.actions import View
from fairway.kube import quantity
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj
from fairway.queueing.devices.mapping import Source
from fairway.queueing.devices.matching import (
    Faulty,
    chosen,
    class_selectors,
    compile_faults,
    expressions,
    internal,
)
from fairway.queueing.devices.requests import count_of
from fairway.queueing.facts.amounts import saturated
from fairway.queueing.webhooks.faults import invalid


def counted(view: View, source: Source, exactly: Obj, at: Path, index: int) -> int:
    """By a counter of partitions. Raises: Faulty."""
    devices = _matching(view, source, exactly, at, index, "counter")
    values = [
        quantity.whole_ceil(counters[source.name]["value"])
        for device in devices
        for counters in ((c.get("counters") or {}) for c in device.get("consumesCounters") or ())
        if source.name in counters
    ]
    if not values:
        why = f'matched devices have no consumesCounters entry for counter "{source.name}"'
        raise Faulty([internal(_path(at, index), why)])
    return saturated(max(0, *values) * count_of(exactly))


def consumed(view: View, source: Source, exactly: Obj, at: Path, index: int) -> int:
    """By a capacity of devices that several claims share. Raises: Faulty."""
    devices = _matching(view, source, exactly, at, index, "capacity")
    asked = ((exactly.get("capacity") or {}).get("requests") or {}).get(source.name)
    dimensions = [d["capacity"][source.name] for d in devices if source.name in (d.get("capacity") or {})]
    if not dimensions:
        why = f'matched devices have no capacity dimension "{source.name}"'
        raise Faulty([internal(_path(at, index), why)])
    charges = [c for c in (_charge(d, asked) for d in dimensions) if c is not None]
    if not charges:
        what = "capacity request cannot be satisfied by any matched device's RequestPolicy for dimension"
        raise Faulty([invalid(_path(at, index), None, f'{what} "{source.name}"')])
    return saturated(max(0, *charges) * count_of(exactly))


def _path(at: Path, index: int) -> Path:
    return (*at, "devices", "requests", index)


def _matching(view: View, source: Source, exactly: Obj, at: Path, index: int, kind: str) -> Sequence[Obj]:
    """The devices that could serve the request: as many as it asks for at least."""
    path = _path(at, index)
    of_class = class_selectors(view, exactly.get("deviceClassName") or "", at, index)
    selectors = exactly.get("selectors") or ()
    wrong = compile_faults(selectors, (*path, "exactly", "selectors"), "CEL compilation failed")
    own = [{"cel": {"expression": source.selector}}] if source.selector else []
    wrong = wrong or compile_faults(own, path, "deviceSelector CEL compilation failed")
    if wrong:
        raise Faulty(wrong)
    steps = [
        ("deviceSelector", expressions(own)),
        ("DeviceClass selector", of_class),
        ("request selector", expressions(selectors)),
    ]
    found = chosen(view, source.driver, steps, lambda why: internal(path, why))
    if len(found) < count_of(exactly):
        what = f"insufficient matching devices for {kind} driver"
        why = f"{what}: {len(found)} device(s) match but {count_of(exactly)} requested"
        raise Faulty([internal(path, why)])
    return found


def _charge(dimension: Mapping[str, Any], asked: Any) -> int | None:
    """What the device's policy makes of it; None: it has no such amount."""
    policy = dimension.get("requestPolicy") or {}
    if asked is None:
        asked = policy.get("default")
    base = asked if asked is not None else dimension.get("value") or "0"
    values = policy.get("validValues") or ()
    if values:
        fitting = (v for v in values if quantity.of(v) >= quantity.of(base))
        first = next(fitting, None)
        return None if first is None else quantity.whole_ceil(first)
    span = policy.get("validRange")
    return quantity.whole_ceil(base) if span is None else _in_range(quantity.whole_ceil(base), span)


def _in_range(value: int, span: Mapping[str, Any]) -> int | None:
    low, step, high = (span.get(name) for name in ("min", "step", "max"))
    if low is not None:
        floor = quantity.whole_ceil(low)
        value = max(value, floor)
        width = 0 if step is None else quantity.whole_ceil(step)
        if width > 0:
            value = floor + -(-(value - floor) // width) * width
    return None if high is not None and value > quantity.whole_ceil(high) else value
