"""What fits on a node's devices, which of them a pod takes, and that it gives all of it back."""

from itertools import combinations, product

import numpy as np
from gpuworld import node, pod

from fairway.scheduling.gpushare.devices import (
    MAX_DEVICES,
    GpuNodes,
    fits,
    gpu_milli_free,
    move,
    tightest_devices,
    width,
)

FREE = ((), (1000,), (400,), (399,), (400, 1000), (0, 400, 400), (1000, 1000, 0, 500))


def test_a_pod_fits_where_there_are_devices_and_the_rest_for_it() -> None:
    for free, (count, each) in product(FREE, ((0, 0), (1, 400), (1, 1000), (2, 1000), (2, 400))):
        there = node(1000, free, model=2, memory_gib=4)
        able = sum(milli >= each for milli in free) >= count
        for cpu, memory, models in product((1000, 1001), (4, 5), (-1, 0b100, 0b1011)):
            asked = pod(cpu, count, each, models, memory)
            want = cpu <= 1000 and memory <= 4 and (count == 0 or (able and models != 0b1011))
            assert fits(there.table, 0, asked) == want, (free, count, each, cpu, memory, models)


def test_it_takes_the_devices_with_least_left_and_gives_them_back() -> None:
    for free, (count, each) in product(FREE, ((1, 400), (1, 1000), (2, 1000), (2, 400))):
        fitting = [i for i, milli in enumerate(free) if milli >= each]
        if len(fitting) < count:
            continue
        there = node(1000, free, running=(0, 1, 2))
        before = there.table.copy()
        chosen = min(combinations(fitting, count), key=lambda some: (sorted(free[i] for i in some), some))
        mask = sum(1 << i for i in chosen)
        asked = pod(300, count, each, memory_gib=2)
        assert tightest_devices(there.table, 0, asked) == mask
        move(there.table, 0, asked, mask, 1)
        assert list(there.gpu_milli_free[0]) == [
            (free[i] if i < len(free) else 0) - (each if i in chosen else 0) for i in range(MAX_DEVICES)
        ]
        assert gpu_milli_free(there.table, 0) == sum(free) - count * each
        assert (there.cpu_milli_free[0], there.memory_bytes_free[0]) == (700, 62 << 30)
        kind = count if each == 1000 else 0
        assert width(asked) == kind
        more = there.pods_by_width[0] - before[0, -MAX_DEVICES - 1 :]
        assert list(more) == [int(w == kind) for w in range(MAX_DEVICES + 1)]
        move(there.table, 0, asked, mask, -1)
        assert np.array_equal(there.table, before)
    plain = node(1000, (1000,))
    move(plain.table, 0, pod(100), 0, 1)
    assert not plain.pods_by_width.any()
    assert plain.cpu_milli_free[0] == 900


def test_a_node_has_sixteen_devices_at_most() -> None:
    """As many as the largest of NVIDIA's machines; of a node that says more the others are never given out."""
    counts = (0, 1, 15, 16, 17, 40)
    there = GpuNodes.idle([1000] * 6, [1 << 30] * 6, counts, [0] * 6)
    assert [gpu_milli_free(there.table, row) for row in range(6)] == [0, 1000, 15_000, 16_000, 16_000, 16_000]
    assert there.gpu_milli_free.shape == (6, 16) and there.pods_by_width.shape == (6, 17)
    for row, count in enumerate(counts):
        able = [n for n in range(1, 18) if fits(there.table, row, pod(1, n, 1000, memory_gib=1))]
        assert able == list(range(1, min(count, 16) + 1))
