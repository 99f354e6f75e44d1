"""Pods and pod templates as a whole: what must hold between the parts of a pod spec?

Source: pkg/apis/core/validation/validation.go ValidatePodSpec, ValidatePodCreate, ValidatePodTemplateSpec (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairway.kube.fieldpath import Path
from fairway.kube.names import label_key
from fairway.kube.validation.context import Context, PodFacts
from fairway.kube.validation.metadata import check_annotations, check_labels
from fairway.kube.validation.problem import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_found,
    required,
    too_long,
    unsupported,
)
from fairway.kube.validation.rules.containers import check_restart_rules
from fairway.kube.validation.rules.resources import check_overhead, check_pod_resources

_MAX_INT32 = 2**31 - 1
_MAX_HOSTNAME_BYTES = 64
_NOT_FOR_INIT = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_FOR_EPHEMERAL = ("ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
_NOT_FOR_INIT_TEXT = "may not be set for init containers without restartPolicy=Always"


def gather_facts(spec: dict[str, Any], path: Path, context: Context) -> None:
    """Before the parts are judged: what they need to know of the pod."""
    extra = context.pod.volumes if not context.pod.is_pod else {}
    volumes = {v["name"]: v for v in spec.get("volumes") or () if v.get("name")}
    host_users = spec.get("hostUsers")
    context.pod = PodFacts(
        volumes={**volumes, **extra},
        claim_names=frozenset(c["name"] for c in spec.get("resourceClaims") or () if c.get("name")),
        grace_seconds=spec.get("terminationGracePeriodSeconds"),
        os_name=(spec.get("os") or {}).get("name"),
        restart_policy=spec.get("restartPolicy") or "",
        host_users=host_users is None or host_users,
        is_pod=path == ("spec",) and context.obj.get("kind") == "Pod",
    )


def check_spec(spec: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    _check_containers(spec, path, out)
    _check_init_containers(spec, path, out)
    _check_ephemeral_containers(spec, path, out)
    if spec.get("resources") is not None:
        check_pod_resources(spec, path, out)
    if spec.get("hostNetwork"):
        _check_host_network(spec, path, context)
    check_labels(spec.get("nodeSelector"), (*path, "nodeSelector"), out)
    _check_dns(spec, path, out)
    _check_gates(spec, path, out)
    _check_host_users(spec, path, out)
    _check_hostname(spec, path, out)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        range_text = f"must be between 1 and {_MAX_INT32}, inclusive"
        out.append(invalid((*path, "activeDeadlineSeconds"), deadline, range_text))
    if spec.get("overhead") is not None:
        check_overhead(spec["overhead"], (*path, "overhead"), out)
    if context.pod.is_pod:
        _check_creation(spec, path, out)


def _all_containers(spec: dict[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield kind, index, container


def _check_containers(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    seen: set[str] = set()
    ports: set[str] = set()
    for index, container in enumerate(spec.get("containers") or ()):
        at = (*path, "containers", index)
        name = container.get("name") or ""
        if name in seen:
            out.append(duplicate((*at, "name"), name))
        seen.add(name)
        check_restart_rules(container, at, out)
        _check_host_ports(container, at, ports, out)


def _check_host_ports(container: dict[str, Any], at: Path, seen: set[str], out: list[Problem]) -> None:
    for index, port in enumerate(container.get("ports") or ()):
        if not port.get("hostPort"):
            continue
        text = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{port['hostPort']}"
        if text in seen:
            out.append(duplicate((*at, "ports", index, "hostPort"), text))
        seen.add(text)


def _check_init_containers(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    seen = {c.get("name") for c in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        at = (*path, "initContainers", index)
        check_restart_rules(container, at, out)
        name = container.get("name")
        if name and name in seen:
            out.append(duplicate((*at, "name"), name))
        seen.add(name)
        _check_host_ports(container, at, set(), out)
        if container.get("restartPolicy") == "Always":
            continue
        present = [member for member in _NOT_FOR_INIT if container.get(member) is not None]
        out.extend(forbidden((*at, member), _NOT_FOR_INIT_TEXT) for member in present)


def _check_ephemeral_containers(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    others = {c.get("name") for kind, _, c in _all_containers(spec) if kind != "ephemeralContainers"}
    seen = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        at = (*path, "ephemeralContainers", index)
        if container.get("name") in seen:
            out.append(duplicate((*at, "name"), container.get("name")))
        seen.add(container.get("name"))
        target = container.get("targetContainerName")
        if target and target not in others:
            out.append(not_found((*at, "targetContainerName"), target))
        present = [member for member in _NOT_FOR_EPHEMERAL if container.get(member)]
        out.extend(forbidden((*at, m), "cannot be set for an Ephemeral Container") for m in present)


def _check_host_network(spec: dict[str, Any], path: Path, context: Context) -> None:
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (context.pod.is_pod or host) and host != port.get("containerPort"):
                at = (*path, "containers", index, "ports", number, "hostPort")
                detail = "must match `containerPort` when `hostNetwork` is true"
                context.out.append(invalid(at, host, detail))


def _check_dns(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            detail = "must provide `dnsConfig` when `dnsPolicy` is None"
            out.append(required((*path, "dnsConfig"), detail))
        elif not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            out.append(required((*path, "dnsConfig", "nameservers"), detail))
    if config and len(config.get("nameservers") or ()) > 3:
        at = (*path, "dnsConfig", "nameservers")
        out.append(invalid(at, config["nameservers"], "must not have more than 3 nameservers"))


def _check_gates(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        at = (*path, "schedulingGates", index)
        name = gate.get("name") or ""
        out.extend(invalids(at, name, label_key(name)))
        if name in seen:
            out.append(duplicate(at, name))
        seen.add(name)


def _check_host_users(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    if spec.get("hostUsers") is not False:
        return
    present = [member for member in ("hostPID", "hostIPC") if spec.get(member)]
    out.extend(forbidden((*path, member), "when `hostUsers` is false") for member in present)


def _check_hostname(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        out.append(invalid((*path, "securityContext", "shareProcessNamespace"), True, detail))
    override = spec.get("hostnameOverride")
    if override is None:
        return
    at = (*path, "hostnameOverride")
    present = [member for member in ("setHostnameAsFQDN", "hostNetwork") if spec.get(member)]
    out.extend(forbidden(at, f"may not be specified when {member} is true") for member in present)
    if len(override) > _MAX_HOSTNAME_BYTES:
        out.append(too_long(at, _MAX_HOSTNAME_BYTES))


def _check_creation(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    """What a pod may not say when it is created."""
    for kind, index, container in _all_containers(spec):
        image = container.get("image") or ""
        if kind != "ephemeralContainers" and image != image.strip():
            at = (*path, kind, index, "image")
            out.append(invalid(at, image, "must not have leading or trailing whitespace"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        out.append(forbidden((*path, "nodeName"), detail))


def check_template(template: dict[str, Any], path: Path, context: Context) -> None:
    """Unlike kube: labels and annotations are reported below `metadata`, where they stand."""
    meta = template.get("metadata") or {}
    check_labels(meta.get("labels"), (*path, "metadata", "labels"), context.out)
    check_annotations(meta.get("annotations"), (*path, "metadata", "annotations"), context.out)
    spec = template.get("spec")
    if spec is None:
        context.out.append(required((*path, "spec", "containers")))
    elif spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        context.out.append(forbidden((*path, "spec", "ephemeralContainers"), detail))


def check_pod(pod: dict[str, Any], path: Path, context: Context) -> None:
    if pod.get("spec") is None:
        context.out.append(required(("spec", "containers")))


def check_restart_always(template: dict[str, Any], path: Path, kind: str, out: list[Problem]) -> None:
    """Templates of controllers that keep pods running."""
    spec = template.get("spec") or {}
    if spec and spec.get("restartPolicy") != "Always":
        out.append(unsupported((*path, "spec", "restartPolicy"), spec.get("restartPolicy"), ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        out.append(forbidden((*path, "spec", "activeDeadlineSeconds"), detail))


ENTER_RULES = {"PodSpec": gather_facts}
RULES = {"PodSpec": check_spec, "PodTemplateSpec": check_template, "Pod": check_pod}
