"""What clients see while pods come and go: manifests that are right lose nothing, wrong ones show their symptom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairway.errors import InvalidInput
from fairway.recorder.tables import ServiceRow
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import Finished, run_scenario

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: served}
spec:
  seed: 3
  startTime: 2026-01-05T00:00:00Z
  duration: 20m
  nodes: [{name: "gpu-{i}", count: 2, gpuModel: NVIDIA-L40S, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 4}}]
  manifests: [pods.yaml]
  serving:
    - service: chat
      model: llama-3.1-8b
      gpu: L40S
      traffic: {rate: {0s: 0, 3m: 0, 3m1s: 4, 18m: 4}, prompt: 300, output: 200}
      GATEWAY
  timeline: [TIMELINE]
"""
PODS = """\
apiVersion: v1
kind: Service
metadata: {name: chat}
spec: {selector: {app: chat}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  replicas: 2
  selector: {matchLabels: {app: chat}}
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
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
PROBE = "        readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 5}\n"
HOOK = "        lifecycle: {preStop: {sleep: {seconds: 45}}}\n"
ROLLOUT = "{at: 8m, patch: {target: deployment/chat, patch: {spec: {template: {metadata: {labels: {version: b}}}}}}}"
SMALLER = "{at: 8m, scale: {target: deployment/chat, replicas: 1}}"


def write(
    folder: Path, pods: str = PODS, timeline: str = "", gateway: str = "gateway: {}", **changes: str
) -> None:
    text = SCENARIO.replace("TIMELINE", timeline).replace("GATEWAY", gateway)
    for old, new in changes.items():
        text = text.replace(old, new)
    (folder / "scenario.yaml").write_text(text, encoding="utf-8")
    (folder / "pods.yaml").write_text(pods, encoding="utf-8")


def played(folder: Path, **given: Any) -> ServiceRow:
    write(folder, **given)
    finished = run_scenario(load_scenario(folder))
    (row,) = finished.outcome.services
    return row


@pytest.mark.parametrize("timeline", ["", ROLLOUT, SMALLER])
def test_with_probes_and_hooks_nobody_is_lost(tmp_path: Path, timeline: str) -> None:
    row = played(tmp_path, timeline=timeline)
    assert row.requests > 3000
    assert (row.ok, row.lost, row.refused, row.unfinished) == (row.requests, 0, 0, 0)
    assert row.ttft_us_p95 is not None and 0 < row.ttft_us_p95 < 2_000_000


def test_ready_too_early_loses_what_comes_before_the_weights_are_there(tmp_path: Path) -> None:
    row = played(tmp_path, pods=PODS.replace(PROBE, ""), timeline=ROLLOUT)
    assert row.lost > 50


def test_without_a_hook_the_answers_that_are_being_written_are_lost(tmp_path: Path) -> None:
    row = played(tmp_path, pods=PODS.replace(HOOK, ""), timeline=SMALLER)
    assert row.lost > 0
    tries_again = played(
        tmp_path, pods=PODS.replace(HOOK, ""), timeline=SMALLER, gateway="gateway: {retries: true}"
    )
    assert tries_again.lost < row.lost


def test_a_server_that_drains_loses_only_what_is_still_sent_to_it(tmp_path: Path) -> None:
    short = PODS.replace("seconds: 45", "seconds: 3").replace("stop-time: 1s", "stop-time: 60s")
    drops = played(tmp_path, pods=short, timeline=SMALLER)
    drains = played(tmp_path, pods=short, timeline=SMALLER, gateway="drains: true")
    assert drops.lost > 0 == drains.lost


def test_a_surge_without_a_gpu_stands_still_and_loses_nobody(tmp_path: Path) -> None:
    write(tmp_path, pods=PODS.replace("replicas: 2", "replicas: 8"), timeline=ROLLOUT)
    finished = run_scenario(load_scenario(tmp_path))
    assert finished.outcome.services[0].lost == 0
    waiting = [p for p in finished.outcome.pods if not p.node]
    assert len(waiting) == 1


def test_nobody_ready_refuses_or_holds(tmp_path: Path) -> None:
    none = PODS.replace("replicas: 2", "replicas: 0")
    up = "{at: 6m, scale: {target: deployment/chat, replicas: 2}}"
    refused, held = (
        played(tmp_path, pods=none, timeline=up, gateway=f"gateway: {{holds: {holds}}}")
        for holds in ("false", "true")
    )
    assert refused.refused > 500 and refused.ok + refused.refused == refused.requests
    assert held.ok == held.requests and held.waiting_most > 500


def test_a_node_that_dies_takes_its_requests_with_it(tmp_path: Path) -> None:
    spread = PODS.replace(
        "      containers:",
        "      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: chat}}}]}}\n      containers:",
    )
    row = played(tmp_path, pods=spread, timeline="{at: 8m, failNode: gpu-0}")
    assert 0 < row.lost < row.requests / 4


def test_an_autoscaler_follows_what_waits(tmp_path: Path) -> None:
    hpa = """\
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  minReplicas: 1
  maxReplicas: 6
  metrics:
  - type: Pods
    pods: {metric: {name: "vllm:num_requests_running"}, target: {type: AverageValue, averageValue: "5"}}
