"""Coscheduling's and GangScheduling's questions, and the configuration that turns them on."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.errors import InvalidInput
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US
from fairway.scheduling import coscheduling, gangscheduling
from fairway.scheduling.config import read_profiles
from fairway.scheduling.coscheduling import CoschedulingArgs, PodGroup

KEY = Key(coscheduling.POD_GROUP, "ns", "g")


def group(least: int, resources: dict[str, int] | None = None, timeout_us: int = 0) -> PodGroup:
    return PodGroup(KEY, least, resources, timeout_us, 0)


@pytest.mark.parametrize(
    ("narrative", "assigned", "least", "percentage", "want"),
    [
        ("nobody has a node yet", 0, 4, 10, True),
        ("one of ten is missing: just 10 %", 9, 10, 10, False),
        ("two of ten are missing", 8, 10, 10, True),
        ("one of nine is missing: 11 %", 8, 9, 10, True),
        ("the quorum is met", 4, 4, 10, False),
        ("any gap is small", 0, 4, 100, False),
        ("no gap is small", 99, 100, 0, True),
    ],
)
def test_when_one_refusal_ends_the_wait_of_all(
    narrative: str, assigned: int, least: int, percentage: int, want: bool
) -> None:
    args = CoschedulingArgs(reject_percentage=percentage)
    assert coscheduling.rejects_all(assigned, group(least), args) is want


def pods(count: int, gated: int = 0) -> list[dict[str, Any]]:
    return [{"spec": {"schedulingGates": [{"name": "x"}]} if i < gated else {}} for i in range(count)]


@pytest.mark.parametrize(
    ("narrative", "members", "want"),
    [
        (
            "too few",
            pods(2),
            "pre-filter pod p cannot find enough sibling pods, current pods number: 2, minMember of group: 3",
        ),
        ("enough", pods(3), ""),
        (
            "one is gated",
            pods(3, 1),
            "pre-filter pod p cannot proceed due to gated pods in the same PodGroup",
        ),
        ("one more than needed is gated", pods(4, 1), ""),
    ],
)
def test_pods_must_be_there_before_any_is_placed(
    narrative: str, members: list[dict[str, Any]], want: str
) -> None:
    assert coscheduling.why_too_few("p", group(3), members) == want


def test_min_resources_must_fit_the_cluster() -> None:
    store = Store()
    for name in ("a", "b"):
        status = {"allocatable": {"cpu": "4", "nvidia.com/gpu": "2", "pods": "110"}}
        store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})
    assert coscheduling.why_no_room(group(2, {"nvidia.com/gpu": 4}), store.accounts, {}) == ""
    why = coscheduling.why_no_room(group(2, {"nvidia.com/gpu": 5}), store.accounts, {})
    assert why == "resource gap: {'nvidia.com/gpu': '1'}"


def test_a_group_says_itself_how_long_its_pods_wait() -> None:
    assert coscheduling.waits_us(group(1), CoschedulingArgs()) == 60 * SECOND_US
    assert coscheduling.waits_us(group(1, timeout_us=SECOND_US), CoschedulingArgs()) == SECOND_US


@pytest.mark.parametrize(
    ("narrative", "found", "count", "want"),
    [
        ("no group", None, 3, 'waiting for pods\'s pod group "g" to appear in scheduling queue'),
        ("too few pods", 3, 2, "waiting for minCount pods from a gang to appear in scheduling queue"),
        ("enough pods", 3, 3, ""),
        ("no gang", 0, 1, ""),
    ],
)
def test_who_is_held_back_from_the_queue(narrative: str, found: int | None, count: int, want: str) -> None:
    policy = {"gang": {"minCount": found}} if found else {"basic": {}}
    obj = None if found is None else {"spec": {"schedulingPolicy": policy}}
    assert gangscheduling.why_held_back(KEY, obj, count) == want


def configuration(args: dict[str, Any], plugin: str = "Coscheduling") -> Manifest:
    plugins = {"multiPoint": {"enabled": [{"name": plugin}]}}
    if plugin == "Coscheduling":
        plugins["queueSort"] = {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]}
    profile = {"plugins": plugins, "pluginConfig": [{"name": plugin, "args": args}] if args else []}
    body = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return Manifest(body, "scheduler.yaml")


def test_the_plugins_are_off_unless_asked_for() -> None:
    body = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    assert not read_profiles(Manifest(body, "f"))[0].permits
    assert read_profiles(configuration({}))[0].permits == {"Coscheduling"}
    assert read_profiles(configuration({}, "GangScheduling"))[0].permits == {"GangScheduling"}


def test_coscheduling_takes_arguments() -> None:
    given = {"permitWaitingTimeSeconds": 10, "podGroupBackoffSeconds": 5, "podGroupRejectPercentage": 20}
    found = read_profiles(configuration(given))[0].coscheduling
    assert found == CoschedulingArgs(10 * SECOND_US, 5 * SECOND_US, 20)


@pytest.mark.parametrize(
    ("field", "value"),
    [("permitWaitingTimeSeconds", -1), ("podGroupBackoffSeconds", -1), ("podGroupRejectPercentage", 101)],
)
def test_arguments_out_of_range_are_refused(field: str, value: int) -> None:
    with pytest.raises(InvalidInput) as wrong:
        read_profiles(configuration({field: value}))
    assert field in str(wrong.value.problems[0])


def test_a_group_is_read_as_it_says() -> None:
    meta = {"creationTimestamp": "1970-01-01T00:00:03Z"}
    bare = coscheduling.read_group(KEY, {"metadata": meta})
    assert bare == PodGroup(KEY, 0, None, 0, 3 * SECOND_US)
    spec = {"minMember": 4, "minResources": {"cpu": "2"}, "scheduleTimeoutSeconds": 7}
    full = coscheduling.read_group(KEY, {"metadata": meta, "spec": spec})
    assert full == PodGroup(KEY, 4, {"cpu": 2000}, 7 * SECOND_US, 3 * SECOND_US)
    assert coscheduling.read_group(KEY, {"metadata": meta, "spec": {"minResources": {}}}).min_resources == {}


def test_a_pod_names_its_group() -> None:
    meta = {"namespace": "ns", "labels": {coscheduling.POD_GROUP_LABEL: "g"}}
    assert coscheduling.group_key({"metadata": meta}) == KEY
    assert coscheduling.group_key({"metadata": {**meta, "namespace": None}}) == KEY._replace(namespace="")
    assert coscheduling.group_key({"metadata": {"namespace": "ns"}}) is None
    named = {"metadata": {"namespace": "ns"}, "spec": {"schedulingGroup": {"podGroupName": "g"}}}
    assert gangscheduling.group_key(named) == Key(gangscheduling.POD_GROUP, "ns", "g")
    assert gangscheduling.group_key({**named, "spec": {}}) is None
    gang = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    assert [
        gangscheduling.min_count(g)
        for g in (gang, {}, *({"spec": {"schedulingPolicy": {"gang": g}}} for g in ({}, {"minCount": None})))
    ] == [3, 0, 0, 0]


def test_pods_of_the_group_do_not_stand_in_its_way() -> None:
    store = Store()
    for name in ("a", "b"):
        status = {"allocatable": {"cpu": "4", "pods": "3"}}
        store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})
    for name, where in (("mine", "a"), ("other", "b")):
        container = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
        made = {
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"containers": [container], "nodeName": where},
        }
        store.create({"apiVersion": "v1", "kind": "Pod", **made})
    mine = {Key("Pod", "ns", "mine"): None}
    for least, cpu, of_group, want in (
        (5, 5000, mine, ""),
        (5, 5001, mine, "resource gap: {'cpu': '1m'}"),
        (6, 5000, mine, "resource gap: {'pods': '1'}"),
        (4, 2000, {}, ""),
        (5, 2001, {}, "resource gap: {'cpu': '1m', 'pods': '1'}"),
    ):
        assert coscheduling.why_no_room(group(least, {"cpu": cpu}), store.accounts, of_group) == want
    nobody_has = coscheduling.why_no_room(group(1, {"example.com/x": 2}), store.accounts, {})
    assert nobody_has == "resource gap: {'example.com/x': '2'}"
    assert coscheduling.why_no_room(group(5), store.accounts, mine) == ""
