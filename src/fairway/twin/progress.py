"""How much of a workload's work is done, saved or lost, when its pods come and go?

Work belongs to an *identity* that outlives pods: the controller and the completion index where there is one
(`batch.kubernetes.io/job-completion-index`, a StatefulSet's pod name), the controller alone otherwise, a bare
pod's own name, or what `fairway.dev/checkpoint-key` says. A run that ends early leaves what it saved in its
identity's pool; the next run of that identity takes the largest saved piece and resumes there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from fairway.kube.objects import Obj, annotations_of, controller_of, meta_of

_INDEX = "batch.kubernetes.io/job-completion-index"


class Work(NamedTuple):
    """What a run of some length achieved, in µs of work: done in all, safe in a checkpoint, time in saves."""

    done_us: int
    saved_us: int
    saving_us: int


@dataclass(slots=True)
class Totals:
    """Accounts in µs of container time: useful work, work lost, and time for restoring and saving."""

    useful_us: int = 0
    lost_us: int = 0
    overhead_us: int = 0
    resumed: int = 0
    """Runs that resumed from a checkpoint."""
    useful_gpu_us: int = 0
    """As `useful_us`, `lost_us` and `overhead_us`, times the milli-GPUs the pod held meanwhile."""
    lost_gpu_us: int = 0
    overhead_gpu_us: int = 0
    waited_gpu_us: int = 0
    """GPUs held by members of distributed jobs while others were not there; part of the overhead."""

    def add(self, useful_us: int, lost_us: int, overhead_us: int, gpu_milli: int) -> None:
        """A run, or a piece of one."""
        self.useful_us += useful_us
        self.lost_us += lost_us
        self.overhead_us += overhead_us
        if gpu_milli:
            self.useful_gpu_us += gpu_milli * useful_us
            self.lost_gpu_us += gpu_milli * lost_us
            self.overhead_gpu_us += gpu_milli * overhead_us


def wall_us(work_us: int, interval_us: int, save_us: int) -> int:
    """How long it takes to do this much work with a checkpoint after every interval (none at the very end)."""
    if interval_us <= 0:
        return work_us
    return work_us + max(-(-work_us // interval_us) - 1, 0) * save_us


def work_after(elapsed_us: int, interval_us: int, save_us: int) -> Work:
    """What was achieved this long after work began."""
    elapsed_us = max(elapsed_us, 0)
    if interval_us <= 0:
        return Work(elapsed_us, 0, 0)
    cycles, rest_us = divmod(elapsed_us, interval_us + save_us)
    done_us = cycles * interval_us + min(rest_us, interval_us)
    saving_us = cycles * save_us + max(rest_us - interval_us, 0)
    return Work(done_us, cycles * interval_us, saving_us)


def identity_of(pod: Obj, container: str, key: str) -> str:
    """Whose work this container does."""
    meta = meta_of(pod)
    if key:
        return f"{meta.get('namespace', '')}/{key}/{container}"
    owner = controller_of(pod)
    if owner is None:
        return f"{meta.get('namespace', '')}/{meta.get('name', '')}/{container}"
    index = annotations_of(pod).get(_INDEX, "")
    if not index and owner.get("kind") == "StatefulSet":
        index = meta.get("name", "")
    return f"{owner.get('uid', '')}/{index}/{container}"


class Progress:
    """Saved work per identity, attempts per identity, and totals."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._saved: dict[str, tuple[int, ...]] = {}
        self._attempts: dict[str, int] = {}

    def take(self, identity: str) -> int:
        """The largest piece of saved work waiting (0: none); it now belongs to the caller."""
        pool = self._saved.get(identity)
        if not pool:
            return 0
        if len(pool) == 1:
            del self._saved[identity]
        else:
            self._saved[identity] = pool[:-1]
        self.totals.resumed += 1
        return pool[-1]

    def put_back(self, identity: str, saved_us: int) -> None:
        """Leave saved work for the next run."""
        if saved_us > 0:
            self._saved[identity] = tuple(sorted((*self._saved.get(identity, ()), saved_us)))

    def next_attempt(self, identity: str) -> int:
        """0 for the identity's first run, then 1, …"""
        attempt = self._attempts.get(identity, 0)
        self._attempts[identity] = attempt + 1
        return attempt

    def ran_before(self, identity: str, runs: int) -> None:
        """So many runs of the identity were begun that nobody here has seen."""
        self._attempts[identity] = self._attempts.get(identity, 0) + runs

    def pools(self) -> Mapping[str, tuple[int, ...]]:
        """What waits, by identity."""
        return self._saved

    def saved(self, identity: str) -> tuple[int, ...]:
        return self._saved.get(identity, ())

    def fork(self) -> Progress:
        twin = Progress()
        twin.totals = replace(self.totals)
        twin._saved = dict(self._saved)
        twin._attempts = dict(self._attempts)
        return twin
