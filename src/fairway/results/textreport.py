"""The report of a run for a terminal: data → text, for any width from 80 columns on."""

from __future__ import annotations

from collections.abc import Callable

from fairway.kube.timestamps import format_duration
from fairway.recorder.tables import COMPLETE
from fairway.results import words
from fairway.results.alerttext import alert_lines
from fairway.results.figures import ALL, Figures, Group, Waits, figures_of
from fairway.results.queuetext import queue_lines
from fairway.results.resample import on_grid
from fairway.results.run import Run, partial_words
from fairway.results.scalingtext import scaling_lines
from fairway.results.servingtext import serving_lines
from fairway.results.textlayout import (
    BAD,
    DIM,
    GOOD,
    HEADING,
    TITLE,
    Line,
    both_ends,
    sparkline,
    table,
    wrapped,
)

MIN_WIDTH, MAX_WIDTH = 80, 160
# Rows of a ranking; what is left out is counted.
RANKED_SHOWN = 8
GROUPS_SHOWN = 12
PODS_SHOWN = 8

_Row = Callable[[str, str, str, float, str], Line]
"""Label, value, column of the series, its top, note."""

_LABEL, _VALUE, _NOTE = 12, 9, 32


def report_lines(run: Run, width: int = 100, figures: Figures | None = None) -> list[Line]:
    """Everything worth saying about a run, most important first."""
    width = min(max(width, MIN_WIDTH), MAX_WIDTH)
    figures = figures_of(run.outcome) if figures is None else figures
    parts = [
        _head(run, width),
        _assertions(run, width),
        alert_lines(run, width),
        _gpu(run, figures, width),
        _waits(figures, width),
        *queue_lines(run, figures.queues, width),
        serving_lines(run, width),
        scaling_lines(run, width),
        _reasons(figures, width),
        _never_started(figures, width),
        _losses(run, figures, width),
        _notes(run, width),
    ]
    lines: list[Line] = []
    for part in parts:
        if part:
            lines.extend([Line(""), *part] if lines else part)
    return lines


def _head(run: Run, width: int) -> list[Line]:
    outcome, info = run.outcome, run.info
    seed = "" if info.seed is None else f" · seed {info.seed}"
    lines = [Line(both_ends(info.name or "run", f"{run.status}{seed}", width), TITLE)]
    if run.status != COMPLETE:
        lines.extend(Line(line.text.strip(), BAD) for line in wrapped(partial_words(run), width, ""))
    if not outcome.duration_us:
        return lines
    peaks = outcome.peaks
    size = ""
    if "nodes" in peaks:
        nodes = words.counted(peaks["nodes"].value, "node")
        size = f" · {nodes}, {words.gpus(peaks['gpu_milli_total'].value)} GPUs"
    latency = f" · latency {info.latency}" if info.latency else ""
    spent = format_duration(outcome.duration_us)
    when = f"{words.span(outcome.began_us, outcome.ended_us)} ({spent} simulated)"
    lines.append(Line(words.cut(f"{when}{size}{latency}", width)))
    return lines


def _assertions(run: Run, width: int) -> list[Line]:
    verdicts = run.info.assertions
    if not verdicts:
        return []
    passed = sum(bool(v.get("passed")) for v in verdicts)
    lines = [Line(f"ASSERTIONS  {passed} of {len(verdicts)} hold", HEADING)]
    for verdict in verdicts:
        holds = bool(verdict.get("passed"))
        text = both_ends(
            f"  {'pass' if holds else 'FAIL'}  {verdict.get('name', '')}",
            str(verdict.get("shown", "")),
            width,
        )
        lines.append(Line(text, GOOD if holds else BAD))
        notes = [verdict["note"]] if verdict.get("note") else []
        lines.extend(Line(words.cut(f"        {n}", width)) for n in [*notes, *(verdict.get("worst") or ())])
    return lines


