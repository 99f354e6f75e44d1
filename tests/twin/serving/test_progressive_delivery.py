"""Canaries under load: weights move, analyses decide, and with right manifests nobody is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.kube.objects import Key, Obj
from fairway.recorder.tables import ServiceRow
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: canary}
spec:
  seed: 3
  startTime: 2026-01-05T00:00:00Z
  duration: 40m
  nodes: [{name: "gpu-{i}", count: 2, gpuModel: NVIDIA-L40S, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 4}}]
  manifests: [objects.yaml]
  serving:
    - route: chat
      model: llama-3.1-8b
      gpu: L40S
      traffic: {rate: {0s: 0, 3m: 0, 3m1s: 4, 38m: 4}, prompt: 300, output: 200}
  timeline:
    - at: 8m
      patch:
        target: rollout/default/chat
        patch: {spec: {template: {metadata: {annotations: {fairway.dev/serving: "NATURE"}}}}}
"""
OBJECTS = """\
apiVersion: v1
kind: Service
metadata: {name: chat-stable}
spec: {selector: {app: chat}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: chat-canary}
spec: {selector: {app: chat}, ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec:
  parentRefs: [{name: gateway}]
  rules: [{backendRefs: [{name: chat-stable, port: 80}, {name: chat-canary, port: 80}]}]
---
apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
metadata: {name: quality}
spec:
  args: [{name: service}]
  metrics:
  - name: QUALITY
    interval: 1m
    failureLimit: 1
    successCondition: "len(result) == 0 || isNaN(result[0]) || CONDITION"
    provider: {prometheus: {query: 'QUERY'}}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: chat}
spec:
  replicas: 4
  selector: {matchLabels: {app: chat}}
  strategy:
    canary:
      canaryService: chat-canary
      stableService: chat-stable
      trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: chat}}}
      analysis: {templates: [{templateName: quality}], startingStep: 1, args: [{name: service, value: chat-canary}]}
      steps: [{setWeight: 25}, {pause: {duration: 5m}}, {setWeight: 50}, {pause: {duration: 5m}}]
  template:
    metadata: {labels: {app: chat}, annotations: {fairway.dev/startup-time: 60s, fairway.dev/stop-time: 1s}}
    spec:
      terminationGracePeriodSeconds: 90
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.10.0
        resources: {limits: {nvidia.com/gpu: 1}}
        readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 5}
        lifecycle: {preStop: {sleep: {seconds: 45}}}
"""
OF_SERVICE = '{service="{{args.service}}"'
ERRORS = (
    f'sum(rate(http_requests_total{OF_SERVICE},code=~"5.."}}[2m]))/sum(rate(http_requests_total{OF_SERVICE}}}[2m]))',
    "result[0] < 0.05",
)
LATENCY = (
    f"histogram_quantile(0.95,sum(rate(vllm:e2e_request_latency_seconds_bucket{OF_SERVICE}}}[2m])) by (le))",
    "result[0] < 12",
)
ACCURACY = (f"avg(model_accuracy{OF_SERVICE}}})", "result[0] >= 0.9")
MEMORY = (f"max(DCGM_FI_DEV_FB_USED{OF_SERVICE}}})", "result[0] < 47000")


def played(
    folder: Path, nature: str, measure: tuple[str, str], *, objects: str = OBJECTS
) -> tuple[Obj, ServiceRow]:
    text = objects.replace("CONDITION", measure[1]).replace("QUERY", measure[0])
    (folder / "scenario.yaml").write_text(SCENARIO.replace("NATURE", nature), encoding="utf-8")
    (folder / "objects.yaml").write_text(text, encoding="utf-8")
    finished = run_scenario(load_scenario(folder))
    (row,) = finished.outcome.services
    rollout = finished.twin.store.get(Key("Rollout.argoproj.io", "default", "chat"))
    assert rollout is not None
    return rollout, row


