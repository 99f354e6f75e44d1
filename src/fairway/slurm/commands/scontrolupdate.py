"""scontrol update, create and delete: `Key=Value` words become changes of jobs, nodes, partitions and reservations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from fairway.slurm.commands.call import Call
from fairway.slurm.commands.joboptions import mail_types
from fairway.slurm.commands.jobrequests import _gres
from fairway.slurm.commands.scontrolnodes import create_node, delete_node, update_node
from fairway.slurm.commands.scontrolpartitions import create_partition, update_partition
from fairway.slurm.commands.scontrolreservations import create_reservation, update_reservation
from fairway.slurm.commands.scontrolwords import Pairs, ask_administrator, names
from fairway.slurm.commands.steps import step_rows
from fairway.slurm.words import durations, hostlist
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.errors import SlurmError, refusals
from fairway.slurm.words.sizes import whole


def update(call: Call, words: list[str]) -> None:
    if not words:
        call.say("too few arguments for update keyword")
        call.quit(1)
    _dispatch(call, words, _ENTITIES, "update", 'or "SlurmctldDebug"')


def create(call: Call, words: list[str]) -> None:
    if not words:
        call.say("too few arguments for create keyword")
        call.quit(1)
    if words[0].lower().startswith("res") and "=" not in words[0]:
        create_reservation(call, _pairs(call, words[1:]))
        return
    if len(words[0]) > 2 and "partitionname".startswith(words[0].lower()):
        call.error(f"Invalid input: {words[0]}  Request aborted")
        call.quit(1)
    if not any("=" in word for word in words):
        call.fail(f"Invalid creation entity: {words[0]}")
    _dispatch(call, words, _CREATED, "create", "")


def delete(call: Call, words: list[str]) -> None:
    if not words:
        call.say("too few arguments for delete keyword")
        call.quit(1)
    key, equals, value = words[0].partition("=")
    if not equals:
        if len(words) < 2:
            call.error("Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'")
            call.quit(1)
        value = words[1]
    kind = key.lower()
    if "nodename".startswith(kind) and len(kind) > 2:
        delete_node(call, words[0], value)
        return
    try:
        if "partitionname".startswith(kind) and len(kind) > 2:
            ask_administrator(call, f"delete_partition {words[0]}")
            call.site.controller.delete_partition(value, "root")
        elif "reservationname".startswith(kind) and len(kind) > 2:
            ask_administrator(call, f"delete_reservation {words[0]}", operator=True)
            call.site.controller.delete_reservation(value, "root")
        else:
            call.say(f"Invalid deletion entity: {words[0]}")
            call.quit(1)
    except SlurmError as refused:
        what = "partition" if kind.startswith("part") else "reservation"
        call.say(f"delete_{what} {words[0]}: {refused.message}")
        call.quit(1)


def _dispatch(
    call: Call, words: list[str], entities: dict[str, Callable[[Call, Pairs], None]], what: str, last: str
) -> None:
    """Which entity it is about, from the first key that names one."""
    pairs = _pairs(call, words)
    for key, _, _ in pairs:
        lower = key.lower()
        for name, handler in entities.items():
            if len(lower) >= _LEAST[name] and name.startswith(lower):
                handler(call, pairs)
                return
    if what == "create":
        call.error(f"Invalid creation entity: {words[0] if words else ''}")
        call.quit(1)
    call.say(f"No valid entity in {what} command")
    call.say(
        'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
    )
    call.quit(1)


def _pairs(call: Call, words: list[str]) -> Pairs:
    pairs: Pairs = []
    for word in words:
        if word.lower() in ("ni", "nic", "nice"):  # as if it were 100
            word = f"{word}=100"
        match = re.match(r"([^=+-]*(?:-[^=+-]+)*)([+-]?)=(.*)", word, re.DOTALL)
        if match is None and not pairs and word.lower().startswith("res"):
            pairs.append((word, "", ""))
            continue
        if match is None:
            _abort(call, f"Invalid input: {word}")
        pairs.append((match[1], f"{match[2]}=", match[3]))
    return pairs


_LEAST = {
    "nodename": 3,
    "partitionname": 2,
    "reservationname": 3,
    "jobid": 3,
    "jobname": 4,
    "stepid": 4,
    "slurmctlddebug": 5,
}


def _moment(call: Call, value: str) -> int:
    try:
        return durations.parse_time(value, call.now)
    except durations.TimeError as bad:
        call.say(str(bad))
        call.quit(1)


def _gres_words(value: str, gpus: bool = False) -> str:
    """`gpu:2` as Slurm keeps it: `gres:gpu:2`."""
    return ",".join(p if p.startswith("gres:") else f"gres:{p}" for p in value.split(",") if p)


def update_job(call: Call, pairs: Pairs) -> None:
    from fairway.slurm.commands.scontrol import jobs_of_name, on_jobs

    changes: dict[str, Any] = {}
    target = named = user = ""
    for key, sign, value in pairs:
        if names(key, ("jobid", 3)):
            target = value
            continue
        if names(key, ("jobname", 7)) and not target and not any(names(k, ("jobid", 3)) for k, _, _ in pairs):
            named = value
            continue
        if names(key, ("userid", 3)):
            user = _user(call, value)
            continue
        found = next(((f, read) for fields, f, read in _JOB_KEYS if names(key, *fields)), None)
        if found is None:
            _abort(call, f"Update of this parameter is not supported: {key}{sign}{value}")
        field, read = found
        if field == "time_limit" and sign == "=" and value[:1] in ("+", "-"):
            sign, value = f"{value[0]}=", value[1:]
        changed = read(call, value)
        if changed is _UNCHANGED:
            continue
        if field == "time_limit":
            changed = _time_limit(call, target, sign, value, changed)
        if changed is _BAD:
            if sign == "=" and field in ("time_limit", "time_min"):
                call.error("Invalid TimeLimit value" if field == "time_limit" else "Invalid TimeMin value")
            call.quit(1)
        changes[field] = changed
    if not changes:
        call.say("No changes specified")
        call.quit(1)

    if not target:
        target = ",".join(job.label for job in jobs_of_name(call, named, user))
        if not target:
            whose = f"user ID {call.site.uid(user)} and " if user else ""
            call.fail(f"No jobs with {whose}name '{named}'")

    def act(ids: list[int], alone: bool) -> None:
        for one in ids:
            call.site.controller.update_job(one, changes, call.user, alone=alone)

    on_jobs(call, [target], "update", act)


def _user(call: Call, value: str) -> str:
    """UserID: whose job of that name is meant."""
    uid = call.site.uid(value)
    if uid is None:
        call.say(f"Invalid UserID: {value}")
        call.quit(1)
    return call.site.user(uid)


def update_step(call: Call, pairs: Pairs) -> None:
    """A step's time limit (scontrol_update_step)."""
    job, step, limit, number = 0, "", None, r"\s*(\d{1,9})"
    for key, sign, value in pairs:
        if names(key, ("stepid", 4)):
            found = re.fullmatch(number + r"(?:\.(\d{0,9}).*)?", value)
            if found is None:
                _abort(call, f"Invalid StepID parameter: {key}{sign}{value}")
            job, step = int(found[1]), "" if found[2] is None else found[2] or "0"
        elif names(key, ("timelimit", 2)):
            more = value[:1] if value[:1] in ("+", "-") else ""
            limit = durations.minutes(value.removeprefix(more))
            if limit is None:
                call.error("Invalid TimeLimit value")
                call.quit(1)
            if more:
                limit = _changed_limit(call, job, step, more, limit)
        else:
            _abort(call, f"Update of this parameter is not supported: {key}{sign}{value}")
    if limit is None:
        call.say("No changes specified")
        call.quit(1)
    try:
        call.site.controller.update_step(job, step, limit, call.user)
    except SlurmError as refused:
        call.say(f"slurm_update error: {refused.message}")
        call.quit(1)


