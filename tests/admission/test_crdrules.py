"""Rules inside the schema of a CustomResourceDefinition."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.admission.crdrules import definition_problems, escape, judged, problems

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
    "a number may be whole": (
        spec(a={"type": "number", "x-kubernetes-validations": [{"rule": "self > 1.5 && self < 2.5"}]}),
        {"spec": {"a": 2}},
        None,
        [],
    ),
    "an int or string is either": (
        spec(
            a={
                "type": "string",
                "x-kubernetes-int-or-string": True,
                "x-kubernetes-validations": [{"rule": "self == 4 || self == '4'"}],
            }
        ),
        {"spec": {"a": 4}},
        None,
        [],
    ),
    "what is no date is text": (
        spec(
            t={
                "type": "string",
                "format": "date",
                "x-kubernetes-validations": [{"rule": "self == timestamp('2026-01-01T00:00:00Z')"}],
            }
        ),
        {"spec": {"t": "soon"}},
        None,
        [
            "spec.t: Invalid value: \"string\": Unexpected value type for 'self': str. (Expected TIMESTAMP) "
            "evaluating rule: self == timestamp('2026-01-01T00:00:00Z')"
        ],
    ),
    "a duplicate": (
        spec(
            {"rule": "false", "reason": "FieldValueDuplicate", "fieldPath": ".a['b c']['it\\'s']"}, a=NUMBER
        ),
        {"spec": {"a": 1}},
        None,
        ["spec.a.b c.it's: Duplicate value: failed rule: false"],
    ),
    "a rule that does not compile": (
        spec({"rule": "1", "fieldPath": ".a"}, a=NUMBER),
        {"spec": {"a": 1}},
        None,
        ['spec.a: Invalid value: "object": rule compile error: must evaluate to bool but got int'],
    ),
    "messages that say nothing": (
        spec(
            {"rule": "1 > 2", "message": " so ", "messageExpression": "' '"},
            {"rule": "2 > 3", "message": "so", "messageExpression": "'a\\nb'"},
            {"rule": "3 > 4", "message": "so", "messageExpression": "self.missing"},
            {"rule": "4 > 5", "message": "so", "messageExpression": "1"},
            {"rule": " 5 > 6 ", "message": "  "},
            {"rule": "6 > 7", "message": "so", "messageExpression": "' because '"},
            a=NUMBER,
        ),
        {"spec": {"a": 1}},
        None,
        [
            *["spec: Invalid value: so"] * 4,
            "spec: Invalid value: failed rule: 5 > 6",
            "spec: Invalid value: because",
        ],
    ),
    "several scalars": (
        spec(
            s={"type": "string", "x-kubernetes-validations": [{"rule": "self.size() > 1"}]},
            b={"type": "boolean", "x-kubernetes-validations": [{"rule": "!self"}]},
        ),
        {"spec": {"s": "x", "b": True, "other": 1}},
        None,
        [
            'spec.s: Invalid value: "x": failed rule: self.size() > 1',
            "spec.b: Invalid value: true: failed rule: !self",
        ],
    ),
    "nothing is not asked": (
        spec(a={"type": "object", "nullable": True, "x-kubernetes-validations": [{"rule": "false"}]}),
        {"spec": {"a": None}},
        None,
        [],
    ),
    "keys of a map before": (
        spec(m={"type": "object", "additionalProperties": schema({"rule": "self.a >= oldSelf.a"}, a=NUMBER)}),
        {"spec": {"m": {"x": {"a": 1}, "y": {"a": 1}, "z": {"a": 1}}}},
        {"spec": {"m": {"x": {"a": 1}, "y": {"a": 2}}}},
        ["spec.m[y]: Invalid value: failed rule: self.a >= oldSelf.a"],
    ),
    "the root sees how it is to be called": (
        schema({"rule": "self.metadata.generateName == 'x-' && self.kind == 'A'"}),
        {"kind": "A", "metadata": {"generateName": "x-", "namespace": "n"}},
        None,
        [],
    ),
    "metadata that is not the root's is all there": (
        spec({"rule": "self.metadata.labels.x == 'y'"}, metadata={"type": "object"}),
        {"spec": {"metadata": {"labels": {"x": "y"}}}},
        None,
        [],
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


def definition(of_spec: Schema) -> Schema:
    versions = [{"name": "v1"}, {"name": "v2", "schema": {"openAPIV3Schema": schema(spec=of_spec)}}]
    return {"kind": "CustomResourceDefinition", "spec": {"versions": versions}}


def test_rules_that_do_not_compile_are_the_definitions_fault() -> None:
    rules = schema(
        {"rule": "self.a =="},
        {"rule": " "},
        {"rule": "1", "message": "m", "fieldPath": ".a"},
        {"rule": "true", "messageExpression": "self.a +"},
        {"rule": "true", "messageExpression": "1"},
        {"rule": "oldSelf.hasValue()", "optionalOldSelf": True},
        l={"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self > 1"}]}},
        m={"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": [{}]}},
    )
    found = [str(p) for p in definition_problems(definition(rules))]
    at = "spec.versions[1].schema.openAPIV3Schema.properties[spec]"
    rule = f"{at}.x-kubernetes-validations"
    go = "apiextensions.ValidationRule{Rule:"
    nil = "Reason:(*apiextensions.FieldValueErrorReason)(nil)"
    assert [line.split("compilation failed")[0] for line in found] == [
        f'{rule}[0].rule: Invalid value: {go}"self.a ==", Message:"", MessageExpression:"", {nil}, '
        'FieldPath:"", OptionalOldSelf:(*bool)(nil)}: ',
        f"{rule}[1].rule: Required value: rule is not specified",
        f'{rule}[2].rule: Invalid value: {go}"1", Message:"m", MessageExpression:"", {nil}, '
        'FieldPath:".a", OptionalOldSelf:(*bool)(nil)}: must evaluate to bool but got int',
        f'{rule}[3].messageExpression: Invalid value: {go}"true", Message:"", MessageExpression:"self.a +", {nil}, '
        'FieldPath:"", OptionalOldSelf:(*bool)(nil)}: messageExpression ',
        f'{rule}[4].messageExpression: Invalid value: {go}"true", Message:"", MessageExpression:"1", {nil}, '
        'FieldPath:"", OptionalOldSelf:(*bool)(nil)}: messageExpression must evaluate to string but got int',
        f'{at}.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: {go}"self > 1", '
        f'Message:"", MessageExpression:"", {nil}, FieldPath:"", OptionalOldSelf:(*bool)(nil)}}: ',
        f"{at}.properties[m].additionalProperties.x-kubernetes-validations[0].rule: Required value: "
        "rule is not specified",
    ]
    assert definition_problems(definition(schema(a=NUMBER))) == []
    assert definition_problems({"spec": {}}) == []


def test_rules_are_asked_where_the_rest_lets_them() -> None:
    limits = schema(
        {"rule": "self.a > 5", "message": "a is small"}, a={"type": "integer", "maximum": 3}, b=TEXT
    )
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema(spec=limits)}}

    def said(of_spec: Any) -> list[str]:
        return [str(p) for p in judged(version, {"spec": of_spec})]

    assert judged({"name": "v1"}, {"spec": 1}) == []
    assert said({"a": 4}) == [
        "spec.a: Invalid value: 4: spec.a in body should be less than or equal to 3",
        "spec: Invalid value: a is small",
    ]
    assert said({"a": "x"}) == [
        'spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"',
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation",
    ]
    del limits["x-kubernetes-validations"]
    plain = {"name": "v1", "schema": {"openAPIV3Schema": schema(spec=schema(a=NUMBER))}}
    assert [str(p) for p in judged(plain, {"spec": {"a": "x"}})] == [
        'spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"'
    ]


def test_all_rules_of_an_object_share_one_budget() -> None:
    """A loop costs five for each member of the largest list; ten million are there."""
    of_kind = spec(
        *[{"rule": f"self.l.all(x, x >= {-n})"} for n in range(200)], l={"type": "array", "items": NUMBER}
    )
    assert problems(of_kind, {"spec": {"l": [1] * 9_000}}) == []
    found = problems(of_kind, {"spec": {"l": [1] * 10_100}})
    assert [str(p) for p in found] == [
        '<nil>: Invalid value: "object": validation failed due to running out of cost budget, '
        "no further validation rules will be run"
    ]


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


def test_one_error_that_blocks_the_rules_is_enough() -> None:
    limits = schema(
        {"rule": "self.a > 5", "message": "a is small"}, a={"type": "integer", "maximum": 3}, b=TEXT
    )
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema(spec=limits)}}
    for of_spec, wrong in (({"a": 4, "b": 1}, 2), ({"b": 1, "a": 4}, 2), ({"a": 2, "b": 1}, 1)):
        said = [str(p) for p in judged(version, {"spec": of_spec})]
        assert len(said) == wrong + 1 and said[-1].startswith(
            "<nil>: Invalid value: null: some validation rules"
        )


def test_an_item_was_another_before_where_one_of_its_keys_was() -> None:
    item = schema({"rule": "self.n >= oldSelf.n", "message": "it shrank"}, a=TEXT, b=TEXT, n=NUMBER)
    keyed = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["a", "b"],
    }
    before = [{"a": "x", "b": "y", "n": 5}, {"a": "x", "b": "z", "n": 3}, {"a": "w", "b": "y", "n": 1}]

    def said(**new: Any) -> list[str]:
        return [str(p) for p in problems(schema(l=keyed), {"l": [new]}, {"l": before})]

    shrank = ["l[0]: Invalid value: it shrank"]
    assert said(a="x", b="y", n=4) == shrank and said(a="x", b="y", n=5) == []
    assert said(a="x", b="z", n=3) == [] and said(a="x", b="z", n=2) == shrank
    assert said(a="w", b="y", n=1) == [] and said(a="w", b="y", n=0) == shrank
    assert said(a="w", b="z", n=0) == said(a="v", b="v", n=0) == []
