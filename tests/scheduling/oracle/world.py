"""What the scheduler sees, and what it can decide."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]

UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"
MAX_INT32 = 2**31 - 1
HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass
class World:
    """`pods` are bound (spec.nodeName) and have not ended; `nominated` pairs pending pods with node names; `profile` is
    one of a KubeSchedulerConfiguration, as it is written."""

    nodes: list[Obj]
    pods: list[Obj] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    services: list[Obj] = field(default_factory=list)
    budgets: list[Obj] = field(default_factory=list)
    nominated: list[tuple[Obj, str]] = field(default_factory=list)
    profile: Obj = field(default_factory=dict)


@dataclass
class NodeInfo:
    node: Obj
    pods: list[Obj]

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def labels(self) -> dict[str, str]:
        return self.node["metadata"].get("labels") or {}


@dataclass
class Status:
    code: str
    reasons: list[str]


@dataclass
class Decision:
    """`scores` has every feasible node; `message` is the whole of it, preemption included."""

    feasible: list[str]
    scores: dict[str, int] = field(default_factory=dict)
    message: str = ""
    candidates: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    best: list[str] = field(default_factory=list)
