"""A served cluster keeps its past: over restarts and deaths, for whoever may read it, and nobody else."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served

from fairway.answers.forecasting.keeping import FILE, found_beside, read_calibration
from fairway.apiserver.folders import running
from fairway.apiserver.historyfiles import FOLDER
from fairway.bench.api import connect, start_server
from fairway.cli.main import main
from fairway.errors import UserError
from fairway.ground import open_ground
from fairway.ground.clusters import HISTORY, NOT_ALLOWED
from fairway.ground.dumps import NO_RECORD
from fairway.kube.objects import Obj
from fairway.kube.timestamps import HOUR_US, MINUTE_US

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "n1",
        "labels": {
            "node.kubernetes.io/instance-type": "p4d.24xlarge",
            "topology.kubernetes.io/region": "us-east-1",
        },
    },
    "status": {"capacity": {"cpu": "96", "memory": "1100Gi", "pods": "110", "nvidia.com/gpu": "8"}},
}
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MERGE = {"Content-Type": "application/merge-patch+json"}
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default/token"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1"


def job(number: int, minutes: int, gpus: int = 4, priority: str = "") -> Obj:
    limits = {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": str(gpus)}
    pod: Obj = {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}],
    }
    if priority:
        pod["priorityClassName"] = priority
    meta = {"annotations": {"fairway.dev/run-time": f"{minutes}m"}}
    spec = {"backoffLimit": 0, "ttlSecondsAfterFinished": 300, "template": {"metadata": meta, "spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"train-{number}"}, "spec": spec}


def advance(api: Served, us: int) -> None:
    status, said = api.ask("POST", "/fairway/clock", {"advanceUs": us})
    assert status == 200, said


def submit(api: Served, first: int, count: int) -> None:
    for number in range(first, first + count):
        status, said = api.ask("POST", JOBS, job(number, 10 + 7 * number % 30))
        assert status == 201, said


def config_of(api: Served, token: str) -> Obj:
    cluster = {"server": api.server.url, "certificate-authority": str(api.pki / "ca.crt")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
    }


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a cluster that worked for ten hours, in two lives; no server runs on it."""
    data = tmp_path_factory.mktemp("kept") / "data"
    for life in range(2):
        with served(data, fleet=(NODE,), paused=True) as api:
            api.until_ready()
            for hour in range(5):
                submit(api, 100 * life + 10 * hour, 5)
                advance(api, HOUR_US)
            submit(api, 100 * life + 90, 4)
    return data


def test_a_stopped_cluster_tells_what_became_of_jobs_that_are_gone(past: Path) -> None:
    ground = open_ground(past)
    run = ground.history()
    assert run.info.notes == () and len(list((past / FOLDER).iterdir())) == 2
    jobs = [w for w in run.outcome.workloads if w.kind == "Job"]
    assert len(jobs) == 58 and ground.at().store.count("Job.batch") < 20
    assert sum(w.outcome == "Complete" for w in jobs) > 30
    assert (
        run.outcome.ended_us - run.outcome.began_us
        == 10 * HOUR_US
        == ground.at().now_us - run.outcome.began_us
    )
    assert {e.reason for e in run.outcome.events} >= {"Scheduled", "FailedScheduling", "Completed"}
    busy = sum(i.end_us - i.start_us for i in run.outcome.intervals if i.end_us is not None)
    assert busy > 10 * HOUR_US
    early = ground.history("5h").outcome
    # At that very moment the server was stopped, and four more were handed in before and after.
    assert sum(w.kind == "Job" for w in early.workloads) >= 29
    assert ground.at("5h").now_us == early.ended_us == early.began_us + 5 * HOUR_US
    assert {p["metadata"]["name"][:7] for p in ground.at("5h").store.objects("Pod")} & {"train-4"}
    with pytest.raises(UserError, match="the history of this cluster is kept from"):
        ground.at("11h")


