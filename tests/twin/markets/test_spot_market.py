"""Spot capacity that is taken back: notices, what is done about them, what is lost, and what comes instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.errors import InvalidInput
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import Finished, run_scenario
from fairway.twin.distributions import constant
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.markets.component import SpotMarket
from fairway.twin.markets.plan import NOTICE_US, Hazard, Interruption, Market
from fairway.twin.markets.recorded import read_interruptions

HEAD = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: market}
spec:
  latency: zero
  seed: 5
  cloud:
    provider: aws
    regions: [us-east-1]
    instanceTypes: [g5.xlarge]
    bootTime: 60s
"""
WORK = """\
  manifests:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: default}
      spec:
        template:
          spec:
            nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
            requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [CAPACITY]}]
        disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m, budgets: [{nodes: 100%}]}
    - apiVersion: batch/v1
      kind: Job
      metadata: {name: train, namespace: default}
      spec:
        backoffLimit: 20
        template:
          metadata: {annotations: {fairway.dev/run-time: 2h, fairway.dev/checkpoint-interval: 10m}}
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 10
            containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def played(tmp_path: Path, cloud: str, capacity: str = "spot", csv: str = "") -> Finished:
    (tmp_path / "scenario.yaml").write_text(
        HEAD + cloud + WORK.replace("CAPACITY", capacity), encoding="utf-8"
    )
    (tmp_path / "series.csv").write_text(csv, encoding="utf-8")
    return run_scenario(load_scenario(tmp_path))


def market_of(finished: Finished) -> SpotMarket:
    part = finished.twin.host.parts["market"]
    assert isinstance(part, SpotMarket)
    return part


def reasons(finished: Finished) -> list[str]:
    return [t.reason for t in finished.twin.host.events.told() if t.component == "karpenter"]


SERIES = "  \n    interruptions: [{series: series.csv}]\n"


def test_a_recorded_interruption_costs_what_was_not_checkpointed_and_the_job_resumes(tmp_path: Path) -> None:
    finished = played(tmp_path, SERIES, csv="time,instance_type,zone,count\n65m,g5.*,,\n")
    kubelet = finished.twin.host.parts["kubelet"]
    assert isinstance(kubelet, Kubelet)
    totals = kubelet.progress.totals
    assert (market_of(finished).taken, totals.resumed) == (1, 1)
    # Work began after a boot; each ten minutes of it are safe.
    assert 0 < totals.lost_us <= 10 * 60 * 1_000_000
    assert totals.useful_us == 2 * 3600 * 1_000_000
    assert len(finished.outcome.nodes.columns["name"]) == 2
    assert reasons(finished).count("SpotInterrupted") == 2  # about the claim and about the node
    assert finished.twin.store.objects("Node") == []


def test_an_offering_that_was_taken_back_is_left_out_for_a_while(tmp_path: Path) -> None:
    finished = played(tmp_path, SERIES, csv="time\n65m\n")
    zones = [labels["topology.kubernetes.io/zone"] for labels in finished.outcome.nodes.columns["labels"]]
    assert zones[0] != zones[1]


def test_on_demand_machines_are_never_taken_back(tmp_path: Path) -> None:
    finished = played(tmp_path, "    interruptions: [{after: 30m}]\n", capacity="on-demand")
    assert market_of(finished).taken == 0
    assert len(finished.outcome.nodes.columns["name"]) == 1


def test_a_hazard_strikes_every_machine_until_the_work_is_done(tmp_path: Path) -> None:
    finished = played(tmp_path, "    interruptions: [{after: 45m}]\n")
    # 40 minutes are safe each time: three machines lose five minutes or less, the fourth finishes.
    assert market_of(finished).taken >= 2
    jobs = finished.twin.store.objects("Job.batch")
    assert [j["status"].get("succeeded") for j in jobs] == [1]


def test_a_rebalance_hint_comes_before_and_is_told_only(tmp_path: Path) -> None:
    finished = played(tmp_path, "    interruptions: [{after: 3h}]\n    rebalanceHint: 150m\n")
    assert "SpotRebalanceRecommendation" in reasons(finished)
    assert market_of(finished).taken == 0  # done and gone before three hours


def test_without_karpenter_the_kubelet_shuts_down_within_the_notice(tmp_path: Path) -> None:
    nodes = (
        '  nodes: [{name: "n-{i}", count: 2, capacity: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 1}, '
        "labels: {karpenter.sh/capacity-type: spot, node.kubernetes.io/instance-type: g5.xlarge}}]\n"
    )
    text = HEAD + "    interruptions: [{series: series.csv}]\n" + nodes
    job = WORK[WORK.index("    - apiVersion: batch/v1") :]
    (tmp_path / "scenario.yaml").write_text(text + "  manifests:\n" + job, encoding="utf-8")
    (tmp_path / "series.csv").write_text("time,count\n1h,1\n", encoding="utf-8")
    finished = run_scenario(load_scenario(tmp_path))
    assert market_of(finished).taken == 1
    assert len(finished.twin.store.objects("Node")) == 1
    assert finished.twin.store.objects("Job.batch")[0]["status"].get("succeeded") == 1


def test_a_fork_goes_on_as_the_original(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(
        HEAD + "    interruptions: [{meanTimeBetween: 40m}]\n" + WORK.replace("CAPACITY", "spot"),
        encoding="utf-8",
    )
    twin = build_twin(load_scenario(tmp_path))
    twin.run_for(50 * 60 * 1_000_000)
    fork = twin.fork()
    assert [t.run_for(6 * 3600 * 1_000_000) and t.digest() for t in (twin, fork)] == [twin.digest()] * 2


def test_a_hazard_without_patterns_concerns_everything() -> None:
    market = Market((Hazard("h", constant(5)),), (Interruption(7), Interruption(9)))
    assert market.hazards[0].concerns("p5.48xlarge", "a")


BAD = {
    "no header": ("12,3\n", "expected a header with time"),
    "an unknown column": ("time,zones\n1h,a\n", "expected a header with time"),
    "a time nobody understands": ("time\nsoon\n", "expected a duration since the start"),
    "a count of none": ("time,count\n1h,0\n", "expected a number from 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_series_that_will_not_do_is_said_with_its_line(name: str, tmp_path: Path) -> None:
    text, words = BAD[name]
    file = tmp_path / "series.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=words) as caught:
        read_interruptions(file, 0)
    assert caught.value.problems[0].line > 0


def test_a_series_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read") as caught:
        read_interruptions(tmp_path / "none.csv", 0)
    assert [(p.file, p.line) for p in caught.value.problems] == [(str(tmp_path / "none.csv"), 0)]


def test_a_series_is_in_order_of_time_type_and_zone_and_else_as_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "series.csv"
    file.write_text("time,instance_type,zone,count\n2s,a,,\n1s,b,,\n1s,a,z,9\n1s,a,y,7\n1s,a,y,\n1s,a,y,2\n")
    assert [(i.at_us, i.instance_type, i.zone, i.count) for i in read_interruptions(file, 10)] == [
        *((1_000_010, "a", "y", n) for n in (7, None, 2)),
        (1_000_010, "a", "z", 9),
        (1_000_010, "b", "*", None),
        (2_000_010, "a", "*", None),
    ]


def test_how_long_clouds_give_notice() -> None:
    """Two minutes on EC2, 30 seconds elsewhere."""
    assert {cloud: us / 1_000_000 for cloud, us in NOTICE_US.items()} == {"aws": 120, "gcp": 30, "azure": 30}
    assert Market().notice_us == 120_000_000


def test_karpenter_hears_of_a_notice_and_the_kubelet_goes_on_until_it_is_drained(tmp_path: Path) -> None:
    text = HEAD + SERIES + WORK.replace("CAPACITY", "spot")
    (tmp_path / "scenario.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "series.csv").write_text("time,count\n65m,1\n", encoding="utf-8")
    twin = build_twin(load_scenario(tmp_path))
    twin.run_for(65 * 60 * 1_000_000 + 1)
    nodes = twin.store.objects("Node")
    assert nodes
    ready = [c for n in nodes for c in n["status"]["conditions"] if c["type"] == "Ready"]
    assert [c["status"] for c in ready] == ["True"] * len(nodes), ready
