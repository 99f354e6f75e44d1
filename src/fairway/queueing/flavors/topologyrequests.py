"""What does an assignment ask of the topologies of its flavors?

Source: pkg/scheduler/flavorassigner/tas_flavorassigner.go, errors.go.
"""

from __future__ import annotations

from typing import Final

from fairway.kube.objects import status_of
from fairway.queueing.facts.podsets import PodSet
from fairway.queueing.facts.topologyassignments import TopologyAssignment
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.facts.workloadstate import is_elastic
from fairway.queueing.flavors.assignment import Assignment, PodSetAssignment
from fairway.queueing.flavors.flavormatch import is_topology_implied, is_topology_requested
from fairway.queueing.quota.accounts import Accounts, QueueAccount
from fairway.queueing.tas.requests import PodSetRequest, RequestsByFlavor

_NO_TOPOLOGY_KNOWN: Final = "workload requires Topology, but there is no TAS cache information"
_NO_TOPOLOGY_FLAVOR: Final = "no TAS flavor assigned"


def topology_requests(
    assignment: Assignment, workload: Workload, queue: QueueAccount, accounts: Accounts
) -> RequestsByFlavor:
    """Per flavor the pod sets still without a place. Pod sets that cannot be placed at all are failed."""
    requests: RequestsByFlavor = {}
    if not accounts.gates.topology_aware_scheduling:
        return requests
    if not workload.shape.is_explicitly_topology_aware and not queue.is_topology_only:
        return requests
    for pod_set in workload.shape.pod_sets:
        if not is_topology_requested(pod_set, queue):
            continue
        ps = assignment.pod_set(pod_set.name)
        if ps is None or ps.error or ps.count == 0:
            continue
        if ps.topology is not None and not _is_on_unhealthy_node(ps.topology, workload):
            continue
        request, error = _request(ps, pod_set, workload, queue)
        if accounts.gates.elastic_jobs_via_workload_slices_with_tas and is_elastic(workload.obj):
            error = _elastic_error(pod_set) or error
            old = assignment.replaced_slice
            total = None if old is None else old.total(pod_set.name)
            if request is not None and total is not None:
                request.previous = total.topology
        if error:
            assignment.fail(ps, error)
        elif request is not None:
            requests.setdefault(request.flavor, []).append(request)
    return requests


def _elastic_error(pod_set: PodSet) -> str:
    """Slices of an elastic job cannot ask for a domain: they grow where there is room."""
    topology = pod_set.topology
    if topology is not None and topology.required:
        return "required topology is not supported with ElasticJobsViaWorkloadSlices"
    if topology is not None and topology.preferred:
        return "preferred topology is not supported with ElasticJobsViaWorkloadSlices"
    return ""


def _is_on_unhealthy_node(topology: TopologyAssignment, workload: Workload) -> bool:
    return any(d.values[-1] in workload.unhealthy_nodes for d in topology.domains)


def _request(
    ps: PodSetAssignment, pod_set: PodSet, workload: Workload, queue: QueueAccount
) -> tuple[PodSetRequest | None, str]:
    """The request, or None where the place is decided later; else an error."""
    if not queue.topologies:
        return None, _NO_TOPOLOGY_KNOWN
    flavors = sorted({c.flavor for c in ps.flavors.values() if c.flavor in queue.topologies})
    if not flavors:
        return None, _NO_TOPOLOGY_FLAVOR
    if len(flavors) > 1:
        return None, f"more than one TAS flavor assigned: {', '.join(flavors)}"
    flavor = flavors[0]
    waits_for_nodes = not workload.has_quota and flavor in queue.provisioned_flavors
    if queue.has_multikueue_check or waits_for_nodes:
        ps.delayed_topology = "Pending"
        return None, ""
    updates = tuple(
        update
        for check in status_of(workload.obj).get("admissionChecks") or ()
        if check.get("state") == "Ready"
        for update in check.get("podSetUpdates") or ()
        if update.get("name") == pod_set.name
    )
    implied = is_topology_implied(pod_set, queue)
    return PodSetRequest(pod_set, ps.count, flavor, implied, updates), ""
