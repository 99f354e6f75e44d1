"""What OpenAPI says of a few kinds, whole: every request and definition, in both versions and as protobuf."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.histories import check_history

from fairway.apiserver.openapi import protobuf, versionthree, versiontwo
from fairway.apiserver.openapi.documents import Documents
from fairway.apiserver.openapi.operations import Operation, operations
from fairway.apiserver.openapi.schemas import definitions, names_of
from fairway.apiserver.resources import Resource, Resources
from fairway.kube.objects import Obj
from fairway.kube.schema import document

HERE = Path(__file__).parent
NUMBER = {"type": "integer", "nullable": True, "default": 3, "minimum": 0}
CRD: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.b.example.com", "uid": "u", "generation": 1},
    "spec": {
        "group": "b.example.com",
        "scope": "Cluster",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A Foo.",
                        "required": ["spec"],
                        "x-kubernetes-validations": [{"rule": "true"}],
                        "properties": {
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": {
                                "type": "object",
                                "anyOf": [{"required": ["n"]}],
                                "properties": {
                                    "n": NUMBER,
                                    "list": {"type": "array", "items": NUMBER},
                                    "map": {"type": "object", "additionalProperties": NUMBER},
                                    "any": {"type": "object", "additionalProperties": True},
                                    "default": {"type": "string", "pattern": "^a*$", "format": "date"},
                                },
                            },
                        },
                    }
                },
            },
            {"name": "v2", "served": True, "storage": False, "schema": {}},
        ],
    },
    "status": {"conditions": [{"type": "Established", "status": "True"}]},
}
SHOWN = (
    ("", "v1", "pods"),
    ("", "v1", "nodes"),
    ("", "v1", "bindings"),
    ("", "v1", "serviceaccounts"),
    ("apps", "v1", "deployments"),
    ("rbac.authorization.k8s.io", "v1", "roles"),
    ("kueue.x-k8s.io", "v1beta2", "localqueues"),
    ("b.example.com", "v1", "foos"),
    ("b.example.com", "v2", "foos"),
)


@pytest.fixture(autouse=True)
def kinds_come_and_go() -> Iterator[None]:
    """Kinds that a definition declares are known to everybody until it goes."""
    yield
    for made in _MADE:
        made.set_definitions([])
    _MADE.clear()


_MADE: list[Resources] = []


def resources() -> Resources:
    found = Resources()
    found.set_definitions([CRD])
    _MADE.append(found)
    return found


def shown() -> list[Resource]:
    every = resources()
    return [every.by_route[route] for route in SHOWN]


def test_every_request_is_what_it_was() -> None:
    def told() -> Iterator[str]:
        for resource in shown():
            for operation in operations(resource, names_of(resource)):
                yield _line(operation)

    check_history(HERE / "operations.txt", told())


def _line(op: Operation) -> str:
    gvk = "/".join((op.gvk["group"], op.gvk["version"], op.gvk["kind"]))
    return (
        f"{op.method} {op.path}: {op.id} ({op.action}, {op.tag}, {gvk}): {op.description}; "
        f"at {','.join(op.path_parameters)} ?{','.join(op.query)}; "
        f"{op.body} {' '.join(op.body_types)} -> {op.answer} {op.codes}"
    )


def _documents() -> tuple[Any, Any]:
    """Of a custom kind in two versions and of what a pod's log answers."""
    every = resources()
    foos = [every.by_route["b.example.com", version, "foos"] for version in ("v1", "v2")]
    asked = [op for r in (*foos, every.by_route["", "v1", "pods"]) for op in operations(r, names_of(r))]
    asked = [op for op in asked if "/pods" not in op.path or op.path.endswith("/log")]
    made = {name: body for name, body in definitions(foos).items() if name.startswith("com.example")}
    return versiontwo.document(asked, made, "v1.2"), versionthree.document(asked, made, "v1.2")


def test_both_versions_say_what_they_said() -> None:
    two, three = _documents()
    check_history(HERE / "versiontwo.txt", _told(two))
    check_history(HERE / "versionthree.txt", _told(three))


def _told(document: dict[str, Any]) -> Iterator[str]:
    for path, item in document.pop("paths").items():
        yield from (f"{path} {method}: {json.dumps(said)}" for method, said in item.items())
    for name, said in document.items():
        if isinstance(said, dict):
            yield from (f"{name} {key}: {json.dumps(value)}" for key, value in said.items())
        else:
            yield f"{name}: {json.dumps(said)}"


