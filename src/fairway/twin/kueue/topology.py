"""Pods and nodes where topologies are used: ungating, and what pods of others take.

Source: pkg/controller/tas (topology_ungater.go, pod_usage_controller.go), pkg/cache/scheduler
(tas_non_tas_pod_cache.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.cluster.actions import Action
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj, annotations_of, name_of, namespace_of, spec_of, status_of
from fairway.kube.podrequests import pod_requests
from fairway.kube.resources import PODS, Resources
from fairway.queueing.control.ungating import is_admitted_with_topology, ungated
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.queueing.integrations.podsetinfo import SLICE_NAME_ANNOTATION, WORKLOAD_ANNOTATION
from fairway.queueing.integrations.topologyrequest import PREFERRED, REQUIRED, UNCONSTRAINED

if TYPE_CHECKING:
    from fairway.twin.kueue.component import Kueue

_POD = "Pod"
_ASKS = (REQUIRED, PREFERRED, UNCONSTRAINED)


class Topologies:
    """Follows pods, once a topology is there."""

    def __init__(self) -> None:
        self._is_awake = False
        self._members: dict[Key, dict[str, None]] = {}
        """Pods by the Workload they name."""
        self._foreign: dict[str, tuple[str, Resources]] = {}
        """Pods outside topology-aware scheduling that take room: (node, requests) by `namespace/name`."""

    def attach(self, kueue: Kueue) -> None:
        self.kueue = kueue

    def copy(self) -> Topologies:
        twin = Topologies()
        twin._is_awake = self._is_awake
        twin._members = {key: dict(names) for key, names in self._members.items()}
        twin._foreign = dict(self._foreign)
        return twin

    def wake_up(self) -> None:
        """Take in the pods there are, if a topology is there already."""
        if not self._is_awake and self.kueue.backlog.has_topologies:
            self._is_awake = True
            for pod in self.kueue.host.store.objects(_POD):
                self._take(pod, is_gone=False)

    # Hearing

    def hear_pod(self, change: Change) -> None:
        if self._is_awake:
            self._take(change.obj, is_gone=change.type == DELETED)
        else:
            self.wake_up()

    def hear_node(self, change: Change) -> None:
        """Nothing beside what the books do."""

    def hear_workload(self, change: Change) -> None:
        if not self._is_awake:
            self.wake_up()
        if self._is_awake and change.type != DELETED and is_admitted_with_topology(change.obj):
            self.kueue.enqueue(("ungate", change.key))

    def _take(self, pod: Obj, *, is_gone: bool) -> None:
        annotations = annotations_of(pod)
        if not any(name in annotations for name in _ASKS):
            self._count_foreign(pod, is_gone=is_gone)
            return
        name = annotations.get(SLICE_NAME_ANNOTATION) or annotations.get(WORKLOAD_ANNOTATION)
        if not name:
            return
        workload = Key(WORKLOAD, namespace_of(pod), annotations.get(WORKLOAD_ANNOTATION) or name)
        names = self._members.setdefault(workload, {})
        if is_gone:
            names.pop(name_of(pod), None)
            if not names:
                del self._members[workload]
        else:
            names[name_of(pod)] = None
        self.kueue.enqueue(("ungate", workload), self.kueue.settings.status_batch_us)

    def _count_foreign(self, pod: Obj, *, is_gone: bool) -> None:
        """Pods of others count on their node until they end."""
        key = f"{namespace_of(pod)}/{name_of(pod)}"
        node = spec_of(pod).get("nodeName") or ""
        over = is_gone or not node or status_of(pod).get("phase") in ("Succeeded", "Failed")
        before = self._foreign.get(key)
        if over == (before is None):
            return
        accounts = self.kueue.backlog.accounts
        if before is not None:
            del self._foreign[key]
            accounts.set_foreign_usage(before[0], _plus(accounts.foreign_usage(before[0]), before[1], -1))
        else:
            requests = pod_requests(spec_of(pod)) | {PODS: 1}
            self._foreign[key] = (node, requests)
            accounts.set_foreign_usage(node, _plus(accounts.foreign_usage(node), requests, 1))
        self.kueue.backlog.version += 1

    # Ungating

    def ungate(self, key: Key) -> list[Action]:
        """The pods of a Workload that may go to their nodes now."""
        store = self.kueue.host.store
        workload = store.get(key)
        if workload is None:
            return []
        found = (store.get(Key(_POD, key.namespace, name)) for name in sorted(self._members.get(key, {})))
        return ungated(workload, [pod for pod in found if pod is not None])


def _plus(a: Resources, b: Resources, sign: int) -> Resources:
    total = dict(a)
    for name, value in b.items():
        total[name] = total.get(name, 0) + sign * value
    return {name: value for name, value in total.items() if value}
