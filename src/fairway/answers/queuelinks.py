"""What Kueue says of a Workload: its queue, quota in every flavor and at every node of the cohort tree, preemption.

The verdict and its words are a cycle's own (`queueing.control.pendingreasons`), asked now; the numbers come from the
accounts that cycle goes by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway.answers.explanation import (
    BLOCKED,
    GANG,
    NOTED,
    PASSED,
    PREEMPTION,
    PROVISIONING,
    QUEUE,
    QUOTA,
    SCHEDULER,
    WAITS,
    Link,
)
from fairway.answers.kueuerefusals import refusals_of
from fairway.kube.objects import Obj, status_of
from fairway.kube.timestamps import rfc3339
from fairway.queueing.control.pendingreasons import (
    BACKOFF,
    FITS,
    PREEMPTS,
    Standing,
    standing_of,
)
from fairway.queueing.control.pendingreasons import (
    BLOCKED as STOPPED,
)
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.amounts import amount_text
from fairway.queueing.facts.objects import (
    NEVER,
    NO_STOP,
    PROVISIONING_CONTROLLER,
    STRICT_FIFO,
    FlavorResource,
    flavor_resource,
)
from fairway.queueing.facts.workloads import Workload, key_of
from fairway.queueing.facts.workloadstate import is_finished
from fairway.queueing.flavors.flavormatch import mismatch
from fairway.queueing.preemption.targets import satisfies_policy, uses_any_of
from fairway.queueing.quota.accounts import QueueAccount
from fairway.queueing.quota.quotatree import QuotaNode
from fairway.results.queuestate import QueueState, cycle_options

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource in one flavor: what is asked beyond what is free, and the node of the tree that has least."""

    at: FlavorResource
    asked: int
    free: int
    most: int
    binding: str

    @property
    def short(self) -> int:
        return max(self.asked - self.free, 0)


def queue_links(state: QueueState, obj: Obj, standing: Standing | None = None) -> list[Link]:
    """The links of one Workload, in order; those behind the one that blocks are left out."""
    if is_finished(obj):
        return []
    if conds.is_true(status_of(obj), conds.QUOTA_RESERVED):
        return _with_quota(state, obj)
    standing = (
        standing_of(state.backlog, cycle_options(state), obj, state.usage) if standing is None else standing
    )
    if standing.verdict == STOPPED:
        return [Link(QUEUE, BLOCKED, standing.reason, _stopped(state, standing), _place(state, standing))]
    account = state.backlog.accounts.queues[standing.cluster_queue]
    queued = Link(QUEUE, PASSED, "", _placed(state, standing), _place(state, standing))
    if standing.verdict == BACKOFF:
        message = f"requeued after a failure, tried again at {rfc3339(standing.ready_us)}"
        return [Link(QUEUE, WAITS, standing.reason or "Backoff", message, _place(state, standing))]
    if standing.verdict == FITS:
        return [_behind(state, standing, account, queued)]
    if standing.verdict == PREEMPTS:
        victims = ", ".join(standing.victims[:_NAMED]) + (" …" if len(standing.victims) > _NAMED else "")
        said = standing.message or f"it would preempt {victims}"
        return [queued, Link(PREEMPTION, WAITS, standing.reason, said, {"preempts": list(standing.victims)})]
    if standing.reason in (conds.WAITING_FOR_PODS_READY,):
        return [Link(QUEUE, BLOCKED, standing.reason, standing.message, _place(state, standing))]
    layer = QUEUE if standing.reason == conds.MISCONFIGURED else QUOTA
    if layer == QUEUE:
        return [Link(QUEUE, BLOCKED, standing.reason, standing.message, _place(state, standing))]
    return [queued, *_refused(state, account, standing)]


def _refused(state: QueueState, account: QueueAccount, standing: Standing) -> list[Link]:
    """Quota, where it is short; then where the pods may run, where that is not possible either."""
    short = shortages(account, standing.workload)
    uncovered = uncovered_by(account, standing.workload)
    mismatches = mismatches_of(state, account, standing.workload)
    refusals = refusals_of(state, account, standing, uncovered, mismatches)
    numbers = {**_numbers(account, short), "uncovered": uncovered, "mismatches": mismatches}
    links: list[Link] = []
    if refusals.quota is not None:
        said = refusals.quota
        covering = tuple(
            f"{amount_text(r, v)} {r} asked, which no flavor of ClusterQueue {account.name} covers"
            for r, v in uncovered.items()
        )
        details = (*covering, *_unusable(mismatches), *_tree(account, short))
        links.append(Link(QUOTA, BLOCKED, said.reason, said.message, numbers, details))
        links += _preemption(state, account, standing, short)
    if refusals.placement is not None:
        said = refusals.placement
        where = {"cluster_queue": account.name, "flavors": numbers["flavors"], "mismatches": mismatches}
        links.append(Link(SCHEDULER, BLOCKED, said.reason, said.message, where, _unusable(mismatches)))
    return links or [Link(QUEUE, BLOCKED, standing.reason, standing.message, _place(state, standing))]


