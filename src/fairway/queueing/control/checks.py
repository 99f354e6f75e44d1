"""The admission checks of a Workload: which it needs, and what their states mean.

Source: pkg/controller/core/workload_controller.go (syncAdmissionCheckConditions, buildAdmissionChecksMessage),
pkg/workload/workload.go AdmissionChecksForWorkload, admissionchecks.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairway.kube.objects import Obj, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.queueing.facts.objects import ClusterQueue

Check = dict[str, Any]

PENDING: Final = "Pending"
READY: Final = "Ready"
RETRY: Final = "Retry"
REJECTED: Final = "Rejected"


def needed_checks(workload: Obj, queue: ClusterQueue) -> tuple[str, ...]:
    """Of the flavors assigned; before there are any, those that apply to all flavors."""
    admission = status_of(workload).get("admission")
    if admission is None:
        every = frozenset(f for g in queue.groups for f in g.flavors)
        return tuple(n for n, on in sorted(queue.admission_checks.items()) if on >= every)
    assigned = {
        f for ps in admission.get("podSetAssignments") or () for f in (ps.get("flavors") or {}).values()
    }
    return tuple(n for n, on in sorted(queue.admission_checks.items()) if not assigned.isdisjoint(on))


def synced(present: Sequence[Check], needed: Sequence[str], now_us: int) -> list[Check] | None:
    """The states with what is needed added and what is not dropped; None where nothing changes."""
    names = {c["name"] for c in present}
    if names == set(needed):
        return None
    kept = [c for c in present if c["name"] in needed]
    kept.extend(
        {"name": n, "state": PENDING, "message": "", "lastTransitionTime": rfc3339(now_us)}
        for n in needed
        if n not in names
    )
    return sorted(kept, key=lambda c: str(c["name"]))


def in_state(workload: Obj, state: str) -> list[Check]:
    return [c for c in status_of(workload).get("admissionChecks") or () if c.get("state") == state]


def listed(checks: Sequence[Check], state: str) -> str:
    """`AdmissionCheck in Retry state: "name" (message)`."""
    parts = [
        f'"{c["name"]}" ({c["message"]})' if c.get("message") else f'"{c["name"]}"'
        for c in sorted(checks, key=lambda c: str(c["name"]))
    ]
    noun = "AdmissionChecks" if len(checks) > 1 else "AdmissionCheck"
    return f"{noun} in {state} state: {'; '.join(parts)}"


def retry_us(workload: Obj) -> int:
    """The latest time a check asks to be tried again at; -1: none asks."""
    latest = -1
    for check in in_state(workload, RETRY):
        after, since = check.get("requeueAfterSeconds"), check.get("lastTransitionTime")
        if after is not None and since:
            latest = max(latest, parse_rfc3339(since) + int(after) * SECOND_US)
    return latest


def requeue_at_us(status: Mapping[str, Any]) -> int | None:
    text = (status.get("requeueState") or {}).get("requeueAt")
    return parse_rfc3339(text) if text else None
