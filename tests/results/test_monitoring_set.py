"""The set of rules and dashboards: every query has data, every alert fires where it should, and promtool agrees."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.cli.main import main
from fairway.recorder.tables import Outcome
from fairway.results.rundir import load_run
from fairway.results.telemetry import series_of_run
from fairway.telemetry.installing.bundle import dashboards, objects
from fairway.telemetry.promql import Matrix, query_range
from fairway.telemetry.rules import evaluating
from fairway.telemetry.rules.reading import rules_of

ROOT = Path(__file__).parents[2]
HOUR_MS = 3_600_000
RULES = list(objects(["rules"]))
GROUPS = [group for rule in RULES for group in rules_of(rule)[0]]
ALERTS = {rule.alert: rule for group in GROUPS for rule in group.rules if rule.alert}
# A run knows nothing of model servers.
OF_SERVERS = re.compile("^serving:")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A spot exercise with Kueue and Karpenter, three hours long."""
    out = tmp_path_factory.mktemp("set") / "run"
    assert main(["simulate", str(ROOT / "examples/11-spot-exercise"), "--out", str(out)]) == 0
    return load_run(out).outcome


@pytest.mark.parametrize("name", sorted(dashboards()))
def test_every_query_of_every_panel_has_data(outcome: Outcome, name: str) -> None:
    source, began = series_of_run(outcome), outcome.began_us // 1000
    panels = json.loads(dashboards()[name])["panels"]
    queries = [t["expr"].replace("$node", ".*") for panel in panels for t in panel["targets"]]
    assert len(queries) >= 6
    for query in queries:
        found = query_range(source, query, began, began + HOUR_MS, 120_000)
        assert isinstance(found, Matrix) and len(found.labels), query


def test_every_recording_rule_records(outcome: Outcome) -> None:
    began = outcome.began_us // 60_000_000 * 60_000
    found = evaluating.evaluate(GROUPS, series_of_run(outcome), began, began + 2 * HOUR_MS)
    assert found.failures == []
    wanted = {rule.record for group in GROUPS for rule in group.rules if rule.record}
    assert {name for name in wanted if not OF_SERVERS.match(name)} <= set(found.recorded.names())


def test_every_alert_has_a_severity_and_a_runbook() -> None:
    runbooks = {
        line[3:] for line in (ROOT / "docs/runbooks.md").read_text().splitlines() if line.startswith("## ")
    }
    assert set(ALERTS) == runbooks
    for name, rule in ALERTS.items():
        assert rule.labels["severity"] in ("info", "warning", "critical")
        assert rule.annotations["runbook"] == f"docs/runbooks.md#{name.lower()}"
        assert rule.annotations["summary"]


def _plain(folder: Path) -> list[str]:
    """Rule files as Prometheus reads them."""
    for rule in RULES:
        (folder / f"{rule['metadata']['name']}.yml").write_text(yaml.safe_dump(rule["spec"]))
    return sorted(str(file) for file in folder.glob("*.yml"))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", *_plain(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lint" not in done.stdout + done.stderr


