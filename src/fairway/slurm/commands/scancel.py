"""scancel: jobs are signalled or cancelled."""

from __future__ import annotations

import re
from typing import Any

from fairway.slurm.commands import jobtext
from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.getopt import parse, short_table
from fairway.slurm.commands.joboptions import signal_number
from fairway.slurm.model.job import Job
from fairway.slurm.words import hostlist
from fairway.slurm.words.errors import SlurmError, refusals

_OPTIONS = short_table(
    "account:A: batch:b ctld cron full:f help help-state hurry:H interactive:i cluster:M: clusters:M: jobname:n: "
    "me name:n: nodelist:w: partition:p: qos:q: quiet:Q reservation:R: sibling: signal:s: state:t: user:u: usage "
    "verbose:v version:V wckey:"
)
_STATES = {"PENDING": "PD", "RUNNING": "R", "SUSPENDED": "S"}
_ALIKE = {"jobname": "name", "cluster": "clusters"}
_VARIABLES = {
    "account": "SCANCEL_ACCOUNT",
    "batch": "SCANCEL_BATCH",
    "name": "SCANCEL_NAME",
    "partition": "SCANCEL_PARTITION",
    "qos": "SCANCEL_QOS",
    "state": "SCANCEL_STATE",
    "user": "SCANCEL_USER",
    "verbose": "SCANCEL_VERBOSE",
}
_USAGE = """\
Usage: scancel [-A account] [--batch] [--full] [--interactive] [-n job_name]
               [-p partition] [-Q] [-q qos] [-R reservation] [-s signal | integer]
               [-t PENDING | RUNNING | SUSPENDED] [--usage] [-u user_name]
               [--hurry] [-V] [-v] [-w hosts...] [--wckey=wckey]
               [job_id[_array_id][.step_id]]"""
_HELP = """\
Usage: scancel [OPTIONS] [job_id[_array_id][.step_id]]
  -A, --account=account           act only on jobs charging this account
  -b, --batch                     signal batch shell for specified job
  -f, --full                      signal batch shell and all steps for specified job
  -H, --hurry                     avoid burst buffer stage out
  -i, --interactive               require response from user for each job
  -M, --clusters                  clusters to issue commands to.
                                  NOTE: SlurmDBD must be up.
  -n, --name=job_name             act only on jobs with this name
  -p, --partition=partition       act only on jobs in this partition
  -Q, --quiet                     disable warnings
  -q, --qos=qos                   act only on jobs with this quality of service
  -R, --reservation=reservation   act only on jobs with this reservation
      --sibling=cluster_name      remove an active sibling job from a federated job
  -s, --signal=name | integer     signal to send to job, default is SIGKILL
  -t, --state=states              act only on jobs in this state.  Valid job
                                  states are PENDING, RUNNING and SUSPENDED
  -u, --user=user_name            act only on jobs of this user
  -V, --version                   output version information and exit
  -v, --verbose                   verbosity level
  -w, --nodelist                  act only on jobs on these nodes
      --wckey=wckey               act only on jobs with this workload
                                  charactization key

Help options:
  --help                          show this help message
  --usage                         display brief usage message"""
REFUSED = 210
"""The exit code where a job was not the caller's: the error's number, cut to a byte, as Slurm does it."""
_FILTERS = ("account", "name", "nodelist", "partition", "qos", "reservation", "state", "user", "wckey")


def scancel(call: Call) -> None:
    asked: dict[str, Any] = {}
    parsed = parse(call, _OPTIONS, call.arguments)
    for name, value in parsed:
        name = _ALIKE.get(name, name)
        if name == "version":
            call.print(VERSION)
            call.quit(0)
        if name in ("help", "usage"):
            call.print(_USAGE if name == "usage" else _HELP)
            call.quit(0)
        if name == "me":
            name, value = "user", call.user
        if name == "state":
            value = _state(call, value or "")
        if name == "signal":
            number = signal_number(value or "")
            if not number:
                call.say(f"Unknown job signal: {value}")
                call.quit(1)
            asked["signal"] = number
            continue
        if name == "clusters":
            call.check_clusters(value)
        asked[name] = True if value is None else value
    if not asked.get("clusters"):
        call.check_clusters(None)
    for name, variable in _VARIABLES.items():
        if name not in asked and call.environment.get(variable):
            asked[name] = call.environment[variable]
    # Numbers may be joined by commas, as those of an array's tasks may within brackets.
    ids = [_job_id(call, word) for given in parsed.rest for word in hostlist.tokens(given, ",") or [given]]
    if not ids and not any(name in asked for name in _FILTERS):
        call.fail("No job identification provided")
    if "user" in asked and call.site.uid(asked["user"]) is None:
        call.fail(f"Invalid user name: {asked['user']}")
    jobs = _wanted(call, asked, ids)
    _cancel(call, asked, ids, jobs)


def _state(call: Call, text: str) -> str:
    word = text.upper()
    found = [
        n for n, short in _STATES.items() if word in (n, short) or (len(word) > 1 and n.startswith(word))
    ]
    if not found:
        call.say(f"Invalid job state specified: {text}")
        call.say("Valid job states are PENDING, RUNNING, and SUSPENDED")
        call.quit(1)
    return found[0]


JobId = tuple[int, set[int] | None, int | None, str]
"""Job, tasks of its array (None: all), component of a heterogeneous job (None: all), step ("": the job)."""


