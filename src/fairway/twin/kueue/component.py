"""Who listens to what: Kueue's work queues, timers and books, driven by the store's changes.

Asleep until an object of kueue.x-k8s.io appears. Every object that may need a look waits in one queue without
duplicates, for the latency of a controller; changes of Workloads reach the status of their queues at most once
a second, and events wake a cohort tree's waiting workloads at most once a second, as in Kueue.

Source: pkg/controller/core, pkg/controller/jobframework, pkg/cache/queue (main, 2026-08).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairway.cluster.actions import Action, Create, Emit, Replace, SetStatus, perform
from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, gk_of, key_of, labels_of, meta_of, spec_of, status_of
from fairway.kube.provisioningrequests import REQUEST
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.control import kinds
from fairway.queueing.control.backlog import Backlog
from fairway.queueing.control.settings import DEFAULT_KUEUE, KueueSettings
from fairway.queueing.cycle.pending import QueueUsage
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.workloads import JOB_UID_LABEL
from fairway.queueing.facts.workloadstate import is_finished
from fairway.queueing.integrations.integration import Integration
from fairway.queueing.integrations.ownership import WORKLOAD, owners_of
from fairway.queueing.integrations.priorities import PRIORITY_CLASS, WORKLOAD_PRIORITY_CLASS
from fairway.queueing.integrations.registry import integrations
from fairway.queueing.integrations.slices import is_gated
from fairway.queueing.quota.queueusage import QueueUsageLedger
from fairway.queueing.webhooks.settings import Settings
from fairway.twin.components import Host
from fairway.twin.kueue import provisioning, reconciling
from fairway.twin.kueue.cycles import Cycles
from fairway.twin.kueue.requests import Requests
from fairway.twin.kueue.topology import Topologies
from fairway.twin.loop import CONTROLLERS

GROUP: Final = ".kueue.x-k8s.io"
POD: Final = "Pod"

Item = tuple[str, Key]
"""What kind of look, at which object."""

JOB: Final = "job"
LOOK: Final = "look"
STATUS: Final = "status"

_OWN_KINDS: Final = (*(gk for gk in kinds.WATCHED if gk.endswith(GROUP)), WORKLOAD_PRIORITY_CLASS)

_SETTLED_TOGETHER: Final = (kinds.CLUSTER_QUEUE, kinds.COHORT)

_RETRY_BASE_US: Final = 5_000
_RETRY_MAX_US: Final = 1000 * SECOND_US


class Kueue:
    """One Kueue."""

    name = "kueue"

    def __init__(self, settings: KueueSettings = DEFAULT_KUEUE) -> None:
        self.settings = settings
        self.kinds_of_jobs: dict[str, Integration] = integrations(settings.frameworks, settings.gates)
        self.kinds = _watched(self.kinds_of_jobs.values())
        self.is_awake = False
        self.backlog = Backlog(settings)
        self.cycles = Cycles()
        self.topologies = Topologies()
        self.requests = Requests()
        self.ledger = None if settings.usage is None else QueueUsageLedger(settings.usage)
        self._queued: dict[Item, int] = {}
        self._again: dict[Item, int] = {}
        self._failures: dict[Item, int] = {}
        self._granted: dict[Item, None] = {}
        """Looks that wait for the time at which they may write."""
        self._blocked: dict[Item, None] = {}
        """Looks that ended because something they name is missing."""
        self._echoes: dict[Key, Obj] = {}
        """What looks at jobs wrote last, where to hear of it leaves nothing to decide."""
        self._waking: dict[str, None] = {}
        self._drained_version = 0
        self._status_items: dict[tuple[str, str], Item] = {}
        """Built once: queues are touched by nearly every change."""
        self._is_sampling = False
        self._is_draining = False

    def attach(self, host: Host) -> None:
        self.host = host
        loop, latency = host.loop, host.latency
        self._turn = loop.register("kueue.turn", self._on_turn)
        self._remind = loop.register("kueue.again", self._on_again)
        self._wake = loop.register("kueue.wake", self._on_wake)
        self._drain = loop.register("kueue.drain", self._on_drain)
        self._sample = loop.register("kueue.sample", self._on_sample)
        stream = host.streams.stream("kueue")
        self._reconcile_us = latency.controller_reconcile.sampler(stream)
        self._write_us = latency.api_write.sampler(stream)
        self.requests.limit(latency.kueue_qps, latency.kueue_burst)
        self.cycles.attach(self)
        self.topologies.attach(self)
        self._watchers: dict[str, list[Integration]] = {}
        for kind in self.kinds_of_jobs.values():
            for gk in kind.watches:
                self._watchers.setdefault(gk, []).append(kind)

    @property
    def webhook_settings(self) -> Settings | None:
        """What its webhooks go by (see `twin.operators`): none while there is nothing of Kueue's."""
        if self.is_awake or self._is_found():
            return self.settings.webhooks
        return None

    def _is_found(self) -> bool:
        """Whether there is an object of Kueue's kinds."""
        store = self.host.store
        for gk in _OWN_KINDS:  # noqa: SIM110 (a generator costs more than the eight questions)
            if store.count(gk):
                return True
        return False

    def start(self) -> None:
        """It sleeps until there is something to queue."""

    def fork(self) -> Kueue:
        twin = Kueue(self.settings)
        twin.is_awake = self.is_awake
        twin.backlog = self.backlog.copy() if self.is_awake else Backlog(self.settings)
        twin.cycles = self.cycles.copy()
        twin.topologies = self.topologies.copy()
        twin.requests = self.requests.copy()
        twin.ledger = None if self.ledger is None else self.ledger.copy()
        twin._queued = dict(self._queued)
        twin._again = dict(self._again)
        twin._failures = dict(self._failures)
        twin._granted = dict(self._granted)
        twin._blocked = dict(self._blocked)
        twin._echoes = dict(self._echoes)
        twin._waking = dict(self._waking)
        twin._drained_version = self._drained_version
        twin._is_sampling = self._is_sampling
        twin._is_draining = self._is_draining
        return twin

    # Listening

    def observe(self, change: Change) -> None:
        gk = change.key[0]
        if not self.is_awake:
            if not gk.endswith(GROUP):
                return
            self._wake_up()
        if gk == WORKLOAD:
            self._hear_workload(change)
        elif gk in self.kinds_of_jobs:
            if self._concerns_itself(change):
                self.enqueue((JOB, change.key))
        elif gk.endswith(GROUP):
            self._hear_configuration(change)
        elif gk == PRIORITY_CLASS:
            self._retry_blocked()
        elif gk == REQUEST:
            provisioning.hear_request(self, change)
        elif gk != POD:
            self.backlog.apply(change, self.host.loop.now_us)
            if gk == kinds.NODE:
                self.topologies.hear_node(change)
        if gk == POD:
            self.topologies.hear_pod(change)
            if change.old is None and is_gated(change.obj):
                self._hear_elastic_pod(change.obj)
        for kind in self._watchers.get(gk, ()):
            for key in kind.jobs_of(self.host.store, change):
                self.enqueue((JOB, key))
        if gk in _SETTLED_TOGETHER:
            self._drain_soon()
        else:
            self.drain()

    def _concerns_itself(self, change: Change) -> bool:
        """Whether a change of a job calls for a look at it."""
        if self._is_echo(change):
            return False
        kind = self.kinds_of_jobs[change.key.gk]
        if change.type == DELETED and kind.is_one_object and not self.backlog.owned.has(change.key):
            return False
        return kind.concerns(change)

    def _is_echo(self, change: Change) -> bool:
        """Whether this is a look's own write, which decided all there was to decide."""
        return bool(self._echoes) and self._echoes.pop(change.key, None) is change.obj

    def _hear_elastic_pod(self, pod: Obj) -> None:
        """Its job lets it go, if what was admitted has room for it."""
        for owner in owners_of(pod):
            if owner.gk in self.kinds_of_jobs:
                self.enqueue((JOB, owner), self.settings.status_batch_us)

    def _wake_up(self) -> None:
        """The first object of Kueue: from now on everything counts that was there before."""
        self.is_awake = True
        store = self.host.store
        for gk in (kinds.NODE, kinds.NAMESPACE, kinds.LIMIT_RANGE, kinds.RUNTIME_CLASS, kinds.DEVICE_CLASS):
            for obj in store.objects(gk):
                key = Key(gk, meta_of(obj).get("namespace") or "", meta_of(obj)["name"])
                self.backlog.apply(Change(store.version, ADDED, key, obj, None), self.host.loop.now_us)
        for gk in self.kinds_of_jobs:
            for obj in store.objects(gk):
                meta = meta_of(obj)
                self.enqueue((JOB, Key(gk, meta.get("namespace") or "", meta["name"])))

    def _hear_workload(self, change: Change) -> None:
        self.backlog.apply(change, self.host.loop.now_us)
        new, old = change.obj, change.old
        is_echo = self._is_echo(change)
        owned = not is_echo and bool(meta_of(new).get("ownerReferences"))
        if owned and (change.type == DELETED or _concerns_job(old, new)):
            for owner in owners_of(new):
                if owner.gk in self.kinds_of_jobs and self._is_left(owner, change):
                    self.enqueue((JOB, owner))
        if change.type == DELETED or self._is_settled(new):
            self._forget_look((LOOK, change.key))
        elif old is None or self._calls_for_look(old, new):
            self.enqueue((LOOK, change.key))
        self.topologies.hear_workload(change)
        provisioning.hear_workload(self, change)

    def _is_left(self, job: Key, change: Change) -> bool:
        """Whether there is still a job, or a Workload of one, that the end of a Workload could concern."""
        if change.type != DELETED or not self.kinds_of_jobs[job.gk].is_one_object:
            return True
        return self.host.store.get(job) is not None or self.backlog.owned.has(job)

    def _is_settled(self, workload: Obj) -> bool:
        """Nothing is left to be done about it here: its job takes leave of it, or it never had one."""
        if self.settings.retained_us is not None or not is_finished(workload):
            return False
        if meta_of(workload).get("ownerReferences"):
            return True
        return "deletionTimestamp" not in meta_of(workload) and not labels_of(workload).get(JOB_UID_LABEL)

    def _forget_look(self, item: Item) -> None:
        """No deadline of its matters any more."""
        ticket = self._again.pop(item, None)
        if ticket is not None:
            self.host.loop.cancel(ticket)

    def _calls_for_look(self, old: Obj, new: Obj) -> bool:
        """Whether a change can make the controller do anything: most are a cycle's words, or an admission's."""
        if spec_of(old) is not spec_of(new) or meta_of(old).keys() != meta_of(new).keys():
            return True
        a, b = status_of(old), status_of(new)
        if "requeueState" in b or b.get("admissionChecks") or a.get("admissionChecks"):
            return True
        if meta_of(old).get("annotations") != meta_of(new).get("annotations"):
            return True
        changed = _changed_conditions(a, b)
        reserved = conds.find(b, conds.QUOTA_RESERVED)
        if not changed:
            # A cycle says in other words than the controller what is wrong with it: the controller's stay.
            return reserved is not None and reserved["reason"] == conds.MISCONFIGURED
        has_deadline = spec_of(new).get("maximumExecutionTimeSeconds") is not None
        if reserved is not None and reserved["status"] == conds.TRUE:
            if changed <= {conds.EVICTED, conds.PREEMPTED}:
                return has_deadline
            if conds.is_true(b, conds.ADMITTED) and changed <= _OF_ADMISSION:
                return has_deadline or self.settings.pods_ready is not None
            return True
        told_by_cycle = reserved is not None and reserved["reason"] in _TOLD_BY_CYCLES
        return not (told_by_cycle and changed <= {conds.QUOTA_RESERVED, conds.ADMITTED})

    def _hear_configuration(self, change: Change) -> None:
        gk = change.key.gk
        self.backlog.apply(change, self.host.loop.now_us)
        if gk in reconciling.FINALIZED and change.type != DELETED and _concerns_finalizers(change):
            self.enqueue((LOOK, change.key))
        if gk == kinds.CLUSTER_QUEUE:
            self._hear_cluster_queue(change)
        if gk in (WORKLOAD_PRIORITY_CLASS, kinds.RESOURCE_FLAVOR):
            self._retry_blocked()
        if gk == WORKLOAD_PRIORITY_CLASS and change.type != DELETED:
            self.enqueue((LOOK, change.key))
        provisioning.hear_configuration(self, change)

    def _hear_cluster_queue(self, change: Change) -> None:
        """Its LocalQueues repeat its condition; what it used may be free to go."""
        old = change.old
        if old is None or status_of(old).get("conditions") != status_of(change.obj).get("conditions"):
            for local_queue in self.backlog.local_queues_of(change.key.name):
                self._enqueue_queue((kinds.LOCAL_QUEUE, local_queue), 0)
        if change.type == DELETED or (old is not None and spec_of(old) is not spec_of(change.obj)):
            for gk in reconciling.USED_BY_QUEUES:
                for obj in self.host.store.objects(gk):
                    if "deletionTimestamp" in meta_of(obj):
                        self.enqueue((LOOK, Key(gk, "", meta_of(obj)["name"])))

    # Queueing

    def enqueue(self, item: Item, after_us: int = 0) -> None:
        """Look at it, as soon as a controller gets to it."""
        if item not in self._queued:
            at_us = self.host.loop.now_us + after_us + self._reconcile_us() + self._write_us()
            self._queued[item] = self.host.loop.at(at_us, self._turn, item, CONTROLLERS)

    def _enqueue_queue(self, queue: tuple[str, str], after_us: int) -> None:
        """What a queue says of itself is to be written. `queue`: its kind, and its name or key."""
        item = self._status_items.get(queue)
        if item is None:
            gk, name = queue
            namespace, slash, rest = name.partition("/")
            item = STATUS, Key(gk, namespace, rest) if slash else Key(gk, "", name)
            self._status_items[queue] = item
        if item not in self._queued:
            self.enqueue(item, after_us)

    def _retry_blocked(self) -> None:
        blocked, self._blocked = self._blocked, {}
        for item in blocked:
            self.enqueue(item)

    def drain(self) -> None:
        """Follow up on what the books say was touched."""
        backlog = self.backlog
        if not backlog.touched.has_news:
            return
        backlog.touched.has_news = False
        for root in backlog.take_wakes():
            if root not in self._waking:
                self._waking[root] = None
                at_us = self.host.loop.now_us + self.settings.wake_batch_us
                self.host.loop.at(at_us, self._wake, root, CONTROLLERS)
        for queue in backlog.take_touched():
            self._enqueue_queue(queue, self.settings.status_batch_us)
        for workload in backlog.take_unqueued():
            obj = self.host.store.get(_workload_key(workload))
            if obj is not None:
                backlog.enqueue(obj, self.host.loop.now_us, is_filling=True)
        for workload in backlog.take_questions():
            self.enqueue((LOOK, _workload_key(workload)))
        for workload in backlog.take_second_pass():
            self.cycles.wants_pass(workload)
        if backlog.version != self._drained_version:
            self._drained_version = backlog.version
            self.cycles.arm()
            if self.ledger is not None and not self._is_sampling and backlog.accounts.holders:
                self._plan_sample()

    def _drain_soon(self) -> None:
        """Once for all changes of queues at this moment: following up builds the whole tree of quotas anew."""
        if not self._is_draining:
            self._is_draining = True
            self.host.loop.at(self.host.loop.now_us, self._drain, None, CONTROLLERS)

    def _on_drain(self, _data: None) -> None:
        self._is_draining = False
        self.drain()

    def _on_wake(self, root: str) -> None:
        del self._waking[root]
        self.backlog.wake(root, self.host.loop.now_us)
        self.drain()

    def _on_again(self, item: Item) -> None:
        self._again.pop(item, None)
        self.enqueue(item)

    # Working

    def _on_turn(self, item: Item) -> None:
        self._queued.pop(item, None)
        self._forget_look(item)
        decided = reconciling.reconcile(self, item)
        if self.requests.is_limited and self._is_held_back(item, decided.actions):
            return
        if decided.again_at_us is not None:
            self.again_at(item, decided.again_at_us)
        if decided.is_blocked:
            self._blocked[item] = None
        if decided.actions:
            self._carry_out(item, decided.actions, settles=decided.settles)
        self.drain()

    def _is_held_back(self, item: Item, actions: Iterable[Action]) -> bool:
        """Whether its requests have to wait: if so it looks anew then, at what is there by that time."""
        if item in self._granted:
            del self._granted[item]
            return False
        now_us = at_us = self.host.loop.now_us
        for action in actions:
            if not isinstance(action, Emit) and _is_request(self.host.store, action):
                at_us = self.requests.take(_kind_written(action), now_us)
        if at_us <= now_us:
            return False
        self._granted[item] = None
        self._queued[item] = self.host.loop.at(at_us, self._turn, item, CONTROLLERS)
        return True

    def again_at(self, item: Item, time_us: int) -> None:
        """Look at it at that time, even if nothing changes."""
        self._again[item] = self.host.loop.at(time_us, self._remind, item, CONTROLLERS)

    def _carry_out(self, item: Item, actions: Iterable[Action], *, settles: bool) -> None:
        """`settles`: to hear of what is written leaves nothing to decide."""
        store = self.host.store
        for action in actions:
            if isinstance(action, Emit):
                self.tell(action.about, action.type, action.reason, action.message, action.component)
                continue
            version = store.version
            try:
                stored = perform(store, action)
            except ApiError as refused:
                self._retry(item, refused)
                return
            if settles and stored is not None and store.version == version + 1:
                self._echoes[key_of(stored)] = stored
        self._failures.pop(item, None)

    def _retry(self, item: Item, refused: ApiError) -> None:
        key = item[1]
        self.host.log.record(
            self.host.loop.now_us, self.name, key.gk, key.namespace, key.name, "Refused", refused.message
        )
        self.enqueue(item, self.retry_at_us(item) - self.host.loop.now_us)

    def retry_at_us(self, item: Item) -> int:
        """When to look again at what just failed: ever later."""
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        doubled_us = _RETRY_BASE_US << min(failures, _RETRY_MAX_US.bit_length())
        return self.host.loop.now_us + min(doubled_us, _RETRY_MAX_US)

    def tell(self, about: Key, type_: str, reason: str, message: str, component: str) -> None:
        """An event, on record too."""
        now_us = self.host.loop.now_us
        obj = self.host.store.get(about)
        uid = "" if obj is None else obj["metadata"]["uid"]
        self.host.events.emit(now_us, about, uid, type_, reason, message, component)
        self.host.log.record(now_us, component, about.gk, about.namespace, about.name, reason, message)

    # Admission fair sharing

    @property
    def usage(self) -> QueueUsage | None:
        """What LocalQueues used, where they take turns by it."""
        ledger = self.ledger
        if ledger is None:
            return None
        queues = self.backlog.local_queues
        return lambda key: ledger.usage(key, queues[key].fair_weight if key in queues else 1.0)

    def charge(self, workload: Obj) -> None:
        """A workload was given quota: it counts against its LocalQueue at once."""
        if self.ledger is None:
            return
        read = self.backlog.read(workload)
        now_us = self.host.loop.now_us
        self._catch_up()
        self.ledger.penalize(read, now_us)
        if conds.is_true(status_of(workload), conds.ADMITTED):
            self.ledger.settle(read.queue, read.key, reconciling.holding(self, read.queue), now_us)

    def _catch_up(self) -> None:
        """No samples are taken while nothing is held: what was consumed before has decayed since."""
        if self.ledger is not None and not self._is_sampling:
            for key in self.backlog.local_queues:
                self.ledger.sample(key, {}, self.host.loop.now_us)

    def _plan_sample(self) -> None:
        if self.ledger is not None:
            self._catch_up()
            self._is_sampling = True
            every_us = round(self.ledger.settings.sampling_interval_s * SECOND_US)
            self.host.loop.at(self.host.loop.now_us + every_us, self._sample, None, CONTROLLERS)

    def _on_sample(self, _data: None) -> None:
        """Consumption follows what is held; those that used less come first now."""
        if self.ledger is None:
            return
        now_us = self.host.loop.now_us
        for key in sorted(self.backlog.local_queues):
            consumed = self.ledger.sample(key, reconciling.holding(self, key), now_us)
            reconciling.tell_consumed(self, key, consumed)
        self._is_sampling = False
        if self.backlog.accounts.holders:
            self._plan_sample()


