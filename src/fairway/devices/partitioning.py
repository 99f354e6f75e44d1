"""Which cards are cut anew now, for pods that wait for MIG instances that nobody has cut? A policy without foresight.

Like nos's MIG partitioner it looks at pending pods and at what is free, and serves the most of them with another
geometry. Unlike it, it changes only cards that nobody uses, and only when that pays: what it would serve has waited,
added up, as long as the change keeps free instances of the node from everybody (rent or buy: without knowing what
comes, who waits until waiting has cost as much as the change pays at most about twice what the best does for one
decision). A card that was changed is left alone for `hold_us`: that bounds changes.

Source of the terms: nebuly-ai/nos internal/partitioning (batch window, geometry, lacking slices).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fairway.catalog.gpus import GpuModel, MigProfile
from fairway.catalog.placements import Layout
from fairway.devices.packing import Pattern, patterns
from fairway.kube.resources import NVIDIA_GPU
from fairway.kube.timestamps import MINUTE_US, SECOND_US

BUSY, HELD, COSTS = "InUse", "ChangedLately", "DoesNotPay"
NOTHING, WINDOW, SETTLING = "ServesNobody", "BatchWindow", "Settling"
# Kinds of lacking instances that one decision looks at; the rest is looked at when those are there.
_PROFILES_MOST: Final = 6


@dataclass(frozen=True, slots=True)
class Options:
    """`recut_us`: how long a change keeps the node's free instances from everybody."""

    window_us: int = 10 * SECOND_US
    """So long pending pods are gathered before anything is decided."""
    hold_us: int = 15 * MINUTE_US
    recut_us: int = MINUTE_US


@dataclass(frozen=True, slots=True)
class Card:
    """`layout` None: MIG disabled. `used`: starts of instances that pods have; any, of a whole card."""

    layout: Layout | None
    used: frozenset[int] = frozenset()
    changed_us: int | None = None

    def free(self) -> list[str]:
        """What nobody has, by resource."""
        if self.layout is None:
            return [] if self.used else [NVIDIA_GPU]
        return [at.profile.resource for at in self.layout if at.start not in self.used]


@dataclass(frozen=True, slots=True)
class Cards:
    """A node's. `is_settled`: MIG Manager does nothing there, and pods may come. `coming`: what a change that is on
    its way will have free."""

    name: str
    model: GpuModel
    cards: tuple[Card, ...]
    is_settled: bool = True
    coming: tuple[str, ...] = ()


class Lacking(NamedTuple):
    """A pending pod's resource, `units` of it, since when."""

    resource: str
    since_us: int
    units: int = 1


Cut = Mapping[str, int] | None
"""Instances by profile, or a whole card."""


@dataclass(frozen=True, slots=True)
class Change:
    """`cuts`: by card. `serves`: instances that somebody waits for."""

    node: str
    cuts: tuple[tuple[int, Cut], ...]
    serves: int
    waited_us: int
    costs_us: int


