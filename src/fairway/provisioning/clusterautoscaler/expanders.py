"""Which of the groups that could help is grown? Filters in a row; what is left of several is chance.

Source: expander/factory/chain.go; mostpods, waste, price, priority, random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fairway.kube.goregexp import Pattern, RegexpError, compiled
from fairway.kube.resources import CPU, MEMORY, NVIDIA_GPU
from fairway.kube.yamltext import first_value
from fairway.provisioning.clusterautoscaler.groups import (
    LEAST_WASTE,
    MOST_PODS,
    PRICE,
    PRIORITY,
    RANDOM,
    NodeGroup,
)
from fairway.provisioning.karpenter.podfacts import PodFacts

CONFIG_MAP, CONFIG_KEY = "cluster-autoscaler-priority-expander", "priorities"
# Source: cloudprovider/gce/gce_price.go: what a core, a GiB and a GPU cost by themselves, in µ$ an hour.
_CPU_MICROS, _GIB_MICROS, _GPU_MICROS = 33_174, 4_446, 700_000
_STABILIZATION = (500, 500 * 2**20)  # half a core and 500 MiB
_GPU_UNFITNESS = 1000.0
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Option:
    """A group, by how many nodes, for whom."""

    group: NodeGroup
    nodes: int
    pods: tuple[PodFacts, ...]


Priorities = Mapping[int, tuple[Pattern, ...]]


def choose(
    options: Sequence[Option],
    expanders: Sequence[str],
    draw: float,
    *,
    priorities: Priorities | None = None,
    cluster_size: int = 0,
) -> Option | None:
    """The option; `draw` from [0, 1) decides between those that are left."""
    left = list(options)
    for name in expanders:
        if name == RANDOM or len(left) <= 1:
            break
        left = _filtered(name, left, priorities, cluster_size)
    return left[min(int(draw * len(left)), len(left) - 1)] if left else None


def _filtered(
    name: str, options: list[Option], priorities: Priorities | None, cluster_size: int
) -> list[Option]:
    if name == MOST_PODS:
        return _least(options, lambda o: -len(o.pods))
    if name == LEAST_WASTE:
        return _least(options, waste)
    if name == PRICE:
        priced = [o for o in options if o.group.price is not None]
        return _least(priced, lambda o: price_score(o, cluster_size))
    if name == PRIORITY:
        return by_priority(options, priorities)
    return options


def _least(options: list[Option], score: Callable[[Option], float]) -> list[Option]:
    best = min((score(o) for o in options), default=0.0)
    return [o for o in options if score(o) == best]


def waste(option: Option) -> float:
    """The shares of CPU and memory of the new nodes' capacity that the pods leave."""
    capacity = option.group.template.capacity
    total = 0.0
    for resource in (CPU, MEMORY):
        there = capacity.get(resource, 0) * option.nodes
        asked = sum(p.shape.requests.get(resource, 0) for p in option.pods)
        total += (there - asked) / there if there else 0.0
    return total


def price_score(option: Option, cluster_size: int) -> float:
    """How badly money is spent, times how unlike the preferred node the group's are.

    Source: price.go; preferred.go: 1 core up to 2 nodes, 2 to 6, 4 to 20, 8 to 60, 16 to 200, then 32; 3.75 GiB each.
    """
    stabilization = _worth(*_STABILIZATION, 0)
    nodes_cost = (option.group.price or 0) * option.nodes
    pods_cost = sum(
        _worth(r.get(CPU, 0), r.get(MEMORY, 0), r.get(NVIDIA_GPU, 0))
        for r in (p.shape.requests for p in option.pods)
    )
    sub_score = (nodes_cost + stabilization) / (pods_cost + stabilization)
    template = option.group.template
    if template.has_gpu:
        return _GPU_UNFITNESS * sub_score
    preferred = next(
        (cores for cores, most in ((1, 2), (2, 6), (4, 20), (8, 60), (16, 200)) if cluster_size <= most), 32
    )
    cpu = template.capacity.get(CPU, 0) or 1
    unfitness = max(preferred * 1000 / cpu, cpu / (preferred * 1000))
    suppressed = (unfitness - 1.0) * (1.0 - math.tanh((option.nodes - 1) / 15.0)) + 1.0
    return suppressed * sub_score


def _worth(cpu_milli: int, memory_bytes: int, gpus: int) -> float:
    return cpu_milli / 1000 * _CPU_MICROS + memory_bytes / _GIB * _GIB_MICROS + gpus * _GPU_MICROS


def by_priority(options: list[Option], priorities: Priorities | None) -> list[Option]:
    """The groups of the highest priority named; without any that is named, all of them."""
    if not priorities:
        return options
    ranked = [
        (
            max(
                (n for n, names in priorities.items() if any(r.search(o.group.name) for r in names)),
                default=-1,
            ),
            o,
        )
        for o in options
    ]
    best = max((rank for rank, _ in ranked), default=-1)
    return [o for rank, o in ranked if rank == best] if best >= 0 else options


def read_priorities(data: Mapping[str, str]) -> Priorities | str:
    """Of the ConfigMap's data; else what is wrong with it, as its event says.

    Source: priority.go reloadConfigMap, parsePrioritiesYAMLString.
    """
    text = data.get(CONFIG_KEY)
    if text is None:
        return f"Wrong configmap for priority expander, doesn't contain {CONFIG_KEY} key. Ignoring update."
    wrong = "Wrong configuration for priority expander: {}. Ignoring update."
    if not text:
        empty = (
            f"priority configuration in {CONFIG_MAP} configmap is empty; please provide valid configuration"
        )
        return wrong.format(empty)
    try:
        raw = first_value(text)
        if not isinstance(raw, dict):
            raise ValueError("expected a mapping of numbers to lists of regular expressions")
        return {int(n): tuple(compiled(str(r)) for r in names) for n, names in raw.items()}
    except RegexpError as bad:
        return wrong.format(f"Can't compile regexp rule for priority: {bad}")
    except (ValueError, TypeError) as bad:
        return wrong.format(f"Can't parse YAML with priorities in the configmap: {bad}")
