"""What the autoscaler decides, writes and says: upstream's rules as a table, and properties."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from autoscalers import Fleet, cpu, external, pod, pods, resource, service

from fairway.autoscaling.hpa.decide import Decision
from fairway.autoscaling.hpa.wording import amount_of, approximate, ceil64, int32, selector_text
from fairway.autoscaling.scales import Scale


def condition(decision: Decision, kind: str) -> tuple[str, str, str]:
    found = next(c for c in decision.status["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found["message"]


def wanted(fleet: Fleet) -> int:
    decision = fleet.look()
    return fleet.replicas if decision.replicas is None else decision.replicas


def half_ready() -> Fleet:
    fleet = Fleet(4, [cpu(50)]).using(cpu="900m")
    fleet.list[2:] = [pod(f"p{i}", fleet.now_us, ready=False, age_s=5) for i in (2, 3)]
    return fleet


def missing(usage: str, count: int) -> Fleet:
    fleet = Fleet(4, [cpu(50)]).using(cpu=usage)
    for i in range(count):
        del fleet.usages[f"p{i}"]
    return fleet


def with_total(metric: dict[str, Any], *values: str, replicas: int = 3) -> Fleet:
    fleet = Fleet(replicas, [metric])
    fleet.totals["q"] = list(values)
    return fleet


CASES = {
    "twice the target doubles": (lambda: Fleet(3, [cpu(50)]).using(cpu="1"), 6),
    "a tenth above is tolerated": (lambda: Fleet(10, [cpu(50)]).using(cpu="550m"), 10),
    "a little more is not": (lambda: Fleet(10, [cpu(50)]).using(cpu="560m"), 12),
    "half the target, first look: the start is remembered": (
        lambda: Fleet(4, [cpu(50)]).using(cpu="100m"),
        4,
    ),
    "unready pods use nothing on the way up": (half_ready, 4),
    "missing pods use everything on the way down": (lambda: missing("300m", 2), 4),
    "missing pods use nothing on the way up": (lambda: missing("900m", 1), 6),
    "at most twice as many at once": (lambda: Fleet(3, [cpu(10)]).using(cpu="1"), 6),
    "but four from one": (lambda: Fleet(1, [cpu(10)]).using(cpu="1"), 4),
    "memory by value": (lambda: Fleet(2, [resource("memory", "100Mi")]).using(memory="150Mi"), 3),
    "an object's value, ready pods times the ratio": (lambda: with_total(service("q", value="10"), "20"), 6),
    "an object's value a replica": (lambda: with_total(service("q", averageValue="10"), "50"), 5),
    "an external value": (lambda: with_total(external("q", value="10"), "12", "8"), 6),
    "an external value a replica": (lambda: with_total(external("q", averageValue="10"), "30", "25"), 6),
    "the largest of several": (lambda: _two("20", "40"), 4),
}


def _two(first: str, second: str) -> Fleet:
    fleet = Fleet(2, [external("a", averageValue="10"), external("b", averageValue="10")])
    fleet.totals = {"a": [first], "b": [second]}
    return fleet


@pytest.mark.parametrize("name", CASES)
def test_replicas(name: str) -> None:
    make, want = CASES[name]
    assert wanted(make()) == want


def test_scaling_down_waits_for_the_window() -> None:
    fleet = Fleet(6, [cpu(50)]).using(cpu="250m")
    first = fleet.look()
    assert first.replicas is None
    assert condition(first, "AbleToScale")[1] == "ScaleDownStabilized"
    assert fleet.after(299).look().replicas is None
    assert fleet.after(2).look().replicas == 3


def test_policies_limit_what_changes_in_a_period() -> None:
    behavior = {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}}
    fleet = Fleet(2, [cpu(50)], behavior=behavior).using(cpu="2")
    first = fleet.look()
    assert (first.replicas, condition(first, "ScalingLimited")[:2]) == (4, ("True", "ScaleUpLimit"))
    fleet.follow(first).after(15)
    assert fleet.look().replicas is None
    assert fleet.after(46).look().replicas == 6


def test_the_smaller_policy_and_none_at_all() -> None:
    both = [
        {"type": "Percent", "value": 50, "periodSeconds": 60},
        {"type": "Pods", "value": 1, "periodSeconds": 60},
    ]
    down = {"stabilizationWindowSeconds": 0, "policies": both}
    for select, want in (("Min", 7), ("Max", 4), ("Disabled", None)):
        behavior = {"scaleDown": {**down, "selectPolicy": select}}
        fleet = Fleet(8, [cpu(50)], behavior=behavior).using(cpu="10m")
        assert fleet.look().replicas == want, select


def test_tolerance_of_each_direction() -> None:
    behavior = {
        "scaleUp": {"tolerance": "0.3"},
        "scaleDown": {"tolerance": "0.02", "stabilizationWindowSeconds": 0},
    }
    assert Fleet(10, [cpu(50)], behavior=behavior).using(cpu="640m").look().replicas is None
    assert Fleet(100, [cpu(50)], behavior=behavior).using(cpu="480m").look().replicas == 96


def test_bounds_need_no_metrics() -> None:
    fleet = Fleet(1, [cpu(50)], low=4)
    fleet.down = "nobody asks"
    decision = fleet.look()
    assert decision.replicas == 4
    assert (
        decision.events[0].message == "New size: 4; reason: Current number of replicas below Spec.MinReplicas"
    )
    assert decision.status["currentMetrics"] is None
    above = Fleet(9, [cpu(50)], high=5).look()
    assert above.events[0].message == "New size: 5; reason: Current number of replicas above Spec.MaxReplicas"


def test_a_target_at_zero_is_left_alone() -> None:
    decision = Fleet(0, [cpu(50)]).look()
    assert decision.replicas is None
    assert condition(decision, "ScalingActive")[:2] == ("False", "ScalingDisabled")


def test_no_scale_no_selector_and_rivals() -> None:
    fleet = Fleet(2, [cpu(50)]).using(cpu="1")
    none = fleet.look('deployments.apps "web" not found')
    assert none.events[0].reason == "FailedGetScale"
    assert condition(none, "AbleToScale")[2].endswith('current scale: deployments.apps "web" not found')
    bare = Fleet(2, [cpu(50)]).look(Scale(2, 2, ""))
    assert [e.reason for e in bare.events] == ["SelectorRequired", "FailedComputeMetricsReplicas"]
    broken = Fleet(2, [cpu(50)]).look(Scale(2, 2, "a in ("))
    assert broken.events[0].reason == "InvalidSelector"
    fleet.rivals = ["shop/a", "shop/web"]
    said = fleet.look().events[0]
    assert said.reason == "AmbiguousSelector"
    assert said.message == "pods by selector app=web are controlled by multiple HPAs: [shop/a shop/web]"


def _down(fleet: Fleet) -> Fleet:
    fleet.down = "gone"
    return fleet


def _bad_selector() -> Fleet:
    metric = external("q", value="5")
    metric["external"]["metric"]["selector"] = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
    return Fleet(2, [metric])


FAULTS = {
    "resource": (
        lambda: _down(Fleet(2, [cpu(50)])),
        "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from "
        "resource metrics API: gone",
    ),
    "no usage": (
        lambda: Fleet(2, [cpu(50)]),
        "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource "
        "metrics API",
    ),
    "pods": (
        lambda: _down(Fleet(2, [pods("rps", "5")])),
        "unable to get metric rps: unable to fetch metrics from custom metrics API: gone",
    ),
    "object": (
        lambda: _down(Fleet(2, [service("q", value="5")])),
        "unable to get metric q: unable to fetch metrics from custom metrics API: gone on Service shop/web",
    ),
    "external": (
        lambda: Fleet(2, [external("q", value="5")]),
        "unable to get external metric shop/q/nil: no metrics returned from external metrics API",
    ),
    "a selector that says nothing": (
        _bad_selector,
        '"Like" is not a valid label selector operator',
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_in_the_controllers_words(name: str) -> None:
    make, fault = FAULTS[name]
    decision = make().look()
    assert decision.replicas is None
    status, reason, message = condition(decision, "ScalingActive")
    assert status == "False"
    assert message == f"the HPA was unable to compute the replica count: {fault}"
    assert decision.events[0][1:] == (reason, fault)
    assert decision.events[-1].message.startswith(
        "invalid metrics (1 invalid out of 1), first error is: failed to"
    )
    assert decision.status["currentMetrics"] == [{"type": ""}]


def test_a_missing_metric_forbids_going_down_only() -> None:
    fleet = _two("50", "1")
    fleet.totals.pop("b")
    up = fleet.look()
    assert up.replicas == 4
    assert condition(up, "ScalingActive")[0] == "True"
    fleet = _two("1", "1")
    fleet.totals.pop("b")
    assert condition(fleet.look(), "ScalingActive")[:2] == ("False", "FailedGetExternalMetric")


def test_conditions_keep_the_time_of_their_last_turn() -> None:
    fleet = Fleet(2, [cpu(50)]).using(cpu="500m")
    first = fleet.look().status["conditions"]
    later = fleet.after(60).look().status["conditions"]
    assert [c["lastTransitionTime"] for c in first] == [c["lastTransitionTime"] for c in later]


def test_how_go_prints() -> None:
    assert selector_text(None) == "nil"
    raw = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}],
    }
    assert selector_text(raw) == (
        "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{"
        "LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}"
    )
    assert amount_of("memory", 1536 * 1024 * 1024 * 1000) == "1536Mi"
    assert amount_of("memory", 1023 * 1000) == "1023"
    assert amount_of("memory", 2048_500) == "2048500m"
    assert amount_of("cpu", 1500) == "1500m"
    assert approximate("0.3") == 0.3
    assert int32(3e9) == -(2**31)
    assert ceil64(math.nan) == -(2**63)


def test_a_scale_without_pods_prints_what_go_computes() -> None:
    """0 replicas counted, 2 wanted: a division by zero becomes the smallest int64."""
    fleet = with_total(external("q", averageValue="10"), "30", replicas=2)
    fleet.list = []
    decision = fleet.look()
    current = decision.status["currentMetrics"][0]["external"]["current"]
    assert current == {"averageValue": "-9223372036854775808m"}
    assert decision.replicas == 3


@pytest.mark.parametrize("seed", range(40))
def test_decisions_stay_within_bounds_and_memory_stays_small(seed: int) -> None:
    chance = random.Random(seed)
    behavior = None
    if chance.random() < 0.5:
        behavior = {
            direction: {
                "stabilizationWindowSeconds": chance.choice([0, 30, 120]),
                "selectPolicy": chance.choice(["Max", "Min", "Disabled"]),
                "policies": [
                    {"type": kind, "value": chance.randint(1, 120), "periodSeconds": chance.choice([15, 60])}
                    for kind in chance.sample(["Pods", "Percent"], chance.randint(1, 2))
                ],
            }
            for direction in ("scaleUp", "scaleDown")
        }
    low, high = chance.randint(1, 4), chance.randint(5, 30)
    fleet = Fleet(chance.randint(low, high), [cpu(50)], low=low, high=high, behavior=behavior)
    fleet.using(cpu="500m")
    for _ in range(200):
        fleet.using(cpu=f"{chance.randint(1, 1500)}m")
        decision = fleet.look()
        if decision.replicas is not None:
            assert low <= decision.replicas <= high
            assert decision.replicas != fleet.replicas
        fleet.follow(decision).after(15)
    assert len(fleet.memory.recommendations or ()) <= 22
    assert len(fleet.memory.ups) <= 6
    assert len(fleet.memory.downs) <= 6
