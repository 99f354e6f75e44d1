"""Which of the nodes that fit does the job get? (choose_nodes and the _eval_nodes family.)

Nodes are looked at in order of their index, in sets of neighbours of one weight; the smallest set that suffices is
taken, in it the tightest single node, else nodes from its start until enough is gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fairway.slurm.model.node import NodeConf
from fairway.slurm.placing.fitting import NO_LIMIT, Cores, Fit, select_cores
from fairway.slurm.placing.need import Need

Weight = tuple[int, int]
"""A node's weight, then 255 less the GPUs near free cores: lower is taken first."""


@dataclass(slots=True)
class Chosen:
    """Nodes taken, in order of index, with the CPUs each may give and the cores that are left to choose from."""

    cpus: dict[int, int] = field(default_factory=dict)
    cores: dict[int, int] = field(default_factory=dict)
    min_cores: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Candidates:
    """What is chosen from. `fits`: node → Fit, in order of index; `required`: nodes that must be among them."""

    need: Need
    confs: Sequence[NodeConf]
    fits: dict[int, Fit]
    weights: Mapping[int, int]
    min_nodes: int
    max_nodes: int
    req_nodes: int
    required: tuple[int, ...] = ()
    switches: tuple[frozenset[int], ...] = ()
    """Nodes below each leaf switch; empty: topology does not matter."""
    busy_first: bool = False
    idle: frozenset[int] = frozenset()
    """With `busy_first`: nodes nothing runs on."""


def choose(on: Candidates) -> Chosen | None:
    """The nodes, or None. Nodes of few resources are left out step by step when all together do not work."""
    need = on.need
    if need.whole_node and need.max_cpus is not None:
        on.fits = {node: fit for node, fit in on.fits.items() if fit.cpus <= (need.max_cpus or 0)}
    if not set(on.required) <= on.fits.keys():
        return None
    if need.num_tasks and on.max_nodes > need.num_tasks:
        on.max_nodes = max(need.num_tasks, on.min_nodes)
    found = _evaluate(on, on.fits, first=True)
    if found is not None:
        return _trimmed(on, found)
    if len(on.fits) <= on.min_nodes or not on.fits:
        return _trimmed(on, _evaluate(on, on.fits, first=False))
    nodes = dict(on.fits)
    for least in sorted({1, *(fit.cpus + fit.gpus for fit in nodes.values())})[:-1]:
        weak = [n for n, fit in nodes.items() if fit.cpus + fit.gpus <= least and n not in on.required]
        if not weak and least != 1:
            continue
        for node in weak[: len(nodes) - on.min_nodes]:
            del nodes[node]
        found = _evaluate(on, nodes, first=False)
        if found is not None or len(nodes) <= on.min_nodes:
            return _trimmed(on, found)
    return None


def _trimmed(on: Candidates, found: Chosen | None) -> Chosen | None:
    """No more CPUs than the cores left after binding to GRES have; None on more switches than it waits for."""
    few = on.need.few_switches
    if found and few and sum(not below.isdisjoint(found.cpus) for below in on.switches) > few:
        return None
    if found is None or not on.need.gres:
        return found
    for node in found.cpus:
        found.cpus[node] = min(found.cpus[node], found.cores[node].bit_count() * on.confs[node].threads)
        if found.cpus[node] == 0:
            return None
    return found


