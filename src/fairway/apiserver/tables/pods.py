"""A pod's line: READY, the one word for its STATUS, RESTARTS.

Source: pkg/printers/internalversion/printers.go printPod (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway.apiserver.tables.ages import since
from fairway.apiserver.tables.wording import NONE, age, condition_status, name
from fairway.kube.objects import Obj, meta_of, spec_of, status_of

COLUMNS = "Name:name | Ready | Status | Restarts | Age | IP* | Node* | Nominated Node* | Readiness Gates*"
_NODE_UNREACHABLE = "NodeLost"
_EMPTY: dict[str, Any] = {}


@dataclass(slots=True)
class _Reading:
    """What is known after looking at some of the containers."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def add_restarts(self, container: Obj) -> None:
        self.restarts += container.get("restartCount") or 0
        ended = ((container.get("lastState") or _EMPTY).get("terminated") or _EMPTY).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, ended)


def cells(pod: Obj, now_us: int) -> list[Any]:
    spec, status = spec_of(pod), status_of(pod)
    sidecars = {c.get("name") for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    reading = _Reading(_first_reason(status))
    main = _Reading(reading.reason)
    initializing = _read_init(spec, status, sidecars, reading, main)
    if not initializing or condition_status(status.get("conditions"), "Initialized") == "True":
        main.ready, main.reason = reading.ready, reading.reason
        _read_containers(status, main)
        reading = main
    reason = _deletion(pod, status) or reading.reason
    restarts = str(reading.restarts)
    if reading.restarts and reading.last_restart:
        restarts = f"{restarts} ({since(reading.last_restart, now_us)} ago)"
    total = len(spec.get("containers") or ()) + len(sidecars)
    return [
        name(pod),
        f"{reading.ready}/{total}",
        reason,
        restarts,
        age(pod, now_us),
        *_wide(spec, status),
    ]


def _first_reason(status: Obj) -> str:
    reason: str = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return reason


def _read_init(
    spec: Obj, status: Obj, sidecars: set[Any], reading: _Reading, sidecars_only: _Reading
) -> bool:
    """Is the pod still initializing? `sidecars_only` counts the restarts of restartable init containers."""
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        reading.add_restarts(container)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            sidecars_only.add_restarts(container)
        state = container.get("state") or _EMPTY
        ended, waiting = state.get("terminated"), state.get("waiting") or _EMPTY
        if ended is not None and not ended.get("exitCode"):
            continue
        if is_sidecar and container.get("started"):
            reading.ready += bool(container.get("ready"))
            continue
        if ended is not None:
            reading.reason = "Init:" + (ended.get("reason") or _exit_words(ended))
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            reading.reason = "Init:" + waiting["reason"]
        else:
            reading.reason = f"Init:{index}/{len(spec.get('initContainers') or ())}"
        return True
    return False


def _exit_words(ended: Obj) -> str:
    signal = ended.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode') or 0}"


def _read_containers(status: Obj, reading: _Reading) -> None:
    has_running, error = False, ""
    for container in reversed(status.get("containerStatuses") or []):
        reading.add_restarts(container)
        state = container.get("state") or _EMPTY
        ended, waiting = state.get("terminated"), state.get("waiting") or _EMPTY
        if waiting.get("reason"):
            reading.reason = waiting["reason"]
        elif ended is not None:
            reading.reason = ended.get("reason") or _exit_words(ended)
            if ended.get("exitCode"):
                error = reading.reason
        elif container.get("ready") and state.get("running") is not None:
            has_running = True
            reading.ready += 1
    if reading.reason != "Completed":
        return
    # A finished container beside running ones does not complete the pod.
    if has_running and condition_status(status.get("conditions"), "Ready") == "True":
        reading.reason = "Running"
    elif error:
        reading.reason = error
    elif has_running:
        reading.reason = "NotReady"


def _deletion(pod: Obj, status: Obj) -> str:
    if "deletionTimestamp" not in meta_of(pod):
        return ""
    if status.get("reason") == _NODE_UNREACHABLE:
        return "Unknown"
    return "" if status.get("phase") in ("Succeeded", "Failed") else "Terminating"


def _wide(spec: Obj, status: Obj) -> list[str]:
    ips = status.get("podIPs") or ()
    ip = ips[0].get("ip") if ips else status.get("podIP")
    gates = spec.get("readinessGates") or ()
    met = sum(condition_status(status.get("conditions"), g.get("conditionType")) == "True" for g in gates)
    return [
        ip or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{met}/{len(gates)}" if gates else NONE,
    ]


def row_conditions(pod: Obj) -> list[dict[str, str]]:
    """What kubectl needs to fade a finished pod's row."""
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    phase = status_of(pod).get("phase")
    if phase not in messages:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]
