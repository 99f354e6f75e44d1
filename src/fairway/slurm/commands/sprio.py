"""sprio: what makes the priority of pending jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.formats import Table, columns_of, short_format
from fairway.slurm.commands.getopt import parse, short_table
from fairway.slurm.model.job import Job

_OPTIONS = short_table(
    "noheader:h jobs:j? long:l cluster:M: clusters:M: norm:n format:o: partition:p: sort:S: user:u: users:u: verbose:v "
    "version:V weights:w federation local sibling help usage"
)
_FORMATS = {
    "": "%.15i %9r %.10Y %.10S %.10A %.10F %.10J %.10P %.10Q",
    "user": "%.15i %9r %.8u %.10Y %.10S %.10A %.10F %.10J %.10P %.10Q",
    "long": "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T",
    "norm": "%.15i %9r %10y %10a %10f %10j %10p %10q",
    "norm user": "%.15i %9r %.8u %10y %10a %10f %10j %10p %10q",
    "norm long": "%.15i %9r %.8u %10y %10a %10b %10f %10j %10p %10q %20t",
    "weights": "%.15i %9r %.10Y %.10S %.10A %.10F %.10J %.10P %.10Q",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A pending job in one of its partitions; weights: None, or the line of weights is meant."""

    call: Call
    job: Job | None
    partition: str
    priority: int = 0


def sprio(call: Call) -> None:
    asked: dict[str, Any] = {}
    parsed = parse(call, _OPTIONS, call.arguments)
    for name, value in parsed:
        if name == "version":
            call.print(VERSION)
            call.quit(0)
        if name in ("help", "usage"):
            call.print("Usage: sprio [-j jid[s]] [-u user_name[s]] [-o format] [-p partitions]")
            call.print("   [--federation] [--local] [--sibling] [--usage] [-hlnvVw]")
            call.quit(0)
        asked["user" if name == "users" else name] = True if value is None else value
    if parsed.rest and asked.get("jobs") is True:
        asked["jobs"] = parsed.rest.pop(0)
    if call.site.conf.get("PriorityType", "priority/basic").endswith("basic"):
        call.error("You are not running a supported priority plugin")
        call.say(f"({call.site.conf.get('PriorityType', 'priority/basic')}).")
        call.say("Only 'priority/multifactor' is supported.")
        call.quit(1)
    kind = " ".join(k for k in ("norm", "long") if k in asked) or ("weights" if "weights" in asked else "")
    if "user" in asked and "long" not in asked and "weights" not in asked:
        kind = f"{kind} user".strip()
    fields = short_format(
        call,
        columns_of("sprio", "job"),
        asked.get("format") or _FORMATS[kind],
        lambda c: call.error(f"Invalid job format specification: {c}"),
        shown=False,
    )
    heading = TABLE.heading(fields)
    users = _users(call, asked, heading if "noheader" not in asked else "")
    rows = _rows(call, asked, users)
    if "weights" in asked:
        if "noheader" not in asked:
            call.print(heading)
        call.print(TABLE.line(fields, Row(call, None, "")))
        return
    if not rows and any(k in asked for k in ("jobs", "user", "partition")) and users != []:
        call.print("Unable to find jobs matching user/id(s) specified")
        return
    _sort(rows, asked.get("sort") or "i,r")
    if "noheader" not in asked:
        call.print(heading)
    for row in rows:
        call.print(TABLE.line(fields, row))


def _users(call: Call, asked: dict[str, Any], heading: str) -> list[str] | None:
    if "user" not in asked:
        return None
    found = []
    for word in asked["user"].split(","):
        uid = call.site.uid(word)
        if uid is None:
            call.error(f"Invalid user: {word}\n")
            continue
        found.append(call.site.user(uid))
    return found


