"""The event log and the core/v1 events."""

from __future__ import annotations

from fairway.kube.objects import Key
from fairway.kube.timestamps import HOUR_US
from fairway.twin.eventlog import EventLog, Record
from fairway.twin.kubeevents import NORMAL, WARNING, KubeEvents

POD = Key("Pod", "ns", "p")


def fill(log: EventLog, count: int, start: int = 0) -> None:
    for i in range(start, start + count):
        log.record(i, "kubelet", "Pod", "ns", f"p{i}", "Running", "n")


def test_equal_records_have_equal_digests_whenever_they_are_asked_for() -> None:
    a, b = EventLog(), EventLog()
    fill(a, 3000)
    fill(b, 1500)
    b.digest()
    fill(b, 1500, 1500)
    assert a.digest() == b.digest() and len(a) == len(b) == 3000
    fill(b, 1, 9)
    assert a.digest() != b.digest()


def test_a_fork_goes_on_by_itself() -> None:
    a = EventLog(keep=5)
    fill(a, 10)
    b = a.fork()
    fill(a, 10, 10)
    fill(b, 10, 10)
    assert a.digest() == b.digest()
    assert [r.name for r in b.records()] == ["p15", "p16", "p17", "p18", "p19"]
    b.flush()
    assert len(a) == len(b) == 20


def test_repeated_events_are_counted() -> None:
    events = KubeEvents()
    for t in (1, 5, 9):
        events.emit(t, POD, "u", WARNING, "BackOff", "again", "kubelet")
    events.emit(9, POD, "u", WARNING, "BackOff", "another", "kubelet", times=4)
    told = events.about(POD)
    assert [(t.times, t.first_us, t.last_us) for t in told] == [(3, 1, 9), (4, 9, 9)]
    assert events.totals == {("kubelet", WARNING, "BackOff"): 7}


def test_totals_are_sorted_whatever_was_said_first() -> None:
    events = KubeEvents()
    for component, reason in (("z", "B"), ("z", "A"), ("a", "C")):
        events.emit(1, POD, "u", NORMAL, reason, "m", component)
    assert list(events.totals) == [("a", NORMAL, "C"), ("z", NORMAL, "A"), ("z", NORMAL, "B")]


def test_events_said_together_are_listed_apart() -> None:
    events = KubeEvents()
    said = ((NORMAL, "Pulled", "there"), (NORMAL, "Started", "Container started"))
    events.emit_all(7, POD, "u", said, "kubelet")
    objects = events.objects(7, "ns")
    assert [o["reason"] for o in objects] == ["Pulled", "Started"]
    assert objects[0]["involvedObject"] == {"kind": "Pod", "name": "p", "uid": "u", "namespace": "ns"}
    assert len({o["metadata"]["name"] for o in objects}) == 2
    assert events.objects(7, "other") == []


def test_old_events_go() -> None:
    events = KubeEvents(limit=3)
    for i in range(6):
        events.emit(i, Key("Pod", "ns", f"p{i}"), "u", NORMAL, "Started", "", "kubelet")
    assert [t.about.name for t in events.told()] == ["p3", "p4", "p5"]
    copied = events.fork()
    copied.emit(6, Key("Pod", "ns", "p6"), "u", NORMAL, "Started", "", "kubelet")
    assert [t.about.name for t in copied.told()] == ["p4", "p5", "p6"]
    assert events.objects(2 * HOUR_US) == []
    events.emit(2 * HOUR_US, Key("Pod", "ns", "p5"), "u", NORMAL, "Started", "", "kubelet")
    assert events.told()[-1].times == 1


def test_as_many_records_are_kept_as_were_asked_for() -> None:
    log, none = EventLog(keep=3), EventLog()
    handed: list[list[str]] = []
    log.sinks.append(lambda batch: handed.append([r.name for r in batch]))
    assert log.records() == [] == none.records()
    for count, want in ((2, "p0 p1"), (1, "p0 p1 p2"), (1, "p1 p2 p3"), (5, "p6 p7 p8")):
        fill(log, count, len(log))
        assert " ".join(r.name for r in log.records()) == want
    assert handed == [["p0", "p1"], ["p2"], ["p3"], ["p4", "p5", "p6", "p7", "p8"]]
    assert log.records()[-1] == Record(8, "kubelet", "Pod", "ns", "p8", "Running", "n")
    fill(none, 5)
    assert (none.records(), len(none)) == ([], 5)
    assert [r.name for r in log.fork().records()] == ["p6", "p7", "p8"]


