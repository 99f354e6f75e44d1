"""Which gated pod of an admitted Workload goes to which domain of its topology assignment?

By rank where every pod says its rank and nothing contradicts it, else one domain after another.

Source: pkg/controller/tas/topology_ungater.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairway.cluster.actions import Action, Replace
from fairway.kube.integers import natural
from fairway.kube.objects import Obj, annotations_of, labels_of, spec_of, status_of
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.objects import HOSTNAME_LABEL
from fairway.queueing.facts.topologyassignments import TopologyAssignment, read_assignment
from fairway.queueing.integrations.podsetinfo import POD_SET_LABEL, TOPOLOGY_GATE

OFFSET_ANNOTATION: Final = "kueue.x-k8s.io/pod-index-offset"

Values = tuple[str, ...]
Ranked = dict[int, Obj]


def is_admitted_with_topology(workload: Obj) -> bool:
    status = status_of(workload)
    return conds.is_true(status, conds.ADMITTED) and any(
        ps.get("topologyAssignment") is not None
        for ps in (status.get("admission") or {}).get("podSetAssignments") or ()
    )


def ungated(workload: Obj, pods: Sequence[Obj]) -> list[Action]:
    """The pods of the Workload let go, each with its domain in its node selector. O(pods)."""
    if not is_admitted_with_topology(workload):
        return []
    assignments = status_of(workload)["admission"]["podSetAssignments"]
    requests = {
        ps.get("name") or "main": ps.get("topologyRequest") or {} for ps in spec_of(workload)["podSets"]
    }
    offsets = _rank_offsets(assignments, requests)
    unhealthy = {n["name"] for n in status_of(workload).get("unhealthyNodes") or ()}
    actions: list[Action] = []
    for raw in assignments:
        name = raw.get("name") or "main"
        assignment = read_assignment(raw.get("topologyAssignment"))
        if assignment is None:
            continue
        own = [p for p in pods if labels_of(p).get(POD_SET_LABEL) == name and not _is_over(p)]
        offset, most = offsets[name]
        if own:
            moved = annotations_of(own[0]).get(OFFSET_ANNOTATION) or "0"
            offset, most = offset + int(moved), most + int(moved)
        count = int(raw.get("count") or 0)
        for pod, values in _placed(assignment, own, requests.get(name) or {}, count, offset, most):
            if not (_ends_at_host(assignment) and values[-1] in unhealthy):
                actions.append(Replace(_let_go(pod, assignment.levels, values)))
    return actions


def _is_over(pod: Obj) -> bool:
    return status_of(pod).get("phase") in ("Succeeded", "Failed")


def _ends_at_host(assignment: TopologyAssignment) -> bool:
    return bool(assignment.levels) and assignment.levels[-1] == HOSTNAME_LABEL


def has_gate(pod: Obj) -> bool:
    return any(g.get("name") == TOPOLOGY_GATE for g in spec_of(pod).get("schedulingGates") or ())


def _rank_offsets(
    assignments: Sequence[Mapping[str, Any]], requests: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[int, int]]:
    """(first rank, end of ranks) per pod set: pod sets of one group share ranks, the smaller one first."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for index, raw in enumerate(assignments):
        name = raw.get("name") or "main"
        group = (requests.get(name) or {}).get("podSetGroupName") or f"/{index}"
        groups.setdefault(group, []).append((name, int(raw.get("count") or 0)))
    offsets: dict[str, tuple[int, int]] = {}
    for members in groups.values():
        if len(members) == 1:
            offsets[members[0][0]] = (0, members[0][1])
            continue
        small, large = members[:2]
        if small[1] > large[1]:
            small, large = large, small
        offsets[small[0]] = (0, small[1])
        offsets[large[0]] = (small[1], large[1] + small[1])
    return offsets


def _placed(
    assignment: TopologyAssignment,
    pods: Sequence[Obj],
    request: Mapping[str, Any],
    count: int,
    offset: int,
    most: int,
) -> Iterator[tuple[Obj, Values]]:
    """Gated pods with the domain each goes to."""
    by_rank = [d.values for d in assignment.domains for _ in range(d.pods)]
    ranks = _ranks(assignment, pods, request, count, offset, most, by_rank)
    if ranks is not None:
        for rank in sorted(ranks):
            if has_gate(ranks[rank]):
                yield ranks[rank], by_rank[rank]
        return
    gated = [p for p in pods if has_gate(p)][::-1]
    taken: dict[Values, int] = {}
    for pod in pods:
        if not has_gate(pod):
            values = _domain_of(pod, assignment.levels)
            taken[values] = taken.get(values, 0) + 1
    for domain in assignment.domains:
        for _ in range(max(domain.pods - taken.get(domain.values, 0), 0)):
            if not gated:
                return
            yield gated.pop(), domain.values


def _domain_of(pod: Obj, levels: Sequence[str]) -> Values:
    selector = spec_of(pod).get("nodeSelector") or {}
    return tuple(selector.get(level) or "" for level in levels)


def _ranks(
    assignment: TopologyAssignment,
    pods: Sequence[Obj],
    request: Mapping[str, Any],
    count: int,
    offset: int,
    most: int,
    by_rank: Sequence[Values],
) -> Ranked | None:
    """Pods by rank; None where ranks cannot be relied on."""
    index_label, group_label = request.get("podIndexLabel"), request.get("subGroupIndexLabel")
    if not index_label:
        return None
    groups = int(request.get("subGroupCount") or 0)
    if group_label and groups <= 0:
        return None
    size = count // groups if group_label else count
    ranked: Ranked = {}
    for pod in pods:
        index = _label_number(pod, index_label, most)
        if index is None:
            return None
        rank = index - offset
        if group_label:
            group = _label_number(pod, group_label, groups)
            if group is None or index >= size:
                return None
            rank = index + group * size - offset
        if not 0 <= rank < min(count, len(by_rank)) or rank in ranked:
            return None
        ranked[rank] = pod
    if any(
        not has_gate(pod) and _domain_of(pod, assignment.levels) != by_rank[rank]
        for rank, pod in ranked.items()
    ):
        return None
    return ranked


def _label_number(pod: Obj, label: str, below: int) -> int | None:
    number = natural(labels_of(pod).get(label))
    return number if number is not None and number < below else None


def _let_go(pod: Obj, levels: Sequence[str], values: Values) -> Obj:
    spec = dict(spec_of(pod))
    gates = [g for g in spec.get("schedulingGates") or () if g.get("name") != TOPOLOGY_GATE]
    if gates:
        spec["schedulingGates"] = gates
    else:
        spec.pop("schedulingGates", None)
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **dict(zip(levels, values, strict=True))}
    return {**pod, "spec": spec}
