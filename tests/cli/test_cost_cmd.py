"""`fairway cost` and `fairway compare` in dollars, as a stranger would use them: real input, wrong input."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from fairway.cli.main import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "10-showback"


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "showback"
    assert main(["simulate", str(EXAMPLE), "-q", "--out", str(folder)]) == 0
    return folder


def test_the_readme_runs(run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [x for x in (EXAMPLE / "README.md").read_text().splitlines() if x.startswith("    fairway ")]
    assert len(lines) >= 8
    for line in lines[1:]:
        words = shlex.split(line, comments=True)[1:]
        words = [w.replace("runs/showback", str(run_dir)) for w in words]
        words = [w.replace("examples/10-showback", str(EXAMPLE)) for w in words]
        assert main(words) == 0, line
    assert {p.name for p in tmp_path.iterdir()} == {"showback.html", "showback.csv", "focus.csv"}


def test_a_scenario_costs_what_its_run_costs(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    totals = []
    for path in (EXAMPLE, run_dir):
        assert main(["cost", str(path), "-o", "json"]) == 0
        totals.append(json.loads(capsys.readouterr().out)["figures"]["total_micros"])
    # Two p4d on demand, one on spot, one g5, a day.
    assert totals == [24 * (2 * 32_770_000 + 12_500_000 + 1_010_000)] * 2


PRICED = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: priced}
spec:
  latency: zero
  duration: 2h
  cloud:
    provider: aws
    bootTime: 6m
    prices: [ours.yaml]
    nodeGroups: [{name: gpu, instanceType: g5.xlarge, zone: us-east-1a, min: 1, max: 1, size: 1}]
    autoscaler: {scaleDownEnabled: false}
"""
OUR_BOOK = """\
apiVersion: fairway.dev/v1alpha1
kind: PriceBook
metadata: {name: ours}
spec:
  currency: USD
  unit: instance-hour
  source: a test
  prices: [{instanceType: g5.xlarge, onDemand: DOLLARS}]
"""


def booked(folder: Path, dollars: str, name: str = "ours.yaml") -> Path:
    (folder / name).write_text(OUR_BOOK.replace("DOLLARS", dollars), encoding="utf-8")
    return folder / name


def test_a_scenarios_own_books_price_it_and_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scenario.yaml").write_text(PRICED, encoding="utf-8")
    book, other = booked(tmp_path, "10"), booked(tmp_path, "3", "theirs.yaml")
    run = tmp_path / "run"
    assert main(["simulate", str(tmp_path), "-q", "--out", str(run)]) == 0
    capsys.readouterr()

    def owed(*args: str) -> tuple[int, int]:
        assert main(["cost", *args, "-o", "json"]) == 0
        figures = json.loads(capsys.readouterr().out)["figures"]
        return figures["total_micros"], figures["booting_micros"]

    # The group has its first machine at the start: no boot. Two hours at ten dollars, at three with another book.
    assert owed(str(tmp_path)) == owed(str(run)) == (20_000_000, 0)
    assert owed(str(run), "--prices", str(other)) == (6_000_000, 0)
    book.unlink()
    assert main(["cost", str(run)]) == 2
    assert f"takes prices from {book}, which is not there (any more)" in capsys.readouterr().err
    assert owed(str(run), "--book", str(other)) == (6_000_000, 0)


def test_a_budget_that_is_spent_says_no_and_is_enforced(
    run_dir: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    heard = tmp_path / "heard.json"
    script = f"import sys; open({str(heard)!r}, 'w').write(sys.stdin.read())"
    budget = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "Budget",
        "metadata": {"name": "small"},
        "spec": {
            "amount": 100,
            "period": "run",
            "for": {"team": "vision"},
            "enforcement": {"at": 100, "action": "hold", "command": [sys.executable, "-c", script]},
        },
    }
    (tmp_path / "budget.json").write_text(json.dumps(budget))
    said = tmp_path / "decisions.jsonl"
    words = ["cost", str(run_dir), "--budget", str(tmp_path / "budget.json"), "--decisions", str(said)]
    assert main(words) == 1
    assert not heard.exists()
    decision = json.loads(said.read_text())
    assert (decision["budget"], decision["action"], decision["target"]) == (
        "small",
        "hold",
        {"team": "vision"},
    )
    assert main([*words, "--enforce"]) == 1
    assert json.loads(heard.read_text()) == decision
    capfd.readouterr()
    budget["spec"]["enforcement"]["command"] = ["no-such-command-here"]
    (tmp_path / "budget.json").write_text(json.dumps(budget))
    assert main([*words, "--enforce"]) == 3
    assert "budget small: no-such-command-here cannot be run" in capfd.readouterr().err


