"""Why has this node no GPUs? Symptom, command, expected signal, fix: NVIDIA's stack from the machine up, checked.

The first check that fails is the cause; those after it wait for it. Every command is one that a person can type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fairway.catalog.drivers import CUDA, DRIVER
from fairway.catalog.nodegpus import gpus_of_node
from fairway.cluster.actions import View
from fairway.devices.nodeview import DEPLOY, MIG_CONFIG, MIG_STATE, NFD, PAUSED
from fairway.devices.policy import NAMESPACE, POLICY, operands
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, meta_of, spec_of, status_of
from fairway.kube.quantity import whole_ceil

_UNITS = ("nvidia.com/gpu", "nvidia.com/mig-")


class Check(NamedTuple):
    """`found`: what there is instead; empty where it is as expected."""

    name: str
    command: str
    expected: str
    found: str
    fix: str

    @property
    def holds(self) -> bool:
        return not self.found


def checks(view: View, node: Obj) -> list[Check]:
    """Of one node, in order."""
    return list(_checks(view, node))


def _checks(view: View, node: Obj) -> Iterator[Check]:
    name, labels, status = meta_of(node)["name"], labels_of(node), status_of(node)
    at = f"kubectl get node {name}"
    gpus = gpus_of_node(node)
    yield Check(
        "hardware",
        f"{at} --show-labels | grep pci-10de",
        "a GPU that is known by model",
        "" if gpus.count or NFD in labels else "no GPU that anything tells of",
        "install Node Feature Discovery (nfd.enabled=true); a simulated node: annotate fairway.dev/gpus",
    )
    policies = view.objects(POLICY)
    ready = next((str(status_of(p).get("state") or "no state yet") for p in policies), "")
    if policies:
        yield Check(
            "operator",
            "kubectl get clusterpolicies.nvidia.com -o yaml",
            "state ready",
            "" if ready == "ready" else f"state {ready}: {_said(policies[0])}",
            "see the operands below; kubectl logs -n gpu-operator deployment/gpu-operator",
        )
        yield from _operands(view, policies[0], name)
        yield Check(
            "runtime class",
            "kubectl get runtimeclass nvidia",
            "there",
            "" if view.get(Key("RuntimeClass.node.k8s.io", "", "nvidia")) else "not there",
            "toolkit.enabled=true; pods that name it are refused, those that are there stay ContainerCreating",
        )
        yield _handler(view, name)
        yield _driver(labels, at)
    state = labels.get(MIG_STATE, "")
    if state:
        yield Check(
            "MIG",
            f"{at} -o jsonpath='{{.metadata.labels.nvidia\\.com/mig\\.config\\.state}}'",
            "success",
            "" if state == "success" else f"{state} for {labels.get(MIG_CONFIG)}",
            "kubectl logs -l app=nvidia-mig-manager; drain the node, then set the label anew",
        )
        paused = sorted(
            n.removeprefix(DEPLOY) for n, v in labels.items() if n.startswith(DEPLOY) and v == PAUSED
        )
        yield Check(
            "MIG Manager's clients",
            f"{at} --show-labels | grep {PAUSED}",
            "none paused",
            f"{', '.join(paused)} paused" if paused and state != "pending" else "",
            "delete MIG Manager's pod: it brings back only what it has not brought back before",
        )
    yield from _devices(node, status, at)


def _handler(view: View, node: str) -> Check:
    """Whether the container runtime knows what the runtime class names."""
    waiting = [
        p
        for p in view.objects("Pod")
        if spec_of(p).get("nodeName") == node and spec_of(p).get("runtimeClassName") and not _has_sandbox(p)
    ]
    names = sorted(f"{meta_of(p)['namespace']}/{meta_of(p)['name']}" for p in waiting)
    return Check(
        "runtime handler",
        "kubectl get events -A --field-selector reason=FailedCreatePodSandBox",
        "none about pods of the node",
        f"no sandbox: {', '.join(names[:3])}" if names else "",
        "restart the toolkit's pod: it writes the handler to containerd's configuration; systemctl restart containerd",
    )


def _has_sandbox(pod: Obj) -> bool:
    found = status_of(pod).get("conditions") or ()
    return not any(c.get("type") == "PodReadyToStartContainers" and c.get("status") == "False" for c in found)


def _driver(labels: Mapping[str, str], at: str) -> Check:
    """Whether images of this year's CUDA start: their driver may be newer, not older."""
    told = labels.get("nvidia.com/cuda.driver-version.full", "")
    version = told.partition(".")[0]
    needed = DRIVER.partition(".")[0]
    is_old = version.isdecimal() and int(version[:6]) < int(needed)
    cuda = labels.get("nvidia.com/cuda.runtime-version.full", "an older one")
    return Check(
        "driver version",
        f"{at} -o jsonpath='{{.metadata.labels.nvidia\\.com/cuda\\.driver-version\\.full}}'",
        f"{needed} or newer: CUDA {CUDA}",
        f"{told}: CUDA {cuda}; images of a newer one end with StartError" if is_old else "",
        "driver.version in ClusterPolicy (helm upgrade --set driver.version=…), or images of an older CUDA",
    )