class Kept(NamedTuple):
    """A node that stays as it is, and why."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """`look_us`: when waiting alone may change the answer; None: when something else changes."""

    changes: tuple[Change, ...] = ()
    kept: tuple[Kept, ...] = ()
    look_us: int | None = None


@dataclass(slots=True)
class _Looking:
    """What is still lacking, oldest first, by resource; and what has been promised of each card."""

    lacking: dict[str, list[int]] = field(default_factory=dict)
    promised: Counter[tuple[str, int]] = field(default_factory=Counter)
    look_us: int | None = None

    def later(self, at_us: int) -> None:
        self.look_us = at_us if self.look_us is None else min(at_us, self.look_us)


def decide(nodes: Sequence[Cards], waiting: Sequence[Lacking], now_us: int, options: Options) -> Decision:
    """Changes that pay now, nodes by name."""
    looking = _Looking()
    for one in sorted(waiting, key=lambda w: (w.since_us, w.resource)):
        looking.lacking.setdefault(one.resource, []).extend([one.since_us] * one.units)
    nodes = sorted(nodes, key=lambda n: n.name)
    _promise(nodes, looking)
    oldest = min((since[0] for since in looking.lacking.values() if since), default=None)
    if oldest is None:
        return Decision()
    if now_us < oldest + options.window_us:
        return Decision(kept=tuple(Kept(n.name, WINDOW) for n in nodes), look_us=oldest + options.window_us)
    found = [_change(node, looking, now_us, options) for node in nodes]
    changes = tuple(one for one in found if isinstance(one, Change))
    kept = tuple(one for one in found if isinstance(one, Kept))
    return Decision(changes, kept, looking.look_us)


def _promise(nodes: Sequence[Cards], looking: _Looking) -> None:
    """What is free or comes serves who has waited longest: first where the card is used anyhow."""
    for node in nodes:
        for resource in node.coming:
            _take(looking.lacking, resource)
    for is_idle in (False, True):
        for node in nodes:
            for i, card in enumerate(node.cards if node.is_settled else ()):
                if bool(card.used) != is_idle:
                    served = [_take(looking.lacking, resource) for resource in card.free()]
                    looking.promised[node.name, i] = sum(since is not None for since in served)


def _take(lacking: dict[str, list[int]], resource: str) -> int | None:
    """Serves who has waited longest; since when. None: nobody waits for it."""
    since = lacking.get(resource)
    if not since:
        return None
    first = since.pop(0)
    if not since:
        del lacking[resource]
    return first


def _change(node: Cards, looking: _Looking, now_us: int, options: Options) -> Change | Kept:
    if not node.is_settled:
        return Kept(node.name, SETTLING)
    idle = [i for i, card in enumerate(node.cards) if not card.used and not looking.promised[node.name, i]]
    rested = []
    for i in idle:
        changed_us = node.cards[i].changed_us
        if changed_us is None or now_us >= changed_us + options.hold_us:
            rested.append(i)
        else:
            looking.later(changed_us + options.hold_us)
    if not rested:
        return Kept(node.name, HELD if idle else BUSY)
    left = {resource: list(since) for resource, since in looking.lacking.items()}
    cuts: list[tuple[int, Cut]] = []
    served: list[int] = []
    for i in rested:
        cut = _geometry(node.model, node.cards[i], left)
        if cut == {}:
            break
        cuts.append((i, cut))
        for resource, count in _offers(cut, node.model).items():
            taken = [_take(left, resource) for _ in range(count)]
            served += [since for since in taken if since is not None]
    if not cuts:
        return Kept(node.name, NOTHING)
    free = sum(len(card.free()) for card in node.cards)
    waited_us, costs_us = sum(now_us - since for since in served), options.recut_us * max(1, free)
    if waited_us < costs_us:
        looking.later(now_us + -((waited_us - costs_us) // len(served)))
        return Kept(node.name, COSTS)
    looking.lacking = left
    return Change(node.name, tuple(cuts), len(served), waited_us, costs_us)


def _geometry(model: GpuModel, card: Card, lacking: Mapping[str, Sequence[int]]) -> Cut:
    """What an idle card would serve most with, by memory slices, then what leaves most of it as it is. Empty: with
    nothing that is lacking."""
    profiles = [p for p in model.mig if p.resource in lacking]
    profiles = sorted(profiles, key=lambda p: (-len(lacking[p.resource]), p.name))[:_PROFILES_MOST]
    best: tuple[int, int] = (0, 0)
    chosen: Cut = {}
    if NVIDIA_GPU in lacking and card.layout is not None:
        best, chosen = (model.memory_slices, 0), None
    now = Counter(at.profile.name for at in card.layout or ())
    for cut in _cuts(model, tuple(sorted(profiles, key=lambda p: p.name))):
        serves = sum(min(n, len(lacking[p.resource])) * p.memory_slices for p, n in cut)
        stays = sum(min(n, now[p.name]) for p, n in cut)
        if (serves, stays) > best:
            best, chosen = (serves, stays), {p.name: n for p, n in cut if n}
    return chosen


def _cuts(model: GpuModel, profiles: tuple[MigProfile, ...]) -> Iterator[list[tuple[MigProfile, int]]]:
    pattern: Pattern
    for pattern in patterns(model, profiles) if profiles else ():
        yield list(zip(profiles, pattern, strict=True))


def _offers(cut: Cut, model: GpuModel) -> dict[str, int]:
    if cut is None:
        return {NVIDIA_GPU: 1}
    return {p.resource: n for name, n in cut.items() if (p := model.profile(name))}
