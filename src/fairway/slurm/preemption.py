"""Who may be preempted by whom, in which order, and how? (preempt/qos, preempt/partition_prio, slurmctld/preempt.c.)"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairway.slurm.conf import Configuration
from fairway.slurm.model.association import Accounts
from fairway.slurm.model.job import Job
from fairway.slurm.model.partition import Partition

REMOVING = ("REQUEUE", "CANCEL")


@dataclass(slots=True)
class Preemption:
    """The cluster's rules. `kind`: none, qos or partition_prio; `mode`: PreemptMode without GANG and WITHIN."""

    kind: str
    mode: str
    gang: bool
    within: bool
    youngest_first: bool
    strict_order: bool
    reorder_count: int
    exempt_s: int

    @property
    def enabled(self) -> bool:
        return self.kind != "none" and self.mode != "OFF"


def rules_of(conf: Configuration) -> Preemption:
    words = [word.upper() for word in conf.words("PreemptMode")] or ["OFF"]
    modes = [word for word in words if word not in ("GANG", "WITHIN")] or ["OFF"]
    kind = conf.get("PreemptType", "preempt/none").partition("/")[2]
    exempt = conf.get("PreemptExemptTime", "-1")
    return Preemption(
        kind or "none",
        modes[0],
        "GANG" in words,
        "WITHIN" in words,
        conf.has_option("preempt_youngest_first"),
        conf.has_option("preempt_strict_order"),
        conf.parameter("preempt_reorder_count", 1),
        _seconds(exempt),
    )


def _seconds(text: str) -> int:
    parts = text.split(":")
    if not all(part.isdecimal() for part in parts):
        return 0
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    return total


def may_preempt(
    rules: Preemption,
    accounts: Accounts,
    victim: Job,
    victim_part: Partition,
    winner: Job,
    winner_part: Partition,
) -> bool:
    """Is the one job of a kind that the other may push aside?"""
    if rules.kind == "qos":
        low, high = accounts.qos.get(victim.qos), accounts.qos.get(winner.qos)
        if low is None or high is None:
            return False
        if low.name == high.name:
            return (
                rules.within or "WITHIN" in high.preempt_mode.upper()
            ) and winner.priority > victim.priority
        return low.name in high.preempt
    if rules.kind == "partition_prio":
        if victim_part.preempt_mode == "OFF":
            return False
        return winner_part.priority_tier > victim_part.priority_tier
    return False


def mode_of(rules: Preemption, accounts: Accounts, victim: Job, partition: Partition) -> str:
    """SUSPEND, REQUEUE, CANCEL or OFF: what is done to the victim; one that may not be requeued is cancelled."""
    mode = rules.mode
    if rules.kind == "qos":
        qos = accounts.qos.get(victim.qos)
        if qos and qos.preempt_mode.lower() not in ("", "cluster"):
            mode = qos.preempt_mode.upper()
    elif partition.preempt_mode is not None:
        mode = partition.preempt_mode.split(",")[0]
    if mode == "REQUEUE" and (not victim.requeue or not victim.batch):
        mode = "CANCEL"
    return mode


def grace_of(rules: Preemption, accounts: Accounts, victim: Job, partition: Partition) -> int:
    """Seconds a victim is given after its SIGTERM."""
    if rules.kind == "qos":
        qos = accounts.qos.get(victim.qos)
        return qos.grace_s if qos else 0
    return partition.grace_time


def candidates(
    rules: Preemption,
    accounts: Accounts,
    partitions: dict[str, Partition],
    running: Iterable[Job],
    winner: Job,
    part: Partition,
    now: int,
) -> list[Job]:
    """Running jobs that may be preempted for `winner` in `part`, the first to go first."""
    nodes = frozenset(part.nodes)
    found = []
    for job in running:
        victim_part = partitions.get(job.partition)
        if job.state != "RUNNING" or victim_part is None:
            continue
        if not may_preempt(rules, accounts, job, victim_part, winner, part) or _is_exempt(
            rules, accounts, job, now
        ):
            continue
        if any(share.node in nodes for share in job.shares):
            found.append(job)
    if rules.youngest_first:
        return sorted(found, key=lambda job: -job.start)
    return sorted(found, key=lambda job: _rank(rules, accounts, partitions, job))


def _rank(rules: Preemption, accounts: Accounts, partitions: dict[str, Partition], job: Job) -> int:
    if rules.kind == "qos":
        qos = accounts.qos.get(job.qos)
        return (min(qos.priority if qos else 0, 0xFFFF) << 16) + min(len(job.shares), 0xFFFF)
    return (min(partitions[job.partition].priority_tier, 0xFFFF) << 16) + min(len(job.shares), 0xFFFF)


def _is_exempt(rules: Preemption, accounts: Accounts, job: Job, now: int) -> bool:
    exempt = exempt_s(rules, accounts, job)
    return bool(exempt) and job.start + exempt > now


def exempt_s(rules: Preemption, accounts: Accounts, job: Job) -> int:
    """Seconds from its start in which the job is left alone (PreemptExemptTime, of its QOS or of all)."""
    if not rules.enabled:
        return 0
    qos = accounts.qos.get(job.qos)
    return rules.exempt_s if qos is None or qos.preempt_exempt_s is None else qos.preempt_exempt_s
