"""Which job is more important? priority/multifactor and its fair tree; priority/basic counts down.

Source: src/plugins/priority/multifactor (priority_multifactor.c, fair_tree.c), 22.05.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fairway.slurm.conf import Configuration
from fairway.slurm.model.association import FAIRSHARE_PARENT, Accounts, Association, Charging, Level
from fairway.slurm.model.job import Job
from fairway.slurm.model.partition import Partition
from fairway.slurm.model.usage import RAW, counts_array
from fairway.slurm.words import durations

TOP = 4_294_901_759
"""priority/basic's first: NO_VAL's neighbour 0xFFFF0000 less one."""
NICE_OFFSET = 0x8000_0000


@dataclass(frozen=True, slots=True)
class Weights:
    """The Priority… settings of slurm.conf."""

    multifactor: bool
    age: int
    assoc: int
    fairshare: int
    size: int
    partition: int
    qos: int
    tres: dict[str, float] = field(default_factory=dict)
    max_age_s: int = 7 * 86400
    half_life_s: int = 7 * 86400
    calc_period_s: int = 300
    favor_small: bool = False
    flags: frozenset[str] = frozenset()
    reset: str = "NONE"


def weights_of(conf: Configuration) -> Weights:
    """Read, with Slurm's defaults."""

    def seconds(key: str, default: int) -> int:
        found = durations.seconds(conf.get(key)) if conf.get(key) else default
        return default if found is None else found

    tres: dict[str, float] = {}
    for part in conf.get("PriorityWeightTRES").split(","):
        name, _, value = part.partition("=")
        if value.replace(".", "", 1).isdecimal():
            tres[name.strip().lower()] = float(value)
    return Weights(
        conf.get("PriorityType", "priority/basic") == "priority/multifactor",
        conf.number("PriorityWeightAge", 0),
        conf.number("PriorityWeightAssoc", 0),
        conf.number("PriorityWeightFairshare", 0),
        conf.number("PriorityWeightJobSize", 0),
        conf.number("PriorityWeightPartition", 0),
        conf.number("PriorityWeightQOS", 0),
        tres,
        seconds("PriorityMaxAge", 7 * 86400),
        seconds("PriorityDecayHalfLife", 7 * 86400),
        max(seconds("PriorityCalcPeriod", 300), 1),
        conf.is_on("PriorityFavorSmall"),
        frozenset(word.upper() for word in conf.words("PriorityFlags")),
        conf.get("PriorityUsageResetPeriod", "NONE").upper(),
    )


@dataclass(frozen=True, slots=True)
class Totals:
    """The cluster's sizes the factors are relative to."""

    nodes: int
    cpus: int
    partition_tres: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    max_partition_factor: int = 1
    max_qos_priority: int = 0
    max_assoc_priority: int = 0


def priority_of(
    job: Job, partition: Partition, accounts: Accounts, weights: Weights, totals: Totals, now: int
) -> tuple[int, dict[str, float]]:
    """(priority, weighted factors as sprio shows them) of a job in one partition; 1 at least."""
    qos, assoc = accounts.qos.get(job.qos), accounts.associations.get(job.assoc_id)
    factors = {
        "age": _age(job, weights, now) * weights.age,
        "assoc": _assoc(assoc, accounts, weights, totals) * weights.assoc,
        "fs": (assoc.fs_factor if assoc and weights.fairshare else 0.0) * weights.fairshare,
        "js": _size(job, weights, totals) * weights.size,
        "part": _ratio(partition.priority_job_factor, totals.max_partition_factor) * weights.partition,
        "qos": _ratio(qos.priority if qos else 0, totals.max_qos_priority) * weights.qos,
    }
    asked = job.alloc_tres or job.req_tres
    here = totals.partition_tres.get(partition.name, {})
    for name, weight in weights.tres.items():
        share = _ratio(asked.get(name, 0), here.get(name, 0))
        factors[f"tres:{name}"] = min(share, 1.0) * weight
    site = job.request.extra.get("site_factor")
    if site:
        factors["site"] = float(site)
    total = sum(factors.values())
    value = int(total) + NICE_OFFSET - (NICE_OFFSET + job.nice)
    return max(min(value, 0xFFFFFFFE), 1), factors | {"nice": float(job.nice)}


def _ratio(value: int, most: int) -> float:
    return value / most if most else 0.0


def _assoc(assoc: Association | None, accounts: Accounts, weights: Weights, totals: Totals) -> float:
    if assoc is None or not weights.assoc:
        return 0.0
    return _ratio(accounts.priority(assoc), totals.max_assoc_priority)


def _age(job: Job, weights: Weights, now: int) -> float:
    start = job.submit if "ACCRUE_ALWAYS" in weights.flags else job.eligible
    if not weights.age or not start or start > now or not weights.max_age_s:
        return 0.0
    return min((now - start) / weights.max_age_s, 1.0)


