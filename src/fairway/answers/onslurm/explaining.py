"""Why does a Slurm job wait, in Slurm's words, with numbers; and the smallest change that would start it, tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fairway.answers.onslurm.planning import Planned, looked, plan_of
from fairway.answers.onslurm.shortfalls import matching, shortfalls
from fairway.errors import UserError
from fairway.ground.slurmground import SlurmMoment
from fairway.slurm.model.job import Job
from fairway.slurm.queueing import may_use
from fairway.slurm.records.record import PENDING, JobRecord
from fairway.slurm.records.reviving import Standing
from fairway.slurm.records.runtimes import RunTimes
from fairway.slurm.words.durations import INFINITE, clock_of_minutes, stamp

AHEAD_SHOWN = 5
_LIMIT_WORDS = ("QOS", "Assoc", "MaxJobs", "MaxCpu", "MaxGRES", "MaxMem", "MaxNode")


@dataclass(frozen=True, slots=True)
class Change:
    """A change that was tried: what, when the job starts then (0: not within the window), whether at once."""

    text: str
    start: int
    now: bool


@dataclass(frozen=True, slots=True)
class SlurmExplanation:
    """`facts`: sentences with numbers; `ahead`: who goes first; `changes`: best first."""

    label: str
    name: str
    user: str
    account: str
    partition: str
    state: str
    waits_s: int
    reason: str
    detail: str
    priority: int
    facts: tuple[str, ...]
    ahead: tuple[str, ...]
    start: int
    nodes: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def blocked(self) -> bool:
        return self.state == PENDING

    def as_json(self) -> dict[str, Any]:
        return {
            "job": self.label,
            "name": self.name,
            "user": self.user,
            "account": self.account,
            "partition": self.partition,
            "state": self.state,
            "waits": self.waits_s,
            "reason": self.reason,
            "detail": self.detail,
            "priority": self.priority,
            "facts": list(self.facts),
            "ahead": list(self.ahead),
            "slurmStart": stamp(self.start) if self.start else None,
            "nodes": list(self.nodes),
            "changes": [
                {"change": one.text, "start": stamp(one.start) if one.start else None, "atOnce": one.now}
                for one in self.changes
            ],
            "notes": list(self.notes),
        }


def explain_job(moment: SlurmMoment, name: str, *, changes: bool = True) -> SlurmExplanation:
    """`name`: a job id as squeue prints it, with or without `job/`. Raises: UserError for one that is not there."""
    label = name.removeprefix("job/")
    standing = looked(moment)
    job = standing.jobs.get(label)
    record = next((r for r in moment.records if r.label == label and r.submit <= moment.now), None)
    if record is None:
        waiting = [r.label for r in standing.of.values() if not r.start or r.start > moment.now]
        raise UserError(f"{name}: no such job; waiting are {', '.join(waiting[:8]) or 'none'}")
    if job is None:
        return _ended(moment, record, standing)
    plan = plan_of(standing, label)
    assert plan is not None
    facts, ahead = (_facts(moment, standing, job, plan), _ahead(standing, job)) if job.pending else ((), ())
    state = PENDING if job.pending else "RUNNING" if record.start and record.start <= moment.now else "STARTS"
    found = SlurmExplanation(
        label,
        record.name,
        record.user,
        record.account,
        ",".join(job.partitions),
        state,
        max(moment.now - max(record.submit, record.eligible), 0) if state != "RUNNING" else record.wait_s,
        plan.reason,
        plan.detail,
        plan.priority,
        tuple(facts),
        tuple(ahead),
        plan.start,
        plan.nodes,
        notes=(*moment.notes, *standing.left_out[:3]),
    )
    return (
        replace(found, changes=tuple(_changes(moment, standing, job, record, plan)))
        if changes and job.pending
        else found
    )


def _ended(moment: SlurmMoment, record: JobRecord, standing: Standing) -> SlurmExplanation:
    left = [said for said in standing.left_out if said.startswith(f"job {record.label}:")]
    fact = left or [f"it {'ran' if record.start else 'waited'} until {stamp(record.end)}"]
    return SlurmExplanation(
        record.label, record.name, record.user, record.account, record.partition, record.state, record.wait_s,
        record.reason, "", record.priority, tuple(fact), (), record.start, (),
    )  # fmt: skip


def _facts(moment: SlurmMoment, standing: Standing, job: Job, plan: Planned) -> list[str]:
    """What stands behind the reason."""
    controller, reason = standing.controller, plan.reason
    facts: list[str] = []
    if reason.startswith(_LIMIT_WORDS):
        facts += [str(one) for one in matching(shortfalls(controller, job), reason)]
    elif reason == "Dependency":
        facts.append(f"it waits for {standing.of[job.job_id].dependency or job.dependency_text}")
    elif reason == "BeginTime":
        facts.append(f"it asked to begin at {stamp(job.begin)}")
    elif reason.startswith("JobHeld"):
        who = "an administrator" if reason == "JobHeldAdmin" else "its user"
        facts.append(f"{who} holds it: scontrol release {job.job_id}")
    if reason not in ("Dependency", "BeginTime") and not reason.startswith("JobHeld"):
        facts.append(_room(controller, job))
    if plan.start:
        facts.append(
            f"backfill plans it for {stamp(plan.start)} on {', '.join(plan.nodes[:4]) or 'nodes that come free'}"
        )
    elif controller.backfills:
        window = controller.backfill_settings.window // 3600
        facts.append(f"backfill has no start for it within bf_window ({window} h) and bf_max_job_test")
    return facts


def _room(controller: Any, job: Job) -> str:
    """Free GPUs or CPUs of its partition against what it needs on each node."""
    cluster = controller.cluster
    nodes = sorted({at for name in job.partitions for at in cluster.partitions[name].nodes})
    need = max(job.min_nodes, 1)
    gpus = sum(count for name, count in job.request.tres_per_node.items() if name.split(":")[0] == "gpu")
    free: list[tuple[int, str]] = []
    for at in nodes:
        node = cluster.nodes[at]
        asked = not job.nodelist or at in job.nodelist
        if not node.available or not asked or at in job.exclude:
            continue
        if gpus:
            have = sum(
                g.count - node.used_gres.get(g.name, 0).bit_count() for g in node.conf.gres if g.name == "gpu"
            )
        else:
            have = node.conf.cpus - node.used_cpus
        free.append((have, node.name))
    free.sort(reverse=True)
    each = gpus or -(-job.min_cpus // need)
    what = "GPUs" if gpus else "CPUs"
    fits = sum(1 for have, _ in free if have >= each)
    most = f"{free[0][0]} on {free[0][1]}" if free else "none"
    total = sum(have for have, _ in free)
    missing = max(need - fits, 0)
    return (
        f"it needs {each} {what} on each of {need} node{'s' if need > 1 else ''}; {fits} of {len(nodes)} nodes have "
        f"that free (most: {most}; {total} in all): {missing} node{'s' if missing != 1 else ''} short"
    )


def _ahead(standing: Standing, job: Job) -> list[str]:
    """Pending jobs with more priority that could take the same nodes."""
    mine = set(job.partitions)
    others = [
        other
        for other in standing.controller.cluster.pending.values()
        if other is not job and other.priority > job.priority and mine & set(other.partitions)
    ]
    others.sort(key=lambda other: (-other.priority, other.job_id))
    lines = []
    for other in others[:AHEAD_SHOWN]:
        record = standing.of[other.job_id]
        when = f"planned {stamp(other.start)}" if other.start else "not planned"
        lines.append(
            f"{record.label} {record.name} of {record.user}: priority {other.priority} against {job.priority}, "
            f"{record.gpus} GPUs on {other.min_nodes} node{'s' if other.min_nodes > 1 else ''}, {when}"
        )
    if len(others) > AHEAD_SHOWN:
        lines.append(f"… and {len(others) - AHEAD_SHOWN} more")
    return lines


def _changes(
    moment: SlurmMoment, standing: Standing, job: Job, record: JobRecord, plan: Planned
) -> list[Change]:
    """Each on a slurmctld of its own; those that help, those that start it at once first."""
    found: list[Change] = []
    for text, changed in _proposals(moment, standing, job, record):
        records = tuple(changed if r is record else r for r in moment.records)
        after = looked(moment, records)
        got = plan_of(after, record.label)
        if got is None:
            continue
        if got.runs:
            found.append(Change(text, moment.now, True))
        elif got.start and (not plan.start or got.start < plan.start):
            found.append(Change(text, got.start, False))
    found.sort(key=lambda one: (not one.now, 0 if one.now else one.start))
    return found[:4]


def _proposals(
    moment: SlurmMoment, standing: Standing, job: Job, record: JobRecord
) -> list[tuple[str, JobRecord]]:
    """From the smallest on: time, release, QOS, partition, size."""
    found: list[tuple[str, JobRecord]] = []
    if record.reason.startswith("JobHeld") or job.reason.startswith("JobHeld"):
        found.append((f"scontrol release {record.label}", replace(record, reason="None")))
    limit = job.time_limit if job.time_limit < INFINITE else 7 * 1440
    usual = RunTimes(moment.past, moment.now).median(record) // 60 * 5 // 4 + 1
    found += [
        (f"--time={clock_of_minutes(minutes)}", replace(record, limit=minutes))
        for minutes in sorted({usual, limit // 2, limit // 4, limit // 8, 60, 30}, reverse=True)
        if 0 < minutes < limit
    ]
    cluster = standing.controller.cluster
    found += [
        (f"--qos={qos.name}", replace(record, qos=qos.name))
        for qos in cluster.accounts.qos.values()
        if qos.name != record.qos and qos.priority
    ]
    found += [
        (f"--partition={part.name}", replace(record, partition=part.name))
        for part in cluster.partitions.values()
        if part.name not in job.partitions and may_use(job, part)
    ]
    gpus = record.tres.get("gres/gpu", 0)
    if record.nodes > 1:
        for nodes in range(record.nodes - 1, 0, -max(record.nodes // 4, 1)):
            smaller = {name: count * nodes // record.nodes for name, count in record.tres.items()}
            found.append((f"--nodes={nodes}", replace(record, nodes=nodes, tres=smaller)))
    elif gpus > 1:
        for count in sorted({gpus // 2, gpus // 4, 1} - {0}, reverse=True):
            smaller = {
                n: c * count // gpus if n.startswith("gres/gpu") else c for n, c in record.tres.items()
            }
            found.append((f"--gpus={count}", replace(record, tres=smaller)))
    return found
