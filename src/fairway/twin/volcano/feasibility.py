"""kube-scheduler's filters and scores, as Volcano's predicates and nodeorder plugins use them.

Resources are Volcano's own business, so NodeResourcesFit filters nothing here. What a session moves is moved in
the accounts too, in a what-if that `close` undoes: affinity, spreading, ports and scores see it.

Source: volcano-sh/volcano pkg/scheduler/plugins/predicates/predicates.go, plugins/nodeorder/nodeorder.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.records import PodRecord
from fairway.kube.objects import Key, Obj
from fairway.kube.resources import CPU, MEMORY, NVIDIA_GPU
from fairway.scheduling.cycle import Scheduler, SelectorOf
from fairway.scheduling.profile import (
    DEFAULT_PROFILE,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    FitStrategy,
    Profile,
)
from fairway.scheduling.verdict import REASONS, Refusal
from fairway.volcano.facts import Floats, Ints, Refusals

PLUGIN_OF = {
    "nodeaffinity.weight": "NodeAffinity",
    "podaffinity.weight": "InterPodAffinity",
    "balancedresource.weight": "NodeResourcesBalancedAllocation",
    "tainttoleration.weight": "TaintToleration",
    "imagelocality.weight": "ImageLocality",
    "podtopologyspread.weight": "PodTopologySpread",
}
_LEAST, _MOST = "leastrequested.weight", "mostrequested.weight"
_NOT_ASKED = ("NodeResourcesFit", "GpuShare")
_BASE = replace(
    DEFAULT_PROFILE,
    filters=DEFAULT_PROFILE.filters.difference(_NOT_ASKED),
    balanced_resources=(CPU, MEMORY, NVIDIA_GPU),
    has_dynamic_resources=False,
)
# Refusals that plugins return as UnschedulableAndUnresolvable.
_FINAL = (
    Refusal.NODE_UNSCHEDULABLE,
    Refusal.NODE_NAME,
    Refusal.TAINT,
    Refusal.NODE_AFFINITY,
    Refusal.NODE_AFFINITY_ENFORCED,
    Refusal.SPREAD_LABEL,
    Refusal.POD_AFFINITY,
)
_WORDS: Mapping[int, str] = {int(code): reason for code, reason in REASONS.items()}
_IS_FINAL = np.zeros(len(Refusal), np.bool_)
_IS_FINAL[[int(code) for code in _FINAL]] = True


class KubeFeasibility:
    """One session's view. Every change it makes to the accounts is undone by `close`."""

    def __init__(
        self,
        accounts: NodeAccounts,
        nodes: Sequence[str],
        pod_named: Callable[[Key], Obj | None],
        default_selector: SelectorOf,
    ) -> None:
        self._accounts = accounts
        self._rows: Ints = np.array([accounts.row_of[name] for name in nodes], np.int64)
        self._pod_named = pod_named
        self._selector = default_selector
        self._predicates = Scheduler(accounts, _BASE, default_selector)
        self._scorers: dict[tuple[tuple[str, int], ...], list[Scheduler]] = {}
        self._records: dict[str, PodRecord] = {}
        self._home: dict[str, int] = {}
        """By pod, the row on which the session found it."""

    def refusals(self, pod: str) -> Refusals:
        record = self._record(pod)
        local = self._predicates.local(record)
        codes = self._predicates.refusals(record, local)[self._rows]
        return Refusals(codes, _WORDS, _IS_FINAL[codes])

    def scores(self, pod: str, nodes: Ints, weights: Mapping[str, int]) -> Floats:
        record, rows = self._record(pod), self._rows[nodes]
        total = np.zeros(len(nodes), np.float64)
        for scorer in self._scorers_for(weights):
            total += scorer.totals_among(record, rows)
        return total

    def _scorers_for(self, weights: Mapping[str, int]) -> list[Scheduler]:
        key = tuple(sorted(weights.items()))
        found = self._scorers.get(key)
        if found is None:
            found = [Scheduler(self._accounts, p, self._selector) for p in _profiles(weights)]
            self._scorers[key] = found
        return found

    def came(self, pod: str, node: int) -> None:
        self._accounts.place(self._record(pod), int(self._rows[node]))

    def left(self, pod: str, node: int) -> None:
        self._accounts.displace(self._record(pod))

    def devices(self, pod: str) -> int:
        """The GPUs it would get where GPUs are shared: a bit mask, 0 elsewhere."""
        return self._record(pod).devices

    def _record(self, pod: str) -> PodRecord:
        record = self._records.get(pod)
        if record is None:
            namespace, _, name = pod.partition("/")
            key = Key("Pod", namespace, name)
            record = self._accounts.records.get(key)
            if record is None:
                obj = self._pod_named(key)
                assert obj is not None
                record = self._accounts.record(obj, key)
            self._records[pod] = record
            self._home[pod] = record.row
        return record

    def close(self) -> None:
        """Put every pod back where the session found it."""
        moved = [p for p, record in self._records.items() if record.row != self._home[p]]
        for pod in moved:
            if self._records[pod].row >= 0:
                self._accounts.displace(self._records[pod])
        for pod in moved:
            if self._home[pod] >= 0:
                self._accounts.place(self._records[pod], self._home[pod])


def _profiles(weights: Mapping[str, int]) -> list[Profile]:
    """One profile with everything; a second where both fit strategies score."""
    others = {PLUGIN_OF[n]: w for n, w in weights.items() if n in PLUGIN_OF and w}
    profiles: list[Profile] = []
    for name, kind in ((_LEAST, LEAST_ALLOCATED), (_MOST, MOST_ALLOCATED)):
        if weights.get(name):
            scored = {"NodeResourcesFit": weights[name], **({} if profiles else others)}
            profiles.append(replace(_BASE, weights=scored, fit=FitStrategy(kind, ((CPU, 1), (MEMORY, 1)))))
    return profiles or ([replace(_BASE, weights=others)] if others else [])
