"""What always holds of nodes that come and go, under random loads, stock-outs and interruptions."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from test_provisioner_component import TYPES, job, pool

from fairway.kube.objects import Obj
from fairway.kube.timestamps import HOUR_US, MINUTE_US
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.statenode import StateNode
from fairway.twin.distributions import Distribution
from fairway.twin.invariants import check
from fairway.twin.latency import latency_named
from fairway.twin.markets.component import SpotMarket
from fairway.twin.markets.plan import Hazard, Market
from fairway.twin.provisioner.cloud import Cloud, Shortage
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.provisioner.gathering import ClusterState
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

LIMIT_GPUS = 6


def a_load(seed: int) -> Twin:
    random = Random(seed)
    market = Market((Hazard("h", Distribution("exponential", 90 * MINUTE_US)),))
    short = Shortage(instance_type=random.choice(["small", "large", "gpu"]), capacity_type="spot", most=1)
    cloud = Cloud(TYPES, shortages=(short,))
    components = [SpotMarket(market), *standard_components(), Provisioner(cloud)]
    twin = Twin(seed=seed, latency=latency_named("zero"), components=components)
    policy = random.choice(["WhenEmpty", "WhenEmptyOrUnderutilized"])
    twin.apply([pool(limits={"nvidia.com/gpu": str(LIMIT_GPUS)}, disruption={"consolidationPolicy": policy})])
    for i in range(12):
        gpu, cpu = random.choice([0, 0, 1, 2]), random.choice(["1", "3", "7"])
        made = job(f"j{i}", f"{random.randint(1, 60)}m", cpu=cpu, gpu=gpu, count=random.randint(1, 3))
        made["spec"]["backoffLimit"] = 100
        twin.apply([made])
        twin.run_for(random.randint(0, 10) * MINUTE_US)
        _holds(twin)
    return twin


def _holds(twin: Twin) -> None:
    check(twin.host)
    known = _provisioner(twin).known
    to_place, anew = (_seen(twin, s, is_to_place=True) for s in (known, ClusterState(twin.store.fork())))
    assert [_placing(n) for n in to_place] == [_placing(n) for n in anew]
    assert _seen(twin, known) == anew
    staying = [n for n in twin.store.objects("Node") if "deletionTimestamp" not in n["metadata"]]
    gpus = sum(int(n["status"]["capacity"].get("nvidia.com/gpu", 0)) for n in staying if not _is_going(n))
    assert gpus <= LIMIT_GPUS


def _provisioner(twin: Twin) -> Provisioner:
    found = twin.component("karpenter")
    assert isinstance(found, Provisioner)
    return found


def _seen(twin: Twin, state: ClusterState, *, is_to_place: bool = False) -> list[dict[str, Any]]:
    """What a decision would see now: the same from a state kept change by change and from one made anew."""
    karpenter = _provisioner(twin)
    going = karpenter.disruption.going()
    fleet, promised = Fleet(TYPES), karpenter.promised
    world = state.world(fleet, going=going, nominated=promised, now_us=twin.now_us, is_to_place=is_to_place)
    return [_facts_of(node) for node in world.nodes]


def _placing(node: dict[str, Any]) -> Any:
    """What a pod to be placed asks of a node, and who would move from it."""
    asked = (
        "name",
        "labels",
        "taints",
        "available",
        "daemon_requests",
        "ports",
        "has_node",
        "is_initialized",
    )
    movable = [p["metadata"]["uid"] for p in node["movable"]]
    return [node[name] for name in (*asked, "is_marked_for_deletion")], movable


def _facts_of(node: StateNode) -> dict[str, Any]:
    plain = (
        "name",
        "labels",
        "taints",
        "capacity",
        "available",
        "daemon_requests",
        "ports",
        "node_object",
        "pods",
    )
    states = (
        "has_node",
        "is_initialized",
        "is_ready",
        "is_marked_for_deletion",
        "is_nominated",
        "rests_until_us",
    )
    made = {name: getattr(node, name) for name in (*plain, *states)}
    return {**made, "claim": node.claim_facts.object, "movable": node.pod_facts.movable}


def _is_going(node: Obj) -> bool:
    """Pods of a node that goes may have new nodes already, as upstream lets them."""
    return any(t["key"] == "karpenter.sh/disrupted" for t in node["spec"].get("taints") or ())


@pytest.mark.parametrize("seed", range(4))
def test_limits_hold_all_work_is_done_and_every_node_goes(seed: int) -> None:
    twin = a_load(seed)
    for _ in range(24):
        twin.run_for(HOUR_US)
        _holds(twin)
    jobs = twin.store.objects("Job.batch")
    assert [
        j["metadata"]["name"] for j in jobs if j["status"].get("succeeded") != j["spec"]["completions"]
    ] == []
    assert twin.store.objects("Node") == []
    assert twin.store.objects("NodeClaim.karpenter.sh") == []
