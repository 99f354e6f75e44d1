"""Small nodes and pods for the GPU-sharing tests, and slow, obvious versions of what the kernels compute."""

from math import exp

import numpy as np
from hypothesis import strategies as st

from fairway.scheduling.gpushare.devices import COUNT as HOW_MANY
from fairway.scheduling.gpushare.devices import CPU, EACH, MILLI, MODELS, GpuNodes, pod_needs
from fairway.scheduling.gpushare.fragmentation import TypicalPods, lost_over_moves

GIB = 1 << 30


def node(cpu_milli, free, model=0, memory_gib=64, running=()):
    """One node with that much CPU, `free` milli on its devices and pods of the widths `running`."""
    nodes = GpuNodes.idle([cpu_milli], [memory_gib * GIB], [len(free)], [model])
    nodes.gpu_milli_free[0, : len(free)] = free
    for width in running:
        nodes.pods_by_width[0, width] += 1
    return nodes


def together(*nodes):
    return GpuNodes(np.concatenate([each.table for each in nodes]))


def pod(cpu_milli=1000, gpus=0, milli=0, models=-1, memory_gib=1):
    return pod_needs(cpu_milli, memory_gib * GIB, gpus, milli, models)


def expecting(*pods_with_share):
    """TypicalPods of (pod, share) pairs."""
    return TypicalPods(
        np.array([each for each, _ in pods_with_share]), np.array([share for _, share in pods_with_share])
    )


def score(policy, nodes, wanted, typical=None):
    """All rows' scores and chosen devices."""
    scores, chosen = np.full((2, len(nodes)), -7, np.int64)
    demand = (typical or expecting((pod(), 1.0))) if policy.uses_demand else ()
    policy.score(nodes.table, np.arange(len(nodes)), wanted, scores, chosen, *demand)
    return scores.tolist(), chosen.tolist()


def lost(nodes, typical, row=0):
    """Fragmentation of a node, by the kernel."""
    out = np.empty(1)
    still = np.array([[row, 0, 0, 0]])
    lost_over_moves(nodes.table, pod()[None, :], still, *typical, np.zeros(len(nodes)), out)
    return out[0]


def slow_fits(nodes, row, wanted):
    table = nodes.table[row]
    able = [d for d, free in enumerate(nodes.gpu_milli_free[row]) if free >= wanted[EACH]]
    right_model = wanted[HOW_MANY] == 0 or (int(wanted[MODELS]) >> int(nodes.gpu_model[row])) & 1
    enough = wanted[HOW_MANY] == 0 or len(able) >= wanted[HOW_MANY]
    return bool(table[CPU] >= wanted[CPU] and table[1] >= wanted[1] and right_model and enough)


def slow_lost(cpu_milli, free, model, typical):
    """The definition, one typical pod at a time, in exact order of summation by cause."""
    by_cause = [0.0] * 6
    for need, share in zip(typical.needs.tolist(), typical.share.tolist(), strict=True):
        total = sum(free)
        cpu_ok = cpu_milli >= need[CPU]
        if need[HOW_MANY] == 0:
            by_cause[3 if cpu_ok else 4] += share * total
        elif not (need[MODELS] >> model) & 1:
            by_cause[5] += share * total
        elif sum(f >= need[EACH] for f in free) >= need[HOW_MANY]:
            amount = sum(f for f in free if f < need[EACH]) if cpu_ok else total
            by_cause[1 if cpu_ok else 2] += share * amount
        else:
            by_cause[1 if cpu_ok else 0] += share * total
    both, gpu, cpu, none, none_cpu, access = by_cause
    return both + gpu + cpu + none + none_cpu + access


def slow_fgd(nodes, row, wanted, typical):
    """(score, devices) by trying every device, or -1."""
    if not slow_fits(nodes, row, wanted):
        return -1, 0
    cpu, model = int(nodes.cpu_milli_free[row]), int(nodes.gpu_model[row])
    free = nodes.gpu_milli_free[row].tolist()
    before = slow_lost(cpu, free, model, typical)
    best = (-1, 0)
    for devices in _device_sets(free, wanted):
        left = [f - int(wanted[EACH]) * (d in devices) for d, f in enumerate(free)]
        after = slow_lost(cpu - int(wanted[CPU]), left, model, typical)
        points = int(1.0 / (1.0 + exp(-((before - after) / 1000.0))) * 100.0)
        if points > best[0]:
            best = points, sum(1 << d for d in devices)
    return best


def _device_sets(free, wanted):
    if wanted[HOW_MANY] == 0:
        return [()]
    if wanted[HOW_MANY] == 1 and wanted[EACH] < MILLI:
        return [(d,) for d, f in enumerate(free) if f >= wanted[EACH]]
    able = sorted((f, d) for d, f in enumerate(free) if f >= wanted[EACH])
    return [tuple(d for _, d in able[: int(wanted[HOW_MANY])])]


MILLIS = st.sampled_from([50, 190, 320, 470, 500, 810, 1000])


@st.composite
def pods(draw):
    gpus = draw(st.sampled_from([0, 1, 1, 1, 2, 4, 8]))
    milli = draw(MILLIS) if gpus == 1 else MILLI * (gpus > 1)
    return pod(
        draw(st.sampled_from([0, 1000, 3000, 8000])),
        gpus,
        milli,
        draw(st.sampled_from([-1, -1, 1, 2, 3])),
        draw(st.integers(0, 8)),
    )


@st.composite
def clusters(draw, most=5):
    """Idle nodes of a few kinds."""
    count = draw(st.integers(1, most))
    kinds = [
        draw(st.sampled_from([(8000, 2, 0), (32000, 8, 1), (16000, 4, 0), (4000, 0, 1)]))
        for _ in range(count)
    ]
    return GpuNodes.idle(
        [k[0] for k in kinds], [32 * GIB] * count, [k[1] for k in kinds], [k[2] for k in kinds]
    )


@st.composite
def workloads(draw):
    shapes = draw(st.lists(pods(), min_size=1, max_size=6))
    weights = draw(st.lists(st.integers(1, 9), min_size=len(shapes), max_size=len(shapes)))
    return TypicalPods(np.array(shapes), np.array([w / sum(weights) for w in weights]))
