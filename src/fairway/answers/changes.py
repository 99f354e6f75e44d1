"""The smallest changes that would start it: guesses of `proposals`, each tried on a copy, ranked by who pays.

Nothing is listed that did not start the object on its copy. Where no single change does, pairs are tried. The number
of trials is bounded, whatever the cluster's size.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from fairway.answers.explain import explain
from fairway.answers.explanation import BLOCKED, LAYERS, QUOTA, WAITS, Change, Explanation, Link
from fairway.answers.naming import find
from fairway.answers.proposal import Proposal
from fairway.answers.proposals import is_placed_by_kueue, proposals
from fairway.answers.trials import Trial, tried
from fairway.ground import Moment
from fairway.kube.objects import Key
from fairway.twin.twin import Twin

# Singles and pairs that are tried at most, and changes that are listed.
_SINGLES, _PAIRS, _LISTED = 24, 24, 6
# How many ways to go on are tried, and how many where a trial costs little; steps at most; ways that are enough.
_SECONDS, _MILDER, _FOLLOWED_TRIES, _STEPS, _ENOUGH = 10, 4, 60, 6, 3
_FEW_NODES = 200
# Ways that lead to the same words.
_ALIKE = 3
# Families whose members are alternatives: the first that helps is enough.
_FIRST_ONLY = (
    "devices/",
    "workers",
    "queue",
    "priority",
    "toleration",
    "quota/",
    "holders/",
    "nodes/",
    "selector/",
)
_PLACES = ("Node", "NodePool.karpenter.sh", "ClusterQueue.kueue.x-k8s.io", "LocalQueue.kueue.x-k8s.io")


def with_changes(moment: Moment, found: Explanation) -> Explanation:
    """The explanation with its changes; as it is where nothing waits, or the answer is about a place."""
    if found.blocker.state not in (BLOCKED, WAITS) or found.state == "Refused":
        return found
    home, _, rest = found.object.partition("/") if found.object.count("/") > 1 else ("", "", found.object)
    key = find(moment.store, rest, home or None)
    if key.gk in _PLACES:
        return found
    alone = tried(moment, key, ())
    if alone.starts_s is not None:
        return replace(found, changes=(Change("nothing: it starts by itself", (), alone.starts_s),), tried=1)
    asked = proposals(moment, key, found.blocker)
    if len(asked) > _SINGLES:
        kept = {p.what for p in _one_of_each(asked)[:_SINGLES]}
        asked = [p for p in asked if p.what in kept]
    changes, count, left = _singles(moment, key, asked)
    if not changes:
        search = _Search(moment, key, found.blocker)
        for proposal, trial in left:
            search.went((proposal,), trial.there, found.blocker)
        search.run()
        changes, count = search.changes, count + search.tries
    if not changes:
        changes, more = _pairs(moment, key, [p for p, _ in left])
        count += more
    changes.sort(key=_who_pays)
    return replace(found, changes=tuple(changes[:_LISTED]), tried=count)


Left = list[tuple[Proposal, Trial]]


def _singles(moment: Moment, key: Key, asked: list[Proposal]) -> tuple[list[Change], int, Left]:
    """What helps alone, how many were tried, and what did not help."""
    changes, left = list[Change](), Left()
    done: set[str] = set()
    count = 0
    for proposal in asked:
        if proposal.family in done:
            continue
        count += 1
        trial = tried(moment, key, proposal.steps)
        if trial.starts_s is None:
            left.append((proposal, trial))
            continue
        changes.append(_change((proposal,), trial))
        if proposal.family.startswith(_FIRST_ONLY):
            done.add(proposal.family)
            if proposal.family.startswith("holders/"):
                done |= {f"holders/{n}" for n in (1, 2, 4, 8)}
    return changes, count, left


@dataclass(frozen=True, slots=True)
class Way:
    """Proposals that do not start it yet: the copy on which they were taken, and what is in the way there now."""

    some: tuple[Proposal, ...]
    there: Moment
    now: Link


class _Search:
    """What did not help by itself but left another thing in the way, with what helps against that, and so on.

    The way that has come furthest is gone on with first; what turns out not to be needed is left out again.
    """

    def __init__(self, moment: Moment, key: Key, blocker: Link) -> None:
        self.moment, self.key = moment, key
        self.most = _FOLLOWED_TRIES if moment.store.count("Node") <= _FEW_NODES else _PAIRS
        self.tries = 0
        self.changes: list[Change] = []
        self._seen: Counter[tuple[str, str]] = Counter({_said(blocker): _ALIKE})
        self._ways: dict[tuple[int, int, int], Way] = {}

    def went(self, some: tuple[Proposal, ...], there: Twin | None, before: Link) -> None:
        """Remember a way that leads to something else than before, and not to what others led to."""
        if there is None or there.store.get(self.key) is None or len(some) >= _STEPS:
            return
        at = replace(self.moment, twin=there)
        now = explain(at, self.key).blocker
        said = (now.layer, now.message)
        if (
            now.state not in (BLOCKED, WAITS)
            or now.layer not in LAYERS
            or said == (before.layer, before.message)
        ):
            return
        if self._seen[said] < _ALIKE:
            self._seen[said] += 1
            self._ways[(-how_far(now), -len(some), self._seen.total())] = Way(some, at, now)

    def run(self) -> None:
        while self._ways and self.tries < self.most and len(self.changes) < _ENOUGH:
            self._go_on(self._ways.pop(min(self._ways)))

    def _go_on(self, way: Way) -> None:
        """The boldest of each family, which come last; of the first family that helps then the mildest that does."""
        used = {_sort(p) for p in way.some}
        every = [p for p in proposals(way.there, self.key, way.now) if _sort(p) not in used]
        for boldest in list({p.family: p for p in every}.values())[:_SECONDS]:
            if self.tries >= self.most:
                return
            both = (*way.some, boldest)
            trial = self._tried(both)
            if trial.starts_s is None:
                self.went(both, trial.there, way.now)
                continue
            for milder in [p for p in every if p.family == boldest.family and p is not boldest][:_MILDER]:
                instead = self._tried((*way.some, milder))
                if instead.starts_s is not None:
                    both, trial = (*way.some, milder), instead
                    break
            self.changes.append(_change(*self._needed(both, trial)))
            return

    def _tried(self, some: tuple[Proposal, ...]) -> Trial:
        self.tries += 1
        return tried(self.moment, self.key, [step for p in some for step in p.steps])

    def _needed(self, some: tuple[Proposal, ...], trial: Trial) -> tuple[tuple[Proposal, ...], Trial]:
        """Without what it starts without."""
        for proposal in some[:-1]:
            fewer = tuple(p for p in some if p is not proposal)
            without = self._tried(fewer)
            if without.starts_s is not None:
                some, trial = fewer, without
        return some, trial


def _said(link: Link) -> tuple[str, str]:
    """What is in the way, whatever its numbers."""
    return link.layer, re.sub(r"\d+", "#", link.message)


def _sort(proposal: Proposal) -> str:
    """What is tried once on a way; other devices and other labels are other things."""
    root = proposal.family.partition("/")[0]
    return proposal.family if root in ("devices", "selector") else root


def _one_of_each(some: list[Proposal]) -> list[Proposal]:
    """The first of each family, then the boldest, which come last."""
    first, boldest = dict[str, Proposal](), dict[str, Proposal]()
    for proposal in some:
        first.setdefault(proposal.family, proposal)
        boldest[proposal.family] = proposal
    return list({p.what: p for p in (*first.values(), *boldest.values())}.values())


def how_far(link: Link) -> int:
    """How far along its way a layer is: what Kueue's flavors refuse comes after quota, then who stands in front."""
    if is_placed_by_kueue(link):
        return 3 * LAYERS.index(QUOTA) + 1
    return 3 * LAYERS.index(QUOTA) + 2 if "behind" in link.numbers else 3 * LAYERS.index(link.layer)


