"""The books: what holds quota, what waits, and whose status or turn a change touches.

Kept change by change from the objects, as Kueue's cache and queue manager are. Nothing here writes objects: the
caller carries out what is decided, and drains what was touched:

    backlog.apply(change, now_us)
    backlog.take_wakes()      # roots of cohort trees whose waiting workloads an event may help (batched by 1 s)
    backlog.take_touched()    # queues whose status may have changed
    backlog.take_questions()  # Workloads that should be looked at, though they did not change
    backlog.version           # grows when a cycle may decide differently than the last one

Source: pkg/controller/core (event handlers), pkg/cache/queue/manager.go, pkg/cache/scheduler/cache.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.kube.objects import Obj, namespace_of, spec_of, status_of
from fairway.queueing import conditions as conds
from fairway.queueing import objects as facts
from fairway.queueing.accounts import Accounts
from fairway.queueing.admissibility import Namespaces
from fairway.queueing.control import trees
from fairway.queueing.control.differences import (
    changes_quota,
    is_node_changed,
    is_status_only,
    ranks_differently,
    ready_us,
    stops_differently,
)
from fairway.queueing.control.environment import Environment
from fairway.queueing.control.holdings import Holdings
from fairway.queueing.control.kinds import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    LIMIT_RANGE,
    LOCAL_QUEUE,
    NAMESPACE,
    NODE,
    RESOURCE_FLAVOR,
    RUNTIME_CLASS,
    TOPOLOGY,
)
from fairway.queueing.control.queuestatus import Held
from fairway.queueing.control.settings import KueueSettings
from fairway.queueing.integrations.ownership import WORKLOAD, OwnedWorkloads
from fairway.queueing.objects import NO_STOP, LocalQueue
from fairway.queueing.pending import ClusterQueuePending, PendingWorkloads
from fairway.queueing.workloads import Workload, WorkloadReader, key_of
from fairway.queueing.workloadstate import (
    is_active,
    is_admissible,
    is_finished,
    is_on_hold,
    needs_second_pass,
)


class Backlog:
    """Everything a scheduling cycle starts from."""

    def __init__(self, settings: KueueSettings) -> None:
        self.settings = settings
        gates = settings.gates
        self.accounts = Accounts(gates)
        waiting = settings.pods_ready
        blocks = waiting is not None and waiting.blocks_admission
        self.holdings = Holdings(self.accounts, blocks_admission=blocks)
        self.pending = PendingWorkloads(gates)
        by_eviction = waiting is None or waiting.requeues_by_eviction_time
        self.reader = WorkloadReader(gates, settings.transformations, requeue_by_eviction_time=by_eviction)
        self.owned = OwnedWorkloads()
        self.environment = Environment()
        self.local_queues: dict[str, LocalQueue] = {}
        self.version = 0
        self._members: dict[str, dict[str, None]] = {}
        """Unfinished Workloads by LocalQueue."""
        self._queued: dict[str, str] = {}
        """The LocalQueue of every workload that waits or is in flight."""
        self._queued_count: dict[str, int] = {}
        self._wake_queues: dict[str, None] = {}
        self._wake_cohorts: dict[str, None] = {}
        self._is_reconfigured = False
        self._unqueued: dict[str, None] = {}
        self._touched: dict[tuple[str, str], None] = {}
        self._questions: dict[str, None] = {}
        self._second_pass: dict[str, None] = {}
        self._nodes: dict[str, facts.TopologyNode] = {}
        self._topologies: dict[str, None] = {}

    # Reading

    def read_as_written(self, obj: Obj) -> Workload:
        """Facts of a Workload without what its pods will get besides, as its controller looks at it."""
        return self.reader.read(obj)

    def read(self, obj: Obj) -> Workload:
        """Facts of a Workload, as its pods will be: with the defaults and overheads they get."""
        adjusted = self.environment.adjusted(obj)
        workload = self.reader.read(adjusted)
        workload.obj = obj
        return workload

    @property
    def namespaces(self) -> Namespaces:
        return self.environment.namespaces

    def cluster_queue_of(self, local_queue: str) -> str | None:
        """The ClusterQueue a LocalQueue names, there or not."""
        found = self.local_queues.get(local_queue)
        return None if found is None else found.cluster_queue

    def queue_of(self, local_queue: str) -> ClusterQueuePending | None:
        """Where workloads of this LocalQueue wait: None while it is missing or stopped."""
        found = self.local_queues.get(local_queue)
        if found is None or found.stop_policy != NO_STOP:
            return None
        return self.pending.queues.get(found.cluster_queue)

    def is_queue_active(self, name: str) -> bool:
        """Whether it can admit. The accounts must be settled."""
        queue = self.accounts.queues.get(name)
        return queue is not None and queue.inactivity is None

    def is_queue_going(self, name: str) -> bool:
        spec = self.accounts.queue_specs().get(name)
        return spec is not None and spec.is_going

    def held_in(self, name: str) -> Held:
        return self.holdings.of_queue(name)

    def held_by(self, local_queue: str) -> Held:
        return self.holdings.of_local_queue(local_queue)

    def pending_in(self, name: str) -> int:
        queue = self.pending.queues.get(name)
        return 0 if queue is None else len(queue)

    def pending_by(self, local_queue: str) -> int:
        return self._queued_count.get(local_queue, 0)

    @property
    def has_topologies(self) -> bool:
        return bool(self._topologies)

    def set_facts(self, workload: Workload) -> None:
        """A waiting workload was written to, in ways that make no difference to its turn."""
        local_queue = self._queued.get(workload.key)
        queue = None if local_queue is None else self.queue_of(local_queue)
        known = None if queue is None else queue.get(workload.key)
        if known is not None:
            known.workload = workload

    def workloads_of(self, local_queue: str) -> tuple[str, ...]:
        return tuple(self._members.get(local_queue, ()))

    def local_queues_of(self, cluster_queue: str) -> list[str]:
        return [k for k, q in self.local_queues.items() if q.cluster_queue == cluster_queue]

    # What was touched

    def take_wakes(self) -> tuple[trees.Root, ...]:
        if not self._wake_queues and not self._wake_cohorts:
            return ()
        of_cohorts = (trees.root_of_cohort(self.accounts, name) for name in self._wake_cohorts)
        roots = dict.fromkeys(trees.roots_of(self.accounts, self._wake_queues))
        roots.update(dict.fromkeys(root for root in of_cohorts if root is not None))
        self._wake_queues, self._wake_cohorts = {}, {}
        return tuple(roots)

    def take_touched(self) -> tuple[tuple[str, str], ...]:
        """(kind, name or key) of queues."""
        if not self._touched and not self._is_reconfigured:
            return ()
        if self._is_reconfigured:
            # Quotas, or who shares them, changed: the shares and the activity of all queues may have.
            self._is_reconfigured = False
            self._touched.update(
                dict.fromkeys((CLUSTER_QUEUE, n) for n in sorted(self.accounts.queue_specs()))
            )
            if self.settings.uses_fair_sharing:
                self._touched.update(dict.fromkeys((COHORT, n) for n in sorted(self.accounts.cohort_names())))
        taken, self._touched = tuple(self._touched), {}
        return taken

    def take_questions(self) -> tuple[str, ...]:
        if not self._questions:
            return ()
        taken, self._questions = tuple(self._questions), {}
        return taken

    def take_second_pass(self) -> tuple[str, ...]:
        """Workloads with quota that should be scheduled again, for their nodes."""
        if not self._second_pass:
            return ()
        taken, self._second_pass = tuple(self._second_pass), {}
        return taken

    # Changes of objects

    def apply(self, change: Change, now_us: int) -> None:
        """Any change of a kind in `WATCHED`."""
        gk = change.key[0]
        if gk == WORKLOAD:
            self._workload(change, now_us)
        elif gk == CLUSTER_QUEUE:
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

    # Workloads

    def _workload(self, change: Change, now_us: int) -> None:
        self.owned.apply(change)
        new, old = change.obj, change.old
        key = key_of(new)
        if change.type == DELETED:
            self._leave(key, new)
            return
        if self._is_known(key, new):
            return
        self._join(key, new, old)
        local_queue = f"{namespace_of(new)}/{spec_of(new).get('queueName') or ''}"
        if is_finished(new) or not is_active(new):
            was_over = old is not None and (is_finished(old) or not is_active(old))
            self._unqueue(key)
            if self.release(key) or not was_over:
                self._wake_of(local_queue)
            if is_finished(new):
                self._members.get(local_queue, {}).pop(key, None)
            self._touch(local_queue)
            return
        has_quota = conds.is_true(status_of(new), conds.QUOTA_RESERVED)
        if has_quota:
            self._with_quota(key, new, local_queue)
        else:
            self._without_quota(key, new, local_queue, now_us)
        if needs_second_pass(new):
            self._second_pass[key] = None
        self._touch(local_queue)

    def _is_known(self, key: str, new: Obj) -> bool:
        """Whether this is what the books say already: the echo of the caller's own write."""
        held = self.accounts.holders.get(key)
        if held is None:
            local_queue = self._queued.get(key)
            queue = None if local_queue is None else self.queue_of(local_queue)
            known = None if queue is None else queue.get(key)
            held = None if known is None else known.workload
        return held is not None and held.obj is new and not held.needs_second_pass

    def _join(self, key: str, new: Obj, old: Obj | None) -> None:
        namespace = namespace_of(new)
        self.environment.know_namespace(namespace)
        queue = f"{namespace}/{spec_of(new).get('queueName') or ''}"
        if old is not None:
            before = f"{namespace}/{spec_of(old).get('queueName') or ''}"
            if before != queue:
                self._members.get(before, {}).pop(key, None)
                self._unqueue(key)
                self._touch(before)
        if not is_finished(new):
            self._members.setdefault(queue, {})[key] = None

    def _leave(self, key: str, obj: Obj) -> None:
        queue = f"{namespace_of(obj)}/{spec_of(obj).get('queueName') or ''}"
        self._members.get(queue, {}).pop(key, None)
        self._unqueue(key)
        self.release(key)
        self._wake_of(queue)
        self._touch(queue)

    def _with_quota(self, key: str, new: Obj, local_queue: str) -> None:
        self._unqueue(key)
        held = self.accounts.holders.get(key)
        if held is not None and held.obj is new:
            return
        workload = self.read(new)
        if held is None or changes_quota(held, workload):
            if held is not None:
                self._wake_of(local_queue)
            self.hold(workload)
        else:
            self.version += self.holdings.refresh(held, workload)
        self.version += self.holdings.note_readiness(key, new)

    def _without_quota(self, key: str, new: Obj, local_queue: str, now_us: int) -> None:
        if self.release(key):
            self._wake_of(local_queue)
        if is_on_hold(new):
            self._unqueue(key)
            return
        self.enqueue(new, now_us)

    def note_written(self, obj: Obj) -> None:
        """Who holds quota was written to by the caller itself: known at once, not a watch latency later."""
        held = self.accounts.holders.get(key_of(obj))
        if held is not None:
            self.version += self.holdings.refresh(held, self.read(obj))

    def enqueue(self, obj: Obj, now_us: int, *, is_filling: bool = False) -> None:
        """Let it wait for its turn, if it may. `is_filling`: because its LocalQueue came, or came back."""
        if not is_admissible(obj, self.settings.gates):
            self._unqueue(key_of(obj))
            return
        workload = self.read(obj)
        if workload.key in self.accounts.holders:
            return
        queue = self.queue_of(workload.queue)
        at = self._queued.get(workload.key)
        if at is not None and at != workload.queue:
            self._unqueue(workload.key)
        if queue is None:
            return
        known = queue.get(workload.key)
        if known is not None and known.workload.obj is obj and known.workload.shape is workload.shape:
            return
        was_active = known is not None and known.is_active
        queue.push(workload, ready_us=ready_us(obj), now_us=now_us, is_filling=is_filling)
        if workload.key not in self._queued:
            self._queued[workload.key] = workload.queue
            self._queued_count[workload.queue] = self._queued_count.get(workload.queue, 0) + 1
        now = queue.get(workload.key)
        if (
            now is not None
            and now.is_active
            and (not was_active or (known is not None and ranks_differently(known, workload)))
        ):
            self.version += 1

    def _unqueue(self, key: str) -> None:
        local_queue = self._queued.pop(key, None)
        if local_queue is None:
            return
        self._queued_count[local_queue] -= 1
        found = self.local_queues.get(local_queue)
        queue = None if found is None else self.pending.queues.get(found.cluster_queue)
        if queue is not None:
            queue.remove(key)
            self.version += 1

    def taken(self, key: str) -> None:
        """A head was given quota: it waits no longer."""
        local_queue = self._queued.pop(key, None)
        if local_queue is not None:
            self._queued_count[local_queue] -= 1
            self._touch(local_queue)

    # Quota

    def hold(self, workload: Workload) -> None:
        """It holds quota from now on, or holds it with other facts."""
        self.holdings.hold(workload)
        self._touched[CLUSTER_QUEUE, workload.cluster_queue] = None
        self._touched[LOCAL_QUEUE, workload.queue] = None
        self.version += 1

    def release(self, key: str) -> bool:
        """It holds quota no longer; whether it did."""
        held = self.holdings.release(key)
        if held is None:
            return False
        self._touched[CLUSTER_QUEUE, held.cluster_queue] = None
        self.version += 1
        return True

    # Queues

    def _cluster_queue(self, change: Change) -> None:
        name, new, before = change.key.name, change.obj, change.old
        if before is not None and change.type != DELETED and is_status_only(before, new):
            return
        if change.type == DELETED:
            self.accounts.drop_cluster_queue(name)
            dropped = self.pending.queues.pop(name, None)
            for workload in () if dropped is None else dropped.in_order():
                self.taken(workload.key)
            self._ask_cluster_queue(name)
            self._configured()
            return
        spec = facts.cluster_queue(new)
        old = self.accounts.queue_specs().get(name)
        if old == spec and not spec.is_going:
            return
        # The tree that it leaves is not woken, as in Kueue.
        self.accounts.set_cluster_queue(spec)
        usage = self.settings.usage is not None and spec.uses_usage_ordering
        is_new = name not in self.pending.queues
        self.pending.queue(name, spec.queueing_strategy, by_usage=usage)
        if is_new:
            for key in self.local_queues_of(name):
                self._fill(key)
        if old is None or spec.is_going or stops_differently(old, spec):
            self._ask_cluster_queue(name)
        self._configured()
        self._wake_queues[name] = None

    def _ask_cluster_queue(self, name: str) -> None:
        for local_queue in self.local_queues_of(name):
            self._touched[LOCAL_QUEUE, local_queue] = None
            self._questions.update(self._members.get(local_queue, {}))

    def _local_queue(self, change: Change) -> None:
        before = change.old
        if before is not None and change.type != DELETED and is_status_only(before, change.obj):
            return
        new = facts.local_queue(change.obj)
        old = self.local_queues.get(new.key)
        if change.type != DELETED and old == new:
            return
        if old is not None:
            self._empty(new.key)
        if change.type == DELETED:
            self.local_queues.pop(new.key, None)
        else:
            self.local_queues[new.key] = new
            self._fill(new.key)
            self._touched[LOCAL_QUEUE, new.key] = None
        if change.type != ADDED or old is None:
            self._questions.update(self._members.get(new.key, {}))
        # What its ClusterQueue says of itself stays until something else calls for it.
        self.version += 1

    def _fill(self, local_queue: str) -> None:
        """Its workloads should be queued: the caller hands each to `enqueue`."""
        self._questions.update(self._members.get(local_queue, {}))
        self._unqueued.update(self._members.get(local_queue, {}))

    def take_unqueued(self) -> tuple[str, ...]:
        """Workloads whose queue appeared: to be handed to `enqueue`."""
        if not self._unqueued:
            return ()
        taken, self._unqueued = tuple(self._unqueued), {}
        return taken

    def _empty(self, local_queue: str) -> None:
        """Nothing of this LocalQueue waits any more."""
        for key in self._members.get(local_queue, {}):
            self._unqueue(key)

    def _cohort(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            self.accounts.drop_cohort(name)
            self._configured()
            return
        if change.old is not None and spec_of(change.old) == spec_of(change.obj):
            return
        self.accounts.set_cohort(facts.cohort(change.obj))
        self._touched[COHORT, name] = None
        self._configured()
        self._wake_cohorts[name] = None

    def _configured(self) -> None:
        self.version += 1
        self._is_reconfigured = True

    # Flavors, topologies, checks

    def _flavor(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            self.accounts.drop_flavor(name)
        else:
            flavor = facts.resource_flavor(change.obj)
            if self.accounts.flavors.get(name) == flavor:
                return
            self.accounts.set_flavor(flavor)
        self._reconfigured(trees.using_flavor(self.accounts.queue_specs(), name))

    def _topology(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            self._topologies.pop(name, None)
            self.accounts.drop_topology(name)
        else:
            if change.old is not None and spec_of(change.old) == spec_of(change.obj):
                return
            if not self._topologies:
                for node in self._nodes.values():
                    self.accounts.set_node(node)
            self._topologies[name] = None
            self.accounts.set_topology(facts.topology(change.obj))
        flavors = [f.name for f in self.accounts.flavors.values() if f.topology == name]
        specs = self.accounts.queue_specs()
        self._reconfigured(dict.fromkeys(q for flavor in flavors for q in trees.using_flavor(specs, flavor)))

    def _check(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            self.accounts.drop_check(name)
        else:
            self.accounts.set_check(facts.admission_check(change.obj))
        self._reconfigured(trees.using_check(self.accounts.queue_specs(), name))

    def _reconfigured(self, names: Iterable[str]) -> None:
        """What these queues refer to changed; they may be active now, or not any more. Nobody asks their Workloads."""
        self._configured()
        for name in names:
            self._wake_queues[name] = None
            for local_queue in self.local_queues_of(name):
                self._touched[LOCAL_QUEUE, local_queue] = None

    # Nodes and namespaces

    def _node(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            self._nodes.pop(name, None)
            self.accounts.drop_node(name)
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
            self.accounts.set_node(node)
        if self._topologies:
            self.version += 1
            aware = [f.name for f in self.accounts.flavors.values() if f.topology]
            specs = self.accounts.queue_specs()
            self._wake_queues.update(dict.fromkeys(q for f in aware for q in trees.using_flavor(specs, f)))

    def _namespace(self, change: Change) -> None:
        moved = self.environment.hear_namespace(change)
        if moved is None:
            return
        before, now = moved
        specs = self.accounts.queue_specs()
        for name in sorted(specs) if before is not None else ():
            selector = specs[name].namespace_selector
            if selector.matches(now) and before is not None and not selector.matches(before):
                self._wake_queues[name] = None
        self.version += 1

    def _pod_defaults(self, change: Change) -> None:
        """What pods are given on their way in changed: what waits is counted anew."""
        if change.key.gk == LIMIT_RANGE:
            self.environment.hear_limit_range(change)
            prefix = f"{change.key.namespace}/"
        else:
            self.environment.hear_runtime_class(change)
            prefix = ""
        for local_queue in self.local_queues:
            if local_queue.startswith(prefix):
                self._fill(local_queue)
        self.version += 1

    # Waking

    def _wake_of(self, local_queue: str) -> None:
        """A workload of it gave something back. Of one that is stopped nobody hears it, as in Kueue."""
        found = self.local_queues.get(local_queue)
        if found is not None and found.stop_policy == NO_STOP:
            self._wake_queues[found.cluster_queue] = None

    def wake(self, root: trees.Root, now_us: int) -> None:
        """What waits below a root is tried again, backoffs aside."""
        self.accounts.settle()
        names = trees.queues_of(self.accounts, root)
        self.pending.wake(names, now_us)
        self.version += 1

    def _touch(self, local_queue: str) -> None:
        """A workload of it changed. One that is stopped leads to no ClusterQueue."""
        self._touched[LOCAL_QUEUE, local_queue] = None
        found = self.local_queues.get(local_queue)
        if found is not None and found.stop_policy == NO_STOP:
            self._touched[CLUSTER_QUEUE, found.cluster_queue] = None

    def copy(self) -> Backlog:
        """An independent copy. Facts of workloads and of the configuration are shared."""
        twin = Backlog(self.settings)
        twin.accounts = self.accounts.copy()
        twin.holdings = self.holdings.copy(twin.accounts)
        twin.pending = self.pending.copy()
        twin.reader = self.reader
        twin.owned = self.owned.copy()
        twin.environment = self.environment.copy()
        twin.local_queues = dict(self.local_queues)
        twin.version = self.version
        twin._members = {queue: dict(keys) for queue, keys in self._members.items()}
        twin._queued, twin._queued_count = dict(self._queued), dict(self._queued_count)
        twin._wake_queues, twin._wake_cohorts = dict(self._wake_queues), dict(self._wake_cohorts)
        twin._is_reconfigured = self._is_reconfigured
        twin._unqueued, twin._touched = dict(self._unqueued), dict(self._touched)
        twin._questions, twin._second_pass = dict(self._questions), dict(self._second_pass)
        twin._nodes, twin._topologies = dict(self._nodes), dict(self._topologies)
        return twin