def _gpu(run: Run, figures: Figures, width: int) -> list[Line]:
    outcome, gpu = run.outcome, figures.gpu
    if not len(outcome.series):
        return []
    room = max(width - 2 - _LABEL - _VALUE - _NOTE - 4, 10)

    def row(label: str, value: str, name: str, top: float, note: str) -> Line:
        line = sparkline(on_grid(outcome.series, name, room), top)
        return Line(words.cut(f"  {label:<{_LABEL}}{value:>{_VALUE}}  {line}  {note}", width))

    lines = [Line("OVER TIME", HEADING)]
    total = _most(run, "gpu_milli_total")
    if total:
        held = f"{words.gpu_hours(gpu.held)} of {words.gpu_hours(gpu.offered)} GPU-hours"
        lines.append(row("allocated", words.percent(gpu.allocated_ratio), "gpu_milli_allocated", total, held))
        if gpu.told:
            told = f"of GPUs that tell ({words.percent(gpu.told_ratio)})"
            lines.append(row("used", words.percent(gpu.used_ratio), "gpu_milli_used", total, told))
        pending = outcome.mean("gpu_milli_pending") / 1000
        lines.append(_peaked(row, pending, "GPUs asked", "gpu_milli_pending", run, 1000))
        fragmented = figures.fragmentation
        if fragmented.mean is not None:
            note = f"of free GPU no use; end {words.percent(fragmented.last)}"
            lines.append(row("fragmented", words.percent(fragmented.mean), "fragmentation", 1.0, note))
    lines.append(_peaked(row, outcome.mean("queue_length"), "queue", "queue_length", run, 1))
    lines.append(_peaked(row, outcome.mean("pods_running"), "running", "pods_running", run, 1))
    for label, ratio, name in (
        ("cpu", figures.cpu_allocated_ratio, "cpu_milli"),
        ("memory", figures.memory_allocated_ratio, "memory_bytes"),
    ):
        top = _most(run, f"{name}_total")
        lines.append(row(label, words.percent(ratio), f"{name}_allocated", top, "allocated"))
    lines.append(Line(" " * (2 + _LABEL + _VALUE + 2) + _axis(outcome.duration_us, room), DIM))
    if total and not gpu.told:
        lines.append(
            Line("  used: unknown; pods say so with the annotation fairway.dev/gpu-utilization", DIM)
        )
    return lines + (_idle(figures, width) if total else [])


def _most(run: Run, name: str) -> float:
    return max(run.outcome.series.column(name), default=0.0)


def _peaked(row: _Row, mean: float, label: str, name: str, run: Run, unit: int) -> Line:
    """A line that shows the mean, scaled to the peak, and names the peak."""
    peak = run.outcome.peaks.get(name)
    top = peak.value if peak else 0
    when = format_duration(peak.at_us - run.outcome.began_us) if peak else ""
    note = f"mean; at most {top / unit:,.6g} at +{when}" if peak and top else "never any"
    return row(label, f"{mean:,.1f}", name, float(top), note)


def _axis(duration_us: int, room: int) -> str:
    """`0` on the left, the run's length on the right, its half in between where there is room."""
    end, middle = f"+{format_duration(duration_us)}", f"+{format_duration(duration_us // 2)}"
    if room < len(end) + len(middle) + 12:
        return "0" + end.rjust(room - 1)
    at = room // 2 - len(middle) // 2
    line = "0".ljust(at) + middle
    return line + end.rjust(room - len(line))


def _idle(figures: Figures, width: int) -> list[Line]:
    gpu = figures.gpu
    parts = [
        (gpu.idle_in_demand, "while GPU pods waited"),
        (gpu.idle_no_demand, "with nobody waiting"),
        (gpu.idle_closed, "cordoned or not ready"),
    ]
    named = [f"{words.gpu_hours(value)} {what}" for value, what in parts if value > 0]
    if not named:
        return []
    total = words.gpu_hours(gpu.offered - gpu.held)
    return wrapped(f"idle {total} GPU-hours: {', '.join(named)}", width)


def _waits(figures: Figures, width: int) -> list[Line]:
    if not figures.waits or not figures.waits[0].pods:
        return []
    rows: list[tuple[str, ...]] = []
    left_out = 0
    for by in dict.fromkeys(w.by for w in figures.waits):
        groups = [w for w in figures.waits if w.by == by]
        if by != ALL:
            rows.append((f"by {by}", *[""] * 8))
        rows.extend(_wait_row(w) for w in groups[:GROUPS_SHOWN])
        left_out += max(len(groups) - GROUPS_SHOWN, 0)
    header = ("", "pods", "started", "waiting", "p50", "p90", "p95", "p99", "max")
    pods = figures.pods
    state = f"{words.counted(pods.total, 'pod')}: {pods.succeeded:,} succeeded, {pods.failed:,} failed, "
    state += f"{pods.running:,} running, {pods.waiting:,} waiting at the end"
    lines = [Line("WAITS", HEADING), Line(words.cut(f"  {state}", width)), *table(header, rows, width)]
    if left_out:
        lines.append(Line(f"  … and {words.counted(left_out, 'group')} more (-o json has all)", DIM))
    return lines


