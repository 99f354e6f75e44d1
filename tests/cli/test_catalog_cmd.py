"""`fairway catalog` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["gpus"], 0, "H200-SXM5-141GB"),
        (["gpus", "A30"], 0, "{0,2}:2"),
        (["gpus", "T4"], 0, "no MIG"),
        (["instances", "--provider", "azure"], 0, "ND96amsr_A100_v4"),
        (["price", "p5.48xlarge", "--commitment", "1y"], 0, "$65.93/h"),
        (["price", "p5en.48xlarge", "-c", "spot"], 1, "no price book has it"),
        (["price", "p0.tiny"], 1, "no such instance type"),
    ],
)
def test_answers(arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", *arguments]) == code
    out = capsys.readouterr().out
    assert words in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gpus", "B3"], "no GPU model 'B3'"),
        (["instances", "--gpu", "B3"], "no GPU model 'B3'"),
        (["instances", "--provider", "ibm"], "expected one of aws, azure, gcp"),
        (["price", "g5.xlarge", "-c", "cheap"], "expected one of on-demand, spot, reserved"),
        (["price", "g5.xlarge", "--commitment", "9y"], "expected one of 1y, 3y"),
        (["price", "g5.xlarge", "--at", "soon"], "expected a date"),
        (["gpus", "-o", "xml"], "expected one of table, json"),
    ],
)
def test_wrong_input(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_json_and_a_book_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = tmp_path / "ours.yaml"
    book.write_text(
        "apiVersion: fairway.dev/v1alpha1\nkind: PriceBook\nmetadata: {name: ours}\nspec:\n  currency: USD\n"
        "  unit: instance-hour\n  prices:\n  - {instanceType: g5.xlarge, spot: 0.2, from: 2026-01-01}\n"
    )
    assert main(["catalog", "price", "g5.xlarge", "-c", "spot", "-b", str(book), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["microsPerHour"], found["book"], found["line"]) == (200_000, "ours", 8)
    for what in (["gpus"], ["gpus", "A30"], ["instances"]):
        assert main(["catalog", *what, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)
