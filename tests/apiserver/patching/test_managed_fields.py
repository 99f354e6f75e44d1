"""Who owns which fields after creates, updates, patches and applies: managedFields as the API server keeps them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apiserver.patching.applying import apply
from fairway.apiserver.patching.fieldset import (
    difference,
    element_key,
    element_value,
    intersection,
    members,
    path_text,
    recursive_difference,
    union,
)
from fairway.apiserver.patching.managed import are_readable, manager_of, managers_of, without
from fairway.apiserver.patching.tracking import Writer, track_update
from fairway.apiserver.patching.walk import compare, fields_of, merge, remove, with_parents
from fairway.apiserver.statuses import StatusError
from fairway.kube.schema.node import Schema, schema_for
from fairway.kube.schema.structural import custom_schema

_START_US = 1_785_571_200_000_000  # 2026-08-01T08:00:00Z


def _at(seconds: int) -> int:
    return _START_US + seconds * 1_000_000


def _schema(api_version: str, kind: str) -> Schema:
    found = schema_for(api_version, kind)
    assert found is not None
    return found


_CM, _POD, _DEPLOYMENT = _schema("v1", "ConfigMap"), _schema("v1", "Pod"), _schema("apps/v1", "Deployment")
_CREATE, _PATCH, _CI = Writer("kubectl-create", "v1"), Writer("kubectl-patch", "v1"), Writer("ci", "v1")


def _config(**data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cfg", "namespace": "t"},
        "data": data,
    }


def _stored(obj: dict[str, Any]) -> dict[str, Any]:
    """As the server stamps it."""
    meta = {
        **obj["metadata"],
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "2026-08-01T08:00:00Z",
    }
    return {**obj, "metadata": meta}


def _entries(obj: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(e["manager"], e["operation"], e["fieldsV1"]) for e in obj["metadata"].get("managedFields", [])]


def test_an_entry_in_full() -> None:
    obj = track_update(None, _stored(_config(a="1")), _CREATE, _at(0), _CM)
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "kubectl-create",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-08-01T08:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:a": {}}},
        }
    ]


# What a real API server records for these objects.
CREATED: dict[str, tuple[Schema | None, dict[str, Any], dict[str, Any]]] = {
    "labels and annotations": (
        _CM,
        {"metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}}},
        {"f:metadata": {"f:annotations": {".": {}, "f:c": {}}, "f:labels": {".": {}, "f:a": {}}}},
    ),
    "a pod: spec and containers have no dot, a container and its resources do": (
        _POD,
        {
            "metadata": {"name": "x"},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "ports": [{"containerPort": 80, "protocol": "TCP"}],
                        "resources": {"limits": {"cpu": "1"}},
                    }
                ],
                "restartPolicy": "Always",
                "tolerations": [{"key": "k"}],
                "nodeSelector": {"a": "b"},
            },
        },
        {
            "f:spec": {
                "f:containers": {
                    'k:{"name":"c"}': {
                        ".": {},
                        "f:image": {},
                        "f:name": {},
                        "f:ports": {
                            ".": {},
                            'k:{"containerPort":80,"protocol":"TCP"}': {
                                ".": {},
                                "f:containerPort": {},
                                "f:protocol": {},
                            },
                        },
                        "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}}},
                    }
                },
                "f:nodeSelector": {},
                "f:restartPolicy": {},
                "f:tolerations": {},
            }
        },
    ),
    "a container always brings its resources": (
        _POD,
        {"spec": {"containers": [{"name": "c"}]}},
        {"f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}, "f:resources": {}}}}},
    ),
    "a deployment: its strategy and template are structs": (
        _DEPLOYMENT,
        {
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"a": "b"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"dnsPolicy": "Default"}},
            }
        },
        {
            "f:spec": {
                "f:replicas": {},
                "f:selector": {},
                "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
                "f:template": {
                    "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                    "f:spec": {"f:dnsPolicy": {}},
                },
            }
        },
    ),
    "finalizers are a set": (
        _CM,
        {"metadata": {"finalizers": ["a/b"]}},
        {"f:metadata": {"f:finalizers": {".": {}, 'v:"a/b"': {}}}},
    ),
    "a custom object: everything is added": (
        custom_schema({"type": "object", "properties": {"spec": {"type": "object"}}}),
        {"spec": {"x": 1}},
        {"f:spec": {".": {}, "f:x": {}}},
    ),
    "a kind without a schema: lists are units": (
        None,
        {"spec": {"x": [{"name": "a"}]}, "metadata": {"labels": {"a": "b"}}},
        {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {".": {}, "f:x": {}}},
    ),
    "status of the main resource belongs to nobody": (_POD, {"status": {"phase": "Running"}}, {}),
}


@pytest.mark.parametrize("name", CREATED)
def test_created(name: str) -> None:
    schema, obj, want = CREATED[name]
    obj = {"apiVersion": "v1", "kind": "K", **obj}
    given_obj = copy.deepcopy(obj)
    tracked = track_update(None, obj, _CREATE, _at(0), schema)
    assert _entries(tracked) == ([("kubectl-create", "Update", want)] if want else [])
    assert obj == given_obj


def _created() -> dict[str, Any]:
    return track_update(None, _stored(_config(a="1")), _CREATE, _at(0), _CM)


def _patched() -> dict[str, Any]:
    live = _created()
    return track_update(live, {**live, "data": {"a": "1", "b": "2"}}, _PATCH, _at(5), _CM)


def test_a_patch_owns_what_it_adds() -> None:
    assert _entries(_patched()) == [
        ("kubectl-create", "Update", {"f:data": {".": {}, "f:a": {}}}),
        ("kubectl-patch", "Update", {"f:data": {"f:b": {}}}),
    ]


def test_a_changed_field_changes_hands() -> None:
    live = _patched()
    new = track_update(live, {**live, "data": {"a": "9", "b": "2"}}, _PATCH, _at(9), _CM)
    assert _entries(new) == [
        ("kubectl-create", "Update", {"f:data": {}}),
        ("kubectl-patch", "Update", {"f:data": {"f:a": {}, "f:b": {}}}),
    ]
    assert [e["time"][-4:] for e in new["metadata"]["managedFields"]] == [":00Z", ":09Z"]


def test_a_removed_field_is_owned_by_nobody() -> None:
    live = _patched()
    new = track_update(live, {**live, "data": {"a": "1"}}, Writer("x", "v1"), _at(9), _CM)
    assert _entries(new) == [("kubectl-create", "Update", {"f:data": {".": {}, "f:a": {}}})]


def test_a_write_that_changes_nothing_leaves_the_times() -> None:
    live = _created()
    assert track_update(live, {**live, "data": {"a": "1"}}, _PATCH, _at(60), _CM) == live


def test_an_untracked_object_stays_so_until_it_is_applied() -> None:
    live = _stored(_config(a="1"))
    updated = track_update(live, {**live, "data": {"a": "2"}}, _PATCH, _at(1), _CM)
    assert "managedFields" not in updated["metadata"]
    applied = apply(live, _config(b="1"), _CI, _at(2), _CM)
    assert _entries(applied) == [
        ("ci", "Apply", {"f:data": {"f:b": {}}}),
        ("before-first-apply", "Update", {"f:data": {".": {}, "f:a": {}}}),
    ]


def test_an_empty_entry_resets() -> None:
    live = _created()
    new = {**live, "metadata": {**live["metadata"], "managedFields": [{}]}}
    assert "managedFields" not in track_update(live, new, _PATCH, _at(1), _CM)["metadata"]


def test_status_has_its_own_entry() -> None:
    live = track_update(None, _stored({**_config(), "spec": {"nodeName": "n"}}), _CREATE, _at(0), _POD)
    new = {**live, "status": {"phase": "Running"}}
    kubelet = Writer("kubelet", "v1", "status")
    entries = track_update(live, new, kubelet, _at(3), _POD)["metadata"]["managedFields"]
    assert (entries[1]["manager"], entries[1]["subresource"]) == ("kubelet", "status")
    assert entries[1]["fieldsV1"] == {"f:status": {"f:phase": {}}}


def test_ten_managers_by_update_then_they_fold() -> None:
    obj = _created()
    for n in range(15):
        new = {**obj, "data": {**obj["data"], f"k{n}": "1"}}
        obj = track_update(obj, new, Writer(f"m{n:02}", "v1"), _at(10 + n), _CM)
    names = [entry[0] for entry in _entries(obj)]
    assert names == ["ancient-changes", *(f"m{n:02}" for n in range(6, 15))]
    folded = next(fields for name, _, fields in _entries(obj) if name == "ancient-changes")
    assert folded == {"f:data": {".": {}, "f:a": {}, **{f"f:k{n}": {} for n in range(6)}}}


# Server-side apply


def test_a_conflict_in_the_words_of_the_recorded_session() -> None:
    with pytest.raises(StatusError) as caught:
        apply(_patched(), _config(a="9"), _CI, _at(9), _CM)
    message = 'Apply failed with 1 conflict: conflict with "kubectl-create" using v1: .data.a'
    assert (caught.value.code, caught.value.reason, caught.value.message) == (409, "Conflict", message)
    assert caught.value.status()["details"] == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "kubectl-create" using v1',
                "field": ".data.a",
            }
        ]
    }


def test_several_conflicts() -> None:
    live = apply(_patched(), _config(b="2"), Writer("other", "v1"), _at(6), _CM)
    with pytest.raises(StatusError) as caught:
        apply(live, _config(a="9", b="9"), _CI, _at(9), _CM)
    assert caught.value.message == (
        'Apply failed with 3 conflicts: conflicts with "kubectl-create" using v1:\n- .data.a\n'
        'conflicts with "kubectl-patch" using v1:\n- .data.b\n'
        'conflicts with "other":\n- .data.b'
    )


def test_what_owns_nothing_is_created_all_the_same() -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cfg", "namespace": "t"}}
    assert apply(None, body, _CI, _at(1), _CM) == body


def test_force_takes_over() -> None:
    forced = apply(_patched(), _config(a="9"), _CI, _at(9), _CM, force=True)
    assert forced["data"] == {"a": "9", "b": "2"}
    assert _entries(forced) == [
        ("ci", "Apply", {"f:data": {"f:a": {}}}),
        ("kubectl-create", "Update", {"f:data": {}}),
        ("kubectl-patch", "Update", {"f:data": {"f:b": {}}}),
    ]


def test_the_same_value_is_shared_without_a_conflict() -> None:
    shared = apply(_created(), _config(a="1"), _CI, _at(9), _CM)
    assert [name for name, _, fields in _entries(shared) if "f:a" in fields["f:data"]] == [
        "ci",
        "kubectl-create",
    ]


def test_what_is_applied_no_more_is_removed_unless_shared() -> None:
    live = apply(_created(), _config(a="1", b="2", c="3"), _CI, _at(1), _CM)
    again = apply(live, _config(b="2"), _CI, _at(2), _CM)
    assert again["data"] == {"a": "1", "b": "2"}


def test_applying_twice_returns_the_object_itself() -> None:
    live = apply(None, _config(a="1"), _CI, _at(1), _CM)
    assert apply(live, _config(a="1"), _CI, _at(60), _CM) is live


def test_metadata_stays_when_its_last_applied_field_goes() -> None:
    labelled = _config(a="1")
    labelled["metadata"] = {**labelled["metadata"], "labels": {"a": "b"}}
    live = apply(None, labelled, _CI, _at(1), _CM)
    again = apply(live, _config(a="1"), _CI, _at(2), _CM)
    assert again["metadata"]["name"] == "cfg"
    assert "labels" not in again["metadata"]


def test_a_map_applied_empty_stays() -> None:
    live = apply(None, _config(a="1"), _CI, _at(1), _CM)
    emptied = apply(live, _config(), _CI, _at(2), _CM)
    assert emptied["data"] == {}
    assert apply(emptied, _config(), _CI, _at(3), _CM) is emptied


def test_a_kind_without_a_schema_is_applied_too() -> None:
    queue: dict[str, Any] = {
        "apiVersion": "x/v1",
        "kind": "Q",
        "metadata": {"name": "q"},
        "spec": {"a": 1, "b": [1]},
    }
    writer = Writer("ci", "x/v1")
    live = apply(None, queue, writer, _at(1), None)
    live = track_update(live, {**live, "spec": {**live["spec"], "c": 1}}, Writer("ui", "x/v1"), _at(2), None)
    again = apply(live, {**queue, "spec": {"a": 1}}, writer, _at(3), None)
    assert again["spec"] == {"a": 1, "c": 1}


def _pod(*containers: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": list(containers)},
    }


def test_items_merge_by_their_keys() -> None:
    live = apply(None, _pod({"name": "a", "image": "1"}, {"name": "b", "image": "1"}), _CI, _at(1), _POD)
    other = Writer("other", "v1")
    merged = apply(live, _pod({"name": "b", "tty": True}, {"name": "c", "image": "1"}), other, _at(2), _POD)
    assert merged["spec"]["containers"] == [
        {"name": "a", "image": "1"},
        {"name": "b", "image": "1", "tty": True},
        {"name": "c", "image": "1"},
    ]
    without = apply(merged, _pod({"name": "b", "tty": True}), other, _at(3), _POD)
    assert [c["name"] for c in without["spec"]["containers"]] == ["a", "b"]


def test_ports_without_a_protocol_are_tcp() -> None:
    container = {"name": "a", "ports": [{"containerPort": 80}]}
    live = apply(None, _pod(container), _CI, _at(1), _POD)
    stored = copy.deepcopy(live)
    stored["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP"  # as defaulting does
    again = apply(stored, _pod(container), _CI, _at(2), _POD)
    assert again["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_kubectl_takes_over_from_its_client_side_apply() -> None:
    annotation = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cfg"},"data":{"a":"1"}}'
    created = _stored(_config(a="1"))
    created["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": annotation}
    live = track_update(None, created, Writer("kubectl-client-side-apply", "v1"), _at(0), _CM)
    assert apply(live, _config(a="2"), Writer("kubectl", "v1"), _at(1), _CM)["data"] == {"a": "2"}
    with pytest.raises(StatusError):
        apply(live, _config(a="2"), _CI, _at(1), _CM)


@pytest.mark.parametrize("annotation", ["", "{", "[]", '"text"', "7", "{}"])
def test_a_last_applied_configuration_that_is_none_excuses_nothing(annotation: str) -> None:
    created = _stored(_config(a="1"))
    created["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": annotation}
    live = track_update(None, created, Writer("kubectl-client-side-apply", "v1"), _at(0), _CM)
    with pytest.raises(StatusError) as caught:
        apply(live, _config(a="2"), Writer("kubectl", "v1"), _at(1), _CM)
    assert caught.value.message.endswith('conflict with "kubectl-client-side-apply" using v1: .data.a')


def test_what_others_changed_beyond_the_last_applied_configuration_conflicts() -> None:
    annotation = '{"data":{"a":"1"}}'
    created = _stored(_config(a="1", b="1"))
    created["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": annotation}
    live = track_update(None, created, Writer("x", "v1"), _at(0), _CM)
    with pytest.raises(StatusError) as caught:
        apply(live, _config(a="2", b="2"), Writer("kubectl", "v1"), _at(1), _CM)
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "x" using v1: .data.b'


def test_a_conflict_names_the_subresource_through_which_it_was_written() -> None:
    """As where an autoscaler scaled what somebody applies."""
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "t"}}
    made = track_update(
        None, _stored({**body, "spec": {"paused": True}}), Writer("c", "apps/v1"), _at(0), _DEPLOYMENT
    )
    scaler = Writer("hpa", "apps/v1", subresource="scale")
    live = track_update(made, {**made, "spec": {"paused": True, "replicas": 3}}, scaler, _at(1), _DEPLOYMENT)
    with pytest.raises(StatusError) as caught:
        apply(live, {**body, "spec": {"replicas": 1}}, Writer("ci", "apps/v1"), _at(2), _DEPLOYMENT)
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "hpa" with subresource "scale" using apps/v1: .spec.replicas'
    )


APPLY_REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "managed fields": (
        {"metadata": {"name": "cfg", "managedFields": [{"manager": "m"}]}},
        400,
        "metadata.managedFields must be nil",
    ),
    "another version": (
        {"apiVersion": "v2"},
        400,
        "incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
    ),
    "no such field": (
        {"dat": {}},
        500,
        "failed to create typed patch object (t/cfg; /v1, Kind=ConfigMap): .dat: field not declared in schema",
    ),
}


@pytest.mark.parametrize("name", APPLY_REFUSED)
def test_refused_applies(name: str) -> None:
    extra, code, message = APPLY_REFUSED[name]
    with pytest.raises(StatusError) as caught:
        apply(_created(), {**_config(a="1"), **extra}, _CI, _at(1), _CM)
    assert (caught.value.code, caught.value.message) == (code, message)


def test_one_item_twice_is_refused() -> None:
    with pytest.raises(StatusError) as caught:
        apply(None, _pod({"name": "a"}, {"name": "a"}), _CI, _at(1), _POD)
    assert caught.value.message.endswith('.spec.containers: duplicate entries for key [name="a"]')


def test_names_of_managers() -> None:
    assert manager_of("ci", "kubectl/v1.32") == "ci"
    assert manager_of("", "kubectl/v1.32.0 (linux/amd64)") == "kubectl"
    assert manager_of("", "") == ""
    assert len(manager_of("", "x" * 500)) == 128


# Properties

_KEYS = st.sampled_from("abcd")
_DATA = st.dictionaries(_KEYS, st.sampled_from("12"), max_size=4)
_WRITES = st.lists(
    st.tuples(st.sampled_from(("apply", "update")), st.sampled_from(("x", "y", "z")), _DATA), max_size=6
)


def _leaves(obj: dict[str, Any]) -> set[str]:
    return {f".data.{key}" for key in obj.get("data") or {}}


@settings(max_examples=100)
@given(_WRITES)
def test_owned_leaves_exist_and_what_exists_is_owned(writes: list[tuple[str, str, dict[str, str]]]) -> None:
    """No manager owns what is not there; every field has an owner; updates share fields with appliers only."""
    obj = track_update(None, _stored(_config()), _CREATE, _at(0), _CM)
    obj = apply(obj, _config(s="1"), Writer("first", "v1"), _at(1), _CM)
    for n, (form, manager, data) in enumerate(writes):
        writer = Writer(manager, "v1")
        if form == "apply":
            obj = apply(obj, _config(**data), writer, _at(n + 2), _CM, force=True)
            assert apply(obj, _config(**data), writer, _at(n + 99), _CM) is obj
            assert data.items() <= (obj.get("data") or {}).items()
        else:
            obj = track_update(obj, {**obj, "data": data}, writer, _at(n + 2), _CM)
        owned: dict[str, list[str]] = {}
        for _, operation, fields in _entries(obj):
            for path in members(fields):
                owned.setdefault(path_text(path), []).append(operation)
        leaves = {path for path in owned if path.startswith(".data.")}
        assert leaves == _leaves(obj)
        assert all(operations.count("Update") <= 1 for path, operations in owned.items() if path in leaves)


_TREES = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(st.sampled_from(("f:a", "f:b", "f:c")), inner, max_size=3),
    max_leaves=8,
)


def _paths(fields: Any) -> set[tuple[str, ...]]:
    return set(members(fields))


@given(_TREES, _TREES)
def test_set_operations_agree_with_sets_of_paths(left: Any, right: Any) -> None:
    left, right = ({"f:r": t} if t else {} for t in (left, right))
    assert _paths(union(left, right)) == _paths(left) | _paths(right)
    assert _paths(difference(left, right)) == _paths(left) - _paths(right)
    assert _paths(intersection(left, right)) == _paths(left) & _paths(right)
    below = {p for p in _paths(left) if any(p[: len(q)] == q for q in _paths(right))}
    assert _paths(recursive_difference(left, right)) == _paths(left) - below


@given(_DATA, _DATA)
def test_comparison_agrees_with_brute_force(old: dict[str, str], new: dict[str, str]) -> None:
    found = compare({"data": {"z": "1", **old}}, {"data": {"z": "1", **new}}, _CM)
    named = [{path[-1][2:] for path in members(fields)} for fields in found]
    assert named[0] == new.keys() - old.keys()
    assert named[1] == {k for k in new.keys() & old.keys() if new[k] != old[k]}
    assert named[2] == old.keys() - new.keys()


def test_applied_fields_have_no_dots_on_structs() -> None:
    assert fields_of({"data": {"a": "1"}, "metadata": {"labels": {}}}, _CM) == {
        "f:data": {"f:a": {}},
        "f:metadata": {"f:labels": {}},
    }


def test_members_of_a_declared_map_of_structs_are_fields_themselves() -> None:
    """Of a map that nobody declared only the leaves are."""
    schema = schema_for("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    properties = {"a": {"type": "string"}}
    version = {"name": "v1", "schema": {"openAPIV3Schema": {"properties": properties}}}
    found = fields_of({"spec": {"names": {"kind": "A"}, "versions": [version]}}, schema)
    assert found == {"f:spec": {"f:names": {"f:kind": {}}, "f:versions": {}}}
    assert fields_of({"spec": properties}, None) == {"f:spec": {"f:a": {"f:type": {}}}}
    claim = schema_for("resource.k8s.io/v1", "ResourceSlice")
    assert claim is not None
    device = claim.properties["spec"].properties["devices"].items
    found = fields_of({"name": "d", "capacity": {"memory": {"value": "1Gi"}}}, device)
    assert found == {"f:name": {}, "f:capacity": {"f:memory": {".": {}, "f:value": {}}}}


def test_an_apply_keeps_what_the_server_and_others_wrote() -> None:
    live = track_update(None, _stored(_config(a="1")), _CREATE, _at(0), _CM)
    live["metadata"] |= {"labels": {"of": "others"}, "annotations": {"x": "y"}}
    applied = {**_config(b="2"), "metadata": {"name": "cfg", "namespace": "t", "labels": {"mine": "1"}}}
    found = apply(live, applied, Writer("ci", "v1"), _at(1), _CM)
    meta = {k: v for k, v in found["metadata"].items() if k != "managedFields"}
    assert meta == {
        "name": "cfg",
        "namespace": "t",
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "2026-08-01T08:00:00Z",
        "labels": {"of": "others", "mine": "1"},
        "annotations": {"x": "y"},
    }
    assert found["data"] == {"a": "1", "b": "2"}
    assert [(m, o) for m, o, _ in _entries(found)] == [("ci", "Apply"), ("kubectl-create", "Update")]


def test_fields_are_written_in_order() -> None:
    """As structured-merge-diff writes its sets: at every depth, whatever order they came in."""
    config = {**_config(z="1", a="2", m="3"), "binaryData": {"q": "", "b": ""}}
    obj = track_update(None, _stored(config), _CREATE, _at(0), _CM)
    (entry,) = obj["metadata"]["managedFields"]
    assert list(entry["fieldsV1"]) == ["f:binaryData", "f:data"]
    assert list(entry["fieldsV1"]["f:data"]) == [".", "f:a", "f:m", "f:z"]
    assert list(entry["fieldsV1"]["f:binaryData"]) == [".", "f:b", "f:q"]


@pytest.mark.parametrize("kind", ["data", "finalizers"])
def test_nothing_and_something_empty_are_told_apart(kind: str) -> None:
    """A map or list that becomes empty, or null, changed as a whole: there is nothing in it to name."""

    def at(value: Any) -> dict[str, Any]:
        return {"data": value} if kind == "data" else {"metadata": {"name": "c", "finalizers": value}}

    empty: Any = {} if kind == "data" else []
    whole: Any = {"f:data": {}} if kind == "data" else {"f:metadata": {"f:finalizers": {}}}
    for old, new in ((None, empty), (empty, None)):
        found = compare(at(old), at(new), _CM)
        assert (found.added, found.modified, found.removed) == ({}, whole, {})
    same = compare(at(empty), at(empty), _CM)
    assert (same.added, same.modified, same.removed) == ({}, {}, {})


# Pieces of sets and objects


SELECTOR = {"matchLabels": {"a": "1"}}


def test_what_is_atomic_is_one_field() -> None:
    """A Deployment's selector is replaced as a whole; its template's labels are not."""
    applied = {"spec": {"selector": SELECTOR, "template": {"metadata": {"labels": {"a": "1"}}}}}
    assert fields_of(applied, _DEPLOYMENT) == {
        "f:spec": {"f:selector": {}, "f:template": {"f:metadata": {"f:labels": {"f:a": {}}}}}
    }
    labels = {"metadata": {"labels": {"b": "2"}}}
    live = {"spec": {"selector": {"matchLabels": {"b": "2"}}, "template": labels}}
    both = {"metadata": {"labels": {"b": "2", "a": "1"}}}
    assert merge(live, applied, _DEPLOYMENT) == {"spec": {"selector": SELECTOR, "template": both}}
    found = compare(live, {"spec": {"selector": SELECTOR, "template": labels}}, _DEPLOYMENT)
    assert (found.added, found.modified, found.removed) == ({}, {"f:spec": {"f:selector": {}}}, {})


def test_lists_without_keys_change_as_a_whole() -> None:
    container = _POD.properties["spec"].properties["containers"].items
    found = compare({"args": ["a", "b"]}, {"args": ["a", "c"]}, container)
    assert (found.added, found.modified, found.removed) == ({}, {"f:args": {}}, {})
    found = compare({"args": ["a"]}, {"args": ["a"]}, container)
    assert (found.added, found.modified, found.removed) == ({}, {}, {})
    assert merge({"args": ["a", "b"]}, {"args": ["c"]}, container) == {"args": ["c"]}
    found = compare({"x": ["a"]}, {"x": ["b"]}, None)
    assert (found.added, found.modified, found.removed) == ({}, {"f:x": {}}, {})


def test_parts_of_items_are_removed() -> None:
    """And an item, a list or a struct with them that has nothing left; what is no list or struct stays."""
    one, two = {"name": "a", "image": "i", "tty": True}, {"name": "b", "image": "j"}
    pod = {"spec": {"nodeName": "n", "containers": [one, two]}}
    of_one = {"f:spec": {"f:containers": {'k:{"name":"a"}': {"f:image": {}, "f:tty": {}}}}}
    assert remove(pod, of_one, _POD) == {"spec": {"nodeName": "n", "containers": [{"name": "a"}, two]}}
    whole = {"f:spec": {"f:containers": {'k:{"name":"b"}': {".": {}, "f:image": {}}}}}
    assert remove(pod, whole, _POD) == {"spec": {"nodeName": "n", "containers": [one]}}
    assert remove(pod, {"f:spec": {"f:nodeName": {"f:x": {}}}}, _POD) == pod
    assert remove({"x": [1]}, {"f:x": {"v:1": {}}}, None) == {"x": [1]}


def test_which_fields_above_a_member_become_members() -> None:
    """Structs' fields do; items and entries of maps do not."""
    image = {"f:containers": {'k:{"name":"c"}': {"f:image": {}}}}
    assert with_parents({"f:spec": image, "f:metadata": {"f:labels": {"f:a": {}}}}, _POD) == {
        "f:spec": {".": {}, "f:containers": {".": {}, 'k:{"name":"c"}': {"f:image": {}}}},
        "f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}},
    }
    assert with_parents({"f:x": {"f:y": {}}}, None) == {"f:x": {"f:y": {}}}
    assert with_parents({"f:data": {".": {}, "f:a": {}}}, _CM) == {"f:data": {".": {}, "f:a": {}}}


