"""JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fairway.cluster.errors import ApiError
from fairway.cluster.patches import json_patch, merge_patch, strategic_patch
from fairway.cluster.store import Store
from fairway.kube.objects import Key

MERGE: dict[str, tuple[Any, Any, Any]] = {
    # RFC 7386, appendix A.
    "replaces a value": ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    "adds a value": ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    "null deletes": ({"a": "b"}, {"a": None}, {}),
    "null deletes only what it names": ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    "a list is replaced by a value": ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    "a value by a list": ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    "maps merge": ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    "lists are replaced whole": ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    "a list is not a map": (["a", "b"], ["c", "d"], ["c", "d"]),
    "a map is not a list": ({"a": "b"}, ["c"], ["c"]),
    "null in an absent map is dropped": ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    "null stays where the object has it": ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
}


def _containers(*names: str, **image: str) -> dict[str, Any]:
    return {"containers": [{"name": n, "image": image.get(n, "old")} for n in names]}


STRATEGIC: dict[str, tuple[Any, Any, Any]] = {
    "containers merge by name": (
        _containers("a", "b"),
        {"containers": [{"name": "b", "image": "x"}]},
        _containers("a", "b", b="x"),
    ),
    "a new container comes last": (_containers("a"), _containers("z"), _containers("a", "z")),
    "one is deleted": (
        _containers("a", "b"),
        {"containers": [{"name": "a", "$patch": "delete"}]},
        _containers("b"),
    ),
    "the list is replaced": (
        _containers("a"),
        {"containers": [{"$patch": "replace"}, {"name": "q"}]},
        {"containers": [{"name": "q"}]},
    ),
    "env merges within a container": (
        {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}]},
        {"containers": [{"name": "a", "env": [{"name": "X", "value": "3"}]}]},
        {"containers": [{"name": "a", "env": [{"name": "X", "value": "3"}, {"name": "Y", "value": "2"}]}]},
    ),
    "ports by containerPort": (
        {"ports": [{"containerPort": 80, "name": "web"}]},
        {"ports": [{"containerPort": 80, "name": "http"}]},
        {"ports": [{"containerPort": 80, "name": "http"}]},
    ),
    "a service's ports by port": (
        {"ports": [{"port": 80, "targetPort": 1}]},
        {"ports": [{"port": 81}]},
        {"ports": [{"port": 80, "targetPort": 1}, {"port": 81}]},
    ),
    "conditions by type": (
        {"conditions": [{"type": "Ready", "status": "False"}]},
        {"conditions": [{"type": "Ready", "status": "True"}]},
        {"conditions": [{"type": "Ready", "status": "True"}]},
    ),
    "tolerations are replaced": (
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "b"}]},
        {"tolerations": [{"key": "b"}]},
    ),
    "args are replaced": ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
    "finalizers add up": ({"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, {"finalizers": ["a", "b"]}),
    "some of a primitive list go": (
        {"finalizers": ["a", "b"]},
        {"$deleteFromPrimitiveList/finalizers": ["a"]},
        {"finalizers": ["b"]},
    ),
    "null deletes a field": ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    "a map is replaced": ({"s": {"a": 1}}, {"s": {"$patch": "replace", "b": 2}}, {"s": {"b": 2}}),
    "a map is emptied": ({"s": {"a": 1}}, {"s": {"$patch": "delete"}}, {"s": {}}),
    "only named keys are retained": (
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
        {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
        {"strategy": {"type": "Recreate"}},
    ),
    "the order kubectl sends is no field": (
        _containers("a"),
        {"$setElementOrder/containers": [{"name": "a"}]},
        _containers("a"),
    ),
}

JSON: dict[str, tuple[Any, list[dict[str, Any]], Any]] = {
    "add": ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    "add into a list": ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    "append": ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    "remove": ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
    "remove from a list": ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    "replace": ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
    "replace everything": ({"a": 1}, [{"op": "replace", "path": "", "value": {}}], {}),
    "move": ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    "copy": ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
    "test": ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
    "escapes": (
        {"a/b": 1, "c~d": 2},
        [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/c~0d"}],
        {},
    ),
    "several in order": (
        {},
        [{"op": "add", "path": "/a", "value": {}}, {"op": "add", "path": "/a/b", "value": 1}],
        {"a": {"b": 1}},
    ),
}

JSON_WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a failed test": (
        {"a": 1},
        {"op": "test", "path": "/a", "value": 2},
        "testing value /a failed: test failed",
    ),
    "removing what is not there": ({}, {"op": "remove", "path": "/a"}, "path does not exist: /a"),
    "replacing what is not there": (
        {},
        {"op": "replace", "path": "/a", "value": 1},
        "path does not exist: /a",
    ),
    "adding below what is not there": ({}, {"op": "add", "path": "/a/b", "value": 1}, "path does not exist"),
    "a place beyond a list": ({"a": []}, {"op": "add", "path": "/a/1", "value": 1}, "path does not exist"),
    "no such operation": ({}, {"op": "merge", "path": "/a"}, "Unexpected kind: merge"),
}


@pytest.mark.parametrize("name", MERGE)
def test_merge(name: str) -> None:
    before, patch, want = MERGE[name]
    given = copy.deepcopy(before)
    assert merge_patch(given, patch) == want
    assert given == before


@pytest.mark.parametrize("name", STRATEGIC)
def test_strategic(name: str) -> None:
    before, patch, want = STRATEGIC[name]
    given = copy.deepcopy(before)
    assert strategic_patch(given, patch) == want
    assert given == before


@pytest.mark.parametrize("name", JSON)
def test_json(name: str) -> None:
    before, operations, want = JSON[name]
    given = copy.deepcopy(before)
    assert json_patch(given, operations) == want
    assert given == before


@pytest.mark.parametrize("name", JSON_WRONG)
def test_json_wrong(name: str) -> None:
    before, operation, want = JSON_WRONG[name]
    with pytest.raises(ApiError) as caught:
        json_patch(before, [operation])
    assert caught.value.code == 400
    assert want in caught.value.message


@pytest.mark.parametrize(
    ("form", "patch"),
    [
        ("merge", {"spec": {"parallelism": 2}}),
        ("strategic", {"spec": {"parallelism": 2}}),
        ("json", [{"op": "replace", "path": "/spec/parallelism", "value": 2}]),
    ],
)
def test_the_store_takes_all_three(form: str, patch: Any) -> None:
    store = Store()
    store.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 1}}
    )
    key = Key("Job.batch", "default", "j")
    patched = store.patch(key, patch, form=form)
    assert patched["spec"] == {"parallelism": 2}
    assert (patched["metadata"]["generation"], patched["metadata"]["resourceVersion"]) == (2, "2")
