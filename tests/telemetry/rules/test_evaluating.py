"""Rules over series: when alerts are pending, firing and over, and what is recorded."""

from pathlib import Path

import numpy as np
import pytest

from fairway.errors import InvalidInput
from fairway.telemetry.promql import Matrix, query_range
from fairway.telemetry.rules.evaluating import Outcome, evaluate
from fairway.telemetry.rules.reading import duplicates, read_rules, read_text, refused_without, rules_of
from fairway.telemetry.store import MemoryStore, labels

MINUTE = 60_000


def series(**by_gpu: str) -> MemoryStore:
    """One sample a minute: a digit is a value, `.` none."""
    store = MemoryStore()
    for gpu, text in by_gpu.items():
        for at, sign in enumerate(text):
            if sign != ".":
                store.append(labels("util", {"gpu": gpu}), at * MINUTE, float(sign))
    return store


def run(store: MemoryStore, *rules: str, minutes: int = 30, head: str = "") -> Outcome:
    text = "groups:\n- name: g\n  interval: 1m\n" + head + "  rules:\n"
    text += "".join(f"  - {{{rule}}}\n" for rule in rules)
    groups, problems = read_text(text, "rules.yaml")
    assert not problems
    return evaluate(groups, store, 0, (minutes - 1) * MINUTE)