def test_letters_of_any_language_stand_as_they_are() -> None:
    assert element_key({"name": "é", "a": 1}) == 'k:{"a":1,"name":"é"}'
    assert element_value({"b": "ü", "a": None}) == 'v:{"a":null,"b":"ü"}'
    assert element_value("é") == 'v:"é"'


ENTRY = {
    "manager": "m",
    "operation": "Update",
    "apiVersion": "v1",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:a": {}},
}


@pytest.mark.parametrize(
    ("change", "readable"),
    [
        ({}, True),
        ({"operation": "Apply"}, True),
        ({"manager": None}, True),
        ({"operation": "Patch"}, False),
        ({"operation": None}, False),
        ({"apiVersion": ""}, False),
        ({"apiVersion": None}, False),
        ({"fieldsType": "FieldsV2"}, False),
        ({"fieldsType": None}, False),
        ({"fieldsV1": None}, False),
        ({"fieldsV1": {"a": {}}}, False),
    ],
)
def test_entries_that_can_be_read(change: dict[str, Any], readable: bool) -> None:
    entry = {k: v for k, v in {**ENTRY, **change}.items() if v is not None}
    assert are_readable([entry]) is readable
    assert are_readable([ENTRY, entry]) is readable
    assert are_readable([]) and not are_readable(["text"])


