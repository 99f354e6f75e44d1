"""Which queues can an event help? All of the cohort tree it happened in.

Source: pkg/cache/queue/inadmissible_workloads.go notifyRetryInadmissible.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairway.queueing.facts.objects import ClusterQueue
from fairway.queueing.quota.accounts import Accounts

# The root a queue is woken by: `/cohort`, or the queue's own name where it has no cohort.
Root = str


def root_of(accounts: Accounts, name: str) -> Root | None:
    """None for a queue that is not there, or whose cohorts form a cycle. O(depth): the accounts need not be settled."""
    spec = accounts.queue_specs().get(name)
    if spec is None:
        return None
    if not spec.cohort:
        return name
    top = accounts.top_of(spec.cohort)
    return None if top is None else f"/{top}"


def queues_of(accounts: Accounts, root: Root) -> list[str]:
    """The ClusterQueues below a root. The accounts must be settled."""
    if not root.startswith("/"):
        return [root] if root in accounts.queues else []
    cohort = accounts.cohorts.get(root[1:])
    return [] if cohort is None else [node.name for node in cohort.subtree_queues()]


def root_of_cohort(accounts: Accounts, name: str) -> Root | None:
    """None for a cohort nobody names. One whose way up never ends is its own root."""
    if name not in accounts.cohort_names():
        return None
    return f"/{accounts.top_of(name) or name}"


def using_flavor(specs: Mapping[str, ClusterQueue], flavor: str) -> list[str]:
    return [n for n in sorted(specs) if any(flavor in g.flavors for g in specs[n].groups)]


def using_check(specs: Mapping[str, ClusterQueue], check: str) -> list[str]:
    return [n for n in sorted(specs) if check in specs[n].admission_checks]
