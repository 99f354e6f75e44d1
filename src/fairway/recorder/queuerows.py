"""Tables of Kueue's Workloads, what they held and how they were evicted, worked out from what was noted."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from fairway.recorder.queueledger import (
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
    Eviction,
    QueueLedger,
)
from fairway.recorder.queueseries import queue_series
from fairway.recorder.queuetables import (
    NO_QUEUES,
    EvictionRow,
    HoldRow,
    QueuedRow,
    QueueOutcome,
)
from fairway.recorder.table import Table
from fairway.recorder.workloads import NEVER


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
        workloads=_workloads(ledger, names, until, began_us),
        holds=_holds(ledger, began_us),
        evictions=Table.of(EvictionRow, [_eviction(e, ledger, names, began_us) for e in ledger.evictions]),
        quotas=series.quotas,
        queues=series.queues,
        fairness=series.fairness,
    )


def _workloads(
    ledger: QueueLedger, names: Mapping[str, tuple[int, str]], until: int, began_us: int
) -> Table[QueuedRow]:
    """By columns: a run may have a million of them."""
    rows = range(len(ledger.names))
    waited, held, charges = [0] * len(rows), [0] * len(rows), [-1] * len(rows)
    for row, start, end in _triples(ledger.waits, WAIT_WIDTH):
        waited[row] += (until if end == NEVER else end) - start
    for (row, start, end), charge in zip(
        _triples(ledger.spells, SPELL_WIDTH), ledger.spells[CHARGE::SPELL_WIDTH], strict=True
    ):
        held[row] += (until if end == NEVER else end) - start
        charges[row] = charge
    last = {e.row: e for e in ledger.evictions}
    sorts, refusal = ledger.sorts, ledger.refusal
    requests = {sort: {name: str(value) for name, value in sort.requests} for sort in dict.fromkeys(sorts)}
    flavors = {charge: _flavors(ledger, charge) for charge in dict.fromkeys(charges) if charge >= 0}
    columns: dict[str, Any] = {
        "name": list(ledger.names),
        "uid": list(ledger.uids),
        "labels": list(ledger.labels),
        "owner_kind": [kind for kind, _ in ledger.owners],
        "owner_name": [name for _, name in ledger.owners],
        "cluster_queue": _cluster_queues(ledger),
        "requests": [requests[sort] for sort in sorts],
        "flavors": [flavors.get(charge, _NO_FLAVORS) for charge in charges],
        "created_us": [began_us + t for t in ledger.column(CREATED)],
        "evictions": ledger.column(EVICTIONS).tolist(),
        "preemptions": ledger.column(PREEMPTIONS).tolist(),
        "eviction": [last[r].reason if r in last else "" for r in rows],
        "preemption": [last[r].preemption if r in last else "" for r in rows],
        "preempted_by": [_name(last[r], names) if r in last else "" for r in rows],
        "outcome": _outcomes(ledger),
        "reason": [refusal[r][0] if r in refusal else "" for r in rows],
        "message": [refusal[r][1] if r in refusal else "" for r in rows],
        "waited_us": waited,
        "held_us": held,
    }
    for name in ("namespace", "queue", "priority", "priority_class", "pods", "gpu_milli"):
        columns[name] = [getattr(sort, name) for sort in sorts]
    for number, name in _TIMES:
        columns[name] = [None if t == NEVER else began_us + t for t in ledger.column(number)]
    return Table(QueuedRow, columns)


_TIMES = (
    (RESERVED, "reserved_us"),
    (ADMITTED, "admitted_us"),
    (FINISHED, "finished_us"),
    (DELETED_AT, "deleted_us"),
    (EVICTED, "evicted_us"),
)
_NO_FLAVORS: dict[str, str] = {}


def _triples(numbers: array[int], width: int) -> Iterator[tuple[int, int, int]]:
    """Whose, from when, to when."""
    return zip(numbers[ROW::width], numbers[START::width], numbers[END::width], strict=True)


def _flavors(ledger: QueueLedger, charge: int) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for fr, _ in ledger.charges[charge].usage:
        found.setdefault(fr.resource, []).append(fr.flavor)
    return {resource: ",".join(flavors) for resource, flavors in found.items()}


def _outcomes(ledger: QueueLedger) -> list[str]:
    found = []
    columns = (ledger.column(number) for number in (FINISHED, DELETED_AT, SPELL, ADMITTED))
    for row, (finished, deleted, spell, admitted) in enumerate(zip(*columns, strict=True)):
        if finished != NEVER:
            found.append("Finished")
        elif deleted != NEVER:
            found.append("Deleted")
        elif spell >= 0:
            found.append("Admitted" if admitted != NEVER else "QuotaReserved")
        else:
            found.append("Inactive" if row in ledger.inactive else "Pending")
    return found


def _name(eviction: Eviction, names: Mapping[str, tuple[int, str]]) -> str:
    """Whom it made room for."""
    uid = eviction.preemptor_uid
    return names[uid][1] if uid in names else uid


def _holds(ledger: QueueLedger, began_us: int) -> Table[HoldRow]:
    found: dict[str, list[Any]] = {f.name: [] for f in fields(HoldRow)}
    add = [column.append for column in found.values()]
    spells = zip(_triples(ledger.spells, SPELL_WIDTH), ledger.spells[CHARGE::SPELL_WIDTH], strict=True)
    for (row, start, end), charge in spells:
        held, sort = ledger.charges[charge], ledger.sorts[row]
        until = None if end == NEVER else began_us + end
        head = (row, sort.namespace, ledger.names[row], sort.queue, held.cluster_queue)
        for fr, amount in held.usage:
            values = (*head, *fr, amount, began_us + start, until)
            for append, value in zip(add, values, strict=True):
                append(value)
    return Table(HoldRow, dict(found))


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
