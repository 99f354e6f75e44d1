"""The servers of an LLMInferenceService: Deployments, LeaderWorkerSets where workers are asked for, and their Service.

With `prefill` there are two of them: pods whose role is `prefill`, and pods whose role is `decode`, which have a
routing sidecar in front. Otherwise the role is `both`.

Source: kserve v0.20 llmisvc/workload.go, workload_single_node.go, workload_multi_node.go.
"""

from __future__ import annotations

from typing import Any, Final

from fairway.kube.objects import Obj, annotations_of, labels_of
from fairway.workloads.kserve.llm.models import with_weights
from fairway.workloads.kserve.llm.presets import pool_name
from fairway.workloads.kserve.llm.templates import child_name
from fairway.workloads.podtemplate import owned_by

KIND: Final = "LLMInferenceService"
NAME: Final = "app.kubernetes.io/name"
PART_OF: Final = "app.kubernetes.io/part-of"
COMPONENT: Final = "app.kubernetes.io/component"
SELECTED: Final = "kserve.io/component"
ROLE: Final = "llm-d.ai/role"
SIDECAR: Final = "llm-d-routing-sidecar"
ROUTED_BY_MODEL: Final = "serving.kserve.io/model-based-routing-enabled"
# What of the service's own metadata its Deployments and pods have too.
_ANNOTATIONS: Final = (
    "k8s.v1.cni.cncf.io",
    "kueue.x-k8s.io",
    "prometheus.io",
    "internal.serving.kserve.io/localmodel",
)
_LABELS: Final = ("kueue.x-k8s.io", "internal.serving.kserve.io/localmodel")


def workloads(service: Obj, spec: dict[str, Any], *, has_tls: bool) -> list[Obj]:
    """Raises: ValueError: weights cannot be attached."""
    made: list[Obj] = []
    prefill = spec.get("prefill")
    role = "both" if prefill is None else "decode"
    for part, which, part_role in ((spec, "", role), (prefill, "-prefill", "prefill")):
        if part is None:
            continue
        if part.get("worker") is not None:
            made += _leader_worker_set(service, spec, part, which, part_role)
        else:
            made += _deployment(service, spec, part, which, part_role)
    return [_certificates(service), *made, _service(service, spec, has_tls=has_tls)]


