"""Who may use how much: the tree of associations (cluster, account, user, partition) and the QOS beside it.

Limits are kept under sacctmgr's names in lower case; absent is no limit. Usage decays (priority/multifactor);
counts of running and submitted jobs do not.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairway.slurm.model.tres import Tres
from fairway.slurm.model.usage import Ledger, Usage, lone_usage

FAIRSHARE_PARENT = 0x7FFFFFFF
"""`fairshare=parent`: SLURMDB_FS_USE_PARENT."""


@dataclass(slots=True)
class Limits:
    """Limits of an association or a QOS. Times in minutes."""

    grp_jobs: int | None = None
    grp_jobs_accrue: int | None = None
    grp_submit: int | None = None
    grp_tres: Tres = field(default_factory=dict)
    grp_tres_mins: Tres = field(default_factory=dict)
    grp_tres_run_mins: Tres = field(default_factory=dict)
    grp_wall: int | None = None
    max_jobs: int | None = None
    """Association: MaxJobs; QOS: MaxJobsPerUser."""
    max_jobs_per_account: int | None = None
    max_jobs_accrue: int | None = None
    max_submit: int | None = None
    """Association: MaxSubmitJobs; QOS: MaxSubmitJobsPerUser."""
    max_submit_per_account: int | None = None
    max_tres_per_job: Tres = field(default_factory=dict)
    max_tres_per_node: Tres = field(default_factory=dict)
    max_tres_mins_per_job: Tres = field(default_factory=dict)
    max_tres_per_user: Tres = field(default_factory=dict)
    max_tres_per_account: Tres = field(default_factory=dict)
    max_tres_run_mins_per_user: Tres = field(default_factory=dict)
    max_tres_run_mins_per_account: Tres = field(default_factory=dict)
    max_wall: int | None = None
    min_tres_per_job: Tres = field(default_factory=dict)
    min_prio_thresh: int | None = None


def _none() -> Tres:
    return defaultdict(int)


@dataclass(slots=True)
class Counts:
    """Jobs and resources held now under one heading (an association, a QOS, a QOS and a user …)."""

    jobs: int = 0
    submitted: int = 0
    tres: Tres = field(default_factory=_none)
    run_secs: Tres = field(default_factory=_none)
    """Resource-seconds running jobs may still use."""
    nodes: dict[int, int] = field(default_factory=dict)
    """Node → running jobs there: its length is what a limit on nodes counts."""

    def add(self, more: Counts) -> None:
        self.jobs += more.jobs
        self.submitted += more.submitted
        for into, added in ((self.tres, more.tres), (self.run_secs, more.run_secs)):
            for name, count in added.items():
                into[name] += count
        for node, jobs in more.nodes.items():
            left = self.nodes.pop(node, 0) + jobs
            if left:
                self.nodes[node] = left


@dataclass(slots=True)
class Association:
    """One node of the tree; `user` '' for an account's own."""

    id: int
    account: str
    user: str = ""
    partition: str = ""
    parent: int | None = None
    shares: int = 1
    limits: Limits = field(default_factory=Limits)
    qos: tuple[str, ...] = ()
    """Allowed QOS; empty: the parent's."""
    default_qos: str = ""
    priority: int = 0
    comment: str = ""
    counts: Counts = field(default_factory=Counts)
    usage: Usage = field(default_factory=lone_usage)
    children: list[int] = field(default_factory=list)
    run: int = 0
    """Numbers the additions: those made together under one parent have one run."""
    level_fs: float = 0.0
    fs_factor: float = 0.0
    shares_norm: float = 0.0
    usage_norm: float = 0.0
    usage_efctv: float = 0.0


@dataclass(slots=True)
class Qos:
    """A quality of service."""

    name: str
    id: int
    priority: int = 0
    description: str = ""
    flags: tuple[str, ...] = ()
    preempt: tuple[str, ...] = ()
    preempt_mode: str = "cluster"
    preempt_exempt_s: int | None = None
    grace_s: int = 0
    usage_factor: float = 1.0
    usage_threshold: float | None = None
    limit_factor: float | None = None
    limits: Limits = field(default_factory=Limits)
    counts: Counts = field(default_factory=Counts)
    usage: Usage = field(default_factory=lone_usage)
    by_user: dict[str, Counts] = field(default_factory=dict)
    by_account: dict[str, Counts] = field(default_factory=dict)

    def of_user(self, user: str) -> Counts:
        found = self.by_user.get(user)
        if found is None:
            found = self.by_user[user] = Counts()
        return found

    def of_account(self, account: str) -> Counts:
        found = self.by_account.get(account)
        if found is None:
            found = self.by_account[account] = Counts()
        return found


