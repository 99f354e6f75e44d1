"""Which queues can an event help? All of the cohort tree it happened in.

Source: pkg/cache/queue/inadmissible_workloads.go notifyRetryInadmissible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairway.queueing.accounts import Accounts
from fairway.queueing.objects import ClusterQueue

# The root a queue is woken by: `/cohort`, or the queue's own name where it has no cohort.
Root = str


def root_of(accounts: Accounts, name: str) -> Root | None:
    """None for a queue that is not there, or whose cohorts form a cycle. The accounts must be settled."""
    queue = accounts.queues.get(name)
    if queue is None or queue.in_cycle:
        return None
    root = queue.root()
    return name if root is queue else f"/{root.name}"


def queues_of(accounts: Accounts, root: Root) -> list[str]:
    """The ClusterQueues below a root."""
    if not root.startswith("/"):
        return [root] if root in accounts.queues else []
    cohort = accounts.cohorts.get(root[1:])
    return [] if cohort is None else [node.name for node in cohort.subtree_queues()]


def root_of_cohort(accounts: Accounts, name: str) -> Root | None:
    cohort = accounts.cohorts.get(name)
    return None if cohort is None else f"/{cohort.root().name}"


def using_flavor(specs: Mapping[str, ClusterQueue], flavor: str) -> list[str]:
    return [n for n in sorted(specs) if any(flavor in g.flavors for g in specs[n].groups)]


def using_check(specs: Mapping[str, ClusterQueue], check: str) -> list[str]:
    return [n for n in sorted(specs) if check in specs[n].admission_checks]


def roots_of(accounts: Accounts, names: Iterable[str]) -> list[Root]:
    """Each root once, in order."""
    found = (root_of(accounts, name) for name in names)
    return list(dict.fromkeys(root for root in found if root is not None))