def _size(job: Job, weights: Weights, totals: Totals) -> float:
    """The mean of its shares of nodes and CPUs (get_priority_factors)."""
    if not weights.size:
        return 0.0
    nodes, cpus = max(job.min_nodes, 1), max(job.planned_cpus or job.min_cpus, 1)
    if "SMALL_RELATIVE_TO_TIME" in weights.flags:
        average = nodes * totals.cpus / totals.nodes
        factor = max(cpus, average) / max(job.time_limit, 1) / max(totals.cpus, 1)
        return 1.0 - factor if weights.favor_small else factor
    if weights.favor_small:
        return ((totals.nodes - nodes) / totals.nodes + (totals.cpus - cpus) / totals.cpus) / 2
    return min((nodes / totals.nodes + cpus / totals.cpus) / 2, 1.0)


def decay(accounts: Accounts, factor: float) -> None:
    """A decay interval has passed: all usage shrinks by it."""
    ledger = accounts.ledger
    spared = [one.usage.row for one in accounts.qos.values() if "NoDecay" in one.flags]
    values = ledger.settled()
    kept = values[spared]
    values *= factor
    values[spared] = kept


@dataclass(slots=True)
class Running:
    """What runs under one association and QOS since the last look at usage, so that none of its jobs is visited then.

    `tres` of `jobs` jobs together; of those that began later (`later`), the count-seconds and seconds not to charge.
    """

    jobs: int = 0
    tres: dict[str, int] = field(default_factory=dict)
    spared_s: int = 0
    spared: dict[str, int] = field(default_factory=dict)
    changed: bool = True
    """Since its rates were last looked at."""

    def change(self, job: Job, sign: int, spare_s: int) -> None:
        """A job starts or goes on (sign 1), or ends (-1), `spare_s` after the last look."""
        self.jobs += sign
        self.spared_s += sign * spare_s
        self.changed = True
        for name, count in job.alloc_tres.items():
            self.tres[name] = self.tres.get(name, 0) + sign * count
            if spare_s:
                self.spared[name] = self.spared.get(name, 0) + sign * count * spare_s


def add_usage(
    accounts: Accounts, running: Mapping[tuple[int, str], Running], seconds: int, half_life_s: int
) -> None:
    """`seconds` have passed: each QOS, association and all above are charged, decayed by the whole interval."""
    if not running:
        return
    kept, ledger = decay_of(half_life_s, seconds), accounts.ledger
    charging = _charging(accounts, running)
    used = charging.rates * seconds
    for at, one in enumerate(running.values()):
        if one.spared_s or one.spared:
            used[at] -= ledger.row_of(one.spared, one.spared_s)
            one.spared_s = 0
            one.spared.clear()
    known = [accounts.qos.get(name) for _, name in running]
    factors = np.array([(qos.usage_factor if qos else 1.0) * kept for qos in known])
    used = (used * factors[:, None]).astype(np.float64)
    of_qos: dict[str, list[int]] = {}
    for at, (_, name) in enumerate(running):
        of_qos.setdefault(name, []).append(at)
    for name, these in of_qos.items():
        charged = accounts.qos.get(name)
        if charged:
            mine = used if len(these) == len(used) else used[these]
            ledger.add_all(charged.usage.row, mine * (1 / kept) if "NoDecay" in charged.flags else mine)
    for level in charging.levels:
        if level.single:
            used = used[level.sources]
        else:
            above = np.zeros((len(level.rows), used.shape[1]))
            np.add.at(above, level.targets, used[level.sources])
            used = above
        ledger.add(level.rows, used)


def _charging(accounts: Accounts, running: Mapping[tuple[int, str], Running]) -> Charging:
    """Whom these charge, and with how much a second."""
    ledger, charged = accounts.ledger, tuple(running)
    for one in running.values():
        if one.changed:
            ledger.know(one.tres)
    found = accounts.chargings.get(charged)
    if found is None or found.rates.shape[1] < ledger.width:
        accounts.chargings.clear()
        rates = counts_array([ledger.row_of(one.tres, one.jobs) for one in running.values()])
        found = accounts.chargings[charged] = Charging(_levels(accounts, charged), rates)
    else:
        changed = [at for at, one in enumerate(running.values()) if one.changed]
        if changed:
            every = list(running.values())
            rates = counts_array([ledger.row_of(every[at].tres, every[at].jobs) for at in changed])
            if rates.dtype == object:
                found.rates = found.rates.astype(object)
            found.rates[changed] = rates
    for one in running.values():
        one.changed = False
    return found


