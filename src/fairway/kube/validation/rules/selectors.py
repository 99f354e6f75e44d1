"""Label selectors, node selector terms, and whether a selector matches its template.

Source: apimachinery pkg/apis/meta/v1/validation, pkg/apis/core/validation ValidateNodeSelectorTerm (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.labels import label_selector
from fairway.kube.validation.metadata import check_labels
from fairway.kube.validation.problem import Problem, forbidden, invalid, invalids, required

_SET = ("In", "NotIn")
_PRESENCE = ("Exists", "DoesNotExist")
_ORDER = ("Gt", "Lt")
_UNKNOWN = "not a valid selector operator"
_MISMATCH = "`selector` does not match template `labels`"


def check_label_selector(selector: Mapping[str, Any] | None, path: Path, out: list[Problem]) -> None:
    """A metav1.LabelSelector; None is fine."""
    if selector is None:
        return
    check_labels(selector.get("matchLabels"), (*path, "matchLabels"), out)
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        at = (*path, "matchExpressions", index)
        operator = expression.get("operator") or ""
        if operator in _ORDER:
            out.append(invalid((*at, "operator"), operator, _UNKNOWN))
        else:
            _check_operator(expression, at, out)
        _check_key_and_values(expression, at, out)


def _check_operator(expression: Mapping[str, Any], at: Path, out: list[Problem]) -> None:
    operator, values = expression.get("operator") or "", expression.get("values") or ()
    if operator in _SET:
        if not values:
            out.append(required((*at, "values"), "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in _PRESENCE:
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            out.append(forbidden((*at, "values"), detail))
    elif operator in _ORDER:
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            out.append(required((*at, "values"), detail))
    else:
        out.append(invalid((*at, "operator"), operator, _UNKNOWN))


def _check_key_and_values(
    expression: Mapping[str, Any], at: Path, out: list[Problem], *, values_too: bool = True
) -> None:
    key = expression.get("key") or ""
    out.extend(invalids((*at, "key"), key, names.label_key(key)))
    if not values_too:
        return
    for index, value in enumerate(expression.get("values") or ()):
        out.extend(invalids((*at, "values", index), value, names.label_value(value)))


def check_node_selector_term(
    term: Mapping[str, Any], path: Path, out: list[Problem], *, is_required: bool
) -> None:
    """Values of preferred terms are not checked, as in Kubernetes."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        at = (*path, "matchExpressions", index)
        _check_operator(expression, at, out)
        _check_key_and_values(expression, at, out, values_too=is_required)
    for index, expression in enumerate(term.get("matchFields") or ()):
        _check_match_field(expression, (*path, "matchFields", index), out)


def _check_match_field(expression: Mapping[str, Any], at: Path, out: list[Problem]) -> None:
    operator, values = expression.get("operator") or "", expression.get("values") or ()
    if operator not in _SET:
        out.append(invalid((*at, "operator"), operator, _UNKNOWN))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        out.append(required((*at, "values"), detail))
    if expression.get("key") != "metadata.name":
        out.append(invalid((*at, "key"), expression.get("key") or "", "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        out.extend(invalids((*at, "values", index), value, names.dns_subdomain(value)))


def check_selects_template(spec: Mapping[str, Any], path: Path, kind: str, out: list[Problem]) -> None:
    """A controller's selector: there, not empty, and matching its own template."""
    selector = spec.get("selector")
    if selector is None:
        # A selector that is not there selects nothing, its own template's pods neither.
        out.append(required((*path, "selector")))
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        out.append(invalid((*path, "template", "metadata", "labels"), labels, _MISMATCH))
        return
    before = len(out)
    check_label_selector(selector, (*path, "selector"), out)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        out.append(invalid((*path, "selector"), selector, f"empty selector is invalid for {kind}"))
    if len(out) == before:
        check_matches_template(spec, path, out)


def check_matches_template(spec: Mapping[str, Any], path: Path, out: list[Problem]) -> None:
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if not label_selector(spec.get("selector")).matches(labels):
        out.append(invalid((*path, "template", "metadata", "labels"), labels or None, _MISMATCH))
