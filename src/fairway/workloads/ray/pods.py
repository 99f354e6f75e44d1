"""The head and the workers of a RayCluster: names, labels, variables, the init container that waits for the head.

Source: kuberay ray-operator/controllers/ray/common/pod.go (DefaultHeadPodTemplate, DefaultWorkerPodTemplate,
BuildPod, labelPod, setContainerEnvVars), utils/util.go (PodName, GenerateFQDNServiceName).

Unlike kube: the `ray start` command line, probes, ports and shared-memory volumes, which change nothing here, are
left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairway.cluster.actions import View
from fairway.kube.objects import Obj
from fairway.workloads.podtemplate import fresh_names, owned_by, pod_from_template

API_VERSION = "ray.io/v1"
CLUSTER = "ray.io/cluster"
NODE_TYPE = "ray.io/node-type"
GROUP = "ray.io/group"
IS_RAY_NODE = "ray.io/is-ray-node"
IDENTIFIER = "ray.io/identifier"
HEAD, WORKER = "head", "worker"
HEAD_GROUP = "headgroup"
GCS_PORT = "6379"
CLUSTER_DOMAIN = "cluster.local"
_FIXED = (NODE_TYPE, GROUP, CLUSTER)
_MAX_PREFIX = 50
_AUTOSCALER = {"cpu": "500m", "memory": "512Mi"}
_WAITER = {"cpu": "200m", "memory": "256Mi"}


def head_service(cluster: Obj) -> str:
    given = cluster["spec"]["headGroupSpec"].get("headService") or {}
    return (given.get("metadata") or {}).get("name") or f"{cluster['metadata']['name']}-head-svc"


def head_address(cluster: Obj) -> str:
    return f"{head_service(cluster)}.{cluster['metadata']['namespace']}.svc.{CLUSTER_DOMAIN}"


def _port(cluster: Obj) -> str:
    return str((cluster["spec"]["headGroupSpec"].get("rayStartParams") or {}).get("port") or GCS_PORT)


def head_pod(cluster: Obj) -> Obj:
    """One, under a name that stays the same."""
    group = cluster["spec"]["headGroupSpec"]
    template = group.get("template") or {}
    spec = _with_env(template.get("spec") or {}, cluster, HEAD)
    if cluster["spec"].get("enableInTreeAutoscaling"):
        given = (cluster["spec"].get("autoscalerOptions") or {}).get("resources")
        image = spec["containers"][0].get("image", "")
        sidecar = {
            "name": "autoscaler",
            "image": image,
            "resources": given or {"requests": _AUTOSCALER, "limits": _AUTOSCALER},
        }
        spec = {**spec, "containers": [*spec["containers"], sidecar]}
    name = f"{cluster['metadata']['name'][:_MAX_PREFIX]}-head".lower()
    return _pod(cluster, template, spec, HEAD, HEAD_GROUP, group.get("labels") or {}, name)


def worker_pods(view: View, cluster: Obj, group: dict[str, Any], count: int) -> Iterator[Obj]:
    """`count` workers of one group."""
    meta, template = cluster["metadata"], group.get("template") or {}
    stem = f"{meta['name']}-{group['groupName']}"[:_MAX_PREFIX]
    prefix = f"{stem}-worker-".lower()
    names = fresh_names(view, "Pod", meta["namespace"], prefix, meta["uid"])
    spec = _with_env(template.get("spec") or {}, cluster, WORKER)
    waiter = _waiter(cluster, template.get("spec") or {})
    spec = {**spec, "initContainers": [*(spec.get("initContainers") or ()), waiter]}
    for _ in range(count):
        yield _pod(
            cluster,
            template,
            spec,
            WORKER,
            group["groupName"],
            group.get("labels") or {},
            next(names),
            prefix,
        )


def _pod(
    cluster: Obj,
    template: Obj,
    spec: dict[str, Any],
    node_type: str,
    group: str,
    labels: dict[str, str],
    name: str,
    generate_name: str = "",
) -> Obj:
    meta = cluster["metadata"]
    given = template.get("metadata") or {}
    own = {
        IS_RAY_NODE: "yes",
        CLUSTER: meta["name"],
        NODE_TYPE: node_type,
        GROUP: group,
        IDENTIFIER: f"{meta['name']}-{node_type}"[-63:],
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    overriding = {**(given.get("labels") or {}), **labels}
    merged = {**own, **{k: v for k, v in overriding.items() if k not in _FIXED}}
    return pod_from_template(
        {"metadata": {**given, "labels": merged}, "spec": spec},
        namespace=meta["namespace"],
        owner_references=owned_by(cluster, cluster["apiVersion"], "RayCluster"),
        name=name,
        generate_name=generate_name,
    )


def _with_env(spec: dict[str, Any], cluster: Obj, node_type: str) -> dict[str, Any]:
    """What Ray's processes read, in the first container; RAY_PORT and RAY_ADDRESS only where they are not set."""
    first = spec["containers"][0]
    env = list(first.get("env") or ())
    present = {v["name"] for v in env}
    address, port = "127.0.0.1", _port(cluster)
    if node_type == WORKER:
        address = head_address(cluster)
        env.append({"name": "FQ_RAY_IP", "value": address})
        env.append({"name": "RAY_IP", "value": address.partition(".")[0]})
    env.extend(
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in (
            ("RAY_CLUSTER_NAME", f"metadata.labels['{CLUSTER}']"),
            ("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
            ("RAY_CLOUD_INSTANCE_ID", "metadata.name"),
            ("RAY_NODE_TYPE_NAME", f"metadata.labels['{GROUP}']"),
        )
    )
    defaults = {
        "RAY_PORT": port,
        "RAY_ADDRESS": f"{address}:{port}",
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
    }
    env.extend({"name": n, "value": v} for n, v in defaults.items() if n not in present)
    return {**spec, "containers": [{**first, "env": env}, *spec["containers"][1:]]}


def _waiter(cluster: Obj, spec: dict[str, Any]) -> dict[str, Any]:
    """Holds a worker back until the head's store answers."""
    first = spec["containers"][0]
    check = f"ray health-check --address {head_address(cluster)}:{_port(cluster)}"
    return {
        "name": "wait-gcs-ready",
        "image": first.get("image", ""),
        "command": ["/bin/bash", "-c", "--"],
        "args": [f"until {check}; do sleep 5; done"],
        "resources": {"limits": _WAITER, "requests": _WAITER},
    }
