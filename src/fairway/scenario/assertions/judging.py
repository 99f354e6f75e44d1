"""Does an assertion hold, by how much, and who is to blame if not?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fairway.kube.quantity import format_binary
from fairway.kube.timestamps import format_duration
from fairway.recorder.tables import NodeRow
from fairway.scenario.assertions import queueevidence
from fairway.scenario.assertions.evidence import Evidence, Sample, compares
from fairway.scenario.assertions.grammar import (
    EQUAL,
    EVENTUALLY,
    GREATER,
    GREATER_EQUAL,
    NOT_EQUAL,
    Assertion,
    Comparison,
    Reaching,
)
from fairway.scenario.assertions.vocabulary import (
    ALERTS,
    BYTES,
    CLUSTER,
    COUNT,
    CPUS,
    DURATION,
    GPUS,
    METRICS,
    PODS,
    RATIO,
    SETS,
    WORKLOADS,
    Row,
)

# How many offenders a verdict names.
WORST = 3
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one assertion.

    `measured` is in the base unit of `unit` (µs, ratio, milli-GPU, milli-CPU, bytes, count), None where there was
    nothing to measure; `shown` is the same for people. `samples` is how many rows (or, of a curve, moments at
    which it changed) it stands on. `worst` names offenders when it does not hold.
    """

    assertion: Assertion
    passed: bool
    measured: float | None
    unit: str
    samples: int
    note: str = ""
    worst: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return "nothing" if self.measured is None else value_text(self.measured, self.unit)

    @property
    def text(self) -> str:
        return self.assertion.text


def value_text(value: float, unit: str) -> str:
    """`8m20s`, `61.3%`, `12.5 GPUs`, `64.0Gi`, `3`."""
    if unit == DURATION:
        return format_duration(round(value))
    if unit == RATIO:
        return f"{100 * value:.1f}%"
    if unit in (GPUS, CPUS):
        return f"{value / 1000:,.4g} {unit}"
    if unit == BYTES:
        return f"{value / _GIB:,.1f}Gi" if value >= _GIB else format_binary(round(value))
    return f"{value:,.4g}" if value != int(value) else f"{int(value):,}"


def judge(assertion: Assertion, evidence: Evidence) -> Verdict:
    body = assertion.body
    if _rows_of(body) == ALERTS and evidence.alerts is None:
        return _nothing(assertion, COUNT, "nobody evaluated the rules of this run")
    if isinstance(body, Reaching):
        return _judge_reaching(assertion, body, evidence)
    if body.metric in ("count", "share"):
        return _judge_count(assertion, body, evidence)
    metric = METRICS[body.metric]
    if metric.is_single:
        return _judge_single(assertion, body, evidence)
    if metric.rows == CLUSTER:
        return _judge_curve(assertion, body, evidence)
    return _judge_samples(assertion, body, evidence)


def _rows_of(body: Comparison | Reaching) -> str:
    if isinstance(body, Reaching):
        return ""
    return SETS[body.set].rows if body.set else METRICS[body.metric].rows


def judge_all(assertions: Sequence[Assertion], evidence: Evidence) -> tuple[Verdict, ...]:
    return tuple(judge(assertion, evidence) for assertion in assertions)


def _bounds_us(body: Comparison, evidence: Evidence) -> tuple[int, int]:
    start_us = evidence.start_us + body.window.start_us
    end_us = evidence.end_us if body.window.end_us is None else evidence.start_us + body.window.end_us
    return start_us, end_us


def _nothing(assertion: Assertion, unit: str, why: str) -> Verdict:
    return Verdict(assertion, False, None, unit, 0, why)


# Rows


def _judge_samples(assertion: Assertion, body: Comparison, evidence: Evidence) -> Verdict:
    start_us, end_us = _bounds_us(body, evidence)
    found = [
        s for s in evidence.samples(body.metric, body.condition) if start_us <= s.row.created_us <= end_us
    ]
    if not found:
        return _nothing(assertion, body.unit, f"no {METRICS[body.metric].rows} to measure")
    found.sort(key=lambda s: (s.value, _row_name(s.row)))
    value = _reduced(found, body.statistic)
    passed = compares(value, body.operator, body.bound)
    bounds = sum(s.is_bound for s in found)
    note = f"{bounds} of {len(found)} not over: counted as they stood at the end" if bounds else ""
    worst = () if passed else _worst_samples(found, body)
    return Verdict(assertion, passed, value, body.unit, len(found), note, worst)


