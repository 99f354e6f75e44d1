"""What a backtest learnt is found by later forecasts, and nothing that lies in its place stops one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fairway import Ground
from fairway.answers.forecasting.calibration import RAW
from fairway.answers.forecasting.forecast import Options, forecast
from fairway.answers.forecasting.keeping import FILE, found_beside, read_calibration
from fairway.cli.main import main
from fairway.errors import InvalidInput
from fairway.ground import open_ground
from fairway.kube.timestamps import HOUR_US, parse_rfc3339

SPEC = """
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: queue}
spec:
  seed: SEED
  latency: zero
  duration: 6h
  nodes: [{name: node, count: 1, capacity: {cpu: 64, memory: 1Ti, nvidia.com/gpu: 8}}]
  traces: [{path: jobs.csv, load: 1.3}]
"""
MOMENTS = [f"{minutes}m" for minutes in range(60, 241, 30)]
ASK: dict[str, Any] = {"futures": 4, "horizon": "4h"}
BACKTEST = [
    "--backtest",
    "--from",
    "60m",
    "--to",
    "240m",
    "--every",
    "30m",
    "--futures",
    "4",
    "--horizon",
    "4h",
    "--processes",
    "1",
]
FORECAST = ["--futures", "4", "--horizon", "4h", "--processes", "1", "-o", "json"]
GOOD = {"cases": 40, "shift": 0.5, "below": 1.0, "above": 2.0}


def scenario(folder: Path, seed: int = 1) -> Path:
    """Jobs of half the node, a little more of them than it has room for."""
    folder.mkdir()
    (folder / "scenario.yaml").write_text(SPEC.replace("SEED", str(seed)))
    rows = [f"job-{n},{300 * n},{600 + 397 * n % 1200},4,4,4Gi" for n in range(72)]
    (folder / "jobs.csv").write_text(
        "\n".join(["job_id,submit_time,run_time,gpus,cpus,memory", *rows]) + "\n"
    )
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with another seed than its scenario's, after a backtest."""
    folder = tmp_path_factory.mktemp("kept")
    assert main(["simulate", str(scenario(folder / "of")), "--seed", "9", "--out", str(folder / "run")]) == 0
    assert main(["forecast", "--on", str(folder / "run"), *BACKTEST, "--processes", "1"]) == 0
    return folder / "run"


@pytest.fixture
def spoilt(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "run"))


def asked(capsys: pytest.CaptureFixture[str], run: Path, *more: str) -> tuple[dict[str, Any], str]:
    capsys.readouterr()
    assert main(["forecast", "--on", str(run), *FORECAST, *more]) == 0
    said = capsys.readouterr()
    return json.loads(said.out), said.err


