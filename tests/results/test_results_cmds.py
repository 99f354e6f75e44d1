"""`fairway report`, `compare` and `fragmentation` from the command line: output, exit codes, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runworld import small_run

from builders import node, pod
from fairway.cli.main import main
from fairway.results.rundir import write_run


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    run = small_run()
    write_run(tmp_path / "run", run.outcome, run.info)
    return tmp_path / "run"


def test_report(run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html, plots = tmp_path / "r.html", tmp_path / "plots"
    assert main(["report", str(run_dir), "--html", str(html), "--plots", str(plots)]) == 0
    out = capsys.readouterr()
    assert "OVER TIME" in out.out
    assert max(map(len, out.out.splitlines())) <= 100
    assert "wrote" in out.err
    assert html.read_text().startswith("<!DOCTYPE html>")
    assert {p.name for p in plots.iterdir()} >= {
        "allocation.svg",
        "allocation.png",
        "timeline.svg",
        "waits.png",
    }


def test_report_json(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run_dir), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((run_dir / "summary.json").read_text())


def test_compare(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(run_dir), str(run_dir)]) == 0
    assert "No difference that matters." in capsys.readouterr().out
    assert main(["compare", str(run_dir), str(run_dir), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["differences"]


def test_fragmentation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = tmp_path / "cluster.json"
    items = [
        node("n1").gpu(8).build(),
        pod("p").gpu(4).build(),
        pod("there").gpu(2).spec(nodeName="n1").build(),
    ]
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert main(["fragmentation", str(dump)]) == 0
    assert "8 GPUs on 1 node: 2 allocated, 6 free" in capsys.readouterr().out
    assert main(["fragmentation", str(dump), "--shape", "cpu=8,nvidia.com/gpu=3", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["shapes"][0]["fits"] == 2
    assert main(["fragmentation", str(dump), "--shape", "nvidia.com/gpu=7"]) == 1


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["report", "nowhere"], "expected a scenario, a run directory"),
        (["report", "{run}", "-o", "yaml"], "expected one of table, json"),
        (["compare", "{run}"], "expected two run directories or more"),
        (["fragmentation", "{run}", "--shape", "cpu=8"], ""),
        (["fragmentation", "{dump}", "--shape", "gpu"], "expected NAME=QUANTITY"),
        (["fragmentation", "{dump}", "--shape", "nvidia.com/gpu=1.5"], "devices cannot be divided"),
        (["fragmentation", "{dump}", "--shape", "cpu=-1"], "expected more than 0"),
        (["fragmentation", "{dump}", "--shape", "cpu=much"], "expected a quantity"),
        (["fragmentation", "{dump}", "--shape", ","], "expected resources"),
        (["fragmentation", "{broken}"], "broken.yaml"),
    ],
)
def test_bad_input(
    run_dir: Path, tmp_path: Path, arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dump.yaml").write_text(json.dumps(node("n1").gpu(1).build()))
    (tmp_path / "broken.yaml").write_text("a: [")
    places = {
        "run": str(run_dir),
        "dump": str(tmp_path / "dump.yaml"),
        "broken": str(tmp_path / "broken.yaml"),
    }
    assert main([a.format(**places) for a in arguments]) == 2
    err = capsys.readouterr().err
    assert want in err
    assert "Traceback" not in err


def test_fragmentation_of_a_scenario_is_that_of_its_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    gangs = str(Path(__file__).parents[2] / "examples" / "12-two-gangs")
    assert main(["fragmentation", gangs, "--at", "5m"]) == 0
    assert capsys.readouterr().out.startswith("32 GPUs on 4 nodes: 24 allocated, 8 free")
    assert main(["fragmentation", gangs, "--at", "soon"]) == 2
    assert "expected a duration such as 8h" in capsys.readouterr().err
