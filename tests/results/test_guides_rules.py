"""Rules as guides write them, over a run: under the exporter's names, the old ones, and kube-state-metrics' labels."""

from __future__ import annotations

import pytest

from fairway.recorder.tables import Outcome
from fairway.results.telemetry import series_of_run
from fairway.telemetry.promql import Matrix, query_range
from fairway.telemetry.rules.evaluating import evaluate
from fairway.telemetry.rules.reading import rules_of
from recorded import Recorded

PRESENT = {"nvidia_com__gpu_present": "true", "karpenter_sh__capacity-type": "on-demand"}
HOUR = 3600
RULES = {
    "GPUTemperatureTooHigh": ("dcgm_temperature_gpu > 85", "2m"),
    "GPUTemperatureHigh": ("dcgm_gpu_temp > 85", "5m"),
    "GPUUnderutilized": ("avg_over_time(dcgm_gpu_utilization[1h]) < 20", "4h"),
    "GPUMemoryLeaking": ("rate(dcgm_fb_used[5m]) > 0 and dcgm_fb_used / dcgm_fb_free > 0.95", "10m"),
    "NCCLTrainingStalled": ("rate(dcgm_nvlink_bandwidth_total[5m]) == 0 and dcgm_gpu_utilization > 0", "10m"),
    "GPUIdleForTooLong": (
        "(DCGM_FI_DEV_GPU_UTIL < 5) * on(node) group_left() "
        '(kube_node_labels{label_karpenter_sh_capacity_type="on-demand"})',
        "1h",
    ),
    "SpotCapacityLow": (
        'count(kube_node_labels{label_karpenter_sh_capacity_type="spot",label_nvidia_com_gpu_present="true"}) '
        '/ count(kube_node_labels{label_nvidia_com_gpu_present="true"}) < 0.4',
        "30m",
    ),
}
RECORD = """
avg(
  max by(pod, namespace, gpu) (dcgm_gpu_utilization)
  * on(pod) group_left(label_app)
  max by(pod, label_app) (kube_pod_labels{label_app=~".+"})
) by (label_app, namespace)
"""


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """Eight hours of four nodes: a hot one at work, one that serves, one idle on demand, one that leaks on spot."""
    world = Recorded()
    for name, more in (
        ("hot", {**PRESENT, "fairway_dev__airflow": "55"}),
        ("serves", PRESENT),
        ("idle", PRESENT),
        ("leaks", {**PRESENT, "karpenter_sh__capacity-type": "spot"}),
    ):
        world.node(name, gpus=2, nvidia_com__gpu_product="NVIDIA-H100-80GB-HBM3", **more)
    train = world.workload("Job", "train", "research")
    world.pod("train-0", "research", gpus=2, owner=train, use="95%", labels={"app": "train"})
    world.pod("chat-0", "serving", gpus=1, use="40%", labels={"app": "chat"}, serving=True)
    world.pod("forgotten", "research", gpus=1, use="0%")
    world.pod("leaky", "research", gpus=1, use="60%")
    for pod, node, home in (
        ("train-0", "hot", "research"),
        ("chat-0", "serves", "serving"),
        ("forgotten", "idle", "research"),
        ("leaky", "leaks", "research"),
    ):
        world.bind(pod, node, home).run(pod, home)
    return world.at(8 * HOUR).outcome()


def fired(outcome: Outcome, name: str) -> list[dict[str, str]]:
    query, wait = RULES[name]
    rule = {"alert": name, "expr": query, "for": wait}
    spec = {"groups": [{"name": "g", "interval": "1m", "rules": [rule]}]}
    groups, problems = rules_of({"kind": "PrometheusRule", "metadata": {"name": "r"}, "spec": spec})
    assert problems == []
    began = outcome.began_us // 60_000_000 * 60_000
    found = evaluate(groups, series_of_run(outcome), began, outcome.ended_us // 1000)
    assert found.failures == []
    return [dict(alert.labels) for alert in found.alerts if alert.fired_ms is not None]


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("GPUTemperatureTooHigh", {("hot", "train-0")}),
        ("GPUTemperatureHigh", {("hot", "train-0")}),
        ("GPUUnderutilized", {("idle", "forgotten"), ("serves", ""), ("idle", ""), ("leaks", "")}),
        # One GPU has nobody to talk to: the guide's rule takes it for a hang, and so does a real cluster.
        ("NCCLTrainingStalled", {("serves", "chat-0"), ("leaks", "leaky")}),
        ("GPUIdleForTooLong", {("idle", "forgotten"), ("serves", ""), ("idle", "")}),
    ],
)
def test_alerts_fire_where_they_should(outcome: Outcome, name: str, where: set[tuple[str, str]]) -> None:
    assert {(alert["node"], alert.get("pod", "")) for alert in fired(outcome, name)} == where


def test_alerts_without_a_place(outcome: Outcome) -> None:
    assert len(fired(outcome, "SpotCapacityLow")) == 1
    # Steps of memory are leaks for five minutes each, less than the rule waits.
    assert fired(outcome, "GPUMemoryLeaking") == []


@pytest.mark.parametrize(
    ("query", "count"),
    [
        (RECORD, 2),
        ("avg by (namespace) (DCGM_FI_DEV_GPU_UTIL)", 3),
        ('sum by (namespace) (kube_pod_container_resource_requests{resource="nvidia_com_gpu"})', 2),
        ('count by (namespace) (DCGM_FI_DEV_GPU_UTIL{namespace!=""}) * 3', 2),
        ("sum_over_time((count(DCGM_FI_DEV_GPU_UTIL < 5))[1h:1m]) / 60", 1),
        ('count(kube_node_labels{label_karpenter_sh_capacity_type="spot"}) / count(kube_node_labels)', 1),
        ('dcgm_gpu_utilization{namespace="serving"}', 1),
    ],
)
def test_queries_have_answers(outcome: Outcome, query: str, count: int) -> None:
    began = outcome.began_us // 1000
    found = query_range(series_of_run(outcome), query, began + HOUR * 1000, began + 2 * HOUR * 1000, 600_000)
    assert isinstance(found, Matrix) and len(found.labels) == count
