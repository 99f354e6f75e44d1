"""Queries, by a script in Prometheus' own language; and what is refused, in its words."""

from pathlib import Path

import numpy as np
import pytest

from fairway.conformance.promqlscripts import run_script
from fairway.telemetry.promql import Matrix, PromQLError, as_json, parse, query_instant, query_range
from fairway.telemetry.store import MemoryStore, labels

SCRIPT = Path(__file__).with_name("questions.test").read_text()


def store() -> MemoryStore:
    kept = MemoryStore()
    for t in range(100):
        for gpu in range(4):
            kept.append(labels("util", {"gpu": str(gpu)}), t * 30_000, float((t * 7 + gpu * 13) % 50))
    return kept


def test_the_script_passes() -> None:
    tally = run_script(SCRIPT)
    assert not tally.failed
    assert (tally.passed, tally.unanswered) == (SCRIPT.count("\neval"), 0)


def test_a_script_that_is_wrong_fails() -> None:
    tally = run_script(SCRIPT.replace('  {team="red"} 20\n', '  {team="red"} 21\n'))
    assert [line.split(": ")[1] for line in tally.failed] == ["sum by (team) (gpu_util)"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "rate(util)",
            'parse error: expected type range vector in call to function "rate", got instant vector',
        ),
        ("nope(util)", 'parse error: unknown function with name "nope"'),
        ("1 == 1", "parse error: comparisons between scalars must use BOOL modifier"),
        ("sum(util", "parse error: unclosed left parenthesis"),
        ('util{gpu=~"("}', "1:6: parse error: error parsing regexp: missing closing ): `^(?s:()$`"),
        ("info(util)", "info() is not answered here"),
        ("limit_ratio(0.5, util)", "limit_ratio is not answered here"),
        ("histogram_avg(util)", "native histograms (histogram_avg) is not answered here"),
        ("(" * 5000 + "util" + ")" * 5000, "nested deeper than 100 levels"),
        ("-" * 30_000 + "util", "nested deeper than 100 levels"),
        ("+".join(["util"] * 1500), "nested deeper than 100 levels"),
        ("u" * 70_000, "has 70000 characters"),
        ("util\0", "unexpected character"),
        ("topk(1e30, util)", "Scalar value 1000000000000000000000000000000 overflows int64"),
        ('label_replace(util, "a", "b", "gpu", "(")', "invalid regular expression in label_replace(): ("),
        ("holt_winters(util[5m], 2, 0.5)", "invalid smoothing factor. Expected: 0 < sf < 1, got: 2.000000"),
        ("max_over_time(util[100y:1ms])", "too many samples"),
        (
            "util + on() util",
            "found duplicate series for the match group {} on the right hand-side of the operation: "
            '[{__name__="util", gpu="0"}, {__name__="util", gpu="1"}];many-to-many matching not allowed: '
            "matching labels must be unique on one side",
        ),
        (
            "util + on() vector(1)",
            "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)",
        ),
        (
            "util[5m]",
            'invalid expression type "range vector" for range query, must be Scalar or instant Vector',
        ),
    ],
)
def test_what_is_refused(query: str, said: str) -> None:
    with pytest.raises(PromQLError) as refused:
        query_range(store(), query, 60_000, 120_000, 30_000)
    assert said in str(refused.value)


def test_a_time_before_1970_is_one() -> None:
    for query, found in (("util @ -5", 0), ("util @ 5", 4)):
        answer = query_instant(store(), query, 60_000)
        assert isinstance(answer, Matrix)
        assert len(answer.labels) == found


@pytest.mark.parametrize(
    "query",
    [
        "sum by (gpu) (avg_over_time(util[7m]))",
        "max_over_time(rate(util[5m])[10m:1m])",
        "util > 20 or util offset 10m",
        "util @ end() - util @ start()",
        "stddev_over_time(util[20m])",
    ],
)
def test_a_span_is_answered_as_its_steps_are(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start, end, step = 300_000, 2_400_000, 45_000
    whole = query_range(store(), query, start, end, step)
    monkeypatch.setattr("fairway.telemetry.promql.asking.PART_STEPS", 7)
    parts = query_range(store(), query, start, end, step)
    assert parts.labels == whole.labels
    np.testing.assert_allclose(parts.values[parts.present], whole.values[whole.present], rtol=1e-12)
    if "@" in query:
        return
    for at, t in enumerate(range(start, end + 1, step)):
        once = query_instant(store(), query, t)
        assert isinstance(once, Matrix)
        there = whole.present[:, at]
        got = dict(zip(once.labels, once.values[:, 0], strict=True))
        want = {lab: v for lab, v, p in zip(whole.labels, whole.values[:, at], there, strict=True) if p}
        assert got == pytest.approx(want, rel=1e-12)


def test_answers_as_the_api_gives_them() -> None:
    assert as_json(query_instant(store(), "1 / 0", 0), 0) == {"resultType": "scalar", "result": [0.0, "+Inf"]}
    assert as_json(query_instant(store(), '"a"', 1500), 1500) == {
        "resultType": "string",
        "result": [1.5, "a"],
    }
    found = as_json(query_range(store(), "sum(util)", 0, 30_000, 30_000), 0, 30_000)
    assert found["result"] == [{"metric": {}, "values": [[0.0, "78"], [30.0, "106"]]}]
    ranged = as_json(query_instant(store(), 'util{gpu="0"}[1m]', 60_000), 60_000)
    assert ranged["result"][0]["values"] == [[30.0, "7"], [60.0, "14"]]


def test_a_query_is_read_once() -> None:
    assert parse("sum(util)") is parse("sum(util)")
