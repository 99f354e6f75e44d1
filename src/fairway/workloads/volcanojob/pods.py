"""A job's pods: names, annotations and labels, and what the plugins env, svc and ssh add.

Unlike kube: no SSH keys are generated (the Secret has its entries, those of the keys empty); the plugins of
frameworks (pytorch, tensorflow, mpi, ray, hcclrank) and volumes of the job add nothing.

Source: volcano-sh/volcano pkg/controllers/job/job_controller_util.go createJobPod; plugins/{env,svc,ssh}.
"""

from __future__ import annotations

import base64
from typing import Any

from fairway.kube.objects import Obj
from fairway.workloads.pods import MOST_OBJECT_BYTES
from fairway.workloads.podtemplate import owned_by, pod_from_template
from fairway.workloads.volcanojob.policies import JOB_VERSION, TASK_SPEC
from fairway.workloads.volcanojob.spec import API_VERSION, KIND, Spec, TaskSpec, VolcanoJob

GROUP_NAME = "scheduling.k8s.io/group-name"
JOB_NAME, JOB_NAMESPACE, QUEUE_NAME = (
    "volcano.sh/job-name",
    "volcano.sh/job-namespace",
    "volcano.sh/queue-name",
)
TASK_INDEX, RETRY_COUNT, TEMPLATE = (
    "volcano.sh/task-index",
    "volcano.sh/job-retry-count",
    "volcano.sh/template-uid",
)
_INHERITED = ("volcano.sh/preemptable", "volcano.sh/cooldown-time", "volcano.sh/revocable-zone")
_HOSTS_PATH, _SSH_PATH, _SSH_RELATIVE = "/etc/volcano", "/root/.ssh", ".ssh"
_SSH_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
_SSH_MODE = 0o600


def job_pod(job: VolcanoJob, task: TaskSpec, index: int) -> Obj:
    """The pod of this task and index."""
    given = task.template.get("metadata") or {}
    inherited = job.obj["metadata"]
    annotations = {
        **(given.get("annotations") or {}),
        TASK_INDEX: str(index),
        TASK_SPEC: task.name,
        GROUP_NAME: job.group_name,
        JOB_NAME: job.name,
        QUEUE_NAME: job.queue,
        JOB_VERSION: str(job.status.get("version") or 0),
        TEMPLATE: f"{job.name}-{task.name}",
        RETRY_COUNT: str(job.status.get("retryCount") or 0),
        **_picked(inherited.get("annotations")),
    }
    labels = {
        **(given.get("labels") or {}),
        TASK_INDEX: str(index),
        JOB_NAME: job.name,
        TASK_SPEC: task.name,
        JOB_NAMESPACE: job.namespace,
        QUEUE_NAME: job.queue,
        **_picked(inherited.get("labels")),
    }
    spec = dict(task.pod_spec)
    spec.setdefault("schedulerName", job.scheduler_name)
    if job.priority_class:
        spec.setdefault("priorityClassName", job.priority_class)
    name = job.pod_name(task, index)
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": _plugged(job, spec, name, index),
    }
    owners = owned_by(job.obj, API_VERSION, KIND)
    return pod_from_template(template, namespace=job.namespace, owner_references=owners, name=name)


def _picked(given: dict[str, str] | None) -> dict[str, str]:
    return {name: given[name] for name in _INHERITED if given and name in given}


def _plugged(job: VolcanoJob, spec: Spec, name: str, index: int) -> Spec:
    if "env" in job.plugins:
        spec = _with(spec, env=[{"name": n, "value": str(index)} for n in ("VK_TASK_INDEX", "VC_TASK_INDEX")])
    if "ssh" in job.plugins:
        secret = f"{job.name}-ssh"
        items = [{"key": f, "path": f"{_SSH_RELATIVE}/{f}"} for f in _SSH_FILES]
        volume = {"name": secret, "secret": {"secretName": secret, "items": items, "defaultMode": _SSH_MODE}}
        spec = _with(
            spec, mount={"mountPath": _SSH_PATH, "subPath": _SSH_RELATIVE, "name": secret}, volume=volume
        )
    if "svc" in job.plugins:
        spec = {
            **spec,
            "hostname": spec.get("hostname") or name,
            "subdomain": spec.get("subdomain") or job.name,
        }
        hosts = f"{job.name}-svc"
        spec = _with(
            spec,
            env=_host_env(job, hosts) if _flag(job, "inject-hosts-env", default=True) else [],
            mount={"mountPath": _HOSTS_PATH, "name": hosts},
            volume={"name": hosts, "configMap": {"name": hosts}},
        )
    return spec


