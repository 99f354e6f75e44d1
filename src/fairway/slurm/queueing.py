"""Which pending jobs may be tried now, in which partition, in which order? (build_job_queue, sort_job_queue2.)"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cmp_to_key

from fairway.slurm import dependencies, preemption
from fairway.slurm.cluster import Cluster
from fairway.slurm.model.job import Job
from fairway.slurm.model.partition import Partition
from fairway.slurm.words.durations import INFINITE

HELD = ("JobHeldUser", "JobHeldAdmin", "BadConstraints", "JobHoldMaxRequeue", "ReservationDeleted")
NOT_PERMITTED = "AccountNotAllowed"
"""That a partition's lists of accounts or QOS keep a job out; `not_permitted` says which of them."""


@dataclass(slots=True, init=False)
class Entry:
    """A job in one of its partitions."""

    job: Job
    part: Partition
    priority: int

    def __init__(
        self, job: Job, part: Partition, priority: int,
    ) -> None:  # fmt: skip
        self.job, self.part, self.priority = job, part, priority


_ORDINARY = frozenset(("None", "Priority", "Resources"))


def build_queue(cluster: Cluster, rules: preemption.Preemption, now: int, *, min_time: bool) -> list[Entry]:
    """Every runnable job and partition, the first to be tried first. Sets the reason of those that are not.

    `min_time`: a job with --time-min is judged by that (backfill).
    """
    split_corresponding(cluster)
    queue = []
    for job in cluster.pending.values():
        if job.reason not in _ORDINARY:
            job.waited_for = job.reason
        if not is_runnable(cluster, job, now):
            continue
        for at, name in enumerate(job.partitions):
            part = cluster.partitions.get(name)
            if part is None:
                continue
            reason = partition_reason(cluster, job, part, min_time=min_time)
            if reason:
                job.reason, job.reason_detail = not_permitted(job, part, reason) or (reason, "")
                continue
            if job.reason.startswith(("Partition", "AccountNot", "QOSNot")):
                job.reason, job.reason_detail = "None", ""
            many = job.priority_by_partition
            queue.append(Entry(job, part, many[at] if at < len(many) else job.priority))
    return sort_queue(cluster, rules, queue)


def is_fifo(cluster: Cluster) -> bool:
    """Are jobs taken as they stand in the list, whatever their priority? (fifo_sched in job_scheduler.c.)"""
    conf = cluster.conf
    return (
        conf.get("SchedulerType", "sched/backfill") == "sched/builtin"
        and conf.get("PriorityType", "priority/basic") == "priority/basic"
        and len({part.priority_tier for part in cluster.partitions.values()}) < 2
    )


def sort_queue(cluster: Cluster, rules: preemption.Preemption, queue: list[Entry]) -> list[Entry]:
    if is_fifo(cluster):
        queue.sort(key=lambda entry: _place(cluster, entry.job.job_id))
        return queue
    queue.sort(key=_key)
    if not rules.enabled or len(queue) < 2:
        return queue

    def compare(a: Entry, b: Entry) -> int:
        if preemption.may_preempt(rules, cluster.accounts, b.job, b.part, a.job, a.part):
            return -1
        if preemption.may_preempt(rules, cluster.accounts, a.job, a.part, b.job, b.part):
            return 1
        left, right = _key(a), _key(b)
        return (left > right) - (left < right)

    return sorted(queue, key=cmp_to_key(compare))


def _place(cluster: Cluster, job_id: int) -> tuple[int, bool]:
    """Where its record stands: in order of submission, but what is left of an array behind the task split off last."""
    moved = cluster.behind.get(job_id)
    return (job_id, False) if moved is None else (moved, True)


def _key(entry: Entry) -> tuple[bool, int, int, int, int, int]:
    job = entry.job
    number = job.array_job_id if job.array_task is not None else job.job_id
    return (
        not job.reservation,
        -entry.part.priority_tier,
        -entry.priority,
        job.submit,
        number,
        -1 if job.array_task is None else job.array_task,
    )


def is_runnable(cluster: Cluster, job: Job, now: int) -> bool:
    """Not held, not waiting for other jobs, time or a reservation; the reason is set where it is (test1)."""
    if "COMPLETING" in job.flags:
        return False
    free = is_independent(cluster, job, now)
    if job.priority == 0:
        if job.reason not in HELD:
            job.reason, job.reason_detail = "JobHeldAdmin", ""
        return False
    return free


def is_independent(cluster: Cluster, job: Job, now: int) -> bool:
    """job_independent: dependencies, begin time, reservation."""
    state = dependencies.check(cluster, job, now)
    if state:
        if job.priority:
            job.reason, job.reason_detail = (
                ("DependencyNeverSatisfied" if state == "never" else "Dependency"),
                "",
            )
        return False
    if job.begin > now:
        if job.priority:
            job.reason, job.reason_detail = "BeginTime", ""
        return False
    if job.reservation:
        reservation = cluster.reservations.get(job.reservation)
        if reservation is None or (now < reservation.start and "FLEX" not in reservation.flags):
            job.reason, job.reason_detail = "Reservation", ""
            return False
    if not job.eligible and job.priority:
        job.eligible = now
    if job.reason in ("BeginTime", "Dependency", "Reservation", "DependencyNeverSatisfied"):
        job.reason, job.reason_detail = "None", ""
    return True


def is_never(cluster: Cluster, job: Job, now: int) -> bool:
    """Does it wait for what cannot come about any more?"""
    return dependencies.check(cluster, job, now) == "never"


def is_late(cluster: Cluster, job: Job, now: int) -> bool:
    """Could it run now, but not end by its deadline? (deadline_ok in job_scheduler.c.)"""
    due = job.request.deadline
    if (
        not due
        or not job.pending
        or not job.priority
        or job.begin > now
        or dependencies.check(cluster, job, now)
    ):
        return False
    limit = job.request.time_min or (job.time_limit if job.limit_set else 0)
    return 0 < limit < INFINITE and due < now + limit * 60


