"""OpenAPI 3: one document a group and version, references as `#/components/schemas/…`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairway.apiserver.openapi.operations import BODY_TYPES, PARAMETERS, Operation
from fairway.apiserver.openapi.schemas import REF
from fairway.kube.schema.document import with_choices

COMPONENTS = "#/components/schemas/"


def document(operations: Iterable[Operation], definitions: dict[str, Any], version: str) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in operations:
        item = paths.setdefault(operation.path, {})
        item[operation.method] = _operation(operation)
        if operation.path_parameters:
            item["parameters"] = [_path_parameter(name) for name in operation.path_parameters]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": {path: paths[path] for path in sorted(paths)},
        "components": {
            "schemas": {name: _schema(with_choices(name, body)) for name, body in definitions.items()},
            "securitySchemes": {
                "BearerToken": {
                    "type": "apiKey",
                    "name": "authorization",
                    "in": "header",
                    "description": "Bearer Token authentication",
                }
            },
        },
    }


def _schema(node: Any) -> Any:
    """A schema in version 3: a reference that says more is an `allOf`."""
    if isinstance(node, list):
        return [_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {key: _schema(value) for key, value in node.items()}
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = COMPONENTS + reference.removeprefix(REF)
        if len(node) == 1:
            return {"$ref": target}
        del out["$ref"]
        out["allOf"] = [{"$ref": target}]
    return out


def _operation(operation: Operation) -> dict[str, Any]:
    out: dict[str, Any] = {
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "parameters": [_query_parameter(name) for name in operation.query],
        "responses": _responses(operation),
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": operation.gvk,
    }
    if operation.body:
        schema = {"$ref": COMPONENTS + operation.body}
        content = {media: {"schema": schema} for media in operation.body_types}
        out["requestBody"] = {"content": content}
        if operation.method != "delete":
            out["requestBody"]["required"] = True
    return out


def _responses(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
    if operation.answer:
        content = {media: {"schema": {"$ref": COMPONENTS + operation.answer}} for media in BODY_TYPES}
    words = {200: "OK", 201: "Created", 202: "Accepted"}
    answers: dict[str, Any] = {
        str(code): {"description": words[code], "content": content} for code in operation.codes
    }
    answers["401"] = {"description": "Unauthorized"}
    return answers


def _query_parameter(name: str) -> dict[str, Any]:
    kind, description = PARAMETERS[name]
    return {"name": name, "in": "query", "description": description, "schema": {**kind, "uniqueItems": True}}


def _path_parameter(name: str) -> dict[str, Any]:
    said = "object name and auth scope, such as for teams and projects" if name == "namespace" else "name"
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": said,
        "schema": {"type": "string", "uniqueItems": True},
    }
