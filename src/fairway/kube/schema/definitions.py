"""Is this CustomResourceDefinition fit to be served, and what does the API server make of it?

Names, versions, subresources and columns here; the schemas themselves in `structure`. Types in CEL and conversion
webhooks' certificates are not looked at.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, v1/conversion.go, v1/defaults.go
(v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, meta_of, spec_of, status_of
from fairway.kube.problem import Problem, forbidden, invalid, required, unsupported
from fairway.kube.schema.structure import check_schema

_IMMUTABLE = "field is immutable"
# What every version says alike is moved to the spec before anything is looked at: field of a version → of the spec.
_SHARED = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
}
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (
    "binary",
    "bool",
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
)


def default_definition(crd: Obj) -> Obj:
    """The CRD with the names and the conversion strategy the API server fills in."""
    spec = spec_of(crd)
    given = spec.get("names") or {}
    filled = dict(given)
    if given.get("kind"):
        filled.setdefault("singular", given["kind"].lower())
        filled.setdefault("listKind", given["kind"] + "List")
    return {
        **crd,
        "spec": {**spec, "names": filled, "conversion": spec.get("conversion") or {"strategy": "None"}},
    }


def established(crd: Obj, now: str) -> Obj:
    """The CRD with the status of one whose names were accepted. `now` is an RFC 3339 time.

    Conditions that are true already keep their time; a version that was ever stored stays listed.
    """
    spec = spec_of(crd)
    status = status_of(crd)
    stored = list(status.get("storedVersions") or [])
    stored += [v["name"] for v in spec.get("versions") or [] if v.get("storage") and v["name"] not in stored]
    held = {c["type"]: c for c in status.get("conditions") or []}
    wanted = (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    )
    conditions = []
    for kind, reason, message in wanted:
        old = held.pop(kind, None)
        if old is not None and old.get("status") == "True":
            conditions.append(old)
            continue
        conditions.append(
            {
                "lastTransitionTime": now,
                "message": message,
                "reason": reason,
                "status": "True",
                "type": kind,
            }
        )
    return {
        **crd,
        "status": {
            "acceptedNames": spec.get("names") or {},
            "conditions": [*conditions, *held.values()],
            "storedVersions": stored,
        },
    }


def validate_definition(crd: Obj, old: Obj | None = None) -> list[Problem]:
    """Everything wrong with a (defaulted) CRD; `old` is what an update replaces."""
    spec = _with_shared(spec_of(crd))
    found: list[Problem] = []
    _check_name(crd, spec, found)
    _check_group(spec, found)
    _check_scope(spec, found)
    _check_versions(spec, found)
    _check_names(spec, found)
    shared = {of_version: spec.get(of_spec) for of_version, of_spec in _SHARED.items()}
    _check_parts(shared, {of_version: ("spec", of_spec) for of_version, of_spec in _SHARED.items()}, found)
    _check_conversion(spec.get("conversion") or {}, found)
    if old is None and not any(v.get("storage") for v in spec.get("versions") or ()):
        found.append(invalid(("status", "storedVersions"), None, "must have at least one stored version"))
    if old is not None:
        _check_update(spec, old, found)
    return found


def _with_shared(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec as the API server looks at it: fields on which all versions agree are the spec's own."""
    versions = spec.get("versions") or []
    if not versions:
        return spec
    first = versions[0]
    alike = [f for f in _SHARED if all((v.get(f) or None) == (first.get(f) or None) for v in versions)]
    left = [{name: value for name, value in v.items() if name not in alike} for v in versions]
    return {**spec, "versions": left, **{_SHARED[f]: first.get(f) for f in alike}}


def _check_name(crd: Obj, spec: dict[str, Any], found: list[Problem]) -> None:
    name = meta_of(crd).get("name") or ""
    path = ("metadata", "name")
    if not name:
        found.append(required(path, "name or generateName is required"))
        return
    found.extend(invalid(path, name, complaint) for complaint in names.dns_subdomain(name))
    plural = (spec.get("names") or {}).get("plural") or ""
    if name != f"{plural}.{spec.get('group') or ''}":
        found.append(invalid(path, name, 'must be spec.names.plural+"."+spec.group'))


def _check_group(spec: dict[str, Any], found: list[Problem]) -> None:
    group = spec.get("group") or ""
    path = ("spec", "group")
    if not group:
        found.append(required(path))
    elif complaints := tuple(names.dns_subdomain(group)):
        found.append(invalid(path, group, ",".join(complaints)))
    elif "." not in group:
        found.append(invalid(path, group, "should be a domain with at least one dot"))


