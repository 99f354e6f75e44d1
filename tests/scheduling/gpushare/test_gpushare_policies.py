"""Each policy's score and devices: by hand, and FGD against trying everything."""

from random import Random

import numpy as np
import pytest
from gpuworld import clusters, expecting, node, pod, pods, score, slow_fgd, slow_fits, together, workloads
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.errors import UserError
from fairway.scheduling.gpushare.devices import COUNT as HOW_MANY
from fairway.scheduling.gpushare.devices import CPU, EACH, ModelCodes
from fairway.scheduling.gpushare.policies import (
    BEST_FIT,
    DOT_PRODUCT,
    FGD,
    GPU_CLUSTERING,
    GPU_PACKING,
    HEADROOM,
    POLICIES,
    RANDOM,
    plugin_scores,
    policy_named,
)
from fairway.scheduling.gpushare.random_fit import drawn_device, drawn_row

SHARE, WHOLE, PAIR, PLAIN = pod(1000, 1, 300), pod(1000, 1, 1000), pod(1000, 2, 1000), pod(1000)
IDLE = node(128_000, [1000] * 8)

CASES = {
    # (policy, node, pod, score, device mask)
    "packing: an idle node is the last resort, 33 - 8": (GPU_PACKING, IDLE, SHARE, 25, 0b1),
    "packing: small idle nodes are not below their size": (GPU_PACKING, node(8000, [1000]), SHARE, 32, 0b1),
    "packing: opening one device of a used node, 50 - 1": (
        GPU_PACKING,
        node(8000, [200, 1000, 1000]),
        SHARE,
        49,
        0b10,
    ),
    "packing: opening two": (GPU_PACKING, node(8000, [200, 1000, 1000]), PAIR, 48, 0b110),
    "packing: sharing a device with 40 % free, 100 - 4": (
        GPU_PACKING,
        node(8000, [400, 1000]),
        SHARE,
        96,
        0b1,
    ),
    "packing: percents are whole, and so are their tenths": (
        GPU_PACKING,
        node(8000, [892, 1000]),
        SHARE,
        92,
        0b1,
    ),
    "packing: the tightest of two used devices": (GPU_PACKING, node(8000, [700, 350]), SHARE, 97, 0b10),
    "packing: no GPU, no opinion": (GPU_PACKING, IDLE, PLAIN, 0, 0),
    "clustering: only its own kind, half full": (
        GPU_CLUSTERING,
        node(8000, [500] * 8, running=[0]),
        SHARE,
        75 + 12,
        0b1,
    ),
    "clustering: its own kind and others": (
        GPU_CLUSTERING,
        node(8000, [500] * 8, running=[0, 1]),
        SHARE,
        50 + 12,
        0b1,
    ),
    "clustering: idle, of two devices": (GPU_CLUSTERING, node(8000, [1000] * 2), SHARE, 25 + 18, 0b1),
    "clustering: only others": (GPU_CLUSTERING, node(8000, [1000] * 8, running=[2]), WHOLE, 0, 0b1),
    "clustering: no GPU, no opinion": (GPU_CLUSTERING, IDLE, PLAIN, 0, 0),
    "best fit: an idle largest node": (BEST_FIT, IDLE, pod(64_000, 4, 1000), 50, 0b1111),
    "best fit: a perfect fit": (BEST_FIT, node(1000, [300]), SHARE, 100, 0b1),
    "dot product: an idle largest node, all of it wanted": (
        DOT_PRODUCT,
        IDLE,
        pod(128_000, 8, 1000),
        0,
        0xFF,
    ),
    "dot product: a quarter of CPU and of GPU": (DOT_PRODUCT, IDLE, pod(32_000, 2, 1000), 75, 0b11),
    "best fit: a far larger node still fits": (BEST_FIT, node(512_000, [1000]), SHARE, 0, 0b1),
    "dot product: a far larger node still fits": (
        DOT_PRODUCT,
        node(512_000, [1000]),
        pod(200_000, 1, 300),
        0,
        0b1,
    ),
    "random: fits": (RANDOM, IDLE, SHARE, 0, 0b1),
    "does not fit: CPU": (BEST_FIT, node(999, [1000]), SHARE, -1, 0),
    "does not fit: memory": (BEST_FIT, node(8000, [1000], memory_gib=0), SHARE, -1, 0),
    "does not fit: devices": (BEST_FIT, node(8000, [1000, 999]), PAIR, -1, 0),
    "does not fit: milli spread over devices": (BEST_FIT, node(8000, [200, 200]), SHARE, -1, 0),
    "does not fit: model": (BEST_FIT, node(8000, [1000], model=2), pod(1000, 1, 300, models=0b011), -1, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_by_hand(case):
    policy, nodes, wanted, want_score, want_devices = CASES[case]
    scores, chosen = score(policy, nodes, wanted)
    assert scores == [want_score]
    assert want_score < 0 or chosen == [want_devices]


def test_fgd_takes_the_device_that_fragments_least():
    """With whole devices expected, 300 milli belong on the device that is broken already."""
    typical = expecting((pod(1000, 1, 1000), 1.0))
    scores, chosen = score(FGD, node(8000, [1000, 700]), SHARE, typical)
    assert chosen == [0b10]
    # 700 lost before, 400 after: sigmoid(0.3)
    assert scores == [int(100 / (1 + np.exp(-0.3)))]


def test_fgd_is_indifferent_on_nodes_without_free_gpu():
    assert score(FGD, node(8000, [0, 0]), PLAIN, expecting((WHOLE, 1.0))) == ([50], [0])


@given(clusters(3), workloads(), pods(), st.data())
@settings(max_examples=200, deadline=None)
def test_fgd_is_the_best_of_all_devices(nodes, typical, wanted, data):
    for row in range(len(nodes)):
        for device in range(int(nodes.gpu_count[row])):
            nodes.gpu_milli_free[row, device] = data.draw(st.sampled_from([0, 190, 500, 530, 1000]))
    scores, chosen = score(FGD, nodes, wanted, typical)
    for row in range(len(nodes)):
        want, devices = slow_fgd(nodes, row, wanted, typical)
        assert scores[row] == want
        assert want < 0 or chosen[row] == devices


@given(clusters(4), workloads(), pods(), st.sampled_from(sorted(POLICIES)))
@settings(max_examples=200, deadline=None)
def test_a_score_means_it_fits_on_the_chosen_devices(nodes, typical, wanted, name):
    before = nodes.table.copy()
    scores, chosen = score(POLICIES[name], nodes, wanted, typical)
    assert (nodes.table == before).all()
    for row in range(len(nodes)):
        if not slow_fits(nodes, row, wanted):
            assert (scores[row], chosen[row]) == (-1, 0)
        else:
            assert scores[row] >= 0
            devices = [d for d in range(8) if chosen[row] >> d & 1]
            assert len(devices) == wanted[2]
            assert all(nodes.gpu_milli_free[row, d] >= wanted[3] for d in devices)


def slow_score(name, nodes, row, wanted, typical):
    """(score, devices): each policy as its paper or its module has it, of one node."""
    if not slow_fits(nodes, row, wanted):
        return -1, 0
    free = nodes.gpu_milli_free[row].tolist()
    count, each = int(wanted[HOW_MANY]), int(wanted[EACH])
    able = sorted((left, device) for device, left in enumerate(free) if left >= each)
    taken = [device for _, device in able[:count]]
    devices = sum(1 << device for device in taken)
    cpu, asked_cpu = int(nodes.cpu_milli_free[row]), int(wanted[CPU])
    if name == "Random":
        return 0, devices
    if name == "BestFit":
        left = (cpu - asked_cpu) / 128_000 / 2 + (sum(free) - count * each) / 8000 / 2
        return max(0, int((1 - left) * 100)), devices
    if name == "DotProduct":
        product = cpu / 128_000 * (asked_cpu / 128_000) + sum(free) / 8000 * (count * each / 8000)
        return max(0, int(100 * (1 - product / 2))), devices
    if name == "GpuClustering":
        running = [kind for kind, pods in enumerate(nodes.pods_by_width[row]) if pods]
        mine = count if each == 1000 else 0
        kin = (3 if running == [mine] else 2) if mine in running else 0 if running else 1
        return (25 * (8000 - sum(free)) // 8000 + 25 * kin if count else 0), devices
    if name == "GpuPacking":
        idle, opened = free.count(1000), sum(free[device] == 1000 for device in taken)
        if not count:
            return 0, 0
        if idle == int(nodes.gpu_count[row]):
            return max(33 - idle, idle), devices
        used = sum(free[device] * 100 // 1000 for device in taken)
        return (max(50 - opened, 33) if opened else max(100 - used // 10, 50)), devices
    expected = list(zip(typical.needs.tolist(), typical.share.tolist(), strict=True))
    gpu = sum(share * need[HOW_MANY] * need[EACH] for need, share in expected)
    beside = sum(share * need[CPU] for need, share in expected if need[HOW_MANY])
    rate = gpu / beside if beside else 0.0
    before = max(0.0, sum(free) - rate * cpu)
    after = max(0.0, sum(free) - count * each - rate * (cpu - asked_cpu))
    left = free[max((d for d in taken), key=lambda d: (free[d], d))] - each if taken else 0
    return int(before - after + 16_000) * 1024 + 1000 - left, devices


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "FGD"])
def test_a_score_is_the_one_worked_out_slowly(name):
    draw = Random(3)
    for _ in range(60):
        made = []
        for _ in range(4):
            free = [
                draw.choice((0, 190, 500, 530, 810, 1000, 1000)) for _ in range(draw.choice((0, 1, 2, 8)))
            ]
            running = draw.sample(range(9), draw.choice((0, 0, 1, 2)))
            cpu = draw.choice((2000, 8000, 64_000, 200_000))
            made.append(node(cpu, free, draw.randrange(3), draw.choice((1, 64)), running))
        nodes = together(*made)
        gpus = draw.choice((0, 1, 1, 2, 4))
        each = draw.choice((190, 500, 501, 1000)) if gpus == 1 else 1000 * (gpus > 1)
        wanted = pod(
            draw.choice((0, 1000, 8000)), gpus, each, draw.choice((-1, -1, 1, 6)), draw.choice((1, 2))
        )
        shapes = [(pod(1000, 1, 500), 0.25), (pod(9000), 0.25), (pod(4000, 2, 1000), 0.5)]
        typical = expecting(*shapes[: draw.choice((1, 2, 3))])
        scores, chosen = score(POLICIES[name], nodes, wanted, typical)
        want = [slow_score(name, nodes, row, wanted, typical) for row in range(4)]
        assert list(zip(scores, chosen, strict=True)) == want


def test_only_the_given_rows_are_scored():
    nodes = together(IDLE, IDLE, IDLE)
    scores, chosen = np.full((2, 3), -7, np.int64)
    BEST_FIT.score(nodes.table, np.array([1]), SHARE, scores, chosen)
    assert scores.tolist() == [-7, scores[1], -7]


def test_headroom_spares_the_cpu_beside_free_gpus():
    """1000 milli per 4000 CPU expected: CPU-heavy pods go where GPUs are used up, whatever is left there."""
    typical = expecting((pod(4000, 1, 1000), 1.0))
    balanced, gpu_gone = node(8000, [1000, 1000]), node(8000, [0, 0])
    scores, _ = score(HEADROOM, together(balanced, gpu_gone), pod(4000), typical)
    assert scores[1] > scores[0]


def test_headroom_takes_the_tightest_devices_among_equals():
    typical = expecting((pod(4000, 1, 1000), 1.0))
    scores, chosen = score(HEADROOM, together(node(90_000, [1000, 400]), node(90_000, [300])), SHARE, typical)
    assert chosen == [0b10, 0b1]
    assert scores[1] > scores[0]


def test_random_draws_are_arguments():
    scores = np.array([-1, 0, -1, 0, 0])
    assert [drawn_row(scores, draw) for draw in range(4)] == [1, 3, 4, 1]
    assert drawn_row(np.array([-1, -1]), 5) == -1
    table = node(8000, [100, 300, 1000]).table
    assert [drawn_device(table, 0, SHARE, 0, draw) for draw in (0, 1, 2)] == [0b10, 0b100, 0b10]
    assert drawn_device(table, 0, WHOLE, 0b100, 7) == 0b100


@pytest.mark.parametrize(
    ("name", "want"), [("fgd", "FGD"), ("DotProd", "DotProduct"), ("bestfit", "BestFit")]
)
def test_policies_by_name(name, want):
    assert policy_named(name).name == want


def test_an_unknown_policy_names_those_there_are():
    with pytest.raises(UserError, match="no placement policy 'FDG': expected one of Random, DotProduct"):
        policy_named("FDG")


def test_model_masks():
    models = ModelCodes.of(["T4", "", "A10", "T4"])
    assert models.names == ("", "A10", "T4")
    assert (models.mask(["T4"]), models.mask(["T4", "A10", "H100"]), models.mask(["H100"])) == (
        0b100,
        0b110,
        0,
    )
    assert models.mask([]) == -1
    with pytest.raises(UserError, match="64 GPU models: expected at most 63"):
        ModelCodes.of(str(i) for i in range(64))


def test_plugin_scores_keep_the_best_the_best():
    assert plugin_scores(HEADROOM, np.array([7_000_000, 9_000_000, 8_999_999])).tolist() == [0, 100, 99]
    assert plugin_scores(BEST_FIT, np.array([40, 40])).tolist() == [0, 0]
    assert plugin_scores(FGD, np.array([49, 51])).tolist() == [49, 51]
    assert plugin_scores(HEADROOM, np.array([], np.int64)).tolist() == []
