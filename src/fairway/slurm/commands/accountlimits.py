"""Limits as sacctmgr's words name them: how they are read, kept, printed and inherited."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fairway.slurm.commands.site import Site
from fairway.slurm.model.association import FAIRSHARE_PARENT, Accounts, Association, Limits, Qos
from fairway.slurm.words import durations, sizes


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: its word and how many letters are enough, where `Limits` keeps it, and what kind of amount it is.

    kind: `count`, `minutes`, `tres`, or `tres:cpu` for an old word that names one TRES.
    """

    word: str
    least: int
    field: str
    kind: str
    printed: str
    """As `sacctmgr add` repeats it; "" for a word that another one prints."""


def _table(text: str) -> tuple[Limit, ...]:
    rows = (line.split() for line in text.strip().splitlines())
    return tuple(Limit(w, int(n), f, k, p[0] if p else "") for w, n, f, k, *p in rows)


ASSOCIATION = _table("""
GrpCPUMins 7 grp_tres_mins tres:cpu
GrpCPURunMins 7 grp_tres_run_mins tres:cpu
GrpCPUs 7 grp_tres tres:cpu
GrpJobs 4 grp_jobs count GrpJobs
GrpJobsAccrue 8 grp_jobs_accrue count GrpJobsAccrue
GrpMemory 4 grp_tres tres:mem
GrpNodes 4 grp_tres tres:node
GrpSubmitJobs 4 grp_submit count GrpSubmitJobs
GrpTRES 7 grp_tres tres GrpTRES
GrpTRESMins 8 grp_tres_mins tres GrpTRESMins
GrpTRESRunMins 8 grp_tres_run_mins tres GrpTRESRunMins
GrpWall 4 grp_wall minutes GrpWall
MaxJobs 4 max_jobs count MaxJobs
MaxJobsAccrue 8 max_jobs_accrue count MaxJobsPrioAcc
MaxCPUMinsPerJob 7 max_tres_mins_per_job tres:cpu
MaxCPUsPerJob 7 max_tres_per_job tres:cpu
MaxNodesPerJob 4 max_tres_per_job tres:node
MaxSubmitJobs 4 max_submit count MaxSubmitJobs
MaxTRESPerJob 7 max_tres_per_job tres MaxTRES
MaxTRESPerNode 11 max_tres_per_node tres MaxTRESPerNode
MaxTRESMinsPerJob 8 max_tres_mins_per_job tres MaxTRESMins
MaxWallDurationPerJob 4 max_wall minutes MaxWall
MinPrioThresh 4 min_prio_thresh count MinPrioThresh
""")
QOS = _table("""
GrpCPUMins 7 grp_tres_mins tres:cpu
GrpCPURunMins 7 grp_tres_run_mins tres:cpu
GrpCPUs 7 grp_tres tres:cpu
GrpJobs 4 grp_jobs count GrpJobs
GrpJobsAccrue 8 grp_jobs_accrue count GrpJobsAccrue
GrpMemory 4 grp_tres tres:mem
GrpNodes 4 grp_tres tres:node
GrpSubmitJobs 4 grp_submit count GrpSubmitJobs
GrpTRES 7 grp_tres tres GrpTRES
GrpTRESMins 8 grp_tres_mins tres GrpTRESMins
GrpTRESRunMins 8 grp_tres_run_mins tres GrpTRESRunMins
GrpWall 4 grp_wall minutes GrpWall
MaxJobsAccruePerUser 17 max_jobs_accrue count MaxJobsAccruePerUser
MaxJobsAccruePU 15 max_jobs_accrue count
MaxJobsPerAccount 11 max_jobs_per_account count MaxJobsPerAccount
MaxJobsPA 9 max_jobs_per_account count
MaxJobsPerUser 4 max_jobs count MaxJobsPerUser
MaxJobsPU 4 max_jobs count
MaxCPUMinsPerJob 7 max_tres_mins_per_job tres:cpu
MaxCPUsPerJob 7 max_tres_per_job tres:cpu
MaxCPUsPerUser 11 max_tres_per_user tres:cpu
MaxCPUsPU 9 max_tres_per_user tres:cpu
MaxNodesPerJob 4 max_tres_per_job tres:node
MaxNodesPerUser 8 max_tres_per_user tres:node
MaxNodesPU 8 max_tres_per_user tres:node
MaxSubmitJobsPerAccount 17 max_submit_per_account count MaxSubmitJobsPerAccount
MaxSubmitJobsPA 15 max_submit_per_account count
MaxSubmitJobsPerUser 4 max_submit count MaxSubmitJobsPerUser
MaxSubmitJobsPU 4 max_submit count
MaxTRESPerAccount 11 max_tres_per_account tres MaxTRESPerAccount
MaxTRESPA 9 max_tres_per_account tres
MaxTRESPerJob 7 max_tres_per_job tres MaxTRESPerJob
MaxTRESPerNode 11 max_tres_per_node tres MaxTRESPerNode
MaxTRESPerUser 11 max_tres_per_user tres MaxTRESPerUser
MaxTRESPU 9 max_tres_per_user tres
MinPrioThresh 4 min_prio_thresh count MinPrioThresh
MinCPUsPerJob 7 min_tres_per_job tres:cpu
MinTRESPerJob 7 min_tres_per_job tres MinTRESPerJob
MaxTRESMinsPerJob 8 max_tres_mins_per_job tres MaxTRESMins
MaxTRESRunMinsPA 16 max_tres_run_mins_per_account tres MaxTRESRUNMinsPerAccount
MaxTRESRunMinsPU 8 max_tres_run_mins_per_user tres MaxTRESRUNMinsPerUser
MaxWallDurationPerJob 4 max_wall minutes MaxWall
""")
"""In the order in which `sacctmgr add` repeats them."""


