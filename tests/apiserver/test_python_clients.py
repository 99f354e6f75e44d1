"""Clients that nobody here wrote, from Python: the official one, kr8s, and an operator built with kopf."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
    "status": {
        "capacity": {"cpu": "8", "memory": "8Gi", "pods": "20", "nvidia.com/gpu": "2"},
        "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "20", "nvidia.com/gpu": "2"},
    },
}
COUNTER = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "counters.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "counters", "singular": "counter", "kind": "Counter"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    data: Path = tmp_path_factory.mktemp("clients")
    with served(data) as api:
        api.until_ready()
        api.ask("POST", "/api/v1/nodes", NODE)
        yield api, data / "kubeconfig"


def gpu_pod(name: str) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "cuda:1",
        "command": ["nvidia-smi", "-L"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def sleeping_pod(name: str) -> dict[str, Any]:
    pod = gpu_pod(name)
    pod["spec"]["containers"][0]["command"] = ["sleep", "3600"]
    return pod


def test_the_official_client_lists_watches_applies_execs_and_reads_logs(home: tuple[Served, Path]) -> None:
    kubernetes = pytest.importorskip("kubernetes")
    from kubernetes.stream import stream

    client = kubernetes.config.new_client_from_config(str(home[1]))
    core = kubernetes.client.CoreV1Api(client)
    assert [n.metadata.name for n in core.list_node().items] == ["n"]
    core.create_namespaced_pod("default", sleeping_pod("official"))
    phases = []
    watch = kubernetes.watch.Watch()
    for event in watch.stream(
        core.list_namespaced_pod, "default", label_selector="app=official", timeout_seconds=30
    ):
        phases.append(event["object"].status.phase)
        if phases[-1] == "Running":
            watch.stop()
    assert phases[0] in ("Pending", "Running") and phases[-1] == "Running"
    said = stream(
        core.connect_get_namespaced_pod_exec,
        "official",
        "default",
        command=["nvidia-smi", "-L"],
        stderr=True,
        stdin=False,
        stdout=True,
        tty=False,
    )
    assert said.startswith("GPU 0: NVIDIA H100")
    assert core.read_namespaced_pod_log("official", "default") == "starting sleep 3600\n"
    dynamic = kubernetes.dynamic.DynamicClient(client)
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "applied", "namespace": "default"},
        "data": {"a": "1"},
    }
    applied = maps.server_side_apply(body=body, field_manager="tests")
    assert applied.data.to_dict() == {"a": "1"}
    with pytest.raises(kubernetes.client.exceptions.ApiException) as refused:
        core.read_namespaced_pod("nobody", "default")
    assert refused.value.status == 404
    core.delete_namespaced_pod("official", "default", grace_period_seconds=0)
    client.close()


@pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_kr8s_lists_watches_applies_execs_and_reads_logs(home: tuple[Served, Path]) -> None:
    pytest.importorskip("kr8s")
    asyncio.run(_kr8s(str(home[1])))


async def _kr8s(kubeconfig: str) -> None:
    import kr8s.asyncio
    from kr8s.asyncio.objects import Pod

    api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
    pod = await Pod(sleeping_pod("kr8s"), api=api)
    await pod.create()
    await pod.wait("condition=Ready", timeout=30)
    found = [p.name async for p in api.get("pods", label_selector={"app": "kr8s"})]
    assert found == ["kr8s"]
    done = await pod.exec(["hostname"])
    assert done.stdout == b"kr8s\n"
    assert [line async for line in pod.logs()] == ["starting sleep 3600"]
    await pod.label(team="a")
    await pod.patch({"metadata": {"annotations": {"note": "b"}}})
    async for event, seen in api.watch("pods", label_selector={"app": "kr8s"}):
        assert (event, seen.name) == ("ADDED", "kr8s")
        break
    await pod.delete(grace_period=1)
    await pod.wait("delete", timeout=30)
    assert await pod.exists() is False


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_operator_built_with_kopf_reconciles_its_own_kind(
    home: tuple[Served, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    kopf = pytest.importorskip("kopf")
    api, kubeconfig = home
    assert api.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", COUNTER)[0] == 201
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**arguments: Any) -> Any:
        return kopf.login_with_kubeconfig(**arguments)

    @kopf.on.create("example.com", "v1", "counters", registry=registry)
    @kopf.on.update("example.com", "v1", "counters", registry=registry)
    def reconcile(spec: dict[str, Any], patch: Any, **_: Any) -> None:
        patch.status["doubled"] = spec["size"] * 2

    stop, ready = threading.Event(), threading.Event()

    def operate() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            asyncio.run(
                kopf.operator(
                    registry=registry, standalone=True, namespace="default", stop_flag=stop, ready_flag=ready
                )
            )

    operator = threading.Thread(target=operate, daemon=True)
    operator.start()
    try:
        assert ready.wait(30)
        path = "/apis/example.com/v1/namespaces/default/counters"
        body = {
            "apiVersion": "example.com/v1",
            "kind": "Counter",
            "metadata": {"name": "c"},
            "spec": {"size": 3},
        }
        assert api.ask("POST", path, body)[0] == 201
        assert _until(api, f"{path}/c", 6)
        change = {"spec": {"size": 5}}
        merge = {"Content-Type": "application/merge-patch+json"}
        assert api.ask("PATCH", f"{path}/c", change, headers=merge)[0] == 200
        assert _until(api, f"{path}/c", 10)
    finally:
        stop.set()
        operator.join(20)


def _until(api: Served, path: str, doubled: int) -> bool:
    """Whether the object's status comes to say so."""
    watched = path.rpartition("/")
    query = f"?watch=1&timeoutSeconds=20&fieldSelector=metadata.name={watched[2]}"
    connection = api.connect()
    try:
        connection.request("GET", watched[0] + query)
        response = connection.getresponse()
        return any(b'"doubled":%d' % doubled in line for line in response)
    finally:
        connection.close()
