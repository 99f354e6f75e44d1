"""The life of a job: started by a scheduler, ended by its script or its limit, requeued, suspended, preempted.

The main scheduler runs on the next whole second after something asked for it, at once after an epilogue, and at
sched_interval; the backfill scheduler every bf_interval if anything changed; limits are looked at every 30 s.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

from fairway.slurm import backfill, dependencies, ending, limits, preemption, priority, selecting, sharing
from fairway.slurm.clockwork import SECOND, Clockwork
from fairway.slurm.cluster import Cluster, build_cluster, cluster_tres
from fairway.slurm.conf import Configuration
from fairway.slurm.cyclecounts import CycleCounts
from fairway.slurm.limits import Ask
from fairway.slurm.mainpass import main_pass
from fairway.slurm.model.association import Accounts
from fairway.slurm.model.job import Job, NodeShare, Step
from fairway.slurm.model.node import Node
from fairway.slurm.model.partition import Partition
from fairway.slurm.queueing import is_never, split_task
from fairway.slurm.selecting import Looking, Verdict
from fairway.slurm.words.durations import INFINITE

LAUNCH_US = 60_000
"""From a job's start to its script's first line; measured on the recorded cluster: 0.05 to 0.1 s."""
EPILOG_US = 200_000
"""From a job's end to the last node's epilogue message; measured there, with the pass that follows: 0.2 to 1.2 s."""
STEP_EPILOG_US = 15_000
"""The same without a script: its steps are over by then. There, srun 20 ms later was given the same node."""
KILLED_US = 350_000
"""The same for a job that is killed; the pass follows at once."""
MESSAGE_S = 10
"""MessageTimeout's default."""
BUILTIN_US = 2 * SECOND
"""sched/builtin answers a submission on a grid of two seconds; measured there."""
TIME_LIMITS_US = 30 * SECOND
"""PERIODIC_TIMEOUT: how often limits of running jobs are looked at."""
REQUEUE_DELAY_S = 121
"""A requeued job waits for its credential to expire: 120 s and one more."""
YEAR_S = 365 * 86400


@dataclass(slots=True, init=False)
class Behaviour:
    """What a job's script does. `duration_s` None: runs until told (`Controller.finish`); `deaf`: survives SIGTERM;
    `by_clock`: a suspension does not make it longer (sleep)."""

    duration_s: float | None
    exit_code: int
    signal: int
    deaf: bool
    by_clock: bool

    def __init__(
        self, duration_s: float | None = 0, exit_code: int = 0, signal: int = 0, deaf: bool = False,
        by_clock: bool = False,
    ) -> None:  # fmt: skip
        self.duration_s, self.exit_code, self.signal, self.deaf = duration_s, exit_code, signal, deaf
        self.by_clock = by_clock