def _stopped(state: QueueState, standing: Standing) -> str:
    """Kueue's words, and of a queue that is inactive what makes it so, which they leave out."""
    if standing.reason != conds.SUSPENDED:
        return standing.message
    local = state.backlog.local_queues.get(standing.workload.queue)
    if local is not None and local.stop_policy != NO_STOP:
        return f"{standing.message}: its stopPolicy is {local.stop_policy}"
    return f"{standing.message}: {why_inactive(state, standing.cluster_queue)}"


def why_inactive(state: QueueState, name: str) -> str:
    """In Kueue's words, but for what every one of them begins with."""
    account = state.backlog.accounts.queues.get(name)
    why = None if account is None else account.inactivity
    if account is None or why is None:
        return "its cohorts form a cycle"
    said = why.message.partition(": ")[2].removesuffix(".") or why.message
    return said.replace("is stopped", f"its stopPolicy is {account.spec.stop_policy}")


def _place(state: QueueState, standing: Standing) -> dict[str, Any]:
    return {
        "local_queue": standing.workload.queue,
        "cluster_queue": standing.cluster_queue,
        "position": standing.position,
        "pending": state.backlog.pending_in(standing.cluster_queue) if standing.cluster_queue else 0,
    }


def _placed(state: QueueState, standing: Standing) -> str:
    count = state.backlog.pending_in(standing.cluster_queue)
    return f"in ClusterQueue {standing.cluster_queue}, place {standing.position} of {count}"


def _behind(state: QueueState, standing: Standing, account: QueueAccount, queued: Link) -> Link:
    """It would fit. Only a strict queue lets its head keep it waiting."""
    if account.spec.queueing_strategy != STRICT_FIFO or standing.position <= 1:
        said = f"{queued.message}: it fits now, and is admitted when its turn comes"
        return Link(QUEUE, WAITS, "", said, queued.numbers)
    queue = state.backlog.pending.queues[standing.cluster_queue]
    head = queue.in_order(state.usage if queue.by_usage else None)[0]
    of_head = standing_of(state.backlog, cycle_options(state), head.obj, state.usage)
    why = of_head.message or of_head.verdict
    said = f"{queued.message}: it fits, but {STRICT_FIFO} keeps it behind {head.key}, which waits: {why}"
    return Link(QUEUE, BLOCKED, STRICT_FIFO, said, {**queued.numbers, "behind": head.key})


# Quota


def shortages(account: QueueAccount, workload: Workload) -> list[Shortage]:
    """Every flavor of the queue against what the workload asks in all, least short first."""
    found = []
    for resource, value in _asked(workload).items():
        group = account.spec.group_of(resource)
        for flavor in () if group is None else group.flavors:
            fr = flavor_resource(flavor, resource)
            found.append(
                Shortage(fr, value, account.free(fr), max(account.potential(fr), 0), _binding(account, fr))
            )
    return sorted(found, key=lambda s: (s.short, s.at))


def _asked(workload: Workload) -> dict[str, int]:
    asked: dict[str, int] = {}
    for total in workload.totals:
        for resource, value in total.requests.items():
            asked[resource] = asked.get(resource, 0) + value
    return asked


def uncovered_by(account: QueueAccount, workload: Workload) -> dict[str, int]:
    """What it asks of resources that no flavor of the queue counts."""
    return {r: v for r, v in _asked(workload).items() if v and account.spec.group_of(r) is None}


def mismatches_of(state: QueueState, account: QueueAccount, workload: Workload) -> dict[str, str]:
    """Flavors that some of its pods cannot use however much quota there is, and why: taints, labels, topology."""
    accounts = state.backlog.accounts
    with_topology = accounts.gates.topology_aware_scheduling
    found: dict[str, str] = {}
    for group in account.spec.groups:
        for name in group.flavors:
            flavor = accounts.flavors.get(name)
            for pod_set in workload.shape.pod_sets if flavor is not None else ():
                assert flavor is not None
                if not any(r in group.covered for r in pod_set.per_pod):
                    continue
                why = mismatch(account, pod_set, flavor, group, with_topology=with_topology)
                if why:
                    found.setdefault(name, why)
    return found


