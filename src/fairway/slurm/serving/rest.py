"""slurmrestd's API v0.0.38: what a request to /slurm and /slurmdb is answered.

What changes something is typed as the command that does it (sbatch, scancel, scontrol), so that it has the same rights
and messages and is in the journal. Bodies are those of the commands' --json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from fairway.slurm.commands import tokens
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.restdata import job_data, meta, node_data
from fairway.slurm.commands.sdiag import statistics
from fairway.slurm.model.association import Association, Qos
from fairway.slurm.model.job import Job
from fairway.slurm.model.partition import Partition, Reservation
from fairway.slurm.words.durations import INFINITE, TimeError, parse_time
from fairway.slurm.words.errors import refusals

VERSION = "v0.0.38"
_QUERIES_MOST = 64
_NOT_FOUND = "Unable find requested URL. Please view /openapi/v3 for API reference."
_NOT_ALLOWED = "Requested REST method is not defined at URL. Please view /openapi/v3 for API reference."


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: who asks what; `run` types a command and returns its exit code, stdout and stderr."""

    call: Call
    name: str
    body: Any
    run: Callable[..., tuple[int, str, str]]
    query: Mapping[str, str] = field(default_factory=dict)


Answer = tuple[int, dict[str, Any] | str]
Route = Callable[[Asked], Answer]


def answer(
    message: Mapping[str, Any], key: bytes, call_of: Callable[[str], Call], run: Callable[..., Any]
) -> Answer:
    """Status, and a body: an object, or the text of a refusal. call_of: a call of a user; run: see Asked."""
    headers = {str(k).lower(): str(v) for k, v in dict(message.get("headers", {})).items()}
    call = call_of("root")
    user = tokens.user_of(key, headers.get("x-slurm-user-token", ""), call.now)
    claimed = headers.get("x-slurm-user-name") or user
    if user in ("root", call.site.conf.get("SlurmUser", "root")):
        user = claimed  # these may ask for others
    if user is None or claimed != user:
        return 401, "Authentication failure"
    path, _, asked = str(message.get("path", "")).partition("?")
    path = path.rstrip("/")
    method = str(message.get("method", "GET")).upper()
    allowed = False
    for methods, pattern, route in _ROUTES:
        found = re.fullmatch(pattern, path)
        if found is None:
            continue
        allowed = True
        if method in methods:
            body: Any = None
            if method == "POST":
                try:
                    body = json.loads(str(message.get("body") or "null"))
                except (ValueError, RecursionError):
                    return 400, "Unable to parse request body."
                if not isinstance(body, dict):
                    return _refused(9202, "Empty or wrong request body", 400)
            name = unquote(found[1]) if found.groups() else ""
            try:
                query = dict(parse_qsl(asked, keep_blank_values=True, max_num_fields=_QUERIES_MOST))
            except ValueError:
                return _refused(9200, f"over {_QUERIES_MOST} query fields", 400)
            return route(Asked(call_of(user), name, body, run, query))
    return (405, _NOT_ALLOWED) if allowed else (404, _NOT_FOUND)


def _told(asked: Asked, name: str, things: Any, database: bool = False) -> Answer:
    head = meta("openapi/dbv0.0.38", "Slurm OpenAPI DB v0.0.38") if database else meta()
    return 200, head | {name: things}


def _refused(number: int, text: str, status: int = 500) -> Answer:
    error = {"error_number": number, "error": text}
    return status, meta() | {"errors": [error]}


def _no_such(asked: Asked, error: str) -> Answer:
    code, text = refusals()[error]
    return _refused(code, text)


def _ping(asked: Asked) -> Answer:
    host = asked.call.site.host
    return _told(asked, "pings", [{"hostname": host, "ping": "UP", "status": 0, "mode": "primary"}])


def _diag(asked: Asked) -> Answer:
    return _told(asked, "statistics", statistics(asked.call))


def _jobs(asked: Asked) -> Answer:
    return _told(asked, "jobs", [job_data(asked.call, job) for job in asked.call.site.cluster.jobs.values()])


def _named(asked: Asked) -> list[Job]:
    number = int(asked.name)
    jobs = asked.call.site.cluster.jobs.values() if number else ()
    return [job for job in jobs if number in (job.job_id, job.array_job_id, job.het_job_id)]


def _job(asked: Asked) -> Answer:
    jobs = _named(asked)
    if not jobs:
        return _no_such(asked, "INVALID_JOB_ID")
    return _told(asked, "jobs", [job_data(asked.call, job) for job in jobs])


