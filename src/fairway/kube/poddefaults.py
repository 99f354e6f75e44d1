"""What does the API server fill into a pod spec that its author left out?

Two levels, as there: `pod_spec_defaults` is what every pod spec gets, in templates too; `pod_defaults` is what
only pods get (requests from limits, host ports). Both return the same dict where nothing was missing, and
otherwise a new one that shares the rest.

Source: pkg/apis/core/v1/defaults.go and zz_generated.defaults.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.kube.objects import Obj
from fairway.kube.podrequests import pod_limits, pod_requests
from fairway.kube.resources import format_amount, is_hugepages, is_native

GRACE_SECONDS = 30
SCHEDULER_NAME = "default-scheduler"
# Mode bits 0644 of files projected into volumes.
_FILE_MODE = 420
_TOKEN_SECONDS = 3600
_POD_LEVEL = ("cpu", "memory")


def pod_defaults(spec: Obj) -> Obj:
    """The spec of a pod, all defaults in."""
    spec = _with_lists(spec, {"containers": _requests_from_limits, "initContainers": _requests_from_limits})
    if spec.get("resources"):
        spec = _pod_level_defaults(spec)
    if spec.get("enableServiceLinks") is None:
        spec = {**spec, "enableServiceLinks": True}
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        # Of a pod, not of a template. Source: pkg/apis/core/v1/conversion.go Convert_v1_Pod_To_core_Pod.
        spec = {**spec, "terminationGracePeriodSeconds": 1}
    if spec.get("hostNetwork"):
        spec = _with_lists(spec, {"containers": _host_ports, "initContainers": _host_ports})
    return pod_spec_defaults(spec)


def pod_spec_defaults(spec: Obj) -> Obj:
    """The spec of a pod template, all defaults in."""
    missing: Obj = {}
    if not spec.get("restartPolicy"):
        missing["restartPolicy"] = "Always"
    if not spec.get("dnsPolicy"):
        missing["dnsPolicy"] = "ClusterFirst"
    if not spec.get("schedulerName"):
        missing["schedulerName"] = SCHEDULER_NAME
    if spec.get("terminationGracePeriodSeconds") is None:
        missing["terminationGracePeriodSeconds"] = GRACE_SECONDS
    if spec.get("securityContext") is None:
        missing["securityContext"] = {}
    if missing:
        spec = {**spec, **missing}
    return _with_lists(
        spec,
        {
            "containers": container_defaults,
            "initContainers": container_defaults,
            "ephemeralContainers": container_defaults,
            "volumes": _volume_defaults,
        },
    )


def container_defaults(container: Obj) -> Obj:
    missing: Obj = {}
    if not container.get("imagePullPolicy"):
        missing["imagePullPolicy"] = pull_policy(container.get("image") or "")
    if not container.get("terminationMessagePath"):
        missing["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        missing["terminationMessagePolicy"] = "File"
    if missing:
        container = {**container, **missing}
    container = _with_lists(container, {"ports": _port_defaults, "env": _env_defaults})
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is not None:
            container = _with(container, name, probe_defaults(probe))
    lifecycle = container.get("lifecycle")
    return _with(container, "lifecycle", _lifecycle_defaults(lifecycle)) if lifecycle else container


def pull_policy(image: str) -> str:
    """`Always` for the tag latest or none at all, else `IfNotPresent`."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or (not tag and not digest) else "IfNotPresent"


def probe_defaults(probe: Obj) -> Obj:
    missing: Obj = {}
    if not probe.get("timeoutSeconds"):
        missing["timeoutSeconds"] = 1
    if not probe.get("periodSeconds"):
        missing["periodSeconds"] = 10
    if not probe.get("successThreshold"):
        missing["successThreshold"] = 1
    if not probe.get("failureThreshold"):
        missing["failureThreshold"] = 3
    if missing:
        probe = {**probe, **missing}
    if probe.get("httpGet") is not None:
        probe = _with(probe, "httpGet", _http_defaults(probe["httpGet"]))
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        probe = {**probe, "grpc": {**grpc, "service": ""}}
    return probe


def _http_defaults(get: Obj) -> Obj:
    if get.get("path") and get.get("scheme"):
        return get
    return {**get, "path": get.get("path") or "/", "scheme": get.get("scheme") or "HTTP"}