def test_every_reader_reads_it(past: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(past)

    def said(*words: str) -> Any:
        capsys.readouterr()
        code = main([*words])
        found = capsys.readouterr()
        assert code in (0, 1) and NO_RECORD not in found.err + found.out, (words, found)
        return json.loads(found.out) if words[-1] == "json" else found.out

    bill = said("cost", data, "-o", "json")
    assert bill["began_us"] == open_ground(past).history().outcome.began_us and "gpu_hours" in json.dumps(
        bill
    )
    report = said("report", data, "-o", "json")
    assert report["integrals"]["gpu_milli_allocated"] > 0 and report["events"]
    assert "train-" in said("forecast", "--on", data, "--futures", "4", "--processes", "1")
    assert said("fragmentation", data) and said("doctor", "--on", data) and said("incident", "--on", data)
    assert "what if nodes=+1? 2 seeds" in said("what-if", "nodes=+1", "--on", data, "--seeds", "2")
    said("metrics", "export", str(tmp_path / "spans"), "--on", data, "--format", "otlp")
    assert (tmp_path / "spans").read_text().count("train-") > 50


def test_a_backtest_of_a_served_cluster_is_kept_and_found(
    past: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--futures", "4", "--processes", "1", "--horizon", "4h"]
    asked = [
        "forecast",
        "--on",
        str(past),
        "--backtest",
        "--from",
        "1h",
        "--to",
        "8h",
        "--every",
        "30m",
        *few,
    ]
    assert main(asked) == 0
    told = capsys.readouterr()
    assert "starts" in told.out and f"{past / FILE}: kept for later forecasts of this cluster" in told.err
    kept = read_calibration(past / FILE)
    assert kept.cases >= 30 and kept.coverage is not None
    ground = open_ground(past)
    assert found_beside(ground, ground.at().now_us) == (kept, ())
    assert main(["forecast", "--on", str(past), *few]) == 0
    assert f"calibrated by {kept.cases} earlier forecasts" in capsys.readouterr().out
    # What was learnt of the whole history is not used in the middle of it.
    assert main(["forecast", "--on", str(past), "--at", "5h", *few]) == 0
    assert f"{past / FILE}: it knows what came until {kept.until}" in capsys.readouterr().err
    # Of another cluster it would have been learnt elsewhere, and is used at any time.
    text = json.loads((past / FILE).read_text())
    (past / FILE).write_text(json.dumps({**text, "of": "another"}))
    assert found_beside(ground, ground.at("5h").now_us) == (kept, ())
    assert main([*asked[:7], "20h", *asked[8:]]) == 2
    assert "the history of this cluster is kept from" in capsys.readouterr().err


def test_who_may_read_it_over_the_api(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data, fleet=(NODE,), paused=True) as api:
        api.until_ready()
        submit(api, 0, 6)
        advance(api, 3 * HOUR_US)
        admin, folder = (open_ground(path) for path in (data / "kubeconfig", data))
        assert admin.at().now_us == folder.at().now_us
        assert list(admin.history().outcome.pods) == list(folder.history().outcome.pods)
        assert admin.history().info.notes == () and len(admin.history().outcome.workloads) == 6
        _, made = api.ask("POST", ACCOUNT, {"spec": {}})
        token = made["status"]["token"]
        for path in (HISTORY, f"{HISTORY}/00000001.log"):
            status, _ = api.ask("GET", path, headers={"Authorization": f"Bearer {token}"}, certificate=False)
            assert status == 403
        for path, expected in (
            (f"{HISTORY}/00000009.log", 404),
            (f"{HISTORY}/../objects.db", 400),
            (f"{HISTORY}/lock", 404),
            (f"{HISTORY}/%2e%2e/lock", 404),
        ):
            status, _ = api.ask("GET", path)
            assert status in (expected, 400, 404)
        assert api.ask("POST", HISTORY, {})[0] == 405
        config = tmp_path / "config"
        config.write_text(json.dumps(config_of(api, token)), encoding="utf-8")
        # Who may look at everything, but not at that, sees what objects tell; who may look at nothing sees nothing.
        assert not open_ground(config).history().outcome.pods
        role = {
            "metadata": {"name": "all"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}],
        }
        api.ask("POST", f"{BINDINGS}/clusterroles", role)
        subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"}
        binding = {"metadata": {"name": "all"}, "subjects": [subject], "roleRef": ref}
        assert api.ask("POST", f"{BINDINGS}/clusterrolebindings", binding)[0] == 201
        looking = open_ground(config).history()
        assert looking.info.notes == (NOT_ALLOWED,) and not [
            w for w in looking.outcome.workloads if w.kind == "Job"
        ]
        rules = [{"nonResourceURLs": [HISTORY, f"{HISTORY}/*", "/fairway/clock"], "verbs": ["get"]}]
        both = {"rules": [*role["rules"], *rules]}
        assert api.ask("PATCH", f"{BINDINGS}/clusterroles/all", both, headers=MERGE)[0] == 200
        assert len(open_ground(config).history().outcome.workloads) == 6


def test_nothing_is_kept_where_nothing_is_to_be(tmp_path: Path) -> None:
    with served(tmp_path / "data", fleet=(NODE,), history=0) as api:
        api.until_ready()
        submit(api, 0, 1)
    assert not (tmp_path / "data" / FOLDER).exists()
    assert open_ground(tmp_path / "data").history().info.notes == (NO_RECORD,)
    with pytest.raises(UserError, match="no history is kept of this cluster"):
        open_ground(tmp_path / "data").at("1h")


def test_a_history_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / FOLDER).write_text("in the way")
    with served(data, fleet=(NODE,)) as api:
        api.until_ready()
        submit(api, 0, 2)
    assert open_ground(data).history().info.notes == (NO_RECORD,)


def test_who_was_preempted_by_whom_is_told(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data, fleet=(NODE,), paused=True) as api:
        api.until_ready()
        for name, value in (("low", 1), ("high", 100)):
            api.ask(
                "POST",
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {"metadata": {"name": name}, "value": value},
            )
        api.ask("POST", JOBS, job(1, 600, 8, "low"))
        advance(api, 5 * MINUTE_US)
        api.ask("POST", JOBS, job(2, 10, 8, "high"))
        advance(api, 5 * MINUTE_US)
    pods = open_ground(data).history().outcome.pods
    assert [p.preempted_by.partition("-2-")[0] for p in pods if p.preempted_by] == ["default/train"]


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    data, count = tmp_path / "data", 0
    for _ in range(4):
        process, _ = start_server(data)
        found = running(data)
        assert found is not None
        connection = connect(data, found.url)
        names = {f"train-{n}" for n in range(count + 15)}
        for _ in range(15):
            connection.request("POST", JOBS, json.dumps(job(count, 5)), {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            assert response.status == 201
            count += 1
        connection.close()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        run = open_ground(data).history()
        assert run.info.notes == ()
        assert {w.name for w in run.outcome.workloads if w.kind == "Job"} == names


def test_the_flag_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("much", "12", "-1", "9Ei"):
        assert main(["up", "--history", text]) == 2
        assert "--history" in capsys.readouterr().err
