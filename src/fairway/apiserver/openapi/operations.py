"""Which requests does a resource take, on which paths, with which bodies and answers?

Neither OpenAPI 2 nor 3: `versiontwo` and `versionthree` write the same operations in their own ways.

Source: kube-apiserver's OpenAPI documents (v1.36): paths, operation ids, parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fairway.apiserver.resources import Resource, Subresource

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
STATUS = META + "Status"
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
BODY_TYPES = ("application/json", "application/yaml")

_TEXT, _BOOL, _INT = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}
# Query parameters: name → its type and what it is for.
PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "allowWatchBookmarks": (_BOOL, "Ask for BOOKMARK events in a watch."),
    "container": (
        _TEXT,
        "The container of the pod; its only one, or its default one, where it is not given.",
    ),
    "continue": (_TEXT, "Where the last page ended: the token of the previous answer."),
    "dryRun": (_TEXT, "`All`: do everything but store it."),
    "fieldManager": (_TEXT, "Who makes the change: the name managedFields keep."),
    "fieldSelector": (_TEXT, "Only objects whose fields match."),
    "fieldValidation": (_TEXT, "What to do about unknown or duplicate fields: Ignore, Warn or Strict."),
    "follow": (_BOOL, "Go on as the log grows."),
    "force": (_BOOL, "Server-side apply: take over fields that others own."),
    "gracePeriodSeconds": (_INT, "Seconds before the object is deleted; zero is at once."),
    "labelSelector": (_TEXT, "Only objects whose labels match."),
    "limit": (_INT, "At most this many in one answer."),
    "orphanDependents": (_BOOL, "Deprecated: use propagationPolicy."),
    "pretty": (_TEXT, "`true`: indented."),
    "previous": (_BOOL, "The log of the container before its last restart."),
    "propagationPolicy": (_TEXT, "What becomes of dependents: Orphan, Background or Foreground."),
    "resourceVersion": (_TEXT, "How old the answer may be."),
    "resourceVersionMatch": (_TEXT, "How resourceVersion is meant: Exact or NotOlderThan."),
    "sendInitialEvents": (_BOOL, "A watch that begins with what is there."),
    "sinceSeconds": (_INT, "Only lines this young."),
    "tailLines": (_INT, "Only the last lines."),
    "timeoutSeconds": (_INT, "How long the call may take."),
    "timestamps": (_BOOL, "Each line with its time."),
    "watch": (_BOOL, "A stream of changes instead of a list."),
}
_LIST = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
    "pretty",
]
_WRITE = ["dryRun", "fieldManager", "fieldValidation", "pretty"]
_DELETE = ["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy", "pretty"]
_LOG = ["container", "follow", "pretty", "previous", "sinceSeconds", "tailLines", "timestamps"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One request. `body` and `answer` name definitions; an empty answer is plain text."""

    path: str
    method: str
    action: str
    id: str
    description: str
    path_parameters: tuple[str, ...]
    query: tuple[str, ...]
    body: str
    body_types: tuple[str, ...]
    answer: str
    codes: tuple[int, ...]
    tag: str
    gvk: dict[str, str]


@dataclass(frozen=True, slots=True)
class Names:
    """The definitions of a resource's kind and of its list."""

    single: str
    plural: str


