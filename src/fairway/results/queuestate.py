"""Where do queues stand at one moment: in a scenario, in a run that is over, or in a dump of a cluster?

A dump is a directory or file with Workloads of Kueue: what it says is taken as it is. A run directory is
replayed from its scenario; a scenario, or a directory of plain manifests, is run. Time stands at `at`, or at the end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairway.cluster.changes import ADDED, Change
from fairway.errors import FieldProblem, InvalidInput, UserError
from fairway.kube.manifest import Manifest, read_path
from fairway.kube.objects import Key, Obj, gk_of, meta_of
from fairway.kube.timestamps import parse_rfc3339
from fairway.queueing.configuration import read_configuration
from fairway.queueing.control.backlog import Backlog
from fairway.queueing.control.kinds import WATCHED
from fairway.queueing.control.pendingreasons import Standing, standings
from fairway.queueing.control.settings import DEFAULT_KUEUE, KueueSettings
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.queueing.lending import Loan, loans_of
from fairway.queueing.nomination import CycleOptions
from fairway.queueing.objects import FlavorResource
from fairway.queueing.pending import QueueUsage
from fairway.queueing.quota import QuotaNode
from fairway.queueing.shares import share_of
from fairway.results.rundir import SUMMARY
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import moment, run_until
from fairway.traces.arrival import QUEUE_LABEL
from fairway.twin.kueue.component import Kueue
from fairway.twin.twin import Twin

# The first needed by those after it; Workloads last.
_ORDER = (
    "Namespace",
    "RuntimeClass.node.k8s.io",
    "LimitRange",
    "Node",
    "Topology.kueue.x-k8s.io",
    "ResourceFlavor.kueue.x-k8s.io",
    "AdmissionCheck.kueue.x-k8s.io",
    "Cohort.kueue.x-k8s.io",
    "ClusterQueue.kueue.x-k8s.io",
    "LocalQueue.kueue.x-k8s.io",
    WORKLOAD,
)
_TAKEN = "the newest moment the dump speaks of; it may have been taken later (--at TIME says when)"
# When a condition was last heard of.
_SEEN = ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime")
_NAMED = 10


@dataclass(frozen=True)
class QueueState:
    """Kueue's books at one moment. `notes`: sentences for the reader."""

    now_us: int
    backlog: Backlog
    workloads: dict[str, Obj]
    usage: QueueUsage | None = None
    notes: tuple[str, ...] = ()


def queue_state(path: Path, at: str | None = None, configuration: Path | None = None) -> QueueState:
    """The state at a path. `at`: a duration since the start of a scenario, or an RFC 3339 time.

    Raises: InvalidInput, UserError.
    """
    if (path / SUMMARY).is_file():
        return _of_run(path, at)
    dump = _dump(path)
    if dump is not None:
        return _of_dump(dump, at, configuration)
    if configuration is not None:
        raise UserError("--config goes with a dump; a scenario says it under spec.kueue.configuration")
    return _of_scenario(path, at, None, ())


# A scenario


def _of_run(path: Path, at: str | None) -> QueueState:
    """Run again what the directory is of: equal seeds make equal runs."""
    summary = json.loads((path / SUMMARY).read_text(encoding="utf-8"))
    source, seed = summary.get("source") or "", summary.get("seed")
    if not source or not Path(source).exists():
        said = source or "nothing"
        expected = f"a run directory keeps no queues; its scenario is needed, and {said} is not there"
        raise InvalidInput((FieldProblem(str(path / SUMMARY), 0, "source", source, expected),))
    return _of_scenario(Path(source), at, seed, (f"replayed {source} with seed {seed}",))


def _of_scenario(path: Path, at: str | None, seed: int | None, notes: tuple[str, ...]) -> QueueState:
    return state_of(run_until(load_scenario(path), at, seed), notes)


def state_of(twin: Twin, notes: tuple[str, ...] = ()) -> QueueState:
    """Of a twin as it stands."""
    kueue = twin.component("kueue")
    assert isinstance(kueue, Kueue)
    found = {
        f"{meta_of(obj).get('namespace') or ''}/{meta_of(obj)['name']}": obj
        for obj in twin.store.objects(WORKLOAD)
    }
    return QueueState(twin.now_us, kueue.backlog, found, kueue.usage, notes)


# A dump


def _dump(path: Path) -> list[Manifest] | None:
    """Its objects, if there are Workloads of Kueue among them."""
    if not path.exists():
        expected = "no such file or directory: expected a scenario, a run directory, or a dump"
        raise InvalidInput((FieldProblem(str(path), 0, "", "", expected),))
    manifests = [m for m in read_path(path, lenient=True) if m.broken is None]
    return manifests if any(gk_of(m.obj) == WORKLOAD for m in manifests) else None