class BadLimit(ValueError):
    """A value that is none; the message is sacctmgr's."""


def find(table: tuple[Limit, ...], word: str) -> Limit | None:
    lower = word.lower()
    near = (one for one in table if len(lower) >= one.least and one.word.lower().startswith(lower))
    return next(near, None)


def change(site: Site, limits: Limits, limit: Limit, value: str) -> None:
    """Set a limit; -1 takes it away. Raises: BadLimit."""
    if limit.kind.startswith("tres"):
        _, _, one = limit.kind.partition(":")
        amounts = dict(getattr(limits, limit.field))
        for name, amount in _amounts(site, f"{one}={value}" if one else value).items():
            if amount < 0:
                amounts.pop(name, None)
            else:
                amounts[name] = amount
        setattr(limits, limit.field, {n: amounts[n] for n in site.tres_order(amounts)})
        return
    if limit.kind == "count":
        setattr(limits, limit.field, count(value, limit.word))
        return
    minutes = None if value == "-1" else durations.minutes(value)
    if value != "-1" and (minutes is None or minutes >= durations.NO_VAL):
        raise BadLimit(f" Bad {limit.printed or limit.word} time format:")
    setattr(limits, limit.field, minutes)


def count(value: str, name: str) -> int | None:
    """A number as far as it is one, None for a negative one, which clears. Raises: BadLimit. (get_uint in common.c.)"""
    match = re.match(r"\s*([+-]?\d+)", value)
    number = sizes.whole(match[1].lstrip("+-")) if match else 0
    if not number and value[match.end() if match else 0 :]:
        raise BadLimit(f"Invalid value for {name} ({value})")
    return None if match and match[1].startswith("-") and number else number % (1 << 32)


def _amounts(site: Site, text: str) -> dict[str, int]:
    known = set(site.tres_names)
    amounts = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        name = name.strip().lower()
        if not equals:
            raise BadLimit(f"slurmdb_format_tres_str: no TRES id found for {part}")
        if name not in known:
            raise BadLimit(f"slurmdb_format_tres_str: no TRES known by type {name.partition('/')[0]}")
        amount = (
            -1
            if value == "-1"
            else sizes.megabytes(value)
            if name == "mem"
            else sizes.whole(value)
            if value.isdecimal()
            else None
        )
        if amount is None:
            raise BadLimit(f"slurmdb_format_tres_str: no value given for TRES {name}")
        amounts[name] = amount
    return amounts


def text_of(limits: Limits, limit: Limit) -> str:
    """A limit as it is printed, "" for none."""
    value = getattr(limits, limit.field)
    if limit.kind.startswith("tres"):
        _, _, one = limit.kind.partition(":")
        if one:
            return str(value[one]) if one in value else ""
        return sizes.tres_text_sorted(value)
    if value is None:
        return ""
    return durations.clock_of_minutes(value) if limit.kind == "minutes" else str(value)


def effective(accounts: Accounts, one: Association, limit: Limit) -> str:
    """What holds for an association: its own, or for MaxSomething the nearest above."""
    line = accounts.up(one) if limit.word.startswith("Max") else [one]
    return next((text for above in line if (text := text_of(above.limits, limit))), "")


def qos_text(accounts: Accounts, one: Association) -> str:
    return ",".join(sorted(accounts.allowed_qos(one)))


def default_qos(accounts: Accounts, one: Association) -> str:
    return next((above.default_qos for above in accounts.up(one) if above.default_qos), "")


def shares_text(shares: int) -> str:
    return "parent" if shares == FAIRSHARE_PARENT else str(shares)


QOS_FLAGS = (
    "DenyOnLimit", "EnforceUsageThreshold", "NoReserve", "PartitionMaxNodes", "PartitionMinNodes",
    "OverPartQOS", "PartitionTimeLimit", "RequiresReservation", "NoDecay", "UsageFactorSafe",
)  # fmt: skip


def changed_words(old: Iterable[str], sign: str, words: Iterable[str]) -> tuple[str, ...]:
    """A list after `=`, `+=` or `-=`."""
    kept = list(old)
    if sign == "=":
        return tuple(dict.fromkeys(words))
    if sign == "+=":
        return tuple(dict.fromkeys([*kept, *words]))
    gone = set(words)
    return tuple(word for word in kept if word not in gone)


def preempt_text(one: Qos) -> str:
    return ",".join(sorted(one.preempt))
