"""`nvidia-smi` on nodes of several kinds, whole: as their debugger sees them, and as containers with a part do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.histories import check_history

from fairway.apiserver.kubelets import nvidiasmi
from fairway.apiserver.kubelets.nvidiasmireport import QUERIES
from fairway.apiserver.kubelets.place import Place
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339

HERE = Path(__file__).parent
NOW_US = parse_rfc3339("2026-01-15T01:00:00Z")
# Annotations and labels of the nodes.
NODES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "cut": (
        {"gpus": "2 NVIDIA-H100-80GB-HBM3", "gpu-layout": "0=3g.40gb@4,2g.20gb@0,1g.10gb@2"},
        {"nvidia.com/gpu.clique": "6f0a.3"},
    ),
    "sick": (
        {"gpus": "4 NVIDIA-A100-80GB-PCIe", "gpu-unhealthy": "1", "gpu-fault": "xid, driver-version"},
        {"node.kubernetes.io/instance-type": "Standard_NC96ads_A100_v4", "nvidia.com/gpu.memory": "81920"},
    ),
    "small": ({"gpus": "1 NVIDIA-A30", "gpu-layout": "0=2g.12gb@0"}, {}),
    "dense": (
        {"gpus": "8 NVIDIA-B200", "board": "dgx-b200", "gpu-layout": "7=1g.23gb@0"},
        {"nvidia.com/cuda.driver-version.full": "590.48.01"},
    ),
    "old": ({"gpus": "8 Tesla-V100-SXM2-16GB"}, {"node.kubernetes.io/instance-type": "p3.16xlarge"}),
    "cheap": ({"gpus": "4 NVIDIA-L40S", "board": "ovx-l40s"}, {}),
    "turing": ({"gpus": "1 Tesla-T4"}, {}),
    "unheard of": ({"gpus": "2 NVIDIA-Some-Card-Nobody-Has-Described"}, {}),
}
# Pods by node, name, phase; what they ask for, and their annotations.
PODS: tuple[tuple[str, str, str, dict[str, str], dict[str, str]], ...] = (
    (
        "cut",
        "whole",
        "Running",
        {"nvidia.com/gpu": "1"},
        {"gpu-index": "1", "gpu-memory": "10Gi", "gpu-utilization": "30%"},
    ),
    (
        "cut",
        "beside",
        "Running",
        {"nvidia.com/gpu.shared": "1"},
        {"gpu-index": "1", "gpu-memory": "1Gi", "gpu-utilization": "80%"},
    ),
    (
        "cut",
        "part",
        "Running",
        {"nvidia.com/mig-3g.40gb": "1"},
        {"gpu-instances": "0/3g.40gb@4", "gpu-memory": "2Gi", "gpu-utilization": "50%"},
    ),
    (
        "cut",
        "later",
        "Pending",
        {"nvidia.com/gpu": "1"},
        {"gpu-index": "1", "gpu-memory": "20Gi", "gpu-utilization": "5%"},
    ),
    ("cut", "idle", "Running", {"nvidia.com/gpu": "1"}, {"gpu-index": "1"}),
    ("sick", "all", "Running", {"nvidia.com/gpu": "4"}, {"gpu-memory": "200Gi", "gpu-utilization": "100%"}),
    (
        "small",
        "slice",
        "Running",
        {"nvidia.com/mig-2g.12gb": "1"},
        {"gpu-instances": "0/2g.12gb@0", "gpu-memory": "20Gi", "gpu-utilization": "100%"},
    ),
    (
        "dense",
        "six",
        "Running",
        {"nvidia.com/gpu": "6"},
        {"gpu-memory": "0s:1Gi,30m:100Gi,60m:120Gi,61m:3Gi", "gpu-utilization": "0s:1.4%,60m:99.5%"},
    ),
    ("old", "two", "Running", {"nvidia.com/gpu": "2"}, {"gpu-index": "1,3", "gpu-utilization": "1%"}),
    (
        "cheap",
        "exactly-thirty-eight-characters-it-has",
        "Running",
        {"nvidia.com/gpu": "1"},
        {"gpu-memory": "9Gi"},
    ),
    (
        "cheap",
        "one-more-than-thirty-eight-characters-x",
        "Running",
        {"nvidia.com/gpu": "1"},
        {"gpu-memory": "8Gi"},
    ),
    ("unheard of", "one", "Running", {"nvidia.com/gpu": "1"}, {"gpu-memory": "4Gi"}),
)
OF_ALL = ("", "-L", "topo -m", "mig -lgi")
OF_NODES = (
    "dmon -c 2 -i 0,1",
    "pmon",
    "nvlink --status -i 0",
    "mig -lgip",
    "mig -lgipp",
    "mig -lci",
    "mig -cgi 9",
    "--query-compute-apps=timestamp,gpu_name,gpu_bus_id,gpu_uuid,pid,name,used_memory --format=csv",
)


def world() -> Store:
    store = Store(now_us=NOW_US)
    for name, (notes, labels) in NODES.items():
        annotations = {f"fairway.dev/{k}": v for k, v in notes.items()}
        meta = {"name": name.replace(" ", "-"), "labels": labels, "annotations": annotations}
        store.create({"apiVersion": "v1", "kind": "Node", "metadata": meta})
    for node, name, phase, limits, notes in PODS:
        annotations = {f"fairway.dev/{k}": v for k, v in notes.items()}
        image = f"registry.example:5000/team/{name}{'' if len(name) > 9 else '-of-trainers-with-a-name-that-is-cut'}:1"
        spec = {
            "nodeName": node.replace(" ", "-"),
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": image, "resources": {"limits": limits}}],
        }
        meta = {"name": name, "namespace": "team", "annotations": annotations, "uid": f"uid-{name}"}
        store.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        statuses = [{"name": "c", "state": {"running": {"startedAt": "2026-01-15T00:00:00Z"}}}]
        store.set_status(Key("Pod", "team", name), {"phase": phase, "containerStatuses": statuses})
    return store


def places(store: Store) -> Iterator[tuple[str, Place]]:
    for name in NODES:
        node = name.replace(" ", "-")
        meta = {"name": f"node-debugger-{node}-x7x2p", "namespace": "team"}
        spec = {"nodeName": node, "hostPID": True, "containers": [{"name": "c"}]}
        debugger: Obj = {"metadata": meta, "spec": spec}
        yield f"node {name}", Place(debugger, "c", node, store, NOW_US)
    for node, name, *_ in PODS:
        pod = store.require(Key("Pod", "team", name))
        yield f"pod {name}", Place(pod, "c", node.replace(" ", "-"), store, NOW_US)


def told(at: Place, question: str) -> list[str]:
    said = nvidiasmi.shown(question.split(), at)
    if said is None:
        return ["nothing"]
    known = "" if said.is_known else ", not known"
    return [
        *(line.rstrip() for line in said.text.splitlines()),
        *([f"code {said.code}{known}"] * bool(said.code)),
    ]


def said() -> Iterator[str]:
    """An answer that another place gave is named by that place; of reports, what differs from the first one's."""
    store, before, first = world(), dict[tuple[str, ...], str](), list[str]()
    for name, at in places(store):
        is_node = name.startswith("node")
        for question in (*OF_ALL, *(OF_NODES if is_node else ())):
            lines = tuple(told(at, question))
            known = before.setdefault(lines, f"{name}: {question}")
            yield f"== {name}: {question}" + ("" if known == f"{name}: {question}" else f": as {known}")
            yield from lines if known == f"{name}: {question}" else ()
        everything = f"--query-gpu={','.join(QUERIES)} --format=csv,noheader"
        yield f"== {name}: every field"
        yield from (row.replace(", ", ",") for row in told(at, everything))
        report = told(at, "-q -i 0,3")
        yield f"== {name}: -q, {len(report)} lines"
        yield from (f"{i} {line.strip()}" for i, line in enumerate(report) if is_node and line not in first)
        first = first or report


def test_nodes_and_containers_say_what_they_said() -> None:
    check_history(HERE / "nvidiasmi.txt", said())
