"""The backfill scheduler: later jobs start now where that delays no earlier one's planned start. (sched/backfill.)

Time ahead is a row of spaces, each with the nodes nobody has planned for; every job is tried at its earliest time and
plans its nodes, whole, for its limit. Sets of nodes are bitmaps in Python integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fairway.slurm import limits, preemption, reservations
from fairway.slurm.ahead import NEVER, NOW, Ahead, Ints
from fairway.slurm.cluster import Cluster
from fairway.slurm.conf import Configuration
from fairway.slurm.mainpass import Preempt, Start
from fairway.slurm.model.job import Job
from fairway.slurm.model.partition import Partition
from fairway.slurm.placing.need import Need
from fairway.slurm.placing.placing import World, least_nodes, place
from fairway.slurm.placing.quick import Table, choose_quick
from fairway.slurm.placing.uses import Uses, bitmap, bits, indexes
from fairway.slurm.queueing import Entry, build_queue, is_independent, may_start_task, partition_reason
from fairway.slurm.selecting import (
    YEAR_MINUTES,
    Looking,
    Verdict,
    ask_of,
    need_of,
    node_alternatives,
    select,
    without,
)
from fairway.slurm.sharing import strangers
from fairway.slurm.words.durations import INFINITE

YEAR_S = YEAR_MINUTES * 60
NEVER_S = 1 << 62
"""Seconds since 1970: no start is in sight."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The bf_ options of SchedulerParameters, with their defaults. Seconds."""

    interval: int
    window: int
    resolution: int
    max_test: int
    max_start: int
    max_user: int
    max_part: int
    max_assoc: int
    max_user_part: int
    array_plans: int
    one_plan: bool
    part_plans: int
    min_age: int
    min_priority: int
    spaces: int
    window_step: int
    busy_nodes: bool
    stop_at_limit: bool


def settings_of(conf: Configuration) -> Settings:
    tests = conf.parameter("bf_max_job_test", 500)
    return Settings(
        conf.parameter("bf_interval", 30),
        max(conf.parameter("bf_window", 1440), 1) * 60,
        max(conf.parameter("bf_resolution", 60), 1),
        tests,
        conf.parameter("bf_max_job_start", 0),
        conf.parameter("bf_max_job_user", 0),
        conf.parameter("bf_max_job_part", 0),
        conf.parameter("bf_max_job_assoc", 0),
        conf.parameter("bf_max_job_user_part", 0),
        conf.parameter("bf_max_job_array_resv", 20),
        conf.has_option("bf_one_resv_per_job"),
        conf.parameter("bf_job_part_count_reserve", 0),
        conf.parameter("bf_min_age_reserve", 0),
        conf.parameter("bf_min_prio_reserve", 0),
        conf.parameter("bf_node_space_size", tests),
        conf.parameter("bf_window_linear", 0),
        conf.has_option("bf_busy_nodes"),
        conf.has_option("assoc_limit_stop"),
    )


@dataclass(slots=True)
class Space:
    """Nodes nobody has planned for between two seconds."""

    begin: int
    end: int
    free: int


@dataclass(slots=True)
class Plan:
    """A start planned: for squeue --start, and what a later job must not delay."""

    job: Job
    start: int
    end: int
    nodes: int


@dataclass(slots=True)
class Cycle:
    """One run of the backfill scheduler."""

    look: Looking
    settings: Settings
    begin: int
    spaces: list[Space]
    plans: list[Plan] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    started: int = 0
    depth: int = 0
    """Jobs and tasks looked at; `tested` of them on nodes."""
    tested: int = 0
    before: int = 0
    """The start that the job looked at was given by another of its partitions, in this cycle (orig_start_time)."""
    not_before: int = 0
    """Of a component of a heterogeneous job: when the last of the others would start."""
    reserved: Mapping[int, int] = field(default_factory=dict)
    """Cores that reservations keep from the job looked at, at the time looked at."""
    tried: dict[tuple[Need, int, tuple[int, ...]], tuple[int, int] | None] = field(default_factory=dict)
    het: dict[int, dict[int, tuple[Job, Partition]]] = field(default_factory=dict)

    def forget(self) -> None:
        """Something started: what was thought of the future is void."""
        self.tried.clear()


