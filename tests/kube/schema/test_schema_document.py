"""The OpenAPI document: where it comes from, and what is changed back in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairway.errors import WorldError
from fairway.kube.schema import document, schema_for
from fairway.kube.schema.node import definition_schema, object_meta_schema


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


def test_another_release_where_this_one_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "RELEASE", "v0.0.0")
    folders = sorted(p.name for p in document._file().parent.parent.glob("v1.*-local"))
    newest = max(folders, key=document._release_of)
    assert document._file().parent.name == newest


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "_PACKAGE", "no_such_package_anywhere")
    with pytest.raises(WorldError, match="install the package kubernetes-validate"):
        document._file()