def _nodes(asked: Asked) -> Answer:
    return _told(asked, "nodes", [node_data(asked.call, node) for node in asked.call.site.cluster.nodes])


def _node(asked: Asked) -> Answer:
    cluster = asked.call.site.cluster
    if asked.name not in cluster.node_index:
        return _no_such(asked, "INVALID_NODE_NAME")
    return _told(asked, "nodes", [node_data(asked.call, cluster.nodes[cluster.node_index[asked.name]])])


def _partitions(asked: Asked) -> Answer:
    parts = asked.call.site.cluster.partitions.values()
    return _told(asked, "partitions", [_partition_data(asked, part) for part in parts])


def _partition(asked: Asked) -> Answer:
    part = asked.call.site.cluster.partitions.get(asked.name)
    if part is None:
        return _no_such(asked, "INVALID_PARTITION_NAME")
    return _told(asked, "partitions", [_partition_data(asked, part)])


def _partition_data(asked: Asked, part: Partition) -> dict[str, Any]:
    cluster = asked.call.site.cluster
    return {
        "name": part.name,
        "flags": ["default"] if part.default else [],
        "state": part.state,
        "nodes": part.nodes_text,
        "total_nodes": len(part.nodes),
        "total_cpus": sum(cluster.nodes[index].conf.cpus for index in part.nodes),
        "allowed_accounts": ",".join(part.allow_accounts or ()),
        "denied_accounts": ",".join(part.deny_accounts),
        "allowed_qos": ",".join(part.allow_qos or ()),
        "denied_qos": ",".join(part.deny_qos),
        "qos": part.qos,
        "max_time_limit": None if part.max_time >= INFINITE else part.max_time,
        "default_time_limit": part.default_time,
        "min_nodes_per_job": part.min_nodes,
        "max_nodes_per_job": None if part.max_nodes >= INFINITE else part.max_nodes,
        "priority_job_factor": part.priority_job_factor,
        "priority_tier": part.priority_tier,
        "over_time_limit": part.over_time_limit,
    }


def _reservations(asked: Asked) -> Answer:
    found = asked.call.site.cluster.reservations.values()
    return _told(asked, "reservations", [_reservation_data(asked, one) for one in found])


def _reservation(asked: Asked) -> Answer:
    one = asked.call.site.cluster.reservations.get(asked.name)
    if one is None:
        return _no_such(asked, "RESERVATION_INVALID")
    return _told(asked, "reservations", [_reservation_data(asked, one)])


def _reservation_data(asked: Asked, one: Reservation) -> dict[str, Any]:
    from fairway.slurm.words.hostlist import compress

    return {
        "name": one.name,
        "start_time": one.start,
        "end_time": one.end,
        "node_count": len(one.nodes),
        "node_list": compress(asked.call.site.cluster.names(one.nodes)),
        "users": ",".join(one.users),
        "accounts": ",".join(one.accounts),
        "flags": list(one.flags),
        "partition": one.partition,
        "features": one.features,
        "core_count": one.core_count,
    }


# What is submitted under which option of sbatch.
_OPTIONS = {
    "account": "--account",
    "array": "--array",
    "begin_time": "--begin",
    "comment": "--comment",
    "constraints": "--constraint",
    "cpus_per_task": "--cpus-per-task",
    "current_working_directory": "--chdir",
    "deadline": "--deadline",
    "dependency": "--dependency",
    "excluded_nodes": "--exclude",
    "licenses": "--licenses",
    "memory_per_cpu": "--mem-per-cpu",
    "memory_per_node": "--mem",
    "name": "--job-name",
    "nice": "--nice",
    "nodes": "--nodes",
    "partition": "--partition",
    "priority": "--priority",
    "qos": "--qos",
    "required_nodes": "--nodelist",
    "reservation": "--reservation",
    "standard_error": "--error",
    "standard_input": "--input",
    "standard_output": "--output",
    "tasks": "--ntasks",
    "tasks_per_node": "--ntasks-per-node",
    "time_limit": "--time",
    "tres_per_job": "--gpus",
    "tres_per_node": "--gres",
    "tres_per_socket": "--gpus-per-socket",
    "tres_per_task": "--gpus-per-task",
}


