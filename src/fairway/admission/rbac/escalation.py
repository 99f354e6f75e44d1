"""Nobody gives away what they do not have: writes of roles and bindings.

Whoever may `escalate` roles, `bind` a role, or is in system:masters, is not asked.

Source: pkg/registry/rbac/escalation_check.go, {role,clusterrole,rolebinding,clusterrolebinding}/policybased (v1.36).
"""

from __future__ import annotations

from fairway.admission.rbac.attributes import RBAC_GROUP, Attributes, quoted
from fairway.admission.rbac.authorizer import Authorizer
from fairway.admission.rbac.rules import ALL, Rule, described, parse_rules, quoted_list, uncovered
from fairway.admission.request import SYSTEM_MASTERS, UPDATE, AdmissionRequest, Denied, User, status_body
from fairway.kube.objects import Obj, meta_of

_FULL_AUTHORITY = (Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), urls=(ALL,)))
_COLLECTORS = ("ownerReferences", "finalizers", "selfLink", "managedFields")
_ROLES = ("roles", "clusterroles")
_BINDINGS = ("rolebindings", "clusterrolebindings")


def refusal(authorizer: Authorizer, request: AdmissionRequest) -> Denied | None:
    """Whether a create or update of a role or binding hands out more than the user has."""
    resource = request.resource.resource
    if request.resource.group != RBAC_GROUP or request.subresource or request.obj is None:
        return None
    if SYSTEM_MASTERS in request.user.groups:
        return None
    if resource in _ROLES:
        return _role_refusal(authorizer, request, request.obj)
    return _binding_refusal(authorizer, request, request.obj) if resource in _BINDINGS else None


def _role_refusal(authorizer: Authorizer, request: AdmissionRequest, role: Obj) -> Denied | None:
    if request.operation == UPDATE and _is_only_collected(role, request.old or {}):
        return None
    if _is_allowed(authorizer, request, "escalate", request.resource.resource, request.name):
        return None
    having = authorizer.rules_for(request.user, request.namespace)
    missing = uncovered(having, parse_rules(role.get("rules")))
    if missing:
        return _denied(request, _sentence(request.user, missing))
    # Whoever takes such a rule away keeps a role from being tightened.
    gathers = any(_gathers(one) for one in (role, request.old or {}))
    if gathers and uncovered(having, _FULL_AUTHORITY):
        return _denied(request, "must have cluster-admin privileges to use the aggregationRule")
    return None


def _binding_refusal(authorizer: Authorizer, request: AdmissionRequest, binding: Obj) -> Denied | None:
    if request.operation == UPDATE and _is_only_collected(binding, request.old or {}):
        return None
    ref = binding.get("roleRef") or {}
    resource = "roles" if ref.get("kind") == "Role" else "clusterroles"
    if _is_allowed(authorizer, request, "bind", resource, ref.get("name", "")):
        return None
    rules = authorizer.role_rules(ref, request.namespace)
    if isinstance(rules, str):
        return _unreadable(ref, rules)
    missing = uncovered(authorizer.rules_for(request.user, request.namespace), rules)
    return _denied(request, _sentence(request.user, missing)) if missing else None


def _is_only_collected(new: Obj, old: Obj) -> bool:
    """Whether only what the garbage collector works with changes. A label is more: it may aggregate a role to another.

    Source: pkg/registry/rbac/helpers.go IsOnlyMutatingGCFields.
    """
    rest = [
        {**obj, "metadata": {k: v for k, v in meta_of(obj).items() if k not in _COLLECTORS}}
        for obj in (new, old)
    ]
    return rest[0] == rest[1]


def _gathers(role: Obj) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _unreadable(ref: Obj, why: str) -> Denied:
    details = {"name": ref.get("name", ""), "group": RBAC_GROUP, "kind": str(ref.get("kind", "")).lower()}
    return Denied("RBAC", status_body(404, "NotFound", why, details))


def _is_allowed(
    authorizer: Authorizer, request: AdmissionRequest, verb: str, resource: str, name: str
) -> bool:
    asked = Attributes(request.user, verb, RBAC_GROUP, resource, "", request.namespace, name)
    return authorizer.authorize(asked).allowed


def _sentence(user: User, missing: list[Rule]) -> str:
    lines = "\n".join(described(missing))
    return (
        f"user {quoted(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant RBAC permissions "
        f"not currently held:\n{lines}"
    )


def _denied(request: AdmissionRequest, why: str) -> Denied:
    resource = f"{request.resource.resource}.{RBAC_GROUP}"
    details = {"name": request.name, "group": RBAC_GROUP, "kind": request.resource.resource}
    message = f"{resource} {quoted(request.name)} is forbidden: {why}"
    return Denied("RBAC", status_body(403, "Forbidden", message, details))
