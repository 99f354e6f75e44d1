"""What a pod says about nodes and other pods: tolerations, affinity, topology spread.

Source: pkg/apis/core/validation/validation.go ValidateTolerations, validateAffinity,
validateTopologySpreadConstraints (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.validation.context import Context
from fairway.kube.validation.problem import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    invalids,
    required,
    unsupported,
)
from fairway.kube.validation.rules.selectors import check_label_selector, check_node_selector_term

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1


def check_toleration(toleration: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    if key:
        out.extend(invalids((*path, "key"), key, names.label_key(key)))
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        out.append(invalid((*path, "operator"), operator, detail))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        out.append(invalid((*path, "effect"), effect, detail))
    _check_operator(operator, value, path, out)
    if effect and effect not in _EFFECTS:
        out.append(unsupported((*path, "effect"), effect, _EFFECTS))


def _check_operator(operator: str, value: str, path: Path, out: list[Problem]) -> None:
    if operator in ("", "Equal"):
        complaints = names.label_value(value)
        if complaints:
            out.append(invalid((*path, "operator"), value, ";".join(complaints)))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            out.append(invalid((*path, "operator"), value, detail))
    elif operator in ("Lt", "Gt"):
        out.extend(invalids((*path, "value"), value, names.decimal_integer(value)))
        if not names.decimal_integer(value) and not _MIN_INT64 <= int(value) <= _MAX_INT64:
            detail = f'strconv.ParseInt: parsing "{value}": value out of range'
            out.append(invalid((*path, "value"), value, detail))
    else:
        out.append(unsupported((*path, "operator"), operator, ("Equal", "Exists")))


def check_node_affinity(affinity: dict[str, Any], path: Path, context: Context) -> None:
    must = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if must is not None:
        at = (*path, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
        terms = must.get("nodeSelectorTerms") or ()
        if not terms:
            context.out.append(required(at, "must have at least one node selector term"))
        for index, term in enumerate(terms):
            check_node_selector_term(term, (*at, index), context.out, is_required=True)
    at = (*path, "preferredDuringSchedulingIgnoredDuringExecution")
    for index, preferred in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        _check_weight(preferred, (*at, index), context.out)
        term = preferred.get("preference") or {}
        check_node_selector_term(term, (*at, index, "preference"), context.out, is_required=False)


def _check_weight(preferred: dict[str, Any], path: Path, out: list[Problem]) -> None:
    weight = preferred.get("weight") or 0
    if not 1 <= weight <= 100:
        out.append(invalid((*path, "weight"), weight, "must be in the range 1-100"))


def check_pod_affinity(affinity: dict[str, Any], path: Path, context: Context) -> None:
    """Affinity and anti-affinity alike."""
    at = (*path, "requiredDuringSchedulingIgnoredDuringExecution")
    for index, term in enumerate(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
        _check_pod_term(term, (*at, index), context.out)
    at = (*path, "preferredDuringSchedulingIgnoredDuringExecution")
    for index, preferred in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        _check_weight(preferred, (*at, index), context.out)
        _check_pod_term(preferred.get("podAffinityTerm") or {}, (*at, index, "podAffinityTerm"), context.out)


def _check_pod_term(term: dict[str, Any], path: Path, out: list[Problem]) -> None:
    check_label_selector(term.get("labelSelector"), (*path, "labelSelector"), out)
    check_label_selector(term.get("namespaceSelector"), (*path, "namespaceSelector"), out)
    for name in term.get("namespaces") or ():
        out.extend(invalids((*path, "namespace"), name, names.dns_label(name)))
    _check_label_keys(term, path, out)
    key = term.get("topologyKey") or ""
    if not key:
        out.append(required((*path, "topologyKey"), "can not be empty"))
    out.extend(invalids((*path, "topologyKey"), key, names.label_key(key)))


def _check_label_keys(term: dict[str, Any], path: Path, out: list[Problem]) -> None:
    """matchLabelKeys and mismatchLabelKeys: need a selector and may not overlap."""
    selector = term.get("labelSelector")
    for member in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(member) or ()
        if keys and selector is None:
            detail = "must not be specified when labelSelector is not set"
            out.append(forbidden((*path, member), detail))
            continue
        for index, key in enumerate(keys):
            out.extend(invalids((*path, member, index), key, names.label_key(key)))
    matched, unmatched = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    for index, key in enumerate(matched):
        if key in unmatched:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            out.append(invalid((*path, "matchLabelKeys", index), key, detail))


def check_spread(constraint: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    skew = constraint.get("maxSkew") or 0
    if skew <= 0:
        out.append(invalid((*path, "maxSkew"), skew, "must be greater than zero"))
    if not constraint.get("topologyKey"):
        out.append(required((*path, "topologyKey"), "can not be empty"))
    action = constraint.get("whenUnsatisfiable") or ""
    if action not in _ACTIONS:
        out.append(unsupported((*path, "whenUnsatisfiable"), action, _ACTIONS))
    domains = constraint.get("minDomains")
    if domains is not None and action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        out.append(invalid((*path, "minDomains"), domains, detail))
    _check_spread_keys(constraint, path, out)
    check_label_selector(constraint.get("labelSelector"), (*path, "labelSelector"), out)


def _check_spread_keys(constraint: dict[str, Any], path: Path, out: list[Problem]) -> None:
    keys, selector = constraint.get("matchLabelKeys") or (), constraint.get("labelSelector")
    if not keys:
        return
    if selector is None:
        detail = "must not be specified when labelSelector is not set"
        out.append(forbidden((*path, "matchLabelKeys"), detail))
    selected = {
        *((selector or {}).get("matchLabels") or {}),
        *(e.get("key") for e in (selector or {}).get("matchExpressions") or ()),
    }
    for index, key in enumerate(keys):
        out.extend(invalids((*path, "matchLabelKeys", index), key, names.label_key(key)))
        if key in selected:
            detail = "exists in both matchLabelKeys and labelSelector"
            out.append(invalid((*path, "matchLabelKeys", index), key, detail))


def check_spread_unique(spec: dict[str, Any], path: Path, context: Context) -> None:
    """No two constraints with the same topology key and action."""
    constraints = spec.get("topologySpreadConstraints") or ()
    pairs = [(c.get("topologyKey") or "", c.get("whenUnsatisfiable") or "") for c in constraints]
    for index, (key, action) in enumerate(pairs):
        if (key, action) in pairs[index + 1 :]:
            at = (*path, "topologySpreadConstraints", index, "{topologyKey, whenUnsatisfiable}")
            context.out.append(duplicate(at, f"{{{key}, {action}}}"))


RULES = {
    "Toleration": check_toleration,
    "NodeAffinity": check_node_affinity,
    "PodAffinity": check_pod_affinity,
    "PodAntiAffinity": check_pod_affinity,
    "TopologySpreadConstraint": check_spread,
    "PodSpec": check_spread_unique,
}
