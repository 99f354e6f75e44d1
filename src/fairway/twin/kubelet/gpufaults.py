"""What does a broken part of NVIDIA's stack do to pods on its node? A runtime that does not know the handler `nvidia`
keeps them from their sandbox; a driver that is too old for the image's CUDA keeps containers with GPUs from starting.

Source: pkg/kubelet/runtimeclass (v1.36), containerd internal/cri/config (no runtime), libnvidia-container
src/cli/configure.c (requirement error).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from fairway.kube.objects import Key, spec_of
from fairway.kube.timestamps import SECOND_US
from fairway.twin.kubeevents import WARNING
from fairway.twin.kubelet.states import RUNNING, Ended, NodeState, PodState
from fairway.twin.loop import NO_TIME

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

_RUNTIME_CLASS: Final = "RuntimeClass.node.k8s.io"
# How often a pod without its sandbox is tried again. Source: pkg/kubelet/pod_workers.go backOffPeriod.
_SYNC_US: Final = 10 * SECOND_US
# What the runtime returns for a container that it cannot start. Source: kuberuntime_container.go, containerd.
_START_ERROR: Final = 128
_CUDA_IMAGE: Final = re.compile(r"cuda:(\d+)\.(\d+)")
_UNSATISFIED: Final = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: error running prestart hook #0: exit status 1, "
    "stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: requirement error: unsatisfied condition: "
    "cuda>={0}, please update your driver to a newer version, or use an earlier cuda container: unknown"
)


def waits_for_runtime(k: Kubelet, pod: PodState, node: NodeState, name: str) -> bool:
    """Whether the sandbox cannot be made by this RuntimeClass now. Then it is tried again with the next sync."""
    found = k.store.get(Key(_RUNTIME_CLASS, "", name))
    if found is None:
        why = f'failed to lookup RuntimeClass {name}: runtimeclass.node.k8s.io "{name}" not found'
    elif "runtime-class" in node.gpu_fault and str(found.get("handler") or "").startswith("nvidia"):
        why = "rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "
        why += f'"{found["handler"]}" is configured'
    else:
        return False
    k.tell(pod.key, pod.uid, WARNING, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {why}")
    k.loop.at(k.loop.now_us + _SYNC_US, k.h_sandbox, pod.uid)
    k.report(pod)
    return True


def fails_to_start(k: Kubelet, pod: PodState, i: int, node: NodeState) -> bool:
    """Whether a container that was just to run needs a newer driver. Then it has ended."""
    # Imported with the first fault: few have one.
    from fairway.catalog.drivers import CUDA, OLD, OLD_DRIVER

    obj = k.store.get(pod.key)
    if obj is None or OLD_DRIVER not in node.gpu_fault.replace(" ", "").split(","):
        return False
    name = pod.plan.containers[i].name
    parts = [*(spec_of(obj).get("initContainers") or ()), *(spec_of(obj).get("containers") or ())]
    limits = next(
        ((p.get("resources") or {}).get("limits") or {} for p in parts if p.get("name") == name), {}
    )
    if not any(resource.startswith("nvidia.com/") for resource in limits):
        return False
    told = _CUDA_IMAGE.search(pod.plan.containers[i].image)
    needed = f"{told[1]}.{told[2]}" if told else CUDA
    if _number(needed) <= _number(OLD[1]):
        return False
    state, now_us = pod.containers[i], k.loop.now_us
    why = _UNSATISFIED.format(needed)
    state.resumed_us = state.work_us = 0
    state.work_from_us, state.stalled_us, state.state = now_us, NO_TIME, RUNNING
    state.exit_at = Ended(_START_ERROR, "StartError", why, now_us, now_us)
    state.exit_ticket = k.loop.at(now_us + k.relist_delay(pod), k.h_exit, (pod.uid, i))
    k.tell_of(pod, i, WARNING, "Failed", f"Error: {why}")
    return True


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