def group_path(group: str, version: str) -> str:
    """`api/v1`, `apis/apps/v1`: as /openapi/v3 names documents."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def tag_of(group: str, version: str) -> str:
    """`core_v1`, `apps_v1`, `rbacAuthorization_v1`."""
    return f"{_camel(group) or 'core'}_{version}"


def _camel(group: str) -> str:
    first, *rest = group.removesuffix(".k8s.io").split(".")
    return first + "".join(part.capitalize() for part in rest)


def operations(resource: Resource, names: Names) -> Iterator[Operation]:
    """Every request to a resource and its subresources."""
    kind = resource.kind
    base = f"/{group_path(resource.group, resource.version)}"
    scope = f"{base}/namespaces/{{namespace}}" if kind.namespaced else base
    collection, parameters = f"{scope}/{kind.plural}", ("namespace",) if kind.namespaced else ()
    yield from _collection(resource, names, collection, parameters)
    if kind.namespaced and "list" in resource.verbs:
        everywhere = f"{base}/{kind.plural}"
        yield _operation(resource, names, "list", everywhere, (), suffix="ForAllNamespaces")
    item = f"{collection}/{{name}}"
    at = ("name", *parameters)
    for verb in ("get", "update", "patch", "delete"):
        if verb in resource.verbs:
            yield _operation(resource, names, verb, item, at)
    for subresource in resource.subresources:
        yield from _subresource(resource, names, subresource, item, at)


def _collection(
    resource: Resource, names: Names, path: str, parameters: tuple[str, ...]
) -> Iterator[Operation]:
    for verb in ("list", "create", "deletecollection"):
        if verb in resource.verbs:
            yield _operation(resource, names, verb, path, parameters)


# Verb → method, action, query, what is said of it, answers.
_VERBS: dict[str, tuple[str, str, list[str], str, tuple[int, ...]]] = {
    "list": ("get", "list", _LIST, "list or watch objects of kind {}", (200,)),
    "create": ("post", "post", _WRITE, "create {}", (200, 201, 202)),
    "deletecollection": (
        "delete",
        "deletecollection",
        [*_DELETE, *(p for p in _LIST if p not in ("watch", "pretty", "allowWatchBookmarks"))],
        "delete collection of {}",
        (200,),
    ),
    "get": ("get", "get", ["pretty"], "read the specified {}", (200,)),
    "update": ("put", "put", _WRITE, "replace the specified {}", (200, 201)),
    "patch": ("patch", "patch", [*_WRITE, "force"], "partially update the specified {}", (200, 201)),
    "delete": ("delete", "delete", _DELETE, "delete {}", (200, 202)),
}
_ID_VERBS = {
    "list": "list",
    "create": "create",
    "deletecollection": "deleteCollection",
    "get": "read",
    "update": "replace",
    "patch": "patch",
    "delete": "delete",
}


def _operation(
    resource: Resource,
    names: Names,
    verb: str,
    path: str,
    parameters: tuple[str, ...],
    *,
    suffix: str = "",
) -> Operation:
    method, action, query, description, codes = _VERBS[verb]
    body, types = _body(verb, names.single, resource)
    answer = {"list": names.plural, "delete": STATUS, "deletecollection": STATUS}.get(verb, names.single)
    return Operation(
        path,
        method,
        action,
        _id(_ID_VERBS[verb], resource, suffix, parameters),
        description.format(resource.kind.kind),
        parameters,
        tuple(query),
        body,
        types,
        answer,
        codes,
        tag_of(resource.group, resource.version),
        _gvk(resource.group, resource.version, resource.kind.kind),
    )


def _id(verb: str, resource: Resource, suffix: str, parameters: tuple[str, ...]) -> str:
    group, _, version = tag_of(resource.group, resource.version).partition("_")
    scope = "Namespaced" if "namespace" in parameters else ""
    return f"{verb}{group[0].upper()}{group[1:]}{version.capitalize()}{scope}{resource.kind.kind}{suffix}"


def _body(verb: str, single: str, resource: Resource) -> tuple[str, tuple[str, ...]]:
    if verb == "patch":
        types = tuple(t for t in PATCH_TYPES if resource.has_strategic_merge or "strategic" not in t)
        return META + "Patch", types
    if verb in ("delete", "deletecollection"):
        return META + "DeleteOptions", BODY_TYPES
    return (single, BODY_TYPES) if verb in ("create", "update") else ("", ())


def _gvk(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "kind": kind, "version": version}


_SPOKEN = {
    ("autoscaling/v1", "Scale"): "io.k8s.api.autoscaling.v1.Scale",
    ("policy/v1", "Eviction"): "io.k8s.api.policy.v1.Eviction",
    ("v1", "Binding"): "io.k8s.api.core.v1.Binding",
    ("authentication.k8s.io/v1", "TokenRequest"): "io.k8s.api.authentication.v1.TokenRequest",
}


def _subresource(
    resource: Resource, names: Names, sub: Subresource, item: str, parameters: tuple[str, ...]
) -> Iterator[Operation]:
    spoken = _SPOKEN.get((sub.api_version, sub.kind), "" if sub.kind else names.single)
    is_text = not spoken or sub.name == "log"
    group, _, version = (sub.api_version or resource.api_version).rpartition("/")
    for verb in sub.verbs:
        method, action, query, description, codes = _VERBS[verb]
        body, types = _body(verb, spoken, resource) if spoken else ("", ())
        if is_text:
            action, query = "connect", _LOG if sub.name == "log" else ["container"]
        yield Operation(
            f"{item}/{sub.name}",
            method,
            action,
            _id(_ID_VERBS[verb], resource, sub.name.capitalize(), parameters),
            f"{description.format(sub.name)} of the specified {resource.kind.kind}",
            parameters,
            tuple(query),
            body,
            types,
            "" if is_text else spoken,
            (200,) if is_text else codes,
            tag_of(resource.group, resource.version),
            _gvk(group, version, sub.kind or resource.kind.kind),
        )
