"""An occurrence as a core/v1 Event object: who said what about which object.

Source: client-go tools/record/event.go makeEvent (v1.36). There the name ends in the time in hexadecimal
nanoseconds; here too, of the simulated clock, with a serial number to keep two of one instant apart.
"""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Obj, meta_of
from fairway.kube.timestamps import rfc3339

NORMAL = "Normal"
WARNING = "Warning"
# Source: apis/core/validation/events.go NoteLengthLimit.
_MAX_MESSAGE_BYTES = 1024


def make_event(
    about: Obj,
    reason: str,
    message: str,
    now_us: int,
    *,
    type_: str = NORMAL,
    component: str = "",
    host: str = "",
    count: int = 1,
    first_us: int | None = None,
    serial: int = 0,
) -> Obj:
    """The Event. Same arguments, same object: nothing in it is drawn at random.

    `serial` tells apart events about one object in one microsecond (0 to 999).
    """
    involved = object_reference(about)
    namespace = involved.get("namespace") or "default"
    instant_ns = now_us * 1000 + serial
    source = {k: v for k, v in (("component", component), ("host", host)) if v}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{involved.get('name', '')}.{instant_ns:x}",
            "namespace": namespace,
            "creationTimestamp": rfc3339(now_us),
        },
        "involvedObject": involved,
        "reason": reason,
        "message": _cut(message),
        "source": source,
        "firstTimestamp": rfc3339(now_us if first_us is None else first_us),
        "lastTimestamp": rfc3339(now_us),
        "count": count,
        "type": type_,
        "eventTime": None,
        "reportingComponent": component,
        "reportingInstance": host,
    }


def repeat_event(event: Obj, now_us: int, *, times: int = 1) -> Obj:
    """The same Event, seen again."""
    return {**event, "count": (event.get("count") or 0) + times, "lastTimestamp": rfc3339(now_us)}


def object_reference(obj: Obj) -> dict[str, Any]:
    """A core/v1 ObjectReference to an object; absent members are left out."""
    meta = meta_of(obj)
    reference = {
        "kind": obj.get("kind"),
        "namespace": meta.get("namespace"),
        "name": meta.get("name"),
        "uid": meta.get("uid"),
        "apiVersion": obj.get("apiVersion"),
        "resourceVersion": meta.get("resourceVersion"),
    }
    return {name: value for name, value in reference.items() if value}


def _cut(message: str) -> str:
    data = message.encode()
    if len(data) <= _MAX_MESSAGE_BYTES:
        return message
    return data[: _MAX_MESSAGE_BYTES - 3].decode(errors="ignore") + "..."
