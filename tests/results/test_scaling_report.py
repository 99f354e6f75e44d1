"""What a report says of scaling: replicas wanted and ready over time, what was short, and every change."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fairway.catalog.catalog import load_catalog
from fairway.catalog.prices import Price
from fairway.cli.main import main
from fairway.kube.timestamps import HOUR_US, SECOND_US
from fairway.results.rundir import load_run
from fairway.results.scalingfigures import ScaledTarget, _compare, scaled_targets, value_at
from fairway.results.scalingprices import priced_targets
from fairway.results.scalingtext import scaling_lines
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


def test_short_and_surplus_in_dollars(tmp_path: Path) -> None:
    """A replica with one of eight GPUs, and its cores and memory, costs that part of the machine's price."""
    labels = (
        "labels: {node.kubernetes.io/instance-type: p5.48xlarge, topology.kubernetes.io/zone: us-east-1a}"
    )
    before = next(line.strip() for line in SCENARIO.splitlines() if line.startswith("  nodes:"))
    capacity = "{cpu: 192, memory: 2048Gi, nvidia.com/gpu: 8}"
    node = f"nodes: [{{name: node-1, gpuModel: NVIDIA-H100-80GB-HBM3, {labels}, capacity: {capacity}}}]"
    (tmp_path / "scenario.yaml").write_text(SCENARIO.replace(before, node))
    (tmp_path / "objects.yaml").write_text(OBJECTS)
    assert main(["simulate", str(tmp_path / "scenario.yaml"), "--out", str(tmp_path / "run")]) == 0
    run = load_run(tmp_path / "run")
    (target,) = priced_targets(run)
    catalog = load_catalog()
    machine = catalog.price("p5.48xlarge", "on-demand", zone="us-east-1a", at_us=run.outcome.began_us)
    assert isinstance(machine, Price) and target.hourly_micros is not None
    # Eight such replicas hold all GPUs and nothing of CPUs and memory: less than the machine, more than eight tenths.
    assert 0.8 * machine.micros_per_hour < 8 * target.hourly_micros < machine.micros_per_hour
    assert target.short_micros == target.short_us * target.hourly_micros / HOUR_US
    text = "\n".join(line.text for line in scaling_lines(run, 100))
    assert "short, $" in text and all(len(line.text) <= 100 for line in scaling_lines(run, 100))


def test_machines_without_a_price_have_no_dollars(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "objects.yaml").write_text(OBJECTS)
    assert main(["simulate", str(tmp_path / "scenario.yaml"), "--out", str(tmp_path / "run")]) == 0
    run = load_run(tmp_path / "run")
    assert [t.hourly_micros for t in priced_targets(run)] == [None]
    assert "$" not in "\n".join(line.text for line in scaling_lines(run, 100))
