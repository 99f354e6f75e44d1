"""sacct: what was run, from the accounting records."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairway.slurm.commands import jobtext
from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.fields import (
    Column,
    Style,
    fields_of,
    find_column,
    heading_lines,
    help_lines,
    joined,
)
from fairway.slurm.commands.getopt import parse, short_table
from fairway.slurm.model.job import Job, Step
from fairway.slurm.words import durations, hostlist, sizes
from fairway.slurm.words.durations import INFINITE

_OPTIONS = short_table(
    "allusers:a accounts:A: allocations:X associations:x: batch-script:B brief:b completion:c cluster:M: clusters:M: "
    "constraints:C: delimiter: duplicates:D helpformat:e help-fields:e help:h endtime:E: env-vars file:f: flags:F: "
    "fields:o: format:o: gid:g: "
    "group:g: ncpus:I: nnodes:i: jobs:j: timelimit-min:k: timelimit-max:K: long:l allclusters:L local name: "
    "noconvert nodelist:N: noheader:n parsable:p parsable2:P qos:q: partition:r: state:s: starttime:S: truncate:T "
    "reason: uid:u: user:u: units: usage:U use-local-uid verbose:v version:V wckeys:W: whole-hetjob? json yaml"
)
_DEFAULT = "jobid,jobname,partition,account,alloccpus,state,exitcode"
_BRIEF = "jobid,state,exitcode"
_LONG = (
    "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,"
    "averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,alloccpus,elapsed,"
    "state,exitcode,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,maxdiskread,"
    "maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite,reqtres,"
    "alloctres,tresusageinave,tresusageinmax,tresusageinmaxn,tresusageinmaxt,tresusageinmin,tresusageinminn,"
    "tresusageinmint,tresusageintot,tresusageoutmax,tresusageoutmaxn,tresusageoutmaxt,tresusageoutave,tresusageouttot"
)
_GROUPED = {"uid": "user", "gid": "group", "cluster": "clusters", "fields": "format"}


@dataclass(frozen=True, slots=True)
class Row:
    """A run of a job (step None), or one of its steps. `jobs`: of a step, its job's facts."""

    call: Call
    job: Job
    step: Step | None = None
    units: str = ""

    @property
    def start(self) -> int:
        return self.step.start if self.step else 0 if self.job.pending else self.job.start

    @property
    def end(self) -> int:
        return self.step.end if self.step else self.job.end if self.job.finished else 0

    @property
    def elapsed(self) -> int:
        if not self.start:
            return 0
        return max((self.end or self.call.now) - self.start - self.job.suspended_s, 0)


def sacct(call: Call) -> None:
    asked: dict[str, Any] = {}
    parsed = parse(call, _OPTIONS, call.arguments, hint=False)
    for name, value in parsed:
        if name == "version":
            call.print(VERSION)
            call.quit(0)
        if name in ("helpformat", "help-fields"):
            call.print(help_lines([n for n, _, _ in fields_of("sacct")], 20))
            call.quit(0)
        if name == "help":
            call.print("sacct [<OPTION>]")
            call.quit(0)
        if name == "usage":
            call.print("Usage: sacct [options]\n\tUse --help for help")
            call.quit(0)
        name = _GROUPED.get(name, name)
        if name == "format" and "format" in asked:
            value = f"{asked['format']},{value}"
        asked[name] = True if value is None else value
    if parsed.rest:
        call.error("Unknown arguments:")
        call.error("".join(f" {word}" for word in parsed.rest))
        call.quit(1)
    if "completion" in asked:
        call.say("Slurm job completion is disabled")
        call.quit(1)
    _check(call, asked)
    rows = _selected(call, asked)
    if "json" in asked or "yaml" in asked:
        from fairway.slurm.commands.restdata import print_data

        print_data(call, "accounting", [r.job for r in rows if r.step is None], "yaml" in asked)
        return
    if "batch-script" in asked or "env-vars" in asked:
        _print_scripts(call, rows, "batch-script" in asked)
        return
    columns = _columns(call, asked)
    style = Style(
        1 if "parsable" in asked else 2 if "parsable2" in asked else 0,
        "noheader" not in asked,
        str(asked.get("delimiter", "|")),
    )
    for line in heading_lines(columns, style):
        call.print(line)
    for row in rows:
        call.print(joined([VALUES.get(c.field, _nothing)(row) for c in columns], columns, style))


