"""One schema tree for built-in and custom kinds: what may stand at each place, and how lists merge there.

Built-in definitions refer to each other, some to themselves (a CRD's schema), so a node's `properties` are filled
after the node is registered; trees are shared and never mutated after that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fairway.kube.schema import document

OBJECT, ARRAY, STRING, INTEGER, NUMBER, BOOLEAN, ANY = (
    "object",
    "array",
    "string",
    "integer",
    "number",
    "boolean",
    "",
)
# Formats that stand for a type of Go with its own way of being read.
QUANTITY, INT_OR_STRING, TIME, MICRO_TIME, BYTES = (
    "quantity",
    "int-or-string",
    "date-time",
    "micro-time",
    "byte",
)

_REF = "#/definitions/"
_FORMATS = {
    document.QUANTITY: QUANTITY,
    document.INT_OR_STRING: INT_OR_STRING,
    document.TIME: TIME,
    document.MICRO_TIME: MICRO_TIME,
}
# Key fields of `map` lists that the API server defaults: an item may leave them out.
# Source: `+default="TCP"` in k8s.io/api/core/v1/types.go (v1.36).
_KEY_DEFAULTS = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
}


@dataclass(slots=True, eq=False)
class Schema:
    """One place in an object.

    `type` is an OpenAPI type or empty (anything); `properties` the fields of a struct; `values` what a map holds;
    `items` what a list holds. `list_type` is `atomic`, `set` or `map` (`list_map_keys` then says by which fields);
    `map_type` `atomic` makes an object one unit. `merge_key` and `merge_strategy` are those of strategic merge
    patches. `is_open`: unknown fields are kept. `go_type` is a built-in definition's name, `raw` a custom schema.
    """

    type: str = ANY
    format: str = ""
    properties: dict[str, Schema] = field(default_factory=dict)
    values: Schema | None = None
    items: Schema | None = None
    list_type: str = "atomic"
    list_map_keys: tuple[str, ...] = ()
    map_type: str = "granular"
    merge_key: str = ""
    merge_strategy: tuple[str, ...] = ()
    is_open: bool = False
    is_embedded: bool = False
    is_nullable: bool = True
    default: Any = None
    go_type: str = ""
    raw: dict[str, Any] | None = None
    defaulting: tuple[tuple[str, Schema], ...] | None = None
    """The fields with a default or one below, once somebody asked (`shaping`)."""

    @property
    def is_custom(self) -> bool:
        return self.raw is not None

    @property
    def zero(self) -> Any:
        """What Go makes of null in a list of these: an empty struct, an empty text; None where null stays null."""
        if self.type == OBJECT:
            return {}
        return "" if self.type == STRING and not self.format else None

    def child(self, name: str) -> Schema | None:
        """The schema under a field name or a map's key."""
        return self.properties.get(name) or self.values


def schema_for(api_version: str, kind: str) -> Schema | None:
    """The schema of a built-in kind; None for kinds Kubernetes does not have."""
    name = document.definition_name(api_version, kind)
    return None if name is None else definition_schema(name)


def object_meta_schema() -> Schema:
    return definition_schema(document.OBJECT_META)


_NODES: dict[str, Schema] = {}


def definition_schema(name: str) -> Schema:
    """The tree of a definition of the OpenAPI document. Cached; O(size of the tree) the first time."""
    node = _NODES.get(name)
    if node is None:
        node = _NODES[name] = Schema(go_type=name)
        _fill(node, document.definition(name))
    return node


def _fill(node: Schema, body: dict[str, Any]) -> None:
    node.type = body.get("type", ANY)
    node.format = _FORMATS.get(node.go_type) or body.get("format", "")
    for name, member in body.get("properties", {}).items():
        node.properties[name] = _member(member, _KEY_DEFAULTS.get((node.go_type, name)))
    if "additionalProperties" in body:
        node.values = _member(body["additionalProperties"], None)
    if "items" in body:
        node.items = _member(body["items"], None)
    if node.type == OBJECT and not node.properties and node.values is None:
        node.is_open = True  # FieldsV1, RawExtension
    set_list_extensions(node, body)


def _member(body: dict[str, Any], default: Any) -> Schema:
    reference = body.get("$ref")
    if reference is None:
        node = Schema(default=default)
        _fill(node, body)
        return _shared(node) if _is_plain(node) else node
    target = definition_schema(reference.removeprefix(_REF))
    if not any(key.startswith("x-kubernetes-") for key in body):
        return target
    node = Schema(
        type=target.type,
        format=target.format,
        properties=target.properties,
        values=target.values,
        items=target.items,
        map_type=target.map_type,
        is_open=target.is_open,
        go_type=target.go_type,
    )
    set_list_extensions(node, body)
    return node


def _is_plain(node: Schema) -> bool:
    return node.type not in (OBJECT, ARRAY) and node.default is None and not node.merge_key


@lru_cache(maxsize=64)
def _leaf(type_: str, format_: str) -> Schema:
    return Schema(type=type_, format=format_)


def _shared(node: Schema) -> Schema:
    """One node for all fields of one plain type: most fields are text."""
    return _leaf(node.type, node.format)


def set_list_extensions(node: Schema, body: dict[str, Any]) -> None:
    """Reads `x-kubernetes-list-type` and its siblings into the node."""
    node.list_type = body.get("x-kubernetes-list-type") or node.list_type
    node.list_map_keys = tuple(body.get("x-kubernetes-list-map-keys") or ())
    node.map_type = body.get("x-kubernetes-map-type") or node.map_type
    node.merge_key = body.get("x-kubernetes-patch-merge-key", "")
    strategy = body.get("x-kubernetes-patch-strategy", "")
    node.merge_strategy = tuple(strategy.split(",")) if strategy else ()
