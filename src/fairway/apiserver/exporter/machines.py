"""Karpenter's metrics and the Cluster Autoscaler's, where these run: as their components tell them.

What Karpenter observes of pods, `podmeter` has followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from fairway.apiserver.exporter.rendering import rendered
from fairway.provisioning.metrics import families
from fairway.twin.nodegroups import metrics as nodegroups
from fairway.twin.nodegroups.component import ClusterAutoscaler
from fairway.twin.provisioner import gauges
from fairway.twin.provisioner.component import Provisioner

if TYPE_CHECKING:
    from fairway.apiserver.exporter.podmeter import PodMeter
    from fairway.twin.twin import Twin


def collect(twin: Twin, pods: PodMeter | None) -> Iterator[Metric]:
    """O(nodes + pods)."""
    for component in twin.components:
        if isinstance(component, Provisioner):
            samples, observed = gauges.samples(component), gauges.observed(component)
            if pods is not None:
                samples += pods.samples()
                observed += pods.observed()
            yield from rendered(families(), samples, observed)
        elif isinstance(component, ClusterAutoscaler):
            yield from rendered(families(), nodegroups.samples(component))