def test_records_are_handed_on_when_there_are_a_thousand_or_somebody_asks() -> None:
    log = EventLog()
    handed: list[int] = []
    log.sinks.append(lambda batch: handed.append(len(batch)))
    fill(log, 1023)
    assert handed == []
    fill(log, 1)
    assert handed == [1024]
    log.flush()
    fill(log, 1)
    log.digest()
    log.fork()
    assert (handed, len(log)) == ([1024, 1], 1025)


def test_the_digest_is_of_every_field_in_order() -> None:
    one = (1, "kubelet", "Pod", "ns", "p", "Running", "n")
    others = [(*one[:at], 2 if at == 0 else "other", *one[at + 1 :]) for at in range(7)]
    seen = set()
    for record in (one, *others):
        log = EventLog()
        log.record(*record)  # type: ignore[arg-type]
        seen.add(log.digest())
    assert len(seen) == 8 and all(len(digest) == 32 for digest in seen)
    log = EventLog()
    log.record(*one[:6])
    assert log.digest() not in seen, "without words it is another one"


def test_an_event_as_an_object() -> None:
    events = KubeEvents()
    job = Key("Job.batch", "ns", "train")
    for at_s in (1, 3):
        events.emit(
            at_s * 1_000_000, job, "u1", NORMAL, "SuccessfulCreate", "Created pod: p", "job-controller", 2
        )
    events.emit(4_000_000, Key("Node", "", "n"), "u2", WARNING, "Odd", "", "kubelet")
    of_job, of_node = events.objects(5_000_000)
    assert of_job == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": "train.000000000001succ",
            "namespace": "ns",
            "creationTimestamp": "1970-01-01T00:00:01Z",
        },
        "involvedObject": {
            "kind": "Job",
            "name": "train",
            "uid": "u1",
            "apiVersion": "batch",
            "namespace": "ns",
        },
        "type": "Normal",
        "reason": "SuccessfulCreate",
        "message": "Created pod: p",
        "count": 4,
        "firstTimestamp": "1970-01-01T00:00:01Z",
        "lastTimestamp": "1970-01-01T00:00:03Z",
        "source": {"component": "job-controller"},
        "reportingComponent": "job-controller",
    }
    assert of_node["involvedObject"] == {"kind": "Node", "name": "n", "uid": "u2"}
    assert of_node["metadata"]["namespace"] == "default"
    assert of_node["metadata"]["name"] == "n.000000000002odd"
    assert [o["reason"] for o in events.objects(5_000_000, "default")] == ["Odd"]


def test_how_long_and_how_many_events_are_kept() -> None:
    """What comes again within an hour is counted; of too many a quarter goes at a time, those heard of longest ago."""
    events = KubeEvents(ttl_us=10, limit=8)
    for at in (0, 10, 21):
        events.emit(at, POD, "u", NORMAL, "Again", "", "c")
    assert [(t.times, t.first_us, t.last_us, t.serial) for t in events.told()] == [(1, 21, 21, 2)]
    assert len(events.objects(31)) == 1 and events.objects(32) == []
    for i in range(9):
        events.emit(22, POD, "u", NORMAL, f"R{i}", "", "c")
    assert len(events.told()) == 10
    events.emit(22, POD, "u", NORMAL, "Again", "", "c")
    fork = events.fork()
    events.emit(23, POD, "u", NORMAL, "R9", "", "c")
    assert [t.reason for t in events.told()] == [*(f"R{i}" for i in range(3, 9)), "Again", "R9"]
    fork.emit_all(23, POD, "u", ((NORMAL, "R9", ""), (WARNING, "R9", "x")), "c")
    assert [t.reason for t in fork.told()][-2:] == ["R9", "R9"]
    said = {("c", NORMAL, f"R{i}"): 1 for i in range(9)}
    assert fork.totals == {("c", NORMAL, "Again"): 4, **said, ("c", NORMAL, "R9"): 1, ("c", WARNING, "R9"): 1}
    assert list(fork.totals) == sorted(fork.totals)
    assert events.totals == {("c", NORMAL, "Again"): 4, **said, ("c", NORMAL, "R9"): 1}
    assert events.about(Key("Pod", "ns", "q")) == []
