"""The resource scores of every strategy, node by node and step by step as upstream takes them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from judging import Cluster
from oracle.resources import balance_score, fit_score

from builders import GPU, NodeBuilder, PodBuilder, node, pod
from fairway.kube.objects import Obj, key_of
from fairway.scheduling.profile import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    FitStrategy,
)
from fairway.scheduling.resourcescores import balanced_scores, fit_scores

CPU, MEMORY, STORAGE = "cpu", "memory", "ephemeral-storage"
RESOURCES = (CPU, MEMORY, STORAGE, GPU)
# What a container counts for that does not say. Source: pkg/scheduler/util/pod_resources.go.
_UNSAID = {CPU: 100, MEMORY: 200 * 2**20}
_UNITS = {CPU: "m", MEMORY: "Mi", STORAGE: "Mi", GPU: ""}
_SIZES = {CPU: 1, MEMORY: 2**20, STORAGE: 2**20, GPU: 1}
_AMOUNTS = {CPU: (0, 1, 300, 1000), MEMORY: (0, 7, 400, 900), STORAGE: (0, 50, 300), GPU: (0, 1, 2)}
_THERE = {CPU: (900, 1000, 3001), MEMORY: (1000, 1024, 2500), STORAGE: (0, 100, 999), GPU: (0, 1, 3, 8)}
# Points of (utilization, score).
_SHAPES = (
    ((0, 0), (100, 10)),
    ((0, 10), (100, 0)),
    ((20, 3), (50, 10), (90, 1)),
    ((0, 0), (30, 7), (31, 2), (80, 2), (100, 9)),
    ((40, 6),),
)

Amounts = dict[str, int]


class World:
    """A few nodes with pods on them, and plain books of what there is and what is taken."""

    def __init__(self, seed: int) -> None:
        r = self.r = Random(seed)
        self.there: list[Amounts] = []
        self.taken: list[Amounts] = []
        self.counted: list[Amounts] = []
        nodes, running = [], {}
        for number in range(6):
            name = f"n{number}"
            there = {resource: r.choice(amounts) for resource, amounts in _THERE.items()}
            asked = [self.amounts() for _ in range(r.randrange(4))]
            nodes.append(_node(name, there))
            running[name] = [_pod(f"{name}-{i}", amounts) for i, amounts in enumerate(asked)]
            self.there.append({resource: amount * _SIZES[resource] for resource, amount in there.items()})
            self.taken.append(_sum([_bytes(amounts) for amounts in asked]))
            self.counted.append(_sum([_counted(amounts) for amounts in asked]))
        self.cluster = Cluster(nodes, running)
        self.rows = np.array([self.cluster.store.accounts.row_of[n.name] for n in nodes], np.int64)

    def amounts(self) -> Amounts:
        """What one pod asks for; what it does not say is not there."""
        r = self.r
        return {resource: r.choice(_AMOUNTS[resource]) for resource in RESOURCES if r.random() < 0.6}


def _node(name: str, there: Amounts) -> NodeBuilder:
    built = node(name)
    for resource, amount in there.items():
        built.has(resource, f"{amount}{_UNITS[resource]}") if amount else built.lacks(resource)
    return built


def _pod(name: str, asked: Amounts) -> PodBuilder:
    built = pod(name)
    for resource, amount in asked.items():
        built.asks(resource, f"{amount}{_UNITS[resource]}")
    return built


def _bytes(asked: Amounts) -> Amounts:
    return {resource: asked.get(resource, 0) * _SIZES[resource] for resource in RESOURCES}


def _counted(asked: Amounts) -> Amounts:
    unsaid = {resource: amount for resource, amount in _UNSAID.items() if resource not in asked}
    return {**_bytes(asked), **unsaid}


def _sum(parts: list[Amounts]) -> Amounts:
    return {resource: sum(part[resource] for part in parts) for resource in RESOURCES}


@pytest.mark.parametrize("seed", range(12))
def test_scores_are_those_worked_out_node_by_node(seed: int) -> None:
    world = World(seed)
    accounts = world.cluster.store.accounts
    books = list(zip(world.there, world.taken, world.counted, strict=True))
    for number in range(12):
        said = world.amounts()
        created = world.cluster.store.create(_pod(f"p{number}", said).build())
        shape = accounts.record(created, key_of(created)).shape
        chosen = tuple(world.r.sample(RESOURCES, world.r.randint(1, 4)))
        weighted = tuple((resource, world.r.choice((1, 2, 5))) for resource in chosen)
        strategies = [
            FitStrategy(LEAST_ALLOCATED, weighted),
            FitStrategy(MOST_ALLOCATED, weighted),
            *(FitStrategy(REQUESTED_TO_CAPACITY_RATIO, weighted, points) for points in _SHAPES),
        ]
        for strategy in strategies:
            raw = _written(strategy)
            want = [fit_score(raw, there, counted, _counted(said)) for there, _, counted in books]
            assert fit_scores(accounts, shape, strategy, world.rows).tolist() == want, raw
        asked = _bytes(said)
        found = balanced_scores(accounts, shape, chosen, world.rows)
        assert (found is None) == (not any(asked[resource] for resource in chosen))
        if found is not None:
            assert found.tolist() == [balance_score(chosen, there, taken, asked) for there, taken, _ in books]


def test_what_is_used_evenly_is_balanced_but_for_the_last_bits_of_its_mean() -> None:
    """A tenth three times is not three tenths; whatever is off by that is squared, never below nothing."""
    there = {CPU: 2000, MEMORY: 2000, STORAGE: 2000, GPU: 20}
    cluster = Cluster([_node("n", there)])
    accounts = cluster.store.accounts
    rows = np.array([accounts.row_of["n"]], np.int64)
    for part in range(1, 21):
        asked = {CPU: 100 * part, MEMORY: 100 * part, STORAGE: 100 * part, GPU: part}
        created = cluster.store.create(_pod(f"p{part}", asked).build())
        shape = accounts.record(created, key_of(created)).shape
        for chosen in (RESOURCES[:3], RESOURCES):
            want = balance_score(chosen, _bytes(there), _sum([]), _bytes(asked))
            found = balanced_scores(accounts, shape, chosen, rows)
            assert want in (74, 75)
            assert found is not None and found.tolist() == [want], (part, chosen)


def _written(strategy: FitStrategy) -> Obj:
    points = [{"utilization": at, "score": score} for at, score in strategy.shape]
    return {
        "type": strategy.kind,
        "resources": [{"name": name, "weight": weight} for name, weight in strategy.resources],
        "requestedToCapacityRatio": {"shape": points},
    }