def _reduced(ordered: list[Sample], statistic: str) -> float:
    """Percentiles by nearest rank: the smallest value that so many percent do not exceed."""
    if statistic == "min":
        return ordered[0].value
    if statistic == "max":
        return ordered[-1].value
    if statistic in ("mean", "total"):
        total = math.fsum(s.value for s in ordered)
        return total / len(ordered) if statistic == "mean" else total
    rank = math.ceil(round(len(ordered) * float(statistic[1:]) / 100, 9))
    return ordered[max(rank, 1) - 1].value


def _worst_samples(ordered: list[Sample], body: Comparison) -> tuple[str, ...]:
    """The rows furthest on the wrong side."""
    wants_more = body.operator in (GREATER, GREATER_EQUAL)
    if body.operator == EQUAL:
        ordered = sorted(ordered, key=lambda s: abs(s.value - body.bound))
    chosen = ordered[:WORST] if wants_more else ordered[::-1][:WORST]
    return tuple(
        f"{_row_name(s.row)}: {'at least ' if s.is_bound else ''}{value_text(s.value, body.unit)}"
        for s in chosen
        if not compares(s.value, body.operator, body.bound)
    )


def _row_name(row: Row) -> str:
    if isinstance(row, NodeRow):
        return row.name
    name = f"{row.namespace}/{row.name}"
    kind = getattr(row, "kind", "")
    return f"{kind} {name}" if kind else name


# Counts


def _judge_count(assertion: Assertion, body: Comparison, evidence: Evidence) -> Verdict:
    of = SETS[body.set]
    start_us, end_us = _bounds_us(body, evidence)
    rows = evidence.rows(of.rows, body.condition)
    members = [r for r in rows if of.has(r) and _is_within(of.at_us(r), start_us, end_us)]
    note = f"no {of.rows} match the condition at all" if not rows and body.condition is not None else ""
    if body.metric == "share":
        if not rows:
            return _nothing(assertion, RATIO, note or f"no {of.rows} to count")
        value = len(members) / len(rows)
    else:
        value = float(len(members))
    passed = compares(value, body.operator, body.bound)
    wants_fewer = body.operator not in (GREATER, GREATER_EQUAL, NOT_EQUAL) and value > body.bound
    worst = tuple(_member_text(r) for r in members[:WORST]) if not passed and wants_fewer else ()
    return Verdict(assertion, passed, value, body.unit, len(rows), note, worst)


def _is_within(at_us: int | None, start_us: int, end_us: int) -> bool:
    return at_us is None or start_us <= at_us <= end_us


def _member_text(row: Row) -> str:
    """The row and the likeliest reason why it is one of them."""
    said = [getattr(row, name, "") for name in ("disruption", "reason", "unschedulable")]
    why = next((text for text in said if text), "")
    return f"{_row_name(row)}: {why}" if why else _row_name(row)


# Curves


def _judge_curve(assertion: Assertion, body: Comparison, evidence: Evidence) -> Verdict:
    start_us, end_us = _bounds_us(body, evidence)
    curve = evidence.curve(body.metric, body.unit, body.condition).within(start_us, end_us)
    if not curve.is_defined:
        return _nothing(assertion, body.unit, _why_undefined(body, end_us <= start_us))
    low, high = curve.lowest(), curve.highest()
    wants_more = body.operator in (GREATER, GREATER_EQUAL)
    extreme = low if wants_more else high
    if body.always:
        value = extreme.value
        if body.operator in (EQUAL, NOT_EQUAL) and abs(low.value - body.bound) > abs(value - body.bound):
            extreme, value = low, low.value
        passed = all(compares(e.value, body.operator, body.bound) for e in (low, high))
        if body.operator == NOT_EQUAL:
            passed = not any(v == body.bound for v in curve.values.tolist())
    elif body.statistic in ("min", "max"):
        extreme = low if body.statistic == "min" else high
        value = extreme.value
        passed = compares(value, body.operator, body.bound)
    else:
        value = _mean(body, evidence, start_us, end_us, curve.mean())
        passed = compares(value, body.operator, body.bound)
    at = format_duration(extreme.at_us - evidence.start_us)
    worst = () if passed else (f"{value_text(extreme.value, body.unit)} at {at}",)
    return Verdict(assertion, passed, value, body.unit, len(curve.values), "", worst)


