"""A NodeClaim as an object: what is written, what is launched for it, and what becomes of it.

Launched (the cloud has it), Registered (its Node is there), Initialized (ready, startup taints gone, devices there);
Ready is all three. What is launched for one: `launching`.

Source: nodeclaimtemplate.go ToNodeClaim; pkg/controllers/nodeclaim/lifecycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairway.kube.conditions import Condition, get_condition, is_condition_true, set_condition
from fairway.kube.objects import Obj, meta_of, spec_of, status_of
from fairway.kube.resources import format_resources
from fairway.kube.taints import parse_taints
from fairway.kube.timestamps import MINUTE_US, rfc3339
from fairway.provisioning.karpenter.fleet import available
from fairway.provisioning.karpenter.instancetypes import InstanceType, Offering
from fairway.provisioning.karpenter.labels import (
    CAPACITY_TYPE,
    INITIALIZED,
    INSTANCE_TYPE,
    MIN_VALUES_RELAXED,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    REGISTERED,
    RESTRICTED,
    TERMINATION_FINALIZER,
    UNREGISTERED_TAINT,
    WELL_KNOWN,
    ZONE,
)
from fairway.provisioning.karpenter.nodepools import API_VERSION, HASH_VERSION, NodePool
from fairway.provisioning.karpenter.planned import MAX_INSTANCE_TYPES, PlannedClaim
from fairway.provisioning.karpenter.requirement import IN, one_of
from fairway.provisioning.karpenter.requirements import Requirements, selector_requirements
from fairway.provisioning.karpenter.statenode import is_ephemeral

LAUNCHED: Final = "Launched"
REGISTERED_CONDITION: Final = "Registered"
INITIALIZED_CONDITION: Final = "Initialized"
READY: Final = "Ready"
DRIFTED: Final = "Drifted"
INSTANCE_TERMINATING: Final = "InstanceTerminating"
DISRUPTION_REASON: Final = "DisruptionReason"
DEPENDENT: Final = (LAUNCHED, REGISTERED_CONDITION, INITIALIZED_CONDITION)
# Source: lifecycle/liveness.go.
REGISTRATION_TIMEOUT_US: Final = 15 * MINUTE_US
_SIMULATED: Final = (REGISTERED, INITIALIZED)


def node_claim(plan: PlannedClaim, name: str) -> Obj:
    """The object. `name` is the NodePool's and a suffix, which whoever writes it draws."""
    pool = plan.pool
    types = plan.types()[:MAX_INSTANCE_TYPES]
    wanted = _launch_requirements(plan, types)
    of_node = pool.template.get("spec") or {}
    spec: dict[str, Any] = {
        name: of_node[name]
        for name in ("taints", "startupTaints", "terminationGracePeriod", "expireAfter")
        if of_node.get(name) is not None
    }
    spec.setdefault("expireAfter", "720h")
    reference = of_node.get("nodeClassRef")
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "generateName": f"{pool.name}-",
            "labels": {**pool.labels, **_custom_labels(wanted)},
            "annotations": _annotations(plan),
            "finalizers": [TERMINATION_FINALIZER],
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": "NodePool",
                    "name": pool.name,
                    "uid": pool.uid,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            **({"nodeClassRef": reference} if reference else {}),
            "requirements": wanted.without(*_SIMULATED, *RESTRICTED).as_selectors(),
            "resources": {"requests": format_resources(plan.requests)},
            **spec,
        },
    }


def _launch_requirements(plan: PlannedClaim, types: list[InstanceType]) -> Requirements:
    """With the types named, and the capacity types they have."""
    least = plan.requirements.get(INSTANCE_TYPE).min_values
    named = selector_requirements(
        [{"key": INSTANCE_TYPE, "operator": IN, "values": [t.name for t in types], "minValues": least}]
    )
    wanted = plan.requirements.plus(named)
    kinds = sorted({o.capacity_type for t in types for o in available(t, wanted)})
    return wanted.plus((one_of(CAPACITY_TYPE, kinds),)) if kinds else wanted


def _custom_labels(wanted: Requirements) -> dict[str, str]:
    """A value for each label of one's own that the node must have.

    Unlike kube: of several values the first by name; Karpenter takes any, and a random number for `Exists`.
    """
    labels = {}
    for r in wanted:
        if r.key in WELL_KNOWN or r.key in RESTRICTED or r.key in _SIMULATED or r.operator == "DoesNotExist":
            continue
        labels[r.key] = r.sorted_values()[0] if r.operator == IN else str(r.gte or 0)
    return labels


def _annotations(plan: PlannedClaim) -> dict[str, str]:
    return {
        **plan.pool.annotations,
        NODEPOOL_HASH: plan.pool.hash,
        NODEPOOL_HASH_VERSION: HASH_VERSION,
        MIN_VALUES_RELAXED: "true" if plan.min_values_relaxed else "false",
    }


