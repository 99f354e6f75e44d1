"""Which node is best for this shape, without scoring every node for every pod?

Pods of one shape ask the same question, and a placement changes one node. The board keeps a score per
(shape, node) and, when a shape comes up, rescores only the nodes that changed since it last did.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from fairway.scheduling.gpushare import best_fit, dot_product, fgd, gpu_clustering, gpu_packing, random_fit
from fairway.scheduling.gpushare.devices import GpuNodes, Int64s, PodNeeds, fits, tightest_devices
from fairway.scheduling.gpushare.fragmentation import TypicalPods, Workspace

RANDOM, DOT_PRODUCT, GPU_CLUSTERING, GPU_PACKING, BEST_FIT, FGD = range(6)
NO_FIT = -1  # the score of a node the pod does not fit on, and the row when there is none


class ScoreBoard(NamedTuple):
    """Scores and their age. A change is numbered; `clock` counts them.

    scores: int64[shape, node]; scored_at: int64[shape]; changed_at: int64[node]; clock: int64[1]
    """

    scores: Int64s
    scored_at: Int64s
    changed_at: Int64s
    clock: Int64s


def score_board(shapes: int, nodes: int) -> ScoreBoard:
    """A board on which every score is stale."""
    return ScoreBoard(
        scores=np.full((shapes, nodes), NO_FIT, np.int64),
        scored_at=np.zeros(shapes, np.int64),
        changed_at=np.ones(nodes, np.int64),
        clock=np.ones(1, np.int64),
    )


@njit(cache=True, nogil=True)
def score_row(
    policy: int, nodes: GpuNodes, row: int, pod: PodNeeds, typical: TypicalPods, work: Workspace
) -> int:
    """The policy's score of one node, or NO_FIT."""
    if not fits(nodes, row, pod):
        return NO_FIT
    if policy == FGD:
        return fgd.score(nodes, row, pod, typical, work)
    if policy == BEST_FIT:
        return best_fit.score(nodes, row, pod)
    if policy == DOT_PRODUCT:
        return dot_product.score(nodes, row, pod)
    if policy == GPU_CLUSTERING:
        return gpu_clustering.score(nodes, row, pod)
    if policy == GPU_PACKING:
        return gpu_packing.score(nodes, row, pod)
    return 0


@njit(cache=True, nogil=True)
def best_row(
    policy: int,
    nodes: GpuNodes,
    shape: int,
    pod: PodNeeds,
    typical: TypicalPods,
    work: Workspace,
    board: ScoreBoard,
    draw: int,
) -> int:
    """The row of the best node, the lowest among equals, or NO_FIT; refreshes what is stale."""
    scored_at = board.scored_at[shape]
    scores = board.scores[shape]
    best = NO_FIT
    best_score = NO_FIT
    for row in range(len(scores)):
        if board.changed_at[row] > scored_at:
            scores[row] = score_row(policy, nodes, row, pod, typical, work)
        if scores[row] > best_score:
            best = row
            best_score = scores[row]
    board.scored_at[shape] = board.clock[0]
    if policy == RANDOM:
        return random_fit.pick_row(scores, draw)
    return best


@njit(cache=True, nogil=True)
def choose_devices(
    policy: int, nodes: GpuNodes, row: int, pod: PodNeeds, typical: TypicalPods, work: Workspace, draw: int
) -> int:
    """Bit mask of the devices the policy gives the pod on that node; 0 for a pod without GPUs."""
    if pod.gpu_count == 0:
        return 0
    if policy == FGD:
        return fgd.score_and_devices(nodes, row, pod, typical, work)[1]
    if policy == RANDOM:
        return random_fit.pick_devices(nodes, row, pod, draw)
    return tightest_devices(nodes.gpu_milli_free[row], pod)


@njit(cache=True, nogil=True)
def touch(board: ScoreBoard, row: int) -> None:
    """The node changed: its scores are stale."""
    board.clock[0] += 1
    board.changed_at[row] = board.clock[0]
