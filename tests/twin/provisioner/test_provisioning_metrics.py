"""What dashboards made for Karpenter and the Cluster Autoscaler would read off a twin."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_provisioner_component import TYPES, a_twin, job, pool
from test_twin_properties import groups

from fairway.kube.metricfamilies import Sample
from fairway.kube.timestamps import MINUTE_US
from fairway.provisioning.clusterautoscaler.groups import Options
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, ON_DEMAND
from fairway.provisioning.metrics import families
from fairway.twin.latency import latency_named
from fairway.twin.nodegroups import metrics as of_autoscaler
from fairway.twin.nodegroups.component import ClusterAutoscaler
from fairway.twin.nodegroups.grouping import AutoscalerPlan
from fairway.twin.provisioner import metrics as of_karpenter
from fairway.twin.provisioner.cloud import Cloud, Shortage
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

DOCS = Path(__file__).parents[3] / "docs"


def values(samples: list[Sample]) -> dict[tuple[str, ...], float]:
    """By name and labels; every sample is of a family, with as many labels."""
    for sample in samples:
        assert len(sample.labels) == len(families()[sample.name].labels), sample
    return {(s.name, *s.labels): s.value for s in samples}


def test_karpenter() -> None:
    on_demand = [{"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]}]
    made = pool(requirements=on_demand, limits={"cpu": "20"})
    twin = a_twin(made, job("a", "40m", cpu="3"), job("b", "10m", cpu="12"), job("huge", "1m", cpu="90"))
    twin.run_for(30 * MINUTE_US)
    part = twin.component("karpenter")
    assert isinstance(part, Provisioner)
    found = values(of_karpenter.samples(part))
    # One for the jobs, a smaller one when the larger job was over.
    assert found["karpenter_nodeclaims_created_total", "provisioned", "default", "false"] == 1
    assert found["karpenter_nodeclaims_created_total", "underutilized", "default", "false"] == 1
    assert found["karpenter_nodes_created_total", "default", "z1"] == 2
    assert found["karpenter_nodes_terminated_total", "default", "z1"] == 1
    disrupted = ("underutilized", "default", ON_DEMAND, "when_empty_or_underutilized", "graceful")
    assert found[("karpenter_nodeclaims_disrupted_total", *disrupted)] == 1
    assert found["karpenter_voluntary_disruption_decisions_total", "replace", "underutilized", "single"] == 1
    assert found["karpenter_pods_drained_total", "Underutilized"] == 1
    assert found["karpenter_nodepools_limit", "cpu", "default"] == 20
    assert found["karpenter_nodepools_usage", "nodes", "default"] == 1
    assert found["karpenter_scheduler_unschedulable_pods_count", "provisioner"] == 1


@pytest.mark.parametrize("is_short", [False, True])
def test_cluster_autoscaler(*, is_short: bool) -> None:
    cloud = Cloud(TYPES, shortages=(Shortage("gpu"),) if is_short else ())
    part = ClusterAutoscaler(AutoscalerPlan(groups(), cloud, "aws", Options()))
    twin = Twin(seed=1, latency=latency_named("zero"), components=[*standard_components(), part])
    twin.apply([job("g", "5m", gpu=2)])
    twin.run_for(3 * MINUTE_US)
    found = values(of_autoscaler.samples(part))
    gpu = ("nvidia.com/gpu", "generic")
    assert found[("cluster_autoscaler_scaled_up_nodes_total", *gpu, "")] >= 1
    assert found["cluster_autoscaler_node_group_max_count", "gpu"] == 2
    if is_short:
        assert found[("cluster_autoscaler_failed_scale_ups_total", "OutOfResource", *gpu, "")] == 1
        assert found["cluster_autoscaler_node_group_backoff_status", "gpu", "OutOfResource"] == 1
        assert found["cluster_autoscaler_unschedulable_pods_count", "unschedulable"] == 1
        return
    assert found["cluster_autoscaler_nodes_count", "ready"] == 1
    assert found["cluster_autoscaler_node_group_target_count", "gpu"] == 1
    assert found["cluster_autoscaler_cluster_cpu_current_cores",] == 8
    twin.run_for(30 * MINUTE_US)
    found = values(of_autoscaler.samples(part))
    assert found[("cluster_autoscaler_scaled_down_nodes_total", "empty", *gpu, "")] == 1
    assert found["cluster_autoscaler_nodes_count", "ready"] == 0


def test_every_family_is_documented() -> None:
    page = (DOCS / "provisioning.md").read_text(encoding="utf-8")
    assert [name for name in families() if f"`{name}`" not in page] == []
