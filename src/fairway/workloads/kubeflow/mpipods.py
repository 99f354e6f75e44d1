"""What an MPIJob (v2beta1) creates: workers, the launcher's Job, the host file, the service, the keys.

Source: kubeflow/mpi-operator v0.8 pkg/controller/mpi_job_controller.go newWorker, newLauncherPodTemplate,
newConfigMap, newJobService, newSSHAuthSecret, setupSSHOnPod.
"""

from __future__ import annotations

import base64
from typing import Any

from fairway.kube.objects import Obj
from fairway.workloads.kubeflow.framework import (
    JOB_NAME,
    JOB_ROLE,
    LAUNCHER,
    OPERATOR_NAME,
    REPLICA_INDEX,
    WORKER,
    Env,
    Spec,
    TrainingJob,
    variable,
)
from fairway.workloads.pods import MOST_OBJECT_BYTES
from fairway.workloads.podtemplate import owned_by, pod_from_template

OPERATOR = "mpi-operator"
CONFIG_PATH = "/etc/mpi"
HOSTFILE = "hostfile"
DISCOVER_HOSTS = "discover_hosts.sh"
_CONFIG_VOLUME = "mpi-job-config"
_SSH_VOLUME = "ssh-auth"
_PUBLIC_KEY = "ssh-publickey"
_PRIVATE_KEY = "ssh-privatekey"

