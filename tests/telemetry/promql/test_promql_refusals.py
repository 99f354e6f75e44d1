"""What a query is refused with, and where: Prometheus' words, its lines and columns; durations that are arithmetic."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random

import numpy as np
import pytest
import yaml

from fairway.telemetry.promql import Matrix, PromQLError, parse, query_instant, query_range
from fairway.telemetry.promql.lexing import Lexer, Refusal
from fairway.telemetry.promql.parsing import refusal
from fairway.telemetry.store import MemoryStore, labels

NONE: frozenset[str] = frozenset()
PRECEDED = "must be preceded by an instant vector selector or range vector selector or a subquery"
IN_DURATION = "number, duration, step(), or range()"
# As promtool 2.42 says them; those of newer grammar (ranges, offsets, UTF-8) as Prometheus 3.14's source has them.
SAID = [
    ("", "1:1: no expression found in input"),
    ("foo bar", '1:5: unexpected identifier "bar"'),
    ("sum(\n  rate(x[5m])", "2:14: unclosed left parenthesis"),
    ("sum by (a (x)", '1:11: unexpected "(" in grouping opts, expected "," or ")"'),
    ("sum(x) by", '1:10: unexpected end of input in grouping opts, expected "("'),
    ("sum by (1) (x)", '1:9: unexpected number "1" in grouping opts, expected label'),
    ("sum(x y)", '1:7: unexpected identifier "y" in aggregation'),
    ("rate(x y)", '1:8: unexpected identifier "y"'),
    ("rate(x)", '1:6: expected type range vector in call to function "rate", got instant vector'),
    ("sum(x[5m])", "1:5: expected type instant vector in aggregation expression, got range vector"),
    ('topk("a", x)', "1:6: expected type scalar in aggregation parameter, got string"),
    ("topk(x)", "1:1: wrong number of arguments for aggregate expression provided, expected 2, got 1"),
    ("sum()", "1:1: no arguments for aggregate expression provided"),
    ("x{a=b}", '1:5: unexpected identifier "b" in label matching, expected string'),
    ("x{a b}", '1:5: unexpected identifier "b" in label matching, expected label matching operator'),
    ("x{,}", '1:3: unexpected "," in label matching, expected identifier or "}"'),
    ('x{a="b"', "1:8: unexpected end of input inside braces"),
    ('x{a="b"}}', "1:9: unexpected character: '}'"),
    ('x{a=~"("}', "1:3: error parsing regexp: missing closing ): `^(?s:()$`"),
    ('x{a="b" c="d"}', '1:9: unexpected identifier "c" in label matching, expected "," or "}"'),
    ("x{a!b}", "1:4: unexpected character after '!' inside braces: 'b'"),
    ('{a=~".*"}', "1:1: vector selector must contain at least one non-empty matcher"),
    ('x{__name__="y"}', '1:1: metric name must not be set twice: "x" or "y"'),
    ("nosuch(x)", '1:1: unknown function with name "nosuch"'),
    ("histogram_quantile(0.9)", '1:1: expected 2 argument(s) in call to "histogram_quantile", got 1'),
    ('label_join(x, "a")', '1:1: expected at least 3 argument(s) in call to "label_join", got 2'),
    ("round(x, 1, 2)", '1:1: expected at most 2 argument(s) in call to "round", got 3'),
    ("clamp_max(x,)", "1:12: trailing commas not allowed in function call args"),
    ("1 > 2", "1:3: comparisons between scalars must use BOOL modifier"),
    ("x + bool y", "1:3: bool modifier can only be used on comparison operators"),
    ("x and 1", '1:1: set operator "and" not allowed in binary scalar expression'),
    ("x + on(a) 1", "1:1: vector matching only allowed between instant vectors"),
    ("x and on(a) group_left y", '1:1: no grouping allowed for "and" operation'),
    ("x * on(a) group_left(a) y", '1:3: label "a" must not occur in ON and GROUP clause at once'),
    ("x[5m] + 1", "1:1: binary expression must contain only scalar and instant vector types"),
    (
        '-"a"',
        '1:1: unary expression only allowed on expressions of type scalar or instant vector, got "string"',
    ),
    ("(x)[5m]", "1:4: ranges only allowed for vector selectors"),
    ("x offset 5m[5m]", "1:12: no offset modifiers allowed before range"),
    ("x @ 5 [5m]", "1:7: no @ modifiers allowed before range"),
    ("1[5m:1m]", "1:1: subquery is only allowed on instant vector, got scalar instead"),
    ("x offset", f"1:9: unexpected end of input in offset, expected {IN_DURATION}"),
    ("x offset 5m offset 1m", "1:1: offset may not be set multiple times"),
    (
        "1 offset 5m",
        "1:1: offset modifier must be preceded by an instant vector selector or range vector selector or a subquery",
    ),
    ("x @ foo", '1:5: unexpected identifier "foo" in @, expected timestamp'),
    ("x @ 1 @ 2", "1:1: @ <timestamp> may not be set multiple times"),
    ("x[]", f'1:3: unexpected "]" in subquery or range selector, expected {IN_DURATION}'),
    ("x[5m", "1:5: unclosed left bracket"),
    ("x[5m 5m]", '1:6: unexpected duration "5m" in subquery or range, expected ":" or "]"'),
    ("x[:5m]", "1:4: unexpected colon before duration in duration expression"),
    ("x[foo]", "1:3: unexpected character in duration expression: 'f'"),
    ("x[0]", "1:3: duration must be greater than 0"),
    ("x[5m/0]", "1:5: division by zero"),
    ("x[1m5y]", '1:3: bad number or duration syntax: "1m5"'),
    ("x[5sm]", '1:3: bad number or duration syntax: "5sm"'),
    ("x[5hs]", '1:3: not a valid duration string: "5hs"'),
    ("1.5.2", '1:1: bad number or duration syntax: "1.5."'),
    ('"abc', "1:1: unterminated quoted string"),
    (r'"\q"', "1:1: unknown escape sequence U+0071 'q'"),
    ("x)", "1:3: unexpected right parenthesis ')'"),
    ("x ! y", "1:3: unexpected character after '!': ' '"),
    ("x & y", "1:3: unexpected character: '&'"),
    ("é", "1:1: unexpected character: 'é'"),
    ('x{a="é"} # né\n + *', "2:4: unexpected <op:*>"),
    ("mad_over_time(x[5m])", '1:1: function "mad_over_time" is not enabled'),
    (
        "1 + limitk(2, x)",
        "1:5: limitk() is experimental and must be enabled with --enable-feature=promql-experimental-functions",
    ),
    ('info(x, {a=~".*"})', '1:1: function "info" is not enabled'),
    ("x + fill(0) y", "1:1: binop fill modifiers are experimental and not enabled"),
    ("increase(x[1m] anchored)", "1:10: anchored modifier is experimental and not enabled"),
]


@pytest.mark.parametrize(("query", "said"), SAID)
def test_what_is_said_and_where(query: str, said: str) -> None:
    place, _, words = said.partition(": ")
    assert refusal(query, NONE) == f"{place}: parse error: {words}"


@pytest.mark.parametrize("query", [query for query, _ in SAID if "fill" not in query])
def test_who_asks_hears_the_same(query: str) -> None:
    """But of what is experimental, which is answered."""
    if query.startswith("info"):
        assert refusal(query) == ""
    if "mad_over" in query or "limitk" in query or query == "x[0]":
        parse(query)
        return
    with pytest.raises(PromQLError) as refused:
        parse(query)
    assert str(refused.value) == refusal(query, NONE)


@pytest.mark.parametrize(
    "query",
    [
        "by",
        "sum",
        "offset offset 5m",
        "start + end()",
        "fill + fill",
        "x[5m:]",
        "x @ -1.5",
        "-x ^ 2 ^ 3",
        "on(x)",
    ],
)
def test_what_is_read(query: str) -> None:
    assert refusal(query, frozenset(("promql-experimental-functions",))) == (
        "" if query != "on(x)" else "1:1: parse error: unexpected <on>"
    )


def test_words_keep_their_text() -> None:
    lexer, text = Lexer("sum(X{a='b'}) >= 0x1F #c\n"), []
    while (word := lexer.next()).kind != "EOF":
        text.append(word.text)
    assert text == ["sum", "(", "X", "{", "a", "=", "'b'", "}", ")", ">=", "0x1F"]
    with pytest.raises(Refusal):
        Lexer("$").next()


PIECES = (
    *(
        "sum",
        "by",
        "(",
        "a",
        ")",
        "(",
        "rate",
        "(",
        "x",
        "{",
        "a",
        "=",
        '"b"',
        ",",
        "c",
        "=~",
        '"d"',
        "}",
        "[5m]",
    ),
    *(")", ">", "bool", "5", "+", "on", "offset 1m", "@ 5", "and", "unless", "topk", "(", "3", ",", "y", ")"),
    *(
        "without",
        "group_left",
        "ignoring",
        "count_values",
        "max_over_time",
        "[1h:1m]",
        "-",
        "*",
        "^",
        "or",
        "vector",
    ),
)


def test_queries_of_promtool_are_refused_alike(tmp_path: Path) -> None:
    """Random rows of words. Debian's grammar is older: durations, signs in them, and texts as names are left out."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    random = Random(20)
    queries = [" ".join(random.choices(PIECES, k=random.randint(1, 9))) for _ in range(400)]
    rules = [{"record": f"r:{i}", "expr": query} for i, query in enumerate(queries)]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}))
    said = subprocess.run(
        ("promtool", "check", "rules", str(file)), capture_output=True, text=True, check=False
    )
    found = {}
    for line in (said.stderr + said.stdout).splitlines():
        rule, colon, words = line.partition('": could not parse expression: ')
        if colon:
            found[int(rule.rpartition("r:")[2])] = words
    newer = (
        "duration",
        "<Item",
        "missing unit",
        "unexpected number",
        "unexpected character",
        "expected identifier or",
    )
    compared = [i for i in range(len(queries)) if not any(word in found.get(i, "") for word in newer)]
    assert len(compared) > 300
    assert {i: refusal(queries[i], NONE) for i in compared} == {i: found.get(i, "") for i in compared}


