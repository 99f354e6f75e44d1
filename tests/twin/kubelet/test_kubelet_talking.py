"""How long a run takes by where its members are: packed, spread, on Ethernet."""

from __future__ import annotations

import pytest

from fairway.kube.objects import Key, Obj, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.twin.behaviour import behaviour_of, said
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import EPOCH_US, Twin


def node(name: str, kind: str, **resources: str) -> Obj:
    capacity = {"cpu": "96", "memory": "1900Gi", "pods": "110", "nvidia.com/gpu": "8", **resources}
    labels = {"node.kubernetes.io/instance-type": kind, "kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": capacity},
    }


def job(workers: int, gpus: int, **said: str) -> Obj:
    notes = {f"fairway.dev/{k.replace('_', '-')}": v for k, v in {"run_time": "100s", **said}.items()}
    container = {"name": "pytorch", "image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    template = {
        "metadata": {"annotations": notes},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": template}}},
    }


def took(*objects: Obj) -> float:
    """Seconds of the longest run."""
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    twin.apply([space, *objects])
    twin.run_for(20_000 * SECOND_US)
    found = []
    for pod in twin.store.objects("Pod"):
        ended = status_of(pod)["containerStatuses"][0]["state"]["terminated"]
        found.append((parse_rfc3339(ended["finishedAt"]) - parse_rfc3339(ended["startedAt"])) / SECOND_US)
    return max(found)


H100 = "Standard_ND96isr_H100_v5"
TALKS = {"step_time": "500ms", "step_traffic": "all_reduce=28Gi"}


def test_without_traffic_a_run_takes_what_it_says() -> None:
    assert took(node("a", H100), job(1, 8)) == pytest.approx(100, abs=1)


def test_one_node_is_faster_than_two_and_ethernet_the_slowest() -> None:
    # 28 GiB over NVLS: 107 ms beside 500 of computing; over two nodes by ring or tree 152 ms.
    one = took(node("a", H100), job(1, 8, **TALKS))
    two = took(node("a", H100), node("b", H100), job(2, 8, **TALKS))
    cards = {"rdma/hca": "8"}
    tcp = took(node("a", H100, **cards), node("b", H100, **cards), job(2, 8, **TALKS))
    assert one == pytest.approx(121, abs=2)
    assert two == pytest.approx(130.5, abs=2)
    assert tcp > 10 * two


LEAF, OVER = "network.topology.nvidia.com/leaf", "fairway.dev/oversubscription"


@pytest.mark.parametrize(
    ("labels", "times"),
    [
        (({LEAF: "l1", OVER: "4"}, {LEAF: "l1", OVER: "4"}), 1),
        (({LEAF: "l1", OVER: "4"}, {LEAF: "l2", OVER: "2"}), 4),
        (({"topology.k8s.aws/network-node-layer-3": "l1", OVER: "3"}, {OVER: "3"}), 3),
        (({LEAF: "l1", OVER: "much"}, {LEAF: "l2", OVER: "-3"}), 1),
        (({LEAF: "l1", OVER: "0"}, {LEAF: "l2"}), 1),
        (({OVER: "4"}, {OVER: "4"}), 1),
    ],
)
def test_above_its_leaves_a_fabric_carries_less(labels: tuple[dict[str, str], ...], times: float) -> None:
    plain, told = [node("a", H100), node("b", H100)], [node("a", H100), node("b", H100)]
    for one, more in zip(told, labels, strict=True):
        one["metadata"]["labels"].update(more)
    ring = {"step_time": "500ms", "step_traffic": "sendrecv=28Gi"}
    alone = took(*plain, job(2, 8, **ring)) - 100
    assert alone > 1
    assert took(*told, job(2, 8, **ring)) - 100 == pytest.approx(alone * times, rel=0.02)


def test_groups_inside_a_node_do_not_cross_the_network() -> None:
    nodes = [node("a", H100), node("b", H100)]
    inside = took(*nodes, job(2, 8, step_time="500ms", step_traffic="all_reduce@8=28Gi"))
    assert inside == pytest.approx(took(nodes[0], job(1, 8, **TALKS)), abs=1)


@pytest.mark.parametrize(
    "text", ["all_reduce", "gossip=1Gi", "all_reduce@1=1Gi", "all_reduce@x=1Gi", "all_reduce=much", ""]
)
def test_traffic_that_is_none_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="step-traffic"):
        behaviour_of({"name": "c"}, "Never", said({"fairway.dev/step-traffic": text}))


def test_a_member_that_comes_again_slows_only_its_own_run() -> None:
    """The other one waits for it, and then has left what it had left: it has talked its share of the rest already."""
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    twin.apply([space, node("a", H100), node("b", H100), job(2, 8, **TALKS)])
    twin.run_for(50 * SECOND_US)
    key = Key("Pod", "default", "train-worker-1")
    first = twin.store.require(key)["metadata"]["uid"]
    twin.store.delete(key, grace_s=0)
    twin.wake()
    twin.run_for(40 * SECOND_US)
    assert twin.store.require(key)["metadata"]["uid"] != first
    twin.run_for(1000 * SECOND_US)
    runs = {}
    for pod in twin.store.objects("Pod"):
        ended = status_of(pod)["containerStatuses"][0]["state"]["terminated"]
        began, over = (parse_rfc3339(ended[name]) - EPOCH_US for name in ("startedAt", "finishedAt"))
        runs[pod["metadata"]["name"]] = (began // SECOND_US, over // SECOND_US)
    assert runs == {"train-worker-0": (0, 130), "train-worker-1": (50, 180)}