_LAUNCHER_ENV: dict[str, Env] = {
    "OpenMPI": [
        variable("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        variable("OMPI_MCA_orte_default_hostfile", f"{CONFIG_PATH}/{HOSTFILE}"),
        variable("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
    ],
    "Intel": [
        variable("I_MPI_HYDRA_HOST_FILE", f"{CONFIG_PATH}/{HOSTFILE}"),
        variable("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "-o ConnectionAttempts=10"),
    ],
    "MPICH": [
        variable("HYDRA_HOST_FILE", f"{CONFIG_PATH}/{HOSTFILE}"),
        variable("HYDRA_LAUNCH_EXTRA_ARGS", "-o ConnectionAttempts=10"),
    ],
}
_SLOTS_ENV = {"OpenMPI": "OMPI_MCA_orte_set_default_slots", "Intel": "I_MPI_PERHOST"}


def slots_of(job: TrainingJob) -> int:
    given = job.spec.get("slotsPerWorker")
    return 1 if given is None else int(given)


def implementation_of(job: TrainingJob) -> str:
    return job.spec.get("mpiImplementation") or "OpenMPI"


def launcher_works(job: TrainingJob) -> bool:
    """Whether the launcher is a worker too."""
    return bool(job.spec.get("runLauncherAsWorker"))


def worker_count(job: TrainingJob) -> int:
    return job.replicas[WORKER].replicas if WORKER in job.replicas else 0


def launcher_name(job: TrainingJob) -> str:
    return f"{job.name}-launcher"


def role_labels(job: TrainingJob, role: str) -> dict[str, str]:
    return {OPERATOR_NAME: OPERATOR, JOB_NAME: job.name, JOB_ROLE: role}


def owners(job: TrainingJob) -> list[dict[str, Any]]:
    return owned_by(job.obj, job.obj["apiVersion"], job.kind)


def _meta(job: TrainingJob, name: str) -> dict[str, Any]:
    labels = {"app": job.name}
    return {"name": name, "namespace": job.namespace, "labels": labels, "ownerReferences": owners(job)}


def _host(job: TrainingJob, name: str) -> str:
    return f"{name}.{job.name}.{job.namespace}.svc"


def hosts(job: TrainingJob) -> list[str]:
    """Everyone who runs processes, in the order of ranks."""
    workers = [job.pod_name(WORKER, i) for i in range(worker_count(job))]
    return [launcher_name(job), *workers] if launcher_works(job) else workers


def has_too_many_hosts(job: TrainingJob) -> bool:
    """Whether the host file would be more than etcd takes."""
    return worker_count(job) * len(_host(job, job.pod_name(WORKER, 0))) > MOST_OBJECT_BYTES


def config_map(job: TrainingJob, running: list[str]) -> Obj:
    """The host file, and the script that prints those who run now (for elastic Horovod)."""
    slots = slots_of(job)
    form = "{} slots={}\n" if implementation_of(job) == "OpenMPI" else "{}:{}\n"
    found = [launcher_name(job), *sorted(running)] if launcher_works(job) else sorted(running)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(job, f"{job.name}-config"),
        "data": {
            HOSTFILE: "".join(form.format(_host(job, name), slots) for name in hosts(job)),
            DISCOVER_HOSTS: "#!/bin/sh\n" + "".join(f"echo {_host(job, name)}\n" for name in found),
        },
    }


def service(job: TrainingJob) -> Obj:
    """One headless service for launcher and workers."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(job, job.name),
        "spec": {
            "clusterIP": "None",
            "selector": {OPERATOR_NAME: OPERATOR, JOB_NAME: job.name},
            "publishNotReadyAddresses": launcher_works(job),
        },
    }


def ssh_secret(job: TrainingJob) -> Obj:
    """The keys with which the launcher reaches workers.

    Unlike kube: no key is drawn; the values say whose they would be. Nothing here logs in anywhere.
    """

    def of(what: str) -> str:
        return base64.b64encode(f"{what} of {job.namespace}/{job.name}".encode()).decode()

    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _meta(job, f"{job.name}-ssh"),
        "type": "kubernetes.io/ssh-auth",
        "data": {_PRIVATE_KEY: of("private key"), _PUBLIC_KEY: of("public key")},
    }


def worker_pod(job: TrainingJob, index: int) -> Obj:
    replica = job.replicas[WORKER]
    name = job.pod_name(WORKER, index)
    shown = index + 1 if launcher_works(job) else index
    labels = {**role_labels(job, "worker"), REPLICA_INDEX: str(shown)}
    spec = _in_network(job, replica.pod_spec, name)
    dns = spec.get("dnsConfig") or {}
    search = f"{job.name}.{job.namespace}.svc.cluster.local"
    container = spec["containers"][0]
    if not container.get("command") and not container.get("args"):
        container = {**container, "command": ["/usr/sbin/sshd", "-De"]}
    container = {**container, "env": [*(container.get("env") or ()), variable("K_MPI_JOB_ROLE", "worker")]}
    spec = {
        **spec,
        "dnsConfig": {**dns, "searches": [*(dns.get("searches") or ()), search]},
        "restartPolicy": replica.restart_policy,
        "containers": [container, *spec["containers"][1:]],
    }
    return pod_from_template(
        _templated(replica.template, labels, _with_ssh(job, spec)),
        namespace=job.namespace,
        owner_references=owners(job),
        name=name,
    )


def launcher_job(job: TrainingJob) -> Obj:
    """The launcher is a Job, so retries and deadlines are the Job's."""
    policy = job.run_policy
    spec: dict[str, Any] = {
        name: policy[name]
        for name in ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
        if policy.get(name) is not None
    }
    spec["template"] = launcher_template(job)
    spec["podReplacementPolicy"] = "Failed"
    if job.is_suspended:
        spec["suspend"] = True
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _meta(job, launcher_name(job)), "spec": spec}


def launcher_template(job: TrainingJob) -> Spec:
    replica = job.replicas[LAUNCHER]
    labels = role_labels(job, "launcher")
    if launcher_works(job):
        labels[REPLICA_INDEX] = "0"
    spec = _in_network(job, replica.pod_spec, launcher_name(job))
    container = spec["containers"][0]
    mount = {"name": _CONFIG_VOLUME, "mountPath": CONFIG_PATH}
    container = {**container, "env": [*(container.get("env") or ()), *_launcher_env(job)]}
    spec = {**spec, "containers": [container, *spec["containers"][1:]]}
    spec = _mounted(_with_ssh(job, spec), _config_volume(job), mount)
    return _templated(replica.template, labels, {**spec, "restartPolicy": replica.restart_policy})


def _launcher_env(job: TrainingJob) -> Env:
    implementation = implementation_of(job)
    env = [variable("K_MPI_JOB_ROLE", "launcher"), *_LAUNCHER_ENV[implementation]]
    if implementation in _SLOTS_ENV:
        env.append(variable(_SLOTS_ENV[implementation], slots_of(job)))
    if not launcher_works(job):
        # A launcher without work of its own must not see the GPUs of its node.
        env += [{"name": "NVIDIA_VISIBLE_DEVICES"}, {"name": "NVIDIA_DRIVER_CAPABILITIES"}]
    return env


def _templated(template: Spec, labels: dict[str, str], spec: Spec) -> Spec:
    given = template.get("metadata") or {}
    meta: dict[str, Any] = {"labels": {**(given.get("labels") or {}), **labels}}
    if given.get("annotations"):
        meta["annotations"] = given["annotations"]
    return {"metadata": meta, "spec": spec}


def _in_network(job: TrainingJob, spec: Spec, hostname: str) -> Spec:
    named = {**spec, "hostname": hostname, "subdomain": job.name}
    return {**named, "dnsPolicy": "ClusterFirstWithHostNet"} if spec.get("hostNetwork") else named


def _with_ssh(job: TrainingJob, spec: Spec) -> Spec:
    path = job.spec.get("sshAuthMountPath") or "/root/.ssh"
    items = [
        {"key": _PRIVATE_KEY, "path": "id_rsa"},
        {"key": _PUBLIC_KEY, "path": "id_rsa.pub"},
        {"key": _PUBLIC_KEY, "path": "authorized_keys"},
    ]
    secret: dict[str, Any] = {"secretName": f"{job.name}-ssh", "items": items}
    if path == "/root/.ssh":
        secret["defaultMode"] = 0o600
    return _mounted(spec, {"name": _SSH_VOLUME, "secret": secret}, {"name": _SSH_VOLUME, "mountPath": path})


def _config_volume(job: TrainingJob) -> dict[str, Any]:
    items = [
        {"key": HOSTFILE, "path": HOSTFILE, "mode": 0o444},
        {"key": DISCOVER_HOSTS, "path": DISCOVER_HOSTS, "mode": 0o555},
    ]
    return {"name": _CONFIG_VOLUME, "configMap": {"name": f"{job.name}-config", "items": items}}


def _mounted(spec: Spec, volume: dict[str, Any], mount: dict[str, str]) -> Spec:
    """The pod spec with a volume, mounted by its first container."""
    first = spec["containers"][0]
    first = {**first, "volumeMounts": [*(first.get("volumeMounts") or ()), mount]}
    return {
        **spec,
        "volumes": [*(spec.get("volumes") or ()), volume],
        "containers": [first, *spec["containers"][1:]],
    }
