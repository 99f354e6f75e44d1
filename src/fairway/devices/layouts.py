"""Which way of cutting and sharing cards holds a mix of services at the least cost?

Each way answers with cards, what is on each, and how every service fares. MIG is exact: a service's smallest profile
that serves it well can stand wherever a larger one could, and instances are packed on the fewest cards. Shared cards
are packed exactly where there are few replicas, else by first fit; the bound is what memory and time come to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from fairway.catalog.gpus import GpuModel, MigProfile
from fairway.devices.interference import Demand, Pace, alone, in_turns, on_instance, under_mps
from fairway.devices.packing import pack
from fairway.devices.pluginconfig import MPS_CLIENTS_MOST
from fairway.errors import UserError

WHOLE, MIG, MPS, TIME_SLICING, MIXED = "whole", "mig", "mps", "time-slicing", "mixed"
WAYS: Final = (WHOLE, MIG, MPS, TIME_SLICING, MIXED)
_ORDERS: Final = (
    (MIG, WHOLE),
    (MPS, MIG, WHOLE),
    (TIME_SLICING, MIG, WHOLE),
    (MIG, MPS, WHOLE),
    (MIG, TIME_SLICING, WHOLE),
)
# So many replicas in all are packed exactly on shared cards: partitions of ten are 116,000.
_EXACT_MOST: Final = 10
REPLICAS_MOST: Final = 100_000

Group = tuple[int, ...]
"""Services, by number, whose replicas share one card."""


@dataclass(frozen=True, slots=True)
class Service:
    demand: Demand
    replicas: int


@dataclass(frozen=True, slots=True)
class Card:
    """Cards that are alike: how they are made, what is on each, how many."""

    way: str
    made: str
    holds: tuple[tuple[str, int], ...]
    count: int


@dataclass(frozen=True, slots=True)
class Plan:
    """`paces`: by service, its worst. `lacking`: services that this way cannot serve; then it is no answer."""

    way: str
    cards: tuple[Card, ...]
    bound: int
    paces: tuple[tuple[str, Pace], ...]
    lacking: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return sum(card.count for card in self.cards)

    @property
    def gap(self) -> int:
        return self.count - self.bound


def plans(services: Sequence[Service], model: GpuModel) -> list[Plan]:
    """One for each way. Raises: UserError for a service that no card of the model holds alone."""
    total = sum(s.replicas for s in services)
    if total > REPLICAS_MOST:
        raise UserError(f"{total:,} replicas: expected at most {REPLICAS_MOST:,} in all")
    for s in services:
        if s.demand.held_bytes > model.memory_bytes or not alone(s.demand).meets(s.demand):
            raise UserError(
                f"service {s.demand.name}: a replica is too much for a whole {model.name} (memory "
                f"{s.demand.memory_bytes / 2**30:.1f} of {model.memory_bytes / 2**30:.1f} GiB, load "
                f"{s.demand.load:.0%}, p95 {alone(s.demand).p95_s * 1000:.0f} ms): add replicas or relax its limits"
            )
    first = [_whole(services), _mig(services, model), _shared(MPS, services, model)]
    first.append(_shared(TIME_SLICING, services, model))
    return [*first, _mixed(services, model, first)]


def _whole(services: Sequence[Service]) -> Plan:
    cards = tuple(Card(WHOLE, "whole", ((s.demand.name, 1),), s.replicas) for s in services if s.replicas)
    paces = tuple((s.demand.name, alone(s.demand)) for s in services)
    return Plan(WHOLE, cards, sum(s.replicas for s in services), paces)


def smallest(demand: Demand, model: GpuModel) -> MigProfile | None:
    """The smallest instance that serves it well; None: none does."""
    enough = [
        p
        for p in model.mig
        if not p.has_media
        and p.memory_bytes >= demand.held_bytes
        and on_instance(demand, model, p).meets(demand)
    ]
    return min(enough, key=lambda p: (p.memory_slices, p.compute_slices), default=None)


def _mig(services: Sequence[Service], model: GpuModel) -> Plan:
    chosen = [(s, smallest(s.demand, model)) for s in services]
    lacking = tuple(s.demand.name for s, p in chosen if p is None)
    wanted: dict[str, int] = {}
    for s, p in chosen:
        if p is not None:
            wanted[p.name] = wanted.get(p.name, 0) + s.replicas
    packing = pack(model, wanted)
    cards = [
        Card(
            MIG,
            " + ".join(f"{n} x {p.name}" for n, p in zip(cut, packing.profiles, strict=True) if n),
            tuple((p.name, n) for n, p in zip(cut, packing.profiles, strict=True) if n),
            count,
        )
        for cut, count in packing.cuts
    ]
    paces = tuple((s.demand.name, on_instance(s.demand, model, p)) for s, p in chosen if p is not None)
    return Plan(MIG, tuple(cards), packing.bound, paces, lacking)


def _group_paces(way: str, group: Sequence[Demand], model: GpuModel) -> list[Pace] | None:
    """How each fares on one card with the others; None where they do not fit or one fares too badly."""
    n = len(group)
    if sum(d.held_bytes for d in group) > model.memory_bytes or (way == MPS and n > MPS_CLIENTS_MOST):
        return None
    if way == MPS and n > 1 and any(d.held_bytes > model.memory_bytes // n for d in group):
        return None
    found: dict[Demand, Pace] = {}
    for i, d in enumerate(group):
        if d not in found:
            found[d] = in_turns(group, i) if way == TIME_SLICING else under_mps(group, i, 1 / n)
            if not found[d].meets(d):
                return None
    return [found[d] for d in group]


def _shared(way: str, services: Sequence[Service], model: GpuModel) -> Plan:
    demands = [s.demand for s in services]
    lacking = tuple(d.name for d in demands if _group_paces(way, [d], model) is None)
    queue = [i for i, s in enumerate(services) for _ in range(s.replicas) if s.demand.name not in lacking]

    def fits(group: Sequence[int]) -> bool:
        return _group_paces(way, [demands[i] for i in group], model) is not None

    groups = _exact(queue, fits) if len(queue) <= _EXACT_MOST else _first_fit(queue, demands, fits)
    alike: dict[Group, int] = {}
    for group in groups:
        key = tuple(sorted(group))
        alike[key] = alike.get(key, 0) + 1
    worst: dict[str, Pace] = {}
    cards = []
    for key, count in alike.items():
        on_card = [demands[i] for i in key]
        for d, pace in zip(on_card, _group_paces(way, on_card, model) or [], strict=True):
            if d.name not in worst or pace.p95_s > worst[d.name].p95_s:
                worst[d.name] = pace
        holds = {demands[i].name: key.count(i) for i in key}
        made = f"{len(key)} replicas" if len(key) > 1 else "whole"
        cards.append(Card(way, made, tuple(holds.items()), count))
    needs = (
        sum(demands[i].held_bytes for i in queue) / model.memory_bytes,
        sum(demands[i].load for i in queue) if way == TIME_SLICING else 0.0,
        sum(demands[i].load * demands[i].bandwidth for i in queue) if way == MPS else 0.0,
    )
    bound = len(groups) if len(queue) <= _EXACT_MOST else ceil(max(needs) - 1e-9)
    paces = tuple((d.name, worst[d.name]) for d in demands if d.name in worst)
    return Plan(way, tuple(sorted(cards, key=lambda c: (-c.count, c.made))), bound, paces, lacking)


def _first_fit(queue: list[int], demands: Sequence[Demand], fits: Callable[[Group], bool]) -> list[Group]:
    """Largest first. Replicas of one service are alike: where one did not fit, the next is not tried."""
    groups: list[Group] = []
    order = sorted(queue, key=lambda i: (-demands[i].held_bytes, -demands[i].load, i))
    tried: dict[tuple[Group, int], bool] = {}
    at, service = 0, -1
    for i in order:
        at = at if i == service else 0
        service = i
        while at < len(groups):
            key = (groups[at], i)
            if key not in tried:
                tried[key] = fits((*groups[at], i))
            if tried[key]:
                break
            at += 1
        if at == len(groups):
            groups.append(())
        groups[at] = (*groups[at], i)
    return groups


def _exact(queue: list[int], fits: Callable[[Group], bool]) -> list[Group]:
    """The fewest groups: every replica beside every group so far, alike ones once."""
    best: list[Group] = [(i,) for i in queue]
    stack: list[tuple[int, tuple[Group, ...]]] = [(0, ())]
    while stack:
        at, groups = stack.pop()
        if len(groups) >= len(best):
            continue
        if at == len(queue):
            best = list(groups)
            continue
        i = queue[at]
        if len(groups) + 1 < len(best):
            stack.append((at + 1, (*groups, (i,))))
        for group in dict.fromkeys(groups):
            wider = (*group, i)
            if fits(wider):
                where = groups.index(group)
                stack.append((at + 1, (*groups[:where], wider, *groups[where + 1 :])))
    return best


def _mixed(services: Sequence[Service], model: GpuModel, ways: Sequence[Plan]) -> Plan:
    """Each service by one of the ways: all that one serves on shared cards or instances, the rest as cheaply as can
    be; of these the fewest cards. Its bound is the least of the ways' bounds that serve everything."""
    bound = ceil(sum(_least_share(s.demand, model) * s.replicas for s in services) - 1e-9)
    best: Plan | None = None
    for kinds in (
        (MIG, WHOLE),
        (MPS, MIG, WHOLE),
        (TIME_SLICING, MIG, WHOLE),
        (MIG, MPS, WHOLE),
        (MIG, TIME_SLICING, WHOLE),
    ):
        left, parts = list(services), list[Plan]()
        for way in kinds:
            part = _by(way, left, model)
            parts.append(part)
            left = [s for s in left if s.demand.name in part.lacking]
        cards = tuple(card for part in parts for card in part.cards)
        paces = tuple(pace for part in parts for pace in part.paces)
        found = Plan(MIXED, cards, bound, paces)
        if best is None or found.count < best.count:
            best = found
    assert best is not None
    alone_enough = [p for p in ways if not p.lacking and p.count < best.count]
    if alone_enough:
        best = replace(min(alone_enough, key=lambda p: p.count), way=MIXED, bound=bound)
    return best