def _changed_limit(call: Call, job: int, step: str, more: str, by: int) -> int:
    now = next((r.time_limit for r in step_rows(call) if (r.job.job_id, r.step.step_id) == (job, step)), None)
    if now is None:
        unknown = refusals()["INVALID_JOB_ID"][1]
        call.error(f"Could not load state information for step {job}.{step or durations.NO_VAL}: {unknown}")
        call.quit(1)
    if more == "+":
        return (now + by) % 2**32
    if by > now:
        call.error(f"TimeLimit decrement larger than current time limit ({by} > {now})")
        call.quit(1)
    return now - by


def _abort(call: Call, said: str) -> NoReturn:
    call.say(said)
    call.say("Request aborted")
    call.quit(1)


class _Bad:
    """A value that cannot be read."""


_BAD = _Bad()
_UNCHANGED = _Bad()
"""A moment that cannot be read: scontrol says so and goes on without it."""


def _time_limit(call: Call, target: str, sign: str, value: str, minutes: Any) -> Any:
    if sign == "=" or minutes is _BAD:
        return minutes
    from fairway.slurm.commands.scontrol import job_ids

    try:
        job = call.site.job(job_ids(call, target)[0])
    except SlurmError:
        return minutes
    assert job is not None
    if sign == "+=":
        return job.time_limit + minutes
    if minutes > job.time_limit:
        call.error(f"TimeLimit decrement larger than current time limit ({minutes} > {job.time_limit})")
        return _BAD
    return job.time_limit - minutes


