"""squeue: jobs in the queue."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from typing import Any

from fairway.kube.integers import natural
from fairway.slurm.commands import jobtext
from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.formats import Field, Table, columns_of, long_format, short_format
from fairway.slurm.commands.getopt import parse, short_table
from fairway.slurm.commands.squeuevalues import TABLE, Row, left_of, limit_text
from fairway.slurm.commands.steps import StepRow, step_rows
from fairway.slurm.model.job import Job
from fairway.slurm.words import durations, hostlist
from fairway.slurm.words.durations import INFINITE

_OPTIONS = short_table(
    "accounts:A: all:a array:r array-unique Format:O: format:o: federation help hide iterate:i: jobs:j? local long:l "
    "licenses:L: cluster:M: clusters:M: me name:n: noconvert node:w: nodes:w: nodelist:w: noheader:h partitions:p: "
    "priority:P qos:q: reservation:R: sib sibling sort:S: start steps:s? states:t: usage user:u: users:u: verbose:v "
    "version:V json yaml"
)
USAGE = """\
Usage: squeue [-A account] [--clusters names] [-i seconds] [--job jobid]
              [-n name] [-o format] [-p partitions] [--qos qos]
              [--reservation reservation] [--sort fields] [--start]
              [--step step_id] [-t states] [-u user_name] [--usage]
              [-L licenses] [-w nodes] [--federation] [--local] [--sibling]
