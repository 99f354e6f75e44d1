"""The Deployment of a Revision: its containers as Serving defaults and wires them, and the queue-proxy beside them.

Unlike kube: the readiness probe stays with the container it is about, and asks its port; Serving gives it to the
queue-proxy, which then asks that port.

Source: pkg/apis/serving/v1/revision_defaults.go, pkg/reconciler/revision/resources/{deploy,queue,meta}.go.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from fairway.kube.durations import duration_us
from fairway.kube.objects import Obj, annotations_of, controller_of, labels_of
from fairway.kube.timestamps import SECOND_US
from fairway.workloads.knative import names
from fairway.workloads.podtemplate import owned_by, stable_hash

QUEUE_PROXY: Final = "queue-proxy"
_IMAGE: Final = "gcr.io/knative-releases/knative.dev/serving/cmd/queue"
# Source: config-defaults, config-deployment.
_TIMEOUT_S: Final = 300
_PROGRESS_DEADLINE_S: Final = 600
_CPU_REQUEST: Final = "25m"
_USER_CONTAINER: Final = "user-container"
_USER_PORT: Final = 8080
_PORTS: Final = (
    ("http-autometric", 9090),
    ("http-usermetric", 9091),
    ("queue-port", 8012),
    ("https-port", 8112),
)
# The kubelet waits for requests in flight before it stops a container.
_DRAIN: Final = {"preStop": {"httpGet": {"path": "/wait-for-drain", "port": 8022}}}
_PROBED: Final = ("tcpSocket", "httpGet", "exec", "grpc")


def defaulted(spec: dict[str, Any]) -> dict[str, Any]:
    """A Revision's spec as the webhook leaves it."""
    containers = spec.get("containers") or []
    taken = {c.get("name") for c in containers if c.get("name")}
    filled = []
    for i, container in enumerate(containers):
        name = container.get("name")
        if not name:
            name = _USER_CONTAINER if len(containers) == 1 else f"{_USER_CONTAINER}-{i}"
            while name in taken:
                name = f"{name}-0"
        one = {"resources": {}, **container, "name": name}
        if len(containers) == 1 or container.get("ports"):
            probe = {"successThreshold": 1, **(container.get("readinessProbe") or {})}
            if not any(how in probe for how in _PROBED):
                probe["tcpSocket"] = {"port": 0}
            one["readinessProbe"] = probe
        filled.append(one)
    concurrency = spec.get("containerConcurrency")
    return {
        "enableServiceLinks": False,
        **spec,
        "containerConcurrency": 0 if concurrency is None else concurrency,
        "timeoutSeconds": spec.get("timeoutSeconds") or _TIMEOUT_S,
        "containers": filled,
    }


def deployment_of(revision: Obj, initial_scale: int) -> Obj:
    """As the Revision's controller makes it, with so many replicas at first."""
    meta, labels = revision["metadata"], names.labelled(revision)
    annotations = names.annotated(revision, with_scaling=False)
    of_pods = dict(annotations)
    serving = _serving(revision)
    if serving is not None:
        of_pods["kubectl.kubernetes.io/default-container"] = serving["name"]
    spec = {
        "replicas": initial_scale,
        "selector": {"matchLabels": {names.OF_REVISION_UID: meta["uid"]}},
        "progressDeadlineSeconds": progress_deadline_s(revision),
        "revisionHistoryLimit": 0,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}},
        "template": {"metadata": {"labels": labels, "annotations": of_pods}, "spec": _pod_spec(revision)},
    }
    digest = stable_hash([spec, annotations, labels])
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": names.deployment_name(meta["name"]),
            "namespace": meta["namespace"],
            "labels": {**labels, f"{names.GROUP}/deployment-hash": digest},
            "annotations": annotations,
            "ownerReferences": owned_by(revision, names.VERSION, "Revision"),
        },
        "spec": spec,
    }