def _of_dump(manifests: list[Manifest], at: str | None, configuration: Path | None) -> QueueState:
    settings = DEFAULT_KUEUE if configuration is None else _settings(configuration)
    taken = [m for m in manifests if gk_of(m.obj) in WATCHED]
    absent = _absent_namespaces([m.obj for m in taken])
    taken.sort(key=lambda m: _ORDER.index(gk_of(m.obj)))
    now_us = _latest([m.obj for m in manifests]) if at is None else moment(at, 0)
    backlog = Backlog(settings)
    problems: list[FieldProblem] = []
    workloads: dict[str, Obj] = {}
    for number, manifest in enumerate(taken, 1):
        obj, meta = manifest.obj, meta_of(manifest.obj)
        key = Key(gk_of(obj), meta.get("namespace") or "", str(meta.get("name") or ""))
        try:
            backlog.apply(Change(number, ADDED, key, obj, None), now_us)
        except (ValueError, KeyError, TypeError, AttributeError) as wrong:
            said = f"not an object Kueue would have accepted: {type(wrong).__name__} {wrong}"
            problems.append(FieldProblem(manifest.file, manifest.line, "", "", said, f"{key.gk} {key.name}"))
            continue
        if key.gk == WORKLOAD:
            workloads[f"{key.namespace}/{key.name}"] = obj
    if problems:
        raise InvalidInput(tuple(problems))
    for name in backlog.take_unqueued():
        backlog.enqueue(workloads[name], now_us)
    backlog.accounts.settle()
    notes = (*(() if at else (_TAKEN,)), *_missing(backlog, absent), *_without_workload(manifests, backlog))
    return QueueState(now_us, backlog, workloads, None, notes)


def _settings(path: Path) -> KueueSettings:
    (manifest,) = read_path(path)
    return read_configuration(manifest).kueue_settings()


def _latest(objects: list[Obj]) -> int:
    """The newest moment a dump speaks of: it was taken then, or later."""
    stamps: list[Any] = []
    for obj in objects:
        meta, status = meta_of(obj), obj.get("status") or {}
        stamps += [meta.get("creationTimestamp"), (obj.get("spec") or {}).get("renewTime")]
        stamps += [obj.get("lastTimestamp"), obj.get("eventTime")]
        stamps += [m.get("time") for m in meta.get("managedFields") or ()]
        for condition in status.get("conditions") or ():
            stamps += [condition.get(name) for name in _SEEN]
    return max((_stamp_us(stamp) for stamp in stamps), default=0)


def _stamp_us(stamp: Any) -> int:
    try:
        return parse_rfc3339(stamp) if isinstance(stamp, str) else 0
    except ValueError:
        return 0


def _without_workload(manifests: list[Manifest], backlog: Backlog) -> list[str]:
    """Jobs that name a queue and have no Workload, because the queue is not there or nobody looks after their kind."""
    owned = {
        ref.get("uid")
        for m in manifests
        if gk_of(m.obj) == WORKLOAD
        for ref in meta_of(m.obj).get("ownerReferences") or ()
    }
    notes = []
    for manifest in manifests:
        meta, gk = meta_of(manifest.obj), gk_of(manifest.obj)
        queue = (meta.get("labels") or {}).get(QUEUE_LABEL)
        if (
            not queue
            or gk in WATCHED
            or gk == "Pod"
            or meta.get("uid") in owned
            or meta.get("ownerReferences")
        ):
            continue
        home = meta.get("namespace") or "default"
        why = (
            "has no Workload"
            if f"{home}/{queue}" in backlog.local_queues
            else f"no LocalQueue {queue} is there"
        )
        notes.append(f"{manifest.obj.get('kind')} {home}/{meta.get('name')} waits in queue {queue}: {why}")
    more = [f"… and {len(notes) - _NAMED} more jobs without a Workload"] if len(notes) > _NAMED else []
    return notes[:_NAMED] + more


def _absent_namespaces(objects: list[Obj]) -> list[str]:
    """Of Workloads, and not in the dump."""
    there = {meta_of(obj).get("name") for obj in objects if gk_of(obj) == "Namespace"}
    needed = {str(meta_of(obj).get("namespace") or "") for obj in objects if gk_of(obj) == WORKLOAD}
    return sorted(needed - there)


def _missing(backlog: Backlog, absent: list[str]) -> tuple[str, ...]:
    """What a dump should hold and does not."""
    notes = []
    if not backlog.accounts.queues:
        notes.append("the dump holds no ClusterQueues: add clusterqueues,localqueues,cohorts,resourceflavors")
    if absent and backlog.accounts.queues:
        named = ", ".join(absent[:3]) + (" …" if len(absent) > 3 else "")
        notes.append(f"the dump holds no Namespace {named}: selectors see only kubernetes.io/metadata.name")
    return tuple(notes)


# Answers


@dataclass(frozen=True, slots=True)
class QuotaState:
    """One resource of one flavor in a ClusterQueue, in amounts of quota. `free`: usable now, borrowing included."""

    flavor: str
    resource: str
    nominal: int
    used: int
    borrowed: int
    lent: int
    free: int


@dataclass(frozen=True, slots=True)
class QueueLine:
    """One ClusterQueue. `inactive`: why it admits nothing; empty while it does."""

    name: str
    cohort: str
    strategy: str
    inactive: str
    local_queues: tuple[str, ...]
    pending: int
    reserving: int
    admitted: int
    weighted_share: float
    quotas: tuple[QuotaState, ...]


