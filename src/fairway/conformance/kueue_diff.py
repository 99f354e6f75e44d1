"""Where does an object, an admission or an event list differ from what a table wants?

Times mean nothing in the tables; quantities are compared by value, topology assignments by their domains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from fairway.kube.resources import parse_resources
from fairway.queueing.facts.topologyassignments import read_assignment
from fairway.queueing.facts.workloads import key_of
from fairway.queueing.outcomes.events import Event

_TIMES = ("lastTransitionTime",)


class Mismatch(NamedTuple):
    aspect: str
    wanted: str
    got: str


def shown(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def compare(aspect: str, wanted: Any, got: Any) -> list[Mismatch]:
    return [] if wanted == got else [Mismatch(aspect, shown(wanted), shown(got))]


def compare_objects(wanted: Iterable[Mapping[str, Any]], got: Iterable[Mapping[str, Any]]) -> list[Mismatch]:
    """Workloads by key: conditions, admission, requests, checks and eviction counts."""
    of_want = {key_of(dict(obj)): obj for obj in wanted}
    of_got = {key_of(dict(obj)): obj for obj in got}
    found = compare("wantWorkloads keys", sorted(of_want), sorted(of_got))
    for key in sorted(of_want.keys() & of_got.keys()):
        want, have = normal_status(of_want[key]), normal_status(of_got[key])
        for part in sorted(want.keys() | have.keys()):
            found.extend(compare(f"wantWorkloads {key} {part}", want.get(part), have.get(part)))
    return found


def normal_status(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A status without times, in a form where equal means the same."""
    status = obj.get("status") or {}
    normal: dict[str, Any] = {}
    for condition in status.get("conditions") or ():
        normal[f"condition {condition['type']}"] = {
            k: v for k, v in condition.items() if k not in ("type", *_TIMES)
        }
    if status.get("admission") is not None:
        normal["admission"] = normal_admission(status["admission"])
    if status.get("resourceRequests"):
        normal["resourceRequests"] = [
            [r.get("name"), parse_resources(r.get("resources"))] for r in status["resourceRequests"]
        ]
    if status.get("admissionChecks"):
        normal["admissionChecks"] = [
            {k: v for k, v in check.items() if k not in _TIMES and v not in ("", None)}
            for check in status["admissionChecks"]
        ]
    for name in ("schedulingStats", "unhealthyNodes", "accumulatedPastExecutionTimeSeconds"):
        if status.get(name):
            normal[name] = status[name]
    return normal


def normal_admission(admission: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "clusterQueue": admission.get("clusterQueue"),
        "podSets": [
            {
                "name": ps.get("name"),
                "count": ps.get("count"),
                "flavors": ps.get("flavors") or {},
                "usage": parse_resources(ps.get("resourceUsage")),
                "topology": read_assignment(ps.get("topologyAssignment")),
                "delayed": ps.get("delayedTopologyRequest"),
            }
            for ps in admission.get("podSetAssignments") or ()
        ],
    }


def compare_events(wanted: Sequence[Mapping[str, Any]], got: Sequence[Event]) -> list[Mismatch]:
    """In any order. A wanted event without a message agrees with any message."""
    left = list(got)
    missing = []
    # Those with a message choose first: they are harder to please.
    for event in sorted(wanted, key=lambda e: not e.get("Message")):
        key = f"{event['Key'].get('Namespace') or ''}/{event['Key'].get('Name')}"
        match = next(
            (
                e
                for e in left
                if (e.key, e.type, e.reason) == (key, event["EventType"], event["Reason"])
                and event.get("Message") in ("", None, e.message)
            ),
            None,
        )
        if match is None:
            missing.append([key, event["EventType"], event["Reason"], event.get("Message")])
        else:
            left.remove(match)
    if not missing and not left:
        return []
    return [Mismatch("wantEvents", shown(missing), shown([list(e) for e in left]))]
