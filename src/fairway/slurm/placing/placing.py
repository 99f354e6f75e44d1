"""Where would a job go now? Idle cores first; where cores may be shared or suspended jobs' cores used, those after.

(_job_test and what it calls.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairway.slurm.model.node import NodeConf
from fairway.slurm.placing.choosing import Candidates, Chosen, choose
from fairway.slurm.placing.cores import deal_tasks, pick_cores
from fairway.slurm.placing.devices import pick_devices
from fairway.slurm.placing.fitting import Fit, fit, node_cores
from fairway.slurm.placing.need import Need, Use
from fairway.slurm.placing.quick import Table, choose_quick, is_simple
from fairway.slurm.placing.runs import Runs, new_runs
from fairway.slurm.placing.uses import Numbering, Uses, indexes


@dataclass(slots=True, init=False)
class Part:
    """One node of a placement: bitmaps of cores and of the devices of each GRES asked for."""

    node: int
    cpus: int
    mem: int
    cores: int
    gres: tuple[tuple[str, int], ...]
    tasks: int

    def __init__(
        self, node: int, cpus: int, mem: int, cores: int, gres: tuple[tuple[str, int], ...] = (),
        tasks: int = 1,
    ) -> None:  # fmt: skip
        self.node, self.cpus, self.mem, self.cores, self.gres = node, cpus, mem, cores, gres
        self.tasks = tasks


@dataclass(slots=True, init=False)
class Placement:
    """The nodes a job gets, in order."""

    parts: tuple[Part, ...]

    def __init__(
        self, parts: tuple[Part, ...],
    ) -> None:  # fmt: skip
        self.parts = parts

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(part.node for part in self.parts)

    @property
    def cpus(self) -> int:
        return sum(part.cpus for part in self.parts)


Allotted = tuple[tuple[int, Part], ...]
"""(place in the row of chosen nodes, what is given there): `node` is that of the first time."""


@dataclass(slots=True)
class Fits:
    """What is known of a cluster's nodes: fits by need, made once per class and use, or per kind of use (`tables`)."""

    numbering: Numbering
    known: dict[Need, dict[tuple[int, Use], Fit | None]] = field(default_factory=dict)
    tables: dict[Need, Table | None] = field(default_factory=dict)
    ever: dict[tuple[Need, int, tuple[int, ...]], bool] = field(default_factory=dict)
    allotted: dict[Need, dict[tuple[Any, ...], Allotted | None]] = field(default_factory=dict)
    """What a need was given of nodes chosen by `quick`, by what decides that (`_allotted`)."""
    runs: dict[Need, Runs] = field(default_factory=dict)
    """What each need would choose from; emptied when nodes' weights change."""
    count: int = 0

    MOST = 100_000
    """Fits and allotments kept by class and use; then all are forgotten."""
    NEEDS = 4_096
    """Needs kept."""
    RUNS = 256
    """Needs whose sets of nodes are kept: each as long as there are nodes."""

    @property
    def confs(self) -> Sequence[NodeConf]:
        return self.numbering.confs

    def of(self, need: Need) -> dict[tuple[int, Use], Fit | None]:
        self._bound()
        return self.known.setdefault(need, {})

    def allotted_of(self, need: Need) -> dict[tuple[Any, ...], Allotted | None]:
        self._bound()
        return self.allotted.setdefault(need, {})

    def _bound(self) -> None:
        if self.count > self.MOST:
            self.known.clear()
            self.allotted.clear()
            self.count = 0

    def table(self, need: Need) -> Table | None:
        """None: the need is not simple."""
        if need not in self.tables:
            if len(self.tables) >= self.NEEDS:
                self.tables.clear()
                self.ever.clear()
            self.tables[need] = Table() if is_simple(need) else None
        return self.tables[need]

    def forget(self) -> None:
        """Kinds were numbered anew."""
        self.tables.clear()
        self.runs.clear()


@dataclass(slots=True, init=False)
class World:
    """What a placement is looked for in. `weights: int64[node]`, lower first."""

    fits: Fits
    uses: Uses
    weights: NDArray[np.int64]
    switches: tuple[frozenset[int], ...]
    excluded: Mapping[int, int]
    """Node → bitmap of cores reserved for others."""
    held: Callable[[int], int] | None
    """CPUs the job's partition holds on a node (MaxCPUsPerNode)."""
    layers: Sequence[Mapping[int, int]]
    """Node → bitmap of cores taken, one mapping for each further attempt where cores may be shared."""
    busy_first: bool

    def __init__(
        self, fits: Fits, uses: Uses, weights: NDArray[np.int64], switches: tuple[frozenset[int], ...] = (),
        excluded: Mapping[int, int] | None = None, held: Callable[[int], int] | None = None,
        layers: Sequence[Mapping[int, int]] = (), busy_first: bool = False,
    ) -> None:  # fmt: skip
        self.fits, self.uses, self.weights, self.switches, self.held = fits, uses, weights, switches, held
        self.layers, self.busy_first = layers, busy_first
        self.excluded = {} if excluded is None else excluded

    @property
    def plain(self) -> bool:
        return not (self.excluded or self.held or self.switches or self.busy_first)


