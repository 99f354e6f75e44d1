"""The OpenAPI definitions of Kubernetes' own kinds: names, descriptions, list keys.

The facts are data of ours (`kube/data/definitions.json.gz`, made by `tools/importing/openapi.py`): all but the
descriptions. Those stay in the package `kubernetes-validate` (the extra `descriptions`), which ships the API server's
document of every release; where it is installed, its file is read instead (decision 0010). Either is read once, on
first use: definitions stay undecoded slices of one buffer, and each is decoded when somebody asks for it. The package
itself is never imported: it would load a JSON Schema validator nobody needs here.
"""

from __future__ import annotations

import gzip
import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

# The release whose objects are spoken.
RELEASE = "v1.36.0"

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"

SHIPPED = Path(__file__).parents[1] / "data" / "definitions.json.gz"
CHOICES = SHIPPED.with_name("choices.json.gz")
_PACKAGE = "kubernetes_validate"
_REF = "#/$defs/"
# Where the file's dialect (JSON Schema) lost what the API's document says of these types.
_AS_OPENAPI: dict[str, dict[str, Any]] = {
    QUANTITY: {"type": "string"},
    INT_OR_STRING: {"type": "string", "format": "int-or-string"},
}


class _File(msgspec.Struct):
    definitions: dict[str, msgspec.Raw] = msgspec.field(name="$defs")


class GroupVersionKind(msgspec.Struct, frozen=True):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class _Named(msgspec.Struct):
    kinds: list[GroupVersionKind] = msgspec.field(
        name="x-kubernetes-group-version-kind", default_factory=list
    )


def definition(name: str) -> dict[str, Any]:
    """One definition in OpenAPI v2's dialect, references as `#/definitions/…`. A fresh dict at each call."""
    body = msgspec.json.decode(_raw_definitions()[name])
    body.update(_AS_OPENAPI.get(name, {}))
    converted: dict[str, Any] = _from_json_schema(body)
    if name in _AS_OPENAPI:
        converted.pop("oneOf", None)
    return converted


def with_choices(name: str, body: dict[str, Any]) -> dict[str, Any]:
    """A definition with its fields' enums and defaults, as OpenAPI 3 shows them. OpenAPI 2 has none."""
    choices = _choices().get(name)
    if choices is None:
        return body
    fields = body.get("properties", {})
    return {**body, "properties": {n: _chosen(member, choices.get(n, {})) for n, member in fields.items()}}


def _chosen(member: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    below: dict[str, Any] = {
        key: {**member[key], **facts[key]} for key in ("items", "additionalProperties") if key in facts
    }
    return {**member, **facts, **below}


@lru_cache(maxsize=1)
def _choices() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(gzip.decompress(CHOICES.read_bytes()))
    return found


def definition_names() -> list[str]:
    """All names, sorted."""
    return sorted(_raw_definitions())


def definition_name(api_version: str, kind: str) -> str | None:
    """The name of a built-in kind's definition: `v1`, `Pod` → `io.k8s.api.core.v1.Pod`."""
    return _names_by_kind().get((api_version, kind))


def is_built_in(group: str, kind: str) -> bool:
    """Whether Kubernetes itself has the kind, in whatever version."""
    return (group, kind) in _built_in()


@lru_cache(maxsize=1)
def _built_in() -> frozenset[tuple[str, str]]:
    return frozenset((version.rpartition("/")[0], kind) for version, kind in _names_by_kind())


def kinds_of(name: str) -> list[GroupVersionKind]:
    """The group, version and kind a definition stands for: none for parts of objects."""
    return msgspec.json.decode(_raw_definitions()[name], type=_Named).kinds


@lru_cache(maxsize=1)
def _names_by_kind() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for name in definition_names():
        last = name.rpartition(".")[2]
        for gvk in kinds_of(name):
            # `Eviction`, `Scale` and options are listed under groups that only pass them through.
            if gvk.kind == last:
                found.setdefault((gvk.api_version, gvk.kind), name)
    return found


@lru_cache(maxsize=1)
def _raw_definitions() -> dict[str, msgspec.Raw]:
    described = described_file()
    text = gzip.decompress(SHIPPED.read_bytes()) if described is None else described.read_bytes()
    return msgspec.json.decode(text, type=_File).definitions


def described_file() -> Path | None:
    """The document with its descriptions; None where the package that ships it is missing, or lacks the release."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parent / "kubernetes-json-schema" / f"{RELEASE}-local" / "_definitions.json"
    return file if file.is_file() else None


def _from_json_schema(node: Any) -> Any:
    """The dialect of OpenAPI: `[string, null]` is `string`, an enum of the kind's own name goes."""
    if isinstance(node, list):
        return [_from_json_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key == "type" and isinstance(value, list):
            out[key] = next(t for t in value if t != "null")
        elif key == "$ref" and isinstance(value, str):
            out[key] = "#/definitions/" + value.removeprefix(_REF)
        elif key == "properties":
            out[key] = {name: _property(name, member) for name, member in value.items()}
        else:
            out[key] = _from_json_schema(value)
    return out


def _property(name: str, member: dict[str, Any]) -> Any:
    if name in ("apiVersion", "kind") and "enum" in member:
        member = {k: v for k, v in member.items() if k != "enum"}
    return _from_json_schema(member)
