"""What do probe verdicts do to a running container? Arms the next change of each verdict as one event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairway.kube.timestamps import SECOND_US
from fairway.twin.behaviour import Behaviour
from fairway.twin.kubeevents import WARNING
from fairway.twin.kubelet import stopping, working
from fairway.twin.kubelet.probes import LIVENESS, READINESS, STARTUP, Probe, Window, first_tick_us, next_flip
from fairway.twin.kubelet.states import NO_TICKET, RUNNING, PodState

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

_FOREVER_US: Final = 2**61


def arm(k: Kubelet, pod: PodState, i: int) -> None:
    """Plan the probes of a container that just started."""
    container = pod.plan.containers[i]
    if container.startup is not None:
        _arm(k, pod, i, container.startup, pod.start_us, None)
    else:
        _arm_started(k, pod, i)


def _arm_started(k: Kubelet, pod: PodState, i: int) -> None:
    """Readiness and liveness, which wait until the container counts as started."""
    container = pod.plan.containers[i]
    if container.readiness is not None:
        _arm(k, pod, i, container.readiness, k.loop.now_us, False)
    if container.liveness is not None:
        _arm(k, pod, i, container.liveness, pod.start_us, True)


def _arm(k: Kubelet, pod: PodState, i: int, probe: Probe, phase_us: int, verdict: bool | None) -> None:
    """Queue the next change of this probe's verdict, if there will be one."""
    state = pod.containers[i]
    behaviour = pod.plan.behaviours[i]
    first_us = first_tick_us(probe, phase_us, state.started_us, k.loop.now_us)
    fails = failing_windows(behaviour, probe.kind, state.started_us, working.startup_of(pod, i))
    flip = next_flip(probe, first_us, fails, verdict)
    ticket = NO_TICKET
    if flip is not None:
        data = (pod.uid, i, probe.kind, flip.succeeded, flip.failures)
        ticket = k.loop.at(flip.time_us, k.h_probe, data)
    if probe.kind == STARTUP:
        state.startup_ticket = ticket
    elif probe.kind == READINESS:
        state.readiness_ticket = ticket
    else:
        state.liveness_ticket = ticket


def failing_windows(behaviour: Behaviour, kind: str, started_us: int, startup_us: int) -> list[Window]:
    """When this kind of probe fails, in absolute time: until the application is up, and as annotated."""
    said = {
        STARTUP: behaviour.startup_fails,
        READINESS: behaviour.readiness_fails,
        LIVENESS: behaviour.liveness_fails,
    }[kind]
    windows = [(started_us, started_us + startup_us)] if startup_us else []
    for start_us, end_us in said:
        windows.append((started_us + start_us, min(started_us + end_us, _FOREVER_US)))
    merged: list[Window] = []
    for start_us, end_us in sorted(windows):
        if merged and start_us <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end_us))
        else:
            merged.append((start_us, end_us))
    return merged


def on_probe(k: Kubelet, data: tuple[str, int, str, bool, int]) -> None:
    """A verdict changes."""
    uid, i, kind, succeeded, failures = data
    pod = k.pods[uid]
    container = pod.plan.containers[i]
    state = pod.containers[i]
    probe = {STARTUP: container.startup, READINESS: container.readiness, LIVENESS: container.liveness}[kind]
    if probe is None or state.state != RUNNING:
        raise AssertionError(f"{pod.key}: a probe of a container that does not run")
    if failures:
        text = f"{kind} probe failed: {probe.output}"
        k.tell_of(pod, i, WARNING, "Unhealthy", text, failures)
    if kind == READINESS:
        state.is_ready = succeeded
        _arm(k, pod, i, probe, k.loop.now_us + probe.period_us, succeeded)
        k.record(pod.key, "Ready" if succeeded else "NotReady", container.name)
        k.report(pod)
        return
    if kind == STARTUP:
        state.startup_ticket = NO_TICKET
        if succeeded:
            state.is_started = True
            state.is_ready = container.readiness is None
            _arm_started(k, pod, i)
            if container.is_sidecar:
                k.start_next(pod)
            k.report(pod)
            return
    else:
        state.liveness_ticket = NO_TICKET
    _kill(k, pod, i, probe)


def fail_liveness(k: Kubelet, uid: str, i: int, output: str) -> None:
    """Somebody who knows more of the application says that its liveness probe has failed often enough."""
    pod = k.pods.get(uid)
    if pod is None or pod.containers[i].state != RUNNING:
        return
    probe = pod.plan.containers[i].liveness
    if probe is not None:
        k.tell_of(pod, i, WARNING, "Unhealthy", f"Liveness probe failed: {output}", probe.failure_threshold)
        _kill(k, pod, i, probe)


def _kill(k: Kubelet, pod: PodState, i: int, probe: Probe) -> None:
    """Source: computePodActions: the container is killed, and started again if its policy says so."""
    container = pod.plan.containers[i]
    what = "Init container" if container.is_sidecar else "Container"
    message = f"{what} {container.name} failed {probe.kind.lower()} probe"
    if container.restarts != "Never" and not container.is_sidecar:
        message += ", will be restarted"
    grace_us = pod.plan.grace_us if probe.grace_s is None else int(probe.grace_s) * SECOND_US
    k.record(pod.key, f"{probe.kind}ProbeFailed", container.name)
    stopping.stop_container(k, pod, i, k.loop.now_us, grace_us, message)