def _wait_row(waits: Waits) -> tuple[str, ...]:
    name = "all pods" if waits.by == ALL else f"  {waits.group or '(none)'}"
    times = (waits.p50_us, waits.p90_us, waits.p95_us, waits.p99_us, waits.max_us)
    counts = (waits.pods, waits.started, waits.waiting)
    return (name, *(words.count(c) for c in counts), *(words.duration(t) for t in times))


def _reasons(figures: Figures, width: int) -> list[Line]:
    if not figures.reasons:
        return []
    rows = [
        (r.reason, words.count(r.pods), words.count(r.pods_never_placed), words.count(r.told))
        for r in figures.reasons[:RANKED_SHOWN]
    ]
    header = ("reason", "pods", "never placed", "told")
    lines = [Line("WHY PODS WAITED  last words of the scheduler, by reason", HEADING)]
    lines.extend(table(header, rows, width))
    return lines + _more(len(figures.reasons), RANKED_SHOWN, "reason")


def _more(total: int, shown: int, noun: str) -> list[Line]:
    rest = total - shown
    return [Line(f"  … and {rest:,} more {noun}{'' if rest == 1 else 's'}", DIM)] if rest > 0 else []


def _never_started(figures: Figures, width: int) -> list[Line]:
    if not figures.never_started:
        return []
    name_room = max(20, width // 3)
    rows = []
    for n in figures.never_started[:PODS_SHOWN]:
        name = words.cut(f"{n.namespace}/{n.name}", name_room)
        rows.append(
            (name, words.count(n.pods), words.gpus(n.gpu_milli), words.duration(n.waited_us), n.reason)
        )
    lines = [Line("NOT STARTED WHEN IT ENDED", HEADING)]
    lines.extend(table(("", "pods", "GPUs each", "waited", "why"), rows, width, left=(0, 4)))
    return lines + _more(len(figures.never_started), PODS_SHOWN, "group")


def _losses(run: Run, figures: Figures, width: int) -> list[Line]:
    pods, gpu = figures.pods, figures.gpu
    if not (figures.evictions or figures.wasted or pods.restarts or run.info.lost_work_us):
        return []
    lines = [Line("EVICTED AND WASTED", HEADING)]
    if figures.evictions:
        lines.extend(
            wrapped(f"{words.counted(pods.evicted, 'pod')} evicted: {_list(figures.evictions)}", width)
        )
    if figures.wasted:
        total = sum(g.count for g in figures.wasted)
        share = words.percent(gpu.wasted / gpu.held if gpu.held else None)
        hours = f"{words.gpu_hours(gpu.wasted)} GPU-hours, {share} of what was allocated"
        by = ", ".join(
            f"{g.name} {words.count(g.count)} ({words.gpu_hours(g.gpu_milli_us)} h)"
            for g in figures.wasted[:RANKED_SHOWN]
        )
        lines.extend(wrapped(f"{words.counted(total, 'pod')} started in vain ({hours}): {by}", width))
    if pods.restarts:
        lines.append(Line(f"  {words.counted(pods.restarts, 'container restart')}"))
    if run.info.lost_work_us:
        lost = words.duration(run.info.lost_work_us)
        lines.append(Line(f"  {lost} of container time lost, not saved by any checkpoint"))
    return lines


def _list(groups: tuple[Group, ...]) -> str:
    return ", ".join(f"{words.count(g.count)} {g.name}" for g in groups[:RANKED_SHOWN])


def _notes(run: Run, width: int) -> list[Line]:
    lines: list[Line] = []
    for note in run.info.notes:
        lines.extend(wrapped(note, width))
    return [Line("NOTES", HEADING), *lines] if lines else []
