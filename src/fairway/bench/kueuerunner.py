"""Who creates the Workloads of Kueue's performance test, runs them, and says how long each waited.

As Kueue's own runner: Workloads are created directly, each set at its own interval; one that is admitted is
Finished once its running time is over; one that is evicted gives its quota back at once and runs anew when it is
admitted again. What it writes takes as long as any write; its rate is no limit (a thousand requests a second).

Source: test/performance/scheduler/runner (generator/generator.go, controller/controller.go, recorder/recorder.go).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj, meta_of, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.queueing.facts import conditions as conds
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.queueing.outcomes import statuses
from fairway.twin.components import Host
from fairway.twin.loop import INPUT

API = "kueue.x-k8s.io/v1beta2"
CLASS = "kueue.x-k8s.io/performance-scheduler-class"
QUEUE = "queue"
_MS_US = 1_000


@dataclass(frozen=True, slots=True)
class WorkloadClass:
    """One set of equal Workloads of every queue: so many, one each interval, for so long."""

    name: str
    count: int
    interval_ms: int
    run_ms: int
    priority: int
    cpu: int


@dataclass(frozen=True, slots=True)
class Wait:
    """How long Workloads of one class waited for their last admission."""

    count: int
    mean_s: float
    evictions: int


class Runner:
    """Not forked: a benchmark runs once."""

    name = "runner"
    kinds = (WORKLOAD,)

    def __init__(self, queues: tuple[str, ...], classes: tuple[WorkloadClass, ...]) -> None:
        self.queues = queues
        self.classes = {c.name: c for c in classes}
        self.finished = 0
        self.finished_us = 0
        self.evictions = dict.fromkeys(self.classes, 0)
        self._waited_us: dict[str, dict[Key, int]] = {name: {} for name in self.classes}
        self._running: dict[Key, int] = {}
        self._giving: dict[Key, int] = {}
        self._pod_sets = {c.name: _pod_sets(c.cpu) for c in classes}

    def attach(self, host: Host) -> None:
        self.host = host
        self._create = host.loop.register("runner.create", self._on_create)
        self._end = host.loop.register("runner.end", self._on_end)
        self._give = host.loop.register("runner.give", self._on_give)
        stream = host.streams.stream("runner")
        self._write_us = host.latency.api_write.sampler(stream)

    def start(self) -> None:
        """The first of each set comes one interval after the start."""
        for name, of_class in self.classes.items():
            for queue in self.queues:
                self._plan(queue, name, 0, of_class.interval_ms)

    def fork(self) -> Runner:
        raise NotImplementedError("a benchmark runs once")

    def _plan(self, queue: str, class_name: str, number: int, after_ms: int) -> None:
        loop = self.host.loop
        loop.at(loop.now_us + after_ms * _MS_US, self._create, (queue, class_name, number), INPUT)

    def _on_create(self, data: tuple[str, str, int]) -> None:
        queue, class_name, number = data
        of_class = self.classes[class_name]
        self.host.store.create(
            {
                "apiVersion": API,
                "kind": "Workload",
                "metadata": {
                    "namespace": queue,
                    "name": f"{class_name}-{number}",
                    "labels": {CLASS: class_name},
                },
                "spec": {
                    "active": True,
                    "queueName": QUEUE,
                    "priority": of_class.priority,
                    "podSets": self._pod_sets[class_name],
                },
            }
        )
        if number + 1 < of_class.count:
            self._plan(queue, class_name, number + 1, of_class.interval_ms)

    def observe(self, change: Change) -> None:
        status = status_of(change.obj)
        if change.type == DELETED or not conds.is_true(status, conds.ADMITTED):
            return
        key = change.key
        if conds.is_true(status, conds.EVICTED):
            self._interrupt(key)
        elif key not in self._running and not conds.is_true(status, conds.FINISHED):
            self._begin(key, change.obj)

    def _begin(self, key: Key, workload: Obj) -> None:
        meta, loop = meta_of(workload), self.host.loop
        class_name = meta["labels"][CLASS]
        admitted = conds.find(status_of(workload), conds.ADMITTED)
        assert admitted is not None
        waited_us = conds.since_us(admitted) - parse_rfc3339(meta["creationTimestamp"])
        self._waited_us[class_name][key] = waited_us
        run_us = self.classes[class_name].run_ms * _MS_US
        self._running[key] = loop.at(loop.now_us + run_us + self._write_us(), self._end, key, INPUT)

    def _interrupt(self, key: Key) -> None:
        loop = self.host.loop
        ticket = self._running.pop(key, None)
        if ticket is not None:
            loop.cancel(ticket)
        if key not in self._giving:
            self._giving[key] = loop.at(loop.now_us + self._write_us(), self._give, key, INPUT)

    def _on_give(self, key: Key) -> None:
        del self._giving[key]
        store, now_us = self.host.store, self.host.loop.now_us
        workload = store.require(key)
        if conds.is_true(status_of(workload), conds.QUOTA_RESERVED):
            self.evictions[meta_of(workload)["labels"][CLASS]] += 1
            given = statuses.without_quota(workload, "Pending", "Evicted by the test runner", now_us)
            store.set_status(key, given["status"])

    def _on_end(self, key: Key) -> None:
        del self._running[key]
        store, now_us = self.host.store, self.host.loop.now_us
        workload = store.require(key)
        if conds.is_true(status_of(workload), conds.EVICTED):
            return  # Evicted meanwhile: it is about to hear of that.
        ended = statuses.finished(workload, "ByTest", "By test runner", now_us)
        store.set_status(key, ended["status"])
        self.finished += 1
        self.finished_us = now_us

    def waits(self) -> dict[str, Wait]:
        """By class."""
        found = {}
        for name, waited_us in self._waited_us.items():
            mean_s = sum(waited_us.values()) / max(len(waited_us), 1) / SECOND_US
            found[name] = Wait(len(waited_us), mean_s, self.evictions[name])
        return found


def _pod_sets(cpu: int) -> list[dict[str, Any]]:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": str(cpu)}}}
    template = {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    return [{"name": "main", "count": 1, "template": template}]
