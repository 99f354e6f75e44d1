"""Where do queues stand at one moment of a twin? `fairway.ground` has the moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway.errors import UserError
from fairway.kube.objects import Obj, meta_of
from fairway.queueing.control.backlog import Backlog
from fairway.queueing.control.pendingreasons import Standing, standings
from fairway.queueing.cycle.nomination import CycleOptions
from fairway.queueing.cycle.pending import QueueUsage
from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.queueing.quota.lending import Loan, loans_of
from fairway.queueing.quota.quotatree import QuotaNode
from fairway.queueing.quota.shares import share_of
from fairway.twin.kueue.component import Kueue
from fairway.twin.twin import Twin


@dataclass(frozen=True)
class QueueState:
    """Kueue's books at one moment. `notes`: sentences for the reader."""

    now_us: int
    backlog: Backlog
    workloads: dict[str, Obj]
    usage: QueueUsage | None = None
    notes: tuple[str, ...] = ()


def state_of(twin: Twin, notes: tuple[str, ...] = ()) -> QueueState:
    """Of a twin as it stands."""
    kueue = twin.component("kueue")
    assert isinstance(kueue, Kueue)
    found = {
        f"{meta_of(obj).get('namespace') or ''}/{meta_of(obj)['name']}": obj
        for obj in twin.store.objects(WORKLOAD)
    }
    return QueueState(twin.now_us, kueue.backlog, found, kueue.usage, notes)


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
    found = standings(backlog, cycle_options(state), state.workloads, state.usage)
    if queue is None:
        return found
    return [s for s in found if queue in (s.cluster_queue, s.workload.queue)]


def cycle_options(state: QueueState) -> CycleOptions:
    """How a cycle of its Kueue would go, now."""
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
