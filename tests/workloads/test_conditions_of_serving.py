"""Knative's conditions: what Ready says after one of those it depends on was marked, and which times are kept;
who looks at what changed."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339
from fairway.workloads.knative import controllers, names
from fairway.workloads.knative.conditions import READY, Conditions, condition_of, is_ready

NOW = parse_rfc3339("2026-01-05T08:00:00Z")
EARLY, LATE = "2026-01-05T07:00:00Z", "2026-01-05T07:30:00Z"


def said(type_: str, status: str, reason: str = "", at: str = EARLY) -> dict[str, Any]:
    more = {"reason": reason, "message": f"{reason}!"} if reason else {}
    return {"type": type_, "status": status, **more, "lastTransitionTime": at}


def conditions(*before: dict[str, Any]) -> Conditions:
    return Conditions({"conditions": list(before)}, ("A", "B", "C"), NOW)


def ready(found: Conditions) -> tuple[str, str]:
    now = found.get(READY) or {}
    return now["status"], now.get("reason", "")


@pytest.mark.parametrize(
    ("before", "marked", "want"),
    [
        # True: as the newest of those that are not, False before Unknown.
        ((said("B", "False", "b", EARLY), said("C", "False", "c", LATE)), ("A", "True", ""), ("False", "c")),
        ((said("B", "False", "b", LATE), said("C", "False", "c", EARLY)), ("A", "True", ""), ("False", "b")),
        (
            (said("B", "False", "b", EARLY), said("C", "Unknown", "c", LATE)),
            ("A", "True", ""),
            ("False", "b"),
        ),
        (
            (said("B", "Unknown", "b", EARLY), said("C", "Unknown", "c", LATE)),
            ("A", "True", ""),
            ("Unknown", "c"),
        ),
        ((said("B", "True"), said("C", "Unknown", "c")), ("A", "True", ""), ("Unknown", "c")),
        ((said("B", "True"), said("C", "True")), ("A", "True", ""), ("True", "")),
        # False: as it says.
        ((said("B", "False", "b"),), ("A", "False", "a"), ("False", "a")),
        # Unknown: nothing where another is False and said so, else what it says.
        ((said("B", "False", "b"), said(READY, "False", "b")), ("A", "Unknown", "a"), ("False", "b")),
        ((said("B", "False", "b"), said(READY, "Unknown", "x")), ("A", "Unknown", "a"), ("False", "a")),
        ((said("B", "Unknown", "b"), said(READY, "True")), ("A", "Unknown", "a"), ("Unknown", "a")),
        # Others change nothing.
        ((said(READY, "True"),), ("D", "False", "d"), ("True", "")),
    ],
)
def test_what_ready_says(before: Any, marked: tuple[str, str, str], want: tuple[str, str]) -> None:
    found = conditions(*before)
    type_, status, reason = marked
    found.mark(type_, status, reason, f"{reason}!" if reason else "")
    assert ready(found) == want
    if want[1]:
        assert (found.get(READY) or {})["message"] == f"{want[1]}!"


def test_what_is_new_begins_unknown_and_others_are_told_for_information() -> None:
    found = conditions()
    assert [(c["type"], c["status"]) for c in found.listed()] == [
        (type_, "Unknown") for type_ in ("A", "B", "C", READY)
    ]
    found.mark("D", "False", "d", "m")
    assert found.get("D") == {
        "type": "D",
        "status": "False",
        "reason": "d",
        "message": "m",
        "severity": "Info",
        "lastTransitionTime": "2026-01-05T08:00:00Z",
    }
    assert (found.status("D"), found.status("E"), found.get("E")) == ("False", "", None)
    found.clear("D")
    found.clear("E")
    assert found.get("D") is None


@pytest.mark.parametrize(
    ("status", "want"),
    [("True", ("True", None, None)), ("False", ("False", "r", "r!")), ("Unknown", ("Unknown", "r", "r!"))],
)
def test_what_is_true_is_copied_without_words(status: str, want: tuple[str, str | None, str | None]) -> None:
    found = conditions()
    found.copy("A", said("X", status, "r"))
    now = found.get("A") or {}
    assert (now["status"], now.get("reason"), now.get("message")) == want
    found.copy("A", None)
    assert found.get("A") == now


def test_times_change_with_what_is_said_alone() -> None:
    found = conditions(said("A", "True"), said("B", "False", "b"), said("C", "Unknown"))
    found.mark("A", "True")
    found.mark("B", "False", "b", "b!")
    found.mark("C", "True")
    times = {c["type"]: c["lastTransitionTime"] for c in found.listed()}
    assert times == {"A": EARLY, "B": EARLY, "C": "2026-01-05T08:00:00Z", READY: "2026-01-05T08:00:00Z"}


def test_what_was_marked_otherwise_and_back_keeps_its_time() -> None:
    found = conditions(said("A", "True"), said("B", "True"), said("C", "True"), said(READY, "True"))
    found.mark("A", "False", "a")
    assert [c["lastTransitionTime"] for c in found.listed() if c["type"] == "A"] == ["2026-01-05T08:00:00Z"]
    found.mark("A", "True")
    assert {c["lastTransitionTime"] for c in found.listed()} == {EARLY}


@pytest.mark.parametrize(
    ("status", "generation", "want"),
    [
        ({"observedGeneration": 2, "conditions": [said(READY, "True")]}, 2, True),
        ({"observedGeneration": 1, "conditions": [said(READY, "True")]}, 2, False),
        ({"observedGeneration": 2, "conditions": [said(READY, "Unknown")]}, 2, False),
        ({"observedGeneration": 2, "conditions": [said("A", "True")]}, 2, False),
        ({"observedGeneration": 2}, 2, False),
        (None, 2, False),
    ],
)
def test_who_is_ready(status: dict[str, Any] | None, generation: int, want: bool) -> None:
    obj = {"metadata": {"generation": generation}, "status": status}
    assert is_ready(obj) is want


def test_a_condition_is_found_by_its_type() -> None:
    obj = {"status": {"conditions": [said("A", "True"), said(READY, "False", "r")]}}
    assert (condition_of(obj) or {})["reason"] == "r"
    assert (condition_of(obj, "A") or {})["status"] == "True"
    assert condition_of(obj, "B") is None
    assert condition_of({}) is None


# Who looks.


def obj(
    kind: str, name: str, owner: str = "", generation: int = 1, labels: dict[str, str] | None = None
) -> Obj:
    meta: Obj = {"name": name, "namespace": "default", "generation": generation, "labels": labels or {}}
    if owner:
        ref = {"apiVersion": names.VERSION, "kind": owner, "name": "web", "uid": "u", "controller": True}
        meta["ownerReferences"] = [ref]
    return {"apiVersion": names.VERSION, "kind": kind, "metadata": meta, "spec": {}}


def looks(type_: str, gk: str, made: Obj, old: Obj | None = None, *routes: Obj) -> list[tuple[str, str]]:
    store = Store()
    for route in routes:
        store.create(route)
    change = Change(1, type_, Key(gk, "default", made["metadata"]["name"]), made, old)
    return [(controller.name, key.name) for controller, key in controllers.affected(store, change)]


@pytest.mark.parametrize(
    ("gk", "kind", "name"),
    [
        (names.SERVICE, "Service", "knative-service"),
        (names.CONFIGURATION, "Configuration", "knative-configuration"),
        (names.REVISION, "Revision", "knative-revision"),
        (names.ROUTE, "Route", "knative-route"),
    ],
)
def test_an_object_is_looked_at_where_its_wishes_changed(gk: str, kind: str, name: str) -> None:
    made = obj(kind, "x")
    assert looks(ADDED, gk, made) == [(name, "x")]
    assert looks(DELETED, gk, made) == []
    assert looks(MODIFIED, gk, made, made) == []
    assert looks(MODIFIED, gk, obj(kind, "x", generation=2), made) == [(name, "x")]


@pytest.mark.parametrize(
    ("gk", "kind", "owner", "want"),
    [
        (names.CONFIGURATION, "Configuration", "Service", "knative-service"),
        (names.ROUTE, "Route", "Service", "knative-service"),
        (names.REVISION, "Revision", "Configuration", "knative-configuration"),
        (names.DEPLOYMENT, "Deployment", "Revision", "knative-revision"),
        (names.POD_AUTOSCALER, "PodAutoscaler", "Revision", "knative-revision"),
    ],
)
def test_its_owner_looks_whenever_it_changes(gk: str, kind: str, owner: str, want: str) -> None:
    made = obj(kind, "x", owner)
    for type_ in (MODIFIED, DELETED):
        assert looks(type_, gk, made, made) == [(want, "web")]
        assert looks(type_, gk, obj(kind, "x", "Other"), made) == []
        assert looks(type_, gk, obj(kind, "x"), made) == []


def route(name: str, *traffic: Obj) -> Obj:
    return {**obj("Route", name), "spec": {"traffic": list(traffic)}}


def test_routes_look_that_name_what_changed() -> None:
    routes = [
        route("a", {"configurationName": "web"}),
        route("b", {"revisionName": "web-1"}, {"configurationName": "x"}),
        route("c", {"revisionName": "x"}, {"revisionName": "y"}),
        route("d"),
        obj("Route", "e"),
    ]
    revision = obj("Revision", "web-1", labels={names.OF_CONFIGURATION: "web"})
    for type_ in (MODIFIED, DELETED):
        assert looks(type_, names.REVISION, revision, revision, *routes) == [
            ("knative-route", "a"),
            ("knative-route", "b"),
        ]
        configuration = obj("Configuration", "web")
        assert looks(type_, names.CONFIGURATION, configuration, configuration, *routes) == [
            ("knative-route", "a")
        ]
        other = obj("Revision", "z")
        assert looks(type_, names.REVISION, other, other, *routes) == []


@pytest.mark.parametrize(("told", "want"), [("7", 7), ("0", 0), ("x", 0), ("", 0)])
def test_of_which_generation_a_revision_is(told: str, want: int) -> None:
    assert names.generation_of(obj("Revision", "r", labels={names.OF_GENERATION: told})) == want
    assert names.generation_of(obj("Revision", "r")) == 0