def partition_reason(cluster: Cluster, job: Job, part: Partition, *, min_time: bool = False) -> str:
    """Why the partition's rules keep the job out, or '' (job_limits_check, _part_access_check).

    Its lists of accounts and QOS come last (select_nodes), but where EnforcePartLimits has them looked at before.
    """
    if (part.root_only and job.user != "root") or (part.require_reservation and not job.reservation):
        return "PartitionConfig"
    if part.state in ("UP", "DRAIN"):
        if job.min_cpus > min(cluster.cpus_of(part), part.max_cpus_per_node * len(part.nodes)):
            return "PartitionConfig"
        if not part.min_nodes <= job.min_nodes <= len(part.nodes) or job.max_nodes > part.max_nodes:
            return "PartitionNodeLimit"
        limit = job.request.time_min if min_time and job.request.time_min else job.time_limit
        asked = job.limit_set or (min_time and job.request.time_min)
        if asked and limit > part.max_time:
            return "PartitionTimeLimit"
    if part.state in ("DOWN", "INACTIVE"):
        return "PartitionDown" if part.state == "DOWN" else "PartitionInactive"
    most_cpu, most_node = part.max_mem_per_cpu, part.max_mem_per_node
    if job.mem_per_cpu is not None and most_cpu and most_cpu < INFINITE and job.mem_per_cpu > most_cpu:
        return "MaxMemPerLimit"
    if job.mem_per_cpu is not None and most_node and job.mem_per_cpu * _cpus_a_node(job) > most_node:
        return "MaxMemPerLimit"
    if job.mem_per_node is not None and most_node and job.mem_per_node > most_node:
        return "MaxMemPerLimit"
    return "" if may_use(job, part) else NOT_PERMITTED


def _cpus_a_node(job: Job) -> int:
    """As many as a node has for the job at least, as far as it says so (_valid_pn_min_mem)."""
    tasks = max(job.ntasks_per_node, -(-job.num_tasks // job.max_nodes) if job.max_nodes else 1, 1)
    return max(tasks * job.cpus_per_task, job.request.node_min_cpus or 0)


def not_permitted(job: Job, part: Partition, reason: str) -> tuple[str, str] | None:
    """Reason and words where the partition's lists keep the job out (part_policy_valid_acct, part_policy_valid_qos)."""
    if reason != NOT_PERMITTED:
        return None
    for what, reason, mine, allowed, denied in (
        ("account", "AccountNotAllowed", job.account, part.allow_accounts, part.deny_accounts),
        ("QOS", "QOSNotAllowed", job.qos, part.allow_qos, part.deny_qos),
    ):
        said = f"Job's {what} not permitted to use this partition ({part.name}"
        if allowed is not None and not _names(mine, allowed):
            return reason, f"{said} allows {','.join(allowed)} not {mine})"
        if allowed is None and _names(mine, denied):
            return reason, f"{said} denies {','.join(denied)} including {mine})"
    return None


def may_use(job: Job, part: Partition) -> bool:
    """Accounts, QOS and root (group membership is not known here: anyone's)."""
    if part.root_only and job.user != "root":
        return False
    if part.require_reservation and not job.reservation:
        return False
    if part.allow_accounts is not None and not _names(job.account, part.allow_accounts):
        return False
    if part.allow_accounts is None and _names(job.account, part.deny_accounts):
        return False
    if part.allow_qos is not None:
        return _names(job.qos, part.allow_qos)
    return not _names(job.qos, part.deny_qos)


def _names(name: str, names: tuple[str, ...]) -> bool:
    return bool(names) and name.lower() in {one.lower() for one in names}


def may_start_task(cluster: Cluster, job: Job) -> bool:
    """The throttle of an array (the number after %)."""
    if not job.array_job_id or not job.array_max_running:
        return True
    records = (cluster.jobs[at] for at in cluster.arrays.get(job.array_job_id, ()) if at in cluster.jobs)
    active = sum(1 for one in records if one.active or "COMPLETING" in one.flags)
    if active >= job.array_max_running:
        job.reason, job.reason_detail = "JobArrayTaskLimit", ""
        return False
    return True


def split_corresponding(cluster: Cluster) -> None:
    """Arrays with aftercorr get records of their own for their first tasks."""
    for job in [one for one in cluster.pending.values() if len(one.array_left) > 1]:
        if not any(term.kind == "aftercorr" for term in job.dependencies):
            continue
        waiting = sum(1 for at in cluster.arrays[job.array_job_id] if cluster.jobs[at].pending) - 1
        while waiting < 10 and len(job.array_left) > 1:
            split_task(cluster, job)
            waiting += 1


def split_task(cluster: Cluster, meta: Job) -> Job:
    """A record of its own for the first task still to start; the last one left has the array's."""
    if len(meta.array_left) == 1:
        meta.array_task = meta.array_left.pop(0)
        return meta
    task = copy(meta)
    task.job_id = cluster.next_job_id
    cluster.next_job_id += 1
    task.array_task = meta.array_left.pop(0)
    task.array_left, task.flags, task.steps, task.shares = [], set(meta.flags), [], []
    task.dependencies = [copy(term) for term in meta.dependencies]
    task.factors, task.req_tres = dict(meta.factors), dict(meta.req_tres)
    cluster.jobs[task.job_id] = cluster.pending[task.job_id] = task
    cluster.behind[meta.job_id] = task.job_id
    cluster.arrays[meta.array_job_id].append(task.job_id)
    if len(meta.array_left) == 1:
        meta.array_task = meta.array_left.pop(0)
    return task
