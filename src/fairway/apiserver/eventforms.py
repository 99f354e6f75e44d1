"""What does the Event object look like that a component writes?

Most record as core/v1 has it: who said it, first and last, how often. kube-scheduler records in the newer form
(events.k8s.io): when, what it was doing, and repetitions as a series.

Source: client-go tools/record/event.go makeEvent; tools/events/event_recorder.go, event_broadcaster.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.store import Store
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import rfc3339, rfc3339_micro

KUBELET = "kubelet"
# What a scheduler was doing when it said this: only schedulers say these.
_ACTIONS = {"Scheduled": "Binding", "FailedScheduling": "Scheduling", "Preempted": "Preempting"}
_SERIES_FROM = 2


def is_series(reason: str, component: str) -> bool:
    """Whether this component says this in the newer form."""
    return reason in _ACTIONS and component.endswith("-scheduler")


def host_of(component: str, about: Key, obj: Obj | None) -> str:
    """The node a kubelet speaks from; other components do not say."""
    if component != KUBELET:
        return ""
    if about.gk == "Node":
        return about.name
    return str(((obj or {}).get("spec") or {}).get("nodeName") or "")


def reference(store: Store, about: Key, uid: str, part: str) -> dict[str, Any]:
    """An ObjectReference, with the resourceVersion the object has now. `part`: a path within it."""
    obj = store.get(about)
    kind = kind_named(about.gk)
    found: dict[str, Any] = {"kind": kind.kind}
    if about.namespace:
        found["namespace"] = about.namespace
    found["name"] = about.name
    if uid:
        found["uid"] = uid
    found["apiVersion"] = kind.api_version if obj is None else obj.get("apiVersion", kind.api_version)
    if obj is not None:
        found["resourceVersion"] = obj["metadata"]["resourceVersion"]
    if part:
        found["fieldPath"] = part
    return found


def recorded(event: Obj, now_us: int, component: str, host: str, times: int) -> Obj:
    """In core/v1's form."""
    now = rfc3339(now_us)
    return {
        **event,
        "source": {"component": component, **({"host": host} if host else {})},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": times,
        "eventTime": None,
        "reportingComponent": component,
        "reportingInstance": host,
    }


def observed(event: Obj, now_us: int, component: str) -> Obj:
    """In the newer form."""
    return {
        **event,
        "action": _ACTIONS[event["reason"]],
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": rfc3339_micro(now_us),
        "reportingComponent": component,
        "reportingInstance": f"{component}-fairway",
    }


def repeated(event: Obj, now_us: int, message: str, times: int) -> Obj:
    """The same event, said again."""
    if event.get("action"):
        count = (event.get("series") or {}).get("count", _SERIES_FROM - 1) + times
        return {**event, "series": {"count": count, "lastObservedTime": rfc3339_micro(now_us)}}
    count = event.get("count", 1) + times
    return {**event, "message": message, "count": count, "lastTimestamp": rfc3339(now_us)}