def place(
    need: Need, world: World, nodes: int, required: tuple[int, ...] = (), *, exact: bool = True
) -> Placement | None:
    """The placement on some of `nodes` (a bitmap), or None. `exact` False: nodes only, cores and devices not worked
    out: a look ahead."""
    if nodes.bit_count() < need.min_nodes:
        return None
    placement = _attempt(need, world, nodes, required, None, exact)
    if placement is not None or need.sharing != "shared":
        return placement
    for layer in world.layers:
        placement = _attempt(need, world, nodes, required, layer, exact)
        if placement is not None:
            return placement
    return None


def fits_ever(need: Need, world: World, nodes: int, required: tuple[int, ...] = ()) -> bool:
    """Could it run on these nodes if they were empty (SELECT_MODE_TEST_ONLY)?"""
    key = (need, nodes, required)
    known = world.fits.ever.get(key)
    if known is None:
        found: dict[int, Fit] = {}
        seen: dict[int, Fit | None] = {}
        classes = world.fits.numbering.classes
        for node in indexes(nodes, len(classes)).tolist():
            if classes[node] not in seen:
                seen[classes[node]] = fit(need, world.fits.confs[node], (0, 0, ()), ever=True)
            one = seen[classes[node]]
            if one is not None:
                found[node] = one
        known = world.fits.ever[key] = _choose(need, world, found, required) is not None
    return known


def _attempt(
    need: Need,
    world: World,
    nodes: int,
    required: tuple[int, ...],
    layer: Mapping[int, int] | None,
    exact: bool,
) -> Placement | None:
    table = world.fits.table(need) if layer is None and not required and world.plain else None
    if table is not None:
        quick = _quick(need, world, table, nodes, exact)
        if quick is not None:
            if not quick:
                return None
            if not exact:
                return Placement(tuple(Part(node, 0, 0, 0) for node in sorted(quick)))
            return _allotted(need, world, sorted(quick))
    order = indexes(nodes, len(world.uses.exact))
    found = _fits(need, world, order.tolist(), layer)
    chosen = _choose(need, world, found, required)
    if chosen is None:
        return None
    if not exact:
        return Placement(tuple(Part(node, 0, 0, 0) for node in chosen.cpus))
    return _allot(need, world, chosen, found)


def _quick(need: Need, world: World, table: Table, nodes: int, exact: bool) -> list[int] | None:
    """As `choose_quick`. What a scheduler starts follows from the look before; looks ahead are each made anew."""
    numbering, kinds, weights, least = (
        world.uses.numbering,
        world.uses.kinds,
        world.weights,
        least_nodes(need),
    )
    if not exact:
        order = indexes(nodes, len(kinds))
        return choose_quick(need, table, numbering, kinds, order, weights=weights, min_nodes=least)
    runs = world.fits.runs.get(need)
    if runs is None or not runs.follow(need, table, numbering, kinds, nodes, weights):
        if len(world.fits.runs) >= world.fits.RUNS:
            world.fits.runs.clear()
        runs = world.fits.runs[need] = new_runs(need, table, numbering, kinds, nodes, weights)
    return runs.choose(need, numbering, least)


def _allotted(need: Need, world: World, nodes: list[int]) -> Placement | None:
    """What it gets of nodes chosen by `quick`: worked out once for nodes alike that lie alike to each other."""
    classes, uses = world.fits.numbering.classes, world.uses.exact
    key: tuple[Any, ...]
    if len(nodes) == 1:
        key = (classes[nodes[0]], uses[nodes[0]])
    else:
        key = (
            tuple([(classes[node], uses[node], world.weights[node]) for node in nodes]),
            tuple([node - nodes[at] == 1 for at, node in enumerate(nodes[1:])]),
        )
    known = world.fits.allotted_of(need)
    if key not in known:
        found = _fits(need, world, nodes, None)
        chosen = _choose(need, world, found, ())
        made = None if chosen is None else _allot(need, world, chosen, found)
        known[key] = None if made is None else tuple((nodes.index(part.node), part) for part in made.parts)
        world.fits.count += 1
    given = known[key]
    if given is None:
        return None
    return Placement(
        tuple([Part(nodes[at], one.cpus, one.mem, one.cores, one.gres, one.tasks) for at, one in given])
    )


