"""What happened, to whom, why, and what would have told earlier? The material of an incident report.

Facts alone: the record's tables, the events that are left, and the doctor's findings. Nothing is guessed: causes are
what checks found, remedies are changes that were tried on a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from fairway.answers.changes import with_changes
from fairway.answers.doctor.checkup import ILL, Result, checkup
from fairway.answers.doctor.findings import Patient
from fairway.answers.explain import explain
from fairway.answers.explanation import Explanation
from fairway.answers.naming import find
from fairway.errors import UserError
from fairway.ground import Ground, Moment
from fairway.kube.objects import Obj, meta_of
from fairway.kube.timestamps import HOUR_US, MINUTE_US, parse_duration, parse_rfc3339, rfc3339
from fairway.recorder.tables import Outcome
from fairway.twin.kubeevents import WARNING

# Lines of a timeline, objects whose remedies are tried, and columns of a graph.
_MOST_LINES: Final = 60
_REMEDIES: Final = 3
_COLUMNS: Final = 60
_PENDING_FOR_US: Final = 10 * MINUTE_US


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the timeline. `times`: how often it happened until `last_us`."""

    at_us: int
    what: str
    times: int = 1
    last_us: int = 0


@dataclass(frozen=True, slots=True)
class Scope:
    """Who was concerned, between the two moments. GPU time in GPU-hours."""

    namespaces: tuple[str, ...]
    pods: int
    pods_failed: int
    pods_disrupted: int
    evictions: int
    nodes_lost: tuple[str, ...]
    gpu_hours_waited: float


@dataclass(frozen=True, slots=True)
class Graph:
    """A series between the two moments: as many means as there are columns, and the top of its axis."""

    title: str
    unit: str
    values: tuple[float, ...]
    top: float


@dataclass(frozen=True)
class Incident:
    """The report. `told_us`: when each alert would have fired, where the record tells."""

    ground: str
    from_us: int
    to_us: int
    scope: Scope
    timeline: tuple[Entry, ...]
    left_out: int
    graphs: tuple[Graph, ...]
    factors: tuple[Result, ...]
    tried: tuple[str, ...]
    remedies: tuple[Explanation, ...]
    told_us: dict[str, int]
    unknown: tuple[str, ...]

    @property
    def summary(self) -> str:
        if not self.factors:
            return "No check found anything ill."
        first = self.factors[0]
        others = len({f.symptom.name for f in self.factors}) - 1
        more = f", and {others} more symptoms" if others > 0 else ""
        return f"{first.symptom.title}: {first.finding.evidence[0]}{more}."


def incident(
    ground: Ground, when: str | None = None, *, since: str | None = None, namespace: str | None = None
) -> Incident:
    """`since`: a duration before the end, or an RFC 3339 time; None: as long as anything is recorded.

    Raises: UserError, InvalidInput.
    """
    moment = ground.at(when)
    history = ground.history(when)
    outcome, to_us = history.outcome, moment.now_us
    from_us = outcome.began_us if since is None else _since_us(since, to_us)
    factors = [r for r in checkup(Patient(moment, outcome, namespace)) if r.finding.state == ILL]
    entries = sorted(_entries(moment, outcome, namespace), key=lambda e: (e.at_us, e.what))
    entries = [e for e in entries if from_us <= max(e.last_us, e.at_us) and e.at_us <= to_us]
    kept = _fewer(entries)
    remedies = _remedies(moment, factors)
    return Incident(
        ground.name,
        from_us,
        to_us,
        _scope(outcome, from_us, to_us, namespace),
        tuple(kept),
        len(entries) - len(kept),
        tuple(_graphs(outcome, from_us, to_us)),
        tuple(factors),
        tuple(_tried(outcome, from_us, remedies)),
        tuple(remedies),
        _told(outcome, from_us),
        (*moment.notes, *history.info.notes),
    )


def _since_us(text: str, to_us: int) -> int:
    try:
        return parse_rfc3339(text) if "T" in text else to_us - parse_duration(text)
    except ValueError:
        raise UserError(f"--since {text!r}: expected a duration such as 2h, or an RFC 3339 time") from None


# The timeline


def _entries(moment: Moment, outcome: Outcome, namespace: str | None) -> Iterable[Entry]:
    yield from _of_nodes(outcome)
    for row in outcome.queues.evictions:
        if namespace in (None, row.namespace):
            why = row.preemption or row.reason
            by = f" for {row.preemptor}" if row.preemptor else ""
            yield Entry(row.time_us, f"workload {row.namespace}/{row.name} lost its quota ({why}){by}")
    for pod in outcome.pods:
        if namespace not in (None, pod.namespace):
            continue
        name = f"pod {pod.namespace}/{pod.name}"
        if pod.phase == "Failed" and pod.finished_us is not None:
            yield Entry(pod.finished_us, f"{name} failed: {pod.reason or 'Error'}")
        elif pod.disruption and (pod.deleted_us or pod.finished_us):
            yield Entry(pod.deleted_us or pod.finished_us or 0, f"{name} was disrupted: {pod.disruption}")
    for told in moment.twin.host.events.told():
        if told.type == WARNING and namespace in (None, told.about.namespace, ""):
            said = f"{told.reason} {told.about}: {told.message}"
            yield Entry(told.first_us, said, told.times, told.last_us)
    for event in moment.events:
        if event.get("type") == WARNING and namespace in (None, meta_of(event).get("namespace")):
            yield _of_event(event)


