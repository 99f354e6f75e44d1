"""The OpenAPI document: where it comes from, and what is changed back in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairway.kube.schema import document
from fairway.kube.schema.node import definition_schema, object_meta_schema, schema_for


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from _nodes(value)
    elif isinstance(node, list):
        for value in node:
            yield from _nodes(value)


def test_every_definition_is_in_the_dialect_of_openapi() -> None:
    names = set(document.definition_names())
    assert len(names) > 700
    for name in sorted(names):
        for node in _nodes(document.definition(name)):
            # A field may be called `type` or `$ref`: then it holds a schema.
            assert not isinstance(node.get("type"), list), name
            reference = node.get("$ref")
            if isinstance(reference, str):
                assert reference.removeprefix("#/definitions/") in names, name


def test_types_the_file_lost() -> None:
    assert document.definition(document.QUANTITY) == {"type": "string"}
    assert document.definition(document.INT_OR_STRING) == {"type": "string", "format": "int-or-string"}


def test_definitions_are_found_by_kind() -> None:
    assert document.definition_name("v1", "Pod") == "io.k8s.api.core.v1.Pod"
    assert document.definition_name("policy/v1", "Eviction") == "io.k8s.api.policy.v1.Eviction"
    assert document.definition_name("v1", "Widget") is None


def test_lists_know_how_they_merge() -> None:
    spec = definition_schema("io.k8s.api.core.v1.PodSpec").properties
    containers = spec["containers"]
    assert (containers.list_type, containers.list_map_keys, containers.merge_key) == (
        "map",
        ("name",),
        "name",
    )
    assert spec["tolerations"].list_type == "atomic"
    assert spec["volumes"].merge_strategy == ("merge", "retainKeys")
    assert spec["nodeSelector"].map_type == "atomic"
    ports = definition_schema("io.k8s.api.core.v1.ServiceSpec").properties["ports"]
    assert ports.list_map_keys == ("port", "protocol")
    assert ports.items is not None
    assert ports.items.properties["protocol"].default == "TCP"
    assert object_meta_schema().properties["finalizers"].list_type == "set"


def test_a_tree_is_built_once() -> None:
    assert schema_for("v1", "Pod") is schema_for("v1", "Pod")


def without_descriptions(node: Any, is_named: bool = False) -> Any:
    if isinstance(node, list):
        return [without_descriptions(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = ((k, v) for k, v in node.items() if is_named or k != "description")
    return {k: without_descriptions(v, k == "properties" and not is_named) for k, v in kept}


def test_the_shipped_facts_are_those_of_the_described_document(monkeypatch: pytest.MonkeyPatch) -> None:
    assert document.described_file() is not None, "development installs the extra `descriptions`"
    described = {name: document.definition(name) for name in document.definition_names()}
    monkeypatch.setattr(document, "_PACKAGE", "no_such_package_anywhere")
    document._raw_definitions.cache_clear()
    try:
        assert document.definition_names() == sorted(described)
        for name, body in described.items():
            assert document.definition(name) == without_descriptions(body), name
    finally:
        document._raw_definitions.cache_clear()


def test_a_release_the_package_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "RELEASE", "v0.0.0")
    assert document.described_file() is None


def test_enums_and_defaults_stand_at_fields_that_are_there() -> None:
    found = document._choices()
    assert set(found) <= set(document.definition_names())
    for name, fields in found.items():
        properties = document.definition(name)["properties"]
        for field, facts in fields.items():
            member = properties[field]
            of_members = {"items", "additionalProperties"} & facts.keys()
            assert all("enum" in facts[key] for key in of_members if key in member), (name, field)
            assert of_members <= member.keys(), (name, field)
            if facts.get("default"):
                assert facts["default"] in facts.get("enum", [facts["default"]]), (name, field)


def test_choices_are_shown_at_fields_and_at_what_they_hold() -> None:
    name = "io.k8s.api.core.v1.ContainerPort"
    port = document.with_choices(name, document.definition(name))["properties"]
    assert (port["protocol"]["default"], port["protocol"]["enum"]) == ("TCP", ["SCTP", "TCP", "UDP"])
    assert port["containerPort"]["default"] == 0
    assert port["protocol"]["type"] == "string"
    name = "io.k8s.api.core.v1.PersistentVolumeSpec"
    modes = document.with_choices(name, document.definition(name))["properties"]["accessModes"]
    assert modes["items"]["type"] == "string"
    assert modes["items"]["enum"] == ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]
    assert "enum" not in document.definition(name)["properties"]["accessModes"]["items"]
    assert document.with_choices("com.example.Foo", {"type": "object"}) == {"type": "object"}
