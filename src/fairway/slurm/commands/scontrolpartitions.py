"""scontrol update and create of partitions. (scontrol_parse_part_options in update_part.c.)"""

from __future__ import annotations

from typing import NoReturn

from fairway.slurm.commands.call import Call
from fairway.slurm.commands.scontrolwords import Pairs, ask_administrator, names, refuse_update
from fairway.slurm.words import durations
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.errors import SlurmError
from fairway.slurm.words.sizes import whole


def _partition_changes(call: Call, pairs: Pairs, said: str) -> tuple[str, dict[str, str]]:
    """The partition's name and what changes. `said`: what follows a word that is refused."""
    name, changes, count = "", {}, len(pairs)
    for key, sign, value in pairs:
        if sign == "=" and names(key, ("partitionname", 2)):
            name = value
            continue
        known = next((k for k, least in _KEYS if sign == "=" and names(key, (k, least))), None)
        if known is None:
            call.error(f"Update of this parameter is not supported: {key}{sign}{value}\n")
            call.error("Request aborted")
            _give_up(call, said)
        refused = _refusal(known, f"{key}{sign}{value}", value)
        for line in refused:
            call.error(line)
        if known in _TOLD_ONLY and refused:
            call.code = 1 if known == "maxnodes" else call.code
            if known == "minnodes":
                changes[known] = str(INFINITE)
            continue
        if refused:
            _give_up(call, said)
        changes[known] = _words(known, value) or value
    if not any(names(key, ("partitionname", 2)) for key, _, _ in pairs):
        call.fail("PartitionName must be given.")
    if count <= 1 and said:
        call.fail("No changes specified")
    return name, changes


def _give_up(call: Call, said: str) -> NoReturn:
    if said:
        call.say(said)
    call.quit(1)


_TOLD_ONLY = ("maxnodes", "minnodes")
"""A wrong one is told, and the rest is done."""
_MOST = dict.fromkeys(("OverTimeLimit", "Priority", "PriorityJobFactor", "PriorityTier"), 0xFFFF)
_MOST |= dict.fromkeys(("MaxCPUsPerNode", "GraceTime"), 0xFFFFFFFF)
_MOST |= dict.fromkeys(("DefMemPerCPU", "DefMemPerNode", "MaxMemPerCPU", "MaxMemPerNode"), (1 << 64) - 1)
_ENDLESS = ("overtimelimit", "maxcpuspernode", "maxnodes")
_CPU_BINDS = (
    "none",
    "no",
    "off",
    *(f"{what}{many}" for what in ("socket", "ldom", "core", "thread") for many in ("", "s")),
)


def _refusal(known: str, word: str, value: str) -> tuple[str, ...]:
    """What is said of a value that the field does not take; nothing where it does."""
    low = value.lower()
    if known in ("maxtime", "defaulttime"):
        return () if durations.minutes(value) is not None else (f"Invalid input {word}",)
    if known == "cpubind":
        return () if low in _CPU_BINDS else (f"Invalid input {word}",)
    if known in _ENDLESS and low in ("unlimited", "infinite"):
        return ()
    if known in _TOLD_ONLY and not value.isdecimal():
        plain = f'Invalid numeric value "{value}" for MaxNodes.', f'"{value}" is not a valid node count'
        return (plain[_TOLD_ONLY.index(known)],)
    most = next((one for one in _MOST if one.lower() == known), None)
    if most is not None:
        fits = value.isdecimal() and whole(value) <= _MOST[most]
        return () if fits else (f"Invalid {most} value: {value}",)
    if _words(known, value) is not None:
        return ()
    told = (f"Invalid input: {word}",)
    return (*told, "Acceptable {} values are {}".format(*_CHOICES[known])) if known in _CHOICES else told


def _words(field: str, value: str) -> str | None:
    """A word written out, None for one that the field does not know."""
    if field == "preemptmode":
        modes = value.upper().split(",")
        known = all(mode in ("OFF", "CANCEL", "REQUEUE", "SUSPEND", "GANG", "WITHIN") for mode in modes)
        return next((mode for mode in modes if mode != "GANG"), "OFF") if known else None
    if field in ("oversubscribe", "shared"):
        return _sharing(value)
    if field not in _CHOICES:
        return value
    words = ("INACTIVE", "DOWN", "UP", "DRAIN") if field == "state" else ("NO", "YES")
    return next((word for word in words if value and word.startswith(value.upper())), None)


def _sharing(value: str) -> str | None:
    """A count that is no number is 0, and to be shared by none is to be exclusive."""
    word, colon, count = value.upper().partition(":")
    full = next((w for w in ("NO", "EXCLUSIVE", "YES", "FORCE") if word and w.startswith(word)), None)
    if full is None or not colon or full not in ("YES", "FORCE"):
        return full
    jobs = whole(count) if count.isdecimal() else 0
    return "EXCLUSIVE" if full == "YES" and not jobs else f"{full}:{jobs}"


_CHOICES = {
    "default": ("Default", "YES and NO"),
    "disablerootjobs": ("DisableRootJobs", "YES and NO"),
    "exclusiveuser": ("ExclusiveUser", "YES and NO"),
    "hidden": ("Hidden", "YES and NO"),
    "lln": ("LLN", "YES and NO"),
    "rootonly": ("RootOnly", "YES and NO"),
    "reqresv": ("ReqResv", "YES and NO"),
    "oversubscribe": ("OverSubscribe", "NO, EXCLUSIVE, YES:#, and FORCE:#"),
    "shared": ("OverSubscribe", "NO, EXCLUSIVE, YES:#, and FORCE:#"),
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
    name, changes = _partition_changes(call, pairs, "slurm_update error: No error")
    ask_administrator(call, "slurm_update error")
    try:
        call.site.controller.update_partition(name, changes, "root")
    except SlurmError as refused:
        refuse_update(call, refused)


def create_partition(call: Call, pairs: Pairs) -> None:
    name, changes = _partition_changes(call, pairs, "")
    if name.lower() == "default":
        call.fail('PartitionName cannot be "DEFAULT".')
    ask_administrator(call, "Error creating the partition")
    try:
        call.site.controller.create_partition(name, changes, "root")
    except SlurmError as refused:
        call.say(f"Error creating the partition: {refused.message}")
        call.quit(1)
