"""Both sides of what Karpenter and Cluster Autoscaler ask of pods, nodes and claims, and figures by their formulas."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import test_cluster_autoscaler as autoscaler
import yaml
from karpenterworlds import NOW_US, context, kind, pod, pool, pool_object, solve, state_node, world

from fairway.kube.objects import Obj
from fairway.kube.taints import Taint, parse_taints
from fairway.kube.timestamps import MINUTE_US
from fairway.provisioning import metrics
from fairway.provisioning.clusterautoscaler import events, statustext
from fairway.provisioning.clusterautoscaler.estimating import estimate
from fairway.provisioning.clusterautoscaler.fitting import Room
from fairway.provisioning.clusterautoscaler.groups import NodeGroup, Options, Seat
from fairway.provisioning.clusterautoscaler.scaledown import Removable, due, unneeded, utilization
from fairway.provisioning.clusterautoscaler.scaleup import Resize, ScaleUp, scale_up
from fairway.provisioning.clusterautoscaler.snapshot import by_kind
from fairway.provisioning.karpenter.claimfacts import ClaimFacts
from fairway.provisioning.karpenter.disruption.balanced import can_be_worth_it, is_worth_it, score
from fairway.provisioning.karpenter.disruption.candidates import GRACEFUL, Candidate, candidates
from fairway.provisioning.karpenter.disruption.commands import Command
from fairway.provisioning.karpenter.disruption.context import DisruptionContext
from fairway.provisioning.karpenter.disruption.methods import decide, eligible
from fairway.provisioning.karpenter.disruption.recheck import Abandoned, recheck
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.nodepools import node_pool
from fairway.provisioning.karpenter.nodes import Nodes
from fairway.provisioning.karpenter.podfacts import is_provisionable, is_reschedulable
from fairway.provisioning.karpenter.statenode import StateNode, effective_taints
from fairway.provisioning.karpenter.world import World

GPU = "nvidia.com/gpu"

# Pods


def _owned(by: str) -> Obj:
    return {"ownerReferences": [{"kind": "Job"}, {"kind": by}]} if by else {}


def test_which_pods_open_nodes() -> None:
    unschedulable = {"type": "PodScheduled", "reason": "Unschedulable"}
    for owner, node, nominated, condition in product(
        ("", "ReplicaSet", "DaemonSet", "Node"),
        ("", "n"),
        ("", "n"),
        (
            None,
            unschedulable,
            {**unschedulable, "type": "Ready"},
            {**unschedulable, "reason": "SchedulingGated"},
        ),
    ):
        found = {
            "metadata": _owned(owner),
            "spec": {"nodeName": node},
            "status": {"nominatedNodeName": nominated, "conditions": [condition] if condition else []},
        }
        opens = (
            not node and not nominated and condition == unschedulable and owner not in ("DaemonSet", "Node")
        )
        assert is_provisionable(found) is opens
    assert not is_provisionable({"metadata": {}})


def test_which_pods_would_need_another_node() -> None:
    for owner, phase, going in product(
        ("", "DaemonSet", "Node", "StatefulSet"), ("", "Running", "Failed", "Succeeded"), (False, True)
    ):
        meta = {**_owned(owner), **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {})}
        is_alive = phase in ("", "Running") and not going
        needs = is_alive or (going and owner == "StatefulSet")
        moves = needs and owner not in ("DaemonSet", "Node")
        assert is_reschedulable({"metadata": meta, "status": {"phase": phase}}) is moves


def test_taints_that_a_node_will_lose_do_not_count_before_it_is_initialized() -> None:
    raw: list[dict[str, object]] = [
        {"key": "own", "effect": "NoSchedule"},
        {"key": "starting", "effect": "NoSchedule"},
        {"key": "starting", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ]
    startup: list[dict[str, object]] = [{"key": "starting", "effect": "NoSchedule", "value": "x"}]
    assert effective_taints(raw, startup, initialized=True) == parse_taints(raw)
    assert effective_taints(raw, startup, initialized=False) == (
        Taint("own", "", "NoSchedule"),
        Taint("starting", "", "NoExecute"),
    )
    assert effective_taints(None, None, initialized=False) == ()


# Claims


def _claim(**conditions: str) -> Obj:
    said = [
        {"type": t, "status": s, "lastTransitionTime": "1970-01-01T00:00:05Z"} for t, s in conditions.items()
    ]
    return {"metadata": {"name": "c", "labels": {}}, "spec": {"a": 1}, "status": {"conditions": said}}


def test_a_claim_that_says_only_anew_how_its_node_rests() -> None:
    first = _claim(Launched="True", Consolidatable="False")
    before = ClaimFacts(first)

    def says(**changed: Any) -> bool:
        return ClaimFacts({**first, **changed}, before).is_restated(before)

    assert says()
    assert says(status=_claim(Launched="True", Consolidatable="True")["status"])
    assert says(status={**first["status"], "lastPodEventTime": "1970-01-01T00:00:09Z"})
    assert not says(status=_claim(Launched="False", Consolidatable="False")["status"])
    assert not says(status=_claim(Launched="True", Drifted="True")["status"])
    assert not says(spec={"a": 1})
    assert not says(metadata={"name": "c", "labels": {"karpenter.sh/nodepool": "p"}})
    assert not says(metadata={"name": "c", "labels": {}, "deletionTimestamp": "1970-01-01T00:00:09Z"})
    facts = ClaimFacts(_claim(Launched="True", Drifted="False"))
    assert (facts.is_true("Launched"), facts.is_true("Drifted"), facts.is_true("Ready")) == (
        True,
        False,
        False,
    )
    assert [facts.true_since_us(c) for c in ("Launched", "Drifted", "Ready")] == [5_000_000, 0, 0]
    told = ClaimFacts({"status": {"lastPodEventTime": "1970-01-01T00:00:09Z"}})
    assert (told.last_pod_event_us, told.name, told.pool) == (9_000_000, "", "")


# Disruption

SMALL, LARGE = kind("s.small", 4, price=200_000), kind("l.large", 16, price=800_000)
OPEN = {"budgets": [{"nodes": "100%"}]}
FREE = pool(disruption=OPEN)
BALANCED = pool(disruption={**OPEN, "consolidationPolicy": "Balanced"})


def _busy(name: str, of: Any = SMALL, pods: int = 1, cpu: str = "1", **state: Any) -> StateNode:
    held = tuple(pod(f"{name}-{i}", cpu, node=name) for i in range(pods))
    return state_node(name, of, held, **state)


def _context(nodes: list[StateNode], *pools: Any) -> DisruptionContext:
    return context(world([SMALL, LARGE], list(pools or (FREE,)), tuple(nodes)))


def _candidates(made: DisruptionContext) -> dict[str, Candidate]:
    return {c.name: c for c in candidates(made, GRACEFUL)[0]}


def test_a_balanced_pool_weighs_what_is_saved_against_what_is_moved() -> None:
    made = _context(
        [_busy("a", SMALL, 1), _busy("b", LARGE, 3), state_node("gone", kind("x.old", 4))], BALANCED
    )
    found = _candidates(made)
    a, b = found["a"], found["b"]
    disruption = sum(n.pod_facts.cost for n in made.world.nodes)
    for own, savings in (((a,), 200_000.0), ((b,), 300_000.0), ((a, b), 1_000_000.0), ((b,), 1.0)):
        share = savings / 1_000_000 / (sum(c.cost for c in own) / disruption)
        assert math.isclose(score(made, own, savings), share)
    assert score(made, (a,), 0) == score(made, (a,), -5) == 0
    for candidate in (a, b):
        worth = score(made, (candidate,), candidate.price) >= 0.5
        assert can_be_worth_it(made, candidate) is worth
        assert is_worth_it(made, Command("Underutilized", "single", (candidate,))) is worth
    free = _context([_busy("a", SMALL, 9), _busy("b", LARGE, 0)], FREE)
    assert can_be_worth_it(free, _candidates(free)["a"])
    # A pool whose nodes cost nothing is not judged beforehand.
    worthless = _context([_busy("a", kind("x.old", 4))], BALANCED)
    assert not _candidates(worthless) or can_be_worth_it(worthless, _candidates(worthless)["a"])


def test_every_balanced_pool_judges_its_own_part() -> None:
    other = pool("other", disruption={**OPEN, "consolidationPolicy": "Balanced"})
    plain = pool("plain", disruption=OPEN)
    cheap = [_busy("a", SMALL, 1), _busy("a2", LARGE, 1)]
    dear = [_busy("b", LARGE, 1, owner="other"), _busy("b2", SMALL, 5, owner="other")]
    made = _context([*cheap, *dear, _busy("c", SMALL, 3, owner="plain")], BALANCED, other, plain)
    found = _candidates(made)
    # Of its pool a is a fifth of the cost, and half of the disruption; b four fifths, and a sixth.
    for names, worth in (
        (("a",), False),
        (("b",), True),
        (("c",), True),
        (("b", "c"), True),
        (("a", "b"), False),
    ):
        command = Command("Underutilized", "multi", tuple(found[n] for n in names))
        assert is_worth_it(made, command) is worth, names


def test_how_many_nodes_each_reason_concerns() -> None:
    off = pool("off", disruption={"consolidateAfter": "Never"})
    nodes = [
        state_node("empty", SMALL),
        state_node("empty-drifted", SMALL, drifted_s=5),
        state_node("resting", SMALL, consolidatable=False),
        state_node("off", SMALL, owner="off"),
        _busy("busy"),
        _busy("drifted", drifted_s=5),
        _busy("drifted-off", drifted_s=5, owner="off"),
        _busy("promised", is_nominated=True, drifted_s=5),
    ]
    assert eligible(_context(nodes, FREE, off)) == {"Empty": 2, "Drifted": 3, "Underutilized": 2}
    assert eligible(_context([])) == {"Empty": 0, "Drifted": 0, "Underutilized": 0}


def test_what_a_command_says_of_itself_and_of_one_of_its_nodes() -> None:
    found = _candidates(_context([_busy("a"), _busy("b")]))
    one, both = (Command("Empty", "empty", tuple(found[n] for n in names)) for names in ("a", "ab"))
    assert (one.decision, one.text(), one.text_for("a")) == ("delete", "delete: [a]", "delete: [a]")
    assert both.text() == "delete: [a, b]"
    assert both.text_for("b") == "delete: [b] (part of 2-node consolidation)"
    assert (both.savings, both.names) == (400_000, ("a", "b"))
    assert Command("Empty", "empty", ()).decision == "no-op"


def test_nodes_that_drifted_go_the_first_one_first_within_budgets() -> None:
    def gone(nodes: list[StateNode], of: Any = FREE) -> str:
        command = decide(_context(nodes, of)).command
        return "" if command is None or command.method != "drift" else command.text()

    nodes = [_busy("a", drifted_s=5), _busy("b", drifted_s=50), _busy("c")]
    assert gone(nodes).startswith("replace: [b]") or gone(nodes) == "delete: [b]"
    empty_first = [*nodes, state_node("d", SMALL, drifted_s=1, consolidatable=False)]
    assert gone(empty_first) == "delete: [d]"
    shut = pool(disruption={"budgets": [{"nodes": "100%"}, {"nodes": "0", "reasons": ["Drifted"]}]})
    assert gone(nodes, shut) == ""


def test_commands_that_are_dropped_say_why() -> None:
    empty = decide(_context([state_node("a", SMALL), state_node("b", SMALL)])).command
    assert empty is not None and empty.method == "empty"
    shut = pool(disruption={"budgets": [{"nodes": "0"}]})
    one = pool(disruption={"budgets": [{"nodes": "1"}]})
    nodes = [state_node("a", SMALL), state_node("b", SMALL)]
    for later, of, want in (
        (nodes, FREE, "delete: [a, b]"),
        (nodes, one, "delete: [a]"),
        ([_busy("a"), _busy("b")], FREE, ("churn", "2 candidates are no longer valid")),
        (
            nodes,
            shut,
            (
                "budget",
                "2 candidates failed validation because it they were nominated for a pod or would violate "
                "disruption budgets",
            ),
        ),
    ):
        found = recheck(empty, _context(later, of))
        assert (found.text() if isinstance(found, Command) else (found.kind, found.message)) == want
    drifted = decide(_context([_busy("a", drifted_s=5)])).command
    assert drifted is not None and drifted.method == "drift"
    assert recheck(drifted, _context([], shut)) is drifted
    single = decide(_context([_busy("a", LARGE)])).command
    assert single is not None
    big = state_node("a", LARGE, (pod("huge", "99", node="a"),))
    found = recheck(single, _context([big]))
    assert isinstance(found, Abandoned) and found.kind == "scheduling"


# Where pods may be together


def _near(to: str, **where: Any) -> Obj:
    term = {
        "topologyKey": "topology.kubernetes.io/zone",
        "labelSelector": {"matchLabels": {"app": to}},
        **where,
    }
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize(
    ("where", "finds"),
    [
        ({}, True),
        ({"namespaces": ["default"]}, True),
        ({"namespaces": ["red"]}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"namespaces": ["default"], "namespaceSelector": {"matchLabels": {"team": "b"}}}, True),
    ],
)
def test_whom_a_pod_wants_to_be_near_is_of_namespaces_named_or_selected(where: Obj, finds: bool) -> None:
    friend = pod("friend", labels={"app": "db"}, node="n")
    there = state_node("n", SMALL, (friend,), zone="zone-2")
    fleets = {FREE.name: Fleet([SMALL])}
    namespaces = {"default": {"team": "a"}, "red": {"team": "b"}}
    made = World((FREE,), fleets, Nodes((there,)), namespaces=namespaces)
    found = solve(made, [pod("p", "3", affinity=_near("db", **where))])
    assert (not found.refused) is finds
    assert [len(pods) for _, pods in found.pods_on] == ([1] if finds else [])


@pytest.mark.parametrize(
    ("group", "kind_", "name"), list(product(("g.io", ""), ("NodeClass", ""), ("n", "")))
)
def test_nodes_bear_the_label_of_their_class_if_it_is_named_in_full(
    group: str, kind_: str, name: str
) -> None:
    obj = pool_object()
    obj["spec"]["template"]["spec"]["nodeClassRef"] = {"group": group, "kind": kind_, "name": name}
    label = {"g.io/nodeclass": "n"} if group and kind_ and name else {}
    assert {k: v for k, v in node_pool(obj).labels.items() if "nodeclass" in k or k.startswith("/")} == label


# Metrics


def test_families_have_the_labels_and_buckets_of_their_table() -> None:
    found = metrics.families()
    assert all(name == family.name for name, family in found.items())
    assert {f.type for f in found.values()} == {"counter", "gauge", "histogram", "summary"}
    assert found["karpenter_cluster_state_synced"].labels == ()
    assert found["karpenter_nodes_allocatable"].labels == (*metrics.NODE_LABELS, "resource_type")
    assert found["karpenter_pods_state"].labels == metrics.POD_LABELS
    assert found["karpenter_nodeclaims_created_total"].labels == ("reason", "nodepool", "min_values_relaxed")
    assert {name for name, f in found.items() if f.buckets} == {
        n for n, f in found.items() if f.type == "histogram"
    }
    assert found["karpenter_nodeclaims_termination_duration_seconds"].buckets == (
        1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048,
    )  # fmt: skip
    hours = [
        0.25,
        0.5,
        0.75,
        1,
        2,
        4,
        6,
        8,
        10,
        12,
        16,
        20,
        *(24 * d for d in (1, 2, 3, 5, 10, 15, 20, 25, 30)),
    ]
    assert found["karpenter_nodes_lifetime_duration_seconds"].buckets == tuple(3600.0 * h for h in hours)
    durations = found["karpenter_pods_bound_duration_seconds"].buckets
    assert (durations[0], durations[-1], len(durations)) == (0.005, 600.0, 45)
    assert list(durations) == sorted(durations)


# The Cluster Autoscaler grows


def _names(found: ScaleUp) -> list[str]:
    return [str(r) for r in found.resizes]


def _waiting(count: int, cpu: str = "1", **more: Any) -> list[Any]:
    return autoscaler.facts(*(autoscaler.pod(f"{cpu}-{i}", cpu, **more) for i in range(count)))


def test_similar_groups_count_only_where_groups_are_balanced() -> None:
    groups = [autoscaler.group(n, most=2, target=1) for n in ("a", "b")]
    groups.append(autoscaler.group("c", most=9, zone_like="other", price=1))
    alone = scale_up(_waiting(8), groups[:2], Options(), 0.0, nodes_total=2)
    assert (_names(alone), len(alone.triggered)) == (["{a 1->2 (max: 2)}"], 4)
    even = scale_up(_waiting(8), groups[:2], Options(balance_similar=True), 0.0, nodes_total=2)
    assert (_names(even), len(even.triggered)) == (["{a 1->2 (max: 2)}", "{b 1->2 (max: 2)}"], 8)
    shut = [groups[0], autoscaler.group("b", most=2, target=1)]
    shut[1] = NodeGroup("b", 0, 2, 1, shut[1].template, 100, unsafe="in backoff after failed scale-up")
    one = scale_up(_waiting(8), shut, Options(balance_similar=True), 0.0, nodes_total=2)
    assert _names(one) == ["{a 1->2 (max: 2)}"]
    left = scale_up(_waiting(1, gpu=1), shut, Options(), 0.0, nodes_total=2)
    assert [m for _, m in left.unhelped] == [
        "1 Insufficient nvidia.com/gpu, 1 in backoff after failed scale-up"
    ]


def test_all_or_nothing() -> None:
    assert scale_up([], [autoscaler.group("a")], Options(), 0.0, nodes_total=0) == ScaleUp()
    group = [autoscaler.group("a", most=2)]
    for count, helped in ((8, True), (9, False)):
        found = scale_up(_waiting(count), group, Options(), 0.0, nodes_total=0, all_or_nothing=True)
        assert bool(found.resizes) is helped
        if not helped:
            said = {m for _, m in found.unhelped}
            assert said == {"1 not all pods would fit and scale-up is using all-or-nothing strategy"}
    limited = Options(max_nodes_total=5)
    for total, helped in ((3, True), (4, False)):
        found = scale_up(_waiting(8), group, limited, 0.0, nodes_total=total, all_or_nothing=True)
        assert bool(found.resizes) is helped
        if not helped:
            assert {m for _, m in found.unhelped} == {"max total nodes in cluster reached"}
    some = scale_up(_waiting(8), group, limited, 0.0, nodes_total=4)
    assert _names(some) == ["{a 0->1 (max: 2)}"]
    assert len(some.triggered) == 8


def test_pods_wait_for_another_loop_or_are_told() -> None:
    groups = [autoscaler.group("cpu", cpu=4), autoscaler.group("gpu", cpu=4, gpu=1, price=900_000)]
    mixed = [*_waiting(2), *_waiting(1, "2", gpu=1), *_waiting(1, "99")]
    found = scale_up(mixed, groups, Options(expanders=("price",)), 0.0, nodes_total=0)
    parts = (found.triggered, found.awaiting, [p for p, _ in found.unhelped])
    assert sorted(p.name for part in parts for p in part) == sorted(p.name for p in mixed)
    assert [p.name for p in found.awaiting] + [p.name for p in found.triggered if "2-0" in p.name] != []
    assert [m for _, m in found.unhelped] == ["2 Insufficient cpu"]
    assert [p.name for p, _ in found.unhelped] == ["99-0"]


def test_words_of_growing_and_shrinking() -> None:
    both = [Resize("a", 1, 3, 4), Resize("b", 0, 1, 1)]
    assert events.triggered(both) == (
        "Normal",
        "TriggeredScaleUp",
        "pod triggered scale-up: [{a 1->3 (max: 4)} {b 0->1 (max: 1)}]",
    )
    assert events.growing(both[0]) == (
        ("Normal", "ScaledUpGroup", "Scale-up: setting group a size to 3 instead of 1 (max: 4)"),
        ("Normal", "ScaledUpGroup", "Scale-up: group a size set to 3 instead of 1 (max: 4)"),
    )
    assert events.gone("n") == (
        "Normal",
        "DeletingNode",
        "Deleting node n because it does not exist in the cloud provider",
    )
    used = utilization(autoscaler.node("n"), Options())
    assert events.removing("n", used, []) == (
        "Normal",
        "ScaleDownEmpty",
        'Scale-down: removing empty node "n"',
    )


def test_the_status_counts_nodes_by_what_they_are() -> None:
    nodes = [
        autoscaler.node("a"),
        autoscaler.node("b", is_ready=False),
        autoscaler.node("c", is_going=True),
        autoscaler.node("other", group=""),
    ]
    status = statustext.status_of([autoscaler.group("g", target=5)], nodes, ["a"], {}, 0)
    registered = {"total": 4, "ready": 3, "notStarted": 0, "suspended": 0, "beingDeleted": 1}
    unready = {"unready": {"total": 1, "resourceUnready": 0}}
    assert status["clusterWide"]["health"]["nodeCounts"] == {
        "registered": {**registered, **unready},
        "longUnregistered": 0,
        "unregistered": 2,
    }
    (of_group,) = status["nodeGroups"]
    assert of_group["health"]["nodeCounts"] == {
        "registered": {**registered, "total": 3, "ready": 2, **unready},
        "longUnregistered": 0,
        "unregistered": 2,
    }
    quiet = statustext.status_of([], nodes[:1], [], {}, 0)["clusterWide"]["health"]["nodeCounts"]
    assert "beingDeleted" not in quiet["registered"] and quiet["unregistered"] == 0
    assert of_group["scaleDown"]["candidates"] == 1 and of_group["scaleUp"]["status"] == "InProgress"


def test_the_status_is_read_as_it_was_written() -> None:
    status = statustext.status_of([autoscaler.group("b"), autoscaler.group("a")], [], [], {}, 0)
    said = statustext.text(status)
    assert yaml.safe_load(said) == status
    assert said.index("name: b") < said.index("name: a")
    assert said.startswith("time: 1970-01-01 00:00:00 +0000 UTC\n")


def test_what_is_not_said_is_as_upstream_has_it() -> None:
    """Source: cluster-autoscaler config/flags/flags.go, config/const.go."""
    options = Options()
    minutes = {
        name: getattr(options, name) / MINUTE_US
        for name in Options.__dataclass_fields__
        if name.endswith("_us")
    }
    assert minutes == {
        "scan_interval_us": 1 / 6,
        "max_node_provision_us": 15,
        "unneeded_us": 10,
        "unready_us": 20,
        "delay_after_add_us": 10,
        "delay_after_delete_us": 0,
        "delay_after_failure_us": 3,
        "delete_delay_us": 1 / 12,
        "most_eviction_us": 2,
        "system_pods_hold_us": 60,
        "backoff_us": 5,
        "most_backoff_us": 30,
        "backoff_reset_us": 180,
        "request_backoff_us": 1,
        "most_request_backoff_us": 10,
    }
    assert (options.utilization_threshold, options.gpu_utilization_threshold) == (0.5, 0.5)
    assert (options.most_at_once, options.most_drained_at_once, options.most_new_nodes) == (10, 1, 1000)
    assert (options.most_graceful_s, options.max_nodes_total, options.expendable_below) == (600, 0, -10)
    flags = (options.scale_down, options.skip_system_pods, options.skip_local_storage)
    assert flags == (True, True, True)
    assert (options.skip_custom_controllers, options.expanders) == (True, ("least-waste",))
    assert not (options.balance_similar or options.ignore_daemon_sets or options.provisioning_requests)


# Room on a node


def _fits(made: Obj, **seat: Any) -> tuple[str, ...]:
    (facts,) = autoscaler.facts(made)
    return Room(
        Seat("t", seat.pop("labels", {}), (), {}, {"cpu": 4000, "memory": 2**34, "pods": 110} | seat)
    ).why_not(facts.shape)


def test_why_a_pod_has_no_place() -> None:
    made = autoscaler.pod("p")
    assert _fits(made) == ()
    assert _fits(made, pods=0, cpu=0) == ("Too many pods", "Insufficient cpu")
    assert _fits(autoscaler.pod("p", gpu=1), cpu=0) == ("Insufficient cpu", f"Insufficient {GPU}")
    wants = autoscaler.pod("p", spec={"nodeSelector": {"a": "b"}})
    assert _fits(wants) == ("node(s) didn't match Pod's node affinity/selector",)
    assert _fits(wants, labels={"a": "b"}) == ()
    (facts,) = autoscaler.facts(made)
    for effect, blocks in (("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)):
        seat = Seat("t", {}, (Taint("k", "", effect),), {}, {"cpu": 4000, "memory": 2**34, "pods": 9})
        assert Room(seat).why_not(facts.shape) == (("node(s) had untolerated taint(s)",) if blocks else ())
    port = {"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]}
    (facts,) = autoscaler.facts(autoscaler.pod("p", spec=port))
    room = Room(Seat("t", {}, (), {}, {"cpu": 4000, "memory": 2**34, "pods": 9}))
    assert room.why_not(facts.shape) == ()
    twin = room.copy()
    room.take(facts.shape)
    assert room.why_not(facts.shape) == ("node(s) didn't have free ports for the requested pod ports",)
    assert twin.why_not(facts.shape) == ()


def test_devices_that_are_short_are_said_once_and_alone() -> None:
    devices = "deviceclass.resource.kubernetes.io/gpus"
    for cpu, gpus, want in (
        ("1", 1, ("cannot allocate all claims",)),
        ("9", 1, ("Insufficient cpu",)),
        ("1", 0, ()),
    ):
        asking = autoscaler.pod("p", cpu)
        if gpus:
            asking["spec"]["containers"][0]["resources"]["requests"][devices] = "1"
        assert _fits(asking) == want


def test_an_estimate_opens_as_many_nodes_as_it_may_and_none_in_vain() -> None:
    small, large = _waiting(3, "1"), _waiting(2, "3")
    assert (estimate({}, autoscaler.seat("t"), 5).nodes, estimate({}, autoscaler.seat("t"), 5).pods) == (
        0,
        (),
    )
    for most, nodes, count in ((0, 0, 0), (1, 1, 2), (2, 2, 4), (3, 3, 5), (9, 3, 5)):
        found = estimate(by_kind([*small, *large]), autoscaler.seat("t"), most)
        assert (found.nodes, len(found.pods)) == (nodes, count)
    too_large = estimate(by_kind(_waiting(2, "5")), autoscaler.seat("t"), 5)
    assert (too_large.nodes, too_large.pods) == (0, ())
    both = estimate(by_kind([*_waiting(2, "5"), *small]), autoscaler.seat("t"), 5)
    assert (both.nodes, len(both.pods)) in ((0, 0), (1, 3))


# Nodes that go


def test_who_takes_in_pods_of_nodes_that_go_needs_a_place_for_them_too() -> None:
    nodes = [
        autoscaler.node("a", autoscaler.pod("a1", "500m"), autoscaler.pod("a2", "1500m")),
        autoscaler.node("b", autoscaler.pod("b1", "600m")),
        autoscaler.node("full", autoscaler.pod("f1", "3400m"), group=""),
    ]
    found = unneeded(nodes, (), Options(), 0)
    assert [(r.node, len(r.pods)) for r in found.removable] == [("a", 2)]
    assert found.kept["b"] == ("NoPlaceToMovePods", "")
    roomy = [*nodes[:2], autoscaler.node("full", autoscaler.pod("f1", "1400m"), group="")]
    found = unneeded(roomy, (), Options(), 0)
    assert [(r.node, len(r.pods)) for r in found.removable] == [("a", 2), ("b", 1)]


def test_places_are_taken_only_by_nodes_that_can_go() -> None:
    """Of two pods one finds a place: its node stays, and place and port are free for another's pod."""
    port = [{"hostPort": 80, "containerPort": 80}]

    def with_port(name: str, cpu: str) -> Obj:
        made = autoscaler.pod(name, cpu)
        made["spec"]["containers"][0]["ports"] = port
        return made

    nodes = [
        autoscaler.node("a", with_port("a1", "500m"), autoscaler.pod("a2", "1500m"), is_ready=False),
        autoscaler.node("b", with_port("b1", "1600m"), is_ready=False),
        autoscaler.node("full", autoscaler.pod("f1", "2400m"), group=""),
    ]
    found = unneeded(nodes, (), Options(), 0)
    assert [r.node for r in found.removable] == ["b"]
    assert found.kept["a"] == ("NoPlaceToMovePods", "")


