"""scontrol update and create of reservations."""

from __future__ import annotations

from typing import Any, NoReturn

from fairway.slurm.cluster import Cluster
from fairway.slurm.commands.accountlimits import changed_words
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.scontrolwords import Pairs, ask_administrator, names
from fairway.slurm.model.partition import Reservation
from fairway.slurm.placing.uses import bits
from fairway.slurm.words import durations, hostlist
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.errors import SlurmError
from fairway.slurm.words.sizes import whole

_RESERVATION_KEYS = {
    "accounts": ("accounts", 1),
    "flags": ("flags", 2),
    "groups": ("groups", 1),
    "users": ("users", 1),
    "reservationname": ("name", 1),
    "burstbuffer": ("burst_buffer", 2),
    "starttime": ("start", 2),
    "endtime": ("end", 1),
    "duration": ("duration", 1),
    "maxstartdelay": ("max_start_delay", 2),
    "nodecnt": ("node_count", 5),
    "nodecount": ("node_count", 5),
    "corecnt": ("core_count", 5),
    "corecount": ("core_count", 5),
    "cpucnt": ("core_count", 5),
    "cpucount": ("core_count", 5),
    "nodes": ("nodes", 5),
    "features": ("features", 2),
    "licenses": ("licenses", 2),
    "partitionname": ("partition", 1),
    "tres": ("tres", 1),
    "watts": ("watts", 1),
    "skip": ("skip", 2),
}
"""Keys in the order in which scontrol tries them, and the letters that are enough (_parse_res_options)."""
_ADDED_TO = ("accounts", "flags", "groups", "users", "duration")
"""Where `+=` and `-=` mean something."""
SHOWN_FLAGS = (
    "MAINT", "FLEX", "OVERLAP", "IGNORE_JOBS", "HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY", "SPEC_NODES",
    "ALL_NODES", "ANY_NODES", "STATIC", "PART_NODES", "FIRST_CORES", "TIME_FLOAT", "REPLACE", "REPLACE_DOWN",
    "PURGE_COMP", "NO_HOLD_JOBS_AFTER_END", "MAGNETIC",
)  # fmt: skip
"""In the order of reservation_flags_string."""
_FLAGS = {
    "MAINTENANCE": ("MAINT", 3), "OVERLAP": ("OVERLAP", 1), "FLEX": ("FLEX", 1), "IGNORE_JOBS": ("IGNORE_JOBS", 1),
    "HOURLY": ("HOURLY", 1), "DAILY": ("DAILY", 1), "WEEKDAY": ("WEEKDAY", 1), "WEEKEND": ("WEEKEND", 1),
    "WEEKLY": ("WEEKLY", 1), "ANY_NODES": ("ANY_NODES", 1), "LICENSE_ONLY": ("ANY_NODES", 1),
    "STATIC_ALLOC": ("STATIC", 1), "PART_NODES": ("PART_NODES", 2), "MAGNETIC": ("MAGNETIC", 3),
    "PROMISCUOUS": ("MAGNETIC", 2), "PURGE_COMP": ("PURGE_COMP", 2), "FIRST_CORES": ("FIRST_CORES", 1),
    "TIME_FLOAT": ("TIME_FLOAT", 1), "REPLACE": ("REPLACE", 1), "REPLACE_DOWN": ("REPLACE_DOWN", 8),
    "NO_HOLD_JOBS_AFTER_END": ("NO_HOLD_JOBS_AFTER_END", 1),
}  # fmt: skip
"""Words of Flags= in the order in which they are tried, how they are shown, enough letters (parse_resv_flags)."""


def _flag(word: str) -> str | None:
    """A flag as it is shown, with the `=…` of PURGE_COMP=TIME; None: there is no such flag."""
    name, equals, rest = word.upper().partition("=")
    for full, (shown, least) in _FLAGS.items():
        if len(name) >= least and full.startswith(name):
            return f"{shown}{equals}{rest}"
    return None


def _give_up(call: Call, what: str) -> NoReturn:
    if what == "update":
        call.say("slurm_update error: No error")
    call.quit(1)


