"""One container: ports, mounts, devices, restart rules, resources.

Source: pkg/apis/core/validation/validation.go validateContainerCommon and what it calls (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.fieldpath import Path
from fairway.kube.names import port_name
from fairway.kube.validation.context import Context
from fairway.kube.validation.problem import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    too_many,
    unsupported,
)
from fairway.kube.validation.rules.paths import check_descending, has_backsteps
from fairway.kube.validation.rules.resources import check_container_resources

_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS = ("Restart", "RestartAllContainers")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_MAX_RESTART_RULES = 20
_MAX_EXIT_CODES = 255


def check_container(container: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    _check_port_names(container, path, out)
    _check_mounts(container, path, context)
    _check_devices(container, path, context)
    resources = container.get("resources")
    if resources:
        check_container_resources(resources, context.pod.claim_names, (*path, "resources"), out)
    _check_resize(container, path, context)


def _check_port_names(container: dict[str, Any], path: Path, out: list[Problem]) -> None:
    seen: set[str] = set()
    for index, port in enumerate(container.get("ports") or ()):
        name = port.get("name")
        if not name or port_name(name):
            continue
        if name in seen:
            out.append(duplicate((*path, "ports", index, "name"), name))
        seen.add(name)


def _check_mounts(container: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    devices = {d.get("name"): d.get("devicePath") for d in container.get("volumeDevices") or ()}
    points: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at = (*path, "volumeMounts", index)
        name, point = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            out.append(required((*at, "name")))
        if name not in context.pod.volumes:
            out.append(not_found((*at, "name"), name))
        if not point:
            out.append(required((*at, "mountPath")))
        if point in points:
            out.append(invalid((*at, "mountPath"), point, "must be unique"))
        points.add(point)
        if name in devices:
            out.append(invalid((*at, "name"), name, "must not already exist in volumeDevices"))
        if point in devices.values():
            detail = "must not already exist as a path in volumeDevices"
            out.append(invalid((*at, "mountPath"), point, detail))
        _check_mount_options(mount, at, container, out)


def _check_mount_options(
    mount: dict[str, Any], at: Path, container: dict[str, Any], out: list[Problem]
) -> None:
    sub_path, expression = mount.get("subPath"), mount.get("subPathExpr")
    if sub_path:
        check_descending(sub_path, (*at, "subPath"), out)
    if expression:
        if sub_path:
            detail = "subPathExpr and subPath are mutually exclusive"
            out.append(invalid((*at, "subPathExpr"), expression, detail))
        check_descending(expression, (*at, "subPathExpr"), out)
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        if propagation not in _PROPAGATIONS:
            out.append(unsupported((*at, "mountPropagation"), propagation, _PROPAGATIONS))
        privileged = (container.get("securityContext") or {}).get("privileged")
        if propagation == "Bidirectional" and not privileged:
            detail = "Bidirectional mount propagation is available only to privileged containers"
            out.append(forbidden((*at, "mountPropagation"), detail))
    recursive = mount.get("recursiveReadOnly")
    if recursive is not None:
        if recursive not in _RECURSIVE:
            out.append(unsupported((*at, "recursiveReadOnly"), recursive, _RECURSIVE))
        elif recursive != "Disabled" and not mount.get("readOnly"):
            out.append(forbidden((*at, "recursiveReadOnly"), "may only be specified when readOnly is true"))


def _check_devices(container: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    mounts = {m.get("name"): m.get("mountPath") for m in container.get("volumeMounts") or ()}
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        at = (*path, "volumeDevices", index)
        name, device_path = device.get("name") or "", device.get("devicePath") or ""
        volume = context.pod.volumes.get(name)
        if not name:
            out.append(required((*at, "name")))
        if name in names:
            out.append(invalid((*at, "name"), name, "must be unique"))
        if volume is None:
            out.append(not_found((*at, "name"), name))
        elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            out.append(invalid((*at, "name"), name, detail))
        if not device_path:
            out.append(required((*at, "devicePath")))
        if device_path in paths:
            out.append(invalid((*at, "devicePath"), device_path, "must be unique"))
        if has_backsteps(device_path):
            out.append(invalid((*at, "devicePath"), device_path, "can not contain backsteps ('..')"))
        if name in mounts:
            out.append(invalid((*at, "name"), name, "must not already exist in volumeMounts"))
        names.add(name)
        paths.add(device_path)


def _check_resize(container: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    seen: set[str] = set()
    for index, policy in enumerate(container.get("resizePolicy") or ()):
        at = (*path, "resizePolicy")
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            out.append(duplicate((*at, index), name))
        seen.add(name)
        if not name or not restart:
            out.append(required(at))
        if name and name not in ("cpu", "memory"):
            out.append(unsupported(at, name, ("cpu", "memory")))
        if restart and restart not in _RESIZE_POLICIES:
            out.append(unsupported(at, restart, _RESIZE_POLICIES))
        if context.pod.restart_policy == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            out.append(invalid(at, restart, detail))


def check_restart_rules(container: dict[str, Any], path: Path, out: list[Problem]) -> None:
    """A container's own restart policy and its rules (KEP-5307)."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if rules:
            detail = "must specify restartPolicy when restart rules are used"
            out.append(required((*path, "restartPolicy"), detail))
    elif policy not in _RESTART_POLICIES:
        out.append(unsupported((*path, "restartPolicy"), policy, _RESTART_POLICIES))
    if len(rules) > _MAX_RESTART_RULES:
        out.append(too_many((*path, "restartPolicyRules"), len(rules), _MAX_RESTART_RULES))
    for index, rule in enumerate(rules):
        at = (*path, "restartPolicyRules", index)
        if rule.get("action") not in _RESTART_ACTIONS:
            out.append(unsupported((*at, "action"), rule.get("action") or "", _RESTART_ACTIONS))
        codes = rule.get("exitCodes")
        if codes is None:
            out.append(required((*at, "exitCodes"), "must be specified"))
            continue
        if codes.get("operator") not in ("In", "NotIn"):
            out.append(
                unsupported((*at, "exitCodes", "operator"), codes.get("operator") or "", ("In", "NotIn"))
            )
        values = codes.get("values") or ()
        if len(values) > _MAX_EXIT_CODES:
            out.append(too_many((*at, "exitCodes", "values"), len(values), _MAX_EXIT_CODES))


RULES = {"Container": check_container, "EphemeralContainer": check_container}
