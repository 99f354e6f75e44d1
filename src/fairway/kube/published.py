"""Which kinds do other projects publish, and what does each definition say?

Facts of their CustomResourceDefinitions, made by `tools/importing` from pinned sources (docs/upgrading.md): names,
columns, subresources in `data/kinds.json`, read at once; schemas in `data/schemas.txt`, a line a place, of which
only the lines of a kind that is used are decoded. Descriptions are not kept.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

_DATA = Path(__file__).parent / "data"
_ONE = ("items", "additionalProperties", "not")
_MANY = ("oneOf", "anyOf", "allOf")

Raw = dict[str, Any]


class Version(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What a definition says of one version. `schema` names a place of the schemas' file."""

    name: str
    schema: str
    storage: bool = False
    deprecated: bool = False
    deprecation_warning: str = ""
    status: bool = False
    scale: Raw | None = None
    columns: tuple[Raw, ...] = ()
    selectable_fields: tuple[Raw, ...] = ()


class Published(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A kind as its project defines it, versions newest first."""

    group: str
    kind: str
    plural: str
    namespaced: bool
    versions: tuple[Version, ...]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def group_kind(self) -> str:
        return f"{self.kind}.{self.group}"

    def version(self, name: str) -> Version | None:
        return next((v for v in self.versions if v.name == name), None)


class Component(msgspec.Struct, frozen=True):
    """A project, and the source its facts were taken from."""

    component: str
    source: str
    kinds: tuple[Published, ...]


@cache
def components() -> tuple[Component, ...]:
    return msgspec.json.decode((_DATA / "kinds.json").read_bytes(), type=tuple[Component, ...])


@cache
def kinds() -> dict[str, Published]:
    """Every published kind by its group kind. Where two components define one, its versions are joined."""
    found: dict[str, Published] = {}
    for component in components():
        for kind in component.kinds:
            before = found.get(kind.group_kind)
            if before is not None:
                known = {v.name for v in before.versions}
                more = tuple(v for v in kind.versions if v.name not in known)
                kind = msgspec.structs.replace(before, versions=before.versions + more)
            found[kind.group_kind] = kind
    return found


@cache
def entry(group_kind: str, version: str) -> Raw | None:
    """The version as a definition's `spec.versions` has it; None where nobody publishes such a kind."""
    kind = kinds().get(group_kind)
    said = kind.version(version) if kind is not None else None
    if said is None:
        return None
    subresources: Raw = {"status": {}} if said.status else {}
    if said.scale is not None:
        subresources["scale"] = said.scale
    return {
        "name": said.name,
        "served": True,
        "storage": said.storage,
        "schema": {"openAPIV3Schema": schema(said.schema)},
        "additionalPrinterColumns": list(said.columns),
        "subresources": subresources,
        "selectableFields": list(said.selectable_fields),
    }


@cache
def _places() -> dict[bytes, bytes]:
    """What is written of each place, by its name; undecoded."""
    lines = (_DATA / "schemas.txt").read_bytes().splitlines()
    return dict(line.split(b" ", 1) for line in lines)


@cache
def schema(name: str) -> Raw:
    """The schema of a place, its parts in it. The same part is the same dict everywhere: not to be changed."""
    body: Raw = msgspec.json.decode(_places()[name.encode()])
    if "properties" in body:
        body["properties"] = {member: schema(below) for member, below in body["properties"].items()}
    for key in _ONE:
        if type(body.get(key)) is str:
            body[key] = schema(body[key])
    for key in _MANY:
        if key in body:
            body[key] = [schema(below) for below in body[key]]
    return body
