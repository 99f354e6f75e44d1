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

import numpy as np

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.records import PodRecord
from fairway.kube.labels import EVERYTHING, Selector
from fairway.scheduling.cycle import Diagnosis, Scheduler, reasons_of
from fairway.scheduling.nodelocal import NodeLocal
from fairway.scheduling.verdict import (
    NEVER_PREEMPTS,
    NO_CLAIMS_TO_DEALLOCATE,
    NO_NODES,
    NO_VICTIMS,
    PREEMPTION_NOT_HELPFUL,
    REASONS,
    TOO_MANY_PODS,
    UNRESOLVABLE,
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
    accounts = scheduler.accounts
    if accounts.node_count == 0:
        return Unschedulable(NO_NODES, (), (), 0, clears_nomination=True)
    reasons, plugins = reasons_of(diagnosis, accounts)
    if diagnosis.prefilter:
        message = f"0/{accounts.node_count} nodes are available: {diagnosis.prefilter}."
        reasons, plugins = {}, (diagnosis.prefilter_plugin,)
    else:
        message = unavailable(accounts.node_count, reasons)
    found, sentence = (None, "")
    if scheduler.profile.preempts:
        found, sentence = _preempt(scheduler, pod, diagnosis, budgets, draw)
    sorted_reasons = tuple(sorted(reasons.items()))
    if found is not None:
        return Unschedulable(message, sorted_reasons, plugins, accounts.node_count, found)
    after = [NO_CLAIMS_TO_DEALLOCATE] if scheduler.profile.has_dynamic_resources else []
    if sentence:
        after.append(f"preemption: {sentence}")
    if after:
        message = f"{message} {', '.join(after)}"
    clears = sentence not in (NEVER_PREEMPTS, VICTIMS_TERMINATING)
    return Unschedulable(message, sorted_reasons, plugins, accounts.node_count, clears_nomination=clears)


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
    if diagnosis.prefilter:
        potential = []
    candidates, said = _dry_run(scheduler, pod, diagnosis.local, potential, budgets, draw)
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
    scheduler: Scheduler,
    pod: PodRecord,
    local: NodeLocal,
    potential: Sequence[int],
    budgets: Sequence[Budget],
    draw: int,
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
    offset = draw % count if count else 0
    for i in range(count):
        row = potential[(offset + i) % count]
        found = _victims_on(scheduler, pod, local, row, budgets)
        if isinstance(found, _Candidate):
            (violating if found.violations else clean).append(found)
            if clean and len(clean) + len(violating) >= wanted:
                break
        else:
            said.update(found)
    return [*clean, *violating], said


def _victims_on(
    scheduler: Scheduler, pod: PodRecord, local: NodeLocal, row: int, budgets: Sequence[Budget]
) -> _Candidate | tuple[str, ...]:
    """The fewest, least important pods of one node whose eviction lets the pod in; else the reasons it stays out."""
    accounts = scheduler.accounts
    lower = [p for p in accounts.pods[row].values() if p.shape.priority < pod.shape.priority]
    if not lower:
        return (NO_VICTIMS,)
    lower.sort(key=_importance)
    for p in lower:
        accounts.displace(p)
    refusal = _refusal_at(scheduler, pod, local, row)
    if refusal:
        reasons = _reasons_at(accounts, local, row, refusal)
        for p in lower:
            accounts.place(p, row)
        local.refresh()
        return reasons
    breaking, harmless = _by_budget(lower, budgets)
    victims: list[PodRecord] = []
    violations = 0
    for p in (*breaking, *harmless):
        accounts.place(p, row)
        if _refusal_at(scheduler, pod, local, row):
            accounts.displace(p)
            victims.append(p)
            violations += p in breaking
    for p in victims:
        accounts.place(p, row)
    local.refresh()
    victims.sort(key=_importance)
    return _Candidate(row, tuple(victims), violations)


def _importance(pod: PodRecord) -> tuple[int, int, str, str]:
    """Most important first: higher priority, then longer running. Source: util.MoreImportantPod."""
    return (-pod.shape.priority, pod.start_us or _NEVER_STARTED, pod.key.namespace, pod.key.name)


_NEVER_STARTED = 2**62


def _refusal_at(scheduler: Scheduler, pod: PodRecord, local: NodeLocal, row: int) -> int:
    """Filters on one node, with and without the pods nominated to it."""
    local.refresh()
    return int(scheduler._refusals(pod, local)[row])


def _reasons_at(accounts: NodeAccounts, local: NodeLocal, row: int, refusal: int) -> tuple[str, ...]:
    if refusal != Refusal.FIT:
        return (REASONS[Refusal(refusal)],)
    bits = int(local.short[row])
    names = (TOO_MANY_PODS, *(f"Insufficient {r}" for r in local.resources))
    return tuple(name for bit, name in enumerate(names) if bits >> bit & 1)


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


def hopeless_refusals() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The refusals no eviction mends, as an array (for callers that classify many)."""
    return np.array(sorted(UNRESOLVABLE), np.int64)