def _read_time(call: Call, value: str) -> Any:
    minutes = durations.minutes(value)
    return _BAD if minutes is None else minutes or INFINITE


def _read_int(call: Call, value: str) -> Any:
    if re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    call.say(f"Invalid number: {value}")
    return _BAD


def _read_nodes(call: Call, value: str) -> Any:
    low, dash, high = value.partition("-")
    if not low.isdecimal() or (dash and not high.isdecimal()):
        call.error(f'"{value}" is not a valid node count')
        return _BAD
    return whole(low), whole(high) if high else None


def _read_text(call: Call, value: str) -> Any:
    return value


def _read_features(call: Call, value: str) -> Any:
    return value or None


def _read_list(call: Call, value: str) -> Any:
    return tuple(hostlist.expand(value))


def _read_amount(name: str) -> Callable[[Call, str], Any]:
    """Megabytes, as a number alone (parse_uint64)."""

    def read(call: Call, value: str) -> Any:
        if re.fullmatch(r"\d{1,18}", value, re.ASCII):
            return int(value)
        call.error(f"Invalid {name} value: {value}")
        return _BAD

    return read


def _read_gres(call: Call, value: str) -> Any:
    """The words, and the counts of those that say that they are of a GRES; they join what stands."""
    return value, _gres(",".join(word for word in value.split(",") if word.startswith("gres:")))


def _read_plain_gres(call: Call, value: str) -> Any:
    return _read_gres(call, f"gres:{value}".replace(",", ",gres:").replace("gres:gres:", "gres:"))


def _read_moment(call: Call, value: str) -> Any:
    try:
        return durations.parse_time(value, call.now) if value else _UNCHANGED
    except durations.TimeError as bad:
        call.say(str(bad))
        return _UNCHANGED


def _read_delay_boot(call: Call, value: str) -> Any:
    seconds = durations.seconds(value)
    if seconds is None:
        call.error("Invalid DelayBoot value")
        return _BAD
    return seconds


def _read_switches(call: Call, value: str) -> Any:
    """`1@10`: how many, and minutes to wait for them (`=` alone: none)."""
    count = re.match(r"\s*\d{1,9}", value)
    wait = durations.minutes(value.partition("@")[2])
    return (int(count[0]) if count else 0), None if wait is None else wait * 60


def _read_mail(call: Call, value: str) -> Any:
    found = mail_types(value)
    if found is None:
        call.say(f"Invalid MailType: {value}")
        return _BAD
    return ",".join(found)


def _read_yes(call: Call, value: str) -> Any:
    return value.lower() in ("yes", "y", "1", "true")


def _read_requeue(call: Call, value: str) -> Any:
    if re.fullmatch(r"\d{1,5}", value):
        return int(value) != 0
    call.error(f"Invalid Requeue value: {value}")
    return _BAD


