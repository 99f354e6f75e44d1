"""How a model's weights get to a container: fetched by an init container, from a claim, or out of an image.

Source: kserve v0.20 llmisvc/workload_storage.go, pkg/utils/storage.go.
"""

from __future__ import annotations

from typing import Any, Final

from fairway.workloads.kserve import storage

FETCHED: Final = ("hf", "s3")
_MODELCAR: Final = {
    "resources": {"requests": {"cpu": "10m", "memory": "15Mi"}, "limits": {"cpu": "10m", "memory": "15Mi"}}
}


def with_weights(
    pod: dict[str, Any], service: dict[str, Any], container: str = "main", path: str = storage.MOUNT
) -> dict[str, Any]:
    """The pod spec with the model at this path of a container. Raises: ValueError in the controller's words."""
    uri = str(service["model"].get("uri") or "")
    scheme, found, rest = uri.partition("://")
    if not found:
        raise ValueError(f"invalid model URI: {uri}")
    if (service.get("storageInitializer") or {}).get("enabled") is False:
        return pod
    init = [c for c in pod.get("initContainers") or () if c.get("name") != storage.NAME]
    if scheme == "pvc":
        claim, _, below = rest.partition("/")
        source = {"claimName": claim, "readOnly": True}
        mount = {"name": storage.CLAIM_VOLUME, "mountPath": path, "readOnly": True}
        mount |= {"subPath": below} if below else {}
        return _mounted(
            pod, container, {"name": storage.CLAIM_VOLUME, "persistentVolumeClaim": source}, mount, init
        )
    if scheme in FETCHED:
        fetching = storage.fetching(uri)
        volume = {"name": storage.VOLUME, "emptyDir": {}}
        return _mounted(
            pod,
            container,
            volume,
            {"name": storage.VOLUME, "mountPath": path, "readOnly": True},
            [*init, fetching],
        )
    if scheme == "oci":
        return _with_modelcar(pod, container, rest, path, init)
    raise ValueError(f"unsupported schema in model URI: {uri}")


def _mounted(
    pod: dict[str, Any],
    name: str,
    volume: dict[str, Any],
    mount: dict[str, Any],
    init: list[dict[str, Any]],
) -> dict[str, Any]:
    containers = [
        {**c, "volumeMounts": [*(c.get("volumeMounts") or ()), mount]} if c.get("name") == name else c
        for c in pod.get("containers") or ()
    ]
    made = {**pod, "containers": containers, "volumes": [*(pod.get("volumes") or ()), volume]}
    return {**made, "initContainers": init} if init else made


def _with_modelcar(
    pod: dict[str, Any], name: str, image: str, path: str, init: list[dict[str, Any]]
) -> dict[str, Any]:
    """The weights are an image's files: pulled by an init container, then linked to by a container beside."""
    parent = path.rpartition("/")[0]
    mount = {"name": "modelcar", "mountPath": parent, "readOnly": False}
    link = f"ln -sf /proc/$$$$/root/models {path} && sleep infinity"
    beside = {"name": "modelcar", "image": image, "args": ["sh", "-c", link], **_MODELCAR}
    before = {
        "name": "modelcar-init",
        "image": image,
        "args": ["sh", "-c", "echo 'Pre-fetching modelcar " + image + ": ' && [ -d /models ] && echo OK"],
        **_MODELCAR,
    }
    made = _mounted(pod, name, {"name": "modelcar", "emptyDir": {}}, mount, [*init, before])
    containers = [
        {**c, "env": [*(c.get("env") or ()), {"name": "MODEL_INIT_MODE", "value": "async"}]}
        if c.get("name") == name
        else c
        for c in made["containers"]
    ]
    return {
        **made,
        "containers": [*containers, {**beside, "volumeMounts": [mount]}],
        "shareProcessNamespace": True,
    }
