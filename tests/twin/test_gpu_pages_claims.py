"""Whose GPUs do the exporters' pages say they are, where claims gave them?"""

from __future__ import annotations

from typing import Any

import pytest

from fairway.catalog.drivers import DRA_DRIVER, published_slices
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, key_of
from fairway.kube.timestamps import SECOND_US
from fairway.results.gpuseries import Slot
from fairway.results.gpuseries import _Node as Life
from fairway.twin.gpupages import GpuPages, _claiming

GPU = "nvidia.com/gpu"


def store_with(*objects: Obj) -> Store:
    store = Store()
    annotations = {
        "fairway.dev/gpus": "2 NVIDIA-H100-80GB-HBM3",
        "fairway.dev/gpu-layout": "1=1g.10gb@0,3g.40gb@4",
    }
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": annotations}})
    uids = {}
    for obj in objects:
        for user in obj["status"].get("reservedFor", ()):
            user["uid"] = uids[user["name"]]
        made = store.create(obj)
        uids[made["metadata"]["name"]] = made["metadata"]["uid"]
        store.set_status(key_of(made), obj["status"])
    store.now_us += 3600 * SECOND_US
    return store


def pod(name: str, *claims: str) -> Obj:
    entries = [{"name": f"e{i}", "resourceClaimName": claim} for i, claim in enumerate(claims)]
    uses = [{"name": e["name"]} for e in entries]
    containers = [
        {"name": "side", "image": "i"},
        {"name": "main", "image": "i", "resources": {"claims": uses}},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"nodeName": "n1", "containers": containers, "resourceClaims": entries},
        "status": {"phase": "Running"},
    }


def claim(name: str, device: str, *users: str, **more: Any) -> Obj:
    result = {"request": "gpu", "driver": DRA_DRIVER, "pool": "n1", "device": device, **more}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRA_DRIVER}}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": u} for u in users],
        },
    }


def holders(store: Store) -> list[tuple[str, str, str, str]]:
    """GPU, profile, pod and claim of every series."""
    found = [dict(labels) for labels, _ in GpuPages(store).samples("DCGM_FI_DEV_FB_USED")]
    names = ("gpu", "GPU_I_PROFILE", "pod", "dra_claim_name")
    return sorted(tuple(d.get(n, "") for n in names) for d in found)  # type: ignore[misc]


CARD_0_FREE = ("0", "", "", "")
NOTHING = [CARD_0_FREE, ("1", "1g.10gb", "", ""), ("1", "3g.40gb", "", "")]


@pytest.mark.parametrize(
    ("device", "more", "want"),
    [
        ("gpu-0", {}, [("0", "", "p", "c"), *NOTHING[1:]]),
        ("gpu-1-mig-3g40gb-9-4", {}, [*NOTHING[:2], ("1", "3g.40gb", "p", "c")]),
        ("gpu-1-mig-1g10gb-19-0", {}, [CARD_0_FREE, ("1", "1g.10gb", "p", "c"), NOTHING[2]]),
        ("gpu-0", {"adminAccess": True}, NOTHING),
        ("gpu-0", {"driver": "nic.example.com"}, NOTHING),
        ("gpu-0", {"pool": "rack-7"}, NOTHING),
        ("gpu-7", {}, NOTHING),
        ("weird", {}, NOTHING),
    ],
)
def test_the_device_of_a_claim_is_its_pods(
    device: str, more: dict[str, Any], want: list[tuple[str, str, str, str]]
) -> None:
    assert holders(store_with(pod("p", "c"), claim("c", device, "p", **more))) == sorted(want)


def test_of_a_claim_of_several_drivers_the_gpus_are_held() -> None:
    """Whichever comes first."""
    one = claim("c", "gpu-0", "p")
    results = one["status"]["allocation"]["devices"]["results"]
    results.insert(0, {**results[0], "driver": "nic.example.com"})
    assert ("0", "", "p", "c") in holders(store_with(pod("p", "c"), one))


def test_the_exporters_labels_of_a_claim() -> None:
    store = store_with(pod("p", "c"), claim("c", "gpu-0", "p"))
    block = next(iter(GpuPages(store).blocks("n1")))
    line = next(line for line in block.lines if 'gpu="0"' in line)
    assert (
        'container="main",dra_claim_name="c",dra_claim_namespace="ml",dra_device_name="gpu-0",'
        'dra_driver_name="gpu.nvidia.com",dra_pool_name="n1",namespace="ml",pod="p"' in line
    )


def test_an_instance_that_a_claim_gave_has_its_profile_and_uuid() -> None:
    store = store_with(pod("p", "c"), claim("c", "gpu-1-mig-3g40gb-9-4", "p"))
    found = [dict(labels) for labels, _ in GpuPages(store).samples("DCGM_FI_DEV_FB_USED")]
    said = [{k: v for k, v in d.items() if k.startswith("dra_mig")} for d in found if d.get("pod") == "p"]
    node = store.require(Key("Node", "", "n1"))
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "2"}
    published = published_slices({**node, "metadata": {**node["metadata"], "labels": labels}})
    devices = [d for of in published for d in of["devices"] if d["name"] == "gpu-1-mig-3g40gb-9-4"]
    uuid = devices[0]["attributes"]["uuid"]["string"]
    assert said == [{"dra_mig_profile": "3g.40gb", "dra_mig_device_uuid": uuid}]


def test_a_claim_of_two_pods_has_a_series_of_each_and_of_one_without_its_reservation_none() -> None:
    store = store_with(pod("p", "c"), pod("q", "c"), pod("late", "c"), claim("c", "gpu-0", "p", "q"))
    assert [h for h in holders(store) if h[0] == "0"] == [("0", "", "p", "c"), ("0", "", "q", "c")]


def test_a_run_divides_gpus_that_are_held_in_parts() -> None:
    life = Life(0, [Slot(GPU, 0), Slot(GPU, 1), Slot(GPU, 2)])
    assert life.take_milli(500, 0, 100) == [0]
    assert life.take_milli(500, 10, 50) == [0], "there is as much left of it"
    assert life.take_milli(2500, 20, 40) == [1, 2], "whole ones; for the rest there is none"
    assert life.take_milli(500, 60, 90) == [0], "one of its users left"
    assert life.take_milli(1000, 60, 70) == [1]
    assert life.take_milli(1000, 95, 120) == [1]
    assert life.take_milli(1000, 100, 120) == [0], "all of its users left"


def test_which_container_a_claim_is_said_to_be_of() -> None:
    """The first that uses the entry; of a claim for extended resources the one that the pod's status names first."""
    one = pod("p", "c", "d")
    containers = one["spec"]["containers"]
    containers.append({"name": "last", "resources": {"claims": [{"name": "e1"}, {"name": "e2"}]}})
    assert [_claiming(one, entry) for entry in ("e0", "e1", "e2", "e3", "")] == [
        "main",
        "main",
        "last",
        "",
        "",
    ]
    mappings = [{"containerName": "side"}, {"containerName": "main"}]
    one["status"]["extendedResourceClaimStatus"] = {"requestMappings": mappings}
    assert [_claiming(one, entry) for entry in ("e0", "e3", "")] == ["main", "", "side"]
    mappings[0].pop("containerName")
    assert _claiming(one, "") == ""
