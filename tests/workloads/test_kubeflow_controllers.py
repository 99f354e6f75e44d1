"""Kubeflow's training jobs: names, labels and variables of pods, restarts, success, cleaning up, suspension."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tinyworld import World, names, pod_key

from fairway.kube.objects import Key, Obj

FIELDS = {
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch", "kubeflow.org/v1"),
    "TFJob": ("tfReplicaSpecs", "tensorflow", "kubeflow.org/v1"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost", "kubeflow.org/v1"),
    "MPIJob": ("mpiReplicaSpecs", "mpi", "kubeflow.org/v2beta1"),
}


def role(count: int | None = None, policy: str = "", image: str = "app:1", **pod: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"template": {"spec": {"containers": [{"name": "?", "image": image}], **pod}}}
    if count is not None:
        made["replicas"] = count
    if policy:
        made["restartPolicy"] = policy
    return made


def job(kind: str, roles: dict[str, dict[str, Any]], run: dict[str, Any] | None = None, **spec: Any) -> Obj:
    field, container, api_version = FIELDS[kind]
    for one in roles.values():
        one["template"]["spec"]["containers"][0]["name"] = container
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {field: roles, "runPolicy": run or {}, **spec},
    }


def key_of(kind: str) -> Key:
    return Key(f"{kind}.kubeflow.org", "default", "train")


def pod(world: World, name: str) -> Obj:
    return world.get(Key("Pod", "default", name))


def env(world: World, name: str) -> dict[str, str]:
    return {v["name"]: v.get("value", "") for v in pod(world, name)["spec"]["containers"][0]["env"]}


def finish(world: World, name: str, exit_code: int = 0) -> None:
    world.finish(pod(world, name), exit_code)


def true_conditions(world: World, kind: str) -> list[str]:
    return [c["type"] for c in world.status(key_of(kind))["conditions"] if c["status"] == "True"]


# Pods


def test_pytorch_pods_services_and_labels() -> None:
    world = World()
    world.apply(job("PyTorchJob", {"Master": role(1), "Worker": role(2)}))
    assert names(world.pods()) == ["train-master-0", "train-worker-0", "train-worker-1"]
    assert pod(world, "train-master-0")["metadata"]["labels"] == {
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/job-name": "train",
        "training.kubeflow.org/replica-type": "master",
        "training.kubeflow.org/replica-index": "0",
        "training.kubeflow.org/job-role": "master",
    }
    service = world.get(Key("Service", "default", "train-worker-1"))
    assert service["spec"] == {
        "clusterIP": "None",
        "selector": {
            "training.kubeflow.org/operator-name": "pytorchjob-controller",
            "training.kubeflow.org/job-name": "train",
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": "1",
        },
        "ports": [{"name": "pytorchjob-port", "port": 23456}],
    }
    assert pod(world, "train-worker-0")["spec"]["restartPolicy"] == "OnFailure"


def test_pytorch_variables_with_a_master() -> None:
    world = World()
    world.apply(job("PyTorchJob", {"Master": role(1), "Worker": role(3)}, nprocPerNode="8"))
    assert env(world, "train-worker-1") == {
        "PYTHONUNBUFFERED": "1",
        "MASTER_PORT": "23456",
        "PET_MASTER_PORT": "23456",
        "MASTER_ADDR": "train-master-0",
        "PET_MASTER_ADDR": "train-master-0",
        "WORLD_SIZE": "32",
        "RANK": "2",
        "PET_NODE_RANK": "2",
        "PET_NPROC_PER_NODE": "8",
        "PET_NNODES": "4",
    }
    assert env(world, "train-master-0")["RANK"] == "0"
    (waiter,) = pod(world, "train-worker-0")["spec"]["initContainers"]
    assert waiter["name"] == "init-pytorch" and "nslookup train-master-0" in waiter["command"][2]
    assert "initContainers" not in pod(world, "train-master-0")["spec"]


ELASTIC = {
    "bounds": (
        {"minReplicas": 1, "maxReplicas": 4, "maxRestarts": 10},
        {"PET_NNODES": "1:4", "PET_MAX_RESTARTS": "10"},
    ),
    "defaults to the workers": ({}, {"PET_NNODES": "2:2"}),
    "only a maximum": ({"maxReplicas": 3}, {"PET_NNODES": "3:3"}),
    "rendezvous elsewhere": (
        {"rdzvBackend": "etcd", "rdzvHost": "etcd", "rdzvPort": 2379, "rdzvId": "j1"},
        {"PET_RDZV_BACKEND": "etcd", "PET_RDZV_ENDPOINT": "etcd:2379", "PET_RDZV_ID": "j1"},
    ),
    "configuration and standalone": (
        {"rdzvConf": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}], "standalone": True},
        {"PET_RDZV_CONF": "a=1,b=2", "PET_STANDALONE": ""},
    ),
}


@pytest.mark.parametrize(("policy", "want"), ELASTIC.values(), ids=ELASTIC.keys())
def test_pytorch_variables_of_an_elastic_job(policy: dict[str, Any], want: dict[str, str]) -> None:
    world = World()
    world.apply(job("PyTorchJob", {"Worker": role(2)}, elasticPolicy=policy))
    found = env(world, "train-worker-1")
    defaults = {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "train-worker-0:23456"}
    assert {k: v for k, v in found.items() if k in want or k in defaults} == {**defaults, **want}
    assert "MASTER_ADDR" not in found and "RANK" not in found


def test_tf_config() -> None:
    world = World()
    world.apply(job("TFJob", {"PS": role(1), "Worker": role(2)}))
    assert json.loads(env(world, "train-worker-1")["TF_CONFIG"]) == {
        "cluster": {
            "ps": ["train-ps-0.default.svc:2222"],
            "worker": ["train-worker-0.default.svc:2222", "train-worker-1.default.svc:2222"],
        },
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }


def test_tf_config_of_dynamic_workers_names_only_itself() -> None:
    world = World()
    world.apply(job("TFJob", {"PS": role(1), "Worker": role(2)}, enableDynamicWorker=True))
    assert json.loads(env(world, "train-worker-1")["TF_CONFIG"])["cluster"] == {
        "ps": ["train-ps-0.default.svc:2222"],
        "worker": {"1": "train-worker-1.default.svc:2222"},
    }


def test_a_tf_job_of_one_pod_has_no_tf_config() -> None:
    world = World()
    world.apply(job("TFJob", {"Worker": role(1)}))
    assert "env" not in pod(world, "train-worker-0")["spec"]["containers"][0]


def test_xgboost_variables() -> None:
    world = World()
    world.apply(job("XGBoostJob", {"Master": role(1), "Worker": role(2)}))
    assert env(world, "train-worker-1") == {
        "MASTER_PORT": "9999",
        "MASTER_ADDR": "train-master-0",
        "WORLD_SIZE": "3",
        "RANK": "2",
        "PYTHONUNBUFFERED": "1",
        "WORKER_PORT": "9999",
        "WORKER_ADDRS": "train-worker-0,train-worker-1",
    }


def test_mpi_launcher_workers_and_host_file() -> None:
    world = World()
    world.apply(job("MPIJob", {"Launcher": role(1), "Worker": role(2)}, slotsPerWorker=8))
    (launcher,) = world.pods(**{"training.kubeflow.org/job-role": "launcher"})
    assert launcher["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "train-launcher"
    variables = {v["name"]: v.get("value", "") for v in launcher["spec"]["containers"][0]["env"]}
    assert variables == {
        "K_MPI_JOB_ROLE": "launcher",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "OMPI_MCA_orte_set_default_slots": "8",
        "NVIDIA_VISIBLE_DEVICES": "",
        "NVIDIA_DRIVER_CAPABILITIES": "",
    }
    data = world.get(Key("ConfigMap", "default", "train-config"))["data"]
    assert (
        data["hostfile"]
        == "train-worker-0.train.default.svc slots=8\ntrain-worker-1.train.default.svc slots=8\n"
    )
    assert data["discover_hosts.sh"].splitlines() == [
        "#!/bin/sh",
        "echo train-worker-0.train.default.svc",
        "echo train-worker-1.train.default.svc",
    ]
    worker = pod(world, "train-worker-1")
    assert worker["spec"]["containers"][0]["command"] == ["/usr/sbin/sshd", "-De"]
    assert (worker["spec"]["hostname"], worker["spec"]["subdomain"]) == ("train-worker-1", "train")
    assert worker["metadata"]["labels"]["training.kubeflow.org/replica-index"] == "1"
    assert world.get(Key("Secret", "default", "train-ssh"))["type"] == "kubernetes.io/ssh-auth"


MPI_IMPLEMENTATIONS = {
    "Intel": ({"I_MPI_HYDRA_HOST_FILE", "I_MPI_PERHOST"}, "train-worker-0.train.default.svc:1\n"),
    "MPICH": ({"HYDRA_HOST_FILE", "HYDRA_LAUNCH_EXTRA_ARGS"}, "train-worker-0.train.default.svc:1\n"),
}


@pytest.mark.parametrize("implementation", MPI_IMPLEMENTATIONS)
def test_other_mpi_implementations(implementation: str) -> None:
    want_env, want_hosts = MPI_IMPLEMENTATIONS[implementation]
    world = World()
    world.apply(job("MPIJob", {"Launcher": role(1), "Worker": role(1)}, mpiImplementation=implementation))
    (launcher,) = world.pods(**{"training.kubeflow.org/job-role": "launcher"})
    assert want_env <= {v["name"] for v in launcher["spec"]["containers"][0]["env"]}
    assert world.get(Key("ConfigMap", "default", "train-config"))["data"]["hostfile"] == want_hosts


def test_a_launcher_that_works_is_first_among_the_hosts() -> None:
    world = World()
    roles = {"Launcher": role(1), "Worker": role(1)}
    world.apply(job("MPIJob", roles, runLauncherAsWorker=True))
    hosts = world.get(Key("ConfigMap", "default", "train-config"))["data"]["hostfile"].splitlines()
    assert [h.partition(".")[0] for h in hosts] == ["train-launcher", "train-worker-0"]
    assert pod(world, "train-worker-0")["metadata"]["labels"]["training.kubeflow.org/replica-index"] == "1"
    assert world.get(Key("Service", "default", "train"))["spec"]["publishNotReadyAddresses"] is True


# Success


SUCCESS: dict[str, tuple[str, dict[str, int], dict[str, Any], list[str], str]] = {
    "PyTorch: the master's is the job's": (
        "PyTorchJob",
        {"Master": 1, "Worker": 2},
        {},
        ["train-worker-0", "train-master-0"],
        "PyTorchJob train is successfully completed.",
    ),
    "PyTorch without a master: all workers": (
        "PyTorchJob",
        {"Worker": 2},
        {},
        ["train-worker-0", "train-worker-1"],
        "PyTorchJob default/train successfully completed.",
    ),
    "PyTorch, elastic: any worker": (
        "PyTorchJob",
        {"Worker": 2},
        {"elasticPolicy": {}},
        ["train-worker-1"],
        "PyTorchJob default/train successfully completed.",
    ),
    "TF: the chief": (
        "TFJob",
        {"Chief": 1, "Worker": 2},
        {},
        ["train-worker-0", "train-worker-1", "train-chief-0"],
        "TFJob default/train successfully completed.",
    ),
    "TF without a chief: worker 0": (
        "TFJob",
        {"PS": 1, "Worker": 2},
        {},
        ["train-worker-1", "train-worker-0"],
        "TFJob default/train successfully completed.",
    ),
    "TF, all workers": (
        "TFJob",
        {"Worker": 2},
        {"successPolicy": "AllWorkers"},
        ["train-worker-0", "train-worker-1"],
        "TFJob default/train successfully completed.",
    ),
    "XGBoost: the master": (
        "XGBoostJob",
        {"Master": 1, "Worker": 1},
        {},
        ["train-master-0"],
        "XGBoostJob train is successfully completed.",
    ),
}


@pytest.mark.parametrize("case", SUCCESS)
def test_when_a_job_has_succeeded(case: str) -> None:
    kind, roles, spec, finished, message = SUCCESS[case]
    world = World()
    world.apply(job(kind, {r: role(n) for r, n in roles.items()}, **spec))
    assert true_conditions(world, kind) == ["Created", "Running"]
    for name in finished[:-1]:
        finish(world, name)
    assert "Succeeded" not in true_conditions(world, kind)
    finish(world, finished[-1])
    assert true_conditions(world, kind) == ["Created", "Succeeded"]
    done = world.condition(key_of(kind), "Succeeded")
    assert done is not None
    assert (done["reason"], done["message"]) == (f"{kind}Succeeded", message)
    assert world.told(f"{kind}Succeeded") == [message]
    assert world.status(key_of(kind))["completionTime"]


@pytest.mark.parametrize("case", SUCCESS)
def test_a_job_does_not_run_before_a_pod_does(case: str) -> None:
    kind, roles, spec, _, _ = SUCCESS[case]
    world = World(kubelet=False)
    world.apply(job(kind, {r: role(n) for r, n in roles.items()}, **spec))
    assert {pod["status"]["phase"] for pod in world.pods()} == {"Pending"}
    assert true_conditions(world, kind) == ["Created"]


def test_an_mpi_job_succeeds_with_its_launcher() -> None:
    world = World()
    world.apply(job("MPIJob", {"Launcher": role(1), "Worker": role(2)}, {"cleanPodPolicy": "Running"}))
    assert world.status(key_of("MPIJob"))["replicaStatuses"] == {
        "Launcher": {"active": 1},
        "Worker": {"active": 2},
    }
    (launcher,) = world.pods(**{"training.kubeflow.org/job-role": "launcher"})
    world.finish(launcher)
    done = world.condition(key_of("MPIJob"), "Succeeded")
    assert done is not None and done["message"] == "MPIJob default/train successfully completed."
    assert names(world.pods()) == [launcher["metadata"]["name"]], "workers that still run are deleted"


def test_an_mpi_job_fails_with_its_launchers_reason() -> None:
    world = World()
    run = {"backoffLimit": 0}
    world.apply(job("MPIJob", {"Launcher": role(1, "Never"), "Worker": role(1)}, run))
    (launcher,) = world.pods(**{"training.kubeflow.org/job-role": "launcher"})
    world.finish(launcher, 1)
    failed = world.condition(key_of("MPIJob"), "Failed")
    assert failed is not None
    assert failed["reason"].startswith("BackoffLimitExceeded")
    assert failed["message"].startswith("Job has reached the specified backoff limit")


@pytest.mark.parametrize("reason", ["BackoffLimitExceeded", "DeadlineExceeded"])
def test_of_used_up_retries_the_last_pods_end_is_told(reason: str) -> None:
    world = World(kubelet=False)
    world.apply(job("MPIJob", {"Launcher": role(1), "Worker": role(1)}))
    launcher = world.store.require(Key("Job.batch", "default", "train-launcher"))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-launcher", "controller": True}
    owner["uid"] = launcher["metadata"]["uid"]
    for name, said in (("p-old", "Evicted"), ("p-new", "OOMKilled"), ("a-lives", "Fine")):
        world.store.now_us += 60_000_000
        meta = {"name": name, "namespace": "default", "ownerReferences": [owner]}
        spec = {"containers": [{"name": "c"}]}
        world.store.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        phase = "Running" if name == "a-lives" else "Failed"
        status = {"phase": phase, "reason": said, "message": f"{name} it was"}
        world.store.set_status(Key("Pod", "default", name), status)
    ended = {"type": "Failed", "status": "True", "reason": reason, "message": "no more"}
    world.store.set_status(
        Key("Job.batch", "default", "train-launcher"), {"conditions": [ended], "failed": 2}
    )
    world.settle()
    failed = world.condition(key_of("MPIJob"), "Failed")
    used_up = reason == "BackoffLimitExceeded"
    assert failed["reason"] == (f"{reason}/OOMKilled" if used_up else reason)
    assert failed["message"] == ("no more: p-new it was" if used_up else "no more")


def test_a_launcher_may_wait_for_its_workers() -> None:
    world = World()
    world.hold = ("slow:1",)
    roles = {"Launcher": role(1), "Worker": role(2, image="slow:1")}
    world.apply(job("MPIJob", roles, launcherCreationPolicy="WaitForWorkersReady"))
    assert names(world.pods()) == ["train-worker-0", "train-worker-1"]
    for worker in world.pods():
        world.make_ready(worker)
    assert len(world.pods()) == 3


# Failure


def test_a_worker_that_may_not_restart_fails_the_job() -> None:
    world = World()
    world.apply(job("PyTorchJob", {"Master": role(1), "Worker": role(2, "Never")}))
    finish(world, "train-worker-1", 1)
    failed = world.condition(key_of("PyTorchJob"), "Failed")
    assert failed is not None
    assert failed["message"] == "PyTorchJob train is failed because 1 Worker replica(s) failed."
    assert world.told("ExitedWithCode")[0] == "Pod: default.train-worker-1 exited with code 1"


EXIT_CODES = {"a signal restarts": (137, True), "an error does not": (1, False)}


@pytest.mark.parametrize(("code", "restarts"), EXIT_CODES.values(), ids=EXIT_CODES.keys())
def test_restart_by_exit_code(code: int, restarts: bool) -> None:
    world = World()
    world.apply(job("TFJob", {"Worker": role(2, "ExitCode")}))
    before = pod(world, "train-worker-1")["metadata"]["uid"]
    assert pod(world, "train-worker-1")["spec"]["restartPolicy"] == "Never"
    finish(world, "train-worker-1", code)
    failed = world.condition(key_of("TFJob"), "Failed")
    if restarts:
        assert failed is None
        assert pod(world, "train-worker-1")["metadata"]["uid"] != before
        assert world.told("TFJobRestarting") == ["job train is restarting because Worker replica(s) failed."]
        assert true_conditions(world, "TFJob")[-1] == "Running"
    else:
        assert failed is not None
        assert failed["message"] == 'job "train" is failing because "Worker" replica(s) failed.'


def test_too_many_restarts_of_containers_are_the_end() -> None:
    world = World()
    world.apply(job("PyTorchJob", {"Worker": role(2)}, {"backoffLimit": 3}))
    statuses = [{"name": "pytorch", "restartCount": 3, "state": {"running": {}}}]
    world.set_pod(pod(world, "train-worker-0"), containerStatuses=statuses)
    failed = world.condition(key_of("PyTorchJob"), "Failed")
    assert failed is not None
    assert failed["message"] == "Job train has failed because it has reached the specified backoff limit"
    assert world.pods() == []


ENDED = "Job train has failed because it has reached the specified backoff limit"


def message_of_its_end(world: World) -> str:
    failed = world.condition(key_of("PyTorchJob"), "Failed")
    return "" if failed is None else str(failed["message"])


@pytest.mark.parametrize(
    ("limit", "master", "restarts", "is_over"),
    [
        # Of each pod: its phase, restarts of its init containers, of its others.
        (0, "OnFailure", {"worker-0": ("Running", 0, 0)}, False),
        (0, "OnFailure", {"worker-0": ("Running", 0, 1)}, True),
        (1, "OnFailure", {"worker-0": ("Running", 0, 1)}, True),
        (2, "OnFailure", {"worker-0": ("Running", 0, 1)}, False),
        (2, "OnFailure", {"worker-0": ("Running", 1, 1)}, True),
        (2, "OnFailure", {"worker-0": ("Running", 1, 0), "worker-1": ("Running", 0, 1)}, True),
        (3, "OnFailure", {"worker-0": ("Running", 1, 0), "worker-1": ("Running", 0, 1)}, False),
        (1, "OnFailure", {"worker-0": ("Unknown", 5, 5)}, False),
        (2, "Always", {"master-0": ("Running", 0, 1), "worker-1": ("Running", 0, 1)}, True),
        (2, "Never", {"master-0": ("Running", 5, 0), "worker-1": ("Running", 0, 1)}, False),
        (2, "Never", {"master-0": ("Running", 5, 0), "worker-1": ("Running", 0, 2)}, True),
        (2, "ExitCode", {"master-0": ("Running", 5, 0), "worker-1": ("Running", 0, 1)}, False),
        (2, "ExitCode", {"master-0": ("Running", 5, 0), "worker-1": ("Running", 0, 2)}, True),
    ],
)
def test_restarts_that_are_too_many(
    limit: int, master: str, restarts: dict[str, tuple[str, int, int]], is_over: bool
) -> None:
    world = World()
    roles = {"Master": role(1, master), "Worker": role(2)}
    world.apply(job("PyTorchJob", roles, {"backoffLimit": limit}))
    for name, (phase, of_init, of_others) in restarts.items():
        key = Key("Pod", "default", f"train-{name}")
        counts: Obj = {
            "phase": phase,
            "initContainerStatuses": [{"name": "i", "restartCount": of_init}],
            "containerStatuses": [{"name": "c"}, {"name": "d", "restartCount": of_others}],
        }
        world.store.set_status(key, {**world.get(key)["status"], **counts})
    world.settle()
    assert message_of_its_end(world) == (ENDED if is_over else "")


def test_a_pod_of_no_role_counts_for_nothing() -> None:
    world = World()
    world.apply(job("PyTorchJob", {"Worker": role(1)}, {"backoffLimit": 1}))
    meta = pod(world, "train-worker-0")["metadata"]
    stray = {"name": "stray", "namespace": "default", "ownerReferences": meta["ownerReferences"]}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    world.apply({"apiVersion": "v1", "kind": "Pod", "metadata": stray, "spec": spec})
    world.set_pod(pod(world, "stray"), containerStatuses=[{"name": "c", "restartCount": 5}])
    assert message_of_its_end(world) == ""


@pytest.mark.parametrize(
    ("limit", "is_told", "others_run", "is_over"),
    [(0, False, False, True), (1, False, False, False), (0, True, False, False), (0, False, True, False)],
)
def test_a_failed_pod_without_a_retry_is_the_end_where_it_is_new(
    limit: int, is_told: bool, others_run: bool, is_over: bool
) -> None:
    """`is_told`: the status says so already. `others_run`: as many as there should be."""
    world = World()
    key = world.apply(job("PyTorchJob", {"Worker": role(2)}, {"backoffLimit": limit}))
    if others_run:
        meta = pod(world, "train-worker-1")["metadata"]
        extra = {**meta, "name": "train-worker-2"}
        del extra["uid"], extra["resourceVersion"]
        spec = {"containers": [{"name": "c", "image": "i"}]}
        world.store.create({"apiVersion": "v1", "kind": "Pod", "metadata": extra, "spec": spec})
        failed = Key("Pod", "default", "train-worker-2")
    else:
        failed = Key("Pod", "default", "train-worker-0")
    world.store.set_status(failed, {**world.get(failed)["status"], "phase": "Failed"})
    if is_told:
        told = {**world.status(key), "replicaStatuses": {"Worker": {"active": 1, "failed": 1}}}
        world.store.set_status(key, told)
    world.settle()
    assert (message_of_its_end(world) == ENDED) is is_over


def test_a_pod_that_succeeded_is_no_failure() -> None:
    world = World()
    world.apply(job("PyTorchJob", {"Master": role(1), "Worker": role(2)}, {"backoffLimit": 0}))
    finish(world, "train-worker-0")
    assert message_of_its_end(world) == ""


def test_a_job_may_not_run_past_its_deadline() -> None:
    world = World()
    world.apply(job("PyTorchJob", {"Worker": role(2)}, {"activeDeadlineSeconds": 60}))
    world.advance(59)
    assert len(world.pods()) == 2
    world.advance(2)
    failed = world.condition(key_of("PyTorchJob"), "Failed")
    assert failed is not None
    assert failed["message"] == "Job train has failed because it was active longer than specified deadline"
    assert world.pods() == [] and world.store.objects("Service") == []


# Afterwards

CLEAN = {"All": [], "Running": ["train-worker-0"], "None": ["train-ps-0", "train-worker-0", "train-worker-1"]}


@pytest.mark.parametrize("policy", CLEAN)
def test_clean_pod_policy(policy: str) -> None:
    world = World()
    world.apply(job("TFJob", {"PS": role(1), "Worker": role(2)}, {"cleanPodPolicy": policy}))
    finish(world, "train-worker-0")
    assert names(world.pods()) == CLEAN[policy]


def test_it_goes_when_its_time_to_live_is_over() -> None:
    world = World()
    world.apply(job("PyTorchJob", {"Worker": role(1)}, {"ttlSecondsAfterFinished": 30}))
    finish(world, "train-worker-0")
    world.advance(29)
    assert world.store.get(key_of("PyTorchJob")) is not None
    world.advance(2)
    assert world.store.get(key_of("PyTorchJob")) is None
    assert world.pods() == [] and world.store.objects("Service") == []


@pytest.mark.parametrize("kind", ["PyTorchJob", "TFJob", "XGBoostJob", "MPIJob"])
def test_suspending_takes_the_pods_and_resuming_brings_them_back(kind: str) -> None:
    world = World()
    first = "Launcher" if kind == "MPIJob" else "Worker" if kind == "TFJob" else "Master"
    roles = {first: role(1)} if kind == "TFJob" else {first: role(1), "Worker": role(2)}
    world.apply(job(kind, roles, {"suspend": True}))
    assert world.pods() == []
    suspended = world.condition(key_of(kind), "Suspended")
    assert suspended is not None and suspended["reason"] == f"{kind}Suspended"
    world.patch(key_of(kind), {"spec": {"runPolicy": {"suspend": False}}})
    wanted = 1 if kind == "TFJob" else 3
    assert len(world.pods()) == wanted
    assert true_conditions(world, kind) == ["Created", "Running"]
    world.patch(key_of(kind), {"spec": {"runPolicy": {"suspend": True}}})
    assert world.pods() == []
    assert true_conditions(world, kind) == ["Created", "Suspended"]
    counts = world.status(key_of(kind))["replicaStatuses"]
    assert all("active" not in c for c in counts.values())


def test_an_unschedulable_pod_is_complained_about() -> None:
    world = World(kubelet=False)
    world.apply(job("PyTorchJob", {"Worker": role(1)}))
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    }
    world.set_pod(pod(world, "train-worker-0"), conditions=[condition])
    world.patch(key_of("PyTorchJob"), {"metadata": {"labels": {"touched": "1"}}})
    assert world.told("Unschedulable")[0] == (
        "Error pod train-worker-0 condition message: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    )


def test_a_restart_policy_in_the_template_is_overwritten_with_a_warning() -> None:
    world = World()
    world.apply(job("PyTorchJob", {"Worker": role(1, "Never", restartPolicy="Always")}))
    assert pod(world, "train-worker-0")["spec"]["restartPolicy"] == "Never"
    assert len(world.told("SetPodTemplateRestartPolicy")) == 1


def test_fewer_workers_lose_the_highest_with_their_services() -> None:
    world = World()
    world.apply(job("PyTorchJob", {"Worker": role(3)}, elasticPolicy={"minReplicas": 1, "maxReplicas": 3}))
    specs = {"Worker": {"replicas": 1}}
    world.patch(key_of("PyTorchJob"), {"spec": {"pytorchReplicaSpecs": specs}})
    assert names(world.pods()) == ["train-worker-0"]
    assert [s["metadata"]["name"] for s in world.store.objects("Service")] == ["train-worker-0"]


def test_a_lost_worker_comes_back_under_its_name() -> None:
    world = World()
    world.apply(job("PyTorchJob", {"Worker": role(2)}))
    world.delete(pod_key(pod(world, "train-worker-1")))
    assert names(world.pods()) == ["train-worker-0", "train-worker-1"]
