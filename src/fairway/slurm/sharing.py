"""Which cores do running jobs have that others may have as well: rows of a shared partition, gang scheduling.

A partition with OverSubscribe holds so many rows of jobs; with PreemptMode=GANG jobs of lower tiers are suspended.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.slurm import preemption
from fairway.slurm.cluster import Cluster
from fairway.slurm.model.job import Job
from fairway.slurm.model.partition import Partition
from fairway.slurm.placing.uses import bitmap
from fairway.slurm.preemption import Preemption

# Among the sets of partitions, which go by their names: no partition is called so.
_HAS_ROWS = ("rows", "")


def shares_cores(job: Job, part: Partition) -> bool:
    """May others of its partition have its cores as well (NODE_CR_AVAILABLE of _get_job_node_req)?"""
    return part.oversubscribe == "FORCE" or (
        part.oversubscribe == "YES" and part.max_share > 1 and bool(job.share)
    )


def strangers(cluster: Cluster, rules: Preemption, job: Job, part: Partition) -> int:
    """Bitmap of the nodes that who is there keeps the job from: --exclusive=user, or cores not to be shared."""
    found = 0
    for index, user in cluster.owners.items():
        if user != job.user:
            found |= 1 << index
    if job.whole_node == "user":
        for other in cluster.running.values():
            if other.user != job.user:
                found |= bitmap(share.node for share in other.shares)
    if _has_rows(cluster):
        for other in cluster.running.values():
            if _keeps_off(other, cluster.partitions[other.partition], job, part):
                theirs = cluster.partitions[other.partition]
                if not preemption.may_preempt(rules, cluster.accounts, other, theirs, job, part):
                    found |= bitmap(one.node for one in other.shares)
    return found


def _has_rows(cluster: Cluster) -> bool:
    found: bool | None = cluster.sets.get(_HAS_ROWS)
    if found is None:
        found = any(one.oversubscribe in ("FORCE", "YES") for one in cluster.partitions.values())
        cluster.sets[_HAS_ROWS] = found
    return found


def _keeps_off(other: Job, theirs: Partition, job: Job, part: Partition) -> bool:
    """Sharing jobs and the others do not meet: no row beside a job that has none, nor rows of two partitions.

    Source: _verify_node_state, _is_node_busy.
    """
    if shares_cores(job, part):
        return not shares_cores(other, theirs)
    return theirs.max_share > 1 and theirs is not part


def layers(cluster: Cluster, rules: Preemption, job: Job, part: Partition) -> list[dict[int, int]]:
    """Cores taken, as a job that may share or suspend sees them: one mapping for each further attempt.

    First without the jobs it may suspend (gang scheduling, lower tiers); then row by row of its own partition.
    """
    parts = cluster.partitions
    others = [
        one
        for one in cluster.running.values()
        if one.partition != part.name
        and (
            parts[one.partition].priority_tier > part.priority_tier
            or parts[one.partition].preempt_mode == "OFF"
        )
    ]
    same_tier = [
        one
        for one in cluster.running.values()
        if one.partition != part.name and parts[one.partition].priority_tier == part.priority_tier
    ]
    mine = [one for one in cluster.running.values() if one.partition == part.name]
    blocked = _cores_of(others)
    found = [_joined(blocked, _cores_of(same_tier + mine))] if rules.gang else []
    if part.max_share > 1:
        found += [_joined(blocked, row) for row in _rows(mine, part.max_share)]
    return found


def overlapping(cluster: Cluster, rules: Preemption, job: Job) -> list[Job]:
    """Running jobs of lower tiers whose cores this one was given: they will be suspended."""
    if not rules.gang:
        return []
    parts = cluster.partitions
    tier = parts[job.partition].priority_tier
    mine = {share.node: share.cores for share in job.shares}
    return [
        other
        for other in cluster.running.values()
        if other is not job
        and other.state == "RUNNING"
        and parts[other.partition].priority_tier < tier
        and any(mine.get(share.node, 0) & share.cores for share in other.shares)
    ]


def _cores_of(jobs: Iterable[Job]) -> dict[int, int]:
    found: dict[int, int] = {}
    for job in jobs:
        for share in job.shares:
            found[share.node] = found.get(share.node, 0) | share.cores
    return found


def _joined(a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
    return a | {node: a.get(node, 0) | cores for node, cores in b.items()}


def _rows(jobs: Iterable[Job], most: int) -> list[dict[int, int]]:
    """Jobs of one partition put into rows in which no core is held twice, the first that has room."""
    rows: list[dict[int, int]] = [{} for _ in range(most)]
    for job in jobs:
        for row in rows:
            if all(not row.get(share.node, 0) & share.cores for share in job.shares):
                for share in job.shares:
                    row[share.node] = row.get(share.node, 0) | share.cores
                break
    return rows
