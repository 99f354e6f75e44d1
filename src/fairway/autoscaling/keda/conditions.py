"""KEDA's conditions: four there from the beginning, a fifth once the autoscaler was observed. No times.

Source: apis/keda/v1alpha1/condition_types.go.
"""

from __future__ import annotations

from typing import Any, Final

READY_MESSAGE: Final = "ScaledObject is defined correctly and is ready for scaling"
Condition = dict[str, Any]


def initialized() -> list[Condition]:
    return [
        {"type": "Ready", "status": "Unknown"},
        {"type": "Active", "status": "Unknown"},
        {"type": "Fallback", "status": "Unknown"},
        {"type": "Paused", "status": "False"},
    ]


def put(conditions: list[Condition], kind: str, status: str, reason: str, message: str) -> list[Condition]:
    """With one condition set; at its place, or at the end."""
    new = {"type": kind, "status": status, "reason": reason, "message": message}
    if any(c["type"] == kind for c in conditions):
        return [new if c["type"] == kind else c for c in conditions]
    return [*conditions, new]


def status_of(conditions: list[Condition], kind: str) -> str:
    return next((str(c["status"]) for c in conditions if c["type"] == kind), "Unknown")
