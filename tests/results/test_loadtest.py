"""What requests cost, and which setting answers them in time for the least."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairway.cli.main import main

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: served}
spec:
  seed: 3
  startTime: 2026-01-05T00:00:00Z
  duration: 30m
  nodes:
    - name: gpu
      gpuModel: NVIDIA-L40S
      labels: {node.kubernetes.io/instance-type: g6e.48xlarge}
      capacity: {cpu: 192, memory: 1536Gi, nvidia.com/gpu: 8}
  serving:
    - service: chat
      model: llama-3.1-8b
      gpu: L40S
      traffic: {rate: {0s: 1, 10m: 4, 20m: 1, 29m: 1}, prompt: 300, output: 150}
      gateway: {holds: true}
      slo: {ttft: 2s}
  manifests:
    - apiVersion: v1
      kind: Service
      metadata: {name: chat}
      spec: {selector: {app: chat}, ports: [{port: 80}]}
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: chat}
      spec:
        replicas: 1
        selector: {matchLabels: {app: chat}}
        template:
          metadata: {labels: {app: chat}, annotations: {fairway.dev/startup-time: 20s}}
          spec:
            terminationGracePeriodSeconds: 60
            containers:
            - name: vllm
              image: vllm
              resources: {limits: {nvidia.com/gpu: 1}}
              readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 5}
              lifecycle: {preStop: {sleep: {seconds: 40}}}
    - apiVersion: autoscaling/v2
      kind: HorizontalPodAutoscaler
      metadata: {name: chat}
      spec:
        scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
        minReplicas: 1
        maxReplicas: 2
        metrics:
        - type: Pods
          pods: {metric: {name: requests_in_flight}, target: {type: AverageValue, averageValue: "10"}}
"""


def run(
    folder: Path, capsys: pytest.CaptureFixture[str], *options: str, text: str = SCENARIO
) -> tuple[int, Any]:
    (folder / "scenario.yaml").write_text(text, encoding="utf-8")
    code = main(["loadtest", str(folder), "-o", "json", *options])
    printed = capsys.readouterr()
    return code, json.loads(printed.out) if printed.out else printed.err


def test_requests_have_a_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(tmp_path, capsys)
    (chat,) = said["services"]
    assert code == 0 and chat["ok"] == chat["requests"] > 3000 and chat["lost"] == 0
    hourly_usd = chat["usd"] / chat["gpu_hours"]
    assert 1.5 < hourly_usd < 30.13118 / 8 + 0.01
    assert chat["usd_per_1000_requests"] == pytest.approx(1000 * chat["usd"] / chat["ok"])
    assert chat["usd_per_million_tokens"] == pytest.approx(1e6 * chat["usd"] / (150 * chat["ok"]))


def test_without_prices_gpu_hours_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = SCENARIO.replace("      labels: {node.kubernetes.io/instance-type: g6e.48xlarge}\n", "")
    _, said = run(tmp_path, capsys, text=text)
    assert said["services"][0]["usd"] is None and said["services"][0]["gpu_hours"] > 0.4
    assert main(["loadtest", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100 and "chat" in lines[-1] and lines[-1].split()[-1] == "-"


def test_the_cheapest_setting_that_will_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(tmp_path, capsys, "--tune", "chat", "--attain", "90")
    prices = [variant["usd"] for variant in said["variants"]]
    assert code == 0 and len(prices) == 12 and prices == sorted(prices) and prices[0] < prices[-1]
    assert {variant["min"] for variant in said["variants"]} == {1, 2}
    assert said["variants"][0]["patch"].startswith(
        "kubectl patch horizontalpodautoscaler chat -n default --type merge"
    )
    code, _ = run(tmp_path, capsys, "--tune", "chat", text=SCENARIO.replace("ttft: 2s", "ttft: 1ms"))
    assert code == 1


@pytest.mark.parametrize(
    ("options", "text", "said"),
    [
        (("--tune", "shop"), SCENARIO, "--tune 'shop': expected one of chat"),
        (
            ("--tune", "chat"),
            SCENARIO.replace("kind: Deployment, name: chat", "kind: Deployment, name: x"),
            "nobody",
        ),
        ((), SCENARIO[: SCENARIO.index("  serving:")], "no serving: section"),
    ],
)
def test_what_cannot_be_tested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], text: str, said: str
) -> None:
    code, printed = run(tmp_path, capsys, *options, text=text)
    assert (
        code == 2
        and (said if said != "nobody" else "no HorizontalPodAutoscaler and no ScaledObject") in printed
    )