def names(service: Obj, spec: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Kind and name of the primary workload and that for prefill, by what the status calls them."""
    found = {"primary": _which(service, spec, "")}
    if spec.get("prefill") is not None:
        found["prefill"] = _which(service, spec["prefill"], "-prefill")
    return found


def _which(service: Obj, part: dict[str, Any], suffix: str) -> tuple[str, str]:
    name = service["metadata"]["name"]
    if part.get("worker") is not None:
        return "LeaderWorkerSet", child_name(name, f"-kserve-mn{suffix}")
    return "Deployment", child_name(name, f"-kserve{suffix}")


def service_name(service: Obj) -> str:
    return child_name(service["metadata"]["name"], "-kserve-workload-svc")


def meta(
    service: Obj, name: str, labels: dict[str, str], annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": name,
        "namespace": service["metadata"]["namespace"],
        "labels": labels,
        "ownerReferences": owned_by(service, service["apiVersion"], KIND),
    }
    return {**found, "annotations": annotations} if annotations else found


def labelled(service: Obj, component: str, role: str = "") -> dict[str, str]:
    found = {
        COMPONENT: f"llminferenceservice-{component}",
        NAME: service["metadata"]["name"],
        PART_OF: "llminferenceservice",
    }
    return {**found, SELECTED: "workload", ROLE: role} if role else found


def _told(part: dict[str, Any]) -> dict[str, str]:
    return {k: v for k, v in (part.get("annotations") or {}).items() if k != ROUTED_BY_MODEL}


def _passed(given: dict[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    return {k: v for k, v in given.items() if k.startswith(prefixes)}


def _deployment(
    service: Obj, spec: dict[str, Any], part: dict[str, Any], suffix: str, role: str
) -> list[Obj]:
    labels = labelled(service, f"workload{suffix}", role)
    name = child_name(service["metadata"]["name"], f"-kserve{suffix}")
    annotations = _passed(annotations_of(service), _ANNOTATIONS)
    passed = _passed(labels_of(service), _LABELS)
    pod, accounts = dict(part.get("template") or {}), []
    if _has_sidecar(pod):
        pod = _with_sidecar(pod, service, spec)
        if not pod.get("serviceAccountName"):
            pod["serviceAccountName"] = child_name(service["metadata"]["name"], "-kserve")
            accounts = [_account(service, pod["serviceAccountName"], labelled(service, "workload"))]
    template = {
        "metadata": {
            "labels": {**labels, **passed, **(part.get("labels") or {})},
            "annotations": {**annotations, **_told(part)},
        },
        "spec": with_weights(pod, spec),
    }
    found: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": template}
    if part.get("replicas") is not None:
        found["replicas"] = part["replicas"]
    rollout = part.get("rolloutStrategy") or {}
    if rollout:
        found["strategy"] = {
            "type": "RollingUpdate",
            "rollingUpdate": {k: rollout[k] for k in ("maxUnavailable", "maxSurge") if k in rollout},
        }
    own = meta(service, name, {**labels, **passed}, annotations)
    return [*accounts, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": own, "spec": found}]


def _leader_worker_set(
    service: Obj, spec: dict[str, Any], part: dict[str, Any], suffix: str, role: str
) -> list[Obj]:
    name = child_name(service["metadata"]["name"], f"-kserve-mn{suffix}")
    workers = labelled(service, f"workload-worker{suffix}")
    if part.get("template") is None:
        # Without a leader of their own, workers are what the pool selects.
        workers |= {SELECTED: "workload", ROLE: "prefill" if suffix else "decode"}
    # One account for all pods: what the leader is given, else what workers are, else one made for the set.
    account = (
        (part.get("template") or {}).get("serviceAccountName")
        or part["worker"].get("serviceAccountName")
        or name
    )
    made = [_account(service, name, labelled(service, f"workload{suffix}"))] if account == name else []
    more, told = part.get("labels") or {}, _told(part)

    def pod(template: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
        filled = _with_sidecar(template, service, spec) if _has_sidecar(template) else template
        filled = {**filled, "serviceAccountName": account}
        metadata = {"labels": {**labels, **more}, "annotations": told}
        return {"metadata": metadata, "spec": with_weights(filled, spec)}

    group: dict[str, Any] = {
        "size": size_of(part),
        "workerTemplate": pod(part["worker"], workers),
        "restartPolicy": "RecreateGroupOnPodRestart",
    }
    if part.get("template") is not None:
        group["leaderTemplate"] = pod(part["template"], labelled(service, f"workload-leader{suffix}", role))
    rollout = part.get("rolloutStrategy") or {}
    rolling = {k: rollout[k] for k in ("maxUnavailable", "maxSurge") if k in rollout}
    found: dict[str, Any] = {
        "leaderWorkerTemplate": group,
        "rolloutStrategy": {
            "type": "RollingUpdate",
            **({"rollingUpdateConfiguration": rolling} if rolling else {}),
        },
        "startupPolicy": "LeaderCreated",
    }
    if part.get("replicas") is not None:
        found["replicas"] = part["replicas"]
    own = meta(service, name, workers, _passed(annotations_of(service), _ANNOTATIONS))
    kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    return [*made, {**kind, "metadata": own, "spec": found}]


def size_of(part: dict[str, Any]) -> int:
    """Pods of a group: as many as data parallel ranks need where each pod takes `dataLocal`, or pipeline stages."""
    parallel = part.get("parallelism") or {}
    if parallel.get("data") or parallel.get("dataLocal"):
        return max(max(parallel.get("data") or 1, 1) // max(parallel.get("dataLocal") or 1, 1), 1)
    return int(parallel.get("pipeline") or 1)


def _has_sidecar(pod: dict[str, Any]) -> bool:
    return any(c.get("name") == SIDECAR for c in pod.get("initContainers") or ())


def _with_sidecar(pod: dict[str, Any], service: Obj, spec: dict[str, Any]) -> dict[str, Any]:
    """The sidecar that leads a prompt to whoever reads it, told of the pool."""
    if spec.get("router") is None:
        return pod
    told = {"name": "INFERENCE_POOL_NAME", "value": pool_name(service["metadata"]["name"], spec)}
    init = [
        {**c, "env": [*(c.get("env") or ()), told]} if c.get("name") == SIDECAR else c
        for c in pod["initContainers"]
    ]
    return {**pod, "initContainers": init}


def _account(service: Obj, name: str, labels: dict[str, str]) -> Obj:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(service, name, labels)}


def _certificates(service: Obj) -> Obj:
    """Unlike kube: nothing here speaks TLS, so the Secret that pods mount has no certificate in it."""
    name = child_name(service["metadata"]["name"], "-kserve-self-signed-certs")
    own = meta(service, name, {NAME: service["metadata"]["name"], PART_OF: "llminferenceservice"})
    return {"apiVersion": "v1", "kind": "Secret", "metadata": own, "type": "Opaque"}


def _service(service: Obj, spec: dict[str, Any], *, has_tls: bool) -> Obj:
    protocol = "https" if has_tls else "http"
    selector = {PART_OF: "llminferenceservice", NAME: service["metadata"]["name"], SELECTED: "workload"}
    port = {"name": protocol, "protocol": "TCP", "appProtocol": protocol, "port": 8000, "targetPort": 8000}
    labels = {**labelled(service, "workload"), **(spec.get("labels") or {})}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta(service, service_name(service), labels, _told(spec)),
        "spec": {"type": "ClusterIP", "selector": selector, "ports": [port]},
    }