@dataclass(slots=True)
class Account:
    """An account's words."""

    name: str
    description: str = ""
    organization: str = ""
    coordinators: tuple[str, ...] = ()


@dataclass(slots=True)
class User:
    """A user. `admin_level`: None, Operator, Administrator."""

    name: str
    default_account: str = ""
    admin_level: str = "None"
    uid: int = 0
    default_wckey: str = ""


@dataclass(frozen=True, slots=True)
class Level:
    """Associations of one depth to be charged: the sum of the `sources` that have each of them as `targets`, both in
    order; `single`: each has one. `rows`: theirs in the ledger."""

    sources: NDArray[np.intp]
    targets: NDArray[np.intp]
    single: bool
    rows: NDArray[np.intp]


@dataclass(slots=True)
class Charging:
    """Who is charged for what runs under some associations and QOS. `rates: int[each of those, column]`, a second."""

    levels: tuple[Level, ...]
    rates: NDArray[Any]


@dataclass(slots=True)
class Accounts:
    """slurmdbd's view of one cluster. `associations[1]` is root's account, its parent None."""

    cluster: str
    associations: dict[int, Association] = field(default_factory=dict)
    qos: dict[str, Qos] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    users: dict[str, User] = field(default_factory=dict)
    next_assoc: int = 1
    next_qos: int = 1
    next_run: int = 0
    by_key: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(account, user, partition) → association."""
    ledger: Ledger = field(default_factory=Ledger)
    """What all of them used."""
    chargings: dict[tuple[tuple[int, str], ...], Charging] = field(default_factory=dict)
    """Associations and QOS charged together → whom that charges; emptied when the tree changes."""

    def find(self, account: str, user: str = "", partition: str = "") -> Association | None:
        at = self.by_key.get((account, user, partition), self.by_key.get((account, user, "")))
        return None if at is None else self.associations[at]

    def up(self, association: Association) -> list[Association]:
        """From it to the root."""
        line = [association]
        while line[-1].parent is not None:
            line.append(self.associations[line[-1].parent])
        return line

    def nested(self) -> list[Association]:
        """All of them as the database nests them: an account before what is in it, the last addition first."""
        found: list[Association] = []
        left = [one for one in self.associations.values() if one.parent is None]
        while left:
            one = left.pop()
            found.append(one)
            children = [self.associations[child] for child in one.children]
            left += sorted(children, key=lambda c: (-c.run, c.id), reverse=True)
        return found

    def priority(self, association: Association) -> int:
        """Its own, else that of the account above."""
        return next((one.priority for one in self.up(association) if one.priority), 0)

    def allowed_qos(self, association: Association) -> tuple[str, ...]:
        return next((one.qos for one in self.up(association) if one.qos), ("normal",))


def empty_accounts(cluster: str) -> Accounts:
    """As after `sacctmgr add cluster`: the root account, its user root, and QOS normal."""
    accounts = Accounts(cluster)
    add_qos(accounts, "normal").description = "Normal QOS default"
    accounts.accounts["root"] = Account("root", "default root account", "root")
    add_association(accounts, "root", parent=None)
    accounts.users["root"] = User("root", "root", "Administrator")
    add_association(accounts, "root", "root", parent="root")
    return accounts


def add_qos(accounts: Accounts, name: str) -> Qos:
    qos = accounts.qos[name] = Qos(name, accounts.next_qos, usage=accounts.ledger.new())
    accounts.next_qos += 1
    return qos


def add_association(
    accounts: Accounts,
    account: str,
    user: str = "",
    *,
    parent: str | None,
    partition: str = "",
    shares: int = 1,
    after: Association | None = None,
) -> Association:
    """A new one under the account `parent` (a user's parent is its account). The caller checks names first.

    after: what the same command added before it; under one parent they have one run.
    """
    above = None if parent is None else accounts.by_key[(parent, "", "")]
    made = Association(
        accounts.next_assoc, account, user, partition, above, shares, usage=accounts.ledger.new()
    )
    accounts.chargings.clear()
    accounts.next_assoc += 1
    accounts.next_run += 1
    made.run = after.run if after is not None and after.parent == above else accounts.next_run
    accounts.associations[made.id] = made
    accounts.by_key[(account, user, partition)] = made.id
    if above is not None:
        accounts.associations[above].children.append(made.id)
    return made


def remove_association(accounts: Accounts, association: Association) -> None:
    """Take one without children off the tree."""
    accounts.chargings.clear()
    del accounts.associations[association.id]
    del accounts.by_key[(association.account, association.user, association.partition)]
    if association.parent is not None:
        accounts.associations[association.parent].children.remove(association.id)
