"""What KServe's webhook adds to a pod so that its model is there: an init container that fetches it, or a claim.

How long fetching takes: the init container's `fairway.dev/run-time.storage-initializer`, or what a store gives.

Source: pkg/webhook/admission/pod/storage_initializer_injector.go.
"""

from __future__ import annotations

from typing import Any, Final

from fairway.kube.objects import Obj, annotations_of, spec_of

SOURCE: Final = "internal.serving.kserve.io/storage-initializer-sourceuri"
READ_ONLY: Final = "storage.kserve.io/readonly"
NAME: Final = "storage-initializer"
MOUNT: Final = "/mnt/models"
VOLUME: Final = "kserve-provision-location"
CLAIM_VOLUME: Final = "kserve-pvc-source"
_IMAGE: Final = "kserve/storage-initializer:v0.20.0"
_RESOURCES: Final = {
    "requests": {"cpu": "100m", "memory": "100Mi"},
    "limits": {"cpu": "1", "memory": "1Gi"},
}
_SERVERS: Final = ("kserve-container", "worker-container", "transformer-container")


def with_model(pod: Obj) -> Obj:
    """The pod as it goes in; itself where its model comes otherwise."""
    source = annotations_of(pod).get(SOURCE, "")
    spec = spec_of(pod)
    init = spec.get("initContainers") or []
    if not source or source.startswith("oci") or any(c.get("name") == NAME for c in init):
        return pod
    read_only = annotations_of(pod).get(READ_ONLY) != "false"
    volume: dict[str, Any] = {"name": VOLUME, "emptyDir": {}}
    mount: dict[str, Any] = {"name": VOLUME, "mountPath": MOUNT, "readOnly": read_only}
    if source.startswith("pvc://"):
        claim, _, path = source.removeprefix("pvc://").partition("/")
        volume = {"name": CLAIM_VOLUME, "persistentVolumeClaim": {"claimName": claim, "readOnly": False}}
        mount = {"name": CLAIM_VOLUME, "mountPath": MOUNT, "readOnly": read_only}
        if path:
            mount["subPath"] = path
    else:
        init = [*init, fetching(source)]
    containers = [
        {**c, "volumeMounts": [*(c.get("volumeMounts") or ()), mount]} if c.get("name") in _SERVERS else c
        for c in spec.get("containers") or ()
    ]
    changed = {**spec, "containers": containers, "volumes": [*(spec.get("volumes") or ()), volume]}
    return {**pod, "spec": {**changed, "initContainers": init} if init else changed}


def fetching(source: str) -> dict[str, Any]:
    """The init container that copies a model from an object store."""
    return {
        "name": NAME,
        "image": _IMAGE,
        "args": [source, MOUNT],
        "resources": _RESOURCES,
        "volumeMounts": [{"name": VOLUME, "mountPath": MOUNT}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
