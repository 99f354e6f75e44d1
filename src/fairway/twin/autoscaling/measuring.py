"""Answers what autoscalers ask: usage as metrics-server has it, and what loads describe as an adapter would serve it.

Each answer also says until when it holds: `until_us` is the earliest time at which something that was answered since
`begin` may be another, so that nobody has to ask before.

Source: metrics-server; kubernetes-sigs/custom-metrics-apiserver pkg/provider/errors.go; k8s.io/metrics
custom_metrics/discovery.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from fairway.autoscaling.source import NEVER_US, MetricsError, PodUsage, PodValue
from fairway.kube.kinds import find_kind
from fairway.kube.labels import Selector
from fairway.kube.objects import Obj
from fairway.kube.timestamps import MINUTE_US
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.kubelet.sampling import RESOLUTION_US, Scrapes, pod_sample, scrapes
from fairway.twin.kubelet.states import RUNNING, PodState
from fairway.twin.kubelet.usage import pod_use

if TYPE_CHECKING:
    from fairway.twin.autoscaling.component import Autoscaling

NO_CUSTOM_API: Final = "no custom metrics API (custom.metrics.k8s.io) registered"
_NO_EXTERNAL_API: Final = "the server could not find the requested resource (get {}.external.metrics.k8s.io)"
# What the behaviour of a pod says of its GPUs, by the names under which exporters and adapters publish it.
_GPU_UTILIZATION: Final = frozenset(
    {"gpu_utilization", "DCGM_FI_DEV_GPU_UTIL", "dcgm_gpu_utilization", "gpu_util"}
)
_NANO_PER_MILLI: Final = 10**6


class Measured:
    """Implements `MetricsSource` over a twin."""

    def __init__(self, room: Autoscaling) -> None:
        self._room = room
        self.until_us = NEVER_US

    def begin(self) -> None:
        self.until_us = NEVER_US

    def _holds(self, until_us: int) -> None:
        self.until_us = min(self.until_us, until_us)

    def usage(self, namespace: str, selector: Selector) -> Mapping[str, PodUsage]:
        kubelet = self._room.host.parts.get("kubelet")
        found: dict[str, PodUsage] = {}
        if not isinstance(kubelet, Kubelet):
            return found
        when = scrapes(self._room.host.loop.now_us)
        for pod in self._room.index.pods(namespace, selector):
            state = kubelet.pods.get(pod["metadata"]["uid"])
            if state is None or (pod.get("status") or {}).get("phase") != "Running":
                continue
            self._holds(_steady_until(state, when))
            sample = pod_sample(pod_use(state, when.last_us), pod_use(state, when.previous_us), when)
            if sample is not None:
                containers = {
                    name: {
                        "cpu": -(-of.cpu_nano // _NANO_PER_MILLI),
                        "memory": of.memory_bytes * 1000,
                    }
                    for name, of in sample.containers
                }
                found[pod["metadata"]["name"]] = PodUsage(sample.at_us, sample.window_us, containers)
        return found

    def of_pods(
        self, namespace: str, metric: str, selector: Selector, metric_selector: Selector | None
    ) -> Mapping[str, PodValue]:
        loads, now_us = self._room.loads, self._room.host.loop.now_us
        found: dict[str, PodValue] = {}
        if len(self._room.adapter):
            names = [pod["metadata"]["name"] for pod in self._room.index.pods(namespace, selector)]
            adapted = self._room.adapter.of_resource("pods", namespace, metric, names, metric_selector)
            if adapted:
                self._holds(min(one.until_us for one in adapted.values()))
                return {name: PodValue(now_us, MINUTE_US, one.milli) for name, one in adapted.items()}
        for pod in self._room.index.pods(namespace, selector):
            value = loads.pod_metric(pod, metric)
            if value is not None:
                self._holds(value.until_us)
                found[pod["metadata"]["name"]] = PodValue(now_us, MINUTE_US, value.milli)
            elif metric in _GPU_UTILIZATION:
                used = self._gpu_utilization(pod)
                if used is not None:
                    found[pod["metadata"]["name"]] = PodValue(now_us, MINUTE_US, used)
        if not found:
            if not self._room.metric_names(of_objects=True):
                raise MetricsError(NO_CUSTOM_API)
            raise MetricsError(f"the server could not find the metric {metric} for pods")
        return found

    def _gpu_utilization(self, pod: Obj) -> int | None:
        """Percent, in thousandths, as the pod's behaviour says."""
        kubelet = self._room.host.parts.get("kubelet")
        state = kubelet.pods.get(pod["metadata"]["uid"]) if isinstance(kubelet, Kubelet) else None
        if state is None or state.plan.init_count >= len(state.containers):
            return None
        container = state.containers[state.plan.init_count]
        steps = state.plan.behaviours[state.plan.init_count].gpu_utilization_milli
        if not steps or container.state != RUNNING:
            return None
        worked_us = self._room.host.loop.now_us - container.work_from_us
        level = 0
        for from_us, value in steps:
            if from_us > worked_us:
                self._holds(container.work_from_us + from_us)
                break
            level = value
        return level * 100

    def of_object(
        self, namespace: str, metric: str, described: Mapping[str, str], metric_selector: Selector | None
    ) -> int:
        loads, kind = self._room.loads, find_kind(described["kind"])
        adapted = self._room.adapter.of_resource(
            kind.plural if kind else described["kind"].lower(),
            namespace,
            metric,
            (described["name"],),
            metric_selector,
        )
        if adapted:
            one = adapted.get(described["name"]) or next(iter(adapted.values()))
            self._holds(one.until_us)
            return one.milli
        for series, value in loads.series(metric, metric_selector):
            about = (described["kind"], described["name"])
            if series.about == about and series.namespace in ("", namespace):
                self._holds(value.until_us)
                return value.milli
        if not self._room.metric_names(of_objects=True):
            raise MetricsError(NO_CUSTOM_API)
        resource = described["kind"].lower() if kind is None else kind.plural
        if kind is not None and kind.group:
            resource = f"{resource}.{kind.group}"
        raise MetricsError(
            f"the server could not find the metric {metric} for {resource} {described['name']}"
        )

    def external(self, namespace: str, metric: str, metric_selector: Selector | None) -> Sequence[int]:
        return [value for _, value in self.external_series(namespace, metric, metric_selector)]

    def external_series(
        self, namespace: str, metric: str, metric_selector: Selector | None
    ) -> list[tuple[tuple[tuple[str, str], ...], int]]:
        """Labels and value of each. Raises: MetricsError."""
        of_keda = self._room.keda.external(namespace, metric, metric_selector)
        if of_keda is not None:
            for _, until_us in of_keda:
                self._holds(until_us)
            return [((), milli) for milli, _ in of_keda]
        loads = self._room.loads
        found: list[tuple[tuple[tuple[str, str], ...], int]] = []
        adapted = self._room.adapter.external(namespace, metric, metric_selector)
        if adapted is not None:
            for one in adapted:
                self._holds(one.until_us)
            return [(one.labels, one.milli) for one in adapted]
        for series, value in loads.series(metric, metric_selector):
            if series.about is None and series.namespace in ("", namespace):
                self._holds(value.until_us)
                found.append((series.labels, value.milli))
        for queue, _level, _ready, length in loads.queues():
            if metric in (queue.metric or queue.name,) and queue.namespace in ("", namespace):
                self._holds(length.until_us)
                found.append(((("queue", queue.name),), length.milli))
        if not found and not self._room.metric_names(of_objects=False):
            raise MetricsError(_NO_EXTERNAL_API.format(metric))
        return found


def _steady_until(state: PodState, when: Scrapes) -> int:
    """How long the usage of a pod stays what its last two scrapes say."""
    until_us = NEVER_US
    for behaviour, container in zip(state.plan.behaviours, state.containers, strict=True):
        if container.state != RUNNING:
            continue
        # It is shown once it ran at two scrapes, its start not being one.
        last_us = max(container.started_us + 1, container.work_from_us)
        for steps in (behaviour.cpu_milli, behaviour.memory_bytes):
            for from_us, _level in steps:
                at_us = container.work_from_us + from_us
                if at_us > when.last_us:
                    until_us = min(until_us, (at_us // RESOLUTION_US + 1) * RESOLUTION_US)
                else:
                    last_us = max(last_us, at_us)
        if last_us > when.previous_us:
            until_us = min(until_us, when.last_us + RESOLUTION_US)
    return until_us
