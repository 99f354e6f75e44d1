"""sprio: what makes the priority of pending jobs."""

from __future__ import annotations

import re
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
_USAGE = """\
Usage: sprio [-j jid[s]] [-u user_name[s]] [-o format] [-p partitions]
   [--federation] [--local] [--sibling] [--usage] [-hlnvVw]
"""
_LONG = "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T"
_LONG_NORMAL = "%.15i %9r %.8u %10y %10a %10b %10f %10j %10p %10q %20t"
_OF_FACTORS = {"age": "A", "assoc": "B", "fs": "F", "js": "J", "part": "P", "qos": "Q"}
_SORT_LETTERS = "ciNruAaFfJjPpQqTtYy"


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
            call.write(_USAGE)
            call.quit(0)
        asked["user" if name == "users" else name] = True if value is None else value
    _refuse(call, asked, parsed.rest)
    if call.site.conf.get("PriorityType", "priority/basic").endswith("basic"):
        call.error("You are not running a supported priority plugin")
        call.say(f"({call.site.conf.get('PriorityType', 'priority/basic')}).")
        call.say("Only 'priority/multifactor' is supported.")
        call.quit(1)
    fields = short_format(
        call,
        columns_of("sprio", "job"),
        str(asked.get("format", _format(call, asked))),
        lambda c: call.error(f"Invalid job format specification: {c}"),
        shown=False,
        all_columns=False,
    )
    users = _users(call, asked)
    rows = _rows(call, asked, users)
    if not rows and asked.get("jobs", True) is not True:
        call.print("Unable to find jobs matching user/id(s) specified")
        return
    if "noheader" not in asked:
        call.print(TABLE.heading(fields))
    if "weights" in asked:
        rows = [Row(call, None, "")]
    else:
        _sort(call, rows, asked.get("sort") or "i,r")
    for row in rows:
        call.print(TABLE.line(fields, row))


def _refuse(call: Call, asked: dict[str, Any], rest: list[str]) -> None:
    """What sprio says before it asks the controller; the environment's format, and a job id that stands alone."""
    if "long" in asked and "format" in asked:
        call.fatal("Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.")
    if "long" not in asked and "format" not in asked and "SPRIO_FORMAT" in call.environment:
        asked["format"] = call.environment["SPRIO_FORMAT"]
    if rest and "jobs" in asked:
        asked["jobs"] = rest.pop(0)
    for word in filter(None, str(asked["jobs"]).split(",")) if asked.get("jobs", True) is not True else ():
        if not _job_id(call, word):
            call.fail(f"Invalid job id: {word}")
    if rest:
        call.error(f"Unrecognized option: {rest[0]}")
        call.write(_USAGE)
        call.quit(1)
    call.check_clusters(asked.get("clusters") or asked.get("cluster"))


def _job_id(call: Call, word: str) -> int:
    """`7`, the record of task `7_3`, or of component `7+1`; 0 for what is none (slurm_xlate_job_id)."""
    number, mark, within = word.partition("_" if "_" in word else "+")
    if not re.fullmatch(r"\d{1,9}", number) or (mark and not re.fullmatch(r"\d{1,9}", within)):
        return 0
    if not mark:
        return int(number)
    for job in call.site.cluster.listed():
        at = (job.array_job_id, job.array_task) if mark == "_" else (job.het_job_id, job.het_offset)
        if at == (int(number), int(within)):
            return job.job_id
    return 0


def _format(call: Call, asked: dict[str, Any]) -> str:
    """The columns without -o: of the factors, those that weigh anything (main in sprio.c)."""
    normal = "norm" in asked
    if "long" in asked:
        return _LONG_NORMAL if normal else _LONG
    found = ["%.15i %9r"] + (["%.8u"] if "user" in asked else [])
    found.append("%10y" if normal else "%.10Y %.10S")
    for factor, letter in _OF_FACTORS.items():
        if _weight(call, factor):
            found.append(f"%10{letter.lower()}" if normal else f"%.10{letter}")
    if call.site.conf.get("PriorityWeightTRES"):
        found.append("%20t" if normal else "%.20T")
    return " ".join(found)


