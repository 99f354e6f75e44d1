"""sinfo: partitions and their nodes, grouped by what the format shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fairway.slurm.commands import nodetext
from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.formats import Field, Table, columns_of, long_format, short_format
from fairway.slurm.commands.getopt import parse, short_table
from fairway.slurm.model.node import Node
from fairway.slurm.model.partition import Partition
from fairway.slurm.words import durations, hostlist, sizes
from fairway.slurm.words.durations import INFINITE

_OPTIONS = short_table(
    "all:a dead:d exact:e federation help hide iterate:i: local long:l cluster:M: clusters:M: nodes:n: noconvert "
    "noheader:h Node:N format:o: Format:O: partition:p: responding:r list-reasons:R summarize:s sort:S: states:t: "
    "reservation:T usage verbose:v version:V json yaml"
)
USAGE = """\
Usage: sinfo [-abdelNRrsTv] [-i seconds] [-t states] [-p partition] [-n nodes]
             [-S fields] [-o format] [-O Format] [--federation] [--local]
"""
_FORMATS = {
    "summarize": "partition:9 ,available:.5 ,time:.10 ,nodeaiot:.16 ,nodelist:0",
    "Node": "nodelist:0 ,nodes:.6 ,partition:.9 ,statecompact:6",
    "Node long": "nodelist:0 ,nodes:.6 ,partition:.9 ,statelong:.11 ,cpus:4 ,socketcorethread:.8 ,memory:.6 ,disk:.8 ,"
    "weight:.6 ,features:.8 ,reason:20",
    "list-reasons": "reason:20 ,user:9 ,timestamp:19 ,nodelist:0",
    "list-reasons long": "reason:20 ,userlong:12 ,timestamp:19 ,statecompact:6 ,nodelist:0",
    "long": "partition:9 ,available:.5 ,time:.10 ,size:.10 ,root:.4 ,oversubscribe:.8 ,groups:.10 ,nodes:.6 ,"
    "statelong:.11 ,nodelist:0",
    "": "partition:9 ,available:.5 ,time:.10 ,nodes:.6 ,statecompact:.6 ,nodelist:0",
}


@dataclass(slots=True)
class Group:
    """Nodes that are told in one line."""

    call: Call
    partition: Partition
    index: int
    nodes: list[Node] = field(default_factory=list)

    @property
    def first(self) -> Node:
        return self.nodes[0]


def sinfo(call: Call) -> None:
    asked: dict[str, Any] = {}
    for name, value in parse(call, _OPTIONS, call.arguments):
        if name == "version":
            call.print(VERSION)
            call.quit(0)
        if name in ("help", "usage"):
            call.write(USAGE)
            call.quit(0)
        asked[name] = True if value is None else value
    for name, variable in (("all", "SINFO_ALL"), ("partition", "SINFO_PARTITION"), ("sort", "SINFO_SORT")):
        if name not in asked and call.environment.get(variable):
            asked[name] = call.environment[variable]
    call.check_clusters(asked.get("clusters") or asked.get("cluster"))
    if "long" in asked and "format" in asked:
        call.fatal("Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.")
    if "iterate" in asked and not str(asked["iterate"]).lstrip("0").isdecimal():
        call.fail(f"Error: invalid entry for --iterate={asked['iterate']}")
    states = _states(call, asked.get("states"))
    if "reservation" in asked:
        if "long" in asked and "noheader" not in asked:
            call.print(durations.stamp(call.now, "%a %b %d %H:%M:%S %Y"))
        call.print_cluster(asked)
        _print_reservations(call, "noheader" not in asked)
        return
    if "list-reasons" in asked and states is None:
        states = ["DOWN", "DRAIN", "FAIL"]
    if "json" in asked or "yaml" in asked:
        from fairway.slurm.commands.restdata import print_data

        print_data(call, "nodes", call.site.cluster.nodes, "yaml" in asked)
        return
    fields, by_node = _fields(call, asked)
    groups = _groups(call, asked, fields, by_node, states)
    _sort(groups, asked.get("sort") or ("N" if by_node else "#P,-t"))
    if "long" in asked and "noheader" not in asked:
        call.print(durations.stamp(call.now, "%a %b %d %H:%M:%S %Y"))
    call.print_cluster(asked)
    fields = _widened(fields, groups, asked, by_node)
    if "noheader" not in asked:
        call.print(TABLE.heading(fields))
    for group in groups:
        call.print(TABLE.line(fields, group))


def _fields(call: Call, asked: dict[str, Any]) -> tuple[list[Field], bool]:
    columns = columns_of("sinfo")
    by_node = "Node" in asked

    def complain(letter: str) -> None:
        call.say(f"Invalid node format specification: {letter}")

    if (
        "format" not in asked
        and "Format" not in asked
        and (
            not asked.keys() & {"long", "summarize", "Node", "list-reasons"}
            and "SINFO_FORMAT" in call.environment
        )
    ):
        asked["format"] = call.environment["SINFO_FORMAT"]
    if "format" in asked:
        return short_format(call, columns, asked["format"], complain), by_node
    if "Format" in asked:
        return long_format(call, columns, asked["Format"]), by_node
    kind = next((k for k in ("summarize", "Node", "list-reasons") if k in asked), "")
    if "long" in asked and kind != "summarize":
        kind = f"{kind} long".strip()
    return long_format(call, columns, _FORMATS[kind]), by_node


def _widened(fields: list[Field], groups: list[Group], asked: dict[str, Any], by_node: bool) -> list[Field]:
    """The default formats' partition and node columns are as wide as what they show."""
    from dataclasses import replace

    if "format" in asked or "Format" in asked:
        return fields
    names = [len(g.partition.name) + g.partition.default for g in groups]
    lists = [len(_names(g)) for g in groups]
    wide = {"partition": max(9, *names) if names else 9}
    if by_node:
        wide["node_list"] = max(9, *lists) if lists else 9
    return [replace(f, width=wide[f.column]) if f.column in wide and f.column else f for f in fields]