def _check_scope(spec: dict[str, Any], found: list[Problem]) -> None:
    scope = spec.get("scope") or ""
    if not scope:
        found.append(required(("spec", "scope")))
    elif scope not in ("Cluster", "Namespaced"):
        found.append(unsupported(("spec", "scope"), scope, ("Cluster", "Namespaced")))


def _check_versions(spec: dict[str, Any], found: list[Problem]) -> None:
    versions = spec.get("versions") or []
    path: Path = ("spec", "versions")
    if spec.get("preserveUnknownFields"):
        found.append(
            invalid(
                ("spec", "preserveUnknownFields"),
                True,
                "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in"
                " spec.versions[*].schema instead",
            )
        )
    has_schema = bool((spec.get("validation") or {}).get("openAPIV3Schema"))
    for index, version in enumerate(versions):
        if not has_schema and not (version.get("schema") or {}).get("openAPIV3Schema"):
            found.append(required((*path, index, "schema", "openAPIV3Schema")))
    for index, version in enumerate(versions):
        _check_version(version, (*path, index), found)
    seen = [v.get("name") for v in versions]
    if len(set(seen)) != len(seen):
        found.append(invalid(path, _as_go(versions), "must contain unique version names"))
    if sum(bool(v.get("storage")) for v in versions) != 1:
        found.append(
            invalid(
                path, _as_go(spec.get("versions")), "must have exactly one version marked as storage version"
            )
        )


