"""What is refused of a custom object by its schema, word for word, and how it is pruned and defaulted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.kube.schema.decoding import unknown_fields
from fairway.kube.schema.formats import fits_format
from fairway.kube.schema.shaping import fill_defaults, prune
from fairway.kube.schema.structural import custom_schema
from fairway.kube.schema.values import go_number, validate_custom

_INT_OR_TEXT = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


# Properties of the spec, the spec, the lines.
VALUES: dict[str, tuple[dict[str, Any], Any, list[str]]] = {
    "fits": ({"x": {"type": "integer"}}, {"x": 1}, []),
    "a whole float is an integer": ({"x": {"type": "integer"}}, {"x": 1.0}, []),
    "text for an integer": (
        {"x": {"type": "integer"}},
        {"x": "one"},
        ['spec.x: Invalid value: "string": spec.x in body must be of type integer: "string"'],
    ),
    "null": (
        {"x": {"type": "integer"}},
        {"x": None},
        ['spec.x: Invalid value: "null": spec.x in body must be of type integer: "null"'],
    ),
    "null where it may be": ({"x": {"type": "integer", "nullable": True}}, {"x": None}, []),
    "an enum": (
        {"x": {"type": "string", "enum": ["a", "b"]}},
        {"x": "c"},
        ['spec.x: Unsupported value: "c": supported values: "a", "b"'],
    ),
    "a pattern": (
        {"x": {"type": "string", "pattern": "^a+$"}},
        {"x": "b"},
        ["spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'"],
    ),
    "a pattern and a line end": (
        {"x": {"type": "string", "pattern": "^a$"}},
        {"x": "a\n"},
        ["spec.x: Invalid value: \"a\\n\": spec.x in body should match '^a$'"],
    ),
    "too small": (
        {"x": {"type": "integer", "minimum": 3}},
        {"x": 1},
        ["spec.x: Invalid value: 1: spec.x in body should be greater than or equal to 3"],
    ),
    "not below": (
        {"x": {"type": "integer", "maximum": 3, "exclusiveMaximum": True}},
        {"x": 3},
        ["spec.x: Invalid value: 3: spec.x in body should be less than 3"],
    ),
    "not a multiple": (
        {"x": {"type": "integer", "multipleOf": 4}},
        {"x": 6},
        ["spec.x: Invalid value: 6: spec.x in body should be a multiple of 4"],
    ),
    "too long": (
        {"x": {"type": "string", "maxLength": 2}},
        {"x": "abc"},
        ["spec.x: Too long: may not be more than 2 bytes"],
    ),
    "too short": (
        {"x": {"type": "string", "minLength": 2}},
        {"x": "a"},
        ['spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long'],
    ),
    "too many": (
        {"x": {"type": "array", "maxItems": 1, "items": {"type": "string"}}},
        {"x": ["a", "b"]},
        ["spec.x: Too many: 2: must have at most 1 items"],
    ),
    "too few": (
        {"x": {"type": "array", "minItems": 1, "items": {"type": "string"}}},
        {"x": []},
        ["spec.x: Invalid value: 0: spec.x in body should have at least 1 items"],
    ),
    "an item": (
        {"x": {"type": "array", "items": {"type": "string"}}},
        {"x": ["a", 1]},
        ['spec.x[1]: Invalid value: "integer": spec.x[1] in body must be of type string: "integer"'],
    ),
    "a map's value": (
        {"x": {"type": "object", "additionalProperties": {"type": "string"}}},
        {"x": {"k": 1}},
        ['spec.x.k: Invalid value: "integer": spec.x.k in body must be of type string: "integer"'],
    ),
    "required": (
        {"x": {"type": "object", "required": ["y"], "properties": {"y": {"type": "string"}}}},
        {"x": {}},
        ["spec.x.y: Required value"],
    ),
    "a format": (
        {"x": {"type": "string", "format": "date-time"}},
        {"x": "today"},
        ['spec.x: Invalid value: "today": spec.x in body must be of type date-time: "today"'],
    ),
    "integer or text": ({"x": _INT_OR_TEXT, "y": _INT_OR_TEXT}, {"x": 1, "y": "1"}, []),
    "a set": (
        {"x": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}},
        {"x": ["a", "b", "a", "a"]},
        ['spec.x[2]: Duplicate value: "a"'],
    ),
    "a map list": (
        {
            "x": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}},
            }
        },
        {"x": [{"k": "a"}, {"k": "a"}]},
        ['spec.x[1]: Duplicate value: {"k":"a"}'],
    ),
    "one of": (
        {"x": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}},
        {"x": {"a": 1, "b": 1}},
        [
            '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf).'
            " Found 2 valid alternatives"
        ],
    ),
    "none of": (
        {"x": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}},
        {"x": {}},
        [
            '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid',
            "spec.x.a: Required value",
        ],
    ),
    "not": (
        {"x": {"type": "string", "not": {"enum": ["a"]}}},
        {"x": "a"},
        ['<nil>: Invalid value: "": "spec.x" must not validate the schema (not)'],
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    properties, spec, want = VALUES[name]
    schema = custom_schema(_object(**properties))
    assert [str(problem) for problem in validate_custom({"spec": spec}, schema)] == want


_PARTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
}
# Old spec, new spec, what is said of the new one. `x` may not exceed 3 and `v` is an integer.
RATCHETED: dict[str, tuple[Any, Any, list[str]]] = {
    "what stays wrong is let be": ({"x": 5}, {"x": 5, "y": 1}, []),
    "what changes is judged": (
        {"x": 5},
        {"x": 6},
        ["spec.x: Invalid value: 6: spec.x in body should be less than or equal to 3"],
    ),
    "an item that stays": (
        {"l": [{"k": "a", "v": "bad"}]},
        {"l": [{"k": "b", "v": 1}, {"k": "a", "v": "bad"}]},
        [],
    ),
    "an item that comes": (
        {"l": [{"k": "a", "v": "bad"}]},
        {"l": [{"k": "b", "v": "bad"}]},
        ['spec.l[0].v: Invalid value: "string": spec.l[0].v in body must be of type integer: "string"'],
    ),
}


@pytest.mark.parametrize("name", RATCHETED)
def test_what_an_update_leaves_as_it_was(name: str) -> None:
    old, new, want = RATCHETED[name]
    schema = custom_schema(_object(x={"type": "integer", "maximum": 3}, y={"type": "integer"}, l=_PARTS))
    assert [str(p) for p in validate_custom({"spec": new}, schema, {"spec": old})] == want


PRUNED: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "unspecified fields go": (
        _object(a={"type": "string"}),
        {"spec": {"a": "1", "b": 2}},
        {"spec": {"a": "1"}},
    ),
    "at the root too": (_object(), {"spec": {}, "extra": 1}, {"spec": {}}),
    "metadata stays": (
        _object(),
        {"metadata": {"name": "x", "foo": 1}},
        {"metadata": {"name": "x", "foo": 1}},
    ),
    "what is kept open stays": (
        _object(a={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        {"spec": {"a": {"b": {"c": 1}}}},
        {"spec": {"a": {"b": {"c": 1}}}},
    ),
    "below an open object the specified is pruned": (
        _object(
            a={
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"s": {"type": "object", "properties": {"t": {"type": "string"}}}},
            }
        ),
        {"spec": {"a": {"free": 1, "s": {"t": "1", "u": 2}}}},
        {"spec": {"a": {"free": 1, "s": {"t": "1"}}}},
    ),
    "in lists": (
        _object(a={"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}}),
        {"spec": {"a": [{"b": "1", "c": 1}, {"b": "2"}]}},
        {"spec": {"a": [{"b": "1"}, {"b": "2"}]}},
    ),
    "an embedded object keeps its metadata": (
        _object(
            a={
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {"spec": {"type": "object"}},
            }
        ),
        {"spec": {"a": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "other": 1}}},
        {"spec": {"a": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}}},
    ),
}


@pytest.mark.parametrize("name", PRUNED)
def test_pruning(name: str) -> None:
    raw, obj, want = PRUNED[name]
    schema = custom_schema(raw)
    assert prune(obj, schema) == want
    assert prune(want, schema) is want


def test_what_is_pruned_is_what_is_unknown() -> None:
    schema = custom_schema(_object(a={"type": "object", "properties": {}}))
    obj = {"z": 1, "metadata": {"foo": 1}, "spec": {"b": 1, "a": {"c": 1}}}
    assert unknown_fields(obj, schema) == [
        'unknown field "metadata.foo"',
        'unknown field "spec.a.c"',
        'unknown field "spec.b"',
        'unknown field "z"',
    ]


DEFAULTED: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "a missing field": (_object(a={"type": "integer", "default": 4}), {"spec": {}}, {"spec": {"a": 4}}),
    "a given one stays": (
        _object(a={"type": "integer", "default": 4}),
        {"spec": {"a": 5}},
        {"spec": {"a": 5}},
    ),
    "an unset parent gets none": (_object(a={"type": "integer", "default": 4}), {}, {}),
    "null counts as missing": (
        _object(a={"type": "integer", "default": 4}),
        {"spec": {"a": None}},
        {"spec": {"a": 4}},
    ),
    "unless it may be null": (
        _object(a={"type": "integer", "default": 4, "nullable": True}),
        {"spec": {"a": None}},
        {"spec": {"a": None}},
    ),
    "null without a default goes": (_object(a={"type": "integer"}), {"spec": {"a": None}}, {"spec": {}}),
    "within a default": (
        _object(a={"type": "object", "default": {}, "properties": {"b": {"type": "string", "default": "x"}}}),
        {"spec": {}},
        {"spec": {"a": {"b": "x"}}},
    ),
    "in lists": (
        _object(
            a={
                "type": "array",
                "items": {"type": "object", "properties": {"b": {"type": "string", "default": "x"}}},
            }
        ),
        {"spec": {"a": [{}, {"b": "y"}]}},
        {"spec": {"a": [{"b": "x"}, {"b": "y"}]}},
    ),
}


@pytest.mark.parametrize("name", DEFAULTED)
def test_defaults(name: str) -> None:
    raw, obj, want = DEFAULTED[name]
    assert fill_defaults(obj, custom_schema(raw)) == want


def test_a_default_is_not_shared() -> None:
    schema = custom_schema(_object(a={"type": "array", "items": {"type": "string"}, "default": ["x"]}))
    fill_defaults({"spec": {}}, schema)["spec"]["a"].append("y")
    assert fill_defaults({"spec": {}}, schema) == {"spec": {"a": ["x"]}}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON)
def test_pruning_twice_is_pruning_once(value: Any) -> None:
    leaf = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object"}}}
    schema = custom_schema(_object(a=leaf, b={"type": "array", "items": leaf}))
    once = prune({"spec": value}, schema)
    assert prune(once, schema) == once
    assert unknown_fields(once, schema) == []


FORMATS = {
    "ipv4": ("10.0.0.1", "10.0.0"),
    "ipv6": ("::1", "1"),
    "cidr": ("10.0.0.0/8", "10.0.0.0"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "123e"),
    "date-time": ("2026-01-31T08:00:00Z", "2026-13-31T08:00:00Z"),
    "date": ("2026-01-31", "2026-1-31"),
    "duration": ("1h30m", "soon"),
    "byte": ("aGk=", "!"),
    "email": ("a@b.c", "a"),
    "hostname": ("a.b-c", "-"),
    "uri": ("https://a/b", "a b"),
    "mac": ("01:23:45:67:89:ab", "01:23"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str) -> None:
    good, bad = FORMATS[name]
    assert (fits_format(good, name), fits_format(bad, name)) == (True, False)


def test_unknown_formats_take_anything() -> None:
    assert fits_format("anything", "no-such-format")


def test_numbers_as_go_prints_them() -> None:
    shown = [go_number(n) for n in (1, 0.5, 100000, 1000000, 123456789, 0.00001, -5e6, 0)]
    assert shown == ["1", "0.5", "100000", "1e+06", "1.23456789e+08", "1e-05", "-5e+06", "0"]


@pytest.mark.parametrize("name", ["hostname", "email", "duration", "uri", "date-time"])
def test_no_text_makes_a_format_slow(name: str) -> None:
    for unit in ("a.", "1.", "1s", "a@"):
        fits_format(unit * 100_000 + "!", name)
