"""The words, numbers and signs of an assertion, each with its column."""

from __future__ import annotations

import re
from typing import NamedTuple

WORD, NUMBER, TEXT, OBJECT, SIGN, END = "word", "number", "text", "object", "sign", "end"

_SPAN = r"\d+(?:\.\d+)?(?:ns|us|µs|ms|[smhdw])(?![A-Za-z])"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<text>"[^"\n]*"|'[^'\n]*')
    | (?P<object>[A-Za-z][\w.-]*(?:/[\w.*?\[\]-]+)+)
    | (?P<number>(?:{_SPAN})+|\d+(?:\.\d+)?(?:[KMGTPE]i(?![A-Za-z]))?)
    | (?P<word>p\d+(?:\.\d+)?(?![\w.])|[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>==|!=|<=|>=|[<>(),%])
    )""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """`column` is 1-based in the assertion's text. The text of a quoted TEXT is without its quotes."""

    kind: str
    text: str
    column: int


class TokenError(ValueError):
    """A character that belongs nowhere."""

    def __init__(self, column: int, text: str, expected: str) -> None:
        self.column, self.text, self.expected = column, text, expected
        super().__init__(f"{column}: {text}: {expected}")


def tokens(text: str) -> list[Token]:
    """All of them, END last.

    Raises: TokenError.
    """
    found = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise TokenError(start + 1, text[start : start + 12], _hint(text[start:]))
        kind = match.lastgroup or END
        raw = match[kind]
        found.append(Token(kind, raw[1:-1] if kind == TEXT else raw, match.start(kind) + 1))
        at = match.end()
    found.append(Token(END, "", len(text.rstrip()) + 1))
    return found


def _hint(rest: str) -> str:
    if rest[:1] in "\"'":
        return "expected a closing quote"
    if rest[:1] == "=":
        return "expected == to compare"
    if rest[:1] in "&|!":
        return "expected and, or, not"
    if rest[:1] in "+-*/":
        return "expected no arithmetic: compare a measure with a value"
    return "expected a word, a number, text in quotes or one of == != < <= > >= ( ) ,"
