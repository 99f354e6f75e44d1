"""Whom to evict so that a pod fits, as the DefaultPreemption plugin decides it.

On every node that eviction could help, all pods of lower priority are taken away in a what-if; if the pod then
fits, as many as possible are let back, those whose eviction would break a PodDisruptionBudget first. Among the
candidate nodes the least harmful wins. The what-if mutates the accounts and puts everything back.

Source: pkg/scheduler/framework/preemption/preemption.go and plugins/defaultpreemption (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fairway.cluster.records import PodRecord
from fairway.kube.labels import EVERYTHING, Selector
from fairway.scheduling.cycle import Scheduler
from fairway.scheduling.diagnosis import Diagnosis, reasons_of, shortage_names
from fairway.scheduling.filters import Filters, RowRefusal
from fairway.scheduling.podspread import Move
from fairway.scheduling.verdict import (
    NEVER_PREEMPTS,
    NO_CLAIM_STATE,
    NO_CLAIMS_TO_DEALLOCATE,
    NO_NODES,
    NO_VICTIMS,
    PREEMPTION_NOT_HELPFUL,
    REASONS,
    VICTIMS_TERMINATING,
    Preemption,
    Refusal,
    Unschedulable,
    unavailable,
)

_PRIORITY_OFFSET = 2**31


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
class _Candidate:
    row: int
    victims: tuple[PodRecord, ...]
    violations: int


def explain(
    scheduler: Scheduler, pod: PodRecord, diagnosis: Diagnosis, budgets: Sequence[Budget] = (), draw: int = 0
) -> Unschedulable:
    """Step 2 of a cycle: the message, the plugins that refused, and the preemption that would help.

    `draw` chooses where the search for candidates starts, as upstream's random offset does.
    """
    nodes = scheduler.accounts.node_count
    if nodes == 0:
        return Unschedulable(NO_NODES, (), (), 0, clears_nomination=True)
    reasons, plugins = reasons_of(diagnosis, scheduler.accounts)
    message = unavailable(nodes, reasons)
    if diagnosis.prefilter:
        message = f"0/{nodes} nodes are available: {diagnosis.prefilter}."
        reasons, plugins = {}, (diagnosis.prefilter_plugin,)
    sorted_reasons = tuple(sorted(reasons.items()))
    if diagnosis.prefilter and scheduler.profile.has_dynamic_resources:
        # DynamicResources looks for what its PreFilter would have left, had an earlier one not refused.
        return Unschedulable(f"{message} {NO_CLAIM_STATE}", sorted_reasons, plugins, nodes)
    found, sentence = (None, "")
    if scheduler.profile.preempts:
        found, sentence = _preempt(scheduler, pod, diagnosis, budgets, draw)
    if found is not None:
        return Unschedulable(message, sorted_reasons, plugins, nodes, found)
    after = [NO_CLAIMS_TO_DEALLOCATE] if scheduler.profile.has_dynamic_resources else []
    if sentence:
        after.append(f"preemption: {sentence}")
    if after:
        message = f"{message} {', '.join(after)}"
    clears = sentence not in (NEVER_PREEMPTS, VICTIMS_TERMINATING)
    return Unschedulable(message, sorted_reasons, plugins, nodes, clears_nomination=clears)


def _preempt(
    scheduler: Scheduler, pod: PodRecord, diagnosis: Diagnosis, budgets: Sequence[Budget], draw: int
) -> tuple[Preemption | None, str]:
    """The preemption, or the sentence saying why there is none."""
    accounts = scheduler.accounts
    if pod.shape.never_preempts:
        return None, NEVER_PREEMPTS
    if _awaits_victims(scheduler, pod, diagnosis):
        return None, VICTIMS_TERMINATING
    order = accounts.order()
    potential = order[~diagnosis.is_hopeless[order] & (diagnosis.refusal[order] > 0)].tolist()
    candidates: list[_Candidate] = []
    said: Counter[str] = Counter()
    if potential and diagnosis.filters is not None:
        candidates, said = _dry_run(scheduler, diagnosis.filters, potential, budgets, draw)
    if candidates:
        best = _least_harmful(candidates)
        victims = tuple(v.key for v in best.victims)
        return Preemption(accounts.names[best.row], victims, best.violations), ""
    said[PREEMPTION_NOT_HELPFUL] = accounts.node_count - len(potential)
    return None, unavailable(accounts.node_count, said)


def _awaits_victims(scheduler: Scheduler, pod: PodRecord, diagnosis: Diagnosis) -> bool:
    """It preempted before and its victims are still on their way out."""
    nominated = scheduler.nominated.get(pod.key)
    row = None if nominated is None else scheduler.accounts.row_of.get(nominated[1])
    if row is None or diagnosis.is_hopeless[row]:
        return False
    return any(
        p.is_preempted and p.shape.priority < pod.shape.priority
        for p in scheduler.accounts.pods[row].values()
    )


def _dry_run(
    scheduler: Scheduler, filters: Filters, potential: Sequence[int], budgets: Sequence[Budget], draw: int
) -> tuple[list[_Candidate], Counter[str]]:
    """Candidates (enough of them), and what the other nodes said, counted per reason."""
    args = scheduler.profile.preemption
    count = len(potential)
    wanted = min(
        max(count * args.min_candidate_nodes_percentage // 100, args.min_candidate_nodes_absolute), count
    )
    clean: list[_Candidate] = []
    violating: list[_Candidate] = []
    said: Counter[str] = Counter()
    for i in range(count):
        row = potential[(draw + i) % count]
        found = _victims_on(scheduler, filters, row, budgets)
        if isinstance(found, _Candidate):
            (violating if found.violations else clean).append(found)
            if clean and len(clean) + len(violating) >= wanted:
                break
        else:
            said.update(found)
    return [*clean, *violating], said


def _victims_on(
    scheduler: Scheduler, filters: Filters, row: int, budgets: Sequence[Budget]
) -> _Candidate | tuple[str, ...]:
    """The fewest, least important pods of one node whose eviction lets the pod in; else why it stays out."""
    accounts = scheduler.accounts
    lower = [p for p in accounts.pods[row].values() if p.shape.priority < filters.pod.shape.priority]
    if not lower:
        return (NO_VICTIMS,)
    lower = _most_important_first(lower)
    for p in lower:
        accounts.displace(p)
    refusal = filters.at(row, [Move(p, row, -1) for p in lower])
    gone = {p.key: p for p in lower}
    violations = 0
    if not refusal.code:
        breaking, harmless = _by_budget(lower, budgets)
        for p in (*breaking, *harmless):
            accounts.place(p, row)
            del gone[p.key]
            if filters.at(row, [Move(other, row, -1) for other in gone.values()]).code:
                accounts.displace(p)
                gone[p.key] = p
                violations += p in breaking
    victims = tuple(p for p in lower if p.key in gone)
    for p in victims:
        accounts.place(p, row)
    filters.local.refresh()
    if refusal.code:
        return _reasons_at(filters, refusal)
    # Without a victim nothing was in the way; upstream calls that an error and goes on.
    return _Candidate(row, victims, violations) if victims else ()


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
            p.start_us or _NEVER_STARTED,
            place[p.key] if p.start_us else -place[p.key],
        ),
    )


_NEVER_STARTED = 2**62


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


def _least_harmful(candidates: Sequence[_Candidate]) -> _Candidate:
    """Fewest budget violations, lowest top priority, lowest sum of priorities, fewest pods, latest start."""

    def harm(c: _Candidate) -> tuple[int, int, int, int, int]:
        top = c.victims[0].shape.priority
        starts = [v.start_us or _NEVER_STARTED for v in c.victims if v.shape.priority == top]
        return (
            c.violations,
            top,
            sum(v.shape.priority + _PRIORITY_OFFSET for v in c.victims),
            len(c.victims),
            -min(starts),
        )

    return min(candidates, key=harm)
