"""Jobs as `scontrol show job` writes them, nodes' states as `scontrol show node` does, and `squeue --json`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from fairway.errors import FieldProblem, InvalidInput
from fairway.slurm.records.record import JobRecord
from fairway.slurm.records.sacct import _stamp, _tres
from fairway.slurm.words import durations
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.sizes import whole

MAX_JOBS = 1_000_000
_PAIR = re.compile(r"(?:^|\s)([A-Za-z][\w/:]*)=(.*?)(?=\s[A-Za-z][\w/:]*=|$)")


def blocks(text: str, first: str) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, keys and values) of every record that begins with `first=`."""
    held: dict[str, str] = {}
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(first + "="):
            if held:
                yield start, held
            held, start = {}, number
        for key, value in _PAIR.findall(line.strip()):
            held.setdefault(key, value.strip())
    if held and first in held:
        yield start, held


def read_jobs(text: str, file: str) -> list[JobRecord]:
    """`scontrol show job`. Raises: InvalidInput."""
    found, problems = [], []
    for number, pairs in blocks(text, "JobId"):
        try:
            found.append(_job(pairs, number))
        except (ValueError, KeyError) as wrong:
            problems.append(
                FieldProblem(file, number, "JobId", pairs.get("JobId", ""), f"cannot be read: {wrong}")
            )
    if problems:
        raise InvalidInput(tuple(problems[:20]))
    return found


def _job(pairs: dict[str, str], line: int) -> JobRecord:
    tres = _tres(pairs.get("ReqTRES") or pairs.get("TRES", ""))
    state = pairs["JobState"]
    label = pairs["JobId"]
    if "ArrayJobId" in pairs and "ArrayTaskId" in pairs:
        label = f"{pairs['ArrayJobId']}_{pairs['ArrayTaskId']}"
    limit = pairs.get("TimeLimit", "UNLIMITED")
    minutes = INFINITE if limit in ("UNLIMITED", "Partition_Limit") else durations.minutes(limit)
    if minutes is None:
        raise ValueError(f"TimeLimit={limit}")
    nodes = pairs.get("NumNodes", "1").split("-")[0]
    is_pending = state == "PENDING"
    return JobRecord(
        label=label,
        name=pairs.get("JobName", ""),
        user=pairs.get("UserId", "unknown").partition("(")[0],
        account=_word(pairs.get("Account", "")),
        partition=pairs.get("Partition", ""),
        qos=_word(pairs.get("QOS", "")),
        state=state,
        submit=_stamp(pairs.get("SubmitTime", "")),
        start=0 if is_pending else _stamp(pairs.get("StartTime", "")),
        end=0 if is_pending or state == "RUNNING" else _stamp(pairs.get("EndTime", "")),
        limit=minutes,
        nodes=whole(nodes) if nodes.isdecimal() else 1,
        tres=tres,
        nodelist="" if is_pending else _word(pairs.get("NodeList", "")),
        eligible=_stamp(pairs.get("EligibleTime", "")),
        priority=whole(pairs["Priority"]) if pairs.get("Priority", "").isdecimal() else 0,
        reason=pairs.get("Reason", ""),
        dependency=_word(pairs.get("Dependency", "")),
        features=_word(pairs.get("Features", "")),
        alloc={} if is_pending else tres,
        line=line,
        wanted=_word(pairs.get("ReqNodeList", "")),
        excluded=_word(pairs.get("ExcNodeList", "")),
    )


def _word(text: str) -> str:
    return "" if text in ("(null)", "N/A", "None") else text.lower() if text.isupper() else text


def node_states(text: str) -> dict[str, tuple[str, str]]:
    """Node → (state, reason) of `scontrol show node`."""
    return {
        pairs["NodeName"]: (pairs.get("State", "IDLE"), pairs.get("Reason", "").split(" [")[0])
        for _, pairs in blocks(text, "NodeName")
    }


def newest_stamp(text: str) -> int:
    """The latest time that is not to come: LastSchedEval, StartTime of what runs, SubmitTime."""
    stamps = re.findall(r"(?:LastSchedEval|SubmitTime|AccrueTime)=(\d{4}-[\dT:-]+)", text)
    return max((_stamp(stamp) for stamp in stamps), default=0)


def read_squeue_json(text: str, file: str) -> list[JobRecord]:
    """`squeue --json` of data_parser 0.0.38 and later (numbers plain or {set, number}). Raises: InvalidInput."""
    try:
        data = msgspec.json.decode(text)
        jobs = data["jobs"]
        return [_json_job(job) for job in jobs[:MAX_JOBS]]
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, OverflowError, RecursionError) as wrong:
        raise InvalidInput((FieldProblem(file, 0, "jobs", "", f"is no squeue --json: {wrong}"),)) from None


def _whole(value: Any, default: int = 0) -> int:
    if isinstance(value, dict):
        if value.get("infinite"):
            return INFINITE
        value = value.get("number") if value.get("set", True) else default
    return int(value) if isinstance(value, (int, float)) else default


def _json_job(job: dict[str, Any]) -> JobRecord:
    state = job["job_state"][0] if isinstance(job["job_state"], list) else str(job["job_state"])
    array, task = _whole(job.get("array_job_id")), job.get("array_task_id")
    label = str(job["job_id"])
    if array and task is not None and (not isinstance(task, dict) or task.get("set")):
        label = f"{array}_{_whole(task)}"
    is_pending = state == "PENDING"
    tres = _tres(str(job.get("tres_req_str") or ""))
    return JobRecord(
        label=label,
        name=str(job.get("name") or ""),
        user=str(job.get("user_name") or "unknown"),
        account=str(job.get("account") or ""),
        partition=str(job.get("partition") or ""),
        qos=str(job.get("qos") or ""),
        state=state,
        submit=_whole(job.get("submit_time")),
        start=0 if is_pending else _whole(job.get("start_time")),
        end=0 if is_pending or state == "RUNNING" else _whole(job.get("end_time")),
        limit=_whole(job.get("time_limit"), INFINITE) or INFINITE,
        nodes=_whole(job.get("node_count"), 1) or 1,
        tres=tres,
        nodelist="" if is_pending else str(job.get("nodes") or ""),
        eligible=_whole(job.get("eligible_time")),
        priority=_whole(job.get("priority")),
        reason=str(job.get("state_reason") or ""),
        dependency=str(job.get("dependency") or ""),
        wanted=str(job.get("required_nodes") or ""),
        excluded=str(job.get("excluded_nodes") or ""),
        features=str(job.get("features") or ""),
        alloc={} if is_pending else _tres(str(job.get("tres_alloc_str") or "")) or tres,
    )
