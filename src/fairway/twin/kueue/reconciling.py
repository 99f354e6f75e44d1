"""One look at one object: what its controller decides about it, with what the books know."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from fairway.cluster.actions import Action, Patch, SetStatus
from fairway.kube.objects import Key, Obj, meta_of, spec_of
from fairway.queueing.admissionchecks.configs import reconcile_check
from fairway.queueing.admissionchecks.provisioning import reconcile_provisioning
from fairway.queueing.control import kinds, queuestatus, trees
from fairway.queueing.control.blockers import Blocker, QueueFacts, blocker_of
from fairway.queueing.control.finalizers import finalizer_actions
from fairway.queueing.control.workload import Surroundings, reconcile_workload
from fairway.queueing.facts.objects import NO_STOP
from fairway.queueing.facts.workloads import key_of
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.queueing.integrations.priorities import WORKLOAD_PRIORITY_CLASS
from fairway.queueing.integrations.reconcile import Kueue as JobWorld
from fairway.queueing.integrations.reconcile import reconcile_job
from fairway.twin.kueue import claims

if TYPE_CHECKING:
    from fairway.twin.kueue.component import Kueue

# Kinds that carry Kueue's finalizer while they live.
FINALIZED: Final = (kinds.CLUSTER_QUEUE, kinds.RESOURCE_FLAVOR, kinds.ADMISSION_CHECK, kinds.TOPOLOGY)
# Those that may only go once no queue uses them.
USED_BY_QUEUES: Final = (kinds.RESOURCE_FLAVOR, kinds.ADMISSION_CHECK, kinds.TOPOLOGY)


class Reconciled:
    """What came of it."""

    def __init__(
        self,
        actions: tuple[Action, ...] = (),
        again_at_us: int | None = None,
        is_blocked: bool = False,
        settles: bool = False,
    ) -> None:
        self.actions = actions
        self.again_at_us = again_at_us
        self.is_blocked = is_blocked
        self.settles = settles


NOTHING: Final = Reconciled()


def reconcile(kueue: Kueue, item: tuple[str, Key]) -> Reconciled:
    """Ask the controller this item is for."""
    tag, key = item
    if tag == "job":
        world = JobWorld(kueue.host.store, kueue.backlog.owned, kueue.kinds_of_jobs, kueue.settings.jobs)
        return Reconciled(*reconcile_job(world, key, kueue.host.loop.now_us))
    if tag == "ungate":
        return Reconciled(tuple(kueue.topologies.ungate(key)))
    if tag == "node":
        return Reconciled(*kueue.topologies.look_at_node(key))
    obj = kueue.host.store.get(key)
    if obj is None:
        return NOTHING
    if tag == "status":
        return _status(kueue, key, obj)
    if tag == "provisioning":
        return Reconciled(reconcile_provisioning(kueue.host.store, obj, kueue.settings.gates))
    if tag == "check":
        return Reconciled(reconcile_check(kueue.host.store, obj, kueue.host.loop.now_us))
    if key.gk == WORKLOAD:
        return _workload(kueue, key, obj)
    if key.gk == WORKLOAD_PRIORITY_CLASS:
        return _priority_class(kueue, obj)
    return Reconciled(tuple(finalizer_actions(obj, is_in_use=_is_in_use(kueue, key))))


def _workload(kueue: Kueue, key: Key, obj: Obj) -> Reconciled:
    backlog = kueue.backlog
    if claims.concerns(kueue, obj):
        looked = claims.look(kueue, key, obj)
        if looked is not None:
            return Reconciled(looked[0], kueue.retry_at_us(("look", key)) if looked[1] else None)
    backlog.accounts.settle()
    name = f"{meta_of(obj).get('namespace') or ''}/{spec_of(obj).get('queueName') or ''}"
    local_queue = backlog.local_queues.get(name)
    queue_name = "" if local_queue is None else local_queue.cluster_queue
    account = backlog.accounts.queues.get(queue_name)
    around = Surroundings(
        kueue.settings,
        local_queue,
        None if account is None else account.spec,
        backlog.is_queue_going(queue_name),
        lambda changed: _blocker(kueue, changed, name),
    )
    decided = reconcile_workload(obj, around, kueue.host.loop.now_us)
    return Reconciled(decided.actions, decided.again_at_us)


def _blocker(kueue: Kueue, obj: Obj, local_queue: str) -> Blocker | None:
    backlog = kueue.backlog
    found = backlog.local_queues.get(local_queue)
    name = "" if found is None else found.cluster_queue
    account = backlog.accounts.queues.get(name)
    pending = backlog.pending.queues.get(name)
    facts = QueueFacts(
        found,
        None if account is None else account.spec,
        backlog.is_queue_active(name),
        name,
        None if pending is None else pending.refused_reason(key_of(obj)),
    )
    asked = backlog.read_as_written(obj)
    return blocker_of(obj, asked, facts, backlog.namespaces, kueue.settings.gates)


def _status(kueue: Kueue, key: Key, obj: Obj) -> Reconciled:
    """What a queue or a cohort says of itself."""
    backlog, now_us = kueue.backlog, kueue.host.loop.now_us
    backlog.accounts.settle()
    fair = kueue.settings.uses_fair_sharing
    status: dict[str, Any]
    if key.gk == kinds.CLUSTER_QUEUE:
        account = backlog.accounts.queues.get(key.name)
        if account is None:
            return NOTHING
        held, pending = backlog.held_in(key.name), backlog.pending_in(key.name)
        status = queuestatus.cluster_queue_status(
            obj, account, held, pending, fair_sharing=fair, now_us=now_us
        )
        if "deletionTimestamp" in meta_of(obj):
            leaving = finalizer_actions(obj, is_in_use=_is_in_use(kueue, key))
            return Reconciled((SetStatus(key, status), *leaving))
    elif key.gk == kinds.LOCAL_QUEUE:
        status = _local_queue_status(kueue, key, obj)
        if not status:
            return NOTHING
    else:
        status = queuestatus.cohort_status(obj, backlog.accounts.cohorts.get(key.name), fair_sharing=fair)
    return Reconciled((SetStatus(key, status),))


def _local_queue_status(kueue: Kueue, key: Key, obj: Obj) -> dict[str, Any]:
    backlog = kueue.backlog
    name = f"{key.namespace}/{key.name}"
    queue = backlog.local_queues.get(name)
    if queue is None:
        return {}
    cluster_queue = kueue.host.store.get(Key(kinds.CLUSTER_QUEUE, "", queue.cluster_queue))
    return queuestatus.local_queue_status(
        obj,
        queue,
        backlog.accounts.queues.get(queue.cluster_queue),
        backlog.held_by(name),
        backlog.pending_by(name),
        is_queue_active=queuestatus.is_active_by_status(cluster_queue),
        now_us=kueue.host.loop.now_us,
    )


def _is_in_use(kueue: Kueue, key: Key) -> bool:
    specs = kueue.backlog.accounts.queue_specs()
    if key.gk == kinds.CLUSTER_QUEUE:
        return kueue.backlog.held_in(key.name).reserving > 0
    if key.gk == kinds.RESOURCE_FLAVOR:
        return bool(trees.using_flavor(specs, key.name))
    if key.gk == kinds.ADMISSION_CHECK:
        return bool(trees.using_check(specs, key.name))
    return any(f.topology == key.name for f in kueue.backlog.accounts.flavors.values())


def _priority_class(kueue: Kueue, obj: Obj) -> Reconciled:
    """A WorkloadPriorityClass's value moves every Workload that refers to it."""
    value, name = int(obj.get("value") or 0), meta_of(obj)["name"]
    actions = []
    for workload in kueue.host.store.objects(WORKLOAD):
        spec = spec_of(workload)
        ref = spec.get("priorityClassRef") or {}
        if (ref.get("kind"), ref.get("name")) != ("WorkloadPriorityClass", name):
            continue
        if spec.get("priority") != value:
            key = Key(WORKLOAD, meta_of(workload)["namespace"], meta_of(workload)["name"])
            actions.append(Patch(key, {"spec": {"priority": value}}))
    return Reconciled(tuple(actions))


def tell_consumed(kueue: Kueue, local_queue: str, consumed: Mapping[str, Decimal]) -> None:
    """Write what a LocalQueue consumed into its status, while it and its ClusterQueue go."""
    queue = kueue.backlog.local_queues[local_queue]
    namespace, _, name = local_queue.partition("/")
    key = Key(kinds.LOCAL_QUEUE, namespace, name)
    obj = kueue.host.store.get(key)
    if obj is None or queue.stop_policy != NO_STOP or not kueue.backlog.is_queue_active(queue.cluster_queue):
        return
    status = queuestatus.consumption_status(obj, consumed, kueue.host.loop.now_us)
    kueue.host.store.set_status(key, status)


def holding(kueue: Kueue, local_queue: str) -> dict[str, int]:
    """What admitted workloads of a LocalQueue hold, by resource."""
    total: dict[str, int] = {}
    for fr, value in kueue.backlog.held_by(local_queue).admitted_usage.items():
        total[fr.resource] = total.get(fr.resource, 0) + value
    return total
