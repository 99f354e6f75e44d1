"""`fairway replay openb`: what is printed, and how wrong input ends."""

import json

import pytest
from openbworld import PODS, written
from typer.testing import CliRunner

from fairway.cli.replay_cmd import app
from fairway.errors import InvalidInput, UserError

RUN = ("openb", "--runs", "2", "--seed", "7")


def invoke(directory, *arguments, pods=PODS):
    nodes, pods_file = written(directory, pods=pods)
    return CliRunner().invoke(app, [*RUN, "--nodes", str(nodes), "--pods", str(pods_file), *arguments])


def test_json(tmp_path):
    result = invoke(tmp_path, "--policy", "DotProd", "-o", "json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert (report["policy"], report["seed"], report["runs"], report["nodes"]) == ("DotProduct", 7, 2, 2)
    assert report["pods"] == report["placed"] + report["failed"]
    assert set(report["allocated_gpu_pct"]) == set(report["frag_ratio_pct"])
    assert all(0 <= value <= 100 for value in report["frag_ratio_pct"].values())
    assert report["seconds"] >= 0


def test_json_of_all_policies(tmp_path):
    result = invoke(tmp_path, "--policy", "all", "-o", "json")
    assert [report["policy"] for report in json.loads(result.stdout)] == [
        "Random",
        "DotProduct",
        "GpuClustering",
        "GpuPacking",
        "BestFit",
        "FGD",
        "Headroom",
    ]


@pytest.mark.parametrize("more", [(), ("--trace-time",)])
def test_tables_are_narrow(tmp_path, more):
    result = invoke(tmp_path, *more)
    assert result.exit_code == 0
    assert result.stdout.startswith("FGD: ")
    assert max(len(line) for line in result.stdout.splitlines()) <= 100


def test_json_of_the_traces_own_time(tmp_path):
    report = json.loads(invoke(tmp_path, "--trace-time", "-o", "json").stdout)
    assert (report["pods"], report["placed"], report["waited"], report["unplaced"]) == (4, 4, 0, 0)
    # 500 milli for 100 s, 1 GPU for 40 s, 2 GPUs for 180 s
    assert report["gpu_hours"] == pytest.approx((50 + 40 + 360) / 3600, abs=1e-3)
    assert report["allocated_gpu_pct"]["peak"] == pytest.approx(100 * 3.5 / 6, abs=1e-3)


def test_lenient_counts_what_it_skips(tmp_path):
    result = invoke(tmp_path, "--lenient", "-o", "json", pods=PODS + "pod-9,1\n")
    assert json.loads(result.stdout)["skipped_rows"] == 1
    assert "skipped 1 row in all" in result.stderr
    assert "a truncated row of 2" in result.stderr


REFUSED = {
    "a policy there is not": (("--policy", "Best"), "no placement policy 'Best'"),
    "no runs": (("--runs", "0"), "--runs 0: expected 1 to 1000"),
    "no arrival": (("--arrival", "0"), "--arrival 0: expected a multiple"),
    "an arrival that is no number": (("--arrival", "nan"), "--arrival nan: expected a multiple"),
    "a negative seed": (("--seed", "-1"), "--seed -1: expected 0 or more"),
    "an output there is not": (("-o", "xml"), "expected one of table, json"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_options_are_refused(tmp_path, case):
    arguments, want = REFUSED[case]
    error = invoke(tmp_path, *arguments).exception
    assert isinstance(error, UserError)
    assert want in str(error)


def test_a_bad_row_stops_a_strict_run(tmp_path):
    error = invoke(tmp_path, pods=PODS + "pod-9,1\n").exception
    assert isinstance(error, InvalidInput)
    assert error.problems[0].line == 6


def test_nothing_left_after_skipping(tmp_path):
    error = invoke(tmp_path, "--lenient", pods=PODS.splitlines()[0] + "\npod-9,1\n").exception
    assert "no pod is left after skipping 1 rows" in str(error)