def _of_nodes(outcome: Outcome) -> Iterable[Entry]:
    for node in outcome.nodes:
        if node.created_us > outcome.began_us:
            yield Entry(node.created_us, f"node {node.name} joined")
        if node.deleted_us is not None:
            yield Entry(node.deleted_us, f"node {node.name} is gone")


def _of_event(event: Obj) -> Entry:
    about = event.get("involvedObject") or {}
    first, last = (_us(event.get(f) or event.get("eventTime")) for f in ("firstTimestamp", "lastTimestamp"))
    name = f"{about.get('kind')}/{about.get('namespace') or ''}/{about.get('name')}"
    said = f"{event.get('reason')} {name}: {event.get('message') or ''}"
    return Entry(first, said, int(event.get("count") or 1), max(first, last))


def _us(stamp: Any) -> int:
    try:
        return parse_rfc3339(stamp) if isinstance(stamp, str) else 0
    except ValueError:
        return 0


def _fewer(entries: list[Entry]) -> list[Entry]:
    """Those of one first word and reason become one; then the first and the last."""
    grouped: dict[str, Entry] = {}
    for entry in entries:
        words = entry.what.split()
        like = (
            words[0] if words[0] not in ("pod", "workload", "node") else f"{words[0]} {' '.join(words[2:])}"
        )
        known = grouped.get(like)
        if known is None:
            grouped[like] = entry
        else:
            last_us = max(known.last_us, entry.last_us, entry.at_us)
            grouped[like] = Entry(known.at_us, known.what, known.times + entry.times, last_us)
    found = sorted(grouped.values(), key=lambda e: (e.at_us, e.what))
    half = _MOST_LINES // 2
    return found if len(found) <= _MOST_LINES else [*found[:half], *found[-half:]]


# Who, how much


def _scope(outcome: Outcome, from_us: int, to_us: int, namespace: str | None) -> Scope:
    pods = [
        p
        for p in outcome.pods
        if (p.finished_us or p.deleted_us or to_us) >= from_us and namespace in (None, p.namespace)
    ]
    struck = [p for p in pods if p.phase == "Failed" or p.is_evicted or p.refusals]
    waited = 0.0
    for row in outcome.series:
        overlap_us = min(row.end_us, to_us) - max(row.start_us, from_us)
        waited += max(overlap_us, 0) * row.gpu_milli_pending / 1000 / HOUR_US
    lost = [n.name for n in outcome.nodes if n.deleted_us is not None and n.deleted_us >= from_us]
    return Scope(
        tuple(sorted({p.namespace for p in struck})),
        len(pods),
        sum(p.phase == "Failed" for p in pods),
        sum(p.is_evicted for p in pods),
        sum(r.time_us >= from_us for r in outcome.queues.evictions),
        tuple(lost),
        waited,
    )


def _graphs(outcome: Outcome, from_us: int, to_us: int) -> Iterable[Graph]:
    rows = [r for r in outcome.series if r.end_us > from_us and r.start_us < to_us]
    if not rows:
        return
    totals = [r.gpu_milli_total / 1000 for r in rows]
    for title, unit, values, top in (
        ("GPUs allocated", "GPUs", [r.gpu_milli_allocated / 1000 for r in rows], max(totals)),
        ("GPUs waited for", "GPUs", [r.gpu_milli_pending / 1000 for r in rows], 0.0),
        ("Work in queues", "jobs", [r.queue_length for r in rows], 0.0),
        ("Pods running", "pods", [r.pods_running for r in rows], 0.0),
        ("Nodes", "nodes", [r.nodes for r in rows], 0.0),
    ):
        few = tuple(_means(values, _COLUMNS))
        yield Graph(title, unit, few, top or max(few))


def _means(values: Sequence[float], columns: int) -> list[float]:
    if len(values) <= columns:
        return list(values)
    edges = [i * len(values) // columns for i in range(columns + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]


# What was done, what would help


def _tried(outcome: Outcome, from_us: int, remedies: Sequence[Explanation]) -> Iterable[str]:
    opened = [n for n in outcome.nodes if n.created_us > max(from_us, outcome.began_us)]
    if opened:
        yield f"{len(opened)} nodes were opened, the first at {rfc3339(opened[0].created_us)}"
    if len(outcome.scalings):
        yield f"autoscalers changed sizes {len(outcome.scalings)} times"
    for found in remedies:
        helped = len(found.changes or ())
        yield f"on copies, for {found.object}: {found.tried} changes, of which {helped} start it"


def _remedies(moment: Moment, factors: Sequence[Result]) -> list[Explanation]:
    """What would start the first few of those that wait, tried on copies."""
    waiting = next((f.finding.objects for f in factors if f.check.name == "pending"), ())
    found = []
    for name in waiting[:_REMEDIES]:
        home, _, rest = name.partition("/")
        key = find(moment.store, rest, home)
        found.append(with_changes(moment, explain(moment, key)))
    return found


def _told(outcome: Outcome, from_us: int) -> dict[str, int]:
    """When something had been pending for as long as the alert waits."""
    since_us: int | None = None
    for row in outcome.series:
        if row.end_us <= from_us:
            continue
        if row.pods_pending <= 0 and row.queue_length <= 0:
            since_us = None
            continue
        since_us = row.start_us if since_us is None else since_us
        if row.end_us - since_us >= _PENDING_FOR_US:
            return {"GpuWorkPending": since_us + _PENDING_FOR_US}
    return {}
