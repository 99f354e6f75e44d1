"""Servers that are groups of pods: the leader answers, and when one of the group fails all of it starts again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.kube.objects import labels_of
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import Finished, run_scenario

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: groups}
spec:
  seed: 3
  startTime: 2026-01-05T00:00:00Z
  duration: 30m
  nodes: [{name: "gpu-{i}", count: 4, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}}]
  manifests: [pods.yaml]
  serving:
    - service: large
      model: llama-3.1-70b
      gpu: H100-SXM5-80GB
      tensorParallel: 8
      traffic: {rate: {0s: 0, 4m: 0, 4m1s: 4, 25m: 4}, prompt: 300, output: 100}
  timeline: [TIMELINE]
"""
GROUPS = """\
apiVersion: v1
kind: Service
metadata: {name: large}
spec: {selector: {leaderworkerset.sigs.k8s.io/name: vllm, role: leader}, ports: [{port: 8080}]}
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 2
    restartPolicy: RESTART
    leaderTemplate:
      metadata: {labels: {role: leader}, annotations: {fairway.dev/startup-time: 90s}}
      spec:
        containers:
        - name: vllm-leader
          image: vllm/vllm-openai:v0.10.0
          resources: {limits: {nvidia.com/gpu: 8}}
          readinessProbe: {httpGet: {path: /health, port: 8080}, periodSeconds: 5}
    workerTemplate:
      metadata: {annotations: {fairway.dev/startup-time: 10s}}
      spec:
        containers:
        - name: vllm-worker
          image: vllm/vllm-openai:v0.10.0
          resources: {limits: {nvidia.com/gpu: 8}}
"""
FAILS = "{at: 10m, delete: pod/vllm-1-1}"


def played(folder: Path, timeline: str = "", restart: str = "RecreateGroupOnPodRestart") -> Finished:
    (folder / "scenario.yaml").write_text(SCENARIO.replace("TIMELINE", timeline), encoding="utf-8")
    (folder / "pods.yaml").write_text(GROUPS.replace("RESTART", restart), encoding="utf-8")
    return run_scenario(load_scenario(folder))


def test_only_leaders_answer(tmp_path: Path) -> None:
    finished = played(tmp_path)
    (row,) = finished.outcome.services
    assert row.requests > 4000
    assert (row.ok, row.ready_most) == (row.requests, 2)
    assert len(finished.twin.store.objects("Pod")) == 4


@pytest.mark.parametrize(("restart", "ends_together"), [("RecreateGroupOnPodRestart", True), ("None", False)])
def test_a_worker_that_goes_takes_its_group_along(tmp_path: Path, restart: str, ends_together: bool) -> None:
    finished = played(tmp_path, FAILS, restart)
    (row,) = finished.outcome.services
    born = {
        pod["metadata"]["name"]: pod["metadata"]["creationTimestamp"]
        for pod in finished.twin.store.objects("Pod")
        if labels_of(pod).get("leaderworkerset.sigs.k8s.io/name") == "vllm"
    }
    assert born["vllm-1-1"] > "2026-01-05T00:10" > born["vllm-0"]
    assert (born["vllm-1"] > "2026-01-05T00:10") == ends_together
    # What the leader was writing is lost with the group; the other group goes on answering.
    assert (row.lost > 0) == ends_together
    assert row.lost < 60
    assert row.ok > 0.95 * row.requests
