"""Texts that are assertions, and what they mean; texts that are none, and what the message says."""

from __future__ import annotations

import pytest

from fairway.kube.timestamps import HOUR_US, MINUTE_US
from fairway.scenario.assertions import BadAssertion, parse
from fairway.scenario.assertions.grammar import All, Comparison, Either, FieldTest, Not, Reaching, Window

PROD = FieldTest("priorityClass", "==", ("prod",))

MEANINGS: list[tuple[str, Comparison | Reaching]] = [
    ("wait p95 < 10m", Comparison("wait", "p95", "<", 10 * MINUTE_US, "duration")),
    ("wait p99.9 <= 1h30m", Comparison("wait", "p99.9", "<=", 90 * MINUTE_US, "duration")),
    (
        'wait p95 < 10m where priorityClass == "prod"',
        Comparison("wait", "p95", "<", 10 * MINUTE_US, "duration", condition=PROD),
    ),
    ("gpu allocated > 60%", Comparison("gpu allocated", "mean", ">", 0.6, "%")),
    ("gpu allocated max <= 12 GPUs", Comparison("gpu allocated", "max", "<=", 12_000, "GPUs")),
    (
        "gpu used >= 40% between 1h and 5h",
        Comparison("gpu used", "mean", ">=", 0.4, "%", window=Window(HOUR_US, 5 * HOUR_US)),
    ),
    (
        "fragmentation < 10% after 30m",
        Comparison("fragmentation", "mean", "<", 0.1, "%", window=Window(30 * MINUTE_US)),
    ),
    ("pending max < 3 before 1h", Comparison("pending", "max", "<", 3, "count", window=Window(0, HOUR_US))),
    (
        'count(evicted) == 0 where namespace == "serving"',
        Comparison(
            "count", "", "==", 0, "count", "evicted", condition=FieldTest("namespace", "==", ("serving",))
        ),
    ),
    ("share(failed) <= 1.5%", Comparison("share", "", "<=", 0.015, "%", "failed")),
    ("count(unfinished jobs) == 0", Comparison("count", "", "==", 0, "count", "unfinished jobs")),
    ("always pending < 50", Comparison("pending", "mean", "<", 50, "count", always=True)),
    ("run time p50 < 30m", Comparison("run time", "p50", "<", 30 * MINUTE_US, "duration")),
    ("job run time mean > 1m", Comparison("job run time", "mean", ">", MINUTE_US, "duration")),
    ("makespan < 4h", Comparison("makespan", "", "<", 4 * HOUR_US, "duration")),
    ("memory allocated max < 64Gi", Comparison("memory allocated", "max", "<", 64 * 2**30, "bytes")),
    ("cpu allocated < 96 cores", Comparison("cpu allocated", "mean", "<", 96_000, "CPUs")),
    ("wait max<5m", Comparison("wait", "max", "<", 5 * MINUTE_US, "duration")),
    ("nodes == 4", Comparison("nodes", "mean", "==", 4, "count")),
    (
        "eventually job/train Complete within 2h",
        Reaching("eventually", "Job.batch", "default", "train", "Complete", 2 * HOUR_US),
    ),
    (
        "eventually jobs.batch/team-a/train Complete before 2h",
        Reaching("eventually", "Job.batch", "team-a", "train", "Complete", None, 2 * HOUR_US),
    ),
    ("never pod/web-* Failed", Reaching("never", "Pod", "default", "web-*", "Failed")),
    ("never node/gpu-0 NotReady", Reaching("never", "Node", "", "gpu-0", "NotReady")),
    (
        "eventually Widget.example.com/w Ready",
        Reaching("eventually", "Widget.example.com", "default", "w", "Ready"),
    ),
]


@pytest.mark.parametrize(("text", "want"), MEANINGS, ids=[text for text, _ in MEANINGS])
def test_meanings(text: str, want: Comparison | Reaching) -> None:
    assert parse(text) == want


def _where(text: str) -> object:
    found = parse(f"count(pods) == 0 where {text}")
    assert isinstance(found, Comparison)
    return found.condition


CONDITIONS: list[tuple[str, object]] = [
    ('phase == "Pending"', FieldTest("phase", "==", ("Pending",))),
    ("phase != 'Pending'", FieldTest("phase", "!=", ("Pending",))),
    ('name like "web-*"', FieldTest("name", "like", ("web-*",))),
    ('name not like "web-*"', Not(FieldTest("name", "like", ("web-*",)))),
    ('kind in ("Job", "CronJob")', FieldTest("kind", "in", ("Job", "CronJob"))),
    ('kind not in ("Job")', FieldTest("kind", "not in", ("Job",))),
    ('label("team") == "a"', FieldTest("label", "==", ("a",), "team")),
    ("gpus >= 2", FieldTest("gpus", ">=", (2000.0,))),
    ("gpus >= 2 GPUs", FieldTest("gpus", ">=", (2000.0,))),
    ("cpus < 4", FieldTest("cpus", "<", (4000.0,))),
    ("memory > 16Gi", FieldTest("memory", ">", (float(16 * 2**30),))),
    ("serving == true", FieldTest("serving", "==", (True,))),
    ("wait > 5m", FieldTest("wait", ">", (float(5 * MINUTE_US),))),
    ("priority < 0", FieldTest("priority", "<", (0.0,))),
    ('not name == "x"', Not(FieldTest("name", "==", ("x",)))),
    (
        'name == "x" or gpus == 1 and cpus == 1',
        Either(
            (
                FieldTest("name", "==", ("x",)),
                All((FieldTest("gpus", "==", (1000.0,)), FieldTest("cpus", "==", (1000.0,)))),
            )
        ),
    ),
    (
        '(name == "x" or gpus == 1) and cpus == 1',
        All(
            (
                Either((FieldTest("name", "==", ("x",)), FieldTest("gpus", "==", (1000.0,)))),
                FieldTest("cpus", "==", (1000.0,)),
            )
        ),
    ),
]


