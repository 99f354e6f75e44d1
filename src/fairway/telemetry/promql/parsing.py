"""A query's text, read by promql-parser, as our nodes.

The parser is Rust: it recurses without a bound, gives no positions, and panics over times before 1970. So length and
depth are bounded before it is called, and a time is taken from its text.

Source: promql-parser 0.12; promql/parser/parse.go (Prometheus 3.14) for the words.
"""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from fairway.kube.goregexp import RegexpError
from fairway.telemetry.promql.checking import check
from fairway.telemetry.promql.durations import is_of_query, written_out
from fairway.telemetry.promql.lexing import Refusal
from fairway.telemetry.promql.nodes import (
    SET_OPERATORS,
    Aggregation,
    Binary,
    Call,
    Matching,
    Negation,
    Node,
    Number,
    PromQLError,
    Selector,
    Subquery,
    Text,
)
from fairway.telemetry.promql.syntax import Duration, Syntax
from fairway.telemetry.store import NAME, Matcher, anchored

# Longer than any query of a person. Besides texts and comments every character may be one level of the parser's tree,
# and some 9,000 levels end the process.
MAX_LENGTH: Final = 65_536
MAX_BESIDES_TEXTS: Final = 8_000
MAX_DEPTH: Final = 100
_TEXTS: Final = re.compile(r"""[({\[]|[)}\]]|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`|\#[^\n]*""")
_AT: Final = re.compile(
    r"^ {8}at: Some\(\s*At\(\s*SystemTime \{\s*tv_sec: (-?\d+),\s*tv_nsec: (\d+)", re.MULTILINE
)
# What stands between brackets or behind `offset` and is no literal alone.
_MAY_HAVE_DURATIONS: Final = re.compile(
    r"\[\s*(?![0-9a-z]+\s*(?::\s*[0-9a-z]*\s*)?\])|offset\s*(?!-?[0-9a-z]+[\s),]|-?[0-9a-z]+$)", re.IGNORECASE
)
_EVERY_FEATURE: Final = frozenset(
    ("promql-experimental-functions", "promql-extended-range-selectors", "promql-binop-fill-modifiers")
)
_DURATION: Final = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII
)
_DAY_MS: Final = 86_400_000
_UNITS_MS: Final = (365 * _DAY_MS, 7 * _DAY_MS, _DAY_MS, 3_600_000, 60_000, 1_000, 1)
_TOO_DEEP: Final = f"parse error: nested deeper than {MAX_DEPTH} levels"
_CARDS: Final = {
    "OneToOne": "one-to-one",
    "ManyToOne": "many-to-one",
    "OneToMany": "one-to-many",
    "ManyToMany": "many-to-many",
}
_OPS: Final = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
_UNKNOWN: Final = "unknown function with name "
# Answered nowhere here: what needs native histograms, hashes of Go's labels, or metadata of series.
NOT_HERE: Final = {
    "info": "info()",
    "limit_ratio": "limit_ratio",
    "start_timestamp": "start_timestamp()",
    "histogram_avg": "native histograms (histogram_avg)",
    "histogram_count": "native histograms (histogram_count)",
    "histogram_sum": "native histograms (histogram_sum)",
    "histogram_stddev": "native histograms (histogram_stddev)",
    "histogram_stdvar": "native histograms (histogram_stdvar)",
}


def parse(text: str, step_ms: int = 0, range_ms: int = 0) -> Node:
    """`step_ms`, `range_ms`: what `step()` and `range()` are in durations. Raises: PromQLError."""
    _bound(text)
    try:
        if any(map(is_of_query, _durations(text))):
            return _parsed(text, step_ms, range_ms)
        return _parsed(text, 0, 0)
    except RecursionError:
        raise PromQLError(_TOO_DEEP) from None


@lru_cache(maxsize=512)
def _parsed(text: str, step_ms: int, range_ms: int) -> Node:
    """Raises: PromQLError, RecursionError."""
    parser = _parser()
    try:
        tree = parser.parse(written_out(text, _durations(text), step_ms, range_ms))
    except ValueError as wrong:
        # What the parser lacks altogether (`anchored`) is refused as where it is not enabled.
        said = refusal(text) or refusal(text, frozenset())
        raise PromQLError(said or f"parse error: {_words(str(wrong))}") from None
    return _node(tree)


@lru_cache(maxsize=512)
def _durations(text: str) -> list[Duration]:
    """Those of a query that are arithmetic; none of what cannot be read."""
    if not _MAY_HAVE_DURATIONS.search(text):
        return []
    syntax = Syntax(text, _EVERY_FEATURE)
    try:
        syntax.read()
    except (Refusal, RecursionError):
        return []
    return syntax.durations


def refusal(text: str, features: frozenset[str] | None = None) -> str:
    """What a Prometheus with these features has against a query, and where; nothing, if it reads it.

    Without `features`: one that has everything enabled.
    """
    try:
        check(Syntax(text, _EVERY_FEATURE if features is None else features).read())
    except Refusal as refused:
        before = text[: refused.place]
        line = before.count("\n") + 1
        column = len(before.rpartition("\n")[2].encode("utf-8", "surrogatepass")) + 1
        return f"{line}:{column}: parse error: {refused.said}"
    except RecursionError:
        return _TOO_DEEP
    return ""


@lru_cache(maxsize=1)
def _parser() -> Any:
    """Loaded with the first query. Prometheus 2's name of one function is read too."""
    import promql_parser

    kinds = promql_parser.ValueType
    arguments = [kinds.Matrix, kinds.Scalar, kinds.Scalar]
    promql_parser.register_extra_functions(
        [promql_parser.Function("holt_winters", arguments, kinds.Vector, 0, False)]
    )
    return promql_parser


