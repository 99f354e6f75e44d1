"""What dashboards made for Karpenter and the Cluster Autoscaler would read off a twin."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from test_provisioner_component import TYPES, a_twin, job, pool
from test_twin_properties import groups

from fairway.kube.metricfamilies import Observed, Sample
from fairway.kube.resources import parse_resources
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US
from fairway.provisioning.clusterautoscaler.groups import Options
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT, ZONE
from fairway.provisioning.metrics import families
from fairway.twin.distributions import constant
from fairway.twin.latency import latency_named
from fairway.twin.nodegroups import metrics as of_autoscaler
from fairway.twin.nodegroups.component import ClusterAutoscaler
from fairway.twin.nodegroups.grouping import AutoscalerPlan
from fairway.twin.provisioner import gauges as of_karpenter
from fairway.twin.provisioner.cloud import Cloud, Shortage
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.standard import standard_components
from fairway.twin.tally import Tally
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
    decided = ("replace", "underutilized", "single")
    assert found[("karpenter_voluntary_disruption_decisions_total", *decided)] == 1
    assert found[("karpenter_voluntary_disruption_decisions_by_nodepool_total", "default", *decided)] == 1
    # The pod of the job that was not over had to move.
    assert found[("karpenter_pods_disruption_initiated_total", *disrupted)] == 1
    assert found["karpenter_nodes_drained_total", "default"] == 1
    assert found["karpenter_pods_drained_total", "Underutilized"] == 1
    assert found["karpenter_nodepools_limit", "cpu", "default"] == 20
    assert found["karpenter_nodepools_usage", "nodes", "default"] == 1
    assert found["karpenter_scheduler_unschedulable_pods_count", "provisioner"] == 1
    assert found["karpenter_cluster_state_node_count",] == 1
    # A tenth of one node, rounded up.
    assert found["karpenter_nodepools_allowed_disruptions", "default", "Underutilized"] == 1
    assert found["karpenter_nodepools_nodes_consuming_budgets", "default", "Underutilized"] == 0
    assert found["karpenter_voluntary_disruption_consolidation_timeouts_total", "multi"] == 0


def test_what_karpenter_says_of_nodes() -> None:
    """Three cores are asked for by a job and half a one by a DaemonSet, whose limit is two."""
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "image": "x",
                            "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}},
                        }
                    ]
                },
            },
        },
    }
    twin = a_twin(pool(), daemon, job("a", "40m", cpu="3"))
    twin.run_for(5 * MINUTE_US)
    part = twin.component("karpenter")
    assert isinstance(part, Provisioner)
    samples = of_karpenter.samples(part)
    found: dict[tuple[str, str], float] = {}
    for sample in samples:
        if sample.name.startswith("karpenter_nodes_") and len(sample.labels) == 12:
            labels = dict(zip(families()[sample.name].labels, sample.labels, strict=True))
            assert labels["managed"] == "true" and labels["zone"] == "z1" and labels["nodepool"] == "default"
            found[sample.name.removeprefix("karpenter_nodes_"), labels["resource_type"]] = sample.value
    node = twin.store.objects("Node")[0]
    cores = parse_resources(node["status"]["capacity"])["cpu"] / 1000
    for_pods = parse_resources(node["status"]["allocatable"])["cpu"] / 1000
    assert found["allocatable", "cpu"] == for_pods
    assert found["system_overhead", "cpu"] == pytest.approx(cores - for_pods)
    assert found["total_pod_requests", "cpu"] == 3.5
    assert found["total_pod_requests", "pods"] == found["total_pod_limits", "pods"] == 2
    assert found["total_pod_limits", "cpu"] == 2
    assert found["total_daemon_requests", "cpu"] == 0.5
    assert found["total_daemon_limits", "cpu"] == 2
    percent = values(samples)["karpenter_cluster_utilization_percent", "cpu"]
    assert percent == pytest.approx(100 * 3.5 / for_pods)
    labels = node["metadata"]["labels"]
    kind = next(t for t in TYPES if t.name == labels[INSTANCE_TYPE])
    price = kind.price_of(labels[ZONE], labels[CAPACITY_TYPE])
    assert values(samples)["karpenter_nodepools_cost_total", "default"] == (price or 0) / 1e6 > 0


def test_how_long_nodes_took_to_go_and_lived() -> None:
    """A node without work is deleted a while after its job; what was empty is drained for five seconds."""
    twin = a_twin(pool(), job("a", "2m", cpu="3"))
    twin.run_for(30 * MINUTE_US)
    part = twin.component("karpenter")
    assert isinstance(part, Provisioner)
    assert not twin.store.objects("Node")
    seen = {o.name: o for o in part.tally.observed(twin.now_us)}
    took = seen["karpenter_nodes_termination_duration_seconds"]
    assert took == Observed(took.name, ("default",), (1,), 5.0, took.quantiles)
    life = seen["karpenter_nodes_lifetime_duration_seconds"]
    assert sum(life.counts) == 1 and life.counts[0] == 1  # less than a quarter of an hour
    assert 150 < life.total < 300
    ended = seen["karpenter_nodeclaims_termination_duration_seconds"]
    assert ended.counts[3] == 1 and 4 < ended.total < 8  # more than 4 s, at most 8


def test_machines_that_are_not_to_be_had_and_those_that_expire() -> None:
    short = Cloud(TYPES, shortages=(Shortage("*"),))
    twin = Twin(
        seed=1, latency=latency_named("zero"), components=[*standard_components(), Provisioner(short)]
    )
    twin.apply([pool(), job("a", "1m", cpu="3")])
    twin.run_for(MINUTE_US)
    part = twin.component("karpenter")
    assert isinstance(part, Provisioner)
    found = values(of_karpenter.samples(part))
    gone = found[
        "karpenter_nodeclaims_disrupted_total", "insufficient_capacity", "default", "", "", "graceful"
    ]
    failed = ("nodeclaim.lifecycle", "Create", "", "InsufficientCapacityError")
    made = found["karpenter_nodeclaims_created_total", "provisioned", "default", "false"]
    # Every claim failed: one for each of the offerings that were thought to be there.
    assert found[("karpenter_cloudprovider_errors_total", *failed)] == gone == made > 0
    aging = pool()
    aging["spec"]["template"]["spec"] |= {"expireAfter": "10m", "terminationGracePeriod": "1m"}
    twin = a_twin(aging, job("a", "40m", cpu="3"))
    twin.run_for(12 * MINUTE_US)
    part = twin.component("karpenter")
    assert isinstance(part, Provisioner)
    found = values(of_karpenter.samples(part))
    expired = [k for k in found if k[:2] == ("karpenter_nodeclaims_disrupted_total", "expired")]
    assert [(k[2], *k[4:]) for k in expired] == [("default", "", "eventual")]  # its capacity type aside
    assert found[("karpenter_pods_disruption_initiated_total", *expired[0][1:])] == 1


def test_machines_that_are_given_up_and_those_on_their_way() -> None:
    cloud = Cloud(TYPES, boot=constant(HOUR_US))
    twin = a_twin(pool(), job("a", "10m"), cloud=cloud)
    twin.run_for(17 * MINUTE_US)
    part = twin.component("karpenter")
    assert isinstance(part, Provisioner)
    counted = values(of_karpenter.samples(part))
    disrupted = {k[1:]: n for k, n in counted.items() if k[0] == "karpenter_nodeclaims_disrupted_total"}
    assert disrupted == {("registration_timeout", "default", SPOT, "", "graceful"): 1}
    assert counted["karpenter_nodeclaims_created_total", "provisioned", "default", "false"] == 2


def test_quantiles_are_of_the_last_ten_minutes() -> None:
    """Of 1…10 the median is 5, nine tenths are at most 9; ten minutes later none is left, and the sums stay."""
    name = "karpenter_pods_startup_duration_seconds"
    tally = Tally(families())
    for second in range(1, 11):
        tally.observe(name, float(second), now_us=second * SECOND_US)
    [seen] = tally.observed(11 * SECOND_US)
    assert seen.quantiles == ((0.0, 1.0), (0.5, 5.0), (0.9, 9.0), (0.99, 10.0), (1.0, 10.0))
    assert (seen.counts, seen.total) == ((10,), 55.0)
    fork = tally.copy()
    [later] = tally.observed(10 * MINUTE_US + 10 * SECOND_US)
    assert all(math.isnan(value) for _, value in later.quantiles) and later.total == 55.0
    assert fork.observed(11 * SECOND_US) == [seen]


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
    assert found["cluster_autoscaler_node_group_healthiness", "gpu"] == 1
    assert found["cluster_autoscaler_cluster_safe_to_autoscale",] == 1
    assert found["cluster_autoscaler_max_nodes_count",] == sum(g.most for g in groups())
    assert found["cluster_autoscaler_errors_total", "internalError"] == 0
    if is_short:
        assert found[("cluster_autoscaler_failed_scale_ups_total", "OutOfResource", *gpu, "")] == 1
        assert found["cluster_autoscaler_failed_node_creations_total", "OutOfResource"] == 1
        assert found[("cluster_autoscaler_failed_gpu_scale_ups_total", "OutOfResource", *gpu)] == 1
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


@pytest.mark.parametrize(
    ("target", "coming", "ready", "unready", "is_healthy"),
    [
        (3, 0, 0, 0, True),
        (4, 0, 0, 0, False),
        (5, 2, 0, 0, True),
        (5, 1, 0, 0, False),
        (13, 0, 10, 0, True),
        # Nine of twenty are missing, then ten of twenty-one.
        (20, 0, 11, 9, True),
        (21, 0, 11, 9, False),
        (1, 0, 5, 0, True),
    ],
)
def test_when_a_group_is_healthy(
    target: int, coming: int, ready: int, unready: int, is_healthy: bool
) -> None:
    """Up to three nodes may be missing, or so large a part of those that are there. Source: IsNodeGroupHealthy."""
    part = ClusterAutoscaler(AutoscalerPlan(groups(), Cloud(TYPES), "aws", Options()))
    twin = Twin(seed=1, latency=latency_named("zero"), components=[*standard_components(), part])
    twin.apply([job("g", "5m", gpu=2)])
    twin.run_for(3 * MINUTE_US)
    (one,) = part.nodes()
    (group,) = [g for g in part.plan.groups if g.name == one.group]
    part.targets[group.name] = target
    part.coming = {f"m{i}": (group.name if i else "cpu", 0) for i in range(coming + 1)}
    there = (one,) * ready + (replace(one, is_ready=False),) * unready + (replace(one, group="cpu"),) * 9
    name = "cluster_autoscaler_node_group_"
    assert values(of_autoscaler._of_group(part, group, there)) == {
        (f"{name}min_count", "gpu"): 0,
        (f"{name}max_count", "gpu"): 2,
        (f"{name}target_count", "gpu"): target,
        (f"{name}healthiness", "gpu"): is_healthy,
        (f"{name}backoff_status", "gpu", ""): 0,
    }


def test_what_nodes_of_a_group_come_to() -> None:
    part = ClusterAutoscaler(AutoscalerPlan(groups(), Cloud(TYPES), "aws", Options()))
    twin = Twin(seed=1, latency=latency_named("zero"), components=[*standard_components(), part])
    twin.apply([job("g", "5m", gpu=2)])
    twin.run_for(3 * MINUTE_US)
    (one,) = part.nodes()
    cores, memory = one.seat.capacity["cpu"] // 1000, one.seat.capacity["memory"]
    there = (one, one, replace(one, is_ready=False), replace(one, is_going=True))
    name = "cluster_autoscaler_"
    assert values(of_autoscaler._of_nodes(there, 5)) == {
        (f"{name}nodes_count", "ready"): 3,
        (f"{name}nodes_count", "unready"): 1,
        (f"{name}nodes_count", "notStarted"): 0,
        (f"{name}nodes_count", "suspended"): 0,
        (f"{name}nodes_count", "longUnregistered"): 0,
        (f"{name}nodes_count", "unregistered"): 5,
        (f"{name}cluster_cpu_current_cores",): 3 * cores,
        (f"{name}cluster_memory_current_bytes",): 3 * memory,
    }
    odd = replace(one, seat=replace(one.seat, capacity={"cpu": 1001}))
    found = values(of_autoscaler._of_nodes((odd, odd), 0))
    assert found[f"{name}cluster_cpu_current_cores",] == 4, "whole cores of each"


@pytest.mark.parametrize(("most", "want"), [(0, 7), (6, 6), (7, 7), (9, 7)])
def test_how_many_nodes_there_may_be(most: int, want: int) -> None:
    """Those of all groups, or what the autoscaler's own limit leaves of them."""
    part = ClusterAutoscaler(AutoscalerPlan(groups(), Cloud(TYPES), "aws", Options(max_nodes_total=most)))
    assert of_autoscaler._most_nodes(part) == want


def test_every_family_is_documented() -> None:
    page = (DOCS / "provisioning.md").read_text(encoding="utf-8")
    assert [name for name in families() if f"`{name}`" not in page] == []