def _submit(asked: Asked) -> Answer:
    job = asked.body.get("job") or {}
    script = asked.body.get("script") or (job.get("script") if isinstance(job, dict) else "")
    if not isinstance(job, dict) or not isinstance(script, str):
        return _refused(9202, "job: expected an object; script: expected a text")
    environment = job.get("environment")
    if not environment or not isinstance(environment, (dict, list)):
        return _refused(9202, "environment must be set")
    said = (
        [f"{key}={value}" for key, value in environment.items()]
        if isinstance(environment, dict)
        else environment
    )
    pairs = dict(_plain(str(one)).partition("=")[::2] for one in said)
    words = ["sbatch", "--parsable"]
    for key, value in job.items():
        if key in ("environment", "script") or value is None:
            continue
        if key == "hold":
            words += ["--hold"] if value else []
        elif key == "requeue":
            words.append("--requeue" if value else "--no-requeue")
        elif key not in _OPTIONS:
            return _refused(9202, f"{key}: is no field of a job that is known here")
        else:
            words.append(f"{_OPTIONS[key]}={_text(key, value)}")
    cwd = _plain(str(job.get("current_working_directory", "/")))
    code, out, err = asked.run(asked.call.user, words, pairs, cwd, _encodable(script))
    if code:
        return _failed(err)
    return 200, meta() | {
        "job_id": int(out.split(";")[0]),
        "step_id": "BATCH",
        "job_submit_user_msg": "",
    }


def _text(key: str, value: Any) -> str:
    if isinstance(value, list):
        value = "-".join(str(v) for v in value) if key == "nodes" else ",".join(str(v) for v in value)
    text = _plain(str(value))
    if key.startswith("tres_per"):
        text = ",".join(part.removeprefix("gres:").removeprefix("gres/") for part in text.split(","))
        if key != "tres_per_node":
            text = text.removeprefix("gpu:")
    return text


def _plain(text: str) -> str:
    """A text as slurmrestd holds it: to its first NUL byte, half of a pair replaced as json-c does."""
    return _encodable(text.partition("\0")[0])


