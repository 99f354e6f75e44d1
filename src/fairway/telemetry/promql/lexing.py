"""A query's text as words with their places, and what Prometheus' lexer says of characters that make none.

Source: promql/parser/lex.go (Prometheus 3.14).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from fairway.kube.problem import quoted

AGGREGATORS: Final = frozenset(
    (
        *("sum", "avg", "count", "min", "max", "group", "stddev", "stdvar"),
        *("topk", "bottomk", "count_values", "quantile", "limitk", "limit_ratio"),
    )
)
KEYWORDS: Final = frozenset(
    (
        *("offset", "smoothed", "anchored", "by", "without", "on", "ignoring"),
        *("group_left", "group_right", "bool", "fill", "fill_left", "fill_right"),
    )
)
_PREPROCESSORS: Final = frozenset(("start", "end", "step", "range", "max_of", "min_of"))
_WORD_OPERATORS: Final = frozenset(("and", "or", "unless", "atan2"))
_RESERVED: Final = AGGREGATORS | KEYWORDS | _PREPROCESSORS | _WORD_OPERATORS
_OPERATORS: Final = frozenset(
    ("+", "-", "*", "/", "%", "^", "@", "==", "!=", "<=", "<", ">=", ">", "=~", "!~")
)
_IN_DURATIONS: Final = ("step", "range", "max_of", "min_of")
_FILLS: Final = ("fill", "fill_left", "fill_right")
_NAMED: Final = {
    "IDENTIFIER": "identifier ",
    "METRIC_IDENTIFIER": "metric identifier ",
    "STRING": "string ",
    "NUMBER": "number ",
    "DURATION": "duration ",
}
_SIGNS: Final = {
    True: re.compile(r"=~|!~|!=|[=,{}]"),
    False: re.compile(r"==|!=|<=|>=|[-+*/%^<>=,@()\[\]{}]"),
}
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME: Final = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LETTERS: Final = re.compile(r"[A-Za-z_]*")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_ALPHANUMERIC: Final = re.compile(r"[A-Za-z0-9_]")
# Behind the digits; the group is there where digits lack their unit.
_UNITS: Final = re.compile(r"[smhdwy]s?(?:[0-9]+[smhdw]s?)*([0-9]+)?")
_ESCAPES: Final = {"x": (2, 255, 16), "u": (4, 0x10FFFF, 16), "U": (8, 0x10FFFF, 16)}


class Refusal(Exception):
    """What is wrong, and at which character."""

    def __init__(self, place: int, said: str) -> None:
        super().__init__(said)
        self.place, self.said = place, said


class Word(NamedTuple):
    """`kind`: IDENTIFIER, METRIC_IDENTIFIER, STRING, NUMBER, DURATION, EOF; signs and keywords are their own."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def described(self) -> str:
        """As Prometheus names what it did not expect."""
        if self.kind == "EOF":
            return "end of input"
        if self.kind in _OPERATORS or self.kind in _WORD_OPERATORS:
            return f"<op:{self.text}>"
        if self.kind in KEYWORDS:
            return f"<{self.text}>"
        if self.kind in AGGREGATORS:
            return f"<aggr:{self.text}>"
        is_name = self.kind in ("IDENTIFIER", "METRIC_IDENTIFIER")
        shown = (
            quoted(self.text) if is_name or len(self.text.encode()) <= 10 else f"{quoted(self.text[:10])}..."
        )
        return _NAMED.get(self.kind, "") + shown


