"""How long a run takes by where its members are: packed, spread, on Ethernet."""

from __future__ import annotations

from typing import Any

import kubeletworld
import pytest
from kubeletworld import World

from fairway.devices.collectives import Place, time_of
from fairway.kube.objects import Key, Obj, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.twin.behaviour import behaviour_of, said
from fairway.twin.kubelet import talking
from fairway.twin.kubelet.plans import plan_of
from fairway.twin.kubelet.states import PodState
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


# Places, and how long steps take there, without controllers


def member(name: str, on: str, gpus: int = 8, step: str = "", traffic: str = "", **limits: str) -> Obj:
    asks = {"nvidia.com/gpu": str(gpus), **limits} if gpus else limits
    says = {"run-time": "100s", "step-time": step, "step-traffic": traffic}
    made = kubeletworld.container("c", resources={"limits": asks})
    return kubeletworld.pod(name, made, nodeName=on, says={k: v for k, v in says.items() if v})


def machine(name: str, kind: str = H100, labels: dict[str, str] | None = None, **more: str) -> Obj:
    types = {"node.kubernetes.io/instance-type": kind} if kind else {}
    made = kubeletworld.node(name, cpu="192", labels={**types, **(labels or {})})
    made["status"]["allocatable"] |= {"nvidia.com/gpu": "8", **more}
    return made


def at_work(world: World, *names: str) -> list[PodState]:
    found = {pod.key.name: pod for pod in world.kubelet.pods.values()}
    return [found[name] for name in names]


A100 = "p4d.24xlarge"


def test_where_members_are() -> None:
    nodes = [
        *(
            machine("a", labels={LEAF: "l1", OVER: "3"}),
            machine("b", labels={LEAF: "l2"}),
            machine("slow", A100),
        ),
        *(
            machine("cards", **{"rdma/hca": "8"}),
            machine("nothing", ""),
            machine("model", "", {PRODUCT: H100_MODEL}),
        ),
    ]
    pods = [
        *(
            member("a", "a"),
            member("b", "b"),
            member("half", "b", 4),
            member("none", "b", 0),
            member("slow", "slow"),
        ),
        *(
            member("no-card", "cards"),
            member("card", "cards", 8, **{"rdma/hca": "1"}),
            member("nothing", "nothing"),
        ),
        member("model", "model"),
    ]
    world = World(nodes=nodes).at(1)
    for state in world.kubelet.nodes.values():
        state.allocatable = {**(state.allocatable or {}), "nvidia.com/gpu": 99, "rdma/hca": 99}
        if state.name != "cards":
            del state.allocatable["rdma/hca"]
    world.twin.apply(pods)
    world.twin.run(world.us(2))

    def place(*names: str) -> tuple[str, int, int, bool, float] | None:
        found = talking._place(world.kubelet, at_work(world, *names))
        return found and (
            found.model.name[-4:],
            found.nodes,
            found.per_node,
            found.has_rdma,
            found.oversubscribed,
        )

    kind, slow = place("a"), place("slow")
    assert kind is not None and slow is not None and kind[0] != slow[0]
    assert kind[1:] == (1, 8, True, 1.0)
    assert place("a", "b") == (kind[0], 2, 8, True, 3.0)
    assert place("a", "half") == (kind[0], 2, 8, True, 3.0), "the most of a node"
    assert place("b", "half") == (kind[0], 1, 12, True, 1.0)
    assert place("none") is None and place() is None
    assert place("a", "none") == kind
    assert place("a", "slow") == (slow[0], 2, 8, True, 3.0), "the least network stands for all"
    assert place("slow", "a") == place("a", "slow")
    assert place("no-card", "a") == (kind[0], 2, 8, False, 3.0) == place("a", "no-card")
    assert place("card", "b") == (kind[0], 2, 8, True, 1.0)
    assert place("nothing") is None and place("a", "nothing") is None
    known = place("model")
    assert known is not None and known[1:] == (1, 8, True, 1.0)
    # Members of a node that goes in this moment are nowhere.
    world.twin.store.delete(Key("Node", "", "b"))
    assert place("a", "b") is None


PRODUCT, H100_MODEL = "nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"