BOOK = """\
apiVersion: fairway.dev/v1alpha1
kind: PriceBook
metadata: {name: ours}
spec:
  currency: USD
  unit: instance-hour
  prices:
"""
BAD_BOOKS = [
    (
        "a negative price",
        "  - {instanceType: p4d.24xlarge, onDemand: -1}\n",
        ":8: spec.prices[0].onDemand: -1:",
    ),
    (
        "overlapping dates",
        "  - {instanceType: p4d.24xlarge, onDemand: 1, from: 2026-01-01, until: 2026-03-01}\n"
        "  - {instanceType: p4d.24xlarge, onDemand: 2, from: 2026-02-01}\n",
        "overlaps",
    ),
    ("an unknown type", "  - {instanceType: p4d.24xlrge, onDemand: 1}\n", "did you mean p4d.24xlarge"),
]


@pytest.mark.parametrize(("rows", "says"), [c[1:] for c in BAD_BOOKS], ids=[c[0] for c in BAD_BOOKS])
def test_wrong_prices_are_located(
    rows: str, says: str, run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(BOOK + rows)
    assert main(["cost", str(run_dir), "--book", str(file)]) == 2
    err = capsys.readouterr().err
    assert str(file) in err and says in err


def test_a_price_missing_for_a_zone_is_told(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prices.yaml").write_text(
        "apiVersion: fairway.dev/v1alpha1\nkind: InstanceCatalog\nmetadata: {name: ours}\n"
        "spec:\n  provider: ours\n  regions: {here: [rack-1, rack-2]}\n"
        "  types: [{name: dgx, cpu: 8, memory: 64, gpu: A100-SXM4-40GB, gpus: 8}]\n---\n"
        + BOOK
        + "  - {instanceType: dgx, onDemand: 10, zones: [rack-1]}\n"
    )
    (tmp_path / "scenario.yaml").write_text(
        "apiVersion: fairway.dev/v1alpha1\nkind: Scenario\nmetadata: {name: racks}\nspec:\n  duration: 1h\n  nodes:\n"
        "  - {name: 'n-{i}', count: 2, instanceType: dgx, zones: [rack-1, rack-2], capacity: {cpu: 8, memory: 64Gi}}\n"
    )
    assert main(["cost", str(tmp_path / "scenario.yaml"), "--book", str(tmp_path / "prices.yaml")]) == 0
    out = capsys.readouterr().out
    assert "$10.00" in out.splitlines()[0]
    assert "UNPRICED  1.0 machine-hours, 8.0 GPU-hours" in out
    assert "1 machine of dgx, on-demand in rack-2, 1.0 h: no price for this place" in " ".join(out.split())


WRONG = [
    (["--by", "nonsense"], "--by nonsense: expected some of"),
    (["--by", ""], "--by: expected the name of a column"),
    (["--basis", "guess"], "--basis 'guess': expected one of request, usage"),
    (["--commitment", "5y"], "--commitment '5y': expected one of 1y, 3y"),
    (["--share", "idle=fairly"], "expected one of even, proportional, weighted"),
    (["--share", "idle=weighted", "--weight", "vision"], "--weight 'vision': expected NAME=NUMBER"),
    (["--share", "idle=weighted", "--by", "team", "--weight", "nobody=1"], "a weight is given to nobody"),
    (["--epochs", "ml/Job/none=3"], "expected namespace/Kind/name of a workload"),
    (["--export", "bill.xlsx"], "bill.xlsx: expected a name that ends in .csv or .parquet"),
    (["--seed", "3"], "a seed is for scenarios"),
    (["-o", "yaml"], "--output 'yaml': expected one of table, json"),
]


@pytest.mark.parametrize(("words", "says"), WRONG, ids=[" ".join(w) for w, _ in WRONG])
def test_wrong_input_is_a_sentence(
    words: list[str], says: str, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", str(run_dir), *words]) == 2
    assert says in capsys.readouterr().err


def test_nothing_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(tmp_path / "nothing")]) == 2
    assert "no such file or directory: expected a scenario, a run directory" in capsys.readouterr().err


def test_a_run_without_instance_types_says_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scenario.yaml").write_text(
        "apiVersion: fairway.dev/v1alpha1\nkind: Scenario\nmetadata: {name: plain}\nspec:\n  duration: 1h\n"
        "  nodes: [{name: cpu, capacity: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 2}}]\n"
    )
    assert main(["cost", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "UNPRICED  1.0 machine-hours, 2.0 GPU-hours" in out
    assert "set the label node.kubernetes.io/instance-type" in " ".join(out.split())


def test_compare_has_dollars(run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "shorter"
    assert main(["simulate", str(EXAMPLE), "-q", "--duration", "20h", "--out", str(other)]) == 0
    capsys.readouterr()
    assert main(["compare", str(run_dir), str(other), "-o", "json"]) == 0
    rows = {d["name"]: d for d in json.loads(capsys.readouterr().out)["differences"]}
    assert rows["dollars"]["values"] == [79_050_000 * 24, 79_050_000 * 20]
    assert rows["dollars"]["verdicts"] == ["same", "better"]
    assert main(["compare", str(run_dir), str(other)]) == 0
    assert "dollars held by nobody" in capsys.readouterr().out