def test_what_keeps_a_node() -> None:
    stuck = autoscaler.pod("s", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
    nodes = [
        autoscaler.node("going", is_going=True),
        autoscaler.node("stuck", stuck),
        autoscaler.node("half", autoscaler.pod("p", "2"), no_scale_down=False),
        autoscaler.node("more", autoscaler.pod("q", "2001m")),
        autoscaler.node("roomy", cpu=64, group=""),
    ]
    found = unneeded(nodes, (), Options(), 0)
    assert [r.node for r in found.removable] == ["half"]
    assert found.kept == {
        "going": ("CurrentlyBeingDeleted", ""),
        "stuck": ("BlockedByPod", "pod annotated as not safe to evict present: s"),
        "more": ("NotUnderutilized", "0.50025 is above 0.5"),
        "roomy": ("NotAutoscaled", ""),
    }


def test_daemons_are_left_out_of_a_nodes_use_if_asked() -> None:
    daemon = autoscaler.pod("d", "2", owner="DaemonSet")
    node = autoscaler.node("n", daemon, autoscaler.pod("p", "1"))
    assert utilization(node, Options()).cpu == 0.75
    assert utilization(node, Options(ignore_daemon_sets=True)).cpu == 0.5
    assert utilization(autoscaler.node("n", autoscaler.pod("d", "4", owner="DaemonSet")), Options(
        ignore_daemon_sets=True
    )).cpu == 0.0  # fmt: skip


@pytest.mark.parametrize("ready", [True, False])
def test_a_node_is_not_needed_for_so_long_before_it_goes(ready: bool) -> None:
    used = utilization(autoscaler.node("n"), Options())
    found = [Removable("n", "g", (), used)]
    wait_us = 10 * MINUTE_US if ready else 20 * MINUTE_US
    groups = [NodeGroup("g", 1, 9, 2, autoscaler.seat("t"))]

    def gone(now_us: int, since: dict[str, int], going: dict[str, int]) -> bool:
        return bool(due(found, since, groups, {"n": ready}, Options(), now_us, going=going))

    assert gone(NOW_US + wait_us, {"n": NOW_US}, {})
    assert not gone(NOW_US + wait_us - 1, {"n": NOW_US}, {})
    assert not gone(NOW_US + wait_us, {}, {})
    assert not gone(NOW_US + wait_us, {"n": NOW_US}, {"g": 1})
    assert gone(NOW_US + wait_us, {"n": NOW_US}, {"other": 9})
    assert not gone(NOW_US + wait_us, {"n": NOW_US}, {"other": 10})
