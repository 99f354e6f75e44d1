"""What a Prometheus beside a served cluster is told of the cluster's monitors and rules, as they come and go."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from fairway.cli import prometheusbeside
from fairway.cli.prometheusbeside import CONFIG, FOLDER, RULES, Follower

Listed = dict[str, list[dict[str, Any]]]
OWN = {"rule_files": ["rules/*.yml"]}


def rule(name: str, query: str, **group: Any) -> dict[str, Any]:
    rules = [{"record": "a:b", "expr": query}]
    return {
        "metadata": {"namespace": "team", "name": name},
        "spec": {"groups": [{"name": "g", "rules": rules, **group}]},
    }


def monitor(name: str, regex: str) -> dict[str, Any]:
    relabelings = [{"sourceLabels": ["a"], "regex": regex, "action": "drop"}]
    endpoint = {"port": "m", "metricRelabelings": relabelings}
    return {"metadata": {"namespace": "team", "name": name, "uid": "1"}, "spec": {"endpoints": [endpoint]}}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Listed:
    listed: Listed = {"servicemonitors": [], "podmonitors": [], "prometheusrules": []}
    (tmp_path / FOLDER).mkdir()
    monkeypatch.setattr(prometheusbeside, "_listed", lambda where, plural: listed[plural])
    monkeypatch.setattr(prometheusbeside, "found", lambda where: SimpleNamespace(url="https://127.0.0.1:1"))
    return listed


@pytest.fixture
def without_promtool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


@pytest.fixture
def promtool() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")


def follower(where: Path) -> tuple[Follower, list[str]]:
    said: list[str] = []
    return Follower(where, OWN, said.append), said


def files(where: Path) -> dict[str, Any]:
    return {f.name: yaml.safe_load(f.read_text()) for f in sorted((where / FOLDER / RULES).iterdir())}


def jobs(where: Path) -> list[str]:
    config = yaml.safe_load((where / FOLDER / CONFIG).read_text())
    assert config["rule_files"] == OWN["rule_files"]
    return [job["job_name"] for job in config["scrape_configs"]]


@pytest.mark.usefixtures("without_promtool")
def test_rules_and_monitors_are_followed(tmp_path: Path, cluster: Listed) -> None:
    one, said = follower(tmp_path)
    assert one.look()
    assert (files(tmp_path), len(jobs(tmp_path))) == ({}, 4)
    assert not one.look()
    cluster["prometheusrules"] = [rule("up", "sum(up)", partial_response_strategy="warn"), rule("b", "1")]
    cluster["servicemonitors"] = [monitor("dcgm", "x")]
    assert one.look()
    group = {"name": "team/up/g", "rules": [{"record": "a:b", "expr": "sum(up)"}]}
    assert files(tmp_path)["team_up.yml"] == {"groups": [group]}
    assert jobs(tmp_path)[4:] == ["serviceMonitor/team/dcgm/0"]
    # What changes of a monitor besides its spec is no reason to read everything again.
    cluster["servicemonitors"] = [{**monitor("dcgm", "x"), "status": {"a": "b"}}]
    cluster["servicemonitors"][0]["metadata"]["resourceVersion"] = "9"
    assert not one.look()
    cluster["prometheusrules"] = [rule("b", "2")]
    cluster["servicemonitors"] = []
    assert one.look()
    assert list(files(tmp_path)) == ["team_b.yml"]
    assert files(tmp_path)["team_b.yml"]["groups"][0]["rules"][0]["expr"] == "2"
    assert (len(jobs(tmp_path)), said) == (4, [])


@pytest.mark.usefixtures("promtool")
def test_what_promtool_refuses_is_left_out_and_named(tmp_path: Path, cluster: Listed) -> None:
    one, said = follower(tmp_path)
    cluster["prometheusrules"] = [rule("good", "sum(up)"), rule("bad", "sum(up")]
    cluster["podmonitors"] = [
        {**monitor("good", "x"), "spec": {"podMetricsEndpoints": monitor("", "x")["spec"]["endpoints"]}},
        {**monitor("bad", "("), "spec": {"podMetricsEndpoints": monitor("", "(")["spec"]["endpoints"]}},
    ]
    assert one.look()
    assert list(files(tmp_path)) == ["team_good.yml"]
    assert jobs(tmp_path)[4:] == ["podMonitor/team/good/0"]
    assert "PrometheusRule team_bad is left out: " in said[0] and "could not parse expression" in said[0]
    assert "PodMonitor team/bad is left out: " in said[1] and "missing closing )" in said[1]
    # It is said once, and a rule that is mended is there.
    assert not one.look()
    cluster["prometheusrules"] = [rule("good", "sum(up)"), rule("bad", "sum(up)")]
    assert one.look()
    assert (list(files(tmp_path)), len(said)) == (["team_bad.yml", "team_good.yml"], 2)


@pytest.mark.usefixtures("promtool")
def test_a_rule_that_becomes_wrong_is_left_out(tmp_path: Path, cluster: Listed) -> None:
    one, said = follower(tmp_path)
    cluster["prometheusrules"] = [rule("r", "sum(up)")]
    assert one.look()
    cluster["prometheusrules"] = [rule("r", "sum(")]
    assert one.look()
    assert (files(tmp_path), len(said)) == ({}, 1)
