"""Which gated pod goes to which domain: small Workloads against a plain reading of KEP-2724's ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from fairway.cluster.actions import Replace
from fairway.queueing.control.ungating import is_admitted_with_topology, ungated

Obj = dict[str, Any]
HOST, GATE = "kubernetes.io/hostname", "kueue.x-k8s.io/topology"
LEVELS = ("rack", HOST)
OFFSET = "kueue.x-k8s.io/pod-index-offset"
Values = tuple[str, ...]


def pod(name: str, pod_set: str, *, at: Values | None = None, phase: str = "Pending", **labels: str) -> Obj:
    """Gated, unless it has its place already."""
    spec: Obj = {"containers": [], "schedulingGates": [{"name": GATE}]}
    if at is not None:
        spec = {"containers": [], "nodeSelector": dict(zip(LEVELS, at, strict=True))}
    meta = {"name": name, "namespace": "ns", "labels": {"kueue.x-k8s.io/podset": pod_set, **labels}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": phase}}


def workload(pod_sets: Sequence[tuple[str, Obj, dict[Values, int]]], unhealthy: Sequence[str] = ()) -> Obj:
    """(name, topologyRequest, pods by domain)."""
    assignments = [
        {
            "name": name,
            "count": sum(places.values()),
            "topologyAssignment": {
                "levels": list(LEVELS),
                "domains": [{"values": list(values), "count": n} for values, n in places.items()],
            },
        }
        for name, _, places in pod_sets
    ]
    return {
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {
            "podSets": [
                {"name": name, "count": sum(p.values()), "topologyRequest": r} for name, r, p in pod_sets
            ]
        },
        "status": {
            "conditions": [{"type": "Admitted", "status": "True", "reason": "Admitted"}],
            "admission": {"podSetAssignments": assignments},
            "unhealthyNodes": [{"name": n} for n in unhealthy],
        },
    }


def went(of: Obj, pods: Sequence[Obj]) -> dict[str, Values]:
    """Pods that were let go, and where to; nothing else of them is another than before."""
    found: dict[str, Values] = {}
    known = {p["metadata"]["name"]: p for p in pods}
    for action in ungated(of, pods):
        assert isinstance(action, Replace)
        new, name = action.obj, action.obj["metadata"]["name"]
        assert name not in found
        selector = new["spec"]["nodeSelector"]
        found[name] = tuple(selector[level] for level in LEVELS)
        plain = {k: v for k, v in known[name]["spec"].items() if k != "schedulingGates"}
        assert new == {**known[name], "spec": {**plain, "nodeSelector": selector}}
    return found


# The reading.


def by_rank(
    pods: Sequence[Obj], request: Obj, places: Sequence[Values], first: int, end: int
) -> dict[str, Values] | None:
    """Every pod's place by its rank; None where one has none, or two have one, or one is elsewhere already."""
    label, of_group = request.get("podIndexLabel"), request.get("subGroupIndexLabel")
    groups: int = request.get("subGroupCount") or 0
    if not label or (of_group and not groups):
        return None
    out: dict[str, Values] = {}
    ranks: set[int] = set()
    for one in pods:
        labels = one["metadata"]["labels"]
        if not labels.get(label, "").isdigit() or int(labels[label]) >= end:
            return None
        rank = int(labels[label]) - first
        if of_group:
            size = len(places) // groups
            if not labels.get(of_group, "").isdigit() or int(labels[of_group]) >= groups:
                return None
            if int(labels[label]) >= size:
                return None
            rank += int(labels[of_group]) * size
        if rank not in range(len(places)) or rank in ranks:
            return None
        ranks.add(rank)
        out[one["metadata"]["name"]] = places[rank]
        at = one["spec"].get("nodeSelector")
        if at is not None and tuple(at[level] for level in LEVELS) != places[rank]:
            return None
    return out


def read(
    pod_sets: Sequence[tuple[str, Obj, dict[Values, int]]], pods: Sequence[Obj], unhealthy: Sequence[str]
) -> dict[str, Values]:
    sizes = {name: sum(places.values()) for name, _, places in pod_sets}
    grouped = [name for name, request, _ in pod_sets if request.get("podSetGroupName")]
    out: dict[str, Values] = {}
    for name, request, domains in pod_sets:
        own = [
            p
            for p in pods
            if p["metadata"]["labels"]["kueue.x-k8s.io/podset"] == name and p["status"]["phase"] == "Pending"
        ]
        first = 0
        if len(grouped) == 2 and name in grouped:
            # The smaller of two comes first; of two alike, the one that is named first.
            other = next(n for n in grouped if n != name)
            is_second = grouped.index(name) == 1
            if sizes[name] > sizes[other] or (sizes[name] == sizes[other] and is_second):
                first = sizes[other]
        moved = int(own[0]["metadata"].get("annotations", {}).get(OFFSET, "0")) if own else 0
        places = [values for values, n in domains.items() for _ in range(n)]
        ranked = by_rank(own, request, places, first + moved, first + moved + sizes[name])
        gated = [p["metadata"]["name"] for p in own if "schedulingGates" in p["spec"]]
        if ranked is None:
            there = Counter(
                tuple(p["spec"]["nodeSelector"][level] for level in LEVELS)
                for p in own
                if "nodeSelector" in p["spec"]
            )
            left = [v for v, n in domains.items() for _ in range(n - there[v])]
            ranked = dict(zip(gated, left, strict=False))
        out |= {n: ranked[n] for n in gated if n in ranked and ranked[n][-1] not in unhealthy}
    return out


