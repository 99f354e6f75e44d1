"""What does a ProvisioningRequest ask for, and how does it stand?

Two classes are known: one checks whether the cluster has room as it is, one grows a group for all pods or for none.
Conditions carry the autoscaler's words; their time is that of the last look, not of the last change.

Source: kubernetes-sigs/cluster-autoscaler pkg/provisioningrequest (conditions, pods, provreqwrapper,
supported_classes.go), processors/provreq (2026-08).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairway.kube.conditions import Condition, get_condition, is_condition_true
from fairway.kube.objects import (
    Obj,
    annotations_of,
    meta_of,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
)
from fairway.kube.provisioningrequests import (
    ACCEPTED,
    BEST_EFFORT_ATOMIC,
    BOOKING_EXPIRED,
    CHECK_CAPACITY,
    CONSUMES,
    FAILED,
    OF_CLASS,
    PROVISIONED,
)
from fairway.kube.timestamps import DAY_US, MINUTE_US, parse_rfc3339, rfc3339

CONSUMES_BEFORE = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
NO_RETRY, INSTANCE = "noRetry", "processorInstance"


# How long capacity is kept, how long a request may wait, how long one that is over is kept. Source: processor.go.
RESERVATION_US = 10 * MINUTE_US
EXPIRATION_US = 7 * DAY_US
RETENTION_US = 7 * DAY_US


@dataclass(frozen=True, slots=True)
class Words:
    """A condition as the autoscaler sets it."""

    kind: str
    status: str
    reason: str
    message: str


IS_ACCEPTED = Words(ACCEPTED, "True", "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler")
FOUND = Words(PROVISIONED, "True", "CapacityIsFound", "Capacity is found in the cluster")
# The message is upstream's: capacity that was asked of the cloud is said to be found, too.
REQUESTED = Words(PROVISIONED, "True", "CapacityIsProvisioned", "Capacity is found in the cluster")
NOT_FOUND = Words(
    PROVISIONED, "False", "CapacityIsNotFound", "Capacity is not found, CA will try to find it later."
)
GIVEN_UP = Words(FAILED, "True", "CapacityIsNotFound", "CA could not find requested capacity")
EXPIRED = Words(FAILED, "True", "Expired", "ProvisioningRequest is expired")
RAN_OUT = Words(
    BOOKING_EXPIRED, "True", "CapacityReservationTimeExpired", "Capacity reservation time is expired"
)
CONSUMED = Words(
    BOOKING_EXPIRED, "True", "CapacityBookingConsumed", "Capacity booking consumed: all pods scheduled"
)


@dataclass(frozen=True, slots=True)
class Request:
    """`templates`: by name, those that are there."""

    obj: Obj
    templates: Mapping[str, Obj]

    @property
    def uid(self) -> str:
        return str(meta_of(self.obj).get("uid") or "")

    @property
    def key(self) -> str:
        return f"{namespace_of(self.obj)}/{name_of(self.obj)}"

    @property
    def class_name(self) -> str:
        return str(spec_of(self.obj).get("provisioningClassName") or "")

    @property
    def conditions(self) -> list[Condition] | None:
        found: list[Condition] | None = status_of(self.obj).get("conditions")
        return found

    @property
    def created_us(self) -> int:
        return _time_us(meta_of(self.obj).get("creationTimestamp"))

    @property
    def pod_count(self) -> int:
        return sum(int(ps.get("count", 0)) for ps in _pod_sets(self))

    @property
    def may_retry(self) -> bool:
        """Only those that check capacity can ask not to be tried again."""
        return (spec_of(self.obj).get("parameters") or {}).get(NO_RETRY) != "true"

    def holds(self, kind: str) -> bool:
        return is_condition_true(self.conditions, kind)

    def since_us(self, kind: str) -> int | None:
        """Since when the condition is there, whatever it says."""
        found = get_condition(self.conditions, kind)
        return None if found is None else _time_us(found.get("lastTransitionTime"))


def _time_us(text: str | None) -> int:
    return parse_rfc3339(text) if text else 0


def _pod_sets(request: Request) -> list[Mapping[str, Any]]:
    return list(spec_of(request.obj).get("podSets") or ())


def template_names(obj: Obj) -> list[str]:
    """The PodTemplates a ProvisioningRequest refers to, one for each pod set."""
    pod_sets = spec_of(obj).get("podSets") or ()
    return [str((ps.get("podTemplateRef") or {}).get("name") or "") for ps in pod_sets]


def is_supported(request: Request) -> bool:
    """Unlike kube: of several autoscalers that share the work (`processorInstance`) this is the one without a name."""
    if request.class_name == BEST_EFFORT_ATOMIC:
        return True
    parameters = spec_of(request.obj).get("parameters") or {}
    return request.class_name == CHECK_CAPACITY and not parameters.get(INSTANCE)


def is_booked(request: Request) -> bool:
    """Whether capacity is kept for its pods."""
    if not is_supported(request) or request.holds(FAILED) or request.holds(BOOKING_EXPIRED):
        return False
    return request.holds(PROVISIONED)


def available_at_us(request: Request, backoff_us: int) -> int | None:
    """From when on it may be tried (again); None: it is settled. Never tried: from its creation."""
    if request.holds(FAILED) or request.holds(PROVISIONED):
        return None
    tried_us = request.since_us(PROVISIONED)
    return request.created_us if tried_us is None else tried_us + backoff_us + 1


def missing_templates(request: Request) -> str:
    """What upstream says where templates are not there; empty: all are."""
    names = template_names(request.obj)
    missing = [n for n in names if n not in request.templates]
    if not missing:
        return ""
    return (
        f"missing pod templates, {len(names)} pod templates were referenced, "
        f"{len(missing)} templates were missing: {','.join(missing)}"
    )


def pods_of(request: Request) -> list[Obj]:
    """The pods it stands for: `NAME-SET-NUMBER`, never stored. All templates have to be there."""
    out: list[Obj] = []
    owner, names = owner_reference(request.obj), template_names(request.obj)
    for i, pod_set in enumerate(_pod_sets(request)):
        template = request.templates[names[i]].get("template") or {}
        meta = template.get("metadata") or {}
        marks = {CONSUMES: name_of(request.obj), OF_CLASS: request.class_name}
        for j in range(int(pod_set.get("count", 0))):
            name = f"{name_of(request.obj)}-{i}-{j}"
            out.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": name,
                        "namespace": namespace_of(request.obj),
                        "uid": f"{namespace_of(request.obj)}/{name}",
                        "creationTimestamp": meta_of(request.obj).get("creationTimestamp"),
                        "labels": dict(meta.get("labels") or {}),
                        "annotations": {**(meta.get("annotations") or {}), **marks},
                        "ownerReferences": [owner],
                    },
                    "spec": template.get("spec") or {},
                }
            )
    return out


def consumed_request(pod: Obj) -> str:
    """The name of the request whose capacity the pod uses; empty: none."""
    annotations = annotations_of(pod)
    return annotations.get(CONSUMES) or annotations.get(CONSUMES_BEFORE) or ""


def said(request: Request, words: Words, now_us: int) -> Request:
    """The request with this condition set, at this time."""
    new: Condition = {
        "type": words.kind,
        "status": words.status,
        "observedGeneration": int(meta_of(request.obj).get("generation") or 0),
        "lastTransitionTime": rfc3339(now_us),
        "reason": words.reason,
        "message": words.message,
    }
    conditions = list(request.conditions or ())
    at = next((i for i, c in enumerate(conditions) if c["type"] == words.kind), len(conditions))
    conditions[at : at + 1] = [new]
    status = {**status_of(request.obj), "conditions": conditions}
    return Request({**request.obj, "status": status}, request.templates)


def failed(reason: str, message: str) -> Words:
    return Words(FAILED, "True", reason, message)


def overdue(request: Request, now_us: int) -> Words | None:
    """What a request that was kept, or waited, too long is told."""
    if not is_supported(request) or request.holds(BOOKING_EXPIRED) or request.holds(FAILED):
        return None
    if request.holds(PROVISIONED):
        since_us = request.since_us(PROVISIONED) or 0
        return RAN_OUT if since_us + RESERVATION_US < now_us else None
    return EXPIRED if request.created_us + EXPIRATION_US < now_us else None


def is_outdated(request: Request, now_us: int) -> bool:
    """Whether it was provisioned, or failed, so long ago that it goes."""
    times = (request.since_us(PROVISIONED), request.since_us(FAILED))
    return any(t is not None and t + RETENTION_US < now_us for t in times)
