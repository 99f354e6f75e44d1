"""Batchers and image pipelines in scenarios: pods of theirs come and go like any other's."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.errors import InvalidInput
from fairway.recorder.tables import ServiceRow
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: images}
spec:
  seed: 3
  startTime: 2026-01-05T00:00:00Z
  duration: 30m
  nodes: [{name: "gpu-{i}", count: 2, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 4}}]
  manifests: [pods.yaml]
  serving:
    - service: images
      model: sdxl
      SERVER
      traffic: {rate: {0s: 0, 2m: 0, 2m1s: 1, 25m: 1}, output: 30}
"""
PODS = """\
apiVersion: v1
kind: Service
metadata: {name: images}
spec: {selector: {app: images}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: images}
spec:
  replicas: 2
  selector: {matchLabels: {app: images}}
  template:
    metadata: {labels: {app: images}, annotations: {fairway.dev/startup-time: 20s}}
    spec: {containers: [{name: triton, image: triton:1, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


def played(folder: Path, server: str) -> ServiceRow:
    (folder / "scenario.yaml").write_text(SCENARIO.replace("SERVER", server), encoding="utf-8")
    (folder / "pods.yaml").write_text(PODS, encoding="utf-8")
    (row,) = run_scenario(load_scenario(folder)).outcome.services
    return row


def test_batches_save_what_one_by_one_does_not_manage(tmp_path: Path) -> None:
    alone = played(tmp_path, "pipeline: {start: 100ms, step: 60ms}")
    together = played(
        tmp_path, "pipeline: {start: 100ms, step: 60ms, batched: 0.2}\n      batch: {size: 8, delay: 500ms}"
    )
    assert alone.requests == together.requests > 1000
    assert together.ok == together.requests
    # Two servers at 1.9 s each keep up with one request a second by a hair; batches with ease.
    assert alone.queue_us_p95 is not None and together.queue_us_p95 is not None
    assert alone.queue_us_p95 > 2 * together.queue_us_p95
    assert together.prefill_us_p50 is not None and 1_900_000 <= together.prefill_us_p50 < 6_000_000


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("pipeline: {start: 1s}", "step"),
        ("pipeline: {step: 60ms, batched: 2}", "batched"),
        ("pipeline: {step: 60ms}\n      batch: {delay: 1s}", "size"),
        ("batch: {size: 8}", "gpu"),
        ("gpu: L40S", "no such model"),
    ],
)
def test_what_is_wrong_is_located(tmp_path: Path, server: str, said: str) -> None:
    with pytest.raises(InvalidInput) as wrong:
        played(tmp_path, server)
    assert said in str(wrong.value) and "scenario.yaml:" in str(wrong.value)
