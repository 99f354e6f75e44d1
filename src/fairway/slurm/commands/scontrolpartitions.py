"""scontrol update and create of partitions. (scontrol_parse_part_options in update_part.c.)"""

from __future__ import annotations

from typing import NoReturn

from fairway.slurm.commands.call import Call
from fairway.slurm.commands.scontrolwords import Pairs, ask_administrator, names, refuse_update
from fairway.slurm.words import durations
from fairway.slurm.words.errors import SlurmError


def _partition_changes(call: Call, pairs: Pairs) -> tuple[str, dict[str, str]]:
    name, changes = "", {}
    for key, sign, value in pairs:
        if names(key, ("partitionname", 2)):
            name = value
            continue
        known = next((k for k, least in _KEYS if names(key, (k, least))), None)
        if known is None:
            call.error(f"Update of this parameter is not supported: {key}{sign}{value}\n")
            call.error("Request aborted")
            _give_up(call)
        if (
            known in ("maxtime", "defaulttime")
            and value.lower() != "none"
            and durations.minutes(value) is None
        ):
            call.error(f"Invalid input {key}{sign}{value}")
            _give_up(call)
        told = _words(known, value)
        if told is None:
            call.error(f"Invalid input: {key}{sign}{value}")
            if known in _CHOICES:
                call.error(f"Acceptable {_CHOICES[known][0]} values are {_CHOICES[known][1]}")
            _give_up(call)
        changes[known] = told
    return name, changes


def _give_up(call: Call) -> NoReturn:
    call.say("slurm_update error: No error")
    call.quit(1)


def _words(field: str, value: str) -> str | None:
    """A word written out, None for one that the field does not know."""
    words = ("INACTIVE", "DOWN", "UP", "DRAIN") if field == "state" else ("NO", "YES")
    if field == "preemptmode":
        known = ("OFF", "CANCEL", "REQUEUE", "SUSPEND", "GANG", "WITHIN")
        return value if all(word.upper() in known for word in value.split(",")) else None
    if field == "oversubscribe":
        word, colon, count = value.upper().partition(":")
        full = next((w for w in ("NO", "EXCLUSIVE", "YES", "FORCE") if word and w.startswith(word)), None)
        return None if full is None else f"{full}{colon}{count}"
    if field not in _CHOICES:
        return value
    return next((word for word in words if word.startswith(value.upper())), None)


_CHOICES = {
    "default": ("Default", "YES and NO"),
    "disablerootjobs": ("DisableRootJobs", "YES and NO"),
    "exclusiveuser": ("ExclusiveUser", "YES and NO"),
    "hidden": ("Hidden", "YES and NO"),
    "lln": ("LLN", "YES and NO"),
    "rootonly": ("RootOnly", "YES and NO"),
    "reqresv": ("ReqResv", "YES and NO"),
    "oversubscribe": ("OverSubscribe", "NO, EXCLUSIVE, YES:#, and FORCE:#"),
    "state": ("State", "UP, DOWN, DRAIN and INACTIVE"),
}
_KEYS = (
    ("maxtime", 4), ("cpubind", 7), ("defaulttime", 8), ("maxcpuspernode", 4), ("maxnodes", 4), ("minnodes", 2),
    ("default", 7), ("disablerootjobs", 1), ("exclusiveuser", 1), ("hidden", 1), ("lln", 1), ("rootonly", 3),
    ("reqresv", 3), ("oversubscribe", 5), ("shared", 2), ("overtimelimit", 5), ("preemptmode", 3), ("priority", 3),
    ("priorityjobfactor", 3), ("prioritytier", 3), ("state", 2), ("nodes", 1), ("allowgroups", 6),
    ("allowaccounts", 6), ("allowqos", 6), ("denyaccounts", 5), ("denyqos", 5), ("allocnodes", 6), ("alternate", 3),
    ("gracetime", 5), ("defmempercpu", 10), ("defmempernode", 10), ("maxmempercpu", 10), ("maxmempernode", 10),
    ("qos", 3), ("jobdefaults", 4), ("tresbillingweights", 1),
)  # fmt: skip
"""Fields in the order in which a key is compared with them, and how many letters are enough."""


def update_partition(call: Call, pairs: Pairs) -> None:
    name, changes = _partition_changes(call, pairs)
    ask_administrator(call, "slurm_update error")
    try:
        call.site.controller.update_partition(name, changes, "root")
    except SlurmError as refused:
        refuse_update(call, refused)


def create_partition(call: Call, pairs: Pairs) -> None:
    name, changes = _partition_changes(call, pairs)
    ask_administrator(call, "Error creating the partition")
    try:
        call.site.controller.create_partition(name, changes, "root")
    except SlurmError as refused:
        call.say(f"Error creating the partition: {refused.message}")
        call.quit(1)