_REMOVED = {"allocgres": "Alloc", "reqgres": "Req"}


def _columns(call: Call, asked: dict[str, Any]) -> list[Column]:
    text = asked.get("format")
    if text is not None and not text.strip(","):
        call.quit(0)
    text = text or (
        _BRIEF
        if "brief" in asked
        else _LONG
        if "long" in asked
        else call.environment.get("SACCT_FORMAT") or _DEFAULT
    )
    columns = []
    if text.lower() == "all":
        text = ",".join(name for name, _, _ in fields_of("sacct"))
    for word in filter(None, (w.strip() for w in text.split(","))):
        name, percent, size = word.partition("%")
        column = find_column("sacct", f"{name}%{size.lstrip('-')}" if percent else name)
        gone = _REMOVED.get(name.lower())
        if gone:
            call.fatal(f"{gone}GRES has been removed, please use {gone}TRES")
        if column is None:
            call.fail(f'Invalid field requested: "{name}"')
        if size.startswith("-"):
            column = Column(column.field, column.heading, -abs(column.width))
        columns.append(column)
    return columns


def _print_scripts(call: Call, rows: list[Row], script: bool) -> None:
    """-B: scripts are kept only where AccountingStoreFlags says so."""
    kept = "job_script" in call.site.conf.words("AccountingStoreFlags")
    for row in rows:
        if row.step is None and (row.job.user == call.user or call.site.cluster.is_operator(call.user)):
            what = "Batch Script" if script else "Environment used"
            call.print(f"{what} for {row.job.label}" + ("" if script else " (must be batch to display)"))
            call.print("-" * 80)
            call.print((row.job.request.script if kept and script else "") or "NONE\n")


def _selected(call: Call, asked: dict[str, Any]) -> list[Row]:
    if asked.get("jobs") == "":  # as if it were not there
        del asked["jobs"]
    begin, end = _window(call, asked)
    ids = _ids(call, asked.get("jobs"))
    states = _states(call, asked.get("state"))
    users = _users(call, asked)
    rows = []
    runs = [
        job
        for job in _runs(call)
        if (ids is None or any(_is_named(job, number, task) for number, task, _ in ids))
        and (users is None or job.user in users)
        and _is_met(job, begin, end, states, ids is not None)
        and _fits(call, asked, job)
    ]
    newest = {job.job_id: job for job in runs}
    units = "M" if "noconvert" in asked else asked.get("units", "")
    for job in runs:
        if "duplicates" not in asked and newest[job.job_id] is not job:
            continue
        steps = [] if "allocations" in asked else [s for s in job.steps if s.start]
        only = {step for number, task, step in ids or () if step and _is_named(job, number, task)}
        if only and "allocations" not in asked:
            rows += [Row(call, job, s, units) for s in steps if s.step_id in only]
            continue
        rows.append(Row(call, job, None, units))
        rows += [Row(call, job, s, units) for s in steps]
    return rows


def _runs(call: Call) -> list[Job]:
    """Every run in sacct's order (_sort_desc_submit_time): tasks of arrays after the other jobs of their second."""
    cluster = call.site.cluster
    seen = {(job.job_id, job.submit) for job in cluster.archive}
    current = [job for job in cluster.jobs.values() if (job.job_id, job.submit) not in seen]

    def order(job: Job) -> tuple[int, int, int, int]:
        task = INFINITE if job.array_task is None else job.array_task
        return job.submit, job.array_job_id, task, job.job_id

    return sorted((*cluster.archive, *current), key=order)


