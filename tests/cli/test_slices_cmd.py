"""`fairway plan slices` prints the ways side by side, and says what is wrong with what it is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.cli.main import main

MIX = str(Path(__file__).parents[2] / "examples" / "15-fifty-services" / "mix.yaml")


def test_the_ways_side_by_side(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["plan", "slices", MIX, "--gpu-price", "4.10", "--layout", "time-slicing"]) == 0
    said = capsys.readouterr().out
    assert "50 replicas of 5 services on H100-SXM5-80GB, $4.10 an hour and GPU" in said
    assert "whole           50        50  $205.00" in said
    assert "day 9, night 5 GPUs" in said
    assert max(map(len, said.splitlines())) <= 100


def test_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "slices", MIX, "--instance-type", "p5.48xlarge", "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [w["gpus"] for w in data["ways"]] == [50, 9, 9, 13, 9]
    assert data["online"]["static_cards"] == 9


JOBS = str(Path(__file__).parents[2] / "examples" / "23-repartitioning" / "mix.yaml")


def test_static_layouts_online_and_with_foresight(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "slices", JOBS, "--gpu-price", "4.10", "--compare", "-o", "json"]) == 0
    found = {row["way"]: row for row in json.loads(capsys.readouterr().out)}
    online, best, seen = found["online"], found["cut for all"], found["with foresight"]
    assert (online["never"], best["never"], found["all-1g.10gb"]["never"]) == (0, 0, 32)
    assert seen["wait_s_mean"] <= online["wait_s_mean"] < best["wait_s_mean"] / 10
    assert online["micros"] < best["micros"] and 0 < online["repartitions"] <= online["cards_cut"]
    assert main(["plan", "slices", JOBS, "--gpu-price", "4.10", "--compare"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ("[{name: a, profile: 1g.5gb, count: 1, lasts: 1h}]", "expected whole or a MIG profile of a H100"),
        ("[{name: a, profile: 1g.10gb, count: 1000000, lasts: 1h}]", "count"),
        (
            "[{name: a, profile: 1g.10gb, count: 20000, lasts: 1h}, {name: b, profile: whole, count: 9, lasts: 1h}]",
            "jobs",
        ),
        ("[{name: a, profile: 1g.10gb, count: 1, lasts: 0h}]", "lasts"),
        ("[]", "expected services or jobs"),
    ],
)
def test_wrong_jobs(jobs: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "apiVersion: fairway.dev/v1alpha1\nkind: ServiceMix\nmetadata: {name: m}\n"
        f"spec: {{gpu: H100, phases: {{day: 24h}}, jobs: {jobs}}}\n"
    )
    assert main(["plan", "slices", str(mix), "--gpu-price", "4", "--compare"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected one of a ServiceMix and --run"),
        ([MIX], "expected one of --gpu-price and --instance-type"),
        (
            [MIX, "--gpu-price", "4", "--layout", "slices"],
            "expected one of whole, mig, mps, time-slicing, mixed",
        ),
        ([MIX, "--gpu-price", "4", "--compare"], "expected a mix with jobs"),
        ([JOBS, "--gpu-price", "4"], "the mix has jobs and no services"),
        ([MIX, "--gpu-price", "-4"], "--gpu-price '-4': expected dollars"),
    ],
)
def test_wrong_questions(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "slices", *arguments]) == 2
    assert said in capsys.readouterr().err
