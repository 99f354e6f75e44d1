"""Which flavors serve a workload best, given what is free, what may be borrowed and what could be preempted?

For every group of pod sets and every resource group the flavors are tried in order until fungibility says
stop; the best found is kept. What was tried is remembered, so the next cycle goes on where this one stopped.

Source: pkg/scheduler/flavorassigner/flavorassigner.go, tas_flavorassigner.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from fairway.kube.resources import PODS, Resources
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.amounts import amount_text, in_rank_order, saturated
from fairway.queueing.facts.objects import (
    NEVER,
    FlavorResource,
    ResourceGroup,
    flavor_resource,
)
from fairway.queueing.facts.workloads import PodSetTotal, Workload
from fairway.queueing.flavors.assignment import (
    Assignment,
    Attempt,
    FlavorChoice,
    Mode,
    PodSetAssignment,
    Possibility,
    ScanState,
    most_severe,
)
from fairway.queueing.flavors.attempts import finalized, merge_resource
from fairway.queueing.flavors.flavormatch import mismatch
from fairway.queueing.flavors.fungibility import (
    BEST,
    FIT,
    MODE_OF,
    NO_FIT,
    OF_POSSIBILITY,
    POSSIBILITY_OF,
    WORST,
    Grade,
    is_preferred,
    should_try_next,
)
from fairway.queueing.flavors.placement import place, resolve_no_fit_reason
from fairway.queueing.flavors.variants import allowed_flavors
from fairway.queueing.quota.accounts import Accounts, QueueAccount
from fairway.queueing.quota.quotatree import Amounts, borrowing_height


class Oracle(Protocol):
    """Says what preemption could do for one resource in one flavor, and how far it would then borrow."""

    def simulate(
        self, queue: QueueAccount, workload: Workload, fr: FlavorResource, value: int
    ) -> tuple[Possibility, int]: ...


# Pod set → resource → flavor a workload was nominated with earlier in the cycle.
Nomination = Mapping[str, Mapping[str, str]]


class FlavorSearch:
    """What one search works with. `cycle`: the number of the scheduling cycle."""

    def __init__(
        self,
        accounts: Accounts,
        queue: QueueAccount,
        workload: Workload,
        oracle: Oracle,
        cycle: int,
        uses_fair_sharing: bool = False,
        ignores_undeclared: bool = False,
        scan: ScanState | None = None,
        nomination: Nomination | None = None,
        replaced_slice: Workload | None = None,
    ) -> None:
        self.accounts = accounts
        self.queue = queue
        self.workload = workload
        self.oracle = oracle
        self.cycle = cycle
        self.uses_fair_sharing = uses_fair_sharing
        self.ignores_undeclared = ignores_undeclared
        self.scan = scan
        self.nomination = nomination
        self.replaced_slice = replaced_slice


class _Fit:
    """How well one resource fits a flavor, and what is missing where it does not."""

    def __init__(self, grade: Grade, reason: str = "", no_fit_reason: str = "") -> None:
        self.grade = grade
        self.reason = reason
        self.no_fit_reason = no_fit_reason


_FITS: Final = _Fit(BEST)


class _Found:
    """The outcome for one resource group. `flavors` None: nothing serves."""

    def __init__(
        self,
        flavors: dict[str, FlavorChoice] | None,
        reasons: list[str],
        attempts: list[Attempt],
    ) -> None:
        self.flavors = flavors
        self.reasons = reasons
        self.attempts = attempts


def assign_flavors(search: FlavorSearch, counts: Sequence[int] | None = None) -> Assignment:
    """Step 1: quota, group by group; step 2: a place in the topology; then the reason where nothing fits."""
    workload, queue = search.workload, search.queue
    totals = _totals(search, counts)
    assignment = Assignment([], {}, replaced_slice=search.replaced_slice)
    complete = True
    for members in _groups(search, totals):
        if not _assign_group(search, assignment, members):
            complete = False
            break
    assignment.scan = ScanState(
        tuple({r: c.tried_index for r, c in ps.flavors.items()} for ps in assignment.pod_sets),
        queue.generation,
        search.cycle,
        workload.hash,
    )
    if complete and assignment.mode() != Mode.NO_FIT and search.accounts.gates.topology_aware_scheduling:
        place(assignment, queue, workload, search.accounts)
    if search.accounts.gates.unadmitted_workloads_observability:
        resolve_no_fit_reason(assignment, queue)
    return assignment


def _totals(search: FlavorSearch, counts: Sequence[int] | None) -> list[PodSetTotal]:
    totals = list(search.workload.totals)
    if counts:
        totals = [t.scaled_to(counts[i]) for i, t in enumerate(totals)]
    if search.queue.spec.group_of(PODS) is None:
        return totals
    return [
        PodSetTotal(
            t.name,
            t.count,
            in_rank_order(t.requests | {PODS: t.count}),
            t.flavors,
            t.topology,
            t.delayed_topology,
            t.domains,
        )
        for t in totals
    ]


class _Member:
    """A pod set of a group, and what becomes of it. `at`: its place in the workload."""

    def __init__(self, at: int, total: PodSetTotal, assignment: PodSetAssignment) -> None:
        self.at = at
        self.total = total
        self.assignment = assignment


def _groups(search: FlavorSearch, totals: Sequence[PodSetTotal]) -> list[list[_Member]]:
    """Pod sets of one topology group are given the same flavors; the others stand alone."""
    with_topology = search.accounts.gates.topology_aware_scheduling
    groups: dict[str, list[_Member]] = {}
    for index, total in enumerate(totals):
        ps = PodSetAssignment(total.name, total.count, total.requests, {})
        if with_topology:
            if total.flavors:
                ps.flavors = {r: FlavorChoice(f, Mode.FIT) for r, f in total.flavors.items()}
            ps.delayed_topology = total.delayed_topology
            ps.topology = total.topology
        member = _Member(index, total, ps)
        if len(totals) == 1:
            return [[member]]
        spec = search.workload.shape.pod_sets[index]
        group = spec.topology.group if spec.topology is not None else ""
        groups.setdefault(group or str(index), []).append(member)
    return list(groups.values())


def _assign_group(search: FlavorSearch, assignment: Assignment, members: Sequence[_Member]) -> bool:
    """False where one of the pod sets is left without flavors."""
    requests = _sum(members)
    chosen: dict[str, FlavorChoice] = {}
    for member in members:
        chosen.update(member.assignment.flavors)
    reasons: list[str] = []
    considered: dict[str, Attempt] = {}
    serves = True
    for resource, value in requests.items():
        if search.queue.spec.group_of(resource) is None and (not value or search.ignores_undeclared):
            continue
        if resource in chosen:
            continue
        found = _find_flavor(search, members, requests, resource, assignment.usage)
        merge_resource(considered, found.attempts, resource, search.queue)
        if not found.flavors:
            chosen, reasons, serves = {}, found.reasons, False
            break
        chosen.update(found.flavors)
        reasons.extend(found.reasons)
    attempts = finalized(considered)
    complete = True
    for member in members:
        ps = member.assignment
        ps.flavors = _flavors_of(search, member, chosen) if serves else {}
        ps.reasons = list(reasons)
        ps.attempts = attempts
        _append(search, assignment, member)
        if ps.error or (member.total.requests and not ps.flavors):
            complete = False
    return complete


def _sum(members: Sequence[_Member]) -> Resources:
    if len(members) == 1:
        return members[0].total.requests
    total: Resources = {}
    for member in members:
        for name, value in member.total.requests.items():
            total[name] = saturated(total.get(name, 0) + value)
    return in_rank_order(total)


def _flavors_of(
    search: FlavorSearch, member: _Member, chosen: Mapping[str, FlavorChoice]
) -> dict[str, FlavorChoice]:
    """Of the group's flavors those for what the pod set asks; the choices themselves are shared."""
    requests = member.total.requests
    if requests:
        return {resource: chosen[resource] for resource in requests if resource in chosen}
    topology = search.workload.shape.pod_sets[member.at].topology
    if topology is not None and topology.group:
        return {r: c for r, c in chosen.items() if c.flavor in search.queue.topologies}
    return {}


