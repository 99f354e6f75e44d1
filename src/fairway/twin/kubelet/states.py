"""The state of nodes, pods and containers, as plain mutable records that can be copied."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from fairway.kube.objects import Key
from fairway.kube.taints import Taint
from fairway.twin.kubelet.plans import PodPlan

WAITING, RUNNING, TERMINATED = 0, 1, 2
NO_TICKET = 0

_Record = TypeVar("_Record", "NodeState", "PodState", "ContainerState")


class Ended(NamedTuple):
    """How a container's run ended. `started_us` -1: it never ran."""

    exit_code: int
    reason: str
    message: str
    started_us: int
    finished_us: int


class Ending(NamedTuple):
    """What a pod's status says once all its containers have stopped, where something else ended it."""

    reason: str
    message: str
    disruption: str = ""
    """The reason of the DisruptionTarget condition to set, if any."""
    keeps_success: bool = False
    """Whether a pod that succeeded after all stays Succeeded."""


class ContainerState:
    """One container: where it is, how it will end, what it did before."""

    __slots__ = (
        "attempt",
        "backoff_from_us",
        "backoff_us",
        "end",
        "exit_at",
        "exit_ticket",
        "is_ready",
        "is_started",
        "last",
        "liveness_ticket",
        "message",
        "pull_backoff_us",
        "readiness_ticket",
        "reason",
        "restarts",
        "resumed_us",
        "start_ticket",
        "started_us",
        "startup_ticket",
        "state",
        "work_from_us",
        "work_us",
    )

    def __init__(self, reason: str) -> None:
        self.state = WAITING
        self.reason = reason
        self.message = ""
        self.started_us = -1
        self.end: Ended | None = None
        self.last: Ended | None = None
        self.restarts = 0
        self.is_ready = False
        self.is_started = False
        self.exit_at: Ended | None = None
        """How the current run is going to end, if nothing intervenes."""
        self.start_ticket = NO_TICKET
        self.exit_ticket = NO_TICKET
        self.startup_ticket = NO_TICKET
        self.readiness_ticket = NO_TICKET
        self.liveness_ticket = NO_TICKET
        self.backoff_us = 0
        self.backoff_from_us = 0
        self.pull_backoff_us = 0
        self.attempt = 0
        self.resumed_us = 0
        """Work that was already done when this run began."""
        self.work_from_us = 0
        self.work_us = 0
        """Work left to do when this run began; 0 for a container that serves."""

    def copy(self) -> ContainerState:
        return _copied(self)


class PodState:
    """One pod on one node."""

    __slots__ = (
        "conditions",
        "containers",
        "containers_ready_since_us",
        "deadline_ticket",
        "ending",
        "initialized_since_us",
        "ip",
        "ips",
        "is_initialized",
        "is_lost",
        "is_ready",
        "is_stopping",
        "key",
        "last_start_us",
        "luck",
        "node",
        "owes_status",
        "plan",
        "ready_since_us",
        "sandbox_since_us",
        "scheduled_since",
        "start_us",
        "stop_by_us",
        "uid",
    )

    def __init__(self, uid: str, key: Key, node: str, plan: PodPlan, now_us: int) -> None:
        self.uid = uid
        self.key = key
        self.node = node
        self.plan = plan
        self.start_us = now_us
        self.ip = ""
        self.ips: list[dict[str, str]] = []
        reason = "PodInitializing" if plan.init_count else "ContainerCreating"
        self.containers = [ContainerState(reason) for _ in plan.containers]
        self.ending: Ending | None = None
        self.is_stopping = False
        self.stop_by_us = 0
        self.deadline_ticket = NO_TICKET
        self.is_lost = False
        """Its machine died: nothing of it runs, and nobody has said so yet."""
        self.owes_status = False
        """Something changed while the API server could not be reached."""
        self.sandbox_since_us = -1
        self.last_start_us = now_us
        """When the last container start now planned is due."""
        self.is_initialized = not plan.init_count
        self.initialized_since_us = now_us
        self.is_ready = False
        self.ready_since_us = now_us
        self.containers_ready_since_us = now_us
        self.luck: tuple[float, ...] = ()
        self.conditions: Any = None
        """The conditions last written, where they were nobody's but ours; and since when it is scheduled."""
        self.scheduled_since = ""

    def copy(self) -> PodState:
        twin = _copied(self)
        twin.containers = [c.copy() for c in self.containers]
        return twin


class NodeState:
    """One machine and its kubelet."""

    __slots__ = (
        "allocatable",
        "cidr",
        "images",
        "ip",
        "ips",
        "is_reachable",
        "is_shutting_down",
        "is_up",
        "key",
        "labels",
        "max_pods",
        "name",
        "next_ip",
        "no_execute",
        "owed",
        "pods",
        "pull_free_us",
        "uid",
        "unseen",
        "used",
    )

    def __init__(self, name: str, uid: str, number: int) -> None:
        self.name = name
        self.key = Key("Node", "", name)
        self.uid = uid
        self.is_up = True
        """Whether the machine runs."""
        self.is_reachable = True
        """Whether its kubelet and the API server hear each other."""
        self.is_shutting_down = False
        self.allocatable: dict[str, int] | None = None
        self.max_pods: int | None = None
        self.used: dict[str, int] = {}
        self.pods: dict[str, None] = {}
        self.unseen: dict[str, Key] = {}
        """Pods bound here that the kubelet has not heard of yet."""
        self.owed: dict[str, PodState] = {}
        """Pods that ended while the API server could not be told."""
        self.labels: dict[str, str] = {}
        self.no_execute: tuple[Taint, ...] = ()
        self.images: dict[str, int] = {}
        """Images and when they are (or will be) complete."""
        self.pull_free_us = 0
        self.ip = f"172.{16 + (number >> 16) % 16}.{number >> 8 & 255}.{number & 255}"
        self.ips = [{"ip": self.ip}]
        self.cidr = f"10.{number >> 8 & 255}.{number & 255}."
        self.next_ip = 1

    def copy(self) -> NodeState:
        twin = _copied(self)
        twin.used = dict(self.used)
        twin.pods = dict(self.pods)
        twin.unseen = dict(self.unseen)
        twin.owed = {uid: pod.copy() for uid, pod in self.owed.items()}
        twin.images = dict(self.images)
        return twin

    def take_ip(self) -> str:
        """Addresses of a node's pods go round; a node has never more than 254 at once."""
        self.next_ip = self.next_ip % 254 + 1
        return f"{self.cidr}{self.next_ip}"


def _copied(record: _Record) -> _Record:
    twin: Any = object.__new__(type(record))
    for slot in record.__slots__:
        setattr(twin, slot, getattr(record, slot))
    return twin  # type: ignore[no-any-return]