class Lexer:
    """Words one after another; a Refusal where there is none."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.depth = 0
        self.in_braces = self.in_brackets = False
        # In a bracket before its first number other characters are allowed than behind it.
        self._before_number = self._has_number = self._has_colon = False

    def next(self) -> Word:
        """Raises: Refusal."""
        self._skip()
        text, start = self.text, self.at
        if start >= len(text):
            return self._end()
        sign = text[start]
        if sign in "\"'`":
            return self._string(sign)
        if self.in_braces:
            return self._in_braces(sign)
        if sign.isascii() and (sign.isdigit() or (sign == "." and text[start + 1 : start + 2].isdigit())):
            return self._number()
        if self.in_brackets and (sign == ":" or (sign.isascii() and (sign.isalpha() or sign == "_"))):
            return self._in_brackets(sign)
        if found := _NAME.match(text, start):
            return self._name(found.group())
        return self._sign(sign)

    def _skip(self) -> None:
        while True:
            found = _SPACE.match(self.text, self.at)
            assert found is not None
            self.at = found.end()
            # Before a bracket's first number Prometheus reads no comment.
            if not self.text.startswith("#", self.at) or self._before_number:
                return
            ends = [at for sign in "\r\n" if (at := self.text.find(sign, self.at)) >= 0]
            self.at = min(ends, default=len(self.text))

    def _end(self) -> Word:
        if self.in_braces:
            raise Refusal(self.at, "unexpected end of input inside braces")
        if self.in_brackets and self._before_number:
            raise Refusal(self.at, "unexpected end of input in duration expression")
        if self.depth:
            raise Refusal(self.at, "unclosed left parenthesis")
        if self.in_brackets:
            raise Refusal(self.at, "unclosed left bracket")
        return Word("EOF", "", self.at)

    def _word(self, kind: str, text: str) -> Word:
        word = Word(kind, text, self.at)
        self.at += len(text)
        return word

    def _in_braces(self, sign: str) -> Word:
        if found := _WORD.match(self.text, self.at):
            return self._word("IDENTIFIER", found.group())
        signs = _SIGNS[True].match(self.text, self.at)
        if sign == "{":
            raise Refusal(self.at, f"unexpected left brace {_rune(sign)}")
        if sign == "!" and signs is None:
            after = self.text[self.at + 1 : self.at + 2]
            raise Refusal(self.at, f"unexpected character after '!' inside braces: {_rune(after)}")
        if signs is None:
            raise Refusal(self.at, f"unexpected character inside braces: {_rune(sign)}")
        self.in_braces = sign != "}"
        return self._word(signs.group(), signs.group())

    def _in_brackets(self, sign: str) -> Word:
        """A colon, or one of the words that durations know."""
        if sign == ":":
            is_first = self._before_number and not self._has_number
            if is_first or self._has_colon:
                said = f"unexpected colon {_rune(sign)}"
                if self._before_number:
                    said = (
                        "unexpected colon before duration in duration expression"
                        if is_first
                        else "unexpected repeated colon in duration expression"
                    )
                raise Refusal(self.at + self._before_number, said)
            self._has_colon = True
            return self._word(":", ":")
        found = _LETTERS.match(self.text, self.at)
        assert found is not None
        if found.group().lower() in _IN_DURATIONS:
            return self._word(found.group().lower(), found.group())
        said = f"unexpected character in duration expression: {_rune(sign)}"
        if not self._before_number:
            said = f"unexpected character: {_rune(sign)}, expected ':'"
        raise Refusal(self.at, said)

    def _name(self, word: str) -> Word:
        kind = word.lower()
        if kind in ("inf", "nan"):
            return self._word("NUMBER", word)
        is_fill = kind in _FILLS
        if kind in _RESERVED and not (
            is_fill and self.text[self.at + len(word) :].lstrip(" \t\r\n")[:1] != "("
        ):
            return self._word(kind, word)
        return self._word("METRIC_IDENTIFIER" if ":" in word else "IDENTIFIER", word)

    def _number(self) -> Word:
        """A number, or a duration: what a number could begin, and units."""
        self._before_number, self._has_number = False, True
        end, is_number = self._scan_number(self.at)
        if is_number:
            return self._word("NUMBER", self.text[self.at : end])
        if units := _UNITS.match(self.text, end):
            end = units.end()
            # A number without a unit behind it, or a letter that is none.
            if units.group(1) is None and not _ALPHANUMERIC.match(self.text, end):
                return self._word("DURATION", self.text[self.at : end])
            end += units.group(1) is None
        raise Refusal(self.at, f"bad number or duration syntax: {quoted(self.text[self.at : end])}")

    def _scan_number(self, at: int) -> tuple[int, bool]:
        """Where the digits, points, exponents and underscores end, and whether they are a number by their looks."""
        text, digits = self.text, "0123456789"
        if text[at] == "0" and text[at + 1 : at + 2] in ("x", "X"):
            at, digits = at + 2, digits + "abcdefABCDEF"
            at += text.startswith("_", at)
        seen: set[str] = set()
        while at < len(text) and (sign := text[at]) in f"{digits}._eE":
            at += 1
            if sign in digits:
                continue
            if sign in seen and sign != "_":
                return at, False
            seen |= {"e", "E"} if sign in "eE" else {sign}
            if sign in "eE" and text[at : at + 1] in ("+", "-"):
                at += 1
            after = text[at : at + 1]
            if after and after in ("_." if sign == "." else "._eE"):
                return at + 1, False
            if (not after and sign != ".") or (sign == "." and len(digits) > 10):
                return at, False
        return at, not _ALPHANUMERIC.match(text, at)

    def _sign(self, sign: str) -> Word:
        found = _SIGNS[False].match(self.text, self.at)
        if sign == "!" and (found is None or found.group() != "!="):
            after = self.text[self.at + 1 : self.at + 2]
            raise Refusal(self.at, f"unexpected character after '!': {_rune(after)}")
        if self.text.startswith("=~", self.at):
            raise Refusal(self.at, "unexpected character after '=': '~'")
        if found is None or sign == "}":
            place = " in duration expression" if self.in_brackets and self._before_number else ""
            raise Refusal(self.at, f"unexpected character{place}: {_rune(sign)}")
        if sign == "[" and self.in_brackets:
            raise Refusal(self.at, f"unexpected left bracket {_rune(sign)}")
        if sign == "]" and not self.in_brackets:
            raise Refusal(self.at, f"unexpected right bracket {_rune(sign)}")
        if sign == ")" and not self.depth:
            # Said of what comes behind it: the parenthesis itself is a word already.
            raise Refusal(self.at + 1, f"unexpected right parenthesis {_rune(sign)}")
        self.depth += (sign == "(") - (sign == ")")
        self.in_braces = sign == "{"
        if sign in "[]":
            self.in_brackets = self._before_number = sign == "["
            self._has_number = self._has_colon = False
        return self._word(found.group(), found.group())

    def _string(self, quote: str) -> Word:
        text, at = self.text, self.at + 1
        raw = quote == "`"
        while at < len(text) and text[at] != quote and (raw or text[at] != "\n"):
            if text[at] == "\\" and not raw:
                at = self._escape(at + 1, quote)
            else:
                at += 1
        if at >= len(text) or text[at] != quote:
            raise Refusal(self.at, "unterminated raw string" if raw else "unterminated quoted string")
        return self._word("STRING", text[self.at : at + 1])

    def _escape(self, at: int, quote: str) -> int:
        """Where it ends."""
        sign = self.text[at : at + 1]
        if not sign:
            raise Refusal(self.at, "escape sequence not terminated")
        if sign in "abfnrtv\\" or sign == quote:
            return at + 1
        if sign in "01234567":
            count, most, base = 3, 255, 8
        elif sign in _ESCAPES:
            (count, most, base), at = _ESCAPES[sign], at + 1
        else:
            raise Refusal(self.at, f"unknown escape sequence U+{ord(sign):04X} {_rune(sign)}")
        digits = self.text[at : at + count]
        for digit in digits:
            if digit.lower() not in "0123456789abcdef"[:base]:
                raise Refusal(
                    self.at, f"illegal character U+{ord(digit):04X} {_rune(digit)} in escape sequence"
                )
        if len(digits) < count:
            raise Refusal(self.at, "escape sequence not terminated")
        if int(digits, base) > most or 0xD800 <= int(digits, base) < 0xE000:
            raise Refusal(self.at, "escape sequence is an invalid Unicode code point")
        return at + count


def _rune(sign: str) -> str:
    """A character as Go's %q writes it."""
    if not sign:
        return "'\ufffd'"
    return {"'": "'\\''", '"': "'\"'", "\n": "'\\n'"}.get(sign, f"'{quoted(sign)[1:-1]}'")
