"""Probes, lifecycle hooks, and their handlers.

Source: pkg/apis/core/validation/validation.go validateProbe, validateHandler, validateLifecycle (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts

Probe = Mapping[str, Any]
_SECONDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SIGNALS = (
    *(
        "ABRT",
        "ALRM",
        "BUS",
        "CHLD",
        "CLD",
        "CONT",
        "FPE",
        "HUP",
        "ILL",
        "INT",
        "IO",
        "IOT",
        "KILL",
        "PIPE",
        "POLL",
    ),
    *("PROF", "PWR", "QUIT", "RTMAX"),
    *(f"RTMAX-{n}" for n in (1, 10, 11, 12, 13, 14, *range(2, 10))),
    "RTMIN",
    *(f"RTMIN+{n}" for n in (1, 10, 11, 12, 13, 14, 15, *range(2, 10))),
    *(
        "SEGV",
        "STKFLT",
        "STOP",
        "SYS",
        "TERM",
        "TRAP",
        "TSTP",
        "TTIN",
        "TTOU",
        "URG",
        "USR1",
        "USR2",
        "VTALRM",
    ),
    *("WINCH", "XCPU", "XFSZ"),
)
_LINUX_SIGNALS = tuple(f"SIG{name}" for name in _SIGNALS)
_WINDOWS_SIGNALS = ("SIGKILL", "SIGTERM")


def of_container(container: Probe, grace: int | None, os: str | None, at: Path, out: Faults) -> None:
    """The lifecycle and the three probes."""
    hooks = container.get("lifecycle")
    if hooks is not None:
        _lifecycle(hooks, grace, os, (*at, "lifecycle"), out)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe, where = container.get(name), (*at, name)
        if probe is None:
            continue
        _probe(probe, grace, where, out)
        if name == "readinessProbe":
            seconds = probe.get("terminationGracePeriodSeconds")
            if seconds is not None:
                said = "must not be set for readinessProbes"
                out.invalid((*where, "terminationGracePeriodSeconds"), seconds, said)
        elif (probe.get("successThreshold") or 0) != 1:
            out.invalid((*where, "successThreshold"), probe.get("successThreshold") or 0, "must be 1")


def _probe(probe: Probe, grace: int | None, at: Path, out: Faults) -> None:
    _handler({name: probe.get(name) for name in _HANDLERS[:4]}, grace, at, out)
    for name in _SECONDS:
        out.negative((*at, name), probe.get(name))
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        out.invalid((*at, "terminationGracePeriodSeconds"), seconds, "must be greater than 0")


def _lifecycle(hooks: Probe, grace: int | None, os: str | None, at: Path, out: Faults) -> None:
    for name in ("postStart", "preStop"):
        hook = hooks.get(name)
        if hook is not None:
            _handler({**hook, "grpc": None}, grace, (*at, name), out)
    signal = hooks.get("stopSignal")
    if signal is None:
        return
    if os is None:
        said = "may not be set for containers with empty `spec.os.name`"
        out.forbidden((*at, "stopSignal"), said)
    else:
        known = _WINDOWS_SIGNALS if os == "windows" else _LINUX_SIGNALS
        if os in ("windows", "linux") and signal not in known:
            out.unsupported((*at, "stopSignal"), signal, known)


def _handler(found: Probe, grace: int | None, at: Path, out: Faults) -> None:
    given = [name for name in _HANDLERS if found.get(name) is not None]
    for name in given[:1]:
        _action(name, found[name], grace, (*at, name), out)
    for name in given[1:]:
        out.forbidden((*at, name), "may not specify more than 1 handler type")
    if not given:
        out.required(at, "must specify a handler type")


def _action(name: str, action: Probe, grace: int | None, at: Path, out: Faults) -> None:
    if name == "exec":
        if not action.get("command"):
            out.required((*at, "command"))
    elif name == "httpGet":
        if not action.get("path"):
            out.required((*at, "path"))
        texts.port_reference(action.get("port"), (*at, "port"), out)
        if action.get("scheme") not in ("HTTP", "HTTPS"):
            out.unsupported((*at, "scheme"), action.get("scheme") or "", ("HTTP", "HTTPS"))
        for header in action.get("httpHeaders") or ():
            header_name = header.get("name") or ""
            out.invalids((*at, "httpHeaders"), header_name, names.http_header(header_name))
    elif name == "sleep":
        seconds = action.get("seconds") or 0
        if grace is not None and not 0 <= seconds <= grace:
            said = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            out.invalid(at, seconds, said)
    else:
        texts.port_reference(action.get("port"), (*at, "port"), out)
