"""Which limit holds a job, whose it is, how much of it is taken, and how much the job is over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fairway.slurm.administration import Slurmctld
from fairway.slurm.limits import tres_reason
from fairway.slurm.model.association import Counts, Limits
from fairway.slurm.model.job import Job
from fairway.slurm.selecting import ask_of


@dataclass(frozen=True, slots=True)
class Shortfall:
    """`whose` limit `name` of `limit`, of which `used`, and the job asks `asked`."""

    whose: str
    name: str
    limit: int
    used: int
    asked: int

    @property
    def short(self) -> int:
        return self.used + self.asked - self.limit

    def __str__(self) -> str:
        return f"{self.whose}: {self.name}={self.limit}, {self.used} in use, {self.asked} asked: {self.short} over"


def shortfalls(controller: Slurmctld, job: Job) -> list[Shortfall]:
    """Every limit that the job is over now, the nearest heading first."""
    cluster = controller.cluster
    cluster.counted()
    part = cluster.partitions[job.partitions[0]]
    policy = cluster.policy(job, part)
    ask = ask_of(cluster, job, part, None)
    found: list[Shortfall] = []
    for qos in policy.qos:
        mine, account = qos.of_user(job.user), qos.of_account(job.account)
        rows = [
            ("GrpTRES", qos.limits.grp_tres, qos.counts.tres),
            ("MaxTRESPerUser", qos.limits.max_tres_per_user, mine.tres),
            ("MaxTRESPerAccount", qos.limits.max_tres_per_account, account.tres),
            ("MaxTRESPerJob", qos.limits.max_tres_per_job, {}),
        ]
        found += _tres(f"QOS {qos.name}", rows, ask.tres)
        found += _counts(f"QOS {qos.name}", qos.limits, qos.counts, mine, "MaxJobsPerUser")
    for one in policy.line:
        whose = f"user {one.user}" if one.user else f"account {one.account}"
        rows = [
            ("GrpTRES", one.limits.grp_tres, one.counts.tres),
            ("MaxTRES", one.limits.max_tres_per_job, {}),
        ]
        found += _tres(whose, rows, ask.tres)
        found += _counts(whose, one.limits, one.counts, one.counts, "MaxJobs")
    return found


def matching(found: list[Shortfall], reason: str) -> list[Shortfall]:
    """Those that Slurm's reason is about, where it says which resource; else all."""
    kinds = {"GrpTRES": ("QOSGrp", "AssocGrp"), "MaxTRESPerUser": ("QOSMaxUser",), "MaxTRES": ("AssocMaxJob",),
             "MaxTRESPerJob": ("QOSMaxJob",), "MaxTRESPerAccount": ("QOSMaxAccount",)}  # fmt: skip
    said = []
    for one in found:
        limit, _, resource = one.name.partition(" ")
        words = kinds.get(limit, ())
        if (resource and any(tres_reason(word, resource) == reason for word in words)) or (
            not resource and "Job" in reason and "Jobs" in limit
        ):
            said.append(one)
    return said or found


def _tres(
    whose: str, rows: list[tuple[str, dict[str, int], dict[str, int]]], asked: dict[str, int]
) -> Iterator[Shortfall]:
    for name, limits, used in rows:
        for resource, limit in limits.items():
            mine = asked.get(resource, 0)
            if mine and used.get(resource, 0) + mine > limit:
                yield Shortfall(whose, f"{name} {resource}", limit, used.get(resource, 0), mine)


def _counts(whose: str, limits: Limits, group: Counts, own: Counts, name: str) -> Iterator[Shortfall]:
    for word, limit, counts in (("GrpJobs", limits.grp_jobs, group), (name, limits.max_jobs, own)):
        if limit is not None and counts.jobs + 1 > limit:
            yield Shortfall(whose, word, limit, counts.jobs, 1)
