"""What a terminal report says about queues: data → lines, for any width from 80 columns on."""

from __future__ import annotations

from fairway.kube.timestamps import format_duration
from fairway.results import words
from fairway.results.queuefigures import (
    ALL,
    GANGS,
    QueueFigures,
    QueueWaits,
    Stretches,
    Unadmitted,
    quota_series,
    summed,
    unit_of,
)
from fairway.results.resample import grid_means
from fairway.results.run import Run
from fairway.results.textlayout import DIM, HEADING, Line, sparkline, table, wrapped

GROUPS_SHOWN = 12
QUEUES_SHOWN = 8
REASONS_SHOWN = 8

_LABEL, _VALUE, _NOTE = 12, 9, 32


def queue_lines(run: Run, figures: QueueFigures | None, width: int) -> list[list[Line]]:
    """The sections about queues; none for a run without Kueue."""
    if figures is None:
        return []
    return [
        _waits(figures, width),
        _quotas(run, figures, width),
        _preemptions(figures, width),
        _fairness(figures, width),
        _gangs(run, figures, width),
        _unadmitted(figures, width),
    ]


def _waits(figures: QueueFigures, width: int) -> list[Line]:
    if not figures.waits or not figures.waits[0].workloads:
        return []
    rows: list[tuple[str, ...]] = []
    left_out = 0
    for by in dict.fromkeys(w.by for w in figures.waits):
        groups = [w for w in figures.waits if w.by == by]
        if by not in (ALL, GANGS):
            rows.append((f"by {by}", *[""] * 7))
        rows.extend(_wait_row(w) for w in groups[:GROUPS_SHOWN])
        left_out += max(len(groups) - GROUPS_SHOWN, 0)
    header = ("", "workloads", "admitted", "waiting", "p50", "p95", "p99", "max")
    lines = [
        Line("QUEUE WAITS  Workloads of Kueue, from creation until first admitted", HEADING),
        *table(header, rows, width),
    ]
    if left_out:
        lines.append(Line(f"  … and {words.counted(left_out, 'group')} more (-o json has all)", DIM))
    return lines


def _wait_row(waits: QueueWaits) -> tuple[str, ...]:
    name = {ALL: "all workloads", GANGS: "gangs, 2 or more pods"}.get(
        waits.by
    ) or f"  {waits.group or '(none)'}"
    times = (waits.p50_us, waits.p95_us, waits.p99_us, waits.max_us)
    counts = (waits.workloads, waits.admitted, waits.waiting)
    return (name, *(words.count(c) for c in counts), *(words.duration(t) for t in times))


def _quotas(run: Run, figures: QueueFigures, width: int) -> list[Line]:
    queues = run.outcome.queues
    _, factors = unit_of(queues)
    room = max(width - 2 - _LABEL - _VALUE - _NOTE - 4, 10)
    ranked = sorted(figures.quotas, key=lambda q: (-q.used, q.cluster_queue))[:QUEUES_SHOWN]
    shown = {q.cluster_queue for q in ranked}
    lines = [Line(f"QUOTA OVER TIME  {figures.unit}, means", HEADING)]
    for quota in figures.quotas:
        if quota.cluster_queue not in shown:
            continue
        series = quota_series(queues, quota.cluster_queue, factors)
        if series is None:
            continue
        cohort = f", cohort {quota.cohort}" if quota.cohort else ""
        lines.append(
            Line(words.cut(f"  {quota.cluster_queue}: {amount(quota.nominal)} nominal{cohort}", width))
        )
        top = max(*series.values["nominal"], *series.values["used"])
        share = words.percent(quota.used / quota.nominal) + " of nominal" if quota.nominal else "of no quota"
        for label, mean, note in (
            ("used", quota.used, share),
            ("borrowed", quota.borrowed, f"at most {amount(quota.borrowed_most)}"),
            ("lent", quota.lent, f"at most {amount(quota.lent_most)}"),
        ):
            if label == "used" or any(series.values[label]):
                line = sparkline(_grid(series, label, room), top)
                lines.append(Line(words.cut(f"    {label:<10}{mean:>{_VALUE},.1f}  {line}  {note}", width)))
    rest = len(figures.quotas) - len(shown)
    if rest > 0:
        lines.append(Line(f"  … and {rest:,} more that use less (-o json has all)", DIM))
    return lines if len(lines) > 1 else []


def amount(value: float) -> str:
    """`24`, `3.5`, `unlimited`."""
    return "unlimited" if value > 1e15 else f"{value:,.1f}".removesuffix(".0")


def _grid(series: Stretches, column: str, bins: int) -> list[float | None]:
    return grid_means(series.starts, series.ends, series.values[column], bins)


