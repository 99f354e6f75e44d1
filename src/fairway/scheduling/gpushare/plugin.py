"""The placement policies as plugins of the scheduler: a score per node, and the devices that earn it.

A profile that gives a policy a weight (`FGD: 1`) scores every feasible node with it; when the pod is bound,
the policy's choice of devices is kept. The policies read tables of their own; this keeps one in step with the
cluster's accounts, row by row as they change.

What FGD calls the typical pods are the pods this scheduler was asked to place so far, the most popular shapes
that make up 95 % of them; they are counted anew whenever twice as many have been seen.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fairway.cluster.accounts import CPU_COLUMN, MEMORY_COLUMN, NodeAccounts
from fairway.cluster.records import PodRecord
from fairway.cluster.shapes import PodShape
from fairway.kube.resources import CPU, MEMORY, NVIDIA_GPU
from fairway.scheduling.gpushare import devices as table
from fairway.scheduling.gpushare.fragmentation import typical_pods
from fairway.scheduling.gpushare.policies import POLICIES, Policy, plugin_scores

Ints = npt.NDArray[np.int64]

PRODUCT_LABEL = "nvidia.com/gpu.product"
# Pods seen before the typical pods are counted for the first time: every one of the first few tells.
_FIRST_COUNT = 16


class GpuPolicies:
    """Scores and device choices of the policies over one cluster's accounts."""

    def __init__(self, accounts: NodeAccounts) -> None:
        self._accounts = accounts
        self._nodes: Ints = np.zeros((0, table.NODE_COLUMNS), np.int64)
        self._touched = 0
        self._respecced = 0
        self._models: dict[str, int] = {"": 0}
        self._seen: dict[int, int] = {}
        self._shapes: dict[int, PodShape] = {}
        self._total = 0
        self._counts_at = 0
        self._typical = typical_pods((), ())

    def see(self, pod: PodRecord) -> None:
        """A pod asked to be placed: it counts towards the typical pods."""
        self._seen[pod.shape.id] = self._seen.get(pod.shape.id, 0) + 1
        self._shapes[pod.shape.id] = pod.shape
        self._total += 1

    def scores(self, name: str, pod: PodRecord, rows: Ints) -> tuple[Ints, Ints]:
        """int64[len(rows)] scores 0–100, and bit masks of the devices the policy would give.

        A policy that leaves the node to chance scores all alike: the scheduler's draw among equals decides.
        """
        policy = POLICIES[name]
        self._refresh()
        scores = np.full(len(self._nodes), -1, np.int64)
        chosen = np.zeros(len(self._nodes), np.int64)
        needs = _needs(pod.shape, self._models)
        policy.score(self._nodes, rows, needs, scores, chosen, *self._demand(policy))
        return plugin_scores(policy, np.maximum(scores[rows], 0)), chosen[rows]

    def _demand(self, policy: Policy) -> tuple[object, ...]:
        if not policy.uses_demand:
            return ()
        if self._total >= self._counts_at:
            self._counts_at = 2 * max(self._total, _FIRST_COUNT)
            needs: list[tuple[int, ...]] = []
            for shape_id in sorted(self._seen):
                row = tuple(int(v) for v in _needs(self._shapes[shape_id], self._models))
                needs.extend([row] * self._seen[shape_id])
            self._typical = typical_pods(needs, [""] * len(needs))
        return tuple(self._typical)

    def _refresh(self) -> None:
        """Bring the policies' table up to date. O(changed rows)."""
        accounts = self._accounts
        rows_now = accounts.alive.shape[0]
        if len(self._nodes) != rows_now:
            self._nodes = np.zeros((rows_now, table.NODE_COLUMNS), np.int64)
            changed = list(range(accounts.row_count))
        else:
            changed = sorted({*accounts.touched[self._touched :], *accounts.respecced[self._respecced :]})
        self._touched, self._respecced = len(accounts.touched), len(accounts.respecced)
        for row in changed:
            self._describe(row)

    def _describe(self, row: int) -> None:
        accounts, node = self._accounts, self._nodes[row]
        free = accounts.allocatable[row] - accounts.requested[row]
        node[table.CPU], node[table.MEMORY] = free[CPU_COLUMN], free[MEMORY_COLUMN]
        product = accounts.labels[row].get(PRODUCT_LABEL, "")
        node[table.MODEL] = self._models.setdefault(product, len(self._models))
        node[table.GPU : table.RUNNING] = 0
        if accounts.devices.count[row]:
            node[table.DEVICES] = accounts.devices.count[row]
            node[table.GPU : table.RUNNING] = accounts.devices.free[row]
        else:
            column = accounts.column(NVIDIA_GPU)
            node[table.DEVICES] = min(int(accounts.allocatable[row, column]), table.MAX_DEVICES)
            idle = min(int(free[column]), table.MAX_DEVICES)
            node[table.GPU : table.GPU + max(idle, 0)] = table.MILLI
        node[table.RUNNING :] = 0
        for pod in accounts.pods[row].values():
            if pod.shape.gpu_count:
                whole = pod.shape.gpu_each >= table.MILLI
                width = min(pod.shape.gpu_count, table.MAX_DEVICES) if whole else 0
                node[table.RUNNING + width] += 1


def _needs(shape: PodShape, models: Mapping[str, int]) -> Ints:
    """The pod's row, as the policies read it."""
    mask = table.ANY_MODEL
    for requirement in shape.selection.node_selector.requirements:
        if requirement.key == PRODUCT_LABEL and requirement.operator == "In":
            mask = sum(1 << models[v] for v in requirement.values if v in models)
    return table.pod_needs(
        shape.requests.get(CPU, 0), shape.requests.get(MEMORY, 0), shape.gpu_count, shape.gpu_each, mask
    )
