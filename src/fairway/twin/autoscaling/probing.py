"""What does a trigger of KEDA find? In a simulation: the series and queues of loads, pods, and the clock."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo

from fairway.autoscaling.keda.triggers import CRON, PODS, QUEUE, Probe, TriggerFault
from fairway.autoscaling.load import queues
from fairway.autoscaling.source import NEVER_US
from fairway.kube import cron
from fairway.kube.labelparsing import parse_selector
from fairway.kube.labels import SelectorError
from fairway.kube.objects import Key, Obj
from fairway.kube.quantity import milli_ceil

if TYPE_CHECKING:
    from fairway.twin.autoscaling.component import Autoscaling

_NAMED: Final = re.compile(r"([A-Za-z_:][\w:.-]*)\s*(\{[^}]*\})?(\s*\()?")
_LABEL: Final = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
# Words of PromQL that stand where a metric's name might.
_WORDS: Final = frozenset(
    ("by", "without", "on", "ignoring", "group_left", "group_right", "offset", "bool", "and", "or", "unless")
)
# Regular expressions of queries are tried on labels only as far as this.
_PATTERN_CHARS: Final = 200


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
    if probe.source == PODS:
        milli, until_us = _pods(room, probe, namespace), NEVER_US
    else:
        answer = (_queue if probe.source == QUEUE else _series)(room, probe, namespace)
        if answer is None:
            what = "queue" if probe.source == QUEUE else "series"
            return Found(0, False, NEVER_US, f"{probe.kind}: no load describes a {what} {probe.sought}")
        milli, until_us = answer
    return Found(milli, milli > probe.activation_milli, until_us)


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
            return max(length.milli - held, 0) // 1000 * 1000, length.until_us
    return _named(room, probe.sought, "", namespace)


def _series(room: Autoscaling, probe: Probe, namespace: str) -> tuple[int, int] | None:
    """Of a query: the sum of the first series it names. Whole PromQL is not understood here."""
    if probe.kind != "prometheus":
        return _named(room, probe.sought, "", namespace)
    for match in _NAMED.finditer(probe.sought):
        name, labels, calls = match.groups()
        if calls or name in _WORDS:
            continue
        answer = _named(room, name, labels or "", namespace)
        if answer is not None:
            return answer
    return None


def _named(room: Autoscaling, name: str, matchers: str, namespace: str) -> tuple[int, int] | None:
    total, until_us, is_there = 0, NEVER_US, False
    for series, value in room.loads.series(name):
        if series.namespace in ("", namespace) and _fits(dict(series.labels), matchers):
            total, until_us, is_there = total + value.milli, min(until_us, value.until_us), True
    for queue, _level, _ready, length in room.loads.queues():
        if name in (queue.metric, queue.name) and queue.namespace in ("", namespace) and not is_there:
            return length.milli, length.until_us
    return (total, until_us) if is_there else None


def _fits(labels: dict[str, str], matchers: str) -> bool:
    for name, operator, value in _LABEL.findall(matchers):
        has = labels.get(name, "")
        if operator in ("=", "!="):
            is_met = has == value
        else:
            is_met = len(value) <= _PATTERN_CHARS and _matches(value, has)
        if is_met == operator.startswith("!"):
            return False
    return True


def _matches(pattern: str, text: str) -> bool:
    """Alternatives and `.*`, which is what queries use; anything else is compared as it stands."""
    return any(
        "".join(".*" if part == ".*" else re.escape(part) for part in re.split(r"(\.\*)", one)) == ".*"
        or re.fullmatch("".join(".*" if p == ".*" else re.escape(p) for p in re.split(r"(\.\*)", one)), text)
        is not None
        for one in pattern.split("|")
    )


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
            held = room.host.store.get(Key(gk, of or "keda", one.get("name") or ""))
            value = {**((held or {}).get("data") or {}), **((held or {}).get("stringData") or {})}
            if one.get("key") in value:
                given[one["parameter"]] = value[one["key"]]
    for one in spec.get("env") or ():
        given[one["parameter"]] = one.get("name") or ""
    return given


def selector_fault(probe: Probe) -> str:
    try:
        parse_selector(probe.sought)
    except SelectorError as wrong:
        return f"error parsing kubernetes workload metadata: error parsing pod selector: {wrong}"
    return ""
