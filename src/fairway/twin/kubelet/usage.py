"""How much CPU and memory do containers, pods and nodes use, at a time and since they started?

What a container uses follows from its behaviour: steps over its work time, idle before its application is up and
where nothing is said. A node uses what its containers use and as much as one idle container for itself. All numbers
are integers: milli-CPU times µs are nanoseconds of a core.

Source of the quantities: the kubelet's /metrics/resource and /stats/summary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairway.twin.behaviour import IDLE_CPU_MILLI, IDLE_MEMORY_BYTES, Behaviour
from fairway.twin.kubelet.states import RUNNING, ContainerState, NodeState, PodState


class ContainerUse(NamedTuple):
    """A running container. `core_ns`: CPU used since it started."""

    name: str
    started_us: int
    core_ns: int
    cpu_milli: int
    memory_bytes: int


class PodUse(NamedTuple):
    """A pod's running containers."""

    namespace: str
    name: str
    uid: str
    started_us: int
    containers: tuple[ContainerUse, ...]


class NodeUse(NamedTuple):
    """A node and its pods. `core_ns`: CPU used by it and everything that ever ran on it, as far as it is known."""

    name: str
    core_ns: int
    cpu_milli: int
    memory_bytes: int
    pods: tuple[PodUse, ...]


def node_use(node: NodeState, pods: Mapping[str, PodState], since_us: int, at_us: int) -> NodeUse:
    """What a node uses at a time that is now or a little before; it started at `since_us`. O(pods of the node)."""
    found = []
    core_ns = node.spent_core_ns + IDLE_CPU_MILLI * max(at_us - since_us, 0)
    cpu, memory = IDLE_CPU_MILLI, IDLE_MEMORY_BYTES
    for uid in node.pods:
        use = pod_use(pods[uid], at_us)
        found.append(use)
        for one in use.containers:
            core_ns += one.core_ns
            cpu += one.cpu_milli
            memory += one.memory_bytes
    return NodeUse(node.name, core_ns, cpu, memory, tuple(found))


def pod_use(pod: PodState, at_us: int) -> PodUse:
    """What a pod's running containers use at a time."""
    plan = pod.plan
    uses = [
        container_use(container.name, behaviour, state, at_us)
        for container, behaviour, state in zip(plan.containers, plan.behaviours, pod.containers, strict=True)
        if state.state == RUNNING and state.started_us <= at_us
    ]
    return PodUse(pod.key.namespace, pod.key.name, pod.uid, pod.start_us, tuple(uses))


def container_use(name: str, behaviour: Behaviour, state: ContainerState, at_us: int) -> ContainerUse:
    """What a running container uses at a time."""
    worked_us = at_us - state.work_from_us
    return ContainerUse(
        name,
        state.started_us,
        core_ns(behaviour, state.started_us, state.work_from_us, at_us),
        _level(behaviour.cpu_milli, worked_us, IDLE_CPU_MILLI),
        _level(behaviour.memory_bytes, worked_us, IDLE_MEMORY_BYTES),
    )


def core_ns(behaviour: Behaviour, started_us: int, work_from_us: int, until_us: int) -> int:
    """CPU used from a container's start until then."""
    total, at_us, milli = 0, started_us, IDLE_CPU_MILLI
    for step_us, level in behaviour.cpu_milli:
        from_us = work_from_us + step_us
        if from_us >= until_us:
            break
        total += milli * (from_us - at_us)
        at_us, milli = from_us, level
    return total + milli * max(until_us - at_us, 0)


def _level(steps: tuple[tuple[int, int], ...], worked_us: int, idle: int) -> int:
    level = idle
    for from_us, value in steps:
        if from_us > worked_us:
            break
        level = value
    return level
