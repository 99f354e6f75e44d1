"""Which pods of one node would have to go for a pod to fit there?

All pods of lower priority are taken away; if the pod then fits, they are let back one by one, the important
ones first, as long as it still fits. What cannot come back is the victims.

Where only room is in question this is arithmetic on what the node has left; where other pods, ports or devices
matter, the accounts are changed, the filters asked, and everything is put back.

Source: pkg/scheduler/framework/plugins/defaultpreemption SelectVictimsOnNode (v1.36).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.records import PodRecord
from fairway.kube.labels import EVERYTHING, Selector
from fairway.kube.objects import Key
from fairway.scheduling.diagnosis import shortage_names
from fairway.scheduling.filters import Filters, RowRefusal
from fairway.scheduling.podspread import Move
from fairway.scheduling.verdict import NO_VICTIMS, REASONS, Refusal

# The start time of a pod that has not started: later than any.
NEVER_STARTED = sys.maxsize


@dataclass(frozen=True, slots=True)
class Budget:
    """What a PodDisruptionBudget still allows. `disrupted` names pods whose eviction is already counted."""

    namespace: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str] = frozenset()

    def covers(self, pod: PodRecord) -> bool:
        labels = pod.labels
        if not labels.labels or labels.namespace != self.namespace or self.selector == EVERYTHING:
            return False
        return self.selector.matches(labels.labels) and pod.key.name not in self.disrupted


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that would do. `victims`: most important first; `violations`: how many break a budget."""

    row: int
    victims: tuple[PodRecord, ...]
    violations: int


def victims_on(
    accounts: NodeAccounts, filters: Filters, row: int, budgets: Sequence[Budget]
) -> Candidate | tuple[str, ...]:
    """The fewest, least important pods of one node whose eviction lets the pod in; else why it stays out."""
    lower = [p for p in accounts.pods[row].values() if p.shape.priority < filters.pod.shape.priority]
    if not lower:
        return (NO_VICTIMS,)
    lower = _most_important_first(lower)
    choose = _by_arithmetic if filters.is_about_room(row) else _by_trying
    found = choose(accounts, filters, row, lower, budgets)
    if isinstance(found, RowRefusal):
        return _reasons_at(filters, found)
    gone, violations = found
    victims = tuple(p for p in lower if p.key in gone)
    # Without a victim nothing was in the way; upstream calls that an error and goes on.
    return Candidate(row, victims, violations) if victims else ()


Chosen = tuple[dict[Key, PodRecord], int]


def _by_trying(
    accounts: NodeAccounts, filters: Filters, row: int, lower: Sequence[PodRecord], budgets: Sequence[Budget]
) -> Chosen | RowRefusal:
    """Changes the accounts, asks the filters, and puts everything back."""
    for p in lower:
        accounts.displace(p)
    gone = {p.key: p for p in lower}
    refusal = filters.at(row, [Move(p, row, -1) for p in lower])
    found: Chosen | RowRefusal = refusal
    if not refusal.code:

        def fits_with(p: PodRecord) -> bool:
            accounts.place(p, row)
            del gone[p.key]
            if not filters.at(row, [Move(other, row, -1) for other in gone.values()]).code:
                return True
            accounts.displace(p)
            gone[p.key] = p
            return False

        found = gone, _reprieve(lower, budgets, fits_with)
    for p in lower:
        if p.key in gone:
            accounts.place(p, row)
    filters.local.refresh()
    return found


def _by_arithmetic(
    accounts: NodeAccounts, filters: Filters, row: int, lower: Sequence[PodRecord], budgets: Sequence[Budget]
) -> Chosen | RowRefusal:
    """Adds and subtracts what the pods ask for. A property test holds it equal to trying."""
    asked = filters.local.asked
    names = filters.local.resources
    allocatable, requested = accounts.allocatable[row].tolist(), accounts.requested[row].tolist()
    free = [allocatable[column] - requested[column] for _, column, _ in asked]
    slots = int(accounts.allowed_pods[row] - accounts.pod_count[row]) + len(lower)
    for p in lower:
        free = [f + p.shape.requests.get(n, 0) for f, n in zip(free, names, strict=True)]
    short = int(slots < 1) + sum(bit for f, (bit, _, value) in zip(free, asked, strict=True) if value > f)
    if short:
        return RowRefusal(Refusal.FIT, short)
    spare = [f - value for f, (_, _, value) in zip(free, asked, strict=True)]
    gone = {p.key: p for p in lower}

    def fits_with(p: PodRecord) -> bool:
        nonlocal spare, slots
        left = [s - p.shape.requests.get(n, 0) for s, n in zip(spare, names, strict=True)]
        if slots < 2 or (left and min(left) < 0):
            return False
        spare, slots = left, slots - 1
        del gone[p.key]
        return True

    return gone, _reprieve(lower, budgets, fits_with)


def _reprieve(
    lower: Sequence[PodRecord], budgets: Sequence[Budget], fits_with: Callable[[PodRecord], bool]
) -> int:
    """Let back who still fits, those covered by a budget first; returns how many budgets break."""
    if not budgets:
        for p in lower:
            fits_with(p)
        return 0
    breaking, harmless = _by_budget(lower, budgets)
    violations = sum(not fits_with(p) for p in breaking)
    for p in harmless:
        fits_with(p)
    return violations


def _most_important_first(pods: Sequence[PodRecord]) -> list[PodRecord]:
    """Higher priority first, then longer running. Source: util.MoreImportantPod.

    A pod that has not started counts as starting when it is asked, so that of two, the one asked first seems
    older: upstream's sort turns such pods round. UIDs stand for the order in which pods came to the node.
    """
    by_age = sorted(pods, key=lambda p: (p.uid, p.key))
    place = {p.key: i for i, p in enumerate(by_age)}
    return sorted(
        by_age,
        key=lambda p: (
            -p.shape.priority,
            p.start_us or NEVER_STARTED,
            place[p.key] if p.start_us else -place[p.key],
        ),
    )


def _reasons_at(filters: Filters, refusal: RowRefusal) -> tuple[str, ...]:
    if refusal.code != Refusal.FIT:
        return (REASONS[Refusal(refusal.code)],)
    names = shortage_names(filters.local.resources)
    return tuple(name for bit, name in enumerate(names) if refusal.short >> bit & 1)


def _by_budget(
    pods: Sequence[PodRecord], budgets: Sequence[Budget]
) -> tuple[list[PodRecord], list[PodRecord]]:
    """Those whose eviction would overdraw a budget, and the rest; both in the order given."""
    left = [b.allowed for b in budgets]
    breaking: list[PodRecord] = []
    harmless: list[PodRecord] = []
    for pod in pods:
        overdraws = False
        for i, budget in enumerate(budgets):
            if budget.covers(pod):
                left[i] -= 1
                overdraws = overdraws or left[i] < 0
        (breaking if overdraws else harmless).append(pod)
    return breaking, harmless