def _is_named(job: Job, number: int, task: int | None) -> bool:
    if task == -1:
        return job.job_id == number
    if task is not None:
        return job.array_job_id == number and (job.array_task == task or task in job.array_left)
    return number in (job.job_id, job.array_job_id, job.het_job_id)


def _ids(call: Call, text: str | None) -> list[tuple[int, int | None, str]] | None:
    if text is None:
        return None
    found = []
    for word in filter(None, text.split(",")):
        match = re.fullmatch(r"(\d{1,10})(?:_(\d{1,10}))?(?:\+(\d{1,9}))?(?:\.(\w+))?", word)
        if match is None and re.match(r"\d+_", word):
            call.fatal(f"Bad job array element specified: {word.partition('_')[0]}")
        if match is None:
            call.fatal(f"Bad job/step specified: {word}")
        number = int(match[1]) + int(match[3] or 0)  # components have the job ids after their leader's
        if match[3] and not any(j.job_id == number and j.het_job_id == int(match[1]) for j in _runs(call)):
            continue
        alone = -1 if match[3] else None
        found.append((number, int(match[2]) if match[2] else alone, match[4] or ""))
    return found


def _check(call: Call, asked: dict[str, Any]) -> None:
    """Ranges become pairs of numbers; what sacct cannot read ends it."""
    for name, what in (("nnodes", "node"), ("ncpus", "cpu")):
        if name not in asked:
            continue
        low, dash, high = str(asked[name]).partition("-")
        for word in (low, high) if dash else (low,):
            if not re.fullmatch(r"\d{1,9}", word):
                call.fail(f'Invalid numeric value "{word}" for requested {what} range.')
        asked[name] = int(low), int(high or low)
    for word in filter(None, str(asked.get("group", "")).split(",")):
        if call.site.uid(word) is None and not word.isdecimal():  # every user has a group of that name
            call.fail(f"Invalid group id: {word}")
    if "nodelist" in asked:
        asked["nodelist"] = ",".join(hostlist.expand(asked["nodelist"]))
    for word in filter(None, str(asked.get("flags", "")).split(",")):
        if not any(flag in word.lower() for flag in _FLAGS):
            call.fail(f"str_2_job_flags: Invalid job flag {word}")


_FLAGS = ("none", "schedsubmit", "schedmain", "schedbackfill", "startrecieved")


def _window(call: Call, asked: dict[str, Any]) -> tuple[int, int]:
    def moment(name: str, otherwise: int) -> int:
        if name not in asked:
            return otherwise
        try:
            return durations.parse_time(asked[name], call.now, past=True)
        except durations.TimeError as bad:
            call.say(str(bad))
            call.quit(1)

    named, stated = "jobs" in asked, "state" in asked
    begin = moment("starttime", 0 if named else call.now if stated else call.now - call.now % 86400)
    end = moment("endtime", begin if begin and stated else call.now)
    if begin > end:
        said = f"Start time ({durations.stamp(begin)}) requested is after end time ({durations.stamp(end)})."
        call.fail(said)
    return begin, end + (end in (begin, call.now))


def _is_met(job: Job, begin: int, end: int, states: set[str] | None, named: bool) -> bool:
    """Was the run there between two moments, and in one of the states? (setup_job_cond_limits, _state_time_string)"""
    if job.het_job_id and job.pending:  # slurmdbd hears of its components when they start
        return False
    waits = job.pending and job.reason == "JobArrayTaskLimit"
    eligible = 0 if waits else job.eligible
    start, ended = _started(job), job.end if job.finished else 0
    if states is None:
        if not begin and named:
            return True
        return 0 < eligible < end and (not ended or ended >= begin)
    pending = "PENDING" in states and 0 < eligible < end
    if pending and (begin < start if start else begin < ended if ended else job.pending):
        return True
    if "RUNNING" in states and 0 < start < end and (begin < ended if ended else job.state == "RUNNING"):
        return True
    state = "REQUEUED" if "REQUEUED" in job.flags else job.state
    return state in states and (begin <= ended <= end if ended else job.state == "SUSPENDED")