def _preemptions(figures: QueueFigures, width: int) -> list[Line]:
    if not figures.preemptions:
        return []
    rows = [
        (
            p.cluster_queue or "(none)",
            words.count(p.caused),
            words.count(p.suffered),
            words.count(p.evicted_otherwise),
            words.gpu_hours(p.lost_gpu_milli_us),
        )
        for p in figures.preemptions[:GROUPS_SHOWN]
    ]
    header = ("cluster queue", "caused", "suffered", "evicted otherwise", "GPU-hours interrupted")
    lines = [Line("PREEMPTIONS  by Kueue", HEADING), *table(header, rows, width)]
    if figures.pairs:
        pairs = ", ".join(
            f"{p.preemptor or '?'} → {p.victim or '?'} {words.count(p.count)} ({p.reason})"
            for p in figures.pairs[:GROUPS_SHOWN]
        )
        lines.extend(wrapped(f"who preempted whom: {pairs}", width))
    others = {name: n for name, n in figures.evictions.items() if name != "Preempted"}
    if others:
        listed = ", ".join(f"{words.count(n)} {name}" for name, n in others.items())
        lines.extend(wrapped(f"other evictions: {listed}", width))
    return lines


def _fairness(figures: QueueFigures, width: int) -> list[Line]:
    in_cohorts = [s for s in figures.shares if s.cohort]
    if not figures.fairness or not in_cohorts:
        return []
    lines = [Line("FAIRNESS  between queues that wait or borrow; 1 is fair", HEADING)]
    for fairness in figures.fairness[:GROUPS_SHOWN]:
        said = "never two that waited or borrowed at once"
        if fairness.jain is not None and fairness.lowest is not None:
            said = f"Jain's index {fairness.jain:.2f} on average, {fairness.lowest:.2f} at worst, "
            said += f"over {format_duration(fairness.contended_us)} in which two or more contended"
        lines.extend(wrapped(f"cohort {fairness.cohort}: {said}", width))
    rows = [
        (
            s.cluster_queue,
            f"{s.weight:g}",
            words.percent(s.dominant_share),
            f"{s.weighted_share:,.0f}",
            f"{s.weighted_share_most:,.0f}",
        )
        for s in sorted(in_cohorts, key=lambda s: (-s.dominant_share, s.cluster_queue))[:GROUPS_SHOWN]
    ]
    header = ("cluster queue", "weight", "of its cohort's quota", "weighted share", "at most")
    return lines + table(header, rows, width)


def _gangs(run: Run, figures: QueueFigures, width: int) -> list[Line]:
    if not figures.gangs_waiting_most:
        return []
    room = max(width - 2 - _LABEL - _VALUE - _NOTE - 4, 10)
    series = summed(run.outcome.queues, "gangs_pending")
    values = series.values["gangs_pending"]
    spent = sum(v * (e - s) for v, s, e in zip(values, series.starts, series.ends, strict=True))
    mean = spent / max(run.outcome.duration_us, 1)
    line = sparkline(_grid(series, "gangs_pending", room), figures.gangs_waiting_most)
    note = f"mean; at most {amount(figures.gangs_waiting_most)} at once"
    still = sum(u.gangs for u in figures.unadmitted)
    return [
        Line("GANGS WAITING  Workloads of more than one pod, admitted whole or not at all", HEADING),
        Line(words.cut(f"  {'waiting':<{_LABEL}}{mean:>{_VALUE},.1f}  {line}  {note}", width)),
        *([Line(f"  {words.counted(still, 'gang')} still waiting at the end")] if still else []),
    ]


def _unadmitted(figures: QueueFigures, width: int) -> list[Line]:
    if not figures.unadmitted:
        return []
    lines = [Line("NOT ADMITTED WHEN IT ENDED", HEADING)]
    for u in figures.unadmitted[:REASONS_SHOWN]:
        gpus = f", {words.gpus(u.gpu_milli)} GPUs" if u.gpu_milli else ""
        head = f"{u.cluster_queue or '(no ClusterQueue)'}: {words.counted(u.workloads, 'workload')}{gpus}"
        longest = f"longest {format_duration(u.waited_us)}, {u.longest}"
        lines.append(Line(words.cut(f"  {head}; {longest}", width)))
        lines.extend(wrapped(why_unadmitted(u), width, "      "))
    rest = len(figures.unadmitted) - REASONS_SHOWN
    return lines + ([Line(f"  … and {words.counted(rest, 'reason')} more", DIM)] if rest > 0 else [])


def why_unadmitted(u: Unadmitted) -> str:
    """Kueue's words, or that it had none."""
    if not u.reason:
        return "in line: Kueue said nothing of them yet"
    return f"{u.reason}: {u.message}" if u.message else u.reason
