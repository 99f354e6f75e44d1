"""Which taints does a pod put up with?

Source: k8s.io/component-helpers/scheduling/corev1 (v1.36) Toleration.ToleratesTaint, including the Lt and Gt
operators of KEP-5471, which compare integers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
NOT_READY_TAINT: Final = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT: Final = "node.kubernetes.io/unreachable"

# An int64 as Kubernetes writes it: no sign but minus, no leading zeros, no underscores.
_DECIMAL: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


class Taint(NamedTuple):
    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """Empty `key` with `Exists` matches every taint; empty `effect` every effect. `seconds` None: for ever."""

    key: str
    operator: str
    value: str
    effect: str
    seconds: int | None

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        if self.operator == "Exists":
            return True
        return _compares(self.operator, self.value, taint.value)


def _compares(operator: str, wanted: str, actual: str) -> bool:
    if not _DECIMAL.fullmatch(wanted) or not _DECIMAL.fullmatch(actual):
        return False
    threshold, value = int(wanted), int(actual)
    return value < threshold if operator == "Lt" else value > threshold if operator == "Gt" else False


def parse_taints(raw: Iterable[dict[str, Any]] | None) -> tuple[Taint, ...]:
    return tuple(Taint(t.get("key") or "", t.get("value") or "", t.get("effect") or "") for t in raw or ())


def parse_tolerations(raw: Iterable[dict[str, Any]] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            t.get("key") or "",
            t.get("operator") or "Equal",
            t.get("value") or "",
            t.get("effect") or "",
            t.get("tolerationSeconds"),
        )
        for t in raw or ()
    )


def is_tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(t.tolerates(taint) for t in tolerations)


def first_untolerated(
    taints: Sequence[Taint], tolerations: Sequence[Toleration], effects: Sequence[str]
) -> Taint | None:
    """The first taint with one of these effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not is_tolerated(taint, tolerations):
            return taint
    return None