def _with(
    spec: Spec, *, env: list[Spec] | None = None, mount: Spec | None = None, volume: Spec | None = None
) -> Spec:
    """With these variables and this mount in every container and init container."""
    found = dict(spec)
    for field in ("containers", "initContainers"):
        if not spec.get(field):
            continue
        found[field] = [_container_with(c, env or [], mount) for c in spec[field]]
    if volume is not None:
        found["volumes"] = [*(spec.get("volumes") or ()), volume]
    return found


def _container_with(container: Spec, env: list[Spec], mount: Spec | None) -> Spec:
    found = dict(container)
    if env:
        found["env"] = [*(container.get("env") or ()), *env]
    if mount is not None:
        found["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    return found


def _host_env(job: VolcanoJob, config_map: str) -> list[Spec]:
    names = [f"VC_{_upper(t)}_{what}" for t in job.tasks for what in ("HOSTS", "NUM")]
    return [
        {"name": name, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": name}}} for name in names
    ]


def _upper(task: TaskSpec) -> str:
    return task.name.replace("-", "_").upper()


def _flag(job: VolcanoJob, name: str, *, default: bool = False) -> bool:
    """A flag of the svc plugin: `--publish-not-ready-addresses=true`."""
    for argument in job.plugins.get("svc", ()):
        flag, _, value = argument.lstrip("-").partition("=")
        if flag == name:
            return value.lower() in ("", "1", "t", "true")
    return default


def has_too_many_hosts(job: VolcanoJob) -> bool:
    """Whether the objects that name every pod would be more than etcd takes; nothing of them is made then."""
    if "svc" not in job.plugins and "ssh" not in job.plugins:
        return False
    # Each pod stands there twice, by its host and its subdomain.
    each = 2 * (2 * len(job.name) + len("--0."))
    return sum(t.replicas * (each + 2 * len(t.name)) for t in job.tasks) > MOST_OBJECT_BYTES


def helpers_of(job: VolcanoJob) -> list[Obj]:
    """What the plugins need beside the pods: hosts, a headless Service, a NetworkPolicy, keys."""
    found: list[Obj] = []
    if "ssh" in job.plugins:
        encoded = dict.fromkeys(_SSH_FILES, "")
        encoded["config"] = base64.b64encode(_ssh_config(job).encode()).decode()
        found.append(_owned(job, "v1", "Secret", f"{job.name}-ssh", {"data": encoded}))
    if "svc" in job.plugins:
        ours = {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace}
        found.append(_owned(job, "v1", "ConfigMap", f"{job.name}-svc", {"data": hosts_of(job)}))
        service: Spec = {"clusterIP": "None", "selector": ours}
        if _flag(job, "publish-not-ready-addresses"):
            service["publishNotReadyAddresses"] = True
        found.append(_owned(job, "v1", "Service", job.name, {"spec": service}))
        if not _flag(job, "disable-network-policy"):
            selector = {"matchLabels": ours}
            spec = {
                "podSelector": selector,
                "ingress": [{"from": [{"podSelector": selector}]}],
                "policyTypes": ["Ingress"],
            }
            found.append(_owned(job, "networking.k8s.io/v1", "NetworkPolicy", job.name, {"spec": spec}))
    return found


def _owned(job: VolcanoJob, api_version: str, kind: str, name: str, body: dict[str, Any]) -> Obj:
    meta = {
        "name": name,
        "namespace": job.namespace,
        "ownerReferences": owned_by(job.obj, API_VERSION, KIND),
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **body}


def hosts_of(job: VolcanoJob) -> dict[str, str]:
    """Per task: `worker.host` (one a line), `VC_WORKER_HOSTS` (by comma) and `VC_WORKER_NUM`."""
    found: dict[str, str] = {}
    for task in job.tasks:
        hosts = [f"{host}.{subdomain}" for host, subdomain in _addresses(job, task)]
        found[f"{task.name.replace('-', '_')}.host"] = "\n".join(hosts)
        found[f"VC_{_upper(task)}_HOSTS"] = ",".join(hosts)
        found[f"VC_{_upper(task)}_NUM"] = str(len(hosts))
    return found


def _addresses(job: VolcanoJob, task: TaskSpec) -> list[tuple[str, str]]:
    """Host and subdomain of every pod; a hostname in the template makes them one."""
    subdomain = task.pod_spec.get("subdomain") or job.name
    given = task.pod_spec.get("hostname")
    if given:
        return [(given, subdomain)] if task.replicas else []
    return [(job.pod_name(task, i), subdomain) for i in range(task.replicas)]


def _ssh_config(job: VolcanoJob) -> str:
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.tasks:
        for host, subdomain in _addresses(job, task):
            lines += [f"Host {host}", f"  HostName {host}.{subdomain}", "  Port 22"]
    return "\n".join(lines) + "\n"
