"""Members of distributed jobs get on only while all of them run; else they hold their GPUs, and time out."""

from __future__ import annotations

from typing import Any

import pytest
from test_training_lifecycles import FOREVER, TEN_MINUTES, an, conditions, role, running, template, twin

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.scenario.entering import enter
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.twin import Twin

MINUTE_US = 60 * SECOND_US


def pytorch(workers: int, policy: str = "OnFailure", **spec: Any) -> Obj:
    replicas = {"Worker": {**role("pytorch", workers, **TEN_MINUTES), "restartPolicy": policy}}
    return an("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs=replicas, **spec)


def pods(made: Twin) -> list[Obj]:
    return made.store.objects("Pod")


def waited_gpu_hours(made: Twin) -> float:
    kubelet = made.component("kubelet")
    assert isinstance(kubelet, Kubelet)
    return kubelet.progress.totals.waited_gpu_us / 1000 / 60 / MINUTE_US


def add_node(made: Twin, name: str) -> None:
    status = {
        "capacity": {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    enter(made.host, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})
    made.wake()


def test_workers_do_nothing_while_one_is_pending_and_time_out() -> None:
    made = twin(nodes=2)
    enter(made.host, pytorch(3, policy="Never"))
    made.run_for(9 * MINUTE_US)
    assert running(made) == 2
    assert waited_gpu_hours(made) == 0, "it is counted when the wait is over"
    made.run_for(2 * MINUTE_US)
    # torchrun's rendezvous gives up after ten minutes, with the work not even begun.
    ends = [
        p["status"]["containerStatuses"][0]["state"].get("terminated")
        for p in pods(made)
        if p["status"].get("containerStatuses")
    ]
    assert [e["exitCode"] for e in ends if e] == [1, 1]
    assert "Failed" in conditions(made, pytorch(3))
    assert round(waited_gpu_hours(made), 2) == round(2 * 8 * 10 / 60, 2)


def test_they_begin_when_the_last_one_runs() -> None:
    made = twin(nodes=2)
    enter(made.host, pytorch(3))
    made.run_for(5 * MINUTE_US)
    add_node(made, "late")
    made.run_for(9 * MINUTE_US)
    assert running(made) == 3
    assert "Succeeded" not in conditions(made, pytorch(3))
    made.run_for(2 * MINUTE_US)
    assert "Succeeded" in conditions(made, pytorch(3))


def test_a_lost_member_stops_the_others() -> None:
    made = twin(nodes=3)
    enter(made.host, pytorch(3))
    made.run_for(5 * MINUTE_US)
    made.store.delete(Key("Pod", "default", "job-worker-1"), grace_s=0)
    made.store.patch(Key("Node", "", "n1"), {"spec": {"unschedulable": True}})
    made.store.patch(Key("Node", "", "n0"), {"spec": {"unschedulable": True}})
    made.store.patch(Key("Node", "", "n2"), {"spec": {"unschedulable": True}})
    made.wake()
    made.run_for(6 * MINUTE_US)
    assert running(made) == 2
    assert "Succeeded" not in conditions(made, pytorch(3)), "their ten minutes are over, but they did nothing"
    for name in ("n0", "n1", "n2"):
        made.store.patch(Key("Node", "", name), {"spec": {"unschedulable": None}})
    made.wake()
    # The others had five minutes left; the new one has all of its work before it.
    made.run_for(5 * MINUTE_US + 30 * SECOND_US)
    assert running(made) == 1
    made.run_for(6 * MINUTE_US)
    assert "Succeeded" in conditions(made, pytorch(3))


def test_an_elastic_job_does_with_its_fewest() -> None:
    made = twin(nodes=2)
    enter(made.host, pytorch(3, elasticPolicy={"minReplicas": 2, "maxReplicas": 3, "rdzvBackend": "c10d"}))
    made.run_for(11 * MINUTE_US)
    assert "Succeeded" in conditions(made, pytorch(3))


def test_mpirun_fails_while_its_workers_are_not_there() -> None:
    made = twin(nodes=2)
    job = an(
        "kubeflow.org/v2beta1",
        "MPIJob",
        mpiReplicaSpecs={"Launcher": role("mpi", 1, 0, **TEN_MINUTES), "Worker": role("mpi", 3, **FOREVER)},
    )
    enter(made.host, job)
    made.run_for(3 * MINUTE_US)
    launcher = next(p for p in pods(made) if "launcher" in p["metadata"]["name"])
    (status,) = launcher["status"]["containerStatuses"]
    assert status["restartCount"] >= 3
    last = status["lastState"].get("terminated") or status["state"]["terminated"]
    assert last["exitCode"] == 1
    made.run_for(12 * MINUTE_US)
    assert "Failed" in conditions(made, job), "the launcher's Job has a backoffLimit"


def test_parameter_servers_make_workers_independent() -> None:
    made = twin(nodes=1)
    roles = {"PS": role("tensorflow", 1, 0, **FOREVER), "Worker": role("tensorflow", 2, **TEN_MINUTES)}
    enter(made.host, an("kubeflow.org/v1", "TFJob", tfReplicaSpecs=roles))
    made.run_for(11 * MINUTE_US)
    assert any(p["status"].get("phase") == "Succeeded" for p in pods(made))


@pytest.mark.parametrize("told", [True, False])
def test_an_indexed_job_is_a_gang_where_it_is_told_a_world_size(told: bool) -> None:
    made = twin(nodes=1)
    made_of = template("c", **TEN_MINUTES)
    made_of["spec"]["restartPolicy"] = "Never"
    if told:
        made_of["spec"]["containers"][0]["env"] = [{"name": "WORLD_SIZE", "value": "2"}]
    spec = {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "template": made_of}
    enter(made.host, an("batch/v1", "Job", **spec))
    made.run_for(9 * MINUTE_US)
    made.run_for(90 * SECOND_US)
    phases = sorted(p["status"].get("phase", "Pending") for p in pods(made))
    assert ("Succeeded" in phases) == (not told)


def test_a_fork_keeps_who_waits_for_whom() -> None:
    made = twin(nodes=2)
    enter(made.host, pytorch(3))
    made.run_for(5 * MINUTE_US)
    fork = made.fork()
    add_node(fork, "late")
    fork.run_for(11 * MINUTE_US)
    assert "Succeeded" in conditions(fork, pytorch(3))
    made.run_for(3 * MINUTE_US)
    assert running(made) == 2
