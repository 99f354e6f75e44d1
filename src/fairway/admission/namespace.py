"""May anything be created in this namespace?

Source: apiserver plugin/namespace/lifecycle/admission.go (v1.36).
"""

from __future__ import annotations

from typing import Final

from fairway.admission.answers import forbidden as forbidden_request
from fairway.admission.request import CONNECT, CREATE, DELETE, AdmissionRequest, Denied, status_body
from fairway.admission.verdicts import Refused, forbidden
from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, namespace_of, status_of

PLUGIN: Final = "NamespaceLifecycle"

# Source: metav1.NamespaceDefault, NamespaceSystem, NamespacePublic.
IMMORTAL: Final = frozenset(("default", "kube-system", "kube-public"))


def refusal(view: View, obj: Obj) -> Refused | None:
    """Nothing enters a namespace that is going; a namespace nobody created takes anything.

    Unlike kube: there a namespace must exist. Here manifests may leave it out, as simulations mostly do.
    """
    name = namespace_of(obj)
    if not name:
        return None
    namespace = view.get(Key("Namespace", "", name))
    if namespace is None:
        return None
    phase = status_of(namespace).get("phase")
    if "deletionTimestamp" in namespace["metadata"] or phase == "Terminating":
        why = f"unable to create new content in namespace {name} because it is being terminated"
        return forbidden(obj, why, PLUGIN)
    return None


def refusal_of_request(view: View, request: AdmissionRequest) -> Denied | None:
    """NamespaceLifecycle at the API server: three namespaces stay, and others must be there and stay as well."""
    is_namespace = request.kind.kind == "Namespace" and not request.kind.group
    if is_namespace and request.operation == DELETE and request.name in IMMORTAL:
        return forbidden_request(request, PLUGIN, "this namespace may not be deleted")
    if is_namespace or not request.namespace or request.operation not in (CREATE, CONNECT):
        return None
    if request.resource.resource == "localsubjectaccessreviews":
        return None
    namespace = view.get(Key("Namespace", "", request.namespace))
    if namespace is None:
        details = {"name": request.namespace, "kind": "namespaces"}
        message = f'namespaces "{request.namespace}" not found'
        return Denied(PLUGIN, status_body(404, "NotFound", message, details))
    phase = status_of(namespace).get("phase")
    going = phase == "Terminating" or "deletionTimestamp" in namespace["metadata"]
    if not going or request.operation != CREATE:
        return None
    name = request.namespace
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {name} is being terminated",
        "field": "metadata.namespace",
    }
    why = f"unable to create new content in namespace {name} because it is being terminated"
    return forbidden_request(request, PLUGIN, why, causes=[cause])
