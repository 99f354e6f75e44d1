"""Conditions and events."""

from __future__ import annotations

from fairway.kube.conditions import get_condition, is_condition_true, set_condition, without_condition
from fairway.kube.events import WARNING, make_event, object_reference, repeat_event
from fairway.kube.validation.validating import validate

T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train-0", "namespace": "team-a", "uid": "u-1", "resourceVersion": "7"},
}


def test_the_transition_time_moves_only_with_the_status() -> None:
    first = set_condition(None, "Ready", "False", "ContainersNotReady", "wait", T1)
    again = set_condition(first, "Ready", "False", "ContainersNotReady", "still waiting", T2)
    assert get_condition(again, "Ready") == {
        "type": "Ready",
        "status": "False",
        "reason": "ContainersNotReady",
        "message": "still waiting",
        "lastTransitionTime": T1,
    }
    ready = set_condition(again, "Ready", "True", now_text=T2)
    assert get_condition(ready, "Ready") == {"type": "Ready", "status": "True", "lastTransitionTime": T2}
    assert is_condition_true(ready, "Ready")
    assert not is_condition_true(first, "Ready")


def test_lists_are_new_and_keep_their_order() -> None:
    both = set_condition(set_condition([], "A", "True", now_text=T1), "B", "True", now_text=T1)
    changed = set_condition(both, "A", "False", now_text=T2, observed_generation=3, lastProbeTime=None)
    assert [c["type"] for c in changed] == ["A", "B"]
    assert changed[1] is both[1]
    assert both[0]["status"] == "True"
    assert changed[0]["observedGeneration"] == 3
    assert "lastProbeTime" in changed[0]
    assert [c["type"] for c in without_condition(changed, "A")] == ["B"]
    assert get_condition(changed, "C") is None
    assert get_condition(None, "A") is None


def test_an_event_says_who_said_what_about_what() -> None:
    event = make_event(
        POD,
        "FailedScheduling",
        "0/3 nodes are available",
        1_500_000,
        type_=WARNING,
        component="default-scheduler",
    )
    assert event["metadata"] == {
        "name": "train-0.59682f00",
        "namespace": "team-a",
        "creationTimestamp": "1970-01-01T00:00:01Z",
    }
    assert event["involvedObject"] == {
        "kind": "Pod",
        "namespace": "team-a",
        "name": "train-0",
        "uid": "u-1",
        "apiVersion": "v1",
        "resourceVersion": "7",
    }
    assert (event["type"], event["count"], event["source"]) == (
        "Warning",
        1,
        {"component": "default-scheduler"},
    )
    assert event["firstTimestamp"] == event["lastTimestamp"] == "1970-01-01T00:00:01Z"
    assert validate(event) == []


def test_events_are_the_same_for_the_same_occurrence_and_told_apart_by_serial() -> None:
    assert make_event(POD, "A", "b", 5) == make_event(POD, "A", "b", 5)
    one, two = (make_event(POD, "A", "b", 5, serial=n)["metadata"]["name"] for n in (0, 1))
    assert one != two


def test_events_about_cluster_scoped_objects_live_in_default() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    assert make_event(node, "NodeReady", "ready", 0)["metadata"]["namespace"] == "default"
    assert object_reference(node) == {"kind": "Node", "name": "n1", "apiVersion": "v1"}


def test_a_repeated_event_counts() -> None:
    event = repeat_event(make_event(POD, "A", "b", 0), 10_000_000, times=2)
    assert event["count"] == 3
    assert event["firstTimestamp"] == "1970-01-01T00:00:00Z"
    assert event["lastTimestamp"] == "1970-01-01T00:00:10Z"


def test_long_messages_are_cut() -> None:
    message = make_event(POD, "A", "é" * 1000, 0)["message"]
    assert len(message.encode()) <= 1024
    assert message.endswith("...")
