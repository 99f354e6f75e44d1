"""`fairway trace`: what is printed, what is written, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.cli.main import main
from fairway.traces.generic import read_generic


def test_generate_convert_describe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs, more = tmp_path / "jobs.csv", tmp_path / "more.parquet"
    make = ["trace", "generate", "--jobs", "200", "--users", "5", "--namespaces", "a=2,b=1", "--seed", "1"]
    assert main([*make, "--to", str(jobs)]) == 0
    assert main(["trace", "convert", str(jobs), "--load", "2", "--to", str(more)]) == 0
    assert len(read_generic(more).jobs) == 400
    capsys.readouterr()
    assert main(["trace", "describe", str(jobs)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("jobs        200 over ") and all(len(line) <= 100 for line in lines)
    assert main(["trace", "describe", str(jobs), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 200


def test_generate_prints_csv_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "generate", "--jobs", "2", "--seed", "1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("job_id,submit_time,run_time,gpus") and out.count("\n") == 3


def test_a_recipe_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "nightly.yaml"
    recipe.write_text("jobs: 3\nrunTime: 10m\ngpus: {4: 1}\n", encoding="utf-8")
    assert main(["trace", "generate", "--recipe", str(recipe)]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("nightly-00000,")
    recipe.write_text("job: 3\n", encoding="utf-8")
    assert main(["trace", "generate", "--recipe", str(recipe)]) == 2
    assert "nightly.yaml:1: job: 3: unknown field; did you mean jobs?" in capsys.readouterr().err


def test_lenient_counts_what_it_skips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cut.csv"
    path.write_text("job_id,submit_time,run_time\na,0,60\nb,10\n", encoding="utf-8")
    assert main(["trace", "convert", str(path)]) == 2
    assert "cut.csv:3: run_time: b,10:" in capsys.readouterr().err
    assert main(["trace", "convert", str(path), "--lenient"]) == 0
    assert "1 rows skipped" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["generate", "--rate", "4"], "such as 40/h"),
        (["generate", "--gpus", "1=x"], "values and weights"),
        (["generate", "--pattern", "weekly"], "expected one of poisson, diurnal"),
        (["generate", "--run-time", "long"], "expected a duration"),
        (["describe", "{file}", "--window", "9d..2d"], "ends after it begins"),
        (["describe", "{file}", "--load", "-1"], "--load -1"),
        (["describe", "{file}", "--speed", "0"], "above 0"),
        (["describe", "{file}", "--format", "excel"], "expected one of auto"),
        (["describe", "{file}", "-o", "xml"], "expected one of"),
        (["describe", "nowhere.csv"], "readable file"),
        (["convert", "{file}", "--to", "x.txt"], "ends in .csv"),
    ],
)
def test_usage(arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("job_id,submit_time\na,0\n", encoding="utf-8")
    assert main(["trace", *(a.replace("{file}", str(file)) for a in arguments)]) == 2
    assert words in capsys.readouterr().err
