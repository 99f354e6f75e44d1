"""Events as components write them into a served cluster: their form, their counting, and who is not heard."""

from __future__ import annotations

from typing import Any

from fairway.apiserver.events import StoredEvents
from fairway.cluster.store import Store
from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US

POD = Key("Pod", "default", "p")


def world() -> tuple[Store, StoredEvents, str]:
    store = Store(seed=7, now_us=1_800_000_000 * SECOND_US)
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    pod = store.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    return store, StoredEvents(store), pod["metadata"]["uid"]


def events_of(store: Store) -> list[dict[str, Any]]:
    return store.objects("Event")


def test_a_kubelet_says_from_which_node_and_about_which_container() -> None:
    store, events, uid = world()
    said = (("Normal", "Pulled", "there"), ("Normal", "Created", "made"))
    events.emit_all(store.now_us, POD, uid, said, "kubelet", "spec.containers{c}")
    first = events_of(store)[0]
    assert first["source"] == {"component": "kubelet", "host": "n1"}
    assert first["reportingInstance"] == "n1"
    assert first["involvedObject"]["fieldPath"] == "spec.containers{c}"
    assert (first["count"], first["eventTime"]) == (1, None)


def test_the_schedulers_repetitions_are_a_series() -> None:
    store, events, uid = world()
    for step, message in enumerate(("no room", "still no room", "none at all")):
        now = store.now_us + step * SECOND_US
        events.emit(now, POD, uid, "Warning", "FailedScheduling", message, "default-scheduler")
    only = events_of(store)
    assert len(only) == 1
    assert only[0]["message"] == "no room"
    assert only[0]["action"] == "Scheduling"
    assert only[0]["series"]["count"] == 2
    assert only[0]["source"] == {}
    assert only[0]["firstTimestamp"] is None
    later = store.now_us + 3600 * SECOND_US
    events.ttl_us = 4 * 3600 * SECOND_US
    events.emit(later, POD, uid, "Warning", "FailedScheduling", "no room", "default-scheduler")
    assert events_of(store)[0]["series"]["count"] == 4


def test_repetitions_are_counted() -> None:
    store, events, uid = world()
    for step in range(3):
        events.emit(store.now_us + step * SECOND_US, POD, uid, "Normal", "Seen", "again", "x-controller")
    assert [e["count"] for e in events_of(store)] == [3]


def test_many_similar_events_become_one() -> None:
    store, events, uid = world()
    for step in range(14):
        events.emit(store.now_us + step, POD, uid, "Warning", "FailedCreate", f"no {step}", "x-controller")
    found = sorted(events_of(store), key=lambda e: int(e["metadata"]["name"].partition(".")[2], 16))
    assert [e["message"] for e in found[:9]] == [f"no {i}" for i in range(9)]
    assert len(found) == 10
    assert found[9]["message"] == "(combined from similar events): no 13"
    assert found[9]["count"] == 5


def test_who_speaks_too_often_about_one_object_is_not_heard() -> None:
    store, events, uid = world()
    for step in range(40):
        events.emit(store.now_us + step, POD, uid, "Normal", f"R{step}", "word", "x-controller")
    assert len(events_of(store)) == 25
    later = store.now_us + 301 * SECOND_US
    events.emit(later, POD, uid, "Normal", "Later", "word", "x-controller")
    events.emit(later, POD, uid, "Normal", "AndAgain", "word", "x-controller")
    events.emit(later, POD, uid, "Normal", "Other", "word", "y-controller")
    reasons = {e["reason"] for e in events_of(store)}
    assert {"Later", "Other"} <= reasons
    assert "AndAgain" not in reasons


def test_events_go_by_their_age_and_their_number() -> None:
    """From the oldest on: what is older than may be, or too many; what was heard again is young."""
    store, events, uid = world()
    events.ttl_us, start = 60 * SECOND_US, store.now_us

    def left(now_us: int) -> list[str]:
        events.expire(now_us)
        return sorted(e["message"] for e in events_of(store))

    for step, message in ((0, "a"), (10, "b"), (20, "c"), (30, "a")):
        store.now_us = start + step * SECOND_US
        events.emit(store.now_us, POD, uid, "Normal", message.upper(), message, "x-controller")
    assert left(start + 70 * SECOND_US) == ["a", "b", "c"]
    assert left(start + 70 * SECOND_US + 1) == ["a", "c"]
    assert left(start + 90 * SECOND_US) == ["a"]
    events.limit = 2
    for message in ("d", "e"):
        events.emit(store.now_us, POD, uid, "Normal", message.upper(), message, "x-controller")
    assert left(start + 40 * SECOND_US) == ["d", "e"]
    events.limit = 0
    assert left(start + 40 * SECOND_US) == []
    events.limit = 9
    events.emit(store.now_us, POD, uid, "Normal", "E", "e", "x-controller")
    (again,) = events_of(store)
    assert again["count"] == 1, "what is gone is not counted on"


def test_events_that_were_there_before_are_as_old_as_they_say() -> None:
    store, events, uid = world()
    now_us = store.now_us
    events.emit(now_us - 100 * SECOND_US, POD, uid, "Normal", "A", "old", "x-controller")
    events.emit(now_us - 10 * SECOND_US, POD, uid, "Normal", "B", "young", "x-controller")
    again = StoredEvents(store)
    again.ttl_us = 60 * SECOND_US
    again.expire(now_us)
    assert [e["message"] for e in events_of(store)] == ["young"]
