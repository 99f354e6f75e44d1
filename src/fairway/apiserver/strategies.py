"""What does the storage of a kind do to an object before it keeps it?

A DaemonSet counts the versions of its template: pods carry the number as a label, and clients from before revisions go
by it.

Source: pkg/registry/apps/daemonset/strategy.go, pkg/apis/apps/v1/conversion.go (v1.36).
"""

from __future__ import annotations

from fairway.kube.objects import Obj, annotations_of, gk_of, meta_of, spec_of

_DAEMON_SET = "DaemonSet.apps"
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def prepared(new: Obj, old: Obj | None) -> Obj:
    """`old` None: it is created."""
    if gk_of(new) != _DAEMON_SET:
        return new
    if old is None:
        return _counted(new, max(_count(new), 1))
    is_changed = spec_of(new).get("template") != spec_of(old).get("template")
    return _counted(new, _count(old) + is_changed)


def _count(obj: Obj) -> int:
    text = annotations_of(obj).get(TEMPLATE_GENERATION, "")
    return int(text) if text.isdigit() else 0


def _counted(obj: Obj, count: int) -> Obj:
    annotations = {**annotations_of(obj), TEMPLATE_GENERATION: str(count)}
    return {**obj, "metadata": {**meta_of(obj), "annotations": annotations}}
