"""Node groups in a twin: they grow for pods that wait, back off where nothing is to be had, and shrink again."""

from __future__ import annotations

from pathlib import Path

from fairway.kube.objects import Key
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.provisioning.clusterautoscaler.groups import Options
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario
from fairway.twin.nodegroups.backoffs import backed_off
from fairway.twin.nodegroups.component import ClusterAutoscaler
from fairway.twin.twin import Twin

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: groups}
spec:
  latency: zero
  cloud:
    provider: aws
    bootTime: 60s
    STOCK
    nodeGroups:
      - {name: gpu-a, instanceType: g5.xlarge, zone: us-east-1a, max: 2}
      - {name: gpu-b, instanceType: g5.xlarge, zone: us-east-1b, max: 2}
    autoscaler: {balanceSimilarNodeGroups: true}
  manifests:
    - apiVersion: batch/v1
      kind: Job
      metadata: {name: train, namespace: default}
      spec:
        parallelism: 3
        completions: 3
        template:
          metadata: {annotations: {fairway.dev/run-time: 30m}}
          spec:
            restartPolicy: Never
            containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def a_twin(tmp_path: Path, stock: str = "stock: []") -> Twin:
    (tmp_path / "scenario.yaml").write_text(SCENARIO.replace("STOCK", stock), encoding="utf-8")
    return build_twin(load_scenario(tmp_path))


def groups_of(twin: Twin) -> list[str]:
    return sorted(n["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] for n in twin.store.objects("Node"))


def told(twin: Twin, reason: str) -> list[str]:
    return [
        t.message
        for t in twin.host.events.told()
        if t.reason == reason and t.component == "cluster-autoscaler"
    ]


def test_similar_groups_grow_together_and_are_empty_again_ten_minutes_after_the_work(tmp_path: Path) -> None:
    twin = a_twin(tmp_path)
    twin.run_for(5 * MINUTE_US)
    assert groups_of(twin) == ["gpu-a", "gpu-a", "gpu-b"]
    assert set(told(twin, "TriggeredScaleUp")) == {
        "pod triggered scale-up: [{gpu-a 0->2 (max: 2)} {gpu-b 0->1 (max: 2)}]"
    }
    # Work ends after 31.2 min at most; unneeded for ten minutes, seen every ten seconds.
    twin.run_for(35 * MINUTE_US)
    assert len(groups_of(twin)) == 3
    twin.run_for(4 * MINUTE_US)
    assert groups_of(twin) == []
    status = twin.store.require(Key("ConfigMap", "kube-system", "cluster-autoscaler-status"))
    assert "cloudProviderTarget: 0" in status["data"]["status"]


def test_a_group_whose_machines_cannot_be_had_is_in_backoff_and_the_other_helps(tmp_path: Path) -> None:
    twin = a_twin(tmp_path, "stock: [{zone: us-east-1a, available: 0}]")
    twin.run_for(4 * MINUTE_US)
    part = twin.component("cluster-autoscaler")
    assert isinstance(part, ClusterAutoscaler)
    assert list(part.backoffs) == ["gpu-a"]
    assert groups_of(twin) == ["gpu-b", "gpu-b"]
    assert part.targets == {"gpu-a": 0, "gpu-b": 2}
    assert told(twin, "ScaleUpFailed")
    assert (
        "pod didn't trigger scale-up: 1 in backoff after failed scale-up, 1 max node group size reached"
        in told(twin, "NotTriggerScaleUp")
    )


def test_a_backoff_doubles_up_to_half_an_hour_and_is_forgotten_after_three_hours() -> None:
    options, lasted, now_us = Options(), [], 0
    backoff = None
    for _ in range(4):
        backoff = backed_off(backoff, "timeout", now_us, options)
        lasted.append(backoff.lasts_us // MINUTE_US)
        now_us = backoff.until_us + 1
    assert lasted == [5, 10, 20, 30]
    assert backoff is not None
    # Failing within a backoff lengthens it by as much as before.
    assert backed_off(backoff, "timeout", backoff.until_us, options).lasts_us == 30 * MINUTE_US
    failed_us = backoff.until_us - backoff.lasts_us
    assert backed_off(backoff, "timeout", failed_us + 180 * MINUTE_US, options).lasts_us == 30 * MINUTE_US
    assert backed_off(backoff, "timeout", failed_us + 180 * MINUTE_US + 1, options).lasts_us == 5 * MINUTE_US


def test_a_fork_goes_on_as_the_original(tmp_path: Path) -> None:
    twin = a_twin(tmp_path)
    twin.run_for(33 * MINUTE_US)
    fork = twin.fork()
    for one in (twin, fork):
        one.run_for(60 * MINUTE_US)
    assert twin.digest() == fork.digest()


def test_nodes_come_with_the_labels_of_gpu_feature_discovery(tmp_path: Path) -> None:
    twin = a_twin(tmp_path)
    twin.run_for(5 * MINUTE_US)
    labels = twin.store.objects("Node")[0]["metadata"]["labels"]
    found = {k: v for k, v in labels.items() if k.startswith("nvidia.com/")}
    assert found == {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": "1",
        "nvidia.com/gpu.product": "NVIDIA-A10G",
        "nvidia.com/gpu.memory": "23028",
        "nvidia.com/gpu.family": "ampere",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": "false",
    }


def test_a_machine_the_cloud_took_back_is_told_of(tmp_path: Path) -> None:
    twin = a_twin(tmp_path)
    twin.run_for(5 * MINUTE_US)
    name = twin.store.objects("Node")[0]["metadata"]["name"]
    twin.store.delete(Key("Node", "", name))
    twin.wake()
    twin.run_for(MINUTE_US)
    said = [t for t in twin.host.events.about(Key("Node", "", name)) if t.reason == "DeletingNode"]
    assert [(t.component, t.message) for t in said] == [
        (
            "cloud-node-lifecycle-controller",
            f"Deleting node {name} because it does not exist in the cloud provider",
        )
    ]


def test_machines_on_their_way_count_as_the_clouds(tmp_path: Path) -> None:
    """Two are asked for at once, and the cloud has one: its node, and before that its machine, is in the way."""
    twin = a_twin(tmp_path, "stock: [{zone: us-east-1a, capacityType: on-demand, available: 1}]")
    twin.run_for(20 * SECOND_US)
    part = twin.component("cluster-autoscaler")
    assert isinstance(part, ClusterAutoscaler)
    fork = twin.fork()
    for one in (twin, fork):
        one.run_for(9 * MINUTE_US)
        assert groups_of(one) == ["gpu-a", "gpu-b", "gpu-b"]
    assert not part._refused
