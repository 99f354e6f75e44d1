"""Which changes of a pod a scheduler looks at, and what of its words an event has room for: both sides of each rule."""

from __future__ import annotations

from typing import Any

from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.kube.objects import Key, Obj
from fairway.twin.podchanges import asks_the_same, changes_nothing_here, is_to_schedule, shortened

GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def pod(spec: Obj | None = None, phase: str = "Pending", **meta: Any) -> Obj:
    status = {"phase": phase} if phase else {}
    return {"metadata": {"name": "p", **meta}, "spec": {} if spec is None else spec, "status": status}


def test_which_pods_are_to_be_scheduled() -> None:
    gates = {"schedulingGates": [{"name": "g"}]}
    cases = [
        (pod(), True),
        (pod(phase=""), True),
        (pod({"schedulingGates": []}), True),
        (pod(gates), False),
        (pod(**GOING), False),
        (pod(gates, **GOING), False),
        *((pod(phase=phase), False) for phase in ("Running", "Succeeded", "Failed", "Unknown")),
    ]
    assert [is_to_schedule(one) for one, _ in cases] == [wanted for _, wanted in cases]


def test_what_of_a_bound_pod_says_nothing_to_a_scheduler() -> None:
    spec, labels = {"nodeName": "n"}, {"a": "b"}
    old = pod(spec, labels=labels)
    same = {"labels": labels}
    own = [{"type": f"Own{i}", "status": "True"} for i in range(5)]
    resizing = {"conditions": [*own, {"type": "PodResizeInProgress", "status": "True"}]}
    cases: list[tuple[Obj, Obj, bool]] = [
        (old, pod(spec, "Running", **same), True),
        (old, pod(spec, "Running", annotations={"x": "y"}, **same), True),
        (old, pod(dict(spec), "Running", **same), False),
        (old, pod(spec, "Succeeded", **same), False),
        (old, pod(spec, "Failed", **same), False),
        (old, pod(spec, "Running", labels={"a": "c"}), False),
        (old, pod(spec, "Running", **same, **GOING), False),
        (pod(spec, **same, **GOING), pod(spec, "Running", **same, **GOING), True),
        (pod(spec, **same, **GOING), pod(spec, "Running", **same), False),
        ({**old, "status": resizing}, old, False),
    ]
    for before, after, wanted in cases:
        assert changes_nothing_here(Change(1, MODIFIED, Key("Pod", "d", "p"), after, before)) is wanted, after
    free: Obj = {}
    assert not changes_nothing_here(Change(1, MODIFIED, Key("Pod", "d", "p"), pod(free), pod(free)))
    assert not changes_nothing_here(Change(1, ADDED, Key("Pod", "d", "p"), old, None))
    assert not changes_nothing_here(Change(1, DELETED, Key("Pod", "d", "p"), old, old))


def test_a_pod_that_asks_the_same_keeps_its_place() -> None:
    spec = {"containers": [{"name": "c"}]}
    old = pod(spec, labels={"a": "b"})
    assert asks_the_same(old, pod(spec, "Running", labels={"a": "b"}))
    assert asks_the_same(old, pod({"containers": [{"name": "c"}]}, labels={"a": "b"}))
    assert not asks_the_same(old, pod({"containers": [{"name": "d"}]}, labels={"a": "b"}))
    assert not asks_the_same(old, pod(spec, labels={"a": "c"}))
    assert not asks_the_same(old, pod(spec))


def test_words_are_cut_to_what_a_note_has_room_for() -> None:
    assert [len(shortened("x" * n)) for n in (1, 1023, 1024, 1025, 5000)] == [1, 1023, 1024, 1024, 1024]
    assert shortened("x" * 1024) == "x" * 1024
    assert shortened("x" * 1025) == "x" * 1020 + " ..."
