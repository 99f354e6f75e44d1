"""Which job is more important? priority/multifactor and its fair tree; priority/basic counts down.

Source: src/plugins/priority/multifactor (priority_multifactor.c, fair_tree.c), 22.05.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairway.slurm.conf import Configuration
from fairway.slurm.model.association import FAIRSHARE_PARENT, Accounts, Association, Usage
from fairway.slurm.model.job import Job
from fairway.slurm.model.partition import Partition
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
        if value.replace(".", "", 1).isdigit():
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
        "assoc": _ratio(assoc.priority if assoc else 0, totals.max_assoc_priority) * weights.assoc,
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
    total = sum(factors.values())
    value = int(total) + NICE_OFFSET - (NICE_OFFSET + job.nice)
    return max(min(value, 0xFFFFFFFE), 1), factors | {"nice": float(job.nice)}


def _ratio(value: int, most: int) -> float:
    return value / most if most else 0.0


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
        factor = cpus / max(job.time_limit, 1) / max(totals.cpus, 1)
        return 1.0 - factor if weights.favor_small else factor
    if weights.favor_small:
        return ((totals.nodes - nodes) / totals.nodes + (totals.cpus - cpus) / totals.cpus) / 2
    return min((nodes / totals.nodes + cpus / totals.cpus) / 2, 1.0)


def decay(accounts: Accounts, factor: float) -> None:
    """A decay interval has passed: all usage shrinks by it."""
    for usage in (
        *(one.usage for one in accounts.associations.values()),
        *(one.usage for one in accounts.qos.values() if "NoDecay" not in one.flags),
    ):
        usage.raw *= factor
        usage.wall *= factor
        for name in usage.tres:
            usage.tres[name] *= factor


@dataclass(slots=True)
class Running:
    """What runs under one association and QOS since the last look at usage, so that none of its jobs is visited then.

    `tres` of `jobs` jobs together; of those that began later (`later`), the count-seconds and seconds not to charge.
    """

    jobs: int = 0
    tres: dict[str, int] = field(default_factory=dict)
    spared_s: int = 0
    spared: dict[str, int] = field(default_factory=dict)

    def change(self, job: Job, sign: int, spare_s: int) -> None:
        """A job starts or goes on (sign 1), or ends (-1), `spare_s` after the last look."""
        self.jobs += sign
        self.spared_s += sign * spare_s
        for name, count in job.alloc_tres.items():
            self.tres[name] = self.tres.get(name, 0) + sign * count
            if spare_s:
                self.spared[name] = self.spared.get(name, 0) + sign * count * spare_s


def add_usage(
    accounts: Accounts, running: Mapping[tuple[int, str], Running], seconds: int, half_life_s: int
) -> None:
    """`seconds` have passed: each QOS, association and all above are charged, decayed by the whole interval."""
    kept = decay_of(half_life_s, seconds)
    above: dict[int, tuple[float, dict[str, float]]] = {}
    for (assoc_id, name), one in running.items():
        qos = accounts.qos.get(name)
        factor = (qos.usage_factor if qos else 1.0) * kept
        wall = (one.jobs * seconds - one.spared_s) * factor
        used = {
            tres: (count * seconds - one.spared.get(tres, 0)) * factor for tres, count in one.tres.items()
        }
        one.spared_s = 0
        one.spared.clear()
        if qos:
            _charge(qos.usage, wall, used, 1 / kept if "NoDecay" in qos.flags else 1.0)
        held = above.get(assoc_id)
        above[assoc_id] = (wall + held[0], _joined(held[1], used)) if held else (wall, used)
    while above:
        level, above = above, {}
        for assoc_id, (wall, used) in level.items():
            assoc = accounts.associations.get(assoc_id)
            if assoc is None:
                continue
            _charge(assoc.usage, wall, used, 1.0)
            if assoc.parent is not None:
                held = above.get(assoc.parent)
                above[assoc.parent] = (wall + held[0], _joined(held[1], used)) if held else (wall, used)


def _joined(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    return {**a, **{name: a.get(name, 0.0) + amount for name, amount in b.items()}}


def charge_run(accounts: Accounts, job: Job, seconds: int, half_life_s: int) -> None:
    """One job ran `seconds` more: at its end, between two looks."""
    kept = decay_of(half_life_s, seconds)
    qos = accounts.qos.get(job.qos)
    factor = (qos.usage_factor if qos else 1.0) * kept
    wall = seconds * factor
    used = {tres: count * seconds * factor for tres, count in job.alloc_tres.items()}
    if qos:
        _charge(qos.usage, wall, used, 1 / kept if "NoDecay" in qos.flags else 1.0)
    at: int | None = job.assoc_id
    while at is not None and (assoc := accounts.associations.get(at)) is not None:
        _charge(assoc.usage, wall, used, 1.0)
        at = assoc.parent


def _charge(usage: Usage, wall: float, used: Mapping[str, float], factor: float) -> None:
    usage.raw += used.get("billing", 0.0) * factor
    usage.wall += wall * factor
    for name, amount in used.items():
        usage.tres[name] = usage.tres.get(name, 0.0) + amount * factor


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
    state = _Ranking(accounts, max(users, 1), users, max(users, 1), root.usage.raw)
    state.walk([root], tied=False)


@dataclass(slots=True)
class _Ranking:
    accounts: Accounts
    users: int
    rank: int
    rank_tied: int
    total: float

    def _children(self, parents: list[Association]) -> list[Association]:
        found: list[Association] = []
        for parent in parents:
            children = [self.accounts.associations[at] for at in parent.children]
            siblings = [c for c in children if c.shares != FAIRSHARE_PARENT]
            shares = sum(one.shares for one in siblings)
            used = sum(one.usage.raw for one in siblings)
            for one in children:
                self._level(one, parent, shares, used)
            found.extend(children)
        return sorted(found, key=lambda one: (-one.level_fs, one.user == "", one.id))

    def _level(self, one: Association, parent: Association, shares: int, used: float) -> None:
        one.usage_norm = one.usage.raw / self.total if self.total else 0.0
        if one.shares == FAIRSHARE_PARENT:
            one.shares_norm, one.usage_efctv, one.level_fs = (
                parent.shares_norm,
                parent.usage_efctv,
                parent.level_fs,
            )
            return
        one.shares_norm = one.shares / shares if shares else 0.0
        one.usage_efctv = one.usage.raw / used if used else 0.0
        if one.shares_norm == 0:
            one.level_fs = 0.0
        elif one.usage_efctv == 0:
            one.level_fs = float("inf")
        else:
            one.level_fs = one.shares_norm / one.usage_efctv

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
