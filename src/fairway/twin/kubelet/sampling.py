"""What would metrics-server know now? Usage between its last two scrapes of every kubelet.

Scrapes happen every `RESOLUTION_US` of the cluster's time, at multiples of it. Nothing is done at that time: kubelets
are asked for both moments when somebody wants to know, so that hours that pass in a moment cost nothing.

Source: metrics-server pkg/storage/{pod,node,types}.go, pkg/scraper/client/resource/decode.go.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.kube.timestamps import SECOND_US
from fairway.twin.kubelet.usage import ContainerUse, NodeUse, PodUse

# Source: metrics-server's manifests, --metric-resolution=15s.
RESOLUTION_US = 15 * SECOND_US
# Source: storage/pod.go freshContainerMinMetricsResolution.
_FRESH_US = 10 * SECOND_US


class Scrapes(NamedTuple):
    """When the last two happened."""

    previous_us: int
    last_us: int


class Sample(NamedTuple):
    """Usage over a window that ended at `at_us`."""

    at_us: int
    window_us: int
    cpu_nano: int
    memory_bytes: int


class PodSample(NamedTuple):
    """A pod's containers, and the window of the oldest of them."""

    at_us: int
    window_us: int
    containers: tuple[tuple[str, Sample], ...]


def scrapes(now_us: int) -> Scrapes:
    """The last two before a time."""
    last_us = now_us // RESOLUTION_US * RESOLUTION_US
    return Scrapes(last_us - RESOLUTION_US, last_us)


def node_sample(last: NodeUse | None, previous: NodeUse | None, when: Scrapes) -> Sample | None:
    """None: it was not scraped twice."""
    if last is None or previous is None or not last.core_ns or not last.memory_bytes:
        return None
    return _between(last.core_ns, previous.core_ns, last.memory_bytes, when)


def pod_sample(last: PodUse, previous: PodUse | None, when: Scrapes) -> PodSample | None:
    """None: not every container has two points."""
    if not last.containers or any(not c.core_ns or not c.memory_bytes for c in last.containers):
        return None
    before = {} if previous is None else {c.name: c for c in previous.containers}
    found = []
    for container in last.containers:
        sample = _container_sample(container, before.get(container.name), when)
        if sample is None:
            return None
        found.append((container.name, sample))
    earliest = min((s for _, s in found), key=lambda s: s.at_us)
    return PodSample(earliest.at_us, earliest.window_us, tuple(found))


def _container_sample(last: ContainerUse, previous: ContainerUse | None, when: Scrapes) -> Sample | None:
    """A container younger than a window counts from its start, once it is old enough to say anything."""
    age_us = when.last_us - last.started_us
    if _FRESH_US <= age_us < RESOLUTION_US:
        fresh = Scrapes(last.started_us, when.last_us)
        return _between(last.core_ns, 0, last.memory_bytes, fresh)
    if previous is None or last.started_us >= when.previous_us:
        return None
    return _between(last.core_ns, previous.core_ns, last.memory_bytes, when)


def _between(last_ns: int, previous_ns: int, memory: int, when: Scrapes) -> Sample | None:
    if last_ns < previous_ns:
        return None
    window_us = when.last_us - when.previous_us
    return Sample(when.last_us, window_us, (last_ns - previous_ns) * SECOND_US // window_us, memory)
