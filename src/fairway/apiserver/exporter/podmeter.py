"""What does Karpenter observe of pods: how they stand, and how long they took to be bound and to be ready?

Counts begin with the process; pods that wait are known from the store. Every pod counts, on whosesoever node it is.

Unlike kube: a pod that has a node and is not ready yet is no longer among those without one, whose age upstream goes on
showing as it was.

Source: karpenter pkg/controllers/metrics/pod/controller.go.
"""

from __future__ import annotations

from typing import Final

from fairway.apiserver.controlplanepods import is_hosted
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.store import Store
from fairway.kube.conditions import get_condition, is_condition_true
from fairway.kube.metricfamilies import Observed, Sample
from fairway.kube.objects import (
    Key,
    Obj,
    key_of,
    labels_of,
    meta_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.provisioning.karpenter.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE
from fairway.provisioning.metrics import POD_LABELS, families
from fairway.twin.tally import Tally

_K: Final = "karpenter_pods_"
_OVER: Final = ("Succeeded", "Failed")


class PodMeter:
    """Follows the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tally = Tally(families())
        self._unstarted: dict[Key, None] = {}
        """Pods that were seen pending and not ready since."""
        self._unbound: dict[Key, None] = {}
        for pod in store.walk("Pod"):
            self._see(key_of(pod), pod)

    def apply(self, change: Change) -> None:
        if change.key.gk != "Pod" or is_hosted(change.obj):
            return
        if change.type == DELETED:
            self._unstarted.pop(change.key, None)
            self._unbound.pop(change.key, None)
        else:
            self._see(change.key, change.obj)

    def _see(self, key: Key, pod: Obj) -> None:
        status = status_of(pod)
        phase = status.get("phase")
        if phase == "Pending":
            self._unstarted[key] = self._unbound[key] = None
            return
        bound = get_condition(status.get("conditions"), "PodScheduled")
        if key in self._unbound and bound is not None and bound.get("status") == "True":
            del self._unbound[key]
            self._tally.observe(f"{_K}bound_duration_seconds", _took_s(pod, bound))
        ready = get_condition(status.get("conditions"), "Ready")
        if key in self._unstarted and ready is not None and ready.get("status") == "True":
            del self._unstarted[key]
            now_us = self._store.now_us
            self._tally.observe(f"{_K}startup_duration_seconds", _took_s(pod, ready), now_us=now_us)
        elif phase in _OVER:
            self._unstarted.pop(key, None)

    def observed(self) -> list[Observed]:
        return self._tally.observed(self._store.now_us)

    def samples(self) -> list[Sample]:
        """Where every pod is, and the age of those that wait. O(pods)."""
        out = []
        for pod in self._store.walk("Pod"):
            out.append(Sample(f"{_K}state", self._labels(pod), 1.0))
            age_s = (self._store.now_us - parse_rfc3339(meta_of(pod)["creationTimestamp"])) / SECOND_US
            labels = (name_of(pod), namespace_of(pod))
            if key_of(pod) in self._unstarted:
                out.append(Sample(f"{_K}unstarted_time_seconds", labels, age_s))
            if key_of(pod) in self._unbound and not spec_of(pod).get("nodeName"):
                out.append(Sample(f"{_K}unbound_time_seconds", labels, age_s))
        return out

    def _labels(self, pod: Obj) -> tuple[str, ...]:
        node_name = str(spec_of(pod).get("nodeName") or "")
        of_node = labels_of(self._store.get(Key("Node", "", node_name)) or {})
        conditions = status_of(pod).get("conditions")
        said = {
            "name": name_of(pod),
            "namespace": namespace_of(pod),
            "owner": _owner(pod),
            "node": node_name,
            "scheduled": _word(bool(node_name)),
            "nodepool": of_node.get(NODEPOOL) or "",
            "zone": of_node.get(ZONE) or "",
            "arch": of_node.get(ARCH) or "",
            "capacity_type": of_node.get(CAPACITY_TYPE) or "",
            "instance_type": of_node.get(INSTANCE_TYPE) or "",
            "phase": str(status_of(pod).get("phase") or ""),
            "ready": _word(is_condition_true(conditions, "Ready")),
            "managed": _word(bool(of_node.get(NODEPOOL))),
        }
        return tuple(said[label] for label in POD_LABELS)


def _owner(pod: Obj) -> str:
    """The path of its first owner, as a link that objects once had of themselves."""
    owners = meta_of(pod).get("ownerReferences") or ()
    if not owners:
        return ""
    first = owners[0]
    plural = f"{first['kind'].lower()}s"
    return f"/apis/{first['apiVersion']}/namespaces/{namespace_of(pod)}/{plural}/{first['name']}"


def _took_s(pod: Obj, condition: Obj) -> float:
    """From its creation until the condition was true."""
    since_us = parse_rfc3339(meta_of(pod)["creationTimestamp"])
    return (parse_rfc3339(condition["lastTransitionTime"]) - since_us) / SECOND_US


def _word(value: bool) -> str:
    return "true" if value else "false"
