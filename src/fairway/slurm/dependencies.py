"""May a job go, as far as other jobs are concerned? (job_scheduler.c: test_job_dependency.)"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fairway.slurm.cluster import Cluster
from fairway.slurm.model.job import Dependency, Job
from fairway.slurm.words.errors import SlurmError

KINDS = ("after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer", "singleton", "expand")
MAX_TERMS = 1_024
_NO_TASK = -1
"""Every task of what is no array: there is none."""
MAX_DEPTH = 10
"""max_depend_depth: how far a circle is looked for."""

_TARGET = re.compile(r"(\d{1,20})(?:_(\d{1,20}|\*))?(?:\+(\d{1,20}))?$")


def parse(cluster: Cluster, text: str, job_id: int) -> list[Dependency]:
    """The terms of `--dependency`; `0` or nothing clears. Raises: SlurmError DEPENDENCY, CIRCULAR_DEPENDENCY."""
    if text in ("", "0"):
        return []
    any_of = "?" in text
    found: list[Dependency] = []
    for part in re.split("[,?]", text):
        kind, colon, rest = part.partition(":")
        if kind.lower() == "singleton":
            if colon:
                raise SlurmError("DEPENDENCY")
            found.append(Dependency("singleton", 0, any_of=any_of))
            continue
        if part.isdecimal():
            kind, rest, colon = "afterany", part, ":"
        if kind.lower() not in KINDS or not colon:
            raise SlurmError("DEPENDENCY")
        if kind.lower() == "expand" and not cluster.conf.has_option("permit_job_expansion"):
            raise SlurmError("NOT_SUPPORTED")
        for target in rest.split(":"):
            match = _TARGET.match(target)
            if match is None or int(match[1]) in (0, job_id) or len(found) >= MAX_TERMS:
                raise SlurmError("DEPENDENCY")
            if match[3] is not None and not int(match[3]):
                raise SlurmError("DEPENDENCY")
            is_array = int(match[1]) in cluster.arrays
            task = (
                None
                if match[2] is None or (match[2] == "*" and is_array)
                else (_NO_TASK if match[2] == "*" else int(match[2]))
            )
            minutes = int(match[3] or 0)
            whole = task is None and is_array
            found.append(
                Dependency(kind.lower(), int(match[1]), task, minutes, any_of=any_of, whole_array=whole)
            )
    if _circular(cluster, found, job_id, MAX_DEPTH):
        raise SlurmError("CIRCULAR_DEPENDENCY")
    return found


def _circular(cluster: Cluster, terms: Iterable[Dependency], job_id: int, depth: int) -> bool:
    for term in terms:
        if term.job_id == job_id and job_id:
            return True
        other = cluster.jobs.get(term.job_id)
        if (
            depth
            and other
            and other.dependencies
            and _circular(cluster, other.dependencies, job_id, depth - 1)
        ):
            return True
    return False


def check(cluster: Cluster, job: Job, now: int) -> str:
    """'' free to go, 'wait', or 'never'. Terms that hold are dropped; failed ones are marked."""
    if not job.dependencies:
        return ""
    for term in job.dependencies:
        if term.state == "unfulfilled":
            term.state = _state(cluster, job, term, now)
    any_of = job.dependencies[0].any_of
    states = [term.state for term in job.dependencies]
    if (any_of and "fulfilled" in states) or all(state == "fulfilled" for state in states):
        job.dependencies.clear()
        return ""
    job.dependencies[:] = [term for term in job.dependencies if term.state != "fulfilled"]
    failed = [state == "failed" for state in states]
    return "never" if (all(failed) if any_of else any(failed)) else "wait"


def written(job: Job) -> str:
    """As squeue and scontrol print it: `afterok:1(unfulfilled),…`."""
    words = []
    for term in job.dependencies:
        if term.kind == "singleton":
            words.append(f"singleton({term.state})")
            continue
        array = cluster_suffix(term)
        minutes = f"+{term.minutes}" if term.minutes else ""
        words.append(f"{term.kind}:{term.job_id}{array}{minutes}({term.state})")
    joint = "?" if job.dependencies and job.dependencies[0].any_of else ","
    return joint.join(words)


def cluster_suffix(term: Dependency) -> str:
    return ("_*" if term.whole_array else "") if term.task is None else f"_{term.task}"


def _targets(cluster: Cluster, term: Dependency) -> list[Job]:
    """The records meant: of an array all its records, or the task's; gone ones are none."""
    ids = cluster.arrays.get(term.job_id)
    if ids is None:
        job = cluster.jobs.get(term.job_id)
        return [] if job is None or term.task is not None else [job]
    records = [cluster.jobs[at] for at in ids if at in cluster.jobs]
    if term.task is None:
        return records
    return [one for one in records if one.array_task == term.task or term.task in one.array_left]


def _state(cluster: Cluster, job: Job, term: Dependency, now: int) -> str:
    if term.kind == "singleton":
        name = job.request.name
        others = (
            one
            for group in (cluster.pending, cluster.running)
            for one in group.values()
            if one.user == job.user and one.request.name == name and one.job_id < job.job_id
        )
        busy = any(not job.array_job_id or one.array_job_id != job.array_job_id for one in others)
        return "unfulfilled" if busy else "fulfilled"
    if term.kind == "aftercorr":
        task = job.array_task if term.job_id in cluster.arrays else None
        term = Dependency(term.kind, term.job_id, task)
    records = _targets(cluster, term)
    if not records:
        return "fulfilled"
    if term.kind == "after":
        started = all(not one.pending and now >= one.start + term.minutes * 60 for one in records)
        return "fulfilled" if started else "unfulfilled"
    if any(not is_over(one) for one in records):
        return "unfulfilled"
    if term.kind in ("afterok", "aftercorr"):
        return "fulfilled" if all(one.state == "COMPLETED" for one in records) else "failed"
    if term.kind == "afternotok":
        return "fulfilled" if any(one.state != "COMPLETED" for one in records) else "failed"
    return "fulfilled"


def is_over(job: Job) -> bool:
    """Ended, and nothing of it is still completing."""
    return job.finished and "COMPLETING" not in job.flags
