"""What is wrong with a field, and the whole refusal as a client reads it.

A `Fault` is one field error in Go's words; a `Refusal` is the `Status` the API server answers with where a webhook
says no.

Source: apimachinery pkg/util/validation/field/errors.go, pkg/util/errors, pkg/api/errors (v1.36);
controller-runtime pkg/webhook/admission/response.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairway.kube.fieldpath import MapKey, Path, path_text
from fairway.kube.names import Complaints
from fairway.kube.problem import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    UNSUPPORTED,
)

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
_WITHOUT_VALUE = frozenset({REQUIRED, FORBIDDEN, TOO_LONG})


class _Omitted:
    """Stands for a value that the message leaves out. Source: field.OmitValueType."""

    def __repr__(self) -> str:
        return "OMITTED"


OMITTED = _Omitted()


class Fault(NamedTuple):
    """One field error; `str()` is Go's line."""

    path: Path
    value: Any
    kind: str
    detail: str

    @property
    def body(self) -> str:
        """Without the path."""
        parts = [INVALID if self.kind == TYPE_INVALID else self.kind]
        if self.kind not in _WITHOUT_VALUE and self.value is not OMITTED:
            parts.append(go_text(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    def __str__(self) -> str:
        return f"{path_text(self.path) or '<nil>'}: {self.body}"


def go_text(value: Any) -> str:
    """A value as Go prints it in an error: text quoted, the rest as JSON with `<`, `>` and `&` escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    if isinstance(value, str):
        return text
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def invalid(path: Path, value: Any, detail: str) -> Fault:
    return Fault(path, value, INVALID, detail)


def invalids(path: Path, value: Any, complaints: Complaints) -> list[Fault]:
    """One for each complaint about a value."""
    return [Fault(path, value, INVALID, complaint) for complaint in complaints]


def required(path: Path, detail: str = "") -> Fault:
    return Fault(path, "", REQUIRED, detail)


def forbidden(path: Path, detail: str) -> Fault:
    return Fault(path, "", FORBIDDEN, detail)


def duplicate(path: Path, value: Any, detail: str = "") -> Fault:
    return Fault(path, value, DUPLICATE, detail)


def not_found(path: Path, value: Any) -> Fault:
    return Fault(path, value, NOT_FOUND, "")


def unsupported(path: Path, value: Any, supported: Iterable[str]) -> Fault:
    """`supported` in the order of the message."""
    listed = ", ".join(json.dumps(s, ensure_ascii=False) for s in supported)
    return Fault(path, value, UNSUPPORTED, f"supported values: {listed}" if listed else "")


def too_many(path: Path, count: int, limit: int) -> Fault:
    return Fault(path, count, TOO_MANY, f"must have at most {limit} item{'' if limit == 1 else 's'}")


def too_long(path: Path, limit: int) -> Fault:
    return Fault(path, "", TOO_LONG, f"may not be more than {limit} byte{'' if limit == 1 else 's'}")


def immutable(path: Path, new: Any, old: Any) -> list[Fault]:
    """Source: apimachinery validation.ValidateImmutableField."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


def at_key(path: Path, key: str) -> Path:
    """`metadata.labels` → `metadata.labels[key]`."""
    return (*path, MapKey(key))


def aggregate(messages: Iterable[str]) -> str:
    """Several errors as one text: `[a, b]`, each said once. Source: utilerrors.Aggregate.Error."""
    once = list(dict.fromkeys(messages))
    return once[0] if len(once) == 1 else f"[{', '.join(once)}]"


@dataclass(frozen=True, slots=True)
class Refusal:
    """`webhook`: who refused, empty for the API server itself."""

    code: int
    reason: str
    message: str
    faults: tuple[Fault, ...] = ()
    webhook: str = ""

    def __str__(self) -> str:
        return self.message


def denied(webhook: str, faults: Sequence[Fault]) -> Refusal:
    """`admission webhook "vclusterqueue.kb.io" denied the request: …`."""
    why = aggregate(str(f) for f in faults)
    message = f'admission webhook "{webhook}" denied the request: {why}'
    return Refusal(403, "Forbidden", message, tuple(faults), webhook)
