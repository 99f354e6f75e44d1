"""How is a metric's value read off an object? One rule a word: a number at a path, a condition, an enumeration.

A rule answers with samples: labels beside the object's own, and a value. Source: kube-state-metrics 2.20,
internal/store/{pod,node,job,…}.go, utils.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from fairway.kube.objects import Obj, labels_of
from fairway.kube.quantity import QuantityError, of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339

Samples = list[tuple[dict[str, str], float]]
Rule = Callable[[Obj], Samples]

STATUSES: Final = ("true", "false", "unknown")
_INVALID: Final = re.compile(r"[^a-zA-Z0-9_]")
_CAPITAL: Final = re.compile(r"([a-z0-9])([A-Z])")


def at(obj: Obj, path: str) -> Any:
    """What lies at `status.replicas`; None for nothing."""
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def seconds(text: Any) -> float | None:
    """A timestamp as whole seconds."""
    try:
        return float(parse_rfc3339(text) // SECOND_US) if isinstance(text, str) and text else None
    except ValueError:
        return None


def quantity(value: Any) -> float | None:
    try:
        return float(of(value))
    except QuantityError:
        return None


def amounts(resources: Any) -> Samples:
    """Of requests, limits, capacity: labels `resource` and `unit`."""
    found: Samples = []
    for name, value in (resources or {}).items():
        size, unit = quantity(value), _unit(name)
        if size is not None and unit:
            found.append(({"resource": sanitized(name), "unit": unit}, size))
    return found


def _unit(resource: str) -> str:
    if resource == "cpu":
        return "core"
    if resource in ("memory", "storage", "ephemeral-storage") or resource.startswith(
        ("hugepages-", "attachable-volumes-")
    ):
        return "byte"
    return "integer" if resource == "pods" or "/" in resource else ""


def sanitized(name: str) -> str:
    return _INVALID.sub("_", name)


def of_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels of an object as labels of a series. Names that come out alike are numbered."""
    return dict(_prefixed(tuple(sorted(labels.items()))))


@lru_cache(maxsize=65536)
def _prefixed(labels: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    names = [f"label_{_label_name(key)}" for key, _ in labels]
    counts: dict[str, int] = {}
    found = []
    for name, (_, value) in zip(names, labels, strict=True):
        counts[name] = counts.get(name, 0) + 1
        numbered = f"{name}_conflict{counts[name]}" if names.count(name) > 1 else name
        found.append((numbered, str(value)))
    return tuple(found)


@lru_cache(maxsize=4096)
def _label_name(key: str) -> str:
    return _CAPITAL.sub(r"\1_\2", sanitized(key)).lower()


def conditions_of(obj: Obj) -> list[dict[str, Any]]:
    return [c for c in (obj.get("status") or {}).get("conditions") or () if isinstance(c, dict)]


def by_status(status: Any, label: str, **more: str) -> Samples:
    now = str(status).lower()
    return [({**more, label: s}, float(s == now)) for s in STATUSES]


# Rules by their word in families.tsv.


def _number(path: str, otherwise: str = "") -> Rule:
    def read(obj: Obj) -> Samples:
        value = at(obj, path)
        if isinstance(value, (int, float)):
            return [({}, float(value))]
        return [({}, float(otherwise))] if otherwise else []

    return read


def _time(path: str) -> Rule:
    def read(obj: Obj) -> Samples:
        value = seconds(at(obj, path))
        return [] if value is None else [({}, value)]

    return read


def _text(label: str, path: str) -> Rule:
    def read(obj: Obj) -> Samples:
        value = at(obj, path)
        return [({label: str(value)}, 1.0)] if value else []

    return read


def _one_of(label: str, path: str, words: str) -> Rule:
    known = words.split(",")

    def read(obj: Obj) -> Samples:
        value = at(obj, path)
        return [({label: word}, float(word == value)) for word in known] if value else []

    return read


def _condition(type_: str) -> Rule:
    def read(obj: Obj) -> Samples:
        return [
            sample
            for c in conditions_of(obj)
            if c.get("type") == type_
            for sample in by_status(c.get("status"), "condition")
        ]

    return read


def _conditions() -> Rule:
    def read(obj: Obj) -> Samples:
        return [
            sample
            for c in conditions_of(obj)
            for sample in by_status(c.get("status"), "status", condition=str(c.get("type")))
        ]

    return read


def _when(type_: str) -> Rule:
    def read(obj: Obj) -> Samples:
        return [
            ({}, when)
            for c in conditions_of(obj)
            if c.get("type") == type_ and c.get("status") == "True"
            if (when := seconds(c.get("lastTransitionTime"))) is not None
        ]

    return read


def _suspended(type_: str) -> Rule:
    def read(obj: Obj) -> Samples:
        on = any(c.get("type") == type_ and c.get("status") == "True" for c in conditions_of(obj))
        return [({}, float(on))]

    return read


def _amount(path: str) -> Rule:
    def read(obj: Obj) -> Samples:
        size = quantity(value) if (value := at(obj, path)) else None
        return [] if size is None else [({}, size)]

    return read


RULES: Final[dict[str, Callable[..., Rule]]] = {
    "number": _number,
    "time": _time,
    "text": _text,
    "one-of": _one_of,
    "condition": _condition,
    "conditions": _conditions,
    "when": _when,
    "number-if-condition": _suspended,
    "amount": _amount,
    "amounts": lambda path: lambda obj: amounts(at(obj, path)),
    "flag": lambda path: lambda obj: [({}, float(bool(at(obj, path))))],
    "count": lambda path: lambda obj: [({}, float(len(at(obj, path) or ())))],
    "labels": lambda: lambda obj: [(of_labels(labels_of(obj)), 1.0)],
    "one": lambda: lambda _obj: [({}, 1.0)],
}
