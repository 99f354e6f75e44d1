"""What an object becomes before it is kept: versions of a template, times of taints, words about devices given back."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.strategies import TEMPLATE_GENERATION, prepared
from fairway.kube.objects import Obj

NOW, BEFORE = "2026-01-05T08:00:00Z", "2026-01-04T08:00:00Z"


def daemon_set(count: str | None = None, image: str = "1", **spec: Any) -> Obj:
    annotations = {"own": "x", **({TEMPLATE_GENERATION: count} if count is not None else {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "annotations": annotations},
        "spec": {"template": {"spec": {"containers": [{"image": image}]}}, **spec},
    }


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        (daemon_set(), None, "1"),
        (daemon_set("0"), None, "1"),
        (daemon_set("7"), None, "7"),
        (daemon_set("x"), None, "1"),
        (daemon_set("7"), daemon_set("3"), "3"),
        (daemon_set(), daemon_set("3"), "3"),
        (daemon_set("7", image="2"), daemon_set("3"), "4"),
        (daemon_set("3", minReadySeconds=1), daemon_set("3"), "3"),
        (daemon_set(image="2"), daemon_set(), "1"),
        (daemon_set(), daemon_set(), "0"),
    ],
)
def test_a_daemon_set_counts_its_templates(new: Obj, old: Obj | None, want: str) -> None:
    made = prepared(new, old, NOW)
    annotations = {"own": "x", TEMPLATE_GENERATION: want}
    assert made == {**new, "metadata": {"name": "d", "annotations": annotations}}


def result(device: str, share: str | None = None, driver: str = "gpu", pool: str = "p") -> Obj:
    found = {"driver": driver, "pool": pool, "device": device}
    return found if share is None else {**found, "shareID": share}


def claim(results: list[Obj], said: list[Obj] | None, **status: Any) -> Obj:
    told = {} if said is None else {"devices": said}
    allocated = {"allocation": {"devices": {"results": results}}} if results else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "status": {**allocated, **told, **status},
    }


A, B, SHARED, OTHER = result("a"), result("b"), result("a", "s"), result("a", driver="other")


@pytest.mark.parametrize(
    ("before", "after", "said", "kept"),
    [
        ([A, B], [A, B], [A, B], [A, B]),
        ([A, B], [B], [A, B], [B]),
        ([A, B], [], [A, B], None),
        ([A], [B], [A, B], [B]),
        ([A, SHARED], [A], [A, SHARED], [A]),
        ([A, OTHER], [OTHER], [A, OTHER], [OTHER]),
        ([A], [], None, None),
        ([], [A], [A], [A]),
        ([], [], [A], [A]),
    ],
)
def test_what_was_said_of_devices_goes_with_them(
    before: list[Obj], after: list[Obj], said: list[Obj] | None, kept: list[Obj] | None
) -> None:
    new, old = claim(after, said, reservedFor=[{"name": "p"}]), claim(before, said)
    assert prepared(new, old, NOW) == claim(after, kept, reservedFor=[{"name": "p"}])
    assert prepared(new, None, NOW) is new
    bare = {name: value for name, value in new.items() if name != "status"}
    assert prepared(bare, old, NOW) is bare


def test_a_taint_says_since_when_it_is_there() -> None:
    device = {
        "name": "a",
        "taints": [
            {"key": "new", "effect": "NoSchedule"},
            {"key": "old", "effect": "NoExecute", "timeAdded": BEFORE},
        ],
    }
    part: Obj = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"devices": [device, {"name": "b"}]},
    }
    made = prepared(part, None, NOW)
    assert [t["timeAdded"] for t in made["spec"]["devices"][0]["taints"]] == [NOW, BEFORE]
    assert made["spec"]["devices"][1] == {"name": "b"}
    plain: Obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "status": {"devices": [A]},
    }
    assert prepared(plain, plain, NOW) is plain