# Life


def launched(claim: Obj, kind: InstanceType, offering: Offering, provider_id: str, now_us: int) -> Obj:
    """The claim once the cloud has a machine for it: its labels resolved, what it will hold."""
    meta = meta_of(claim)
    single = {
        r.key: next(iter(r.values)) for r in kind.requirements if r.operator == IN and len(r.values) == 1
    }
    place = {ZONE: offering.zone, CAPACITY_TYPE: offering.capacity_type}
    labels = {**single, **place, **dict(offering.labels), **(meta.get("labels") or {})}
    status = {
        **(claim.get("status") or {}),
        "providerID": provider_id,
        "capacity": format_resources(kind.capacity),
        "allocatable": format_resources(kind.allocatable),
    }
    out = {**claim, "metadata": {**meta, "labels": labels}, "status": status}
    return with_condition(out, LAUNCHED, "True", LAUNCHED, "", now_us)


def with_condition(claim: Obj, type_: str, value: str, reason: str, message: str, now_us: int) -> Obj:
    """With this condition, and Ready to match."""
    status = status_of(claim)
    conditions = conditions_with(status.get("conditions") or (), type_, value, reason, message, now_us)
    return {**claim, "status": {**status, "conditions": conditions}}


def conditions_with(
    conditions: Iterable[Condition], type_: str, value: str, reason: str, message: str, now_us: int
) -> list[Condition]:
    """With this one, and Ready to match. Source: operatorpkg status: Ready is True when all are."""
    now = rfc3339(now_us)
    made = set_condition(conditions, type_, value, reason, message, now)
    if type_ not in DEPENDENT and get_condition(made, READY) is not None:
        return made
    missing = [t for t in DEPENDENT if not is_condition_true(made, t)]
    ready = ("True", READY, "") if not missing else ("Unknown", "ReconcilingDependents", "")
    return set_condition(made, READY, *ready, now)


def is_true(claim: Obj, type_: str) -> bool:
    return is_condition_true(status_of(claim).get("conditions"), type_)


def not_initialized(claim: Obj, node: Obj | None) -> tuple[str, str] | None:
    """Why a registered claim is not initialized yet: (reason, message); None when it is.

    Source: lifecycle/initialization.go.
    """
    if node is None:
        return ("NodeNotFound", "Node not registered with cluster")
    status = status_of(node)
    if not is_condition_true(status.get("conditions"), READY):
        return ("NodeNotReady", "Node status is NotReady")
    taints = parse_taints(spec_of(node).get("taints"))
    starting = {(t.key, t.effect) for t in parse_taints(spec_of(claim).get("startupTaints"))}
    for taint in taints:
        if (taint.key, taint.effect) in starting:
            return ("StartupTaintsExist", f'StartupTaint "{_taint_text(taint)}" still exists')
    for taint in taints:
        if is_ephemeral(taint):
            return ("KnownEphemeralTaintsExist", f'KnownEphemeralTaint "{_taint_text(taint)}" still exists')
    requests = (spec_of(claim).get("resources") or {}).get("requests") or {}
    allocatable = status.get("allocatable") or {}
    for name, amount in requests.items():
        if str(amount) != "0" and str(allocatable.get(name, "0")) == "0":
            return ("ResourceNotRegistered", f'Resource "{name}" was requested but not registered')
    return None


def _taint_text(taint: Any) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def node_of(claim: Obj, node_name: str) -> Obj:
    """The Node that registers for a launched claim: not ready, with the taint that keeps pods off until it is known.

    Kubelet brings its taints; Karpenter then gives it the claim's labels and taints.
    """
    meta, spec, status = meta_of(claim), claim.get("spec") or {}, claim.get("status") or {}
    labels = {**(meta.get("labels") or {}), "kubernetes.io/hostname": node_name}
    taints = [
        *(spec.get("taints") or ()),
        *(spec.get("startupTaints") or ()),
        {"key": UNREGISTERED_TAINT, "effect": "NoExecute"},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node_name,
            "labels": labels,
            "annotations": dict(meta.get("annotations") or {}),
            "finalizers": [TERMINATION_FINALIZER],
        },
        "spec": {"providerID": status.get("providerID") or "", "taints": taints},
        "status": {
            "capacity": dict(status.get("capacity") or {}),
            "allocatable": dict(status.get("allocatable") or {}),
        },
    }


def limit_exceeded(pool: NodePool, usage: Mapping[str, int]) -> str | None:
    """Why no claim of a pool may be written now; its usage is over. Source: Limits.ExceededBy."""
    for name, used in sorted(usage.items()):
        limit = (pool.limits or {}).get(name)
        if limit is not None and used > limit:
            return f"resource usage exceeds limit (resource-name={name}, usage={used}, limit={limit})"
    return None
