"""What expressions of policies and webhooks may name: object, oldObject, request, params, namespaceObject, …

Source: apiserver pkg/admission/plugin/cel/compile.go, condition.go CreateAdmissionRequest (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.admission.cel import authorizing
from fairway.admission.cel.compiling import Variables
from fairway.admission.policies.matching import Match
from fairway.admission.request import AdmissionRequest, Gvk, Gvr
from fairway.kube.objects import Obj

_ALWAYS: Variables = (
    ("object", "dyn"),
    ("oldObject", "dyn"),
    ("request", "dyn"),
    ("namespaceObject", "dyn"),
)
_AUTHORIZER: Variables = (("authorizer", "dyn"), ("authorizer.requestResource", "dyn"))


def variables(*, has_params: bool, has_authorizer: bool) -> Variables:
    """The names an expression is compiled with."""
    names = _ALWAYS + ((("params", "dyn"),) if has_params else ())
    return names + (_AUTHORIZER if has_authorizer else ())


def bindings(
    request: AdmissionRequest, matched: Match, params: Obj | None, namespace: Obj | None
) -> dict[str, Any]:
    """Their values for one request."""
    resource = request.resource
    return {
        "object": request.obj,
        "oldObject": request.old,
        "request": request_value(request, matched),
        "namespaceObject": None if namespace is None else _namespace_value(namespace),
        "params": params,
        "authorizer": authorizing.authorizer_value(),
        "authorizer.requestResource": authorizing.resource_check(
            resource.group, resource.resource, request.subresource, request.namespace, request.name
        ),
    }


def request_value(request: AdmissionRequest, matched: Match) -> dict[str, Any]:
    """`request`: an AdmissionRequest without the objects."""
    return {
        "kind": gvk_value(matched.kind),
        "resource": gvr_value(matched.resource),
        "subResource": request.subresource,
        "requestKind": gvk_value(request.kind),
        "requestResource": gvr_value(request.resource),
        "requestSubResource": request.subresource,
        "name": request.name,
        "namespace": request.namespace,
        "operation": request.operation,
        "userInfo": {"username": "", "uid": "", "groups": [], "extra": {}, **request.user.info()},
        "dryRun": request.dry_run,
        "options": request.options or {},
    }


def gvk_value(kind: Gvk) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def gvr_value(resource: Gvr) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.resource}


def _namespace_value(namespace: Obj) -> dict[str, Any]:
    """A namespace without its managed fields."""
    meta = {k: v for k, v in namespace["metadata"].items() if k != "managedFields"}
    return {"metadata": meta, "spec": namespace.get("spec") or {}, "status": namespace.get("status") or {}}
