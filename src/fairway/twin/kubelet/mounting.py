"""What keeps a pod from its sandbox, or a container from its start: ConfigMaps and Secrets that are not there (yet).

Volumes are tried again after half a second, twice as long every time, up to two minutes; a container's environment
with every sync of its pod.

Source: pkg/util/goroutinemap/exponentialbackoff, pkg/kubelet/volumemanager (podAttachAndMountTimeout),
pkg/kubelet/kuberuntime/kuberuntime_container.go startContainer, pkg/kubelet/pod_workers.go backOffPeriod (v1.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairway.kube.objects import Obj, spec_of
from fairway.kube.timestamps import SECOND_US
from fairway.twin.kubeevents import WARNING
from fairway.twin.kubelet.references import missing, mounts_of
from fairway.twin.kubelet.states import WAITING, PodState
from fairway.twin.loop import NO_TIME

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

CONFIG_ERROR: Final = "CreateContainerConfigError"
_FIRST_US: Final = SECOND_US // 2
_LONGEST_US: Final = 122 * SECOND_US
# How long the kubelet waits for all volumes before it says which are missing.
_PATIENCE_US: Final = 123 * SECOND_US
_SYNC_US: Final = 10 * SECOND_US


def waits_for_volumes(k: Kubelet, pod: PodState, obj: Obj) -> bool:
    """Whether a volume cannot be mounted now. Then the pod is begun once all can."""
    volumes = spec_of(obj).get("volumes")
    wanted = mounts_of(volumes) if volumes else ()
    lack = missing(k.store, pod.key.namespace, wanted) if wanted else None
    if lack is None:
        return False
    pod.mounts_since_us = k.loop.now_us
    _failed(k, pod, lack[0].volume, lack[1], 0)
    k.report(pod)
    return True


def on_mount(k: Kubelet, data: tuple[str, int, int]) -> bool:
    """Time to try again; whether the pod can begin."""
    uid, since_us, tries = data
    pod = k.pods.get(uid)
    if pod is None or pod.is_stopping or pod.is_lost or pod.mounts_since_us != since_us:
        return False
    obj = k.store.get(pod.key)
    if obj is None:
        return False
    wanted = mounts_of(spec_of(obj)["volumes"])
    lack = missing(k.store, pod.key.namespace, wanted)
    if lack is None:
        pod.mounts_since_us = NO_TIME
        return True
    waited_us = k.loop.now_us - since_us
    if waited_us // _PATIENCE_US > (waited_us - _delay_us(tries)) // _PATIENCE_US:
        unmounted = sorted({r.volume for r in wanted if missing(k.store, pod.key.namespace, (r,))})
        said = f"Unable to attach or mount volumes: unmounted volumes=[{' '.join(unmounted)}], unattached volumes=[], "
        said += "failed to process volumes=[]: context deadline exceeded"
        k.tell(pod.key, uid, WARNING, "FailedMount", said)
    _failed(k, pod, lack[0].volume, lack[1], tries)
    return False


def _failed(k: Kubelet, pod: PodState, volume: str, why: str, tries: int) -> None:
    said = f'MountVolume.SetUp failed for volume "{volume}" : {why}'
    k.tell(pod.key, pod.uid, WARNING, "FailedMount", said)
    at_us = k.loop.now_us + _delay_us(tries + 1)
    k.loop.at(at_us, k.h_mount, (pod.uid, pod.mounts_since_us, tries + 1))


def _delay_us(tries: int) -> int:
    return min(_FIRST_US << max(tries - 1, 0), _LONGEST_US) if tries < 10 else _LONGEST_US


def lacks_variables(k: Kubelet, pod: PodState, i: int, pulled_us: int) -> bool:
    """Whether a container's environment cannot be made now. Then its start is tried again with the next sync."""
    lack = missing(k.store, pod.key.namespace, pod.plan.containers[i].variables)
    if lack is None:
        return False
    state = pod.containers[i]
    state.state = WAITING
    state.last, state.end = state.end or state.last, None
    state.reason, state.message = CONFIG_ERROR, lack[1]
    k.tell_of(pod, i, WARNING, "Failed", f"Error: {lack[1]}")
    state.start_ticket = k.loop.at(k.loop.now_us + _SYNC_US, k.h_start, (pod.uid, i, pulled_us))
    k.report(pod)
    return True