def _bound(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise PromQLError(f"parse error: the query has {len(text)} characters; {MAX_LENGTH} are read")
    if "\0" in text:
        raise PromQLError("parse error: unexpected character: '\\x00'")
    depth = deepest = texts = 0
    for found in _TEXTS.finditer(text):
        sign = found.group()
        if sign in ("(", "{", "["):
            depth += 1
            deepest = max(deepest, depth)
        elif sign in (")", "}", "]"):
            depth -= 1
        else:
            texts += len(sign)
    if deepest > MAX_DEPTH or len(text) - texts > MAX_BESIDES_TEXTS:
        raise PromQLError(_TOO_DEEP)


def _words(said: str) -> str:
    """The parser's words, as Prometheus has them."""
    if said.startswith(_UNKNOWN):
        return f'unknown function with name "{said.removeprefix(_UNKNOWN).strip(chr(39))}"'
    for kind, full in (("matrix", "range vector"), ("vector", "instant vector")):
        said = re.sub(rf"\b(type|got) {kind}\b", rf"\1 {full}", said)
    return re.sub(r"in call to function '(\w+)'", r'in call to function "\1"', said)


def _node(tree: Any) -> Node:
    kind = type(tree).__name__
    match kind:
        case "ParenExpr":
            return _node(tree.expr)
        case "NumberLiteral":
            return Number(float(tree.val))
        case "StringLiteral":
            return Text(str(tree.val))
        case "VectorSelector":
            return _selector(tree, 0)
        case "MatrixSelector":
            return _selector(tree.vector_selector, _ms(tree.range))
        case "SubqueryExpr":
            step = _ms(tree.step) if tree.step is not None else 0
            return Subquery(_node(tree.expr), _ms(tree.range), step, _ms(tree.offset), _at(tree))
        case "UnaryExpr":
            inner = _node(tree.expr)
            return Number(-inner.value) if isinstance(inner, Number) else Negation(inner)
        case "BinaryExpr":
            return _binary(tree)
        case "AggregateExpr":
            return _aggregation(tree)
        case _:
            return _call(tree)


def _selector(tree: Any, range_ms: int) -> Selector:
    if tree.matchers.or_matchers:
        raise PromQLError('parse error: unexpected identifier "or" in label matching, expected "," or "}"')
    matchers = [Matcher(m.name, _OPS[str(m.op).rpartition(".")[2]], m.value) for m in tree.matchers.matchers]
    if tree.name:
        matchers.insert(0, Matcher(NAME, "=", tree.name))
    for matcher in matchers:
        if matcher.op in ("=~", "!~"):
            try:
                anchored(matcher.value)
            except RegexpError as wrong:
                raise PromQLError(f"parse error: {wrong}") from None
    return Selector(tuple(matchers), _ms(tree.offset), _at(tree), range_ms)


def _ms(duration: timedelta | None) -> int:
    return 0 if duration is None else round(duration / timedelta(milliseconds=1))


def _at(tree: Any) -> int | str | None:
    if tree.at is None:
        return None
    kind = str(tree.at.type).rpartition(".")[2]
    if kind != "At":
        return kind.lower()
    # Not asked for as a value: the parser panics over a time before 1970.
    found = _AT.search(repr(tree))
    if found is None:
        raise PromQLError(f"parse error: timestamp out of bounds for @ modifier: {tree}")
    return int(found.group(1)) * 1000 + int(found.group(2)) // 1_000_000


def _binary(tree: Any) -> Binary:
    op, modifier = str(tree.op), tree.modifier
    is_set = op in SET_OPERATORS
    matching = Matching("many-to-many" if is_set else "one-to-one", False, (), ())
    is_bool = False
    if modifier is not None:
        card = _CARDS[str(modifier.card).rpartition(".")[2]]
        labels = modifier.matching
        is_on = labels is not None and str(labels.type).endswith("Include")
        fill = modifier.fill_values
        matching = Matching(
            "many-to-many" if is_set else card,
            is_on,
            tuple(labels.labels) if labels is not None else (),
            tuple(modifier.group_labels or ()),
            fill.lhs if fill is not None else None,
            fill.rhs if fill is not None else None,
        )
        is_bool = modifier.return_bool
    return Binary(op, _node(tree.lhs), _node(tree.rhs), is_bool, matching)


def _aggregation(tree: Any) -> Aggregation:
    op, modifier = str(tree.op), tree.modifier
    _refuse(op)
    is_without = modifier is not None and str(modifier.type).endswith("Without")
    names = tuple(modifier.labels) if modifier is not None else ()
    parameter = _node(tree.param) if tree.param is not None else None
    return Aggregation(op, _node(tree.expr), parameter, is_without, names)


def _call(tree: Any) -> Call:
    name = tree.func.name
    _refuse(name)
    returns = str(tree.func.return_type).rpartition(".")[2].lower()
    return Call(name, tuple(_node(a) for a in tree.args), returns)


def _refuse(name: str) -> None:
    if name in NOT_HERE:
        flag = "; Prometheus has it with --enable-feature=promql-experimental-functions"
        is_native = NOT_HERE[name].startswith("native")
        raise PromQLError(f"{NOT_HERE[name]} is not answered here{'' if is_native else flag}")


def duration_ms(text: str) -> int:
    """`5m`, `1h30m`, `-1d`, `0`. Raises: PromQLError."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text)
    found = _DURATION.fullmatch(rest)
    if rest == "0":
        return 0
    if not rest or found is None or len(rest) > 60:
        raise PromQLError(f'not a valid duration string: "{text}"')
    return sign * sum(int(n or 0) * unit for n, unit in zip(found.groups(), _UNITS_MS, strict=True))
