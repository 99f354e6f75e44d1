"""Which fields does a kind have, and of which type is each?

The tables are text: a type's name on a line of its own, then its fields as `name type`, separated by commas.
Types: `str bool i32 i64 num bytes any`, `qty` (quantity), `ios` (integer or text), `time`, `dur` (duration),
`[T]` (list), `{T}` (map from text), `{T?}` (whose values may be null) and names of other types.

This is the only place that knows the notation; unknown fields and wrong types come from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from fairway.kube.kinds import group_kind
from fairway.kube.objects import Obj
from fairway.kube.validation.tables import cluster, meta, pods, podstatus, volumes, workloads

SCALARS = frozenset({"str", "bool", "i32", "i64", "num", "qty", "ios", "time", "dur", "bytes", "any"})
STRUCT = "struct"
LIST = "list"
MAP = "map"

_TYPE = re.compile(r"([\[{]?)(\w+)(\??)[\]}]?")


@dataclass(slots=True)
class FieldType:
    """The type of a field: `kind` is a scalar's name, `struct`, `list` or `map`; `of` is what lists and maps hold.

    `nullable`: the values of a map may be null, which reads as empty text.
    """

    kind: str
    struct: StructType | None = None
    of: FieldType | None = None
    nullable: bool = False


@dataclass(slots=True)
class StructType:
    """A type with named fields."""

    name: str
    fields: dict[str, FieldType] = field(default_factory=dict)


# Kinds with a table, by group kind and version; everything else passes through.
_KINDS = {
    "": "Pod Node Namespace Service ResourceQuota LimitRange PodTemplate ReplicationController ConfigMap Secret "
    "ServiceAccount PersistentVolumeClaim Event",
    "batch": "Job CronJob",
    "apps": "Deployment ReplicaSet StatefulSet DaemonSet",
    "policy": "PodDisruptionBudget",
    "scheduling.k8s.io": "PriorityClass",
    "autoscaling": "HorizontalPodAutoscaler",
    "coordination.k8s.io": "Lease",
    "node.k8s.io": "RuntimeClass",
}
_VERSIONS = {"autoscaling": "v2"}
KNOWN_KINDS: dict[str, tuple[str, str]] = {
    group_kind(f"{group}/v1" if group else "v1", kind): (kind, _VERSIONS.get(group, "v1"))
    for group, kinds in _KINDS.items()
    for kind in kinds.split()
}


def type_of(obj: Obj) -> StructType | None:
    """The table of an object's kind, or None where there is none for its kind and version."""
    api_version = obj.get("apiVersion")
    kind = obj.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    known = KNOWN_KINDS.get(group_kind(api_version, kind))
    if known is None or api_version.rpartition("/")[2] != known[1]:
        return None
    return struct_type(known[0])


def struct_type(name: str) -> StructType:
    """The table of a type by its name, such as `Container`."""
    return _types()[name]


@lru_cache(maxsize=1)
def _types() -> dict[str, StructType]:
    bodies: dict[str, list[str]] = {}
    for table in (meta, pods, volumes, podstatus, cluster, workloads):
        name = ""
        for line in table.TYPES.splitlines():
            if line.startswith("  "):
                bodies[name].append(line)
            elif line:
                name = line
                bodies[name] = []
    types = {name: StructType(name) for name in bodies}
    for name, lines in bodies.items():
        for entry in " ".join(lines).split(","):
            field_name, _, text = entry.strip().partition(" ")
            types[name].fields[field_name] = _field_type(text, types)
    return types


def _field_type(text: str, types: dict[str, StructType]) -> FieldType:
    match = _TYPE.fullmatch(text)
    assert match is not None, text
    bracket, name, nullable = match.groups()
    inner = FieldType(name) if name in SCALARS else FieldType(STRUCT, types[name])
    return FieldType(LIST if bracket == "[" else MAP, of=inner, nullable=bool(nullable)) if bracket else inner
