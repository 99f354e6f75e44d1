"""scontrol update and create of reservations."""

from __future__ import annotations

from typing import Any

from fairway.slurm.commands.accountlimits import changed_words
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.scontrolwords import Pairs, ask_administrator
from fairway.slurm.model.partition import Reservation
from fairway.slurm.placing.uses import bits
from fairway.slurm.words import durations, hostlist
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.errors import SlurmError
from fairway.slurm.words.sizes import whole

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
            if not value.isdecimal():
                call.error(
                    f"Invalid {'node' if field == 'node_count' else 'core'} count {value}.  No reservation {what}."
                )
                call.quit(1)
            fields[field] = whole(value)
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
        if fields["nodes"][1].upper() == "ALL" and "PART_NODES" not in flags:
            flags.append("ALL_NODES")
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
    up = set(bits(cluster.up))
    able = [
        cluster.nodes[n]
        for n in cluster.partitions[name].nodes
        if all(f in cluster.nodes[n].features for f in wanted)
    ]
    # What is up first, then what is drained, last what is down (_select_nodes of reservation.c).
    able.sort(key=lambda n: (n.index not in up, n.state == "DOWN", bool(n.allocated), n.weight, n.index))
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


def create_reservation(call: Call, pairs: Pairs) -> None:
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
    ask_administrator(call, "Error creating the reservation", operator=True)
    try:
        name = call.site.controller.create_reservation(_reservation(call, fields), "root")
    except SlurmError as refused:
        call.say(f"Error creating the reservation: {refused.message}")
        call.quit(1)
    call.print(f"Reservation created: {name}")


def update_reservation(call: Call, pairs: Pairs) -> None:
    fields = _reservation_fields(call, pairs, "update")
    ask_administrator(call, "slurm_update error", operator=True)
    try:
        call.site.controller.update_reservation(fields.get("name", ""), _merged(call, fields), "root")
    except SlurmError as refused:
        call.say(f"Error updating the reservation: {refused.message}")
        call.say(f"slurm_update error: {refused.message}")
        call.quit(1)
    call.print("Reservation updated.")
