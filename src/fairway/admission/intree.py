"""The built-in plugins on one request, in order: what they change, what they refuse.

Source: pkg/kubeapiserver/options/plugins.go AllOrderedPlugins (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fairway.admission import (
    defaultclasses,
    limitranger,
    namespace,
    nodes,
    podtolerations,
    priority,
    runtimeclass,
    serviceaccount,
    volumeprotection,
)
from fairway.admission.answers import forbidden
from fairway.admission.request import CREATE, UPDATE, AdmissionRequest, Denied
from fairway.cluster.actions import View
from fairway.kube.defaults import add_default_tolerations
from fairway.kube.objects import Obj, name_of


@dataclass(frozen=True, slots=True)
class Options:
    """Which plugins beyond those that always run.

    `is_served`: clients read this cluster. Then pods get their service account's token volume and nodes created by a
    client start with the not-ready taint (which the node controller takes away); otherwise a pod gets its token
    volume only where a policy or a webhook could see it, and namespaces that nobody describes are there.
    `tolerates_own_resources`: ExtendedResourceToleration, off in Kubernetes too.
    """

    is_served: bool = True
    tolerates_own_resources: bool = False


class Wrong(NamedTuple):
    """`why` is the text after `is forbidden: `."""

    plugin: str
    why: str


def changed(
    view: View, request: AdmissionRequest, options: Options, *, mounts_token: bool = True
) -> Obj | Denied | None:
    """The object after the built-in plugins; None where the request carries none."""
    refusal = namespace.refusal(view, request, is_served=options.is_served)
    if refusal is not None:
        return refusal
    obj, resource = request.obj, request.resource.resource
    if obj is None or request.operation not in (CREATE, UPDATE):
        return obj
    if not request.resource.group and resource == "pods":
        return _changed_pod(view, request, obj, options, mounts_token)
    if request.operation != CREATE or request.subresource:
        return obj
    if not request.resource.group and resource == "nodes":
        return nodes.tainted_until_ready(obj) if options.is_served else obj
    if not request.resource.group and resource in volumeprotection.FINALIZERS:
        obj = volumeprotection.guarded(obj, resource)
        is_claim = resource == "persistentvolumeclaims"
        return defaultclasses.claim_with_class(view, obj) if is_claim else obj
    if request.resource.group == "networking.k8s.io" and resource == "ingresses":
        return defaultclasses.ingress_with_class(view, obj)
    return obj


def _changed_pod(
    view: View, request: AdmissionRequest, pod: Obj, options: Options, mounts_token: bool
) -> Obj | Denied:
    if request.subresource:
        is_binding = request.subresource == "binding" and request.operation == CREATE
        return nodes.with_topology_labels(view, pod) if is_binding else pod
    if request.operation == UPDATE:
        return pod if pod.get("metadata", {}).get("deletionTimestamp") else add_default_tolerations(pod)
    pod = _placed(pod, request.namespace)
    entered = new_pod(view, pod, request.namespace, options, mounts_token=mounts_token)
    return (
        forbidden(request, *entered)
        if isinstance(entered, Wrong)
        else nodes.with_topology_labels(view, entered)
    )


def new_pod(
    view: View, pod: Obj, namespace_name: str, options: Options, *, mounts_token: bool
) -> Obj | Wrong:
    """A new pod after the plugins that change its spec."""
    accounted = serviceaccount.accounted(
        view, limitranger.defaulted(view, pod), namespace_name, mounts_token=mounts_token
    )
    if isinstance(accounted, str):
        return Wrong(serviceaccount.PLUGIN, accounted)
    resolved = priority.resolved(view, accounted)
    if isinstance(resolved, str):
        return Wrong(priority.PLUGIN, resolved)
    pod = add_default_tolerations(resolved)
    if options.tolerates_own_resources:
        pod = podtolerations.tolerating_own_resources(pod)
    classed = runtimeclass.resolved(view, pod)
    return Wrong(runtimeclass.PLUGIN, classed) if isinstance(classed, str) else classed


def _placed(obj: Obj, namespace_name: str) -> Obj:
    """With its namespace filled in, which some bodies leave to the URL."""
    meta = obj.get("metadata") or {}
    if meta.get("namespace") or not namespace_name:
        return obj
    return {**obj, "metadata": {**meta, "namespace": namespace_name}}


def refused(view: View, request: AdmissionRequest) -> Denied | None:
    """LimitRanger and ServiceAccount: what comes before Pod Security."""
    obj, resource = request.obj, request.resource
    is_resize = (resource.resource, request.subresource) == ("pods", "resize")
    if obj is None or resource.group or (request.subresource and not is_resize):
        return None
    is_pod = resource.resource == "pods" and request.operation == CREATE
    is_claim = resource.resource == "persistentvolumeclaims" and request.operation in (CREATE, UPDATE)
    if not is_pod and not is_claim and not is_resize:
        return None
    wrong = limitranger.refusal(view, _placed(obj, request.namespace))
    if wrong is not None:
        return forbidden(request, limitranger.PLUGIN, wrong)
    wrong = serviceaccount.refusal(view, obj, request.namespace) if is_pod else None
    return None if wrong is None else forbidden(request, serviceaccount.PLUGIN, wrong)


def refused_late(view: View, request: AdmissionRequest) -> Denied | None:
    """Priority and RuntimeClass: what comes after Pod Security."""
    obj, resource = request.obj, request.resource
    if obj is None or request.subresource:
        return None
    if (resource.group, resource.resource) == ("", "pods") and request.operation == CREATE:
        wrong = runtimeclass.refusal(view, obj)
        return None if wrong is None else forbidden(request, runtimeclass.PLUGIN, wrong)
    if (resource.group, resource.resource) == ("scheduling.k8s.io", "priorityclasses"):
        wrong = _second_default(view, request, obj)
        return None if wrong is None else forbidden(request, priority.PLUGIN, wrong)
    return None


def _second_default(view: View, request: AdmissionRequest, priority_class: Obj) -> str | None:
    if not priority_class.get("globalDefault") or request.operation not in (CREATE, UPDATE):
        return None
    for other in view.objects(priority.PRIORITY_CLASS):
        if other.get("globalDefault") and name_of(other) != name_of(priority_class):
            return f"PriorityClass {name_of(other)} is already marked as default. Only one default can exist"
    return None
