"""The arrival experiment: how demand is tuned, what is recorded, and that a seed is all there is to it."""

import os
import subprocess
import sys

import numpy as np
import pytest
from openbworld import written

from fairway.errors import UserError
from fairway.openb.arrivals import run_arrivals
from fairway.openb.curves import allocated_pct, curves, frag_ratio_pct
from fairway.openb.replicas import run_replicas
from fairway.openb.trace import read_trace
from fairway.openb.workload import workload
from fairway.scheduling.gpushare.devices import COUNT, move
from fairway.scheduling.gpushare.policies import BEST_FIT, FGD, POLICIES, RANDOM

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"


@pytest.fixture
def load(tmp_path):
    nodes = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n-{i},32000,65536,4,T4\n" for i in range(6))
    rows = [(i, 1000 + 500 * (i % 5), *((1, 470), (1, 1000), (0, 0), (2, 1000))[i % 4]) for i in range(60)]
    pods = HEADER + "".join(f"p-{i:02},{cpu},1024,{gpus},{milli}\n" for i, cpu, gpus, milli in rows)
    return workload(read_trace(*written(tmp_path, nodes, pods)))


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("arrival", [0.4, 1.3])
def test_the_record_can_be_replayed(load, name, arrival):
    """Carrying out the recorded placements fits at every step and gives the recorded allocation."""
    run = run_arrivals(load, POLICIES[name], arrival, 3)
    nodes = load.nodes.copy()
    for shape, row, devices, allocated in zip(
        run.shape, run.row, run.devices, run.allocated_milli, strict=True
    ):
        if row >= 0:
            assert int(devices).bit_count() == load.shapes[shape, COUNT]
            move(nodes.table, int(row), load.shapes[shape], int(devices), 1)
        assert (nodes.gpu_milli_free >= 0).all()
        assert nodes.cpu_milli_free.min() >= 0
        assert run.capacity_milli - nodes.gpu_milli_free.sum() == allocated


def test_demand_is_tuned_up_to_the_arrival(load):
    run = run_arrivals(load, FGD, 3.0, 42)
    assert run.capacity_milli == 24_000
    assert 72_000 - 2000 < run.arrived_milli[-1] <= 72_000 + 1000
    assert len(run.row) > 60


def test_demand_is_tuned_down_to_the_arrival(load):
    run = run_arrivals(load, FGD, 0.5, 42)
    assert 12_000 - 2000 <= run.arrived_milli[-1] <= 12_000
    assert len(run.row) < 60


def test_at_low_demand_everything_is_placed(load):
    run = run_arrivals(load, BEST_FIT, 0.3, 42)
    assert (run.row >= 0).all()
    assert (run.allocated_milli == run.arrived_milli).all()


def test_a_seed_is_all_there_is_to_it(load):
    once, again, other = (run_arrivals(load, RANDOM, 1.3, seed) for seed in (5, 5, 6))
    assert (once.row == again.row).all()
    assert len(once.row) != len(other.row) or (once.row != other.row).any()


def test_the_number_of_workers_does_not_matter(load):
    alone, shared = (curves(run_replicas(load, FGD, 1.3, range(4), workers=w)) for w in (1, 2))
    assert alone == shared


def test_a_curve_is_the_mean_over_the_pods_of_a_percent(load):
    run = run_arrivals(load, FGD, 1.0, 1)
    percent = np.rint(run.arrived_milli / run.capacity_milli * 100)
    at = next(p for p in range(0, 101, 5) if (percent == p).any())
    want = allocated_pct(run)[percent == at].mean()
    assert curves([run]).allocated_gpu_pct.mean[at] == pytest.approx(want)


def test_an_idle_cluster_is_fragmented_by_the_pods_without_gpus(load):
    """Five of twenty equally popular shapes ask for no GPU; the one left out of the typical pods is one of them."""
    assert load.typical.share[load.typical.needs[:, COUNT] == 0].sum() == pytest.approx(4 / 19)
    assert frag_ratio_pct(run_arrivals(load, FGD, 1.0, 1))[0] == pytest.approx(100 * 4 / 19)


def test_the_mean_lies_between_the_extremes(load):
    curve = curves(run_replicas(load, FGD, 1.3, range(5), workers=1)).allocated_gpu_pct
    assert all(curve.lowest[at] <= curve.mean[at] <= curve.highest[at] for at in curve.mean)


def test_a_workload_without_gpus_is_refused(tmp_path):
    load = workload(read_trace(*written(tmp_path, pods=HEADER + "a,1000,1024,0,0\n")))
    with pytest.raises(UserError, match="none of the 1 pods asks for a GPU"):
        run_arrivals(load, FGD, 1.3, 42)


def test_pods_larger_than_the_demand_are_refused(tmp_path):
    load = workload(read_trace(*written(tmp_path, pods=HEADER + "a,1000,1024,8,1000\n")))
    with pytest.raises(UserError, match=r"arrival 1\.3: every pod asks for more than that"):
        run_arrivals(load, FGD, 1.3, 42)


def test_the_hash_seed_does_not_matter(tmp_path):
    """Two interpreters with different string hashes print the same report."""
    nodes, pods = written(tmp_path)
    script = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from fairway.openb.experiment import arrivals_experiment\n"
        "result = arrivals_experiment(Path(sys.argv[1]), Path(sys.argv[2]), 'FGD', runs=2)\n"
        "print(json.dumps(result.as_json(0.0)))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script, nodes, pods],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
