"""A Placer remembers scores; what it remembers must be what scoring anew would say."""

import numpy as np
from gpuworld import GIB, clusters, expecting, pod, pods, score, workloads
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.scheduling.gpushare.devices import GpuNodes
from fairway.scheduling.gpushare.placer import FEW, Placer
from fairway.scheduling.gpushare.policies import BEST_FIT, POLICIES

DRAWS = st.integers(0, 1 << 62)


@given(
    clusters(5),
    workloads(),
    st.lists(pods(), min_size=1, max_size=4),
    st.sampled_from(sorted(POLICIES)),
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_placing_and_removing(nodes, typical, shapes, name, data):
    """Never over-allocates, never refuses what fits, rescoring what changed is scoring all, removal restores."""
    idle = nodes.copy()
    placer = Placer(POLICIES[name], nodes, typical)
    for shape in shapes:
        placer.add_shape(shape)
    running = []
    for _ in range(data.draw(st.integers(1, 40))):
        if running and data.draw(st.integers(0, 3)) == 0:
            placer.remove(*running.pop(data.draw(st.integers(0, len(running) - 1))))
            continue
        shape = data.draw(st.integers(0, len(shapes) - 1))
        want, _ = score(POLICIES[name], nodes, shapes[shape], typical)
        choice = placer.find(shape, data.draw(DRAWS), data.draw(DRAWS))
        assert placer.scores(shape).tolist() == want
        assert (choice is None) == (max(want) < 0)
        if choice is None:
            continue
        assert name == "Random" or choice.row == int(np.argmax(want))
        assert want[choice.row] >= 0
        placer.place(shape, choice)
        running.append((shape, choice))
        _assert_within(nodes, idle)
    for shape, choice in running:
        placer.remove(shape, choice)
    assert (nodes.table == idle.table).all()


def _assert_within(nodes, idle):
    assert (nodes.gpu_milli_free >= 0).all()
    assert (nodes.gpu_milli_free <= idle.gpu_milli_free).all()
    assert (nodes.cpu_milli_free >= 0).all()
    assert (nodes.memory_bytes_free >= 0).all()
    assert (nodes.pods_by_width >= 0).all()


def test_many_changes_between_two_looks():
    """More changes than are kept one by one, and more than the log starts with."""
    nodes = GpuNodes.idle([64_000] * 40, [1 << 40] * 40, [8] * 40, [0] * 40)
    placer = Placer(BEST_FIT, nodes, expecting((pod(), 1.0)))
    busy, rare = placer.add_shape(pod(1, 1, 50, memory_gib=0)), placer.add_shape(pod(1, 1, 1000))
    placer.find(rare)
    for _ in range(3000):
        choice = placer.find(busy)
        assert choice is not None
        placer.place(busy, choice)
    want, _ = score(BEST_FIT, nodes, pod(1, 1, 1000))
    assert placer.scores(rare).tolist() == want
    assert FEW < 3000


def test_the_caller_may_change_a_node_itself():
    nodes = GpuNodes.idle([8000, 8000], [GIB, GIB], [1, 1], [0, 0])
    placer = Placer(BEST_FIT, nodes, expecting((pod(), 1.0)))
    shape = placer.add_shape(pod(1000, 1, 500))
    assert placer.find(shape).row == 0
    nodes.gpu_milli_free[0, 0] = 0
    placer.touch(0)
    assert placer.find(shape).row == 1