@pytest.mark.parametrize("measure", [ERRORS, LATENCY, ACCURACY, MEMORY])
def test_a_good_version_gets_all_traffic_and_nobody_is_lost(tmp_path: Path, measure: tuple[str, str]) -> None:
    rollout, row = played(tmp_path, "slowdown=1.05,accuracy=0.95", measure)
    assert rollout["status"]["phase"] == "Healthy"
    assert rollout["status"]["stableRS"] == rollout["status"]["currentPodHash"]
    assert rollout["metadata"]["annotations"]["rollout.argoproj.io/revision"] == "2"
    assert row.requests > 8000
    assert (row.ok, row.lost, row.refused) == (row.requests, 0, 0)


@pytest.mark.parametrize(
    ("nature", "measure"),
    [("errors=15%", ERRORS), ("slowdown=4", LATENCY), ("accuracy=0.7", ACCURACY)],
)
def test_a_bad_version_is_taken_back_by_what_it_is_bad_at(
    tmp_path: Path, nature: str, measure: tuple[str, str]
) -> None:
    rollout, row = played(tmp_path, nature, measure)
    status = rollout["status"]
    assert (status["phase"], status["abort"]) == ("Degraded", True)
    assert "Background analysis phase error/failed" in status["message"]
    assert status["canary"]["weights"]["canary"]["weight"] == 0
    assert status["stableRS"] != status["currentPodHash"]
    assert row.lost == row.refused == 0
    if measure is ERRORS:
        assert 0 < row.failed < 0.02 * row.requests


def test_a_step_waits_for_its_analysis_and_a_query_that_finds_nothing_ends_it(tmp_path: Path) -> None:
    analysis = (
        "{analysis: {templates: [{templateName: quality}], args: [{name: service, value: chat-canary}]}}"
    )
    steps = f"steps: [{{setWeight: 25}}, {analysis}]"
    objects = OBJECTS.replace(
        "steps: [{setWeight: 25}, {pause: {duration: 5m}}, {setWeight: 50}, {pause: {duration: 5m}}]", steps
    )
    start = objects.index("      analysis: {templates")
    objects = objects[:start] + objects[objects.index("      steps:", start) :]
    once = objects.replace("interval: 1m\n    failureLimit: 1", "interval: 1m\n    count: 3")
    good, _ = played(tmp_path, "slowdown=1.05", ERRORS, objects=once)
    assert good["status"]["phase"] == "Healthy"
    nothing = once.replace("len(result) == 0 || ", "")
    bad, _ = played(tmp_path, "slowdown=1.05", ("no_such_metric", "result[0] < 1"), objects=nothing)
    assert bad["status"]["phase"] == "Degraded"
    assert "no data returned from the metric provider" in bad["status"]["message"]


def test_weights_of_a_route_are_what_services_get(tmp_path: Path) -> None:
    pods = """
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}}
spec:
  containers: [{name: c, image: vllm, resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {selector: {app: NAME}, ports: [{port: 80}]}
"""
    route = """
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec:
  rules:
  - backendRefs: [{name: a, port: 80, weight: 9}, {name: b, port: 80, weight: 1}, {name: c, port: 80, weight: 0}]
"""
    text = SCENARIO[: SCENARIO.index("  timeline:")]
    (tmp_path / "scenario.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "objects.yaml").write_text(
        route + pods.replace("NAME", "a") + pods.replace("NAME", "b"), encoding="utf-8"
    )
    finished = run_scenario(load_scenario(tmp_path))
    room = finished.twin.host.parts["serving"].rooms[0]  # type: ignore[attr-defined]
    by_name = {room.labels[r]["service"]: int(room.fleet.replicas[r, 13]) for r in room.labels}
    assert by_name["b"] / (by_name["a"] + by_name["b"]) == pytest.approx(0.1, abs=0.005)
    (row,) = finished.outcome.services
    assert row.ok == row.requests
