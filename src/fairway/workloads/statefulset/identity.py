"""Who is pod number 3 of this set: its name, labels, host name and revision.

Source: pkg/controller/statefulset/stateful_set_utils.go (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway.kube.objects import Obj, labels_of
from fairway.workloads import pods
from fairway.workloads.history import DEFAULT_HISTORY_LIMIT, POD_HASH_LABEL, template_of
from fairway.workloads.intorpercent import scaled
from fairway.workloads.podtemplate import owned_by, pod_from_template
from fairway.workloads.statefulset.storage import volumes_for

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the set asks for, defaults filled in. Ordinals run from `start` to `start + replicas - 1`."""

    replicas: int
    start: int
    is_ordered: bool
    is_on_delete: bool
    partition: int
    max_unavailable: int
    min_ready_s: int
    history_limit: int

    def has(self, ordinal: int) -> bool:
        return self.start <= ordinal < self.start + self.replicas


def wishes_of(owner: Obj) -> Wishes:
    spec: dict[str, Any] = owner.get("spec") or {}
    replicas = spec.get("replicas")
    replicas = 1 if replicas is None else replicas
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    limit = spec.get("revisionHistoryLimit")
    unavailable = rolling.get("maxUnavailable")
    return Wishes(
        replicas=replicas,
        start=(spec.get("ordinals") or {}).get("start") or 0,
        is_ordered=spec.get("podManagementPolicy", "OrderedReady") != "Parallel",
        is_on_delete=strategy.get("type") == "OnDelete",
        partition=rolling.get("partition") or 0,
        max_unavailable=_unavailable(1 if unavailable is None else unavailable, replicas),
        min_ready_s=spec.get("minReadySeconds") or 0,
        history_limit=DEFAULT_HISTORY_LIMIT if limit is None else limit,
    )


def _unavailable(asked: Any, replicas: int) -> int:
    """At least one: a small percentage rounds down to nothing, and nothing would ever be updated. Kubernetes 1.36 drops
    the field unless a gate is on, so nobody has checked it; what is no number is as good as dropped."""
    try:
        return max(scaled(asked, replicas, round_up=False), 1)
    except ValueError:
        return 1


def ordinal_of(pod: Obj, set_name: str) -> int:
    """-1 for a pod whose name is not one of the set's."""
    stem, _, number = pod["metadata"]["name"].rpartition("-")
    return int(number) if stem == set_name and number.isdigit() else -1


def revision_of(pod: Obj) -> str:
    return labels_of(pod).get(POD_HASH_LABEL, "")


def new_pod(owner: Obj, wishes: Wishes, ordinal: int, current: Obj, update: Obj) -> Obj:
    """Pod `ordinal` at the revision it should have: below the partition the current one."""
    is_current = not wishes.is_on_delete and ordinal < wishes.start + wishes.partition
    revision = current if is_current else update
    meta = owner["metadata"]
    name = f"{meta['name']}-{ordinal}"
    template = template_of(revision)
    given = template.get("metadata") or {}
    labels = {
        **(given.get("labels") or {}),
        POD_NAME_LABEL: name,
        POD_INDEX_LABEL: str(ordinal),
        POD_HASH_LABEL: revision["metadata"]["name"],
    }
    spec = {**(template.get("spec") or {}), "hostname": name}
    subdomain = (owner.get("spec") or {}).get("serviceName")
    if subdomain:
        spec["subdomain"] = subdomain
    volumes = volumes_for(owner, ordinal, spec.get("volumes") or [])
    if volumes:
        spec["volumes"] = volumes
    return pod_from_template(
        {"metadata": {**given, "labels": labels}, "spec": spec},
        namespace=meta["namespace"],
        owner_references=owned_by(owner, "apps/v1", "StatefulSet"),
        name=name,
        generate_name=f"{meta['name']}-",
    )


def is_created(pod: Obj) -> bool:
    """Stored, not just planned."""
    return "uid" in pod["metadata"]


def is_running_and_ready(pod: Obj) -> bool:
    return pods.phase_of(pod) == pods.RUNNING and pods.is_ready(pod)


def is_unavailable(pod: Obj, min_ready_s: int, now_us: int) -> bool:
    """Not there, not available, or on its way out."""
    if not is_created(pod) or pods.is_deleting(pod):
        return True
    return not pods.is_available(pod, min_ready_s, now_us)