def _as_go(versions: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """The versions as they are printed: by the API server's own type, whose fields have no JSON names."""
    if versions is None:
        return None
    empty = {"name": "", "served": False, "storage": False, "deprecated": False}
    names = (*empty, "deprecationWarning", *_SHARED, "selectableFields")
    return [{n[0].upper() + n[1:]: v.get(n, empty.get(n)) for n in names} for v in versions]


def _check_version(version: dict[str, Any], path: Path, found: list[Problem]) -> None:
    name = version.get("name") or ""
    if complaints := tuple(names.dns1035_label(name)):
        found.append(invalid((*path, "name"), name, ",".join(complaints)))
    warning = version.get("deprecationWarning")
    if warning is not None and not version.get("deprecated"):
        found.append(
            invalid((*path, "deprecationWarning"), warning, "can only be set for deprecated versions")
        )
    elif warning is not None and not 0 < len(warning) <= 256:
        rule = "must be <= 256 characters long" if warning else "must not be an empty string"
        found.append(invalid((*path, "deprecationWarning"), warning, rule))
    _check_parts(version, {name: (*path, name) for name in _SHARED}, found)


def _check_parts(parts: dict[str, Any], paths: dict[str, Path], found: list[Problem]) -> None:
    """The schema, scale and columns of a version, or of all of them."""
    schema = (parts.get("schema") or {}).get("openAPIV3Schema")
    if schema:
        found.extend(check_schema(schema, (*paths["schema"], "openAPIV3Schema")))
    _check_scale((parts.get("subresources") or {}).get("scale"), paths["subresources"], found)
    for index, column in enumerate(parts.get("additionalPrinterColumns") or ()):
        _check_column(column, (*paths["additionalPrinterColumns"], index), found)


def _check_scale(scale: dict[str, Any] | None, path: Path, found: list[Problem]) -> None:
    if scale is None:
        return
    rules = (
        ("specReplicasPath", (".spec.",), "should be a json path under .spec", True),
        ("statusReplicasPath", (".status.",), "should be a json path under .status", True),
        (
            "labelSelectorPath",
            (".spec.", ".status."),
            "should be a json path under either .spec or .status",
            False,
        ),
    )
    for name, prefixes, rule, is_required in rules:
        value = scale.get(name) or ""
        at = (*path, f"scale.{name}")
        if not value:
            if is_required:
                found.append(required(at))
        elif not value.startswith("."):
            found.append(invalid(at, value, "must be a simple json path starting with ."))
        elif not value.startswith(prefixes):
            found.append(invalid(at, value, rule))


def _check_column(column: dict[str, Any], path: Path, found: list[Problem]) -> None:
    if not column.get("name"):
        found.append(required((*path, "name")))
    kind = column.get("type") or ""
    if not kind:
        found.append(required((*path, "type"), "must be one of " + ",".join(_COLUMN_TYPES)))
    elif kind not in _COLUMN_TYPES:
        found.append(invalid((*path, "type"), kind, "must be one of " + ",".join(_COLUMN_TYPES)))
    named = column.get("format") or ""
    if named and named not in _COLUMN_FORMATS:
        found.append(invalid((*path, "format"), named, "must be one of " + ",".join(_COLUMN_FORMATS)))
    json_path = column.get("jsonPath") or ""
    if not json_path:
        found.append(required((*path, "JSONPath")))
    elif not json_path.startswith("."):
        found.append(invalid((*path, "JSONPath"), json_path, "must be a simple json path starting with ."))


def _check_names(spec: dict[str, Any], found: list[Problem]) -> None:
    held = spec.get("names") or {}
    path: Path = ("spec", "names")
    needed = ("plural", "singular", "kind", "listKind")
    found.extend(required((*path, name)) for name in needed if not held.get(name))
    if held.get("plural"):
        _check_label(held["plural"], (*path, "plural"), found)
    if held.get("singular"):
        _check_label(held["singular"], (*path, "singular"), found)
    for name in ("kind", "listKind"):
        if held.get(name):
            _check_label(held[name].lower(), (*path, name), found, shown=held[name])
    for name in ("shortNames", "categories"):
        for index, value in enumerate(held.get(name) or ()):
            _check_label(value, (*path, name, index), found)
    if held.get("kind") and held.get("kind") == held.get("listKind"):
        found.append(invalid((*path, "listKind"), held["listKind"], "kind and listKind may not be the same"))


def _check_label(value: str, path: Path, found: list[Problem], *, shown: str | None = None) -> None:
    complaints = tuple(names.dns1035_label(value))
    if complaints:
        mixed = "may have mixed case, but should otherwise match: " if shown is not None else ""
        found.append(invalid(path, value if shown is None else shown, mixed + ",".join(complaints)))


def _check_conversion(conversion: dict[str, Any], found: list[Problem]) -> None:
    path: Path = ("spec", "conversion")
    strategy = conversion.get("strategy") or ""
    if not strategy:
        found.append(required((*path, "strategy")))
    elif strategy not in ("None", "Webhook"):
        found.append(unsupported((*path, "strategy"), strategy, ("None", "Webhook")))
    webhook = conversion.get("webhook") or {}
    if strategy == "Webhook":
        client = webhook.get("clientConfig")
        at = (*path, "webhookClientConfig")
        if client is None:
            found.append(required(at, "required when strategy is set to Webhook"))
        elif (client.get("url") is None) == (client.get("service") is None):
            found.append(required(at, "exactly one of url or service is required"))
        _check_reviews(webhook.get("conversionReviewVersions") or [], path, found)
    elif webhook.get("clientConfig") is not None:
        found.append(
            forbidden((*path, "webhookClientConfig"), "should not be set when strategy is not set to Webhook")
        )


def _check_reviews(versions: list[str], path: Path, found: list[Problem]) -> None:
    at = (*path, "conversionReviewVersions")
    if not versions:
        found.append(required(at))
    elif not {"v1", "v1beta1"} & set(versions):
        found.append(invalid(at, versions, "must include at least one of v1, v1beta1"))


def _check_update(spec: dict[str, Any], old: Obj, found: list[Problem]) -> None:
    before = spec_of(old)
    fixed: list[tuple[Path, Any, Any]] = [
        (("spec", "group"), spec.get("group"), before.get("group")),
        (("spec", "names", "plural"), _named(spec, "plural"), _named(before, "plural")),
    ]
    if _is_established(status_of(old).get("conditions") or ()):
        fixed = [
            (("spec", "scope"), spec.get("scope"), before.get("scope")),
            (("spec", "names", "kind"), _named(spec, "kind"), _named(before, "kind")),
            *fixed,
        ]
    found.extend(invalid(path, new, _IMMUTABLE) for path, new, was in fixed if new != was)
    served = {v.get("name") for v in spec.get("versions") or ()}
    for index, name in enumerate(status_of(old).get("storedVersions") or ()):
        if name not in served:
            rule = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in"
                f" spec.versions until a storage migration ensures no data remains persisted in {name} and"
                f" removes {name} from status.storedVersions"
            )
            found.append(invalid(("status", "storedVersions", index), name, rule))


def _named(spec: dict[str, Any], name: str) -> Any:
    return (spec.get("names") or {}).get(name)


def _is_established(conditions: Iterable[dict[str, Any]]) -> bool:
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
