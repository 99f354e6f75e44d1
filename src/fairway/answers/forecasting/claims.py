"""What do the objects of a cluster ask of Kueue's queues? From its books and Workloads to `quotas`."""

from __future__ import annotations

from typing import Any

from fairway.answers.forecasting import quotas
from fairway.answers.forecasting.quick import Entry
from fairway.answers.forecasting.quotas import Claim, Quotas
from fairway.answers.forecasting.situation import Situation, name_of, root_of
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, spec_of, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.queueing.control.backlog import Backlog
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.workloads import Workload, key_of
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.traces.arrival import POD, Arrivals, objects_for
from fairway.traces.jobs import JobTrace, TraceJob

_PRIORITY_CLASS = "WorkloadPriorityClass.kueue.x-k8s.io"
_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


class Claims:
    """Of a situation. `backlog`: Kueue's books, which stay as they are."""

    def __init__(self, backlog: Backlog, store: Store, situation: Situation) -> None:
        self._backlog, self._store = backlog, store
        self._accounts = backlog.accounts.copy()
        self._accounts.settle()
        self._known: dict[tuple[object, ...], Claim | None] = {}
        there = {item.object for item in situation.items}
        self._workloads: dict[str, Obj] = {}
        for obj in store.objects(WORKLOAD):
            if not conds.is_true(status_of(obj), conds.FINISHED):
                name = name_of(root_of(store, obj))
                self._workloads[name] = obj
                # What is in the situation is held by number, in every future anew.
                if name in there:
                    self._accounts.release(key_of(obj))

    def quotas(self) -> Quotas:
        """For one future."""
        return Quotas(self._accounts.copy(), self._backlog.settings)

    def fill(self, entry: Entry, name: str) -> None:
        """What an object's Workload says."""
        obj = self._workloads.get(name)
        facts = None if obj is None else self._backlog.read(obj)
        claim = None if facts is None else self._claim(facts, facts.hash)
        if obj is None or facts is None or claim is None:
            return
        status, state = status_of(obj), status_of(obj).get("requeueState") or {}
        entry.claim, entry.order_us, entry.reserved_us = claim, facts.order_us, facts.reserved_us
        entry.late = int(state.get("count") or 0)
        if state.get("requeueAt"):
            entry.returns_us = parse_rfc3339(state["requeueAt"])
        entry.limit_us = int(spec_of(obj).get("maximumExecutionTimeSeconds") or 0) * SECOND_US
        entry.past_us = int(status.get("accumulatedPastExecutionTimeSeconds") or 0) * SECOND_US

    def of_ask(self, ask: TraceJob) -> Claim | None:
        """What one that comes would ask; None: it names no queue that is there."""
        labels = dict(ask.labels)
        namespace, priority = ask.namespace or "default", self._priority(labels.get(_PRIORITY_LABEL, ""))
        at = (ask.queue, namespace, priority, ask.gpu_milli, ask.cpu_milli, ask.memory_bytes, ask.replicas)
        if at not in self._known:
            facts = self._backlog.read(_workload(ask, namespace, priority))
            self._known[at] = self._claim(facts, at)
        return self._known[at]

    def _priority(self, name: str) -> int:
        found = self._store.get(Key(_PRIORITY_CLASS, "", name)) if name else None
        return int((found or {}).get("value") or 0)

    def _claim(self, facts: Workload, at: object) -> Claim | None:
        key = (facts.queue, at)
        if key not in self._known:
            queue = self._accounts.queues.get(self._backlog.cluster_queue_of(facts.queue) or "")
            self._known[key] = None if queue is None else Claim(facts, queue)
        return self._known[key]


def _workload(ask: TraceJob, namespace: str, priority: int) -> Obj:
    """As Kueue would make it."""
    pod = objects_for(Arrivals(JobTrace("", ()), "", kind=POD), ask)[0]
    template: dict[str, Any] = {"metadata": {}, "spec": pod["spec"]}
    pod_set = {"name": "main", "count": max(ask.replicas, 1), "template": template}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "coming", "namespace": namespace, "uid": ""},
        "spec": {"podSets": [pod_set], "priority": priority, "queueName": ask.queue},
    }


def why_not(backlog: Backlog, store: Store, situation: Situation) -> str:
    """Why Kueue has to be played with all engines, as a phrase; empty where it has not."""
    if any(item.is_queued and item.key.gk != "Job.batch" for item in situation.items):
        return "Kueue looks after other things than Jobs"
    for obj in store.objects(WORKLOAD):
        sets: list[Any] = spec_of(obj).get("podSets") or []
        if len(sets) != 1 or sets[0].get("minCount") is not None:
            return "Kueue looks after jobs of several kinds of pods"
    return quotas.why_not(backlog)
