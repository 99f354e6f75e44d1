"""The Cluster Autoscaler's decisions: which group, by how many nodes, why not, and which nodes go."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Obj
from fairway.kube.timestamps import MINUTE_US, SECOND_US, rfc3339
from fairway.provisioning.clusterautoscaler import events, statustext
from fairway.provisioning.clusterautoscaler.balancing import are_similar, balanced
from fairway.provisioning.clusterautoscaler.draining import blocking_pod
from fairway.provisioning.clusterautoscaler.estimating import estimate
from fairway.provisioning.clusterautoscaler.expanders import read_priorities
from fairway.provisioning.clusterautoscaler.groups import NodeGroup, NodeView, Options, Seat
from fairway.provisioning.clusterautoscaler.scaledown import due, unneeded, utilization
from fairway.provisioning.clusterautoscaler.scaleup import are_new, scale_up
from fairway.provisioning.clusterautoscaler.snapshot import by_kind
from fairway.provisioning.karpenter.disruption.evictions import budgets_of
from fairway.provisioning.karpenter.podfacts import PodFacts, Shapes, facts_of, requests_of

GIB = 2**30


def pod(name: str, cpu: str = "1", gpu: int = 0, **more: Any) -> Obj:
    requests = {"cpu": cpu, "memory": "1Gi", **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}], **more.pop("spec", {})}
    owner = [{"kind": more.pop("owner", "Job"), "name": "o", "controller": True, "uid": "u"}]
    meta = {"name": name, "namespace": more.pop("namespace", "default"), "ownerReferences": owner, **more}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}


def seat(name: str, cpu: int = 4, gpu: int = 0, pods: tuple[Obj, ...] = (), **labels: str) -> Seat:
    there = {"cpu": cpu * 1000, "memory": 16 * GIB, "pods": 110, **({"nvidia.com/gpu": gpu} if gpu else {})}
    used: dict[str, int] = {}
    for p in pods:
        for n, v in requests_of(p["spec"]).items():
            used[n] = used.get(n, 0) + v
    return Seat(name, labels, (), there, there, used)


def group(name: str, most: int = 5, target: int = 0, price: int | None = 100, **seat_: Any) -> NodeGroup:
    return NodeGroup(name, 0, most, target, seat(name, **seat_), price)


def facts(*pods: Obj) -> list[PodFacts]:
    shapes = Shapes()
    return [facts_of(p, shapes.of(p)) for p in pods]


def node(name: str, *pods: Obj, cpu: int = 4, gpu: int = 0, group: str = "g", **more: Any) -> NodeView:
    return NodeView(seat(name, cpu, gpu, pods), group, pods, **more)


def test_pods_fill_nodes_first_fit_the_largest_kinds_first() -> None:
    waiting = facts(*(pod(f"a{i}", "3") for i in range(2)), *(pod(f"b{i}", "1") for i in range(3)))
    found = estimate(by_kind(waiting), seat("t"), 10)
    assert (found.nodes, len(found.pods)) == (3, 5)
    capped = estimate(by_kind(waiting), seat("t"), 2)
    assert (capped.nodes, len(capped.pods)) == (2, 4)


def test_a_kind_that_tolerates_none_of_its_own_gets_a_node_each() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    waiting = facts(*(pod(f"a{i}", labels={"app": "x"}, spec={"affinity": affinity}) for i in range(3)))
    assert estimate(by_kind(waiting), seat("t"), 10).nodes == 3


# name → (expander, the group chosen): three pods of one CPU
CHOICES = {
    "least-waste takes the smallest machines": ("least-waste", "small"),
    "price takes the cheapest": ("price", "cheap"),
    "most-pods takes who holds most": ("most-pods", "large"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_expanders(name: str) -> None:
    expander, wanted = CHOICES[name]
    groups = [
        group("small", cpu=3, most=1 if expander == "most-pods" else 5, price=900_000),
        group("large", cpu=32, price=900_000),
        group("cheap", cpu=4, most=1 if expander == "most-pods" else 5, price=1),
    ]
    count = 6 if expander == "most-pods" else 3
    decided = scale_up(
        facts(*(pod(f"p{i}") for i in range(count))),
        groups,
        Options(expanders=(expander,)),
        0.0,
        nodes_total=0,
    )
    assert [r.group for r in decided.resizes] == [wanted]


def test_the_priority_expander_reads_its_config_map() -> None:
    priorities = read_priorities({"priorities": "10: ['.*']\n50: ['spot-.*']\n"})
    assert not isinstance(priorities, str)
    groups = [group("on-demand"), group("spot-a")]
    options = Options(expanders=("priority",))
    decided = scale_up(facts(pod("p")), groups, options, 0.0, nodes_total=0, priorities=priorities)
    assert [str(r) for r in decided.resizes] == ["{spot-a 0->1 (max: 5)}"]
    assert "doesn't contain priorities key" in str(read_priorities({}))
    assert "Can't compile regexp" in str(read_priorities({"priorities": "1: ['(']"}))


def test_pods_no_group_can_help_are_told_why() -> None:
    groups = [group("full", most=1, target=1), group("small"), group("cpu-only")]
    decided = scale_up(facts(pod("p", gpu=1)), groups, Options(), 0.0, nodes_total=1)
    assert [m for _, m in decided.unhelped] == [
        "2 Insufficient nvidia.com/gpu, 1 max node group size reached"
    ]
    none_left = scale_up(facts(pod("p")), groups, Options(max_nodes_total=1), 0.0, nodes_total=1)
    assert none_left.unhelped[0][1] == "max total nodes in cluster reached"


def test_similar_groups_grow_evenly_within_their_maxima() -> None:
    a, b = seat("a", zone="x", **{"topology.kubernetes.io/zone": "1"}), seat("b", zone="x")
    assert are_similar(a, b)
    assert not are_similar(a, seat("c", zone="y"))
    sizes = balanced([group("a", most=2, target=1), group("b", most=9), group("c", most=3, target=3)], 5)
    assert [(g.name, size) for g, size in sizes] == [("a", 2), ("b", 4)]


BLOCKS: dict[str, tuple[Obj, str]] = {
    "without a controller": (
        {"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": []}, "status": {}},
        "NotReplicated",
    ),
    "of kube-system without a budget": (pod("p", namespace="kube-system"), "UnmovableKubeSystemPod"),
    "said not to be safe": (
        pod("p", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
        "NotSafeToEvictAnnotation",
    ),
    "with local storage": (
        pod("p", spec={"volumes": [{"name": "v", "emptyDir": {}}]}),
        "LocalStorageRequested",
    ),
    "with local storage that is named": (
        pod(
            "p",
            spec={"volumes": [{"name": "v", "emptyDir": {}}]},
            annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "v"},
        ),
        "",
    ),
    "with storage in memory": (
        pod("p", spec={"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}),
        "",
    ),
    "of a DaemonSet": (pod("p", owner="DaemonSet", namespace="kube-system"), ""),
    "of a custom controller": (pod("p", owner="RayCluster"), "NotReplicated"),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_which_pods_keep_their_node(name: str) -> None:
    obj, reason = BLOCKS[name]
    found = blocking_pod([obj], (), Options(), 0)
    assert (found.reason if found else "") == reason


def test_a_budget_is_spent_once_per_pod() -> None:
    budget = budgets_of(
        [
            {
                "metadata": {"name": "b", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "x"}}},
                "status": {"disruptionsAllowed": 1},
            }
        ]
    )
    pods = [pod(f"p{i}", labels={"app": "x"}) for i in range(2)]
    assert blocking_pod(pods[:1], budget, Options(), 0) is None
    found = blocking_pod(pods, budget, Options(), 0)
    assert found is not None and found.reason == "NotEnoughPdb"


def test_utilization_counts_gpus_alone_where_there_are_any() -> None:
    assert utilization(node("n", pod("p", "3", gpu=1), gpu=4), Options()).share == 0.25
    of_cpu = utilization(node("n", pod("p", "3")), Options())
    assert (of_cpu.share, str(of_cpu)) == (0.75, "{0.75 0.0625 0 0 cpu 0.75}")


def test_nodes_are_unneeded_when_their_pods_fit_elsewhere_once() -> None:
    nodes = [
        node("busy", pod("a", "3")),
        node("half", pod("b", "1")),
        node("other", pod("c", "2")),
        node("pinned", no_scale_down=True),
        node("foreign", group=""),
        node("idle"),
    ]
    found = unneeded(nodes, (), Options(), 0)
    assert [r.node for r in found.removable] == ["idle", "half", "other"]
    assert {n: why for n, (why, _) in found.kept.items()} == {
        "busy": "NotUnderutilized",
        "pinned": "ScaleDownDisabledAnnotation",
        "foreign": "NotAutoscaled",
    }


def test_empty_nodes_go_together_one_with_pods_at_a_time_never_below_the_minimum() -> None:
    nodes = [
        node("e1"),
        node("e2"),
        node("p1", pod("a")),
        node("p2", pod("b")),
        node("stay", cpu=32, group=""),
    ]
    found = unneeded(nodes, (), Options(), 0).removable
    since = {r.node: 0 for r in found}
    groups = [NodeGroup("g", 0, 9, 4, seat("t"))]

    def gone(least: int, now_us: int) -> list[str]:
        sized = [NodeGroup("g", least, 9, 4, groups[0].template)]
        return [r.node for r in due(found, since, sized, {}, Options(), now_us, going={})]

    assert gone(0, 9 * MINUTE_US) == []
    assert gone(0, 10 * MINUTE_US) == ["e1", "e2", "p1"]
    assert gone(3, 10 * MINUTE_US) == ["e1"]
    # Ten at once, one of them with pods, those that are going already included.
    left = due(found, since, groups, {}, Options(), 10 * MINUTE_US, going={"g": 8}, draining=1)
    assert left == ()
    roomy = [NodeGroup("g", 0, 99, 50, groups[0].template)]
    left = due(found, since, roomy, {}, Options(), 10 * MINUTE_US, going={"g": 9}, draining=1)
    assert [r.node for r in left] == ["e1"]


@pytest.mark.parametrize(
    ("ages", "gpu", "want"),
    [
        ((1,), 0, True),
        ((3,), 0, False),
        ((1, 3), 0, False),
        ((3,), 1, True),
        ((29, 5), 1, True),
        ((31, 1), 1, False),
    ],
)
def test_new_pods_are_waited_for_longer_where_they_ask_for_gpus(
    ages: tuple[int, ...], gpu: int, want: bool
) -> None:
    now_us = 1_000 * SECOND_US
    waiting = facts(
        *(
            pod(f"p{i}", gpu=gpu, creationTimestamp=rfc3339(now_us - age * SECOND_US))
            for i, age in enumerate(ages)
        )
    )
    assert are_new(waiting, now_us) is want


def test_words_about_nodes_that_go() -> None:
    used = utilization(node("n", pod("p", "3", gpu=1), gpu=8), Options())
    assert events.removing("n", used, ["a", "b"]).message == (
        "Scale-down: removing node n, utilization: {0 0 0.125 0 nvidia.com/gpu 0.125}, pods to reschedule: a,b"
    )
    refused = [("default/a", "Cannot evict pod as it would violate the pod's disruption budget.")]
    assert events.not_evicted("n", refused).message == (
        "failed to drain and delete node: Failed to drain node /n, due to following errors: "
        "[failed to evict pod default/a within allowed timeout "
        "(last error: Cannot evict pod as it would violate the pod's disruption budget.)]"
    )


def test_the_status_says_since_when_it_is_what_it_is() -> None:
    groups = [group("g", target=2), group("h")]
    nodes = [node("a"), node("b", is_ready=False)]
    failed = {"h": ("placeholder-cannot-be-fulfilled", "no more")}
    first = statustext.status_of(groups, nodes, [], failed, 1_500_000)
    assert first["time"] == "1970-01-01 00:00:01.5 +0000 UTC"
    g, h = first["nodeGroups"]
    assert (g["health"]["cloudProviderTarget"], g["health"]["nodeCounts"]["registered"]["ready"]) == (2, 1)
    assert h["scaleUp"] == {
        "status": "Backoff",
        "backoffInfo": {"errorCode": "placeholder-cannot-be-fulfilled", "errorMessage": "no more"},
        "lastProbeTime": "1970-01-01T00:00:01.5Z",
        "lastTransitionTime": "1970-01-01T00:00:01.5Z",
    }
    then = statustext.status_of(groups, nodes, ["a"], {}, 11_000_000, first)
    assert then["nodeGroups"][1]["scaleUp"]["lastTransitionTime"] == "1970-01-01T00:00:11Z"
    assert then["nodeGroups"][0]["health"]["lastTransitionTime"] == "1970-01-01T00:00:01.5Z"
    assert then["clusterWide"]["scaleDown"] == {
        "status": "CandidatesPresent",
        "candidates": 1,
        "lastProbeTime": "1970-01-01T00:00:11Z",
        "lastTransitionTime": "1970-01-01T00:00:11Z",
    }


@pytest.mark.parametrize(
    ("unready", "nodes", "want"),
    [(3, 3, True), (4, 8, False), (4, 9, True), (0, 0, True), (9, 20, True), (10, 20, False)],
)
def test_too_many_unready_nodes_stop_the_autoscaler(unready: int, nodes: int, *, want: bool) -> None:
    views = [node(f"n{i}", is_ready=i >= unready) for i in range(nodes)]
    assert statustext.is_healthy(views) is want


@pytest.mark.parametrize(("age_s", "reason"), [(3500, "UnmovableKubeSystemPod"), (3700, "")])
def test_a_system_pod_keeps_its_node_for_an_hour(age_s: int, reason: str) -> None:
    now_us = 10_000 * SECOND_US
    system = pod("dns", namespace="kube-system", creationTimestamp=rfc3339(now_us - age_s * SECOND_US))
    found = blocking_pod([system], (), Options(), now_us)
    assert (found.reason if found else "") == reason
