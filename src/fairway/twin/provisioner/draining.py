"""Emptying a node: who is evicted next?

Four tiers, one after the other: pods of workloads, those of DaemonSets, then critical ones likewise. A pod that must
not be disrupted, and one whose budget refuses, holds the node up until its own grace period would reach beyond the
claim's termination grace period; then it is deleted, with what is left of that time.

Source: node/termination/terminator/terminator.go, eviction.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from fairway.cluster.actions import perform
from fairway.cluster.errors import ApiError
from fairway.kube.objects import Key, Obj, key_of, meta_of, spec_of, status_of
from fairway.kube.taints import is_tolerated, parse_tolerations
from fairway.kube.timestamps import MINUTE_US, SECOND_US, parse_rfc3339
from fairway.provisioning.karpenter.disruption.evictions import DISRUPTED, is_do_not_disrupt
from fairway.provisioning.karpenter.podfacts import is_owned_by
from fairway.twin.components import Host
from fairway.twin.nodelifecycle import pods_on
from fairway.workloads.disruption.eviction import evict

_CRITICAL: Final = ("system-cluster-critical", "system-node-critical")
# How long after its deletion should have been over a pod is no longer waited for.
_STUCK_US: Final = MINUTE_US


@dataclass(slots=True)
class Drained:
    """What one look came to: how many pods are waited for, who was evicted, who may not go yet and why, and who was
    deleted with how many seconds."""

    waiting: int = 0
    evicted: list[Key] = field(default_factory=list)
    refused: list[tuple[Key, bool]] = field(default_factory=list)
    """With whether several budgets match, which no eviction allows."""
    deleted: list[tuple[Key, int]] = field(default_factory=list)


def drain(host: Host, node: str, until_us: int | None = None) -> Drained:
    """One look. `until_us`: when the claim's termination grace period is over; None: it has none."""
    found = (host.store.get(key) for key in pods_on(host, node))
    pods = [p for p in found if p is not None and _is_waited_for(p, host.loop.now_us)]
    done = Drained(len(pods))
    late: dict[str, Obj] = {}
    if until_us is not None:
        now_us = host.loop.now_us
        late = {meta_of(p)["uid"]: p for p in pods if _is_overdue(p, until_us, now_us)}
        for pod in late.values():
            _delete(host, pod, max(until_us - now_us, SECOND_US) // SECOND_US, done)
    graceful = [p for p in pods if meta_of(p)["uid"] not in late]
    first = min((_tier(p) for p in graceful), default=0)
    for pod in graceful:
        if _tier(pod) == first and "deletionTimestamp" not in meta_of(pod):
            _evict(host, pod, done)
    return done


def _is_waited_for(pod: Obj, now_us: int) -> bool:
    tolerations = parse_tolerations(spec_of(pod).get("tolerations"))
    phase = status_of(pod).get("phase")
    going = meta_of(pod).get("deletionTimestamp")
    return (
        phase not in ("Succeeded", "Failed")
        and not is_owned_by(pod, "Node")
        and not is_tolerated(DISRUPTED, tolerations)
        and not (going is not None and now_us - parse_rfc3339(going) > _STUCK_US)
    )


def _is_overdue(pod: Obj, until_us: int, now_us: int) -> bool:
    """Whether it has to be deleted now, so that its grace period ends with the node's; or will outlive the node."""
    going = meta_of(pod).get("deletionTimestamp")
    if going is not None:
        return parse_rfc3339(going) > until_us
    grace_s = spec_of(pod).get("terminationGracePeriodSeconds")
    return grace_s is not None and now_us > until_us - int(grace_s) * SECOND_US


def _tier(pod: Obj) -> int:
    is_critical = spec_of(pod).get("priorityClassName") in _CRITICAL
    return 2 * is_critical + is_owned_by(pod, "DaemonSet")


def _delete(host: Host, pod: Obj, grace_s: int, done: Drained) -> None:
    try:
        host.store.delete(key_of(pod), grace_s=grace_s)
    except ApiError as gone:
        if gone.code != 404:
            raise
    else:
        done.deleted.append((key_of(pod), grace_s))


def _evict(host: Host, pod: Obj, done: Drained) -> None:
    key, now_us = key_of(pod), host.loop.now_us
    if is_do_not_disrupt(pod, now_us):
        return
    decided = evict(host.store, key, now_us)
    for action in decided.actions:
        perform(host.store, action)
    if decided.is_allowed:
        done.evicted.append(key)
    elif decided.code in (429, 500):
        done.refused.append((key, decided.code == 500))