def _started(job: Job) -> int:
    """0 for a run that has not started, or was cancelled before it did."""
    return job.start if job.shares and not job.pending else 0


_STATES = {
    **{short: name for name, short in jobtext.COMPACT.items()},
    **{name: name for name in jobtext.COMPACT},
}


_UNACCOUNTED = (
    "COMPLETING",
    "CONFIGURING",
    "SPECIAL_EXIT",
    "STAGE_OUT",
    "STOPPED",
    "SIGNALING",
    "RESV_DEL_HOLD",
)


def _states(call: Call, text: str | None) -> set[str] | None:
    if text is None:
        return None
    found = set()
    for word in filter(None, text.split(",")):
        name = _STATES.get(word.upper())
        if name in _UNACCOUNTED:
            call.fatal(f"job state {word} is not supported / accounted")
        if name is None:
            call.fatal(f"unrecognized job state value '{word}'")
        found.add(name)
    return found


def _users(call: Call, asked: dict[str, Any]) -> set[str] | None:
    """Whose jobs: the caller's, unless others are named or root asks."""
    if "user" in asked:
        found = set()
        if not asked["user"]:
            call.quit(1)
        for word in asked["user"].split(","):
            uid = call.site.uid(word)
            if uid is None:
                call.fail(f"Invalid user id: {word}")
            found.add(call.site.user(uid))
        return found
    if "allusers" in asked or "jobs" in asked or call.user == "root" or "nodelist" in asked:
        return None
    return {call.user}


def _fits(call: Call, asked: dict[str, Any], job: Job) -> bool:
    if "timelimit-min" in asked or "timelimit-max" in asked:
        least, most = (_minutes(call, asked.get(name)) for name in ("timelimit-min", "timelimit-max"))
        if least is not None and not least <= job.time_limit <= (least if most is None else most):
            return False
    if "constraints" in asked and not any(
        word in (job.features or "") for word in asked["constraints"].split(",")
    ):
        return False
    uid = call.site.uid(job.user)
    lists = {
        "associations": [str(job.assoc_id)],
        "accounts": [job.account],
        "qos": [job.qos],
        "partition": job.partition.split(","),
        "name": [job.request.name],
        "clusters": [call.site.name],
        "nodelist": list(job.nodes),
        "group": [job.user, str(uid)],
        "wckeys": [str(job.request.extra.get("wckey", ""))],
    }
    for name, values in lists.items():
        if name in asked and not set(values) & set(str(asked[name]).split(",")):
            return False
    for name, count in (("nnodes", len(job.nodes)), ("ncpus", job.alloc_tres.get("cpu", 0))):
        if name in asked:
            low, high = asked[name]
            if not low <= count <= high:
                return False
    return True


def _minutes(call: Call, text: str | None) -> int | None:
    if text is None:
        return None
    minutes = durations.minutes(text)
    if not minutes:
        call.fatal("Invalid time limit specification")
    return minutes


def _nothing(row: Row) -> str:
    return ""


def _of_job(of: Callable[[Row], str]) -> Callable[[Row], str]:
    """A field that steps leave empty."""
    return lambda row: "" if row.step else of(row)


def _state(row: Row) -> str:
    if row.step:
        return row.step.state
    job = row.job
    if "REQUEUED" in job.flags and job.finished:
        return "REQUEUED"
    if job.state == "CANCELLED":
        by = str(job.request.extra.get("cancelled_by", job.user))
        return f"CANCELLED by {row.call.site.uid(by)}"
    return job.state