@pytest.mark.parametrize(("text", "want"), CONDITIONS, ids=[text for text, _ in CONDITIONS])
def test_conditions(text: str, want: object) -> None:
    assert _where(text) == want


def test_a_window_may_stand_before_or_after_where() -> None:
    before = parse('wait p50 < 1m between 1h and 2h where name == "x" and gpus == 1')
    after = parse('wait p50 < 1m where name == "x" and gpus == 1 between 1h and 2h')
    assert before == after


# text, column, words of the message
MISTAKES: list[tuple[str, int, str]] = [
    ("", 1, "expected one of"),
    ("wiat p95 < 10m", 1, "did you mean wait"),
    ("gpu alocated > 60%", 1, "did you mean gpu allocated"),
    ("wait < 10m", 6, "expected a statistic of wait"),
    ("wait p95", 9, "expected one of < <="),
    ("wait p95 < ", 11, "expected a duration"),
    ("wait p95 < 10", 12, "expected a duration such as 10m"),
    ("wait p95 < 60%", 12, "expected a duration"),
    ("wait p0 < 1m", 6, "p50, p95"),
    ("wait p101 < 1m", 6, "p50, p95"),
    ("wait average < 1m", 6, "expected one of mean, min, max, total"),
    ("gpu allocated p95 > 1%", 15, "expected one of mean, min, max"),
    ("gpu allocated > 10m", 17, "a percentage such as 60% or a number of GPUs"),
    ("gpu allocated > 60% 5", 21, "or the end"),
    ("gpu allocated = 60%", 15, "expected == to compare"),
    ("gpu allocated + 1 > 60%", 15, "no arithmetic"),
    ("count(evictd) == 0", 7, "did you mean evicted"),
    ("count evicted == 0", 7, "expected ("),
    ("count(evicted == 0", 15, "expected )"),
    ("count(evicted) == 5%", 19, "expected a number such as 3"),
    ("share(failed) < 1", 17, "expected a percentage"),
    ('count(pods) == 0 where phas == "Pending"', 24, "unknown field of pods: did you mean phase"),
    ('count(jobs) == 0 where phase == "x"', 24, "unknown field of workloads"),
    ('count(nodes) == 0 where namespace == "x"', 25, "unknown field of nodes"),
    ("count(pods) == 0 where phase == Pending", 33, 'write "Pending"'),
    ("count(pods) == 0 where phase < 'a'", 30, "expected == or !="),
    ("count(pods) == 0 where gpus == 'a'", 32, "a number of GPUs"),
    ("count(pods) == 0 where gpus == 10m", 32, "a number of GPUs"),
    ("count(pods) == 0 where wait > 5", 31, "a duration"),
    ("count(pods) == 0 where serving == 'x'", 35, "true or false"),
    ("count(pods) == 0 where phase", 29, "in, not in, like"),
    ('count(pods) == 0 where gpus like "1*"', 24, "like goes with text"),
    ("count(pods) == 0 where label(team) == 'a'", 30, "name in quotes"),
    ('count(pods) == 0 where phase in "x"', 33, "expected ("),
    ('count(pods) == 0 where name == "x', 32, "closing quote"),
    ('count(pods) == 0 where name == "x" && gpus == 1', 36, "expected and, or, not"),
    ('fragmentation < 10% where name == "x"', 21, "where does not apply"),
    ("lost work < 1h after 2h", 16, "over the whole run"),
    ("makespan max < 1h", 10, "is one value"),
    ("always wait < 10m", 8, "one per pod"),
    ("always count(pods) < 3", 8, "value over time"),
    ("always pending max < 3", 16, "every moment"),
    ("wait p50 < 1m between 5h and 1h", 30, "after the window's start"),
    ("wait p50 < 1m between 1h 2h", 26, "expected and"),
    ("wait p50 < 1m after 1h before 2h", 24, "expected one window"),
    ("eventually train Complete", 12, "expected an object"),
    ("eventually jbo/train Complete", 12, "expected a known kind"),
    ("eventually job/train Done", 22, "expected one of Created, Started, Complete"),
    ("eventually job/train Complet", 22, "did you mean Complete"),
    ("eventually job/train", 21, "expected what it reaches: Created"),
    ("eventually node/a/b Ready", 12, "has no namespace: expected node/b"),
    ("eventually job/train Complete within 2", 38, "a duration"),
    ("never pod/x Failed within 2h", 20, "or the end"),
    ("wait p95 < 10m where", 21, "unknown field of pods"),
    ("wait p95 < 10m §", 16, "expected a word"),
]


@pytest.mark.parametrize(("text", "column", "words"), MISTAKES, ids=[m[0] or "empty" for m in MISTAKES])
def test_mistakes(text: str, column: int, words: str) -> None:
    with pytest.raises(BadAssertion) as caught:
        parse(text)
    assert words in caught.value.expected, caught.value.expected
    assert caught.value.column == column
