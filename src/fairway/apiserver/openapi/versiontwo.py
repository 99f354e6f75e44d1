"""OpenAPI 2 ("swagger"): one document for everything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairway.apiserver.openapi.operations import BODY_TYPES, PARAMETERS, PATCH_TYPES, Operation
from fairway.apiserver.openapi.schemas import REF


def document(operations: Iterable[Operation], definitions: dict[str, Any], version: str) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in operations:
        item = paths.setdefault(operation.path, {})
        item[operation.method] = _operation(operation)
        if operation.path_parameters:
            item["parameters"] = [_path_parameter(name) for name in operation.path_parameters]
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": {path: paths[path] for path in sorted(paths)},
        "definitions": definitions,
        "securityDefinitions": {
            "BearerToken": {
                "type": "apiKey",
                "name": "authorization",
                "in": "header",
                "description": "Bearer Token authentication",
            }
        },
        "security": [{"BearerToken": []}],
    }


def _operation(operation: Operation) -> dict[str, Any]:
    parameters = [_query_parameter(name) for name in operation.query]
    if operation.body:
        is_optional = operation.method == "delete"
        body = {"name": "body", "in": "body", "schema": {"$ref": REF + operation.body}}
        parameters.insert(0, body if is_optional else {**body, "required": True})
    return {
        "consumes": list(PATCH_TYPES) if operation.method == "patch" else ["*/*"],
        "produces": list(BODY_TYPES) if operation.answer else ["text/plain"],
        "schemes": ["https"],
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "parameters": parameters,
        "responses": _responses(operation),
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": operation.gvk,
    }


def _responses(operation: Operation) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if operation.answer:
        schema = {"$ref": REF + operation.answer}
    words = {200: "OK", 201: "Created", 202: "Accepted"}
    answers: dict[str, Any] = {
        str(code): {"description": words[code], "schema": schema} for code in operation.codes
    }
    answers["401"] = {"description": "Unauthorized"}
    return answers


def _query_parameter(name: str) -> dict[str, Any]:
    kind, description = PARAMETERS[name]
    return {"name": name, "in": "query", "description": description, "uniqueItems": True, **kind}


def _path_parameter(name: str) -> dict[str, Any]:
    said = "object name and auth scope, such as for teams and projects" if name == "namespace" else "name"
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": said,
        "type": "string",
        "uniqueItems": True,
    }
