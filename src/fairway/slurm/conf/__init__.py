"""What does a site's Slurm configuration say?

`read_configuration` takes the texts of slurm.conf, gres.conf, cgroup.conf and topology.conf and gives a
`Configuration`. What is not understood is named in its `problems` with file and line, never fatal alone.

Order to read: `lines` (the file format), `nodes` (NodeName and gres.conf), `partitions`, `configuration`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fairway.errors import FieldProblem, InvalidInput
from fairway.slurm.conf.configuration import NUMBERS, Configuration, Switch, is_number
from fairway.slurm.conf.lines import Line, known_keys, read_lines
from fairway.slurm.conf.nodes import gres_lines, nodes_of
from fairway.slurm.conf.partitions import partitions_of
from fairway.slurm.words import hostlist

__all__ = ["Configuration", "check_usable", "read_configuration", "read_folder"]

_KINDS = ("slurm.conf", "NodeName", "PartitionName", "NodeSet", "DownNodes", "FrontendName")


def read_folder(folder: Path) -> Configuration:
    """The `*.conf` files of a folder such as /etc/slurm. Raises: OSError, InvalidInput."""
    return read_configuration({path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.conf"))})


def check_usable(conf: Configuration) -> None:
    """Raises: InvalidInput, with all that was wrong, where nothing is left to run on."""
    for what, found in (("NodeName", conf.nodes), ("PartitionName", conf.partitions)):
        if not found:
            none = FieldProblem("slurm.conf", 0, what, "", "has no such line that can be used")
            raise InvalidInput((*conf.problems, none))


def read_configuration(texts: Mapping[str, str]) -> Configuration:
    """`texts`: file name → text; slurm.conf is needed, the others are optional; an Include must name one of them.

    Raises: InvalidInput for a file that is no list of Key=Value lines.
    """
    conf = Configuration(texts=dict(texts))

    def included(name: str) -> str:
        key = name if name in texts else Path(name).name
        if key not in texts:
            raise FileNotFoundError(f"no file {key} was given")
        return texts[key]

    read = read_lines(texts["slurm.conf"], "slurm.conf", _KINDS, included)
    conf.problems = read.problems
    by_kind: dict[str, list[Line]] = {"nodename": [], "partitionname": [], "nodeset": [], "": []}
    for line in read.lines:
        by_kind.get(line.first, by_kind[""]).append(line)
    for line in by_kind[""]:
        conf.settings.update(line.pairs)
        conf.problems += _setting_problems(line)
    gres = read_lines(texts.get("gres.conf", ""), "gres.conf", ("gres.conf",), included)
    conf.problems += gres.problems
    devices = gres_lines(gres.lines, conf.problems)
    conf.nodes = nodes_of(by_kind["nodename"], devices, conf.words("GresTypes"), conf.problems)
    conf.nodes.sort(key=lambda node: hostlist.host_key(node.name))  # as slurmctld's table of nodes is
    for line in by_kind["nodeset"]:
        try:
            conf.node_sets[line.pairs["nodeset"]] = _node_set(line, conf)
        except hostlist.HostlistError as error:
            conf.problems.append(line.problem("NodeSet", line.pairs["nodeset"], f"cannot be read: {error}"))
    conf.partitions = partitions_of(by_kind["partitionname"], conf.nodes, conf.node_sets, conf.problems)
    topology = read_lines(texts.get("topology.conf", ""), "topology.conf", ("topology.conf",), included)
    conf.problems += topology.problems
    for line in topology.lines:
        try:
            conf.topology.append(_switch(line))
        except hostlist.HostlistError as error:
            name = line.pairs.get("switchname", "")
            conf.problems.append(line.problem("SwitchName", name, f"cannot be read: {error}"))
    cgroup = read_lines(texts.get("cgroup.conf", ""), "cgroup.conf", ("cgroup.conf",), included)
    conf.problems += cgroup.problems
    for line in cgroup.lines:
        conf.cgroup.update(line.pairs)
    return conf


def _setting_problems(line: Line) -> list[FieldProblem]:
    """What the settings of a line are wrong in."""
    found = []
    for option in filter(None, dict.fromkeys(line.pairs.get("schedulerparameters", "").split(","))):
        name, equals, value = option.strip().partition("=")
        if name.lower() not in known_keys("SchedulerParameters"):
            found.append(
                line.problem("SchedulerParameters", name[:80].lower(), "is no option of it in Slurm 22.05")
            )
        elif equals and not is_number(value):
            found.append(line.problem("SchedulerParameters", option.strip()[:80], "is no number"))
    for key in NUMBERS & line.pairs.keys():
        if not is_number(line.pairs[key]):
            word = known_keys("slurm.conf").get(key, key)
            found.append(line.problem(word, line.pairs[key][:80], "is no number"))
    return found


def _node_set(line: Line, conf: Configuration) -> tuple[str, ...]:
    wanted = line.pairs.get("feature")
    named = set(hostlist.expand(line.pairs.get("nodes", "")))
    return tuple(
        node.name for node in conf.nodes if node.name in named or (wanted and wanted in node.features)
    )


def _switch(line: Line) -> Switch:
    pairs = line.pairs
    nodes, below = (tuple(hostlist.expand(pairs.get(key, ""))) for key in ("nodes", "switches"))
    return Switch(pairs.get("switchname", ""), nodes, below)
