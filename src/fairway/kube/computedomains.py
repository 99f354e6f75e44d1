"""What do the words of NVIDIA's ComputeDomains mean: labels, names, and which domain a claim is for?

Source: kubernetes-sigs/dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1, cmd/compute-domain-controller,
cmd/compute-domain-kubelet-plugin (device_state.go getConfigResultsMap).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fairway.kube.objects import Obj, labels_of, status_of

DOMAIN: Final = "ComputeDomain.resource.nvidia.com"
CLIQUE: Final = "ComputeDomainClique.resource.nvidia.com"
API_VERSION: Final = "resource.nvidia.com/v1beta1"
DRIVER: Final = "compute-domain.nvidia.com"
LABEL: Final = "resource.nvidia.com/computeDomain"
"""On nodes, daemons and what is made for a domain: its uid. Its finalizer has the same name."""
CLIQUE_LABEL: Final = "resource.nvidia.com/computeDomain.cliqueID"
TARGET_LABEL: Final = "resource.nvidia.com/computeDomainTarget"
DAEMON_CLASS: Final = "compute-domain-daemon.nvidia.com"
CHANNEL_CLASS: Final = "compute-domain-default-channel.nvidia.com"
GPU_CLIQUE: Final = "nvidia.com/gpu.clique"
"""GPU feature discovery's label on a node: the NVLink domain it is in, `<cluster uuid>.<clique id>`."""
NAMESPACE: Final = "nvidia-dra-driver-gpu"
"""Where the driver's chart is installed."""
READY, NOT_READY = "Ready", "NotReady"
CHANNEL, DAEMON = "channel", "daemon"
_CONFIG: Final = {CHANNEL: "ComputeDomainChannelConfig", DAEMON: "ComputeDomainDaemonConfig"}


class Joining(NamedTuple):
    """A claim's channel: the domain it joins (by uid, empty where nobody said which), and on which node."""

    domain: str
    node: str


def joining(claim: Obj) -> Joining | None:
    """What the claim's allocation says of a channel; None: it has none."""
    devices = (status_of(claim).get("allocation") or {}).get("devices") or {}
    for result in devices.get("results") or ():
        if result.get("driver") == DRIVER and str(result.get("device")).startswith(CHANNEL):
            return Joining(_domain_of(devices, result.get("request") or ""), str(result.get("pool")))
    return None


def _domain_of(devices: Obj, request: str) -> str:
    """The last configuration that is for the request, or for all."""
    for config in reversed(devices.get("config") or ()):
        opaque = config.get("opaque") or {}
        parameters = opaque.get("parameters") or {}
        if opaque.get("driver") != DRIVER or parameters.get("kind") != _CONFIG[CHANNEL]:
            continue
        requests = config.get("requests") or ()
        if not requests or request in requests:
            return str(parameters.get("domainID") or "")
    return ""


def is_ready_on(domain: Obj, clique: Obj | None, node: str) -> bool:
    """Whether a node's daemon is: as its clique says, else the domain's status."""
    for daemon in (clique or {}).get("daemons") or ():
        if daemon.get("nodeName") == node and daemon.get("status") == READY:
            return True
    for found in status_of(domain).get("nodes") or ():
        if found.get("name") == node:
            return bool(found.get("status") == READY)
    return False


def clique_name(domain_uid: str, clique: str) -> str:
    return f"{domain_uid}.{clique}"


def clique_of(node: Obj) -> str:
    """The NVLink domain of a node; empty: it is in none."""
    return labels_of(node).get(GPU_CLIQUE) or ""


def template(name: str, namespace: str, uid: str, target: str, spec: Obj) -> Obj:
    """A ResourceClaimTemplate for daemons or workloads. `spec`: what its configuration says beyond the domain."""
    kind = DAEMON if target == "Daemon" else CHANNEL
    parameters = {"apiVersion": API_VERSION, "kind": _CONFIG[kind], "domainID": uid, **spec}
    devices = {
        "requests": [
            {"name": kind, "exactly": {"deviceClassName": DAEMON_CLASS if kind == DAEMON else CHANNEL_CLASS}}
        ],
        "config": [{"requests": [kind], "opaque": {"driver": DRIVER, "parameters": parameters}}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "finalizers": [LABEL],
            "labels": {LABEL: uid, TARGET_LABEL: target},
        },
        "spec": {"spec": {"devices": devices}},
    }


def daemon_set(name: str, uid: str) -> Obj:
    """The daemons of a domain: on every node that has its label."""
    labels = {LABEL: uid}
    check = {"exec": {"command": ["compute-domain-daemon", "check"]}}
    container = {
        "name": "compute-domain-daemon",
        "image": "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.0",
        "command": ["compute-domain-daemon", "run"],
        "resources": {"claims": [{"name": "compute-domain-daemon"}]},
        "startupProbe": {**check, "periodSeconds": 1, "timeoutSeconds": 10, "failureThreshold": 1200},
        "livenessProbe": {**check, "periodSeconds": 60, "timeoutSeconds": 10, "failureThreshold": 20},
        "readinessProbe": {**check, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 1},
    }
    spec = {
        "nodeSelector": labels,
        "containers": [container],
        "tolerations": [
            {"operator": "Exists", "effect": effect}
            for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule")
        ],
        "resourceClaims": [{"name": "compute-domain-daemon", "resourceClaimTemplateName": name}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "finalizers": [LABEL], "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