def _append(search: FlavorSearch, assignment: Assignment, member: _Member) -> None:
    ps = member.assignment
    assignment.pod_sets.append(ps)
    old = search.replaced_slice.total(ps.name) if search.replaced_slice is not None else None
    for resource, choice in ps.flavors.items():
        assignment.borrowing = max(assignment.borrowing, choice.borrow)
        fr = flavor_resource(choice.flavor, resource)
        value = member.total.requests.get(resource, 0)
        if old is not None:
            value -= old.requests.get(resource, 0)
        assignment.usage[fr] = assignment.usage.get(fr, 0) + value


def _find_flavor(
    search: FlavorSearch,
    members: Sequence[_Member],
    requests: Resources,
    resource: str,
    assumed: Amounts,
) -> _Found:
    """The best flavor of the group that covers `resource`, for all of the group's resources at once."""
    group = search.queue.spec.group_of(resource)
    if group is None:
        return _Found(None, [f"resource {resource} unavailable in ClusterQueue"], [])
    gates = search.accounts.gates
    fungibility = search.queue.spec.fungibility
    wanted = {name: value for name, value in requests.items() if name in group.covered}
    best: dict[str, FlavorChoice] | None = None
    best_grade = WORST
    reasons: list[str] = []
    attempts: list[Attempt] = []
    start = 0
    if search.scan is not None and gates.flavor_fungibility:
        start = search.scan.next_index(members[0].at, resource)
    last = start
    for last in range(start, len(group.flavors)):
        flavor = group.flavors[last]
        reason = _refusal(search, members, flavor, group, resource, attempts)
        if reason:
            reasons.append(reason)
            continue
        choices, grade, attempt = _try_flavor(search, members, flavor, wanted, assumed)
        attempts.append(attempt)
        reasons.extend(attempt.reasons)
        if gates.flavor_fungibility:
            if not should_try_next(grade, fungibility):
                best, best_grade = choices, grade
                break
            if is_preferred(grade, best_grade, fungibility):
                best, best_grade = choices, grade
        elif grade.mode > best_grade.mode:
            best, best_grade = choices, grade
            if grade.mode == FIT:
                return _Found(best, [], attempts)
    if gates.flavor_fungibility and best:
        tried = -1 if last == len(group.flavors) - 1 else last
        for choice in best.values():
            choice.tried_index = tried
        if best_grade.mode == FIT:
            return _Found(best, [], attempts)
    return _Found(best, reasons, attempts)


