"""One ill cluster per check, and one that is well: every check finds its own illness and no other one's absence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import answerworlds as worlds
import pytest
from answerworlds import job, moment_of, namespace, node, pod

from fairway.answers.doctor.checkup import CHECKS, Result, checkup, is_well
from fairway.answers.doctor.findings import ILL, UNKNOWN, WELL, Patient
from fairway.answers.doctor.symptoms import symptoms
from fairway.cli.main import main
from fairway.ground import Moment, open_ground
from fairway.ground.ground import history_of
from fairway.kube.objects import Key, Obj
from fairway.results.run import RunInfo

EXAMPLES = Path(__file__).parents[2] / "examples"


def checked(moment: Moment, *names: str) -> dict[str, Result]:
    history = history_of(moment, RunInfo("x")).outcome
    return {r.check.name: r for r in checkup(Patient(moment, history), names)}


def _annotated(made: Obj, **notes: str) -> Obj:
    made["metadata"]["annotations"] = {f"fairway.dev/{k.replace('_', '-')}": v for k, v in notes.items()}
    return made


def _pending() -> Moment:
    return moment_of([node("n", 1)], [pod("p", 4)])


def _refused() -> Moment:
    hard = {"requests.nvidia.com/gpu": "1"}
    meta = {"name": "small", "namespace": "team"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}
    return moment_of([node("n"), namespace("team"), quota], [job("big", 4, queue="")])


def _not_created() -> Moment:
    container = {"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "gone"}}]}
    return moment_of([node("n")], [pod("p", 0, containers=[container])])


def _crashing() -> Moment:
    return moment_of(
        [node("n")], [_annotated(pod("p", 0, restartPolicy="Always"), run_time="5s", exit_code="1")]
    )


def _with_end(**ended: Any) -> Moment:
    """A pod that ended so on a cluster that was written down."""
    moment = moment_of([node("n")], [pod("p", 1)])
    (made,) = moment.store.objects("Pod")
    state = {
        "name": "main",
        "restartCount": 1,
        "ready": True,
        "state": {"running": {}},
        "lastState": {"terminated": ended},
    }
    moment.store.set_status(Key("Pod", "default", "p"), {**made["status"], "containerStatuses": [state]})
    return moment


def _few_cpus() -> Moment:
    limits = {"cpu": "1", "nvidia.com/gpu": "1"}
    container = {"name": "c", "image": "i", "resources": {"limits": limits, "requests": limits}}
    return moment_of([node("n")], [_annotated(pod("p", 0, containers=[container]), run_time="10h")])


def _hot() -> Moment:
    moment = moment_of([node("n")])
    (made,) = moment.store.objects("Node")
    hot = {
        "type": "GpuThermalThrottling",
        "status": "True",
        "message": "88 C",
        "lastTransitionTime": "2026-01-05T00:00:00Z",
    }
    conditions = [*made["status"].get("conditions", ()), hot]
    moment.store.set_status(Key("Node", "", "n"), {**made["status"], "conditions": conditions})
    return moment


def _fragments() -> Moment:
    held = [pod(f"h{i}", 5) for i in range(2)]
    return moment_of([node("n1"), node("n2")], held, [pod("p", 6)])


def _idle() -> Moment:
    return moment_of([node("n")], [_annotated(pod("p", 4), run_time="20h", gpu_utilization="5%")], minutes=90)


def _churn() -> Moment:
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"c{v}"},
            "value": v,
        }
        for v in (10, 20)
    ]
    small = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "low", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": pod("x", 4)["spec"]["containers"]},
            },
        },
    }
    return moment_of([node("n", 8), *classes], [small], [pod("a", 8, priorityClassName="c20")])


def _unhelped() -> Moment:
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
        "requirements": [requirement],
    }
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "cpu"},
        "spec": {"template": {"spec": spec}},
    }
    return _as_dump([node("n", 1), pool, pod("p", 4)])


def _as_dump(objects: list[Obj]) -> Moment:
    import tempfile

    for i, obj in enumerate(objects):
        obj["metadata"] = {**obj["metadata"], "uid": f"u{i}", "creationTimestamp": "2026-01-05T00:00:00Z"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "dump.json")
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return open_ground(path).at()


def _lost_queue() -> Moment:
    setup = [namespace("team"), namespace("other"), worlds.flavor("f"), worlds.cluster_queue("a", {"f": 8})]
    return moment_of([node("n"), *setup, worlds.local_queue("main", "a", "other")], [job("lost", 1)])


def _lost_quota() -> Moment:
    meta = {"name": "gpus", "namespace": "quiet"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": meta,
        "spec": {"hard": {"requests.nvidia.com/gpu": "8"}},
    }
    return moment_of([node("n"), namespace("quiet"), namespace("team"), quota], [pod("p", 1, "team")])


def _no_service() -> Moment:
    return moment_of(
        [node("n")], [pod(f"w-{i}", 1, subdomain="workers", hostname=f"w-{i}") for i in range(2)]
    )


def _no_dns() -> Moment:
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "closed", "namespace": "default"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [{"port": 443}]}]},
    }
    return moment_of([node("n"), policy], [pod("p", 1)])


def _blocked_system() -> Moment:
    hard = {"pods": "0"}
    meta = {"name": "none", "namespace": "kube-system"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}
    return moment_of(
        [node("n"), namespace("kube-system"), quota], [job("dns", 0, queue="", namespace="kube-system")]
    )


ILLNESSES: dict[str, tuple[Callable[[], Moment], str]] = {
    "pending": (_pending, "Insufficient nvidia.com/gpu"),
    "refused_pods": (_refused, "exceeded quota: small"),
    "not_created": (_not_created, 'configmap "gone" not found'),
    "crashes": (_crashing, "last exit code 1"),
    "host_memory": (lambda: _with_end(reason="OOMKilled", exitCode=137), "was OOMKilled"),
    "gpu_memory": (
        lambda: _with_end(reason="Error", exitCode=1, message="x\nRuntimeError: CUDA error: out of memory"),
        "CUDA",
    ),
    "few_cpus": (_few_cpus, "1 CPUs for 1 GPUs"),
    "hot_nodes": (_hot, "GpuThermalThrottling: 88 C"),
    "fragments": (_fragments, "6 of 6 free GPUs are lost"),
    "idle_holders": (_idle, "used 5 %"),
    "churn": (_churn, "pods were disrupted"),
    "unhelped": (_unhelped, "no instance type has enough resources"),
    "lost_queues": (_lost_queue, "LocalQueue main is not in team; it is in other"),
    "lost_quotas": (_lost_quota, "GPU pods without a quota are in team"),
    "headless": (_no_service, "no Service workers is in default"),
    "dns": (_no_dns, "port 53"),
    "blocked_system": (_blocked_system, "exceeded quota: none"),
}


def test_every_check_has_an_illness_and_a_symptom() -> None:
    assert set(ILLNESSES) == set(CHECKS) == {c.name for s in symptoms() for c in s.checks}


@pytest.mark.parametrize("name", ILLNESSES)
def test_it_is_found(name: str) -> None:
    make, said = ILLNESSES[name]
    found = checked(make())[name].finding
    assert found.state == ILL and found.count >= 1, found
    assert any(said in line for line in found.evidence), found.evidence


def test_a_cluster_that_is_well() -> None:
    moment = moment_of(
        [node("n")], [_annotated(pod("p", 4), run_time="10h", gpu_utilization="90%")], minutes=90
    )
    results = checked(moment)
    assert is_well(results.values())
    assert {n for n, r in results.items() if r.finding.state == UNKNOWN} == {"hot_nodes"}
    assert {r.finding.state for r in results.values()} == {WELL, UNKNOWN}


def test_one_odd_object_costs_one_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHECKS, "crashes", lambda patient: {}["x"])
    results = checked(_pending())
    assert results["crashes"].finding.state == UNKNOWN and results["pending"].finding.state == ILL


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    ground = ["--on", str(EXAMPLES / "07-training-gang"), "--at", "2h"]
    assert main(["doctor", *ground]) == 1
    text = capsys.readouterr().out
    assert "Work does not start (pending)" in text and "What could not be known" in text and "Well: " in text
    assert main(["doctor", "crash-loop", *ground, "-o", "json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["checks"]
    assert one["state"] == "well" and one["command"].startswith("kubectl logs")
    assert main(["doctor", "pendin", *ground]) == 2
    assert "did you mean pending" in capsys.readouterr().err
    assert main(["doctor", "--list"]) == 0