def least_nodes(need: Need) -> int:
    """The fewest nodes that can hold its tasks."""
    if need.tasks_per_node and need.num_tasks:
        return max(need.min_nodes, -(-need.num_tasks // need.tasks_per_node))
    return need.min_nodes


def _fits(need: Need, world: World, nodes: Sequence[int], layer: Mapping[int, int] | None) -> dict[int, Fit]:
    known, classes, uses, confs = (
        world.fits.of(need),
        world.fits.numbering.classes,
        world.uses.exact,
        world.fits.confs,
    )
    found: dict[int, Fit] = {}
    if layer is None and world.held is None and not world.excluded:
        for node in nodes:
            key = (classes[node], uses[node])
            if key in known:
                one = known[key]
            else:
                one = known[key] = fit(need, confs[node], uses[node])
                world.fits.count += 1
            if one is not None:
                found[node] = one
        return found
    for node in nodes:
        use = uses[node]
        if layer is not None:
            use = (layer.get(node, 0), use[1], use[2])
        held = world.held(node) if world.held else 0
        one = fit(need, confs[node], use, excluded=world.excluded.get(node, 0), held=held)
        if one is not None:
            found[node] = one
    return found


def _choose(need: Need, world: World, found: dict[int, Fit], required: tuple[int, ...]) -> Chosen | None:
    min_nodes = least_nodes(need)
    if len(found) < min_nodes:
        return None
    idle = (
        frozenset(node for node in found if not world.uses.exact[node][0])
        if world.busy_first
        else frozenset()
    )
    return choose(
        Candidates(
            need,
            world.fits.confs,
            found,
            {node: int(world.weights[node]) for node in found},
            min_nodes,
            need.max_nodes,
            need.req_nodes,
            required,
            world.switches,
            world.busy_first,
            idle,
        )
    )


def _allot(need: Need, world: World, chosen: Chosen, found: dict[int, Fit]) -> Placement | None:
    nodes = list(chosen.cpus)
    confs = [world.fits.confs[node] for node in nodes]
    room = [chosen.cpus[node] for node in nodes]
    total = _cpus_needed(need, len(nodes))
    if need.overcommit and need.num_tasks:
        total = min(sum(room), need.num_tasks)
    limits = _task_limits(need, [found[node] for node in nodes])
    if need.whole_node or need.sharing == "node":
        cpus = [conf.cpus - conf.core_spec * conf.threads for conf in confs]
        cores = [node_cores(conf, need) for conf in confs]
        tasks = deal_tasks(need, confs, room, total, limits)[1]
    else:
        dealt, tasks = deal_tasks(need, confs, room, total, limits)
        cpus, cores = [], []
        for at, conf in enumerate(confs):
            wanted = max(
                dealt[at], min(chosen.min_cores[nodes[at]] * need.cpus_per_core(conf.threads), room[at])
            )
            picked = pick_cores(need, conf, chosen.cores[nodes[at]], wanted)
            if picked.bit_count() * need.cpus_per_core(conf.threads) < wanted and not need.overcommit:
                return None
            cores.append(picked)
            cpus.append(wanted if need.units == "cpu" else picked.bit_count() * conf.threads)
    gres = _devices(need, world, nodes, confs, cores, tasks, found)
    if gres is None:
        return None
    parts = []
    for at, node in enumerate(nodes):
        mem = _memory(need, confs[at], cpus[at], gres[at])
        if (
            need.counts_memory
            and mem > confs[at].real_memory - confs[at].mem_spec - world.uses.exact[node][1]
        ):
            return None
        parts.append(Part(node, cpus[at], mem, cores[at], tuple(sorted(gres[at].items())), tasks[at]))
    return Placement(tuple(parts))


def _cpus_needed(need: Need, nodes: int) -> int:
    """ncpus of the job over so many nodes."""
    sockets = need.sockets_per_node or 1
    by_tasks = max(
        (one.tasks_each * one.total(nodes, sockets, 0) for one in need.gres if one.tasks_each), default=0
    )
    by_gres = max((one.cpus_each * one.total(nodes, sockets, need.num_tasks) for one in need.gres), default=0)
    return max(
        nodes * (need.tasks_per_node or 1), by_tasks, need.min_cpus, nodes * need.node_min_cpus, by_gres
    )


def _task_limits(need: Need, fits: list[Fit]) -> list[int] | None:
    if not any(one.per_task for one in need.gres):
        return None
    return [min(one.total // one.need.per_task for one in fit.gres if one.need.per_task) for fit in fits]


def _devices(
    need: Need,
    world: World,
    nodes: list[int],
    confs: list[NodeConf],
    cores: list[int],
    tasks: list[int],
    found: dict[int, Fit],
) -> list[dict[str, int]] | None:
    """GRES name → bitmap, for each node; an exclusive job gets all of every GRES of its nodes."""
    given: list[dict[str, int]] = [{} for _ in nodes]
    if need.whole_node or need.sharing == "node":
        for at, conf in enumerate(confs):
            given[at] = {gres.name: gres.mask("") for gres in conf.gres}
        return given
    for number, one in enumerate(need.gres):
        rows = []
        for at, node in enumerate(nodes):
            seen = found[node].gres[number]
            name = confs[at].gres[seen.at].name
            rows.append((seen, confs[at].gres[seen.at], confs[at], cores[at], given[at].get(name, 0)))
        picked = pick_devices(one, rows, tasks, all_of=False)
        if picked is None:
            return None
        for at, bits in enumerate(picked):
            if bits:
                given[at][one.name] = given[at].get(one.name, 0) | bits
    return given


def _memory(need: Need, conf: NodeConf, cpus: int, gres: dict[str, int]) -> int:
    each = sum(one.mem_each * gres.get(one.name, 0).bit_count() for one in need.gres)
    if each and not need.mem_set:
        return each
    if need.mem_per_cpu is not None:
        return need.mem_per_cpu * cpus
    return need.mem_per_node or conf.real_memory - conf.mem_spec
