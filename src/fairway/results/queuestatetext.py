"""Where queues stand, for a terminal: data → lines."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.kube.timestamps import format_duration, rfc3339
from fairway.queueing.control.differences import NEVER_US
from fairway.queueing.control.pendingreasons import BACKOFF, BLOCKED, FITS, PREEMPTS, Standing
from fairway.queueing.facts.amounts import amount_text
from fairway.results import words
from fairway.results.queuestate import LoanLine, QueueLine, QueueState
from fairway.results.textlayout import DIM, HEADING, Line, table, wrapped

# Workloads of one queue that are listed before the rest is counted.
LISTED = 20


def _head(state: QueueState) -> list[Line]:
    lines = [Line(f"as of {rfc3339(state.now_us)}", DIM)]
    return [*lines, *(Line(note, DIM) for note in state.notes)]


def list_text(state: QueueState, queues: Sequence[QueueLine], width: int) -> list[Line]:
    """ClusterQueues by cohort: counts, and quota line by line."""
    if not queues:
        return [*_head(state), Line("no ClusterQueues")]
    rows: list[tuple[str, ...]] = []
    for queue in queues:
        cohort = f" of cohort {queue.cohort}" if queue.cohort else ""
        counts = f"{words.count(queue.pending)} pending, {words.count(queue.admitted)} admitted"
        rows.append((f"{queue.name}{cohort}: {counts}", *[""] * 6))
        rows.extend(
            (
                f"  {q.resource}",
                q.flavor,
                amount_text(q.resource, q.nominal),
                amount_text(q.resource, q.used),
                amount_text(q.resource, q.borrowed),
                amount_text(q.resource, q.lent),
                amount_text(q.resource, q.free),
            )
            for q in queue.quotas
        )
    header = ("", "flavor", "nominal", "used", "borrows", "lends", "free")
    lines = _head(state) + table(header, rows, width, left=(0, 1))
    for queue in queues:
        if queue.inactive:
            lines.extend(wrapped(f"{queue.name} admits nothing: {queue.inactive}", width))
    return lines


def pending_text(state: QueueState, found: Sequence[Standing], width: int) -> list[Line]:
    """Who waits, queue by queue, in the order of their turn."""
    lines = _head(state)
    if not found:
        return [*lines, Line("nothing waits")]
    for name in dict.fromkeys(s.cluster_queue for s in found):
        mine = [s for s in found if s.cluster_queue == name]
        title = name or "in no ClusterQueue"
        lines += [Line(""), Line(f"{title}  {words.counted(len(mine), 'workload')}", HEADING)]
        rows = [_row(s, state.now_us) for s in mine[:LISTED]]
        header = ("#", "workload", "queue", "priority", "pods", "GPUs", "waits", "")
        lines.extend(table(header, rows, width, left=(1, 2, 7)))
        if len(mine) > LISTED:
            lines.append(Line(f"  … and {len(mine) - LISTED:,} more (-o json has all)", DIM))
        lines.extend(_reasons(mine, width))
    return lines


def _row(s: Standing, now_us: int) -> tuple[str, ...]:
    w = s.workload
    requests = _gpus(s)
    return (
        str(s.position or "–"),
        w.key,
        w.queue.partition("/")[2] or "–",
        words.count(w.priority),
        words.count(sum(total.count for total in w.totals)),
        words.gpus(requests) if requests else "–",
        format_duration(max(now_us - w.order_us, 0)) if w.order_us > 0 else "–",
        _verdict(s, now_us),
    )


def _gpus(s: Standing) -> int:
    from fairway.cluster.gpurequests import DEFAULT_GPUS

    asked: dict[str, int] = {}
    for total in s.workload.totals:
        for name, value in total.requests.items():
            asked[name] = asked.get(name, 0) + value
    return DEFAULT_GPUS.asked(asked)


def _verdict(s: Standing, now_us: int) -> str:
    if s.verdict == BACKOFF:
        if s.ready_us >= NEVER_US:
            return "not requeued (condition Requeued is False)"
        return f"requeued in {format_duration(s.ready_us - now_us)}"
    if s.verdict == FITS:
        return "fits"
    if s.verdict == PREEMPTS:
        return f"would preempt {len(s.victims)}" if s.victims else "would preempt"
    if s.verdict == BLOCKED:
        return s.reason
    return s.reason


def _reasons(found: Sequence[Standing], width: int) -> list[Line]:
    """Each reason once, with whom it is about."""
    groups: dict[tuple[str, str], list[Standing]] = {}
    for s in found:
        groups.setdefault((s.reason, s.message), []).append(s)
    lines: list[Line] = []
    for (reason, message), mine in groups.items():
        who = _who(mine)
        said = f"{reason}: {message}" if reason else message
        if all(s.is_parked for s in mine):
            said += "; tried again when something changes"
        lines.extend(wrapped(f"{who}: {said}", width))
        victims = dict.fromkeys(v for s in mine for v in s.victims)
        if victims:
            named = ", ".join(list(victims)[:4]) + (" …" if len(victims) > 4 else "")
            lines.extend(wrapped(f"would have to go: {named}", width, "      "))
    return lines


def _who(mine: Sequence[Standing]) -> str:
    """`#1`, `#2 to #9`, `#3, #7 and 4 more`."""
    places = [s.position for s in mine]
    if 0 in places:
        return ", ".join(s.workload.key for s in mine[:3]) + (" …" if len(mine) > 3 else "")
    if len(places) > 2 and places == list(range(places[0], places[0] + len(places))):
        return f"#{places[0]} to #{places[-1]}"
    shown = ", ".join(f"#{p}" for p in places[:4])
    return shown + (f" and {len(places) - 4:,} more" if len(places) > 4 else "")


def borrow_text(state: QueueState, loans: Sequence[LoanLine], width: int) -> list[Line]:
    """Who borrows from whom."""
    if not loans:
        return [*_head(state), Line("nobody borrows")]
    rows = [
        (
            line.loan.borrower,
            _lender(line.loan.lender),
            amount_text(line.resource, line.loan.amount),
            line.resource,
            line.flavor,
            line.cohort,
        )
        for line in loans
    ]
    header = ("borrower", "lender", "amount", "resource", "flavor", "cohort")
    note = "Kueue lends from a pool: whose quota it is, is read off what lies idle, nearest cohort first."
    return [*_head(state), *table(header, rows, width, left=(0, 1, 3, 4, 5)), *wrapped(note, width)]


def _lender(name: str) -> str:
    if not name:
        return "nobody (over quota)"
    return f"cohort {name[1:]} itself" if name.startswith("/") else name
