"""What the HTML report says about queues, as sections of the page."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.results import words
from fairway.results.htmlparts import Cell, card, panel, section, table
from fairway.results.queuefigures import ALL, GANGS, QueueFigures
from fairway.results.queuetext import amount, why_unadmitted

LISTED = 30


def queue_cards(figures: QueueFigures | None) -> str:
    """Cards for the top of the page."""
    if figures is None or not figures.waits or not figures.waits[0].workloads:
        return ""
    waits = figures.waits[0]
    tail = f"p95 {words.duration(waits.p95_us)}, {words.counted(waits.waiting, 'workload')} still waiting"
    cards = [card("Wait in the queue, median", words.duration(waits.p50_us), tail)]
    lost = sum(p.lost_gpu_milli_us for p in figures.preemptions)
    cards.append(
        card("Preempted by Kueue", words.count(figures.preempted), f"{words.gpu_hours(lost)} GPU-hours")
    )
    jains = [f.jain for f in figures.fairness if f.jain is not None]
    if jains:
        cards.append(card("Fairness", f"{min(jains):.2f}", "Jain's index, 1 is fair", min(jains), "c2"))
    return "".join(cards)


def queue_sections(figures: QueueFigures | None) -> str:
    """Tables of waits, quota, preemptions, fairness and what was never admitted."""
    if figures is None:
        return ""
    return "\n".join(
        part
        for part in (
            _waits(figures),
            _quotas(figures),
            _preemptions(figures),
            _fairness(figures),
            _unadmitted(figures),
        )
        if part
    )


def _n(text: str) -> Cell:
    return Cell(text, "n")


def _note(text: str) -> str:
    from html import escape

    return f'<p class="note">{escape(text)}</p>'


def _more(total: int) -> str:
    return _note(f"{words.count(total - LISTED)} more in summary.json.") if total > LISTED else ""


def _waits(figures: QueueFigures) -> str:
    if not figures.waits or not figures.waits[0].workloads:
        return ""
    rows: list[Sequence[Cell]] = []
    most = 0
    for by in dict.fromkeys(w.by for w in figures.waits):
        groups = [w for w in figures.waits if w.by == by]
        most = max(most, len(groups))
        if by not in (ALL, GANGS):
            rows.append((Cell(f"by {by}", "group"),))
        for w in groups[:LISTED]:
            name = {ALL: "all workloads", GANGS: "gangs, 2 or more pods"}.get(by) or w.group or "(none)"
            counts = (w.workloads, w.admitted, w.waiting)
            times = (w.p50_us, w.p95_us, w.p99_us, w.max_us)
            rows.append(
                (
                    Cell(name, "name"),
                    *(_n(words.count(c)) for c in counts),
                    *(_n(words.duration(t)) for t in times),
                )
            )
    header = ("", "workloads", "admitted", "waiting", "p50", "p95", "p99", "max")
    title = "Queue waits, from creation until first admitted by Kueue"
    return section(title, panel(table(header, rows), _more(most)))


def _quotas(figures: QueueFigures) -> str:
    rows = [
        (
            Cell(q.cluster_queue, "name"),
            Cell(q.cohort),
            _n(amount(q.nominal)),
            _n(f"{q.used:,.1f}"),
            _n(words.percent(q.used / q.nominal if q.nominal else None)),
            _n(f"{q.borrowed:,.1f}"),
            _n(amount(q.borrowed_most)),
            _n(f"{q.lent:,.1f}"),
            _n(amount(q.lent_most)),
        )
        for q in figures.quotas[:LISTED]
    ]
    if not rows:
        return ""
    header = (
        "cluster queue",
        "cohort",
        "nominal",
        "used",
        "of nominal",
        "borrowed",
        "at most",
        "lent",
        "at most",
    )
    return section(f"Quota, {figures.unit}, means", panel(table(header, rows), _more(len(figures.quotas))))


def _preemptions(figures: QueueFigures) -> str:
    rows = [
        (
            Cell(p.cluster_queue or "(none)", "name"),
            _n(words.count(p.caused)),
            _n(words.count(p.suffered)),
            _n(words.count(p.evicted_otherwise)),
            _n(words.gpu_hours(p.lost_gpu_milli_us)),
        )
        for p in figures.preemptions[:LISTED]
    ]
    if not rows:
        return ""
    pairs = [
        (
            Cell(p.preemptor or "?", "name"),
            Cell(p.victim or "?", "name"),
            Cell(p.reason),
            _n(words.count(p.count)),
        )
        for p in figures.pairs[:LISTED]
    ]
    header = ("cluster queue", "caused", "suffered", "evicted otherwise", "GPU-hours interrupted")
    parts = [panel(table(header, rows))]
    if pairs:
        parts.append(panel(table(("preemptor", "victim", "reason", "times"), pairs)))
    return section("Preemptions by Kueue", *parts)


def _fairness(figures: QueueFigures) -> str:
    rows = [
        (
            Cell(s.cluster_queue, "name"),
            Cell(s.cohort),
            _n(f"{s.weight:g}"),
            _n(words.percent(s.dominant_share)),
            _n(f"{s.weighted_share:,.0f}"),
            _n(f"{s.weighted_share_most:,.0f}"),
        )
        for s in figures.shares[:LISTED]
        if s.cohort
    ]
    if not rows or not figures.fairness:
        return ""
    notes = "; ".join(
        f"cohort {f.cohort}: Jain's index {f.jain:.2f} on average, {f.lowest:.2f} at worst"
        for f in figures.fairness
        if f.jain is not None and f.lowest is not None
    )
    header = ("cluster queue", "cohort", "weight", "of its cohort's quota", "weighted share", "at most")
    return section("Fairness", panel(table(header, rows), _note(notes) if notes else ""))


def _unadmitted(figures: QueueFigures) -> str:
    rows = [
        (
            Cell(u.cluster_queue or "(none)", "name"),
            _n(words.count(u.workloads)),
            _n(words.count(u.gangs)),
            _n(words.gpus(u.gpu_milli)),
            _n(words.duration(u.waited_us)),
            Cell(u.longest),
            Cell(why_unadmitted(u), "why"),
        )
        for u in figures.unadmitted[:LISTED]
    ]
    if not rows:
        return ""
    header = ("cluster queue", "workloads", "gangs", "GPUs", "longest", "", "why")
    return section(
        "Not admitted when the run ended", panel(table(header, rows), _more(len(figures.unadmitted)))
    )
