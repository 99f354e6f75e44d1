"""What a trigger of KEDA that fails is taken to say: when, how much, and what is left to a formula."""

from __future__ import annotations

from typing import Any

import pytest
from scalingworld import World, deployment

from fairway.autoscaling.keda.triggers import Probe, probe
from fairway.autoscaling.source import NEVER_US
from fairway.kube.objects import Key, Obj
from fairway.twin.autoscaling.keda import Entry
from fairway.twin.autoscaling.kedafallback import instead, is_left_to_formula
from fairway.twin.autoscaling.probing import Found

WEB = Key("Deployment.apps", "default", "web")


def scaled(fallback: Obj | None, **modifiers: Any) -> Obj:
    spec: Obj = {"fallback": fallback} if fallback is not None else {}
    return {"spec": spec | ({"advanced": {"scalingModifiers": modifiers}} if modifiers else {})}


def one(kind: str = "AverageValue") -> Probe:
    metadata = {"address": "r:1", "listName": "jobs", "listLength": "10"}
    return probe(0, {"type": "redis", "metricType": kind, "metadata": metadata}, "default", {})


@pytest.fixture(scope="module")
def world() -> World:
    """A Deployment of three, of which two are ready."""
    found = World(nodes=0, objects=[deployment("web")])
    found.twin.store.patch(WEB, {"spec": {"replicas": 3}})
    found.twin.store.set_status(WEB, {"replicas": 3, "readyReplicas": 2})
    return found


FAULT = Found(0, is_active=False, until_us=NEVER_US, fault="no")
WELL = Found(7000, is_active=True, until_us=NEVER_US)
CASES: dict[str, tuple[Obj, str, int | None]] = {
    "five of ten each": (scaled({"failureThreshold": 2, "replicas": 5}), "AverageValue", 50_000),
    "those there are": (
        scaled({"failureThreshold": 2, "replicas": 5, "behavior": "currentReplicas"}),
        "AverageValue",
        30_000,
    ),
    "the more": (
        scaled({"failureThreshold": 2, "replicas": 2, "behavior": "currentReplicasIfHigher"}),
        "AverageValue",
        30_000,
    ),
    "the fewer": (
        scaled({"failureThreshold": 2, "replicas": 5, "behavior": "currentReplicasIfLower"}),
        "AverageValue",
        30_000,
    ),
    "of all together": (scaled({"failureThreshold": 2, "replicas": 5}), "Value", 25_000),
    "left to the formula": (
        scaled({"failureThreshold": 2, "replicas": 5, "behavior": "scalingModifiers"}),
        "AverageValue",
        None,
    ),
    "by the formula's target": (
        scaled({"failureThreshold": 2, "replicas": 5}, formula="a", target="4"),
        "AverageValue",
        20_000,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_it_says_instead_from_the_third_failure_on(world: World, name: str) -> None:
    obj, kind, want = CASES[name]
    entry, asked = Entry(0, target=WEB), one(kind)
    for failures in (1, 2, 3, 4):
        found = instead(world.room, entry, obj, asked, FAULT)
        assert (entry.failures, found) == ({asked.metric: failures}, want if failures > 2 else None)
    assert instead(world.room, entry, obj, asked, WELL) is None
    assert entry.failures == {asked.metric: 0}, "one that is well is counted anew"


@pytest.mark.parametrize("target", [None, Key("Deployment.apps", "default", "gone")])
def test_without_a_target_there_are_none(world: World, target: Key | None) -> None:
    obj = scaled({"failureThreshold": 0, "replicas": 5, "behavior": "currentReplicasIfHigher"})
    entry = Entry(0, target=target)
    assert instead(world.room, entry, obj, one(), FAULT) == 50_000
    assert instead(world.room, entry, obj, one("Value"), FAULT) is None, "nobody is ready"


@pytest.mark.parametrize(
    "obj",
    [
        scaled(None),
        scaled({"failureThreshold": -1, "replicas": 5}),
        scaled({"failureThreshold": 0, "replicas": 5}, formula="a", target="2.5"),
    ],
)
def test_a_fallback_that_does_not_count_counts_nothing(world: World, obj: Obj) -> None:
    entry = Entry(0, target=WEB)
    assert [instead(world.room, entry, obj, one(), FAULT) for _ in range(3)] == [None] * 3
    assert entry.failures == {} and not is_left_to_formula(entry, obj, one())


@pytest.mark.parametrize(
    ("behavior", "failures", "target", "is_left"),
    [
        ("scalingModifiers", 3, "4", True),
        ("scalingModifiers", 2, "4", False),
        ("scalingModifiers", 3, "x", False),
        ("static", 3, "4", False),
        ("", 3, "4", False),
    ],
)
def test_what_is_left_to_a_formula(behavior: str, failures: int, target: str, is_left: bool) -> None:
    obj = scaled({"failureThreshold": 2, "replicas": 5, "behavior": behavior}, formula="a", target=target)
    entry = Entry(0, failures={one().metric: failures, "another": 9})
    assert is_left_to_formula(entry, obj, one()) is is_left
    assert not is_left_to_formula(entry, scaled(None), one())
