"""Each score, worked out by hand: weighted as in the default profile, except where `raw` says so."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from judging import Cluster, judge

from builders import GPU, HOSTNAME, ZONE, NodeBuilder, PodBuilder, has, labels_where, node, pod
from fairway.scheduling.profile import (
    DEFAULT_PROFILE,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    FitStrategy,
    Profile,
)

N1, N2, N3 = "n1", "n2", "n3"


@dataclass
class Case:
    """`want`: the score of each node by this profile's plugins (alone: TaintToleration's 300 is not there)."""

    plugins: dict[str, int]
    nodes: list[NodeBuilder]
    pod: PodBuilder
    want: dict[str, int]
    running: dict[str, list[PodBuilder]] = field(default_factory=dict)
    profile: Profile = DEFAULT_PROFILE


def _web(name: str) -> PodBuilder:
    return pod(name).label(app="web")


def _small(name: str) -> NodeBuilder:
    return node(name).cpu(10).memory("1000Mi")


def _fit(strategy: FitStrategy) -> Profile:
    return replace(DEFAULT_PROFILE, fit=strategy)


FIT = {"NodeResourcesFit": 1}
BALANCE = {"NodeResourcesBalancedAllocation": 1}
MOST = _fit(FitStrategy(MOST_ALLOCATED))
GPU_MOST = _fit(FitStrategy(MOST_ALLOCATED, ((GPU, 5), ("cpu", 1))))
RATIO = _fit(FitStrategy(REQUESTED_TO_CAPACITY_RATIO, (("cpu", 1),), ((0, 0), (50, 10), (100, 0))))

CASES = {
    "least allocated: the mean of cpu and memory, rounded down": Case(
        FIT, [_small(N1)], pod("p").cpu(2).memory("501Mi"), {N1: (80 + 49) // 2}
    ),
    "least allocated: a container that asks for nothing counts 100m and 200Mi": Case(
        FIT, [_small(N1)], pod("p"), {N1: (99 + 80) // 2}
    ),
    "least allocated: so does one already there": Case(
        FIT, [_small(N1)], pod("p").cpu(1).memory("100Mi"), {N1: (89 + 70) // 2}, {N1: [pod("a")]}
    ),
    "least allocated: an explicit zero stays zero": Case(
        FIT, [_small(N1)], pod("p").cpu(0).memory(0), {N1: 100}
    ),
    "least allocated: what would not fit scores zero": Case(
        FIT, [_small(N1).memory("100Mi")], pod("p").cpu(5), {N1: 25}
    ),
    "least allocated: pod-level requests do not reach the score of an incoming pod": Case(
        FIT, [_small(N1)], pod("p").spec(resources={"requests": {"cpu": "5"}}), {N1: (99 + 80) // 2}
    ),
    "least allocated: but they count once it is there": Case(
        FIT,
        [_small(N1)],
        pod("p").cpu(0).memory(0),
        {N1: (50 + 80) // 2},
        {N1: [pod("a").spec(resources={"requests": {"cpu": "5"}})]},
    ),
    "least allocated: overhead counts": Case(
        FIT, [_small(N1)], pod("p").cpu(0).memory(0).spec(overhead={"cpu": "1"}), {N1: (90 + 100) // 2}
    ),
    "most allocated": Case(
        FIT, [_small(N1)], pod("p").cpu(2).memory("501Mi"), {N1: (20 + 50) // 2}, profile=MOST
    ),
    "most allocated: devices by weight, only where asked for": Case(
        FIT, [_small(N1).gpu(4)], pod("p").cpu(1).gpu(2), {N1: (50 * 5 + 10) // 6}, profile=GPU_MOST
    ),
    "most allocated: a pod without devices ignores them": Case(
        FIT, [_small(N1).gpu(4)], pod("p").cpu(1), {N1: 10}, profile=GPU_MOST
    ),
    "ratio: on a point": Case(FIT, [_small(N1)], pod("p").cpu(5), {N1: 100}, profile=RATIO),
    "ratio: between points": Case(FIT, [_small(N1)], pod("p").cpu("2500m"), {N1: 50}, profile=RATIO),
    "ratio: falling": Case(FIT, [_small(N1)], pod("p").cpu("7500m"), {N1: 50}, profile=RATIO),
    "ratio: beyond the capacity is full": Case(
        FIT, [node(N1).cpu("50m").memory("1Gi")], pod("p"), {N1: 0}, profile=RATIO
    ),
    "balance: no change is 75": Case(BALANCE, [_small(N1)], pod("p").cpu(1).memory("100Mi"), {N1: 75}),
    "balance: worse goes towards 50": Case(
        BALANCE, [_small(N1)], pod("p").cpu(4), {N1: 50 + (50 + 80 - 100) // 2}
    ),
    "balance: better goes towards 100": Case(
        BALANCE,
        [_small(N1)],
        pod("p").memory("400Mi"),
        {N1: 50 + (50 + 100 - 80) // 2},
        {N1: [pod("a").cpu(4)]},
    ),
    "balance: a pod that asks for neither has no say": Case(BALANCE, [_small(N1)], pod("p"), {N1: 0}),
    "balance: three resources by standard deviation": Case(
        BALANCE,
        [_small(N1).gpu(4)],
        pod("p").cpu(1).memory("100Mi").gpu(4),
        {N1: 50 + (50 + 57 - 100) // 2},
        profile=replace(DEFAULT_PROFILE, balanced_resources=("cpu", "memory", GPU)),
    ),
    "balance: devices that the pod does not ask for are left out": Case(
        BALANCE,
        [_small(N1).gpu(4)],
        pod("p").cpu(1).memory("100Mi"),
        {N1: 75},
        {N1: [pod("a").gpu(4)]},
        profile=replace(DEFAULT_PROFILE, balanced_resources=("cpu", "memory", GPU)),
    ),
    "taints: fewer preferred-against taints are better": Case(
        {"TaintToleration": 1},
        [
            node(N1),
            node(N2).taint("a", effect="PreferNoSchedule"),
            node(N3).taint("a", effect="PreferNoSchedule").taint("b", effect="PreferNoSchedule"),
        ],
        pod("p"),
        {N1: 100, N2: 50, N3: 0},
    ),
    "taints: tolerated ones do not count": Case(
        {"TaintToleration": 1},
        [node(N1).taint("a", effect="PreferNoSchedule"), node(N2).taint("b", effect="PreferNoSchedule")],
        pod("p").tolerate("a", operator="Exists"),
        {N1: 100, N2: 0},
    ),
    "taints: a toleration of another effect does not help": Case(
        {"TaintToleration": 1},
        [node(N1).taint("a", effect="PreferNoSchedule"), node(N2)],
        pod("p").tolerate("a", operator="Exists", effect="NoSchedule"),
        {N1: 0, N2: 100},
    ),
    "node affinity: weights add up, and the best is 100": Case(
        {"NodeAffinity": 1},
        [node(N1).zone("a").label(disk="ssd"), node(N2).zone("a"), node(N3)],
        pod("p")
        .prefer_node(10, labels_where(has(ZONE, "In", "a")))
        .prefer_node(30, labels_where(has("disk", "Exists"))),
        {N1: 100, N2: 25, N3: 0},
    ),
    "node affinity: an empty preference adds nothing": Case(
        {"NodeAffinity": 1}, [node(N1), node(N2)], pod("p").prefer_node(10, {}), {N1: 0, N2: 0}
    ),
    "images: below 23 MiB does not count": Case(
        {"ImageLocality": 1}, [node(N1).image("app:latest", mib=22), node(N2)], pod("p"), {N1: 0, N2: 0}
    ),
    "images: scaled by how many nodes hold it": Case(
        {"ImageLocality": 1},
        [node(N1).image("app:latest", mib=1000), node(N2)],
        pod("p"),
        {N1: 100 * (500 - 23) // (1000 - 23), N2: 0},
    ),
    "images: everywhere counts in full": Case(
        {"ImageLocality": 1},
        [node(N1).image("app:latest", mib=1000), node(N2).image("app:latest", mib=1000)],
        pod("p"),
        {N1: 100, N2: 100},
    ),
    "images: the tag is latest where none is named": Case(
        {"ImageLocality": 1},
        [node(N1).image("a:5000/app:latest", mib=1000)],
        pod("p").image("a:5000/app"),
        {N1: 100},
    ),
    "images: a node's names are taken as they are": Case(
        {"ImageLocality": 1}, [node(N1).image("app", mib=1000)], pod("p"), {N1: 0}
    ),
    "images: nodes that disagree on the size: the oldest is believed": Case(
        {"ImageLocality": 1},
        [node(N1).image("app:latest", mib=1000), node(N2).image("app:latest", mib=50)],
        pod("p"),
        {N1: 100, N2: 100},
    ),
    "images: more containers need more": Case(
        {"ImageLocality": 1},
        [node(N1).image("app:latest", mib=1000)],
        pod("p").container(),
        {N1: 100 * (1000 - 23) // (2000 - 23)},
    ),
    "images: image volumes count": Case(
        {"ImageLocality": 1},
        [node(N1).image("model:1", mib=1000)],
        pod("p").spec(volumes=[{"name": "m", "image": {"reference": "model:1"}}]),
        {N1: 100},
    ),
    "spread: fewer matching pods are better": Case(
        {"PodTopologySpread": 1},
        [node(N1).zone("a"), node(N2).zone("b"), node(N3).zone("c")],
        _web("p").spread(ZONE, hard=False),
        # 2 × ln 5 rounds to 3, 1 × ln 5 to 2.
        {N1: 0, N2: 100 * (3 + 0 - 2) // 3, N3: 100},
        {N1: [_web("a"), _web("b")], N2: [_web("c")]},
    ),
    "spread: nothing there yet": Case(
        {"PodTopologySpread": 1},
        [node(N1).zone("a"), node(N2).zone("b")],
        _web("p").spread(ZONE, hard=False),
        {N1: 100, N2: 100},
    ),
    "spread: a node without the key scores nothing": Case(
        {"PodTopologySpread": 1},
        [node(N1).zone("a"), node(N2)],
        _web("p").spread(ZONE, hard=False),
        {N1: 100, N2: 0},
    ),
    "spread: the service's pods by default": Case(
        {"PodTopologySpread": 1},
        [node(N1).zone("a"), node(N2).zone("b")],
        _web("p"),
        # By host: 1 × ln 4 + 2; by zone: 1 × ln 4 + 4: 9 against 6.
        {N1: 100 * (9 + 6 - 9) // 9, N2: 100},
        {N1: [_web("a")]},
    ),
    "pods: near what it prefers": Case(
        {"InterPodAffinity": 1},
        [node(N1).zone("a"), node(N2).zone("b"), node(N3).zone("c")],
        pod("p").prefer_near(10, ZONE),
        {N1: 100, N2: 50, N3: 0},
        {N1: [_web("a"), _web("b")], N2: [_web("c")]},
    ),
    "pods: apart from what it shuns": Case(
        {"InterPodAffinity": 1},
        [node(N1).zone("a"), node(N2).zone("b")],
        pod("p").prefer_apart(10, ZONE),
        {N1: 0, N2: 100},
        {N1: [_web("a")]},
    ),
    "pods: those there have preferences, too": Case(
        {"InterPodAffinity": 1},
        [node(N1).zone("a"), node(N2).zone("b")],
        _web("p"),
        {N1: 0, N2: 100},
        {N1: [pod("a").prefer_apart(5, ZONE)], N2: [pod("b").prefer_near(5, ZONE)]},
    ),
    "pods: what those there require counts by the hard weight": Case(
        {"InterPodAffinity": 1},
        [node(N1).zone("a"), node(N2).zone("b")],
        _web("p"),
        {N1: 100, N2: 0},
        {N1: [_web("a").near(ZONE)]},
    ),
    "pods: nothing to choose between": Case(
        {"InterPodAffinity": 1},
        [node(N1).zone("a"), node(N2).zone("b")],
        pod("p").prefer_near(10, ZONE),
        {N1: 0, N2: 0},
        {N1: [_web("a")], N2: [_web("b")]},
    ),
    "pods: preferences of others can be ignored": Case(
        {"InterPodAffinity": 1},
        [node(N1).zone("a"), node(N2).zone("b")],
        _web("p"),
        {N1: 0, N2: 0},
        {N1: [pod("a").prefer_near(5, ZONE)]},
        profile=replace(DEFAULT_PROFILE, ignores_preferred_terms_of_existing_pods=True),
    ),
    **{
        f"pods: but not its own, {name}": Case(
            {"InterPodAffinity": 1},
            [node(N1).zone("a"), node(N2).zone("b")],
            wants,
            want,
            {N1: [_web("a").prefer_near(5, ZONE)]},
            profile=replace(DEFAULT_PROFILE, ignores_preferred_terms_of_existing_pods=True),
        )
        for name, wants, want in (
            ("near", pod("p").prefer_near(1, ZONE), {N1: 100, N2: 0}),
            ("apart", pod("p").prefer_apart(1, ZONE), {N1: 0, N2: 100}),
            ("both", _web("p").prefer_near(1, ZONE).prefer_apart(2, ZONE), {N1: 100, N2: 0}),
        )
    },
    "pods: the hard weight can be zero": Case(
        {"InterPodAffinity": 1},
        [node(N1).zone("a"), node(N2).zone("b")],
        _web("p"),
        {N1: 0, N2: 0},
        {N1: [_web("a").near(ZONE)]},
        profile=replace(DEFAULT_PROFILE, hard_pod_affinity_weight=0),
    ),
    "weights multiply": Case(
        {"NodeAffinity": 7, "NodeResourcesFit": 3},
        [_small(N1).zone("a"), _small(N2)],
        pod("p").cpu(0).memory(0).prefer_node(1, labels_where(has(ZONE, "Exists"))),
        {N1: 1000, N2: 300},
    ),
}

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"app": "web"}},
}


@pytest.mark.parametrize("name", CASES)
def test_score(name: str) -> None:
    case = CASES[name]
    profile = replace(case.profile, weights=case.plugins)
    others = [SERVICE] if "service" in name else []
    found = judge(case.nodes, case.pod, case.running, profile=profile, others=others)
    assert found.scores == case.want, found.parts


def test_the_best_node_wins_and_a_draw_decides_among_equals() -> None:
    nodes = [node(n).cpu(10).memory("10Gi") for n in (N1, N2, N3)]
    cluster = Cluster(nodes, {N1: [pod("a").cpu(5)]})
    placed = [cluster.judge(pod(f"p{draw}").cpu(1), draw).placed for draw in range(4)]
    assert [p.node for p in placed if p] == [N2, N3, N2, N3]
    assert [(p.tied, p.feasible) for p in placed if p] == [(2, 3)] * 4


def test_one_feasible_node_is_not_scored() -> None:
    placed = judge([node(N1), node(N2).cordoned()], pod("p")).placed
    assert placed is not None
    assert (placed.node, placed.total, placed.feasible) == (N1, 0, 1)


def test_host_spreading_counts_by_node() -> None:
    found = judge(
        [node(N1), node(N2)],
        _web("p").spread(HOSTNAME, hard=False),
        {N1: [_web("a")]},
        profile=replace(DEFAULT_PROFILE, weights={"PodTopologySpread": 1}),
    )
    assert found.scores == {N1: 0, N2: 100}