def _said(policy: Obj) -> str:
    found = [c.get("message") for c in status_of(policy).get("conditions") or () if c.get("status") == "True"]
    return str(found[0] if found else "nothing said")


def _operands(view: View, policy: Obj, node: str) -> Iterator[Check]:
    namespace = status_of(policy).get("namespace") or NAMESPACE
    pods = {
        labels_of(p).get("app", ""): p
        for p in view.objects("Pod", namespace)
        if spec_of(p).get("nodeName") == node
    }
    for operand in operands():
        sets = view.get(Key("DaemonSet.apps", namespace, operand.name))
        if sets is None or operand.key in ("mps", "migManager"):
            continue
        pod = pods.get(operand.app)
        yield Check(
            operand.name,
            f"kubectl -n {namespace} get pods -l app={operand.app} --field-selector spec.nodeName={node}",
            "Running and ready",
            "no pod on the node" if pod is None else _trouble(pod),
            f"kubectl -n {namespace} logs -l app={operand.app} --all-containers",
        )


def _trouble(pod: Obj) -> str:
    """As kubectl's column STATUS has it; empty for a ready pod."""
    status = status_of(pod)
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ()):
        return ""
    for kind, prefix in (("initContainerStatuses", "Init:"), ("containerStatuses", "")):
        for at in status.get(kind) or ():
            state = at.get("state") or {}
            waiting = (state.get("waiting") or {}).get("reason")
            if waiting and waiting not in ("PodInitializing",):
                return f"{prefix}{waiting} ({at['name']})"
            if "running" in state and prefix:
                return f"{prefix}waits in {at['name']}"
    return str(status.get("phase") or "Pending")


def _devices(node: Obj, status: Obj, at: str) -> Iterator[Check]:
    def counts(part: str) -> dict[str, int]:
        found = status.get(part) or {}
        return {n: whole_ceil(v) for n, v in found.items() if n.startswith(_UNITS) and whole_ceil(v)}

    capacity, free = counts("capacity"), counts("allocatable")
    yield Check(
        "device plugin's registration",
        f"{at} -o jsonpath='{{.status.capacity}}'",
        "nvidia.com/gpu or nvidia.com/mig-…",
        "" if capacity else "none",
        "restart the plugin's pod: it registers with the kubelet by /var/lib/kubelet/device-plugins",
    )
    short = {n: f"{free.get(n, 0)} of {c}" for n, c in capacity.items() if free.get(n, 0) < c}
    unhealthy = annotations_of(node).get("fairway.dev/gpu-unhealthy", "")
    broken = [str(c.get("type")) for c in status.get("conditions") or () if _is_broken(c)]
    words = ", ".join([*(f"{n} {c}" for n, c in short.items()), *broken])
    yield Check(
        "health",
        f"{at} -o jsonpath='{{.status.allocatable}}'; dmesg | grep Xid",
        "as much allocatable as there is",
        words + (f" (cards {unhealthy})" if words and unhealthy else ""),
        "drain the node; reset the card or reboot, exchange it where that does not help",
    )
    is_closed = bool(spec_of(node).get("unschedulable"))
    yield Check(
        "schedulable",
        at,
        "no SchedulingDisabled",
        "cordoned" if is_closed else "",
        f"kubectl uncordon {at.split()[-1]}",
    )


def _is_broken(condition: Obj) -> bool:
    kind = condition.get("type")
    return condition.get("status") == "True" and kind in (
        *("GPUMissing", "XIDErrors", "NVLinkStatusInactive", "GPUClockThrottling"),
    )
