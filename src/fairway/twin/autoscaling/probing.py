"""What does a trigger of KEDA find? In a simulation: the series and queues of loads, pods, and the clock."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo

from fairway.autoscaling.keda.external import Answer, Asked
from fairway.autoscaling.keda.triggers import CRON, PODS, QUEUE, Probe, TriggerFault
from fairway.autoscaling.load import queues
from fairway.autoscaling.source import NEVER_US
from fairway.kube import cron
from fairway.kube.labelparsing import parse_selector
from fairway.kube.labels import SelectorError
from fairway.kube.objects import Key, Obj
from fairway.kube.quantity import milli_ceil
from fairway.kube.secrets import texts_of
from fairway.kube.timestamps import MINUTE_US

if TYPE_CHECKING:
    from fairway.twin.autoscaling.component import Autoscaling


# A scalar is a time and a text, where KEDA's client has a list of series.
_NO_VECTOR: Final = (
    "json: cannot unmarshal number into Go struct field .data.result of type "
    'struct { Metric struct {} "json:\\"metric\\""; Value []interface {} "json:\\"value\\"" }'
)


class Found(NamedTuple):
    """A value in thousandths, whether it activates, until when it holds; or a fault."""

    milli: int
    is_active: bool
    until_us: int
    fault: str = ""


def found(room: Autoscaling, probe: Probe, namespace: str) -> Found:
    """What the trigger says now."""
    if probe.source == CRON:
        return _cron(room, probe)
    if probe.kind == "prometheus" and probe.sought != probe.metadata.get("metricName"):
        return _prometheus(room, probe)
    if probe.asked is not None:
        return _external(room, probe, probe.asked)
    if probe.source == PODS:
        milli, until_us = _pods(room, probe, namespace), NEVER_US
    else:
        answer = (_queue if probe.source == QUEUE else _series)(room, probe, namespace)
        if answer is None:
            what = "queue" if probe.source == QUEUE else "series"
            return Found(0, False, NEVER_US, f"{probe.kind}: no load describes a {what} {probe.sought}")
        milli, until_us = answer
    return Found(milli, milli > probe.activation_milli, until_us)


def external(room: Autoscaling, asked: Asked) -> Answer | None:
    """What an external scaler says: the one that a load describes, or a real one; None: nothing yet."""
    told = room.loads.scaler(asked)
    if told is not None:
        return told
    if room.outside is None:
        return Answer(fault=f"external: no load describes a scaler at {asked.address}")
    return room.outside.answer(asked)


def _external(room: Autoscaling, probe: Probe, asked: Asked) -> Found:
    told = external(room, asked)
    if told is None:
        return Found(0, False, room.host.loop.now_us)
    until_us = room.host.loop.now_us if room.outside is not None else told.until_us
    if told.fault:
        return Found(0, False, until_us, told.fault)
    if probe.sought not in told.values:
        return Found(0, False, until_us, f"{probe.kind}: {asked.address} has no metric {probe.sought}")
    return Found(told.values[probe.sought], told.is_active, until_us)


def _cron(room: Autoscaling, probe: Probe) -> Found:
    """Within its window if the next end comes no later than the next start."""
    now_us = room.host.loop.now_us
    given = probe.metadata
    start_us, end_us = (
        _schedule(given[which], given["timezone"]).next_us(now_us) or NEVER_US for which in ("start", "end")
    )
    is_within = start_us >= end_us
    wanted = milli_ceil(probe.metadata["desiredReplicas"]) if is_within else 0
    return Found(wanted, is_within, min(start_us, end_us))


@lru_cache(maxsize=1024)
def _schedule(text: str, zone: str) -> cron.Schedule | cron.Every:
    return cron.parse(text, ZoneInfo(zone))


def cron_fault(probe: Probe) -> str:
    """Why the schedule is none; empty where it is one."""
    given = probe.metadata
    try:
        ZoneInfo(given["timezone"])
    except (KeyError, ValueError, OSError):
        return f"unable to load timezone: unknown time zone {given['timezone']}"
    for which in ("start", "end"):
        try:
            cron.parse(given[which])
        except ValueError as wrong:
            return f"error parsing cron metadata: error parsing {which} schedule: {wrong}"
    if given["start"] == given["end"]:
        return "error parsing cron metadata: start and end can not have exactly same time input"
    return ""


def _pods(room: Autoscaling, probe: Probe, namespace: str) -> int:
    selector = parse_selector(probe.sought)
    there = [p for p in room.index.pods(namespace, selector) if not _is_over(p)]
    if probe.metadata.get("groupByNode") == "true":
        return 1000 * len({p["spec"]["nodeName"] for p in there if p["spec"].get("nodeName")})
    return 1000 * len(there)


def _is_over(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _queue(room: Autoscaling, probe: Probe, namespace: str) -> tuple[int, int] | None:
    """A queue of that name, or a series."""
    leaves_out = (
        probe.metadata.get("scaleOnInFlight") == "false"
        or probe.metadata.get("excludeUnacknowledged") == "true"
    )
    for queue, level, ready, length in room.loads.queues():
        if queue.name == probe.sought and queue.namespace in ("", namespace):
            held = queues.in_flight(queue, level, ready) if leaves_out else 0
            return max((length.milli - held) // 1000, 0) * 1000, length.until_us
    return _named(room, probe.sought, namespace)


def _prometheus(room: Autoscaling, probe: Probe) -> Found:
    """What the query comes to. Source: pkg/scalers/prometheus_scaler.go, ExecutePromQuery (KEDA main, August 2026)."""
    from fairway.telemetry.promql import Matrix, PromQLError
    from fairway.twin.queries import ask

    try:
        asked = ask(room.host, probe.sought)
    except PromQLError:
        status = "prometheus query api returned error. status: 400"
        return Found(0, False, room.host.loop.now_us + MINUTE_US, status)
    until_us = asked.until_us
    if not isinstance(asked.result, Matrix):
        return Found(0, False, until_us, _NO_VECTOR)
    values = asked.result.values[:, 0].tolist()
    if len(values) > 1:
        return Found(0, False, until_us, f"prometheus query {probe.sought} returned multiple elements")
    ignores = probe.metadata.get("ignoreNullValues", "true").lower() != "false"
    if not values and asked.missing:
        # Unlike KEDA, which takes it for 0: nothing here will ever have such a metric.
        return Found(
            0, False, until_us, f"prometheus: nothing here has the metric {', '.join(asked.missing)}"
        )
    if not values and not ignores:
        lost = "prometheus metrics 'prometheus' target may be lost, the result is empty"
        return Found(0, False, until_us, lost)
    value = values[0] if values else 0.0
    if not math.isfinite(value) and not ignores:
        shown = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        return Found(0, False, until_us, f"prometheus query returns {shown}")
    milli = int(value * 1000) if math.isfinite(value) else 0
    return Found(milli, milli > probe.activation_milli, until_us)


def _series(room: Autoscaling, probe: Probe, namespace: str) -> tuple[int, int] | None:
    return _named(room, probe.sought, namespace)


def _named(room: Autoscaling, name: str, namespace: str) -> tuple[int, int] | None:
    """The sum of the series of a name, else the length of the queue that is called so."""
    total, until_us, is_there = 0, NEVER_US, False
    for series, value in room.loads.series(name):
        if series.namespace in ("", namespace):
            total, until_us, is_there = total + value.milli, min(until_us, value.until_us), True
    for queue, _level, _ready, length in room.loads.queues():
        if name in (queue.metric, queue.name) and queue.namespace in ("", namespace) and not is_there:
            return length.milli, length.until_us
    return (total, until_us) if is_there else None


def parameters(room: Autoscaling, trigger: Obj, namespace: str) -> dict[str, str]:
    """What a trigger's authentication gives. Raises: TriggerFault where it is not there."""
    ref = trigger.get("authenticationRef") or {}
    if not ref.get("name"):
        return {}
    kind = ref.get("kind") or "TriggerAuthentication"
    of = "" if kind.startswith("Cluster") else namespace
    obj = room.host.store.get(Key(f"{kind}.keda.sh", of, ref["name"]))
    if obj is None:
        raise TriggerFault(f'{kind} "{ref["name"]}" not found'.replace(kind, f"{kind.lower()}s.keda.sh"))
    given: dict[str, str] = {}
    spec = obj.get("spec") or {}
    for member, gk in (("secretTargetRef", "Secret"), ("configMapTargetRef", "ConfigMap")):
        for one in spec.get(member) or ():
            held = room.host.store.get(Key(gk, of or "keda", one.get("name") or "")) or {}
            values = texts_of(held) if gk == "Secret" else held.get("data") or {}
            if one.get("key") in values:
                given[one["parameter"]] = values[one["key"]]
    for one in spec.get("env") or ():
        given[one["parameter"]] = one.get("name") or ""
    return given


def selector_fault(probe: Probe) -> str:
    try:
        parse_selector(probe.sought)
    except SelectorError as wrong:
        return f"error parsing kubernetes workload metadata: error parsing pod selector: {wrong}"
    return ""
