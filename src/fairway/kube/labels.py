"""Label and field selectors: does this set of labels match?

A compiled selector is hashable and canonical, so equal selectors are one key wherever something is counted
per selector. Source: apimachinery pkg/labels, metav1.LabelSelectorAsSelector (v1.34).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
GT = "Gt"
LT = "Lt"


class Requirement(NamedTuple):
    """One condition on one label. `values` is sorted."""

    key: str
    operator: str
    values: tuple[str, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        op = self.operator
        if op == IN:
            return value is not None and value in self.values
        if op == NOT_IN:
            return value is None or value not in self.values
        if op == EXISTS:
            return value is not None
        if op == DOES_NOT_EXIST:
            return value is None
        return _compare(op, value, self.values)


def _compare(op: str, value: str | None, values: tuple[str, ...]) -> bool:
    """Gt and Lt: both sides must be integers, or it does not match."""
    if value is None or len(values) != 1:
        return False
    if not re.fullmatch(r"[+-]?[0-9]+", value) or not re.fullmatch(r"[+-]?[0-9]+", values[0]):
        return False
    return int(value) > int(values[0]) if op == GT else int(value) < int(values[0])


class Selector(NamedTuple):
    """All requirements must hold; none at all matches everything. `nothing` matches nothing (a null selector)."""

    requirements: tuple[Requirement, ...]
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        for requirement in self.requirements:  # noqa: SIM110 - a generator costs more than what it goes through
            if not requirement.matches(labels):
                return False
        return True

    def __str__(self) -> str:
        return ",".join(_requirement_text(r) for r in self.requirements)


EVERYTHING = Selector(())
NOTHING = Selector((), nothing=True)


def _requirement_text(r: Requirement) -> str:
    if r.operator == EXISTS:
        return r.key
    if r.operator == DOES_NOT_EXIST:
        return f"!{r.key}"
    if r.operator in (IN, NOT_IN):
        if r.operator == IN and len(r.values) == 1:
            return f"{r.key}={r.values[0]}"
        return f"{r.key} {'in' if r.operator == IN else 'notin'} ({','.join(r.values)})"
    return f"{r.key}{'>' if r.operator == GT else '<'}{r.values[0]}"


def label_selector(raw: Mapping[str, Any] | None) -> Selector:
    """A `metav1.LabelSelector`. None matches nothing; `{}` matches everything."""
    if raw is None:
        return NOTHING
    requirements = [Requirement(k, IN, (v,)) for k, v in (raw.get("matchLabels") or {}).items()]
    requirements.extend(
        Requirement(e.get("key", ""), e.get("operator", ""), tuple(sorted(e.get("values") or ())))
        for e in raw.get("matchExpressions") or ()
    )
    return Selector(tuple(sorted(requirements)))


def set_selector(raw: Mapping[str, str] | None) -> Selector:
    """A plain map (`nodeSelector`, a Service's selector): every pair must be there."""
    return Selector(tuple(sorted(Requirement(k, IN, (v,)) for k, v in (raw or {}).items())))


class SelectorError(ValueError):
    """Not a selector."""


class FieldTerm(NamedTuple):
    path: str
    negated: bool
    value: str


# Source: apimachinery pkg/fields selector.go splitTerms, splitTerm, UnescapeValue.
_FIELD_PART = re.compile(r"(?:[^,\\]|\\.?)+", re.DOTALL)
_FIELD_TERM = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)
_FIELD_ESCAPED = re.compile(r"\\(.?)|([,=])", re.DOTALL)


def parse_field_selector(text: str) -> tuple[FieldTerm, ...]:
    """`status.phase=Running,spec.nodeName!=n1`; values have a backslash before their commas, equals signs, backslashes.

    Raises: SelectorError.
    """
    terms = []
    for part in sorted(_FIELD_PART.findall(text)):
        m = _FIELD_TERM.fullmatch(part)
        if m is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        terms.append(FieldTerm(m[1], m[2] == "!=", _FIELD_ESCAPED.sub(_unescaped, m[3])))
    return tuple(terms)


def _unescaped(found: re.Match[str]) -> str:
    if found[2]:
        raise SelectorError(f"invalid field selector: unescaped character in value: {ord(found[2])}")
    if found[1] not in (",", "=", "\\"):
        raise SelectorError(f"invalid field selector: invalid escape sequence: \\{found[1]}")
    return found[1]


def matches_fields(terms: tuple[FieldTerm, ...], obj: Mapping[str, Any]) -> bool:
    """Absent fields read as the empty string, booleans as true/false."""
    return all((_field_text(obj, t.path) == t.value) != t.negated for t in terms)


def _field_text(obj: Any, path: str) -> str:
    for step in path.split("."):
        obj = obj.get(step) if isinstance(obj, Mapping) else None
    if obj is None:
        return ""
    if isinstance(obj, bool):
        return "true" if obj else "false"
    return str(obj)
