"""Probes and lifecycle hooks.

Source: pkg/apis/core/validation/validation.go validateProbe, validateHandler, validateLifecycle (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.fieldpath import Path
from fairway.kube.names import http_header
from fairway.kube.validation.context import Context
from fairway.kube.validation.problem import Problem, forbidden, invalid, invalids, required

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def check_probe(probe: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    _check_one_handler(probe, path, out)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        out.append(invalid((*path, "terminationGracePeriodSeconds"), grace, "must be greater than 0"))
    if path[-1] == "readinessProbe":
        if grace is not None:
            detail = "must not be set for readinessProbes"
            out.append(invalid((*path, "terminationGracePeriodSeconds"), grace, detail))
    elif probe.get("successThreshold") != 1:
        out.append(invalid((*path, "successThreshold"), probe.get("successThreshold"), "must be 1"))


def _check_one_handler(handler: dict[str, Any], path: Path, out: list[Problem]) -> None:
    chosen = [name for name in _HANDLERS if handler.get(name) is not None]
    if not chosen:
        out.append(required(path, "must specify a handler type"))
    out.extend(forbidden((*path, n), "may not specify more than 1 handler type") for n in chosen[1:])


def check_hook(hook: dict[str, Any], path: Path, context: Context) -> None:
    _check_one_handler(hook, path, context.out)
    sleep = hook.get("sleep")
    grace = context.pod.grace_seconds
    if sleep is None or grace is None:
        return
    seconds = sleep.get("seconds") or 0
    if seconds < 0 or seconds > grace:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        context.out.append(invalid((*path, "sleep"), seconds, detail))


def check_lifecycle(lifecycle: dict[str, Any], path: Path, context: Context) -> None:
    signal = lifecycle.get("stopSignal")
    if signal is not None and context.pod.os_name is None:
        detail = "may not be set for containers with empty `spec.os.name`"
        context.out.append(forbidden((*path, "stopSignal"), detail))


def check_http(get: dict[str, Any], path: Path, context: Context) -> None:
    _check_port(get, path, context.out)
    for header in get.get("httpHeaders") or ():
        name = header.get("name") or ""
        context.out.extend(invalids((*path, "httpHeaders"), name, http_header(name)))


def check_tcp(socket: dict[str, Any], path: Path, context: Context) -> None:
    _check_port(socket, path, context.out)


def _check_port(action: dict[str, Any], path: Path, out: list[Problem]) -> None:
    """An absent port is port 0."""
    if action.get("port") in (None, ""):
        out.append(invalid((*path, "port"), 0, "must be between 1 and 65535, inclusive"))


RULES = {
    "Probe": check_probe,
    "LifecycleHandler": check_hook,
    "Lifecycle": check_lifecycle,
    "HTTPGetAction": check_http,
    "TCPSocketAction": check_tcp,
    "GRPCAction": check_tcp,
}
