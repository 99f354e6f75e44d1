"""What somebody wants to do, as an authorizer sees it, and the sentence for "you may not".

Source: apiserver pkg/authorization/authorizer/interfaces.go, endpoints/handlers/responsewriters/errors.go (v1.36).
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from fairway.admission.request import User, status_body

RBAC_GROUP = "rbac.authorization.k8s.io"


class Attributes(NamedTuple):
    """A request to be authorized: of a resource, or (with `path`) of a URL that is none."""

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    version: str = ""


class Decision(NamedTuple):
    """`reason` says which binding allowed it, or which role could not be read."""

    allowed: bool
    reason: str = ""


def quoted(text: str) -> str:
    """As Go prints it with %q."""
    return json.dumps(text, ensure_ascii=False)


def forbidden_message(attributes: Attributes, reason: str = "") -> str:
    """What follows `is forbidden: `."""
    a = attributes
    who = f"User {quoted(a.user.name)} cannot {a.verb}"
    if not a.resource:
        said = f"{who} path {quoted(a.path)}"
    else:
        resource = f"{a.resource}/{a.subresource}" if a.subresource else a.resource
        said = f"{who} resource {quoted(resource)} in API group {quoted(a.group)}"
        said += f" in the namespace {quoted(a.namespace)}" if a.namespace else " at the cluster scope"
    return f"{said}: {reason}" if reason else said


def forbidden_status(attributes: Attributes, reason: str = "") -> dict[str, Any]:
    """The 403 for a request that is not authorized.

    `pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "team-b"`.
    """
    a = attributes
    why = forbidden_message(a, reason)
    resource = f"{a.resource}.{a.group}" if a.group else a.resource
    if not a.resource:
        message = f"forbidden: {why}"
    elif a.name:
        message = f"{resource} {quoted(a.name)} is forbidden: {why}"
    else:
        message = f"{resource} is forbidden: {why}"
    details = {
        key: value for key, value in (("name", a.name), ("group", a.group), ("kind", a.resource)) if value
    }
    body = status_body(403, "Forbidden", message, details)
    body.setdefault("details", {})
    return body