_WITHOUT_EXIT_CODE = ("CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "REQUEUED")


def _exit(row: Row) -> str:
    of: Any = row.step or row.job
    if row.step is None and _state(row).split()[0] in _WITHOUT_EXIT_CODE:
        return "0:0"
    return jobtext.exit_text(of.exit_code & 0x7F, of.signal)


def _tres(row: Row, tres: dict[str, int]) -> str:
    """As the database gives it: sorted as text, typed GRES before the whole."""
    site = row.call.site
    tracked = set(site.tres_names)
    parts = [f"{n}={_memory(row, c) if n == 'mem' else c}" for n, c in tres.items() if c and n in tracked]
    return ",".join(sorted(parts))


def _cpus(row: Row) -> int:
    if row.step:
        return row.step.cpus
    tres = row.job.req_tres if row.job.pending or not row.job.start else row.job.alloc_tres
    return tres.get("cpu", 0)


def _moment(row: Row, when: int) -> str:
    return row.call.stamp(when)


def _job_id(row: Row) -> str:
    number = jobtext.job_number(row.job, row.call.environment)
    return f"{number}.{row.step.step_id}" if row.step else number


def _raw_id(row: Row) -> str:
    return f"{row.job.job_id}.{row.step.step_id}" if row.step else str(row.job.job_id)


def _waited(row: Row) -> int:
    job = row.job
    return max((job.start or row.call.now) - job.eligible, 0) if job.eligible else 0


def _limit(row: Row) -> str:
    said = _unlimited(row)
    return said or durations.clock_of_minutes(row.job.time_limit)


def _unlimited(row: Row) -> str:
    """A limit that is no number: one not asked for is the partition's, once the job starts."""
    job = row.job
    if job.time_limit < INFINITE:
        return ""
    return "UNLIMITED" if job.limit_set or job.shares or job.nodes else "Partition_Limit"


def _requested_memory(row: Row) -> str:
    return _memory(row, row.job.req_tres.get("mem", 0))


def _memory(row: Row, amount: int) -> str:
    """Of MiB, in the unit asked for."""
    letter = row.units[:1].upper()
    if letter == "M":
        return f"{amount}M"
    if letter and letter in "KGTP":
        divided = amount / 1024 ** (" MGTP".index(letter) - 1) if letter != "K" else amount * 1024
        return f"{divided:.0f}{letter}" if divided == int(divided) else f"{divided:.2f}{letter}"
    return sizes.memory_text(amount)


def _nodes(row: Row) -> tuple[str, ...]:
    return row.step.nodes if row.step else row.job.nodes


def _reason(row: Row) -> str:
    return row.job.waited_for or "None"


def _energy(row: Row) -> str:
    """What is counted of a step that ended between two polls of its tasks."""
    return "energy=0" if row.step and row.step.end else ""


def _comment(row: Row) -> str:
    """slurmdbd is told of it only where AccountingStoreFlags says so."""
    kept = "job_comment" in row.call.site.conf.words("AccountingStoreFlags")
    return str(row.job.request.extra.get("comment", "")) if kept else ""


def _frequency(row: Row) -> str:
    return "0" if row.step and row.step.step_id in ("batch", "extern") else "Unknown"


VALUES: dict[str, Callable[[Row], str]] = {
    "account": lambda r: r.job.account,
    "admincomment": _of_job(lambda r: str(r.job.request.extra.get("admin_comment", ""))),
    "alloccpus": lambda r: str(_cpus(r)),
    "allocnodes": lambda r: str(len(_nodes(r))),
    "alloctres": lambda r: _tres(r, r.step.tres if r.step else r.job.alloc_tres),
    "associd": lambda r: str(r.job.assoc_id),
    "cluster": lambda r: r.call.site.name,
    "comment": _of_job(_comment),
    "constraints": _of_job(lambda r: r.job.features or ""),
    "consumedenergy": lambda r: "0" if r.step or r.job.finished else "",
    "cputime": lambda r: durations.clock(r.elapsed * _cpus(r)),
    "cputimeraw": lambda r: str(r.elapsed * _cpus(r)),
    "dbindex": lambda r: str(r.job.job_id),
    "derivedexitcode": _of_job(lambda r: jobtext.exit_text(r.job.derived_exit, 0)),
    "elapsed": lambda r: durations.clock(r.elapsed),
    "elapsedraw": lambda r: str(r.elapsed),
    "eligible": lambda r: _moment(r, r.start if r.step else r.job.eligible),
    "end": lambda r: _moment(r, r.end),
    "exitcode": _exit,
    "flags": _of_job(
        lambda r: f"Sched{r.job.scheduler},StartRecieved" if r.job.start and r.job.scheduler else ""
    ),
    "gid": _of_job(lambda r: str(r.call.site.uid(r.job.user))),
    "group": _of_job(lambda r: r.job.user),
    "jobid": _job_id,
    "jobidraw": _raw_id,
    "jobname": lambda r: r.step.name if r.step else r.job.request.name,
    "layout": lambda r: (
        ""
        if r.step is None
        else "Unknown"
        if r.step.step_id in ("batch", "extern")
        else "Block"
        if r.step.tasks > len(r.step.nodes)
        else "Cyclic"
    ),
    "ncpus": lambda r: str(_cpus(r)),
    "nnodes": lambda r: str(len(_nodes(r)) or (0 if r.step else r.job.min_nodes)),
    "nodelist": lambda r: jobtext.node_list(_nodes(r)) or "None assigned",
    "ntasks": lambda r: str(r.step.tasks) if r.step else "",
    "partition": _of_job(lambda r: r.job.partition),
    "priority": _of_job(lambda r: str(r.job.priority)),
    "qos": _of_job(lambda r: r.job.qos),
    "qosraw": _of_job(
        lambda r: (
            str(r.call.site.cluster.accounts.qos[r.job.qos].id)
            if r.job.qos in r.call.site.cluster.accounts.qos
            else ""
        )
    ),
    "reason": _of_job(_reason),
    "reqcpufreq": _frequency,
    "reqcpufreqgov": _frequency,
    "reqcpufreqmax": _frequency,
    "reqcpufreqmin": _frequency,
    "reqcpus": lambda r: str(r.step.cpus if r.step else r.job.req_tres.get("cpu", 0)),
    "reqmem": _of_job(_requested_memory),
    "reqnodes": lambda r: str(len(_nodes(r)) if r.step else r.job.req_tres.get("node", r.job.min_nodes)),
    "reqtres": _of_job(lambda r: _tres(r, r.job.req_tres)),
    "reservation": _of_job(lambda r: r.job.reservation),
    "reserved": _of_job(lambda r: durations.clock(_waited(r))),
    "resvcpu": _of_job(lambda r: durations.clock(_waited(r) * r.job.req_tres.get("cpu", 1))),
    "resvcpuraw": _of_job(lambda r: str(_waited(r) * r.job.req_tres.get("cpu", 1))),
    "start": lambda r: _moment(r, r.start),
    "state": _state,
    "submit": lambda r: _moment(r, r.start if r.step else r.job.submit),
    "submitline": lambda r: str((r.step.extra if r.step else r.job.request.extra).get("submit_line", "")),
    "suspended": lambda r: durations.clock(r.job.suspended_s),
    "systemcpu": lambda r: "00:00:00",
    "timelimit": _of_job(_limit),
    "timelimitraw": _of_job(lambda r: _unlimited(r) or str(r.job.time_limit)),
    "totalcpu": lambda r: "00:00:00",
    "tresusageinave": _energy,
    "tresusageintot": _energy,
    "uid": _of_job(lambda r: str(r.call.site.uid(r.job.user))),
    "user": _of_job(lambda r: r.job.user),
    "usercpu": lambda r: "00:00:00",
    "wckey": _of_job(lambda r: str(r.job.request.extra.get("wckey", ""))),
    "wckeyid": _of_job(lambda r: "0"),
    "workdir": _of_job(lambda r: r.job.request.work_dir),
}
