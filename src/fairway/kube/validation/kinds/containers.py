"""Containers of a pod: app, init and ephemeral ones, with their ports, mounts and policies.

Source: pkg/apis/core/validation/validation.go validateContainers, validateInitContainers,
validateEphemeralContainers (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import env, probes, resources, security, texts
from fairway.kube.validation.kinds.texts import one_of

Part = Mapping[str, Any]
PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_CONTAINER_RESTARTS = ("Always", "Never", "OnFailure")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_NOT_FOR_INIT = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_FOR_INIT_TEXT = "may not be set for init containers without restartPolicy=Always"
# In the order of Go's struct.
_NOT_FOR_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_NOT_EPHEMERAL_TEXT = "cannot be set for an Ephemeral Container"


@dataclass(frozen=True, slots=True)
class Around:
    """What containers are judged by: the pod around them."""

    volumes: Mapping[str, Part]
    claims: tuple[str, ...]
    grace: int | None
    os: str | None
    restart: str
    host_users: bool


def containers(spec: Part, around: Around, at: Path, out: Faults) -> None:
    """All containers of a pod's spec."""
    _containers(spec, around, at, out)
    _init_containers(spec, around, at, out)
    _ephemeral_containers(spec, around, at, out)


def image_text(container: Part, at: Path, out: Faults) -> None:
    """An image may not be padded, where it is a pod that is created."""
    image = container.get("image") or ""
    if image != image.strip():
        out.invalid(at, image, "must not have leading or trailing whitespace")


def _containers(spec: Part, around: Around, at: Path, out: Faults) -> None:
    containers, at = spec.get("containers") or (), (*at, "containers")
    if not containers:
        out.required(at)
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        where, name = (*at, index), container.get("name") or ""
        _common(container, around, where, out)
        if name in seen:
            out.duplicate((*where, "name"), name)
        seen.add(name)
        probes.of_container(container, around.grace, around.os, where, out)
        _restart_rules(container, where, out)
    _host_ports(containers, at, out)


def _host_ports(containers: Sequence[Part], at: Path, out: Faults, first: int = 0) -> None:
    seen: set[str] = set()
    for index, container in enumerate(containers, first):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            text = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if text in seen:
                out.duplicate((*at, index, "ports", number, "hostPort"), text)
            seen.add(text)


def _init_containers(spec: Part, around: Around, at: Path, out: Faults) -> None:
    seen = {c.get("name") or "" for c in spec.get("containers") or ()}
    at = (*at, "initContainers")
    for index, container in enumerate(spec.get("initContainers") or ()):
        where, name = (*at, index), container.get("name") or ""
        _common(container, around, where, out)
        if container.get("restartPolicy") is None:
            if container.get("restartPolicyRules"):
                said = "must specify restartPolicy when restart rules are used"
                out.required((*where, "restartPolicy"), said)
        else:
            _restart_rules(container, where, out)
        if name in seen:
            out.duplicate((*where, "name"), name)
        elif name:
            seen.add(name)
        _host_ports([container], at, out)
        if container.get("restartPolicy") == "Always":
            probes.of_container(container, around.grace, around.os, where, out)
            continue
        for member in _NOT_FOR_INIT:
            if container.get(member) is not None:
                out.forbidden((*where, member), _NOT_FOR_INIT_TEXT)
        for number, policy in enumerate(container.get("resizePolicy") or ()):
            if policy.get("restartPolicy") == "RestartContainer":
                said = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                out.invalid((*where, "resizePolicy", number, "restartPolicy"), "RestartContainer", said)


def _ephemeral_containers(spec: Part, around: Around, at: Path, out: Faults) -> None:
    others = {c.get("name") for kind in ("containers", "initContainers") for c in spec.get(kind) or ()}
    seen = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        where, name = (*at, "ephemeralContainers", index), container.get("name")
        _common(container, around, where, out)
        image_text(container, (*where, "image"), out)
        if name in seen:
            out.duplicate((*where, "name"), name or "")
        seen.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            out.not_found((*where, "targetContainerName"), target)
        for member in _NOT_FOR_EPHEMERAL:
            if container.get(member) not in (None, [], {}):
                out.forbidden((*where, member), _NOT_EPHEMERAL_TEXT)
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for member in ("subPath", "subPathExpr"):
                if mount.get(member):
                    out.forbidden((*where, "volumeMounts", number, member), _NOT_EPHEMERAL_TEXT)


def _common(container: Part, around: Around, at: Path, out: Faults) -> None:
    name = container.get("name") or ""
    if not name:
        out.required((*at, "name"))
    else:
        texts.dns_label(name, (*at, "name"), out)
    if not container.get("image"):
        out.required((*at, "image"))
    one_of(
        container.get("terminationMessagePolicy"), _MESSAGE_POLICIES, (*at, "terminationMessagePolicy"), out
    )
    _ports(container.get("ports") or (), (*at, "ports"), out)
    env.variables(container.get("env") or (), (*at, "env"), out)
    env.sources(container.get("envFrom") or (), (*at, "envFrom"), out)
    _mounts(container, around.volumes, (*at, "volumeMounts"), out)
    _devices(container, around.volumes, (*at, "volumeDevices"), out)
    one_of(container.get("imagePullPolicy"), _PULL_POLICIES, (*at, "imagePullPolicy"), out)
    resources.of_container(container.get("resources") or {}, around.claims, (*at, "resources"), out)
    _resize_policies(container.get("resizePolicy") or (), around.restart, (*at, "resizePolicy"), out)
    context = container.get("securityContext")
    security.of_container(context, (*at, "securityContext"), out, host_users=around.host_users)