def _encodable(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _failed(err: str) -> Answer:
    """A refusal under the number of its text."""
    for code, text in refusals().values():
        if text in err:
            return _refused(code, text)
    return _refused(9000, err.strip()[:1000])


def _cancel(asked: Asked) -> Answer:
    if not _named(asked):
        return _no_such(asked, "INVALID_JOB_ID")
    code, _, err = asked.run(asked.call.user, ["scancel", asked.name], {}, "/", "")
    return _failed(err) if code else (200, meta())


_UPDATES = {
    "time_limit": "TimeLimit",
    "partition": "Partition",
    "name": "JobName",
    "comment": "Comment",
    "qos": "QOS",
    "account": "Account",
    "priority": "Priority",
    "nice": "Nice",
    "dependency": "Dependency",
}


def _update(asked: Asked) -> Answer:
    unknown = [key for key in asked.body if key not in _UPDATES]
    if unknown:
        return _refused(9202, f"{unknown[0]}: is no field of a job that can be changed here")
    changes = [_plain(f"{_UPDATES[key]}={value}") for key, value in asked.body.items()]
    words = ["scontrol", "update", f"JobId={asked.name}", *changes]
    code, _, err = asked.run(asked.call.user, words, {}, "/", "")
    return _failed(err) if code else (200, meta())


# slurmdbd's


# What runs are asked for by: the lists of values, one of which a run must have.
_RUNS_BY: dict[str, Callable[[Job], str]] = {
    "account": lambda job: job.account,
    "job_name": lambda job: job.request.name,
    "partition": lambda job: job.partition,
    "qos": lambda job: job.qos,
    "reservation": lambda job: job.reservation,
    "state": lambda job: job.state,
}


def _is_asked_for(query: Mapping[str, str], job: Job, now: int) -> bool:
    """Also by a period it was there in. Raises: TimeError."""
    for key, value in query.items():
        if key == "start_time":
            if job.end and job.end < parse_time(value, now):
                return False
        elif key == "end_time":
            if job.submit > parse_time(value, now):
                return False
        elif _RUNS_BY[key](job).lower() not in value.lower().split(","):
            return False
    return True


def _database_jobs(asked: Asked) -> Answer:
    """Runs of the caller; of everybody for operators."""
    cluster, user = asked.call.site.cluster, asked.call.user
    for key, value in asked.query.items():
        if key in ("start_time", "end_time"):
            try:
                parse_time(value, asked.call.now)
            except TimeError:
                return _refused(9200, "Unable to parse time format")
        elif key not in _RUNS_BY:
            return _refused(9200, "Unknown Query field")
    current = [job for job in cluster.jobs.values() if not job.finished]
    runs = [
        job
        for job in (*cluster.archive, *current)
        if (cluster.is_operator(user) or job.user == user)
        and (not asked.name or asked.name in (str(job.job_id), str(job.array_job_id)))
        and _is_asked_for(asked.query, job, asked.call.now)
    ]
    return _told(asked, "jobs", [job_data(asked.call, job) for job in runs], True)


def _accounts(asked: Asked) -> Answer:
    found = [
        {
            "name": one.name,
            "description": one.description,
            "organization": one.organization,
            "coordinators": list(one.coordinators),
            "flags": [],
        }
        for one in asked.call.site.cluster.accounts.accounts.values()
        if asked.name in ("", one.name)
    ]
    return _told(asked, "accounts", found, True)


def _users(asked: Asked) -> Answer:
    found = [
        {
            "name": one.name,
            "administrator_level": [one.admin_level],
            "default": {"account": one.default_account, "wckey": ""},
            "flags": [],
        }
        for one in asked.call.site.cluster.accounts.users.values()
        if asked.name in ("", one.name)
    ]
    return _told(asked, "users", found, True)


def _associations(asked: Asked) -> Answer:
    accounts = asked.call.site.cluster.accounts

    def data(one: Association) -> dict[str, Any]:
        above = accounts.associations.get(one.parent) if one.parent is not None else None
        return {
            "account": one.account,
            "cluster": accounts.cluster,
            "user": one.user,
            "partition": one.partition or None,
            "parent_account": above.account if above is not None and not one.user else None,
            "shares_raw": one.shares,
            "priority": one.priority,
            "qos": list(one.qos),
            "default": {"qos": one.default_qos or None},
            "usage": None,
            "flags": [],
        }

    return _told(asked, "associations", [data(one) for one in accounts.associations.values()], True)


def _qos(asked: Asked) -> Answer:
    def data(one: Qos) -> dict[str, Any]:
        return {
            "name": one.name,
            "id": one.id,
            "description": one.description,
            "priority": one.priority,
            "flags": list(one.flags),
            "preempt": {"list": list(one.preempt), "mode": [one.preempt_mode.upper()]},
        }

    found = [one for one in asked.call.site.cluster.accounts.qos.values() if asked.name in ("", one.name)]
    return _told(asked, "QOS", [data(one) for one in found], True)


_CTLD, _DBD, _NAME, _NUMBER = f"/slurm/{VERSION}", f"/slurmdb/{VERSION}", r"/([^/]+)", r"/([0-9]{1,10})"
_ROUTES: tuple[tuple[tuple[str, ...], str, Route], ...] = (
    (("GET",), f"{_CTLD}/ping", _ping),
    (("GET",), f"{_CTLD}/diag", _diag),
    (("GET",), f"{_CTLD}/jobs", _jobs),
    (("POST",), f"{_CTLD}/job/submit", _submit),
    (("GET",), f"{_CTLD}/job{_NUMBER}", _job),
    (("DELETE",), f"{_CTLD}/job{_NUMBER}", _cancel),
    (("POST",), f"{_CTLD}/job{_NUMBER}", _update),
    (("GET",), f"{_CTLD}/nodes", _nodes),
    (("GET",), f"{_CTLD}/node{_NAME}", _node),
    (("GET",), f"{_CTLD}/partitions", _partitions),
    (("GET",), f"{_CTLD}/partition{_NAME}", _partition),
    (("GET",), f"{_CTLD}/reservations", _reservations),
    (("GET",), f"{_CTLD}/reservation{_NAME}", _reservation),
    (("GET",), f"{_DBD}/diag", _diag),
    (("GET",), f"{_DBD}/jobs", _database_jobs),
    (("GET",), f"{_DBD}/job{_NUMBER}", _database_jobs),
    (("GET",), f"{_DBD}/accounts", _accounts),
    (("GET",), f"{_DBD}/account{_NAME}", _accounts),
    (("GET",), f"{_DBD}/users", _users),
    (("GET",), f"{_DBD}/user{_NAME}", _users),
    (("GET",), f"{_DBD}/associations", _associations),
    (("GET",), f"{_DBD}/qos", _qos),
    (("GET",), f"{_DBD}/qos{_NAME}", _qos),
)
