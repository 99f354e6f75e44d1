"""Weights of a route: shares of what they add up to, whatever that is; where all are zero nobody is led anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario
from fairway.serving.batching import WHERE

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: weighed}
spec:
  seed: 3
  startTime: 2026-01-05T00:00:00Z
  duration: 10m
  nodes: [{name: "gpu-{i}", count: 2, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 4}}]
  manifests: [pods.yaml]
  serving:
    - route: chat
      model: llama-3.1-8b
      gpu: L40S
      traffic: {rate: {0s: 0, 3m: 0, 3m1s: 8, 9m: 8}, prompt: 100, output: 20}
"""
ROUTE = """\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec:
  rules:
  - backendRefs: [{name: a, port: 80, weight: A}, {name: b, port: 80, weight: B}, {name: gone, port: 80, weight: C}]
"""
PODS = """\
---
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {selector: {app: NAME}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 1
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}, annotations: {fairway.dev/startup-time: 20s}}
    spec: {containers: [{name: vllm, image: vllm/vllm-openai:v0.10.0, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


@pytest.mark.parametrize(
    ("weights", "share_of_b", "refused"),
    [((1, 3, 0), 0.75, 0.0), ((7, 0, 0), 0.0, 0.0), ((0, 0, 0), None, 1.0), ((1, 1, 2), 0.5, 0.5)],
)
def test_shares_follow_weights(
    tmp_path: Path, weights: tuple[int, int, int], share_of_b: float | None, refused: float
) -> None:
    text = ROUTE
    for letter, weight in zip("ABC", weights, strict=True):
        text = text.replace(f"weight: {letter}", f"weight: {weight}")
    text += PODS.replace("NAME", "a") + PODS.replace("NAME", "b")
    (tmp_path / "scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "pods.yaml").write_text(text, encoding="utf-8")
    finished = run_scenario(load_scenario(tmp_path))
    (row,) = finished.outcome.services
    assert row.refused == pytest.approx(refused * row.requests, abs=0.04 * row.requests)
    assert row.ok + row.refused == row.requests > 2000
    if share_of_b is None:
        return
    (room,) = finished.twin.host.parts["serving"].rooms  # type: ignore[attr-defined]
    of_b = {r for r, labels in room.labels.items() if labels["service"] == "b"}
    answered = [int(r) for r in room.fleet.what[:, WHERE] if r >= 0]
    assert sum(r in of_b for r in answered) / len(answered) == pytest.approx(share_of_b, abs=0.03)