class _Gathering:
    """What is still lacking while nodes are added one by one."""

    def __init__(self, on: Candidates, fits: dict[int, Fit], first: bool) -> None:
        need = on.need
        self.on, self.need, self.first, self.fits = on, need, first, fits
        self.chosen = Chosen()
        self.seen: dict[tuple[int, tuple[int, ...]], Cores] = {}
        self.per_job = [at for at, one in enumerate(need.gres) if one.per_job]
        self.had = [0] * len(need.gres)
        lead = min if self.per_job else max
        self.rem_nodes = lead(on.min_nodes, on.req_nodes)
        self.min_rem_nodes, self.max_nodes, self.rem_cpus = on.min_nodes, on.max_nodes, need.min_cpus
        most = need.max_cpus if need.max_cpus is not None else need.min_cpus
        self.rem_max_cpus = max(most, need.min_gres_cpus * self.rem_nodes, need.min_job_gres_cpus)

    def look(self, node: int) -> Cores:
        """What the job would use of the node now."""
        fit = self.fits[node]
        lacking = tuple(max(one.per_job - self.had[at], 0) for at, one in enumerate(self.need.gres))
        key = (id(fit), lacking)
        seen = self.seen.get(key)
        if seen is None:
            seen = self.seen[key] = select_cores(self.need, self.on.confs[node], fit, lacking, self.first)
        return seen

    def take(self, node: int, seen: Cores) -> None:
        cpus, fit, need = seen.cpus, self.fits[node], self.need
        offered = fit.cpus
        if not need.whole_node:
            unit = need.cpus_per_core(self.on.confs[node].threads)
            unit *= self.on.confs[node].cores_per_socket if need.units == "socket" else 1
            room = self.rem_max_cpus - max(self.min_rem_nodes - 1, 0) * unit
            if cpus > room:
                offered = cpus = max(room, need.node_min_cpus, need.min_gres_cpus)
        gres_cpus = 0
        for at in self.per_job:
            each, had = need.gres[at].cpus_each, seen.totals[at]
            if each:
                had = min(cpus // each, had)
                gres_cpus = max(gres_cpus, had * each)
            self.had[at] += had
        cpus = gres_cpus or cpus
        self.chosen.cpus[node], self.chosen.cores[node] = offered, seen.cores
        self.chosen.min_cores[node] = seen.min_cores
        self.rem_cpus -= cpus
        self.rem_max_cpus -= cpus
        self.rem_nodes -= 1
        self.min_rem_nodes -= 1
        self.max_nodes -= 1

    @property
    def gres_done(self) -> bool:
        return all(self.had[at] >= self.need.gres[at].per_job for at in self.per_job)

    @property
    def done(self) -> bool:
        return self.rem_nodes <= 0 and self.rem_cpus <= 0 and self.gres_done

    def enough_nodes(self, nodes: int) -> bool:
        on = self.on
        lacking = (
            self.rem_nodes + on.min_nodes - on.req_nodes if on.req_nodes > on.min_nodes else self.rem_nodes
        )
        return nodes >= lacking

    def result(self) -> Chosen:
        order = sorted(self.chosen.cpus)
        return Chosen(
            {n: self.chosen.cpus[n] for n in order},
            {n: self.chosen.cores[n] for n in order},
            {n: self.chosen.min_cores[n] for n in order},
        )


def _evaluate(on: Candidates, fits: dict[int, Fit], *, first: bool) -> Chosen | None:
    if len(fits) < on.min_nodes or not set(on.required) <= fits.keys():
        return None
    need = on.need
    gathering = _Gathering(on, fits, first)
    if len(on.required) > gathering.max_nodes:
        return None
    for node in on.required:
        seen = gathering.look(node)
        if seen.cpus == 0:
            return None
        gathering.take(node, seen)
    if on.required and gathering.done:
        return gathering.result()
    if gathering.max_nodes <= 0:
        return None
    if need.max_cpus is not None and need.min_cpus - gathering.rem_cpus > need.max_cpus:
        return None
    rest = [node for node in fits if node not in gathering.chosen.cpus]
    ok = _strategy(on)(gathering, rest)
    return gathering.result() if ok else None


def _strategy(on: Candidates) -> Callable[[_Gathering, list[int]], bool]:
    need = on.need
    if need.spread:
        return _in_order
    if on.busy_first and not need.contiguous:
        return _busy
    if need.lln:
        return _least_loaded
    if need.serial_at_end and need.min_cpus == 1 and on.req_nodes == 1:
        return _from_the_end
    if on.switches and not need.contiguous:
        return _topology
    return _neighbours


def _weight(gathering: _Gathering, node: int) -> Weight:
    near = 255 - gathering.fits[node].near_gpus if gathering.need.gres else 0
    return gathering.on.weights[node], near


def _by_weight(gathering: _Gathering, nodes: list[int]) -> list[list[int]]:
    groups: dict[Weight, list[int]] = {}
    for node in nodes:
        groups.setdefault(_weight(gathering, node), []).append(node)
    return [groups[weight] for weight in sorted(groups)]


def _walk(gathering: _Gathering, nodes: list[int]) -> bool:
    """Take nodes in this order until done; True when enough."""
    for node in nodes:
        if gathering.max_nodes <= 0:
            break
        seen = gathering.look(node)
        if seen.cpus:
            gathering.take(node, seen)
            if gathering.done:
                return True
    return gathering.rem_cpus <= 0 and gathering.min_rem_nodes <= 0 and gathering.gres_done


def _in_order(gathering: _Gathering, nodes: list[int]) -> bool:
    return _walk(gathering, [node for group in _by_weight(gathering, nodes) for node in group])


def _from_the_end(gathering: _Gathering, nodes: list[int]) -> bool:
    return _walk(gathering, [node for group in _by_weight(gathering, nodes) for node in reversed(group)])


def _busy(gathering: _Gathering, nodes: list[int]) -> bool:
    idle = gathering.on.idle
    groups = _by_weight(gathering, nodes)
    return _walk(gathering, [n for g in groups for part in (False, True) for n in g if (n in idle) == part])


def _least_loaded(gathering: _Gathering, nodes: list[int]) -> bool:
    """The node with the greatest share of free CPUs first (_eval_nodes_lln)."""

    def load(node: int) -> tuple[float, int]:
        return -gathering.fits[node].max_cpus / gathering.on.confs[node].cpus, node

    return _walk(gathering, [n for group in _by_weight(gathering, nodes) for n in sorted(group, key=load)])


@dataclass(slots=True)
class _Set:
    """Neighbours of one weight."""

    weight: Weight
    nodes: list[int]
    cpus: int = 0
    gres: list[int] = field(default_factory=list)
    required: int = -1


def _neighbours(gathering: _Gathering, rest: list[int]) -> bool:
    """_eval_nodes: sets of consecutive nodes."""
    seen = {node: gathering.look(node) for node in rest}
    sets = _sets(gathering, {node: one for node, one in seen.items() if one.cpus})
    cpus = {node: one.cpus for node, one in seen.items()}
    while sets and gathering.max_nodes > 0:
        best = _best_set(gathering, sets)
        if best is None:
            break
        _take_from(gathering, best, seen, cpus)
        if gathering.done:
            return True
        sets.remove(best)
    return gathering.rem_cpus <= 0 and gathering.gres_done and gathering.enough_nodes(0)


def _sets(gathering: _Gathering, seen: dict[int, Cores]) -> list[_Set]:
    """Runs of nodes next to each other; required nodes (taken already) do not break a run."""
    sets: list[_Set] = []
    required = gathering.chosen.cpus
    last, last_required = -2, -1
    for node in sorted([*seen, *required]):
        if node in required:
            if sets and node == last + 1 and sets[-1].nodes:
                sets[-1].required = node if sets[-1].required < 0 else sets[-1].required
            last, last_required = node, node
            continue
        weight = _weight(gathering, node)
        same = gathering.need.contiguous or (bool(sets) and sets[-1].weight == weight)
        if not sets or node != last + 1 or not same:
            sets.append(_Set(weight, [], gres=[0] * len(gathering.need.gres)))
            if last_required == node - 1:
                sets[-1].required = last_required
        one = sets[-1]
        one.nodes.append(node)
        one.cpus += seen[node].cpus
        one.gres = (
            [a + b for a, b in zip(one.gres, seen[node].totals, strict=True)]
            if seen[node].totals
            else one.gres
        )
        last = node
    return sets


def _gres_suffices(gathering: _Gathering, totals: Sequence[int]) -> bool:
    return all(gathering.had[at] + totals[at] >= gathering.need.gres[at].per_job for at in gathering.per_job)


def _best_set(gathering: _Gathering, sets: list[_Set]) -> _Set | None:
    contiguous, best, best_ok = gathering.need.contiguous, None, False
    for one in sets:
        if contiguous and gathering.on.required and one.required < 0:
            continue
        ok = one.cpus >= gathering.rem_cpus and gathering.enough_nodes(len(one.nodes))
        ok = ok and _gres_suffices(gathering, one.gres)
        better = best is None or (best.required < 0 <= one.required) or one.weight < best.weight
        if not better and best is not None and one.weight == best.weight:
            better = (ok and (not best_ok or one.cpus < best.cpus)) or (not ok and one.cpus > best.cpus)
        better = better or (contiguous and ok and not best_ok)
        if better:
            best, best_ok = one, ok
    return None if contiguous and not best_ok else best


def _take_from(gathering: _Gathering, best: _Set, seen: dict[int, Cores], cpus: dict[int, int]) -> None:
    if best.required >= 0:
        up = [node for node in best.nodes if node >= best.required]
        order = up + [node for node in reversed(best.nodes) if node < best.required]
        for node in order:
            if gathering.max_nodes == 0 or gathering.done:
                return
            gathering.take(node, seen[node])
        return
    order = best.nodes
    if gathering.rem_nodes <= 1:
        alone = _tightest(gathering, best.nodes, seen)
        order = best.nodes if alone is None else [alone]
    for node in order:
        if gathering.max_nodes == 0 or gathering.done:
            return
        if gathering.max_nodes == 1 and cpus[node] < gathering.rem_cpus:
            continue
        gathering.take(node, seen[node])


def _tightest(gathering: _Gathering, nodes: list[int], seen: dict[int, Cores]) -> int | None:
    """The single node that suffices with the fewest CPUs to spare, the first of equals."""
    best, size = None, NO_LIMIT
    for node in nodes:
        cpus = seen[node].cpus
        if cpus >= gathering.rem_cpus and cpus < size and _gres_suffices(gathering, seen[node].totals):
            best, size = node, cpus
            if size == gathering.rem_cpus:
                break
    return best


def _topology(gathering: _Gathering, rest: list[int]) -> bool:
    """_eval_nodes_topo, for leaf switches: the fewest switches, the tightest that suffices, its lightest nodes."""
    seen = {node: one for node in rest if (one := gathering.look(node)).cpus}
    leaves = [[node for node in rest if node in below and node in seen] for below in gathering.on.switches]

    def suffices(nodes: list[int]) -> bool:
        room = sorted((seen[n].cpus for n in nodes), reverse=True)[: gathering.max_nodes]
        totals = [sum(seen[n].totals[at] for n in nodes) for at in range(len(gathering.need.gres))]
        return (
            sum(room) >= gathering.rem_cpus
            and gathering.enough_nodes(len(nodes))
            and _gres_suffices(gathering, totals)
        )

    while leaves:
        fitting = [leaf for leaf in leaves if suffices(leaf)]
        leaf = min(fitting, key=len) if fitting else max(leaves, key=len)
        leaves.remove(leaf)
        for group in _by_weight(gathering, leaf):
            for node in group:
                if gathering.max_nodes <= 0 or gathering.done:
                    break
                gathering.take(node, seen[node])
        if gathering.done:
            return True
    return gathering.rem_cpus <= 0 and gathering.gres_done and gathering.enough_nodes(0)
