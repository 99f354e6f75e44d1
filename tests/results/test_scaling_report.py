"""What a report says of scaling: replicas wanted and ready over time, what was short, and every change."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fairway.cli.main import main
from fairway.kube.timestamps import SECOND_US
from fairway.results.scalingfigures import ScaledTarget, _compare, scaled_targets, value_at
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario

SCENARIO = """
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: scaled}
spec:
  seed: 1
  duration: 1h
  latency: zero
  nodes: [{name: node-1, gpuModel: NVIDIA-L40S, capacity: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}}]
  load:
    series: [{name: backlog, value: "0s:5,10m:35,20m:5"}]
  manifests: [objects.yaml]
"""
OBJECTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {fairway.dev/startup-time: 90s}}
    spec:
      containers:
      - name: c
        image: i
        resources: {limits: {nvidia.com/gpu: 1}}
        readinessProbe: {tcpSocket: {port: 80}, periodSeconds: 1}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: default}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 4
  metrics:
  - type: External
    external: {metric: {name: backlog}, target: {type: AverageValue, averageValue: "10"}}
"""


def test_the_page_and_the_charts_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "objects.yaml").write_text(OBJECTS)
    out = tmp_path / "run"
    page, plots = tmp_path / "report.html", tmp_path / "plots"
    assert main(["simulate", str(tmp_path / "scenario.yaml"), "--out", str(out)]) == 0
    assert main(["report", str(out), "--html", str(page), "--plots", str(plots)]) == 0
    text = page.read_text()
    assert "<h2>Scaling</h2>" in text
    assert "Replicas of Deployment default/web" in text
    assert "HorizontalPodAutoscaler web" in text
    assert any(p.name.startswith("scaling-1") for p in plots.iterdir())


def test_pods_that_start_slowly_are_short(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "objects.yaml").write_text(OBJECTS)
    run = run_scenario(load_scenario(tmp_path / "scenario.yaml"))
    (target,) = scaled_targets(run.outcome)
    assert target.sizes == [1, 4, 1]
    # The first replica and the three that came were 90 s late each, a probe aside.
    assert 4 * 90 <= target.short_us / SECOND_US <= 4 * 95
    assert target.surplus_us / SECOND_US < 10
    held_s = target.starting_gpu_milli_us / 1000 / SECOND_US
    assert 4 * 90 <= held_s <= 4 * 95


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=8),
)
def test_short_and_surplus_are_the_areas_between_both_curves(
    wanted: list[tuple[int, int]], ready: list[tuple[int, int]]
) -> None:
    target = ScaledTarget("Deployment", "d", "n")
    target.wanted, target.ready = sorted(dict(wanted).items()), sorted(dict(ready).items())
    _compare(target, 60)
    gaps = [_at(target.wanted, t) - _at(target.ready, t) for t in range(60)]
    assert target.short_us == sum(max(g, 0) for g in gaps)
    assert target.surplus_us == sum(max(-g, 0) for g in gaps)


def _at(steps: list[tuple[int, int]], at: int) -> int:
    found = 0
    for begin, value in steps:
        if begin <= at:
            found = value
    assert value_at(steps, at) == found
    return found
