"""What does this request ask: which verb, on which resource, where?

Source: apiserver pkg/endpoints/request/requestinfo.go (v1.36).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class RequestInfo(NamedTuple):
    """`is_resource` false: a path such as /healthz, named by `path` alone."""

    verb: str
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    rest: str = ""
    """What follows the subresource (a proxied path)."""
    place: str = ""
    """The namespace the path itself goes through (`/namespaces/PLACE/…`): a route only of what lives in namespaces."""


@lru_cache(maxsize=4096)
def parse(method: str, path: str, is_watch: bool, named: str = "") -> RequestInfo:
    """`named` is the name a field selector `metadata.name=` pins a list or watch to."""
    parts = [p for p in path.split("/") if p]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(_VERBS.get(method, method.lower()), path)
    verb = _VERBS.get(method, "")
    if rest[0] == "watch" and len(rest) > 1:
        # The old spelling: /api/v1/watch/pods.
        verb, rest = "watch", rest[1:]
    place = namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            place, rest = namespace, rest[2:]
    resource = rest[0]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    tail = "/".join(rest[3:])
    if not name and verb == "get":
        verb, name = "watch" if is_watch else "list", named
    elif not name and verb == "delete":
        verb = "deletecollection"
    return RequestInfo(verb, path, True, group, version, resource, subresource, namespace, name, tail, place)
