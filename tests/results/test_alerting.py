"""Alerts of a run: in assertions, reports and `fairway rules test`."""

import json
import shutil
from pathlib import Path

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.catalog.prices import Price
from fairway.cli.main import main
from fairway.kube.timestamps import parse_rfc3339
from fairway.results.alerting import alerts_of
from fairway.results.rundir import load_run
from fairway.scenario.assertions import BadAssertion, parse
from fairway.scenario.assertions.evidence import Evidence
from fairway.scenario.assertions.grammar import Assertion
from fairway.scenario.assertions.judging import judge
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import Finished, run_scenario

EXAMPLE = Path(__file__).parents[2] / "examples/17-idle-alerts"


@pytest.fixture(scope="module")
def finished() -> Finished:
    return run_scenario(load_scenario(EXAMPLE), alerts_of=alerts_of)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "idle"
    assert main(["simulate", str(EXAMPLE), "--out", str(folder), "--quiet"]) == 0
    return folder


@pytest.mark.parametrize(
    ("text", "passed", "shown"),
    [
        ("alert GPUIdle fires", True, "1"),
        ("alert GPUIdle fires for namespace vision between 20m and 1h", True, "1"),
        ("alert GPUIdle fires after 2h", False, "0"),
        ('alert "GPUIdle" fires for namespace chat', False, "0"),
        ("no alert", False, "1"),
        ("no alert GPUHot", True, "0"),
        ("no alert of severity warning", False, "1"),
        ("no alert of severity critical for namespace vision", True, "0"),
        ("no alert GPUIdle before 20m", True, "0"),
        ('count(alerts) == 1 where severity == "warning" and label("Hostname") == "gpu-0"', True, "1"),
        ('no alert where summary like "notebook*"', False, "1"),
    ],
)
def test_what_can_be_said_of_alerts(finished: Finished, text: str, passed: bool, shown: str) -> None:
    verdict = judge(Assertion(text, parse(text)), finished.evidence)
    assert (verdict.passed, verdict.shown) == (passed, shown)


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("alert GPUIdle", 14, "expected fires"),
        ("alert fires", 12, "expected fires"),
        ("no alarm", 4, "expected alert"),
        ("no alert of kind x", 13, "expected severity"),
        ("alert A fires for team", 23, "expected the label's value"),
        ("alert A fires sometimes", 15, ""),
    ],
)
def test_what_cannot(text: str, column: int, expected: str) -> None:
    with pytest.raises(BadAssertion) as wrong:
        parse(text)
    assert wrong.value.column == column
    assert expected in wrong.value.expected


def test_rules_that_nobody_evaluates_hold_nothing_up(finished: Finished) -> None:
    verdict = judge(Assertion("no alert", parse("no alert")), Evidence(finished.outcome))
    assert (verdict.passed, verdict.note) == (False, "nobody evaluated the rules of this run")


