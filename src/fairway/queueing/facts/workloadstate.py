"""Where does a Workload object stand? Predicates over its spec and status.

Source: pkg/workload/workload.go, admissionchecks.go.
"""

from __future__ import annotations

from typing import Final

from fairway.kube.objects import Obj, annotations_of, meta_of, spec_of, status_of
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.gates import DEFAULT_GATES, FeatureGates
from fairway.queueing.facts.topologyassignments import read_assignment

ADMISSION_GATED_BY: Final = "kueue.x-k8s.io/admission-gated-by"
ELASTIC_JOB: Final = "kueue.x-k8s.io/elastic-job"
IS_GROUP_WORKLOAD: Final = "kueue.x-k8s.io/is-group-workload"

_ENDS_WAITING: Final = (conds.FINISHED, conds.WAITING_FOR_REPLACEMENT_PODS)


def is_active(obj: Obj) -> bool:
    return spec_of(obj).get("active") is not False


def is_finished(obj: Obj) -> bool:
    return conds.is_true(status_of(obj), conds.FINISHED)


def is_on_hold(obj: Obj) -> bool:
    reserved = conds.find(status_of(obj), conds.QUOTA_RESERVED)
    return reserved is not None and _says_on_hold(reserved)


def _says_on_hold(reserved: conds.Condition) -> bool:
    return bool(reserved["status"] == conds.FALSE and reserved.get("reason") == conds.ON_HOLD)


def is_admissible(obj: Obj, gates: FeatureGates = DEFAULT_GATES) -> bool:
    """Whether it belongs into a queue: active, unfinished, without quota, not held back."""
    if gates.admission_gated_by and annotations_of(obj).get(ADMISSION_GATED_BY):
        return False
    if not is_active(obj):
        return False
    # One walk over the conditions: this is asked at every step of a Workload's life.
    for condition in status_of(obj).get("conditions") or ():
        kind = condition["type"]
        if kind == conds.QUOTA_RESERVED:
            if condition["status"] == conds.TRUE or _says_on_hold(condition):
                return False
        elif kind in _ENDS_WAITING and condition["status"] == conds.TRUE:
            return False
    return True


def check_states(obj: Obj) -> tuple[str, ...]:
    checks = status_of(obj).get("admissionChecks")
    return tuple(c.get("state") or "" for c in checks) if checks else ()


def has_unhealthy_domain(obj: Obj) -> bool:
    """Admitted with pods on a node that is known to be unhealthy."""
    status = status_of(obj)
    names = {n["name"] for n in status.get("unhealthyNodes") or ()}
    if not names or not conds.is_true(status, conds.ADMITTED):
        return False
    for raw in (status.get("admission") or {}).get("podSetAssignments") or ():
        assignment = read_assignment(raw.get("topologyAssignment"))
        if assignment is not None and any(d.values[-1] in names for d in assignment.domains):
            return True
    return False


def has_pending_topology(obj: Obj) -> bool:
    assignments = (status_of(obj).get("admission") or {}).get("podSetAssignments") or ()
    return any(
        a.get("topologyAssignment") is None and a.get("delayedTopologyRequest") == "Pending"
        for a in assignments
    )


def needs_second_pass(obj: Obj) -> bool:
    """Whether a workload with quota has to be scheduled again: a delayed topology, or a node to replace."""
    status = status_of(obj)
    if not status.get("admissionChecks") and not status.get("unhealthyNodes"):
        return False
    if (
        is_finished(obj)
        or conds.is_true(status, conds.EVICTED)
        or not conds.is_true(status, conds.QUOTA_RESERVED)
    ):
        return False
    states = check_states(obj)
    if (
        states
        and all(s == "Ready" for s in states)
        and has_pending_topology(obj)
        and not conds.is_true(status, conds.ADMITTED)
    ):
        return True
    return has_unhealthy_domain(obj)


def has_closed_preemption_gate(obj: Obj) -> bool:
    positions = {g["name"]: g.get("position") for g in status_of(obj).get("preemptionGates") or ()}
    return any(
        g["name"] not in positions or positions[g["name"]] == "Closed"
        for g in spec_of(obj).get("preemptionGates") or ()
    )


def is_elastic(obj: Obj) -> bool:
    """Its job may grow and shrink, one slice after another."""
    return annotations_of(obj).get(ELASTIC_JOB) == "true"


def is_owned_by_single_pod(obj: Obj) -> bool:
    owners = meta_of(obj).get("ownerReferences") or []
    if len(owners) != 1 or annotations_of(obj).get(IS_GROUP_WORKLOAD) == "true":
        return False
    return (owners[0].get("kind"), owners[0].get("apiVersion")) == ("Pod", "v1")
