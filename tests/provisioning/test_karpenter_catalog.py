"""The catalogue as a cloud, type by type; every problem of a NodePool by its place, and how often it is said."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fairway.catalog.catalog import Catalog, catalog_of, load_catalog
from fairway.kube.manifest import read_text
from fairway.provisioning.karpenter.instancetypes import Offering, types_of_catalog
from fairway.provisioning.karpenter.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, REGION, ZONE
from fairway.provisioning.karpenter.nodepoolchecks import problems_of
from fairway.provisioning.karpenter.requirements import Requirements

GIB = 2**30


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def _labels(of: Requirements, prefix: str) -> dict[str, list[str]]:
    return {r.key.removeprefix(prefix): r.sorted_values() for r in of}


def test_a_machine_with_gpus_and_one_without(catalog: Catalog) -> None:
    types = {t.name: t for t in types_of_catalog(catalog, provider="aws", regions=["eu-west-1"])}
    gpus, plain = types["p4d.24xlarge"], types["m5.large"]
    zones = [f"eu-west-1{z}" for z in "abc"]
    of_all = {OS: ["linux"], ARCH: ["amd64"], ZONE: zones, REGION: ["eu-west-1"]}
    assert _labels(gpus.requirements, "karpenter.k8s.aws/instance-") == {
        **of_all,
        INSTANCE_TYPE: ["p4d.24xlarge"],
        CAPACITY_TYPE: ["on-demand", "spot"],
        "family": ["p4d"],
        "size": ["24xlarge"],
        "category": ["p"],
        "generation": ["4"],
        "cpu": ["96"],
        "memory": ["1179648"],
        "gpu-count": ["8"],
        "gpu-manufacturer": ["nvidia"],
        "gpu-name": ["a100"],
        "gpu-memory": ["40960"],
    }
    assert gpus.offerings == tuple(
        Offering(zone, kind, price)
        for zone in zones
        for kind, price in (("on-demand", 32_770_000), ("spot", 12_500_000))
    )
    assert gpus.capacity == {
        "cpu": 96_000,
        "memory": 1152 * GIB,
        "ephemeral-storage": 20 * GIB,
        "pods": 110,
        "nvidia.com/gpu": 8,
    }
    assert gpus.allocatable["ephemeral-storage"] == 17 * GIB
    none = {f"gpu-{name}": [] for name in ("count", "manufacturer", "name", "memory")}
    assert _labels(plain.requirements, "karpenter.k8s.aws/instance-") == {
        **of_all,
        INSTANCE_TYPE: ["m5.large"],
        CAPACITY_TYPE: ["on-demand"],
        "family": ["m5"],
        "size": ["large"],
        "category": ["m"],
        "generation": ["5"],
        "cpu": ["2"],
        "memory": ["8192"],
        **none,
    }
    assert plain.capacity == {"cpu": 2000, "memory": 8 * GIB, "ephemeral-storage": 20 * GIB, "pods": 110}
    assert (plain.price_of("eu-west-1a", "on-demand"), plain.price_of("eu-west-1a", "spot")) == (96_000, None)
    assert plain.price_of("us-east-1a", "on-demand") is None


def test_which_types_a_cloud_has(catalog: Catalog) -> None:
    """All of its providers; of one that is named; where it is in the regions that are named, and there alone."""
    every = catalog.instance_types()
    assert [t.name for t in types_of_catalog(catalog)] == [t.name for t in every]
    for provider in ("aws", "gcp", "azure"):
        own = types_of_catalog(catalog, provider=provider)
        assert [t.name for t in own] == [t.name for t in every if t.provider == provider]
        for kind in own:
            for zone in kind.requirements.get(ZONE).values:
                assert catalog.region_of(zone) in kind.requirements.get(REGION).values
    regions = ["eu-west-1", "ap-northeast-1"]
    some = types_of_catalog(catalog, regions=regions)
    assert [t.name for t in some] == [t.name for t in every if {*regions} & {*t.regions}]
    assert len(some) < len(every)
    assert {catalog.region_of(o.zone) for t in some for o in t.offerings} == {*regions}
    out = ("p4d.24xlarge", "eu-west-1b", "spot")
    [of] = [t for t in types_of_catalog(catalog, unavailable=frozenset({out})) if t.name == out[0]]
    assert [(o.zone, o.capacity_type) for o in of.offerings if not o.available] == [out[1:]]


def test_a_machine_of_ones_own_has_our_labels() -> None:
    made = catalog_of(
        read_text(
            """apiVersion: fairway.dev/v1alpha1