def drawn(draw: Random) -> tuple[list[tuple[str, Obj, dict[Values, int]]], list[Obj]]:
    names = ["a", "b"][: draw.randint(1, 2)]
    grouped = draw.random() < 0.6
    pod_sets: list[tuple[str, Obj, dict[Values, int]]] = []
    pods: list[Obj] = []
    for name in names:
        places: dict[Values, int] = {
            (f"r{i}", f"h{name}{i}"): draw.randint(1, 2) for i in range(draw.randint(1, 3))
        }
        count = sum(places.values())
        request: Obj = {"podIndexLabel": "index"} if draw.random() < 0.8 else {}
        groups = draw.choice([g for g in (1, 2, 3) if g <= count])
        if draw.random() < 0.4:
            request |= {"subGroupIndexLabel": "group", "subGroupCount": groups if draw.random() < 0.9 else 0}
        if grouped:
            request["podSetGroupName"] = "g"
        pod_sets.append((name, request, places))
    shift = draw.choice((0, 0, 0, 2))
    for name, request, places in pod_sets:
        count = sum(places.values())
        sizes = [sum(p.values()) for _, _, p in pod_sets]
        first = sizes[1 - names.index(name)] if grouped and len(names) == 2 and draw.random() < 0.6 else 0
        groups = request.get("subGroupCount") or 1
        values = list(places)
        for i in range(draw.randint(0, count)):
            index = i % (count // groups) if "subGroupIndexLabel" in request else i + first + shift
            if draw.random() < 0.05:
                index = draw.randint(0, 9)
            labels = {
                "index": str(index) if draw.random() < 0.97 else "x",
                "group": str(i // (count // groups)),
            }
            flat = [v for v, n in places.items() for _ in range(n)]
            at = None
            if draw.random() < 0.3:
                at = flat[i] if draw.random() < 0.8 else draw.choice(values)
            phase = draw.choice(("Pending", "Pending", "Pending", "Failed", "Succeeded"))
            one = pod(f"{name}{i}", name, at=at, phase=phase, **labels)
            if shift:
                one["metadata"]["annotations"] = {OFFSET: str(shift)}
            pods.append(one)
    draw.shuffle(pods)
    return pod_sets, pods


@pytest.mark.parametrize("seed", range(4))
def test_pods_go_where_their_rank_says_or_one_domain_after_the_other(seed: int) -> None:
    draw = Random(seed)
    let_go = 0
    for _ in range(500):
        pod_sets, pods = drawn(draw)
        hosts = [values[-1] for _, _, places in pod_sets for values in places]
        unhealthy = [draw.choice(hosts)] if draw.random() < 0.2 else []
        wanted = read(pod_sets, pods, unhealthy)
        assert went(workload(pod_sets, unhealthy), pods) == wanted, (pod_sets, pods)
        let_go += len(wanted)
    assert let_go > 300


def test_gates_of_others_stay_and_selectors_too() -> None:
    of = workload([("main", {}, {("r", "h"): 1})])
    one = pod("p", "main")
    one["spec"] |= {
        "schedulingGates": [{"name": "x"}, {"name": GATE}, {"name": "y"}],
        "nodeSelector": {"a": "b"},
    }
    (action,) = ungated(of, [one])
    assert isinstance(action, Replace)
    assert action.obj["spec"] == {
        "containers": [],
        "schedulingGates": [{"name": "x"}, {"name": "y"}],
        "nodeSelector": {"a": "b", "rack": "r", HOST: "h"},
    }


def test_nobody_is_let_go_before_the_workload_is_admitted_with_a_topology() -> None:
    of, one = workload([("main", {}, {("r", "h"): 1})]), pod("p", "main")
    assert is_admitted_with_topology(of) and len(ungated(of, [one])) == 1
    waits = {**of, "status": {**of["status"], "conditions": []}}
    plain = {"name": "main", "count": 1}
    bare = {**of, "status": {**of["status"], "admission": {"podSetAssignments": [plain]}}}
    nothing = {**of, "status": {"conditions": of["status"]["conditions"]}}
    for other in (waits, bare, nothing):
        assert not is_admitted_with_topology(other) and ungated(other, [one]) == []
    both = [*of["status"]["admission"]["podSetAssignments"], {"name": "else", "count": 1}]
    mixed = {**of, "status": {**of["status"], "admission": {"podSetAssignments": both}}}
    assert is_admitted_with_topology(mixed)
    assert list(went(mixed, [one, pod("q", "else")])) == ["p"]