_STATE_WORDS = (
    ("UNKNOWN", "UNK", "UNKNOWN"), ("DOWN", "DOWN", "DOWN"), ("IDLE", "IDLE", "IDLE"),
    ("ALLOCATED", "ALLOC", "ALLOCATED"), ("MIXED", "MIX", "MIXED"), ("FUTURE", "FUTR", "FUTURE"),
    ("PLANNED", "PLND", "PLANNED"), ("DRAIN", "DRAIN", "DRAIN"), ("DRAINED", "DRAINED", "DRAINED"),
    ("RESV", "RESERVED", "RESERVED"), ("PERFCTRS", "NPC", "NET"), ("DRAINING", "DRNG", "DRAINING"),
    ("COMPLETING", "COMP", "COMPLETING"), ("NO_RESPOND", "NO_RESPOND", "NOT_RESPONDING"),
    ("POWERING_DOWN", "POW_DN", "POWERING_DOWN"), ("POWERED_DOWN", "POWERED_DOWN", "POWERED_DOWN"),
    ("POWER_DOWN", "POWER_DOWN", "POWER_DOWN"), ("POWERING_UP", "POW_UP", "POWERING_UP"), ("FAIL", "FAIL", "FAIL"),
    ("MAINT", "MAINT", "MAINTENANCE"), ("REBOOT", "BOOT", "REBOOT_REQUESTED"), ("REBOOT^", "BOOT^", "REBOOT_ISSUED"),
    ("CLOUD", "CLOUD", "CLOUD"),
)  # fmt: skip
"""Words of -t in the order they are tried, long and short, and what they mean; their beginnings do (_node_state_id)."""
_VALID = (
    "unknown,down,idle,allocated,?,mixed,future,drain,drained,draining,no_respond,reserved,perfctrs,cloud,completing,"
    "powering_down,powered_down,power_down,powering_up,fail,maint,reboot,reboot^,unknown"
)


def _states(call: Call, text: str | None) -> list[str] | None:
    if text is None or text.lower() == "all":
        return None
    found = []
    for word in re.split("[,&]", text):
        said = word.upper()
        name = next((m for *names, m in _STATE_WORDS if any(n.startswith(said) for n in names)), None)
        if name is None:
            call.error(f'Bad state string: "{word}"')
            call.error(f"valid states: {_VALID}")
            call.quit(1)
        found.append(name)
    return found


def _is_in(node: Node, state: str) -> bool:
    flags, base = nodetext.flags_of(node), _base(node)
    busy = base in ("ALLOCATED", "MIXED") or "COMPLETING" in flags
    if state == "DRAINING":
        return "DRAIN" in flags and busy
    if state == "DRAINED":
        return "DRAIN" in flags and not busy
    if state == "FAILING":
        return "FAIL" in flags and busy
    if state == "ALLOCATED":
        return node.used_cpus > 0
    return state in flags if state in nodetext.FLAGS else base == state


