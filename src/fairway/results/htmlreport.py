"""One HTML file with everything about a run: opens anywhere, needs no network, prints.

Styles, script and data are inline. What is too much for a page is bounded, and the page says so: the pods
listed, the nodes drawn in detail.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import Any

from fairway.kube.timestamps import format_duration
from fairway.recorder.tables import COMPLETE, NodeRow, PodRow
from fairway.results import words
from fairway.results.alerttext import by_rule
from fairway.results.charts import charts_of
from fairway.results.figures import ALL, Figures, figures_of, why_not
from fairway.results.htmlpage import page
from fairway.results.htmlparts import Cell, card, panel, section, table
from fairway.results.queuehtml import queue_cards, queue_sections
from fairway.results.run import Run, partial_words
from fairway.results.scalingcharts import scaling_section
from fairway.results.svg import svg_part
from fairway.results.timeline import Timeline, detailed, heat_map

# Pods in the table: about 200 bytes each.
PODS_LISTED = 3000
NODES_LISTED = 60
GROUPS_LISTED = 30


def html_report(run: Run) -> str:
    """The whole page. O(pods + boxes)."""
    figures = figures_of(run.outcome)
    charts = charts_of(run)
    heat, timeline = heat_map(run.outcome), detailed(run.outcome)
    data: dict[str, Any] = {
        "charts": {f"chart-{name}": drawing.readout for name, drawing in charts.items()},
        "boxes": timeline.boxes if timeline else (),
        "pods": _pods(run),
    }
    if heat is not None:
        readout = heat.drawing.readout
        data["heat"] = {**readout, "percents": b64encode(readout["percents"]).decode()}
    body = "\n".join(
        [
            _head(run),
            _cards(run, figures),
            _assertions(run),
            _alerts(run),
            section("Over time", *(panel(svg_part(d, f"chart-{name}")) for name, d in charts.items())),
            scaling_section(run),
            _timelines(heat, timeline),
            _waits(figures),
            queue_sections(figures.queues),
            _reasons(figures),
            _never_started(figures),
            _losses(run, figures),
            _nodes(run),
            _pod_table(run),
            _foot(run),
        ]
    )
    return page(run.name or "run", body, data)


# Parts of the page


def _head(run: Run) -> str:
    outcome, info = run.outcome, run.info
    bad = "" if run.status == COMPLETE else " bad"
    badges = [f'<span class="badge{bad}">{escape(run.status)}</span>']
    if info.assertions:
        failed = sum(not a.get("passed") for a in info.assertions)
        text = f"{words.counted(failed, 'assertion')} failed" if failed else "all assertions hold"
        badges.append(f'<span class="badge{" bad" if failed else ""}">{text}</span>')
    parts = [
        words.span(outcome.began_us, outcome.ended_us),
        f"{format_duration(outcome.duration_us)} simulated",
    ]
    if "nodes" in outcome.peaks:
        peaks = outcome.peaks
        parts.append(
            f"{words.counted(peaks['nodes'].value, 'node')}, {words.gpus(peaks['gpu_milli_total'].value)} GPUs"
        )
    if info.seed is not None:
        parts.append(f"seed {info.seed}")
    if info.latency:
        parts.append(f"latency {info.latency}")
    head = (
        f"<header><div><h1>{escape(info.name or 'run')}{''.join(badges)}</h1>"
        f'<p>{escape(" · ".join(parts))}</p></div><button id="theme" class="screen">light / dark</button></header>'
    )
    return head if run.status == COMPLETE else f'{head}<div class="banner">{escape(partial_words(run))}</div>'


def _cards(run: Run, figures: Figures) -> str:
    gpu, waits, pods = figures.gpu, figures.waits[0], figures.pods
    cards = []
    if gpu.offered:
        held = f"{words.gpu_hours(gpu.held)} of {words.gpu_hours(gpu.offered)} GPU-hours"
        cards.append(card("GPUs allocated", words.percent(gpu.allocated_ratio), held, gpu.allocated_ratio))
        if gpu.told:
            told = f"of the {words.percent(gpu.told_ratio)} that tell"
            cards.append(card("GPUs used", words.percent(gpu.used_ratio), told, gpu.used_ratio, "c1"))
        else:
            cards.append(card("GPUs used", "unknown", "no pod says how it uses them"))
        lost = figures.fragmentation.mean
        cards.append(card("Fragmentation", words.percent(lost), "of free GPU fits no pod seen", lost, "c5"))
    tail = f"p95 {words.duration(waits.p95_us)}, max {words.duration(waits.max_us)}"
    cards.append(card("Wait, median", words.duration(waits.p50_us), tail))
    cards.append(card("Pods", words.count(pods.total), f"{pods.waiting:,} still waiting at the end"))
    wasted = f"{words.gpu_hours(gpu.wasted)} GPU-hours in vain"
    cards.append(card("Evicted", words.count(pods.evicted), wasted if gpu.wasted else "nothing wasted"))
    return f'<div class="cards">{"".join(cards)}{queue_cards(figures.queues)}</div>'


def _assertions(run: Run) -> str:
    rows = []
    for verdict in run.info.assertions:
        holds = bool(verdict.get("passed"))
        notes = [verdict["note"]] if verdict.get("note") else []
        rows.append(
            (
                Cell("pass" if holds else "FAIL", "pass" if holds else "fail"),
                Cell(str(verdict.get("name", "")), "name"),
                Cell(str(verdict.get("shown", "")), "n"),
                Cell("; ".join([*notes, *(verdict.get("worst") or ())]), "why"),
            )
        )
    return section("Assertions", panel(table(("", "assertion", "measured", ""), rows))) if rows else ""


def _alerts(run: Run) -> str:
    rows = [
        (
            Cell(name, "name"),
            Cell(severity),
            Cell(words.count(count), "n"),
            Cell(words.duration(round(firing_s * 1e6)), "n"),
            Cell(words.duration(round(first_s * 1e6)), "n"),
            Cell(said, "why"),
        )
        for name, severity, count, firing_s, first_s, said in by_rule(
            run.info.alerts, run.outcome.duration_us / 1e6
        )
    ]
    head = ("alert", "severity", "fired", "firing for", "first at", "")
    return section("Alerts", panel(table(head, rows))) if rows else ""


def _timelines(heat: Timeline | None, timeline: Timeline | None) -> str:
    panels = []
    for drawn, name in ((heat, "heat"), (timeline, "timeline")):
        if drawn is not None:
            note = f'<p class="note">{escape(drawn.left_out)}</p>' if drawn.left_out else ""
            panels.append(panel(svg_part(drawn.drawing, name) + note))
    if not panels:
        return ""
    note = (
        "A bar is a pod, as tall as the GPUs it holds, in its namespace's colour; "
        "which of a node's GPUs they are was not recorded."
    )
    return section("Nodes and GPUs", *panels, f'<p class="note">{note}</p>' if timeline else "")


def _waits(figures: Figures) -> str:
    rows: list[Sequence[Cell]] = []
    left_out = 0
    for by in dict.fromkeys(w.by for w in figures.waits):
        groups = [w for w in figures.waits if w.by == by]
        left_out += max(len(groups) - GROUPS_LISTED, 0)
        if by != ALL:
            rows.append((Cell(f"by {by}", "group"),))
        for w in groups[:GROUPS_LISTED]:
            counts = (w.pods, w.started, w.waiting)
            times = (w.p50_us, w.p90_us, w.p95_us, w.p99_us, w.max_us)
            rows.append(
                (
                    Cell("all pods" if by == ALL else w.group or "(none)", "name"),
                    *(Cell(words.count(c), "n") for c in counts),
                    *(Cell(words.duration(t), "n") for t in times),
                )
            )
    note = f'<p class="note">{words.counted(left_out, "group")} more in summary.json.</p>' if left_out else ""
    header = ("", "pods", "started", "waiting", "p50", "p90", "p95", "p99", "max")
    return section("Waits, from creation until running", panel(table(header, rows), note))


def _reasons(figures: Figures) -> str:
    rows = [
        (
            Cell(r.reason, "name"),
            Cell(words.count(r.pods), "n"),
            Cell(words.count(r.pods_never_placed), "n"),
            Cell(words.count(r.told), "n"),
        )
        for r in figures.reasons[:GROUPS_LISTED]
    ]
    if not rows:
        return ""
    header = ("the scheduler's last words", "pods", "never placed", "times told")
    return section("Why pods waited", panel(table(header, rows)))


def _never_started(figures: Figures) -> str:
    rows = [
        (
            Cell(f"{n.namespace}/{n.name}", "name"),
            Cell(words.count(n.pods), "n"),
            Cell(words.gpus(n.gpu_milli), "n"),
            Cell(words.duration(n.waited_us), "n"),
            Cell(n.reason, "why"),
        )
        for n in figures.never_started[:GROUPS_LISTED]
    ]
    if not rows:
        return ""
    more = len(figures.never_started) - len(rows)
    note = (
        f'<p class="note">{words.counted(more, "group")} more in the table of pods below.</p>' if more else ""
    )
    header = ("owner", "pods", "GPUs each", "waited", "why")
    return section("Not started when the run ended", panel(table(header, rows), note))


def _losses(run: Run, figures: Figures) -> str:
    rows = [
        (Cell(f"evicted: {g.name}", "name"), Cell(words.count(g.count), "n"), Cell("", "n"))
        for g in figures.evictions
    ]
    rows += [
        (
            Cell(f"started in vain in {g.name}", "name"),
            Cell(words.count(g.count), "n"),
            Cell(words.gpu_hours(g.gpu_milli_us), "n"),
        )
        for g in figures.wasted[:GROUPS_LISTED]
    ]
    if not rows:
        return ""
    lost = run.info.lost_work_us
    note = f"{words.duration(lost)} of container time was lost, not saved by any checkpoint." if lost else ""
    text = f'<p class="note">{note}</p>' if note else ""
    return section("Evicted and wasted", panel(table(("", "pods", "GPU-hours"), rows), text))


def _nodes(run: Run) -> str:
    nodes = [n for n in run.outcome.nodes if n.gpu_milli]
    if not nodes:
        return ""
    nodes.sort(key=lambda n: (-n.idle_in_demand_gpu_milli_us, -n.idle_gpu_milli_us, n.name))
    rows = [_node_row(n) for n in nodes[:NODES_LISTED]]
    shown = (
        ""
        if len(nodes) <= NODES_LISTED
        else f" The {NODES_LISTED} of {len(nodes):,} that idled longest in demand."
    )
    keys = "".join(
        f'<span class="key" style="background:var(--{colour})"></span>{name}' for name, colour in _SPLIT
    )
    note = f'<p class="note">{keys}.{shown}</p>'
    header = ("node", "model", "GPUs", "pods", "allocated", "idle in demand", "GPU time")
    return section(
        "Nodes, those that idled most while GPU pods waited first", panel(table(header, rows), note)
    )


_SPLIT = (("allocated", "c0"), ("idle while pods waited", "c5"), ("idle", "c2"), ("closed", "c7"))


def _node_row(n: NodeRow) -> Sequence[Cell]:
    whole = n.capacity_gpu_milli_us or 1
    parts = (
        n.held_gpu_milli_us,
        n.idle_in_demand_gpu_milli_us,
        n.idle_no_demand_gpu_milli_us,
        n.idle_closed_gpu_milli_us,
    )
    bars = "".join(
        f'<i style="width:{100 * part / whole:.1f}%;background:var(--{colour})"></i>'
        for part, (_, colour) in zip(parts, _SPLIT, strict=True)
    )
    return (
        Cell(n.name, "name"),
        Cell(n.gpu_model or n.instance_type),
        Cell(words.gpus(n.gpu_milli), "n"),
        Cell(words.count(n.pods), "n"),
        Cell(words.percent(n.held_gpu_milli_us / whole), "n"),
        Cell(f"{words.gpu_hours(n.idle_in_demand_gpu_milli_us)} h", "n"),
        Cell(f'<div class="split">{bars}</div>', is_html=True),
    )


def _pods(run: Run) -> list[tuple[Any, ...]]:
    """Rows for the table: those that never started first, then by how long they waited; bounded."""
    outcome = run.outcome
    waits = [
        (0, c) if s is None else (1, -(s - c))
        for c, s in zip(outcome.pods.column("created_us"), outcome.pods.column("started_us"), strict=True)
    ]
    order = sorted(range(len(waits)), key=lambda row: (waits[row], row))[:PODS_LISTED]
    return [_pod_row(outcome.pods[row], outcome.began_us) for row in order]


def _pod_row(pod: PodRow, began_us: int) -> tuple[Any, ...]:
    def seconds(us: int | None) -> float | None:
        return None if us is None else round(us / 1e6, 1)

    words_ = [pod.reason, pod.disruption]
    if pod.preempted_by:
        words_.append(f"for {pod.preempted_by}")
    if pod.started_us is None and pod.finished_us is None:
        words_.append(why_not(pod.node, pod.unschedulable))
    return (
        pod.namespace,
        pod.name,
        f"{pod.root_kind}/{pod.root_name}" if pod.root_kind else "",
        " ".join(filter(None, (pod.priority_class, pod.queue))),
        pod.gpu_milli / 1000,
        pod.node,
        pod.phase,
        seconds(pod.created_us - began_us),
        seconds(pod.wait_us),
        seconds(pod.run_us),
        ", ".join(filter(None, words_)),
    )


def _pod_table(run: Run) -> str:
    total = len(run.outcome.pods)
    if not total:
        return ""
    names = ("pod", "owner", "class, queue", "GPUs", "node", "phase", "created", "waited", "ran", "why")
    columns = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    heads = "".join(
        f'<th class="sort{" n" if c in (4, 7, 8, 9) else ""}" data-c="{c}">{name}</th>'
        for name, c in zip(names, columns, strict=True)
    )
    bound = (
        f'<p class="note">{PODS_LISTED:,} of {total:,} pods: never started, then longest wait first. '
        "All are in the table <code>pods</code> of the run directory.</p>"
        if total > PODS_LISTED
        else ""
    )
    tools = (
        '<div class="tools screen"><input type="search" id="filter" aria-label="filter pods" '
        'placeholder="filter: any words, such as a namespace, a node, Failed"><span id="matches"></span></div>'
    )
    body = (
        f'{tools}<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody id="pods"></tbody></table></div>'
        f'<button id="more" class="screen" style="margin-top:10px"></button>{bound}'
    )
    return section("Pods", panel(body))


def _foot(run: Run) -> str:
    from fairway import __version__

    notes = "".join(f"<p>{escape(n)}</p>" for n in run.info.notes)
    parts = [f"Fairway {__version__}"]
    if run.info.source:
        parts.append(run.info.source)
    if run.info.digest:
        parts.append(f"digest {run.info.digest}")
    return f"<footer>{notes}<p>{escape(' · '.join(parts))}</p></footer>"
