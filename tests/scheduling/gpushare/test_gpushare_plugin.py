"""The policies over a cluster's accounts: what they read is what is there, and whom they take for typical."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from fairway.cluster.records import PodRecord
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, key_of
from fairway.scheduling.gpushare.devices import GPU, NODE_COLUMNS, RUNNING, pod_needs
from fairway.scheduling.gpushare.fragmentation import typical_pods
from fairway.scheduling.gpushare.plugin import GpuPolicies
from fairway.scheduling.gpushare.policies import POLICIES, plugin_scores

_GIB = 1 << 30
_PRODUCT = "nvidia.com/gpu.product"


def _node(name: str, cores: int, gpus: int, product: str = "", *, shared: bool) -> Obj:
    allocatable = {"cpu": str(cores), "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    if shared:
        allocatable["fairway.dev/gpu-milli"] = str(1000 * gpus)
    labels = {_PRODUCT: product} if product else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    }


def _pod(name: str, cpu_milli: int, gpus: int, milli: int, product: str = "") -> Obj:
    limits: dict[str, str] = {"cpu": f"{cpu_milli}m", "memory": "2Gi"} if cpu_milli else {}
    if gpus:
        limits["nvidia.com/gpu"] = str(gpus)
    if milli:
        limits["fairway.dev/gpu-milli"] = str(milli)
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}]}
    if product:
        spec["nodeSelector"] = {_PRODUCT: product, "a": "T4", "z": "T4"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


class _World:
    """A store beside plain books: of each node what it has, of each pod there what it asked for and its devices."""

    def __init__(self, *nodes: Obj) -> None:
        self.store = Store(seed=1)
        self.nodes: dict[str, Obj] = {}
        self.pods: dict[str, tuple[str, int, int, int, tuple[int, ...]]] = {}
        for node in nodes:
            self.store.create(node)
            self.nodes[node["metadata"]["name"]] = node
        self.policies = GpuPolicies(self.store.accounts)
        self.made = 0

    def record(self, cpu_milli: int, gpus: int, milli: int, product: str = "") -> PodRecord:
        self.made += 1
        created = self.store.create(_pod(f"p{self.made}", cpu_milli, gpus, milli, product))
        return self.store.accounts.record(created, key_of(created))

    def run(self, node: str, cpu_milli: int, gpus: int, milli: int, devices: tuple[int, ...] = ()) -> str:
        name = self.record(cpu_milli, gpus, milli).key.name
        said = {"fairway.dev/gpu-index": ",".join(map(str, devices))} if devices else None
        self.store.bind(Key("Pod", "default", name), node, {"phase": "Running"}, said)
        self.pods[name] = (node, cpu_milli, gpus, milli, devices)
        return name

    def end(self, name: str) -> None:
        self.store.delete(Key("Pod", "default", name), grace_s=0)
        del self.pods[name]

    def table(self, codes: dict[str, int]) -> Any:
        """From the books alone. CPU, memory, devices, model, free milli by device, pods by width."""
        rows = []
        for name, row_of in sorted(self.store.accounts.row_of.items(), key=lambda item: item[1]):
            assert row_of == len(rows)
            node = self.nodes[name]
            has = node["status"]["allocatable"]
            here = [p for p in self.pods.values() if p[0] == name]
            count = min(int(has["nvidia.com/gpu"]), 16)
            row = [0] * NODE_COLUMNS
            row[0] = 1000 * int(has["cpu"]) - sum(p[1] for p in here)
            row[1] = (64 - 2 * sum(p[1] > 0 for p in here)) * _GIB
            row[2:4] = count, codes[node["metadata"]["labels"].get(_PRODUCT, "")]
            if "fairway.dev/gpu-milli" in has:
                for d in range(count):
                    row[GPU + d] = 1000 - sum((p[3] or 1000) for p in here if d in p[4])
            else:
                free = min(int(has["nvidia.com/gpu"]) - sum(p[2] for p in here), 16)
                row[GPU : GPU + free] = [1000] * free
            for _, _, gpus, milli, _ in here:
                if gpus or milli:
                    row[RUNNING + min(gpus, 16)] += 1
            rows.append(row)
        return np.array(rows, np.int64)


def _same_as_by_hand(world: _World, codes: dict[str, int], typical: Any = None) -> None:
    asked = [(1000, 0, 300), (500, 1, 0), (4000, 2, 0), (2000, 0, 0), (0, 1, 0)]
    accounts = world.store.accounts
    rows = np.arange(accounts.row_count)
    for name, policy in POLICIES.items():
        if policy.uses_demand and typical is None:
            continue
        for cpu, gpus, milli in asked:
            record = world.record(cpu, gpus, milli)
            table = np.concatenate(
                [
                    world.table(codes),
                    np.zeros((accounts.alive.shape[0] - accounts.row_count, NODE_COLUMNS), np.int64),
                ]
            )
            scores, chosen = np.full((2, len(table)), -1, np.int64)
            needs = pod_needs(
                cpu, 2 * _GIB if cpu else 0, gpus or (1 if milli else 0), milli or (1000 if gpus else 0)
            )
            policy.score(table, rows, needs, scores, chosen, *(tuple(typical) if policy.uses_demand else ()))
            want = plugin_scores(policy, np.maximum(scores[rows], 0))
            found, devices = world.policies.scores(name, record, rows)
            assert world.policies._nodes.tolist() == table.tolist()
            assert found.tolist() == ([0] * len(rows) if policy.draws else want.tolist()), name
            fits = scores[rows] >= 0
            assert devices[fits].tolist() == chosen[rows][fits].tolist(), name
            world.store.delete(record.key, grace_s=0)


def test_what_policies_read_follows_the_cluster() -> None:
    """Pods come and go, nodes come, change and get another label: the table is what the books say."""
    world = _World(
        _node("a", 32, 4, "A10", shared=True),
        _node("b", 16, 2, shared=False),
        _node("c", 64, 20, "T4", shared=False),
        _node("d", 8, 0, shared=False),
    )
    codes = {"A10": 1, "": 0, "T4": 2}
    _same_as_by_hand(world, codes)
    first = world.run("a", 1000, 0, 400, (1,))
    second = world.run("a", 500, 2, 0, (2, 3))
    third = world.run("c", 1500, 17, 0)
    world.run("b", 16_000, 1, 0)
    world.run("d", 900, 0, 0)
    _same_as_by_hand(world, codes)
    world.end(first)
    world.run("c", 100, 2, 0)
    _same_as_by_hand(world, codes)
    world.end(third)
    world.end(second)
    for changed in (_node("b", 12, 8, "H100", shared=False), _node("d", 9, 1, "A10", shared=True)):
        world.store.replace(changed)
        world.nodes[changed["metadata"]["name"]] = changed
    _same_as_by_hand(world, {**codes, "H100": 3})
    draw = Random(7)
    names = [f"n{i}" for i in range(20)]
    for name in names:
        made = _node(name, draw.randrange(8, 40), draw.choice((1, 2, 8)), "A10", shared=draw.random() < 0.5)
        world.store.create(made)
        world.nodes[name] = made
    _same_as_by_hand(world, {**codes, "H100": 3})
    for name in names[::2]:
        if "fairway.dev/gpu-milli" in world.nodes[name]["status"]["allocatable"]:
            world.run(name, draw.randrange(100, 4000), 0, draw.randrange(1, 999), (0,))
        else:
            world.run(name, draw.randrange(100, 4000), 1, 0)
    _same_as_by_hand(world, {**codes, "H100": 3})


@pytest.mark.parametrize(
    ("before", "more", "counts_anew"),
    [(0, 31, False), (0, 32, True), (1, 30, False), (1, 31, True), (20, 19, False), (20, 20, True)],
)
def test_typical_are_the_pods_seen_counted_anew_at_twice_as_many(
    before: int, more: int, counts_anew: bool
) -> None:
    """At first as if sixteen had been seen, even where nobody was."""
    world = _World(_node("a", 32, 4, "A10", shared=True), _node("b", 6, 2, shared=True))
    world.run("a", 1000, 0, 400, (1,))
    codes = {"": 0, "A10": 1}
    whole, part, wanting = (
        world.record(3000, 1, 0),
        world.record(500, 0, 250),
        world.record(100, 1, 0, "A10"),
    )
    # Nobody has looked yet: models are known from the first look on.
    world.policies.scores("BestFit", whole, np.arange(2))
    for _ in range(before):
        world.policies.see(whole)
    typical = typical_pods([(3000, 0, 1, 1000, -1)] * before, [""] * before)
    _same_as_by_hand(world, codes, typical)
    for number in range(more):
        world.policies.see(wanting if number % 3 == 0 else part)
    if counts_anew:
        wants = [(3000, 0, 1, 1000, -1)] * before
        wants += [(100, 0, 1, 1000, 1 << 1) if i % 3 == 0 else (500, 0, 1, 250, -1) for i in range(more)]
        typical = typical_pods(wants, [""] * len(wants))
    _same_as_by_hand(world, codes, typical)