def count_turn(cluster: Cluster) -> None:
    """At each turn, also where nothing waits: when components could start is forgotten every other time
    (backfill_agent, _het_job_start_clear).
    """
    if cluster.backfills % 2 == 0:
        cluster.het_starts, cluster.het_before = {}, {}
    cluster.backfills += 1


def run_cycle(look: Looking, settings: Settings, start: Start, preempt: Preempt) -> Cycle:
    """Start what fits in between; plan the rest. Sets pending jobs' `start` and `scheduled_nodes`."""
    cluster, now = look.cluster, look.now
    for job in cluster.pending.values():
        job.start, job.scheduled_nodes = 0, ()
    cycle = new_cycle(look, settings)
    rejected: tuple[int, str] | None = None
    queue = build_queue(cluster, look.rules, now, min_time=True)
    look.queued = len(queue)
    for entry in queue:
        job, part = entry.job, entry.part
        if cycle.tested >= settings.max_test or (settings.max_start and cycle.started >= settings.max_start):
            break
        cycle.depth += 1
        if not job.pending or not is_independent(cluster, job, now):
            continue
        cycle.not_before = _het_time(cycle, job) if job.het_job_id else now
        if cycle.not_before > now + settings.window:
            continue
        job.last_sched_eval, job.scheduler = now, "Backfill"
        cycle.before, planned = job.start, 0
        while True:
            if job.array_job_id:
                if rejected == (job.array_job_id, part.name):
                    break
                rejected = (job.array_job_id, part.name)
                if not may_start_task(cluster, job):
                    break
            outcome = _try(cycle, entry, start, preempt)
            if outcome == "started":
                rejected = None
                if job.state == "PENDING":  # the array, of which a task was split off
                    cycle.depth += 1
                    continue
            elif outcome == "planned":
                rejected = None
                planned += 1
                if 1 <= planned < min(settings.array_plans, len(job.array_left)):
                    cycle.depth += 1
                    continue
            break
        if len(cycle.spaces) >= settings.spaces:
            break
    _start_het(cycle, start)
    _show_planned(cluster, [plan.nodes for plan in cycle.plans])
    return cycle


def _show_planned(cluster: Cluster, plans: list[int]) -> None:
    """Idle nodes that something is planned on show it until the next cycle (_handle_planned)."""
    planned = 0
    for nodes in plans:
        planned |= nodes
    for index in bits(cluster.planned & ~planned):
        cluster.nodes[index].flags.discard("PLANNED")
    cluster.planned = 0
    for index in bits(planned):
        node = cluster.nodes[index]
        if node.allocated:
            node.flags.discard("PLANNED")
        else:
            node.flags.add("PLANNED")
            cluster.planned |= 1 << index


