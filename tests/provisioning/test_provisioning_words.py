"""What Karpenter and Cluster Autoscaler say, and which of a pod's wishes goes first."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Obj, key_of
from fairway.kube.timestamps import MINUTE_US
from fairway.provisioning.clusterautoscaler import events as autoscaler
from fairway.provisioning.karpenter import events as karpenter
from fairway.provisioning.karpenter.disruption.context import Notice
from fairway.provisioning.karpenter.relaxing import PREFERRED, REQUIRED, relaxed, without_required_term
from fairway.provisioning.karpenter.requirements import selector_requirements
from fairway.provisioning.karpenter.volumetopology import claim_problem, volume_alternatives
from fairway.provisioning.karpenter.why import TypeRefusal, wrapped

ZONE = "topology.kubernetes.io/zone"


# Why no type does

NONE = "no instance type "
WHICH = {
    (
        False,
        False,
        False,
    ): "met the scheduling requirements or had enough resources or had a required offering",
    (False, True, False): "met the scheduling requirements or had a required offering",
    (True, False, False): "had enough resources or had a required offering",
    (False, True, True): "met all requirements",
    (True, False, True): "has enough resources",
    (True, True, False): "has the required offering",
}


def refused(**flags: Any) -> str:
    wanted = selector_requirements([{"key": ZONE, "operator": "In", "values": ["z"]}])
    return str(TypeRefusal(wanted, flags.pop("requests", {"cpu": 2000}), **flags))


@pytest.mark.parametrize("flags", WHICH)
def test_what_no_type_has(flags: tuple[bool, bool, bool]) -> None:
    met, fits, offered = flags
    said = f'{NONE}{WHICH[flags]}, requirements={ZONE} In [z], resources={{"cpu":"2"}}'
    assert refused(met=met, fits=fits, offered=offered) == said


def test_what_no_type_has_at_once() -> None:
    said = refused(met=True, fits=True, offered=True).partition(",")[0].removeprefix(NONE)
    assert said == "which had enough resources and the required offering met the scheduling requirements"
    assert refused(min_values="too few").startswith("too few, requirements=")


def test_a_million_cpus_may_be_a_typo() -> None:
    typo = "(CPU request >= 1 Million, m vs M typo?)"
    million = {"cpu": 1_000_000_000}
    assert refused(requests=million, met=True, offered=True).endswith(typo)
    for flags in ({"met": True, "offered": True, "fits": True}, {"met": True}, {"offered": True}):
        assert typo not in refused(requests=million, **flags)
    assert typo not in refused(requests={"cpu": 999_999_999}, met=True, offered=True)
    assert typo not in refused(requests=million, met=True, offered=True, min_values="x")


def test_what_daemons_add_is_a_range() -> None:
    def resources(*overheads: dict[str, int]) -> str:
        return refused(overheads=overheads).partition("resources=")[2]

    assert resources() == resources({}) == '{"cpu":"2"}'
    assert resources({"cpu": 500}) == resources({"cpu": 500}, {}) == '{"cpu":"2500m"}'
    assert resources({"cpu": 500}, {"cpu": 1500}) == 'min={"cpu":"2500m"}, max={"cpu":"3500m"}'
    assert resources({"cpu": 500, "gpu": 1}, {"cpu": 500}) == (
        'min={"cpu":"2500m"}, max={"cpu":"2500m","gpu":"1"}'
    )


# Events of Karpenter


def test_events_of_karpenter() -> None:
    warned = {
        karpenter.spot_interrupted(): "SpotInterrupted: Spot interruption warning was triggered",
        karpenter.waiting_for_pods(
            3
        ): "FailedDraining: Failed to drain node, 3 pods are waiting to be evicted",
        karpenter.eviction_refused(
            "a", "b", several=False
        ): "FailedDraining: Failed to drain node, evicting pod violates a PDB (Pod=a/b)",
        karpenter.eviction_refused(
            "a", "b", several=True
        ): "FailedDraining: Failed to drain node, eviction does not support multiple PDBs (Pod=a/b)",
        karpenter.grace_period_expiring("T"): "TerminationGracePeriodExpiring: All pods will be deleted by T",
        karpenter.insufficient_capacity("c", "e"): "InsufficientCapacityError: NodeClaim c event: e",
    }
    normal = {
        karpenter.rebalance_recommended(): "SpotRebalanceRecommendation: Spot rebalance recommendation was triggered",
        karpenter.launching("x"): "DisruptionLaunching: Launching NodeClaim: x",
        karpenter.waiting_on_readiness(): "DisruptionWaitingReadiness: Waiting on readiness to continue disruption",
        karpenter.terminating("Node", "x"): "DisruptionTerminating: Disrupting Node: x",
        karpenter.evicted("Drifted"): "Evicted: Evicted pod: Drifted",
        karpenter.evicted(""): f"Evicted: Evicted pod: {karpenter.FORCEFUL}",
    }
    for kind, told in (("Warning", warned), ("Normal", normal)):
        for event, text in told.items():
            assert (event.type, f"{event.reason}: {event.message}") == (kind, text)
    gone = karpenter.deleted("T", 5, 30)
    assert (gone.type, gone.reason) == ("Normal", "Disrupted")
    assert (
        "terminationTime T of the node. The pod was granted 5 seconds of grace-period of its 30 "
        in gone.message
    )


def test_how_long_an_event_is_not_said_again() -> None:
    assert karpenter.failed_scheduling("x").quiet_us == 5 * MINUTE_US
    for short in (False, True):
        types = karpenter.no_compatible_types(min_values=short)
        assert types.quiet_us == MINUTE_US
        assert types.message.endswith("due to minValues incompatibility") == short
    pool = karpenter.noticed(Notice("NodePool/p", "DisruptionBlocked", "m"))
    assert (pool.quiet_us, pool.message) == (MINUTE_US, "m")
    node = karpenter.noticed(Notice("Node/n", "DisruptionBlocked", "m"))
    kept = karpenter.noticed(Notice("Node/n", "Unconsolidatable", "m"))
    assert kept.quiet_us == 15 * MINUTE_US
    assert (node.type, node.reason, node.message) == ("Normal", "DisruptionBlocked", "m")
    assert node.quiet_us not in (kept.quiet_us, pool.quiet_us)


# Claims of volumes


def claim(name: str = "c", notes: dict[str, str] | None = None, **spec: Any) -> Obj:
    meta = {"name": name, "namespace": "default", "annotations": notes or {}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def storage_class(mode: str | None, *terms: list[Obj]) -> Obj:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "p",
        **({"volumeBindingMode": mode} if mode else {}),
        "allowedTopologies": [{"matchLabelExpressions": term} for term in terms],
    }


MOUNTING = {
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
}
VOLUME = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {}}
LATE = storage_class("WaitForFirstConsumer")
ABOUT = "PersistentVolumeClaim=default/c"
CLAIMS: dict[str, tuple[tuple[Obj, ...], str]] = {
    "no claim": (
        (),
        wrapped(
            'getting persistent volume claim, persistentvolumeclaims "c" not found', PersistentVolumeClaim="c"
        ),
    ),
    "bound": ((claim(notes={"pv.kubernetes.io/bind-completed": "yes"}, volumeName="pv"), VOLUME), ""),
    "not bound to the end": (
        (claim(volumeName="pv"), VOLUME),
        "pvc is considered unbound because it does not contain annotation "
        "(annotation=pv.kubernetes.io/bind-completed, PersistentVolumeClaim=c, PersistentVolume=pv)",
    ),
    "bound to nothing": (
        (claim(volumeName="pv", storageClassName="fast"),),
        f'failed to validate pvc, persistentvolumes "pv" not found ({ABOUT}, PersistentVolume=pv, StorageClass=fast)',
    ),
    "of no class": ((claim(),), f"unbound pvc must define a storage class ({ABOUT}, StorageClass=)"),
    "of a class that is not there": (
        (claim(storageClassName="fast"),),
        'failed to validate pvc, failed to get storage class, storageclasses.storage.k8s.io "fast" not found '
        f"({ABOUT}, StorageClass=fast)",
    ),
    "that ought to be bound": (
        (claim(storageClassName="fast"), storage_class("Immediate")),
        "failed to validate pvc, pvc with immediate volume binding mode must be bound "
        f"({ABOUT}, StorageClass=fast)",
    ),
    "that waits for its pod": ((claim(storageClassName="fast"), LATE), ""),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_that_open_nothing(name: str) -> None:
    objects, want = CLAIMS[name]
    store = Store()
    for obj in objects:
        store.create(obj)
    assert claim_problem(store, MOUNTING) == want


def test_a_volume_that_is_going_opens_nothing() -> None:
    store = Store()
    store.create(claim(notes={"pv.kubernetes.io/bind-completed": "yes"}, volumeName="pv"))
    store.create({**VOLUME, "metadata": {"name": "pv", "finalizers": ["x/y"]}})
    store.delete(key_of(VOLUME))
    assert claim_problem(store, MOUNTING).startswith(
        "failed to validate pvc, persistentvolume is being deleted ("
    )


def test_a_class_says_where_its_volumes_may_be() -> None:
    def asked(*objects: Obj) -> list[str]:
        store = Store()
        for obj in objects:
            store.create(obj)
        return [str(found) for found in volume_alternatives(store, MOUNTING)]

    terms = [{"key": ZONE, "values": ["a", "b"]}], [], [{"key": ZONE, "values": ["c"]}]
    fast = storage_class("WaitForFirstConsumer", *terms)
    assert asked(claim(storageClassName="fast"), fast) == [f"{ZONE} In [a b]", f"{ZONE} In [c]"]
    assert asked(claim(storageClassName="slow"), fast) == []
    assert asked(claim(storageClassName="fast"), LATE) == []
    assert asked(fast) == []
    assert asked(claim(volumeName="pv", storageClassName="fast"), fast) == []
    empty = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": []}]}}}
    assert asked(claim(volumeName="pv"), {**VOLUME, "spec": empty}) == []


# Wishes that are given up


def test_wishes_go_one_by_one_in_karpenters_order() -> None:
    def term(zone: str) -> Obj:
        return {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}

    spec: Any = {
        "other": 1,
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [term("a"), term("b")]},
                PREFERRED: [{"weight": 1, "n": 1}, {"weight": 9, "n": 2}, {"n": 3}],
            },
            "podAffinity": {PREFERRED: [{"weight": 1}], REQUIRED: ["stays"]},
            "podAntiAffinity": {PREFERRED: [{"weight": 1}]},
        },
        "topologySpreadConstraints": [
            {"topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"},
            {"topologyKey": "b", "whenUnsatisfiable": "ScheduleAnyway"},
            {"topologyKey": "c", "whenUnsatisfiable": "DoNotSchedule"},
            {"topologyKey": "d", "whenUnsatisfiable": "DoNotSchedule"},
        ],
        "tolerations": [{"key": "x"}],
    }

    def shown(of: Any) -> list[Any]:
        affinity = of["affinity"]
        nodes = affinity["nodeAffinity"]
        return [
            len(nodes[REQUIRED]["nodeSelectorTerms"]),
            len(affinity["podAffinity"][PREFERRED]),
            len(affinity["podAntiAffinity"][PREFERRED]),
            [t["n"] for t in nodes[PREFERRED]],
            "".join(s["topologyKey"] for s in of["topologySpreadConstraints"]),
            len(of["tolerations"]),
        ]

    steps = [shown(spec)]
    now = spec
    while (then := relaxed(now, tolerates_preferred_taints=True)) is not None:
        now = then
        steps.append(shown(now))
    assert steps == [
        [2, 1, 1, [1, 2, 3], "abcd", 1],
        [1, 1, 1, [1, 2, 3], "abcd", 1],
        [1, 0, 1, [1, 2, 3], "abcd", 1],
        [1, 0, 0, [1, 2, 3], "abcd", 1],
        [1, 0, 0, [1, 3], "abcd", 1],
        [1, 0, 0, [3], "abcd", 1],
        [1, 0, 0, [], "abcd", 1],
        [1, 0, 0, [], "adc", 1],
        [1, 0, 0, [], "adc", 2],
    ]
    assert now["other"] == 1
    assert now["affinity"]["podAffinity"][REQUIRED] == ["stays"]
    assert now["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [term("b")]
    assert now["tolerations"][1] == {"operator": "Exists", "effect": "PreferNoSchedule"}
    assert relaxed({**now, "tolerations": []}, tolerates_preferred_taints=False) is None
    assert without_required_term(now) is None
    assert without_required_term({}) is None


# Events of Cluster Autoscaler


def test_events_of_cluster_autoscaler() -> None:
    told = {
        autoscaler.unhealthy(): ("Warning", "ClusterUnhealthy", "Cluster is unhealthy"),
        autoscaler.max_nodes_reached(7): (
            "Warning",
            "MaxNodesTotalReached",
            "Max total nodes in cluster reached: 7",
        ),
        autoscaler.consumes_request("a", "b"): (
            "Normal",
            "",
            "Unschedulable pod didn't trigger scale-up, because it's consuming ProvisioningRequest a/b",
        ),
        autoscaler.not_triggered("x"): ("Normal", "NotTriggerScaleUp", "pod didn't trigger scale-up: x"),
        autoscaler.evicting(): ("Normal", "ScaleDown", "deleting pod for node scale down"),
        autoscaler.marked(): ("Normal", "ScaleDown", "marked the node as toBeDeleted/unschedulable"),
        autoscaler.not_drained("n"): (
            "Warning",
            "ScaleDownFailed",
            "failed to drain and delete node: Failed to drain node /n: pods remaining after timeout",
        ),
        autoscaler.not_to_be_had("gcp", "g", 2): (
            "Warning",
            "ScaleUpFailed",
            "Failed adding 2 nodes to group g due to OutOfResource.RESOURCE_POOL_EXHAUSTED; source errors: "
            "ZONE_RESOURCE_POOL_EXHAUSTED",
        ),
        autoscaler.timed_out("g", 15 * MINUTE_US): (
            "Warning",
            "ScaleUpTimedOut",
            "Nodes added to group g failed to register within 15m0s",
        ),
    }
    for event, want in told.items():
        assert tuple(event) == want
    assert [tuple(e)[1:] for e in autoscaler.removed("n", drained=True)] == [
        ("ScaleDown", "nodes removed by cluster autoscaler"),
        ("ScaleDown", "Scale-down: node n removed with drain"),
    ]
    assert [tuple(e)[1:] for e in autoscaler.removed("n", drained=False)][1] == (
        "ScaleDownEmpty",
        "Scale-down: empty node n removed",
    )
    assert autoscaler.failure("gcp", "OutOfResource")[1] != autoscaler.failure("azure", "OutOfResource")[1]
    assert autoscaler.failure("gcp", "timeout") == ("timeout", "Scale-up failed: timeout")
