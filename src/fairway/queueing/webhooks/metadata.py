"""What is wrong with annotations, and with a label or annotation that must name an object?

Source: apimachinery pkg/api/validation ValidateAnnotations; pkg/controller/jobframework/validation.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, annotations_of, labels_of
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault

LABELS: Path = ("metadata", "labels")
ANNOTATIONS: Path = ("metadata", "annotations")
# Source: TotalAnnotationSizeLimitB.
_ANNOTATION_BYTES = 256 * 1024


def annotation_faults(annotations: Mapping[str, Any] | None, path: Path) -> list[Fault]:
    annotations = annotations or {}
    out = [fault for key in annotations for fault in f.invalids(path, key, names.label_key(key.lower()))]
    total = sum(len(k.encode()) + len(str(v or "").encode()) for k, v in annotations.items())
    if total > _ANNOTATION_BYTES:
        out.append(f.too_long(path, _ANNOTATION_BYTES))
    return out


def named_object_faults(obj: Obj, key: str, *, in_annotation: bool = False) -> list[Fault]:
    """The value of a label or annotation, where there is one, must be an object's name."""
    values, at = (annotations_of(obj), ANNOTATIONS) if in_annotation else (labels_of(obj), LABELS)
    complaints = names.dns_subdomain(values[key]) if key in values else ()
    return [f.invalid(f.at_key(at, key), values[key], ",".join(complaints))] if complaints else []
