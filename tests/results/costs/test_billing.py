"""A run becomes machines, stays and owners; whole GPUs come out of slices, shares and failures."""

from __future__ import annotations

import pytest
from costworld import CATALOG, H100_AT_40, bill, with_prices

from fairway.metering.bill import Basis, Measure
from fairway.metering.cells import HOUR_US
from fairway.metering.split import SplitRule
from fairway.results.billing import metered
from fairway.results.costs.costing import CostRules
from fairway.results.costs.figures import cost_figures, kinds
from recorded import Recorded

DOLLAR = 1_000_000


def node(world: Recorded, name: str, offers: dict[str, str], labels: dict[str, str]) -> None:
    """A node with any resources."""
    whole = {"cpu": "96", "memory": "1152Gi", "pods": "110", **offers}
    world.store.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"capacity": whole, "allocatable": whole},
        }
    )


def pod(world: Recorded, name: str, asks: dict[str, str], **annotations: str) -> None:
    world.store.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "a",
                "annotations": {f"fairway.dev/{k.replace('_', '-')}": v for k, v in annotations.items()},
            },
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i", "resources": {"requests": asks, "limits": asks}}],
            },
            "status": {"phase": "Pending"},
        }
    )


TYPE = "node.kubernetes.io/instance-type"
A100 = {TYPE: "p4d.24xlarge", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
# Name → (what the node offers, its labels, what the pod asks for, GPUs of the machine, GPUs held).
PARTS = {
    "whole GPUs": ({"nvidia.com/gpu": "8"}, A100, {"nvidia.com/gpu": "2"}, 8, 2.0),
    "a machine has the GPUs it is sold with": (
        {"nvidia.com/gpu": "3"},
        A100,
        {"nvidia.com/gpu": "3"},
        8,
        3.0,
    ),
    "MIG slices are sevenths": (
        {"nvidia.com/mig-1g.5gb": "56"},
        A100,
        {"nvidia.com/mig-1g.5gb": "2"},
        8,
        2 / 7,
    ),
    "a layout that leaves slices unused": (
        {"nvidia.com/mig-3g.20gb": "2"},
        {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "1"},
        {"nvidia.com/mig-3g.20gb": "1"},
        1,
        3 / 7,
    ),
    "instances under the single strategy": (
        {"nvidia.com/gpu": "2"},
        {
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb",
            "nvidia.com/mig.strategy": "single",
            "nvidia.com/gpu.count": "2",
        },
        {"nvidia.com/gpu": "1"},
        1,
        3 / 7,
    ),
    "time slices": (
        {"nvidia.com/gpu": "4"},
        {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "Tesla-T4"},
        {"nvidia.com/gpu": "1"},
        1,
        0.25,
    ),
    "thousandths": (
        {"nvidia.com/gpu": "2", "fairway.dev/gpu-milli": "2000"},
        {},
        {"fairway.dev/gpu-milli": "460"},
        2,
        0.46,
    ),
    "no GPU at all": ({}, {}, {"cpu": "1"}, 0, 0.0),
}


@pytest.mark.parametrize(("offers", "labels", "asks", "there", "held"), PARTS.values(), ids=PARTS)
def test_parts_come_to_whole_gpus(
    offers: dict[str, str], labels: dict[str, str], asks: dict[str, str], there: int, held: float
) -> None:
    world = Recorded()
    node(world, "n", offers, labels)
    pod(world, "p", asks)
    world.at(1).bind("p", "n").at(3600)
    found = metered(world.outcome(), CATALOG)
    assert found.ledger.machines.gpus.tolist() == [there]
    assert found.stays.gpus.tolist() == [pytest.approx(held)]


def test_gpus_that_fail_were_there_and_are_paid_for() -> None:
    world = Recorded()
    node(world, "n", {"nvidia.com/gpu": "4"}, {})
    world.at(1800)
    from fairway.kube.objects import Key

    world.store.patch(Key("Node", "", "n"), {"status": {"allocatable": {"nvidia.com/gpu": "1"}}})
    outcome = world.at(3600).outcome()
    assert outcome.nodes[0].gpu_milli == 4000
    assert outcome.nodes[0].devices == {"nvidia.com/gpu": "4"}
    assert outcome.nodes[0].capacity_gpu_milli_us == (4000 + 1000) * HOUR_US // 2
    assert metered(outcome, CATALOG).ledger.machines.gpus.tolist() == [4.0]


def test_what_a_node_keeps_for_itself_is_the_systems() -> None:
    world = Recorded()
    world.store.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n", "labels": {TYPE: "p4d.24xlarge"}},
            "spec": {},
            "status": {
                "capacity": {"cpu": "96", "memory": "1152Gi"},
                "allocatable": {"cpu": "90", "memory": "1100Gi"},
            },
        }
    )
    run = bill(world.at(3600))
    row = run.run.outcome.nodes[0]
    assert (row.system_cpu_milli, row.system_memory_bytes) == (6000, 52 * 2**30)
    assert kinds(run)["system"] == pytest.approx(6 * 31_611 + 52 * 4_237, abs=2)


