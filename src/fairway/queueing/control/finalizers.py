"""What is in use stays: the finalizer of ClusterQueues, flavors, checks and topologies.

Source: pkg/controller/core/clusterqueue_controller.go, resourceflavor_controller.go,
admissioncheck_controller.go; pkg/controller/tas/topology_controller.go.
"""

from __future__ import annotations

from fairway.cluster.actions import Action, Patch
from fairway.kube.objects import Obj, key_of, meta_of
from fairway.queueing.integrations.construct import IN_USE_FINALIZER


def finalizer_actions(obj: Obj, *, is_in_use: bool) -> list[Action]:
    """Put it on while the object lives, take it off once it is going and nothing uses it."""
    meta = meta_of(obj)
    finalizers = meta.get("finalizers") or []
    has_it = IN_USE_FINALIZER in finalizers
    if "deletionTimestamp" not in meta:
        if has_it:
            return []
        return [Patch(key_of(obj), {"metadata": {"finalizers": [*finalizers, IN_USE_FINALIZER]}})]
    if not has_it or is_in_use:
        return []
    kept = [f for f in finalizers if f != IN_USE_FINALIZER]
    return [Patch(key_of(obj), {"metadata": {"finalizers": kept or None}})]
