"""May anything be created in this namespace?

Source: apiserver plugin/namespace/lifecycle/admission.go (v1.36).
"""

from __future__ import annotations

from typing import Final

from fairway.admission.answers import forbidden
from fairway.admission.request import CONNECT, CREATE, DELETE, AdmissionRequest, Denied, status_body
from fairway.cluster.actions import View
from fairway.cluster.errors import NAMESPACE_TERMINATING
from fairway.kube.objects import Key, Obj, status_of

PLUGIN: Final = "NamespaceLifecycle"

# Source: metav1.NamespaceDefault, NamespaceSystem, NamespacePublic.
IMMORTAL: Final = frozenset(("default", "kube-system", "kube-public"))


def is_going(namespace: Obj) -> bool:
    return status_of(namespace).get("phase") == "Terminating" or "deletionTimestamp" in namespace["metadata"]


def refusal(view: View, request: AdmissionRequest, *, is_served: bool = True) -> Denied | None:
    """Three namespaces stay; others must be there, and stay as well.

    Unlike kube: where nobody is served (`is_served` False), a namespace that no manifest describes is there.
    """
    is_namespace = request.kind.kind == "Namespace" and not request.kind.group
    if is_namespace and request.operation == DELETE and request.name in IMMORTAL:
        return forbidden(request, PLUGIN, "this namespace may not be deleted")
    if is_namespace or not request.namespace or request.operation not in (CREATE, CONNECT):
        return None
    if request.resource.resource == "localsubjectaccessreviews":
        return None
    namespace = view.get(Key("Namespace", "", request.namespace))
    if namespace is None:
        if not is_served:
            return None
        details = {"name": request.namespace, "kind": "namespaces"}
        message = f'namespaces "{request.namespace}" not found'
        return Denied(PLUGIN, status_body(404, "NotFound", message, details))
    if not is_going(namespace) or request.operation != CREATE:
        return None
    name = request.namespace
    cause = {
        "reason": NAMESPACE_TERMINATING,
        "message": f"namespace {name} is being terminated",
        "field": "metadata.namespace",
    }
    why = f"unable to create new content in namespace {name} because it is being terminated"
    return forbidden(request, PLUGIN, why, causes=[cause])