def _watched(of_jobs: Iterable[Integration]) -> tuple[str, ...]:
    names = dict.fromkeys(
        (*kinds.WATCHED, *provisioning.WATCHED, WORKLOAD_PRIORITY_CLASS, PRIORITY_CLASS, POD)
    )
    for kind in of_jobs:
        names.update(dict.fromkeys((kind.gk, *kind.watches)))
    return tuple(names)


def _concerns_finalizers(change: Change) -> bool:
    """Whether it came, is going, or holds other finalizers than before; a status has no part in that."""
    old = change.old
    return old is None or any(
        meta_of(old).get(name) != meta_of(change.obj).get(name)
        for name in ("finalizers", "deletionTimestamp")
    )


_TOLD_BY_CYCLES: Final = (
    conds.WAITING_FOR_QUOTA,
    conds.NO_MATCHING_FLAVOR,
    conds.EXCEEDS_MAX_QUOTA,
    conds.TOPOLOGY_PLACEMENT_FAILED,
    conds.WAITING_FOR_PREEMPTED_WORKLOADS,
    conds.WAITING_FOR_PODS_READY,
)
_OF_ADMISSION: Final = frozenset((conds.QUOTA_RESERVED, conds.ADMITTED, conds.EVICTED, conds.PREEMPTED))


