"""What a run shows of its autoscalers: a table on disk, flaps, assertions, the report, fights."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.cli.main import main
from fairway.results.rundir import load_run

SCENARIO = """
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  duration: 1h
  nodes: {name: node-0, count: 1, capacity: {cpu: 64, memory: 64Gi}}
  load:
    series: [{name: depth, value: "0s:10,10m:80,12m:10,14m:80"}]
  timeline:
  - {at: 40m, scale: {target: deployment/web, replicas: 1}}
  assertions:
  - replicas of web reach 8 within 12m
  - count(scalings) > 2 where name == "web" and autoscaler == "web"
  - count(flaps) < 1
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 10
  metrics:
  - {type: External, external: {metric: {name: depth}, target: {type: AverageValue, averageValue: "10"}}}
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
"""


def test_a_run_with_flaps_and_a_fight(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO)
    assert main(["simulate", str(file), "--out", str(tmp_path / "run")]) == 1
    printed = capsys.readouterr().out
    assert "SCALING" in printed
    assert "FAIL  count(flaps) < 1" in printed
    assert "pass  replicas of web reach 8 within 12m" in printed
    assert "somebody else both set its replicas (1 times)" in " ".join(printed.split())
    rows = load_run(tmp_path / "run").outcome.scalings
    assert [r.after for r in rows if r.autoscaler][:2] == [5, 8]
    assert sum(r.is_flap for r in rows) == 3
    assert [r.reason for r in rows if not r.autoscaler_kind] == ["set by somebody else"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("replicas web reach 3", "expected of"),
        ("replicas of web get 3", "expected reach"),
        ("replicas of 3 reach 3", "expected what is scaled"),
        ("replicas of web reach many", "expected"),
        ("replicas of web reach 3 within soon", "expected"),
        ('count(scalings) > 2 where colour == "red"', "colour"),
    ],
)
def test_assertions_that_are_none(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.replace("count(flaps) < 1", text))
    assert main(["simulate", str(file)]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("load", "says"),
    [
        ('series: [{name: depth, value: "often"}]', "spec.load.series[0].value"),
        ("series: [{name: depth, vlaue: 3}]", "vlaue"),
        ("queues: 3", "spec.load.queues"),
    ],
)
def test_loads_that_are_none(
    load: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.replace('series: [{name: depth, value: "0s:10,10m:80,12m:10,14m:80"}]', load))
    assert main(["simulate", str(file)]) == 2
    assert says in capsys.readouterr().err