def test_a_run_keeps_what_its_backtest_learnt(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = read_calibration(run / FILE)
    assert kept.cases >= 30 and kept.until == "2026-01-05T06:00:00Z" and kept.coverage is not None
    found, err = asked(capsys, run)
    assert found["calibration"] == kept.as_json() and FILE not in err
    words = f"by {kept.cases} earlier forecasts (until {kept.until}, {kept.coverage:g} % inside)"
    assert {one["calibration"] for one in found["objects"]} == {f"calibrated {words}"}
    # It is what a forecast that is given it says, and not what one without says.
    ground, options = open_ground(run), Options(4, horizon_us=4 * HOUR_US, processes=1)
    given, raw = (forecast(ground, options=options, calibration=c) for c in (kept, RAW))
    assert found == json.loads(json.dumps(given.as_json()))
    assert [o.start for o in given.objects] != [o.start for o in raw.objects]
    of_api = Ground(run).forecast(**ASK, processes=1)
    assert found == json.loads(json.dumps(of_api.as_json()))
    main(["forecast", "--on", str(run), *FORECAST[:-2]])
    # Only the path of the run is as long as it is.
    out = capsys.readouterr().out.replace(str(run), "run")
    assert f"intervals are calibrated {words}" in out and max(map(len, out.splitlines())) <= 100


def test_a_run_is_backtested_with_its_own_seed(run: Path, tmp_path: Path) -> None:
    own, other = (Ground(scenario(tmp_path / f"s{seed}", seed)).backtest(MOMENTS, **ASK) for seed in (9, 1))
    found = Ground(run).backtest(MOMENTS, **ASK)
    assert found.scores == own.scores != other.scores
    assert found.calibration == own.calibration
    assert any(str(run / FILE) in note for note in found.notes)


def test_what_came_later_is_not_used(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, err = asked(capsys, run, "--at", "3h")
    assert found["calibration"]["cases"] == 0 and found["objects"]
    assert f"{run / FILE}: it knows what came until 2026-01-05T06:00:00Z" in err
    given, _ = asked(capsys, run, "--at", "3h", "--calibration", str(run / FILE))
    assert given["calibration"]["cases"] >= 30


def test_nothing_is_written_into_a_users_folder(tmp_path: Path) -> None:
    folder = scenario(tmp_path / "mine")
    before = sorted(folder.iterdir())
    assert main(["forecast", "--on", str(folder), *BACKTEST, "--processes", "1"]) == 0
    Ground(folder).backtest(MOMENTS[:2], **ASK)
    assert sorted(folder.iterdir()) == before
    # And what lies there is not taken for Fairway's own.
    (folder / FILE).write_text(json.dumps(GOOD))
    assert found_beside(open_ground(folder), 0) == (RAW, ())


def test_a_calibration_of_another_run_is_left_out(spoilt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = json.loads((spoilt / FILE).read_text())
    for change, why in (
        ({"of": "another"}, "of another run"),
        ({"cases": 7}, "7 earlier forecasts were usable"),
    ):
        (spoilt / FILE).write_text(json.dumps({**said, **change}))
        found, err = asked(capsys, spoilt)
        assert found["calibration"]["cases"] == 0
        assert f"{spoilt / FILE}: " in err and why in err


HOSTILE = [
    "",
    "[" * 60_000,
    "null",
    "{}",
    " " * 70_000 + json.dumps(GOOD),
    '{"cases": 40, "shift": NaN, "below": 1, "above": 1}',
    '{"cases": 40, "shift": 1e999, "below": 1, "above": 1}',
    *(
        json.dumps({**GOOD, **bad})
        for bad in (
            {"shift": 1e30},
            {"below": -21},
            {"above": "2"},
            {"above": True},
            {"cases": -1},
            {"cases": 10**400},
            {"cases": 40.5},
            {"coverage": 101},
            {"until": "\x1b[31mred"},
            {"until": "9999-12-31T23:59:59-23:59"},
            {"until": 7},
            {"of": "x" * 300},
        )
    ),
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_damaged_file_is_told_and_stops_no_forecast(run: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(InvalidInput, match=FILE) as told:
        read_calibration(tmp_path / FILE)
    assert str(told.value).isprintable()
    shutil.copy(run / "summary.json", tmp_path)
    ground = open_ground(tmp_path)
    assert found_beside(ground, parse_rfc3339("2026-01-06T00:00:00Z")) == (
        RAW,
        (f"{told.value}: intervals are not calibrated",),
    )


def test_the_command_goes_on_past_a_damaged_file(spoilt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (spoilt / FILE).write_bytes(b"\xff\x00")
    found, err = asked(capsys, spoilt)
    assert found["objects"] and found["calibration"]["cases"] == 0
    assert f"{spoilt / FILE}: expected what" in err


def test_a_served_clusters_folder_may_hold_one(tmp_path: Path) -> None:
    class Served:
        kind, name = "served", str(tmp_path)

    served: Any = Served()
    assert found_beside(served, 0) == (RAW, ())
    (tmp_path / FILE).write_text(json.dumps({**GOOD, "until": "2026-01-06T00:00:00Z"}))
    found, notes = found_beside(served, 0)
    assert found.cases == 40 and found.above == 2.0 and notes == ()
