"""Patches that leave something unreadable, and fields nobody knows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairway.apiserver.patching.misfits import go_text, misfit
from fairway.apiserver.patching.typing import type_errors
from fairway.kube.schema.node import schema_for

WRONG = "json: cannot unmarshal {} into Go struct field DeploymentSpec.spec.x of type {}"
WORDS = {
    "text for a number": (WRONG.format("string", "int32"), "unrecognized type: int32"),
    "a number for text": (WRONG.format("number", "string"), "cannot convert int64 to string"),
    "text for a list": (WRONG.format("string", "[]v1.Container"), "cannot restore slice from string"),
    "a list for a map": (WRONG.format("array", "map[string]string"), "cannot restore map from slice"),
    "text for a struct": (WRONG.format("string", "v1.PodSpec"), "cannot restore struct from: string"),
    "something else": ("strict decoding error: …", "strict decoding error: …"),
}


@pytest.mark.parametrize("name", WORDS)
def test_a_strategic_patch_is_read_as_a_tree(name: str) -> None:
    wrong, want = WORDS[name]
    said = misfit({"spec": {"x": "y"}}, {}, wrong, is_strategic=True)
    assert said.code == 422
    assert said.message == f' "" is invalid: patch: Invalid value: "map[spec:map[x:y]]": {want}'


def test_other_patches_are_decoded_from_text() -> None:
    new = {"kind": "ConfigMap", "data": "x"}
    said = misfit({"data": "x"}, new, "json: no", is_strategic=False)
    text = json.dumps(json.dumps(new, sort_keys=True, separators=(",", ":")))
    assert said.message == f' "" is invalid: patch: Invalid value: {text}: json: no'
    assert said.details is not None
    assert said.details["causes"][0]["field"] == "patch"


def test_metadata_left_alone_is_shown_as_go_declares_it() -> None:
    entry = {"apiVersion": "v1", "manager": "m", "operation": "Update"}
    meta = {"labels": {"b": "1", "a": "2"}, "managedFields": [entry], "uid": "u", "name": "c"}
    for patch, shown in (
        (
            {"data": "x"},
            '{"data":"x","metadata":{"name":"c","uid":"u","labels":{"b":"1","a":"2"},'
            '"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1"}]}}',
        ),
        (
            {"data": "x", "metadata": {"uid": "u"}},
            '{"data":"x","metadata":{"labels":{"a":"2","b":"1"},'
            '"managedFields":[{"apiVersion":"v1","manager":"m","operation":"Update"}],"name":"c","uid":"u"}}',
        ),
    ):
        said = misfit(patch, {"metadata": meta, "data": "x"}, "json: no", is_strategic=False)
        assert said.message == f' "" is invalid: patch: Invalid value: {json.dumps(shown)}: json: no'


GO: dict[str, tuple[Any, str]] = {
    "sorted keys": ({"b": 1, "a": [True, None, "x"]}, "map[a:[true <nil> x] b:1]"),
    "nothing": ({}, "map[]"),
}


@pytest.mark.parametrize("name", GO)
def test_values_as_go_shows_them(name: str) -> None:
    value, want = GO[name]
    assert go_text(value) == want


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("hostNetwork", True, ""),
        ("hostNetwork", "yes", "expected boolean, got &{yes}"),
        ("hostNetwork", 1, "expected boolean, got &{1}"),
        ("hostNetwork", {"a": 1}, "expected boolean, got &{map[a:1]}"),
        ("hostNetwork", ["x"], "expected boolean, got &{[x]}"),
        ("hostNetwork", None, ""),
        ("priority", 1, ""),
        ("priority", 1.5, ""),
        ("priority", True, "expected numeric (int or float), got bool"),
        ("priority", "1", "expected numeric (int or float), got string"),
        ("priority", {}, "expected numeric (int or float), got map[string]interface {}"),
        ("priority", [], "expected numeric (int or float), got []interface {}"),
        ("nodeName", "n", ""),
        ("nodeName", True, "expected string, got &value.valueUnstructured{Value:true}"),
        (
            "nodeName",
            {"b": None, "a": ["x"]},
            'expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":[]interface {}{"x"}, '
            '"b":interface {}(nil)}}',
        ),
    ],
)
def test_what_is_not_of_its_fields_type_is_said_as_structured_merge_diff_says_it(
    field: str, value: Any, said: str
) -> None:
    found = type_errors({"spec": {field: value}}, schema_for("v1", "Pod"))
    assert found == ([f".spec.{field}: {said}"] if said else [])