def new_cycle(look: Looking, settings: Settings) -> Cycle:
    """Nothing planned yet: the nodes that are up, for the whole window."""
    now, step = look.now, settings.resolution
    end = (now + settings.window) // step * step
    return Cycle(look, settings, now, [Space(now // step * step, end, look.cluster.up)])


def earliest(cycle: Cycle, job: Job, part: Partition) -> tuple[int, int] | None:
    """(when, nodes) the job would start if nothing else waited (job_start_data)."""
    cluster, now = cycle.look.cluster, cycle.look.now
    need = need_of(cluster, job, part)
    if need.max_nodes < need.min_nodes:
        return None
    usable = reservations.usable_nodes(cluster, job, part, now, now + limit_minutes(job, part) * 60)
    free = _candidates(cycle, job, part, usable) & cycle.spaces[0].free
    cycle.reserved = usable.cores
    return None if usable.error else _when(cycle, job, part, need, free, now_only=False)


def _try(cycle: Cycle, entry: Entry, start: Start, preempt: Preempt) -> str:
    """`started`, `planned`, or '' (passed over)."""
    job, part, look = entry.job, entry.part, cycle.look
    cluster, settings = look.cluster, cycle.settings
    policy = cluster.policy(job, part)
    if not (policy.free or settings.stop_at_limit) and limits.before_select(
        policy, ask_of(cluster, job, part, None), part.max_time
    ):
        return ""
    if partition_reason(cluster, job, part, min_time=True) or _over_count(cycle, job, part) or not part.nodes:
        return ""
    if any(
        cluster.licenses[name].total - cluster.licenses[name].used < n for name, n in job.licenses.items()
    ):
        return ""
    need = need_of(cluster, job, part)
    if need.max_nodes < need.min_nodes:
        return ""
    now_only = (settings.min_priority and entry.priority < settings.min_priority) or (
        settings.min_age and look.now - job.eligible < settings.min_age
    )
    if settings.one_plan and cycle.before:
        now_only = True
    return _search(cycle, entry, need, bool(now_only), start, preempt)


def _over_count(cycle: Cycle, job: Job, part: Partition) -> bool:
    """bf_max_job_user and the like: so many jobs of each are looked at in a cycle."""
    settings = cycle.settings
    over = False
    for kind, name, most in (
        ("part", part.name, settings.max_part),
        ("userpart", f"{job.user} {part.name}", settings.max_user_part),
        ("assoc", str(job.assoc_id), settings.max_assoc),
        ("user", job.user, settings.max_user),
    ):
        if most and not over:
            count = cycle.counts.get((kind, name), 0)
            over = count >= most
            cycle.counts[kind, name] = count + 1
    return over


def limit_minutes(job: Job, part: Partition) -> int:
    """How long the job is planned for."""
    most = YEAR_MINUTES if part.max_time >= INFINITE else part.max_time
    limit = job.time_limit if part.max_time >= INFINITE else min(job.time_limit, most)
    if not job.limit_set or job.time_limit >= INFINITE:
        limit = most
    if job.request.time_min and job.request.time_min < limit:
        return job.request.time_min
    return limit


def limit_at_start(job: Job, part: Partition, now: int, *, backfilled: bool) -> int:
    """Minutes: what backfill planned becomes the limit of a job without one, or with a least one (attempt_backfill).

    A heterogeneous job, which starts after the cycle, keeps its own: a 22.05.8 showed it.
    """
    limit = job.time_limit
    if not job.limit_set or limit > part.max_time:
        limit = part.default_time if part.default_time is not None else part.max_time
    if job.request.deadline:
        return min(limit, max(job.request.deadline - now, 0) // 60)
    if backfilled and not job.het_job_id and (not job.limit_set or job.request.time_min):
        return limit_minutes(job, part)
    return limit


def _search(cycle: Cycle, entry: Entry, need: Need, now_only: bool, start: Start, preempt: Preempt) -> str:
    """Try the job now, then at each time nodes come free, until it starts or is planned (TRY_LATER)."""
    job, part, look, settings = entry.job, entry.part, cycle.look, cycle.settings
    cluster, now = look.cluster, look.now
    seconds = limit_minutes(job, part) * 60
    later, tested = max(now, cycle.not_before), False
    for _ in range(len(cycle.spaces) * 2 + 64):
        begin, later = later, 0
        if job.reservation and job.reservation in cluster.reservations:
            begin = max(begin, cluster.reservations[job.reservation].start)
        end = max(begin, now) + seconds
        usable = reservations.usable_nodes(cluster, job, part, begin, end)
        if usable.error:
            return ""
        candidates = _candidates(cycle, job, part, usable)
        free, later = _free_between(cycle.spaces, begin, end, candidates)
        cycle.reserved = usable.cores
        if (
            (usable.closed or usable.cores)
            and usable.until + 1 < cycle.begin + settings.window
            and usable.until
        ):
            later = usable.until + 1 if not later else min(later, usable.until + 1)
        required = bitmap(job.nodelist)
        if free.bit_count() < need.min_nodes or required & ~free:
            if later and not now_only:
                continue
            job.start = cycle.before
            return ""
        if not tested:
            cycle.tested += 1
            tested = True
        found = _when(cycle, job, part, need, free, now_only)
        if found is None:
            if later and not now_only:
                continue
            job.start = cycle.before
            return ""
        when, nodes = found
        if need.whole_node:
            job.planned_cpus = sum(cluster.nodes[node].conf.cpus for node in bits(nodes))
        when = max(when, begin)
        if when <= now and nodes & cluster.completing:
            when, later = now + 1, 0
        if when <= now and job.het_job_id == 0:
            outcome = _start(cycle, job, part, free, start, preempt)
            if outcome in ("started", ""):
                return outcome
            later = 0
        elif job.het_job_id:
            starts = cluster.het_starts[job.het_job_id]
            if when <= starts[job.job_id]:
                starts[job.job_id] = when
                cycle.het.setdefault(job.het_job_id, {})[job.job_id] = (job, part)
        if when > now and now_only:
            return ""
        if later and when > later:
            continue
        if when > cycle.begin + settings.window:  # told, but nothing is kept for it
            job.start = min(when, cycle.before or when)
            return ""
        first = when // settings.resolution * settings.resolution
        last = (when + seconds) // settings.resolution * settings.resolution
        if when > now and _conflicts(cycle.spaces, nodes, first, last):
            later = when
            continue
        return _plan(cycle, job, part, nodes, (when, first, last))
    return ""


def _candidates(cycle: Cycle, job: Job, part: Partition, usable: reservations.Usable) -> int:
    """Nodes the job may be on, whatever runs there."""
    cluster = cycle.look.cluster
    found = 0
    for alternative in node_alternatives(cluster, job, part):
        found |= alternative
    return usable.left_of(found) & cluster.idle_state & ~strangers(cluster, cycle.look.rules, job, part)


def _free_between(spaces: list[Space], begin: int, end: int, candidates: int) -> tuple[int, int]:
    """(nodes nobody planned for over the whole time, the next time more come free or 0)."""
    free, later = candidates, 0
    for at, space in enumerate(spaces):
        if space.end > begin and not later and at + 1 < len(spaces):
            more = candidates & spaces[at + 1].free
            if more & ~(free & space.free):
                later = space.end
        if space.end <= begin:
            continue
        if space.begin > end:
            break
        free &= space.free
    return free, later


def _conflicts(spaces: list[Space], nodes: int, begin: int, end: int) -> bool:
    return any(space.end > begin and space.begin < end and nodes & ~space.free for space in spaces)


def _start(cycle: Cycle, job: Job, part: Partition, free: int, start: Start, preempt: Preempt) -> str:
    """Try to start on these nodes: `started`, '' (a limit, a reservation), or `busy` (planned after all)."""
    look = cycle.look
    look.kept = ((1 << len(look.cluster.nodes)) - 1) & ~free
    verdict = select(look, job, part)
    look.kept = 0
    if verdict.code == "OK":
        start(job, part, verdict, "Backfill")
        cycle.started += 1
        cycle.forget()
        return "started"
    job.reason, job.reason_detail = verdict.reason, verdict.detail
    if verdict.victims:
        preempt(verdict, job)
        cycle.forget()
    return "" if verdict.code in ("LIMIT", "RESERVED") else "busy"


def _plan(cycle: Cycle, job: Job, part: Partition, nodes: int, times: tuple[int, int, int]) -> str:
    cluster, settings = cycle.look.cluster, cycle.settings
    when, first, last = times
    if not settings.stop_at_limit:
        policy = cluster.policy(job, part)
        if not policy.free and limits.after_select(policy, ask_of(cluster, job, part, None)):
            return ""
    if settings.part_plans:
        count = cycle.counts.get(("plans", part.name), 0)
        if count >= settings.part_plans:
            return ""
        cycle.counts["plans", part.name] = count + 1
    if not cycle.before or when < cycle.before:  # of an array the task planned last tells
        job.start, job.scheduled_nodes = when, cluster.names(bits(nodes))
    cycle.plans.append(Plan(job, when, last, nodes))
    if len(cycle.spaces) < settings.spaces:
        add_plan(cycle.spaces, max(first, cycle.spaces[0].begin), last, nodes, settings.resolution)
    return "planned"


def add_plan(spaces: list[Space], begin: int, end: int, nodes: int, resolution: int) -> None:
    """Take `nodes` out of every space between two times, cutting spaces where needed (_add_reservation)."""
    end = max(end, begin + resolution)
    for at, space in enumerate(spaces):
        if space.begin < begin < space.end:
            spaces.insert(at + 1, Space(begin, space.end, space.free))
            space.end = begin
            break
    for at, space in enumerate(spaces):
        if space.begin < end < space.end:
            spaces.insert(at + 1, Space(end, space.end, space.free))
            space.end = end
            break
    for space in spaces:
        if space.begin >= begin and space.end <= end:
            space.free &= ~nodes
    at = 0
    while at + 1 < len(spaces):
        if spaces[at].free == spaces[at + 1].free:
            spaces[at].end = spaces[at + 1].end
            del spaces[at + 1]
        else:
            at += 1


def _when(
    cycle: Cycle, job: Job, part: Partition, need: Need, free: int, now_only: bool
) -> tuple[int, int] | None:
    """(when, nodes) the job could start if running jobs end at their limits, on these nodes (_will_run_test)."""
    look = cycle.look
    if not look.rules.enabled and not cycle.reserved:
        key = (need, free, job.nodelist)
        if key not in cycle.tried:
            cycle.tried[key] = _ahead(cycle, job, part, need, free, now_only=False)
        found = cycle.tried[key]
        return None if found and now_only and found[0] > look.now else found
    return _ahead(cycle, job, part, need, free, now_only=now_only)


def _ahead(
    cycle: Cycle, job: Job, part: Partition, need: Need, free: int, *, now_only: bool
) -> tuple[int, int] | None:
    look, cluster = cycle.look, cycle.look.cluster
    least, order = least_nodes(need), indexes(free, len(cluster.nodes))
    table, ahead = _table(cycle, job, part, need), _caught_up(cluster)
    first = ahead.first_fit(need, table) if table is not None else None
    rank = NOW if first is None else _rank_of(first[order], least)
    found = None
    if rank == NOW:
        found = place(need, _world(cycle, job, part, None), free, job.nodelist, exact=False)
    if found is None and look.rules.enabled:
        victims = preemption.candidates(
            look.rules, cluster.accounts, cluster.partitions, cluster.running.values(), job, part, look.now
        )
        if victims:
            world = _world(cycle, job, part, without(cluster, cluster.uses, victims))
            found = place(need, world, free, job.nodelist, exact=False)
    if found is not None:
        return look.now, bitmap(found.nodes)
    if now_only or rank == NEVER:
        return None
    for after, time in ahead.steps_on(order, cycle.settings.window_step):
        if after < rank:
            continue
        nodes = None
        if table is not None:
            kinds = ahead.kinds_after(after)
            numbering, weights = cluster.fits.numbering, cluster.weights
            nodes = choose_quick(need, table, numbering, kinds, order, weights=weights, min_nodes=least)
        if nodes is None:
            world = _world(cycle, job, part, ahead.uses_after(after))
            world.busy_first = cycle.settings.busy_nodes
            found = place(need, world, free, job.nodelist, exact=False)
            nodes = [] if found is None else list(found.nodes)
        if nodes:
            return max(time, look.now + 1), bitmap(nodes)
    return None


def _table(cycle: Cycle, job: Job, part: Partition, need: Need) -> Table | None:
    """Where counts of each node's kind tell all: what they say of a need."""
    if job.nodelist or cycle.settings.busy_nodes or need.sharing == "shared":
        return None
    return cycle.look.cluster.fits.table(need) if _world(cycle, job, part, None).plain else None


def _rank_of(first: Ints, least: int) -> int:
    """The first rank after which so many nodes fit; before it no placement needs to be tried."""
    if least > len(first):
        return NEVER
    return int(np.partition(first, least - 1)[least - 1]) if least else NOW


def _caught_up(cluster: Cluster) -> Ahead:
    """What is ahead, as things stand now."""
    if cluster.ahead is None or cluster.ahead.uses is not cluster.uses:
        cluster.ahead = Ahead(cluster.uses)
        cluster.moved = dict.fromkeys(cluster.running)
    if cluster.moved:
        cluster.ahead.follow(list(cluster.moved), cluster.running, cluster.fits.confs)
        cluster.moved.clear()
    return cluster.ahead


def _world(cycle: Cycle, job: Job, part: Partition, uses: Uses | None) -> World:
    look, cluster = cycle.look, cycle.look.cluster
    return World(
        cluster.fits,
        cluster.uses if uses is None else uses,
        cluster.weights,
        cluster.switches,
        excluded=cycle.reserved,
        layers=look.layers(job, part) if look.layers and part.oversubscribe in ("FORCE", "YES") else (),
    )


def _het_time(cycle: Cycle, job: Job) -> int:
    """When the last of the other components would start; a component not looked at yet does not count.

    What was found is forgotten every other cycle only (_het_job_start_clear). Source: _het_job_start_set and _find.
    """
    cluster, now = cycle.look.cluster, cycle.look.now
    starts = cluster.het_starts.setdefault(job.het_job_id, {})
    starts.setdefault(job.job_id, now + YEAR_S)
    if job.reason == "None":
        job.reason = "Resources"
    others = [start for one, start in starts.items() if one != job.job_id]
    return max(now, cluster.het_before.get(job.het_job_id, 0), *others)


def _start_het(cycle: Cycle, start: Start) -> None:
    """A heterogeneous job starts when all its components could start now, each on nodes of its own.

    Source: _het_job_start_test_single, _het_job_start_now.
    """
    look, cluster = cycle.look, cycle.look.cluster
    for leader, starts in cluster.het_starts.items():
        wanted = sum(1 for job in cluster.pending.values() if job.het_job_id == leader)
        last = max(cluster.het_before.get(leader, 0), *starts.values()) if len(starts) == wanted else NEVER_S
        parts = cycle.het.get(leader, {})
        if last <= look.now and len(parts) == wanted:
            ready = _ready_het(look, list(parts.values()))
            last = NEVER_S if len(ready) < wanted else last
            for job, part, verdict in ready if len(ready) == wanted else ():
                start(job, part, verdict, "Backfill")
                cycle.forget()
        cluster.het_before[leader] = last


def _ready_het(look: Looking, parts: list[tuple[Job, Partition]]) -> list[tuple[Job, Partition, Verdict]]:
    """Where each would go, until one finds no room or meets a limit beside those before it."""
    cluster, ready = look.cluster, list[tuple[Job, Partition, Verdict]]()
    for job, part in parts:
        verdict = select(look, job, part)
        if verdict.code != "OK" or verdict.placement is None:
            break
        ready.append((job, part, verdict))
        look.kept |= bitmap(verdict.placement.nodes)
        limits.charge(cluster.policy(job, part), ask_of(cluster, job, part, verdict.placement))
    for job, part, verdict in ready:
        limits.charge(cluster.policy(job, part), ask_of(cluster, job, part, verdict.placement), -1)
    look.kept = 0
    return ready
