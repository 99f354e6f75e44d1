"""What Prometheus' service discovery finds, label by label, and which page each port has; without a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.histories import check_history

from fairway.apiserver.metricsserver.nodepages import resource_metrics, summary
from fairway.apiserver.scrapes import discovery
from fairway.apiserver.scrapes.pages import Exporters
from fairway.apiserver.statuses import StatusError
from fairway.apiserver.wire.messages import Request
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.twin.kubelet.usage import ContainerUse, NodeUse, PodUse

HERE = Path(__file__).parent
NOW_US = parse_rfc3339("2026-01-05T08:10:00Z")


def obj(kind: str, name: str, namespace: str = "", api: str = "v1", **rest: Any) -> Obj:
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": meta, **rest}


def pod(name: str, namespace: str, containers: list[Obj], ip: str = "", **rest: Any) -> Obj:
    status = {"podIP": ip, "phase": "Running", "hostIP": "10.0.0.1"} if ip else {"phase": "Pending"}
    spec = {"nodeName": "n1", "containers": containers, **rest.pop("spec", {})}
    return obj("Pod", name, namespace, spec=spec, status={**status, **rest.pop("status", {})}, **rest)


def port(number: int, **more: Any) -> Obj:
    return {"containerPort": number, **more}


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}
OBJECTS: list[Obj] = [
    obj(
        "Node",
        "n1",
        metadata={
            "labels": {"kubernetes.io/arch": "amd64", "a-b": "c"},
            "annotations": {"x.y/z": "1"},
        },
        spec={"providerID": "aws:///i-1"},
        status={
            "addresses": [
                {"type": "Hostname", "address": "host"},
                {"type": "ExternalIP", "address": "5.5.5.5"},
                {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "InternalIP", "address": "fd00::1"},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10255}},
            "capacity": {"cpu": "2", "memory": "4Gi"},
            "nodeInfo": {"kernelVersion": "6.1", "architecture": "amd64", "osImage": "Linux"},
        },
    ),
    obj("Node", "n2", status={"addresses": [{"type": "Hostname", "address": "two"}]}),
    obj("Node", "n3", status={"addresses": [{"type": "ExternalDNS", "address": "three.example"}]}),
    obj("Node", "n4"),
    pod(
        "web",
        "team",
        [
            {
                "name": "c",
                "image": "nginx:1",
                "ports": [port(80, name="http"), port(53, protocol="UDP")],
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
            },
            {"name": "d"},
        ],
        "10.1.0.1",
        spec={"initContainers": [{"name": "i", "image": "busybox", "ports": [port(9)]}, {"name": "j"}]},
        status={"conditions": [{"type": "Ready", "status": "True"}]},
        metadata={"labels": {"app": "web"}, "ownerReferences": [OWNER]},
    ),
    pod(
        "slow",
        "team",
        [{"name": "c", "image": "nginx:1", "ports": [port(80), port(81)]}],
        "10.1.0.2",
        status={"conditions": [{"type": "Ready", "status": "False"}]},
    ),
    pod("waits", "team", [{"name": "c", "ports": [port(80)]}]),
    pod("other", "else", [{"name": "c", "ports": [port(70)]}], "10.1.0.3"),
    obj(
        "Service",
        "web",
        "team",
        metadata={"labels": {"of": "us"}, "annotations": {"prometheus.io/scrape": "true"}},
    ),
    obj(
        "Endpoints",
        "web",
        "team",
        metadata={"labels": {"e": "f"}},
        subsets=[
            {
                "addresses": [
                    {
                        "ip": "10.1.0.1",
                        "nodeName": "n1",
                        "hostname": "web-0",
                        "targetRef": {"kind": "Pod", "name": "web", "namespace": "team"},
                    },
                    {"ip": "10.9.9.9"},
                ],
                "notReadyAddresses": [
                    {"ip": "10.1.0.2", "targetRef": {"kind": "Pod", "name": "slow"}},
                    {"ip": "10.1.0.8", "targetRef": {"kind": "Pod", "name": "gone"}},
                    {"ip": "10.1.0.7", "targetRef": {"kind": "Node", "name": "web"}},
                ],
                "ports": [{"name": "http", "port": 80, "protocol": "TCP"}, {"port": 7}],
            },
            {"addresses": [{"ip": "10.1.0.1"}]},
        ],
    ),
    obj("Endpoints", "alone", "else", subsets=[{"addresses": [{"ip": "1.1.1.1"}], "ports": [{"port": 1}]}]),
    obj("Endpoints", "none", "else"),
]


def world() -> Store:
    store = Store(seed=1, now_us=NOW_US - 600 * SECOND_US)
    for one in OBJECTS:
        status = one.get("status")
        made = store.create({k: v for k, v in one.items() if k != "status"})
        if status:
            store.set_status(
                Key(one["kind"], made["metadata"].get("namespace", ""), one["metadata"]["name"]), status
            )
    store.now_us = NOW_US
    return store


def found(store: Store, query: str) -> list[Any]:
    response = discovery.answer(store, Request("GET", "/fairway/discovery", query, {}, b""))
    assert response.status == 200
    return list(json.loads(response.body))


def said() -> Iterator[str]:
    store = world()
    for role in ("node", "pod", "endpoints"):
        yield f"== {role}"
        for group in found(store, f"role={role}"):
            yield " ".join(group["targets"])
            for name, value in sorted(group["labels"].items()):
                is_uid = name.endswith("pod_uid")
                yield f"  {name.removeprefix('__meta_kubernetes_')}={'(uid)' if is_uid else value}"


def test_each_role_finds_what_prometheus_finds() -> None:
    check_history(HERE / "scrapetargets.txt", said())


def test_namespaces_limit_what_is_in_them() -> None:
    store = world()

    def targets(query: str) -> list[str]:
        return [t for group in found(store, query) for t in group["targets"]]

    assert targets("role=pod&namespace=else") == ["10.1.0.3:70"]
    assert targets("role=pod&namespace=else&namespace=none") == ["10.1.0.3:70"]
    both = targets("role=pod&namespace=else&namespace=team")
    assert both[0] == "10.1.0.3:70" and sorted(both) == sorted(targets("role=pod"))
    assert targets("role=endpoints&namespace=else") == ["1.1.1.1:1"]
    assert targets("role=node&namespace=else") == targets("role=node")
    assert len(targets("role=node")) == 4


@pytest.mark.parametrize("role", ["", "service", "Node"])
def test_a_role_that_there_is_none_of(role: str) -> None:
    with pytest.raises(StatusError) as refused:
        found(Store(), f"role={role}")
    assert refused.value.code == 400
    assert refused.value.message == f"role: expected node, pod or endpoints, not {role!r}"


# Pages


class Api:
    """What pages are written of."""

    def __init__(self) -> None:
        self.store = world()
        self.cluster = SimpleNamespace(twin=None, queue_meter=None, pod_meter=None)
        self.kubelets = self
        self.asked: list[tuple[str, int]] = []

    def of(self, _node: str) -> Api:
        return self

    def use(self, node: str, at_us: int) -> NodeUse | None:
        """n1 answers, n2 does not."""
        self.asked.append((node, at_us))
        if node != "n1":
            return None
        began_us = NOW_US - 90 * SECOND_US
        uses = (
            PodUse(
                "team",
                "web",
                "u1",
                began_us,
                (
                    ContainerUse("c", began_us, 3 * 10**9, 200, 2**29),
                    ContainerUse("d", began_us + 5 * SECOND_US, 10**8, 50, 2**20),
                ),
            ),
            PodUse("team", "gone", "u2", began_us, (ContainerUse("x", began_us, 0, 0, 0),)),
        )
        return NodeUse(node, 5 * 10**9, 250, 2**30, uses)


def exporters() -> tuple[Any, Api]:
    api = Api()
    return Exporters(api), api  # type: ignore[arg-type]


def exporter(image: str, node: str = "n1", **spec: Any) -> Obj:
    return pod("e", "team", [{"name": "s"}, {"name": "c", "image": image}], spec={"nodeName": node, **spec})


@pytest.mark.parametrize(
    ("image", "is_one"),
    [
        ("quay.io/prometheus/node-exporter:v1", True),
        ("node_exporter", True),
        ("registry:5000/x/node-exporter@sha256:0", True),
        ("x/kube-state-metrics:v2", True),
        ("nvcr.io/nvidia/k8s/dcgm-exporter:4", True),
        ("x/my-node-exporter:v1", False),
        ("x/node-exporter-proxy:v1", False),
        ("nginx", False),
        ("", False),
    ],
)
def test_an_exporter_is_known_by_its_image(image: str, is_one: bool) -> None:
    pages, _ = exporters()
    found = pages.page_of_pod(exporter(image), "/healthz")
    assert (found is not None) is is_one
    assert found is None or found == (200, "text/plain; charset=utf-8", b"OK\n")


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        *((path, 200, b"OK\n") for path in ("", "/", "/health", "healthz/", "/livez", "/readyz")),
        ("/metric", 404, b"404 page not found\n"),
        ("/metrics/x", 404, b"404 page not found\n"),
    ],
)
def test_other_paths_of_an_exporter(path: str, status: int, body: bytes) -> None:
    pages, _ = exporters()
    assert pages.page_of_pod(exporter("node-exporter"), path) == (status, "text/plain; charset=utf-8", body)


METRICS = "text/plain; version=0.0.4; charset=utf-8"


def test_a_node_exporter_tells_of_its_node_as_it_is_now() -> None:
    pages, api = exporters()
    for path in ("/metrics", "metrics", "/metrics/"):
        page = pages.page_of_pod(exporter("node-exporter"), path)
        assert (page.status, page.content_type) == (200, METRICS)
        assert b'nodename="n1"' in page.body and b"node_load1 0.25" in page.body
        assert f"node_time_seconds {NOW_US // SECOND_US}".encode() in page.body
    assert api.asked == [("n1", NOW_US)] * 3
    assert pages.page_of_pod(exporter("node-exporter", "n2"), "/metrics").body == b""
    assert pages.page_of_pod(exporter("node-exporter", "gone"), "/metrics").body == b""
    assert pages.page_of_pod(exporter("node-exporter", ""), "/metrics").body == b""


def test_kube_state_metrics_tell_of_all_objects() -> None:
    pages, _ = exporters()
    body = pages.page_of_pod(exporter("kube-state-metrics"), "/metrics").body.decode()
    assert 'kube_node_info{node="n4"' in body and 'kube_pod_info{namespace="else",pod="other"' in body


def test_a_kubelet_has_two_pages_while_it_answers() -> None:
    pages, _ = exporters()
    plain = pages.page_of_kubelet("n1", "/metrics")
    assert plain.content_type == METRICS and b'kubelet_node_name{node="n1"} 1' in plain.body
    inner = pages.page_of_kubelet("n1", "/metrics/cadvisor/")
    assert (inner.status, inner.content_type) == (200, METRICS) and b"container_" in inner.body
    assert pages.page_of_kubelet("n1", "/metrics/probes") is None
    for node in ("n2", "gone"):
        for path in ("/metrics", "/metrics/cadvisor"):
            assert pages.page_of_kubelet(node, path) is None


def test_pages_of_a_node_are_what_they_were() -> None:
    def lines() -> Iterator[str]:
        pages, _ = exporters()
        for path in ("/metrics", "/metrics/cadvisor"):
            yield f"== kubelet {path}"
            yield from pages.page_of_kubelet("n1", path).body.decode().splitlines()
        use = Api().use("n1", NOW_US)
        assert use is not None
        yield "== kubelet /metrics/resource"
        yield from resource_metrics(use, NOW_US + 1_999).splitlines()
        yield "== kubelet /stats/summary"
        yield from json.dumps(summary(use, NOW_US - 5 * SECOND_US, NOW_US), indent=1).splitlines()
        yield "== node-exporter"
        yield from pages.page_of_pod(exporter("node-exporter"), "/metrics").body.decode().splitlines()

    check_history(HERE / "scrapepages.txt", lines())


def test_counters_of_dcgm_come_from_a_volume() -> None:
    pages, api = exporters()
    node = obj(
        "Node",
        "g",
        metadata={"annotations": {"fairway.dev/gpus": "1 NVIDIA-L4"}},
    )
    api.store.create(node)

    def names(*volumes: Obj) -> set[str]:
        page = pages.page_of_pod(exporter("dcgm-exporter", "g", volumes=list(volumes)), "/metrics")
        return {line.split()[2] for line in page.body.decode().splitlines() if line.startswith("# TYPE")}

    def volume(name: str, data: dict[str, str] | None) -> Obj:
        if data is not None:
            api.store.create(obj("ConfigMap", name, "team", data=data))
        return {"name": name, "configMap": {"name": name}}

    usual = names()
    assert len(usual) > 3
    one = "DCGM_FI_DEV_POWER_USAGE, gauge, Power draw (in W).\n"
    assert names(volume("a", {"metrics": one})) == {"DCGM_FI_DEV_POWER_USAGE"}
    assert names(volume("b", {"default-counters.csv": one})) == {"DCGM_FI_DEV_POWER_USAGE"}
    assert names({"name": "x", "emptyDir": {}}, volume("c", {"dcgm-metrics.csv": one})) == {
        "DCGM_FI_DEV_POWER_USAGE"
    }
    assert names(volume("d", {"other": one})) == names(volume("gone", None)) == usual
    assert names(volume("e", {"other": "x"}), volume("f", {"metrics": one})) == {"DCGM_FI_DEV_POWER_USAGE"}
    assert names(volume("h", {"metrics": "nonsense\n"})) == set()


def test_pages_of_controllers_that_are_being_loaded_are_empty() -> None:
    pages, _ = exporters()
    for name in ("kube-scheduler-control-plane", "kueue-controller-manager-x", "karpenter-y"):
        own = pod(
            name,
            "kube-system",
            [{"name": "c", "image": "i"}],
            spec={"schedulerName": "fairway.dev/control-plane"},
        )
        page = pages.page_of_pod(own, "/metrics")
        assert (page.status, page.content_type, page.body) == (200, METRICS, b"")
        assert pages.page_of_pod(own, "/healthz").body == b"OK\n"
