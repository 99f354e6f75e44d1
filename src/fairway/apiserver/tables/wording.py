"""Phrases that several kinds' cells share: containers, labels, ages, the first few of a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairway.apiserver.tables.ages import since
from fairway.kube.labels import label_selector, set_selector
from fairway.kube.objects import Obj, meta_of

NONE = "<none>"
UNSET = "<unset>"
_EMPTY: dict[str, Any] = {}


def age(obj: Obj, now_us: int) -> str:
    return since(meta_of(obj).get("creationTimestamp"), now_us)


def name(obj: Obj) -> str:
    found: str = meta_of(obj).get("name", "")
    return found


def containers(pod_spec: Mapping[str, Any] | None) -> tuple[str, str]:
    """Names and images of the containers, each joined by commas."""
    listed = (pod_spec or _EMPTY).get("containers") or ()
    return ",".join(c.get("name", "") for c in listed), ",".join(c.get("image", "") for c in listed)


def template_spec(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod spec of a workload's template."""
    found: Mapping[str, Any] = (spec.get("template") or _EMPTY).get("spec") or _EMPTY
    return found


def labels_text(labels: Mapping[str, str] | None) -> str:
    return str(set_selector(labels)) or NONE


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Source: metav1.FormatLabelSelector."""
    return (str(label_selector(selector)) if selector is not None else "") or NONE


def condition_status(conditions: Iterable[Mapping[str, Any]] | None, kind: str) -> str:
    """`True`, `False`, `Unknown`, or empty where the condition is not there."""
    return next((c.get("status", "") for c in conditions or () if c.get("type") == kind), "")


def first_few(items: list[str], most: int, *, absent: str) -> str:
    """The first of many, and how many more: `a,b,c + 2 more...`."""
    shown = ",".join(items[:most])
    if len(items) > most:
        return f"{shown} + {len(items) - most} more..."
    return shown or absent


def yes_or_no(value: Any) -> str:
    return UNSET if value is None else "True" if value else "False"
