"""Concurrent admission: one workload queued as several variants, each allowed other flavors.

The variant with the most favorable flavor (earliest in its resource group) wins: it is not admitted beside a
better sibling, and a worse sibling that runs is moved over to it.

Source: pkg/workload/concurrentadmission, pkg/scheduler/scheduler.go (issueMigration, isMigrationAllowed); gate
ConcurrentAdmission (alpha).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairway.kube.objects import Obj, annotations_of, labels_of, meta_of
from fairway.queueing.facts.workloads import ALLOWED_FLAVORS, Workload
from fairway.queueing.quota.accounts import QueueAccount

PARENT_LABEL: Final = "kueue.x-k8s.io/concurrent-admission-parent"
_API_VERSION: Final = "kueue.x-k8s.io/v1beta2"

BETTER_IS_ADMITTED: Final = "A more favorable variant is already admitted"
TARGET_TOO_LOW: Final = "Target flavor is below LastAcceptableFlavorName"


def is_parent(obj: Obj) -> bool:
    """The workload the variants stand for; it is never queued itself."""
    return labels_of(obj).get(PARENT_LABEL) == "true"


def is_variant(obj: Obj) -> bool:
    return any(_is_workload(owner) for owner in meta_of(obj).get("ownerReferences") or ())


def parent_uid(obj: Obj) -> str:
    owners = meta_of(obj).get("ownerReferences") or ()
    return next((o.get("uid") or "" for o in owners if _is_workload(o)), "")


def _is_workload(owner: Obj) -> bool:
    return owner.get("kind") == "Workload" and owner.get("apiVersion") == _API_VERSION


def allowed_flavors(obj: Obj) -> tuple[str, ...] | None:
    """None: any flavor."""
    value = annotations_of(obj).get(ALLOWED_FLAVORS)
    if value is None:
        return None
    return tuple(part.strip() for part in value.split(",") if part.strip())


def admitted_sibling(workload: Workload, queue: QueueAccount, *, better: bool) -> Workload | None:
    """An admitted variant of the same parent with a more, or less, favorable flavor."""
    parent = parent_uid(workload.obj)
    if not parent or not queue.spec.groups:
        return None
    flavors = queue.spec.groups[0].flavors
    own = _position(workload, flavors)
    if own is None:
        return None
    for key in sorted(queue.workloads):
        other = queue.workloads[key]
        if other.uid == workload.uid or parent_uid(other.obj) != parent or not other.is_admitted:
            continue
        at = _position(other, flavors)
        if at is not None and (at < own if better else at > own):
            return other
    return None


def may_migrate(workload: Workload, queue: QueueAccount) -> bool:
    """Whether the variant's flavor is good enough to leave a running sibling for."""
    last = queue.spec.last_acceptable_flavor
    if not last or not queue.spec.groups:
        return True
    flavors = queue.spec.groups[0].flavors
    at = _position(workload, flavors)
    return last in flavors and at is not None and at <= flavors.index(last)


def _position(workload: Workload, flavors: Sequence[str]) -> int | None:
    allowed = allowed_flavors(workload.obj)
    return flavors.index(allowed[0]) if allowed and allowed[0] in flavors else None
