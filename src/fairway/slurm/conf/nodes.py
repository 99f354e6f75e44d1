"""NodeName lines and gres.conf: what each node has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fairway.errors import FieldProblem
from fairway.slurm.conf.lines import Line
from fairway.slurm.model.node import Gres, NodeConf
from fairway.slurm.words import hostlist
from fairway.slurm.words.sizes import whole

MAX_DEVICES = 1024
"""Devices of one GRES on one node: gres.c's MAX_GRES_BITMAP."""

_SHORT = 0xFFFF
"""What slurmctld keeps counts of processors in: 16 bits."""

MAX_NODES = 65_533
"""MAX_SLURM_NODES."""
_NAMED_MOST = 1 << 20
"""Nodes that all lines of gres.conf name together, each as often as it is named."""

_UNIT = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class GresLine:
    """A line of gres.conf."""

    line: Line
    nodes: frozenset[str] | None
    name: str
    kind: str
    count: int
    files: tuple[str, ...]
    cores: tuple[int, ...]
    links: tuple[int, ...]


def gres_lines(lines: Iterable[Line], problems: list[FieldProblem]) -> list[GresLine]:
    """gres.conf's lines that name a GRES."""
    found: list[GresLine] = []
    named = 0
    for line in lines:
        if "name" not in line.pairs:
            continue
        try:
            one = _gres_line(line)
        except ValueError as error:
            problems.append(line.problem("Name", line.pairs["name"], f"cannot be read: {error}"))
            continue
        named += len(one.nodes or ())
        if named > _NAMED_MOST:
            problems.append(line.problem("NodeName", "", f"is over {_NAMED_MOST} nodes in all lines"))
            break
        found.append(one)
    return found


def _gres_line(line: Line) -> GresLine:
    pairs = line.pairs
    file = pairs.get("file") or pairs.get("files") or ""
    # MultipleFiles: all of them are one device, as a MIG slice is
    files = tuple(hostlist.expand(file)) or tuple(filter(None, (pairs.get("multiplefiles", ""),)))
    count = _count(pairs["count"]) if "count" in pairs else max(len(files), 1)
    cores = _numbers(pairs.get("cores") or pairs.get("cpus", ""))
    links = tuple(whole(word) for word in re.findall(r"-?\d+", pairs.get("links") or pairs.get("link", "")))
    nodes = frozenset(hostlist.expand(pairs["nodename"])) if "nodename" in pairs else None
    return GresLine(line, nodes, pairs["name"].lower(), pairs.get("type", ""), count, files, cores, links)


def _count(text: str) -> int:
    match = re.fullmatch(r"(\d+)([kmgt]?)", text.lower())
    if match is None:
        raise ValueError(f"Count={text[:40]} is no number")
    return whole(match[1]) * _UNIT[match[2]]


