"""The books: what holds quota, what waits, and whose status or turn a change touches.

Kept change by change from the objects, as Kueue's cache and queue manager are. Nothing here writes objects: the
caller carries out what is decided, and drains what was touched:

    backlog.apply(change, now_us)
    backlog.take_wakes()      # roots of cohort trees whose waiting workloads an event may help (batched by 1 s)
    backlog.take_touched()    # queues whose status may have changed
    backlog.take_questions()  # Workloads that should be looked at, though they did not change
    backlog.version           # grows when a cycle may decide differently than the last one

Workloads are followed here; `configuring` follows everything else, `waiting` and `holdings` know who waits and who
holds, `touched` collects what is to be drained.

Source: pkg/controller/core (event handlers), pkg/cache/queue/manager.go, pkg/cache/scheduler/cache.go.
"""

from __future__ import annotations

from collections.abc import Callable

from fairway.cluster.changes import DELETED, Change
from fairway.kube.labels import EVERYTHING
from fairway.kube.objects import Obj, namespace_of, spec_of, status_of
from fairway.queueing.control import trees
from fairway.queueing.control.configuring import Configuring
from fairway.queueing.control.differences import changes_quota, ranks_differently, ready_us
from fairway.queueing.control.environment import Environment
from fairway.queueing.control.holdings import Holdings
from fairway.queueing.control.kinds import CLUSTER_QUEUE, LOCAL_QUEUE
from fairway.queueing.control.queuestatus import Held
from fairway.queueing.control.settings import KueueSettings
from fairway.queueing.control.touched import Touched
from fairway.queueing.control.waiting import Waiting
from fairway.queueing.cycle.admissibility import Namespaces
from fairway.queueing.cycle.pending import ClusterQueuePending, PendingWorkloads
from fairway.queueing.devices.needs import needs_charge
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.objects import LocalQueue
from fairway.queueing.facts.podsets import Charge
from fairway.queueing.facts.workloads import Workload, WorkloadReader, key_of
from fairway.queueing.facts.workloadstate import (
    is_active,
    is_admissible,
    is_finished,
    is_on_hold,
    needs_second_pass,
)
from fairway.queueing.integrations.ownership import WORKLOAD, OwnedWorkloads
from fairway.queueing.quota.accounts import Accounts