GPU = 'gpu="0",Hostname="n1",namespace="team",pod="p"'
CASES: dict[str, tuple[dict[str, str], str, dict[str, str]]] = {
    "GPUTemperatureHigh": (
        {f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}}": "86x60"},
        "10m",
        {"gpu": "0", "Hostname": "n1"},
    ),
    "GPUXidError": ({f"DCGM_FI_DEV_XID_ERRORS{{{GPU}}}": "0x5 79x60"}, "10m", {"gpu": "0"}),
    "GPUMissing": (
        {
            'kube_node_status_capacity{resource="nvidia_com_gpu",node="n1"}': "2x60",
            f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}}": "40x60",
        },
        "20m",
        {"node": "n1"},
    ),
    "GPUMemoryLeak": (
        {f"DCGM_FI_DEV_FB_USED{{{GPU}}}": "76000+10x120", f"DCGM_FI_DEV_FB_FREE{{{GPU}}}": "4000-10x120"},
        "50m",
        {"pod": "p"},
    ),
    "GPUHeldIdle": ({f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}}": "0x300"}, "3h", {"pod": "p", "namespace": "team"}),
    "GPUUnderused": ({f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}}": "10x600"}, "6h", {"pod": "p"}),
    "GPUIdleOnDemand": (
        {
            f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}}": "1x300",
            'kube_node_labels{node="n1",label_karpenter_sh_capacity_type="on-demand"}': "1x300",
        },
        "3h",
        {"node": "n1"},
    ),
    "NCCLStalled": (
        {
            f"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{{{GPU}}}": "0+100x20 2000x60",
            f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}}": "100x80",
        },
        "45m",
        {"pod": "p"},
    ),
    "QueueStuck": (
        {
            'kueue_pending_workloads{cluster_queue="q",status="active"}': "3x400",
            'kueue_admitted_workloads_total{cluster_queue="q"}': "7x400",
        },
        "5h",
        {"cluster_queue": "q"},
    ),
    "EvictionStorm": (
        {'kueue_evicted_workloads_total{cluster_queue="q"}': "0+1x120"},
        "1h",
        {"cluster_queue": "q"},
    ),
    "HighPriorityPodPending": (
        {
            'kube_pod_status_phase{namespace="n",pod="p",phase="Pending"}': "1x60",
            'kube_pod_info{namespace="n",pod="p",priority_class="prod-high"}': "1x60",
        },
        "30m",
        {"pod": "p"},
    ),
    "GPUNodeNotReady": (
        {
            'kube_node_status_condition{node="n1",condition="Ready",status="true"}': "0x60",
            'kube_node_status_capacity{resource="nvidia_com_gpu",node="n1"}': "8x60",
        },
        "20m",
        {"node": "n1"},
    ),
    "ServingSLOBurnsFast": (
        {
            'vllm:time_to_first_token_seconds_bucket{model_name="m",le="2.5"}': "0+50x120",
            'vllm:time_to_first_token_seconds_count{model_name="m"}': "0+100x120",
        },
        "90m",
        {"model_name": "m"},
    ),
    "TrainingInputStarved": (
        {
            f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}}": " ".join(["95 30"] * 120),
            'kube_pod_owner{namespace="team",pod="p",owner_kind="Job"}': "1x240",
        },
        "2h",
        {"pod": "p"},
    ),
    "QueueWaitLong": (
        {
            'kueue_admission_wait_time_seconds_bucket{cluster_queue="q",le="1280"}': "0+1x180",
            'kueue_admission_wait_time_seconds_bucket{cluster_queue="q",le="10240"}': "0+10x180",
            'kueue_admission_wait_time_seconds_bucket{cluster_queue="q",le="+Inf"}': "0+10x180",
        },
        "2h",
        {"cluster_queue": "q"},
    ),
    "FleetFull": (
        {f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}}": "60x180", 'scheduler_pending_pods{queue="active"}': "2x180"},
        "2h",
        {},
    ),
    "SpotShareLow": (
        {
            'kube_node_status_capacity{resource="nvidia_com_gpu",node="n1"}': "8x120",
            'kube_node_status_capacity{resource="nvidia_com_gpu",node="n2"}': "2x120",
            'kube_node_labels{node="n2",label_karpenter_sh_capacity_type="spot"}': "1x120",
        },
        "1h",
        {},
    ),
    "ServingSLOBurns": (
        {
            'vllm:time_to_first_token_seconds_bucket{model_name="m",le="2.5"}': "0+90x500",
            'vllm:time_to_first_token_seconds_count{model_name="m"}': "0+100x500",
        },
        "7h",
        {"model_name": "m"},
    ),
}
# The same, just on the other side: no alert.
NEAR: dict[str, dict[str, str]] = {
    # A GPU that is busy four fifths of the time, and one of a service.
    "TrainingInputStarved": {
        f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}}": " ".join(["95 65"] * 120),
        'kube_pod_owner{namespace="team",pod="p",owner_kind="Job"}': "1x240",
        'DCGM_FI_DEV_GPU_UTIL{gpu="1",Hostname="n1",namespace="team",pod="s"}': " ".join(["95 30"] * 120),
        'kube_pod_owner{namespace="team",pod="s",owner_kind="ReplicaSet"}': "1x240",
    },
    "QueueWaitLong": {
        'kueue_admission_wait_time_seconds_bucket{cluster_queue="q",le="1280"}': "0+99x180",
        'kueue_admission_wait_time_seconds_bucket{cluster_queue="q",le="10240"}': "0+100x180",
        'kueue_admission_wait_time_seconds_bucket{cluster_queue="q",le="+Inf"}': "0+100x180",
    },
    # Full, but nobody waits.
    "FleetFull": {
        f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}}": "60x180",
        'scheduler_pending_pods{queue="active"}': "0x180",
    },
    "SpotShareLow": {
        'kube_node_status_capacity{resource="nvidia_com_gpu",node="n1"}': "4x120",
        'kube_node_status_capacity{resource="nvidia_com_gpu",node="n2"}': "4x120",
        'kube_node_labels{node="n2",label_karpenter_sh_capacity_type="spot"}': "1x120",
    },
    "ServingSLOBurns": {
        'vllm:time_to_first_token_seconds_bucket{model_name="m",le="2.5"}': "0+95x500",
        'vllm:time_to_first_token_seconds_count{model_name="m"}': "0+100x500",
    },
}


def test_every_alert_has_a_case() -> None:
    assert set(CASES) == set(ALERTS)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_sees_alerts_fire(tmp_path: Path) -> None:
    """As `promtool test rules` has it: each alert is silent at first and fires in time."""
    tests: list[dict[str, Any]] = []
    for name, (series, at, labels) in CASES.items():
        found = [{"series": key, "values": values} for key, values in series.items()]
        named = "".join(f',{key}="{value}"' for key, value in labels.items())
        query = f'count(ALERTS{{alertname="{name}",alertstate="firing"{named}}}) > 0'
        sample = {"expr": query, "eval_time": at, "exp_samples": [{"labels": "{}", "value": 1}]}
        quiet = {"alertname": name, "eval_time": "0m", "exp_alerts": []}
        tests.append(
            {
                "interval": "1m",
                "input_series": found,
                "promql_expr_test": [sample],
                "alert_rule_test": [quiet],
            }
        )
    for name, series in NEAR.items():
        found = [{"series": key, "values": values} for key, values in series.items()]
        quiet = {"alertname": name, "eval_time": CASES[name][1], "exp_alerts": []}
        tests.append({"interval": "1m", "input_series": found, "alert_rule_test": [quiet]})
    file = tmp_path / "tests.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": _plain(tmp_path), "evaluation_interval": "1m", "tests": tests})
    )
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_manifests_are_rendered(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["monitoring", "render"]) == 0
    kinds = [obj["kind"] for obj in yaml.safe_load_all(capsys.readouterr().out)]
    assert {"DaemonSet", "Service", "ServiceMonitor", "PrometheusRule", "ConfigMap"} <= set(kinds)
    assert main(["monitoring", "render", "--only", "rules", "--out", str(tmp_path / "out")]) == 0
    assert len(list((tmp_path / "out").iterdir())) == len(RULES)
    assert main(["monitoring", "render", "--only", "everything"]) == 2
    assert "'everything' is no part" in capsys.readouterr().err
