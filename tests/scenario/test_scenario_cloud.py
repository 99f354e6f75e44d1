"""The `cloud:` section: what is wrong with it is said with file, line and what is expected."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from fairway.errors import InvalidInput
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.scenario.loading import load_scenario

HEAD = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: cloudy}
spec:
"""
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - REQUIREMENT
"""
SPOT = "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}"


def written(tmp_path: Path, cloud: str, requirement: str = SPOT) -> Path:
    (tmp_path / "pool.yaml").write_text(POOL.replace("REQUIREMENT", requirement), encoding="utf-8")
    (tmp_path / "scenario.yaml").write_text(HEAD + cloud + "  manifests: [pool.yaml]\n", encoding="utf-8")
    return tmp_path


# name → (the section, a requirement of the NodePool, the place, words)
CASES: dict[str, tuple[str, str, str, str]] = {
    "an unknown instance type in a NodePool": (
        "",
        "{key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarg]}",
        "pool.yaml:9: spec.template.spec.requirements[0].values[0]",
        "did you mean g5.xlarge",
    ),
    "a NodePool that can match nothing": (
        "",
        "{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ['5000']}",
        "pool.yaml:8: spec.template.spec.requirements",
        "this NodePool can match nothing: no instance type meets these requirements",
    ),
    "a NodePool whose types nobody offers so": (
        "  cloud: {instanceTypes: [p5en.48xlarge]}\n",
        SPOT,
        "pool.yaml:8: spec.template.spec.requirements",
        "this NodePool can match nothing",
    ),
    "a field nobody knows": (
        "  cloud: {provder: aws}\n",
        SPOT,
        "scenario.yaml:5: spec.cloud.provder",
        "provider",
    ),
    "a region nobody knows": (
        "  cloud: {regions: [us-east-7]}\n",
        SPOT,
        "scenario.yaml:5: spec.cloud.regions[0]",
        "did you mean us-east-2",
    ),
    "a pattern that names no type": (
        "  cloud: {instanceTypes: [h100.*]}\n",
        SPOT,
        "scenario.yaml:5: spec.cloud.instanceTypes",
        "no instance type of this provider",
    ),
    "a price book that is not there": (
        "  cloud: {prices: [nope.yaml]}\n",
        SPOT,
        "scenario.yaml:5: spec.cloud.prices[0]",
        "no such file or directory",
    ),
    "a stock that ends before it begins": (
        "  cloud: {stock: [{from: 2h, until: 1h}]}\n",
        SPOT,
        "scenario.yaml:5: spec.cloud.stock[0].until",
        "expected a time after",
    ),
    "an interruption without a rate": (
        "  cloud: {interruptions: [{zones: [us-east-1a]}]}\n",
        SPOT,
        "scenario.yaml:5: spec.cloud.interruptions[0]",
        "expected one of meanTimeBetween",
    ),
    "a group of more than its maximum": (
        "  cloud: {nodeGroups: [{name: a, instanceType: g5.xlarge, min: 3, max: 2}]}\n",
        SPOT,
        "scenario.yaml:5: spec.cloud.nodeGroups[0].min",
        "expected at most max, 2",
    ),
    "a group in a zone without a price": (
        "  cloud: {nodeGroups: [{name: a, instanceType: g5.xlarge, zone: mars, max: 2}]}\n",
        SPOT,
        "scenario.yaml:5: spec.cloud.nodeGroups[0].zone",
        "is offered and priced in us-east-1a",
    ),
    "an autoscaler without groups": (
        "  cloud: {autoscaler: {expander: random}}\n",
        SPOT,
        "scenario.yaml:5: spec.cloud.autoscaler",
        "the autoscaler has nothing to grow",
    ),
    "an expander nobody knows": (
        "  cloud: {nodeGroups: [{name: a, instanceType: g5.xlarge, max: 2}], autoscaler: {expander: cheapest}}\n",
        SPOT,
        "scenario.yaml:5: spec.cloud.autoscaler.expander",
        "least-waste",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_said_at_its_place(name: str, tmp_path: Path) -> None:
    cloud, requirement, place, words = CASES[name]
    with pytest.raises(InvalidInput) as caught:
        load_scenario(written(tmp_path, cloud, requirement))
    said = [str(p).replace(f"{tmp_path}/", "") for p in caught.value.problems]
    assert len(said) == 1, said
    assert said[0].startswith(place), said
    assert words in said[0]


def test_node_pools_alone_are_enough(tmp_path: Path) -> None:
    plan = load_scenario(written(tmp_path, "")).cloud
    assert plan is not None
    assert (plan.provider, plan.market.notice_us) == ("aws", 2 * MINUTE_US)
    assert {o.zone[:9] for t in plan.cloud.types for o in t.offerings} == {"us-east-1"}


def test_the_cloud_says_how_long_a_machine_takes_and_how_soon_it_goes(tmp_path: Path) -> None:
    section = "  cloud: {provider: gcp, bootTime: {'a2-*': 4m, default: 30s}}\n"
    wish = "{key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}"
    plan = load_scenario(written(tmp_path, section, wish)).cloud
    assert plan is not None
    assert plan.market.notice_us == 30 * SECOND_US
    boots = [plan.cloud.boot_of(t).a_us for t in ("a2-highgpu-8g", "n2-standard-4")]
    assert boots == [4 * MINUTE_US, 30 * SECOND_US]


def test_a_cloud_travels_to_the_processes_that_repeat_a_scenario(tmp_path: Path) -> None:
    scenario = load_scenario(written(tmp_path, "  cloud: {provider: aws, regions: [us-east-1]}\n"))
    assert scenario.cloud is not None
    assert pickle.loads(pickle.dumps(scenario.cloud)) == scenario.cloud