def _base(node: Node) -> str:
    """sinfo does not tell a draining node's free CPUs from the rest: the whole node is being drained."""
    base = nodetext.base_state(node)
    return "ALLOCATED" if base == "MIXED" and "DRAIN" in nodetext.flags_of(node) else base


def _groups(
    call: Call, asked: dict[str, Any], fields: list[Field], by_node: bool, states: list[str] | None
) -> list[Group]:
    cluster = call.site.cluster
    shown = {f.column for f in fields}
    reasons = "list-reasons" in asked
    by_partition = bool(shown & {"partition", "partition_name"}) and not reasons
    wanted = asked["partition"].split(",") if "partition" in asked else None
    names = set(hostlist.expand(asked["nodes"])) if "nodes" in asked else None
    partitions = [
        (at, p)
        for at, p in enumerate(cluster.partitions.values())
        if (wanted is None or p.name in wanted) and (wanted or "all" in asked or cluster.shows(p, call.user))
    ]
    groups = [Group(call, p, at) for at, p in partitions] if by_partition and not by_node else []
    for at, partition in partitions:
        for number in partition.nodes:
            node = cluster.nodes[number]
            if names is not None and node.name not in names:
                continue
            if node.state == "FUTURE" and "future" not in asked:
                continue
            every = all if "&" in str(asked.get("states", "")) else any
            if states is not None and not every(_is_in(node, state) for state in states):
                continue
            if ("responding" in asked and not node.responding) or ("dead" in asked and node.responding):
                continue
            _insert(
                groups,
                Group(call, partition, at, [node]),
                shown,
                by_node,
                by_partition,
                reasons,
                "exact" in asked,
            )
    return groups


_PARTITION_COLUMNS = (
    "avail", "groups", "size", "default_time", "time", "root", "oversubscribe", "preempt_mode",
    "priority_tier", "priority_job_factor", "max_cpus_per_node",
)  # fmt: skip
_NODE_COLUMNS = (
    "features", "features_act", "gres", "gres_used", "comment", "reason", "timestamp", "user", "user_long",
    "state_complete", "alloc_mem", "extra",
)  # fmt: skip
_EXACT_COLUMNS = (
    "cpus", "sockets", "cores", "threads", "sct", "disk", "memory", "weight", "cpu_load", "free_mem",
    "port", "version",
)  # fmt: skip


def _insert(
    groups: list[Group],
    one: Group,
    shown: set[str],
    by_node: bool,
    by_partition: bool,
    reasons: bool,
    exact: bool,
) -> None:
    node = one.first
    columns = [c for c in (*_NODE_COLUMNS, *(_EXACT_COLUMNS if exact else ())) if c in shown]
    if exact and "cpus_aiot" in shown:
        columns.append("cpus")
    of_partition = [c for c in _PARTITION_COLUMNS if c in shown]
    for group in groups:
        apart = not reasons and group.partition is not one.partition
        if apart and (by_partition or any(VALUES[c](group) != VALUES[c](one) for c in of_partition)):
            continue
        if group.nodes:
            if by_node or any(
                VALUES[c](Group(one.call, one.partition, 0, [group.first])) != VALUES[c](one) for c in columns
            ):
                continue
            if shown & {"state_compact", "state_long"} and nodetext.long_state(
                group.first
            ) != nodetext.long_state(node):
                continue
            if "node_hostnames" in shown and node not in group.nodes:
                continue
            if "node_address" in shown and all(n.conf.address != node.conf.address for n in group.nodes):
                continue
        if node not in group.nodes:
            group.nodes.append(node)
        return
    groups.append(one)


def _sort(groups: list[Group], keys: str) -> None:
    for at in range(len(keys) - 1, -1, -1):
        letter, before = keys[at], keys[at - 1] if at else ""
        key = _SORTS.get(letter)
        if letter in "PR" and before == "#":
            key = lambda g: g.index  # noqa: E731
        if key is not None:
            groups.sort(key=key, reverse=before == "-")


def _names(group: Group) -> str:
    return hostlist.compress_sorted(n.name for n in group.nodes)


def _first_name(group: Group) -> Any:
    return (
        hostlist.host_key(min((n.name for n in group.nodes), key=hostlist.host_key))
        if group.nodes
        else ([], 0)
    )


def _least(of: Callable[[Node], int]) -> Callable[[Group], int]:
    return lambda g: min(map(of, g.nodes), default=0)