def _refusal(
    search: FlavorSearch,
    members: Sequence[_Member],
    flavor: str,
    group: ResourceGroup,
    resource: str,
    attempts: list[Attempt],
) -> str:
    """Why a flavor is not even tried; empty where it is."""
    if not _was_nominated(search, members, flavor, resource):
        return (
            f"skipping flavor {flavor} as it is not found in the nomination mapping for resource {resource}"
        )
    if search.accounts.gates.concurrent_admission:
        allowed = allowed_flavors(search.workload.obj)
        if allowed is not None and flavor not in allowed:
            return f"skipping flavor {flavor} due to WorkloadAllowedResourceFlavorAnnotation annotation"
    spec = search.accounts.flavors.get(flavor)
    reason = ""
    if spec is None:
        reason = f"flavor {flavor} not found"
    else:
        shape = search.workload.shape
        for member in members:
            known = search.queue.mismatches
            key = (shape.form, member.at, group.at, flavor)
            found = known.get(key)
            if found is None:
                with_topology = search.accounts.gates.topology_aware_scheduling
                pod_set = shape.pod_sets[member.at]
                found = mismatch(search.queue, pod_set, spec, group, with_topology=with_topology)
                known[key] = found
            if found:
                reason = found
                break
    if reason:
        attempts.append(
            Attempt(flavor, Mode.NO_FIT, reasons=(reason,), no_fit_reason=conds.NO_MATCHING_FLAVOR)
        )
    return reason