def test_how_long_steps_take() -> None:
    pods = [
        member("silent", "a"),
        member("computes", "a", step="300ms"),
        member("talks", "a", step="500ms", traffic="all_reduce=28Gi,alltoall@4=1Gi,all_gather@8=2Gi"),
        member("only-talks", "a", traffic="all_reduce=28Gi"),
        member("much", "a", step="1us", traffic="all_reduce=28Gi"),
        member("nowhere", "a", 0, step="200ms", traffic="all_reduce=28Gi"),
    ]
    world = World(nodes=[machine("a", **{"nvidia.com/gpu": "99"})]).at(1)
    kubelet = world.kubelet
    world.twin.apply(pods)
    world.at(1.5)
    states = {
        name: at_work(world, name)
        for name in ("silent", "computes", "talks", "only-talks", "much", "nowhere")
    }
    place = talking._place(kubelet, states["talks"])
    assert place is not None
    groups = Place(place.board, place.model, 1, 4)
    talked_us = 1e6 * (
        time_of(place, "all_reduce", 28 << 30).seconds
        + time_of(groups, "alltoall", 1 << 30).seconds
        + time_of(place, "all_gather", 2 << 30).seconds
    )
    for names, want in (
        (("silent",), None),
        ((), None),
        (("only-talks",), None),
        (("computes",), 300_000),
        (("silent", "computes"), 300_000),
        (("nowhere",), 200_000),
        (("talks",), 500_000 + talked_us),
    ):
        found = talking.step_us(kubelet, [state for name in names for state in states[name]])
        assert found == (want if want is None else pytest.approx(want)), names
    both = talking.step_us(kubelet, [*states["nowhere"], *states["computes"]])
    assert (
        both is not None
        and both == talking.step_us(kubelet, [*states["computes"], *states["nowhere"]]) >= 300_000
    )
    assert [one.wire_milli for (one,) in states.values()] == [
        *(1000, 1000, 1000 + round(talked_us / 500), 1000, 1_000_000, 1000),
    ]
    (talks,), (computes,) = states["talks"], states["computes"]
    assert talks.containers[0].exit_at is not None and computes.containers[0].exit_at is not None
    lasts_us = talks.containers[0].exit_at.finished_us - talks.containers[0].started_us
    assert lasts_us == 100_000 * talks.wire_milli
    assert computes.containers[0].exit_at.finished_us - computes.containers[0].started_us == 100 * SECOND_US
    # Paced once more, nothing changes.
    before = talks.containers[0].exit_at
    talking.pace(kubelet, [talks])
    assert talks.containers[0].exit_at is before
    # Beside one that only computes there are sixteen of them.
    wire = talks.wire_milli
    talking.pace(kubelet, [computes, talks])
    assert talks.wire_milli != wire and computes.wire_milli == 1000


@pytest.mark.parametrize(
    ("ranks", "nodes", "per_node"),
    [(0, 2, 8), (4, 1, 4), (8, 1, 8), (9, 2, 8), (12, 2, 8), (15, 2, 8), (16, 2, 8), (32, 2, 8)],
)
def test_a_group_of_ranks_takes_as_few_nodes_as_it_can(ranks: int, nodes: int, per_node: int) -> None:
    world = World(member("p", "a"), nodes=[machine("a")]).at(1)
    one = talking._place(world.kubelet, at_work(world, "p"))
    assert one is not None
    two = Place(one.board, one.model, 2, 8)
    want = time_of(Place(one.board, one.model, nodes, per_node), "all_reduce", 1 << 30).seconds * 1e6
    assert talking._talk_us(two, "all_reduce", ranks, 1 << 30) == want


def test_leaves_that_are_shared() -> None:
    def above(*labels: Any) -> float:
        return talking._oversubscribed([{"metadata": {"labels": one}} for one in labels])

    aws = "topology.k8s.aws/network-node-layer-3"
    assert above() == above({}) == above({LEAF: "a", OVER: "4"}) == 1.0
    assert above({LEAF: "a", OVER: "4"}, {LEAF: "a", OVER: "5"}) == 1.0
    assert above({LEAF: "a"}, {LEAF: "b"}) == 1.0
    assert above({LEAF: "a", OVER: "4"}, {LEAF: "b", OVER: "5"}, {LEAF: "b"}) == 5.0
    assert (
        above({LEAF: "a", OVER: "100"}, {LEAF: "b"}) == above({LEAF: "a", OVER: "101"}, {LEAF: "b"}) == 100.0
    )
    assert above({aws: "a", OVER: "2"}, {aws: "b"}) == 2.0
    assert above({LEAF: "a", aws: "x", OVER: "2"}, {LEAF: "a", aws: "y"}) == 1.0, (
        "the first that any of them has"
    )


def test_a_member_without_plans_of_steps_goes_on_as_it_was() -> None:
    state = PodState("u", Key("Pod", "default", "p"), "a", plan_of({"containers": [{"name": "c"}]}), 0)
    world = World(nodes=[machine("a")]).at(1)
    talking.pace(world.kubelet, [state])
    assert state.wire_milli == 1000 and talking.step_us(world.kubelet, [state]) is None
