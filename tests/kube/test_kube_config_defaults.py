"""What kube-apiserver v1.36 made of these when it was asked to create them."""

from __future__ import annotations

import pytest

from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Obj

STORAGE, FLOW, REGISTRATION = (
    "storage.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1",
    "apiregistration.k8s.io/v1",
)
DRIVER = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "volumeLifecycleModes": ["Persistent"],
    "requiresRepublish": False,
    "seLinuxMount": False,
}
CASES: dict[str, tuple[str, str, Obj, Obj]] = {
    "a driver": (STORAGE, "CSIDriver", {}, DRIVER),
    "a driver that said so": (
        STORAGE,
        "CSIDriver",
        {"podInfoOnMount": True},
        {**DRIVER, "podInfoOnMount": True},
    ),
    "a limited level": (
        FLOW,
        "PriorityLevelConfiguration",
        {"type": "Limited", "limited": {"lendablePercent": 5}},
        {"type": "Limited", "limited": {"lendablePercent": 5, "nominalConcurrencyShares": 30}},
    ),
    "an exempt level": (
        FLOW,
        "PriorityLevelConfiguration",
        {"type": "Exempt", "exempt": {}},
        {"type": "Exempt", "exempt": {"lendablePercent": 0, "nominalConcurrencyShares": 0}},
    ),
    "an API behind a service": (
        REGISTRATION,
        "APIService",
        {"service": {"name": "s"}},
        {"service": {"name": "s", "port": 443}},
    ),
    "a node's range": (
        "v1",
        "Node",
        {"podCIDR": "10.0.0.0/24"},
        {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]},
    ),
    "a range of limits without any": ("v1", "LimitRange", {}, {}),
    "a volume on a path": (
        "v1",
        "PersistentVolume",
        {"hostPath": {"path": "/x"}},
        {
            "hostPath": {"path": "/x", "type": ""},
            "persistentVolumeReclaimPolicy": "Retain",
            "volumeMode": "Filesystem",
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_defaults(name: str) -> None:
    api_version, kind, given, want_spec = CASES[name]
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": given}
    assert apply_defaults(obj)["spec"] == want_spec
    assert apply_defaults(apply_defaults(obj)) == apply_defaults(obj)


def test_a_replication_controller_bears_its_pods_labels() -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}}
    given = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "x"}}
    assert apply_defaults({**given, "spec": {"template": template}})["metadata"]["labels"] == {"app": "a"}
    own = {**given, "metadata": {"name": "x", "labels": {"b": "c"}}, "spec": {"template": template}}
    assert apply_defaults(own)["metadata"]["labels"] == {"b": "c"}
