"""scontrol update and create of nodes."""

from __future__ import annotations

import re
from typing import Any

from fairway.slurm.commands.call import Call
from fairway.slurm.commands.scontrolwords import Pairs, ask_administrator, names, refuse_update
from fairway.slurm.conf.lines import known_keys
from fairway.slurm.words import hostlist
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.errors import SlurmError, refusals

_NODE_STATES = "NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN"
_STATES = (
    ("NORESP", 3),
    ("CANCEL_REBOOT", 3),
    ("DRAIN", 3),
    ("FAIL", 3),
    ("FUTURE", 3),
    ("RESUME", 3),
    ("POWER_DOWN_ASAP", 12),
    ("POWER_DOWN_FORCE", 12),
    ("POWER_DOWN", 7),
    ("POWER_UP", 7),
    ("UNDRAIN", 3),
    ("UNKNOWN", 3),
    ("DOWN", 3),
    ("IDLE", 3),
    ("ALLOCATED", 3),
    ("ERROR", 3),
    ("MIXED", 3),
)
"""Words for a node's state, and how many letters are enough, in the order in which they are tried."""


def update_node(call: Call, pairs: Pairs) -> None:
    hosts = ""
    changes: dict[str, Any] = {}
    for key, sign, value in pairs:
        if names(key, ("nodename", 1)) and not names(key, ("nodeaddr", 5), ("nodehostname", 5)):
            hosts = value
            continue
        field = next((f for f, fields in _NODE_KEYS.items() if names(key, *fields)), None)
        if field is None:
            call.say(f"Update of this parameter is not supported: {key}{sign}{value}")
            call.say("Request aborted")
            call.quit(1)
        if field == "state":
            changes[field] = _state(call, f"{key}{sign}{value}", value)
        elif field == "weight":
            weight = _weight(call, value)
            if weight is None:  # scontrol reads no further
                break
            changes[field] = weight
        elif field == "cpu_bind":
            changes[field] = _cpu_bind(call, f"{key}{sign}{value}", value)
        elif field in ("features", "active_features"):
            changes[field] = tuple(f for f in value.split(",") if f)
        else:
            changes[field] = value.strip('"') if field == "reason" else value
    if changes.get("state") in ("DOWN", "DRAIN", "FAIL") and not changes.get("reason"):
        call.say("You must specify a reason when DOWNING or DRAINING a node. Request denied")
        call.quit(1)
    if not changes:
        call.say("No changes specified")
        call.quit(1)
    ask_administrator(call, "slurm_update error")
    try:
        every = [node.name for node in call.site.cluster.nodes] if hosts.upper() == "ALL" else None
        named = every or hostlist.expand(hosts)
        if not named:
            raise SlurmError("INVALID_NODE_NAME")
        by_name = changes.keys() & {"weight", "features", "active_features"} if every else {}
        call.site.controller.update_node(
            named, {k: v for k, v in changes.items() if k not in by_name}, call.user
        )
        if by_name:  # they are looked up by name, and ALL is none (node_name2bitmap)
            call.say("slurm_update error: Invalid argument")
            call.quit(1)
    except hostlist.HostlistError:
        call.say(f"slurm_update error: {refusals()['INVALID_NODE_NAME'][1]}")
        call.quit(1)
    except SlurmError as refused:
        refuse_update(call, refused)


_NODE_KEYS: dict[str, tuple[tuple[str, int], ...]] = {
    "address": (("nodeaddr", 5),),
    "host_name": (("nodehostname", 5),),
    "active_features": (("activefeatures", 3),),
    "cpu_bind": (("cpubind", 7),),
    "extra": (("extra", 1),),
    "features": (("features", 1), ("availablefeatures", 3)),
    "gres": (("gres", 1),),
    "weight": (("weight", 1),),
    "comment": (("comment", 2),),
    "reason": (("reason", 1),),
    "state": (("state", 1),),
}


def _state(call: Call, word: str, value: str) -> str:
    upper = value.upper()
    found = next((s for s, least in _STATES if len(upper) >= least and s.startswith(upper)), "")
    if not found:
        call.say(f"Invalid input: {word}")
        call.say("Request aborted")
        call.say(f"Valid states are: {_NODE_STATES}")
        call.say("Not all states are valid given a node's prior state")
        call.quit(1)
    return found


def _weight(call: Call, value: str) -> int | None:
    if value.upper() in ("UNLIMITED", "INFINITE"):
        return INFINITE
    found = re.fullmatch(r"(\d{1,12})([kK]?)", value)
    if found is None:
        less = re.fullmatch(r"-\d{1,12}", value)
        call.error(f"Weight value ({value}) is {'less than zero' if less else 'not a valid number'}")
        return None
    weight = int(found[1]) * (1024 if found[2] else 1)
    if weight > 0xFFFFFFF0:
        call.error(f"Weight value ({value}) is greater than {0xFFFFFFF0}")
        return None
    return weight


def _cpu_bind(call: Call, word: str, value: str) -> str:
    """Source: slurm_resource_info.c, xlate_cpu_bind_str."""
    known = {"off": "", "none": "none", "no": "none", "socket": "sockets", "ldom": "ldoms", "core": "cores"}
    known |= {"thread": "threads"}
    found = next((told for start, told in known.items() if value.lower().startswith(start)), None)
    if found is None:
        call.error(f"Invalid input {word}")
        call.quit(1)
    return found


def create_node(call: Call, pairs: Pairs) -> None:
    """Taken without effect where MaxNodeCount leaves no room for more nodes, as it does by default."""
    said = "Error creating the node(s)"
    state = next((v.upper() for k, _, v in pairs if names(k, ("state", 1))), "")
    if not state.startswith(("FUTURE", "CLOUD")):
        call.error("Only State=FUTURE and State=CLOUD allowed for nodes created by scontrol")
        call.say(f"{said}: {refusals()['INVALID_NODE_STATE'][1]}")
        call.quit(1)
    ask_administrator(call, said)
    if any(
        key.lower() not in known_keys("NodeName") for key, _, _ in pairs if not names(key, ("nodename", 3))
    ):
        line = " ".join(f"{key}{sign}{value}" for key, sign, value in pairs)
        call.error(f"Failed to parse nodeline '{line}'")
        call.say(f"{said}: {refusals()['SLURM_ERROR'][1]}")
        call.quit(1)


def delete_node(call: Call, word: str, hosts: str) -> None:
    """Nodes without jobs are as those in the future: nobody is shown them, and nothing starts there."""
    ask_administrator(call, f"delete_node {word}")
    cluster = call.site.cluster
    try:
        named = hostlist.expand(hosts)
    except hostlist.HostlistError:
        named = [hosts]
    unknown = [name for name in named if name not in cluster.node_index]
    busy = [
        name for name in named if name not in unknown and cluster.nodes[cluster.node_index[name]].allocated
    ]
    gone = [name for name in named if name not in unknown and name not in busy]
    if gone:
        call.site.controller.update_node(gone, {"state": "FUTURE"}, call.user)
    if unknown or busy:
        call.error(f"failed to delete nodes {hostlist.compress_sorted([*unknown, *busy])}")
        refused = "INVALID_NODE_NAME" if unknown else "NODES_BUSY"
        call.say(f"delete_node {word}: {refusals()[refused][1]}")
        call.quit(1)
