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


def test_an_event_is_written_whole() -> None:
    """As client-go's recorders make them: the kubelet's in core/v1's form, a scheduler's in the newer one."""
    store, events, uid = world()
    events.emit(store.now_us + 1, POD, uid, "Normal", "Seen", "word", "x-controller", 3)
    events.emit(store.now_us + 2, POD, uid, "Normal", "Scheduled", "to n1", "default-scheduler")
    events.emit(store.now_us + 3, Key("Node", "", "n1"), "", "Warning", "Rebooted", "again", "kubelet")
    told = [{k: v for k, v in e.items() if k != "metadata"} for e in events_of(store)]
    about = {
        "kind": "Pod",
        "namespace": "default",
        "name": "p",
        "uid": uid,
        "apiVersion": "v1",
        "resourceVersion": "1",
    }
    now = "2027-01-15T08:00:00Z"
    base = {"apiVersion": "v1", "kind": "Event", "type": "Normal"}
    want = {
        "Seen": {
            **base,
            "involvedObject": about,
            "reason": "Seen",
            "message": "word",
            "source": {"component": "x-controller"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 3,
            "eventTime": None,
            "reportingComponent": "x-controller",
            "reportingInstance": "",
        },
        "Scheduled": {
            **base,
            "involvedObject": about,
            "reason": "Scheduled",
            "message": "to n1",
            "action": "Binding",
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": "2027-01-15T08:00:00.000002Z",
            "reportingComponent": "default-scheduler",
            "reportingInstance": "default-scheduler-fairway",
        },
        "Rebooted": {
            **base,
            "type": "Warning",
            "involvedObject": {"kind": "Node", "name": "n1", "apiVersion": "v1"},
            "reason": "Rebooted",
            "message": "again",
            "source": {"component": "kubelet", "host": "n1"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "eventTime": None,
            "reportingComponent": "kubelet",
            "reportingInstance": "n1",
        },
    }
    assert {e["reason"]: e for e in told} == want
    assert {e["metadata"]["namespace"] for e in events_of(store)} == {"default"}
    assert len({e["metadata"]["name"] for e in events_of(store)}) == 3


def test_a_series_is_written_every_half_hour() -> None:
    store, events, uid = world()
    events.ttl_us = 4 * 3600 * SECOND_US
    start, written = store.now_us, []

    def again(after_s: float) -> None:
        before = store.version
        now_us = start + round(after_s * SECOND_US)
        events.emit(now_us, POD, uid, "Warning", "FailedScheduling", "no", "default-scheduler")
        (one,) = events_of(store)
        written.append((after_s, store.version > before, (one.get("series") or {}).get("count")))

    for after_s in (0, 1, 2, 1800, 1800.999999, 1801, 1802):
        again(after_s)
    assert written == [
        (0, True, None),
        (1, True, 2),
        (2, False, 2),
        (1800, False, 2),
        (1800.999999, False, 2),
        (1801, True, 6),
        (1802, False, 6),
    ]


def test_how_long_a_repetition_is_counted_on_what_was_said() -> None:
    for after_s, counts in ((60, [2]), (60.000001, [1, 1])):
        store, events, uid = world()
        events.ttl_us = 60 * SECOND_US
        for now_us in (store.now_us, store.now_us + round(after_s * SECOND_US)):
            events.emit(now_us, POD, uid, "Normal", "Seen", "again", "x-controller")
        assert [e["count"] for e in events_of(store)] == counts


def test_what_is_similar_within_ten_minutes_becomes_one() -> None:
    for pause_s, is_one in ((600, True), (600.000001, False)):
        store, events, uid = world()
        now_us = store.now_us
        for step in range(10):
            now_us += round(pause_s * SECOND_US) if step == 9 else 1
            events.emit(now_us, POD, uid, "Warning", "FailedCreate", f"no {step}", "x-controller")
        combined = [e["message"] for e in events_of(store) if "combined" in e["message"]]
        assert combined == (["(combined from similar events): no 9"] if is_one else [])


def test_nine_kinds_of_a_message_stay_apart_however_often_they_come() -> None:
    store, events, uid = world()
    for step in range(18):
        events.emit(
            store.now_us + step, POD, uid, "Warning", "FailedCreate", f"no {step % 9}", "x-controller"
        )
    assert sorted((e["message"], e["count"]) for e in events_of(store)) == [(f"no {n}", 2) for n in range(9)]


def test_a_voice_comes_back_once_in_five_minutes() -> None:
    _, events, _ = world()
    source, now_us = ("x-controller", "u"), 0
    assert [events._is_allowed(source, now_us) for _ in range(26)] == [True] * 25 + [False]
    assert not events._is_allowed(source, now_us + 299 * SECOND_US)
    assert events._is_allowed(source, now_us + 300 * SECOND_US)
    assert not events._is_allowed(source, now_us + 300 * SECOND_US)
    # However long it was quiet, it may say 25 things at once.
    later = now_us + 1000 * 300 * SECOND_US
    assert [events._is_allowed(source, later) for _ in range(26)] == [True] * 25 + [False]


def test_of_16384_voices_each_is_remembered_then_all_are_forgotten() -> None:
    _, events, _ = world()
    loud = ("x-controller", "loud")
    for _ in range(25):
        assert events._is_allowed(loud, 0)
    for number in range(16_383):
        events._is_allowed(("x-controller", str(number)), 0)
    assert len(events._tokens) == 16_384
    assert not events._is_allowed(loud, 0)
    assert len(events._tokens) == 1
    events._is_allowed(("x-controller", "new"), 0)
    assert not events._is_allowed(loud, 0)
    for number in range(16_390):
        events._combined((str(number), "Normal", "R", "x"), "word", 0)
    assert len(events._similar) == 6
