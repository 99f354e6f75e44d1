"""What a new pod gets: the requests an autoscaler recommends, and limits in the same proportion.

Source: pkg/admission-controller/resource/pod/patch/resource_updates.go, pkg/utils/vpa/limit_and_request_scaling.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from fairway.autoscaling.vpa.policies import OFF, container_policy, is_scaled, mode
from fairway.kube.kinds import group_kind
from fairway.kube.labels import Selector, label_selector
from fairway.kube.objects import Key, Obj, labels_of
from fairway.kube.quantity import format_milli, milli_ceil

GK: Final = "VerticalPodAutoscaler.autoscaling.k8s.io"
_UPDATES: Final = "vpaUpdates"
_OBSERVED: Final = "vpaObservedContainers"


class Objects(Protocol):
    def get(self, key: Key) -> Obj | None: ...
    def objects(self, gk: str, namespace: str | None = None) -> list[Obj]: ...


def target_key(autoscaler: Obj) -> Key:
    ref = autoscaler["spec"]["targetRef"]
    gk = group_kind(ref.get("apiVersion") or "", ref["kind"])
    return Key(gk, autoscaler["metadata"]["namespace"], ref["name"])


def selector_of(view: Objects, autoscaler: Obj) -> Selector | None:
    """Of its target's pods; None where there is no such target."""
    if not (autoscaler.get("spec") or {}).get("targetRef"):
        return None
    target = view.get(target_key(autoscaler))
    raw = ((target or {}).get("spec") or {}).get("selector")
    return None if raw is None else label_selector(raw)


def entered(view: Objects, pod: Obj) -> Obj:
    """The pod as it goes in."""
    namespace = pod["metadata"].get("namespace") or "default"
    for autoscaler in view.objects(GK, namespace):
        given = ((autoscaler.get("status") or {}).get("recommendation") or {}).get("containerRecommendations")
        if not given or mode(autoscaler) == OFF:
            continue
        selector = selector_of(view, autoscaler)
        if selector is not None and selector.matches(labels_of(pod)):
            return _resized(autoscaler, pod, {r["containerName"]: r["target"] for r in given})
    return pod


def in_place(autoscaler: Obj, pod: Obj, targets: Mapping[str, Mapping[str, str]]) -> list[Obj]:
    """The pod's containers as its `resize` subresource is to have them."""
    containers: list[Obj] = _resized(autoscaler, pod, targets)["spec"]["containers"]
    return containers


def _resized(autoscaler: Obj, pod: Obj, targets: Mapping[str, Mapping[str, str]]) -> Obj:
    containers, said = [], []
    for number, container in enumerate(pod["spec"]["containers"]):
        target = targets.get(container["name"])
        if target is None or not is_scaled(autoscaler, container["name"]):
            containers.append(container)
            continue
        controls_limits = (
            container_policy(autoscaler, container["name"]).get("controlledValues") != "RequestsOnly"
        )
        containers.append(
            {**container, "resources": resized(container.get("resources") or {}, target, controls_limits)}
        )
        said.append(f"container {number}: " + ", ".join(f"{name} request" for name in target))
    if not said:
        return pod
    meta = pod["metadata"]
    name = autoscaler["metadata"]["name"]
    annotations = {
        **(meta.get("annotations") or {}),
        _UPDATES: f"Pod resources updated by {name}: " + "; ".join(said),
        _OBSERVED: ", ".join(c["name"] for c in pod["spec"]["containers"]),
    }
    return {
        **pod,
        "metadata": {**meta, "annotations": annotations},
        "spec": {**pod["spec"], "containers": containers},
    }


def resized(resources: Mapping[str, Any], target: Mapping[str, str], controls_limits: bool) -> dict[str, Any]:
    """New requests; limits keep their proportion to the requests they had."""
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    for name, amount in target.items():
        before = requests.get(name, limits.get(name))
        if controls_limits and name in limits and before is not None and milli_ceil(before):
            scaled = milli_ceil(amount) * milli_ceil(limits[name]) // milli_ceil(before)
            limits[name] = format_milli(scaled)
        requests[name] = amount
    found = {**resources, "requests": requests}
    return {**found, "limits": limits} if limits else found
