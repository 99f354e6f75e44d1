"""The documents a server hands out, each built when first asked for and kept as bytes.

A document's hash follows from what it is made of, not from its bytes: the index names all hashes and must not build
forty documents for that.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from fairway.apiserver.openapi import protobuf, versionthree, versiontwo
from fairway.apiserver.openapi.operations import Operation, group_path, operations
from fairway.apiserver.openapi.schemas import definitions, names_of
from fairway.apiserver.resources import Resource, Resources
from fairway.kube.objects import meta_of
from fairway.kube.schema.document import RELEASE


@dataclass(frozen=True, slots=True)
class Document:
    """`etag` is quoted, as the header wants it."""

    body: bytes
    etag: str
    media_type: str = "application/json"


class Documents:
    """The OpenAPI documents of what `resources` serves. Stale ones are dropped when its generation rises."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._generation: int | None = None
        self._groups: dict[str, list[Resource]] = {}
        self._hashes: dict[str, str] = {}
        self._built: dict[str, Document] = {}

    def v2(self, accept: str = "") -> Document:
        """The one document of OpenAPI 2: protobuf for clients that ask for it, as kubectl does."""
        self._refresh()
        if "protobuf" in accept and "json" not in accept:
            return self._kept("v2.pb", self._v2_protobuf)
        return self._kept("v2", self._v2_json)

    def index(self) -> Document:
        """/openapi/v3: which documents there are, and their hashes."""
        self._refresh()
        return self._kept("index", self._index)

    def v3(self, path: str) -> Document | None:
        """The document of a group and version, such as `api/v1` or `apis/apps/v1`; None where there is none."""
        self._refresh()
        path = path.strip("/").partition("?")[0]
        if path not in self._groups:
            return None
        return self._kept(path, lambda: self._v3(path))

    def _refresh(self) -> None:
        if self._generation == self._resources.generation:
            return
        self._generation = self._resources.generation
        self._groups = {}
        for resource in self._resources.by_route.values():
            self._groups.setdefault(group_path(resource.group, resource.version), []).append(resource)
        hashes = {path: _hash(listed) for path, listed in self._groups.items()}
        # A definition that changed leaves the documents of other groups as they are.
        self._built = {
            path: kept for path, kept in self._built.items() if self._hashes.get(path) == hashes.get(path, "")
        }
        self._hashes = hashes

    def _kept(self, name: str, build: Any) -> Document:
        found = self._built.get(name)
        if found is None:
            found = self._built[name] = build()
        return found

    def _operations(self, listed: list[Resource]) -> list[Operation]:
        return [operation for resource in listed for operation in operations(resource, names_of(resource))]

    def _v3(self, path: str) -> Document:
        listed = self._groups[path]
        body = versionthree.document(self._operations(listed), definitions(listed), RELEASE)
        return Document(msgspec.json.encode(body), f'"{self._hashes[path]}"')

    def _v2(self) -> dict[str, Any]:
        listed = [resource for listed in self._groups.values() for resource in listed]
        return versiontwo.document(self._operations(listed), definitions(listed, is_brief=True), RELEASE)

    def _all_hashes(self) -> str:
        return _digest("".join(self._hashes[path] for path in sorted(self._hashes)))

    def _v2_json(self) -> Document:
        return Document(msgspec.json.encode(self._v2()), f'"{self._all_hashes()}"')

    def _v2_protobuf(self) -> Document:
        return Document(protobuf.encode(self._v2()), f'"{self._all_hashes()}"', protobuf.MEDIA_TYPE)

    def _index(self) -> Document:
        paths = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._hashes[path]}"}
            for path in sorted(self._groups)
        }
        return Document(msgspec.json.encode({"paths": paths}), f'"{self._all_hashes()}"')


def _hash(listed: list[Resource]) -> str:
    """What a group's document is made of: resources, verbs, subresources, definitions' generations."""
    parts = [RELEASE]
    for resource in listed:
        crd = meta_of(resource.crd) if resource.crd is not None else {}
        identity = (crd.get("uid"), crd.get("generation"))
        subresources = [(sub.name, sub.verbs) for sub in resource.subresources]
        parts.append(repr((resource.api_version, resource.kind.kind, resource.verbs, subresources, identity)))
    return _digest("\n".join(parts))


def _digest(text: str) -> str:
    return hashlib.sha512(text.encode()).hexdigest().upper()
