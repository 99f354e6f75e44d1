"""Walking the containers of a pod, and saying which of them are at fault.

Source: pod-security-admission policy/visitor.go, policy/helpers.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

Spec = dict[str, Any]

_NOTHING: dict[str, Any] = {}


class Violation(NamedTuple):
    """Printed as `reason (detail)`."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


def containers_of(spec: Spec) -> list[Spec]:
    """Init containers, containers, ephemeral containers."""
    return [
        *(spec.get("initContainers") or ()),
        *(spec.get("containers") or ()),
        *(spec.get("ephemeralContainers") or ()),
    ]


def security(holder: Spec) -> dict[str, Any]:
    return holder.get("securityContext") or _NOTHING


def quote(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def named(names: list[str]) -> str:
    """`container "a"`, `containers "a", "b"`."""
    return f"{plural('container', len(names))} {quote(names)}"


def setters(pod_is_bad: bool, names: list[str]) -> str:
    """`pod and container "a"`."""
    return " and ".join([*(["pod"] if pod_is_bad else []), *([named(names)] if names else [])])


def is_windows(spec: Spec) -> bool:
    return (spec.get("os") or _NOTHING).get("name") == "windows"


def has_own_user_namespace(spec: Spec) -> bool:
    return spec.get("hostUsers") is False
