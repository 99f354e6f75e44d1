"""Do, then commit or take back: what makes a gang all or nothing.

Source: volcano-sh/volcano pkg/scheduler/framework/statement.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairway.volcano.facts import TaskStatus
from fairway.volcano.state import Task, World

_EVICT, _PIPELINE, _ALLOCATE = "evict", "pipeline", "allocate"


@dataclass(frozen=True, slots=True)
class Binding:
    """The pod goes to the node."""

    namespace: str
    pod: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Eviction:
    """The pod is asked to leave its node; `reason` is the action that asks."""

    namespace: str
    pod: str
    uid: str
    group: str
    reason: str


class Outcome:
    """What was committed so far, in order."""

    def __init__(self) -> None:
        self.bindings: list[Binding] = []
        self.evictions: list[Eviction] = []


class Statement:
    """Operations on the world that are not final yet."""

    def __init__(self, world: World, outcome: Outcome) -> None:
        self._world = world
        self._outcome = outcome
        self._done: list[tuple[str, Task, TaskStatus, str]] = []

    def evict(self, task: Task, reason: str) -> None:
        self._done.append((_EVICT, task, task.status, reason))
        self._world.release(task)

    def pipeline(self, task: Task, node: int, *, evicted: bool) -> None:
        self._world.put(task, TaskStatus.PIPELINED, node)
        task.evicted_for = evicted
        self._done.append((_PIPELINE, task, TaskStatus.PENDING, ""))

    def allocate(self, task: Task, node: int) -> None:
        self._world.put(task, TaskStatus.ALLOCATED, node)
        self._done.append((_ALLOCATE, task, TaskStatus.PENDING, ""))

    def merge(self, other: Statement) -> None:
        """Take over what the other did: it is committed or taken back with this one."""
        self._done += other._done
        other._done = []

    def discard(self) -> None:
        """Take everything back, last first. Each task remembers where it would have gone.

        Unlike kube: a task whose eviction is taken back is again what it was (Volcano makes bound tasks running).
        """
        for operation, task, before, _ in reversed(self._done):
            task.last = (task.status, task.node, task.evicted_for)
            if operation is _EVICT:
                self._world.keep(task, before)
            else:
                self._world.take_back(task)
        self._done = []

    def commit(self) -> None:
        for operation, task, _, reason in self._done:
            task.last = None
            pod = task.facts
            if operation is _EVICT:
                self._outcome.evictions.append(
                    Eviction(pod.namespace, pod.name, pod.uid, task.owner.id, reason)
                )
            elif operation is _ALLOCATE:
                self._world.bind(task)
                node = self._world.node_names[task.node]
                self._outcome.bindings.append(Binding(pod.namespace, pod.name, pod.uid, node))
        self._done = []
