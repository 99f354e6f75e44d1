"""Rules inside the schema of a CustomResourceDefinition."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.admission.crdrules import escape, problems, rule_problems

Schema = dict[str, Any]


def schema(*rules: Schema, **properties: Schema) -> Schema:
    return {"type": "object", "x-kubernetes-validations": list(rules), "properties": properties}


NUMBER: Schema = {"type": "integer"}
TEXT: Schema = {"type": "string"}


def spec(*rules: Schema, **properties: Schema) -> Schema:
    return schema(spec=schema(*rules, **properties))


# name → (schema, object, old object, problems)
CASES: dict[str, tuple[Schema, Any, Any, list[str]]] = {
    "it holds": (
        spec({"rule": "self.a <= self.b"}, a=NUMBER, b=NUMBER),
        {"spec": {"a": 1, "b": 2}},
        None,
        [],
    ),
    "the rule is the message": (
        spec({"rule": "self.a <= self.b"}, a=NUMBER, b=NUMBER),
        {"spec": {"a": 3, "b": 2}},
        None,
        ["spec: Invalid value: failed rule: self.a <= self.b"],
    ),
    "a message": (
        spec({"rule": "self.a > 5", "message": "a is small"}, a=NUMBER),
        {"spec": {"a": 1}},
        None,
        ["spec: Invalid value: a is small"],
    ),
    "a message expression": (
        spec({"rule": "self.a > 5", "messageExpression": "'a is ' + string(self.a)"}, a=NUMBER),
        {"spec": {"a": 1}},
        None,
        ["spec: Invalid value: a is 1"],
    ),
    "a field path and a reason": (
        spec(
            {"rule": "self.a > 5", "message": "no", "fieldPath": ".a", "reason": "FieldValueForbidden"},
            a=NUMBER,
        ),
        {"spec": {"a": 1}},
        None,
        ["spec.a: Forbidden: no"],
    ),
    "required": (
        spec(
            {"rule": "has(self.a)", "message": "say a", "fieldPath": ".a", "reason": "FieldValueRequired"},
            a=NUMBER,
        ),
        {"spec": {}},
        None,
        ["spec.a: Required value: say a"],
    ),
    "a scalar": (
        spec(a={"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0"}]}),
        {"spec": {"a": 3}},
        None,
        ["spec.a: Invalid value: 3: failed rule: self % 2 == 0"],
    ),
    "items": (
        spec(l={"type": "array", "items": schema({"rule": "self.a > 0"}, a=NUMBER)}),
        {"spec": {"l": [{"a": 1}, {"a": 0}]}},
        None,
        ["spec.l[1]: Invalid value: failed rule: self.a > 0"],
    ),
    "values of a map": (
        spec(m={"type": "object", "additionalProperties": schema({"rule": "self.a > 0"}, a=NUMBER)}),
        {"spec": {"m": {"x.y": {"a": 0}}}},
        None,
        ["spec.m[x.y]: Invalid value: failed rule: self.a > 0"],
    ),
    "a reserved name": (
        spec(
            {"rule": "self.__namespace__ == 'a' && self.x__dash__y == 1"}, namespace=TEXT, **{"x-y": NUMBER}
        ),
        {"spec": {"namespace": "a", "x-y": 1}},
        None,
        [],
    ),
    "int or string": (
        spec(
            {"rule": "type(self.p) == string ? self.p == '50%' : self.p == 3"},
            p={"x-kubernetes-int-or-string": True},
        ),
        {"spec": {"p": "50%"}},
        None,
        [],
    ),
    "a transition is not asked at creation": (
        spec({"rule": "self.a >= oldSelf.a"}, a=NUMBER),
        {"spec": {"a": 1}},
        None,
        [],
    ),
    "a transition": (
        spec({"rule": "self.a >= oldSelf.a", "message": "a only grows"}, a=NUMBER),
        {"spec": {"a": 1}},
        {"spec": {"a": 2}},
        ["spec: Invalid value: a only grows"],
    ),
    "an optional old self at creation": (
        spec({"rule": "oldSelf.hasValue() || self.a == 0", "optionalOldSelf": True}, a=NUMBER),
        {"spec": {"a": 1}},
        None,
        ["spec: Invalid value: failed rule: oldSelf.hasValue() || self.a == 0"],
    ),
    "an optional old self at update": (
        spec({"rule": "oldSelf.hasValue() && oldSelf.value().a == 2", "optionalOldSelf": True}, a=NUMBER),
        {"spec": {"a": 1}},
        {"spec": {"a": 2}},
        [],
    ),
    "an item is found again by its key": (
        spec(
            l={
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": schema({"rule": "self.a >= oldSelf.a"}, name=TEXT, a=NUMBER),
            }
        ),
        {"spec": {"l": [{"name": "x", "a": 1}, {"name": "y", "a": 1}]}},
        {"spec": {"l": [{"name": "y", "a": 2}]}},
        ["spec.l[1]: Invalid value: failed rule: self.a >= oldSelf.a"],
    ),
    "items without a key have no past": (
        spec(l={"type": "array", "items": schema({"rule": "self.a >= oldSelf.a"}, a=NUMBER)}),
        {"spec": {"l": [{"a": 1}]}},
        {"spec": {"l": [{"a": 2}]}},
        [],
    ),
    "what did not change is not held against it": (
        spec({"rule": "self.a > 5"}, a=NUMBER),
        {"metadata": {"labels": {"x": "y"}}, "spec": {"a": 1}},
        {"spec": {"a": 1}},
        [],
    ),
    "an error in a rule": (
        spec({"rule": "self.missing == 1"}, a=NUMBER),
        {"spec": {"a": 1}},
        None,
        ['spec: Invalid value: "object": no such key: missing evaluating rule: self.missing == 1'],
    ),
    "wrong types": (
        spec({"rule": "self.a == 1 && self.a.startsWith('x')"}, a=NUMBER),
        {"spec": {"a": 1}},
        None,
        [
            "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, "
            "function or macro signature for rule: self.a == 1 && self.a.startsWith('x')"
        ],
    ),
    "the root sees only names": (
        schema({"rule": "!has(self.metadata.labels) && self.metadata.name == 'x'"}),
        {"metadata": {"name": "x", "labels": {}}},
        None,
        [],
    ),
    "a rule of the root": (
        schema({"rule": "self.metadata.name != 'x'"}),
        {"metadata": {"name": "x"}},
        None,
        ["<nil>: Invalid value: failed rule: self.metadata.name != 'x'"],
    ),
    "a date": (
        spec(
            t={
                "type": "string",
                "format": "date-time",
                "x-kubernetes-validations": [{"rule": "self > timestamp('2026-01-01T00:00:00Z')"}],
            }
        ),
        {"spec": {"t": "2027-01-01T00:00:00Z"}},
        None,
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rules(name: str) -> None:
    of_kind, obj, old, want = CASES[name]
    assert [str(p) for p in problems(of_kind, obj, old)] == want


def test_rules_that_do_not_compile_are_the_definitions_fault() -> None:
    broken = schema(spec=schema({"rule": "self.a =="}, {"rule": ""}, {"rule": "1"}))
    found = [str(p) for p in rule_problems(broken, "openAPIV3Schema")]
    path = "openAPIV3Schema.properties[spec].x-kubernetes-validations"
    assert found[0].startswith(
        f'{path}[0].rule: Invalid value: apiextensions.ValidationRule{{Rule:"self.a ==", Message:"",'
    )
    assert "compilation failed: ERROR: <input>:1:" in found[0]
    assert found[1] == f"{path}[1].rule: Required value: rule is not specified"
    assert found[2].endswith("must evaluate to bool but got int")


def test_rules_that_cost_too_much_stop() -> None:
    loops = "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"
    of_kind = spec({"rule": loops}, l={"type": "array", "items": NUMBER})
    found = problems(of_kind, {"spec": {"l": list(range(2000))}})
    assert (
        found[0].detail
        == f"no further validation rules will be run due to call cost exceeds limit for rule: {loops}"
    )


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("namespace", "__namespace__"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
    ],
)
def test_names_that_cel_cannot_say(name: str, want: str) -> None:
    assert escape(name) == want
