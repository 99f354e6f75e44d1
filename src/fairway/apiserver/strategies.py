"""What does the storage of a kind do to an object before it keeps it?

A DaemonSet counts the versions of its template: pods carry the number as a label, and clients from before revisions go
by it. A device's taint says since when it is there. What drivers said of a claim's devices goes with the devices.

Source: pkg/registry/apps/daemonset/strategy.go, pkg/apis/apps/v1/conversion.go, pkg/apis/resource/v1/defaults.go,
pkg/registry/resource/resourceclaim/strategy.go (v1.36).
"""

from __future__ import annotations

from fairway.kube.devicedefaults import with_taint_times
from fairway.kube.integers import natural
from fairway.kube.objects import Obj, annotations_of, gk_of, meta_of, spec_of, status_of

_DAEMON_SET = "DaemonSet.apps"
_CLAIM, _SLICE = "ResourceClaim.resource.k8s.io", "ResourceSlice.resource.k8s.io"
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def prepared(new: Obj, old: Obj | None, now: str) -> Obj:
    """`old` None: it is created. `now`: as API objects write times."""
    gk = gk_of(new)
    if gk == _SLICE:
        return with_taint_times(new, now)
    if gk == _CLAIM and old is not None and new.get("status"):
        from fairway.kube.validation.devices.statuses import without_deallocated

        return {**new, "status": without_deallocated(new["status"], status_of(old))}
    if gk != _DAEMON_SET:
        return new
    if old is None:
        return _counted(new, max(_count(new), 1))
    is_changed = spec_of(new).get("template") != spec_of(old).get("template")
    return _counted(new, _count(old) + is_changed)


def _count(obj: Obj) -> int:
    return natural(annotations_of(obj).get(TEMPLATE_GENERATION)) or 0


def _counted(obj: Obj, count: int) -> Obj:
    annotations = {**annotations_of(obj), TEMPLATE_GENERATION: str(count)}
    return {**obj, "metadata": {**meta_of(obj), "annotations": annotations}}
