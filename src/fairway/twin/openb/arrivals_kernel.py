from typing import NamedTuple
import numpy as np
from numba import njit
from fairway.scheduling.gpushare.board import *
from fairway.scheduling.gpushare.devices import *
from fairway.scheduling.gpushare.fragmentation import *

@njit(cache=True, nogil=True)
def run_arrivals(policy, nodes, shapes, order, draws, typical, work, board, allocated, lost, placed):
    n = len(nodes.gpu_count)
    node_lost = np.zeros(n)
    total_lost = 0.0
    for row in range(n):
        node_amounts(nodes, row, typical, work)
        node_lost[row] = lost_amount(work)
        total_lost += node_lost[row]
    used = 0
    for i in range(len(order)):
        s = order[i]
        pod = PodNeeds(shapes[s, 0], shapes[s, 1], shapes[s, 2], shapes[s, 3], shapes[s, 4])
        row = best_row(policy, nodes, s, pod, typical, work, board, draws[i, 0])
        placed[i] = row
        if row >= 0:
            dev = choose_devices(policy, nodes, row, pod, typical, work, draws[i, 1])
            take(nodes, row, pod, dev)
            touch(board, row)
            used += pod.gpu_count * pod.gpu_milli
            node_amounts(nodes, row, typical, work)
            now = lost_amount(work)
            total_lost += now - node_lost[row]
            node_lost[row] = now
        allocated[i] = used
        lost[i] = total_lost
