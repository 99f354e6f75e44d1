"""What a rule needs besides its own value: the collected problems and facts of the pod around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairway.kube.objects import Obj
from fairway.kube.validation.problem import Problem


@dataclass(slots=True)
class PodFacts:
    """Facts of a pod spec that its parts are judged by."""

    volumes: dict[str, Obj] = field(default_factory=dict)
    claim_names: frozenset[str] = frozenset()
    grace_seconds: int | None = None
    os_name: str | None = None
    restart_policy: str = "Always"
    host_users: bool = True
    is_pod: bool = True


@dataclass(slots=True)
class Context:
    """One object's validation: `out` grows, `pod` is set while inside a pod spec."""

    obj: Obj
    out: list[Problem]
    pod: PodFacts = field(default_factory=PodFacts)


def mapping(value: Any) -> dict[str, Any]:
    """The mapping, or an empty one for null."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """The list, or an empty one for null."""
    return value if isinstance(value, list) else []
