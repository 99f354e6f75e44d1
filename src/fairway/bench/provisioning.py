"""How fast are nodes found for ten thousand pods?

Karpenter's own benchmark: 400 instance types over three zones and two capacity types, one NodePool with limits, and
pods of five kinds in equal parts (plain, spread over zones, spread over hosts, wanting their own kind's zone,
refusing their own kind's host) with random requests. Karpenter needs 8.1 s for 10,000 of them on an M3 Pro; its own
floor is 100 pods/s.

Source: pkg/controllers/provisioning/scheduling/scheduling_benchmark_test.go.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from typing import Any

from fairway.bench import BenchRow
from fairway.kube.objects import Obj
from fairway.kube.resources import CPU, MEMORY, PODS
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.instancetypes import GIB, MIB, InstanceType, Offering
from fairway.provisioning.karpenter.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    ON_DEMAND,
    OS,
    SPOT,
    ZONE,
)
from fairway.provisioning.karpenter.nodepools import node_pool
from fairway.provisioning.karpenter.packing import Solver
from fairway.provisioning.karpenter.podfacts import Shapes, facts_of
from fairway.provisioning.karpenter.requirement import one_of
from fairway.provisioning.karpenter.requirements import Requirements
from fairway.provisioning.karpenter.world import World

KARPENTER_S = 8.1
FLOOR_PER_S = 100
TYPES = 400
_OFFERED = (
    ("test-zone-1", SPOT),
    ("test-zone-2", SPOT),
    ("test-zone-1", ON_DEMAND),
    ("test-zone-2", ON_DEMAND),
    ("test-zone-3", ON_DEMAND),
)
_LABELS = "abcdefg"
_CPU_MILLI = (100, 250, 500, 1000, 1500)
_MEMORY_MIB = (100, 256, 512, 1024, 2048, 4096)


def run(quick: bool) -> Iterator[BenchRow]:
    for count in (2_000,) if quick else (2_000, 10_000):
        took_s, nodes = measure(count)
        if count == 10_000:
            reference = f"{KARPENTER_S} s, Karpenter on an M3 Pro; ours is to be 2 s"
            yield BenchRow(f"provisioning/{count}/{TYPES}", took_s, "s", KARPENTER_S / took_s, reference)
        floor = f"{FLOOR_PER_S} pods/s, Karpenter's own floor ({nodes} nodes)"
        per_s = count / took_s
        yield BenchRow(f"provisioning/{count}/{TYPES}/rate", per_s, "pods/s", per_s / FLOOR_PER_S, floor)


def measure(count: int) -> tuple[float, int]:
    """CPU seconds from pods to claims, and how many those are."""
    pods = diverse_pods(count)
    pool = node_pool(_POOL)
    world = World((pool,), {pool.name: Fleet(fake_types(TYPES))})
    gc.collect()
    started_s = time.process_time()
    shapes = Shapes()
    facts = [facts_of(p, shapes.of(p)) for p in pods]
    results = Solver(world, shapes).solve(facts)
    took_s = time.process_time() - started_s
    if results.refused:
        raise AssertionError(f"{len(results.refused)} of {count} pods were refused: {results.refused[0][1]}")
    return took_s, len(results.claims)


_POOL: Obj = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "requirements": [{"key": CAPACITY_TYPE, "operator": "Exists"}],
                "nodeClassRef": {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"},
            }
        },
        "limits": {"cpu": "10000000", "memory": "10000000Gi"},
    },
}


def fake_types(count: int) -> list[InstanceType]:
    """Types of 1 to `count` CPUs with 2 GiB and ten pods each. Source: cloudprovider/fake InstanceTypes."""
    return [_fake_type(i + 1) for i in range(count)]


def _fake_type(size: int) -> InstanceType:
    name = f"fake-it-{size - 1}"
    price = size * 25_000 + size * 2 * GIB // 10**6
    labels = [
        one_of(INSTANCE_TYPE, (name,)),
        one_of(ARCH, ("amd64",)),
        one_of(OS, ("linux",)),
        one_of(ZONE, {zone for zone, _ in _OFFERED}),
        one_of(CAPACITY_TYPE, (SPOT, ON_DEMAND)),
    ]
    capacity = {CPU: size * 1000, MEMORY: 2 * size * GIB, PODS: 10 * size}
    offerings = tuple(Offering(zone, capacity_type, price) for zone, capacity_type in _OFFERED)
    return InstanceType(name, Requirements(labels), offerings, capacity, {CPU: 100, MEMORY: 10 * MIB})


def diverse_pods(count: int) -> list[Obj]:
    """A fifth of each kind; what does not divide is plain."""
    chance = random.Random(42)
    each = count // 5
    spread_zone = [_pod(chance, _spread(chance, ZONE)) for _ in range(each)]
    spread_host = [_pod(chance, _spread(chance, HOSTNAME)) for _ in range(each)]
    near = [_near(chance) for _ in range(each)]
    apart = [_apart(chance) for _ in range(each)]
    plain = [_pod(chance, {}) for _ in range(count - 4 * each)]
    pods = [*plain, *spread_zone, *spread_host, *near, *apart]
    for i, pod in enumerate(pods):
        pod["metadata"] |= {"name": f"pod-{i:05d}", "uid": f"{chance.getrandbits(64):016x}"}
    return pods


def _spread(chance: random.Random, key: str) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    selector = {"matchLabels": {"my-label": chance.choice(_LABELS)}}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": selector}]}


def _near(chance: random.Random) -> Obj:
    labels = {"my-affinity": chance.choice(_LABELS)}
    return _pod(chance, {"affinity": {"podAffinity": _required(labels, ZONE)}}, labels)


def _apart(chance: random.Random) -> Obj:
    labels = {"app": "nginx"}
    return _pod(chance, {"affinity": {"podAntiAffinity": _required(labels, HOSTNAME)}}, labels)


def _required(labels: dict[str, str], key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _pod(chance: random.Random, spec: dict[str, Any], labels: dict[str, str] | None = None) -> Obj:
    requests = {
        "cpu": f"{chance.choice(_CPU_MILLI)}m",
        "memory": f"{chance.choice(_MEMORY_MIB)}Mi",
    }
    container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
    metadata = {"namespace": "default", "labels": labels or {"my-label": chance.choice(_LABELS)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }
