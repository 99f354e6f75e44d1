"""Where does this pod go, without scoring every node for every pod?

Pods of one shape ask the same question, and a placement changes one node. A Placer keeps the scores of each
shape and rescores, when the shape comes up again, only the nodes that changed since. Nodes that are still as
they were at the start are scored once per kind of node.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairway.scheduling.gpushare.devices import GpuNodes, Int64s, move
from fairway.scheduling.gpushare.fragmentation import TypicalPods
from fairway.scheduling.gpushare.policies import Policy
from fairway.scheduling.gpushare.random_fit import drawn_device, drawn_row

NEVER = -1  # a shape that has not been scored yet
FEW = 32  # changes up to this many are rescored as they came; of more, each node once


class Choice(NamedTuple):
    """A node and a bit mask of its devices."""

    row: int
    devices: int


@dataclass(slots=True)
class _Shape:
    """One shape's scores, good up to the change numbered `scored_at`."""

    pod: Int64s
    scores: Int64s
    chosen: Int64s
    scored_at: int = NEVER


class Placer:
    """Places pods on `nodes` by one policy; owns the nodes' table from then on."""

    def __init__(self, policy: Policy, nodes: GpuNodes, typical: TypicalPods) -> None:
        self.nodes = nodes
        self._policy = policy
        self._demand = tuple(typical) if policy.uses_demand else ()
        self._shapes: list[_Shape] = []
        self._changes: list[int] = []  # rows, in the order in which they changed
        self._changed_at = np.full(len(nodes), NEVER, np.int64)
        self._kinds, kind_of = np.unique(nodes.table, axis=0, return_inverse=True)
        self._kind_of = kind_of.ravel()

    def add_shape(self, pod: Int64s) -> int:
        """A number for pods with these needs (int64[POD_COLUMNS])."""
        unknown = np.full((2, len(self.nodes)), NEVER, np.int64)
        self._shapes.append(_Shape(pod, unknown[0], unknown[1]))
        return len(self._shapes) - 1

    def scores(self, shape: int) -> Int64s:
        """The policy's score of every node for this shape, -1 where it does not fit: int64[node], read-only."""
        return self._fresh(shape).scores

    def find(self, shape: int, node_draw: int = 0, device_draw: int = 0) -> Choice | None:
        """The best node, the lowest row among equals, and its devices; None if the pod fits nowhere."""
        asked = self._fresh(shape)
        if self._policy.draws:
            row = drawn_row(asked.scores, node_draw)
            if row < 0:
                return None
            devices = int(asked.chosen[row])
            return Choice(row, drawn_device(self.nodes.table, row, asked.pod, devices, device_draw))
        row = int(asked.scores.argmax())
        return Choice(row, int(asked.chosen[row])) if asked.scores[row] >= 0 else None

    def place(self, shape: int, choice: Choice) -> None:
        """Take what the pod needs. The choice was found, or is known to fit."""
        move(self.nodes.table, choice.row, self._shapes[shape].pod, choice.devices, 1)
        self.touch(choice.row)

    def remove(self, shape: int, choice: Choice) -> None:
        """Give back what `place` took."""
        move(self.nodes.table, choice.row, self._shapes[shape].pod, choice.devices, -1)
        self.touch(choice.row)

    def touch(self, row: int) -> None:
        """The node changed: its scores are stale."""
        self._changed_at[row] = len(self._changes)
        self._changes.append(row)

    def _fresh(self, shape: int) -> _Shape:
        asked = self._shapes[shape]
        if asked.scored_at == NEVER:
            self._score_kinds(asked)
        since, now = asked.scored_at, len(self._changes)
        if since == now:
            return asked
        if now - since <= FEW:
            rows = np.array(self._changes[since:], np.int64)
        else:
            rows = (self._changed_at >= since).nonzero()[0]
        self._policy.score(self.nodes.table, rows, asked.pod, asked.scores, asked.chosen, *self._demand)
        asked.scored_at = now
        return asked

    def _score_kinds(self, asked: _Shape) -> None:
        """Score each kind of untouched node once; changed nodes get a wrong score that is replaced next."""
        kinds = len(self._kinds)
        scores, chosen = np.empty((2, kinds), np.int64)
        self._policy.score(self._kinds, np.arange(kinds), asked.pod, scores, chosen, *self._demand)
        asked.scores[:] = scores[self._kind_of]
        asked.chosen[:] = chosen[self._kind_of]
        asked.scored_at = 0