def _pairs(moment: Moment, key: Key, left: list[Proposal]) -> tuple[list[Change], int]:
    """Two of different families together: of each the boldest, which came last."""
    boldest = list({proposal.family.partition("/")[0]: proposal for proposal in left}.values())
    changes: list[Change] = []
    tries = 0
    for i, first in enumerate(boldest):
        for second in boldest[i + 1 :]:
            if tries >= _PAIRS:
                return changes, tries
            tries += 1
            trial = tried(moment, key, (*first.steps, *second.steps))
            if trial.starts_s is not None:
                changes.append(_change((first, second), trial))
    return changes, tries


def _change(some: tuple[Proposal, ...], trial: Trial) -> Change:
    assert trial.starts_s is not None
    prices = [price for _, price in trial.opened]
    cost = None if None in prices else sum(p for p in prices if p is not None)
    evicts = dict.fromkeys([e for p in some for e in p.evicts] + list(trial.evicts))
    return Change(
        " and ".join(p.what for p in some),
        trial.commands,
        trial.starts_s,
        cost,
        tuple(evicts),
        any(p.loses for p in some),
    )


def _who_pays(change: Change) -> tuple[object, ...]:
    """Nobody first; then whoever asks (less work), others (stopped), money; then by how soon."""
    cost = 2**62 if change.cost_micro_usd is None else change.cost_micro_usd
    return (cost, len(change.evicts), change.loses, change.starts_s, change.what)
