"""What does a session start from: nodes, queues, PodGroups and pods, as frozen data.

Resources are vectors as `fairway.kube.resources` counts them (cpu in milli, everything else whole).
Source: volcano-sh/volcano pkg/scheduler/api (task status: getTaskStatus in helpers.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fairway.kube.resources import Resources

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

DEFAULT_QUEUE = "default"
ROOT_QUEUE = "root"
OPEN = "Open"


class TaskStatus(StrEnum):
    """Where a pod stands; the values are how Volcano prints them."""

    PENDING = "Pending"
    ALLOCATED = "Allocated"
    PIPELINED = "Pipelined"
    BINDING = "Binding"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class Phase(StrEnum):
    """Of a PodGroup."""

    NONE = ""
    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A ready node. `allocatable` includes `pods`."""

    name: str
    allocatable: Resources


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A Queue (scheduling.volcano.sh/v1beta1). `capability` None: no limit but the cluster."""

    name: str
    weight: int = 1
    capability: Resources | None = None
    guarantee: Resources | None = None
    is_reclaimable: bool = True
    priority: int = 0
    state: str = OPEN
    parent: str = ""
    created: str = ""
    status: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A PodGroup. `id` is `namespace/name`; `priority` that of its class; `min_resources` None: best effort."""

    namespace: str
    name: str
    min_member: int
    queue: str = DEFAULT_QUEUE
    min_resources: Resources | None = None
    min_task_member: Mapping[str, int] = field(default_factory=dict)
    priority: int = 0
    created: str = ""
    uid: str = ""
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def phase(self) -> Phase:
        return Phase(self.status.get("phase") or "")


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod of a gang. `requests` includes one of `pods`; `group` is the PodGroup's id, "" for none."""

    namespace: str
    name: str
    group: str
    requests: Resources
    status: TaskStatus = TaskStatus.PENDING
    node: str = ""
    role: str = ""
    priority: int = 1
    index: int | None = None
    is_preemptable: bool = True
    is_gated: bool = False
    never_preempts: bool = False
    class_name: str = ""
    nominated: str = ""
    created: str = ""
    uid: str = ""

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Everything one session looks at, each sorted by name. Pods of other schedulers count where they are bound."""

    nodes: tuple[NodeFacts, ...]
    queues: tuple[QueueFacts, ...]
    groups: tuple[GroupFacts, ...]
    pods: tuple[PodFacts, ...]


@dataclass(frozen=True, slots=True)
class Refusals:
    """What the predicates say of every node. `code[node]`: 0 where the pod may go, else an index into `words`.

    `is_final[node]`: no eviction can help (UnschedulableAndUnresolvable).
    """

    code: Ints
    words: Mapping[int, str]
    is_final: Bools


class Feasibility(Protocol):
    """kube-scheduler's filters and scores, resources aside. Nodes are numbered as in `ClusterFacts.nodes`."""

    def refusals(self, pod: str) -> Refusals: ...
    def scores(self, pod: str, nodes: Ints, weights: Mapping[str, int]) -> Floats:
        """The weighted sum of nodeorder's scores for these nodes, as if they alone were candidates."""
        ...

    def came(self, pod: str, node: int) -> None:
        """From now on judge as if the pod were there."""
        ...

    def left(self, pod: str, node: int) -> None: ...


class NoOpinion:
    """A `Feasibility` for worlds in which any node will do for any pod."""

    def __init__(self, nodes: int) -> None:
        self._all = Refusals(np.zeros(nodes, np.int64), {}, np.zeros(nodes, np.bool_))

    def refusals(self, pod: str) -> Refusals:
        return self._all

    def scores(self, pod: str, nodes: Ints, weights: Mapping[str, int]) -> Floats:
        return np.zeros(len(nodes), np.float64)

    def came(self, pod: str, node: int) -> None:
        """Nobody cares."""

    def left(self, pod: str, node: int) -> None:
        """Nobody cares."""
