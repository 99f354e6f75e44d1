"""Claims and volumes: which finds which, what they say meanwhile, and what keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, paused=True) as api:
        api.until_ready()
        yield api


def settle(home: Served) -> None:
    home.ask("POST", "/fairway/clock", {"advanceUs": 2_000_000})


def volume(name: str, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> Any:
    body = {"capacity": {"storage": size}, "accessModes": list(modes), "hostPath": {"path": "/x"}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": body}


def claim(name: str, size: str = "1Gi", **spec: Any) -> Any:
    wanted = {"requests": {"storage": size}}
    body = {"accessModes": ["ReadWriteOnce"], "resources": wanted, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": body}


def phase(home: Served, path: str) -> str:
    found: str = home.ask("GET", path)[1]["status"]["phase"]
    return found


def said(home: Served, name: str) -> list[tuple[str, str]]:
    path = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}"
    return [(e["reason"], e["message"]) for e in home.ask("GET", path)[1]["items"]]


def test_a_claim_gets_the_smallest_volume_that_will_do(home: Served) -> None:
    for body in (
        volume("large", "9Gi"),
        volume("fits", "3Gi"),
        volume("small", "1Gi"),
        volume("other-class", "2Gi", storageClassName="fast"),
        volume("other-mode", "2Gi", ("ReadOnlyMany",)),
    ):
        home.ask("POST", VOLUMES, body)
    settle(home)
    assert phase(home, f"{VOLUMES}/fits") == "Available"
    home.ask("POST", CLAIMS, claim("c", "2Gi"))
    settle(home)
    _, bound = home.ask("GET", f"{CLAIMS}/c")
    assert bound["spec"]["volumeName"] == "fits"
    assert bound["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "3Gi"},
    }
    assert bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    _, taken = home.ask("GET", f"{VOLUMES}/fits")
    assert (taken["status"]["phase"], taken["spec"]["claimRef"]["uid"]) == ("Bound", bound["metadata"]["uid"])
    assert phase(home, f"{VOLUMES}/large") == "Available"


WAITING: dict[str, tuple[Any, dict[str, Any], tuple[str, str]]] = {
    "no class": (
        None,
        {},
        ("FailedBinding", "no persistent volumes available for this claim and no storage class is set"),
    ),
    "an unknown class": (
        None,
        {"storageClassName": "gone"},
        ("ProvisioningFailed", 'storageclass.storage.k8s.io "gone" not found'),
    ),
    "a class that waits": (
        {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"},
        {"storageClassName": "s"},
        ("WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
    ),
}
EXTERNAL = (
    "Waiting for a volume to be created either by the external provisioner 'example.com/disks' or manually by the "
    "system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)


@pytest.mark.parametrize("name", WAITING)
def test_a_claim_that_waits_says_for_what(home: Served, name: str) -> None:
    storage_class, spec, want = WAITING[name]
    if storage_class is not None:
        meta = {"name": "s"}
        body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta, **storage_class}
        home.ask("POST", CLASSES, body)
    home.ask("POST", CLAIMS, claim("c", **spec))
    settle(home)
    home.ask("POST", VOLUMES, volume("elsewhere", storageClassName="nobodys"))
    settle(home)
    assert said(home, "c") == [want]
    assert phase(home, f"{CLAIMS}/c") == "Pending"


def test_a_provisioner_makes_what_is_not_there(home: Served) -> None:
    """And takes it away with its claim."""
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"}}
    home.ask("POST", CLASSES, {**kind, "provisioner": "example.com/disks"})
    home.ask("POST", CLAIMS, claim("c", "2Gi", storageClassName="s"))
    settle(home)
    _, bound = home.ask("GET", f"{CLAIMS}/c")
    name = f"pvc-{bound['metadata']['uid']}"
    assert (bound["spec"]["volumeName"], bound["status"]["phase"]) == (name, "Bound")
    assert said(home, "c") == [
        ("ExternalProvisioning", EXTERNAL),
        ("Provisioning", 'External provisioner is provisioning volume for claim "default/c"'),
        ("ProvisioningSucceeded", f"Successfully provisioned volume {name}"),
    ]
    home.ask("DELETE", f"{CLAIMS}/c")
    settle(home)
    assert home.ask("GET", f"{VOLUMES}/{name}")[0] == 404


def test_what_is_used_stays_until_it_is_not(home: Served) -> None:
    home.ask("POST", VOLUMES, volume("v"))
    home.ask("POST", CLAIMS, claim("c"))
    source = {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [source]}
    home.ask("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    settle(home)
    home.ask("DELETE", f"{CLAIMS}/c")
    home.ask("DELETE", f"{VOLUMES}/v")
    settle(home)
    assert "deletionTimestamp" in home.ask("GET", f"{CLAIMS}/c")[1]["metadata"]
    assert "deletionTimestamp" in home.ask("GET", f"{VOLUMES}/v")[1]["metadata"]
    home.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    settle(home)
    assert home.ask("GET", f"{CLAIMS}/c")[0] == 404
    assert home.ask("GET", f"{VOLUMES}/v")[0] == 404


def test_a_volume_whose_claim_is_gone_is_released_and_one_whose_volume_is_gone_is_lost(home: Served) -> None:
    for name in ("a", "b"):
        home.ask("POST", VOLUMES, volume(name))
        home.ask("POST", CLAIMS, claim(name, volumeName=name))
    settle(home)
    home.ask("DELETE", f"{CLAIMS}/a")
    settle(home)
    assert phase(home, f"{VOLUMES}/a") == "Released"
    merge = {"Content-Type": "application/merge-patch+json"}
    home.ask("DELETE", f"{VOLUMES}/b")
    home.ask("PATCH", f"{VOLUMES}/b", {"metadata": {"finalizers": None}}, headers=merge)
    settle(home)
    assert phase(home, f"{CLAIMS}/b") == "Lost"
