"""The schemas of what is served: built-in definitions, and definitions made of CustomResourceDefinitions.

Definitions are in the dialect of OpenAPI 2 (`#/definitions/…`); `versionthree` rewrites them.

Source: apiextensions-apiserver pkg/controller/openapi/builder (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fairway.apiserver.openapi.operations import META, STATUS, Names
from fairway.apiserver.resources import Resource
from fairway.kube.schema import document

REF = "#/definitions/"
# What every document has, whatever it serves.
_ALWAYS = (
    STATUS,
    META + "DeleteOptions",
    META + "Patch",
    META + "APIResourceList",
    META + "ObjectMeta",
    META + "ListMeta",
)
_OBJECT_META = {"$ref": REF + META + "ObjectMeta"}
_TYPE_META = {
    "apiVersion": {
        "type": "string",
        "description": "APIVersion defines the versioned schema of this representation of an object.",
    },
    "kind": {
        "type": "string",
        "description": "Kind is a string value representing the REST resource this object represents.",
    },
}


def names_of(resource: Resource) -> Names:
    """The definitions of a resource's kind and its list."""
    kind = resource.kind.kind
    built_in = document.definition_name(resource.api_version, kind)
    if built_in is not None:
        return Names(built_in, document.definition_name(resource.api_version, kind + "List") or built_in)
    group = ".".join(reversed(resource.group.split("."))) or "core"
    single = f"{group}.{resource.version}.{kind}"
    return Names(single, single + "List")


def definitions(resources: Iterable[Resource], *, is_brief: bool = False) -> dict[str, Any]:
    """Every definition these resources need, by name, in order.

    `is_brief`: published kinds without their fields. Unlike kube: the one document of OpenAPI 2 would be thirty
    megabytes with them, and its readers (`kubectl apply`'s merging) want none of a custom kind.
    """
    found: dict[str, Any] = {}
    wanted: list[str] = list(_ALWAYS)
    for resource in resources:
        names = names_of(resource)
        if document.definition_name(resource.api_version, resource.kind.kind) == names.single:
            wanted += [names.single, names.plural]
        else:
            found[names.single] = _custom(resource, is_brief and resource.is_published)
            found[names.plural] = _custom_list(resource, names)
        wanted += _spoken(resource)
    _close(found, wanted)
    return {name: found[name] for name in sorted(found)}


def _spoken(resource: Resource) -> Iterator[str]:
    for sub in resource.subresources:
        name = document.definition_name(sub.api_version, sub.kind) if sub.kind else None
        if name is not None:
            yield name


def _close(found: dict[str, Any], wanted: list[str]) -> None:
    """Adds the wanted definitions and all they refer to."""
    known = set(document.definition_names())
    waiting = [name for name in wanted if name not in found]
    for body in list(found.values()):
        waiting.extend(references(body))
    while waiting:
        name = waiting.pop()
        if name in found or name not in known:
            continue
        found[name] = document.definition(name)
        waiting.extend(references(found[name]))


def references(node: Any) -> Iterator[str]:
    """The names of the definitions a schema refers to."""
    if isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(REF)
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def _gvks(resource: Resource, kind: str) -> list[dict[str, str]]:
    return [{"group": resource.group, "kind": kind, "version": resource.version}]


def _custom(resource: Resource, is_brief: bool) -> dict[str, Any]:
    """The definition of a custom kind; without a schema, an object that may hold anything."""
    schema = None
    if not is_brief:
        schema = ((resource.crd_version or {}).get("schema") or {}).get("openAPIV3Schema")
    body: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if schema:
        body = _portable(schema)
    body["properties"] = {**_TYPE_META, **(body.get("properties") or {}), "metadata": _OBJECT_META}
    body["x-kubernetes-group-version-kind"] = _gvks(resource, resource.kind.kind)
    return body


# Left out: what OpenAPI 2 and the clients that read these documents do not take.
_DROPPED = ("oneOf", "anyOf", "allOf", "not", "nullable", "default", "x-kubernetes-validations")


def _portable(schema: Any) -> Any:
    """A custom schema as both versions of OpenAPI can say it."""
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {k: v for k, v in schema.items() if k not in _DROPPED}
    if "properties" in out:
        out["properties"] = {name: _portable(member) for name, member in out["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in out:
            out[key] = _portable(out[key])
    return out


def _custom_list(resource: Resource, names: Names) -> dict[str, Any]:
    kind = resource.kind.kind
    return {
        "description": f"{kind}List is a list of {kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_TYPE_META,
            "items": {"type": "array", "items": {"$ref": REF + names.single}},
            "metadata": {"$ref": REF + META + "ListMeta"},
        },
        "x-kubernetes-group-version-kind": _gvks(resource, kind + "List"),
    }
