"""scontrol update, create and delete: `Key=Value` words become changes of jobs, nodes, partitions and reservations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fairway.slurm.commands.accountlimits import changed_words
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.jobrequests import _gres
from fairway.slurm.model.partition import Reservation
from fairway.slurm.words import durations, hostlist, sizes
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.errors import SlurmError, refusals

Pairs = list[tuple[str, str, str]]
"""Key, operator (`=`, `+=`, `-=`), value."""


def update(call: Call, words: list[str]) -> None:
    if not words:
        call.say("too few arguments for update keyword")
        call.quit(1)
    _dispatch(call, words, _ENTITIES, "update", 'or "SlurmctldDebug"')


def create(call: Call, words: list[str]) -> None:
    if not words:
        call.say("too few arguments for create keyword")
        call.quit(1)
    words = [w for at, w in enumerate(words) if at or w.lower() not in ("reservation", "partition")]
    _dispatch(call, words, _CREATED, "create", "")


def delete(call: Call, words: list[str]) -> None:
    if not words:
        call.say("too few arguments for delete keyword")
        call.quit(1)
    key, equals, value = words[0].partition("=")
    if not equals and len(words) > 1:
        value = words[1]
    kind = key.lower()
    try:
        if "partitionname".startswith(kind) and len(kind) > 2:
            _administrator(call, f"delete_partition {words[0]}")
            call.site.controller.delete_partition(value, "root")
        elif "reservationname".startswith(kind) and len(kind) > 2:
            _administrator(call, f"delete_reservation {words[0]}", operator=True)
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
    pairs: Pairs = []
    for word in words:
        match = re.match(r"([^=+-]*(?:-[^=+-]+)*)([+-]?)=(.*)", word, re.DOTALL)
        if match is None:
            call.say(f"Invalid input: {word}")
            call.say("Request aborted")
            call.quit(1)
        pairs.append((match[1], f"{match[2]}=", match[3]))
    for key, _, _ in pairs:
        lower = key.lower()
        for name, handler in entities.items():
            if len(lower) >= _LEAST[name] and name.startswith(lower):
                handler(call, pairs)
                return
    call.say(f"No valid entity in {what} command")
    if what == "update":
        call.say(
            'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
        )
    else:
        call.say('Input line must include "NodeName", "PartitionName", or "Reservation"')
    call.quit(1)


_LEAST = {
    "nodename": 3,
    "partitionname": 2,
    "reservationname": 3,
    "jobid": 3,
    "jobname": 4,
    "slurmctlddebug": 5,
}


def _is(key: str, *names: tuple[str, int]) -> bool:
    """Does a key, as far as it is written, name one of these?"""
    lower = key.lower()
    return any(len(lower) >= least and name.startswith(lower) for name, least in names)


def _minutes(value: str) -> Any:
    return durations.minutes(value)


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
    from fairway.slurm.commands.scontrol import on_jobs

    changes: dict[str, Any] = {}
    target = ""
    for key, sign, value in pairs:
        if _is(key, ("jobid", 3)):
            target = value
            continue
        if _is(key, ("jobname", 7)) and not target and not any(_is(k, ("jobid", 3)) for k, _, _ in pairs):
            target = f"name={value}"
            continue
        found = next(((f, read) for names, f, read in _JOB_KEYS if _is(key, *names)), None)
        if found is None:
            call.say(f"Update of this parameter is not supported: {key}{sign}{value}")
            call.say("Request aborted")
            call.quit(1)
        field, read = found
        if field == "time_limit" and sign == "=" and value[:1] in ("+", "-"):
            sign, value = f"{value[0]}=", value[1:]
        changed = read(call, value)
        if field == "time_limit":
            changed = _time_limit(call, target, sign, value, changed)
        if changed is _BAD:
            if field in ("time_limit", "time_min"):
                call.error("Invalid TimeLimit value" if field == "time_limit" else "Invalid TimeMin value")
            call.quit(1)
        changes[field] = changed
    if not changes:
        call.say("No changes specified")
        call.quit(1)

    def act(ids: list[int]) -> None:
        for one in ids:
            call.site.controller.update_job(one, changes, call.user)

    on_jobs(call, [target], "update", act)


class _Bad:
    """A value that cannot be read."""


_BAD = _Bad()


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
    if not low.isdigit() or (dash and not high.isdigit()):
        call.error(f'"{value}" is not a valid node count')
        return _BAD
    return int(low), int(high or low)


def _read_text(call: Call, value: str) -> Any:
    return value


def _read_list(call: Call, value: str) -> Any:
    return tuple(hostlist.expand(value))


def _read_memory(call: Call, value: str) -> Any:
    return _BAD if sizes.megabytes(value) is None else sizes.megabytes(value)


def _read_gres(call: Call, value: str) -> Any:
    return _gres(value)


def _read_moment(call: Call, value: str) -> Any:
    return _moment(call, value)


def _read_yes(call: Call, value: str) -> Any:
    return value.lower() in ("yes", "y", "1", "true")


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
    ((("requeue", 4),), "requeue", _read_yes),
    ((("numnodes", 8), ("reqnodes", 8)), "nodes", _read_nodes),
    ((("tasksperNode".lower(), 2),), "ntasks_per_node", _read_int),
    ((("mincpusnode", 4),), "node_min_cpus", _read_int),
    ((("minmemorynode", 10),), "mem_per_node", _read_memory),
    ((("minmemorycpu", 10),), "mem_per_cpu", _read_memory),
    ((("mintmpdisknode", 5),), "min_tmp_disk", _read_memory),
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
    ((("trespernode", 8), ("gres", 2)), "tres_per_node", _read_gres),
    ((("trespersocket", 8),), "tres_per_socket", _read_gres),
    ((("trespertask", 8),), "tres_per_task", _read_gres),
    ((("excnodelist", 3),), "exclude", _read_list),
    ((("nodelist", 8), ("reqnodelist", 8)), "nodelist", _read_list),
    ((("features", 1),), "features", _read_text),
    ((("account", 1),), "account", _read_text),
    ((("dependency", 1),), "dependency", _read_text),
    ((("licenses", 1),), "licenses", _read_text),
    ((("eligibletime", 2), ("starttime", 2)), "begin", _read_moment),
    ((("endtime", 2),), "end", _read_moment),
    ((("deadline", 3),), "deadline", _read_moment),
    ((("workdir", 2),), "work_dir", _read_text),
    ((("mailtype", 5),), "mail_type", _read_text),
    ((("mailuser", 5),), "mail_user", _read_text),
)


def refused_update(call: Call, refused: SlurmError) -> None:
    call.say(f"slurm_update error: {refused.message}")
    call.quit(1)


_NODE_STATES = "NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN"
_STATES = {
    "NORESP": "NORESP",
    "DRAIN": "DRAIN",
    "FAIL": "FAIL",
    "FUTURE": "FUTURE",
    "RESUME": "RESUME",
    "POWER_DOWN": "POWER_DOWN",
    "POWER_DOWN_ASAP": "POWER_DOWN",
    "POWER_DOWN_FORCE": "POWER_DOWN",
    "POWER_UP": "POWER_UP",
    "UNDRAIN": "UNDRAIN",
    "DOWN": "DOWN",
    "IDLE": "IDLE",
    "CANCEL_REBOOT": "CANCEL_REBOOT",
    "ALLOCATED": "ALLOCATED",
}


def _update_node(call: Call, pairs: Pairs) -> None:
    names = ""
    changes: dict[str, Any] = {}
    for key, sign, value in pairs:
        if _is(key, ("nodename", 2)):
            names = value
        elif _is(key, ("activefeatures", 2)):
            changes["active_features"] = tuple(f for f in value.split(",") if f)
        elif _is(key, ("comment", 3)):
            changes["comment"] = value
        elif _is(key, ("availablefeatures", 2), ("features", 1)):
            changes["features"] = tuple(f for f in value.split(",") if f)
        elif _is(key, ("gres", 1)):
            changes["gres"] = value
        elif _is(key, ("weight", 1)):
            if not value.isdigit():
                call.say(f"Invalid weight value: {value}")
                call.quit(1)
            changes["weight"] = int(value)
        elif _is(key, ("reason", 1)):
            changes["reason"] = value
        elif _is(key, ("state", 1)):
            state = next((s for s in _STATES if s.startswith(value.upper())), None) if value else None
            if state is None:
                call.say(f"Invalid input: {key}{sign}{value}")
                call.say("Request aborted")
                call.say(f"Valid states are: {_NODE_STATES}")
                call.say("Not all states are valid given a node's prior state")
                call.quit(1)
            changes["state"] = _STATES[state]
        else:
            call.say(f"Update of this parameter is not supported: {key}{sign}{value}")
            call.say("Request aborted")
            call.quit(1)
    if changes.get("state") in ("DOWN", "DRAIN", "FAIL") and not changes.get("reason"):
        call.say("You must specify a reason when DOWNING or DRAINING a node. Request denied")
        call.quit(1)
    _administrator(call, "slurm_update error")
    try:
        call.site.controller.update_node(hostlist.expand(names), changes, call.user)
    except hostlist.HostlistError:
        call.say(f"slurm_update error: {refusals()['INVALID_NODE_NAME'][1]}")
        call.quit(1)
    except SlurmError as refused:
        refused_update(call, refused)


def _partition_changes(call: Call, pairs: Pairs) -> tuple[str, dict[str, str]]:
    name, changes = "", {}
    for key, sign, value in pairs:
        if _is(key, ("partitionname", 2)):
            name = value
            continue
        known = next(
            (k for k in _PARTITION_KEYS if len(key) >= min(4, len(k)) and k.startswith(key.lower())), None
        )
        if known is None:
            call.error(f"Update of this parameter is not supported: {key}{sign}{value}\n")
            call.error("Request aborted")
            call.say("slurm_update error: No error")
            call.quit(1)
        if (
            known in ("maxtime", "defaulttime", "defmempercpu")
            and known.endswith("time")
            and durations.minutes(value) is None
        ):
            call.error(f"Invalid input line: {key}{sign}{value}")
            call.quit(1)
        changes[known] = value
    return name, changes


_PARTITION_KEYS = (
    "maxtime", "defaulttime", "time", "maxcpuspernode", "maxnodes", "minnodes", "default",
    "disablerootjobs", "exclusiveuser", "hidden", "lln", "rootonly", "reqresv", "oversubscribe", "shared",
    "overtimelimit", "preemptmode", "priority", "priorityjobfactor", "prioritytier", "state", "nodes",
    "allowgroups", "allowaccounts", "allowqos", "denyaccounts", "denyqos", "allocnodes", "alternate",
    "gracetime", "defmempercpu", "defmempernode", "maxmempercpu", "maxmempernode", "qos", "jobdefaults",
    "tresbillingweights",
)  # fmt: skip


def _update_partition(call: Call, pairs: Pairs) -> None:
    name, changes = _partition_changes(call, pairs)
    _administrator(call, "slurm_update error")
    try:
        call.site.controller.update_partition(name, changes, "root")
    except SlurmError as refused:
        refused_update(call, refused)


def _create_partition(call: Call, pairs: Pairs) -> None:
    name, changes = _partition_changes(call, pairs)
    _administrator(call, "Error creating the partition")
    try:
        call.site.controller.create_partition(name, changes, "root")
    except SlurmError as refused:
        call.say(f"Error creating the partition: {refused.message}")
        call.quit(1)


_RESERVATION_KEYS = {
    "reservationname": "name",
    "starttime": "start",
    "endtime": "end",
    "duration": "duration",
    "nodecnt": "node_count",
    "nodecount": "node_count",
    "corecnt": "core_count",
    "nodes": "nodes",
    "features": "features",
    "flags": "flags",
    "licenses": "licenses",
    "partitionname": "partition",
    "users": "users",
    "groups": "groups",
    "accounts": "accounts",
    "tres": "tres",
    "purge_comp": "purge_comp",
    "maxstartdelay": "max_start_delay",
    "skip": "skip",
}


def _reservation_fields(call: Call, pairs: Pairs, what: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, sign, value in pairs:
        lower = key.lower()
        field = next(
            (f for k, f in _RESERVATION_KEYS.items() if len(lower) >= min(3, len(k)) and k.startswith(lower)),
            None,
        )
        if field is None:
            call.error(f"Unknown parameter {key}.  No reservation {what}.")
            call.quit(1)
        if field in ("start", "end"):
            try:
                fields[field] = durations.parse_time(value, call.now)
            except durations.TimeError as bad:
                call.say(str(bad))
                call.error(
                    f"Invalid {'start' if field == 'start' else 'end'} time {value}.  No reservation {what}."
                )
                call.quit(1)
        elif field == "duration":
            minutes = durations.minutes(value)
            if minutes is None:
                call.error(f"Invalid duration {value}.  No reservation {what}.")
                call.quit(1)
            fields[field] = minutes
        elif field in ("node_count", "core_count"):
            if not value.isdigit():
                call.error(
                    f"Invalid {'node' if field == 'node_count' else 'core'} count {value}.  No reservation {what}."
                )
                call.quit(1)
            fields[field] = int(value)
        elif field in ("users", "accounts", "groups", "flags"):
            fields[field] = (sign, tuple(w for w in value.split(",") if w))
        elif field == "nodes":
            fields[field] = (sign, value)
        else:
            fields[field] = value
    return fields


def _reservation(call: Call, fields: dict[str, Any]) -> Reservation:
    """The record a creation asks for. Raises: SlurmError."""
    start = fields.get("start", call.now)
    end = fields["end"] if "end" in fields else start + _length(fields["duration"])
    flags = [flag.upper() for flag in fields.get("flags", ("", ()))[1]]
    nodes = _reserved_nodes(call, fields)
    if "nodes" in fields:
        flags.append("SPEC_NODES")
    users = fields.get("users", ("", ()))[1]
    if any(call.site.uid(user.lstrip("-")) is None for user in users):
        raise SlurmError("USER_ID_MISSING")
    accounts = fields.get("accounts", ("", ()))[1]
    if any(account.lstrip("-") not in call.site.cluster.accounts.accounts for account in accounts):
        raise SlurmError("INVALID_ACCOUNT")
    return Reservation(
        fields.get("name", ""),
        start,
        end,
        nodes,
        users,
        accounts,
        fields.get("groups", ("", ()))[1],
        tuple(flags),
        fields.get("partition", ""),
        fields.get("features", ""),
        duration=end - start,
    )


def _length(minutes: int) -> int:
    return 365 * 86400 if minutes == INFINITE else minutes * 60


def _reserved_nodes(call: Call, fields: dict[str, Any]) -> tuple[int, ...]:
    """The nodes named, or as many as asked of a partition: lightest weight first, those that jobs leave free before."""
    cluster = call.site.cluster
    if "nodes" in fields:
        text = fields["nodes"][1]
        if text.upper() == "ALL":
            return tuple(range(len(cluster.nodes)))
        try:
            return tuple(sorted(cluster.node_index[name] for name in hostlist.expand(text)))
        except (KeyError, hostlist.HostlistError):
            raise SlurmError("INVALID_NODE_NAME") from None
    name = fields.get("partition") or next((p.name for p in cluster.partitions.values() if p.default), "")
    if name not in cluster.partitions:
        raise SlurmError("INVALID_PARTITION_NAME")
    wanted = [f for f in fields.get("features", "").split("&") if f]
    able = [
        cluster.nodes[n]
        for n in cluster.partitions[name].nodes
        if all(f in cluster.nodes[n].features for f in wanted) and cluster.nodes[n].state != "DOWN"
    ]
    able.sort(key=lambda n: (bool(n.allocated), n.weight, n.index))
    count = fields.get("node_count") or (len(able) if "node_count" not in fields else 0)
    if count > len(able):
        raise SlurmError("NODES_BUSY")
    return tuple(sorted(n.index for n in able[:count]))


def _merged(call: Call, fields: dict[str, Any]) -> dict[str, Any]:
    """Changes of a reservation, `users+=bob` taken with what stood there. Raises: SlurmError."""
    found = call.site.cluster.reservations.get(str(fields.get("name", "")))
    changes: dict[str, Any] = {}
    if found is None:
        raise SlurmError("RESERVATION_INVALID")
    for name in ("users", "accounts", "groups", "flags"):
        if name in fields:
            sign, words = fields[name]
            changes[name] = changed_words(
                getattr(found, name), sign, [w.upper() if name == "flags" else w for w in words]
            )
    if "start" in fields:
        changes["start"] = fields["start"]
        changes["end"] = fields["start"] + found.end - found.start
    if "end" in fields:
        changes["end"] = fields["end"]
    if "duration" in fields:
        changes["end"] = changes.get("start", found.start) + _length(fields["duration"])
    if "nodes" in fields or "node_count" in fields:
        sign, _text = fields.get("nodes", ("=", ""))
        nodes = _reserved_nodes(call, {"partition": found.partition} | fields)
        changes["nodes"] = tuple(changed_words(found.nodes, sign, nodes))  # type: ignore[arg-type]
    for name in ("features", "partition"):
        if name in fields:
            changes[name] = fields[name]
    return changes


def _administrator(call: Call, said: str, *, operator: bool = False) -> None:
    """Nodes and partitions are an administrator's, reservations an operator's too."""
    if not (call.site.cluster.is_operator if operator else call.site.cluster.is_administrator)(call.user):
        call.say(f"{said}: {refusals()['USER_ID_MISSING'][1]}")
        call.quit(1)


def _create_reservation(call: Call, pairs: Pairs) -> None:
    fields = _reservation_fields(call, pairs, "created")
    flags = {f.upper() for f in fields.get("flags", ("", ()))[1]}
    if "start" not in fields and not flags & {"FORCE_START"}:
        call.error("A start time must be given.  No reservation created.")
        call.quit(1)
    if "end" not in fields and "duration" not in fields:
        call.error("An end time or duration must be given.  No reservation created.")
        call.quit(1)
    if not fields.keys() & {"nodes", "node_count", "core_count", "licenses", "partition", "tres"}:
        call.error(
            "Nodes, CoreCnt, NodeCnt, TRES, Licenses or BurstBuffer must be specified. No reservation created."
        )
        call.quit(1)
    if not fields.keys() & {"users", "accounts", "groups"}:
        call.error("Either Users/Groups and/or Accounts must be specified.  No reservation created.")
        call.quit(1)
    _administrator(call, "Error creating the reservation", operator=True)
    try:
        name = call.site.controller.create_reservation(_reservation(call, fields), "root")
    except SlurmError as refused:
        call.say(f"Error creating the reservation: {refused.message}")
        call.quit(1)
    call.print(f"Reservation created: {name}")


def _update_reservation(call: Call, pairs: Pairs) -> None:
    fields = _reservation_fields(call, pairs, "update")
    _administrator(call, "slurm_update error", operator=True)
    try:
        call.site.controller.update_reservation(fields.get("name", ""), _merged(call, fields), "root")
    except SlurmError as refused:
        call.say(f"Error updating the reservation: {refused.message}")
        call.say(f"slurm_update error: {refused.message}")
        call.quit(1)
    call.print("Reservation updated.")


def _create_node(call: Call, pairs: Pairs) -> None:
    state = next((v.upper() for k, _, v in pairs if _is(k, ("state", 1))), "")
    if not state.startswith(("FUTURE", "CLOUD")):
        call.error("Only State=FUTURE and State=CLOUD allowed for nodes created by scontrol")
    call.say(f"Error creating the node(s): {refusals()['INVALID_NODE_STATE'][1]}")
    call.quit(1)


def _debug(call: Call, pairs: Pairs) -> None:
    """SlurmctldDebug: there is no log whose level could change."""


_ENTITIES: dict[str, Callable[[Call, Pairs], None]] = {
    "jobid": update_job,
    "nodename": _update_node,
    "partitionname": _update_partition,
    "reservationname": _update_reservation,
    "jobname": update_job,
    "slurmctlddebug": _debug,
}
_CREATED: dict[str, Callable[[Call, Pairs], None]] = {
    "reservationname": _create_reservation,
    "starttime": _create_reservation,
    "partitionname": _create_partition,
    "nodename": _create_node,
}
_LEAST["starttime"] = 4
