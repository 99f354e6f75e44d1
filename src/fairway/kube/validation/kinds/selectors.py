"""Label selectors, node selectors, and whether a selector matches its template.

Source: apimachinery pkg/apis/meta/v1/validation; pkg/apis/core/validation ValidateNodeSelector (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.internals import Typed
from fairway.kube.labels import label_selector
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts

Selector = Mapping[str, Any]
_SET = ("In", "NotIn")
_PRESENCE = ("Exists", "DoesNotExist")
_UNKNOWN = "not a valid selector operator"
_NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_MISMATCH = "`selector` does not match template `labels`"


def label_selector_of(selector: Selector | None, at: Path, out: Faults) -> None:
    """A metav1.LabelSelector; None is fine."""
    if selector is None:
        return
    texts.label_map(selector.get("matchLabels"), (*at, "matchLabels"), out)
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        requirement(expression, (*at, "matchExpressions", index), out)


def requirement(expression: Selector, at: Path, out: Faults, *, any_operator: bool = False) -> None:
    operator, values = expression.get("operator") or "", expression.get("values") or ()
    if operator in _SET:
        if not values:
            out.required((*at, "values"), _NEEDS_VALUES)
    elif operator in _PRESENCE:
        if values:
            out.forbidden((*at, "values"), _NO_VALUES)
    elif not any_operator:
        out.invalid((*at, "operator"), operator, _UNKNOWN)
    _key_and_values(expression, at, out)


def _key_and_values(expression: Selector, at: Path, out: Faults, *, values_too: bool = True) -> None:
    texts.qualified_name(expression.get("key") or "", (*at, "key"), out)
    for index, value in enumerate(expression.get("values") or () if values_too else ()):
        out.invalids((*at, "values", index), value, names.label_value(value))


def node_selector(selector: Selector, at: Path, out: Faults) -> None:
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        out.required((*at, "nodeSelectorTerms"), "must have at least one node selector term")
    for index, term in enumerate(terms):
        node_selector_term(term, (*at, "nodeSelectorTerms", index), out)


def node_selector_term(term: Selector, at: Path, out: Faults, *, values_too: bool = True) -> None:
    """Values of preferred terms are not looked at."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        where = (*at, "matchExpressions", index)
        operator, values = expression.get("operator") or "", expression.get("values") or ()
        if operator in ("Gt", "Lt"):
            if len(values) != 1:
                out.required(
                    (*where, "values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"
                )
        elif operator in _SET:
            if not values:
                out.required((*where, "values"), _NEEDS_VALUES)
        elif operator in _PRESENCE:
            if values:
                out.forbidden((*where, "values"), _NO_VALUES)
        else:
            out.invalid((*where, "operator"), operator, _UNKNOWN)
        _key_and_values(expression, where, out, values_too=values_too)
    for index, expression in enumerate(term.get("matchFields") or ()):
        _match_field(expression, (*at, "matchFields", index), out)


def _match_field(expression: Selector, at: Path, out: Faults) -> None:
    operator, values = expression.get("operator") or "", expression.get("values") or ()
    if operator not in _SET:
        out.invalid((*at, "operator"), operator, _UNKNOWN)
    elif len(values) != 1:
        said = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        out.required((*at, "values"), said)
    if expression.get("key") != "metadata.name":
        out.invalid((*at, "key"), expression.get("key") or "", "not a valid field selector key")
        return
    for index, value in enumerate(values):
        texts.dns_subdomain(value, (*at, "values", index), out)


def controller_selector(spec: Selector, at: Path, kind: str, out: Faults) -> None:
    """The selector of a controller of pods: there, and not empty."""
    selector = spec.get("selector")
    if selector is None:
        out.required((*at, "selector"))
        return
    label_selector_of(selector, (*at, "selector"), out)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        out.invalid((*at, "selector"), shown(selector), f"empty selector is invalid for {kind}")


def is_usable(selector: Selector | None) -> bool:
    """Whether Go can make a selector of it at all: known operators, with values where they need some."""
    for expression in (selector or {}).get("matchExpressions") or ():
        operator, values = expression.get("operator"), expression.get("values") or ()
        is_fine = (operator in _SET and values) or (operator in _PRESENCE and not values)
        if not is_fine or names.label_key(expression.get("key") or "") or any(map(names.label_value, values)):
            return False
    return True


def matches_template(selector: Selector | None, template: Selector, at: Path, out: Faults) -> None:
    """A selector that is there but selects everything matches; one that is not there matches nothing."""
    found = (template.get("metadata") or {}).get("labels")
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return
    if not label_selector(selector).matches(found or {}):
        out.invalid((*at, "metadata", "labels"), sorted_map(found), _MISMATCH)


def sorted_map(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """As Go's JSON has a map."""
    return None if found is None else {key: found[key] for key in sorted(found)}


def shown(selector: Selector | None) -> Typed:
    return Typed("*meta.LabelSelector", selector)
