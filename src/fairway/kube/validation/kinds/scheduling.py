"""Where a pod may go: affinity, tolerations, spread constraints, gates.

Source: pkg/apis/core/validation/validation.go validateAffinity, ValidateTolerations,
validateTopologySpreadConstraints (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts
from fairway.kube.validation.kinds.selectors import label_selector_of, node_selector, node_selector_term

Part = Mapping[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Equal", "Exists")
_COMPARISONS = ("Equal", "Exists", "Lt", "Gt")
_ALL_KEYS = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_BOTH = "exists in both matchLabelKeys and labelSelector"


def affinity(found: Part | None, at: Path, out: Faults) -> None:
    if found is None:
        return
    node = found.get("nodeAffinity")
    if node is not None:
        where = (*at, "nodeAffinity")
        if node.get(_REQUIRED) is not None:
            node_selector(node[_REQUIRED], (*where, _REQUIRED), out)
        for index, term in enumerate(node.get(_PREFERRED) or ()):
            _weight(term, (*where, _PREFERRED, index), out)
            preference = term.get("preference") or {}
            node_selector_term(preference, (*where, _PREFERRED, index, "preference"), out, values_too=False)
    for name in ("podAffinity", "podAntiAffinity"):
        terms, where = found.get(name) or {}, (*at, name)
        for index, term in enumerate(terms.get(_REQUIRED) or ()):
            _pod_term(term, (*where, _REQUIRED, index), out)
        for index, term in enumerate(terms.get(_PREFERRED) or ()):
            _weight(term, (*where, _PREFERRED, index), out)
            _pod_term(term.get("podAffinityTerm") or {}, (*where, _PREFERRED, index, "podAffinityTerm"), out)


def _weight(term: Part, at: Path, out: Faults) -> None:
    weight = term.get("weight") or 0
    if not 1 <= weight <= 100:
        out.invalid((*at, "weight"), weight, "must be in the range 1-100")


def _pod_term(term: Part, at: Path, out: Faults) -> None:
    label_selector_of(term.get("labelSelector"), (*at, "labelSelector"), out)
    label_selector_of(term.get("namespaceSelector"), (*at, "namespaceSelector"), out)
    for name in term.get("namespaces") or ():
        texts.dns_label(name, (*at, "namespace"), out)
    matched, mismatched = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    label_keys(matched, mismatched, term.get("labelSelector"), at, out)
    key = term.get("topologyKey") or ""
    if not key:
        out.required((*at, "topologyKey"), "can not be empty")
    texts.qualified_name(key, (*at, "topologyKey"), out)


def label_keys(
    matched: Sequence[str], mismatched: Sequence[str], selector: Part | None, at: Path, out: Faults
) -> None:
    for name, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
        if keys and selector is None:
            out.forbidden((*at, name), "must not be specified when labelSelector is not set")
            continue
        for index, key in enumerate(keys):
            texts.qualified_name(key, (*at, name, index), out)
    if selector is not None and matched:
        places = {key: index for index, key in enumerate(matched)}
        used = set(selector.get("matchLabels") or ())
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key") or ""
            if key in places and key in used:
                out.invalid((*at, places[key]), key, _BOTH)
            used.add(key)
    for index, key in enumerate(matched):
        if key in mismatched:
            said = "exists in both matchLabelKeys and mismatchLabelKeys"
            out.invalid((*at, "matchLabelKeys", index), key, said)


def tolerations(found: Sequence[Part], at: Path, out: Faults) -> None:
    for index, toleration in enumerate(found):
        where, key = (*at, index), toleration.get("key") or ""
        operator, value = toleration.get("operator") or "", toleration.get("value") or ""
        effect = toleration.get("effect") or ""
        if key:
            texts.qualified_name(key, (*where, "key"), out)
        elif operator != "Exists":
            out.invalid((*where, "operator"), operator, _ALL_KEYS)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            said = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            out.invalid((*where, "effect"), effect, said)
        if operator in ("", "Equal"):
            complaints = names.label_value(value)
            if complaints:
                out.invalid((*where, "operator"), value, ";".join(complaints))
        elif operator == "Exists":
            if value:
                out.invalid((*where, "operator"), value, "value must be empty when `operator` is 'Exists'")
        else:
            known = _COMPARISONS if operator in _COMPARISONS else _OPERATORS
            out.unsupported((*where, "operator"), operator, known)
        if effect and effect not in _EFFECTS:
            out.unsupported((*where, "effect"), effect, _EFFECTS)


def taint_effect(effect: str, at: Path, out: Faults) -> None:
    texts.one_of(effect, _EFFECTS, at, out)


def spread_constraints(found: Sequence[Part], at: Path, out: Faults) -> None:
    for index, constraint in enumerate(found):
        where, action = (*at, index), constraint.get("whenUnsatisfiable") or ""
        skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey") or ""
        if skew <= 0:
            out.invalid((*where, "maxSkew"), skew, "must be greater than zero")
        if not key:
            out.required((*where, "topologyKey"), "can not be empty")
        if action not in _ACTIONS:
            out.unsupported((*where, "whenUnsatisfiable"), action, _ACTIONS)
        for other in found[index + 1 :]:
            if (other.get("topologyKey") or "", other.get("whenUnsatisfiable") or "") == (key, action):
                out.duplicate((*where, "{topologyKey, whenUnsatisfiable}"), f"{{{key}, {action}}}")
                break
        _min_domains(constraint.get("minDomains"), action, (*where, "minDomains"), out)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(name)
            if policy is not None and policy not in ("Honor", "Ignore"):
                out.unsupported((*where, name), policy, ("Honor", "Ignore"))
        selector = constraint.get("labelSelector")
        label_keys(constraint.get("matchLabelKeys") or (), (), selector, where, out)
        label_selector_of(selector, (*where, "labelSelector"), out)


def _min_domains(count: int | None, action: str, at: Path, out: Faults) -> None:
    if count is None:
        return
    if count <= 0:
        out.invalid(at, count, "must be greater than zero")
    if action != "DoNotSchedule":
        said = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        out.invalid(at, count, said)
