"""The same accounting replayed by Slurm's rules, once as the site is and once changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fairway.answers.onslurm.telling import Stay, Told, told
from fairway.errors import UserError
from fairway.ground.slurmground import SlurmMoment
from fairway.slurm.conf import read_configuration
from fairway.slurm.conf.lines import known_keys
from fairway.slurm.model.node import NodeConf
from fairway.slurm.records.record import JobRecord
from fairway.slurm.records.replaying import Played, replay
from fairway.slurm.sitefolder import SiteFolder

FORMS = "nodes=+2, nodes/PREFIX=+2, partition/NAME/KEY=VALUE, load=1.5 or a KEY=VALUE of slurm.conf"


def what_if(moment: SlurmMoment, changes: Sequence[str]) -> tuple[Told, Told, list[str]]:
    """(as it is, changed, notes). Raises: UserError for a change that cannot be read."""
    records = [r for r in moment.past if r.submit <= moment.now]
    site, load = moment.site, 1.0
    for text in changes:
        key, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"{text!r}: expected {FORMS}")
        if key == "load":
            load = _factor(text, value)
        else:
            site = _changed(site, text, key, value)
    before, after = replay(moment.site, records), replay(site, _loaded(records, load))
    notes = [f"refused in the replay: {said}" for said in after.refused[:3]]
    if len(after.refused) > 3:
        notes.append(f"… and {len(after.refused) - 3} more")
    return told(stays(before), moment.site.conf.nodes), told(stays(after), site.conf.nodes), notes


def stays(played: Played) -> list[Stay]:
    """Of a replay: every job that started."""
    found = []
    for record, job in played.jobs:
        if job.start and not job.pending:
            wait = max(job.start - max(job.eligible or job.submit, job.submit), 0)
            end = job.end if job.finished else played.controller.now
            part = record.partition.split(",")[0]
            found.append(Stay(record.label, record.account, part, wait, job.start, end, job.gpus, job.cpus))
    return found


def _factor(text: str, value: str) -> float:
    try:
        factor = float(value)
    except ValueError:
        factor = 0.0
    if not 0 < factor <= 10:
        raise UserError(f"{text!r}: expected a factor from 0 to 10")
    return factor


def _loaded(records: list[JobRecord], load: float) -> list[JobRecord]:
    """Arrivals so many times as dense: the same jobs in less time."""
    if load == 1.0 or not records:
        return records
    first = records[0].submit
    made = []
    for r in records:
        shift = int((r.submit - first) / load) + first - r.submit
        times = [at + shift if at else 0 for at in (r.submit, r.start, r.end, r.eligible)]
        made.append(replace(r, submit=times[0], start=times[1], end=times[2], eligible=times[3]))
    return made


def _changed(site: SiteFolder, text: str, key: str, value: str) -> SiteFolder:
    texts = dict(site.conf.texts)
    lines = texts["slurm.conf"].splitlines()
    words = key.split("/")
    if words[0] == "nodes":
        texts = _more_nodes(site, texts, text, words[1] if len(words) > 1 else "", value)
    elif words[0] == "partition" and len(words) == 3:
        at = next(
            (
                n
                for n, line in enumerate(lines)
                if re.match(rf"PartitionName={re.escape(words[1])}\s", line, re.I)
            ),
            None,
        )
        if at is None or words[2].lower() not in known_keys("PartitionName"):
            raise UserError(f"{text!r}: no such partition or key; partitions are "
                            f"{', '.join(p.name for p in site.conf.partitions)}")  # fmt: skip
        lines[at] = re.sub(rf"\s{words[2]}=\S+", "", lines[at], flags=re.I) + f" {words[2]}={value}"
        texts["slurm.conf"] = "\n".join(lines) + "\n"
    elif len(words) == 1 and key.lower() in known_keys("slurm.conf"):
        texts["slurm.conf"] += f"{key}={value}\n"
    else:
        raise UserError(f"{text!r}: expected {FORMS}")
    conf = read_configuration(texts)
    new = [problem for problem in conf.problems if problem not in site.conf.problems]
    if new:
        raise UserError(f"{text!r}: {new[0].expected}")
    return replace(site, conf=conf)


def _more_nodes(
    site: SiteFolder, texts: dict[str, str], text: str, prefix: str, value: str
) -> dict[str, str]:
    """Nodes like the last one of that prefix, in its partitions; `-2` takes the last ones away."""
    found = [node for node in site.conf.nodes if node.name.startswith(prefix)]
    if not re.fullmatch(r"[+-]\d{1,4}", value) or not found:
        raise UserError(
            f"{text!r}: expected nodes=+2 or nodes/PREFIX=-1; nodes are {site.conf.nodes[0].name} …"
        )
    like = max(found, key=_size) if not prefix else found[-1]
    index = next(n for n, node in enumerate(site.conf.nodes) if node.name == like.name)
    parts = [part for part in site.conf.partitions if index in part.nodes]
    count, conf = int(value), texts["slurm.conf"]
    if count < 0:
        names = [node.name for node in found[count:]]
        for name in names:
            conf += f"# {name} is gone\n"
        keep = [node for node in site.conf.nodes if node.name not in names]
        return {**texts, **_switches(site, names, "", []), "slurm.conf": _rewritten(site, conf, keep, [])}
    extra = [f"{like.name}x{number}" for number in range(1, count + 1)]
    gres = texts.get("gres.conf", "")
    for one in like.gres:
        for at, kind in enumerate(one.types):
            if one.files:
                said = f" Type={kind}" if kind else ""
                gres += f"NodeName={','.join(extra)} Name={one.name}{said} File={one.files[at]}\n"
    made = [replace(like, name=name) for name in extra]
    names = [part.name for part in parts]
    return {
        **texts,
        **_switches(site, [], like.name, extra),
        "gres.conf": gres,
        "slurm.conf": _rewritten(site, conf, [*site.conf.nodes, *made], [(n, extra) for n in names]),
    }


def _switches(site: SiteFolder, gone: list[str], like: str, extra: list[str]) -> dict[str, str]:
    """topology.conf without nodes that are gone, and with new ones at the switch of the one they are like: a node at no
    switch gets no job."""
    if not site.conf.topology:
        return {}
    lines = []
    for switch in site.conf.topology:
        nodes = [node for node in switch.nodes if node not in gone]
        nodes += extra if like in nodes else []
        words = [f"SwitchName={switch.name}"]
        words += [f"Nodes={','.join(nodes)}"] if nodes else []
        words += [f"Switches={','.join(switch.switches)}"] if switch.switches else []
        lines.append(" ".join(words))
    return {"topology.conf": "\n".join(lines) + "\n"}


def _size(node: NodeConf) -> tuple[int, int]:
    return sum(g.count for g in node.gres if g.name == "gpu"), node.cpus


def _rewritten(site: SiteFolder, conf: str, nodes: list[NodeConf], more: list[tuple[str, list[str]]]) -> str:
    """slurm.conf with one NodeName line a node, and partitions that name the nodes they have."""
    lines = [line for line in conf.splitlines() if not re.match(r"\s*(NodeName|PartitionName)=", line, re.I)]
    for node in nodes:
        parts = [
            f"NodeName={node.name} CPUs={node.cpus} Boards={node.boards} SocketsPerBoard={node.sockets // node.boards}",
            f"CoresPerSocket={node.cores_per_socket} ThreadsPerCore={node.threads} RealMemory={node.real_memory}",
            f"Weight={node.weight} TmpDisk={node.tmp_disk}",
            f"MemSpecLimit={node.mem_spec} CoreSpecCount={node.core_spec}",
        ]
        parts += [f"Gres={node.gres_text}"] if node.gres_text else []
        parts += [f"Feature={','.join(node.features)}"] if node.features else []
        lines.append(" ".join(parts))
    there = {node.name for node in nodes}
    added = dict(more)
    for part in site.conf.partitions:
        names = [site.conf.nodes[n].name for n in part.nodes if site.conf.nodes[n].name in there]
        names += added.get(part.name, [])
        rest = " ".join(f"{k}={v}" for k, v in part.settings.items() if k not in ("partitionname", "nodes"))
        lines.append(f"PartitionName={part.name} Nodes={','.join(names)} {rest}")
    return "\n".join(lines) + "\n"
