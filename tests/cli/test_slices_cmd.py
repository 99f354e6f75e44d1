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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected one of a ServiceMix and --run"),
        ([MIX], "expected one of --gpu-price and --instance-type"),
        (
            [MIX, "--gpu-price", "4", "--layout", "slices"],
            "expected one of whole, mig, mps, time-slicing, mixed",
        ),
        ([MIX, "--gpu-price", "-4"], "--gpu-price '-4': expected dollars"),
    ],
)
def test_wrong_questions(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "slices", *arguments]) == 2
    assert said in capsys.readouterr().err