def _unusable(mismatches: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{flavor} cannot be used: {why}" for flavor, why in mismatches.items())


def _binding(account: QueueAccount, fr: FlavorResource) -> str:
    """Where the limit is: the queue's own borrowing limit, or the cohort that has nothing left."""
    node: QuotaNode = account
    while node.parent is not None:
        here, above = node.available(fr), node.local_available(fr) + node.parent.available(fr)
        if here < above:
            return f"{_what(node)}'s borrowing limit"
        node = node.parent
    return f"{_what(node)}"


def _what(node: QuotaNode) -> str:
    return f"ClusterQueue {node.name}" if node.is_queue else f"Cohort {node.name}"


def _numbers(account: QueueAccount, short: list[Shortage]) -> dict[str, Any]:
    return {
        "cluster_queue": account.name,
        "path": account.path(),
        "flavors": [
            {
                "flavor": s.at.flavor,
                "resource": s.at.resource,
                "asked": s.asked,
                "free": s.free,
                "short": s.short,
                "most": s.most,
                "limited_by": s.binding,
            }
            for s in short
        ],
    }


def _tree(account: QueueAccount, short: list[Shortage]) -> tuple[str, ...]:
    """One line a flavor that is short, then one for each node of the tree from the queue up to the root."""
    lines = []
    for s in short:
        if not s.short:
            continue
        text = _text(s.at)
        lines.append(
            f"{s.at.flavor} {s.at.resource}: asks {text(s.asked)}, {text(s.free)} free, {text(s.short)} short, "
            f"limited by {s.binding}"
        )
        for node in (account, *account.ancestors()):
            nominal = node.quotas[s.at].nominal if s.at in node.quotas else 0
            used, most = node.usage.get(s.at, 0), node.subtree.get(s.at, 0)
            lines.append(
                f"  {_what(node)}: own {text(nominal)}, with children {text(most)}, used {text(used)}"
            )
    return tuple(lines)


def _text(fr: FlavorResource) -> Any:
    return lambda value: amount_text(fr.resource, value)


# Preemption


def _preemption(
    state: QueueState, account: QueueAccount, standing: Standing, short: list[Shortage]
) -> list[Link]:
    """Who holds what is short, and by which rule each may not be stopped for this one."""
    frs = tuple(s.at for s in short if s.short)
    policy = account.spec.preemption
    if not frs:
        return []
    counts: dict[str, int] = {}
    examples: dict[str, str] = {}
    for queue in account.root().subtree_queues() if account.parent is not None else (account,):
        assert isinstance(queue, QueueAccount)
        for held in queue.workloads.values():
            if not uses_any_of(held, frs):
                continue
            why = _spared(account, queue, standing.workload, held, frs)
            counts[why] = counts.get(why, 0) + 1
            examples.setdefault(why, held.key)
    said = ", ".join(f"{count} {why} (such as {examples[why]})" for why, count in sorted(counts.items()))
    numbers = {
        "within_cluster_queue": policy.within_cluster_queue,
        "reclaim_within_cohort": policy.reclaim_within_cohort,
        "holders": counts,
    }
    message = f"of the workloads that hold what is short: {said}" if said else "nobody holds what is short"
    return [Link(PREEMPTION, NOTED, "", message, numbers)]


def _spared(
    account: QueueAccount,
    queue: QueueAccount,
    mine: Workload,
    held: Workload,
    frs: tuple[FlavorResource, ...],
) -> str:
    policy = account.spec.preemption
    is_own = queue is account
    rule = policy.within_cluster_queue if is_own else policy.reclaim_within_cohort
    name = "withinClusterQueue" if is_own else "reclaimWithinCohort"
    if rule == NEVER:
        return f"{'in the same queue' if is_own else 'in other queues'}, {name} is {NEVER}"
    if not satisfies_policy(mine, held, rule):
        return f"with priority {held.priority} against {mine.priority}, which {name} {rule} spares"
    if not is_own and queue.is_within_nominal(frs):
        return f"in queue {queue.name}, which uses no more than its own quota"
    return "could go, but not enough comes free that way"


# With quota


def _with_quota(state: QueueState, obj: Obj) -> list[Link]:
    """Quota is reserved: admission checks and readiness are left."""
    workload = state.backlog.read(obj)
    has = Link(QUOTA, PASSED, "QuotaReserved", f"quota is reserved in ClusterQueue {workload.cluster_queue}")
    status = status_of(obj)
    evicted = conds.find(status, conds.EVICTED) or {}
    if evicted.get("status") == conds.TRUE:
        return [Link(PREEMPTION, WAITS, evicted.get("reason", ""), evicted.get("message", ""))]
    if conds.is_true(status, conds.ADMITTED):
        return [has]
    waiting = [c for c in status.get("admissionChecks") or () if c.get("state") != "Ready"]
    if not waiting:
        return [has, Link(QUEUE, WAITS, "", "it is about to be admitted")]
    links = []
    for check in waiting:
        name = str(check.get("name"))
        is_opening = state.backlog.accounts.controller_of_check(name) == PROVISIONING_CONTROLLER
        stops = check.get("state") in ("Rejected", "Retry")
        message = (
            f"admission check {name} is {check.get('state')}: {check.get('message') or 'it has said nothing'}"
        )
        links.append(
            Link(
                PROVISIONING if is_opening else QUEUE, BLOCKED if stops else WAITS, "AdmissionCheck", message
            )
        )
    return [has, *links]


def gang_link(obj: Obj) -> Link | None:
    """Of an admitted Workload whose pods are waited for together."""
    ready = conds.find(status_of(obj), conds.PODS_READY)
    if ready is None or ready.get("status") == conds.TRUE:
        return None
    return Link(GANG, NOTED, ready.get("reason", ""), ready.get("message", ""))


__all__ = ["Shortage", "gang_link", "key_of", "queue_links", "shortages"]