def _mean(body: Comparison, evidence: Evidence, start_us: int, end_us: int, plain: float) -> float:
    if body.unit == RATIO and body.metric.endswith("allocated"):
        return evidence.ratio_mean(body.metric, body.condition, start_us, end_us)
    return plain


def _why_undefined(body: Comparison, is_empty: bool) -> str:
    if is_empty:
        return "the run ended before the window began"
    if body.metric in queueevidence.CURVES:
        return queueevidence.why_undefined(body.metric)
    return {
        "gpu efficiency": "no pod says how it uses its GPUs (fairway.dev/gpu-utilization)",
        "fragmentation": "no GPU was free, or none was asked for",
    }.get(body.metric, "there was nothing to measure")


# Single values


def _judge_single(assertion: Assertion, body: Comparison, evidence: Evidence) -> Verdict:
    value, samples = _single(body, evidence)
    if value is None:
        return _nothing(assertion, body.unit, "there was nothing to measure")
    passed = compares(value, body.operator, body.bound)
    return Verdict(assertion, passed, value, body.unit, samples)


def _single(body: Comparison, evidence: Evidence) -> tuple[float | None, int]:
    if body.metric == "lost work":
        lost = evidence.lost_work_us
        return (None, 0) if lost is None else (float(lost), 1)
    if body.metric == "makespan":
        rows = evidence.rows(WORKLOADS, body.condition)
        ends = [row.finished_us for row in rows if row.finished_us is not None]
        return (float(max(ends) - evidence.start_us), len(ends)) if ends else (None, 0)
    pods = evidence.rows(PODS, body.condition)
    held = sum(pod.held_gpu_milli_us for pod in pods)
    wasted = sum(pod.held_gpu_milli_us for pod in pods if pod.is_wasted)
    return (wasted / held, len(pods)) if held else (None, 0)


# Objects


def _judge_reaching(assertion: Assertion, body: Reaching, evidence: Evidence) -> Verdict:
    reached = evidence.reached.get(body, {})
    if not reached:
        why = f"no {body.gk.partition('.')[0]} of this name was there"
        return Verdict(assertion, body.quantifier != EVENTUALLY, None, COUNT, 0, why)
    if body.quantifier != EVENTUALLY:
        found = [(at, key) for key, (_, at) in sorted(reached.items()) if at is not None]
        worst = tuple(
            f"{key} {body.state} at {format_duration(at - evidence.start_us)}"
            for at, key in sorted(found)[:WORST]
        )
        return Verdict(assertion, not found, float(len(found)), COUNT, len(reached), "", worst)
    return _judge_eventually(assertion, body, evidence)


def _judge_eventually(assertion: Assertion, body: Reaching, evidence: Evidence) -> Verdict:
    """It took as long as the slowest of them."""
    late: list[tuple[float, str]] = []
    slowest: float | None = 0.0
    limit = body.within_us if body.within_us is not None else body.before_us
    reached = evidence.reached[body]
    for key, (created_us, at_us) in sorted(reached.items()):
        from_us = evidence.start_us if body.within_us is None else created_us
        if at_us is None:
            late.append((float("inf"), f"{key}: not in {format_duration(evidence.end_us - from_us)}"))
            slowest = None
            continue
        took = float(at_us - from_us)
        slowest = None if slowest is None else max(slowest, took)
        if limit is not None and took > limit:
            late.append((took, f"{key}: after {format_duration(round(took))}"))
    late.sort(key=lambda pair: (-pair[0], pair[1]))
    worst = tuple(text for _, text in late[:WORST])
    return Verdict(assertion, not late, slowest, DURATION, len(reached), "", worst)
