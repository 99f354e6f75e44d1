"""PartitionName lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fairway.errors import FieldProblem
from fairway.slurm.conf.lines import Line
from fairway.slurm.model.node import NodeConf
from fairway.slurm.model.partition import Partition
from fairway.slurm.words import durations, hostlist
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.sizes import whole


def partitions_of(
    lines: Iterable[Line],
    nodes: Sequence[NodeConf],
    sets: Mapping[str, tuple[str, ...]],
    problems: list[FieldProblem],
) -> list[Partition]:
    """Every partition, in the order given; a name given twice keeps its first line."""
    default: dict[str, str] = {}
    index = {node.name: at for at, node in enumerate(nodes)}
    found: dict[str, Partition] = {}
    for line in lines:
        name = line.pairs["partitionname"]
        if name.upper() == "DEFAULT":
            default = default | {key: value for key, value in line.pairs.items() if key != "partitionname"}
            continue
        for one in name.split(","):
            partition = Partition(one, ())
            for key, value in (default | line.pairs).items():
                wrong = set_field(partition, key, value, index, sets)
                if wrong:
                    problems.append(line.problem(key, value[:80], wrong))
            if one in found:
                problems.append(line.problem("PartitionName", one, "stands twice; the first is kept"))
            found.setdefault(one, partition)
    return list(found.values())


def set_field(
    partition: Partition, key: str, value: str, index: Mapping[str, int], sets: Mapping[str, tuple[str, ...]]
) -> str:
    """Set one key of a partition's line (also `scontrol update`); what is wrong with it, or ''."""
    key = key.lower()
    low = value.lower()
    partition.settings[key] = value
    if key in ("defcpupergpu", "defmempergpu"):
        before = partition.settings.get("jobdefaults", "")
        partition.settings["jobdefaults"] = f"{before},{key}={value}".lstrip(",")
    if key == "nodes":
        return _set_nodes(partition, value, index, sets)
    if key in _NUMBERS:
        number = INFINITE if low in ("unlimited", "infinite") else whole(value) if value.isdecimal() else None
        if number is None:
            return "is no number"
        setattr(partition, _NUMBERS[key], number)
        if "mem" in key:  # per CPU or per node: what is said last
            other = (
                _NUMBERS[key].replace("_cpu", "_node")
                if "cpu" in key
                else _NUMBERS[key].replace("_node", "_cpu")
            )
            setattr(partition, other, None)
    elif key in ("maxtime", "defaulttime"):
        limit = None if low == "none" else durations.minutes(value)
        if limit is None and low != "none":
            return "is no time limit"
        if key == "defaulttime":
            partition.default_time = limit
        else:
            partition.max_time = INFINITE if limit is None else limit
    elif key in ("oversubscribe", "shared"):
        word, _, count = value.upper().partition(":")
        if word not in ("NO", "YES", "FORCE", "EXCLUSIVE") or (count and not count.isdecimal()):
            return "is none of NO, YES, FORCE, EXCLUSIVE"
        partition.oversubscribe = word
        partition.max_share = int(count) if count else 4 if word in ("YES", "FORCE") else 1
    elif key in _LISTS:
        names = tuple(word for word in value.split(",") if word)
        everyone = key.startswith("all") and low in ("all", "")
        setattr(partition, _LISTS[key], None if everyone else names)
    elif key in _FLAGS:
        setattr(partition, _FLAGS[key], low in ("yes", "true", "1") or (low != "" and "yes".startswith(low)))
    elif key == "state":
        if value.upper() not in ("UP", "DOWN", "DRAIN", "INACTIVE"):
            return "is none of UP, DOWN, DRAIN, INACTIVE"
        partition.state = value.upper()
    elif key == "preemptmode":
        partition.preempt_mode = value.upper()
    elif key == "gracetime":
        seconds = durations.seconds(value if ":" in value else f"0:{value}")
        partition.grace_time = seconds or 0
    elif key == "priority" and value.isdecimal():
        partition.priority_job_factor = partition.priority_tier = int(value)
    elif key == "tresbillingweights":
        partition.tres_billing_weights = _weights(value)
    elif key == "qos":
        partition.qos = value
    elif key == "alternate":
        partition.alternate = "" if low == "none" else value
    elif key == "suspendtime":
        partition.suspend_time = (
            -1 if low in ("infinite", "-1") else int(value) if value.isdecimal() else None
        )
    elif key == "overtimelimit":
        partition.over_time_limit = (
            INFINITE if low == "unlimited" else int(value) if value.isdecimal() else None
        )
    return ""


_NUMBERS = {
    "minnodes": "min_nodes",
    "maxnodes": "max_nodes",
    "maxcpuspernode": "max_cpus_per_node",
    "priorityjobfactor": "priority_job_factor",
    "prioritytier": "priority_tier",
    "defmempercpu": "def_mem_per_cpu",
    "defmempernode": "def_mem_per_node",
    "maxmempercpu": "max_mem_per_cpu",
    "maxmempernode": "max_mem_per_node",
}
_LISTS = {
    "allowaccounts": "allow_accounts",
    "denyaccounts": "deny_accounts",
    "allowqos": "allow_qos",
    "denyqos": "deny_qos",
    "allowgroups": "allow_groups",
    "allocnodes": "allow_nodes",
}
_FLAGS = {
    "default": "default",
    "exclusiveuser": "exclusive_user",
    "hidden": "hidden",
    "rootonly": "root_only",
    "reqresv": "require_reservation",
    "lln": "lln",
    "disablerootjobs": "disable_root_jobs",
}


def _set_nodes(
    partition: Partition, value: str, index: Mapping[str, int], sets: Mapping[str, tuple[str, ...]]
) -> str:
    try:
        names = list(index) if value.upper() == "ALL" else hostlist.expand(value)
    except hostlist.HostlistError:
        return "is no list of hosts"
    names = [node for name in names for node in sets.get(name, (name,))]
    unknown = [name for name in names if name not in index]
    partition.nodes = tuple(sorted({index[name] for name in names if name in index}))
    partition.nodes_text = value
    return f"names unknown nodes: {', '.join(unknown[:5])}" if unknown else ""


def _weights(text: str) -> dict[str, float]:
    """`CPU=1.0,Mem=0.25G,GRES/gpu=2`: a weight with a unit of memory is per that unit."""
    weights: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        unit = value[-1:].upper()
        scale = {"K": 1024.0, "M": 1.0, "G": 1 / 1024, "T": 1 / 1024**2}.get(unit)
        try:
            weights[name.strip().lower()] = float(value[:-1]) * scale if scale is not None else float(value)
        except ValueError:
            continue
    return weights