"""
    write(tmp_path, pods=PODS + hpa)
    finished = run_scenario(load_scenario(tmp_path))
    (row,) = finished.outcome.services
    assert row.ready_most > 2 and row.lost == 0
    assert {r.metric for r in finished.outcome.scalings if r.after > r.before} == {
        "pods metric vllm:num_requests_running"
    }


def test_a_copy_goes_on_as_the_original(tmp_path: Path) -> None:
    write(tmp_path, timeline=ROLLOUT)
    twin = build_twin(load_scenario(tmp_path))
    twin.run_for(9 * 60 * 1_000_000)
    copy = twin.fork()
    rows = []
    for one in (twin, copy):
        one.run_for(10 * 60 * 1_000_000)
        recorder = next(part for part in one.components if part.name == "recorder")
        rows.append(recorder.outcome("complete").services[0])  # type: ignore[attr-defined]
    assert rows[0] == rows[1] and twin.digest() == copy.digest()


def judged(folder: Path, assertion: str) -> Finished:
    write(folder)
    with (folder / "scenario.yaml").open("a", encoding="utf-8") as file:
        file.write(f"  assertions: ['{assertion}']\n")
    return run_scenario(load_scenario(folder))


def test_requests_are_asserted(tmp_path: Path) -> None:
    assert judged(tmp_path, "count(services) == 1 where ttftP95 < 2s").passed
    assert not judged(tmp_path, "count(services) == 0 where answered > 100").passed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model: llama-3.1-8b": "model: gpt-5"}, "no such model; expected one of phi-2"),
        ({"model: llama-3.1-8b": "model: llama-3.1-70b"}, "does not fit on 1 × L40S"),
        ({"gpu: L40S": "gpu: L41"}, "L40S, T4"),
        ({"rate: {0s: 0, 3m: 0, 3m1s: 4, 18m: 4}": "rate: {0s: 1}"}, "expected two points in time or more"),
        ({"rate: {0s: 0, 3m: 0, 3m1s: 4, 18m: 4}": "rate: 1000000"}, "at most 50000000 can be made"),
        (
            {"rate: {0s: 0, 3m: 0, 3m1s: 4, 18m: 4}": "trace: none.csv"},
            "expected a file of recorded requests",
        ),
        ({"service: chat": "servcie: chat"}, "servcie"),
        ({"gateway: {}": "gateway: {policy: Best}"}, "LeastRequests"),
    ],
)
def test_what_is_wrong_is_located(tmp_path: Path, changes: dict[str, str], said: str) -> None:
    write(tmp_path, **changes)
    with pytest.raises(InvalidInput) as wrong:
        load_scenario(tmp_path)
    assert said in str(wrong.value) and "scenario.yaml:" in str(wrong.value)


def test_a_liveness_probe_that_generates_restarts_servers_that_are_only_busy(tmp_path: Path) -> None:
    """Under a burst, the probe waits in line like everybody; restarts lose what was being written, and so on."""
    burst = {"{0s: 0, 3m: 0, 3m1s: 4, 18m: 4}": "{0s: 0, 3m: 0, 3m1s: 40, 8m: 40}"}
    few = {"gpu: L40S\n      traffic": "gpu: L40S\n      maxNumSeqs: 8\n      traffic"}
    probe = PROBE + "        livenessProbe: {httpGet: {path: PATH, port: 8000}, periodSeconds: 10}\n"
    probe += "        startupProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 5, failureThreshold: 60}\n"
    healthy = played(tmp_path, pods=PODS.replace(PROBE, probe.replace("PATH", "/health")), **burst, **few)
    assert healthy.lost == 0
    asked = played(tmp_path, pods=PODS.replace(PROBE, probe.replace("PATH", "/generate")), **burst, **few)
    assert asked.lost > 100
