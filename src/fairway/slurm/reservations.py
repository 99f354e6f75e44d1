"""Which nodes do reservations leave to a job? (job_test_resv in src/slurmctld/reservation.c.)"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fairway.slurm.cluster import Cluster
from fairway.slurm.model.job import Job
from fairway.slurm.model.partition import Partition, Reservation
from fairway.slurm.placing.uses import bitmap


@dataclass(frozen=True, slots=True)
class Usable:
    """`only`: bitmap of just these nodes (the job's own reservation); `closed`: not these;
    `cores`: not these cores of a node; `maintenance`: the whole partition is reserved, for that.

    `until`: the end of the first reservation in the way, 0 none; `error`: its reservation cannot be used now.
    """

    only: int | None = None
    closed: int = 0
    cores: Mapping[int, int] = field(default_factory=dict)
    maintenance: bool = False
    until: int = 0
    error: bool = False

    def left_of(self, nodes: int) -> int:
        """Those of a bitmap's nodes that are allowed."""
        found = nodes & ~self.closed
        return found if self.only is None else found & self.only


_NONE = Usable()


def usable_nodes(cluster: Cluster, job: Job, part: Partition, start: int, end: int) -> Usable:
    """What reservations leave to a job that runs from `start` to `end`. O(reservations)."""
    if not cluster.reservations:
        return _NONE if not job.reservation else Usable(error=True)
    if job.reservation:
        mine = cluster.reservations.get(job.reservation)
        if mine is None or not may_use(mine, job.user, job.account):
            return Usable(error=True)
        flexible = "FLEX" in mine.flags
        if not flexible and (start < mine.start or start >= mine.end):
            return Usable(error=True)
        others = [r for r in cluster.reservations.values() if r is not mine]
        found = _blocked(cluster, others, job, part, (start, end), None if flexible else bitmap(mine.nodes))
        if flexible or not mine.cores:
            return found
        every = {node: (1 << cluster.nodes[node].conf.cores) - 1 for node in mine.cores}
        outside = {node: every[node] & ~cores for node, cores in mine.cores.items()}
        return replace(found, cores={**found.cores, **outside})
    return _blocked(cluster, cluster.reservations.values(), job, part, (start, end), None)


def _blocked(
    cluster: Cluster,
    all_of: Iterable[Reservation],
    job: Job,
    part: Partition,
    time: tuple[int, int],
    only: int | None,
) -> Usable:
    closed, (start, end) = 0, time
    cores: dict[int, int] = {}
    maintenance, until = False, 0
    for one in all_of:
        if (
            start >= one.end
            or end <= one.start
            or (job.reservation and {"MAINT", "OVERLAP"} & set(one.flags))
        ):
            continue
        if "MAGNETIC" in one.flags and may_use(one, job.user, job.account):
            continue
        until = min(until or one.end, one.end)
        if not job.reservation and _takes_all(one, part):
            closed, maintenance = -1, True
            break
        if one.cores:
            for node, bits in one.cores.items():
                cores[node] = cores.get(node, 0) | bits
        else:
            closed |= bitmap(one.nodes)
    return Usable(only, closed, cores, maintenance, until)


def _takes_all(one: Reservation, part: Partition) -> bool:
    """Does it leave nothing of a partition: every node, or maintenance of all that the partition has?"""
    if "ALL_NODES" in one.flags or ("PART_NODES" in one.flags and one.partition == part.name):
        return True
    return "MAINT" in one.flags and set(part.nodes) <= set(one.nodes)


def may_use(reservation: Reservation, user: str, account: str) -> bool:
    """Users and accounts of a reservation; a `-` before a name keeps that one out."""

    def listed(names: tuple[str, ...], name: str) -> bool | None:
        if not names:
            return None
        if names[0].startswith("-"):
            return f"-{name}" not in names
        return name in names

    by_user, by_account = listed(reservation.users, user), listed(reservation.accounts, account)
    if by_user is None and by_account is None:
        return True
    if by_account is None:
        return bool(by_user)
    return (
        bool(by_account) and by_user is not False
        if by_user is None or reservation.users[0][:1] == "-"
        else bool(by_user) and bool(by_account)
    )