_SORTS: dict[str, Callable[[Group], Any]] = {
    "a": lambda g: ("DOWN", "UP", "DRAIN", "INACTIVE").index(g.partition.state),
    "A": lambda g: _counts(g)[0],
    "F": lambda g: _counts(g)[0],
    "b": lambda g: ",".join(g.first.active_features) if g.nodes else "",
    "c": _least(lambda n: n.conf.cpus),
    "d": _least(lambda n: n.conf.tmp_disk),
    "D": lambda g: len(g.nodes),
    "E": lambda g: g.first.reason if g.nodes else "",
    "f": lambda g: ",".join(g.first.features) if g.nodes else "",
    "g": lambda g: ",".join(g.partition.allow_groups or ()),
    "h": lambda g: g.partition.max_share,
    "H": lambda g: g.first.reason_time if g.nodes else 0,
    "l": lambda g: g.partition.max_time,
    "m": _least(lambda n: n.conf.real_memory),
    "n": _first_name,
    "N": _first_name,
    "o": lambda g: g.first.conf.address if g.nodes else "",
    "p": lambda g: g.partition.priority_tier,
    "P": lambda g: g.partition.name,
    "R": lambda g: g.partition.name,
    "r": lambda g: g.partition.root_only,
    "s": lambda g: g.partition.min_nodes,
    "S": lambda g: g.partition.priority_job_factor,
    "t": lambda g: nodetext.state_number(g.first) if g.nodes else 0,
    "T": lambda g: nodetext.state_number(g.first) if g.nodes else 0,
    "u": lambda g: g.first.reason_user if g.nodes else "",
    "w": _least(lambda n: n.weight),
    "X": _least(lambda n: n.conf.sockets),
    "Y": _least(lambda n: n.conf.cores_per_socket),
    "Z": _least(lambda n: n.conf.threads),
    "z": _least(lambda n: n.conf.sockets),
}


def _counts(group: Group) -> tuple[int, int, int, int]:
    """Nodes allocated, idle, other, total."""
    busy = other = 0
    for node in group.nodes:
        if nodetext.base_state(node) in ("ALLOCATED", "MIXED") or node.completing:
            busy += 1
        elif "DRAIN" in node.flags or node.state == "DOWN":
            other += 1
    return busy, len(group.nodes) - busy - other, other, len(group.nodes)


def _cpus(group: Group) -> str:
    used = idle = other = 0
    for node in group.nodes:
        used += node.used_cpus
        rest = node.conf.cpus - node.used_cpus
        if "DRAIN" in node.flags or node.state == "DOWN":
            other += rest
        else:
            idle += rest
    return f"{used}/{idle}/{other}/{used + idle + other}"


def _range(of: Callable[[Node], int], units: bool = False, between: bool = False) -> Callable[[Group], str]:
    """`16`, or where nodes differ `16+`, `16-32` if `between`."""

    def value(group: Group) -> str:
        numbers = [of(n) for n in group.nodes]
        low, high = min(numbers, default=0), max(numbers, default=0)
        text = sizes.with_unit(low) if units else str(low)
        return text if low == high else f"{text}-{high}" if between else f"{text}+"

    return value


def _of_first(of: Callable[[Node], str], missing: str = "(null)") -> Callable[[Group], str]:
    return lambda g: of(g.first) if g.nodes else missing


def _partition_name(group: Group) -> str:
    return group.partition.name + ("*" if group.partition.default else "")


def _oversubscribe(group: Group) -> str:
    of = group.partition.oversubscribe.upper()
    if of == "EXCLUSIVE" or of == "NO":
        return of
    return f"{of}:{group.partition.max_share}"


def _size(group: Group) -> str:
    low, high = max(group.partition.min_nodes, 1), group.partition.max_nodes
    return f"{low}" if low == high else f"{low}-infinite" if high == INFINITE else f"{low}-{high}"


def _reason_user(group: Group) -> str:
    return group.first.reason_user or "Unknown" if group.nodes else "Unknown"


def _reason_user_long(group: Group) -> str:
    user = _reason_user(group)
    return user if user == "Unknown" else f"{user}({group.call.site.uid(user)})"


def _minutes(limit: int | None) -> str:
    if limit is None:
        return "n/a"
    return "infinite" if limit == INFINITE else durations.short(limit * 60)


def _preempt_mode(group: Group) -> str:
    return (group.partition.preempt_mode or group.call.site.conf.get("PreemptMode", "OFF")).upper()


def _load(group: Group) -> str:
    return "0.00"


