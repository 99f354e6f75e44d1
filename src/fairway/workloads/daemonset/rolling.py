"""Which old daemon pods make way for new ones, and which nodes get a new pod beside the old one?

Source: pkg/controller/daemon/update.go rollingUpdate, updatedDesiredNodeCounts (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairway.kube.objects import Obj
from fairway.workloads import pods
from fairway.workloads.daemonset.daemonpods import is_updated
from fairway.workloads.daemonset.placement import Answer
from fairway.workloads.intorpercent import scaled


@dataclass(frozen=True, slots=True)
class Limits:
    max_surge: int
    max_unavailable: int


@dataclass(slots=True)
class Turnover:
    """Pods to delete, and nodes to give a new pod although they have one."""

    delete: list[Obj] = field(default_factory=list)
    surge: list[str] = field(default_factory=list)


def limits_of(spec: dict[str, Any], desired: int) -> Limits:
    """Both rounded up; never both zero where any pod is wanted."""
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    surge = rolling.get("maxSurge")
    unavailable = rolling.get("maxUnavailable")
    # API default: one unavailable, no surge. Source: SetDefaults_DaemonSet.
    max_surge = scaled(0 if surge is None else surge, desired, round_up=True)
    max_unavailable = scaled(1 if unavailable is None else unavailable, desired, round_up=True)
    if desired > 0 and max_surge == 0 and max_unavailable == 0:
        max_unavailable = 1
    return Limits(max_surge, max_unavailable)


def is_surging(spec: dict[str, Any]) -> bool:
    strategy = spec.get("updateStrategy") or {}
    surge = (strategy.get("rollingUpdate") or {}).get("maxSurge")
    return strategy.get("type", "RollingUpdate") == "RollingUpdate" and surge not in (None, 0, "0%", "0")


class Ambiguous(Exception):
    """A node has two pods of the same age group; the core loop sorts that out first."""


def new_and_old(on_node: list[Obj], digest: str, generation: str | None) -> tuple[Obj | None, Obj | None]:
    """The pod of this revision and the one of another, leaving out those being deleted.

    Raises: Ambiguous.
    """
    new: Obj | None = None
    old: Obj | None = None
    for pod in on_node:
        if pods.is_deleting(pod):
            continue
        if is_updated(pod, digest, generation):
            if new is not None:
                raise Ambiguous
            new = pod
        else:
            if old is not None:
                raise Ambiguous
            old = pod
    return new, old


@dataclass(frozen=True, slots=True)
class Revision:
    digest: str
    generation: str | None
    min_ready_s: int
    now_us: int

    def is_available(self, pod: Obj) -> bool:
        return pods.is_available(pod, self.min_ready_s, self.now_us)


def replace(by_node: dict[str, list[Obj]], revision: Revision, limits: Limits) -> Turnover:
    """Without surge: old pods that are not available go at once, others as maxUnavailable allows.

    `by_node` holds every node that has a pod; by now all that want one have it.
    """
    out = Turnover()
    unavailable = 0
    candidates: list[Obj] = []
    for node in sorted(by_node):
        try:
            new, old = new_and_old(by_node[node], revision.digest, revision.generation)
        except Ambiguous:
            unavailable += 1
            continue
        if (new is None) == (old is None):
            unavailable += 1
        elif new is not None:
            unavailable += not revision.is_available(new)
        elif old is not None:
            if not revision.is_available(old):
                out.delete.append(old)
                unavailable += 1
            else:
                candidates.append(old)
    out.delete.extend(candidates[: max(limits.max_unavailable - unavailable, 0)])
    return out


def surge(
    by_node: dict[str, list[Obj]],
    answers: dict[str, Answer],
    revision: Revision,
    limits: Limits,
    desired: int,
) -> Turnover:
    """With surge: a new pod comes up beside the old one, which goes once the new one is available."""
    out = Turnover()
    surging = available = 0
    candidates: list[str] = []
    allowed: list[str] = []
    unwanted: list[Obj] = []
    for node in sorted(by_node):
        try:
            new, old = new_and_old(by_node[node], revision.digest, revision.generation)
        except Ambiguous:
            surging += 1
            continue
        counted = old if old is not None else new
        available += counted is not None and revision.is_available(counted)
        if old is None:
            continue
        if new is not None:
            if revision.is_available(new):
                out.delete.append(old)
            else:
                surging += 1
            continue
        should_run = node in answers and answers[node].should_run
        if not revision.is_available(old):
            if should_run:
                allowed.append(node)
            else:
                out.delete.append(old)
        elif not should_run:
            unwanted.append(old)
        else:
            candidates.append(node)
    out.delete.extend(unwanted[: max(available - desired, 0)])
    out.surge = [*allowed, *candidates[: max(limits.max_surge - surging, 0)]]
    return out