def queue_lines(state: QueueState) -> list[QueueLine]:
    """Every ClusterQueue, by cohort and name."""
    backlog = state.backlog
    backlog.accounts.settle()
    lent = _lent(state)
    lines = []
    for name, account in sorted(backlog.accounts.queues.items()):
        held = backlog.held_in(name)
        quotas = tuple(
            QuotaState(
                fr.flavor,
                fr.resource,
                quota.nominal,
                account.usage.get(fr, 0),
                max(0, account.usage.get(fr, 0) - quota.nominal) if account.parent is not None else 0,
                lent.get((name, fr), 0),
                account.free(fr),
            )
            for fr, quota in account.spec.quotas.items()
        )
        cohort = "/".join(reversed([a.name for a in account.ancestors()]))
        lines.append(
            QueueLine(
                name,
                cohort,
                account.spec.queueing_strategy,
                "" if account.inactivity is None else account.inactivity.message,
                tuple(backlog.local_queues_of(name)),
                backlog.pending_in(name),
                held.reserving,
                held.admitted,
                share_of(account).weighted,
                quotas,
            )
        )
    return sorted(lines, key=lambda line: (line.cohort, line.name))


@dataclass(frozen=True, slots=True)
class LoanLine:
    """Quota that one ClusterQueue uses of another's: see `queueing.lending`."""

    cohort: str
    flavor: str
    resource: str
    loan: Loan


def loan_lines(state: QueueState) -> list[LoanLine]:
    """Who borrows from whom, by root cohort, resource and borrower."""
    found: list[LoanLine] = []
    for root in _roots(state):
        for fr in _quotas_in(root):
            found.extend(LoanLine(root.name, *fr, loan) for loan in loans_of(root, fr))
    return sorted(found, key=lambda line: (line.cohort, line.resource, line.flavor, line.loan))


def _lent(state: QueueState) -> dict[tuple[str, FlavorResource], int]:
    total: dict[tuple[str, FlavorResource], int] = {}
    for line in loan_lines(state):
        key = (line.loan.lender, FlavorResource(line.flavor, line.resource))
        total[key] = total.get(key, 0) + line.loan.amount
    return total


def _roots(state: QueueState) -> list[QuotaNode]:
    state.backlog.accounts.settle()
    cohorts = state.backlog.accounts.cohorts.values()
    return sorted((c for c in cohorts if c.parent is None), key=lambda node: node.name)


def _quotas_in(root: QuotaNode) -> list[FlavorResource]:
    return sorted({fr for queue in root.subtree_queues() for fr in queue.usage})


def pending_lines(state: QueueState, queue: str | None = None) -> list[Standing]:
    """Who waits, in order, and what for. `queue`: a ClusterQueue, or a LocalQueue as `namespace/name`.

    Raises: UserError for a queue that is not there.
    """
    backlog = state.backlog
    known = [*sorted(backlog.accounts.queues), *sorted(backlog.local_queues)]
    if queue is not None and queue not in known:
        from fairway.kube.located import did_you_mean

        raise UserError(
            f"no queue {queue!r}: {did_you_mean(queue, known)}" if known else "no queues are there"
        )
    found = standings(backlog, _options(state), state.workloads, state.usage)
    if queue is None:
        return found
    return [s for s in found if queue in (s.cluster_queue, s.workload.queue)]


def _options(state: QueueState) -> CycleOptions:
    settings = state.backlog.settings
    waits = settings.pods_ready is not None and settings.pods_ready.blocks_admission
    return CycleOptions(
        number=1,
        now_us=state.now_us,
        uses_fair_sharing=settings.uses_fair_sharing,
        strategies=settings.strategies,
        queue_usage=state.usage,
        ignores_undeclared=settings.ignores_undeclared,
        waits_for_pods_ready=waits,
        all_pods_ready=not state.backlog.holdings.not_ready,
    )


def as_json(line: Any) -> dict[str, Any]:
    """A line of any of the three answers as plain data."""
    if isinstance(line, Standing):
        w = line.workload
        return {
            "namespace": w.namespace,
            "name": w.key.partition("/")[2],
            "queue": w.queue.partition("/")[2],
            "cluster_queue": line.cluster_queue,
            "position": line.position,
            "priority": w.priority,
            "pods": sum(total.count for total in w.totals),
            "requests": _requests(line),
            "queued_us": w.order_us,
            "verdict": line.verdict,
            "reason": line.reason,
            "message": line.message,
            "waits_for_event": line.is_parked,
            "preempts": list(line.victims),
            "condition": {"reason": line.told_reason, "message": line.told_message},
        }
    if isinstance(line, LoanLine):
        loan = line.loan
        return {
            "cohort": line.cohort,
            "flavor": line.flavor,
            "resource": line.resource,
            "borrower": loan.borrower,
            "lender": loan.lender,
            "amount": loan.amount,
        }
    from dataclasses import asdict

    return asdict(line)


def _requests(line: Standing) -> dict[str, int]:
    asked: dict[str, int] = {}
    for total in line.workload.totals:
        for name, value in total.requests.items():
            asked[name] = asked.get(name, 0) + value
    return dict(sorted(asked.items()))
