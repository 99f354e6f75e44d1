"""The state of nodes, pods and containers, as plain mutable records that can be copied."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.kube.objects import Key
from fairway.kube.taints import Taint
from fairway.twin.kubelet.plans import PodPlan
from fairway.twin.loop import NO_TIME
from fairway.workloads.worldsize import Gang

WAITING, RUNNING, TERMINATED = 0, 1, 2
NO_TICKET: Final = 0


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
    """One container: where it is, how it will end, what it did before.

    Most fields of most containers never change: those keep the class's value, and making one is cheap.
    """

    state = WAITING
    message = ""
    started_us = NO_TIME
    end: Ended | None = None
    last: Ended | None = None
    restarts = 0
    is_ready = False
    is_started = False
    exit_at: Ended | None = None
    """How the current run is going to end, if nothing intervenes."""
    own_end: Ended | None = None
    """How it would by itself, if no memory ran out."""
    start_ticket = NO_TICKET
    exit_ticket = NO_TICKET
    startup_ticket = NO_TICKET
    readiness_ticket = NO_TICKET
    liveness_ticket = NO_TICKET
    backoff_us = 0
    backoff_from_us = 0
    pull_backoff_us = 0
    resumed_us = 0
    """Work that was already done when this run began."""
    work_from_us = 0
    work_us = 0
    """Work left to do when this run began; 0 for a container that serves."""
    stalled_us = NO_TIME
    """Since when it waits for the other members of its job."""
    stalled_from_us = 0
    """`work_from_us` as it was when that began."""
    put_off: Ended | None = None
    """How its run would end if it did not wait."""
    actual: str | None = None
    """The resources it has, where it was granted others and does not have them yet."""
    is_resizing = False
    """Whether it was stopped to be started with what it was granted."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def copy(self) -> ContainerState:
        twin = ContainerState(self.reason)
        _taken_over(twin, self, CONTAINER_FIELDS)
        return twin


class PodState:
    """One pod on one node."""

    ip = ""
    ips: list[dict[str, str]] | None = None
    ending: Ending | None = None
    is_stopping = False
    stop_by_us = 0
    deadline_ticket = NO_TICKET
    report_ticket = NO_TICKET
    """When its status tells of containers that started meanwhile."""
    is_lost = False
    """Its machine died: nothing of it runs, and nobody has said so yet."""
    sandbox_since_us = NO_TIME
    mounts_since_us = NO_TIME
    """Since when a volume of it cannot be mounted."""
    prepares_since_us = NO_TIME
    """Since when a driver tries to prepare a claim of it."""
    is_ready = False
    luck: tuple[float, ...] = ()
    conditions: Any = None
    """The conditions last written, where they were nobody's but ours."""
    scheduled_since = ""
    works: tuple[tuple[int, str], ...] = ()
    """Whose work containers do, by their number, where somebody asked."""
    pace_milli = 1000
    """How many thousandths as long its run takes beside those that share its card."""
    wire_milli = 1000
    """How many thousandths as long its steps take as their computing alone."""
    gang: Gang | None = None
    """Who else must run for it to get on."""
    resize: Any = None
    """What its status says of its resize in place, while there is one."""

    def __init__(self, uid: str, key: Key, node: str, plan: PodPlan, now_us: int) -> None:
        self.uid = uid
        self.key = key
        self.node = node
        self.plan = plan
        self.start_us = now_us
        self.last_start_us = now_us
        """When the last container start now planned is due."""
        self.initialized_since_us = now_us
        self.ready_since_us = now_us
        self.is_initialized = not plan.init_count
        if plan.is_plain:
            self.containers = [ContainerState("ContainerCreating")]
        else:
            reason = "PodInitializing" if plan.init_count else "ContainerCreating"
            self.containers = [ContainerState(reason) for _ in plan.containers]

    def copy(self) -> PodState:
        twin = PodState(self.uid, self.key, self.node, self.plan, self.start_us)
        _taken_over(twin, self, POD_FIELDS)
        twin.containers = [c.copy() for c in self.containers]
        return twin


