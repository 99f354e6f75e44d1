"""How full does a policy get the cluster when pods keep arriving and none leaves?

The FGD paper's experiment: the trace's pods in random order, and more pods drawn from the trace until the
demand for GPUs is `arrival` times the capacity (or pods removed until it is). One after the other is placed;
a pod that fits nowhere is gone. Equally good nodes are taken in a random order that is fixed for the run.

All chance comes from one seed, drawn in the order in which the paper's simulator draws it: a run here with
seed 42 is the published run 42, pod for pod (but for the Random policy, whose draws there depend on how threads
interleave).
"""

from dataclasses import dataclass

import numpy as np

from fairway.errors import UserError
from fairway.openb.gorand import GoRand
from fairway.openb.workload import Workload
from fairway.scheduling.gpushare.devices import EACH, Float64s, GpuNodes, Int64s
from fairway.scheduling.gpushare.fragmentation import lost_over_moves
from fairway.scheduling.gpushare.placer import Placer
from fairway.scheduling.gpushare.policies import Policy

SEEDING_DRAWS = 1  # the simulator logs one number after seeding
INFORMER_DRAWS = 10  # its ten informers each draw a watch timeout between the pods' and the nodes' order
NOWHERE = -1  # row of a pod that fits nowhere
VISITED, PLACED = 0, 1  # signs of a move


@dataclass(frozen=True, slots=True)
class ArrivalRun:
    """What happened, pod by pod in order of arrival, as arrays over the pods.

    arrived_milli, allocated_milli: GPU demand so far and GPU in use after the pod: int64
    lost_milli: fragmentation after the pod, GPU-milli: float64
    row: int64, the node in the order of node names, NOWHERE if it fits nowhere; devices: int64 bit masks
    """

    seed: int
    capacity_milli: int
    arrived_milli: Int64s
    allocated_milli: Int64s
    lost_milli: Float64s
    shape: Int64s
    row: Int64s
    devices: Int64s


def run_arrivals(load: Workload, policy: Policy, arrival: float, seed: int) -> ArrivalRun:
    """One run. Raises UserError if the workload cannot be brought to that demand."""
    chance = GoRand(seed)
    chance.skip(SEEDING_DRAWS)
    order = arrival_order(load, arrival, chance)
    if not len(order):
        raise UserError(f"arrival {arrival:g}: every pod asks for more than that, expected a larger arrival")
    chance.skip(INFORMER_DRAWS)
    by_rank = node_ranks(len(load.nodes), chance)
    nodes = GpuNodes(load.nodes.table[by_rank])
    moves = _place_all(load, policy, GpuNodes(nodes.table.copy()), order, chance)
    demand = load.gpu_milli_of[order]
    placed = moves[:, 3] == PLACED
    return ArrivalRun(
        seed=seed,
        capacity_milli=load.gpu_milli_capacity,
        arrived_milli=np.cumsum(demand),
        allocated_milli=np.cumsum(demand * placed),
        lost_milli=_lost(load, nodes, moves),
        shape=order,
        row=np.where(placed, by_rank[moves[:, 0]], NOWHERE),
        devices=moves[:, 2],
    )


def arrival_order(load: Workload, arrival: float, chance: GoRand) -> Int64s:
    """The shapes of the pods in order of arrival, their demand tuned to `arrival` times the capacity."""
    target = arrival * load.gpu_milli_capacity
    if target <= 0:
        raise UserError(
            f"arrival {arrival:g} of {load.gpu_milli_capacity} GPU-milli: expected some GPU demand"
        )
    demand_of, each_of = load.gpu_milli_of.tolist(), load.shapes[:, EACH].tolist()
    pods = load.shape_of.tolist()
    total = sum(demand_of[shape] for shape in pods)
    if total == 0:
        raise UserError(f"none of the {len(pods)} pods asks for a GPU: expected a GPU workload")
    order = pods.copy()
    chance.shuffle(order)
    while total > target:
        total -= demand_of[order.pop(chance.below(len(order)))]
    if total == target or len(order) < len(pods):
        return np.array(order, np.int64)
    while True:
        # Unlike the text of the paper, its simulator asks whether the next pod's milli per device still fits.
        extra = pods[chance.below(len(pods))]
        if total + each_of[extra] > target:
            return np.array(order, np.int64)
        total += demand_of[extra]
        order.append(extra)


def node_ranks(nodes: int, chance: GoRand) -> Int64s:
    """The nodes in a drawn order, in which equally good ones are taken: int64[rank]."""
    return np.argsort(np.array(chance.permutation(nodes), np.int64))


def _place_all(load: Workload, policy: Policy, nodes: GpuNodes, order: Int64s, chance: GoRand) -> Int64s:
    """Each pod's move (see lost_over_moves), its row by rank: int64[pod, 4]."""
    placer = Placer(policy, nodes, load.typical)
    for pod in load.shapes:
        placer.add_shape(pod)
    moves = []
    draws = (0, 0)
    for shape in order.tolist():
        if policy.draws:
            draws = (chance.int63(), chance.int63())
        choice = placer.find(shape, *draws)
        if choice is None:
            moves.append((NOWHERE, shape, 0, VISITED))
        else:
            placer.place(shape, choice)
            moves.append((choice.row, shape, choice.devices, PLACED))
    return np.array(moves, np.int64).reshape(-1, 4)


def _lost(load: Workload, nodes: GpuNodes, moves: Int64s) -> Float64s:
    """The cluster's fragmentation after each pod; every node is visited once before the first."""
    visits = np.zeros((len(nodes), 4), np.int64)
    visits[:, 0] = np.arange(len(nodes))
    steps = np.concatenate((visits, moves))
    out = np.empty(len(steps))
    lost_over_moves(nodes.table, load.shapes, steps, *load.typical, np.zeros(len(nodes)), out)
    return out[len(nodes) :]
