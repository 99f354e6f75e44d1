"""Do the pods of an assignment find domains, and if it fits nowhere, what is the reason to name?

Source: pkg/scheduler/flavorassigner/flavorassigner.go assignFlavors (its second half), resolveNoFitReason.
"""

from __future__ import annotations

from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.flavors.assignment import Assignment, Mode, most_severe, severity
from fairway.queueing.flavors.topologyrequests import topology_requests
from fairway.queueing.quota.accounts import Accounts, QueueAccount
from fairway.queueing.tas.requests import DEFAULT_SEARCH, EMPTY_SEARCH, failure_of


def place(assignment: Assignment, queue: QueueAccount, workload: Workload, accounts: Accounts) -> None:
    """Find domains for what fits; where there are none now, see whether there would be on an empty cluster."""
    requests = topology_requests(assignment, workload, queue, accounts)
    if not requests:
        # Most queues: nothing asks for a domain.
        return
    if assignment.mode() == Mode.FIT:
        results = queue.find_domains(requests, workload, DEFAULT_SEARCH)
        failure = failure_of(results)
        if failure is None:
            assignment.take_topology(results)
        else:
            name, result = failure
            ps = assignment.pod_set(name)
            assert ps is not None
            ps.reasons.append(result.failure)
            assignment.set_pod_set_mode(name, Mode.PREEMPT)
    if assignment.mode() != Mode.PREEMPT or workload.unhealthy_nodes:
        return
    failure = failure_of(queue.find_domains(requests, workload, EMPTY_SEARCH))
    if failure is None:
        for of_flavor in requests.values():
            for request in of_flavor:
                assignment.set_pod_set_mode(request.pod_set.name, Mode.PREEMPT)
        return
    name, result = failure
    ps = assignment.pod_set(name)
    assert ps is not None
    for attempt in ps.attempts:
        if attempt.flavor == result.flavor:
            attempt.mode, attempt.no_fit_reason = Mode.NO_FIT, conds.TOPOLOGY_PLACEMENT_FAILED
    assignment.set_pod_set_mode(name, Mode.NO_FIT)


def resolve_no_fit_reason(assignment: Assignment, queue: QueueAccount) -> None:
    """Per resource group the mildest reason of its flavors, over groups and pod sets the most severe."""
    if assignment.mode() != Mode.NO_FIT:
        return
    overall = ""
    for ps in assignment.pod_sets:
        if ps.mode() != Mode.NO_FIT:
            continue
        if not ps.attempts:
            overall = most_severe(overall, conds.NO_MATCHING_FLAVOR)
            continue
        mildest: dict[int, str] = {}
        for index, attempt in enumerate(ps.attempts):
            if attempt.mode != Mode.NO_FIT:
                continue
            groups = [i for i, g in enumerate(queue.spec.groups) if attempt.flavor in g.flavors]
            for group in groups or [-1 - index]:
                reason = mildest.get(group)
                if reason is None or severity(attempt.no_fit_reason) < severity(reason):
                    mildest[group] = attempt.no_fit_reason
        for reason in mildest.values():
            overall = most_severe(overall, reason)
    assignment.no_fit_reason = overall
