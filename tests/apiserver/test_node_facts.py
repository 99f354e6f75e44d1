"""What clients read of nodes: which machine, how alive."""

from __future__ import annotations

from apiserver_serving import Served

from fairway.twin.kubelet.nodestatus import with_machine

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"kubernetes.io/arch": "arm64"}},
    "status": {"capacity": {"cpu": "8", "memory": "8Gi", "pods": "110"}},
}
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n"


def advance(api: Served, minutes: int) -> None:
    assert api.ask("POST", "/fairway/clock", {"advanceUs": minutes * 60_000_000})[0] == 200


def test_a_node_says_what_it_is_and_renews_its_lease(api: Served) -> None:
    api.until_ready()
    assert api.ask("POST", "/api/v1/nodes", with_machine(NODE))[0] == 201
    advance(api, 1)
    info = api.ask("GET", "/api/v1/nodes/n")[1]["status"]["nodeInfo"]
    assert info["kubeletVersion"] == "v1.36.0"
    assert info["architecture"] == "arm64"
    assert all(info[name] for name in ("osImage", "kernelVersion", "containerRuntimeVersion", "machineID"))
    first = api.ask("GET", LEASE)[1]
    assert first["spec"]["holderIdentity"] == "n"
    advance(api, 60)
    second = api.ask("GET", LEASE)[1]
    assert second["spec"]["renewTime"] > first["spec"]["renewTime"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_the_lease_of_a_silent_node_grows_old_and_goes_with_it(api: Served) -> None:
    api.until_ready()
    kubelet = api.server.api.cluster.simulated_nodes()
    assert kubelet is not None
    if api.ask("GET", "/api/v1/nodes/n")[0] != 200:
        api.ask("POST", "/api/v1/nodes", NODE)
        advance(api, 1)
    from fairway.twin.kubelet import machines

    api.call(lambda: machines.crash(kubelet, "n"))
    advance(api, 5)
    first = api.ask("GET", LEASE)[1]["spec"]["renewTime"]
    advance(api, 5)
    assert api.ask("GET", LEASE)[1]["spec"]["renewTime"] == first
    api.ask("DELETE", "/api/v1/nodes/n")
    advance(api, 1)
    assert api.ask("GET", LEASE)[0] == 404
