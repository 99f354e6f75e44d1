"""`fairway plan`: the guides' figures through the front door, and what it says to wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.cli.main import main


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, object]:
    assert main(["plan", *words, "-o", "json"]) == code
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_spot_keeps_96_percent_of_its_saving(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("spot", "p4d.24xlarge", "--interrupted-every", "4h", "--checkpoint-every", "30m")
    assert answer(capsys, *words)["kept_saving"] == pytest.approx(0.96, abs=0.005)


def test_spot_that_does_not_pay_says_no(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("spot", "p4d.24xlarge", "--interrupted-every", "10m", "--checkpoint-every", "1h")
    assert answer(capsys, *words, code=1)["kept_saving"] < 0  # type: ignore[operator]


def test_ten_p5_for_a_year(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "mix", "p5.48xlarge", "--machines", "10", "--terms", "1y")
    assert found["one_year"] == 10
    assert found["on_demand_only_micros"] == 8760 * 10 * 98_320_000
    assert found["micros"] == 8760 * 10 * 65_930_000


def test_fifty_services(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "rightsize", "H100-SXM5-80GB", "-s", "chat=9Gi,14%x50", "--gpu-price", "40")
    assert (found["micros_whole"], found["micros_cut"]) == (2_000_000_000, 320_000_000)


def test_a_load_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "load.csv"
    file.write_text("machines\n" + "2\n" * 12 + "10\n" * 12)
    found = answer(capsys, "mix", "p5.48xlarge", "--load", str(file), "--terms", "1y")
    # Two are always needed; eight more half of the time, for which two thirds of the price is too much.
    assert (found["one_year"], found["on_demand_hours"]) == (2, 96.0)


WRONG = [
    (
        ["spot", "p3.2xlarge", "--interrupted-every", "4h"],
        "unpriced: p3.2xlarge (spot): no price book has it",
    ),
    (["spot", "p4d.24xlarge", "--interrupted-every", "soon"], "--interrupted-every 'soon'"),
    (["spot", "p4d.24xlarge", "--interrupted-every", "0s"], "expected a duration above 0"),
    (["mix", "p4d.24xlarge"], "expected one of --load, --run and --machines"),
    (["mix", "p4d.24xlarge", "--machines", "3", "--terms", "2y"], "--terms '2y': expected some of 1y, 3y"),
    (["rightsize", "H1000", "--gpu-price", "1"], "no GPU model 'H1000': expected one of"),
    (["rightsize", "H100-SXM5-80GB", "--gpu-price", "1"], "no service: expected --service NAME=MEMORY"),
    (
        ["rightsize", "H100-SXM5-80GB", "-s", "chat", "--gpu-price", "1"],
        "--service 'chat': expected NAME=MEMORY",
    ),
    (
        ["rightsize", "H100-SXM5-80GB", "-s", "chat=900Gi", "--gpu-price", "1"],
        "service chat: needs 900.0 GiB",
    ),
    (["rightsize", "H100-SXM5-80GB", "-s", "chat=9Gi"], "expected one of --gpu-price and --instance-type"),
    (["rightsize", "H100-SXM5-80GB", "-s", "chat=9Gi", "--gpu-price", "-4"], "expected dollars, 0 or more"),
]


@pytest.mark.parametrize(("words", "says"), WRONG, ids=[" ".join(w) for w, _ in WRONG])
def test_wrong_input_is_a_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_wrong_load_is_located(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "load.csv"
    file.write_text("machines\n2\nmany\n-1\n")
    assert main(["plan", "mix", "p5.48xlarge", "--load", str(file)]) == 2
    err = capsys.readouterr().err
    assert f"{file}:3:" in err and f"{file}:4:" in err


@pytest.mark.parametrize("name", ["spot", "mix", "rightsize", "idle"])
def test_every_plan_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"fairway plan {name}" in out
    assert max(len(line) for line in out.splitlines()) <= 100
