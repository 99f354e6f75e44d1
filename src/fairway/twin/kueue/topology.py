"""Pods and nodes where topologies are used: ungating, and what pods of others take.

Source: pkg/controller/tas (topology_ungater.go, pod_usage_controller.go, node_controller.go), pkg/cache/scheduler
(tas_non_tas_pod_cache.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fairway.cluster.actions import Action
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj, annotations_of, meta_of, name_of, namespace_of, spec_of, status_of
from fairway.kube.podrequests import pod_requests
from fairway.kube.resources import PODS, Resources
from fairway.queueing.control.nodefailures import Member, NodeDecision, is_ill, on_node
from fairway.queueing.control.ungating import is_admitted_with_topology, ungated
from fairway.queueing.facts.objects import HOSTNAME_LABEL
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.queueing.integrations.podsetinfo import SLICE_NAME_ANNOTATION, WORKLOAD_ANNOTATION
from fairway.queueing.integrations.topologyrequest import PREFERRED, REQUIRED, UNCONSTRAINED

if TYPE_CHECKING:
    from fairway.twin.kueue.component import Kueue

_POD: Final = "Pod"
_NODE: Final = "Node"
# Source: node_controller.go reconcileBatchPeriod.
_NODE_BATCH_US: Final = 100_000
_ASKS: Final = (REQUIRED, PREFERRED, UNCONSTRAINED)


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
        """A node that comes, goes, or changes whether pods can be there: its Workloads are looked at."""
        if not self._is_awake or not self.kueue.settings.gates.tas_failed_node_replacement:
            return
        old, is_gone = change.old, change.type == DELETED
        if old is not None and not is_gone and _standing(old) == _standing(change.obj):
            return
        # A node that is well means something only to who took it for failed.
        holders = self.kueue.backlog.accounts.holders.values()
        if is_gone or is_ill(change.obj) or any(h.unhealthy_nodes for h in holders):
            self.kueue.enqueue(("node", change.key))

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
        self._follow_to_node(pod, is_gone=is_gone)

    def _follow_to_node(self, pod: Obj, *, is_gone: bool) -> None:
        """A pod that ended on a node that is ill, or waits for it, may mean that another one has to be found."""
        spec = spec_of(pod)
        name = spec.get("nodeName")
        if name:
            is_over = is_gone or "deletionTimestamp" in meta_of(pod) or _is_over(pod)
        else:
            name, is_over = (spec.get("nodeSelector") or {}).get(HOSTNAME_LABEL), not is_gone
        if not name or not is_over or not self.kueue.settings.gates.tas_failed_node_replacement:
            return
        key = Key(_NODE, "", name)
        if is_ill(self.kueue.host.store.get(key)):
            self.kueue.enqueue(("node", key), _NODE_BATCH_US)

    def _count_foreign(self, pod: Obj, *, is_gone: bool) -> None:
        """Pods of others count on their node until they end."""
        key = f"{namespace_of(pod)}/{name_of(pod)}"
        node = spec_of(pod).get("nodeName") or ""
        over = is_gone or not node or _is_over(pod)
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
        self.kueue.backlog.touched.decide_anew()

    # Ungating

    def ungate(self, key: Key) -> list[Action]:
        """The pods of a Workload that may go to their nodes now."""
        workload = self.kueue.host.store.get(key)
        return [] if workload is None else ungated(workload, self._pods_of(key))

    # Failures

    def look_at_node(self, key: Key) -> NodeDecision:
        """What a node means for the Workloads that have pods there, or should have. O(workloads, their pods)."""
        store = self.kueue.host.store
        members = []
        for workload_key in self._concerned(key.name):
            workload = store.get(workload_key)
            if workload is not None and is_admitted_with_topology(workload):
                members.append(Member(workload, self._pods_of(workload_key)))
        now_us, gates = self.kueue.host.loop.now_us, self.kueue.settings.gates
        return on_node(store, key.name, store.get(key), members, gates, now_us)

    def _concerned(self, node: str) -> list[Key]:
        """Workloads that hold the node, and those with pods on the way to it."""
        found: dict[Key, None] = {}
        holders = self.kueue.backlog.accounts.holders
        for name in sorted(name for name, holder in holders.items() if _holds(holder, node)):
            namespace, _, rest = name.partition("/")
            found[Key(WORKLOAD, namespace, rest)] = None
        for key in sorted(self._members.keys() - found.keys()):
            for pod in self._pods_of(key):
                selector = spec_of(pod).get("nodeSelector") or {}
                if not spec_of(pod).get("nodeName") and selector.get(HOSTNAME_LABEL) == node:
                    found[key] = None
        return list(found)

    def _pods_of(self, workload: Key) -> list[Obj]:
        store = self.kueue.host.store
        found = (store.get(Key(_POD, workload.namespace, n)) for n in sorted(self._members.get(workload, {})))
        return [pod for pod in found if pod is not None]


def _is_over(pod: Obj) -> bool:
    return status_of(pod).get("phase") in ("Succeeded", "Failed")


def _holds(holder: Workload, node: str) -> bool:
    return any(
        total.topology is not None and any(d.values[-1] == node for d in total.topology.domains)
        for total in holder.totals
    )


def _standing(node: Obj) -> tuple[Any, Any]:
    """What a node's Workloads depend on: whether it is ready, and its taints."""
    conditions = status_of(node).get("conditions") or ()
    is_ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return is_ready, spec_of(node).get("taints")


def _plus(a: Resources, b: Resources, sign: int) -> Resources:
    total = dict(a)
    for name, value in b.items():
        total[name] = total.get(name, 0) + sign * value
    return {name: value for name, value in total.items() if value}
