"""The FGD paper's fragmentation: by hand, by the definition, and over a sequence of moves."""

import numpy as np
import pytest
from gpuworld import clusters, expecting, lost, node, pod, pods, slow_lost, workloads
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.scheduling.gpushare.devices import MODELS, move
from fairway.scheduling.gpushare.fragmentation import lost_over_moves, typical_pods

HALF, WHOLE, TWO = pod(1000, 1, 500), pod(4000, 1, 1000), pod(4000, 2, 1000)
PLAIN = pod(2000)

CASES = {
    "an idle node serves a whole device: nothing lost": (node(8000, [1000, 1000]), [(WHOLE, 1.0)], 0),
    "half a device is lost to who wants a whole one": (node(8000, [500]), [(WHOLE, 1.0)], 500),
    "half a device serves who wants half": (node(8000, [500]), [(HALF, 1.0)], 0),
    "a used device beside a free one: only its rest is lost": (node(8000, [500, 1000]), [(WHOLE, 1.0)], 500),
    "two devices wanted, one and a half free: all lost": (node(8000, [500, 1000]), [(TWO, 1.0)], 1500),
    "too little CPU: all lost": (node(3999, [1000, 1000]), [(WHOLE, 1.0)], 2000),
    "too little CPU and GPU: all lost, once": (node(3999, [500]), [(WHOLE, 1.0)], 500),
    "a pod without GPU uses none": (node(8000, [1000]), [(PLAIN, 1.0)], 1000),
    "a pod without GPU that lacks CPU uses none either": (node(1000, [1000]), [(PLAIN, 1.0)], 1000),
    "the wrong model: all lost": (node(8000, [1000], model=1), [(pod(1000, 1, 500, models=0b01), 1.0)], 1000),
    "the right model among two": (node(8000, [1000], model=1), [(pod(1000, 1, 500, models=0b11), 1.0)], 0),
    "an expectation: 30 % lose 500, 20 % lose all": (
        node(8000, [500, 1000]),
        [(HALF, 0.5), (WHOLE, 0.3), (PLAIN, 0.2)],
        0.3 * 500 + 0.2 * 1500,
    ),
    "nothing free, nothing to lose": (node(8000, [0, 0]), [(WHOLE, 1.0)], 0),
    "memory does not matter": (node(8000, [1000], memory_gib=0), [(WHOLE, 1.0)], 0),
}


@pytest.mark.parametrize("case", CASES)
def test_by_hand(case):
    nodes, typical, want = CASES[case]
    assert lost(nodes, expecting(*typical)) == pytest.approx(want)


@given(clusters(1), workloads(), st.lists(st.integers(0, 1000), min_size=8, max_size=8), st.integers(0, 9000))
@settings(max_examples=200, deadline=None)
def test_kernel_is_the_definition(nodes, typical, free, cpu_milli):
    count = int(nodes.gpu_count[0])
    nodes.gpu_milli_free[0, :count] = free[:count]
    nodes.cpu_milli_free[0] = cpu_milli
    want = slow_lost(cpu_milli, nodes.gpu_milli_free[0].tolist(), int(nodes.gpu_model[0]), typical)
    assert lost(nodes, typical) == want


@given(clusters(3), workloads(), st.lists(pods(), min_size=1, max_size=4), st.data())
@settings(max_examples=50, deadline=None)
def test_running_total_is_a_recount(nodes, typical, shapes, data):
    """lost_over_moves after each move is the sum over the nodes from scratch."""
    rows = data.draw(st.lists(st.integers(0, len(nodes) - 1), max_size=6))
    visits = [(row, 0, 0, 0) for row in range(len(nodes))]
    plan = [(row, data.draw(st.integers(0, len(shapes) - 1)), 0b1, 1) for row in rows]
    moves = np.array(visits + plan, np.int64)
    out = np.empty(len(moves))
    by_kernel, by_hand = nodes.copy(), nodes.copy()
    lost_over_moves(by_kernel.table, np.array(shapes), moves, *typical, np.zeros(len(nodes)), out)
    for step, (row, shape, devices, sign) in enumerate(plan):
        move(by_hand.table, row, shapes[shape], devices, sign)
        total = sum(lost(by_hand, typical, r) for r in range(len(nodes)))
        assert out[len(nodes) + step] == pytest.approx(total, abs=1e-6)
    assert (by_kernel.table == by_hand.table).all()


def test_typical_pods_are_the_popular_ones():
    """94 + 1 of 100 make 95 %: the least popular shapes are left out, shares sum to one again."""
    shapes = [(1000, 5, 1, 500, -1)] * 94 + [(2000, 5, 1, 1000, -1)] + [(i, 5, 0, 0, -1) for i in range(5)]
    typical = typical_pods(shapes, [""] * 100)
    assert typical.needs[:, :4].tolist() == [[1000, 0, 1, 500], [2000, 0, 1, 1000]]
    assert typical.share.tolist() == pytest.approx([94 / 95, 1 / 95])


def test_typical_pods_do_not_depend_on_the_order_or_on_memory():
    shapes = [(1000, 5, 1, 500, -1), (2000, 6, 0, 0, -1), (1000, 7, 1, 500, -1), (3000, 1, 8, 1000, -1)]
    written = [""] * 4
    forward, backward = typical_pods(shapes, written), typical_pods(shapes[::-1], written)
    assert (forward.needs == backward.needs).all()
    assert forward.needs[:, 0].tolist() == [1000, 3000, 2000]


def test_two_spellings_of_one_wish_are_two_shapes():
    shapes = [(1000, 0, 1, 500, 0b11)] * 4
    typical = typical_pods(shapes, ["A|B", "A|B", "A|B", "B|A"])
    assert typical.share.tolist() == [0.75, 0.25]
    assert (typical.needs[:, MODELS] == 0b11).all()
