"""How do jobs fare on cards with one layout for good, with layouts that follow what waits, and with foresight?

The same jobs, the same cards, one after the other: whoever waits longest takes the first free instance of its profile.
While a node is changed nothing starts on it; what runs there goes on. Foresight here is of the arrivals of the next
change's length, and changes cost it nothing to weigh: what waits is served as soon as a card is idle.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from fairway.catalog.gpus import GpuModel
from fairway.catalog.placements import Layout, laid_out
from fairway.devices.layouts import Phase
from fairway.devices.migconfig import generated_configs
from fairway.devices.packing import pack
from fairway.devices.partitioning import Card, Cards, Cut, Lacking, Options, decide
from fairway.kube.resources import NVIDIA_GPU
from fairway.kube.timestamps import HOUR_US

ONLINE, FORESIGHT = "online", "with foresight"
# Of one comparison: every job is an event in each of its ways.
JOBS_MOST: Final = 20_000


class Job(NamedTuple):
    at_us: int
    resource: str
    lasts_us: int


@dataclass(frozen=True, slots=True)
class Played:
    """`waits_us` of those that started, in order of arrival; `never`: jobs for which no instance came. `changes`: of
    a node each. `cuts`: when which card of which node in them. `until_us`: when the last job ended."""

    way: str
    waits_us: tuple[int, ...]
    never: int
    changes: int
    cuts: tuple[tuple[int, str, int], ...]
    until_us: int

    @property
    def mean_s(self) -> float:
        return sum(self.waits_us) / len(self.waits_us) / 1e6 if self.waits_us else 0.0


@dataclass(slots=True)
class _World:
    model: GpuModel
    nodes: list[Cards]
    ends: list[tuple[int, int, int, int]]
    """Of jobs: when, node, card, start."""
    ready: list[tuple[int, int, tuple[tuple[int, Cut], ...]]]
    """Of changes: when, node, cuts."""


def ways(jobs: Sequence[Job], model: GpuModel, nodes: int, cards: int, options: Options) -> list[Played]:
    """Each static layout that somebody could have chosen, the policy, foresight."""
    found = [
        play(jobs, model, [list(layout)] * nodes, None, name)
        for name, layout in statics(jobs, model, nodes, cards).items()
    ]
    bare: list[Layout | None] = [None] * cards
    found.append(play(jobs, model, [bare] * nodes, options, ONLINE))
    quick = replace(options, window_us=0, hold_us=0)
    found.append(play(jobs, model, [bare] * nodes, quick, FORESIGHT, ahead_us=options.recut_us))
    return found


def statics(jobs: Sequence[Job], model: GpuModel, nodes: int, cards: int) -> dict[str, list[Layout | None]]:
    """MIG Manager's configurations of the profiles asked for, and one cut for what the jobs have together."""
    asked = sorted({job.resource for job in jobs})
    profiles = [p for p in model.mig if p.resource in asked]
    named = ["all-disabled", "all-balanced", *(f"all-{p.name.replace('+', '.')}" for p in profiles)]
    configs = generated_configs(model)
    found: dict[str, list[Layout | None]] = {}
    for name in named:
        if name in configs:
            counts = {p: n for key, n in configs[name][0].counts.items() if (p := model.profile(key))}
            layout = laid_out(model, counts) if configs[name][0].enabled else None
            found[name] = [layout] * cards
    found["cut for all"] = _for_all(jobs, model, nodes, cards)
    return found


def _for_all(jobs: Sequence[Job], model: GpuModel, nodes: int, cards: int) -> list[Layout | None]:
    """The largest share of the jobs' mean number that these cards hold at once, on every node alike."""
    until = max((job.at_us + job.lasts_us for job in jobs), default=1)
    busy: Counter[str] = Counter()
    for job in jobs:
        busy[job.resource] += job.lasts_us
    best: list[Layout | None] = [None] * cards
    for percent in range(10, 400, 10):
        wanted = {r: max(1, round(us * percent / until / 100 / nodes)) for r, us in busy.items()}
        whole = wanted.pop(NVIDIA_GPU, 0)
        packing = pack(model, {r.removeprefix("nvidia.com/mig-"): n for r, n in wanted.items()})
        if packing.cards + whole > cards:
            return best
        layouts: list[Layout | None] = []
        for cut, count in packing.cuts:
            layouts += [laid_out(model, dict(zip(packing.profiles, cut, strict=True)))] * count
        best = [*layouts, *[None] * (cards - len(layouts))]
    return best