def _least_share(demand: Demand, model: GpuModel) -> float:
    profile = smallest(demand, model)
    by_slices = 1.0 if profile is None else profile.memory_slices / model.memory_slices
    return min(demand.held_bytes / model.memory_bytes, by_slices)


def _by(way: str, services: Sequence[Service], model: GpuModel) -> Plan:
    if way == WHOLE:
        return _whole(services)
    return _mig(services, model) if way == MIG else _shared(way, services, model)


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    hours: float
    services: tuple[Service, ...]


@dataclass(frozen=True, slots=True)
class Online:
    """A day with MIG layouts that follow the phases against one that holds them all: µ$ of a round of phases, cards
    by phase, and cards that are cut anew."""

    static_micros: int
    online_micros: int
    static_cards: int
    cards: tuple[tuple[str, int], ...]
    recut: int


def online(phases: Sequence[Phase], model: GpuModel, micros_per_hour: int, recut_s: float) -> Online:
    """Repartitioning at every change of phase, where cards that nobody needs meanwhile are given back, against one
    layout for all phases. A card that is cut anew serves nobody for `recut_s`, and is paid."""
    wanted = [_instances(p.services, model) for p in phases]
    every = {name: max(w.get(name, 0) for w in wanted) for name in sorted({n for w in wanted for n in w})}
    static = pack(model, every).cards
    hours = sum(p.hours for p in phases)
    packed = [pack(model, w) for w in wanted]
    recut, spent = 0, 0.0
    for i, phase in enumerate(phases):
        here, before = (
            _cuts(packed[i].profiles, packed[i].cuts),
            _cuts(packed[i - 1].profiles, packed[i - 1].cuts),
        )
        fresh = sum(max(0, n - before.get(cut, 0)) for cut, n in here.items())
        recut += fresh
        spent += packed[i].cards * phase.hours + fresh * recut_s / 3600
    cards = tuple((p.name, packing.cards) for p, packing in zip(phases, packed, strict=True))
    return Online(
        round(static * hours * micros_per_hour), round(spent * micros_per_hour), static, cards, recut
    )


def _instances(services: Sequence[Service], model: GpuModel) -> dict[str, int]:
    wanted: dict[str, int] = {}
    for s in services:
        profile = smallest(s.demand, model)
        if profile is None:
            raise UserError(f"service {s.demand.name}: no MIG profile of a {model.name} serves it well")
        wanted[profile.name] = wanted.get(profile.name, 0) + s.replicas
    return wanted


def _cuts(
    profiles: Sequence[MigProfile], cuts: Sequence[tuple[tuple[int, ...], int]]
) -> Mapping[tuple[tuple[str, int], ...], int]:
    return {tuple((p.name, n) for p, n in zip(profiles, cut, strict=True) if n): count for cut, count in cuts}
