"""From the text of an assertion to the grammar, with every name and unit checked.

assertion  = ["always"] measure operator value {window | where}
           | "eventually" object state ["within" duration | "before" duration]
           | "never" object state
           | "alert" name "fires" [for] {window | where}
           | "no" "alert" [name] ["of" "severity" name] [for] {window | where}
for        = "for" label name
measure    = metric [statistic] | ("count" | "share") "(" set ")"
statistic  = "mean" | "min" | "max" | "total" | "p" number
window     = "between" duration "and" duration | "after" duration | "before" duration
where      = "where" condition
condition  = group {"or" group}            group = test {"and" test}
test       = ["not"] ("(" condition ")" | field operator value | field ["not"] "in" "(" value {"," value} ")"
           | field ["not"] "like" text)
field      = word | "label" "(" text ")"
object     = kind "/" [namespace "/"] name      (* and ? are wildcards in names)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fairway.errors import FairwayError
from fairway.kube.fieldpath import path_text
from fairway.kube.kinds import find_kind, kind_of_unknown
from fairway.kube.located import Field, PlacedProblem, did_you_mean
from fairway.kube.quantity import QuantityError, whole_ceil
from fairway.kube.timestamps import parse_duration
from fairway.scenario.assertions import grammar, vocabulary
from fairway.scenario.assertions.grammar import (
    EQUAL,
    EVENTUALLY,
    GREATER_EQUAL,
    IN,
    LIKE,
    NEVER,
    NOT_IN,
    OPERATORS,
    REPLICAS,
    All,
    Assertion,
    Comparison,
    Condition,
    Either,
    FieldTest,
    Not,
    Reaching,
    Window,
)
from fairway.scenario.assertions.tokens import (
    END,
    NUMBER,
    OBJECT,
    SIGN,
    TEXT,
    WORD,
    Token,
    TokenError,
    tokens,
)
from fairway.scenario.assertions.vocabulary import (
    ALERTS,
    BYTES,
    CLUSTER,
    COUNT,
    CPUS,
    DURATION,
    FIELDS,
    FLAG,
    GPUS,
    LABEL,
    METRICS,
    QUEUES,
    QUOTAS,
    RATIO,
    SETS,
    STATISTICS,
    FieldOf,
)

_WORDS_AFTER = ("between", "after", "before", "where")
_EXAMPLES = {
    DURATION: "a duration such as 10m or 1h30m",
    RATIO: "a percentage such as 60%",
    COUNT: "a number such as 3",
    GPUS: "a number of GPUs such as 12 GPUs",
    CPUS: "a number of CPUs such as 64 CPUs",
    BYTES: "an amount of memory such as 64Gi",
    vocabulary.TEXT: 'text in quotes such as "prod"',
    FLAG: "true or false",
}


class BadAssertion(FairwayError):
    """Text that is no assertion: where (1-based column), what stood there, what is expected."""

    exit_code = 2

    def __init__(self, column: int, value: str, expected: str) -> None:
        self.column, self.value, self.expected = column, value, expected
        super().__init__(f"column {column}: {value}: {expected}" if value else f"column {column}: {expected}")


def read_assertion(field: Field, text: str, name: str = "") -> Assertion | None:
    """The assertion a field holds; what is wrong is noted with file, line and column."""
    try:
        body = parse(text)
    except BadAssertion as wrong:
        found = field.problem(wrong.expected, wrong.value)
        column = field.reading.column_of(found.line, text) + wrong.column
        placed = PlacedProblem(found.file, found.line, found.path, found.value, wrong.expected, "", column)
        field.reading.problems.append(placed)
        return None
    return Assertion(text, body, name, field.where(), path_text(field.path))


def parse(text: str) -> Comparison | Reaching:
    """Raises: BadAssertion."""
    try:
        parser = _Parser(tokens(text))
    except TokenError as wrong:
        raise BadAssertion(wrong.column, wrong.text, wrong.expected) from None
    found = parser.assertion()
    parser.end()
    return found


class _Parser:
    """Recursive descent; one token of look-ahead."""

    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0

    # Tokens

    @property
    def token(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self.token
        if token.kind != END:
            self._at += 1
        return token

    def _is_word(self, *words: str) -> bool:
        return self.token.kind == WORD and self.token.text in words

    def _take_word(self, *words: str) -> str:
        return self._next().text if self._is_word(*words) else ""

    def _take_sign(self, *signs: str) -> str:
        return self._next().text if self.token.kind == SIGN and self.token.text in signs else ""

    def _need_sign(self, sign: str) -> None:
        if not self._take_sign(sign):
            self._fail(f"expected {sign}")

    def _fail(self, expected: str, token: Token | None = None) -> Any:
        token = token or self.token
        raise BadAssertion(token.column, token.text or "the end", expected)

    def end(self) -> None:
        if self.token.kind != END:
            self._fail(did_you_mean(self.token.text, _WORDS_AFTER) + ", or the end")

    # Sentences

    def assertion(self) -> Comparison | Reaching:
        quantifier = self._take_word(EVENTUALLY, NEVER)
        if quantifier:
            return self._reaching(quantifier)
        if self._is_word("alert", "no"):
            return self._alert()
        if self._is_word("replicas"):
            return self._replicas()
        always = bool(self._take_word("always"))
        if self._is_word("count", "share"):
            return self._counting(always)
        return self._measuring(always)

    def _alert(self) -> Comparison:
        """`alert GPUIdle fires for team b`, `no alert of severity critical`: a count of alerts."""
        is_none = bool(self._take_word("no"))
        if not self._take_word("alert"):
            self._fail('expected alert, such as no alert of severity "critical"')
        tests: list[Condition] = []
        is_named = self.token.kind == TEXT or (
            self.token.kind == WORD and not self._is_word("of", "for", *_WORDS_AFTER)
        )
        if is_named or not is_none:
            tests.append(FieldTest("alert", EQUAL, (self._name("the name of an alert"),)))
        if not is_none and not self._take_word("fires"):
            self._fail("expected fires")
        if self._take_word("of"):
            if not self._take_word("severity"):
                self._fail("expected severity")
            tests.append(FieldTest("severity", EQUAL, (self._name("a severity"),)))
        if self._take_word("for"):
            label = self._name("a label")
            tests.append(FieldTest(LABEL, EQUAL, (self._name("the label's value"),), label))
        window, condition = self._rest(ALERTS)
        tests += [condition] if condition is not None else []
        whole = tests[0] if len(tests) == 1 else All(tuple(tests)) if tests else None
        operator, bound = (EQUAL, 0.0) if is_none else (GREATER_EQUAL, 1.0)
        return Comparison("count", "", operator, bound, COUNT, "alerts", False, window, whole)

    def _name(self, what: str) -> str:
        if self.token.kind not in (WORD, TEXT, NUMBER):
            self._fail(f"expected {what}")
        return self._next().text

    def _counting(self, always: bool) -> Comparison:
        word = self._next()
        if always:
            self._fail("always goes with a value over time, such as always pending < 50", word)
        self._need_sign("(")
        start = self.token
        name = self._longest(SETS, "set") or self._fail(did_you_mean(start.text, list(SETS)), start)
        self._need_sign(")")
        rows = SETS[name].rows
        units = (COUNT,) if word.text == "count" else (RATIO,)
        operator, bound, unit = self._bound(units)
        window, condition = self._rest(rows)
        return Comparison(word.text, "", operator, bound, unit, name, False, window, condition)

    def _measuring(self, always: bool) -> Comparison:
        start = self.token
        name = self._longest(METRICS, "metric")
        if not name:
            known = [*METRICS, "count(…)", "share(…)", EVENTUALLY, NEVER, "always"]
            self._fail(did_you_mean(self._phrase(start), known), start)
        metric = METRICS[name]
        if always and not metric.is_curve:
            self._fail(f"always goes with a value over time; {name} has one per {metric.rows[:-1]}", start)
        statistic = self._statistic(metric, always)
        operator, bound, unit = self._bound(metric.units)
        rows = metric.chooses if metric.rows == CLUSTER else metric.rows
        window, condition = self._rest(rows, metric)
        return Comparison(name, statistic, operator, bound, unit, "", always, window, condition)

    def _longest(self, known: Iterable[str], _what: str) -> str:
        """The longest known name that the next words spell."""
        best: list[str] = []
        for name in known:
            words = name.split()
            ahead = [t.text for t in self._tokens[self._at : self._at + len(words)] if t.kind == WORD]
            if ahead == words and len(words) > len(best):
                best = words
        self._at += len(best)
        return " ".join(best)

    def _phrase(self, start: Token) -> str:
        """Up to three words from here, for a suggestion."""
        words = []
        for token in self._tokens[self._tokens.index(start) :][:3]:
            if token.kind != WORD or token.text in STATISTICS or _is_percentile(token.text):
                break
            words.append(token.text)
        return " ".join(words)

    def _statistic(self, metric: vocabulary.Metric, always: bool) -> str:
        token = self.token
        if token.kind != WORD or token.text in _WORDS_AFTER:
            if metric.is_single or metric.is_curve:
                return "" if metric.is_single else vocabulary.DEFAULT_STATISTIC
            return str(
                self._fail(f"expected a statistic of {metric.name}: p50, p95, {', '.join(STATISTICS)}")
            )
        allowed = ("mean", "min", "max") if metric.is_curve else () if metric.is_single else STATISTICS
        is_good = token.text in allowed or (
            _is_percentile(token.text) and not (metric.is_curve or metric.is_single)
        )
        if not is_good:
            if metric.is_single:
                self._fail(f"expected a comparison: {metric.name} is one value")
            also = "" if metric.is_curve else " or p50, p95, …"
            self._fail(did_you_mean(token.text, allowed) + also)
        if always:
            self._fail("expected a comparison: always looks at every moment, not at a statistic")
        return self._next().text

    def _bound(self, units: tuple[str, ...]) -> tuple[str, float, str]:
        operator = self._take_sign(*OPERATORS) or self._fail(f"expected one of {' '.join(OPERATORS)}")
        value, unit = self._value(units)
        return str(operator), float(value), unit

    def _rest(self, rows: str, metric: vocabulary.Metric | None = None) -> tuple[Window, Condition | None]:
        window: Window | None = None
        condition: Condition | None = None
        while self._is_word(*_WORDS_AFTER):
            word = self._next()
            if word.text == "where":
                if condition is not None:
                    self._fail("expected one where", word)
                if metric is not None and not metric.can_choose:
                    self._fail(f"{metric.name} is measured for the whole cluster: where does not apply", word)
                condition = self._condition(rows)
            elif window is not None:
                self._fail("expected one window", word)
            else:
                if metric is not None and metric.is_single:
                    self._fail(f"{metric.name} is measured over the whole run", word)
                window = self._window(word)
        return window or Window(), condition

    def _window(self, word: Token) -> Window:
        start_us = int(self._value((DURATION,))[0])
        if word.text == "after":
            return Window(start_us)
        if word.text == "before":
            return Window(0, start_us)
        if not self._take_word("and"):
            self._fail("expected and: between 1h and 5h")
        token = self.token
        end_us = int(self._value((DURATION,))[0])
        if end_us <= start_us:
            self._fail("expected a time after the window's start", token)
        return Window(start_us, end_us)

    # Values

    def _value(self, units: tuple[str, ...]) -> tuple[float, str]:
        token = self.token
        wanted = " or ".join(_EXAMPLES[unit] for unit in units)
        if token.kind != NUMBER:
            self._fail(f"expected {wanted}")
        self._next()
        found, value = self._number(token)
        for unit in units:
            if found == unit:
                return value, unit
        return self._fail(f"expected {wanted}", token)  # type: ignore[no-any-return]

    def _number(self, token: Token) -> tuple[str, float]:
        """Its unit and value in base units; the unit may be a sign or word of its own."""
        text = token.text
        if text[-1] == "i":
            return BYTES, float(whole_ceil(text))
        if not text[-1].isdigit():
            return DURATION, float(parse_duration(text))
        if self._take_sign("%"):
            return RATIO, float(text) / 100
        if self._take_word("GPU", "GPUs", "gpu", "gpus"):
            return GPUS, float(text) * 1000
        if self._take_word("CPU", "CPUs", "cpu", "cpus", "cores"):
            return CPUS, float(text) * 1000
        return COUNT, float(text)

    # Conditions

    def _condition(self, rows: str) -> Condition:
        return self._joined("or", lambda: self._joined("and", lambda: self._test(rows), All), Either)

    def _joined(self, word: str, part: Callable[[], Condition], of: Callable[..., Condition]) -> Condition:
        parts = [part()]
        while self._take_word(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else of(tuple(parts))

    def _test(self, rows: str) -> Condition:
        if self._take_word("not"):
            return Not(self._test(rows))
        if self._take_sign("("):
            inner = self._condition(rows)
            self._need_sign(")")
            return inner
        token = self.token
        name, key, of = self._field(rows)
        negated = bool(self._take_word("not"))
        if self._take_word("in"):
            return FieldTest(name, NOT_IN if negated else IN, self._values(of, token), key)
        if self._take_word("like"):
            found = FieldTest(name, LIKE, (self._pattern(of, token),), key)
            return Not(found) if negated else found
        operator = "" if negated else self._take_sign(*OPERATORS)
        if not operator:
            self._fail(f"expected one of {' '.join(OPERATORS)}, in, not in, like")
        if of.type in (vocabulary.TEXT, FLAG) and operator not in ("==", "!="):
            self._fail(f"{name} is {of.type}: expected == or !=", self._tokens[self._at - 1])
        return FieldTest(name, operator, (self._operand(of, name),), key)

    def _field(self, rows: str) -> tuple[str, str, FieldOf]:
        token = self._next()
        known = FIELDS[rows]
        has_labels = rows not in (QUOTAS, QUEUES)
        if token.kind == WORD and token.text == LABEL and has_labels:
            self._need_sign("(")
            key = self._next()
            if key.kind != TEXT:
                self._fail('expected the label\'s name in quotes, such as label("team")', key)
            self._need_sign(")")
            return LABEL, key.text, FieldOf(vocabulary.TEXT, lambda r: r.labels.get(key.text, ""), "a label")
        if token.kind != WORD or token.text not in known:
            names = [*known, *(['label("…")'] if has_labels else [])]
            self._fail(f"unknown field of {rows}: {did_you_mean(token.text, names)}", token)
        return token.text, "", known[token.text]

    def _values(self, of: FieldOf, name: Token) -> tuple[str | float | bool, ...]:
        self._need_sign("(")
        values = [self._operand(of, name.text)]
        while self._take_sign(","):
            values.append(self._operand(of, name.text))
        self._need_sign(")")
        return tuple(values)

    def _pattern(self, of: FieldOf, name: Token) -> str:
        if of.type != vocabulary.TEXT:
            self._fail(f"{name.text} is {of.type}: like goes with text", name)
        return str(self._operand(of, name.text))

    def _operand(self, of: FieldOf, name: str) -> str | float | bool:
        token = self.token
        expected = f"{name} is compared with {_EXAMPLES[of.type]}"
        if of.type == vocabulary.TEXT:
            if token.kind != TEXT:
                self._fail(
                    f"{expected}{f': write {chr(34)}{token.text}{chr(34)}' if token.kind == WORD else ''}"
                )
            return self._next().text
        if of.type == FLAG:
            word = self._take_word("true", "false") or self._fail(expected)
            return word == "true"
        if token.kind != NUMBER:
            self._fail(expected)
        self._next()
        try:
            unit, value = self._number(token)
        except (ValueError, QuantityError):
            self._fail(expected, token)
        if unit != of.type and not (unit == COUNT and of.type in (GPUS, CPUS)):
            self._fail(expected, token)
        return value * 1000 if unit == COUNT and of.type in (GPUS, CPUS) else value

    # Objects

    def _reaching(self, quantifier: str) -> Reaching:
        token = self._next()
        if token.kind != OBJECT:
            self._fail("expected an object: kind/name or kind/namespace/name, such as job/train", token)
        gk, namespace, name = self._object(token)
        state = self._state(gk)
        within_us = before_us = None
        limit = self._take_word("within", "before") if quantifier == EVENTUALLY else ""
        if limit:
            value = int(self._value((DURATION,))[0])
            within_us, before_us = (value, None) if limit == "within" else (None, value)
        return Reaching(quantifier, gk, namespace, name, state, within_us, before_us)

    def _replicas(self) -> Reaching:
        """`replicas of deployment/shop/web reach 8 within 3m`: so many ready at once."""
        self._next()
        if not self._take_word("of"):
            self._fail("expected of, such as replicas of web reach 8")
        token = self._next()
        if token.kind == WORD:
            gk, namespace, name = "Deployment.apps", "default", token.text
        elif token.kind == OBJECT:
            gk, namespace, name = self._object(token)
        else:
            self._fail("expected what is scaled: a Deployment's name, or kind/namespace/name", token)
        if not self._take_word("reach"):
            self._fail("expected reach and a number, such as reach 8")
        count = int(self._value((COUNT,))[0])
        within_us = before_us = None
        limit = self._take_word("within", "before")
        if limit:
            value = int(self._value((DURATION,))[0])
            within_us, before_us = (value, None) if limit == "within" else (None, value)
        return Reaching(EVENTUALLY, gk, namespace, name, f"{count}{REPLICAS}", within_us, before_us)

    def _object(self, token: Token) -> tuple[str, str, str]:
        words = token.text.split("/")
        kind = find_kind(words[0])
        if kind is None and "." in words[0] and words[0][:1].isupper():
            kind = kind_of_unknown(words[0])
        if kind is None or len(words) > 3:
            self._fail("expected a known kind, such as job/train or pod/team-a/web-0", token)
            raise AssertionError(kind)
        if not kind.namespaced:
            if len(words) == 3:
                self._fail(f"{kind.kind} has no namespace: expected {words[0]}/{words[2]}", token)
            return kind.group_kind, "", words[1]
        return kind.group_kind, words[1] if len(words) == 3 else "default", words[-1]

    def _state(self, gk: str) -> str:
        token = self._next()
        known = vocabulary.STATES.get(gk)
        if token.kind != WORD:
            expected = ", ".join(known or ("a condition type", *vocabulary.ANY_STATES))
            self._fail(f"expected what it reaches: {expected}", token)
        if known is not None and token.text not in known:
            self._fail(did_you_mean(token.text, known), token)
        return token.text


def _is_percentile(text: str) -> bool:
    if not text.startswith("p") or not text[1:2].isdigit():
        return False
    return 0 < float(text[1:]) <= 100


__all__ = ["BadAssertion", "grammar", "parse", "read_assertion"]
