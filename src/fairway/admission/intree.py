"""The built-in plugins on one request, in order: what they change, what they refuse.

Source: pkg/kubeapiserver/options/plugins.go AllOrderedPlugins (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass

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
from fairway.admission.answers import forbidden, from_refused
from fairway.admission.request import CREATE, UPDATE, AdmissionRequest, Denied
from fairway.admission.verdicts import Refused
from fairway.cluster.actions import View
from fairway.kube.defaults import add_default_tolerations
from fairway.kube.objects import Obj, name_of


@dataclass(frozen=True, slots=True)
class Options:
    """Which plugins beyond those that always run.

    `mounts_tokens`: pods get their service account's token volume. `taints_new_nodes`: a node created by a client
    starts with the not-ready taint, which the node controller takes away. `tolerates_own_resources`:
    ExtendedResourceToleration, off in Kubernetes too.
    """

    mounts_tokens: bool = True
    taints_new_nodes: bool = True
    tolerates_own_resources: bool = False


def changed(view: View, request: AdmissionRequest, options: Options) -> Obj | Denied | None:
    """The object after the built-in plugins; None where the request carries none."""
    refusal = namespace.refusal_of_request(view, request)
    if refusal is not None:
        return refusal
    obj, resource = request.obj, request.resource.resource
    if obj is None or request.operation not in (CREATE, UPDATE):
        return obj
    if not request.resource.group and resource == "pods":
        return _changed_pod(view, request, obj, options)
    if request.operation != CREATE or request.subresource:
        return obj
    if not request.resource.group and resource == "nodes":
        return nodes.tainted_until_ready(obj) if options.taints_new_nodes else obj
    if not request.resource.group and resource in volumeprotection.FINALIZERS:
        obj = volumeprotection.guarded(obj, resource)
        is_claim = resource == "persistentvolumeclaims"
        return defaultclasses.claim_with_class(view, obj) if is_claim else obj
    if request.resource.group == "networking.k8s.io" and resource == "ingresses":
        return defaultclasses.ingress_with_class(view, obj)
    return obj


def _changed_pod(view: View, request: AdmissionRequest, pod: Obj, options: Options) -> Obj | Denied:
    if request.subresource:
        is_binding = request.subresource == "binding" and request.operation == CREATE
        return nodes.with_topology_labels(view, pod) if is_binding else pod
    if request.operation == UPDATE:
        return pod if pod.get("metadata", {}).get("deletionTimestamp") else add_default_tolerations(pod)
    pod = limitranger.defaulted(view, _placed(pod, request.namespace))
    if options.mounts_tokens:
        accounted = serviceaccount.accounted(view, pod, request.namespace)
        if isinstance(accounted, str):
            return forbidden(request, serviceaccount.PLUGIN, accounted)
        pod = accounted
    resolved = priority.resolved(view, pod)
    if isinstance(resolved, Refused):
        return from_refused(request, resolved)
    pod = add_default_tolerations(resolved)
    if options.tolerates_own_resources:
        pod = podtolerations.tolerating_own_resources(pod)
    classed = runtimeclass.resolved(view, pod)
    if isinstance(classed, str):
        return forbidden(request, runtimeclass.PLUGIN, classed)
    return nodes.with_topology_labels(view, classed)


def _placed(obj: Obj, namespace_name: str) -> Obj:
    """With its namespace filled in, which some bodies leave to the URL."""
    meta = obj.get("metadata") or {}
    if meta.get("namespace") or not namespace_name:
        return obj
    return {**obj, "metadata": {**meta, "namespace": namespace_name}}


def refused(view: View, request: AdmissionRequest) -> Denied | None:
    """LimitRanger and ServiceAccount: what comes before Pod Security."""
    obj, resource = request.obj, request.resource
    if obj is None or resource.group or request.subresource:
        return None
    if resource.resource == "pods" and request.operation == CREATE:
        refusal = limitranger.refusal(view, _placed(obj, request.namespace))
        if refusal is not None:
            return from_refused(request, refusal)
        wrong = serviceaccount.refusal(view, obj, request.namespace)
        return None if wrong is None else forbidden(request, serviceaccount.PLUGIN, wrong)
    if resource.resource == "persistentvolumeclaims" and request.operation in (CREATE, UPDATE):
        refusal = limitranger.refusal(view, _placed(obj, request.namespace))
        return None if refusal is None else from_refused(request, refusal)
    return None


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
