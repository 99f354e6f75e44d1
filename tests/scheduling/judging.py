"""One cycle over a small cluster: what would the scheduler say of this pod?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from builders import NodeBuilder, PodBuilder
from fairway.cluster.store import Store
from fairway.kube.labels import label_selector
from fairway.kube.objects import Key, key_of
from fairway.scheduling.cycle import Diagnosis, Scheduler
from fairway.scheduling.preemption import Budget, explain
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.scheduling.verdict import Scheduled, Unschedulable
from fairway.twin.owners import DefaultSelectors

Obj = dict[str, Any]


@dataclass
class Cluster:
    """Nodes, and pods already on them as `{"n1": [pod, …]}`."""

    nodes: Iterable[NodeBuilder]
    running: dict[str, list[PodBuilder]] = field(default_factory=dict)
    others: Iterable[Obj] = ()
    profile: Profile = DEFAULT_PROFILE
    budgets: Iterable[Obj] = ()
    nominated: dict[str, list[PodBuilder]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = Store()
        for obj in (*self.others, *(n.build() for n in self.nodes)):
            self.store.create(obj)
        for name, pods in self.running.items():
            for pod in pods:
                raw = pod.build()
                stored = self.store.create(raw)
                status = {**stored["status"], "phase": "Running", **raw.get("status", {})}
                self.store.bind(key_of(stored), name, status)
                if pod.is_terminating:
                    self.store.delete(key_of(stored))
        selectors = DefaultSelectors(self.store)
        self.scheduler = Scheduler(self.store.accounts, self.profile, selectors.of)
        for name, pods in self.nominated.items():
            for pod in pods:
                stored = self.store.create(pod.build())
                record = self.store.accounts.record(stored, key_of(stored))
                self.scheduler.nominated[record.key] = (record, name)

    def delete(self, name: str, **options: Any) -> None:
        self.store.delete(Key("Pod", "default", name), **options)

    def judge(self, pod: PodBuilder, draw: int = 0) -> Judgement:
        stored = self.store.create(pod.build())
        record = self.store.accounts.record(stored, key_of(stored))
        sheet = self.scheduler.score_sheet(record)
        verdict = self.scheduler.place(record, draw)
        totals = dict(zip(sheet.nodes, sheet.totals, strict=True))
        parts = {n: dict(zip(sheet.nodes, s, strict=True)) for n, s in sheet.by_plugin.items()}
        if isinstance(verdict, Diagnosis):
            refused = explain(self.scheduler, record, verdict, [_budget(b) for b in self.budgets], draw)
            return Judgement(totals, parts, None, refused)
        return Judgement(totals, parts, verdict, None)


@dataclass
class Judgement:
    scores: dict[str, int]
    parts: dict[str, dict[str, int]]
    placed: Scheduled | None
    refused: Unschedulable | None

    @property
    def feasible(self) -> list[str]:
        return sorted(self.scores)

    @property
    def message(self) -> str:
        return self.refused.message if self.refused else ""

    @property
    def victims(self) -> list[str]:
        preemption = self.refused.preemption if self.refused else None
        return [k.name for k in preemption.victims] if preemption else []

    @property
    def evicts_on(self) -> str:
        preemption = self.refused.preemption if self.refused else None
        return preemption.node if preemption else ""


def _budget(raw: Obj) -> Budget:
    return Budget(
        raw["metadata"]["namespace"],
        label_selector(raw["spec"].get("selector")),
        raw["status"]["disruptionsAllowed"],
        frozenset(raw["status"].get("disruptedPods") or ()),
    )


def judge(
    nodes: Iterable[NodeBuilder],
    pod: PodBuilder,
    running: dict[str, list[PodBuilder]] | None = None,
    **more: Any,
) -> Judgement:
    return Cluster(list(nodes), running or {}, **more).judge(pod)