def test_definitions_are_those_that_are_referred_to() -> None:
    always = ("Status", "DeleteOptions", "Patch", "APIResourceList", "ObjectMeta", "ListMeta")
    every = resources()
    for route, wanted in (
        (("", "v1", "pods"), ("core.v1.Pod", "core.v1.PodList", "core.v1.Binding", "policy.v1.Eviction")),
        (("", "v1", "bindings"), ("core.v1.Binding",)),
        (("apps", "v1", "deployments"), ("apps.v1.Deployment", "apps.v1.DeploymentList", "autoscaling.v1.Scale")),
        (("", "v1", "serviceaccounts"), ("core.v1.ServiceAccount", "core.v1.ServiceAccountList")),
        (("b.example.com", "v1", "foos"), ("autoscaling.v1.Scale",)),
    ):  # fmt: skip
        want = {f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}" for name in always}
        want |= {f"io.k8s.api.{name}" for name in wanted}
        if route[2] == "serviceaccounts":
            want.add("io.k8s.api.authentication.v1.TokenRequest")
        waiting = list(want)
        while waiting:
            said = re.findall(r'"#/definitions/([^"]+)"', json.dumps(document.definition(waiting.pop())))
            waiting += [name for name in said if name not in want]
            want |= set(said)
        if route[2] == "foos":
            want |= {"com.example.b.v1.Foo", "com.example.b.v1.FooList"}
        found = definitions([every.by_route[route]])
        assert list(found) == sorted(want), route
        assert all(found[n] == document.definition(n) for n in found if n.startswith("io.k8s")), route


def test_published_kinds_have_no_fields_where_there_is_one_document() -> None:
    localqueues = resources().by_route["kueue.x-k8s.io", "v1beta2", "localqueues"]
    brief, whole = (
        definitions([localqueues], is_brief=b)["io.x-k8s.kueue.v1beta2.LocalQueue"] for b in (True, False)
    )
    assert list(brief["properties"]) == ["apiVersion", "kind", "metadata"]
    assert brief["x-kubernetes-preserve-unknown-fields"] is True
    assert {"spec", "status"} < set(whole["properties"])
    foos = resources().by_route["b.example.com", "v1", "foos"]
    assert "spec" in definitions([foos], is_brief=True)["com.example.b.v1.Foo"]["properties"]


# Protobuf, read again by field numbers of gnostic's OpenAPIv2.proto.


def test_protobuf_says_all_of_it() -> None:
    two, _ = _documents()
    long = {"x-long": "a" * 20_000, "type": "string", "enum": ["a", 1], "description": "d" * 128}
    two["definitions"]["Long"] = {"properties": {"p" * 200: long, "none": {}}, "x-empty": None}
    two["definitions"]["Closed"] = {"additionalProperties": False, "items": [{"type": "string"}]}
    two["definitions"]["Open"] = {"additionalProperties": True, "items": {"type": "string"}}
    read = _fields(protobuf.encode(two))
    assert [number for number, _ in read] == [1, 2, 8, 9]
    assert _texts(read[0][1]) == "2.0"
    assert [(n, _texts(t)) for n, t in _fields(read[1][1])] == [(1, "Kubernetes"), (2, "v1.2")]
    found = {}
    for number, named in _fields(read[2][1]):
        assert number == 2
        path, item = _pair(named)
        found[path] = {number: _operation(body) for number, body in _fields(item)}
    assert found == {
        path: {
            {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}[method]: (
                said["operationId"],
                [(p["name"], p["type"]) for p in said["parameters"] if p["in"] == "query"],
                {k: v for k, v in said.items() if k.startswith("x-")},
            )
            for method, said in item.items()
            if method != "parameters"
        }
        for path, item in two["paths"].items()
    }
    assert list(found) == list(two["paths"])
    schemas = [_pair(named) for _, named in _fields(read[3][1])]
    assert [(name, _schema(body)) for name, body in schemas] == [
        (name, _kept(body)) for name, body in two["definitions"].items()
    ]


def _fields(data: bytes) -> list[tuple[int, Any]]:
    found, at = list[tuple[int, Any]](), 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7 == 2:
            assert at + value <= len(data)
            found.append((tag >> 3, data[at : at + value]))
            at += value
        else:
            assert tag & 7 == 0
            found.append((tag >> 3, value))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def _texts(data: bytes) -> str:
    return data.decode()


def _pair(named: bytes) -> tuple[str, bytes]:
    (one, name), (two, body) = _fields(named)
    assert (one, two) == (1, 2)
    return name.decode(), body