def _rows(call: Call, asked: dict[str, Any], users: list[str] | None) -> list[Row]:
    ids = {
        int(w.partition("_")[0])
        for w in str(asked.get("jobs", "")).split(",")
        if w.partition("_")[0].isdigit()
    }
    partitions = asked["partition"].split(",") if "partition" in asked else None
    rows = []
    for job in call.site.cluster.jobs.values():
        waits = job.begin > call.now or not job.pending or not job.priority
        if waits or (ids and not ids & {job.job_id, job.array_job_id}):
            continue
        if (users is not None and job.user not in users) or job.request.hold:
            continue
        names = job.partitions if len(job.partitions) > 1 else (job.partition,)
        for at, name in enumerate(names):
            own = job.priority_by_partition[at] if at < len(job.priority_by_partition) else job.priority
            if partitions is None or name in partitions:
                rows.append(Row(call, job, name, own))
    return rows


def _sort(rows: list[Row], keys: str) -> None:
    for at in range(len(keys) - 1, -1, -1):
        key = _SORTS.get(keys[at])
        if key is not None:
            rows.sort(key=key, reverse=at > 0 and keys[at - 1] == "-")


_WEIGHTS = {
    "age": "PriorityWeightAge",
    "assoc": "PriorityWeightAssoc",
    "fs": "PriorityWeightFairshare",
    "js": "PriorityWeightJobSize",
    "part": "PriorityWeightPartition",
    "qos": "PriorityWeightQOS",
}


def _weight(call: Call, factor: str) -> int:
    return call.site.conf.number(_WEIGHTS[factor], 0)


def factor_of(row: Row, name: str) -> float:
    """A weighted factor of a job's priority; 0 where an administrator set the priority."""
    job = row.job
    assert job is not None
    if name == "part" and row.partition in row.call.site.cluster.partitions:
        most = max((p.priority_job_factor for p in row.call.site.cluster.partitions.values()), default=1)
        own = row.call.site.cluster.partitions[row.partition].priority_job_factor
        return _weight(row.call, "part") * own / most if job.factors else 0.0
    return float(job.factors.get(name, 0))


def _weighted(name: str) -> Callable[[Row], str]:
    def value(row: Row) -> str:
        return str(_weight(row.call, name)) if row.job is None else f"{factor_of(row, name):.0f}"

    return value


def _normal(name: str) -> Callable[[Row], str]:
    def value(row: Row) -> str:
        if row.job is None:
            return ""
        weight = _weight(row.call, name)
        return f"{factor_of(row, name) / weight if weight else 0:.7f}"

    return value


def _of_job(of: Callable[[Row, Job], str], otherwise: str = "") -> Callable[[Row], str]:
    return lambda row: otherwise if row.job is None else of(row, row.job)


VALUES: dict[str, Callable[[Row], str]] = {
    "job_id": _of_job(lambda r, j: str(j.job_id), "Weights"),
    "partition": lambda r: r.partition,
    "user_name": _of_job(lambda r, j: j.user),
    "cluster_name": lambda r: r.call.site.name,
    "job_priority_weighted": _of_job(lambda r, j: str(r.priority)),
    "job_priority_normalized": _of_job(lambda r, j: f"{r.priority / 0xFFFFFFFF:16.14f}"),
    "site_priority": _of_job(lambda r, j: f"{j.factors.get('site', 0):.0f}", "1"),
    "job_nice": _of_job(lambda r, j: str(j.nice)),
    "tres_weighted": lambda r: "",
    "tres_normalized": lambda r: "",
    **{f"{name}_priority_weighted": _weighted(name) for name in _WEIGHTS},
    **{f"{name}_priority_normalized": _normal(name) for name in _WEIGHTS},
}
TABLE: Table[Row] = Table(VALUES)


def _by_factor(name: str) -> Callable[[Row], Any]:
    return lambda row: factor_of(row, name)


_SORTS: dict[str, Callable[[Row], Any]] = {
    "i": lambda r: r.job.job_id if r.job else 0,
    "u": lambda r: r.job.user if r.job else "",
    "r": lambda r: r.partition,
    "Y": lambda r: r.priority,
    "y": lambda r: r.priority,
    "N": lambda r: r.job.nice if r.job else 0,
}
for _name, _letters in {
    "age": "Aa",
    "assoc": "Bb",
    "fs": "Ff",
    "js": "Jj",
    "part": "Pp",
    "qos": "Qq",
}.items():
    _SORTS |= {letter: _by_factor(_name) for letter in _letters}
