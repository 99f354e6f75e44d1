"""The smallest changes that would start it: guesses of `proposals`, each tried on a copy, ranked by who pays.

Nothing is listed that did not start the object on its copy. Where no single change does, pairs are tried. The number
of trials is bounded, whatever the cluster's size.
"""

from __future__ import annotations

from dataclasses import replace

from fairway.answers.explain import explain
from fairway.answers.explanation import BLOCKED, LAYERS, WAITS, Change, Explanation, Link
from fairway.answers.naming import find
from fairway.answers.proposal import Proposal
from fairway.answers.proposals import proposals
from fairway.answers.trials import Trial, tried
from fairway.ground import Moment
from fairway.kube.objects import Key
from fairway.twin.twin import Twin

# Singles and pairs that are tried at most, and changes that are listed.
_SINGLES, _PAIRS, _LISTED = 24, 24, 6
# How often one change is followed by another, by how many at most, and how many such are enough.
_FOLLOWED, _SECONDS, _ENOUGH = 2, 10, 3
_NOTHING = 2
# Families whose members are alternatives: the first that helps is enough.
_FIRST_ONLY = (
    "devices/",
    "workers",
    "queue",
    "priority",
    "toleration",
    "quota",
    "holders/",
    "nodes",
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
    asked = proposals(moment, key, found.blocker)[:_SINGLES]
    changes, count, left = _singles(moment, key, asked)
    if not changes:
        changes, more = _followed(moment, key, found.blocker, left)
        count += more
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


def _followed(moment: Moment, key: Key, blocker: Link, left: Left) -> tuple[list[Change], int]:
    """What did not help by itself but left another thing in the way, with what helps against that; twice at most."""
    changes: list[Change] = []
    tries = 0
    wave: list[tuple[tuple[Proposal, ...], Twin, Link]] = [
        ((proposal,), trial.there, blocker) for proposal, trial in left if trial.there is not None
    ]
    for _ in range(_FOLLOWED):
        after: list[tuple[tuple[Proposal, ...], Twin, Link]] = []
        for some, there, now in _promising(moment, key, wave):
            for second in _one_of_each(proposals(there, key, now))[:_SECONDS]:
                if tries >= _PAIRS or len(changes) >= _ENOUGH:
                    return changes, tries
                tries += 1
                both = (*some, second)
                trial = tried(moment, key, [step for p in both for step in p.steps])
                if trial.starts_s is not None:
                    changes.append(_change(both, trial))
                    break
                if trial.there is not None:
                    after.append((both, trial.there, now))
        wave = after
    return changes, tries


def _one_of_each(some: list[Proposal]) -> list[Proposal]:
    """The first of each family, then the boldest, which come last."""
    first, boldest = dict[str, Proposal](), dict[str, Proposal]()
    for proposal in some:
        first.setdefault(proposal.family, proposal)
        boldest[proposal.family] = proposal
    return list({p.what: p for p in (*first.values(), *boldest.values())}.values())


def _promising(
    moment: Moment, key: Key, wave: list[tuple[tuple[Proposal, ...], Twin, Link]]
) -> list[tuple[tuple[Proposal, ...], Moment, Link]]:
    """Those after which something else is in the way, another layer first; of one answer the first alone."""
    found: dict[tuple[int, str, str], tuple[tuple[Proposal, ...], Moment, Link]] = {}
    for some, twin, before in wave:
        there = replace(moment, twin=twin)
        now = explain(there, key).blocker if twin.store.get(key) is not None else before
        progress = _progress(now, before)
        if progress < _NOTHING:
            found.setdefault((progress, now.layer, now.message), (some, there, now))
    return [found[k] for k in sorted(found, key=lambda k: k[0])]


def _progress(now: Link, before: Link) -> int:
    """0: another layer says no; 1: this one says something else; else nothing is gained."""
    if now.layer not in LAYERS or now.state not in (BLOCKED, WAITS):
        return _NOTHING
    return 0 if now.layer != before.layer else 1 if now.message != before.message else _NOTHING


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