def test_reports_list_alerts(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (alert,) = load_run(run_dir).info.alerts
    assert (alert["alert"], alert["labels"]["pod"], alert["ended_s"] is not None) == (
        "GPUIdle",
        "notebook",
        True,
    )
    assert main(["report", str(run_dir)]) == 0
    out = capsys.readouterr().out
    assert "ALERTS  1 alert fired" in out
    assert main(["report", str(run_dir), "--html", str(run_dir / "r.html")]) == 0
    assert "<h2>Alerts" in (run_dir / "r.html").read_text()


def test_rules_are_tried_on_a_run(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["rules", "test", str(EXAMPLE / "rules.yaml"), "--on", str(run_dir), "--suggest"]
    assert main([*command, "-o", "json"]) == 0
    idle, hot = json.loads(capsys.readouterr().out)["rules"]
    assert (idle["alert"], idle["fired"], hot["fired"]) == ("GPUIdle", 1, 0)
    # Thirty minutes of `for`; the GPU idled from its first sample on.
    assert idle["late_p50_s"] == pytest.approx(1800, abs=120)
    assert idle["idle_gpu_s_before"] == idle["late_p50_s"]
    assert [(t["value"], t["fired"]) for t in idle["thresholds"]][:2] == [(0, 0), (5, 1)]
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["GPUIdle", "1", "0"]


def test_what_idled_before_is_paid_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "priced"
    shutil.copytree(EXAMPLE, folder)
    scenario = folder / "scenario.yaml"
    said = "      gpuModel: NVIDIA-A100-SXM4-80GB\n"
    labels = "      labels: {node.kubernetes.io/instance-type: p4de.24xlarge}\n"
    text = scenario.read_text().replace(said, said + labels).replace("nvidia.com/gpu: 4", "nvidia.com/gpu: 8")
    scenario.write_text(text)
    command = ["rules", "test", str(folder / "rules.yaml"), "--on", str(folder)]
    assert main([*command, "-o", "json"]) == 0
    idle, hot = json.loads(capsys.readouterr().out)["rules"]
    price = load_catalog().price("p4de.24xlarge", "on-demand", at_us=parse_rfc3339("2026-01-05T08:00:00Z"))
    assert isinstance(price, Price)
    hours = idle["idle_gpu_s_before"] / 3600
    assert idle["idle_usd_before"] == pytest.approx(hours * price.micros_per_hour / 8e6, abs=1e-5)
    assert hot["idle_usd_before"] is None
    assert main(command) == 0
    head, row = capsys.readouterr().out.splitlines()[:2]
    assert (head.split()[-1], row.split()[-1]) == ("COST", f"${idle['idle_usd_before']:.2f}")


def test_rules_that_fail_are_told_with_their_place(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: DCGM_FI_DEV_GPU_UTIL + on() vector(1)\n"
    )
    assert main(["rules", "test", str(rules), "--on", str(run_dir)]) == 1
    assert f"{rules}:5: " in (said := capsys.readouterr().err)
    assert "many-to-one matching must be explicit" in said
    rules.write_text("groups:\n- name: g\n  rules:\n  - alert: A\n    expr: rate(x)\n")
    assert main(["rules", "check", str(rules)]) == 2
    assert f'{rules}:5: group "g", rule 1, "A"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["query", 'count(kube_pod_info{namespace="vision"})', "--at", "1h"], 0, "    1  {}"),
        (["query", "DCGM_FI_DEV_GPU_UTIL[1m]", "--at", "1h"], 0, "SAMPLES"),
        (["query", "1 / 4"], 0, "0.25"),
        (["query", "avg(DCGM_FI_DEV_GPU_UTIL)", "--step", "2h"], 0, "STEPS"),
        (["query", "gone"], 1, "nothing was found"),
        (["query", "sum("], 2, "unclosed left parenthesis"),
        (["query", "1", "--start", "1h"], 2, "--step is needed"),
        (["query", "1", "--start", "2h", "--end", "1h", "--step", "5m"], 2, "--end lies before --start"),
        (["query", "1", "--step", "0s"], 2, "expected a duration above 0"),
        (["names"], 0, "DCGM_FI_DEV_GPU_UTIL"),
        (["export", "x", "--format", "csv"], 2, "expected one of openmetrics"),
        (["export", "x", "--match", "gone"], 2, "no metric matches"),
        (["export", "x", "--match", "sum(x)"], 2, "expected a selector"),
        (["export", "x", "--format", "remote-write", "--match", "kube_pod_info"], 2, "expected a URL"),
    ],
)
def test_a_runs_metrics(
    run_dir: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert main(["metrics", *arguments, "--on", str(run_dir)]) == code
    captured = capsys.readouterr()
    assert said in captured.out + captured.err


def test_an_export_has_every_sample(run_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    selector = 'DCGM_FI_DEV_GPU_UTIL{pod="notebook"}'
    assert (
        main(["metrics", "export", str(out), "--on", str(run_dir), "--match", selector, "--end", "1h"]) == 0
    )
    lines = out.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("# TYPE DCGM_FI_DEV_GPU_UTIL unknown", "# EOF")
    assert 100 < len(lines) <= 123
    assert all('pod="notebook"' in line for line in lines[1:-1])
