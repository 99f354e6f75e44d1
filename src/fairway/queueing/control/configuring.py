"""What follows from a change of what Workloads depend on: queues, cohorts, flavors, topologies, checks, nodes,
namespaces?

The accounts are configured anew, queues come and go, and what may fare otherwise now is touched.

Source: pkg/controller/core (event handlers; cohort_controller.go NotifyClusterQueueUpdate, Reconcile),
pkg/cache/queue/manager.go, pkg/cache/scheduler/cache.go (ClusterQueueAncestors).
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import spec_of
from fairway.queueing.control import trees
from fairway.queueing.control.differences import is_node_changed, is_status_only, stops_differently
from fairway.queueing.control.environment import Environment
from fairway.queueing.control.kinds import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    DEVICE_CLASS,
    LIMIT_RANGE,
    LOCAL_QUEUE,
    NAMESPACE,
    NODE,
    RESOURCE_FLAVOR,
    RUNTIME_CLASS,
    TOPOLOGY,
)
from fairway.queueing.control.touched import Touched
from fairway.queueing.control.waiting import Waiting
from fairway.queueing.facts import objects as facts
from fairway.queueing.quota.accounts import Accounts


class Configuring:
    """Follows those changes into the accounts, the queues and the environment it is given."""

    def __init__(
        self,
        accounts: Accounts,
        waiting: Waiting,
        environment: Environment,
        touched: Touched,
        *,
        orders_by_usage: bool,
    ) -> None:
        self._accounts = accounts
        self._waiting = waiting
        self._environment = environment
        self._touched = touched
        self._orders_by_usage = orders_by_usage
        self._nodes: dict[str, facts.TopologyNode] = {}
        self._topologies: dict[str, None] = {}

    def copy(
        self, accounts: Accounts, waiting: Waiting, environment: Environment, touched: Touched
    ) -> Configuring:
        """An independent copy, beside copies of what it follows changes into."""
        orders = self._orders_by_usage
        twin = Configuring(accounts, waiting, environment, touched, orders_by_usage=orders)
        twin._nodes, twin._topologies = dict(self._nodes), dict(self._topologies)
        return twin

    @property
    def has_topologies(self) -> bool:
        return bool(self._topologies)

    def apply(self, change: Change) -> None:
        """Any change of a kind in `WATCHED` but of a Workload."""
        gk = change.key[0]
        if gk == CLUSTER_QUEUE:
            self._cluster_queue(change)
        elif gk == LOCAL_QUEUE:
            self._local_queue(change)
        elif gk == COHORT:
            self._cohort(change)
        elif gk == RESOURCE_FLAVOR:
            self._flavor(change)
        elif gk == TOPOLOGY:
            self._topology(change)
        elif gk == ADMISSION_CHECK:
            self._check(change)
        elif gk == NODE:
            self._node(change)
        elif gk == NAMESPACE:
            self._namespace(change)
        elif gk in (LIMIT_RANGE, RUNTIME_CLASS):
            self._pod_defaults(change)
        elif gk == DEVICE_CLASS and self._environment.hear_device_class(change):
            for local_queue in self._waiting.local_queues:
                self._touched.ask(self._waiting.members(local_queue))

    # Queues

    def _cluster_queue(self, change: Change) -> None:
        name, new, before = change.key.name, change.obj, change.old
        if change.type == DELETED or "deletionTimestamp" not in new["metadata"]:
            self._tell_cohorts(str(spec_of(new).get("cohortName") or ""))
        if before is not None and change.type != DELETED and is_status_only(before, new):
            return
        if change.type == DELETED:
            self._drop_cluster_queue(name)
            return
        spec = facts.cluster_queue(new)
        old = self._accounts.queue_specs().get(name)
        if old == spec and not spec.is_going:
            return
        # The tree that it leaves is not woken, as in Kueue.
        self._accounts.set_cluster_queue(spec)
        pending = self._waiting.pending
        is_new = name not in pending.queues
        by_usage = self._orders_by_usage and spec.uses_usage_ordering
        pending.queue(name, spec.queueing_strategy, by_usage=by_usage)
        if is_new:
            for key in self._waiting.local_queues_of(name):
                self._fill(key)
        if old is None or spec.is_going or stops_differently(old, spec):
            self._ask_cluster_queue(name)
        self._touched.reconfigure()
        self._touched.wake_queue(name)

    def _tell_cohorts(self, cohort: str) -> None:
        """Whatever is written to a ClusterQueue, its status too, has the cohorts above it looked at, less their root;
        and each such look has the whole tree tried again."""
        root = trees.root_of_cohort(self._accounts, cohort)
        if root is not None and root != f"/{cohort}":
            self._touched.wake_cohort(cohort)

    def _drop_cluster_queue(self, name: str) -> None:
        self._accounts.drop_cluster_queue(name)
        dropped = self._waiting.pending.queues.pop(name, None)
        for workload in () if dropped is None else dropped.in_order():
            self._waiting.note_taken(workload.key)
        self._ask_cluster_queue(name)
        self._touched.reconfigure()

    def _ask_cluster_queue(self, name: str) -> None:
        for local_queue in self._waiting.local_queues_of(name):
            self._touched.tell(LOCAL_QUEUE, local_queue)
            self._touched.ask(self._waiting.members(local_queue))

    def _local_queue(self, change: Change) -> None:
        before = change.old
        if before is not None and change.type != DELETED and is_status_only(before, change.obj):
            return
        new = facts.local_queue(change.obj)
        old = self._waiting.local_queues.get(new.key)
        if change.type != DELETED and old == new:
            return
        if old is not None:
            self._empty(new.key)
        if change.type == DELETED:
            self._waiting.drop_local_queue(new.key)
            self._touched.ask(self._waiting.members(new.key))
        else:
            self._waiting.set_local_queue(new)
            self._fill(new.key)
            self._touched.tell(LOCAL_QUEUE, new.key)
        # What its ClusterQueue says of itself stays until something else calls for it.
        self._touched.decide_anew()

    def _fill(self, local_queue: str) -> None:
        """Its workloads should be queued: the caller hands each to `enqueue`."""
        members = self._waiting.members(local_queue)
        self._touched.ask(members)
        self._touched.fill(members)

    def _empty(self, local_queue: str) -> None:
        """Nothing of this LocalQueue waits any more."""
        for key in self._waiting.members(local_queue):
            self._waiting.remove(key)

    def _cohort(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            self._accounts.drop_cohort(name)
            self._touched.reconfigure()
            return
        if change.old is not None and spec_of(change.old) == spec_of(change.obj):
            return
        self._accounts.set_cohort(facts.cohort(change.obj))
        self._touched.tell(COHORT, name)
        self._touched.reconfigure()
        self._touched.wake_cohort(name)

    # Flavors, topologies, checks

    def _flavor(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            self._accounts.drop_flavor(name)
        else:
            flavor = facts.resource_flavor(change.obj)
            if self._accounts.flavors.get(name) == flavor:
                return
            self._accounts.set_flavor(flavor)
        self._reconfigured(trees.using_flavor(self._accounts.queue_specs(), name))

    def _topology(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            self._topologies.pop(name, None)
            self._accounts.drop_topology(name)
        else:
            if change.old is not None and spec_of(change.old) == spec_of(change.obj):
                return
            if not self._topologies:
                for node in self._nodes.values():
                    self._accounts.set_node(node)
            self._topologies[name] = None
            self._accounts.set_topology(facts.topology(change.obj))
        flavors = [f.name for f in self._accounts.flavors.values() if f.topology == name]
        self._reconfigured(self._using_any_of(flavors))

    def _check(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            self._accounts.drop_check(name)
        else:
            self._accounts.set_check(facts.admission_check(change.obj))
        self._reconfigured(trees.using_check(self._accounts.queue_specs(), name))

    def _reconfigured(self, names: Iterable[str]) -> None:
        """What these queues refer to changed; they may be active now, or not any more. Nobody asks their Workloads."""
        self._touched.reconfigure()
        for name in names:
            self._touched.wake_queue(name)
            for local_queue in self._waiting.local_queues_of(name):
                self._touched.tell(LOCAL_QUEUE, local_queue)

    def _using_any_of(self, flavors: Iterable[str]) -> list[str]:
        specs = self._accounts.queue_specs()
        return list(dict.fromkeys(q for flavor in flavors for q in trees.using_flavor(specs, flavor)))

    # Nodes and namespaces

    def _node(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            self._nodes.pop(name, None)
            self._accounts.drop_node(name)
        else:
            old = change.old
            if old is not None and not is_node_changed(old, change.obj):
                return
            node = facts.topology_node(change.obj)
            if self._nodes.get(name) == node:
                return
            self._nodes[name] = node
            if not self._topologies:
                return
            self._accounts.set_node(node)
        if self._topologies:
            self._touched.decide_anew()
            for queue in self._using_any_of(f.name for f in self._accounts.flavors.values() if f.topology):
                self._touched.wake_queue(queue)

    def _namespace(self, change: Change) -> None:
        moved = self._environment.hear_namespace(change)
        if moved is None:
            return
        before, now = moved
        specs = self._accounts.queue_specs()
        for name in sorted(specs):
            selector = specs[name].namespace_selector
            if selector.matches(now) and before is not None and not selector.matches(before):
                self._touched.wake_queue(name)
        self._touched.decide_anew()

    def _pod_defaults(self, change: Change) -> None:
        """What pods are given on their way in changed: what waits is counted anew."""
        if change.key.gk == LIMIT_RANGE:
            self._environment.hear_limit_range(change)
            prefix = f"{change.key.namespace}/"
        else:
            self._environment.hear_runtime_class(change)
            prefix = ""
        for local_queue in self._waiting.local_queues:
            if local_queue.startswith(prefix):
                self._fill(local_queue)
        self._touched.decide_anew()