def _ports(ports: Sequence[Part], at: Path, out: Faults) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where, name = (*at, index), port.get("name") or ""
        complaints = names.port_name(name) if name else ()
        out.invalids((*where, "name"), name, complaints)
        if name and not complaints and name in seen:
            out.duplicate((*where, "name"), name)
        elif not complaints:
            seen.add(name)
        number, host = port.get("containerPort") or 0, port.get("hostPort") or 0
        if not number:
            out.required((*where, "containerPort"))
        else:
            out.invalids((*where, "containerPort"), number, names.port_number(number))
        if host:
            out.invalids((*where, "hostPort"), host, names.port_number(host))
        one_of(port.get("protocol"), PROTOCOLS, (*where, "protocol"), out)


def _mounts(container: Part, known: Mapping[str, Part], at: Path, out: Faults) -> None:
    devices = {d.get("name") or "": d.get("devicePath") or "" for d in container.get("volumeDevices") or ()}
    privileged = (container.get("securityContext") or {}).get("privileged")
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where, name, path = (*at, index), mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            out.required((*where, "name"))
        if name not in known:
            out.not_found((*where, "name"), name)
        if not path:
            out.required((*where, "mountPath"))
        if path in paths:
            out.invalid((*where, "mountPath"), path, "must be unique")
        paths.add(path)
        if name in devices:
            out.invalid((*where, "name"), name, "must not already exist in volumeDevices")
        if path in devices.values():
            out.invalid((*where, "mountPath"), path, "must not already exist as a path in volumeDevices")
        _mount_options(mount, where, out, privileged=bool(privileged))


def _mount_options(mount: Part, where: Path, out: Faults, *, privileged: bool) -> None:
    """Upstream names the list of mounts, not the mount, for paths below a volume and propagation."""
    at, path, expression = where[:-1], mount.get("subPath"), mount.get("subPathExpr")
    if path:
        texts.descending_path(path, (*at, "subPath"), out)
    if expression:
        if path:
            said = "subPathExpr and subPath are mutually exclusive"
            out.invalid((*where, "subPathExpr"), expression, said)
        texts.descending_path(expression, (*at, "subPathExpr"), out)
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        if propagation not in ("Bidirectional", "HostToContainer", "None"):
            known = ("Bidirectional", "HostToContainer", "None")
            out.unsupported((*at, "mountPropagation"), propagation, known)
        if propagation == "Bidirectional" and not privileged:
            said = "Bidirectional mount propagation is available only to privileged containers"
            out.forbidden((*at, "mountPropagation"), said)
    _recursive_read_only(mount, propagation, (*at, "recursiveReadOnly"), out)


def _recursive_read_only(mount: Part, propagation: str | None, at: Path, out: Faults) -> None:
    choice = mount.get("recursiveReadOnly")
    if choice in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            out.forbidden(at, "may only be specified when readOnly is true")
        if propagation not in (None, "None"):
            out.forbidden(at, "may only be specified when mountPropagation is None or not specified")
    elif choice not in (None, "Disabled"):
        out.unsupported(at, choice, ("Disabled", "Enabled", "IfPossible"))


def _devices(container: Part, known: Mapping[str, Part], at: Path, out: Faults) -> None:
    mounts = {m.get("name") or "": m.get("mountPath") or "" for m in container.get("volumeMounts") or ()}
    seen: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        where, name, path = (*at, index), device.get("name") or "", device.get("devicePath") or ""
        source = known.get(name)
        if not name:
            out.required((*where, "name"))
        if name in seen:
            out.invalid((*where, "name"), name, "must be unique")
        if source is None:
            out.not_found((*where, "name"), name)
        elif source.get("persistentVolumeClaim") is None and source.get("ephemeral") is None:
            said = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            out.invalid((*where, "name"), name, said)
        if not path:
            out.required((*where, "devicePath"))
        if path in paths:
            out.invalid((*where, "devicePath"), path, "must be unique")
        if ".." in path.split("/"):
            out.invalid((*where, "devicePath"), path, "can not contain backsteps ('..')")
        else:
            paths.add(path)
        if name in mounts:
            out.invalid((*where, "name"), name, "must not already exist in volumeMounts")
        if path in mounts.values():
            out.invalid((*where, "devicePath"), path, "must not already exist as a path in volumeMounts")
        if name:
            seen.add(name)


def _resize_policies(policies: Sequence[Part], restart: str, at: Path, out: Faults) -> None:
    seen = set()
    for index, policy in enumerate(policies):
        name, choice = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            out.duplicate((*at, index), name)
        seen.add(name)
        one_of(name, ("cpu", "memory"), at, out)
        one_of(choice, ("NotRequired", "RestartContainer"), at, out)
        if restart == "Never" and choice != "NotRequired":
            out.invalid(at, choice, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _restart_rules(container: Part, at: Path, out: Faults) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if rules:
            out.required((*at, "restartPolicy"), "must specify restartPolicy when restart rules are used")
    elif policy not in _CONTAINER_RESTARTS:
        out.unsupported((*at, "restartPolicy"), policy, _CONTAINER_RESTARTS)
    if len(rules) > 20:
        out.too_many((*at, "restartPolicyRules"), len(rules), 20)
    for index, rule in enumerate(rules):
        where, codes = (*at, "restartPolicyRules", index), rule.get("exitCodes")
        if rule.get("action") not in ("Restart", "RestartAllContainers"):
            known = ("Restart", "RestartAllContainers")
            out.unsupported((*where, "action"), rule.get("action") or "", known)
        if codes is None:
            out.required((*where, "exitCodes"), "must be specified")
            continue
        if codes.get("operator") not in ("In", "NotIn"):
            out.unsupported((*where, "exitCodes", "operator"), codes.get("operator") or "", ("In", "NotIn"))
        if len(codes.get("values") or ()) > 255:
            out.too_many((*where, "exitCodes", "values"), len(codes["values"]), 255)