def _reservation_fields(call: Call, pairs: Pairs, what: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    ending = f"No reservation {what}."
    for key, sign, value in pairs:
        if not sign:
            continue
        field = next((f for k, (f, least) in _RESERVATION_KEYS.items() if names(key, (k, least))), None)
        word = f"{key}{sign}{value}"
        if field is None:
            call.error(f"Unknown parameter {word}.  {ending}")
            _give_up(call, what)
        if field in ("users", "accounts", "groups") and field in fields:
            call.error(f"Parameter {word} specified more than once")
            _give_up(call, what)
        if field in ("start", "end"):
            try:
                fields[field] = durations.parse_time(value, call.now)
            except durations.TimeError as bad:
                call.say(str(bad))
                call.error(f"Invalid {field} time {word}.  {ending}")
                _give_up(call, what)
        elif field == "duration":
            minutes = durations.minutes(value)
            if minutes is None or (minutes >= 2**31 and minutes != INFINITE):
                call.error(f"Invalid duration {word}.  {ending}")
                _give_up(call, what)
            fields[field] = (sign, minutes)
        elif field in ("node_count", "core_count"):
            if not value.isdecimal():
                call.error(f"Invalid {field[:4]} count {value}")
                _give_up(call, what)
            fields[field] = whole(value)
        elif field == "flags":
            words = [_flag(w.lstrip("+-")) for w in value.split(",") if w]
            if None in words:
                call.error(f"Error parsing flags {value}.  {ending}")
                _give_up(call, what)
            fields[field] = (sign, tuple(words))
        elif field in ("users", "accounts", "groups"):
            fields[field] = (sign, tuple(w for w in value.split(",") if w))
        elif field == "nodes":
            fields[field] = (sign, value)
        elif field == "tres":
            try:
                fields |= _counts(call, value)
            except ValueError as bad:
                call.error(str(bad))
                _give_up(call, what)
        else:
            fields[field] = value
        if sign != "=" and field not in _ADDED_TO:
            call.error(f"The +=/-= notation is not supported when updating {key}.  {ending}")
            _give_up(call, what)
    return fields


def _counts(call: Call, text: str) -> dict[str, int]:
    """What TRES= asks for (state_control_parse_resv_tres). Raises: ValueError."""
    found: dict[str, int] = {}
    for one in text.split(","):
        name, _, count = one.partition("=")
        if not name or not count:
            raise ValueError(f"invalid TRES '{name}'")
        if name.lower() not in call.site.tres_names:
            raise ValueError(f"couldn't identify configured TRES '{name}'")
        if name.lower() not in ("cpu", "node"):
            raise ValueError(f"TRES type '{name}' not supported with reservations")
        if not count.isdecimal():
            raise ValueError(f"invalid TRES {name.lower()} value '{count}'")
        found["core_count" if name.lower() == "cpu" else "node_count"] = whole(count)
    return found


def _reservation(call: Call, fields: dict[str, Any]) -> Reservation:
    """The record a creation asks for. Raises: SlurmError."""
    start = fields.get("start", call.now)
    end = fields["end"] if "end" in fields else start + _length(fields["duration"][1])
    if "end" not in fields and not fields["duration"][1]:
        end = INFINITE
    flags = list(fields.get("flags", ("", ()))[1])
    users = fields.get("users", ("", ()))[1]
    if any(call.site.uid(user.lstrip("-")) is None for user in users):
        raise SlurmError("USER_ID_MISSING")
    accounts = fields.get("accounts", ("", ()))[1]
    if any(account.lstrip("-") not in call.site.cluster.accounts.accounts for account in accounts):
        raise SlurmError("INVALID_ACCOUNT")
    if "licenses" in fields:
        for name in fields["licenses"].split(","):
            if name.partition(":")[0] not in call.site.cluster.licenses:
                raise SlurmError("INVALID_LICENSES")
    found = Reservation(
        fields.get("name", ""),
        start,
        end,
        (),
        users,
        accounts,
        fields.get("groups", ("", ()))[1],
        (),
        fields.get("partition", ""),
        fields.get("features", ""),
        duration=end - start,
    )
    if not found.partition and ("nodes" not in fields or "core_count" in fields):
        found.partition = next((p.name for p in call.site.cluster.partitions.values() if p.default), "")
    _choose(call, fields, found, flags)
    if "nodes" in fields:
        flags.append("SPEC_NODES")
        if fields["nodes"][1].upper() == "ALL" and "PART_NODES" not in flags:
            flags.append("ALL_NODES")
    found.flags = tuple(flags)
    return found


def _length(minutes: int) -> int:
    return 365 * 86400 if minutes == INFINITE else minutes * 60


def _choose(call: Call, fields: dict[str, Any], found: Reservation, flags: list[str]) -> None:
    """Sets the reservation's nodes and, where cores are asked for, cores. Raises: SlurmError."""
    cluster = call.site.cluster
    others = [
        one
        for one in cluster.reservations.values()
        if found.start < one.end and one.start < found.end and one.name != found.name
    ]
    if {"MAINT", "OVERLAP"} & set(flags):
        others = []
    whole_nodes = {n for one in others if not (one.cores and "core_count" in fields) for n in one.nodes}
    nodes = _reserved_nodes(call, fields, whole_nodes)
    if "core_count" not in fields:
        found.nodes = nodes
        return
    taken: dict[int, int] = {}
    for one in others:
        for node, cores in one.cores.items():
            taken[node] = taken.get(node, 0) | cores
    found.cores = _first_cores(cluster, nodes, taken, fields)
    found.nodes = tuple(sorted(found.cores))
    found.core_count = sum(cores.bit_count() for cores in found.cores.values())


def _first_cores(
    cluster: Cluster, nodes: tuple[int, ...], taken: dict[int, int], fields: dict[str, Any]
) -> dict[int, int]:
    """Node → its first free cores: as many of each node where their number is said, else on from node to node
    (_sequential_pick). Raises: SlurmError."""
    wanted, count = fields["core_count"], fields.get("node_count", 0)
    found: dict[int, int] = {}
    for node in sorted(nodes, key=lambda n: cluster.nodes[n].name):
        free = [at for at in range(cluster.nodes[node].conf.cores) if not taken.get(node, 0) >> at & 1]
        share = max(fields["core_count"] // count, 1) if count else min(wanted, len(free))
        if wanted <= 0 or not share or len(free) < share:
            continue
        found[node] = sum(1 << at for at in free[:share])
        wanted -= share
    if wanted > 0:
        raise SlurmError("NODES_BUSY")
    return found


def _reserved_nodes(call: Call, fields: dict[str, Any], reserved: set[int]) -> tuple[int, ...]:
    """The nodes named, or as many as asked of a partition that are not `reserved`: lightest weight first, those that
    jobs leave free before. More than there are: what there is."""
    cluster = call.site.cluster
    if "nodes" in fields:
        text = fields["nodes"][1]
        if text.upper() == "ALL":
            part = cluster.partitions.get(fields.get("partition", ""))
            return tuple(range(len(cluster.nodes))) if part is None else tuple(part.nodes)
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
        if n not in reserved and all(f in cluster.nodes[n].features for f in wanted)
    ]
    # What is up first, then what is drained, last what is down (_select_nodes of reservation.c).
    able.sort(key=lambda n: (n.index not in up, n.state == "DOWN", bool(n.allocated), n.weight, n.index))
    if "core_count" in fields:
        return tuple(n.index for n in able)
    if not able:
        raise SlurmError("NODES_BUSY")
    return tuple(sorted(n.index for n in able[: fields.get("node_count", len(able))]))


def _merged(call: Call, fields: dict[str, Any]) -> dict[str, Any]:
    """Changes of a reservation, `users+=bob` taken with what stood there. Raises: SlurmError."""
    found = call.site.cluster.reservations.get(str(fields.get("name", "")))
    changes: dict[str, Any] = {}
    if found is None:
        raise SlurmError("RESERVATION_INVALID")
    if fields.get("partition", found.partition) not in ("", found.partition, *call.site.cluster.partitions):
        raise SlurmError("INVALID_PARTITION_NAME")
    if any(call.site.uid(user.lstrip("-")) is None for user in fields.get("users", ("", ()))[1]):
        raise SlurmError("USER_ID_MISSING")
    for name in ("users", "accounts", "groups", "flags"):
        if name in fields:
            sign, words = fields[name]
            changes[name] = changed_words(getattr(found, name), sign, list(words))
    if "start" in fields:
        changes["start"] = fields["start"]
        changes["end"] = fields["start"] + found.end - found.start
    if "end" in fields:
        changes["end"] = fields["end"]
    if "duration" in fields:
        sign, minutes = fields["duration"]
        since = found.end if sign == "+=" else changes.get("start", found.start)
        changes["end"] = found.end - _length(minutes) if sign == "-=" else since + _length(minutes)
    if "core_count" in fields:
        raise SlurmError("CORE_RESERVATION_UPDATE")
    if "nodes" in fields:
        changes["nodes"] = _reserved_nodes(call, {"partition": found.partition} | fields, set())
    elif "node_count" in fields:
        changes["nodes"] = _resized(call, found, fields)
    for name in ("features", "partition"):
        if name in fields:
            changes[name] = fields[name]
    return changes


def _resized(call: Call, found: Reservation, fields: dict[str, Any]) -> tuple[int, ...]:
    """As many nodes as it shall have: of more, idle ones go first (_resize_resv). Raises: SlurmError."""
    cluster, wanted = call.site.cluster, fields["node_count"]
    extra = len(found.nodes) - wanted
    if extra < 0:
        asked = {"partition": found.partition} | fields | {"node_count": -extra}
        return tuple(sorted((*found.nodes, *_reserved_nodes(call, asked, set(found.nodes)))))
    idle = [n for n in found.nodes if cluster.nodes[n].state == "IDLE" and not cluster.nodes[n].allocated]
    left = [n for n in found.nodes if n not in idle[:extra]]
    return tuple(left[:wanted])


def create_reservation(call: Call, pairs: Pairs) -> None:
    fields = _reservation_fields(call, pairs, "created")
    flags = {f.upper() for f in fields.get("flags", ("", ()))[1]}
    if "start" not in fields and not flags & {"FORCE_START"}:
        call.error("A start time must be given.  No reservation created.")
        call.quit(1)
    if "end" not in fields and "duration" not in fields:
        call.error("An end time or duration must be given.  No reservation created.")
        call.quit(1)
    if (
        "end" in fields
        and "duration" in fields
        and fields["start"] + _length(fields["duration"][1]) != fields["end"]
    ):
        call.fail("StartTime + Duration does not equal EndTime.  No reservation created.")
    if "end" in fields and fields.get("start", 0) > fields["end"]:
        call.fail("Start time cannot be after end time.  No reservation created.")
    all_of_it = "partition" in fields and fields.get("nodes", ("", ""))[1].upper() == "ALL"
    if "PART_NODES" in flags and not all_of_it:
        call.fail("PART_NODES flag requires specifying a Partition and ALL nodes.  No reservation created.")
    sized = any(fields.get(name) for name in ("nodes", "node_count", "core_count", "licenses"))
    if "partition" in fields and not sized:
        fields["nodes"] = ("=", "ALL")
    if "partition" in fields and fields.get("nodes", ("", ""))[1].upper() == "ALL":
        fields["flags"] = ("=", (*fields.get("flags", ("", ()))[1], "PART_NODES"))
    if not sized and "partition" not in fields:
        wanted = "CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or Watts must be specified."
        call.fail(f"{wanted}  No reservation created.")
    if not fields.keys() & {"users", "accounts", "groups"}:
        call.fail("Either Users/Groups and/or Accounts must be specified.  No reservation created.")
    if {"users", "groups"} <= fields.keys():
        either = "Users and Groups are mutually exclusive.  You can have one or the other, but not both."
        call.fail(f"{either}  No reservation created.")
    ask_administrator(call, "Error creating the reservation", operator=True)
    try:
        name = call.site.controller.create_reservation(_reservation(call, fields), "root")
    except SlurmError as refused:
        call.say(f"Error creating the reservation: {refused.message}")
        call.quit(1)
    call.print(f"Reservation created: {name}")


def update_reservation(call: Call, pairs: Pairs) -> None:
    fields = _reservation_fields(call, pairs, "update")
    if "name" not in fields:
        call.fail("Reservation must be given.  No reservation update.")
    try:
        if not call.site.cluster.is_operator(call.user):
            raise SlurmError("USER_ID_MISSING")
        call.site.controller.update_reservation(fields.get("name", ""), _merged(call, fields), "root")
    except SlurmError as refused:
        call.say(f"Error updating the reservation: {refused.message}")
        call.say(f"slurm_update error: {refused.message}")
        call.quit(1)
    call.print("Reservation updated.")