class Backlog:
    """Everything a scheduling cycle starts from."""

    def __init__(self, settings: KueueSettings) -> None:
        self.settings = settings
        gates = settings.gates
        self.accounts = Accounts(gates)
        pods_ready = settings.pods_ready
        blocks = pods_ready is not None and pods_ready.blocks_admission
        self.holdings = Holdings(self.accounts, blocks_admission=blocks)
        self.waiting = Waiting(gates)
        by_eviction = pods_ready is None or pods_ready.requeues_by_eviction_time
        self.reader = WorkloadReader(gates, settings.transformations, requeue_by_eviction_time=by_eviction)
        self.owned = OwnedWorkloads()
        self.environment = Environment()
        self.touched = Touched()
        self.charges: dict[str, Charge] = {}
        """By Workload: what the devices its pods claim count as, since its controller looked."""
        self.configuring = Configuring(
            self.accounts,
            self.waiting,
            self.environment,
            self.touched,
            orders_by_usage=settings.usage is not None,
        )

    def copy(self) -> Backlog:
        """An independent copy. Facts of workloads and of the configuration are shared."""
        twin = Backlog(self.settings)
        twin.accounts = self.accounts.copy()
        twin.holdings = self.holdings.copy(twin.accounts)
        twin.waiting = self.waiting.copy()
        twin.reader = self.reader
        twin.owned = self.owned.copy()
        twin.environment = self.environment.copy()
        twin.touched = self.touched.copy()
        twin.charges = dict(self.charges)
        twin.configuring = self.configuring.copy(twin.accounts, twin.waiting, twin.environment, twin.touched)
        return twin

    # Reading

    @property
    def pending(self) -> PendingWorkloads:
        return self.waiting.pending

    @property
    def local_queues(self) -> dict[str, LocalQueue]:
        """By key; changed by `apply` alone."""
        return self.waiting.local_queues

    @property
    def namespaces(self) -> Namespaces:
        return self.environment.namespaces

    @property
    def version(self) -> int:
        return self.touched.version

    @property
    def has_topologies(self) -> bool:
        return self.configuring.has_topologies

    def read_as_written(self, obj: Obj) -> Workload:
        """Facts of a Workload without what its pods will get besides, as its controller looks at it."""
        if self.environment.adjusts_nothing:
            # What waits was read already, as it is written.
            known = self.waiting.facts_of(key_of(obj))
            if known is not None and known.obj is obj:
                return known
        return self.reader.read(obj, self.charges.get(key_of(obj), ()))

    def adjusted(self, obj: Obj) -> Obj:
        """The Workload as its pods will be: with the defaults and overheads they get."""
        return self.environment.adjusted(obj)

    def read(self, obj: Obj) -> Workload:
        """Facts of a Workload, as its pods will be: with the defaults and overheads they get."""
        charge = self.charges.get(key_of(obj), ())
        workload = self.reader.read(self.environment.adjusted(obj), charge)
        workload.obj = obj
        return workload

    def needs_charge(self, obj: Obj) -> bool:
        """Whether its controller has to say first what the devices it claims count as."""
        return needs_charge(obj, self.settings.gates, self.environment.backed)

    def charge(self, key: str, charge: Charge) -> None:
        """What they count as. To be queued anew after this."""
        self.charges[key] = charge

    def cluster_queue_of(self, local_queue: str) -> str | None:
        """The ClusterQueue a LocalQueue names, there or not."""
        found = self.local_queues.get(local_queue)
        return None if found is None else found.cluster_queue

    def queue_of(self, local_queue: str) -> ClusterQueuePending | None:
        """Where workloads of this LocalQueue wait: None while it is missing or stopped."""
        return self.waiting.queue_of(local_queue)

    def local_queues_of(self, cluster_queue: str) -> list[str]:
        return self.waiting.local_queues_of(cluster_queue)

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
        return self.waiting.pending_in(name)

    def pending_by(self, local_queue: str) -> int:
        return self.waiting.pending_by(local_queue)

    # What was touched

    def take_wakes(self) -> tuple[trees.Root, ...]:
        return self.touched.take_wakes(self.accounts)

    def take_touched(self) -> tuple[tuple[str, str], ...]:
        """(kind, name or key) of queues."""
        return self.touched.take_statuses(self.accounts, fair_sharing=self.settings.uses_fair_sharing)

    def take_questions(self) -> tuple[str, ...]:
        return self.touched.take_questions()

    def take_unqueued(self) -> tuple[str, ...]:
        """Workloads whose queue appeared: to be handed to `enqueue`."""
        return self.touched.take_unqueued()

    def take_second_pass(self) -> tuple[str, ...]:
        """Workloads with quota that should be scheduled again, for their nodes."""
        return self.touched.take_second_pass()

    # Changes of objects

    def apply(self, change: Change, now_us: int) -> None:
        """Any change of a kind in `WATCHED`."""
        if change.key[0] == WORKLOAD:
            self._workload(change, now_us)
        else:
            self.configuring.apply(change)

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
        local_queue = f"{namespace_of(new)}/{spec_of(new).get('queueName') or ''}"
        self._join(key, local_queue, new, old)
        if is_finished(new) or not is_active(new):
            was_over = old is not None and (is_finished(old) or not is_active(old))
            self._unqueue(key)
            if self.release(key) or not was_over:
                self._wake_of(local_queue)
            if is_finished(new):
                self.waiting.leave(key, local_queue)
            self._touch(local_queue)
            return
        has_quota = conds.is_true(status_of(new), conds.QUOTA_RESERVED)
        if has_quota:
            self._with_quota(key, new, local_queue)
        else:
            self._without_quota(key, new, local_queue, now_us)
        if needs_second_pass(new):
            self.touched.pass_again(key)
        self._touch(local_queue)

    def _is_known(self, key: str, new: Obj) -> bool:
        """Whether this is what the books say already: the echo of the caller's own write."""
        held = self.accounts.holders.get(key)
        if held is None and self._keeps_scans:
            held = self.waiting.facts_of(key)
        return held is not None and held.obj is new and not held.needs_second_pass

    @property
    def _keeps_scans(self) -> bool:
        """Whether what waits keeps its place in the search over flavors when it is heard of again."""
        return self.settings.gates.flavor_fungibility_preserve_scan_progress

    def _join(self, key: str, queue: str, new: Obj, old: Obj | None) -> None:
        namespace = namespace_of(new)
        self.environment.know_namespace(namespace)
        if old is not None and spec_of(old) is not spec_of(new):
            before = f"{namespace}/{spec_of(old).get('queueName') or ''}"
            if before != queue:
                self.waiting.leave(key, before)
                self._unqueue(key)
                self._touch(before)
        if not is_finished(new):
            self.waiting.join(key, queue)

    def _leave(self, key: str, obj: Obj) -> None:
        queue = f"{namespace_of(obj)}/{spec_of(obj).get('queueName') or ''}"
        self.waiting.leave(key, queue)
        self.charges.pop(key, None)
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
            self._note(self.holdings.refresh(held, workload))
        self._note(self.holdings.note_readiness(key, new))

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
            self._note(self.holdings.refresh(held, self.read(obj)))

    def _note(self, may_decide_anew: bool) -> None:
        if may_decide_anew:
            self.touched.decide_anew()

    def enqueue(self, obj: Obj, now_us: int, *, is_filling: bool = False) -> None:
        """Let it wait for its turn, if it may. `is_filling`: because its LocalQueue came, or came back."""
        if not is_admissible(obj, self.settings.gates):
            self._unqueue(key_of(obj))
            return
        if self.needs_charge(obj) and key_of(obj) not in self.charges:
            self.touched.ask((key_of(obj),))
            return
        workload = self.read(obj)
        if workload.key in self.accounts.holders:
            return
        queue = self.queue_of(workload.queue)
        at = self.waiting.home_of(workload.key)
        if at is not None and at != workload.queue:
            self._unqueue(workload.key)
        if queue is None:
            return
        known = queue.get(workload.key)
        is_echo = known is not None and known.workload.obj is obj and known.workload.shape is workload.shape
        if is_echo and self._keeps_scans:
            return
        was_active = known is not None and known.is_active
        queue.push(workload, ready_us=ready_us(obj), now_us=now_us, is_filling=is_filling)
        self.waiting.note_queued(workload.key, workload.queue)
        now = queue.get(workload.key)
        if (
            now is not None
            and now.is_active
            and (not was_active or (known is not None and ranks_differently(known, workload)))
        ):
            self.touched.decide_anew()

    def _unqueue(self, key: str) -> None:
        if self.waiting.remove(key):
            self.touched.decide_anew()

    def taken(self, key: str) -> None:
        """A head was given quota: it waits no longer."""
        local_queue = self.waiting.note_taken(key)
        if local_queue is not None:
            self._touch(local_queue)

    # Quota

    def hold(self, workload: Workload) -> None:
        """It holds quota from now on, or holds it with other facts."""
        self.holdings.hold(workload)
        self.touched.tell(CLUSTER_QUEUE, workload.cluster_queue)
        self.touched.tell(LOCAL_QUEUE, workload.queue)
        self.touched.decide_anew()

    def release(self, key: str) -> bool:
        """It holds quota no longer; whether it did."""
        held = self.holdings.release(key)
        if held is None:
            return False
        self.touched.tell(CLUSTER_QUEUE, held.cluster_queue)
        self.touched.decide_anew()
        return True

    # Waking

    def _wake_of(self, local_queue: str) -> None:
        self.touched.wake_of(self.local_queues.get(local_queue))

    def wake(self, root: trees.Root, now_us: int) -> None:
        """What waits below a root is tried again, but for backoffs and namespaces that a queue does not take."""
        self.accounts.settle()
        for name in trees.queues_of(self.accounts, root):
            queue = self.pending.queues.get(name)
            if queue is not None:
                queue.wake(now_us, self._takes(name))
        self.touched.decide_anew()

    def _takes(self, queue: str) -> Callable[[str], bool] | None:
        """Which namespaces' workloads a ClusterQueue takes; None: all."""
        spec = self.accounts.queue_specs().get(queue)
        if spec is None or spec.namespace_selector == EVERYTHING:
            return None
        selector, labels = spec.namespace_selector, self.namespaces.labels

        def is_taken(namespace: str) -> bool:
            found = labels.get(namespace)
            return found is not None and selector.matches(found)

        return is_taken

    def _touch(self, local_queue: str) -> None:
        self.touched.tell_of(local_queue, self.local_queues.get(local_queue))
