"""Which of the nodes that would do is best: binpack's own score, and nodeorder's from kube-scheduler.

Source: volcano-sh/volcano pkg/scheduler/plugins/binpack/binpack.go, nodeorder/nodeorder.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairway.kube.resources import CPU, MEMORY
from fairway.volcano.configuration import NODE_ORDER_WEIGHTS, PluginOption
from fairway.volcano.facts import Floats, Ints
from fairway.volcano.session import Plugin
from fairway.volcano.state import Task, World

_MAX_NODE_SCORE = 100


class Binpack(Plugin):
    """The fuller a node is with the task on it, the better."""

    name = "binpack"

    def __init__(self, world: World, option: PluginOption) -> None:
        self._world = world
        arguments = option.arguments
        self._weight = int(arguments.get("binpack.weight", 1))
        weights = {}
        for name in str(arguments.get("binpack.resources") or "").split(","):
            if name.strip():
                weights[name.strip()] = _weight(arguments.get(f"binpack.resources.{name.strip()}", 1))
        weights[CPU] = _weight(arguments.get("binpack.cpu", 1))
        weights[MEMORY] = _weight(arguments.get("binpack.memory", 1))
        self._weights = [(i, weights[n]) for i, n in enumerate(world.columns.names) if n in weights]

    def hooks(self) -> dict[str, Callable[..., Any]]:
        return {"enableNodeOrder": self._scores} if self._weight else {}

    def _scores(self, task: Task, nodes: Ints) -> Floats:
        """0 for nodes on which the task does not fit beside those who are there."""
        score = np.zeros(len(nodes), np.float64)
        fits = np.ones(len(nodes), np.bool_)
        weight_sum = 0
        for column, weight in self._weights:
            asked = int(task.asked[column])
            if not asked:
                continue
            weight_sum += weight
            capacity = self._world.allocatable[nodes, column]
            finally_used = capacity - self._world.idle[nodes, column] + asked
            if not weight:
                continue
            fits &= (finally_used <= capacity) | (capacity == 0)
            score += np.where(capacity > 0, finally_used * weight / np.maximum(capacity, 1), 0.0)
        if weight_sum:
            score /= weight_sum
        found: Floats = np.where(fits, score * (_MAX_NODE_SCORE * self._weight), 0.0)
        return found


def _weight(value: Any) -> int:
    return 1 if int(value) < 0 else int(value)


class NodeOrder(Plugin):
    """kube-scheduler's scores with Volcano's weights."""

    name = "nodeorder"

    def __init__(self, world: World, option: PluginOption) -> None:
        self._world = world
        self._weights = {n: int(option.arguments.get(n, w)) for n, w in NODE_ORDER_WEIGHTS.items()}

    def hooks(self) -> dict[str, Callable[..., Any]]:
        return {"enableNodeOrder": self._scores}

    def _scores(self, task: Task, nodes: Ints) -> Floats:
        return self._world.feasibility.scores(task.id, nodes, self._weights)