\t      [-ahjlrsv]
"""
_DEFAULT = (
    "jobarrayid:.18 ,partition:.9 ,name:.8 ,username:.8 ,statecompact:.2 ,timeused:.10 ,numnodes:.6 ,"
    "reasonlist:0"
)
_LONG = (
    "jobarrayid:.18 ,partition:.9 ,name:.8 ,username:.8 ,state:.8 ,timeused:.10 ,timelimit:.9 ,numnodes:.6 ,"
    "reasonlist:0"
)
_START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
_STEPS = "%.15i %.8j %.9P %.8u %.9M %N"
_ALIKE = {"cluster": "clusters", "node": "nodelist", "nodes": "nodelist", "user": "users"}
_VARIABLES = {
    "all": "SQUEUE_ALL",
    "array": "SQUEUE_ARRAY",
    "priority": "SQUEUE_PRIORITY",
    "sort": "SQUEUE_SORT",
    "accounts": "SQUEUE_ACCOUNT",
    "name": "SQUEUE_NAMES",
    "licenses": "SQUEUE_LICENSES",
    "partitions": "SQUEUE_PARTITION",
    "qos": "SQUEUE_QOS",
    "states": "SQUEUE_STATES",
    "users": "SQUEUE_USERS",
}


def squeue(call: Call) -> None:
    asked: dict[str, Any] = {}
    parsed = parse(call, _OPTIONS, call.arguments)
    for name, value in parsed:
        name = _ALIKE.get(name, name)
        if name == "version":
            call.print(VERSION)
            call.quit(0)
        if name in ("help", "usage"):
            call.write(USAGE)
            call.quit(0)
        if name == "me":
            name, value = "users", call.user
        if name == "Format" and "format" in asked:
            call.fail("-O (--Format) is incompatible with -o (--format)")
        if name == "format" and "Format" in asked:
            call.fail("-o (--format) is incompatible with -O (--Format)")
        asked[name] = True if value is None else value
        if name == "partitions":
            asked["all"] = True
    if parsed.rest and asked.get("jobs") is True:
        asked["jobs"] = parsed.rest.pop(0)
    elif parsed.rest and asked.get("steps") is True:
        asked["steps"] = parsed.rest.pop(0)
    if parsed.rest:
        call.error(f"Unrecognized option: {parsed.rest[0]}")
        call.write(USAGE)
        call.quit(1)
    formatted = asked.keys() & {"format", "Format", "long", "start", "steps"}
    for name, variable in (
        _VARIABLES | ({} if formatted else {"format": "SQUEUE_FORMAT", "Format": "SQUEUE_FORMAT2"})
    ).items():
        if name not in asked and call.environment.get(variable):
            asked[name] = call.environment[variable]
    if "long" in asked and "format" in asked:
        call.fatal("Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.")
    call.check_clusters(asked.get("clusters"))
    if "iterate" in asked and not str(asked["iterate"]).lstrip("0").isdecimal():
        call.error(f"--iterate={asked['iterate']}")
        call.say("")
        call.quit(1)
    try:
        names = hostlist.expand(asked["nodelist"]) if "nodelist" in asked else ()
    except hostlist.HostlistError:
        call.fail(f"'{asked['nodelist']}' invalid entry for --nodelist")
    for name in names:
        if name not in call.site.cluster.node_index:
            call.fail(f"Invalid node name {name}")
    if "steps" in asked:
        _print_steps(call, asked)
    else:
        _print_jobs(call, asked)


def _print_jobs(call: Call, asked: dict[str, Any]) -> None:
    if "start" in asked:
        asked.setdefault("format", _START)
        asked.setdefault("sort", "S")
        asked.setdefault("states", "PD")
    states = _states(call, asked.get("states"))
    jobs = _selected(call, asked, states)
    if "json" in asked or "yaml" in asked:
        from fairway.slurm.commands.restdata import print_data

        print_data(call, "jobs", [r.job for r in jobs], "yaml" in asked)
        return
    if "long" in asked:
        call.print(_date(call))
    call.print_cluster(asked)
    fields = _fields(call, asked)
    if "noheader" not in asked:
        call.print(TABLE.heading(fields))
    ordered = _sorted(call, jobs, asked.get("sort") or "P,t,-p", "priority" in asked)
    for row in ordered:
        call.print(TABLE.line(fields, row))


def _date(call: Call) -> str:
    return durations.stamp(call.now, "%a %b %d %H:%M:%S %Y")


def _fields(call: Call, asked: dict[str, Any]) -> list[Field]:
    columns = columns_of("squeue", "job")
    if "format" in asked:
        return short_format(
            call, columns, asked["format"], lambda c: call.error(f"Invalid job format specification: {c}")
        )
    text = asked.get("Format", _LONG if "long" in asked else _DEFAULT)
    return long_format(call, columns, str(text))


def _states(call: Call, text: str | None) -> set[str] | None:
    """The states asked for; None: those of jobs that are not over."""
    if text is None:
        return None
    if text.lower() == "all":
        return set(jobtext.COMPACT)
    found = set()
    for word in text.split(","):
        name = next((n for n, c in jobtext.COMPACT.items() if word.upper() in (n, c)), None)
        if name is None:
            call.error(f"Invalid job state specified: {word}")
            call.error(f"Valid job states include: {','.join(jobtext.COMPACT)}")
            call.say("")
            call.quit(1)
        found.add(name)
    return found


def _words(text: Any) -> list[str] | None:
    return [w for w in text.split(",") if w] if isinstance(text, str) else None


def _job_ids(call: Call, text: Any) -> list[tuple[int, int | None]] | None:
    """`7,5_3,5_[1-2]` as (job id, task)."""
    if not isinstance(text, str):
        return None
    found: list[tuple[int, int | None]] = []
    for word in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        match = re.fullmatch(r"(\d{1,10})(?:_(\d+)|_\[([\d,-]+)\])?(?:\+\d+)?", word)
        if match is None:
            call.error(f"Invalid job id: {word}")
            call.quit(1)
        tasks = hostlist.task_numbers(match[2], match[3])
        found += [(int(match[1]), task) for task in ((None,) if tasks is None else sorted(tasks))]
    return found


def _selected(call: Call, asked: dict[str, Any], states: set[str] | None) -> list[Row]:
    ids = _job_ids(call, asked.get("jobs"))
    users = _users(call, asked.get("users"))
    jobs = call.site.cluster.listed()
    if ids and len(ids) == 1:
        mine = [
            j
            for j in call.site.cluster.jobs.values()
            if ids[0][0] in (j.job_id, j.array_job_id, j.het_job_id)
        ]
        if not mine:
            call.say("slurm_load_jobs error: Invalid job id specified")
            call.quit(1)
        # The controller finds tasks of an array through a chain: the rest of the array, then the last that split off.
        jobs = [j for j in mine if j.array_left] + [j for j in mine if not j.array_left][::-1]
    wanted: list[Job] = []
    for job in jobs:
        wanted += _shown(call, asked, job, ids, users, states)
    rows = []
    for job in wanted:
        own = _words(asked.get("partitions"))
        if "priority" in asked:
            rows += [Row(call, job, p) for p in job.partition.split(",") if own is None or p in own]
        elif own is None or any(p in own for p in job.partition.split(",")):
            rows.append(Row(call, job, job.partition))
    return rows if {"array", "array-unique", "json", "yaml"} & asked.keys() else _combined(rows)


def _combined(rows: list[Row]) -> list[Row]:
    """Tasks that wait beside the rest of their array stand in its line (_combine_pending_array_tasks)."""
    merged: dict[int, Row] = {}
    gone: set[int] = set()
    for row in rows:
        if row.job.pending and row.job.array_left:
            mine = [
                other.job
                for other in rows
                if other is not row and other.job.pending and _is_same_array(row, other)
            ]
            if mine:
                merged[id(row)] = Row(row.call, _with_tasks(row.job, mine), row.partition)
                gone |= {id(one) for one in mine}
    return [merged.get(id(row), row) for row in rows if id(row.job) not in gone]


def _is_same_array(row: Row, other: Row) -> bool:
    mine, its = row.job, other.job
    return (mine.array_job_id, mine.request.name, mine.partition) == (
        its.array_job_id,
        its.request.name,
        its.partition,
    )


def _with_tasks(job: Job, tasks: list[Job]) -> Job:
    one = _task(
        job, sorted({*job.array_left, *(t.array_task for t in tasks if t.array_task is not None)}), None
    )
    one.array_max_running = 0
    for task in tasks:
        if task.reason not in one.reason:
            one.reason = f"{one.reason},{task.reason}"
    return one


def _users(call: Call, text: Any) -> list[str] | None:
    words = _words(text)
    if words is None:
        return None
    names = []
    for word in words:
        uid = call.site.uid(word)
        if uid is None:
            call.error(f"Invalid user: {word}")
            call.say("")
            continue
        names.append(call.site.user(uid))
    return names


def _shown(
    call: Call,
    asked: dict[str, Any],
    job: Job,
    ids: list[tuple[int, int | None]] | None,
    users: list[str] | None,
    states: set[str] | None,
) -> list[Job]:
    """The job if it was asked for; tasks of an array that wait, one by one or as asked."""
    tasks = job.array_left
    if ids is not None:
        whole = any(
            task is None and number in (job.job_id, job.array_job_id, job.het_job_id) for number, task in ids
        )
        named = [task for number, task in ids if number == job.array_job_id and task is not None]
        if not whole:
            tasks = [t for t in tasks if t in named]
            if not tasks and job.array_task not in named:
                return []
    lists = (
        ("accounts", job.account),
        ("qos", job.qos),
        ("name", job.request.name),
        ("reservation", job.reservation),
    )
    for name, value in lists:
        words = _words(asked.get(name))
        if words is not None and value.lower() not in [w.lower() for w in words]:
            return []
    licenses = _words(asked.get("licenses"))
    if licenses is not None and not any(name in licenses for name in job.licenses):
        return []
    if users is not None and job.user not in users:
        return []
    if states is None:
        if job.finished and "COMPLETING" not in job.flags:
            return []
    elif job.state not in states and not job.flags & states:
        return []
    if "nodelist" in asked and not set(job.nodes) & set(hostlist.expand(asked["nodelist"])):
        return []
    if not tasks or (tasks == job.array_left and "array" not in asked):
        return [job]
    if "array" in asked or len(tasks) == 1:
        return [_task(job, [], task) for task in tasks]
    return [_task(job, tasks, None)]


def _task(job: Job, left: list[int], task: int | None) -> Job:
    from copy import copy

    one = copy(job)
    one.array_left, one.array_task = left, task
    return one


def _sorted(call: Call, rows: list[Row], keys: str, by_tier: bool) -> list[Row]:
    rows = _by_start(rows, reverse=True)
    at = len(keys) - 1
    while at >= 0:
        letter = keys[at]
        if letter not in ",+-":
            reverse = at > 0 and keys[at - 1] == "-"
            if letter == "b":
                call.say("squeue: Invalid sort specification: b")
            elif letter not in _SORTS and letter not in "cfhnO":
                call.error(f"Invalid sort specification: {letter}")
                call.quit(1)
            if letter == "P" and by_tier:
                tiers = {p.name: p.priority_tier for p in call.site.cluster.partitions.values()}
                rows.sort(key=lambda row: -tiers.get(row.partition, 1))
            elif letter == "S":
                rows = _by_start(rows, reverse)
            elif letter == "N":
                rows = _last_without(rows, lambda r: bool(r.job.nodes), _SORTS["N"], reverse)
            elif letter in _SORTS:
                rows.sort(key=_SORTS[letter], reverse=False) if not reverse else _sort_down(
                    rows, _SORTS[letter]
                )
        at -= 1
    return rows


def _sort_down(rows: list[Row], key: Callable[[Row], Any]) -> None:
    """Downwards, equal ones in the order they had (Python's `reverse` keeps that, too)."""
    rows.sort(key=key, reverse=True)


def _by_start(rows: list[Row], reverse: bool) -> list[Row]:
    return _last_without(
        rows, lambda r: bool(jobtext.start_time(r.job)), lambda r: jobtext.start_time(r.job), reverse
    )


def _last_without(
    rows: list[Row], has: Callable[[Row], bool], key: Callable[[Row], Any], reverse: bool
) -> list[Row]:
    """Slurm's comparison puts jobs without a value last whichever way, and turns their order about."""
    with_value = sorted((r for r in rows if has(r)), key=key, reverse=reverse)
    without = groupby((r for r in rows if not has(r)), key=lambda r: r.job.job_id)
    return with_value + [row for _, of_job in reversed([(j, list(g)) for j, g in without]) for row in of_job]


def _id_key(row: Row) -> tuple[int, int]:
    job = row.job
    number = job.het_job_id or (job.array_job_id if job.array_task is not None else job.job_id)
    within = job.het_offset if job.het_job_id else 0xFFFFFFFE if job.array_task is None else job.array_task
    return number, within


_SORTS: dict[str, Callable[[Row], Any]] = {
    "i": _id_key,
    "j": lambda r: r.job.request.name,
    "t": lambda r: jobtext.COMPACT[jobtext.state_text(r.job)],
    "T": lambda r: jobtext.state_text(r.job),
    "P": lambda r: r.partition,
    "p": lambda r: r.job.priority,
    "Q": lambda r: r.job.priority,
    "u": lambda r: r.job.user,
    "U": lambda r: r.call.site.uid(r.job.user) or 0,
    "g": lambda r: r.job.user,
    "G": lambda r: r.call.site.uid(r.job.user) or 0,
    "V": lambda r: r.job.submit,
    "S": lambda r: r.job.start,
    "e": lambda r: jobtext.end_time(r.job),
    "M": lambda r: jobtext.seconds_used(r.job, r.call.now),
    "l": lambda r: r.job.time_limit,
    "L": lambda r: left_of(r) if r.job.time_limit < INFINITE else INFINITE,
    "C": lambda r: jobtext.cpu_count(r.job),
    "D": lambda r: jobtext.node_count(r.call.site, r.job),
    "N": lambda r: hostlist.host_key(r.job.nodes[0]) if r.job.nodes else ([], 0),
    "m": lambda r: jobtext.min_memory(r.job),
    "d": lambda r: r.job.request.min_tmp_disk or 0,
    "v": lambda r: r.job.reservation,
    "B": lambda r: r.job.batch_host,
    "H": lambda r: r.job.request.sockets_per_node or 0xFFFE,
    "I": lambda r: r.job.request.cores_per_socket or 0xFFFE,
    "J": lambda r: r.job.request.threads_per_core or 0xFFFE,
    "z": lambda r: 0,
}


def _step_ids(call: Call, text: Any) -> set[tuple[int, int | None, int]] | None:
    """`7.0,5_3.1` as job id, task and number; a step's name counts as 0, as strtol reads it."""
    words = _words(text)
    if words is None:
        return None
    found = set()
    for word in words:
        job, dot, step = word.partition(".")
        if not dot or not step:
            call.fail(f"Invalid job_step id: {job}.??")
        numbers = re.match(r"(\d{1,10})(?:_(\d{1,10}))?", job)
        negative = step.startswith("-") and step[1:2].isdecimal()
        if numbers is None or not int(numbers[1]) or negative:
            call.fail(f"Invalid job_step id: {job}.{step}")
        number = re.match(r"\d{1,10}", step)
        found.add((int(numbers[1]), int(numbers[2]) if numbers[2] else None, int(number[0]) if number else 0))
    return found


def _step_key(row: StepRow) -> tuple[int, int | None, int]:
    job, number = row.job, row.step.step_id
    step = int(number) if number.isdecimal() else -1
    return (
        (job.array_job_id, job.array_task, step) if job.array_task is not None else (job.job_id, None, step)
    )


def _print_steps(call: Call, asked: dict[str, Any]) -> None:
    columns = columns_of("squeue", "step")
    if "Format" in asked:
        fields = long_format(call, columns, asked["Format"], of="job step")
    else:
        text = asked.get("format") or _STEPS
        fields = short_format(
            call, columns, text, lambda c: call.error(f"Invalid job step format specification: {c}")
        )
    if "noheader" not in asked:
        call.print(STEP_TABLE.heading(fields))
    wanted = _step_ids(call, asked.get("steps"))
    users, partitions = _users(call, asked.get("users")), _words(asked.get("partitions"))
    ids = _job_ids(call, asked.get("jobs"))
    rows = [
        row
        for row in step_rows(call)
        if (wanted is None or _step_key(row) in wanted)
        and (users is None or row.job.user in users)
        and (partitions is None or row.job.partition in partitions)
        and (ids is None or any(n in (row.job.job_id, row.job.array_job_id) for n, _ in ids))
    ]
    for row in _sorted_steps(call, rows, asked.get("sort") or "P,i"):
        call.print(STEP_TABLE.line(fields, row))


def _sorted_steps(call: Call, rows: list[StepRow], keys: str) -> list[StepRow]:
    """By the letters that steps have; others say nothing (sort_step_list)."""
    for at in range(len(keys) - 1, -1, -1):
        if keys[at] == "b":
            call.say("squeue: Invalid sort specification: b")
        if keys[at] in _STEP_SORTS:
            rows = sorted(rows, key=_STEP_SORTS[keys[at]], reverse=at > 0 and keys[at - 1] == "-")
    return rows


_AFTER_ALL = 0xFFFFFFFB
"""The number of a batch step."""
_STEP_SORTS: dict[str, Callable[[StepRow], Any]] = {
    "i": lambda r: (r.job.job_id, _AFTER_ALL if (number := natural(r.step.step_id)) is None else number),
    "N": lambda r: hostlist.host_key(r.step.nodes[0]) if r.step.nodes else ([], 0),
    "P": lambda r: r.job.partition,
    "l": lambda r: r.time_limit,
    "S": lambda r: r.step.start,
    "M": lambda r: r.call.now - r.step.start,
    "u": lambda r: r.job.user,
    "U": lambda r: r.call.site.uid(r.job.user) or 0,
}


STEP_TABLE: Table[StepRow] = Table(
    {
        "num_tasks": lambda r: str(r.step.tasks),
        "tres_per_node": lambda r: "(null)",
        "id": lambda r: r.number,
        "name": lambda r: r.step.name,
        "time_limit": lambda r: limit_text(r.time_limit),
        "time_used": lambda r: durations.short(r.call.now - r.step.start),
        "nodes": lambda r: jobtext.node_list(r.step.nodes),
        "partition": lambda r: r.job.partition,
        "time_start": lambda r: r.call.stamp(r.step.start),
        "user_id": lambda r: str(r.call.site.uid(r.job.user)),
        "user_name": lambda r: r.job.user,
        "cluster_name": lambda r: r.call.site.name,
        "container": lambda r: "(null)",
        "array_job_id": lambda r: str(r.job.array_job_id or r.job.job_id),
        "array_task_id": lambda r: "N/A" if r.job.array_task is None else str(r.job.array_task),
        "job_id": lambda r: str(r.job.job_id),
        "network": lambda r: "(null)",
        "num_cpus": lambda r: str(r.step.cpus if r.step.step_id not in ("batch", "extern") else 0),
        "cpu_freq": lambda r: "N/A",
        "resv_ports": lambda r: "(null)",
        "step_state": lambda r: r.step.state,
        "cpus_per_tres": lambda r: "(null)",
        "mem_per_tres": lambda r: "(null)",
        "tres_bind": lambda r: "(null)",
        "tres_freq": lambda r: "(null)",
        "tres_per_step": lambda r: "(null)",
        "tres_per_socket": lambda r: "(null)",
        "tres_per_task": lambda r: "(null)",
    },
    frozenset(("nodes", "time_used", "time_limit")),
)
