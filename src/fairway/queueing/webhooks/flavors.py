"""What does the webhook of ResourceFlavor refuse?

Source: pkg/webhooks/resourceflavor_webhook.go, workload_webhook.go validateTolerations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, spec_of
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault
from fairway.queueing.webhooks.settings import Settings


def resource_flavor_faults(flavor: Obj, _old: Obj | None, _settings: Settings) -> list[Fault]:
    spec = spec_of(flavor)
    return [
        *label_faults(spec.get("nodeLabels"), ("spec", "nodeLabels")),
        *_taint_faults(spec.get("nodeTaints") or (), ("spec", "nodeTaints")),
        *toleration_faults(spec.get("tolerations") or (), ("spec", "tolerations")),
    ]


def label_faults(labels: Mapping[str, Any] | None, path: Path) -> list[Fault]:
    """Source: metav1 validation.ValidateLabels."""
    out: list[Fault] = []
    for key, value in (labels or {}).items():
        out += f.invalids(path, key, names.label_key(key))
        out += f.invalids(path, value, names.label_value(value or ""))
    return out


def _taint_faults(taints: Sequence[Obj], path: Path) -> list[Fault]:
    out: list[Fault] = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        key, value = taint.get("key", ""), taint.get("value", "")
        out += f.invalids((*path, i, "key"), key, names.label_key(key))
        complaints = names.label_value(value)
        if complaints:
            out.append(f.invalid((*path, i, "value"), value, ";".join(complaints)))
        pair = (key, taint.get("effect", ""))
        if pair in seen:
            shown = {k: taint[k] for k in ("key", "value", "effect", "timeAdded") if taint.get(k)}
            out.append(f.duplicate((*path, i), shown, "taints must be unique by key and effect pair"))
        seen.add(pair)
    return out


def toleration_faults(tolerations: Sequence[Obj], path: Path) -> list[Fault]:
    return [
        fault
        for i, toleration in enumerate(tolerations)
        if toleration.get("key")
        for fault in f.invalids((*path, i, "key"), toleration["key"], names.label_key(toleration["key"]))
    ]