kind: InstanceCatalog
metadata: {name: boxes}
spec:
  provider: ours
  regions: {berlin: [rack-1]}
  types:
  - {name: box, family: dgx, cpu: 8, memory: 64, gpu: A100-SXM4-40GB, gpus: 2}
---
apiVersion: fairway.dev/v1alpha1
kind: PriceBook
metadata: {name: ours}
spec:
  currency: USD
  unit: instance-hour
  prices:
  - {instanceType: box, onDemand: 3.0, until: "2026-05-01T12:00:00Z"}
  - {instanceType: box, onDemand: 4.0, from: "2026-05-01T12:00:00Z"}
""",
            "box.yaml",
        )
    )
    (box,) = [t for t in types_of_catalog(made, at_us=0) if t.name == "box"]
    assert [(o.zone, o.capacity_type, o.price) for o in box.offerings] == [("rack-1", "on-demand", 3_000_000)]
    (box,) = [t for t in types_of_catalog(made, at_us=2 * 10**15) if t.name == "box"]
    assert [o.price for o in box.offerings] == [4_000_000]
    own = _labels(box.requirements, "fairway.dev/instance-")
    assert (own["cpu"], own["memory"], own["gpu-count"], own["gpu-memory"]) == (
        ["8"],
        ["65536"],
        ["2"],
        ["40960"],
    )


# Problems


def _pool(**spec: Any) -> dict[str, Any]:
    template: dict[str, Any] = {
        "requirements": [],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
    }
    template |= spec.pop("of_node", {})
    metadata = spec.pop("metadata", {})
    return {
        "apiVersion": spec.pop("api", "karpenter.sh/v1"),
        "kind": "NodePool",
        "metadata": {"name": "p"},
        "spec": {"template": {"metadata": metadata, "spec": template}, **spec},
    }


def _found(obj: Any) -> list[tuple[str, str]]:
    (manifest,) = read_text(yaml.safe_dump(obj), "p.yaml")
    return [
        (problem.path.removeprefix("spec.template."), problem.expected) for problem in problems_of(manifest)
    ]


NEEDS_INTEGER = "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value"
DURATION = "expected a duration of hours, minutes and seconds such as 720h or 1h30m"


def _asks(*requirements: Any) -> dict[str, Any]:
    return _pool(of_node={"requirements": list(requirements)})


@pytest.mark.parametrize("operator", ["Gt", "Lt", "Gte", "Lte"])
def test_a_bound_is_one_positive_integer(operator: str) -> None:
    for values, is_fine in (
        (["0"], True),
        (["12"], True),
        (["-1"], False),
        (["x"], False),
        (["1", "2"], False),
        ([], False),
    ):
        found = _found(_asks({"key": "k", "operator": operator, "values": values}))
        wrong = [(path, text) for path, text in found if text == NEEDS_INTEGER]
        assert wrong == ([] if is_fine else [("spec.requirements[0]", NEEDS_INTEGER)]), values


def test_every_problem_of_a_requirement_by_its_place() -> None:
    found = _found(
        _asks(
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["cheap", "dear"]},
            {"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["cheap"]},
            {"key": "k", "operator": "In", "values": ["a"], "minValues": 2},
            {"key": "k", "operator": "In", "values": ["a", "b"], "minValues": 2},
            {"key": "k", "operator": "In", "values": []},
            {"key": "k", "operator": "NotIn", "values": ["a"], "minValues": 3},
            {"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        )
    )
    assert found == [
        (
            "spec.requirements[0].values",
            "no valid values found in ['cheap', 'dear'] for karpenter.sh/capacity-type, expected one of: "
            "[on-demand reserved spot]",
        ),
        (
            "spec.requirements[2]",
            "requirements with 'minValues' must have at least that many values specified in the 'values' field",
        ),
        ("spec.requirements[4]", "requirements with operator 'In' must have a value defined"),
    ]
    for least, is_fine in ((1, True), (50, True), (51, False), (0, False)):
        assert (_found(_asks({"key": "k", "operator": "Exists", "minValues": least})) == []) is is_fine
    [(path, _)] = _found(_asks({"key": "karpenter.sh/nodepool", "operator": "Exists"}))
    assert path == "spec.requirements[0].key"


def test_durations_weights_and_sizes() -> None:
    never = f"{DURATION} or Never"
    for of_node, want in (
        ({"expireAfter": "Never", "terminationGracePeriod": "1h30m"}, []),
        ({"terminationGracePeriod": "Never"}, [("spec.terminationGracePeriod", DURATION)]),
        ({"expireAfter": "never"}, [("spec.expireAfter", never)]),
        ({"expireAfter": 5}, [("spec.expireAfter", never)]),
    ):
        assert _found(_pool(of_node=of_node)) == want
    for spec, paths in (
        ({"weight": 1}, []),
        ({"weight": 100}, []),
        ({"weight": 0}, ["spec.weight"]),
        ({"weight": 101}, ["spec.weight"]),
        ({"replicas": 0}, []),
        ({"replicas": -1}, ["spec.replicas"]),
        ({"replicas": 1, "weight": 1}, ["spec.weight"]),
        ({"replicas": 1, "limits": {"nodes": 3}}, []),
        ({"replicas": 1, "limits": {"nodes": 3, "cpu": 1}}, ["spec.limits"]),
        ({"limits": {"cpu": "x"}}, ["spec.limits[cpu]"]),
        ({"disruption": {"consolidateAfter": "Never"}}, []),
        ({"disruption": {"consolidateAfter": "x"}}, ["spec.disruption.consolidateAfter"]),
        ({"disruption": {"expireAfter": "1h"}}, ["spec.disruption.expireAfter"]),
        (
            {"disruption": {"consolidationPolicy": "WhenUnderutilized"}},
            ["spec.disruption.consolidationPolicy"],
        ),
        ({"disruption": {"consolidationPolicy": "Balanced"}}, []),
    ):
        assert [path for path, _ in _found(_pool(**spec))] == paths, spec


def test_budgets_and_taints() -> None:
    for budget, fields in (
        ({"nodes": "0%"}, []),
        ({"nodes": "99%"}, []),
        ({"nodes": "100%"}, []),
        ({"nodes": "101%"}, ["nodes"]),
        ({"nodes": 250}, []),
        ({"nodes": "-1"}, ["nodes"]),
        ({"nodes": "1", "duration": "1h"}, [""]),
        ({"nodes": "1", "schedule": "@daily"}, [""]),
        ({"nodes": "1", "schedule": "@daily", "duration": "10m"}, []),
        ({"nodes": "1", "schedule": "* * *", "duration": "10m"}, ["schedule"]),
        ({"nodes": "1", "schedule": "@daily", "duration": "10s"}, ["duration"]),
        ({"nodes": "1", "reasons": ["Empty", "Bored", "Drifted"]}, ["reasons[1]"]),
        ({}, []),
    ):
        paths = [path for path, _ in _found(_pool(disruption={"budgets": [{"nodes": "5"}, budget]}))]
        assert paths == [f"spec.disruption.budgets[1]{'.' if name else ''}{name}" for name in fields], budget
    taints = [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "a", "value": "x", "effect": "NoExecute"},
        {"key": "b"},
    ]
    assert _found(_pool(of_node={"taints": taints, "startupTaints": [{"key": "c", "effect": ""}]})) == []
    found = _found(
        _pool(of_node={"taints": taints, "startupTaints": [taints[0], {"key": "c", "effect": "Odd"}]})
    )
    assert found == [
        ("spec.startupTaints[0]", "duplicate taint Key/Effect pair a=NoSchedule"),
        ("spec.startupTaints[1].effect", 'invalid value: "Odd" in startupTaints'),
    ]


def test_labels_and_the_old_version() -> None:
    assert _found(_pool(metadata={"labels": {"a/b": "c", ZONE: "z"}, "annotations": {"n": "1"}})) == []
    for labels in (
        {"karpenter.sh/nodepool": "x"},
        {"kubernetes.io/hostname": "x"},
        {"sub.karpenter.sh/y": "x"},
    ):
        [(key, _)] = labels.items()
        [(path, text)] = _found(_pool(metadata={"labels": labels}))
        assert path == f"metadata.labels[{key}]"
        assert text.startswith(f'invalid key name "{key}" in labels, ')
    assert [path for path, _ in _found(_pool(metadata={"annotations": {"note": {}}}))] == [
        "metadata.annotations[note]"
    ]
    beta = {"api": "karpenter.sh/v1beta1"}
    reference = {
        "nodeClassRef": {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "d"}
    }
    old = {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "1h"}
    assert _found(_pool(**beta, of_node={**reference, "kubelet": {"maxPods": 1}}, disruption=old)) == []
    assert [path for path, _ in _found(_pool(**beta, disruption={"expireAfter": "x"}))] == [
        "spec.disruption.expireAfter"
    ]
    assert [path for path, _ in _found(_pool(of_node={"kubelet": {}}))] == ["spec.kubelet"]
    assert [path for path, _ in _found(_pool(of_node=reference))] == [
        "spec.nodeClassRef.apiVersion",
        "spec.nodeClassRef.group",
    ]
    assert [path for path, _ in _found(_pool(**beta, of_node={"nodeClassRef": {"kind": "K"}}))] == [
        "spec.nodeClassRef.name"
    ]
