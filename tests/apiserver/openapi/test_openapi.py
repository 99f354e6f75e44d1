"""OpenAPI documents: valid, complete for kubectl, and no larger than what is served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fairway.apiserver.openapi import Documents, protobuf
from fairway.apiserver.resources import Resources


@pytest.fixture(scope="module")
def documents() -> Documents:
    return Documents(Resources())


def _body(document: Any) -> Any:
    assert document is not None
    return msgspec.json.decode(document.body)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def test_the_index_names_every_group_without_building_it(documents: Documents) -> None:
    paths = _body(documents.index())["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/batch/v1", "apis/autoscaling/v2"} <= paths.keys()
    relative = paths["apis/apps/v1"]["serverRelativeURL"]
    assert relative.startswith("/openapi/v3/apis/apps/v1?hash=")
    document = documents.v3("apis/apps/v1")
    assert document is not None
    assert document.etag == f'"{relative.partition("=")[2]}"'


def test_every_group_is_complete_in_itself(documents: Documents) -> None:
    for path in _body(documents.index())["paths"]:
        body = _body(documents.v3(path))
        schemas = body["components"]["schemas"]
        missing = {r for r in _references(body) if r.removeprefix("#/components/schemas/") not in schemas}
        assert missing == set(), path
        assert body["openapi"] == "3.0.0"
        ids = [op["operationId"] for item in body["paths"].values() for op in _operations(item)]
        assert len(ids) == len(set(ids)), path


def _operations(item: dict[str, Any]) -> list[Any]:
    return [item[method] for method in ("get", "put", "post", "patch", "delete") if method in item]


def test_what_kubectl_explain_reads(documents: Documents) -> None:
    body = _body(documents.v3("api/v1"))
    gvk = {"group": "", "kind": "Pod", "version": "v1"}
    pod = body["components"]["schemas"]["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [gvk]
    get = body["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["get"]
    assert get["x-kubernetes-group-version-kind"] == gvk
    spec = body["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert spec["nodeName"]["type"] == "string"
    assert spec["nodeName"]["description"].startswith(
        "NodeName indicates in which node this pod is scheduled."
    )
    assert pod["properties"]["spec"]["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]


def test_choices_are_in_version_three_alone(documents: Documents) -> None:
    schemas = _body(documents.v3("api/v1"))["components"]["schemas"]
    policy = schemas["io.k8s.api.core.v1.Container"]["properties"]["imagePullPolicy"]
    assert policy["enum"] == ["Always", "IfNotPresent", "Never"]
    assert schemas["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["default"] == {}
    two = _body(documents.v2())["definitions"]
    assert (
        not {"enum", "default"} & two["io.k8s.api.core.v1.Container"]["properties"]["imagePullPolicy"].keys()
    )
    assert "default" not in two["io.k8s.api.core.v1.Pod"]["properties"]["spec"]


def test_what_kubectl_apply_reads(documents: Documents) -> None:
    body = _body(documents.v3("apis/apps/v1"))
    patch = body["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert {"fieldValidation", "dryRun", "fieldManager", "force"} <= {p["name"] for p in patch["parameters"]}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    containers = body["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert (containers["x-kubernetes-patch-merge-key"], containers["x-kubernetes-patch-strategy"]) == (
        "name",
        "merge",
    )


def test_version_two_is_one_valid_whole(documents: Documents) -> None:
    body = _body(documents.v2())
    assert body["swagger"] == "2.0"
    definitions = body["definitions"]
    missing = {r for r in _references(body) if r.removeprefix("#/definitions/") not in definitions}
    assert missing == set()
    for path, item in body["paths"].items():
        named = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        assert named == {p["name"] for p in item.get("parameters", ())}, path
    quantity = definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"]
    assert quantity == {"type": "string"}


def test_there_is_no_document_of_what_is_not_served(documents: Documents) -> None:
    assert documents.v3("apis/nothing/v1") is None


_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.example.com", "uid": "u", "generation": 1},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A Foo.",
                        "properties": {"spec": {"type": "object", "properties": {"x": {"type": "integer"}}}},
                    }
                },
            }
        ],
    },
    "status": {"conditions": [{"type": "Established", "status": "True"}]},
}


def test_definitions_come_and_go() -> None:
    resources = Resources()
    documents = Documents(resources)
    before = documents.index().etag
    apps = documents.v3("apis/apps/v1")
    try:
        resources.set_definitions([_CRD])
        assert documents.index().etag != before
        assert documents.v3("apis/apps/v1") is apps
        schemas = _body(documents.v3("apis/example.com/v1"))["components"]["schemas"]
        foo = schemas["com.example.v1.Foo"]
        assert foo["description"] == "A Foo."
        assert foo["properties"]["spec"]["properties"]["x"] == {"type": "integer"}
        assert foo["x-kubernetes-group-version-kind"] == [
            {"group": "example.com", "kind": "Foo", "version": "v1"}
        ]
        assert "com.example.v1.FooList" in schemas
        patch = _body(documents.v3("apis/example.com/v1"))["paths"][
            "/apis/example.com/v1/namespaces/{namespace}/foos/{name}"
        ]["patch"]
        assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    finally:
        resources.set_definitions([])
    assert documents.v3("apis/example.com/v1") is None


# Protobuf: decoded again by an independent reader of the wire format.


def _fields(data: bytes) -> list[tuple[int, Any]]:
    found, at = list[tuple[int, Any]](), 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7 == 2:
            found.append((tag >> 3, data[at : at + value]))
            at += value
        else:
            found.append((tag >> 3, value))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def _one(data: bytes, *path: int) -> Any:
    for number in path:
        data = next(value for field, value in _fields(data) if field == number)
    return data


def test_protobuf_says_what_the_json_says(documents: Documents) -> None:
    document = documents.v2("application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
    assert document.media_type == protobuf.MEDIA_TYPE
    wanted = _body(documents.v2())
    assert _one(document.body, 1) == b"2.0"
    named = {_one(d, 1).decode(): _one(d, 2) for f, d in _fields(_one(document.body, 9)) if f == 1}
    assert named.keys() == wanted["definitions"].keys()
    pod_spec = named["io.k8s.api.core.v1.PodSpec"]
    properties = {_one(p, 1).decode(): _one(p, 2) for _, p in _fields(_one(pod_spec, 25))}
    assert properties.keys() == wanted["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"].keys()
    extensions = {_one(e, 1).decode(): _one(e, 2, 2) for f, e in _fields(properties["containers"]) if f == 31}
    assert extensions["x-kubernetes-patch-merge-key"] == b'"name"\n'
    assert _one(properties["nodeName"], 22, 1) == b"string"
    paths = {_one(p, 1).decode() for f, p in _fields(_one(document.body, 8)) if f == 2}
    assert paths == wanted["paths"].keys()
