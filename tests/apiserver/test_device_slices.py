"""A served cluster's nodes publish their GPUs once NVIDIA's DRA driver is installed."""

from __future__ import annotations

from apiserver_serving import Served

GROUP = "/apis/resource.k8s.io/v1"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "n",
        "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "2"},
    },
    "status": {"capacity": {"cpu": "8", "memory": "8Gi", "pods": "110"}},
}
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
}


def test_slices_come_with_the_driver_and_are_served(api: Served) -> None:
    api.until_ready()
    assert api.ask("POST", "/api/v1/nodes", NODE)[0] == 201
    assert api.ask("POST", f"{GROUP}/deviceclasses", CLASS)[0] == 201
    assert api.ask("POST", "/fairway/clock", {"advanceUs": 60_000_000})[0] == 200
    (found,) = api.ask("GET", f"{GROUP}/resourceslices")[1]["items"]
    assert found["metadata"]["name"].startswith("n-gpu.nvidia.com-")
    assert [d["name"] for d in found["spec"]["devices"]] == ["gpu-0", "gpu-1"]
    said = found["spec"]["devices"][0]["attributes"]
    assert said["productName"] == {"string": "NVIDIA H100 80GB HBM3"}
    assert said["cudaComputeCapability"] == {"version": "9.0.0"}
    # What is served is what a driver could have written.
    again = {"apiVersion": found["apiVersion"], "kind": found["kind"], "spec": found["spec"]}
    again["metadata"] = {"name": "copied"}
    assert api.ask("POST", f"{GROUP}/resourceslices?dryRun=All", again)[0] == 201