def play(
    jobs: Sequence[Job],
    model: GpuModel,
    layouts: Sequence[Sequence[Layout | None]],
    options: Options | None,
    way: str,
    *,
    ahead_us: int = 0,
) -> Played:
    """`options` None: nothing is changed. `ahead_us`: arrivals that are known before they come."""
    nodes = [Cards(f"node-{i:03d}", model, tuple([Card(at) for at in of])) for i, of in enumerate(layouts)]
    world = _World(model, nodes, [], [])
    jobs = sorted(jobs)
    waiting: list[int] = []
    waits: dict[int, int] = {}
    at, looks, changes, until = 0, set[int](), 0, 0
    cuts: list[tuple[int, str, int]] = []
    now: int | None = jobs[0].at_us if jobs else None
    while now is not None:
        _settle(world, now)
        while at < len(jobs) and jobs[at].at_us <= now:
            waiting.append(at)
            at += 1
        for i in list(waiting):
            if _started(world, jobs[i], now):
                waiting.remove(i)
                waits[i] = now - jobs[i].at_us
                until = max(until, now + jobs[i].lasts_us)
        look: int | None = None
        if options is not None:
            lacking = [Lacking(jobs[i].resource, jobs[i].at_us) for i in waiting]
            if ahead_us:
                # Foresight asks what waits or comes within a change, and counts it as if it had waited for one.
                soon = [j for j in jobs[at : at + 1000] if j.at_us <= now + ahead_us]
                lacking = [Lacking(w.resource, now - HOUR_US) for w in lacking]
                lacking += [Lacking(j.resource, now - HOUR_US) for j in soon]
            decision = decide(world.nodes, lacking, now, options)
            look = decision.look_us
            for change in decision.changes:
                changes += 1
                cuts += [(now, change.node, i) for i, _ in change.cuts]
                _begin(world, change.node, change.cuts, now, options)
        looks.discard(now)
        if look is not None and look > now:
            looks.add(look)
        times = [*looks, *(j.at_us for j in jobs[at : at + 1])]
        times += [heap[0][0] for heap in (world.ends, world.ready) if heap]
        times += [j.at_us - ahead_us for j in jobs[at : at + 1000] if j.at_us - ahead_us > now][:1]
        now = min((t for t in times if t > now), default=None)
    return Played(
        way, tuple(waits[i] for i in sorted(waits)), len(jobs) - len(waits), changes, tuple(cuts), until
    )


def _settle(world: _World, now: int) -> None:
    """Jobs that have ended leave; changes that are done have their instances."""
    while world.ends and world.ends[0][0] <= now:
        _, n, i, start = heapq.heappop(world.ends)
        node = world.nodes[n]
        _put(world, n, i, replace(node.cards[i], used=node.cards[i].used - {start}))
    while world.ready and world.ready[0][0] <= now:
        _, n, cuts = heapq.heappop(world.ready)
        for i, cut in cuts:
            layout = None if cut is None else _layout(world.model, cut)
            _put(world, n, i, Card(layout, frozenset(), now))
        world.nodes[n] = replace(world.nodes[n], is_settled=True, coming=())


def _layout(model: GpuModel, cut: Mapping[str, int]) -> Layout:
    layout = laid_out(model, {p: n for name, n in cut.items() if (p := model.profile(name))})
    assert layout is not None, f"{model.name} cannot have {dict(cut)}"
    return layout


def _put(world: _World, n: int, i: int, card: Card) -> None:
    cards = world.nodes[n].cards
    world.nodes[n] = replace(world.nodes[n], cards=(*cards[:i], card, *cards[i + 1 :]))


def _started(world: _World, job: Job, now: int) -> bool:
    for n, node in enumerate(world.nodes):
        if not node.is_settled:
            continue
        for i, card in enumerate(node.cards):
            start = _free_at(card, job.resource)
            if start is not None:
                _put(world, n, i, replace(card, used=card.used | {start}))
                heapq.heappush(world.ends, (now + job.lasts_us, n, i, start))
                return True
    return False


def _free_at(card: Card, resource: str) -> int | None:
    if card.layout is None:
        return 0 if resource == NVIDIA_GPU and not card.used else None
    free = (at.start for at in card.layout if at.profile.resource == resource and at.start not in card.used)
    return next(free, None)


def _begin(world: _World, name: str, cuts: tuple[tuple[int, Cut], ...], now: int, options: Options) -> None:
    n = next(i for i, node in enumerate(world.nodes) if node.name == name)
    coming: list[str] = []
    for i, cut in cuts:
        card = Card(None if cut is None else _layout(world.model, cut))
        assert not world.nodes[n].cards[i].used, f"{name} card {i} is in use"
        coming += card.free()
    for i, card in enumerate(world.nodes[n].cards):
        coming += card.free() if i not in dict(cuts) else []
    world.nodes[n] = replace(world.nodes[n], is_settled=False, coming=tuple(coming))
    heapq.heappush(world.ready, (now + options.recut_us, n, cuts))


@dataclass(frozen=True, slots=True)
class Work:
    """Jobs of a mix: `counts` of each phase come evenly through it."""

    name: str
    resource: str
    lasts_us: int
    counts: tuple[int, ...]


def jobs_of(works: Sequence[Work], phases: Sequence[Phase], rounds: int = 1) -> list[Job]:
    found: list[Job] = []
    begin = 0
    for _ in range(rounds):
        for i, phase in enumerate(phases):
            length = round(phase.hours * HOUR_US)
            for work in works:
                n = work.counts[i]
                found += [Job(begin + length * k // n, work.resource, work.lasts_us) for k in range(n)]
            begin += length
    return sorted(found)
