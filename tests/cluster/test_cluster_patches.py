"""JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from fairway.cluster.errors import ApiError
from fairway.cluster.jsonpatch import JsonPatchRefused
from fairway.cluster.patches import json_patch, merge_patch, strategic_patch
from fairway.cluster.store import Store
from fairway.kube.objects import Key
from fairway.kube.schema.node import Schema, definition_schema

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


POD, CONTAINER, SERVICE, NODE_STATUS, META, DEPLOYMENT = (
    "core.v1.PodSpec",
    "core.v1.Container",
    "core.v1.ServiceSpec",
    "core.v1.NodeStatus",
    "",
    "apps.v1.DeploymentSpec",
)
# Type of what is patched, before, patch, after.
STRATEGIC: dict[str, tuple[str, Any, Any, Any]] = {
    "containers merge by name": (
        POD,
        _containers("a", "b"),
        {"containers": [{"name": "b", "image": "x"}]},
        # What the patch names comes as early as the live order allows.
        _containers("a", "b", b="x"),
    ),
    # As the documentation of `kubectl patch` shows.
    "a new container without an order comes first": (
        POD,
        _containers("a"),
        _containers("z"),
        _containers("z", "a"),
    ),
    "a new container in the order kubectl sends": (
        POD,
        _containers("a", "b"),
        {
            "$setElementOrder/containers": [{"name": "a"}, {"name": "z"}, {"name": "b"}],
            "containers": [{"name": "z", "image": "old"}],
        },
        _containers("a", "z", "b"),
    ),
    # b is before c in the live list, and stays so.
    "items change places": (
        POD,
        _containers("a", "b", "c"),
        {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]},
        _containers("b", "c", "a"),
    ),
    "a primitive goes from a list in an order": (
        META,
        {"finalizers": ["a", "b", "c"]},
        {"$setElementOrder/finalizers": ["c", "a"], "$deleteFromPrimitiveList/finalizers": ["b"]},
        {"finalizers": ["c", "a"]},
    ),
    "a primitive goes and another comes": (
        META,
        {"finalizers": ["a", "b"]},
        {
            "$setElementOrder/finalizers": ["a", "z"],
            "$deleteFromPrimitiveList/finalizers": ["b"],
            "finalizers": ["z"],
        },
        {"finalizers": ["a", "z"]},
    ),
    "what only the server has keeps its place": (
        POD,
        _containers("sidecar", "a", "b"),
        {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]},
        _containers("sidecar", "b", "a"),
    ),
    "one is deleted": (
        POD,
        _containers("a", "b"),
        {"containers": [{"name": "a", "$patch": "delete"}]},
        _containers("b"),
    ),
    "the list is replaced": (
        POD,
        _containers("a"),
        {"containers": [{"$patch": "replace"}, {"name": "q"}]},
        {"containers": [{"name": "q"}]},
    ),
    "env merges within a container": (
        POD,
        {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}]},
        {"containers": [{"name": "a", "env": [{"name": "X", "value": "3"}]}]},
        {"containers": [{"name": "a", "env": [{"name": "X", "value": "3"}, {"name": "Y", "value": "2"}]}]},
    ),
    "ports by containerPort": (
        CONTAINER,
        {"ports": [{"containerPort": 80, "name": "web"}]},
        {"ports": [{"containerPort": 80, "name": "http"}]},
        {"ports": [{"containerPort": 80, "name": "http"}]},
    ),
    "a service's ports by port": (
        SERVICE,
        {"ports": [{"port": 80, "targetPort": 1}]},
        {"ports": [{"port": 80, "targetPort": 2}]},
        {"ports": [{"port": 80, "targetPort": 2}]},
    ),
    "conditions by type": (
        NODE_STATUS,
        {"conditions": [{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "False"}]},
        {"conditions": [{"type": "Ready", "status": "True"}]},
        {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}]},
    ),
    "tolerations are replaced": (
        POD,
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "b"}]},
        {"tolerations": [{"key": "b"}]},
    ),
    "args are replaced": (CONTAINER, {"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
    "finalizers add up": (
        META,
        {"finalizers": ["a"]},
        {"finalizers": ["b", "a"]},
        {"finalizers": ["b", "a"]},
    ),
    "some of a primitive list go": (
        META,
        {"finalizers": ["a", "b"]},
        {"$deleteFromPrimitiveList/finalizers": ["a"]},
        {"finalizers": ["b"]},
    ),
    "null deletes a field": (POD, {"nodeName": "n", "hostname": "h"}, {"nodeName": None}, {"hostname": "h"}),
    "nulls of what is new are dropped": (
        POD,
        {},
        {"securityContext": {"runAsUser": None, "fsGroup": 1}},
        {"securityContext": {"fsGroup": 1}},
    ),
    "a map is replaced": (
        POD,
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"$patch": "replace", "b": "2"}},
        {"nodeSelector": {"b": "2"}},
    ),
    "a map is emptied": (
        POD,
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"$patch": "delete"}},
        {"nodeSelector": {}},
    ),
    "only named keys are retained": (
        DEPLOYMENT,
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
        {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
        {"strategy": {"type": "Recreate"}},
    ),
    "an object in the place of a value is without directives": (
        POD,
        {"nodeSelector": "wrong"},
        {"nodeSelector": {"$patch": "merge", "$retainKeys": ["b"], "a": None, "b": "2"}},
        {"nodeSelector": {"b": "2"}},
    ),
    "a merge can be asked for by name": (
        POD,
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"$patch": "merge", "b": "2"}},
        {"nodeSelector": {"a": "1", "b": "2"}},
    ),
    "a new list is without directives and what they are about": (
        POD,
        {},
        {
            "containers": [
                {"name": "a", "$patch": "delete"},
                {"$patch": "replace"},
                {"name": "b", "$patch": "merge", "image": None, "args": [None, "x"]},
            ]
        },
        {"containers": [{"name": "b", "args": [None, "x"]}]},
    ),
    "what a new object would take from lists is dropped": (
        POD,
        {},
        {"affinity": {"$setElementOrder/a": ["x"], "$deleteFromPrimitiveList/a": ["y"], "a": ["z"]}},
        {"affinity": {"a": ["z"]}},
    ),
    "a new list in an order is the list": (
        POD,
        {"hostname": "h"},
        {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "a", "image": None}]},
        {"hostname": "h", "containers": [{"name": "a"}]},
    ),
    "the order of a list that is not there is nothing": (
        POD,
        {"hostname": "h"},
        {"$setElementOrder/containers": [{"name": "a"}]},
        {"hostname": "h"},
    ),
    "a union is replaced": (
        DEPLOYMENT,
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
        {"strategy": {"type": "Recreate"}},
        {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
    ),
    "lists without a schema's key are replaced, directives aside": (
        POD,
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"$patch": "replace"}, {"key": "b", "value": None}]},
        {"tolerations": [{"key": "b"}]},
    ),
    "a list takes the place of a value": (
        POD,
        {"containers": "wrong"},
        {"containers": [{"name": "a", "image": None}]},
        {"containers": [{"name": "a"}]},
    ),
    "what goes from a list that is none is nothing": (
        META,
        {"finalizers": "wrong"},
        {"$deleteFromPrimitiveList/finalizers": ["a"]},
        {"finalizers": "wrong"},
    ),
    "a primitive said twice comes once": (
        META,
        {"finalizers": ["a"]},
        {"finalizers": ["b", "b", "a"]},
        {"finalizers": ["b", "a"]},
    ),
    "all items of one key go": (
        POD,
        {"containers": [{"name": "a", "image": "1"}, "odd", {"name": "a", "image": "2"}, {"name": "b"}]},
        {"containers": [{"name": "a", "$patch": "delete"}]},
        {"containers": ["odd", {"name": "b"}]},
    ),
    "of several items of one key the first is patched": (
        POD,
        {"containers": [{"name": "a", "image": "1"}, {"name": "a", "image": "2"}]},
        {"containers": [{"name": "a", "image": "3"}]},
        {"containers": [{"name": "a", "image": "3"}, {"name": "a", "image": "2"}]},
    ),
    "the order kubectl sends is no field": (
        POD,
        _containers("a"),
        {"$setElementOrder/containers": [{"name": "a"}]},
        _containers("a"),
    ),
}


def _type(name: str) -> Schema:
    full = f"io.k8s.api.{name}" if name else "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    return definition_schema(full)


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
    "a place counted from the end": ({"a": [1, 2]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1]}),
    "the first counted from the end": (
        {"a": [1, 2]},
        [{"op": "replace", "path": "/a/-2", "value": 3}],
        {"a": [3, 2]},
    ),
    "replace in a list": ({"a": [1, 2]}, [{"op": "replace", "path": "/a/1", "value": 3}], {"a": [1, 3]}),
    "add everything": ({"a": 1}, [{"op": "add", "path": "", "value": [1]}], [1]),
    "add before the end": ({"a": [1]}, [{"op": "add", "path": "/a/-1", "value": 2}], {"a": [1, 2]}),
    "replace what is not there in an object": ({}, [{"op": "replace", "path": "/a", "value": 1}], {"a": 1}),
    "test what is not there": ({}, [{"op": "test", "path": "/a", "value": None}], {}),
    "test deep": (
        {"a": [{"b": [1, True]}]},
        [{"op": "test", "path": "/a", "value": [{"b": [1, True]}]}],
        {"a": [{"b": [1, True]}]},
    ),
    "move within a list": (
        {"a": [1, 2, 3]},
        [{"op": "move", "from": "/a/0", "path": "/a/2"}],
        {"a": [2, 3, 1]},
    ),
    "what was copied is another": (
        {"a": {"b": 1}},
        [{"op": "copy", "from": "/a", "path": "/c"}, {"op": "replace", "path": "/c/b", "value": 2}],
        {"a": {"b": 1}, "c": {"b": 2}},
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
    "removing what is not there": (
        {},
        {"op": "remove", "path": "/a"},
        "error in remove for path: '/a': Unable to remove nonexistent key: a: missing value",
    ),
    "replacing what is not there": (
        {"a": []},
        {"op": "replace", "path": "/a/0", "value": 1},
        "replace operation does not apply: doc is missing key: /a/0: missing value",
    ),
    "adding below what is not there": (
        {},
        {"op": "add", "path": "/a/b", "value": 1},
        'add operation does not apply: doc is missing path: "/a/b": missing value',
    ),
    "a place beyond a list": (
        {"a": []},
        {"op": "add", "path": "/a/1", "value": 1},
        "error in add for path: '/a/1': Unable to access invalid index: 1: invalid index referenced",
    ),
    "moving what is not there": (
        {},
        {"op": "move", "from": "/a", "path": "/b"},
        "move operation does not apply: doc is missing from path: /a: missing value",
    ),
    "true is not one": (
        {"a": True},
        {"op": "test", "path": "/a", "value": 1},
        "testing value /a failed: test failed",
    ),
    "a list of another length": (
        {"a": [1]},
        {"op": "test", "path": "/a", "value": [1, 2]},
        "testing value /a failed: test failed",
    ),
    "an object with more": (
        {"a": {"b": 1}},
        {"op": "test", "path": "/a", "value": {"b": 1, "c": 1}},
        "testing value /a failed: test failed",
    ),
    "an object with another value": (
        {"a": {"b": 1, "c": 1}},
        {"op": "test", "path": "/a", "value": {"b": 1, "c": 2}},
        "testing value /a failed: test failed",
    ),
    "a place in front of a list": (
        {"a": [1]},
        {"op": "remove", "path": "/a/-2"},
        "error in remove for path: '/a/-2': Unable to access invalid index: -2: invalid index referenced",
    ),
    "the place behind a list": (
        {"a": [1]},
        {"op": "remove", "path": "/a/1"},
        "error in remove for path: '/a/1': Unable to access invalid index: 1: invalid index referenced",
    ),
    "a place that is no number": (
        {"a": [1]},
        {"op": "add", "path": "/a/x", "value": 1},
        "error in add for path: '/a/x': Unable to access invalid index: x: strconv.Atoi: parsing \"x\": invalid syntax",
    ),
    "replacing below a value": (
        {"a": 1},
        {"op": "replace", "path": "/a/b", "value": 1},
        "replace operation does not apply: doc is missing path: /a/b: missing value",
    ),
    "copying what is not there": (
        {},
        {"op": "copy", "from": "/a", "path": "/b"},
        'copy operation does not apply: doc is missing from path: "/a": missing value',
    ),
    "moving from nowhere": (
        {},
        {"op": "move", "path": "/b"},
        "move operation does not apply: missing from",
    ),
    "copying from nowhere": (
        {},
        {"op": "copy", "path": "/b"},
        "copy operation does not apply: missing from",
    ),
    "a path is text": ({}, {"op": "add", "path": 1}, "add operation does not apply: missing path"),
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
    type_name, before, patch, want = STRATEGIC[name]
    given = copy.deepcopy(before)
    assert strategic_patch(given, patch, _type(type_name)) == want
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
    with pytest.raises(JsonPatchRefused) as caught:
        json_patch(before, [operation])
    assert (caught.value.code, caught.value.message) == (422, want)


def test_a_json_patch_is_a_list() -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({}, {"op": "add"})
    assert caught.value.code == 400


def test_a_patch_has_so_many_operations_and_copies_so_much() -> None:
    step = {"op": "test", "path": "/a", "value": 1}
    assert json_patch({"a": 1}, [step] * 10_000) == {"a": 1}
    with pytest.raises(ApiError) as caught:
        json_patch({"a": 1}, [step] * 10_001)
    assert (caught.value.code, caught.value.reason) == (413, "RequestEntityTooLarge")
    # A text of a MiB in quotes, three times: six bytes too many.
    text = "x" * (2**20 - 2)
    copies = [{"op": "copy", "from": "/a", "path": f"/b{i}"} for i in range(4)]
    assert len(json_patch({"a": text}, copies[:3])) == 4
    for many, one_more in ((copies, text), (copies[:3], text + "x")):
        with pytest.raises(JsonPatchRefused) as refused:
            json_patch({"a": one_more}, many)
        size = (len(one_more) + 2) * len(many)
        assert refused.value.message == (
            f"Unable to complete the copy, the accumulated size increase of copy is {size}, "
            "exceeding the limit 3145728"
        )


@pytest.mark.parametrize(
    ("patch", "code", "words"),
    [
        ({"nodeSelector": {"$patch": "drop"}}, 500, "unknown patch type: drop in map: map[$patch:drop]"),
        ({"nodeSelector": {"$retainKeys": "a"}}, 400, "invalid patch format of retainKeys"),
        ({"$deleteFromPrimitiveList/a": "b"}, 400, "invalid patch format of primitive list"),
        ({"$setElementOrder/a": "b"}, 400, "invalid patch format of setElementOrder list"),
        ({"$setElementOrder/a": [], "a": "b"}, 400, "invalid patch format of setElementOrder list"),
        (
            {"$setElementOrder/a": [], "$deleteFromPrimitiveList/a": "b"},
            400,
            "invalid patch format of primitive list",
        ),
    ],
)
def test_wrong_directives_are_refused(patch: Any, code: int, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        strategic_patch({"nodeSelector": {"a": "1"}, "a": ["b"]}, patch, _type(POD))
    assert (caught.value.code, caught.value.message) == (code, words)


def test_without_a_key_an_item_has_no_place() -> None:
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic_patch(_containers("a"), {"containers": [{"image": "x"}]}, _type(POD))


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


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(("a", "a/b", "c~d")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("a", "b/c", "d~e", "")), inner, max_size=3)
    ),
    max_leaves=8,
)


def _operations(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """A plain way from one document to the other."""
    if type(old) is not type(new) or not isinstance(old, (dict, list)):
        return (
            [] if old == new and type(old) is type(new) else [{"op": "replace", "path": path, "value": new}]
        )
    if isinstance(old, list):
        removed = [{"op": "remove", "path": f"{path}/0"} for _ in old]
        return [*removed, *({"op": "add", "path": f"{path}/-", "value": v} for v in new)]
    steps = []
    for key in sorted({*old, *new}):
        at = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in new:
            steps.append({"op": "remove", "path": at})
        elif key not in old:
            steps.append({"op": "add", "path": at, "value": new[key]})
        else:
            steps.extend(_operations(old[key], new[key], at))
    return steps


@drawn(_VALUES, _VALUES)
def test_json_patch_leads_from_any_document_to_any_other(old: Any, new: Any) -> None:
    assert json_patch(old, [*_operations(old, new), {"op": "test", "path": "", "value": new}]) == new


@drawn(_VALUES, _VALUES)
def test_merging_twice_is_merging_once(old: Any, new: Any) -> None:
    once = merge_patch(old, new)
    assert merge_patch(once, new) == once


_ITEMS = st.lists(st.sampled_from("abcd"), unique=True, max_size=4)


@drawn(_ITEMS, _ITEMS, st.booleans())
def test_strategic_lists_keep_every_item_once(live: list[str], patch: list[str], ordered: bool) -> None:
    """Nothing is lost or doubled; the patch's items keep their order, and so do the server's own."""
    body: dict[str, Any] = {"containers": [{"name": n, "image": "new"} for n in patch]}
    if ordered:
        body["$setElementOrder/containers"] = [{"name": n} for n in patch]
    merged = strategic_patch(_containers(*live), body, _type(POD))["containers"]
    names = [c["name"] for c in merged]
    assert sorted(names) == sorted({*live, *patch})
    assert [n for n in names if n in patch] == patch
    assert [n for n in names if n not in patch] == [n for n in live if n not in patch]
    assert all((c["image"] == "new") is (c["name"] in patch) for c in merged)
