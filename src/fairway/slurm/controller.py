"""What users ask of slurmctld: submit, change, hold, release, cancel, requeue, suspend; and what scripts report."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

from fairway.slurm import backfill, changing, dependencies, limits, selecting, submitting
from fairway.slurm.clockwork import SECOND
from fairway.slurm.ending import close_step
from fairway.slurm.lifecycle import TIME_LIMITS_US, YEAR_S, Life
from fairway.slurm.model.job import Job, JobRequest, Step
from fairway.slurm.model.partition import Partition
from fairway.slurm.placing.uses import bits
from fairway.slurm.queueing import is_late, is_runnable, partition_reason, split_task
from fairway.slurm.selecting import Looking
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.errors import SlurmError

_FROM_REQUEST = (
    "account", "qos", "assoc_id", "partition", "partitions", "time_limit", "limit_set", "begin", "requeue", "min_nodes",
    "max_nodes", "min_cpus", "num_tasks", "cpus_per_task", "ntasks_per_node", "mem_per_cpu", "mem_per_node", "features",
    "nodelist", "exclude", "whole_node", "share", "reservation", "licenses", "req_tres",
)  # fmt: skip
"""Fields of a pending record that follow from its request."""


_PENDING_ONLY = frozenset((
    "partition", "num_tasks", "min_cpus", "nodes", "dependency", "account", "qos", "begin", "features", "exclude",
    "nodelist", "cpus_per_task", "node_min_cpus", "min_tmp_disk", "mem_per_cpu", "mem_per_node", "share", "contiguous",
    "core_spec", "ntasks_per_node", "work_dir", "std_out", "wckey", "tres_per_job", "tres_per_node",
    "tres_per_socket", "tres_per_task",
))  # fmt: skip
"""What can be changed only while a job waits (_update_job)."""


@dataclass(frozen=True, slots=True)
class WillRun:
    """The answer to --test-only; asking uses up a job id."""

    job_id: int
    start: int
    cpus: int
    nodes: tuple[str, ...]
    partition: str


class Controller(Life):
    """Every verb of a user; `user` is who asks."""

    def submit(self, request: JobRequest, user: str) -> Job:
        """A new pending job (of an array: its record; of a heterogeneous job: its leader). Raises: SlurmError."""
        if request.het:
            return self._submit_het(request, user)
        submitting.check_asker(self.cluster, request, user, self.now)
        job = submitting.make_job(self.cluster, request, user, self.now)
        self._enqueue(job)
        try:
            self._first_look(job)
        except SlurmError:
            self._refused(job)
            raise
        self.changed()
        return job

    def _refused(self, job: Job) -> None:
        """It can never run: its record stays as a failed one."""
        job.reason, job.exit_code = "BadConstraints", 1
        self._remove(job, "FAILED")

    def refuse_at_once(self, job: Job) -> SlurmError:
        """A job of --immediate that did not start fails, and for this reason (job_allocate)."""
        cluster = self.cluster
        parts = [cluster.partitions[name] for name in job.partitions]
        short = any(
            cluster.licenses[name].total - cluster.licenses[name].used < count
            for name, count in job.licenses.items()
        )
        if job.priority == 0 or short or not is_runnable(cluster, job, self.now):
            why = "DEPENDENCY"
        elif self._waits_for_others(job):
            why = "NOT_TOP_PRIORITY"
        elif any(part.state == "DOWN" for part in parts):
            why = "PARTITION_DOWN"
        elif all(partition_reason(cluster, job, part) for part in parts):
            why = "REQUESTED_PART_CONFIG_UNAVAILABLE"
        else:
            why = "NODES_BUSY"
        self._refused(job)
        return SlurmError(why, job.job_id)

    def consider(self, job: Job) -> bool:
        """Start a pending job at once if it is the first of its partitions (as for srun and salloc)."""
        if job.het_job_id:  # its components start together, by the backfill scheduler
            return False
        if not job.pending or not is_runnable(self.cluster, job, self.now) or self._waits_for_others(job):
            return False
        for name in job.partitions:
            if partition_reason(self.cluster, job, self.cluster.partitions[name]):
                continue
            verdict = selecting.select(self._look(), job, self.cluster.partitions[name])
            if verdict.code == "OK":
                self._start(job, self.cluster.partitions[name], verdict, "Submit")
                return True
        return False

    def _submit_het(self, request: JobRequest, user: str) -> Job:
        made: list[Job] = []
        if any(one.array for one in request.het):
            raise SlurmError("INVALID_ARRAY")
        try:
            for offset, one in enumerate(request.het):
                job = submitting.make_job(self.cluster, one, user, self.now)
                self._enqueue(job)
                made.append(job)
                job.het_job_id, job.het_offset = made[0].job_id, offset
                self._first_look(job)
        except SlurmError:
            for job in made:
                self._refused(job)
            raise
        self.changed()
        return made[0]

    def _enqueue(self, job: Job) -> None:
        cluster, request = self.cluster, job.request
        cluster.jobs[job.job_id] = cluster.pending[job.job_id] = job
        if job.array_job_id:
            cluster.arrays[job.array_job_id] = [job.job_id]
        part = cluster.partitions[job.partitions[0]]
        limits.count_submitted(cluster.policy(job, part), job.user, job.account, max(len(job.array_left), 1))
        if request.hold or request.priority == 0:
            job.reason = "JobHeldUser" if request.hold != "admin" else "JobHeldAdmin"
        elif request.priority is not None and cluster.is_operator(job.user):
            job.priority = request.priority
        else:
            self._set_priority(job)
        waits = job.begin or job.array_left or not job.priority
        if not waits and not dependencies.check(cluster, job, self.now):
            job.eligible = self.now
        if job.begin:
            self.clock.at(job.begin * SECOND, "begin", job.job_id)
        self._watch_deadline(job, request.deadline)
        if job.few_switches:
            wait = submitting.switch_wait_s(cluster.conf, request)
            self.clock.at((self.now + wait) * SECOND, "switches", job.job_id)

    def _watch_deadline(self, job: Job, deadline: int, after: int = 0) -> None:
        """When it can no longer end in time: its least limit, or its limit, before the deadline."""
        least = job.request.time_min or (job.time_limit if job.limit_set else INFINITE)
        if deadline and least < INFINITE:
            due = max(deadline - least * 60 + 1, after)
            self.clock.at(due * SECOND, "deadline", job.job_id)

    def _on_deadline(self, job_id: int) -> None:
        job = self.cluster.jobs.get(job_id)
        if job is not None and is_late(self.cluster, job, self.now):
            job.signal, job.reason, job.reason_detail = 1, "DeadLine", ""
            self._remove(job, "DEADLINE")
        elif job is not None and job.pending:  # held, or its limit is another by now
            every = max(self.cluster.conf.parameter("sched_interval", 60), 1)
            self._watch_deadline(job, job.request.deadline, self.now + every)

    def _on_switches(self, job_id: int) -> None:
        """It has waited long enough for few switches."""
        for one in [job_id, *self.cluster.arrays.get(job_id, ())]:
            job = self.cluster.jobs.get(one)
            if job is not None and job.few_switches:
                job.few_switches, job.needs = 0, {}
        self.changed()

    def _first_look(self, job: Job) -> None:
        """Could it ever run? Raises: SlurmError REQUESTED_NODE_CONFIG_UNAVAILABLE; sets the first reason."""
        cluster = self.cluster
        look = Looking(cluster, self.rules, self.now, layers=self._layers)
        codes = []
        for name in job.partitions:
            part = cluster.partitions[name]
            reason = partition_reason(cluster, job, part)
            if reason not in ("", "PartitionDown") and len(job.partitions) == 1:
                verdict = selecting.Verdict("PART_CONFIG", reason="PartitionConfig")
            else:
                verdict = selecting.first_look(look, job, part)
            codes.append(verdict.code)
            if verdict.code == "OK":
                break
            if job.priority and not job.dependencies and not job.begin:
                job.reason, job.reason_detail = verdict.reason, verdict.detail
        if not job.min_nodes and not job.max_nodes:
            raise SlurmError("INVALID_NODE_COUNT", job.job_id)
        if all(code == "NEVER" for code in codes):
            notes = selecting.short_of(cluster, job, cluster.partitions[job.partitions[-1]])
            raise SlurmError("REQUESTED_NODE_CONFIG_UNAVAILABLE", job.job_id, notes)
        if job.dependencies and job.priority:
            job.reason = "Dependency"
        elif job.begin and job.priority:
            job.reason = "BeginTime"
        elif codes[-1] == "OK" and job.priority and job.reason == "None" and self._waits_for_others(job):
            job.reason = "Priority"

    def _waits_for_others(self, job: Job) -> bool:
        """A pending job with more priority that nothing but resources keeps back, in any partition (_top_priority)."""
        return not job.het_job_id and any(
            other.priority > job.priority
            and not other.dependencies
            and other.reservation == job.reservation
            and not other.reason.startswith(("QOS", "Assoc", "Partition"))
            for other in self.cluster.pending.values()
            if other is not job and other.begin <= self.now
        )

    def test_only(self, request: JobRequest, user: str) -> WillRun:
        """When and where would it start (sbatch --test-only)? Nothing is submitted. Raises: SlurmError."""
        cluster = self.cluster
        job = submitting.make_job(cluster, request, user, self.now)
        look = Looking(cluster, self.rules, self.now, completing_ok=True, layers=self._layers)
        cycle = backfill.new_cycle(look, self.backfill_settings)
        best: tuple[int, int, Partition] | None = None
        for name in job.partitions:
            part = cluster.partitions[name]
            found = backfill.earliest(cycle, job, part)
            if found is not None and (best is None or found[0] < best[0]):
                best = (found[0] + self._queued_before_s(job, part), found[1], part)
        if best is None:
            raise SlurmError("REQUESTED_NODE_CONFIG_UNAVAILABLE", job.job_id)
        start, nodes, part = max(best[0], job.begin), best[1], best[2]
        names = cluster.names(bits(nodes))
        cpus = max(job.min_cpus, len(names))
        if job.whole_node == "node":
            cpus = sum(cluster.nodes[node].conf.cpus for node in bits(nodes))
        return WillRun(job.job_id, start, cpus, names, part.name)

    def _queued_before_s(self, job: Job, part: Partition) -> int:
        """The work that waits before a job, spread over its partition's CPUs (_delayed_job_start_time)."""
        cluster = self.cluster
        if self.weights.multifactor:
            self._set_priority(job)
        all_cpus = max(cluster.cpus_of(part), 1)
        per_node = max(all_cpus // max(len(part.nodes), 1), 1)
        cpu_minutes = sum(
            max(other.min_cpus, other.min_nodes * per_node)
            * (other.time_limit if other.limit_set else part.max_time)
            for other in cluster.pending.values()
            if other.partitions[0] == part.name and other.priority >= max(job.priority, 1)
        )
        return cpu_minutes // all_cpus * 60

    def update_job(self, job_id: int, changes: dict[str, Any], user: str, *, alone: bool = False) -> None:
        """Change a pending job, or a running one's limit, comment and the like. Raises: SlurmError.

        alone: this record, though the number names an array as well.
        """
        for job in self._records(job_id, alone):
            self._may(job, user, "USER_ID_MISSING")
            if job.finished:
                raise SlurmError("JOB_FINISHED")
            self._check_changes(job, changes, user)
            if "array_throttle" in changes:
                for task in self._records(job.array_job_id or job_id):
                    task.array_max_running = changes["array_throttle"]
            fresh = submitting.changed(job.request, changes, but=("array_throttle",))
            submitting.check_lengths(self.cluster, fresh)
            if job.pending:
                self._update_pending(job, fresh, changes, user)
            else:
                self._update_running(job, changes, user)
            job.request, job.needs = fresh, {}
        self.changed()

    def _check_changes(self, job: Job, changes: dict[str, Any], user: str) -> None:
        """What only some may change, and what nobody may (_update_job)."""
        if "burst_buffer" in changes:
            raise SlurmError("NOT_SUPPORTED")
        if "admin_comment" in changes and not self.cluster.is_administrator(user):
            raise SlurmError("ACCESS_DENIED")
        if job.pending and (changes.get("time_min") or 0) > changes.get("time_limit", job.time_limit):
            raise SlurmError("INVALID_TIME_MIN_LIMIT")
        if "cluster_features" in changes:  # of a federation, which there is none
            raise SlurmError("SLURM_ERROR")
        if self.cluster.is_operator(user) or not job.pending:
            return
        limit = changes.get("time_limit", 0)
        most = max(self.cluster.partitions[name].max_time for name in job.partitions)
        if (
            changes.keys() & {"deadline", "share", "core_spec", "site_factor"}
            or changes.get("contiguous")
            or (limit > job.time_limit and limit > most)
        ):
            raise SlurmError("ACCESS_DENIED")

    def _update_pending(self, job: Job, fresh: JobRequest, changes: dict[str, Any], user: str) -> None:
        """The record is made anew of the changed request; what cannot be is refused whole."""
        cluster = self.cluster
        if "nodes" in changes and (
            not fresh.min_nodes or (fresh.max_nodes and fresh.max_nodes < fresh.min_nodes)
        ):
            raise SlurmError("INVALID_NODE_COUNT")
        if "end" in changes:
            raise SlurmError("JOB_NOT_RUNNING")
        if any(name in changes for name in changing.GRES):
            changing.check_gres(job, fresh)
        ids, submit, begin = cluster.next_job_id, job.submit, job.begin
        if "dependency" in changes:
            job.dependencies = dependencies.parse(cluster, changes["dependency"] or "", job.job_id)
            job.dependency_text = changes["dependency"] or ""
            self.clock.once(self._next_second(), "tick")
        trial = copy(fresh)
        trial.extra = {
            key: said for key, said in fresh.extra.items() if key not in changing.GRES or said != "gres:"
        }
        trial.dependency = trial.array = None
        trial.deadline = 0
        part = cluster.partitions[job.partitions[0]]
        policy, count = cluster.policy(job, part), max(len(job.array_left), 1)
        limits.count_submitted(policy, job.user, job.account, -count)
        try:
            made = submitting.make_job(cluster, trial, job.user, self.now)
        finally:
            limits.count_submitted(policy, job.user, job.account, count)
            cluster.next_job_id = ids
        if (made.qos, made.assoc_id, made.partitions) != (job.qos, job.assoc_id, job.partitions):
            limits.count_submitted(policy, job.user, job.account, -count)
            limits.count_submitted(
                cluster.policy(made, cluster.partitions[made.partitions[0]]), made.user, made.account, count
            )
        made.req_tres = changing.changed_tres(job, made, changes, cluster.partitions[made.partitions[0]])
        if made.min_cpus != made.req_tres["cpu"]:
            fresh.min_cpus = made.min_cpus = made.req_tres["cpu"]
        for name in _FROM_REQUEST:
            setattr(job, name, getattr(made, name))
        job.submit = submit
        if "begin" not in changes:  # that of a requeued job is not in its request
            job.begin = begin
        elif job.begin:
            self.clock.at(job.begin * SECOND, "begin", job.job_id)
        else:
            job.eligible = changes["begin"]
        self._watch_deadline(job, fresh.deadline)
        if "priority" in changes:
            self._reprioritize(job, changes["priority"] or 0, user)
        elif "nice" in changes:
            self._renice(job, changes["nice"], user)
        elif "site_factor" in changes and job.priority:
            job.request = fresh
            self._set_priority(job)
        if "array" in changes and job.array_job_id:
            job.array_max_running = submitting.array_tasks(cluster, changes["array"])[1]
        if job.priority and job.reason not in ("Dependency", "BeginTime"):
            job.reason, job.reason_detail = "None", ""

    def _reprioritize(self, job: Job, asked: int, user: str) -> None:
        """A number of an operator's stays; a user's may only be lower, and does not stay (_update_job)."""
        operates = self.cluster.is_operator(user)
        if asked == job.priority:
            return
        if not job.priority:
            raise SlurmError("JOB_HELD")
        if not operates and asked > job.priority:
            raise SlurmError("ACCESS_DENIED")
        job.priority, job.factors = asked, {}
        if not asked:
            job.reason = "JobHeldAdmin" if operates else "JobHeldUser"
            self._forget_eligible(job)
        elif not operates:
            raise SlurmError("PRIO_RESET_FAIL")

    def _forget_eligible(self, job: Job) -> None:
        """A job held or released is eligible anew; slurmdbd is told that one that runs is not (_hold_job_rec)."""
        if job.begin < self.now:
            job.begin = 0
        if job.eligible < self.now:
            if job.active and job.eligible:
                job.request.extra["accrue_time"] = job.eligible
            job.eligible = 0

    def _renice(self, job: Job, nice: int, user: str) -> None:
        if nice < 0 and job.pending and not self.cluster.is_operator(user):
            raise SlurmError("ACCESS_DENIED")
        before, job.nice = job.nice, nice
        if not job.priority or (job.request.priority is not None and not job.factors):
            return  # an operator's number stays
        if self.weights.multifactor:
            self._set_priority(job)
        else:
            job.priority = max(job.priority + before - nice, 1)

    def _update_running(self, job: Job, changes: dict[str, Any], user: str) -> None:
        if "time_limit" in changes:
            limit = changes["time_limit"]
            if not self.cluster.is_operator(user) and (limit >= INFINITE or limit > job.time_limit):
                raise SlurmError("ACCESS_DENIED")
            job.time_limit, job.limit_set = limit, True
            job.end = job.start + job.suspended_s + min(limit * 60, YEAR_S)
            self.cluster.moved[job.job_id] = None
            self._watch_limit(job)
        if changes.get("qos") and changes["qos"] not in self.cluster.accounts.qos:
            raise SlurmError("INVALID_QOS")
        if "priority" in changes:
            self._reprioritize(job, changes["priority"] or 0, user)
        elif "nice" in changes:
            self._renice(job, changes["nice"], user)
        if changes.get("nodes") and changes["nodes"][0] > len(job.nodes):
            raise SlurmError("NOT_SUPPORTED")
        if "end" in changes:
            self._end_earlier(job, changes["end"], user)
        if "requeue" in changes:
            job.requeue = bool(changes["requeue"])
        same_size = changes.get("nodes") == (len(job.nodes), None)
        if changes.keys() & _PENDING_ONLY - ({"nodes"} if same_size else set()):
            raise SlurmError("JOB_NOT_PENDING")

    def _end_earlier(self, job: Job, end: int, user: str) -> None:
        """EndTime of a running job: its limit changes by whole minutes, rounded as C does (_update_job)."""
        if job.state != "RUNNING":
            raise SlurmError("JOB_NOT_RUNNING")
        if end < self.now:
            raise SlurmError("INVALID_TIME_VALUE")
        if not self.cluster.is_operator(user) and job.end <= end:
            raise SlurmError("ACCESS_DENIED")
        more = end - job.end + 30
        job.time_limit += more // 60 if more >= 0 else -(-more // 60)
        job.end, job.limit_set = end, True
        self.cluster.moved[job.job_id] = None
        self._watch_limit(job)

    def split_off(self, job_id: int, task: int) -> int:
        """The record of one task of an array: of one that waits it is made now (job_array_split)."""
        for job in self._task(job_id, task):
            if task not in job.array_left:
                return job.job_id
            job.array_left.remove(task)
            job.array_left.insert(0, task)
            return split_task(self.cluster, job).job_id
        raise SlurmError("INVALID_JOB_ID")

    def cancel(
        self,
        job_id: int,
        user: str,
        *,
        signal: int | None = None,
        task: int | None = None,
        alone: bool = False,
        script_only: bool = False,
    ) -> None:
        """scancel: end it, or send a signal; `alone`: this record, though the number names an array as well.

        Raises: SlurmError (ALREADY_DONE, INVALID_JOB_ID, ACCESS_DENIED).
        """
        jobs = self._records(job_id) if task is None else self._task(job_id, task)
        jobs = [job for job in jobs if job.job_id == job_id] if alone else jobs
        if not alone and task is None and jobs[0].array_task is not None and jobs[0].array_job_id != job_id:
            self._may(jobs[0], user)
            raise SlurmError(
                "ALREADY_DONE"
            )  # a task is known to scancel by its array's id alone (job_str_signal)
        if all(job.finished for job in jobs):
            raise SlurmError("ALREADY_DONE")
        if jobs[0].het_offset and jobs[0].pending:
            raise SlurmError("NOT_WHOLE_HET_JOB")
        for job in jobs:
            self._may(job, user)
            if job.finished:
                continue
            if job.active and (signal not in (None, 9) or script_only):
                if script_only and not job.batch:
                    raise SlurmError("JOB_SCRIPT_MISSING")
                if self.on_signal:
                    self.on_signal(job, signal or 9)
                continue
            if job.pending:
                if task is not None and task in job.array_left and len(job.array_left) > 1:
                    self._drop_task(job, task)
                    continue
                job.request.extra["cancelled_by"] = user
                self._remove(job, "CANCELLED")
            else:
                job.request.extra["cancelled_by"] = user
                self._end(job, "CANCELLED", kill=True, signal=signal or 15)

    def _drop_task(self, job: Job, task: int) -> None:
        """A task that had no record of its own leaves none (job_str_signal)."""
        job.array_left.remove(task)
        policy = self.cluster.policy(job, self.cluster.partitions[job.partitions[0]])
        limits.count_submitted(policy, job.user, job.account, -1)
        self.changed()

    def finish(self, job_id: int, exit_code: int = 0, signal: int = 0) -> None:
        """A running job's script has ended now."""
        job = self.cluster.jobs.get(job_id)
        if job is not None and (job.active or "COMPLETING" in job.flags):
            self.clock.at(self.now_us, "end", job_id, job.version, exit_code, signal)

    def step_start(self, job_id: int, step: Step) -> None:
        """The owner of scripts says a step runs."""
        self.cluster.jobs[job_id].steps.append(step)
        self._watch_step(job_id, step)

    def _watch_step(self, job_id: int, step: Step) -> None:
        """Limits of steps are looked at with those of jobs: whole minutes run (check_job_step_time_limit)."""
        limit = step.extra.get("time_limit", INFINITE)
        if limit < INFINITE:
            due = (step.start + limit * 60) * SECOND - self.boot_us
            when = self.boot_us + -(-due // TIME_LIMITS_US) * TIME_LIMITS_US
            self.clock.at(when, "step_limit", job_id, step.step_id)

    def _on_step_limit(self, job_id: int, step_id: str) -> None:
        job = self.cluster.jobs.get(job_id)
        for step in job.steps if job is not None and job.state == "RUNNING" else ():
            limit = step.extra.get("time_limit", INFINITE)
            if (
                job is not None
                and step.step_id == step_id
                and not step.end
                and step.start + limit * 60 <= self.now
            ):
                job.request.extra["signal_only"], step.state = f".{step_id}", "TIMEOUT"
                if self.on_signal:
                    self.on_signal(job, 9)

    def update_step(self, job_id: int, step_id: str, limit: int, user: str) -> None:
        """A time limit in minutes for one step, or ("") for all of a job. Raises: SlurmError."""
        job = self.cluster.jobs.get(job_id)
        if job is None:
            raise SlurmError("INVALID_JOB_ID")
        self._may(job, user, "USER_ID_MISSING")
        found = [step for step in job.steps if not step.end and step_id in ("", step.step_id)]
        if step_id and not found:
            raise SlurmError("INVALID_JOB_ID")
        for step in found if limit or not step_id else ():
            step.extra["time_limit"] = limit
            self._watch_step(job_id, step)

    def step_end(self, job_id: int, step_id: str, exit_code: int = 0, signal: int = 0) -> None:
        for step in self.cluster.jobs[job_id].steps:
            if step.step_id == step_id and not step.end:
                close_step(step, self.now, exit_code, signal)

    def _records(self, job_id: int, alone: bool = False) -> list[Job]:
        """A job, or all records of an array or heterogeneous job. Raises: SlurmError INVALID_JOB_ID."""
        cluster = self.cluster
        if alone and job_id in cluster.jobs:
            return [cluster.jobs[job_id]]
        ids = cluster.arrays.get(job_id, [job_id])
        found = [cluster.jobs[at] for at in ids if at in cluster.jobs]
        if found and found[0].het_job_id == job_id:
            found = [job for job in cluster.jobs.values() if job.het_job_id == job_id]
        if not found:
            raise SlurmError("INVALID_JOB_ID")
        return found

    def _task(self, job_id: int, task: int) -> list[Job]:
        found = [
            job
            for job in self._records(job_id)
            if job.array_job_id == job_id and (job.array_task == task or task in job.array_left)
        ]
        if not found:
            raise SlurmError("INVALID_JOB_ID")
        return found

    def _may(self, job: Job, user: str, refusal: str = "ACCESS_DENIED") -> None:
        if user != job.user and not self.cluster.is_operator(user):
            raise SlurmError(refusal)
