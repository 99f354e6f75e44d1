"""Which ServingRuntime serves a model: the one it names, or the first that says it takes the format by itself.

Those of the namespace come before those of the cluster; within each the highest priority for the format first, then
the lowest protocol version, the newest, the name. Where nobody defined ClusterServingRuntimes, there are those that
KServe's installation brings.

Source: pkg/apis/serving/v1beta1/predictor_model.go; config/runtimes (data/runtimes.json, made by tools/importing).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from fairway.cluster.actions import View
from fairway.kube.objects import Obj, annotations_of, name_of, spec_of

RUNTIME: Final = "ServingRuntime.serving.kserve.io"
CLUSTER_RUNTIME: Final = "ClusterServingRuntime.serving.kserve.io"
SERVER_TYPE: Final = "serving.kserve.io/server-type"
_PROTOCOLS: Final = {"": 0, "v1": 1, "v2": 2, "grpc-v1": 3, "grpc-v2": 4}


@dataclass(frozen=True, slots=True)
class Runtime:
    """`server`: what kind of server it is, where known."""

    name: str
    is_of_cluster: bool
    spec: dict[str, Any]
    server: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Why there is none: status.modelStatus.lastFailureInfo, and the controller's error."""

    reason: str
    message: str
    error: str


def chosen(view: View, model: dict[str, Any], namespace: str, *, is_multi_node: bool) -> Runtime | Refused:
    """O(runtimes)."""
    local = view.objects(RUNTIME, namespace)
    cluster = [*_shipped_beside(view.objects(CLUSTER_RUNTIME))]
    named = model.get("runtime")
    if named:
        return _named(named, local, cluster, model)
    for of_cluster, there in ((False, local), (True, cluster)):
        fitting = [obj for obj in sorted(there, key=_age) if _takes_by_itself(obj, model, is_multi_node)]
        fitting.sort(key=lambda obj: -_priority(obj, model))
        if fitting:
            return _runtime(fitting[0], of_cluster)
    return Refused(
        "NoSupportingRuntime",
        "No runtime found to support specified framework/version",
        f"no runtime found to support predictor with model type: {_format_text(model)}",
    )


def _shipped_beside(defined: list[Obj]) -> list[Obj]:
    known = {name_of(obj) for obj in defined}
    return [*defined, *(obj for obj in shipped() if obj["metadata"]["name"] not in known)]


@cache
def shipped() -> tuple[Obj, ...]:
    """Those of KServe's installation."""
    text = (files(__package__) / "data" / "runtimes.json").read_text(encoding="utf-8")
    return tuple(json.loads(text)["runtimes"])


def _named(name: str, local: list[Obj], cluster: list[Obj], model: dict[str, Any]) -> Runtime | Refused:
    for of_cluster, there in ((False, local), (True, cluster)):
        for obj in there:
            if name_of(obj) == name:
                return _checked(obj, of_cluster, model)
    return Refused(
        "RuntimeNotRecognized",
        "Waiting for runtime to become available",
        f"No ServingRuntimes or ClusterServingRuntimes with the name: {name}",
    )


def _checked(obj: Obj, of_cluster: bool, model: dict[str, Any]) -> Runtime | Refused:
    name, spec = name_of(obj), spec_of(obj)
    if spec.get("disabled"):
        return Refused(
            "RuntimeDisabled", "Specified runtime is disabled", f"specified runtime {name} is disabled"
        )
    protocol = model.get("protocolVersion")
    if protocol and not _speaks(spec, protocol):
        said = "Specified runtime does not support specified protocol version"
        return Refused("NoSupportingRuntime", said, f"specified runtime {name} {said[18:]}")
    if not _has_format(spec, model, only_by_itself=False):
        said = "Specified runtime does not support specified framework/version"
        return Refused("NoSupportingRuntime", said, f"specified runtime {name} {said[18:]}")
    return _runtime(obj, of_cluster)


def _runtime(obj: Obj, of_cluster: bool) -> Runtime:
    name = name_of(obj)
    server = annotations_of(obj).get(SERVER_TYPE) or name.removeprefix("kserve-")
    return Runtime(name, of_cluster, spec_of(obj), server)


def _takes_by_itself(obj: Obj, model: dict[str, Any], is_multi_node: bool) -> bool:
    spec = spec_of(obj)
    return (
        not spec.get("disabled")
        and not spec.get("multiModel")
        and bool(spec.get("workerSpec")) == is_multi_node
        and _has_format(spec, model, only_by_itself=True)
        and _speaks(spec, model.get("protocolVersion") or "v1")
    )


def _has_format(spec: dict[str, Any], model: dict[str, Any], *, only_by_itself: bool) -> bool:
    wanted = model.get("modelFormat") or {}
    for known in spec.get("supportedModelFormats") or ():
        if only_by_itself and not known.get("autoSelect"):
            continue
        if known.get("name") == wanted.get("name") and wanted.get("version") in (None, known.get("version")):
            return True
    return False


def _speaks(spec: dict[str, Any], protocol: str) -> bool:
    known = spec.get("protocolVersions") or ()
    return not known or not protocol or protocol in known


def _priority(obj: Obj, model: dict[str, Any]) -> int:
    name = (model.get("modelFormat") or {}).get("name")
    for known in spec_of(obj).get("supportedModelFormats") or ():
        if known.get("name") == name:
            return int(known.get("priority") or 0)
    return 0


def _age(obj: Obj) -> tuple[int, tuple[int, ...], str]:
    protocols = [_PROTOCOLS.get(p, 0) for p in spec_of(obj).get("protocolVersions") or ("",)]
    newest_first = tuple(-ord(c) for c in obj["metadata"].get("creationTimestamp") or "")
    return min(protocols), newest_first, name_of(obj)


def _format_text(model: dict[str, Any]) -> str:
    found = model.get("modelFormat") or {}
    return f"{{{found.get('name', '')} {found.get('version') or '<nil>'}}}"