def _was_nominated(search: FlavorSearch, members: Sequence[_Member], flavor: str, resource: str) -> bool:
    """Or there was no nomination before this one in the cycle."""
    nomination = search.nomination
    if nomination is None:
        return True
    names = (search.workload.shape.pod_sets[m.at].name for m in members)
    return any(nomination.get(name, {}).get(resource) == flavor for name in names)


def _try_flavor(
    search: FlavorSearch,
    members: Sequence[_Member],
    flavor: str,
    wanted: Resources,
    assumed: Amounts,
) -> tuple[dict[str, FlavorChoice], Grade, Attempt]:
    choices: dict[str, FlavorChoice] = {}
    worst, deepest = BEST, 0
    reasons: list[str] = []
    no_fit_reason = ""
    fungibility = search.queue.spec.fungibility
    for resource, value in wanted.items():
        if search.replaced_slice is not None:
            value, reason = _beyond_slice(search, members, flavor, resource, value)
            if reason:
                worst = WORST
                reasons.append(reason)
                no_fit_reason = most_severe(no_fit_reason, conds.NO_MATCHING_FLAVOR)
        fr = flavor_resource(flavor, resource)
        fit = _fits_quota(search, fr, assumed.get(fr, 0), value)
        if fit.reason:
            reasons.append(fit.reason)
            no_fit_reason = most_severe(no_fit_reason, fit.no_fit_reason)
        deepest = max(deepest, fit.grade.borrow)
        if fit.grade is not worst and is_preferred(worst, fit.grade, fungibility):
            worst = fit.grade
        if worst.mode != NO_FIT:
            choices[resource] = FlavorChoice(flavor, MODE_OF[fit.grade.mode], fit.grade.borrow)
    attempt = Attempt(
        flavor,
        MODE_OF[worst.mode],
        deepest,
        POSSIBILITY_OF[worst.mode],
        tuple(sorted(reasons)) if reasons else (),
        no_fit_reason,
    )
    return choices, worst, attempt


def _beyond_slice(
    search: FlavorSearch, members: Sequence[_Member], flavor: str, resource: str, value: int
) -> tuple[int, str]:
    """What a workload slice asks beyond the slice it replaces, which it must follow into its flavors."""
    assert search.replaced_slice is not None
    reason = ""
    for member in members:
        old = search.replaced_slice.totals[member.at]
        original = old.flavors.get(resource, "")
        if original != flavor:
            reason = f"could not assign {flavor} flavor since the original workload is assigned: {original}"
            break
        value -= old.requests.get(resource, 0)
    return value, reason


def _fits_quota(search: FlavorSearch, fr: FlavorResource, assumed: int, value: int) -> _Fit:
    """Whether the request fits now, and if not what preemption could do about it."""
    queue = search.queue
    total = assumed + value
    most = queue.potential(fr)
    if total > most:
        reason = (
            f"insufficient quota for {fr.resource} in flavor {fr.flavor}, previously considered podsets "
            f"requests ({amount_text(fr.resource, assumed)}) + current podset request "
            f"({amount_text(fr.resource, value)}) > maximum capacity ({amount_text(fr.resource, most)})"
        )
        return _Fit(Grade(NO_FIT, 0), reason, conds.EXCEEDS_MAX_QUOTA)
    borrow, may_reclaim = borrowing_height(queue, fr, total)
    free = queue.free(fr)
    if total <= free:
        return _Fit(Grade(FIT, borrow)) if borrow else _FITS
    reason = (
        f"insufficient unused quota for {fr.resource} in flavor {fr.flavor}, "
        f"{amount_text(fr.resource, total - free)} more needed"
    )
    if queue.subtree.get(fr, 0) >= total or may_reclaim or _may_preempt_while_borrowing(search):
        possibility, borrow = search.oracle.simulate(queue, search.workload, fr, total)
        return _Fit(Grade(OF_POSSIBILITY[possibility], borrow), reason, "")
    return _Fit(Grade(NO_FIT, borrow), reason, conds.WAITING_FOR_QUOTA)


def _may_preempt_while_borrowing(search: FlavorSearch) -> bool:
    policy = search.queue.spec.preemption
    return policy.borrow_while_reclaiming or (
        search.uses_fair_sharing and policy.reclaim_within_cohort != NEVER
    )