def times(outcome: Outcome) -> list[tuple[int, int | None, int | None]]:
    def minutes(t: int | None) -> int | None:
        return None if t is None else t // MINUTE

    return [(a.active_ms // MINUTE, minutes(a.fired_ms), minutes(a.ended_ms)) for a in outcome.alerts]


@pytest.mark.parametrize(
    ("rule", "values", "want"),
    [
        ("alert: A, expr: util < 5", "9991119999", [(3, 3, 6)]),
        ("alert: A, expr: util < 5, for: 2m", "9991119999", [(3, 5, 6)]),
        ("alert: A, expr: util < 5, for: 3m", "9991119999", [(3, None, 6)]),
        ("alert: A, expr: util < 5, for: 1m", "9119119999", [(1, 2, 3), (4, 5, 6)]),
        ("alert: A, expr: util < 5, keep_firing_for: 2m", "9119119999", [(1, 1, 8)]),
        ("alert: A, expr: util < 5, keep_firing_for: 1m", "9119919999", [(1, 1, 4), (5, 5, 7)]),
        ("alert: A, expr: util < 5", "1111111111", [(0, 0, None)]),
        ("alert: A, expr: absent(util), for: 5m", "11" + "." * 8, [(6, None, None)]),
    ],
)
def test_when_an_alert_fires(rule: str, values: str, want: list[tuple[int, int | None, int | None]]) -> None:
    assert times(run(series(a=values), rule, minutes=10)) == want


def test_a_span_in_parts_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = (
        "record: total, expr: sum(util)",
        "alert: A, expr: util < 5, for: 2m, keep_firing_for: 2m",
        "alert: B, expr: total < 9",
        'alert: C, expr: \'count(ALERTS{alertname="A", alertstate="firing"}) > 0\'',
    )
    store = series(a="9119119111191999", b="1119999991..9911", c="....11111.......")
    whole = run(store, *rules)
    monkeypatch.setattr("fairway.telemetry.rules.evaluating.DAY_MS", 3 * MINUTE)
    parts = run(store, *rules)
    assert times(parts) == times(whole)
    assert [a.labels for a in parts.alerts] == [a.labels for a in whole.alerts]
    for name in ("total", "ALERTS", "ALERTS_FOR_STATE"):
        one, other = (query_range(o.recorded, name, 0, 29 * MINUTE, MINUTE) for o in (whole, parts))
        assert one.labels == other.labels
        np.testing.assert_array_equal(one.present, other.present)
        np.testing.assert_array_equal(one.values[one.present], other.values[other.present])


def test_texts_are_filled_in_with_the_value_at_firing() -> None:
    rule = (
        'alert: Idle, expr: util < 5, for: 1m, labels: {severity: page, gpu: "x{{ $labels.gpu }}"}, annotations: '
        '{summary: "{{ $labels.gpu }} at {{ $value }} of {{ with query \\"sum(util)\\" }}'
        '{{ . | first | value }}{{ end }}", '
        'broken: "{{ first (query \\"gone\\") }}"}'
    )
    (alert,) = run(series(a="9432999999", b="9999999999"), rule).alerts
    assert dict(alert.labels) == {"alertname": "Idle", "gpu": "xa", "severity": "page"}
    assert alert.annotations["summary"] == "a at 3 of 12"
    assert "first() called on vector with no elements" in alert.annotations["broken"]


def test_a_label_of_the_value_makes_alerts_of_their_own() -> None:
    rule = 'alert: A, expr: util, labels: {level: "{{ if gt $value 4.0 }}high{{ else }}low{{ end }}"}'
    found = run(series(a="11991"), rule, minutes=5)
    assert [(dict(a.labels)["level"], *t) for a, t in zip(found.alerts, times(found), strict=True)] == [
        ("low", 0, 0, 2),
        ("high", 2, 2, 4),
        ("low", 4, 4, None),
    ]


def test_a_rule_that_asks_for_itself_goes_step_by_step() -> None:
    found = run(
        series(a="1" * 10), "record: sum_so_far, expr: sum(util) + (sum_so_far or vector(0))", minutes=10
    )
    answer = query_range(found.recorded, "sum_so_far", 0, 9 * MINUTE, MINUTE)
    assert answer.values[0].tolist() == [float(n) for n in range(1, 11)]


def test_groups_wait_for_what_they_ask_for() -> None:
    text = (
        "groups: [{name: late, rules: [{record: twice, expr: 2 * once}]}, "
        "{name: early, rules: [{record: once, expr: sum(util), labels: {by: me}}]}]"
    )
    found = evaluate(read_text(text, "f")[0], series(a="123"), 0, 2 * MINUTE)
    answer = query_range(found.recorded, "twice", 0, 2 * MINUTE, MINUTE)
    assert isinstance(answer, Matrix)
    assert (answer.labels, answer.values.tolist()) == ([labels("twice", {"by": "me"})], [[2, 4, 6]])


def test_evaluations_that_fail_are_noted_and_the_others_go_on() -> None:
    found = run(
        series(a="1111111", b="1.1.1.1"),
        "alert: A, expr: util + on() util",
        "alert: B, expr: util",
        minutes=7,
    )
    (failure,) = found.failures
    assert "many-to-many matching not allowed" in failure.message
    # A value counts for five minutes: both are there until the end.
    assert (failure.rule.alert, failure.times) == ("A", 7)
    assert {a.rule.alert for a in found.alerts} == {"B"}


@pytest.mark.parametrize(
    ("head", "rule", "said"),
    [
        ("  limit: 1\n", "alert: A, expr: util", "exceeded limit of 1 with 2 alerts"),
        ("", "record: r, expr: util, labels: {gpu: x}", "same labelset after applying rule labels"),
        ("", "alert: r, expr: util, labels: {gpu: x}", "same labelset after applying alert labels"),
    ],
)
def test_what_an_evaluation_may_not_give(head: str, rule: str, said: str) -> None:
    found = run(series(a="111", b="111"), rule, minutes=3, head=head)
    assert [said in f.message for f in found.failures] == [True]


MISSPELT = """\
groups:
- name: a
  inteval: 1m
  rules:
  - alert: X
    exprs: up
    expr: up
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: r}
spec:
  groups:
  - name: b
    partial_response_strategy: warn
    partial_response: warn
"""
TWICE = """\
groups:
- name: a
  rules:
  - {record: r, expr: up, labels: {a: b}}
  - {record: r, expr: up, labels: {a: c}}
  - {record: r, expr: "limitk(2, up)", labels: {a: b}}
  - {alert: r, expr: 'sort_by_label(up + fill(0) up, "a")'}
"""


def test_fields_that_are_not_there_are_told() -> None:
    _, problems = read_text(MISSPELT, "r.yaml")
    assert [(p.line, p.expected) for p in problems] == [
        (3, "field inteval not found in type rulefmt.RuleGroup"),
        (6, "field exprs not found in type rulefmt.Rule"),
        (16, 'unknown field "spec.groups[0].partial_response"'),
    ]


def test_rules_that_write_the_same_twice_are_named() -> None:
    groups, problems = read_text(TWICE, "r.yaml")
    assert problems == []
    assert [rule.where for rule in duplicates(groups)] == ["r.yaml:6"]


def test_what_a_prometheus_without_a_feature_refuses() -> None:
    groups, _ = read_text(TWICE, "r.yaml")
    functions, fill = "promql-experimental-functions", "promql-binop-fill-modifiers"
    for features, lines in (((), [6, 7]), ((functions,), [7]), ((functions, fill), [])):
        found = refused_without(groups, frozenset(features))
        assert [problem.line for problem in found] == lines
    found = refused_without(groups, frozenset((functions,)))
    assert "expression: 1:15: parse error: binop fill modifiers are experimental and not enabled" in str(
        found[0]
    )


WRONG = """\
groups:
- name: a
  rules:
  - alert: X
    expr: rate(util)
  - alert: Warm
    expr: util
    annotations:
      summary: "{{ $label.x }}"
      more: "{{ nope }}"
  - record: 1x
    expr: util
    for: 5m
  - expr: util
  - alert: Z
    expr: util
    for: soon
    labels: {bad-name: x}
- name: a
  rules: 7
"""


def test_wrong_rules_are_told_in_prometheus_words_with_their_lines() -> None:
    groups, problems = read_text(WRONG, "rules.yaml")
    said = [str(p) for p in problems]
    for line, words in [
        (
            5,
            'could not parse expression: 1:6: parse error: expected type range vector in call to function "rate"',
        ),
        (9, 'annotation "summary": error parsing template __alert_X'.replace("X", "Warm")),
        (9, 'undefined variable "$label"'),
        (10, 'function "nope" not defined'),
        (11, "invalid recording rule name: 1x"),
        (13, "invalid field 'for' in recording rule"),
        (14, "one of 'record' or 'alert' must be set"),
        (17, 'not a valid duration string: "soon"'),
        (18, "invalid label name: bad-name"),
        (19, 'groupname: "a" is repeated in the same file'),
        (20, "expected a list of rules"),
    ]:
        assert any(s.startswith(f"rules.yaml:{line}:") and words in s for s in said), (line, words, said)
    assert [rule.name for group in groups for rule in group.rules] == []


def test_objects_files_and_folders_are_read(tmp_path: Path) -> None:
    rule = {
        "groups": [{"name": "g", "interval": "30s", "rules": [{"alert": "A", "expr": "up == 0", "for": 0}]}]
    }
    obj = {"kind": "PrometheusRule", "metadata": {"name": "n", "namespace": "ns"}, "spec": rule}
    groups, problems = rules_of(obj)
    assert not problems
    assert (groups[0].source, groups[0].interval_ms) == ("ns/n", 30_000)
    (tmp_path / "a.yaml").write_text(
        "kind: ConfigMap\n---\nkind: PrometheusRule\nspec: {groups: [{name: x, rules: []}]}\n"
    )
    assert [g.name for g in read_rules(tmp_path)] == ["x"]
    (tmp_path / "b.yaml").write_text("kind: Pod\n")
    with pytest.raises(InvalidInput, match="expected a PrometheusRule, or `groups`"):
        read_rules(tmp_path / "b.yaml")
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_rules(tmp_path / "c.yaml")
