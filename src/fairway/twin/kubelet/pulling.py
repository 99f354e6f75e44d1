"""When is an image on its node, and what if it cannot be pulled?

Source: pkg/kubelet/images/image_manager.go (v1.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.twin.kubeevents import NORMAL, WARNING
from fairway.twin.kubelet.states import NO_TICKET, NodeState, PodState

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet


def pull(k: Kubelet, pod: PodState, node: NodeState, i: int, from_us: int) -> tuple[int, int]:
    """When the image is there, and how long pulling it took (-1: it was there).

    A kubelet pulls one image at a time (serializeImagePulls).
    """
    container = pod.plan.containers[i]
    there_us = node.images.get(container.image)
    if there_us is not None or container.never_pulls:
        present_us = max(from_us, there_us or 0)
        return present_us + (k.image_check.a_us if container.always_pulls else 0), -1
    time = pod.plan.behaviours[i].image_pull or k.image_pull
    luck = k.host.streams.draw_for("image-pull", node.name, container.image)
    starts_us = max(from_us, node.pull_free_us)
    done_us = starts_us + max(time.at_quantile(luck) * k.pull_slowdown_milli // 1000, 0)
    node.images[container.image] = done_us
    node.pull_free_us = done_us
    return done_us, done_us - from_us


def is_within(windows: tuple[tuple[int, int], ...], at_us: int) -> bool:
    return any(start <= at_us < end for start, end in windows)


def on_pull_failed(k: Kubelet, data: tuple[str, int]) -> None:
    """Pulling failed: back off from 10 s, doubling to 300 s, and try again."""
    uid, i = data
    pod = k.pods[uid]
    container = pod.plan.containers[i]
    state = pod.containers[i]
    behaviour = pod.plan.behaviours[i]
    now_us = k.loop.now_us
    state.start_ticket = NO_TICKET
    image = container.image
    if not is_within(behaviour.image_pull_fails, now_us - pod.start_us):
        k.start_container(pod, i)
        return
    error = f'failed to pull and unpack image "{image}": not found'
    k.tell_of(pod, i, NORMAL, "Pulling", f'Pulling image "{image}"')
    k.tell_of(pod, i, WARNING, "Failed", f'Failed to pull image "{image}": {error}')
    k.tell_of(pod, i, WARNING, "Failed", "Error: ErrImagePull")
    latency = k.host.latency
    doubled_us = min(2 * state.pull_backoff_us, latency.container_backoff_max_us)
    state.pull_backoff_us = doubled_us or latency.container_backoff_us
    state.reason, state.message = "ErrImagePull", error
    k.report(pod)
    if pod.uid not in k.pods:
        return
    # The kubelet's next look, a moment later, finds the pull backing off and says so.
    k.tell_of(pod, i, NORMAL, "BackOff", f'Back-off pulling image "{image}"')
    state.reason = "ImagePullBackOff"
    state.message = f'Back-off pulling image "{image}": ErrImagePull: {error}'
    k.report(pod)
    if pod.uid not in k.pods:
        return
    k.record(pod.key, "ImagePullBackOff", container.name)
    state.start_ticket = k.loop.at(now_us + state.pull_backoff_us, k.h_pull_failed, (uid, i))