Names = tuple[tuple[str, int], ...]
_JOB_KEYS: tuple[tuple[Names, str, Callable[[Call, str], Any]], ...] = (
    ((("admincomment", 3),), "admin_comment", _read_text),
    ((("arraytaskthrottle", 10),), "array_throttle", _read_int),
    ((("comment", 3),), "comment", _read_text),
    ((("timelimit", 5),), "time_limit", _read_time),
    ((("timemin", 5),), "time_min", _read_time),
    ((("priority", 2),), "priority", _read_int),
    ((("nice", 2),), "nice", _read_int),
    ((("cpuspertask", 9),), "cpus_per_task", _read_int),
    ((("numcpus", 6),), "min_cpus", _read_int),
    ((("numtasks", 8), ("reqprocs", 8)), "num_tasks", _read_int),
    ((("requeue", 4),), "requeue", _read_requeue),
    ((("numnodes", 8), ("reqnodes", 8)), "nodes", _read_nodes),
    ((("tasksperNode".lower(), 2),), "ntasks_per_node", _read_int),
    ((("mincpusnode", 4),), "node_min_cpus", _read_int),
    ((("minmemorynode", 10),), "mem_per_node", _read_amount("MinMemoryNode")),
    ((("minmemorycpu", 10),), "mem_per_cpu", _read_amount("MinMemoryCPU")),
    ((("mintmpdisknode", 5),), "min_tmp_disk", _read_amount("MinTmpDiskNode")),
    ((("partition", 2),), "partition", _read_text),
    ((("qos", 2),), "qos", _read_text),
    ((("reservationname", 3),), "reservation", _read_text),
    ((("name", 2), ("jobname", 4)), "name", _read_text),
    ((("wckey", 1),), "wckey", _read_text),
    ((("stdout", 6),), "std_out", _read_text),
    ((("oversubscribe", 2), ("shared", 2)), "share", _read_yes),
    ((("contiguous", 3),), "contiguous", _read_yes),
    ((("corespec", 4),), "core_spec", _read_int),
    ((("tresperjob", 8),), "tres_per_job", _read_gres),
    ((("trespernode", 8),), "tres_per_node", _read_gres),
    ((("gres", 2),), "tres_per_node", _read_plain_gres),
    ((("trespersocket", 8),), "tres_per_socket", _read_gres),
    ((("trespertask", 8),), "tres_per_task", _read_gres),
    ((("excnodelist", 3),), "exclude", _read_list),
    ((("nodelist", 8), ("reqnodelist", 8)), "nodelist", _read_list),
    ((("features", 1),), "features", _read_features),
    ((("account", 1),), "account", _read_text),
    ((("dependency", 1),), "dependency", _read_text),
    ((("licenses", 1),), "licenses", _read_text),
    ((("eligibletime", 2), ("starttime", 2)), "begin", _read_moment),
    ((("endtime", 2),), "end", _read_moment),
    ((("deadline", 3),), "deadline", _read_moment),
    ((("delayboot", 5),), "delay_boot", _read_delay_boot),
    ((("workdir", 2),), "work_dir", _read_text),
    ((("switches", 5),), "switches", _read_switches),
    ((("sitefactor", 4),), "site_factor", _read_int),
    ((("burstbuffer", 1),), "burst_buffer", _read_text),
    ((("clusterfeatures", 8),), "cluster_features", _read_text),
    ((("mailtype", 5),), "mail_type", _read_mail),
    ((("mailuser", 5),), "mail_user", _read_text),
)


def _debug(call: Call, pairs: Pairs) -> None:
    """SlurmctldDebug: there is no log whose level could change."""


_ENTITIES: dict[str, Callable[[Call, Pairs], None]] = {
    "jobid": update_job,
    "nodename": update_node,
    "partitionname": update_partition,
    "reservationname": update_reservation,
    "jobname": update_job,
    "stepid": update_step,
    "slurmctlddebug": _debug,
}
_CREATED: dict[str, Callable[[Call, Pairs], None]] = {
    "reservationname": create_reservation,
    "starttime": create_reservation,
    "partitionname": create_partition,
    "nodename": create_node,
}
_LEAST["starttime"] = 4
