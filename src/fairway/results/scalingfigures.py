"""Who was scaled between what, when its pods followed, and what being late or early took.

In: a run's changes of replicas and its pods. Out: for each target the replicas wanted and ready over time; the
replica-time it was short of (wanted, not ready) and had too much of (ready, not wanted); and the GPU-time its pods held
before they were ready.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from fairway.kube.timestamps import HOUR_US
from fairway.recorder.tables import Outcome, PodRow, ScalingRow

# (From, value): the value holds until the next one begins.
Steps = list[tuple[int, int]]


@dataclass(slots=True)
class ScaledTarget:
    """`short_us`, `surplus_us`: replicas times µs, `…_micros`: what those would cost. `starting_gpu_milli_us`: GPUs
    held by pods that are not ready yet."""

    kind: str
    namespace: str
    name: str
    changes: list[ScalingRow] = field(default_factory=list)
    wanted: Steps = field(default_factory=list)
    ready: Steps = field(default_factory=list)
    short_us: int = 0
    surplus_us: int = 0
    starting_gpu_milli_us: int = 0
    pods: list[PodRow] = field(default_factory=list)
    hourly_micros: float | None = None
    """What an hour of one replica costs; None where nobody asked, or nobody says (see `scalingprices`)."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def sizes(self) -> list[int]:
        return [self.changes[0].before, *(change.after for change in self.changes)]

    @property
    def short_micros(self) -> float | None:
        return None if self.hourly_micros is None else self.short_us * self.hourly_micros / HOUR_US

    @property
    def surplus_micros(self) -> float | None:
        return None if self.hourly_micros is None else self.surplus_us * self.hourly_micros / HOUR_US

    @property
    def flaps(self) -> int:
        return sum(change.is_flap for change in self.changes)


def scaled_targets(outcome: Outcome) -> list[ScaledTarget]:
    """Those that changed most often first. O(changes + pods)."""
    found: dict[tuple[str, str, str], ScaledTarget] = {}
    for row in outcome.scalings:
        at = (row.kind, row.namespace, row.name)
        found.setdefault(at, ScaledTarget(*at)).changes.append(row)
    if not found:
        return []
    pods: dict[tuple[str, str, str], list[PodRow]] = {at: [] for at in found}
    for pod in outcome.pods:
        for at in _targets_of(pod):
            if at in pods:
                pods[at].append(pod)
                break
    for at, target in found.items():
        target.pods = pods[at]
        _follow(target, pods[at], outcome.began_us, outcome.ended_us)
    return sorted(found.values(), key=lambda t: (-len(t.changes), t.title))


def _targets_of(pod: PodRow) -> Iterable[tuple[str, str, str]]:
    """What may have been scaled to make this pod: its owners, and the Deployment of its ReplicaSet."""
    yield pod.root_kind, pod.namespace, pod.root_name
    yield pod.owner_kind, pod.namespace, pod.owner_name
    if pod.owner_kind == "ReplicaSet":
        yield "Deployment", pod.namespace, pod.owner_name.rpartition("-")[0]


def _follow(target: ScaledTarget, pods: Sequence[PodRow], began_us: int, ended_us: int) -> None:
    born_us = min((p.created_us for p in pods), default=target.changes[0].at_us)
    target.wanted = [(max(began_us, min(born_us, target.changes[0].at_us)), target.changes[0].before)]
    target.wanted += [(change.at_us, change.after) for change in target.changes]
    moves: list[tuple[int, int]] = []
    for pod in pods:
        gone_us = min(t for t in (pod.deleted_us, pod.finished_us, ended_us) if t is not None)
        if pod.ready_us is not None and pod.ready_us < gone_us:
            moves += [(pod.ready_us, 1), (gone_us, -1)]
        if pod.scheduled_us is not None:
            until_us = gone_us if pod.ready_us is None else min(pod.ready_us, gone_us)
            target.starting_gpu_milli_us += pod.gpu_milli * max(until_us - pod.scheduled_us, 0)
    count = 0
    for at_us, move in sorted(moves):
        count += move
        if target.ready and target.ready[-1][0] == at_us:
            target.ready[-1] = (at_us, count)
        else:
            target.ready.append((at_us, count))
    # Jobs that were made end by themselves: nobody wants that many for ever.
    if target.kind != "ScaledJob":
        _compare(target, ended_us)


def _compare(target: ScaledTarget, ended_us: int) -> None:
    times = sorted({at for at, _ in (*target.wanted, *target.ready) if at < ended_us} | {ended_us})
    for begin, end in pairwise(times):
        off = value_at(target.wanted, begin) - value_at(target.ready, begin)
        target.short_us += max(off, 0) * (end - begin)
        target.surplus_us += max(-off, 0) * (end - begin)


def value_at(steps: Steps, at_us: int) -> int:
    """0 before the first. O(log n)."""
    found = bisect_right(steps, at_us, key=lambda step: step[0])
    return steps[found - 1][1] if found else 0
