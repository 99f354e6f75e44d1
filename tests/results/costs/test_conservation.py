"""Sum of all owners and of nobody = nodes' price × time, to the micro-dollar: in every scenario, whatever breaks."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from costworld import CATALOG, simulated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.catalog.prices import Price
from fairway.metering.bill import Basis, Measure
from fairway.metering.split import SplitRule
from fairway.results.costs.breakdown import breakdown
from fairway.results.costs.costing import Costed, CostRules, costed
from fairway.results.costs.figures import kinds
from fairway.results.costs.showback import showback, trend
from fairway.results.run import Run
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario

EXAMPLES = Path(__file__).parents[3] / "examples"
HOUR = 3_600_000_000

FAULTY = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {{name: faulty}}
spec:
  seed: {seed}
  startTime: 2026-01-31T{hour:02}:17:31Z
  duration: 9h
  nodes:
  - {{name: "od-{{i}}", count: {on_demand}, instanceType: p4d.24xlarge, zones: [us-east-1a, us-east-1b],
     capacity: {{cpu: 96, memory: 1152Gi, nvidia.com/gpu: 8}}, reserved: {{cpu: 2, memory: 32Gi}}}}
  - {{name: "spot-{{i}}", count: {spot}, instanceType: g5.xlarge, labels: {{karpenter.sh/capacity-type: spot}},
     capacity: {{cpu: 4, memory: 16Gi, nvidia.com/gpu: 1}}}}
  - {{name: "own-{{i}}", count: 1, capacity: {{cpu: 16, memory: 64Gi, nvidia.com/gpu: 2}}}}
  faults:
  - {{kind: NodeFailure, meanTimeBetween: {failure}, repairTime: 40m}}
  - {{kind: SpotPreemption, after: "exponential(2h)", warning: 2m, replaceAfter: 13m,
     selector: karpenter.sh/capacity-type=spot}}
  traces:
  - generate: {{rate: {rate}/h, duration: 7h, namespaces: {{a: 2, b: 1}}}}
"""


def exact_price(run: Run) -> int:
    """µ$ of all machines by an independent reckoning in integers: price × time, rounded down, of boots and lives."""
    total = 0
    for node in run.outcome.nodes:
        spot = node.labels.get("karpenter.sh/capacity-type", "on-demand")
        found = CATALOG.price(
            node.instance_type, spot, zone=node.labels.get("topology.kubernetes.io/zone", "")
        )
        if isinstance(found, Price):
            end_us = run.outcome.ended_us if node.deleted_us is None else node.deleted_us
            launched_us = node.created_us if node.launched_us is None else node.launched_us
            boots_us, lives_us = node.created_us - launched_us, end_us - node.created_us
            total += found.micros_per_hour * boots_us // HOUR + found.micros_per_hour * lives_us // HOUR
    return total


def check(run: Run, rules: CostRules) -> Costed:
    found = costed(run, CATALOG, rules)
    found.metered.ledger.check()
    expected = exact_price(run)
    assert found.metered.ledger.total == expected
    assert found.bill["micros"].sum() == expected
    assert sum(kinds(found).values()) == expected
    for by in (("namespace",), ("workload", "kind"), ("machine",), ("capacity_type", "gpu_model")):
        assert breakdown(found, by).total_micros == expected
    assert sum(month.total_micros for month in showback(found, "namespace")) == expected
    over_time = trend(found, "namespace")
    assert over_time is None or sum(map(sum, over_time.values)) == expected
    return found


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10**6),
    hour=st.integers(0, 23),
    on_demand=st.integers(1, 3),
    spot=st.integers(1, 3),
    failure=st.sampled_from(["90m", "5h"]),
    rate=st.sampled_from([5, 25]),
    basis=st.sampled_from(Basis),
    split=st.sampled_from(SplitRule),
)
def test_whatever_fails_every_dollar_is_owed_once(
    seed: int, hour: int, on_demand: int, spot: int, failure: str, rate: int, basis: Basis, split: SplitRule
) -> None:
    text = FAULTY.format(seed=seed, hour=hour, on_demand=on_demand, spot=spot, failure=failure, rate=rate)
    with tempfile.TemporaryDirectory() as folder:
        run = simulated(text, Path(folder))
    assert len(run.outcome.intervals)
    check(run, CostRules(basis, Measure.SM, split))


@pytest.mark.parametrize(
    "name", ["01-two-teams", "05-node-failure-checkpoints", "10-showback", "11-spot-exercise"]
)
def test_every_dollar_of_the_examples_is_owed_once(name: str) -> None:
    finished = run_scenario(load_scenario(EXAMPLES / name))
    from fairway.results.run import RunInfo

    check(Run(RunInfo(name), finished.outcome), CostRules())
