"""Who knows the metrics? The seam between autoscalers and whatever measures.

A scripted recording, the twin's own accounts, a scenario's series, KEDA and one day a Prometheus answer the same four
questions. Values are thousandths, as `Quantity.MilliValue` gives them.

Source: pkg/controller/podautoscaler/metrics/interfaces.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from fairway.kube.labels import Selector

# Nothing will change by itself: no time at which to ask again.
NEVER_US: Final = 2**62


class MetricsError(Exception):
    """A metrics API did not answer. The text is the message of its Status."""


class PodUsage(NamedTuple):
    """One PodMetrics: usage of each container by resource, in thousandths."""

    at_us: int
    window_us: int
    containers: Mapping[str, Mapping[str, int]]


class PodValue(NamedTuple):
    """A custom metric of one pod, in thousandths."""

    at_us: int
    window_us: int
    value: int


class MetricsSource(Protocol):
    """Answers of the three metrics APIs. Every question may raise MetricsError; a selector of None selects all."""

    def usage(self, namespace: str, selector: Selector) -> Mapping[str, PodUsage]:
        """metrics.k8s.io: usage by pod; pods without metrics are left out."""
        ...

    def of_pods(
        self, namespace: str, metric: str, selector: Selector, metric_selector: Selector | None
    ) -> Mapping[str, PodValue]:
        """custom.metrics.k8s.io: a metric of each pod."""
        ...

    def of_object(
        self, namespace: str, metric: str, described: Mapping[str, str], metric_selector: Selector | None
    ) -> int:
        """custom.metrics.k8s.io: a metric of one object (`apiVersion`, `kind`, `name`)."""
        ...

    def external(self, namespace: str, metric: str, metric_selector: Selector | None) -> Sequence[int]:
        """external.metrics.k8s.io: every series that the selector selects."""
        ...
