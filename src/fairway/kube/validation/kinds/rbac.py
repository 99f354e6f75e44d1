"""Roles and bindings.

Source: pkg/apis/rbac/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.internals import Typed
from fairway.kube.objects import Obj
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts
from fairway.kube.validation.kinds.metadata import object_meta, object_meta_update
from fairway.kube.validation.kinds.sameness import is_same
from fairway.kube.validation.kinds.selectors import label_selector_of

Part = Mapping[str, Any]
_GROUP = "rbac.authorization.k8s.io"
_MIXED = "rules cannot apply to both regular resources and non-resource URLs"


def role(obj: Obj, out: Faults) -> None:
    """A Role or a ClusterRole."""
    is_namespaced = obj["kind"] == "Role"
    object_meta(obj, out, namespaced=is_namespaced, rule=names.path_segment, core=True)
    for index, rule in enumerate(obj.get("rules") or ()):
        _rule(rule, ("rules", index), out, is_namespaced=is_namespaced)
    aggregation, at = obj.get("aggregationRule"), ("aggregationRule", "clusterRoleSelectors")
    if aggregation is None or is_namespaced:
        return
    selectors = aggregation.get("clusterRoleSelectors") or ()
    if not selectors:
        out.required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(selectors):
        label_selector_of(selector, (*at, index), out)


def _rule(rule: Part, at: Path, out: Faults, *, is_namespaced: bool) -> None:
    if not rule.get("verbs"):
        out.required((*at, "verbs"), "verbs must contain at least one value")
    urls, where = rule.get("nonResourceURLs"), (*at, "nonResourceURLs")
    if urls:
        if is_namespaced:
            out.invalid(where, urls, "namespaced rules cannot apply to non-resource URLs")
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            out.invalid(where, urls, _MIXED)
        return
    if not rule.get("apiGroups"):
        out.required((*at, "apiGroups"), "resource rules must supply at least one api group")
    if not rule.get("resources"):
        out.required((*at, "resources"), "resource rules must supply at least one resource")


def role_update(new: Obj, old: Obj, out: Faults) -> None:
    role(new, out)
    object_meta_update(new, old, out, core=True)


def binding(obj: Obj, out: Faults) -> None:
    """A RoleBinding or a ClusterRoleBinding."""
    is_namespaced, reference = obj["kind"] == "RoleBinding", obj.get("roleRef") or {}
    object_meta(obj, out, namespaced=is_namespaced, rule=names.path_segment, core=True)
    kinds = ("Role", "ClusterRole") if is_namespaced else ("ClusterRole",)
    if (reference.get("apiGroup") or "") != _GROUP:
        out.unsupported(("roleRef", "apiGroup"), reference.get("apiGroup") or "", (_GROUP,))
    if reference.get("kind") not in kinds:
        out.unsupported(("roleRef", "kind"), reference.get("kind") or "", kinds)
    if not reference.get("name"):
        out.required(("roleRef", "name"))
    else:
        texts.path_segment(reference["name"], ("roleRef", "name"), out)
    for index, subject in enumerate(obj.get("subjects") or ()):
        _subject(subject, ("subjects", index), out, is_namespaced=is_namespaced)


def _subject(subject: Part, at: Path, out: Faults, *, is_namespaced: bool) -> None:
    kind, name, group = (subject.get(m) or "" for m in ("kind", "name", "apiGroup"))
    if not name:
        out.required((*at, "name"))
    if kind == "ServiceAccount":
        if name:
            texts.dns_subdomain(name, (*at, "name"), out)
        if group:
            out.unsupported((*at, "apiGroup"), group, ("",))
        if not is_namespaced and not subject.get("namespace"):
            out.required((*at, "namespace"))
    elif kind in ("User", "Group"):
        if group != _GROUP:
            out.unsupported((*at, "apiGroup"), group, (_GROUP,))
    else:
        out.unsupported((*at, "kind"), kind, ("ServiceAccount", "User", "Group"))


def binding_update(new: Obj, old: Obj, out: Faults) -> None:
    binding(new, out)
    object_meta_update(new, old, out, core=True)
    reference = new.get("roleRef")
    if not is_same(reference, old.get("roleRef")):
        out.invalid(("roleRef",), Typed("rbac.RoleRef", reference), "cannot change roleRef")