class Life:
    """See the module. `on_signal(job, signal)` is told of every signal a running job is sent."""

    def __init__(
        self, conf: Configuration, accounts: Accounts, behave: Callable[[Job, int], Behaviour], now_us: int
    ) -> None:
        self.clock = Clockwork(now_us)
        self.behave = behave
        self.on_signal: Callable[[Job, int], None] | None = None
        self.cluster: Cluster = build_cluster(conf, accounts, self.clock.now)
        self.rules = preemption.rules_of(conf)
        self.weights = priority.weights_of(conf)
        self.backfill_settings = backfill.settings_of(conf)
        self.backfills = conf.get("SchedulerType", "sched/backfill") == "sched/backfill"
        self.kill_wait_us = conf.number("KillWait", 30) * SECOND
        self.boot_us = now_us
        self.backfill_phase_us: int | None = None
        """Set: it wakes so long after the boot, then once an interval."""
        self.pass_phase_us = 0
        """How long after a whole second the controller's loop looks for work: it does so once a second."""
        self.last_basic = priority.TOP + 1
        self.last_pass_us = self.last_full_us = self.last_backfill_us = self.last_usage = 0
        self.last_usage = self.clock.now
        self.dead_nodes: set[int] = set()
        self.behaviours: dict[int, Behaviour] = {}
        self.running: dict[tuple[int, str], priority.Running] = {}
        self.totals = self._totals()
        self.counts = CycleCounts()
        self.counted_from = self.clock.now
        if self.weights.multifactor:
            self.clock.at(now_us + self.weights.calc_period_s * SECOND, "decay")
            priority.fair_tree(accounts)

    @property
    def now(self) -> int:
        return self.clock.now

    @property
    def now_us(self) -> int:
        return self.clock.now_us

    def next_event_us(self) -> int | None:
        """When something happens next; None: nothing is left to happen."""
        return self.clock.next_us()

    def advance(self, to_us: int) -> None:
        """Let time pass, `to_us` inclusive."""
        while (event := self.clock.pop(to_us)) is not None:
            getattr(self, f"_on_{event[2]}")(*event[3])

    def accounts_changed(self) -> None:
        """Accounts were edited: limits, shares and priorities are looked at anew."""
        self.totals = self._totals()
        self.cluster.forget_policies()
        self.cluster.accounts.chargings.clear()
        if self.weights.multifactor:
            priority.fair_tree(self.cluster.accounts)
        self.changed()

    def _totals(self) -> priority.Totals:
        cluster, accounts = self.cluster, self.cluster.accounts
        parts = cluster.partitions.values()
        return priority.Totals(
            len(cluster.nodes),
            sum(node.conf.cpus for node in cluster.nodes),
            {part.name: cluster_tres([cluster.nodes[n] for n in part.nodes]) for part in parts},
            max((part.priority_job_factor for part in parts), default=1),
            max((qos.priority for qos in accounts.qos.values()), default=0),
            max((one.priority for one in accounts.associations.values()), default=0),
        )

    def changed(self) -> None:
        """Something is different: the schedulers have work."""
        delay = self.cluster.conf.parameter("batch_sched_delay", 3) * SECOND
        when = max(self._next_second(), self.last_pass_us + delay if self.last_pass_us else 0)
        if not self.backfills:
            when = self.boot_us + -(-(when - self.boot_us) // BUILTIN_US) * BUILTIN_US
        self.clock.once(when, "tick")
        self._stir()
        interval = self.cluster.conf.parameter("sched_interval", 60)
        if interval > 0:
            self.clock.once(max(self.last_full_us + interval * SECOND, self._next_second()), "full")

    def _stir(self) -> None:
        """Some job is different: the backfill scheduler will look again."""
        if self.backfills:
            due = self.last_backfill_us + self.backfill_settings.interval * SECOND
            when = max(due, self.now_us + SECOND // 2)
            if self.backfill_phase_us is not None:
                period = self.backfill_settings.interval * SECOND
                when = self.now_us + 1 + (self.boot_us + self.backfill_phase_us - self.now_us - 1) % period
            self.clock.once(when, "backfill")

    def _next_second(self) -> int:
        since = self.now_us - self.pass_phase_us
        return -(-since // SECOND) * SECOND + self.pass_phase_us

    def _on_tick(self) -> None:
        self._pass(full=False)

    def _on_full(self) -> None:
        self.last_full_us = self.now_us
        self._pass(full=True)

    def _on_begin(self, job_id: int) -> None:
        job = self.cluster.jobs.get(job_id)
        if job is not None and not job.finished:
            self.changed()

    def _pass(self, *, full: bool) -> None:
        self.last_pass_us = self.now_us
        if not self.cluster.pending:
            self.counts.count_pass(self.now, 0, 0)
            return
        depth = (
            len(self.cluster.pending) * 8 if full else self.cluster.conf.parameter("default_queue_depth", 100)
        )
        name = "Main" if self.backfills else "Builtin"
        self.cluster.tidy()
        self._drop_impossible()
        main_pass(look := self._look(), self._start, self._preempt, depth=depth, scheduler=name)
        self.counts.count_pass(self.now, look.tried, look.queued)

    def _drop_impossible(self) -> None:
        """kill_invalid_depend: jobs whose dependency can never be satisfied are cancelled."""
        kills = self.cluster.conf.has_option("kill_invalid_depend", "DependencyParameters")
        for job in [one for one in self.cluster.pending.values() if one.dependencies]:
            asked = job.request.kill_on_invalid_dep
            if (asked or (kills and asked is None)) and is_never(self.cluster, job, self.now):
                job.reason = "DependencyNeverSatisfied"
                self._remove(job, "CANCELLED")

    def _look(self) -> Looking:
        return Looking(self.cluster, self.rules, self.now, layers=self._layers)

    def _layers(self, job: Job, part: Partition) -> list[dict[int, int]]:
        return sharing.layers(self.cluster, self.rules, job, part)

    def _on_backfill(self) -> None:
        self.last_backfill_us = self.now_us
        backfill.count_turn(self.cluster)
        if self.cluster.pending:
            cycle = backfill.run_cycle(self._look(), self.backfill_settings, self._start, self._preempt)
            self.counts.count_cycle(self.now, cycle.depth, cycle.tested, cycle.look.queued, len(cycle.spaces))
        if self.cluster.het_starts and self.cluster.backfills % 2 == 0:
            self._stir()

    def _on_decay(self) -> None:
        """Usage shrinks by the whole interval, running jobs add theirs, and priorities are computed anew."""
        accounts, weights = self.cluster.accounts, self.weights
        priority.decay(accounts, priority.decay_of(weights.half_life_s, self.now - self.last_usage))
        priority.add_usage(accounts, self.running, self.now - self.last_usage, weights.half_life_s)
        self.last_usage = self.now
        priority.fair_tree(accounts)
        for job in self.cluster.pending.values():
            if job.priority and job.request.priority is None:
                before = job.priority
                self._set_priority(job)
                if job.priority != before:
                    self.changed()
        self.clock.at(self.now_us + weights.calc_period_s * SECOND, "decay")

    def _counts_usage(self, job: Job, sign: int) -> None:
        """The job runs (sign 1) or does so no more: what it ran since the last look is charged now."""
        if not self.weights.multifactor:
            return
        began = max(self.last_usage, job.start, job.resumed)
        if sign < 0 and self.now > began:
            priority.charge_run(self.cluster.accounts, job, self.now - began, self.weights.half_life_s)
        spare = (self.now if sign > 0 else began) - self.last_usage
        key = (job.assoc_id, job.qos)
        running = self.running.get(key)
        if running is None:
            running = self.running[key] = priority.Running()
        running.change(job, sign, spare)

    # The life of a job

    def _start(self, record: Job, part: Partition, verdict: Verdict, scheduler: str) -> Job:
        """Carry a start out; an array's task gets a record of its own."""
        cluster, placement = self.cluster, verdict.placement
        assert placement is not None
        job = split_task(cluster, record) if record.array_left else record
        record.reason, record.reason_detail = "None", ""
        cluster.pending.pop(job.job_id)
        cluster.running[job.job_id] = job
        job.version += 1
        job.state, job.reason, job.reason_detail, job.scheduler = "RUNNING", "None", "", scheduler
        job.partition, job.start, job.scheduled_nodes = part.name, self.now, ()
        job.time_limit = backfill.limit_at_start(job, part, self.now, backfilled=scheduler == "Backfill")
        job.end = self.now + min(job.time_limit * 60, YEAR_S)
        job.exit_code = job.signal = job.derived_exit = 0
        counts = cluster.counts_of(placement)
        job.shares = [
            NodeShare(p.node, p.cpus, p.mem, p.cores, dict(p.gres), counts[p.node]) for p in placement.parts
        ]
        job.nodes = cluster.names(placement.nodes)
        job.by_preference = verdict.preferred
        job.batch_host = job.nodes[0]
        job.alloc_tres = selecting.tres_of(cluster, job, part, placement)
        job.resumed = 0
        self._counts_usage(job, 1)
        self._occupy(job)
        limits.charge(cluster.policy(job, part), self._charged(job))
        for name, count in job.licenses.items():
            cluster.licenses[name].used += count
        self._watch_limit(job)
        if exempt := preemption.exempt_s(self.rules, cluster.accounts, job):
            self.clock.at((job.start + exempt) * SECOND, "begin", job.job_id)
        self._launch(job)
        self._stir()
        return job

    def _charged(self, job: Job) -> Ask:
        nodes = tuple(share.node for share in job.shares)
        return Ask(job.user, job.account, job.time_limit, job.alloc_tres, nodes)

    def _occupy(self, job: Job) -> None:
        cluster = self.cluster
        gang = sharing.overlapping(cluster, self.rules, job)
        cluster.moved.pop(job.job_id, None)  # they stand in the order of starts
        cluster.take(job)
        for share in job.shares:
            node = cluster.nodes[share.node]
            node.allocated.append(job.job_id)
            if job.whole_node == "user":
                node.owner = job.user
            if job.whole_node == "node":
                node.exclusive = job.job_id
            cluster.touch(node)
        for other in gang:
            self._suspend(other)

    def _launch(self, job: Job) -> None:
        """The script starts, unless the node is dead: then the launch fails once that is noticed."""
        if job.batch and not job.het_offset:  # the script runs in a heterogeneous job's first component alone
            first = job.shares[:1]
            if len(job.shares) == 1:
                held = job.alloc_tres.items()
                tres = {name: count for name, count in held if name != "billing" and name[:8] != "license/"}
            else:
                tres = selecting.held_tres(self.cluster, first)
            job.steps = [Step("batch", "batch", self.now, nodes=job.nodes[:1], cpus=first[0].cpus, tres=tres)]
        if any(share.node in self.dead_nodes for share in job.shares):
            return
        does = self.behaviours[job.job_id] = self.behave(job, self.now)
        if does.duration_s is not None:
            when = self.now_us + LAUNCH_US + int(does.duration_s * SECOND)
            self.clock.at(when, "end", job.job_id, job.version, does.exit_code, does.signal)

    def _on_end(self, job_id: int, version: int, exit_code: int, signal: int) -> None:
        """The script has ended by itself."""
        job = self.cluster.jobs.get(job_id)
        if job is None or job.version != version:
            return
        if "COMPLETING" in job.flags:
            self.clock.at(self.now_us + EPILOG_US, "epilog", job_id, version, False)
        elif job.state == "RUNNING":
            job.exit_code, job.signal = exit_code, signal
            self._end(job, "COMPLETED" if exit_code == 0 and signal == 0 else "FAILED")

    def _end(
        self, job: Job, state: str, *, kill: bool = False, reason: str = "None", signal: int = 15
    ) -> None:
        """It is over: accounted for, its resources free, its nodes completing until the epilogue.

        `kill`: its processes are still to die, at once or, deaf to SIGTERM, KillWait later.
        """
        if state == "FAILED" and not kill:
            reason = "NonZeroExitCode"
        if not kill:
            self._leave(job, state, reason)
            after = EPILOG_US if job.batch else STEP_EPILOG_US
            self.clock.at(self.now_us + after, "epilog", job.job_id, job.version, False)
            return
        does = self.behaviours.get(job.job_id) or Behaviour()
        job.signal = 9 if does.deaf else signal
        self._leave(job, state, reason)
        if self.on_signal:
            self.on_signal(job, signal)
        waits = self.kill_wait_us if does.deaf or (self.on_signal and does.duration_s is None) else 0
        self.clock.at(self.now_us + waits + KILLED_US, "epilog", job.job_id, job.version, True)

    def _leave(self, job: Job, state: str, reason: str) -> None:
        """Everything a job gives up at its end, and its row in the accounts."""
        cluster = self.cluster
        if job.state == "SUSPENDED":
            job.suspended_s += self.now - job.suspend_time
            cluster.take(job, sign=-1, cores=False)
        else:
            cluster.take(job, sign=-1)
            self._counts_usage(job, -1)
        part = cluster.partitions.get(job.partition)
        policy = cluster.policy(job, part)
        limits.charge(policy, self._charged(job), -1)
        limits.count_submitted(policy, job.user, job.account, -1)
        for name, count in job.licenses.items():
            cluster.licenses[name].used -= count
        cluster.running.pop(job.job_id, None)
        job.state, job.end, job.reason, job.reason_detail = state, self.now, reason, ""
        job.flags.add("COMPLETING")
        for step in job.steps:
            if not step.end:
                ending.close_step(step, self.now, job.exit_code, job.signal)
        for share in job.shares:
            node = cluster.nodes[share.node]
            node.allocated.remove(job.job_id)
            node.completing.append(job.job_id)
            node.last_busy = self.now
            if not node.allocated:
                node.owner = ""
            if node.exclusive == job.job_id:
                node.exclusive = 0
            cluster.touch(node)
        cluster.archive.append(job)
        self._resume_suspended(job)

    def _on_epilog(self, job_id: int, version: int, killed: bool) -> None:
        """The last node has said it is done."""
        job = self.cluster.jobs.get(job_id)
        if job is None or job.version != version or "COMPLETING" not in job.flags:
            return
        self._completed(job)
        if again := ending.comes_again(self.cluster.conf, job):
            self._requeue(job, job.state)
            ending.hold(job, again)
        if job.finished:
            self._purge_later(job)
        self.changed()
        if killed and not self.cluster.conf.has_option("defer"):
            self.clock.once(self.now_us, "tick")

    def _completed(self, job: Job) -> None:
        job.flags.discard("COMPLETING")
        for share in job.shares:
            node = self.cluster.nodes[share.node]
            if job.job_id in node.completing:
                node.completing.remove(job.job_id)
                self.cluster.touch(node)
                if node.flags & {"DRAIN", "FAIL"}:
                    self._note(node)
        if job.pending:
            job.shares, job.nodes, job.batch_host = [], (), ""

    def _note(self, node: Node, state: str = "") -> None:
        """Open or close the node's event; a drained node's opens when its last job has ended."""
        self.cluster.touch(node)
        held = node.flags & {"DRAIN", "FAIL"}
        if held and node.state == "IDLE" and (node.allocated or node.completing):
            return
        if node.state == "FUTURE" and state != "FUTURE":
            return
        if node.events and not node.events[-1][1]:
            node.events[-1] = (node.events[-1][0], self.now, *node.events[-1][2:])
        if state == "FUTURE":
            node.events.append((self.now, 0, "DOWN", "Set to State=FUTURE", ""))
        elif node.state != "IDLE" or held:
            word = "DRAIN" if "DRAIN" in held else "FAIL" if held else node.state
            node.events.append((self.now, 0, word, node.reason, node.reason_user))

    def _remove(self, job: Job, state: str) -> None:
        """A pending job is over without having started."""
        cluster = self.cluster
        cluster.pending.pop(job.job_id, None)
        part = cluster.partitions.get(job.partitions[0])
        count = max(len(job.array_left), 1)
        limits.count_submitted(cluster.policy(job, part), job.user, job.account, -count)
        job.state, job.start, job.end = state, self.now, self.now
        cluster.archive.append(job)
        self._purge_later(job)
        self.changed()

    def _purge_later(self, job: Job) -> None:
        age = self.cluster.conf.number("MinJobAge", 300)
        if age:
            self.clock.at(self.now_us + age * SECOND, "purge", job.job_id, job.version)

    def _on_purge(self, job_id: int, version: int) -> None:
        """MinJobAge after its end only the accounts know a job; what waits for it is told first."""
        cluster = self.cluster
        job = cluster.jobs.get(job_id)
        if job is None or job.version != version or not job.finished:
            return
        for other in cluster.pending.values():
            if other.dependencies:
                dependencies.check(cluster, other, self.now)
        del cluster.jobs[job_id]
        cluster.behind.pop(job_id, None)
        self.behaviours.pop(job_id, None)
        cluster.archive.pack(cluster.jobs)
        ids = cluster.arrays.get(job.array_job_id)
        if ids is not None:
            ids.remove(job_id)
            if not ids:
                del cluster.arrays[job.array_job_id]

    def _watch_limit(self, job: Job) -> None:
        if job.time_limit < INFINITE:
            over = self.cluster.conf.number("OverTimeLimit", 0)
            if over < INFINITE:
                due = (job.end + over * 60) * SECOND - self.boot_us
                when = self.boot_us + -(-due // TIME_LIMITS_US) * TIME_LIMITS_US
                self.clock.at(when, "limit", job.job_id, job.version)

    def _on_limit(self, job_id: int, version: int) -> None:
        """Limits are looked at: a job past its own is killed."""
        job = self.cluster.jobs.get(job_id)
        if job is None or job.version != version or job.state != "RUNNING":
            return
        over = self.cluster.conf.number("OverTimeLimit", 0) * 60
        if job.end + over > self.now:
            self._watch_limit(job)
        elif job.preempt_time:
            self._end(job, "PREEMPTED", kill=True)
        else:
            self._end(job, "TIMEOUT", kill=True, reason="TimeLimit")

    # Preemption, requeue, suspension

    def _preempt(self, verdict: Verdict, winner: Job) -> None:
        """Push victims aside for `winner`; those still within their grace are left to it."""
        cluster = self.cluster
        patience = cluster.conf.number("KillWait", 30) + cluster.conf.number("MessageTimeout", MESSAGE_S)
        if winner.preempting_since > self.now - patience:
            return
        winner.preempting_since = self.now
        for job in verdict.victims:
            if job.state != "RUNNING" or job.preempt_time:
                continue
            part = cluster.partitions[job.partition]
            mode = preemption.mode_of(self.rules, cluster.accounts, job, part)
            grace = preemption.grace_of(self.rules, cluster.accounts, job, part)
            if grace and mode in preemption.REMOVING:
                job.preempt_time = self.now
                job.end = min(job.end, self.now + grace)
                cluster.moved[job.job_id] = None
                if self.on_signal:
                    self.on_signal(job, 15)
                self._watch_limit(job)
            elif mode == "REQUEUE":
                self._requeue(job, "PREEMPTED")
            else:
                self._end(job, "PREEMPTED", kill=True)

    def _requeue(self, job: Job, state: str, *, wait: bool = True, reason: str = "None") -> None:
        """Back to the queue: the run stays in the accounts as `state`, the job may start again after a delay."""
        cluster = self.cluster
        if job.active:
            job.signal = 15
            self._leave(job, state, reason)
            if self.on_signal:
                self.on_signal(job, 15)
        elif state != job.state:
            job.state, job.end = state, self.now
        self._keep_row(job)
        part = cluster.partitions.get(job.partitions[0])
        limits.count_submitted(cluster.policy(job, part), job.user, job.account, 1)
        job.version += 1
        if "COMPLETING" in job.flags:
            self.clock.at(self.now_us + KILLED_US, "epilog", job.job_id, job.version, True)
        job.restarts += 1
        job.state, job.reason, job.preempt_time = "PENDING", "None" if not wait else "BeginTime", 0
        job.submit = self.now
        job.eligible = 0
        job.begin = self.now + REQUEUE_DELAY_S if wait else 0
        job.start = job.end = 0
        job.suspended_s = job.exit_code = job.signal = 0
        job.alloc_tres, job.steps = {}, []
        if not job.limit_set:
            default = part.default_time if part and part.default_time is not None else None
            job.time_limit = default if default is not None else part.max_time if part else INFINITE
        job.partition = job.request.partition or job.partitions[0]
        cluster.pending[job.job_id] = job
        if wait:
            self.clock.at(job.begin * SECOND, "begin", job.job_id)
        self.changed()

    def _keep_row(self, job: Job) -> None:
        """The job's last row in the archive becomes one of its own: the record goes on."""
        archive = self.cluster.archive.recent
        for at in range(len(archive) - 1, -1, -1):
            if archive[at] is job:
                row = archive[at] = copy(job)
                row.flags, row.steps = set(), list(job.steps)
                return

    def _suspend(self, job: Job) -> None:
        """Its cores are free; its memory and GRES are not."""
        self.cluster.take(job, sign=-1, rest=False)
        self._counts_usage(job, -1)
        job.state, job.suspend_time = "SUSPENDED", self.now
        job.pre_suspend_s += self.now - max(job.start, 0)
        job.request.extra["suspended_us"] = self.now_us
        job.version += 1
        if self.on_signal:
            self.on_signal(job, 19)

    def _resume(self, job: Job) -> None:
        slept_us = self.now_us - int(job.request.extra.pop("suspended_us", self.now_us))
        self.cluster.take(job, rest=False)
        job.state, job.resumed = "RUNNING", self.now
        self._counts_usage(job, 1)
        slept = self.now - job.suspend_time
        job.suspended_s += slept
        job.end += slept
        job.suspend_time = self.now
        does = self.behaviours.get(job.job_id)
        if does and does.duration_s is not None:
            when = job.start * SECOND + LAUNCH_US + int(does.duration_s * SECOND)
            lag = 0 if does.by_clock else int(job.request.extra.get("slept_us", 0)) + slept_us
            job.request.extra["slept_us"] = lag
            self.clock.at(when + lag, "end", job.job_id, job.version, does.exit_code, does.signal)
        self._watch_limit(job)
        if self.on_signal:
            self.on_signal(job, 18)

    def _resume_suspended(self, ended: Job) -> None:
        """Gang scheduling: jobs whose cores are free again go on."""
        if not self.rules.gang:
            return
        for job in [one for one in self.cluster.running.values() if one.state == "SUSPENDED"]:
            if all(not self.cluster.uses.exact[share.node][0] & share.cores for share in job.shares):
                self._resume(job)

    def _set_priority(self, job: Job) -> None:
        if not self.weights.multifactor:
            job.priority = max(self.last_basic - 1 - job.nice, 1)
            self.last_basic = min(job.priority, self.last_basic)
            return
        accounts, parts = self.cluster.accounts, [self.cluster.partitions[name] for name in job.partitions]
        found = [
            priority.priority_of(job, part, accounts, self.weights, self.totals, self.now) for part in parts
        ]
        job.priority, job.factors = found[-1 if job.scheduler else 0]  # that of the partition tried last
        job.priority_by_partition = tuple(value for value, _ in found) if len(found) > 1 else ()
