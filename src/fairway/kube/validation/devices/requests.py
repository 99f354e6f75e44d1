"""ResourceClaims, ResourceClaimTemplates and DeviceClasses: what is asked for."""

from __future__ import annotations

from typing import Any, Final

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, meta_of, spec_of
from fairway.kube.problem import Faults, Problem, forbidden, invalid, required, unsupported
from fairway.kube.resources import is_extended
from fairway.kube.validation.devices import parts
from fairway.kube.validation.kinds.metadata import object_meta
from fairway.kube.validation.kinds.texts import annotation_map, label_map

_MAX_CONSTRAINTS: Final = 32
_MAX_ALTERNATIVES: Final = 8
_MODES: Final = ("All", "ExactCount")
ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"

# The fields of ObjectMeta, in Go's order; a template's claims get labels and annotations only.
_METADATA: Final = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
]
_GO_NAMES: Final = {"uid": "uID"}


def claim(obj: Obj, out: Faults) -> None:
    object_meta(obj, out)
    out += _claim_spec(spec_of(obj), ("spec",))


def template(obj: Obj, out: Faults) -> None:
    object_meta(obj, out)
    spec, at = spec_of(obj), ("spec",)
    meta, where = meta_of(spec), (*at, "metadata")
    annotation_map(meta.get("annotations"), (*where, "annotations"), out)
    label_map(meta.get("labels"), (*where, "labels"), out)
    given = [name for name in _METADATA if meta.get(name)]
    out += [forbidden((*where, _GO_NAMES.get(name, name)), "cannot be set") for name in given]
    out += _claim_spec(spec_of(spec), (*at, "spec"))


def device_class(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False, rule=names.long_name)
    spec, at = spec_of(obj), ("spec",)
    out += parts.selectors(spec.get("selectors"), (*at, "selectors"))
    out += parts.items(spec.get("config"), parts.MAX_CONFIGS, parts.configuration, (*at, "config"))
    name = spec.get("extendedResourceName")
    if name is not None and (not is_extended(name) or names.label_key(f"requests.{name}")):
        where = (*at, "extendedResourceName")
        out.append(invalid(where, name, "must be a valid extended resource name"))


def admin_problem(obj: Obj, namespace: Obj | None) -> list[Problem]:
    """Who asks for admin access must do so in a namespace that allows it. Source: AuthorizedForAdmin."""
    at: Path = ("spec", "devices", "requests")
    for index, request in enumerate((spec_of(obj).get("devices") or {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            return admin_refusal((*at, index, "adminAccess"), namespace)
    return []


def admin_refusal(at: Path, namespace: Obj | None) -> list[Problem]:
    labels = meta_of(namespace or {}).get("labels") or {}
    if labels.get(ADMIN_LABEL) == "true":
        return []
    detail = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
    return [forbidden(at, detail)]


def _claim_spec(spec: Obj, at: Path) -> list[Problem]:
    devices, where = spec.get("devices") or {}, (*at, "devices")
    named = parts.Requests(devices)
    found = parts.unique(devices.get("requests"), parts.MAX_REQUESTS, _request, _name, (*where, "requests"))

    def constraint(value: Obj, at: Path) -> list[Problem]:
        return _constraint(value, at, named)

    def config(value: Obj, at: Path) -> list[Problem]:
        references = named.references(value.get("requests"), (*at, "requests"))
        return [*references, *parts.configuration(value, at)]

    found += parts.items(devices.get("constraints"), _MAX_CONSTRAINTS, constraint, (*where, "constraints"))
    return [*found, *parts.items(devices.get("config"), parts.MAX_CONFIGS, config, (*where, "config"))]


def _name(value: Obj) -> str:
    return value.get("name") or ""


def _request(value: Obj, at: Path) -> list[Problem]:
    found = parts.label(value.get("name"), (*at, "name"))
    exactly, alternatives = value.get("exactly"), value.get("firstAvailable")
    wanted = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not alternatives:
        found.append(required(at, wanted))
    elif exactly is not None and alternatives:
        found.append(invalid(at, None, f"{wanted}, but multiple fields are set"))
    elif exactly is not None:
        found += _exact(exactly, (*at, "exactly"))
    else:
        where = (*at, "firstAvailable")
        found += parts.unique(alternatives, _MAX_ALTERNATIVES, _alternative, _name, where)
    return found


def _alternative(value: Obj, at: Path) -> list[Problem]:
    return [*parts.label(value.get("name"), (*at, "name")), *_exact(value, at)]


def _exact(value: Obj, at: Path) -> list[Problem]:
    class_name, where = value.get("deviceClassName") or "", (*at, "deviceClassName")
    if not class_name:
        found = [required(where)]
    else:
        found = [invalid(where, class_name, c) for c in names.dns_subdomain(class_name)]
    found += parts.selectors(value.get("selectors"), (*at, "selectors"))
    found += _mode(value.get("allocationMode") or "", value.get("count") or 0, at)
    return [*found, *parts.items(value.get("tolerations"), -1, parts.toleration, (*at, "tolerations"))]


def _mode(mode: str, count: Any, at: Path) -> list[Problem]:
    if mode == "All":
        detail = "must not be specified when allocationMode is 'All'"
        return [invalid((*at, "count"), count, detail)] if count else []
    if mode == "ExactCount":
        return [invalid((*at, "count"), count, "must be greater than zero")] if count <= 0 else []
    return [unsupported((*at, "allocationMode"), mode, _MODES)]


def _constraint(value: Obj, at: Path, named: parts.Requests) -> list[Problem]:
    found = named.references(value.get("requests"), (*at, "requests"))
    if value.get("matchAttribute") is not None:
        found += parts.fully_qualified(value["matchAttribute"], (*at, "matchAttribute"))
    elif value.get("distinctAttribute") is not None:
        found += parts.fully_qualified(value["distinctAttribute"], (*at, "distinctAttribute"))
    else:
        # Upstream's words, which fit another mistake.
        detail = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )
        found.append(required(at, detail))
    return found
