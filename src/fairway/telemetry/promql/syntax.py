"""Where is a query wrong, in Prometheus' words? And which durations are arithmetic?

promql-parser says neither, so a query that it refuses is read once more here, after the grammar of Prometheus, and the
first thing that is wrong is told with its line and column. Nothing is evaluated from what is read here but durations
(`durations.py`). Types are checked by `checking.py` where the grammar has nothing against a query.

Source: promql/parser/generated_parser.y, parse.go (Prometheus 3.14).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from fairway.kube.goregexp import RegexpError
from fairway.kube.problem import quoted
from fairway.telemetry.promql.lexing import AGGREGATORS, Lexer, Refusal, Word
from fairway.telemetry.promql.signatures import EXPERIMENTAL, EXPERIMENTAL_AGGREGATORS, FUNCTIONS
from fairway.telemetry.store import NAME, Matcher, anchored

_PARAMETERS: Final = ("topk", "bottomk", "count_values", "quantile", *EXPERIMENTAL_AGGREGATORS)
_PRECEDENCE: Final = {
    **dict.fromkeys(("or",), 1),
    **dict.fromkeys(("and", "unless"), 2),
    **dict.fromkeys(("==", "!=", "<=", "<", ">=", ">"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%", "atan2"), 5),
    "^": 6,
}
_POWER: Final = 6
_CALLED: Final = ("start", "end", "step", "range", "max_of", "min_of")
_NO_METRICS: Final = ("bool", "on", "ignoring", "group_left", "group_right", "atan2")
_DURATION_PARTS: Final = (
    (365 * 86_400.0, "y"),
    (7 * 86_400.0, "w"),
    (86_400.0, "d"),
    (3600.0, "h"),
    (60.0, "m"),
    (1.0, "s"),
    (0.001, "ms"),
)
_DURATION: Final = re.compile("".join(rf"(?:([0-9]+){unit})?" for _, unit in _DURATION_PARTS))
_ESCAPE: Final = re.compile(r"\\(?:[0-7]{3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LONGEST_S: Final = (1 << 63) / 1e9


@dataclass(slots=True)
class Duration:
    """`op`: literal, step, range, max_of, min_of, or one of + - * / % ^ with one part or two."""

    op: str
    start: int
    end: int
    seconds: float = 0.0
    parts: tuple[Duration, ...] = ()
    is_positive: bool = False


@dataclass(slots=True)
class Part:
    """A part of a query. `kind`: number, string, selector, range, subquery, paren, unary, binary, aggregation, call."""

    kind: str
    start: int
    end: int
    name: str = ""
    parts: list[Part] = field(default_factory=list)
    matchers: list[Matcher] = field(default_factory=list)
    modifiers: set[str] = field(default_factory=set)
    matching: list[str] = field(default_factory=list)
    include: list[str] = field(default_factory=list)
    operator: int = 0


class Syntax:
    """Reads one query. `durations`: those that are more than a literal, in the order of the text."""

    def __init__(self, text: str, features: frozenset[str]) -> None:
        self._lexer, self._features = Lexer(text), features
        self._next: Word | None = None
        self._last_end = 0
        # Who takes over where nothing further inside knows what to say.
        self._contexts: list[tuple[str, str]] = []
        self.durations: list[Duration] = []

    def read(self) -> Part:
        """Raises: Refusal."""
        if self._peek().kind == "EOF":
            raise Refusal(0, "no expression found in input")
        found = self._expression(0)
        if self._peek().kind != "EOF":
            raise self._unexpected()
        return found

    def _peek(self) -> Word:
        if self._next is None:
            self._next = self._lexer.next()
        return self._next

    def _take(self) -> Word:
        word = self._peek()
        self._next, self._last_end = None, word.end
        return word

    def _unexpected(self, context: str = "", expected: str = "") -> Refusal:
        if not context and self._contexts:
            context, expected = self._contexts[-1]
        said = f"unexpected {self._peek().described()}"
        said += f" in {context}" if context else ""
        said += f", expected {expected}" if expected else ""
        return Refusal(self._peek().start, said)

    @contextmanager
    def _context(self, context: str, expected: str) -> Iterator[None]:
        self._contexts.append((context, expected))
        yield
        self._contexts.pop()

    def _expect(self, kind: str, context: str = "", expected: str = "") -> Word:
        if self._peek().kind != kind:
            raise self._unexpected(context, expected)
        return self._take()

    def _expression(self, least: int) -> Part:
        left = self._unary()
        while (precedence := _PRECEDENCE.get(self._peek().kind, -1)) >= max(least, 1):
            op = self._take()
            part = Part("binary", left.start, 0, op.kind, operator=op.start)
            self._modifiers(part)
            right = self._expression(precedence if op.kind == "^" else precedence + 1)
            part.parts, part.end = [left, right], right.end
            if "fill" in part.modifiers and "promql-binop-fill-modifiers" not in self._features:
                raise Refusal(part.start, "binop fill modifiers are experimental and not enabled")
            left = part
        return left

    def _modifiers(self, part: Part) -> None:
        if self._peek().kind == "bool":
            part.modifiers.add(self._take().kind)
        if self._peek().kind in ("on", "ignoring"):
            part.modifiers.add(self._take().kind)
            part.matching = self._labels()
            if self._peek().kind in ("group_left", "group_right"):
                part.modifiers.add(self._take().kind)
                if self._peek().kind == "(" or not self._begins_expression():
                    part.include = self._labels() if not self._peek().kind.startswith("fill") else []
        sides = {"fill", "fill_left", "fill_right"}
        while self._peek().kind in sides:
            word = self._take()
            part.modifiers.add("fill")
            sides -= {word.kind, "fill"} if word.kind != "fill" else sides
            self._expect("(")
            if self._peek().kind in "+-":
                self._take()
            if self._peek().kind not in ("NUMBER", "DURATION"):
                raise self._unexpected()
            self._literal()
            self._expect(")")

    def _labels(self) -> list[str]:
        found: list[str] = []
        self._expect("(", "grouping opts", '"("')
        while self._peek().kind != ")":
            word = self._peek()
            is_name = word.kind in ("IDENTIFIER", "METRIC_IDENTIFIER", "STRING")
            if not is_name and not word.kind[0].islower():
                raise self._unexpected("grouping opts", "label")
            self._take()
            found.append(_unquoted(word.text) if word.kind == "STRING" else word.text)
            if self._peek().kind == ",":
                self._take()
            elif self._peek().kind != ")":
                raise self._unexpected("grouping opts", '"," or ")"')
        self._take()
        return found

    def _unary(self) -> Part:
        if self._peek().kind not in ("+", "-"):
            return self._postfixed(self._primary())
        op = self._take()
        inner = self._expression(_POWER)
        if inner.kind == "number":
            inner.start = op.start
            return inner
        return Part("unary", op.start, inner.end, op.kind, [inner])

    def _primary(self) -> Part:
        word = self._peek()
        if word.kind == "(":
            self._take()
            inner = self._expression(0)
            return Part("paren", word.start, self._expect(")").end, parts=[inner])
        if word.kind == "STRING":
            self._take()
            return Part("string", word.start, word.end, word.text)
        if word.kind in ("NUMBER", "DURATION"):
            self._literal()
            return Part("number", word.start, word.end)
        if word.kind == "{":
            return self._selector(Part("selector", word.start, 0))
        if not self._begins_expression():
            raise self._unexpected()
        self._take()
        after = self._peek().kind
        if word.kind in AGGREGATORS and after in ("(", "by", "without"):
            return self._aggregation(word)
        if after == "(" and (word.kind == "IDENTIFIER" or word.kind in _CALLED):
            return self._call(word)
        part = Part("selector", word.start, word.end, word.text)
        return self._selector(part) if after == "{" else part

    def _aggregation(self, op: Word) -> Part:
        part = Part("aggregation", op.start, 0, op.kind)
        with self._context("aggregation", ""):
            if self._peek().kind != "(":
                self._take()
                part.matching = self._labels()
                part.parts = self._arguments()
            else:
                part.parts = self._arguments()
        if not part.matching and self._peek().kind in ("by", "without"):
            self._take()
            part.matching = self._labels()
        part.end = self._last_end
        if not part.parts:
            raise Refusal(part.start, "no arguments for aggregate expression provided")
        if op.kind in EXPERIMENTAL_AGGREGATORS and "promql-experimental-functions" not in self._features:
            flag = "--enable-feature=promql-experimental-functions"
            raise Refusal(part.start, f"{op.kind}() is experimental and must be enabled with {flag}")
        wanted = 2 if op.kind in _PARAMETERS else 1
        if len(part.parts) != wanted:
            said = "wrong number of arguments for aggregate expression provided"
            raise Refusal(part.start, f"{said}, expected {wanted}, got {len(part.parts)}")
        return part

    def _call(self, name: Word) -> Part:
        part = Part("call", name.start, 0, name.text if name.kind == "IDENTIFIER" else name.kind)
        part.parts = self._arguments()
        part.end = self._last_end
        if part.name not in FUNCTIONS:
            raise Refusal(part.start, f"unknown function with name {quoted(name.text)}")
        if part.name in EXPERIMENTAL and "promql-experimental-functions" not in self._features:
            raise Refusal(part.start, f"function {quoted(name.text)} is not enabled")
        return part

    def _arguments(self) -> list[Part]:
        found: list[Part] = []
        self._expect("(")
        while self._peek().kind != ")":
            found.append(self._expression(0))
            if self._peek().kind == ",":
                comma = self._take()
                if not self._begins_expression():
                    raise Refusal(comma.start, "trailing commas not allowed in function call args")
            elif self._peek().kind != ")":
                raise self._unexpected()
        self._take()
        return found

    def _begins_expression(self) -> bool:
        word = self._peek()
        if word.kind in (
            "IDENTIFIER",
            "METRIC_IDENTIFIER",
            "STRING",
            "NUMBER",
            "DURATION",
            "(",
            "{",
            "+",
            "-",
        ):
            return True
        return word.kind[0].islower() and word.kind not in _NO_METRICS

    def _selector(self, part: Part) -> Part:
        """Its matchers. Raises: Refusal."""
        self._take()
        while self._peek().kind != "}":
            name = self._peek()
            if name.kind not in ("IDENTIFIER", "STRING"):
                raise self._unexpected("label matching", 'identifier or "}"')
            self._take()
            op = self._peek()
            if op.kind in ("=", "!=", "=~", "!~"):
                self._take()
                value = self._expect("STRING", "label matching", "string")
                label = _unquoted(name.text) if name.kind == "STRING" else name.text
                part.matchers.append(Matcher(label, op.kind, _unquoted(value.text)))
                _check_pattern(part.matchers[-1], name.start)
            elif name.kind == "STRING":
                part.matchers.append(Matcher(NAME, "=", _unquoted(name.text)))
            else:
                raise self._unexpected("label matching", "label matching operator")
            if self._peek().kind == ",":
                self._take()
            elif self._peek().kind != "}":
                raise self._unexpected("label matching", '"," or "}"')
        part.end = self._take().end
        return part

    def _postfixed(self, part: Part) -> Part:
        while True:
            match self._peek().kind:
                case "[":
                    part = self._ranged(part)
                case "offset":
                    self._take()
                    with self._context("offset", "number, duration, step(), or range()"):
                        self._note(self._offset())
                    self._once(part, "offset", "offset may not be set multiple times")
                case "@":
                    self._take()
                    self._at()
                    self._once(part, "@", "@ <timestamp> may not be set multiple times")
                case "anchored" | "smoothed":
                    word = self._take()
                    if "promql-extended-range-selectors" not in self._features:
                        raise Refusal(part.start, f"{word.kind} modifier is experimental and not enabled")
                case _:
                    return part

    def _once(self, part: Part, modifier: str, said: str) -> None:
        if part.kind not in ("selector", "range", "subquery"):
            must = "must be preceded by an instant vector selector or range vector selector or a subquery"
            raise Refusal(part.start, f"{modifier} modifier {must}")
        if modifier in part.modifiers:
            raise Refusal(part.start, said)
        part.modifiers.add(modifier)
        part.end = self._last_end

    def _at(self) -> None:
        word = self._peek()
        if word.kind in ("start", "end"):
            self._take()
            self._expect("(", "@", "timestamp")
            self._expect(")", "@", "timestamp")
            return
        if word.kind in ("+", "-"):
            self._take()
        if self._peek().kind not in ("NUMBER", "DURATION"):
            raise self._unexpected("@", "timestamp")
        self._literal()

    def _ranged(self, part: Part) -> Part:
        bracket = self._take()
        selector = "subquery or range selector", "number, duration, step(), or range()"
        with self._context(*selector):
            self._positive()
        if self._peek().kind == ":":
            self._take()
            with self._context("subquery selector", 'number, duration, step(), range(), or "]"'):
                if self._peek().kind != "]":
                    self._positive()
            end = self._expect("]", "subquery selector", '"]"').end
            return Part("subquery", part.start, end, parts=[part])
        end = self._expect("]", "subquery or range", '":" or "]"').end
        if part.kind != "selector":
            raise Refusal(bracket.start, "ranges only allowed for vector selectors")
        for modifier in ("offset", "@"):
            if modifier in part.modifiers:
                word = f"{modifier} modifiers"
                raise Refusal(bracket.start, f"no {word} allowed before range")
        return Part("range", part.start, end, parts=[part])

    def _positive(self) -> None:
        found = self._duration(0)
        if found.op == "literal" and found.seconds <= 0:
            raise Refusal(found.start, "duration must be greater than 0")
        found.is_positive = True
        self._note(found)

    def _note(self, found: Duration) -> None:
        is_signed = found.op == "-" and len(found.parts) == 1 and found.parts[0].op == "literal"
        if found.op != "literal" and not is_signed:
            self.durations.append(found)

    def _offset(self) -> Duration:
        """Without parentheses one sign and one operand: what comes behind it is of the query."""
        sign = self._peek()
        if sign.kind not in ("+", "-"):
            return self._operand()
        self._take()
        inner = self._operand()
        return Duration(sign.kind, sign.start, inner.end, parts=(inner,))

    def _duration(self, least: int) -> Duration:
        word = self._peek()
        if word.kind in ("+", "-"):
            self._take()
            inner = self._duration(_POWER)
            left = Duration(word.kind, word.start, inner.end, parts=(inner,))
            if inner.op == "literal":
                sign = -1 if word.kind == "-" else 1
                left = Duration("literal", word.start, inner.end, sign * inner.seconds)
        else:
            left = self._operand()
        while (op := self._peek()).kind in ("+", "-", "*", "/", "%", "^") and _PRECEDENCE[op.kind] >= least:
            self._take()
            right = self._duration(_PRECEDENCE[op.kind] + (op.kind != "^"))
            if op.kind in "/%" and right.op == "literal" and not right.seconds:
                raise Refusal(op.start, "division by zero" if op.kind == "/" else "modulo by zero")
            left = Duration(op.kind, left.start, right.end, parts=(left, right))
        return left

    def _operand(self) -> Duration:
        word = self._peek()
        if word.kind in ("NUMBER", "DURATION"):
            seconds = self._literal()
            if abs(seconds) > _LONGEST_S:
                raise Refusal(word.start, "duration out of range")
            return Duration("literal", word.start, word.end, seconds)
        if word.kind == "(":
            self._take()
            inner = self._duration(0)
            return Duration("+", word.start, self._expect(")").end, parts=(inner,))
        if word.kind in ("step", "range"):
            self._take()
            self._expect("(")
            return Duration(word.kind, word.start, self._expect(")").end)
        if word.kind in ("max_of", "min_of"):
            self._take()
            self._expect("(")
            first = self._duration(0)
            self._expect(",")
            second = self._duration(0)
            return Duration(word.kind, word.start, self._expect(")").end, parts=(first, second))
        raise self._unexpected()

    def _literal(self) -> float:
        word = self._take()
        if word.kind == "NUMBER":
            text = word.text.replace("_", "")
            try:
                return float(int(text, 16)) if text[:2].lower() == "0x" else float(text)
            except (ValueError, OverflowError):
                why = f"strconv.ParseFloat: parsing {quoted(word.text)}: invalid syntax"
                raise Refusal(word.start, f"error parsing number: {why}") from None
        found = _DURATION.fullmatch(word.text)
        if found is None:
            raise Refusal(word.start, f"not a valid duration string: {quoted(word.text)}")
        numbers = zip(found.groups(), _DURATION_PARTS, strict=True)
        # Digits without end are infinite, not an error of ours.
        seconds = sum(float(number) * unit for number, (unit, _) in numbers if number)
        if seconds > _LONGEST_S:
            raise Refusal(word.start, "duration out of range")
        return seconds


def _check_pattern(matcher: Matcher, place: int) -> None:
    if matcher.op in ("=~", "!~"):
        try:
            anchored(matcher.value)
        except RegexpError as wrong:
            raise Refusal(place, str(wrong).replace("\\z`", "$`")) from None


def _unquoted(text: str) -> str:
    """Of a text in quotes. The lexer has seen that its escapes are well."""
    if text[0] == "`" or "\\" not in text:
        return text[1:-1]
    return _ESCAPE.sub(lambda found: _escaped(found.group()[1:]), text[1:-1])


def _escaped(said: str) -> str:
    if said[0] in "01234567":
        return chr(int(said, 8))
    return chr(int(said[1:], 16)) if said[0] in "xuU" else _ESCAPED.get(said, said)
