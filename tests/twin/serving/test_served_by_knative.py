"""Requests to a Knative Service: they wait for its first pod, its autoscaler sees them, and its pods drain."""

from __future__ import annotations

from pathlib import Path

from fairway.kube.objects import Key
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario
from fairway.serving import batching as b

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: knative}
spec:
  seed: 3
  startTime: 2026-01-05T00:00:00Z
  duration: 40m
  nodes: [{name: "gpu-{i}", count: 2, gpuModel: NVIDIA-L40S, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 4}}]
  manifests: [objects.yaml]
  serving:
    - service: NAME
      model: llama-3.1-8b
      gpu: L40S
      traffic: {rate: {0s: 0, 5m: 0, 5m1s: 1, 10m: 1, 11m: 12, 18m: 12, 19m: 1, 30m: 1}, prompt: 300, output: 200}
      gateway: {holds: true}
"""
ANNOTATIONS = (
    'fairway.dev/startup-time: 30s, fairway.dev/stop-time: 90s, autoscaling.knative.dev/target: "10"'
)
SERVICE = f"""\
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {{name: model}}
spec:
  template:
    metadata: {{annotations: {{{ANNOTATIONS}}}}}
    spec:
      containers:
      - image: vllm/vllm-openai:v0.10.0
        resources: {{limits: {{nvidia.com/gpu: 1}}}}
        readinessProbe: {{httpGet: {{path: /health, port: 8000}}, periodSeconds: 5}}
"""
INFERENCE_SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: model, annotations: {fairway.dev/startup-time: 30s, fairway.dev/stop-time: 90s}}
spec:
  predictor:
    minReplicas: 0
    scaleTarget: 10
    scaleMetric: concurrency
    model: {modelFormat: {name: huggingface}, storageUri: "s3://models/llama", resources: {limits: {nvidia.com/gpu: 1}}}
"""


def test_it_sleeps_wakes_grows_and_shrinks_without_losing_anybody(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO.replace("NAME", "model"), encoding="utf-8")
    (tmp_path / "objects.yaml").write_text(SERVICE, encoding="utf-8")
    finished = run_scenario(load_scenario(tmp_path))
    (row,) = finished.outcome.services
    assert row.requests > 5000
    assert (row.ok, row.lost, row.refused) == (row.requests, 0, 0)
    assert row.ready_most > 1
    when = finished.twin.host.parts["serving"].rooms[0].fleet.when  # type: ignore[attr-defined]
    # The first request waited for a pod, 30 s of whose start are its weights.
    assert float((when[:, b.FIRST] - when[:, b.ARRIVED]).max()) > 30
    deployment = finished.twin.store.get(Key("Deployment.apps", "default", "model-00001-deployment"))
    assert deployment is not None and deployment["spec"]["replicas"] == 0


def test_an_inference_service_in_knative_mode_is_served_and_told_ready(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO.replace("NAME", "model-predictor"), encoding="utf-8")
    (tmp_path / "objects.yaml").write_text(INFERENCE_SERVICE, encoding="utf-8")
    finished = run_scenario(load_scenario(tmp_path))
    (row,) = finished.outcome.services
    assert (row.ok, row.lost) == (row.requests, 0)
    isvc = finished.twin.store.get(Key("InferenceService.serving.kserve.io", "default", "model"))
    assert isvc is not None
    assert isvc["status"]["components"]["predictor"]["latestRolledoutRevision"] == "model-predictor-00001"
    assert {"Ready": "True"}.items() <= {c["type"]: c["status"] for c in isvc["status"]["conditions"]}.items()
