"""Whom to evict so that a pod fits, as the DefaultPreemption plugin decides it.

On every node that eviction could help, all pods of lower priority are taken away in a what-if; if the pod then
fits, as many as possible are let back, those whose eviction would break a PodDisruptionBudget first. Among the
candidate nodes the least harmful wins. `evictions` does the what-if on one node.

Source: pkg/scheduler/framework/preemption/preemption.go and plugins/defaultpreemption (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from fairway.cluster.records import PodRecord
from fairway.kube.labels import label_selector
from fairway.kube.objects import Obj, meta_of, spec_of, status_of
from fairway.scheduling.cycle import Scheduler
from fairway.scheduling.diagnosis import Diagnosis, reasons_of
from fairway.scheduling.dynamicresources import PLUGIN as DEVICES_PLUGIN
from fairway.scheduling.evictions import NEVER_STARTED, Candidate, victims_on
from fairway.scheduling.evictions import Budget as Budget
from fairway.scheduling.extenders import ExtenderError
from fairway.scheduling.filters import Filters
from fairway.scheduling.verdict import (
    NEVER_PREEMPTS,
    NO_CLAIM_STATE,
    NO_CLAIMS_TO_DEALLOCATE,
    NO_NODES,
    NO_VICTIMS,
    PREEMPTION_NOT_HELPFUL,
    VICTIMS_TERMINATING,
    Preemption,
    Release,
    Unschedulable,
    unavailable,
)

_PRIORITY_OFFSET: Final = 2**31


def budgets_of(objects: Iterable[Obj]) -> list[Budget]:
    """Of PodDisruptionBudgets."""
    return [
        Budget(
            meta_of(pdb).get("namespace", ""),
            label_selector(spec_of(pdb).get("selector")),
            int(status_of(pdb).get("disruptionsAllowed") or 0),
            frozenset(status_of(pdb).get("disruptedPods") or ()),
        )
        for pdb in objects
    ]


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
    is_ours = diagnosis.prefilter_plugin == DEVICES_PLUGIN
    if diagnosis.prefilter and scheduler.profile.has_dynamic_resources and not is_ours:
        # DynamicResources looks for what its PreFilter would have left, had an earlier one not refused.
        return Unschedulable(f"{message} {NO_CLAIM_STATE}", sorted_reasons, plugins, nodes)
    release = _release(scheduler, diagnosis)
    found, sentence = (None, "")
    if scheduler.profile.preempts:
        found, sentence = _preempt(scheduler, pod, diagnosis, budgets, draw)
    if found is not None:
        return Unschedulable(message, sorted_reasons, plugins, nodes, found, release=release)
    after = [release.words] if release is not None else []
    if sentence:
        after.append(f"preemption: {sentence}")
    if after:
        message = f"{message} {', '.join(after)}"
    clears = sentence not in (NEVER_PREEMPTS, VICTIMS_TERMINATING)
    return Unschedulable(message, sorted_reasons, plugins, nodes, clears_nomination=clears, release=release)


def _release(scheduler: Scheduler, diagnosis: Diagnosis) -> Release | None:
    """What the PostFilter of DynamicResources does, and says."""
    if not scheduler.profile.has_dynamic_resources:
        return None
    devices = None if diagnosis.filters is None else diagnosis.filters.devices
    if devices is None:
        return Release(NO_CLAIMS_TO_DEALLOCATE)
    return devices.plugin.after_refusal(devices.look)


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
    potential = order[~diagnosis.is_hopeless[order]]
    candidates: list[Candidate] = []
    said: Counter[str] = Counter()
    if all(priority >= pod.shape.priority for priority in accounts.pods_by_priority):
        # Nobody anywhere may be evicted for it: no need to ask node by node.
        said[NO_VICTIMS] = len(potential)
    elif len(potential) and diagnosis.filters is not None:
        candidates, said = _dry_run(scheduler, diagnosis.filters, potential.tolist(), budgets, draw)
    if candidates and scheduler.extenders is not None:
        candidates = _that_extenders_leave(scheduler, pod, candidates)
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
) -> tuple[list[Candidate], Counter[str]]:
    """Candidates (enough of them), and what the other nodes said, counted per reason."""
    args = scheduler.profile.preemption
    count = len(potential)
    wanted = min(
        max(count * args.min_candidate_nodes_percentage // 100, args.min_candidate_nodes_absolute), count
    )
    clean: list[Candidate] = []
    violating: list[Candidate] = []
    said: Counter[str] = Counter()
    for i in range(count):
        row = potential[(draw + i) % count]
        found = victims_on(scheduler.accounts, filters, row, budgets)
        if isinstance(found, Candidate):
            (violating if found.violations else clean).append(found)
            if clean and len(clean) + len(violating) >= wanted:
                break
        else:
            said.update(found)
    return [*clean, *violating], said


def _that_extenders_leave(
    scheduler: Scheduler, pod: PodRecord, candidates: Sequence[Candidate]
) -> list[Candidate]:
    """Candidates, with the victims that extenders name. Where one fails that may not be ignored: none."""
    extenders = scheduler.extenders
    obj = None if extenders is None else extenders.of(pod.key)
    if extenders is None or obj is None or scheduler.view is None:
        return list(candidates)
    names = scheduler.accounts.names
    victims = {
        names[c.row]: ([v for v in map(scheduler.view.get, [p.key for p in c.victims]) if v], c.violations)
        for c in candidates
    }
    try:
        left = extenders.preempting(obj, victims)
    except ExtenderError:
        return []
    found = []
    for candidate in candidates:
        of_node = left.get(names[candidate.row])
        if of_node is not None:
            kept = tuple(v for v in candidate.victims if v.uid in of_node[0])
            found.append(replace(candidate, victims=kept, violations=of_node[1]))
    return found


def _least_harmful(candidates: Sequence[Candidate]) -> Candidate:
    """Fewest budget violations, lowest top priority, lowest sum of priorities, fewest pods, latest start."""

    def harm(c: Candidate) -> tuple[int, int, int, int, int]:
        top = c.victims[0].shape.priority
        starts = [v.start_us or NEVER_STARTED for v in c.victims if v.shape.priority == top]
        return (
            c.violations,
            top,
            sum(v.shape.priority + _PRIORITY_OFFSET for v in c.victims),
            len(c.victims),
            -min(starts),
        )

    return min(candidates, key=harm)