class NodeState:
    """One machine and its kubelet."""

    resizes: dict[str, Key] | None = None
    """Pods whose wish for more or less is not granted yet, by UID. Replaced, not changed."""

    def __init__(self, name: str, uid: str, number: int) -> None:
        self.name = name
        self.key = Key("Node", "", name)
        self.uid = uid
        self.is_up = True
        """Whether the machine runs."""
        self.is_reachable = True
        """Whether its kubelet and the API server hear each other."""
        self.is_shutting_down = False
        self.is_shrunk = False
        """Whether it once had more to give than now: pods admitted before may ask for more than there is."""
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
        self.spent_core_ns = 0
        """CPU used by containers that have ended."""
        self.single_requests: tuple[str, ...] = ()
        """Shared devices of which a container may ask for one only."""
        self.gpu_fault = ""
        """What is broken of NVIDIA's stack."""
        self.managers: Any = None
        """Of CPUs, memory and devices by NUMA node, where its kubelet was told about them."""

    def copy(self) -> NodeState:
        twin = NodeState(self.name, self.uid, 0)
        _taken_over(twin, self, NODE_FIELDS)
        twin.used = dict(self.used)
        twin.pods = dict(self.pods)
        twin.unseen = dict(self.unseen)
        twin.owed = {uid: pod.copy() for uid, pod in self.owed.items()}
        twin.images = dict(self.images)
        if self.managers is not None:
            twin.managers = self.managers.copy()
        return twin

    def take_ip(self, taken: set[str]) -> str:
        """Addresses of a node's pods go round, past those that pods of it still have, as long as 254 are enough."""
        for _ in range(254):
            self.next_ip = self.next_ip % 254 + 1
            address = f"{self.cidr}{self.next_ip}"
            if address not in taken:
                break
        return address


# What a copy takes over, by name: compiled classes (see `fairway.compiled`) have no `__dict__` to ask.
CONTAINER_FIELDS: Final = (
    "reason",
    "message",
    "state",
    "started_us",
    "end",
    "last",
    "restarts",
    "is_ready",
    "is_started",
    "exit_at",
    "own_end",
    "start_ticket",
    "exit_ticket",
    "startup_ticket",
    "readiness_ticket",
    "liveness_ticket",
    "backoff_us",
    "backoff_from_us",
    "pull_backoff_us",
    "resumed_us",
    "work_from_us",
    "work_us",
    "stalled_us",
    "stalled_from_us",
    "put_off",
    "actual",
    "is_resizing",
)
POD_FIELDS: Final = (
    "uid",
    "key",
    "node",
    "plan",
    "start_us",
    "last_start_us",
    "initialized_since_us",
    "ready_since_us",
    "is_initialized",
    "containers",
    "ip",
    "ips",
    "ending",
    "is_stopping",
    "stop_by_us",
    "deadline_ticket",
    "report_ticket",
    "is_lost",
    "sandbox_since_us",
    "mounts_since_us",
    "prepares_since_us",
    "is_ready",
    "luck",
    "conditions",
    "scheduled_since",
    "works",
    "gang",
    "pace_milli",
    "wire_milli",
    "resize",
)
NODE_FIELDS: Final = (
    "name",
    "key",
    "uid",
    "is_up",
    "is_reachable",
    "is_shutting_down",
    "is_shrunk",
    "allocatable",
    "max_pods",
    "used",
    "pods",
    "unseen",
    "owed",
    "labels",
    "no_execute",
    "images",
    "pull_free_us",
    "ip",
    "ips",
    "cidr",
    "next_ip",
    "spent_core_ns",
    "single_requests",
    "gpu_fault",
    "managers",
    "resizes",
)


def _taken_over(twin: Any, original: Any, fields: tuple[str, ...]) -> None:
    for name in fields:
        setattr(twin, name, getattr(original, name))
