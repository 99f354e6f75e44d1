"""Where volumes let a pod be: terms are alternatives, and several volumes have to agree."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Obj, key_of
from fairway.provisioning.karpenter.volumetopology import claim_problem, volume_alternatives

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def volume(name: str, *terms: dict[str, tuple[str, ...]], **spec: Any) -> Obj:
    selectors = [
        {"matchExpressions": [{"key": k, "operator": "In", "values": list(v)} for k, v in term.items()]}
        for term in terms
    ]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": selectors}}} if terms else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**affinity, **spec},
    }


def pod_on(*volumes: Obj) -> tuple[Store, Obj]:
    """A pod with a claim on each of these volumes, the last one as an ephemeral volume's."""
    store = Store()
    mounts = []
    for i, obj in enumerate(volumes):
        store.create(obj)
        is_last = i == len(volumes) - 1
        name = f"p-v{i}" if is_last else f"c{i}"
        store.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {"volumeName": obj["metadata"]["name"]},
            }
        )
        source = {"ephemeral": {"volumeClaimTemplate": {}}}
        mounts.append(
            {"name": f"v{i}", **(source if is_last else {"persistentVolumeClaim": {"claimName": name}})}
        )
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"volumes": mounts}}
    return store, pod


@pytest.mark.parametrize(
    ("volumes", "want"),
    [
        ((volume("a"),), []),
        ((volume("a", {ZONE: ("z1",)}),), [f"{ZONE} In [z1]"]),
        ((volume("a", {ZONE: ("z1",)}, {ZONE: ("z2",)}),), [f"{ZONE} In [z1]", f"{ZONE} In [z2]"]),
        # Two volumes: what goes together is left.
        (
            (volume("a", {ZONE: ("z1",)}, {ZONE: ("z2",)}), volume("b", {ZONE: ("z2", "z3")})),
            [f"{ZONE} In [z2]"],
        ),
        # Nothing goes together: Karpenter keeps a wish that nothing meets.
        ((volume("a", {ZONE: ("z1",)}), volume("b", {ZONE: ("z2",)})), [f"{ZONE} DoesNotExist"]),
        # A disk of one machine: its name does not count, what else it asks does.
        ((volume("a", {HOST: ("n1",)}, local={"path": "/x"}),), [""]),
        ((volume("a", {HOST: ("n1",), ZONE: ("z1",)}, hostPath={"path": "/x"}),), [f"{ZONE} In [z1]"]),
    ],
)
def test_alternatives(volumes: tuple[Obj, ...], want: list[str]) -> None:
    store, pod = pod_on(*volumes)
    assert [str(a) for a in volume_alternatives(store, pod)] == want
    assert claim_problem(store, pod) == ""


def test_a_claim_that_is_lost_or_going_opens_nothing() -> None:
    store, pod = pod_on(volume("a"))
    (claim,) = store.objects("PersistentVolumeClaim")
    store.set_status(key_of(claim), {"phase": "Lost"})
    assert claim_problem(store, pod) == (
        "persistentvolumeclaim bound to non-existent persistentvolume "
        "(PersistentVolumeClaim=default/p-v0, PersistentVolume=a)"
    )
    store.set_status(key_of(claim), {"phase": "Bound"})
    store.set_finalizers(key_of(claim), ["kubernetes.io/pvc-protection"])
    store.delete(key_of(claim))
    assert claim_problem(store, pod) == (
        "persistentvolumeclaim is being deleted (PersistentVolumeClaim=default/p-v0)"
    )
