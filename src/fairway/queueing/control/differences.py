"""Which differences between two states of an object count?

Source: pkg/controller/core (event handlers), pkg/cache/queue/cluster_queue.go.
"""

from __future__ import annotations

from typing import Final

from fairway.kube.objects import Obj, labels_of, status_of
from fairway.queueing.control import checks
from fairway.queueing.cycle.pending import Pending
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.objects import ClusterQueue
from fairway.queueing.facts.workloads import Workload

# Later than any time: a workload that waits for something other than time.
NEVER_US: Final = 2**62


def ready_us(obj: Obj) -> int:
    """Before when it must not be tried: after an eviction that backs off, or while it waits for a restart."""
    status = status_of(obj)
    if conds.is_false(status, conds.REQUEUED):
        return NEVER_US
    until_us = checks.requeue_at_us(status)
    return -1 if until_us is None else until_us


def changes_quota(held: Workload, now: Workload) -> bool:
    return (
        held.usage != now.usage
        or held.cluster_queue != now.cluster_queue
        or held.queue != now.queue
        or held.priority != now.priority
        or held.topology_usage != now.topology_usage
    )


def ranks_differently(known: Pending, workload: Workload) -> bool:
    """Whether a workload that waits for its turn already might fare differently now."""
    before = known.workload
    ranks = (before.priority, before.order_us), (workload.priority, workload.order_us)
    return before.hash != workload.hash or ranks[0] != ranks[1]


def is_status_only(old: Obj, new: Obj) -> bool:
    return old.get("spec") is new.get("spec") and "deletionTimestamp" not in new["metadata"]


def stops_differently(old: ClusterQueue, new: ClusterQueue) -> bool:
    return (old.stop_policy, old.admission_checks) != (new.stop_policy, new.admission_checks)


def is_node_changed(old: Obj, new: Obj) -> bool:
    if old.get("spec") is not new.get("spec") or labels_of(old) != labels_of(new):
        return True
    a, b = status_of(old), status_of(new)
    return a.get("allocatable") is not b.get("allocatable") or a.get("conditions") != b.get("conditions")
