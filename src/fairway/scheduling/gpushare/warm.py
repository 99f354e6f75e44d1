"""Compile the kernels ahead: `python -m fairway.scheduling.gpushare.warm`, once after installing.

The first run of a policy otherwise spends a few seconds compiling it. The machine code is kept beside the source.
"""

import numpy as np

from fairway.scheduling.gpushare.devices import GpuNodes, pod_needs
from fairway.scheduling.gpushare.fragmentation import lost_over_moves, typical_pods
from fairway.scheduling.gpushare.placer import Placer
from fairway.scheduling.gpushare.policies import POLICIES


def warm() -> None:
    """Place one pod on one node by each policy, and measure the fragmentation."""
    pods = pod_needs(1000, 0, 1, 500)[None, :]
    typical = typical_pods([tuple(pods[0].tolist())], [""])
    for policy in POLICIES.values():
        nodes = GpuNodes.idle([4000], [0], [1], [0])
        placer = Placer(policy, nodes, typical)
        shape = placer.add_shape(pods[0])
        choice = placer.find(shape)
        if choice is not None:
            placer.place(shape, choice)
        moves = np.array([[0, 0, 1, 0]])
        lost_over_moves(nodes.table, pods, moves, *typical, np.zeros(1), np.zeros(1))


if __name__ == "__main__":
    warm()
