"""Tables of Kueue's Workloads, what they held and how they were evicted, worked out from what was noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fairway.twin.recorder.queueledger import (
    ADMITTED,
    CHARGE,
    CREATED,
    DELETED_AT,
    END,
    EVICTED,
    EVICTIONS,
    FINISHED,
    PREEMPTIONS,
    RESERVED,
    ROW,
    SPELL,
    SPELL_WIDTH,
    START,
    WAIT_WIDTH,
    WIDTH,
    Eviction,
    QueueLedger,
)
from fairway.twin.recorder.queueseries import queue_series
from fairway.twin.recorder.queuetables import (
    NO_QUEUES,
    EvictionRow,
    HoldRow,
    QueuedRow,
    QueueOutcome,
)
from fairway.twin.recorder.table import Table
from fairway.twin.recorder.workloads import NEVER


def queue_outcome(ledger: QueueLedger, until: int, began_us: int) -> QueueOutcome:
    """Everything about queues, as of `until`."""
    if not ledger.names and not ledger.configuration:
        return NO_QUEUES
    names = {
        uid: (row, f"{ledger.sorts[row].namespace}/{ledger.names[row]}")
        for row, uid in enumerate(ledger.uids)
    }
    series = queue_series(ledger, until, began_us)
    return QueueOutcome(
        workloads=Table.of(QueuedRow, _workloads(ledger, names, until, began_us)),
        holds=Table.of(HoldRow, _holds(ledger, began_us)),
        evictions=Table.of(EvictionRow, [_eviction(e, ledger, names, began_us) for e in ledger.evictions]),
        quotas=series.quotas,
        queues=series.queues,
        fairness=series.fairness,
    )


def _workloads(
    ledger: QueueLedger, names: Mapping[str, tuple[int, str]], until: int, began_us: int
) -> list[QueuedRow]:
    waited, held = [0] * len(ledger.names), [0] * len(ledger.names)
    last_charge = [-1] * len(ledger.names)
    for at in range(0, len(ledger.waits), WAIT_WIDTH):
        row, start, end = ledger.waits[at : at + WAIT_WIDTH]
        waited[row] += (until if end == NEVER else end) - start
    for at in range(0, len(ledger.spells), SPELL_WIDTH):
        row, start, end, charge = ledger.spells[at : at + SPELL_WIDTH]
        held[row] += (until if end == NEVER else end) - start
        last_charge[row] = charge
    last = {e.row: e for e in ledger.evictions}
    return [
        _workload(row, ledger, (waited[row], held[row], last_charge[row]), last.get(row), names, began_us)
        for row in range(len(ledger.names))
    ]


def _workload(
    row: int,
    ledger: QueueLedger,
    totals: tuple[int, int, int],
    last: Eviction | None,
    names: Mapping[str, tuple[int, str]],
    began_us: int,
) -> QueuedRow:
    numbers = ledger.numbers[row * WIDTH : (row + 1) * WIDTH]

    def at(number: int) -> int | None:
        return None if numbers[number] == NEVER else began_us + numbers[number]

    sort = ledger.sorts[row]
    waited, held, charge = totals
    reason, message = ledger.refusal.get(row, ("", ""))
    return QueuedRow(
        namespace=sort.namespace,
        name=ledger.names[row],
        uid=ledger.uids[row],
        labels=ledger.labels[row],
        owner_kind=ledger.owners[row][0],
        owner_name=ledger.owners[row][1],
        queue=sort.queue,
        cluster_queue=ledger.cluster_queue_of(row) if charge < 0 else ledger.charges[charge].cluster_queue,
        priority=sort.priority,
        priority_class=sort.priority_class,
        pods=sort.pods,
        gpu_milli=sort.gpu_milli,
        requests={name: str(value) for name, value in sort.requests},
        flavors={} if charge < 0 else _flavors(ledger, charge),
        created_us=began_us + numbers[CREATED],
        reserved_us=at(RESERVED),
        admitted_us=at(ADMITTED),
        finished_us=at(FINISHED),
        deleted_us=at(DELETED_AT),
        evictions=numbers[EVICTIONS],
        preemptions=numbers[PREEMPTIONS],
        evicted_us=at(EVICTED),
        eviction="" if last is None else last.reason,
        preemption="" if last is None else last.preemption,
        preempted_by="" if last is None else _name(last, names),
        outcome=_outcome(row, ledger, numbers[SPELL] >= 0),
        reason=reason,
        message=message,
        waited_us=waited,
        held_us=held,
    )


def _flavors(ledger: QueueLedger, charge: int) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for fr, _ in ledger.charges[charge].usage:
        found.setdefault(fr.resource, []).append(fr.flavor)
    return {resource: ",".join(flavors) for resource, flavors in found.items()}


def _outcome(row: int, ledger: QueueLedger, has_quota: bool) -> str:
    numbers = ledger.numbers[row * WIDTH : (row + 1) * WIDTH]
    if numbers[FINISHED] != NEVER:
        return "Finished"
    if numbers[DELETED_AT] != NEVER:
        return "Deleted"
    if has_quota:
        return "Admitted" if numbers[ADMITTED] != NEVER else "QuotaReserved"
    return "Inactive" if row in ledger.inactive else "Pending"


def _name(eviction: Eviction, names: Mapping[str, tuple[int, str]]) -> str:
    """Whom it made room for."""
    uid = eviction.preemptor_uid
    return names[uid][1] if uid in names else uid


def _holds(ledger: QueueLedger, began_us: int) -> list[HoldRow]:
    rows: list[HoldRow] = []
    for at in range(0, len(ledger.spells), SPELL_WIDTH):
        row, start, end, charge = (ledger.spells[at + i] for i in (ROW, START, END, CHARGE))
        held, sort = ledger.charges[charge], ledger.sorts[row]
        until = None if end == NEVER else began_us + end
        rows.extend(
            HoldRow(
                row,
                sort.namespace,
                ledger.names[row],
                sort.queue,
                held.cluster_queue,
                *fr,
                amount,
                began_us + start,
                until,
            )
            for fr, amount in held.usage
        )
    return rows


def _eviction(
    e: Eviction, ledger: QueueLedger, names: Mapping[str, tuple[int, str]], began_us: int
) -> EvictionRow:
    sort = ledger.sorts[e.row]
    charge = None if e.charge < 0 else ledger.charges[e.charge]
    preemptor = names.get(e.preemptor_uid)
    return EvictionRow(
        time_us=began_us + e.time,
        workload=e.row,
        namespace=sort.namespace,
        name=ledger.names[e.row],
        queue=sort.queue,
        cluster_queue=ledger.cluster_queue_of(e.row) if charge is None else charge.cluster_queue,
        reason=e.reason,
        preemption=e.preemption,
        preemptor=_name(e, names),
        preemptor_queue="" if preemptor is None else ledger.sorts[preemptor[0]].queue,
        preemptor_cluster_queue="" if preemptor is None else ledger.cluster_queue_of(preemptor[0]),
        gpu_milli=0 if charge is None else charge.gpu_milli,
        ran_us=e.time - e.since,
        message=e.message,
    )


class PodQueues(NamedTuple):
    """Of pods whose job has a Workload, by row: its ClusterQueue, the eviction that ended them, and for whom."""

    cluster_queues: dict[int, str]
    evictions: dict[int, str]
    preempted_by: dict[int, str]


def pod_queues(
    ledger: QueueLedger, pods: Sequence[tuple[tuple[str, ...], int, int | None, bool]]
) -> PodQueues:
    """`pods`: its UID and its owners', when it was created, when it ended, and whether it Succeeded.

    Of a pod's Workloads it belongs to the last; an eviction of any of them within its life is what ended it.
    """
    found = PodQueues({}, {}, {})
    if not ledger.names:
        return found
    evictions: dict[int, list[Eviction]] = {}
    for eviction in ledger.evictions:
        evictions.setdefault(eviction.row, []).append(eviction)
    names = {
        uid: (row, f"{ledger.sorts[row].namespace}/{ledger.names[row]}")
        for row, uid in enumerate(ledger.uids)
    }
    charged = _cluster_queues(ledger)
    for index, (uids, created, ended, succeeded) in enumerate(pods):
        rows = next((r for uid in uids if (r := ledger.rows_of_owner.get(uid))), None)
        if rows is None:
            continue
        found.cluster_queues[index] = charged[rows[-1]]
        if ended is None or succeeded:
            continue
        within = [e for row in rows for e in evictions.get(row, ()) if created <= e.time <= ended]
        if within:
            found.evictions[index] = within[-1].reason
            if within[-1].preemptor_uid:
                found.preempted_by[index] = _name(within[-1], names)
    return found


def _cluster_queues(ledger: QueueLedger) -> list[str]:
    """By Workload: the ClusterQueue that gave it quota last, or that of its LocalQueue."""
    found = [ledger.cluster_queue_of(row) for row in range(len(ledger.names))]
    for at in range(0, len(ledger.spells), SPELL_WIDTH):
        found[ledger.spells[at + ROW]] = ledger.charges[ledger.spells[at + CHARGE]].cluster_queue
    return found