def _lifecycle_defaults(lifecycle: Obj) -> Obj:
    for hook in ("postStart", "preStop"):
        handler = lifecycle.get(hook)
        if handler and handler.get("httpGet") is not None:
            filled = _with(handler, "httpGet", _http_defaults(handler["httpGet"]))
            lifecycle = _with(lifecycle, hook, filled)
    return lifecycle


def _port_defaults(port: Obj) -> Obj:
    return port if port.get("protocol") else {**port, "protocol": "TCP"}


def _env_defaults(variable: Obj) -> Obj:
    source = variable.get("valueFrom")
    field = source.get("fieldRef") if source else None
    if source is None or field is None or field.get("apiVersion"):
        return variable
    return {**variable, "valueFrom": {**source, "fieldRef": {**field, "apiVersion": "v1"}}}


def _host_ports(container: Obj) -> Obj:
    def host_port(port: Obj) -> Obj:
        return port if port.get("hostPort") else {**port, "hostPort": port.get("containerPort")}

    return _with_lists(container, {"ports": host_port})


def _requests_from_limits(container: Obj) -> Obj:
    resources: Obj = container.get("resources") or {}
    limits: Obj = resources.get("limits") or {}
    if not limits:
        return container
    requests: Obj = resources.get("requests") or {}
    missing = {name: value for name, value in limits.items() if name not in requests}
    if not missing:
        return container
    return {**container, "resources": {**resources, "requests": {**requests, **missing}}}


def _pod_level_defaults(spec: Obj) -> Obj:
    """Pod-level limits that containers imply, and requests from containers or else from limits (KEP-2837)."""
    resources = spec["resources"]
    old_limits = limits = resources.get("limits") or {}
    old_requests = requests = resources.get("requests") or {}
    of_containers = {"containers": spec.get("containers"), "initContainers": spec.get("initContainers")}
    if limits or requests:
        implied = {
            name: format_amount(name, amount)
            for name, amount in pod_limits(of_containers).items()
            if is_hugepages(name) and name not in requests and name not in limits
        }
        limits = {**limits, **implied} if implied else limits
    if limits:
        missing = {
            name: format_amount(name, amount)
            for name, amount in pod_requests(of_containers).items()
            if name in _POD_LEVEL and name not in requests
        }
        for name, value in limits.items():
            if name not in requests and (name in _POD_LEVEL or (is_native(name) and is_hugepages(name))):
                missing.setdefault(name, value)
        requests = {**requests, **missing} if missing else requests
    if limits is old_limits and requests is old_requests:
        return spec
    return {**spec, "resources": {**resources, "limits": limits, "requests": requests}}


def _volume_defaults(volume: Obj) -> Obj:
    if len(volume) == 1 and "name" in volume:
        return {**volume, "emptyDir": {}}
    for kind in ("secret", "configMap", "downwardAPI", "projected"):
        source = volume.get(kind)
        if source is not None:
            if source.get("defaultMode") is None:
                source = {**source, "defaultMode": _FILE_MODE}
            if kind == "projected":
                source = _with_lists(source, {"sources": _projection_defaults})
            return _with(volume, kind, source)
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        return {**volume, "image": {**image, "pullPolicy": pull_policy(image.get("reference") or "")}}
    return volume


def _projection_defaults(source: Obj) -> Obj:
    token = source.get("serviceAccountToken")
    if token is None or token.get("expirationSeconds") is not None:
        return source
    return {**source, "serviceAccountToken": {**token, "expirationSeconds": _TOKEN_SECONDS}}


def _with(value: Obj, name: str, member: Any) -> Obj:
    """The mapping with this member, or the mapping itself where it has that very object already."""
    return value if value.get(name) is member else {**value, name: member}


def _with_lists(value: Obj, fillers: dict[str, Callable[[Obj], Obj]]) -> Obj:
    """Applies a filler to each item of each named list, sharing lists in which nothing changed."""
    for name, fill in fillers.items():
        items = value.get(name)
        if not items:
            continue
        filled = [fill(item) for item in items]
        if any(a is not b for a, b in zip(filled, items, strict=True)):
            value = {**value, name: filled}
    return value