def _job_id(call: Call, word: str) -> JobId:
    match = re.fullmatch(r"(\d{1,18})(?:_(?:(\d+)|\[([\d,-]+)\]))?(?:\+(\d{1,9}))?(?:\.(\d{0,9}))?", word)
    if match is None or not int(match[1]):
        call.fail(f"Invalid job id {word}")
    try:
        tasks = hostlist.task_numbers(match[2], match[3])
    except hostlist.HostlistError:
        call.fail(f"Invalid job id {word}")
    step = "" if match[5] is None else match[5] or "0"
    return int(match[1]) % 2**32, tasks, int(match[4]) if match[4] else None, step


def _wanted(call: Call, asked: dict[str, Any], ids: list[JobId]) -> list[Job]:
    """Jobs that are not over and fit every filter."""

    def fits(job: Job) -> bool:
        words = {
            "account": [job.account],
            "name": [job.request.name],
            "qos": [job.qos],
            "reservation": [job.reservation],
            "user": [job.user],
            "partition": job.partition.split(","),
            "state": [job.state],
            "wckey": [str(job.request.extra.get("wckey", ""))],
        }
        if "user" in asked and job.user != call.site.user(call.site.uid(asked["user"]) or 0):
            return False
        for name, values in words.items():
            if name == "user" or name not in asked:
                continue
            if asked[name] not in values:
                return False
        return "nodelist" not in asked or bool(set(job.nodes) & set(hostlist.expand(asked["nodelist"])))

    return [job for job in call.site.cluster.listed() if not job.finished and fits(job)]


def _is_known(call: Call, number: int) -> bool:
    return any(
        number in (j.job_id, j.array_job_id, j.het_job_id) and not j.finished
        for j in call.site.cluster.jobs.values()
    )


def _signal_step(call: Call, job: Job, step: str, signal: int) -> None:
    """One step's tasks (_cancel_step_id, job_step_signal)."""
    refused = ""
    if call.user != job.user and not call.site.cluster.is_operator(call.user):
        refused = "USER_ID_MISSING"
    elif job.pending:  # it has none, and nobody is told
        return
    elif not any(one.step_id == step and not one.end for one in job.steps):
        refused = "INVALID_JOB_ID"
    if refused:
        code, said = refusals()[refused]
        call.error(f"Kill job error on job step id {job.label}: {said}")
        call.code = max(call.code, code % 256)
    elif call.site.controller.on_signal is not None:
        job.request.extra["signal_only"] = f".{step}"
        call.site.controller.on_signal(job, signal)


def _cancel(call: Call, asked: dict[str, Any], ids: list[JobId], jobs: list[Job]) -> None:
    signal = asked.get("signal")
    targets: list[tuple[str, Job, list[int] | None]] = []
    if not ids:
        targets = [(jobtext.job_number(job), job, None) for job in jobs]
    # With any of these it looks for the jobs by itself first, and knows only those that are not over (has_default_opt).
    filtered = any(name in asked for name in (*_FILTERS, "signal", "batch", "interactive"))
    for number, tasks, component, step in ids:
        mine = [
            j
            for j in jobs
            if number in ((j.array_job_id,) if tasks else (j.job_id, j.array_job_id, j.het_job_id))
        ]
        if (filtered or step) and not _is_known(call, number):
            what = f"step id {number}.{step}" if step else f"id {number}"
            if "quiet" not in asked:
                call.error(f"Kill job error on job {what}: {refusals()['INVALID_JOB_ID'][1]}")
            call.code = max(call.code, 1)
            continue
        if step:
            for job in mine[:1] if tasks is None else [j for j in mine if j.array_task in tasks]:
                _signal_step(call, job, step, signal or 9)
            continue
        if component is not None and any(j.het_job_id == number for j in mine):
            if any(j.pending for j in mine):
                code, said = refusals()["NOT_WHOLE_HET_JOB"]
                call.error(f"Kill job error on job id {number}+{component}: {said}")
                call.code = code % 256
                continue
            if component:
                targets += [(j.label, j, None) for j in mine if j.het_offset == component]
                continue
        for job in mine if tasks is not None or filtered else mine[:1]:
            if tasks is None:
                targets.append((str(number), job, None))
            elif job.array_task in tasks:
                targets.append((job.label, job, None))
            elif tasks & set(job.array_left):
                targets.append((str(number), job, sorted(tasks & set(job.array_left))))
    for name, job, left in targets:
        if "verbose" in asked:
            call.info(f"Signal {signal} to job {name}" if signal else f"Terminating job {name}")
        if job.pending and signal not in (None, 9):
            code, said = refusals()["TRANSITION_STATE_NO_UPDATE"]
            call.error(f"Kill job error on job id {name}: {said}")
            call.code = code % 256
            continue
        try:
            # Without -b a signal is for the steps alone, with it for the script alone, with -f for all it started.
            only = "batch" if "batch" in asked else "" if "full" in asked or signal in (None, 9) else "steps"
            whole = (
                not filtered and not left and name.isdecimal()
            )  # one request for all that the number names
            for one in jobs if whole else (job,):
                if one is job or int(name) in (one.array_job_id, one.het_job_id):
                    one.request.extra["signal_only"] = only
            each: list[int | None] = [*left] if left else [None]
            for task in each:
                call.site.controller.cancel(
                    int(name) if whole else job.job_id,
                    call.user,
                    signal=signal,
                    task=task,
                    alone=task is None and not whole,
                    script_only=only == "batch",
                )
        except SlurmError as refused:
            if refused.name in ("ALREADY_DONE", "TRANSITION_STATE_NO_UPDATE"):
                continue
            if "quiet" not in asked:
                call.error(f"Kill job error on job id {name}: {refused.message}")
            call.code = refused.code % 256