def _levels(accounts: Accounts, charged: tuple[tuple[int, str], ...]) -> tuple[Level, ...]:
    """The associations themselves, what is above them, and so on to the root."""
    found, level = [], [(source, at) for source, (at, _) in enumerate(charged)]
    while level:
        slots: dict[int, int] = {}
        ours = [(source, at) for source, at in level if at in accounts.associations]
        targets = [slots.setdefault(at, len(slots)) for _, at in ours]
        these = [accounts.associations[at] for at in slots]
        sources, rows = [source for source, _ in ours], [one.usage.row for one in these]
        as_array = [np.array(one, dtype=np.intp) for one in (sources, targets, rows)]
        found.append(Level(as_array[0], as_array[1], len(slots) == len(ours), as_array[2]))
        level = [(slot, one.parent) for slot, one in enumerate(these) if one.parent is not None]
    return tuple(found)


def charge_run(accounts: Accounts, job: Job, seconds: int, half_life_s: int) -> None:
    """One job ran `seconds` more: at its end, between two looks."""
    kept, ledger = decay_of(half_life_s, seconds), accounts.ledger
    qos = accounts.qos.get(job.qos)
    ledger.know(job.alloc_tres)
    factor = (qos.usage_factor if qos else 1.0) * kept
    used, owed = [count * seconds * factor for count in ledger.row_of(job.alloc_tres, 1)], ledger.owed
    if qos:
        whole = [count * (1 / kept) for count in used] if "NoDecay" in qos.flags else used
        owed.append((qos.usage.row, whole))
    at: int | None = job.assoc_id
    while at is not None and (assoc := accounts.associations.get(at)) is not None:
        owed.append((assoc.usage.row, used))
        at = assoc.parent


def decay_of(half_life_s: int, seconds: float) -> float:
    """What is left of usage after `seconds`: a factor of 1 - 0.693 / half-life a second."""
    return float((1 - 0.693 / half_life_s) ** seconds) if half_life_s > 0 else 1.0


def fair_tree(accounts: Accounts) -> None:
    """Rank every user association: depth first, the siblings with the largest LevelFS first; the factor is the rank's
    share of all users. Accounts that tie are merged. Sets shares_norm, usage_norm, level_fs and fs_factor."""
    root = next((one for one in accounts.associations.values() if one.parent is None), None)
    if root is None:
        return
    users = sum(1 for one in accounts.associations.values() if one.user)
    root.level_fs, root.shares_norm = float("inf"), 1.0
    root.usage_norm = root.usage_efctv = 1.0
    raw = accounts.ledger.settled()[:, RAW].tolist()
    state = _Ranking(accounts, max(users, 1), users, max(users, 1), root.usage.raw, raw)
    state.walk([root], tied=False)


@dataclass(slots=True)
class _Ranking:
    accounts: Accounts
    users: int
    rank: int
    rank_tied: int
    total: float
    raw: list[float]
    """Usage by row of the ledger."""

    def _children(self, parents: list[Association]) -> list[Association]:
        found: list[tuple[float, bool, int, Association]] = []
        for parent in parents:
            children = [self.accounts.associations[at] for at in parent.children]
            shares, used = 0, 0.0
            for one in children:
                if one.shares != FAIRSHARE_PARENT:
                    shares += one.shares
                    used += self.raw[one.usage.row]
            for one in children:
                self._level(one, parent, shares, used)
                found.append((-one.level_fs, one.user == "", one.id, one))
        found.sort()
        return [one[3] for one in found]

    def _level(self, one: Association, parent: Association, shares: int, used: float) -> None:
        raw = self.raw[one.usage.row]
        one.usage_norm = raw / self.total if self.total else 0.0
        if one.shares == FAIRSHARE_PARENT:
            one.shares_norm, one.usage_efctv, one.level_fs = (
                parent.shares_norm,
                parent.usage_efctv,
                parent.level_fs,
            )
            return
        one.shares_norm = share = one.shares / shares if shares else 0.0
        one.usage_efctv = held = raw / used if used else 0.0
        if share == 0:
            one.level_fs = 0.0
        elif held == 0:
            one.level_fs = float("inf")
        else:
            one.level_fs = share / held

    def walk(self, parents: list[Association], *, tied: bool) -> None:
        siblings = self._children(parents)
        at, before = 0, -1.0
        while at < len(siblings):
            one = siblings[at]
            now_tied = (tied and at == 0) or one.level_fs == before
            if one.user:
                if not now_tied:
                    self.rank_tied = self.rank
                one.fs_factor = self.rank_tied / self.users
                self.rank -= 1
            else:
                end = at + 1
                while (
                    end < len(siblings) and siblings[end].level_fs == one.level_fs and not siblings[end].user
                ):
                    end += 1
                self.walk(siblings[at:end], tied=now_tied)
                at = end - 1
            before = one.level_fs
            at += 1