def _users(call: Call, asked: dict[str, Any]) -> list[str] | None:
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
    wanted = asked.get("jobs", True)
    ids = (
        {_job_id(call, word) for word in filter(None, str(wanted).split(","))}
        if wanted is not True
        else set()
    )
    partitions = asked["partition"].split(",") if "partition" in asked else None
    rows = []
    for job in call.site.cluster.listed():
        waits = job.begin > call.now or not job.pending or not job.priority
        if waits or (ids and not ids & {job.job_id, job.array_job_id}):
            continue
        if (users is not None and job.user not in users) or job.request.hold:
            continue
        names = job.partitions if len(job.partitions) > 1 else (job.partition,)
        for at, name in enumerate(names):
            own = job.priority_by_partition[at] if at < len(job.priority_by_partition) else _counted(job)
            if partitions is None or name in partitions:
                rows.append(Row(call, job, name, own))
    return rows


def _counted(job: Job) -> int:
    """The priority by its factors as they were last counted, whatever `scontrol top` did since."""
    if not job.factors:
        return job.priority
    nice = job.factors.get("nice", 0)
    return max(int(sum(value for name, value in job.factors.items() if name != "nice")) - int(nice), 1)


def _sort(call: Call, rows: list[Row], keys: str) -> None:
    for at in range(len(keys) - 1, -1, -1):
        letter = keys[at]
        if letter in ",+-":
            continue
        if letter not in _SORT_LETTERS:
            call.fail(f"Invalid sort specification: {letter}")
        key = _SORTS.get(letter)
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
        weight = _weight(row.call, name)
        if row.job is None:
            return str(weight)
        return f"{factor_of(row, name) / weight if weight else 0:.7f}"

    return value


def _of_job(of: Callable[[Row, Job], str], otherwise: str = "") -> Callable[[Row], str]:
    return lambda row: otherwise if row.job is None else of(row, row.job)


VALUES: dict[str, Callable[[Row], str]] = {
    "job_id": _of_job(lambda r, j: str(j.job_id), "Weights"),
    "partition": lambda r: r.partition,
    "user_name": _of_job(lambda r, j: j.user),
    "cluster_name": lambda r: "(null)",
    "job_priority_weighted": _of_job(lambda r, j: str(r.priority)),
    "job_priority_normalized": _of_job(lambda r, j: f"{r.priority / 0xFFFFFFFF:16.14f}"),
    "site_priority": _of_job(lambda r, j: f"{j.factors.get('site', 0):.0f}", "1"),
    "job_nice": _of_job(lambda r, j: f"{j.factors.get('nice', 0):.0f}"),
    "tres_weighted": lambda r: _tres(r, weighted=True),
    "tres_normalized": lambda r: _tres(r, weighted=False),
    **{f"{name}_priority_weighted": _weighted(name) for name in _WEIGHTS},
    **{f"{name}_priority_normalized": _normal(name) for name in _WEIGHTS},
}
TABLE: Table[Row] = Table(VALUES)


def _tres(row: Row, weighted: bool) -> str:
    """`CPU=250,GRES/gpu=500`, as PriorityWeightTRES writes the names; parts of one without the weights."""
    written = row.call.site.conf.get("PriorityWeightTRES", "")
    if row.job is None:
        return (written or "(null)") if weighted else ""
    found = []
    for part in written.split(","):
        name, _, weight = part.partition("=")
        value = row.job.factors.get(f"tres:{name.strip().lower()}", 0.0)
        if value:
            shown = f"{value:.0f}" if weighted else f"{value / float(weight):.2f}"
            found.append(f"{name.strip().lower()}={shown}")
    return ",".join(found)


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