def _changed_conditions(a: Mapping[str, Any], b: Mapping[str, Any]) -> set[str]:
    """Types of conditions whose status or reason differs."""
    before = {c["type"]: c for c in a.get("conditions") or ()}
    changed = set()
    for new in b.get("conditions") or ():
        old = before.pop(new["type"], None)
        if old is not new and (
            old is None or (old["status"], old["reason"]) != (new["status"], new["reason"])
        ):
            changed.add(new["type"])
    return changed | before.keys()


_OF_JOBS: Final = (
    conds.QUOTA_RESERVED,
    conds.ADMITTED,
    conds.EVICTED,
    conds.FINISHED,
    conds.PODS_READY,
    conds.WAITING_FOR_REPLACEMENT_PODS,
)

_OF_OWNERS: Final = ("deletionTimestamp", "ownerReferences")


def _concerns_job(old: Obj | None, new: Obj) -> bool:
    """Whether a change of a Workload can make a difference to its job."""
    if old is None or spec_of(old) is not spec_of(new):
        return True
    if meta_of(old) is not meta_of(new) and any(
        meta_of(old).get(field) != meta_of(new).get(field) for field in _OF_OWNERS
    ):
        return True
    a, b = status_of(old), status_of(new)
    if a.get("admissionChecks") != b.get("admissionChecks"):
        return True
    if a.get("conditions") is b.get("conditions"):
        return meta_of(old) is not meta_of(new) and (
            meta_of(old).get("annotations") != meta_of(new).get("annotations")
        )
    for kind in _OF_JOBS:
        x, y = conds.find(a, kind), conds.find(b, kind)
        if x is not y and (
            x is None or y is None or (x["status"], x["reason"]) != (y["status"], y["reason"])
        ):
            return True
    return False


def _kind_written(action: Action) -> str:
    if isinstance(action, Create | Replace):
        return gk_of(action.obj)
    return action.about.gk if isinstance(action, Emit) else action.key.gk


def _is_request(store: Store, action: Action) -> bool:
    """Whether there is anything to write: controllers compare before they patch a status."""
    if not isinstance(action, SetStatus):
        return True
    obj = store.get(action.key)
    return obj is not None and obj.get("status") != action.status


def _workload_key(key: str) -> Key:
    namespace, _, name = key.partition("/")
    return Key(WORKLOAD, namespace, name)
