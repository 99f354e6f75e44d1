"""The way over, in figures: the same accounting replayed by Slurm's rules and by Kueue's, and a plan in phases.

Four columns: what was, the replay by Slurm's rules (which says how far the model can be trusted), the replay through
Kueue and kube-scheduler, and slurm-bridge (Slurm decides, but gives whole nodes unless told otherwise). slurm-operator
decides as Slurm does: its column is Slurm's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairway.answers.onslurm.otherside import played_on_kubernetes
from fairway.answers.onslurm.owing import Rates, _node_micros, rates_of
from fairway.answers.onslurm.telling import Stay, Told, stays_of, told
from fairway.answers.onslurm.whatif import stays
from fairway.slurm.model.node import NodeConf
from fairway.slurm.records.record import JobRecord
from fairway.slurm.records.replaying import replay
from fairway.slurm.sitefolder import SiteFolder

WORSE_FACTOR, WORSE_S = 1.5, 600
"""A phase holds while the mean wait grows by no more than half and ten minutes. Ours, to be judged by the site."""
MOST_PHASES = 8
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Side:
    """One way to run the same jobs. `micros`: the nodes over the span it took; `idle_micros`: of it held by nobody."""

    name: str
    told: Told
    micros: int
    idle_micros: int

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **self.told.as_json(),
            "usd": self.micros / 1e6,
            "idleUsd": self.idle_micros / 1e6,
        }


@dataclass(frozen=True, slots=True)
class Phase:
    """Partitions that share nodes move together. `fit`: of their GPU time (CPU time without GPUs), the part in
    jobs of one node; `mean_wait_s`: of all jobs, moved and not, and with all on Slurm `before_s`."""

    partitions: tuple[str, ...]
    nodes: int
    jobs: int
    fit: float
    mean_wait_s: int
    before_s: int
    moved_wait_s: int
    moved_before_s: int
    holds: bool

    def as_json(self) -> dict[str, Any]:
        from dataclasses import asdict

        return asdict(self)


@dataclass(slots=True)
class Migration:
    """`sides[0]` what was, then the replays."""

    sides: list[Side] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return all(phase.holds for phase in self.phases)

    def as_json(self) -> dict[str, Any]:
        return {
            "sides": [side.as_json() for side in self.sides],
            "phases": [phase.as_json() for phase in self.phases],
            "notes": self.notes,
        }


def migrate(
    site: SiteFolder,
    records: Sequence[JobRecord],
    *,
    phases: bool = True,
    bridge: bool = True,
    progress: Progress | None = None,
) -> Migration:
    """Everything by replay; nothing is guessed. Raises: InvalidInput."""
    say = progress or (lambda text: None)
    ran = [r for r in records if r.ran_s > 0]
    nodes = site.conf.nodes
    rates = rates_of(nodes)
    made = Migration()
    last = max((r.end for r in ran), default=0) + 1
    made.sides.append(_side("accounting", stays_of(ran, last), nodes, rates))
    say("by Slurm's rules")
    by_slurm = replay(site, ran)
    made.notes += _some("Slurm's replay refused", by_slurm.refused)
    slurm = stays(by_slurm)
    made.sides.append(_side("Slurm", slurm, nodes, rates))
    say("by Kueue's")
    kueue, left_out = played_on_kubernetes(site, ran)
    made.notes += _some("Kubernetes", left_out)
    made.sides.append(_side("Kueue", kueue, nodes, rates))
    if bridge:
        say("by slurm-bridge")
        made.sides.append(_side("slurm-bridge", stays(replay(site, ran, exclusive=True)), nodes, rates))
    if phases:
        made.phases = _phases(site, ran, slurm, kueue, say)
    return made


def _some(what: str, said: Sequence[str]) -> list[str]:
    return [f"{what}: {one}" for one in said[:3]] + ([f"… and {len(said) - 3} more"] if len(said) > 3 else [])


def _side(name: str, stays: Sequence[Stay], nodes: Sequence[NodeConf], rates: Rates) -> Side:
    found = told(stays, nodes)
    total = sum(_node_micros(node, found.span_s, rates) for node in nodes)
    used = (
        found.allocated_gpus if any(g.name == "gpu" for n in nodes for g in n.gres) else found.allocated_cpus
    )
    return Side(name, found, total, total - int(total * used))


def components(site: SiteFolder, records: Sequence[JobRecord]) -> list[tuple[str, ...]]:
    """Partitions that share nodes, or that one job names together, are one."""
    group = {part.name: {part.name} for part in site.conf.partitions}

    def join(names: Sequence[str]) -> None:
        merged = set().union(*(group[name] for name in names if name in group))
        for name in merged:
            group[name] = merged

    at: dict[int, str] = {}
    for part in site.conf.partitions:
        for node in part.nodes:
            if node in at:
                join([at[node], part.name])
            at[node] = part.name
    for names in {tuple(r.partition.split(",")) for r in records if "," in r.partition}:
        join(names)
    return sorted({tuple(sorted(names)) for names in group.values()})


def _phases(
    site: SiteFolder, records: Sequence[JobRecord], slurm: list[Stay], kueue: list[Stay], say: Progress
) -> list[Phase]:
    """The best fit first, then fewer nodes; each phase is played with what has moved and what has not."""
    order = sorted(
        (one for one in components(site, records) if _of(records, one)),
        key=lambda one: (-round(_fit(_of(records, one)), 2), len(_nodes(site, one)), one),
    )[:MOST_PHASES]
    before = {stay.label: stay.wait_s for stay in slurm}
    found: list[Phase] = []
    moved: tuple[str, ...] = ()
    for number, one in enumerate(order, 1):
        moved += one
        gone = _of(records, moved)
        if number == len(order):
            there, here = kueue, []
        else:
            say(f"phase {number} of {len(order)}: {', '.join(one)}")
            rest = [r for r in records if r.partition.split(",")[0] not in moved]
            there, _ = played_on_kubernetes(site, gone, frozenset(_nodes(site, moved)))
            here = stays(replay(site, rest))
        all_now = _mean([s.wait_s for s in (*there, *here)])
        all_before = _mean(list(before.values()))
        mine = {r.label for r in _of(records, one)}
        mine_now = _mean([s.wait_s for s in there if s.label in mine])
        mine_before = _mean([before[label] for label in mine if label in before])
        holds = all(
            now <= then * WORSE_FACTOR + WORSE_S
            for now, then in ((all_now, all_before), (mine_now, mine_before))
        )
        fit = _fit(_of(records, one))
        found.append(
            Phase(
                one, len(_nodes(site, one)), len(mine), fit, all_now, all_before, mine_now, mine_before, holds
            )
        )
    return found


def _of(records: Sequence[JobRecord], partitions: tuple[str, ...]) -> list[JobRecord]:
    return [r for r in records if r.partition.split(",")[0] in partitions]


def _nodes(site: SiteFolder, partitions: tuple[str, ...]) -> list[str]:
    found = {at for part in site.conf.partitions if part.name in partitions for at in part.nodes}
    return [site.conf.nodes[at].name for at in sorted(found)]


def _fit(records: Sequence[JobRecord]) -> float:
    def work(r: JobRecord) -> int:
        return (r.gpus or (r.alloc or r.tres).get("cpu", 0)) * r.ran_s

    total = sum(map(work, records))
    return sum(work(r) for r in records if r.nodes <= 1) / total if total else 1.0


def _mean(values: Sequence[int]) -> int:
    return sum(values) // len(values) if values else 0