def _numbers(text: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        if not low.isdecimal() or not (high or low).isdecimal() or whole(high or low) > _SHORT:
            raise ValueError(f"Cores={text[:40]} is no list of cores")
        numbers.extend(range(whole(low), whole(high or low) + 1))
    return tuple(numbers)


def nodes_of(
    lines: Iterable[Line], gres: list[GresLine], gres_types: tuple[str, ...], problems: list[FieldProblem]
) -> list[NodeConf]:
    """Every node of the NodeName lines, in the order given; a name given twice keeps its first line."""
    default: dict[str, str] = {}
    nodes: dict[str, NodeConf] = {}
    by_node: dict[str, list[GresLine]] = {}
    for each in gres:
        for one in each.nodes or ():
            by_node.setdefault(one, []).append(each)
    of_all = [each for each in gres if each.nodes is None]
    for line in lines:
        name = line.pairs["nodename"]
        if name.upper() == "DEFAULT":
            default = default | {key: value for key, value in line.pairs.items() if key != "nodename"}
            continue
        facts = default | line.pairs
        try:
            names = hostlist.expand(name)
            ports = hostlist.expand(facts["port"]) if "port" in facts else []
            addresses = hostlist.expand(facts["nodeaddr"]) if "nodeaddr" in facts else []
            made = _node(facts)
        except ValueError as error:
            problems.append(line.problem("NodeName", name[:80], f"cannot be read: {error}"))
            continue
        for at, one in enumerate(names):
            if len(nodes) >= MAX_NODES:
                problems.append(line.problem("NodeName", one, f"is the node over {MAX_NODES} of them"))
                return list(nodes.values())
            if one in nodes:
                problems.append(line.problem("NodeName", one, "stands twice; the first is kept"))
                continue
            port = int(ports[at % len(ports)]) if ports and ports[at % len(ports)].isdecimal() else 6818
            address = addresses[at % len(addresses)] if addresses else one
            given = [*of_all, *by_node.get(one, ())]
            devices = _gres(made, given, gres_types, line, problems)
            nodes[one] = replace(made, name=one, port=port, address=address, gres=devices)
    return list(nodes.values())


def _number(facts: dict[str, str], key: str, default: int, most: int = 0xFFFFFFFF) -> int:
    text = facts.get(key, "")
    if not text:
        return default
    if not text.isdecimal() or whole(text) > most:
        raise ValueError(f"{key}={text[:40]} is no number up to {most}")
    return whole(text)


def _node(facts: dict[str, str]) -> NodeConf:
    """CPUs, sockets, cores and threads fill each other in as _build_single_nodeline_info does."""
    cpus = _number(facts, "cpus", _number(facts, "procs", 0, _SHORT), _SHORT)
    boards = _number(facts, "boards", 1, _SHORT) or 1
    cores = _number(facts, "corespersocket", 1, _SHORT) or 1
    threads = _number(facts, "threadspercore", 1, _SHORT) or 1
    sockets = _number(facts, "sockets", 0, _SHORT) or _number(facts, "socketsperboard", 0, _SHORT) * boards
    if not sockets:
        sockets = max(cpus // (cores * threads), 1) if cpus else 1
    if sockets * cores * threads > _SHORT:
        raise ValueError(f"{sockets} sockets of {cores} cores of {threads} threads are more than {_SHORT}")
    features = facts.get("feature") or facts.get("features", "")
    return NodeConf(
        "",
        cpus=cpus or sockets * cores * threads,
        boards=boards,
        sockets=sockets,
        cores_per_socket=cores,
        threads=threads,
        real_memory=_number(facts, "realmemory", 1),
        tmp_disk=_number(facts, "tmpdisk", 0),
        weight=_number(facts, "weight", 1),
        features=tuple(word for word in features.split(",") if word),
        gres_text=facts.get("gres", ""),
        mem_spec=_number(facts, "memspeclimit", 0),
        core_spec=_number(facts, "corespeccount", 0),
        state=facts.get("state", "UNKNOWN").upper(),
        reason=facts.get("reason", ""),
        tres_weights=facts.get("tresweights", ""),
        cpu_spec=facts.get("cpuspeclist", ""),
    )


def _gres(
    node: NodeConf,
    lines: list[GresLine],
    types: tuple[str, ...],
    line: Line,
    problems: list[FieldProblem],
) -> tuple[Gres, ...]:
    """What the node's Gres= says, with the devices gres.conf gives it."""
    found: dict[str, list[tuple[str, str, int, tuple[int, ...]]]] = {}
    for part in filter(None, node.gres_text.split(",")):
        words = part.split("(")[0].split(":")
        kind = words[0].lower()
        count = words[-1] if len(words) > 1 and re.fullmatch(r"\d+[kKmMgGtT]?", words[-1]) else "1"
        of = ":".join(words[1:-1] if len(words) > 1 and count == words[-1] else words[1:])
        of = "" if of == "no_consume" else of
        if kind not in types:
            problems.append(line.problem("Gres", part, "is of no type in GresTypes"))
            continue
        number = _count(count)
        given = [g for g in lines if g.name == kind and g.kind in ("", of)]
        files = [(file, g.cores) for g in given for file in g.files][:number]
        if number + len(found.get(kind, ())) > MAX_DEVICES and (files or kind == "gpu"):
            problems.append(line.problem("Gres", part[:80], f"is more than {MAX_DEVICES} devices"))
            continue
        if files:
            found.setdefault(kind, []).extend((of, file, 1, cores) for file, cores in files)
        elif kind == "gpu":
            found.setdefault(kind, []).extend((of, "", 1, ()) for _ in range(number))
        else:
            found.setdefault(kind, []).append((of, "", number, ()))
    return tuple(_devices(kind, parts, node) for kind, parts in found.items())


def _devices(kind: str, parts: list[tuple[str, str, int, tuple[int, ...]]], node: NodeConf) -> Gres:
    types = tuple(of for of, _, count, _ in parts for _ in range(min(count, MAX_DEVICES)))
    files = tuple(file for _, file, _, _ in parts if file)
    cores = tuple(sum(1 << c for c in cores if c < node.cores) for _, _, _, cores in parts)
    return Gres(kind, types, files if len(files) == len(types) else (), cores if any(cores) else ())