def store() -> MemoryStore:
    kept = MemoryStore()
    kept.extend(labels("x", {}), np.arange(0, 1_000_000, 1000), np.arange(1000.0))
    return kept


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("count_over_time(x[1m + 30s])", 90),
        ("count_over_time(x[(2 ^ 3 - 2) * 5])", 30),
        ("count_over_time(x[1h30m % 1h / 60])", 30),
        ("count_over_time(x[-5m + 6m])", 60),
        ("count_over_time(x[max_of(5, min_of(1m, 7s))])", 7),
        ("sum_over_time(x[5 + 5:2.5 * 2])", 500 + 495),
        ("x offset (1m + 5)", 435),
        ("x offset -(10 * 2)", 520),
        ("x offset -min_of(5, 3)", 503),
        ("x offset 100 + 2", 402),
        ('x{a=""} offset (5 * 2) # [1 + 1]', 490),
    ],
)
def test_durations_are_worked_out(query: str, wanted: float) -> None:
    found = query_instant(store(), query, 500_000)
    assert isinstance(found, Matrix)
    assert found.values[:, 0].tolist() == [wanted]


def test_durations_know_the_step_and_the_span() -> None:
    for step, span in ((5_000, 60_000), (10_000, 60_000), (10_000, 120_000)):
        found = query_range(store(), "count_over_time(x[step() * 2])", 300_000, 300_000 + span, step)
        assert set(found.values[0].tolist()) == {step / 500}
        found = query_range(store(), "x offset range()", 300_000, 300_000 + span, step)
        assert found.values[0, 0] == 300 - span / 1000
    with pytest.raises(PromQLError, match=r"^19:25: duration must be greater than 0$"):
        query_instant(store(), "count_over_time(x[step()])".replace("x[", "x ["), 0)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("x[5m - 5m]", "2:9: duration must be greater than 0"),
        ("x[1 / (1 - 1)]", "2:13: division by zero"),
        ("x[1 % (1 - 1)]", "2:13: modulo by zero"),
        ("x[10 ^ 10 ^ 10]", "2:14: duration is NaN or infinite"),
        ("x[(0 - 1) ^ 0.5]", "2:15: duration is NaN or infinite"),
        ("x offset (10 ^ 20)", "9:18: duration is out of range"),
        ("x[1 ^ 1e999]", "1:7: parse error: duration out of range"),
        ("x[" + "(" * 90 + "0" + ")" * 90 + "]", "duration must be greater than 0"),
    ],
)
def test_durations_that_are_none(query: str, said: str) -> None:
    with pytest.raises(PromQLError) as refused:
        query_instant(store(), query, 500_000)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "query",
    [
        "x[1" + "0" * 400 + "s * 2]",
        "x[" + "9" * 5_000 + "s]",
        "x offset 1" + "0" * 400 + "d",
        "x[(10 ^ 400) % 3]",
        "x[1e400 * 2]",
        "x[(0 - 8) ^ 0.5]",
        "x[1s" + " * 1" * 3_000 + "]",
        "x[" + "(" * 900 + "1" + ")" * 900 + " * 2]",
    ],
)
def test_numbers_and_depths_without_end_are_refused(query: str) -> None:
    with pytest.raises(PromQLError):
        parse(query)
    assert isinstance(refusal(query), str)
