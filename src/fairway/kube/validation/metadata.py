"""What is wrong with an object's metadata: names per kind, labels, annotations, owners, finalizers?

Source: apimachinery pkg/api/validation/objectmeta.go, pkg/apis/core/validation (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.kinds import BY_GROUP_KIND
from fairway.kube.names import Complaints
from fairway.kube.objects import Obj, gk_of
from fairway.kube.validation.context import mapping, sequence
from fairway.kube.validation.problem import Problem, invalid, invalids, required, too_long

# Together, over all annotations of an object. Source: TotalAnnotationSizeLimitB.
_ANNOTATION_BYTES = 256 * 1024
_KUBE_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})

# Kinds whose names are not DNS subdomains.
_NAME_RULES: dict[str, Callable[[str], Complaints]] = {
    "Namespace": names.dns_label,
    "Service": names.dns1035_label,
    "StatefulSet.apps": names.dns_label,
    "DeviceClass.resource.k8s.io": names.long_name,
}
# Names of these are free: they hold colons and capitals.
_FREE_NAMES = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})


def check_metadata(obj: Obj, out: list[Problem]) -> None:
    meta = mapping(obj.get("metadata"))
    path: Path = ("metadata",)
    _check_name(obj, meta, out)
    _check_namespace(obj, meta, out)
    generation = meta.get("generation")
    if isinstance(generation, int) and generation < 0:
        out.append(invalid((*path, "generation"), generation, "must be greater than or equal to 0"))
    check_labels(meta.get("labels"), (*path, "labels"), out)
    check_annotations(meta.get("annotations"), (*path, "annotations"), out)
    _check_owners(sequence(meta.get("ownerReferences")), (*path, "ownerReferences"), out)
    for index, finalizer in enumerate(sequence(meta.get("finalizers"))):
        _check_finalizer(finalizer, (*path, "finalizers", index), out)


def _check_name(obj: Obj, meta: Obj, out: list[Problem]) -> None:
    gk = gk_of(obj)
    rule = _NAME_RULES.get(gk, names.dns_subdomain)
    is_free = gk.partition(".")[0] in _FREE_NAMES
    prefix = meta.get("generateName") or ""
    name = meta.get("name") or ""
    if prefix and not is_free:
        out.extend(invalids(("metadata", "generateName"), prefix, rule(names.mask_trailing_dash(prefix))))
    if not name:
        if not prefix:
            out.append(required(("metadata", "name"), "name or generateName is required"))
    elif not is_free:
        out.extend(invalids(("metadata", "name"), name, rule(name)))


def _check_namespace(obj: Obj, meta: Obj, out: list[Problem]) -> None:
    """On cluster-scoped kinds the API server drops a namespace without a word."""
    namespace = meta.get("namespace") or ""
    kind = BY_GROUP_KIND.get(gk_of(obj))
    if not namespace or (kind is not None and not kind.namespaced):
        return
    out.extend(invalids(("metadata", "namespace"), namespace, names.dns_label(namespace)))


def check_labels(labels: Any, path: Path, out: list[Problem]) -> None:
    """Every key a qualified name, every value a label value."""
    for key, value in mapping(labels).items():
        out.extend(invalids(path, key, names.label_key(key)))
        out.extend(invalids(path, value, names.label_value(value or "")))


def check_annotations(annotations: Any, path: Path, out: list[Problem]) -> None:
    total = 0
    for key, value in mapping(annotations).items():
        out.extend(invalids(path, key, names.label_key(key.lower())))
        total += len(key.encode()) + len((value or "").encode())
    if total > _ANNOTATION_BYTES:
        out.append(too_long(path, _ANNOTATION_BYTES))


def _check_owners(owners: list[Obj], path: Path, out: list[Problem]) -> None:
    controller = ""
    for index, owner in enumerate(owners):
        missing = [name for name in ("apiVersion", "kind", "name", "uid") if not owner.get(name)]
        out.extend(required((*path, index, name), "must not be empty") for name in missing)
        if owner.get("controller"):
            this = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                found = f'Found "true" in references for {controller} and {this}'
                detail = f"Only one reference can have Controller set to true. {found}"
                out.append(invalid(path, owners, detail))
            controller = this


def _check_finalizer(finalizer: str, path: Path, out: list[Problem]) -> None:
    complaints = names.label_key(finalizer)
    out.extend(invalids(path, finalizer, complaints))
    if not complaints and "/" not in finalizer and finalizer not in _KUBE_FINALIZERS:
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        out.append(invalid(path, finalizer, detail))