def test_a_pod_that_holds_80_gb_and_uses_30_of_a_40_dollar_gpu_wastes_25_dollars_an_hour() -> None:
    # The guide's figure, from an annotation of a pod to the bill.
    world = Recorded()
    node(world, "n", {"nvidia.com/gpu": "1"}, {TYPE: "one-h100"})
    pod(world, "p", {"nvidia.com/gpu": "1"}, gpu_memory="30Gi")
    world.bind("p", "n").run("p").at(3600)
    rules = CostRules(Basis.USAGE, Measure.MEMORY, SplitRule.GPU)
    run = bill(world, rules, with_prices(H100_AT_40))
    figures = cost_figures(run)
    assert figures.total_micros == 40 * DOLLAR
    # The guide counts 80 GB as 80 GiB would be; the model has 81,559 MiB, and 30 of them leave $24.93 unused.
    assert figures.unused_micros == pytest.approx(25 * DOLLAR, rel=0.005)
    assert kinds(run)["allocated-unused"] == figures.unused_micros
    assert figures.told_share == 1.0


def test_use_is_weighted_by_time_and_begins_with_the_pod() -> None:
    world = Recorded()
    node(world, "n", {"nvidia.com/gpu": "2"}, A100)
    pod(world, "p", {"nvidia.com/gpu": "2"}, gpu_memory="0s:10Gi,10m:20Gi", gpu_utilization="50%")
    world.bind("p", "n").at(600).run("p").at(2400).succeed("p").at(3600)
    row = world.outcome().intervals[0]
    # Ten minutes nothing, ten minutes 10 GiB on each of two GPUs, twenty minutes 20 GiB.
    assert row.used_gpu_memory_bytes == (0 * 10 + 20 * 10 + 40 * 20) * 2**30 // 40
    assert row.used_gpu_milli_us == 1000 * 1800 * 1_000_000
    stays = metered(world.outcome(), CATALOG).stays
    assert stays.used_sm.tolist() == [pytest.approx(0.5 * 1800 / 2400)]


def test_the_word_for_spot_of_every_cloud() -> None:
    world = Recorded()
    for name, key, value in (
        ("a", "karpenter.sh/capacity-type", "spot"),
        ("b", "eks.amazonaws.com/capacityType", "SPOT"),
        ("c", "cloud.google.com/gke-spot", "true"),
        ("d", "kubernetes.azure.com/scalesetpriority", "spot"),
        ("e", "eks.amazonaws.com/capacityType", "ON_DEMAND"),
    ):
        node(world, name, {}, {key: value, TYPE: "p4d.24xlarge"})
    machines = metered(world.at(60).outcome(), CATALOG).ledger.machines
    assert machines.capacity_types == ("spot", "spot", "spot", "spot", "on-demand")
