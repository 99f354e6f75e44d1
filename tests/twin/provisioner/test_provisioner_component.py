"""Nodes come when pods wait and go when they are empty; the whole way through a twin."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Obj, key_of
from fairway.kube.resources import CPU, MEMORY, PODS
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US
from fairway.provisioning.karpenter.instancetypes import GIB, InstanceType, Offering
from fairway.provisioning.karpenter.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    ON_DEMAND,
    OS,
    SPOT,
    ZONE,
)
from fairway.provisioning.karpenter.requirement import one_of
from fairway.provisioning.karpenter.requirements import Requirements
from fairway.twin.distributions import constant
from fairway.twin.faults import preempt_node
from fairway.twin.latency import latency_named
from fairway.twin.provisioner.cloud import Cloud
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

GPU = "nvidia.com/gpu"


def kind(name: str, cpu: int, gpu: int = 0, price: int = 100_000) -> InstanceType:
    offerings = (Offering("z1", SPOT, price // 2), Offering("z1", ON_DEMAND, price))
    labels = {INSTANCE_TYPE: name, ARCH: "amd64", OS: "linux", ZONE: "z1"}
    wanted = [one_of(k, (v,)) for k, v in labels.items()] + [one_of(CAPACITY_TYPE, (SPOT, ON_DEMAND))]
    capacity = {CPU: cpu * 1000, MEMORY: cpu * 4 * GIB, PODS: 110, **({GPU: gpu} if gpu else {})}
    return InstanceType(name, Requirements(wanted), offerings, capacity)


TYPES = (kind("small", 4), kind("large", 16, price=500_000), kind("gpu", 8, gpu=2, price=2_000_000))


def pool(**spec: Any) -> Obj:
    reference = {"group": "example.com", "kind": "NodeClass", "name": "default"}
    of_node = {"requirements": spec.pop("requirements", []), "nodeClassRef": reference}
    disruption = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}], **spec.pop("disruption", {})}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": of_node}, "disruption": disruption, **spec},
    }


def job(name: str, run: str, *, cpu: str = "2", gpu: int = 0, count: int = 1) -> Obj:
    requests = {"cpu": cpu, "memory": "1Gi", **({GPU: str(gpu)} if gpu else {})}
    resources = {"requests": requests, **({"limits": {GPU: str(gpu)}} if gpu else {})}
    template = {
        "metadata": {"annotations": {"fairway.dev/run-time": run}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "resources": resources}],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template, "completions": count, "parallelism": count},
    }


def a_twin(*objects: Obj, cloud: Cloud | None = None) -> Twin:
    components = [*standard_components(), Provisioner(cloud or Cloud(TYPES))]
    twin = Twin(seed=1, latency=latency_named("zero"), components=components)
    twin.apply(objects)
    return twin


def nodes(twin: Twin) -> list[str]:
    return [n["metadata"]["labels"][INSTANCE_TYPE] for n in twin.store.objects("Node")]


def reasons(twin: Twin) -> set[str]:
    return {told.reason for told in twin.host.events.told() if told.component == "karpenter"}


def succeeded(twin: Twin) -> int:
    """Pods of Jobs; those of nodes that are gone are collected, their Jobs know of them."""
    return sum((j.get("status") or {}).get("succeeded") or 0 for j in twin.store.objects("Job.batch"))


def test_nodes_come_run_their_pods_and_go() -> None:
    twin = a_twin(pool(), job("a", "10m", count=3), job("g", "5m", gpu=2))
    twin.run_for(3 * MINUTE_US)
    assert nodes(twin) == ["gpu"]  # first fit: the largest pod's node has room for the others
    assert all((p.get("spec") or {}).get("nodeName") for p in twin.store.objects("Pod"))
    twin.run_for(HOUR_US)
    assert (succeeded(twin), nodes(twin), twin.store.objects("NodeClaim.karpenter.sh")) == (4, [], [])
    assert {"Nominated", "DisruptionTerminating"} <= reasons(twin)


def test_a_node_goes_consolidate_after_and_the_second_look_after_its_last_pod() -> None:
    twin = a_twin(pool(), job("a", "10m"))
    twin.run_for(11 * MINUTE_US)
    assert len(nodes(twin)) == 1
    # At most: the pod's end, 30 s of consolidateAfter, a poll of 10 s, 15 s until it is carried out.
    twin.run_for(70 * SECOND_US)
    assert nodes(twin) == []


def test_a_rest_that_a_pod_prolongs_ends_once_after_the_last_one() -> None:
    twin = a_twin(pool(disruption={"consolidateAfter": "5m"}), job("a", "1m"), job("b", "4m", cpu="1"))
    twin.run_for(4 * MINUTE_US)
    (claim,) = twin.store.objects("NodeClaim.karpenter.sh")

    def is_consolidatable(of: Twin) -> bool:
        conditions = of.store.require(key_of(claim))["status"]["conditions"]
        return any(c["type"] == "Consolidatable" for c in conditions)

    fork = twin.fork()
    for now in (twin, fork):
        while succeeded(now) < 2:
            now.run_for(SECOND_US)
        now.run_for(5 * MINUTE_US - 2 * SECOND_US)
        assert not is_consolidatable(now)  # though five minutes after the first pod are over
        now.run_for(4 * SECOND_US)
        assert is_consolidatable(now)
    assert fork.digest() == twin.digest()


def test_what_fits_nowhere_is_said_and_costs_nothing() -> None:
    twin = a_twin(pool(limits={"cpu": "4"}), job("a", "10m", cpu="12"))
    twin.run_for(HOUR_US)
    assert nodes(twin) == []
    told = [
        t.message
        for t in twin.host.events.told()
        if t.reason == "FailedScheduling" and t.component == "karpenter"
    ]
    assert told and "no instance type has enough resources" in told[0]


def test_a_node_pool_that_can_match_nothing_says_so() -> None:
    wish = [{"key": INSTANCE_TYPE, "operator": "In", "values": ["huge"]}]
    twin = a_twin(pool(requirements=wish), job("a", "10m"))
    twin.run_for(5 * MINUTE_US)
    assert {"NoCompatibleInstanceTypes", "FailedScheduling"} <= reasons(twin)


def test_what_keeps_a_node_from_being_consolidated_is_said() -> None:
    twin = a_twin(pool(), job("a", "30m"))
    twin.run_for(10 * MINUTE_US)
    told = [t for t in twin.host.events.told() if t.reason == "Unconsolidatable"]
    message = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
    # About the node and about its claim, and within a quarter of an hour not again.
    assert {(t.about.gk, t.message, t.times) for t in told} == {
        ("Node", message, 1),
        ("NodeClaim.karpenter.sh", message, 1),
    }


def test_out_of_stock_the_next_best_is_launched() -> None:
    out = frozenset({("small", "z1", SPOT), ("small", "z1", ON_DEMAND)})
    twin = a_twin(pool(), job("a", "10m"), cloud=Cloud(TYPES[:2], out_of_stock=out))
    twin.run_for(5 * MINUTE_US)
    assert nodes(twin) == ["large"]


def test_a_large_node_is_replaced_by_a_smaller_one_when_its_work_shrinks() -> None:
    wish = [{"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]}]
    twin = a_twin(pool(requirements=wish), job("big", "10m", cpu="14"), job("long", "5h", cpu="2"))
    twin.run_for(5 * MINUTE_US)
    assert nodes(twin) == ["large"]
    twin.run_for(20 * MINUTE_US)
    assert nodes(twin) == ["small"]
    (long,) = [p for p in twin.store.objects("Pod") if (p.get("status") or {}).get("phase") == "Running"]
    assert long["metadata"]["labels"]["job-name"] == "long"


def test_spot_nodes_capped_at_four_gpus_take_turns() -> None:
    wish = [{"key": CAPACITY_TYPE, "operator": "In", "values": [SPOT]}]
    capped = pool(requirements=wish, limits={GPU: "4"})
    twin = a_twin(capped, job("g", "10m", gpu=2, count=5))
    most = 0
    for _ in range(120):
        twin.run_for(MINUTE_US)
        most = max(most, len(nodes(twin)))
        assert 2 * len(twin.store.objects("NodeClaim.karpenter.sh")) <= 4
    assert (most, succeeded(twin), nodes(twin)) == (2, 5, [])


@pytest.mark.parametrize("at_us", [30 * SECOND_US, 4 * MINUTE_US])
def test_a_fork_goes_on_as_the_original_would(at_us: int) -> None:
    twin = a_twin(pool(), job("a", "10m", count=5), job("g", "5m", gpu=2, count=2))
    twin.run_for(at_us)
    other = twin.fork()
    twin.run_for(HOUR_US)
    other.run_for(HOUR_US)
    assert twin.host.log.digest() == other.host.log.digest()
    assert nodes(twin) == nodes(other) == []


def test_deleting_a_claim_drains_its_node_and_its_work_goes_elsewhere() -> None:
    twin = a_twin(pool(), job("a", "10m"))
    twin.run_for(3 * MINUTE_US)
    (claim,) = twin.store.objects("NodeClaim.karpenter.sh")
    twin.store.delete(key_of(claim))
    twin.run_for(5 * MINUTE_US)
    (new,) = twin.store.objects("NodeClaim.karpenter.sh")
    assert new["metadata"]["name"] != claim["metadata"]["name"]
    assert [n["metadata"]["name"] for n in twin.store.objects("Node")] == [new["metadata"]["name"]]
    twin.run_for(HOUR_US)
    assert (succeeded(twin), nodes(twin)) == (1, [])


def test_an_instance_that_vanishes_takes_its_claim_along() -> None:
    twin = a_twin(pool(), job("a", "10m"))
    twin.run_for(3 * MINUTE_US)
    (claim,) = twin.store.objects("NodeClaim.karpenter.sh")
    preempt_node(twin, claim["metadata"]["name"], twin.now_us)
    twin.run_for(HOUR_US)
    assert (succeeded(twin), nodes(twin), twin.store.objects("NodeClaim.karpenter.sh")) == (1, [], [])


def two_zones(name: str) -> InstanceType:
    """The cheaper zone is z1: without a reason nobody goes to z2."""
    wanted = [one_of(k, (v,)) for k, v in {INSTANCE_TYPE: name, ARCH: "amd64", OS: "linux"}.items()]
    wanted += [one_of(ZONE, ("z1", "z2")), one_of(CAPACITY_TYPE, (ON_DEMAND,))]
    offerings = (Offering("z1", ON_DEMAND, 100_000), Offering("z2", ON_DEMAND, 200_000))
    return InstanceType(name, Requirements(wanted), offerings, {CPU: 4000, MEMORY: 16 * GIB, PODS: 110})


def claimed(**spec: Any) -> tuple[Obj, Obj]:
    """A pod and the claim it mounts."""
    meta = {"name": "p", "namespace": "default"}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": containers, "volumes": volumes},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**meta, "name": "data"},
        "spec": spec,
    }
    return pod, claim


def disk(zone: str) -> Obj:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}},
    }


def storage(zone: str) -> Obj:
    term = {"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [term],
    }


@pytest.mark.parametrize(
    ("spec", "more", "zone"),
    [
        ({"volumeName": "disk"}, disk("z2"), "z2"),
        ({"storageClassName": "fast"}, storage("z2"), "z2"),
        ({"storageClassName": "fast"}, storage("z1"), "z1"),
    ],
)
def test_a_node_is_opened_where_the_volume_is_or_may_be(spec: Obj, more: Obj, zone: str) -> None:
    twin = a_twin(pool(), more, *claimed(**spec), cloud=Cloud((two_zones("box"),)))
    twin.run_for(3 * MINUTE_US)
    (node,) = twin.store.objects("Node")
    assert node["metadata"]["labels"][ZONE] == zone
    # The pod is bound there, its claim to a volume of the zone.
    (pod,) = twin.store.objects("Pod")
    (claim,) = twin.store.objects("PersistentVolumeClaim")
    assert pod["spec"]["nodeName"] == node["metadata"]["name"]
    (volume,) = twin.store.objects("PersistentVolume")
    assert (volume["metadata"]["name"], claim["status"]["phase"]) == (claim["spec"]["volumeName"], "Bound")
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": ZONE, "operator": "In", "values": [zone]}]


@pytest.mark.parametrize(
    ("spec", "more", "message"),
    [
        (
            {"volumeName": "gone"},
            disk("z1"),
            'failed to validate pvc, persistentvolumes "gone" not found '
            "(PersistentVolumeClaim=default/data, PersistentVolume=gone, StorageClass=)",
        ),
        (
            {},
            storage("z1"),
            "unbound pvc must define a storage class (PersistentVolumeClaim=default/data, StorageClass=)",
        ),
        (
            {"storageClassName": "slow"},
            storage("z1"),
            "failed to validate pvc, failed to get storage class, "
            'storageclasses.storage.k8s.io "slow" not found '
            "(PersistentVolumeClaim=default/data, StorageClass=slow)",
        ),
    ],
)
def test_pods_whose_claims_are_not_in_order_open_nothing_and_are_told_why(
    spec: Obj, more: Obj, message: str
) -> None:
    twin = a_twin(pool(), more, *claimed(**spec), cloud=Cloud((two_zones("box"),)))
    twin.run_for(3 * MINUTE_US)
    assert twin.store.objects("Node") == []
    told = {t.message for t in twin.host.events.told() if t.component == "karpenter"}
    assert told == {f"Failed to schedule pod, {message}"}
    # What was missing comes: the pod is looked at again.
    twin.store.create({**disk("z2"), "metadata": {"name": "gone"}})
    twin.wake()
    twin.run_for(3 * MINUTE_US)
    # A claim without a class takes any volume that has none.
    assert len(twin.store.objects("Node")) == (0 if spec.get("storageClassName") else 1)


def guarded(name: str, *, grace_s: int = 30, priority: str = "") -> tuple[Obj, Obj]:
    """A pod that nobody may evict."""
    meta = {"name": name, "namespace": "default", "labels": {"app": name}}
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]
    spec = {"containers": containers, "terminationGracePeriodSeconds": grace_s}
    budget = {"selector": {"matchLabels": {"app": name}}, "maxUnavailable": 0}
    return (
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": budget},
    )


def test_a_budget_holds_a_node_until_its_grace_period_would_not_suffice_for_the_pod() -> None:
    of_claims = {"terminationGracePeriod": "10m"}
    made = pool()
    made["spec"]["template"]["spec"].update(of_claims)
    twin = a_twin(made, *guarded("held", grace_s=120))
    twin.run_for(3 * MINUTE_US)
    (claim,) = twin.store.objects("NodeClaim.karpenter.sh")
    began_us = twin.now_us
    twin.store.delete(key_of(claim))
    twin.wake()
    twin.run_for(7 * MINUTE_US)
    told = {(t.reason, t.message) for t in twin.host.events.told() if t.component == "karpenter"}
    refused = "Failed to drain node, evicting pod violates a PDB (Pod=default/held)"
    assert ("FailedDraining", refused) in told
    assert len(twin.store.objects("Pod")) == 1
    # Ten minutes less the pod's two: from then on it is deleted, not evicted.
    twin.run_for(began_us + 8 * MINUTE_US + 2 * SECOND_US - twin.now_us)
    messages = {t.reason: t.message for t in twin.host.events.told() if t.component == "karpenter"}
    assert "of its 120 terminationGracePeriodSeconds" in messages["Disrupted"]
    assert messages["TerminationGracePeriodExpiring"].startswith("All pods will be deleted by ")
    twin.run_for(3 * MINUTE_US)
    assert nodes(twin) == []


def test_why_a_node_goes_is_on_its_claim_and_said_of_its_pods() -> None:
    # When the larger job is over, the smaller one's node is too dear for it.
    on_demand = [{"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]}]
    twin = a_twin(pool(requirements=on_demand), job("a", "40m", cpu="3"), job("b", "10m", cpu="12"))
    twin.run_for(30 * MINUTE_US)
    told = [t for t in twin.host.events.told() if t.component == "karpenter"]
    moved = [t.message for t in told if t.reason == "Evicted"]
    assert moved == ["Evicted pod: Underutilized"]
    for reason in ("ConsolidationCandidate", "DisruptionLaunching", "DisruptionWaitingReadiness"):
        assert any(t.reason == reason for t in told), reason


def test_a_machine_that_does_not_register_in_a_quarter_of_an_hour_is_given_up() -> None:
    cloud = Cloud(TYPES, boot=constant(HOUR_US))
    twin = a_twin(pool(), job("a", "10m"), cloud=cloud)
    twin.run_for(14 * MINUTE_US)
    (first,) = twin.store.objects("NodeClaim.karpenter.sh")
    twin.run_for(3 * MINUTE_US)
    (second,) = twin.store.objects("NodeClaim.karpenter.sh")
    assert second["metadata"]["name"] != first["metadata"]["name"]
    assert [launch.name for launch, _ in twin.host.launches.lost] == [first["metadata"]["name"]]


def test_beside_nodes_tried_in_vain_a_node_waits_for_the_next_five_minutes() -> None:
    of = pool(requirements=[{"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]}])
    full = job("full", "9h", cpu="3")
    twin = a_twin(of, full)
    twin.run_for(10 * MINUTE_US)
    twin.apply([job("short", "20m", cpu="12"), job("long", "8h", cpu="3")])
    twin.run_for(23 * MINUTE_US)
    karpenter = twin.component("karpenter")
    assert isinstance(karpenter, Provisioner)
    assert _types(twin) == ["large", "small"]
    look_us = karpenter.disruption.settled.since_us + 5 * MINUTE_US
    twin.run(look_us - SECOND_US)
    assert _types(twin) == ["large", "small"]
    twin.run(look_us + 20 * SECOND_US)
    assert _types(twin, "NodeClaim.karpenter.sh") == ["large", "small", "small"]


def _types(twin: Twin, gk: str = "Node") -> list[str]:
    return sorted(o["metadata"]["labels"][INSTANCE_TYPE] for o in twin.store.objects(gk))
