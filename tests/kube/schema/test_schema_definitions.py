"""CustomResourceDefinitions themselves: which are refused, and with which words."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.schema.definitions import default_definition, established, validate_definition

_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"spec": {"type": "object"}}}


def _crd(schema: Any = None, **spec: Any) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": _SCHEMA if schema is None else schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [version],
            **spec,
        },
    }


def _list(**extra: Any) -> dict[str, Any]:
    items = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
    return {"type": "object", "properties": {"l": {"type": "array", "items": items, **extra}}}


# One version shares all it says with all versions.
_AT = "spec.validation.openAPIV3Schema"
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing wrong": (_crd(), []),
    "another name": (
        {**_crd(), "metadata": {"name": "foo.example.com"}},
        ['metadata.name: Invalid value: "foo.example.com": must be spec.names.plural+"."+spec.group'],
    ),
    "no name": (
        {**_crd(scope=""), "metadata": {}},
        ["metadata.name: Required value: name or generateName is required", "spec.scope: Required value"],
    ),
    "a group without a dot": (
        {**_crd(group="example"), "metadata": {"name": "foos.example"}},
        ['spec.group: Invalid value: "example": should be a domain with at least one dot'],
    ),
    "no scope": (_crd(scope=""), ["spec.scope: Required value"]),
    "another scope": (
        _crd(scope="World"),
        ['spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced"'],
    ),
    "a name in capitals": (
        {**_crd(names={"plural": "Foos", "kind": "Foo"}), "metadata": {"name": "Foos.example.com"}},
        [
            'metadata.name: Invalid value: "Foos.example.com": a lowercase RFC 1123 subdomain must consist of'
            " lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric"
            " character (e.g. 'example.com', regex used for validation is"
            " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            'spec.names.plural: Invalid value: "Foos": a DNS-1035 label must consist of lower case alphanumeric'
            " characters or '-', start with an alphabetic character, and end with an alphanumeric character"
            " (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        ],
    ),
    "no type at the root": (
        _crd({"properties": {}}),
        [f"{_AT}.type: Required value: must not be empty at the root"],
    ),
    "no type of a field": (
        _crd({"type": "object", "properties": {"a": {}}}),
        [f"{_AT}.properties[a].type: Required value: must not be empty for specified object fields"],
    ),
    "no items": (
        _crd({"type": "object", "properties": {"a": {"type": "array"}}}),
        [f"{_AT}.properties[a].items: Required value: must be specified"],
    ),
    "a type in a junctor": (
        _crd({"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"type": "string"}]}}}),
        [f"{_AT}.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
    ),
    "a pattern that Go cannot read": (
        _crd({"type": "object", "properties": {"a": {"type": "string", "pattern": "a(?=b)"}}}),
        [
            f'{_AT}.properties[a].pattern: Invalid value: "a(?=b)": must be a valid regular expression, but '
            "isn't: error parsing regexp: invalid or unsupported Perl syntax: `(?=`"
        ],
    ),
    "a pattern as Kueue has them": (
        _crd({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?i)[a-z]+$"}}}),
        [],
    ),
    "a field only in a junctor": (
        _crd({"type": "object", "anyOf": [{"properties": {"b": {"pattern": "x"}}}]}),
        [f"{_AT}.properties[b]: Required value: because it is defined in {_AT}.anyOf[0].properties[b]"],
    ),
    "integer or text may say so": (
        _crd(
            {
                "type": "object",
                "properties": {
                    "a": {
                        "x-kubernetes-int-or-string": True,
                        "anyOf": [{"type": "integer"}, {"type": "string"}],
                    }
                },
            }
        ),
        [],
    ),
    "properties and additional ones": (
        _crd(
            {
                "type": "object",
                "properties": {
                    "a": {
                        "type": "object",
                        "properties": {"b": {"type": "string"}},
                        "additionalProperties": {"type": "string"},
                    }
                },
            }
        ),
        [
            f"{_AT}.properties[a].additionalProperties: Forbidden:"
            " additionalProperties and properties are mutual exclusive"
        ],
    ),
    "metadata may restrict names only": (
        _crd({"type": "object", "properties": {"metadata": {"type": "object", "required": ["labels"]}}}),
        [
            f"{_AT}.properties[metadata]: Forbidden: must not specify anything other than name and generateName,"
            " but metadata is implicitly specified"
        ],
    ),
    "a default of the wrong type": (
        _crd({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}),
        [
            f'{_AT}.properties[a].default: Invalid value: "integer": in body must be of type string: "integer"',
        ],
    ),
    "a map list without keys": (
        _crd(_list(**{"x-kubernetes-list-type": "map"})),
        [
            f"{_AT}.properties[l].x-kubernetes-list-map-keys: Required value:"
            " must not be empty if x-kubernetes-list-type is map"
        ],
    ),
    "a map list with a key items lack": (
        _crd(_list(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["z"]})),
        [
            f'{_AT}.properties[l].x-kubernetes-list-map-keys: Invalid value: ["z"]:'
            " entries must all be names of item properties"
        ],
    ),
    "no such list type": (
        _crd(_list(**{"x-kubernetes-list-type": "bag"})),
        [
            f'{_AT}.properties[l].x-kubernetes-list-type: Unsupported value: "bag": supported values:'
            ' "atomic", "set", "map"'
        ],
    ),
    "a rule without a rule": (
        _crd({"type": "object", "x-kubernetes-validations": [{"message": "m"}]}),
        [f"{_AT}.x-kubernetes-validations[0].rule: Required value: rule is not specified"],
    ),
    "references": (
        _crd({"type": "object", "properties": {"a": {"type": "object", "$ref": "#/x"}}}),
        [f"{_AT}.properties[a].$ref: Forbidden: $ref is not supported"],
    ),
    "a replicas path outside the spec": (
        _crd(
            versions=[
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _SCHEMA},
                    "subresources": {"scale": {"specReplicasPath": ".x", "statusReplicasPath": ".status.r"}},
                }
            ]
        ),
        ['spec.subresources.scale.specReplicasPath: Invalid value: ".x": should be a json path under .spec'],
    ),
    "a column without a type": (
        _crd(
            versions=[
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _SCHEMA},
                    "additionalPrinterColumns": [{"name": "A", "jsonPath": ".spec.a"}],
                }
            ]
        ),
        [
            "spec.additionalPrinterColumns[0].type: Required value:"
            " must be one of boolean,date,integer,number,string"
        ],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    crd, want = REFUSED[name]
    assert [str(problem) for problem in validate_definition(default_definition(crd))] == want


def test_versions_have_one_storage() -> None:
    crd = _crd()
    crd["spec"]["versions"][0]["storage"] = False
    one = (
        '[{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,'
        '"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]'
    )
    unstored = "status.storedVersions: Invalid value: null: must have at least one stored version"
    for versions, shown in ((crd["spec"]["versions"], one), ([], "[]"), (None, "null")):
        crd["spec"]["versions"] = versions
        assert [str(problem) for problem in validate_definition(default_definition(crd))] == [
            f"spec.versions: Invalid value: {shown}: must have exactly one version marked as storage version",
            unstored,
        ]


def test_what_versions_do_not_share_is_named_at_each() -> None:
    first = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}
    broken = {"type": "object", "properties": {"a": {"type": "array"}}}
    second = {**first, "name": "v2", "storage": False, "schema": {"openAPIV3Schema": broken}}
    crd = _crd(versions=[first, second])
    assert [str(problem) for problem in validate_definition(default_definition(crd))] == [
        "spec.versions[1].schema.openAPIV3Schema.properties[a].items: Required value: must be specified"
    ]


def test_established_and_what_may_change_then() -> None:
    crd = established(default_definition(_crd()), "2026-01-31T08:00:00Z")
    status = crd["status"]
    assert [(c["type"], c["reason"], c["message"]) for c in status["conditions"]] == [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ]
    assert status["storedVersions"] == ["v1"]
    assert status["acceptedNames"] == {
        "plural": "foos",
        "kind": "Foo",
        "singular": "foo",
        "listKind": "FooList",
    }
    assert established(crd, "2027-01-01T00:00:00Z") == crd
    changed = default_definition(_crd(scope="Cluster"))
    assert [str(p) for p in validate_definition(changed, crd)] == [
        'spec.scope: Invalid value: "Cluster": field is immutable'
    ]


def test_a_stored_version_stays() -> None:
    crd = established(default_definition(_crd()), "2026-01-31T08:00:00Z")
    later = default_definition(_crd())
    later["spec"]["versions"][0] = {**later["spec"]["versions"][0], "name": "v2"}
    (problem,) = validate_definition(later, crd)
    assert str(problem).startswith(
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage'
    )
