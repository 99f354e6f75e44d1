"""Kueue's objects of a run as they are noted: Workloads, the quota they held, waits, evictions, configuration.

A Workload costs a dozen numbers side by side in one array, its names, and one shared `QueuedSort` with those that
ask for the same. What it holds is a spell: this much quota of one ClusterQueue, from when to when; a spell ends
where the amount changes. It waits while it might be given quota and has none. Tables are worked out from these
when somebody asks: see `queuerows`, `queueseries`.

Times are µs since the run began, as everywhere in the recorder.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.gpurequests import GpuResources
from fairway.kube.objects import Obj, meta_of, status_of
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.gates import DEFAULT_GATES
from fairway.queueing.facts.objects import ClusterQueue, Cohort
from fairway.queueing.facts.workloads import Usage, WorkloadReader
from fairway.queueing.facts.workloadstate import is_active, is_admissible
from fairway.recorder.workloads import NEVER, created_at

GROUP: Final = ".kueue.x-k8s.io"
_WORKLOAD: Final = "Workload.kueue.x-k8s.io"
_CLUSTER_QUEUE: Final = "ClusterQueue.kueue.x-k8s.io"
_COHORT: Final = "Cohort.kueue.x-k8s.io"
_LOCAL_QUEUE: Final = "LocalQueue.kueue.x-k8s.io"

# The numbers of a Workload: `numbers[row * WIDTH + ADMITTED]`. SPELL and WAIT are indexes of open ones, -1 without.
CREATED: Final = 0
RESERVED: Final = 1
ADMITTED: Final = 2
FINISHED: Final = 3
DELETED_AT: Final = 4
EVICTED: Final = 5
EVICTIONS: Final = 6
PREEMPTIONS: Final = 7
SPELL: Final = 8
WAIT: Final = 9
SINCE: Final = 10
WIDTH: Final = 11
_NEW: Final = array("q", [0, NEVER, NEVER, NEVER, NEVER, NEVER, 0, 0, -1, -1, NEVER])

# The numbers of a spell: whose, from when to when (NEVER: still), and which charge; of a wait: the first three.
ROW: Final = 0
START: Final = 1
END: Final = 2
CHARGE: Final = 3
SPELL_WIDTH: Final = 4
WAIT_WIDTH: Final = 3

# One for all that have none: a million empty ones are 60 MB.
_NO_LABELS: Final[Mapping[str, str]] = {}

_PREEMPTOR: Final = re.compile(r"Preempted to accommodate a workload \(UID: ([^,]+),")

# Neither topologies nor hashes matter here.
_GATES: Final = replace(DEFAULT_GATES, topology_aware_scheduling=False, scheduling_equivalence_hashing=False)


class QueuedSort(NamedTuple):
    """What Workloads that ask for the same in the same queue share."""

    namespace: str
    queue: str
    priority: int
    priority_class: str
    pods: int
    gpu_milli: int
    requests: tuple[tuple[str, int], ...]


class Charge(NamedTuple):
    """Quota of a ClusterQueue."""

    cluster_queue: str
    usage: Usage
    gpu_milli: int


class Eviction(NamedTuple):
    time: int
    row: int
    reason: str
    preemption: str
    preemptor_uid: str
    message: str
    since: int
    charge: int


class QueueLedger:
    """Workloads by row, in order of creation."""

    def __init__(self, gpus: GpuResources) -> None:
        self._gpus = gpus
        self._reader = WorkloadReader(_GATES)
        self.names: list[str] = []
        self.uids: list[str] = []
        self.labels: list[Mapping[str, str]] = []
        self.owners: list[tuple[str, str]] = []
        self.sorts: list[QueuedSort] = []
        self.numbers = array("q")
        self.spells = array("q")
        self.waits = array("q")
        self.charges: list[Charge] = []
        self.evictions: list[Eviction] = []
        self.refusal: dict[int, tuple[str, str]] = {}
        """Reason and message of QuotaReserved=False, by row."""
        self.inactive: dict[int, None] = {}
        self.row_of: dict[str, int] = {}
        """Workloads that are not deleted, by UID."""
        self.rows_of_owner: dict[str, list[int]] = {}
        """By the UID of a job, or of a pod of a group."""
        self.local_queues: dict[str, str] = {}
        """The ClusterQueue of every LocalQueue there ever was, as it said last."""
        self.configuration: list[tuple[int, str, ClusterQueue | Cohort | None]] = []
        """What a ClusterQueue (by name) or a Cohort (`/name`) said from when on; None: it was gone."""
        self._sorts: dict[tuple[Any, ...], QueuedSort] = {}
        self._charges: dict[tuple[Any, ...], int] = {}
        # Worked out once: by the identity of a shape, which the reader never drops, and by what admissions say.
        self._asked: dict[int, tuple[int, int, tuple[tuple[str, int], ...]]] = {}
        self._charge_of: dict[tuple[Any, ...], int] = {}

    def fork(self) -> QueueLedger:
        twin = QueueLedger(self._gpus)
        for name in ("names", "uids", "labels", "owners", "sorts", "charges", "evictions", "configuration"):
            setattr(twin, name, list(getattr(self, name)))
        for name in ("numbers", "spells", "waits"):
            setattr(twin, name, array("q", getattr(self, name)))
        for name in ("refusal", "inactive", "row_of", "local_queues", "_sorts", "_charges", "_charge_of"):
            setattr(twin, name, dict(getattr(self, name)))
        twin.rows_of_owner = {uid: list(rows) for uid, rows in self.rows_of_owner.items()}
        return twin

    # What it sees

    def observe(self, change: Change, now: int, began_us: int) -> None:
        """A change of an object of kueue.x-k8s.io."""
        gk = change.key.gk
        if gk == _WORKLOAD:
            self._observe_workload(change, now, began_us)
        elif gk == _LOCAL_QUEUE:
            if change.type != DELETED and _is_respecified(change):
                queue = facts.local_queue(change.obj)
                self.local_queues[queue.key] = queue.cluster_queue
        elif gk in (_CLUSTER_QUEUE, _COHORT):
            self._configure(change, now)

    def _configure(self, change: Change, now: int) -> None:
        is_cohort = change.key.gk == _COHORT
        name = f"/{change.key.name}" if is_cohort else change.key.name
        if change.type == DELETED:
            self.configuration.append((now, name, None))
        elif _is_respecified(change):
            said = facts.cohort(change.obj) if is_cohort else facts.cluster_queue(change.obj)
            self.configuration.append((now, name, said))

    def _observe_workload(self, change: Change, now: int, began_us: int) -> None:
        obj, old = change.obj, change.old
        uid = obj["metadata"]["uid"]
        row = self.row_of.get(uid)
        if change.type == DELETED:
            if row is not None:
                self._end(row, now)
                self.numbers[row * WIDTH + DELETED_AT] = now
                del self.row_of[uid]
            return
        if row is None:
            row = self._admit(obj, now, began_us)
            old = None
        elif old is None or old["spec"] is not obj["spec"]:
            self.sorts[row] = self._sort(obj)
        elif old.get("status") is obj.get("status"):
            return
        self._follow(row, obj, old, now)

    def _admit(self, obj: Obj, now: int, began_us: int) -> int:
        row, meta = len(self.names), obj["metadata"]
        self.row_of[meta["uid"]] = row
        self.names.append(meta["name"])
        self.uids.append(meta["uid"])
        self.labels.append(meta.get("labels") or _NO_LABELS)
        references = meta.get("ownerReferences") or ()
        first = references[0] if references else {}
        self.owners.append((first.get("kind") or "", first.get("name") or ""))
        for reference in references:
            self.rows_of_owner.setdefault(reference.get("uid") or "", []).append(row)
        self.sorts.append(self._sort(obj))
        self.numbers.extend(_NEW)
        self.numbers[row * WIDTH + CREATED] = min(now, created_at(meta, now, began_us))
        return row

    def _sort(self, obj: Obj) -> QueuedSort:
        spec = obj["spec"]
        pods, gpu_milli, requests = self._asked_by(spec)
        ref = spec.get("priorityClassRef") or {}
        values = (
            meta_of(obj).get("namespace") or "",
            spec.get("queueName") or "",
            int(spec.get("priority") or 0),
            ref.get("name") or spec.get("priorityClassName") or "",
            pods,
            gpu_milli,
            requests,
        )
        return self._sorts.get(values) or self._sorts.setdefault(values, QueuedSort(*values))

    def _asked_by(self, spec: Mapping[str, Any]) -> tuple[int, int, tuple[tuple[str, int], ...]]:
        """Pods, milli-GPUs and requests of pod sets, added up once for those that are alike."""
        shape = self._reader.shape_of(spec)
        found = self._asked.get(id(shape))
        if found is None:
            asked: dict[str, int] = {}
            for pod_set in shape.pod_sets:
                for name, value in pod_set.per_pod.items():
                    asked[name] = asked.get(name, 0) + value * pod_set.count
            pods = sum([pod_set.count for pod_set in shape.pod_sets])
            found = self._asked[id(shape)] = (pods, self._gpus.asked(asked), tuple(sorted(asked.items())))
        return found

    # What a Workload's status says

    def _follow(self, row: int, obj: Obj, old: Obj | None, now: int) -> None:
        numbers, at = self.numbers, row * WIDTH
        status = status_of(obj)
        now_true = {c["type"]: c for c in status.get("conditions") or () if c["status"] == conds.TRUE}
        if conds.FINISHED in now_true:
            if numbers[at + FINISHED] == NEVER:
                self._end(row, now)
                numbers[at + FINISHED] = now
            return
        evicted = now_true.get(conds.EVICTED)
        if evicted is not None and (old is None or not conds.is_true(old.get("status") or {}, conds.EVICTED)):
            self._evict(row, evicted, now_true.get(conds.PREEMPTED), now)
        if conds.QUOTA_RESERVED in now_true:
            if numbers[at + RESERVED] == NEVER:
                numbers[at + RESERVED] = now
            if conds.ADMITTED in now_true and numbers[at + ADMITTED] == NEVER:
                numbers[at + ADMITTED] = now
            self.refusal.pop(row, None)
            if numbers[at + SPELL] < 0 or _changes_usage(old, obj):
                self._hold(row, self._charge(obj), now)
        else:
            refused = conds.find(status, conds.QUOTA_RESERVED)
            if refused is not None:
                self.refusal[row] = (refused.get("reason") or "", refused.get("message") or "")
            self._release(row, now)
        self._wait(row, obj, now, is_new=old is None)

    def _charge(self, obj: Obj) -> int:
        """What it holds; worked out once for those admitted alike."""
        alike = _admitted_alike(obj)
        found = None if alike is None else self._charge_of.get(alike)
        if found is None:
            found = self._new_charge(obj)
            if alike is not None:
                self._charge_of[alike] = found
        return found

    def _new_charge(self, obj: Obj) -> int:
        held = self._reader.read(obj)
        key = (held.cluster_queue, held.usage)
        found = self._charges.get(key)
        if found is None:
            total: dict[str, int] = {}
            for fr, value in held.usage:
                total[fr.resource] = total.get(fr.resource, 0) + value
            found = self._charges[key] = len(self.charges)
            self.charges.append(Charge(held.cluster_queue, held.usage, self._gpus.asked(total)))
        return found

    def _hold(self, row: int, charge: int, now: int) -> None:
        """It holds this quota from now on."""
        at = row * WIDTH
        spell = self.numbers[at + SPELL]
        if spell >= 0:
            if self.spells[spell * SPELL_WIDTH + CHARGE] == charge:
                return
            self.spells[spell * SPELL_WIDTH + END] = now
        else:
            self.numbers[at + SINCE] = now
        self.numbers[at + SPELL] = len(self.spells) // SPELL_WIDTH
        self.spells.extend((row, now, NEVER, charge))

    def _release(self, row: int, now: int) -> None:
        at = row * WIDTH + SPELL
        spell = self.numbers[at]
        if spell >= 0:
            self.spells[spell * SPELL_WIDTH + END] = now
            self.numbers[at] = -1

    def _wait(self, row: int, obj: Obj, now: int, *, is_new: bool) -> None:
        at = row * WIDTH + WAIT
        wait = self.numbers[at]
        if is_active(obj):
            self.inactive.pop(row, None)
        else:
            self.inactive[row] = None
        if is_admissible(obj):
            if wait < 0:
                started = self.numbers[row * WIDTH + CREATED] if is_new else now
                self.numbers[at] = len(self.waits) // WAIT_WIDTH
                self.waits.extend((row, started, NEVER))
        elif wait >= 0:
            self.waits[wait * WAIT_WIDTH + END] = now
            self.numbers[at] = -1

    def _evict(
        self, row: int, evicted: Mapping[str, Any], preempted: Mapping[str, Any] | None, now: int
    ) -> None:
        at = row * WIDTH
        reason, message = evicted.get("reason") or "", evicted.get("message") or ""
        is_preempted = reason == conds.EVICTED_BY_PREEMPTION
        preemption, by = "", ""
        if is_preempted:
            preemption = "" if preempted is None else preempted.get("reason") or ""
            found = _PREEMPTOR.match(message)
            by = "" if found is None else found[1]
        spell = self.numbers[at + SPELL]
        charge = -1 if spell < 0 else self.spells[spell * SPELL_WIDTH + CHARGE]
        since = now if spell < 0 else self.numbers[at + SINCE]
        self.numbers[at + EVICTED] = now
        self.numbers[at + EVICTIONS] += 1
        self.numbers[at + PREEMPTIONS] += is_preempted
        self.evictions.append(Eviction(now, row, reason, preemption, by, message, since, charge))

    def _end(self, row: int, now: int) -> None:
        """It neither waits nor holds anything any more."""
        self._release(row, now)
        at = row * WIDTH + WAIT
        wait = self.numbers[at]
        if wait >= 0:
            self.waits[wait * WAIT_WIDTH + END] = now
            self.numbers[at] = -1

    # Reading

    def column(self, number: int) -> array[int]:
        """One number of every Workload, by row."""
        return self.numbers[number::WIDTH]

    def cluster_queue_of(self, row: int) -> str:
        """That of its LocalQueue; empty while that is not there."""
        sort = self.sorts[row]
        return self.local_queues.get(f"{sort.namespace}/{sort.queue}", "")


def _changes_usage(old: Obj | None, new: Obj) -> bool:
    """Whether a Workload with quota may hold another amount than before."""
    if old is None:
        return True
    a, b = old.get("status") or {}, new.get("status") or {}
    return (
        a.get("admission") is not b.get("admission")
        or a.get("reclaimablePods") != b.get("reclaimablePods")
        or old["spec"] is not new["spec"]
    )


def _is_respecified(change: Change) -> bool:
    """Whether it is new, or its spec is: most changes of queues are of what they say of themselves."""
    return change.old is None or change.old.get("spec") is not change.obj.get("spec")


def _admitted_alike(obj: Obj) -> tuple[Any, ...] | None:
    """Equal for Workloads that hold the same: all that it follows from. None where some of it was given back."""
    status = obj["status"]
    if status.get("reclaimablePods"):
        return None
    admission = status.get("admission") or {}
    alike: list[Any] = [admission.get("clusterQueue")]
    for held in admission.get("podSetAssignments") or ():
        alike.append(held.get("name"))
        alike.append(held.get("count"))
        alike.append(tuple((held.get("flavors") or {}).items()))
        alike.append(tuple((held.get("resourceUsage") or {}).items()))
    alike.extend((p.get("name"), p.get("count")) for p in obj["spec"].get("podSets") or ())
    return tuple(alike)