def _any(data: bytes) -> Any:
    ((number, text),) = _fields(data)
    assert number == 2 and text.endswith(b"\n")
    return json.loads(text)


def _operation(data: bytes) -> tuple[str, list[tuple[str, str]], dict[str, Any]]:
    name, query, said = "", [], {}
    for number, body in _fields(data):
        if number == 5:
            name = body.decode()
        elif number == 13:
            key, value = _pair(body)
            said[key] = _any(value)
        else:
            assert number == 8
            for wanted in (1, 2, 3):
                ((inner, body),) = _fields(body)
                assert inner == wanted
            (two, place), (four, parameter), (six, kind) = _fields(body)
            assert (two, place, four, six) == (2, b"query", 4, 6)
            query.append((parameter.decode(), kind.decode()))
    return name, query, said


def _schema(data: bytes) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for number, body in _fields(data):
        match number:
            case 1 | 2 | 4 | 13:
                out[{1: "$ref", 2: "format", 4: "description", 13: "pattern"}[number]] = body.decode()
            case 19:
                out.setdefault("required", []).append(body.decode())
            case 20:
                out.setdefault("enum", []).append(_any(body))
            case 21:
                # AdditionalPropertiesItem: a schema, or whether there may be any, which protobuf leaves out where not.
                out["additionalProperties"] = False
                for inner, values in _fields(body):
                    assert inner in (1, 2)
                    out["additionalProperties"] = _schema(values) if inner == 1 else values == 1
            case 22:
                ((_, kind),) = _fields(body)
                out["type"] = kind.decode()
            case 23:
                ((_, items),) = _fields(body)
                out["items"] = _schema(items)
            case 25:
                members = [_pair(named) for _, named in _fields(body)]
                out["properties"] = {name: _schema(member) for name, member in members}
            case _:
                assert number == 31
                key, value = _pair(body)
                out[key] = _any(value)
    return out


_PLAIN = ("$ref", "format", "description", "pattern", "required", "enum", "type")


def _kept(schema: dict[str, Any]) -> dict[str, Any]:
    """Of a schema what goes into protobuf."""
    out = {k: v for k, v in schema.items() if k in _PLAIN or k.startswith("x-")}
    if "additionalProperties" in schema:
        values = schema["additionalProperties"]
        out["additionalProperties"] = _kept(values) if isinstance(values, dict) else values
    if isinstance(schema.get("items"), dict):
        out["items"] = _kept(schema["items"])
    if schema.get("properties"):
        out["properties"] = {name: _kept(member) for name, member in schema["properties"].items()}
    return out


# Which documents there are, and when they are made anew


def test_a_document_is_made_anew_when_its_kinds_change() -> None:
    every = resources()
    documents = Documents(every)
    made = {path: documents.v3(path) for path in ("apis/b.example.com/v1", "apis/apps/v1")}
    index, two = documents.index(), documents.v2()
    assert documents.index() is index and documents.v2() is two
    assert documents.v3("/apis/apps/v1/") is made["apis/apps/v1"]
    assert documents.v3("apis/apps/v1?hash=x") is made["apis/apps/v1"]
    proto = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    assert documents.v2(proto).media_type == protobuf.MEDIA_TYPE
    for accept in ("", "application/json", f"application/json, {proto}"):
        assert documents.v2(accept) is two
    hashes = {path: _hash(documents, path) for path in made}
    for change in ("generation", "uid"):
        crd = {**CRD, "metadata": {**CRD["metadata"], change: 2}}
        every.set_definitions([crd])
        assert documents.v3("apis/apps/v1") is made["apis/apps/v1"]
        assert documents.v3("apis/b.example.com/v1") is not made["apis/b.example.com/v1"]
        assert documents.index() is not index and documents.v2() is not two
        assert documents.index().etag == documents.v2().etag == documents.v2(proto).etag != index.etag
        assert _hash(documents, "apis/b.example.com/v1") != hashes["apis/b.example.com/v1"]
        assert _hash(documents, "apis/apps/v1") == hashes["apis/apps/v1"]
    every.set_definitions([CRD])
    assert {path: _hash(documents, path) for path in made} == hashes
    assert documents.index().etag == index.etag and documents.index().body == index.body
    document = documents.v3("apis/apps/v1")
    assert document is not None and document.etag == f'"{hashes["apis/apps/v1"]}"'


def _hash(documents: Documents, path: str) -> str:
    said = json.loads(documents.index().body)["paths"][path]["serverRelativeURL"]
    before, _, found = said.partition("?hash=")
    assert before == f"/openapi/v3/{path}" and len(found) == 128
    return str(found)