def test_entries_of_one_manager_are_one() -> None:
    entries: list[dict[str, Any]] = [
        ENTRY,
        {**ENTRY, "fieldsV1": {"f:b": {}}, "time": "2026-08-01T08:00:00Z"},
        {**ENTRY, "subresource": "status"},
        {**ENTRY, "operation": "Patch"},
        {**ENTRY, "fieldsV1": "text"},
        {k: v for k, v in ENTRY.items() if k != "fieldsV1"},
    ]
    found = managers_of({"metadata": {"managedFields": entries}})
    assert [(i.manager, i.operation, i.api_version, i.subresource) for i in found] == [
        ("m", "Update", "v1", ""),
        ("m", "Update", "v1", "status"),
    ]
    first, second = found.values()
    assert (first.fields, first.time) == ({"f:a": {}, "f:b": {}}, "2026-08-01T08:00:00Z")
    assert (second.fields, second.time) == ({"f:a": {}}, "")


def test_whole_fields_are_ignored() -> None:
    fields = {"f:spec": {"f:a": {}}, "f:status": {"f:b": {"f:c": {}}}}
    assert without(fields, ("status",)) == {"f:spec": {"f:a": {}}}
    assert without(fields, ("status", "spec")) == {}
    assert without(fields, ("metadata",)) == fields and without(fields, ()) == fields
