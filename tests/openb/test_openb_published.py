"""The published curves of the FGD paper, from the published traces with the published seeds."""

import json
from time import perf_counter

import pytest
from openbworld import PUBLISHED

from fairway.openb.curves import curves
from fairway.openb.own_time import run_own_time
from fairway.openb.replicas import run_replicas
from fairway.openb.trace import read_trace
from fairway.openb.workload import workload
from fairway.scheduling.gpushare.policies import FGD, HEADROOM, policy_named

pytestmark = pytest.mark.skipif(
    not (PUBLISHED / "expected_curves.json").is_file(),
    reason="the openb traces are not beside the repository",
)
SEEDS = range(42, 52)


def trace_of(name):
    return read_trace(PUBLISHED / "openb_node_list_gpu_node.csv", PUBLISHED / f"openb_pod_list_{name}.csv")


@pytest.mark.parametrize(
    ("name", "policy"),
    [("default", "FGD"), ("gpuspec10", "FGD"), ("multigpu20", "GpuPacking"), ("gpushare40", "GpuClustering")],
)
def test_ten_runs_are_the_published_runs(name, policy):
    """Every point of both curves, to the rounding of the published numbers; also the extremes over the runs."""
    got = curves(run_replicas(workload(trace_of(name)), policy_named(policy), 1.3, SEEDS))
    want = json.loads((PUBLISHED / "expected_curves.json").read_text())[name][policy]
    for curve, tolerance in (("allocated_gpu_pct", 0.006), ("frag_ratio_pct", 0.006)):
        for at, value in getattr(got, curve).mean.items():
            assert value == pytest.approx(want[curve]["mean"][str(at)], abs=tolerance), (curve, at)
        for at, value in getattr(got, curve).highest.items():
            assert value == pytest.approx(want[curve]["max"][str(at)], abs=2 * tolerance), (curve, at)


@pytest.mark.parametrize("policy", ["Random", "BestFit", "DotProd"])
def test_three_runs_are_close(policy):
    got = curves(run_replicas(workload(trace_of("cpu100")), policy_named(policy), 1.3, SEEDS[:3]))
    want = json.loads((PUBLISHED / "expected_curves.json").read_text())["cpu100"][policy]
    for at in (60, 80, 90, 100, 130):
        assert abs(got.allocated_gpu_pct.mean[at] - want["allocated_gpu_pct"]["mean"][str(at)]) < 0.5
    for at in (60, 70, 80):
        assert abs(got.frag_ratio_pct.mean[at] - want["frag_ratio_pct"]["mean"][str(at)]) < 1.5


@pytest.mark.parametrize("name", ["default", "multigpu20"])
def test_our_policy_leaves_less_unallocated(name):
    load = workload(trace_of(name))
    ours, theirs = (
        curves(run_replicas(load, policy, 1.3, SEEDS[:3])).allocated_gpu_pct.mean[100]
        for policy in (HEADROOM, FGD)
    )
    assert ours > theirs + 0.4


def test_the_trace_in_its_own_time():
    trace = trace_of("default")
    began = perf_counter()
    run = run_own_time(trace, workload(trace), FGD, 42)
    assert perf_counter() - began < 10
    assert run.waits_s == ()
    assert None not in run.placed_s
    assert len(run.peak_milli) == 150