def progress_deadline_s(revision: Obj) -> int:
    with contextlib.suppress(ValueError):
        told = duration_us(annotations_of(revision).get(f"{names.GROUP}/progress-deadline"))
        return _PROGRESS_DEADLINE_S if told is None else told // SECOND_US
    return _PROGRESS_DEADLINE_S


def _serving(revision: Obj) -> dict[str, Any] | None:
    """The container that requests go to."""
    containers: list[dict[str, Any]] = revision["spec"].get("containers") or []
    with_port = [c for c in containers if c.get("ports")]
    return next(iter(with_port or containers), None)


def _pod_spec(revision: Obj) -> dict[str, Any]:
    own = ("containerConcurrency", "timeoutSeconds", "responseStartTimeoutSeconds", "idleTimeoutSeconds")
    spec: dict[str, Any] = {k: v for k, v in revision["spec"].items() if k not in own}
    serving = _serving(revision)
    containers = [_container(revision, c, is_serving=c is serving) for c in spec.get("containers") or ()]
    return {
        **spec,
        "terminationGracePeriodSeconds": revision["spec"].get("timeoutSeconds") or _TIMEOUT_S,
        "containers": [*containers, _queue_proxy(revision)],
    }


def _container(revision: Obj, container: dict[str, Any], *, is_serving: bool) -> dict[str, Any]:
    ports = container.get("ports") or [{}]
    port = ports[0].get("containerPort") or _USER_PORT
    owner = controller_of(revision) or {}
    environment = {
        "K_REVISION": revision["metadata"]["name"],
        "K_CONFIGURATION": owner.get("name", ""),
        "K_SERVICE": labels_of(revision).get(names.OF_SERVICE, ""),
    }
    if is_serving:
        environment = {"PORT": str(port), **environment}
    made = {
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **container,
        "env": [*(container.get("env") or ()), *({"name": k, "value": v} for k, v in environment.items())],
        "lifecycle": _DRAIN,
    }
    if is_serving:
        made["ports"] = [{"name": "user-port", "containerPort": port}]
    probe = container.get("readinessProbe")
    if probe is not None:
        made["readinessProbe"] = _aimed(probe, port)
    return made


def _aimed(probe: dict[str, Any], port: int) -> dict[str, Any]:
    """At the container's port where the probe names none; asked every second where it does not say how often."""
    found = {"periodSeconds": 1, **probe}
    if not found["periodSeconds"]:
        found["periodSeconds"] = 1
    for how in ("tcpSocket", "httpGet"):
        if how in found and not found[how].get("port"):
            found[how] = {**found[how], "port": port}
    return found


def _queue_proxy(revision: Obj) -> dict[str, Any]:
    serving = _serving(revision) or {}
    port = (serving.get("ports") or [{}])[0].get("containerPort") or _USER_PORT
    owner = controller_of(revision) or {}
    told = {
        "SERVING_NAMESPACE": revision["metadata"]["namespace"],
        "SERVING_SERVICE": labels_of(revision).get(names.OF_SERVICE, ""),
        "SERVING_CONFIGURATION": owner.get("name", ""),
        "SERVING_REVISION": revision["metadata"]["name"],
        "QUEUE_SERVING_PORT": "8012",
        "CONTAINER_CONCURRENCY": str(revision["spec"].get("containerConcurrency") or 0),
        "REVISION_TIMEOUT_SECONDS": str(revision["spec"].get("timeoutSeconds") or _TIMEOUT_S),
        "USER_PORT": str(port),
    }
    annotations = annotations_of(revision)
    request = annotations.get(f"queue.sidecar.{names.GROUP}/cpu-resource-request", _CPU_REQUEST)
    return {
        "name": QUEUE_PROXY,
        "image": _IMAGE,
        "ports": [{"name": name, "containerPort": number} for name, number in _PORTS],
        "env": [{"name": name, "value": value} for name, value in told.items()],
        "resources": {"requests": {"cpu": request}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
