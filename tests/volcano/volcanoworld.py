"""Tiny worlds for Volcano's sessions: `World().node("n", gpu=8).queue("q").gang("g", 4, gpu=2)`."""

from __future__ import annotations

import random
from typing import Any

from fairway.kube.resources import CPU, MEMORY, NVIDIA_GPU, PODS
from fairway.volcano.configuration import DEFAULT_CONFIGURATION, VolcanoConfiguration
from fairway.volcano.cycle import SessionResult, run_session
from fairway.volcano.facts import (
    ClusterFacts,
    Feasibility,
    GroupFacts,
    NodeFacts,
    NoOpinion,
    PodFacts,
    QueueFacts,
    TaskStatus,
)

NOW = "2026-01-05T00:00:00Z"


class World:
    def __init__(self) -> None:
        self.nodes: list[NodeFacts] = []
        self.queues: list[QueueFacts] = []
        self.groups: list[GroupFacts] = []
        self.pods: list[PodFacts] = []

    def node(self, name: str, *, gpu: int = 8, cpu: int = 64) -> World:
        allocatable = {CPU: cpu * 1000, MEMORY: 2**38, NVIDIA_GPU: gpu, PODS: 110}
        self.nodes.append(NodeFacts(name, allocatable))
        return self

    def queue(self, name: str, **fields: Any) -> World:
        self.queues.append(QueueFacts(name, **fields))
        return self

    def gang(
        self,
        name: str,
        pods: int,
        *,
        gpu: int = 1,
        least: int | None = None,
        queue: str = "default",
        on: tuple[str, ...] = (),
        phase: str = "",
        priority: int = 0,
        created: str = "",
        **pod: Any,
    ) -> World:
        """`on`: where its first pods run. The rest is pending."""
        least = pods if least is None else least
        requests = {CPU: 1000, NVIDIA_GPU: gpu, PODS: 1}
        if not any(q.name == queue for q in self.queues):
            self.queue(queue)
        self.groups.append(
            GroupFacts(
                "ns",
                name,
                least,
                queue=queue,
                min_resources={n: v * least for n, v in requests.items()},
                priority=priority,
                created=created,
                status={"phase": phase or ("Running" if on else "Pending")},
            )
        )
        for i in range(pods):
            node = on[i] if i < len(on) else ""
            status = TaskStatus.RUNNING if node else TaskStatus.PENDING
            fields = {"role": "w", "index": i, "uid": f"{name}-{i}", "priority": priority, **pod}
            self.pods.append(PodFacts("ns", f"{name}-{i}", f"ns/{name}", requests, status, node, **fields))
        return self

    def facts(self) -> ClusterFacts:
        return ClusterFacts(
            tuple(sorted(self.nodes, key=lambda n: n.name)),
            tuple(sorted(self.queues, key=lambda q: q.name)),
            tuple(sorted(self.groups, key=lambda g: g.id)),
            tuple(sorted(self.pods, key=lambda p: p.id)),
        )

    def session(
        self,
        configuration: VolcanoConfiguration = DEFAULT_CONFIGURATION,
        feasibility: Feasibility | None = None,
        seed: int = 0,
    ) -> SessionResult:
        facts, draws = self.facts(), random.Random(seed)
        return run_session(
            facts,
            configuration,
            feasibility or NoOpinion(len(facts.nodes)),
            draw=draws.randrange,
            now=NOW,
            uid="u",
        )


def bound(result: SessionResult) -> dict[str, str]:
    return {b.pod: b.node for b in result.bindings}


def evicted(result: SessionResult) -> list[str]:
    return [e.pod for e in result.evictions]


def condition(result: SessionResult, group: str) -> tuple[str, str, str]:
    """Type, reason and message of the group's last condition."""
    status = next(g.status for g in result.groups if g.group == f"ns/{group}")
    last = status["conditions"][-1]
    return last["type"], last["reason"], last.get("message", "")


def phase(result: SessionResult, group: str) -> str:
    return next((str(g.status["phase"]) for g in result.groups if g.group == f"ns/{group}"), "")
