"""Label selectors as text: `app=web,tier in (a,b),!canary,size>3`, refused in Go's words.

Source: apimachinery pkg/labels/selector.go Lexer, Parser, NewRequirement (v1.36).
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from fairway.kube import names
from fairway.kube.integers import integer
from fairway.kube.labels import (
    DOES_NOT_EXIST,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    Requirement,
    Selector,
    SelectorError,
)

_SPECIAL: Final = frozenset("=!(),><")
_BLANK: Final = frozenset(" \t\r\n")
_SYMBOLS: Final = frozenset((")", ",", "!", "==", "=", ">", "<", "!=", "("))
_OPERATORS: Final = {"in": IN, "notin": NOT_IN, "=": IN, "==": IN, "!=": NOT_IN, ">": GT, "<": LT}
_EXPECTED: Final = "in, notin, =, ==, !=, gt, lt"
# What a token is, besides the symbol itself.
_NAME, _END = "name", "end"


class _Token(NamedTuple):
    kind: str
    text: str


def parse_selector(text: str) -> Selector:
    """Raises: SelectorError."""
    return Selector(tuple(sorted(_Parser(_tokens(text)).requirements())))


def _tokens(text: str) -> list[_Token]:
    out: list[_Token] = []
    at = 0
    while True:
        while at < len(text) and text[at] in _BLANK:
            at += 1
        if at >= len(text):
            return [*out, _Token(_END, "")]
        start = at
        if text[at] in _SPECIAL:
            while at < len(text) and text[at] in _SPECIAL and text[start : at + 1] in _SYMBOLS:
                at += 1
            out.append(_Token(text[start:at], text[start:at]))
            continue
        while at < len(text) and text[at] not in _SPECIAL and text[at] not in _BLANK:
            at += 1
        out.append(_Token(_NAME, text[start:at]))


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def _ahead(self) -> _Token:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _next(self) -> _Token:
        token = self._ahead()
        self._at += 1
        return token

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            token = self._ahead()
            if token.kind == _END:
                return found
            if token.kind not in (_NAME, "!"):
                raise SelectorError(f"found '{token.text}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except SelectorError as wrong:
                raise SelectorError(f"unable to parse requirement: {wrong}") from None
            token = self._next()
            if token.kind == _END:
                return found
            if token.kind != ",":
                raise SelectorError(f"found '{token.text}', expected: ',' or 'end of string'")
            after = self._ahead()
            if after.kind not in (_NAME, "!"):
                raise SelectorError(f"found '{after.text}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        token = self._next()
        is_absent = token.kind == "!"
        if is_absent:
            token = self._next()
        if token.kind != _NAME:
            raise SelectorError(f"found '{token.text}', expected: identifier")
        key = token.text
        wrong = names.label_key(key)
        if wrong:
            raise SelectorError(f"<nil>: Invalid value: {json.dumps(key)}: {'; '.join(wrong)}")
        if is_absent:
            return Requirement(key, DOES_NOT_EXIST, ())
        if self._ahead().kind in (_END, ","):
            return Requirement(key, EXISTS, ())
        token = self._next()
        operator = _OPERATORS.get(token.text)
        if operator is None:
            raise SelectorError(f"found '{token.text}', expected: {_EXPECTED}")
        values = self._values() if token.text in ("in", "notin") else {self._value()}
        return _checked(key, operator, tuple(sorted(values)))

    def _value(self) -> str:
        if self._ahead().kind in (_END, ","):
            return ""
        token = self._next()
        if token.kind != _NAME:
            raise SelectorError(f"found '{token.text}', expected: identifier")
        return token.text

    def _values(self) -> set[str]:
        token = self._next()
        if token.kind != "(":
            raise SelectorError(f"found '{token.text}' expected: '('")
        token = self._ahead()
        if token.kind == ")":
            self._next()
            return {""}
        if token.kind not in (_NAME, ","):
            raise SelectorError(f"found '{token.text}', expected: ',', ')' or identifier")
        found = self._listed()
        if self._next().kind != ")":
            raise SelectorError(f"found '{token.text}', expected: ')'")
        return found

    def _listed(self) -> set[str]:
        found: set[str] = set()
        while True:
            token = self._next()
            after = self._ahead()
            if token.kind == _NAME:
                found.add(token.text)
                if after.kind == ")":
                    return found
                if after.kind != ",":
                    raise SelectorError(f"found '{after.text}', expected: ',' or ')'")
            elif token.kind == ",":
                if not found or after.kind in (")", ","):
                    found.add("")
                if after.kind == ")":
                    return found
            else:
                raise SelectorError(f"found '{token.text}', expected: ',', or identifier")


def _checked(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    found: list[str] = []
    for index, value in enumerate(values):
        if operator in (GT, LT) and integer(value) is None:
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            found.append(f"values[{index}]: Invalid value: {json.dumps(value)}: {why}")
    for index, value in enumerate(values):
        wrong = names.label_value(value)
        if wrong:
            found.append(f"values[{index}][{key}]: Invalid value: {json.dumps(value)}: {'; '.join(wrong)}")
    found = list(dict.fromkeys(found))
    if found:
        raise SelectorError(found[0] if len(found) == 1 else f"[{', '.join(found)}]")
    return Requirement(key, operator, values)