VALUES: dict[str, Callable[[Group], str]] = {
    "avail": lambda g: g.partition.state.lower(),
    "nodes_ai": lambda g: "/".join(str(n) for n in _counts(g)[:2]),
    "features_act": _of_first(lambda n: ",".join(n.active_features) or "(null)"),
    "max_cpus_per_node": lambda g: (
        "UNLIMITED" if g.partition.max_cpus_per_node == INFINITE else str(g.partition.max_cpus_per_node)
    ),
    "cpus": _range(lambda n: n.conf.cpus, units=True),
    "cpus_aiot": _cpus,
    "disk": _range(lambda n: n.conf.tmp_disk),
    "nodes": lambda g: str(len(g.nodes)),
    "free_mem": _range(lambda n: n.conf.real_memory - n.used_mem, between=True),
    "reason": lambda g: (g.first.reason if g.nodes else "") or "none",
    "features": _of_first(lambda n: ",".join(n.features) or "(null)"),
    "nodes_aiot": lambda g: "/".join(str(n) for n in _counts(g)),
    "groups": lambda g: ",".join(g.partition.allow_groups) if g.partition.allow_groups else "all",
    "gres": _of_first(nodetext.gres_text),
    "oversubscribe": _oversubscribe,
    "timestamp": lambda g: g.call.stamp(g.first.reason_time if g.nodes else 0),
    "priority_job_factor": lambda g: str(g.partition.priority_job_factor),
    "time": lambda g: _minutes(g.partition.max_time),
    "default_time": lambda g: _minutes(g.partition.default_time),
    "memory": _range(lambda n: n.conf.real_memory),
    "preempt_mode": _preempt_mode,
    "node_hostnames": _names,
    "node_list": _names,
    "node_address": lambda g: hostlist.compress(dict.fromkeys(n.conf.address or n.name for n in g.nodes)),
    "cpu_load": _load,
    "priority_tier": lambda g: str(g.partition.priority_tier),
    "partition": _partition_name,
    "root": lambda g: "yes" if g.partition.root_only else "no",
    "partition_name": lambda g: g.partition.name,
    "size": _size,
    "alloc_nodes": lambda g: ",".join(g.partition.allow_nodes) if g.partition.allow_nodes else "all",
    "state_compact": _of_first(lambda n: nodetext.compact_state(n).lower(), "n/a"),
    "state_long": _of_first(lambda n: nodetext.long_state(n).lower(), "n/a"),
    "user": _reason_user,
    "user_long": _reason_user_long,
    "version": lambda g: VERSION.split()[1],
    "cluster_name": lambda g: "N/A",
    "weight": _range(lambda n: n.weight),
    "sockets": _range(lambda n: n.conf.sockets),
    "cores": _range(lambda n: n.conf.cores_per_socket),
    "threads": _range(lambda n: n.conf.threads),
    "sct": lambda g: ":".join(VALUES[c](g) for c in ("sockets", "cores", "threads")),
    "alloc_mem": lambda g: str(g.nodes[-1].used_mem if g.nodes else 0),
    "comment": _of_first(lambda n: n.comment or "(null)"),
    "extra": lambda g: "(null)",
    "gres_used": lambda g: nodetext.gres_used_text(g.call.site, g.first) if g.nodes else "(null)",
    "port": _of_first(lambda n: str(n.conf.port)),
    "state_complete": _of_first(lambda n: nodetext.complete_state(n, _base(n)).lower(), "n/a"),
}
TABLE: Table[Group] = Table(VALUES)


def _print_reservations(call: Call, heading: bool) -> None:
    """-T"""
    site = call.site
    reservations = list(site.cluster.reservations.values())
    if not reservations:
        call.print("No reservations in the system")
        return
    width = max(9, *(len(r.name) for r in reservations))
    if heading:
        columns = (
            f"{'RESV_NAME':<{width}}  {'STATE':>8}  {'START_TIME':>19}  {'END_TIME':>19}  {'DURATION':>11}"
        )
        call.print(f"{columns}  NODELIST")
    for one in reservations:
        state = "ACTIVE" if one.start <= call.now < one.end else "INACTIVE"
        nodes = hostlist.compress_sorted(site.cluster.nodes[n].name for n in one.nodes)
        times = f"{call.stamp(one.start):>19}  {call.stamp(one.end):>19}"
        call.print(
            f"{one.name:<{width}}  {state:>8}  {times}  {durations.clock(one.end - one.start):>11}  {nodes}"
        )
