"""A component's pod: the runtime's container under the predictor's wishes, or the transformer's own.

Source: inferenceservice/utils/utils.go (MergeRuntimeContainers, ReplacePlaceholders, UpdateImageTag),
components/transformer.go, transformer_custom.go, inference_service_defaults.go.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fairway.kube.objects import Obj, annotations_of, labels_of
from fairway.workloads.kserve.runtimes import Runtime

CONTAINER: Final = "kserve-container"
# What a list's items are told apart by, in a strategic merge patch of a container.
_KEYS: Final = {
    "env": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "volumeDevices": "devicePath",
}
_NOT_POD: Final = frozenset(
    [
        "model",
        "annotations",
        "labels",
        "name",
        "minReplicas",
        "maxReplicas",
        "scaleTarget",
        "scaleMetric",
        "scaleMetricType",
        "autoScaling",
        "containerConcurrency",
        "timeout",
        "canaryTrafficPercent",
        "logger",
        "batcher",
        "deploymentStrategy",
        "storageUris",
        "workerSpec",
        "storageContainerName",
        "confidential",
    ]
)
# Frameworks that v1beta1 still has beside `model`.
FRAMEWORKS: Final = {
    "sklearn": "sklearn",
    "xgboost": "xgboost",
    "tensorflow": "tensorflow",
    "pytorch": "pytorch",
    "triton": "triton",
    "onnx": "onnx",
    "huggingface": "huggingface",
    "pmml": "pmml",
    "lightgbm": "lightgbm",
    "paddle": "paddle",
}


def model_of(predictor: dict[str, Any]) -> dict[str, Any] | None:
    """The model to serve, also where it is said the old way (`sklearn: {…}`); None: containers of its own."""
    if predictor.get("model"):
        return dict(predictor["model"])
    for field, name in FRAMEWORKS.items():
        if predictor.get(field):
            return {"modelFormat": {"name": name}, **predictor[field]}
    return None


def predictor_pod(
    isvc: Obj, predictor: dict[str, Any], model: dict[str, Any], runtime: Runtime
) -> dict[str, Any]:
    """A pod spec. Raises: ValueError in the controller's words."""
    containers = list(runtime.spec.get("containers") or ())
    if not containers:
        raise ValueError("no container configuration found in selected serving runtime")
    index = next((i for i, c in enumerate(containers) if c.get("name") == CONTAINER), None)
    if index is None:
        raise ValueError(f"failed to find {CONTAINER} in ServingRuntime containers")
    wishes = {k: v for k, v in model.items() if k not in _OF_MODEL}
    main = merged(containers[index], wishes)
    main["name"] = CONTAINER
    main = _with_image(_filled(main, isvc), model, runtime)
    main["env"] = [
        *main.get("env", ()),
        {"name": "INFERENCE_SERVICE_NAME", "value": isvc["metadata"]["name"]},
    ]
    own = list(predictor.get("containers") or ())
    others = [c for i, c in enumerate(containers) if i != index]
    spec = {k: v for k, v in runtime.spec.items() if k in _POD_OF_RUNTIME}
    spec |= {k: v for k, v in predictor.items() if k not in _NOT_POD and k not in FRAMEWORKS}
    spec["containers"] = [main, *others, *own]
    return spec


_OF_MODEL: Final = frozenset(
    ("modelFormat", "runtime", "protocolVersion", "runtimeVersion", "storageUri", "storage")
)
_POD_OF_RUNTIME: Final = frozenset(
    ("volumes", "nodeSelector", "affinity", "tolerations", "imagePullSecrets", "hostIPC", "initContainers")
)


def own_pod(isvc: Obj, component: dict[str, Any]) -> dict[str, Any]:
    """Of a predictor that brings its containers. Raises: ValueError: it has none."""
    if not component.get("containers"):
        raise ValueError("no container is specified")
    spec = {k: v for k, v in component.items() if k not in _NOT_POD}
    first = dict(spec["containers"][0])
    first.setdefault("name", CONTAINER)
    first["env"] = [
        *first.get("env", ()),
        {"name": "INFERENCE_SERVICE_NAME", "value": isvc["metadata"]["name"]},
    ]
    return {**spec, "containers": [first, *spec["containers"][1:]]}


def transformer_pod(isvc: Obj, transformer: dict[str, Any], predictor_name: str) -> dict[str, Any]:
    """The transformer's container, told where the predictor is."""
    spec = own_pod(isvc, transformer)
    first = dict(spec["containers"][0])
    args = list(first.get("args") or ())
    meta = isvc["metadata"]
    for flag, value in (
        ("--model_name", meta["name"]),
        ("--predictor_host", f"{predictor_name}.{meta['namespace']}"),
        ("--http_port", "8080"),
    ):
        if not any(str(arg).startswith(flag) for arg in args):
            args += [flag, value]
    return {**spec, "containers": [{**first, "args": args}, *spec["containers"][1:]]}


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """A strategic merge of two containers, with the arguments of both."""
    found = dict(base)
    for name, value in over.items():
        here = base.get(name)
        if name == "args":
            found[name] = [*(here or ()), *value]
        elif name in _KEYS and here:
            key = _KEYS[name]
            items = {item.get(key): item for item in here}
            items.update({item.get(key): {**items.get(item.get(key), {}), **item} for item in value})
            found[name] = list(items.values())
        elif isinstance(value, dict) and isinstance(here, dict):
            found[name] = merged(here, value)
        else:
            found[name] = value
    return found


def _filled(value: Any, isvc: Obj) -> Any:
    """With `{{.Name}}`, `{{.Labels.x}}` and the like replaced."""
    if isinstance(value, dict):
        return {k: _filled(v, isvc) for k, v in value.items()}
    if isinstance(value, list):
        return [_filled(v, isvc) for v in value]
    if not isinstance(value, str) or "{{" not in value:
        return value
    meta = isvc["metadata"]
    known = {
        "Name": meta["name"],
        "Namespace": meta["namespace"],
        **{f"Labels.{k}": v for k, v in labels_of(isvc).items()},
        **{f"Annotations.{k}": v for k, v in annotations_of(isvc).items()},
    }
    known.setdefault("Labels.serviceEnvelope", "kserve")
    return re.sub(r"\{\{\s*\.([\w.]+)\s*\}\}", lambda m: known.get(m[1], "<no value>"), value)


def _with_image(container: dict[str, Any], model: dict[str, Any], runtime: Runtime) -> dict[str, Any]:
    image = container.get("image", "")
    if "@sha256:" in image:
        return container
    tag = re.search(r":[\w.\-]*$", image)
    if model.get("runtimeVersion"):
        return {**container, "image": f"{image[: tag.start()] if tag else image}:{model['runtimeVersion']}"}
    if not tag:
        return container
    resources = container.get("resources") or {}
    has_gpu = any("gpu" in name for part in resources.values() if isinstance(part, dict) for name in part)
    if has_gpu and runtime.server in ("tensorflow-serving", "torchserve", "huggingfaceserver"):
        return container if image.endswith("-gpu") else {**container, "image": f"{image}-gpu"}
    if not has_gpu and runtime.server == "vllmserver" and not image[: tag.start()].endswith("-cpu"):
        return {**container, "image": f"{image[: tag.start()]}-cpu{tag[0]}"}
    return container
