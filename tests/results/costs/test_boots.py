"""What machines cost before they are nodes, and where they never become any."""

from __future__ import annotations

from pathlib import Path

from costworld import CATALOG

from fairway.metering.bill import BOOT_OWNER
from fairway.results.costs.breakdown import Shared, breakdown
from fairway.results.costs.costing import Costed, costed
from fairway.results.costs.figures import cost_figures, kinds
from fairway.results.run import Run, RunInfo
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: boots}
spec:
  latency: zero
  duration: DURATION
  cloud:
    provider: aws
    bootTime: BOOT
    nodeGroups: [{name: gpu, instanceType: g5.xlarge, zone: us-east-1a, max: 1}]
    autoscaler: {maxNodeProvisionTime: 15m}
  manifests:
    - apiVersion: v1
      kind: Pod
      metadata: {name: p, namespace: default, labels: {team: a}}
      spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


def bill(folder: Path, boot: str, duration: str) -> Costed:
    text = SCENARIO.replace("BOOT", boot).replace("DURATION", duration)
    (folder / "scenario.yaml").write_text(text, encoding="utf-8")
    finished = run_scenario(load_scenario(folder))
    return costed(Run(RunInfo("boots"), finished.outcome), CATALOG)


def price() -> int:
    found = CATALOG.price("g5.xlarge", "on-demand", zone="us-east-1a")
    assert found.micros_per_hour  # type: ignore[union-attr]
    return found.micros_per_hour  # type: ignore[union-attr]


def test_a_boot_is_billed_as_nobodys(tmp_path: Path) -> None:
    run = bill(tmp_path, "6m", "2h")
    figures = cost_figures(run)
    assert figures.booting_micros == kinds(run)["booting"] == price() // 10
    assert round(figures.booting_gpu_hours, 6) == 0.1
    lines = {line.key[0]: line.owed for line in breakdown(run, ["team"]).lines}
    assert lines[BOOT_OWNER] == price() // 10 and lines["a"] > 0
    # It can be laid on those who had the machine.
    shared = breakdown(run, ["team"], [Shared("booting")])
    assert all(line.owed == 0 for line in shared.lines if line.key == (BOOT_OWNER,))
    assert shared.total_micros == sum(lines.values())


def test_a_machine_that_is_still_booting_at_the_end_costs_what_it_cost_so_far(tmp_path: Path) -> None:
    run = bill(tmp_path, "1h", "10m")
    (node,) = run.run.outcome.nodes
    assert node.launched_us is not None
    so_far_us = run.run.outcome.ended_us - node.launched_us
    assert 0 < so_far_us <= 600_000_000
    assert run.metered.ledger.total == price() * so_far_us // 3_600_000_000 == kinds(run)["booting"]


def test_machines_that_never_join_are_paid_for_until_they_are_given_up(tmp_path: Path) -> None:
    run = bill(tmp_path, "2h", "1h")
    lives = sorted(run.run.outcome.nodes, key=lambda n: n.launched_us or 0)
    assert len(lives) > 1 and all(n.lifetime_us == 0 for n in lives)
    # Given up by the first loop after fifteen minutes.
    first = lives[0].created_us - (lives[0].launched_us or 0)
    assert 900_000_000 <= first <= 911_000_000
    assert kinds(run)["booting"] == run.metered.ledger.total > 0
