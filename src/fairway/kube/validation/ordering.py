"""In which order does kube-apiserver list what is wrong with an object?

Its validation functions look at fields in an order of their own, which kubectl shows. Fields are judged here as they
stand in a type; for the kinds people get wrong in several places at once, this is upstream's order.

Source: pkg/apis/{apps,batch}/validation/validation.go (v1.36).
"""

from __future__ import annotations

from fairway.kube.fieldpath import Path
from fairway.kube.validation.problem import Problem

_TEMPLATE = ("template", "metadata", "labels"), ("template",)
# Kind → the fields of its spec in the order they are looked at. Others come last.
_SPECS: dict[str, tuple[Path, ...]] = {
    "Deployment.apps": (
        ("replicas",),
        ("selector",),
        *_TEMPLATE,
        ("strategy",),
        ("minReadySeconds",),
        ("revisionHistoryLimit",),
        ("progressDeadlineSeconds",),
    ),
    "ReplicaSet.apps": (("replicas",), ("minReadySeconds",), ("selector",), *_TEMPLATE),
    "ReplicationController": (("minReadySeconds",), ("selector",), ("replicas",), *_TEMPLATE),
    "StatefulSet.apps": (
        ("podManagementPolicy",),
        ("updateStrategy",),
        ("persistentVolumeClaimRetentionPolicy",),
        ("replicas",),
        ("minReadySeconds",),
        ("ordinals",),
        ("serviceName",),
        ("selector",),
        *_TEMPLATE,
    ),
    "DaemonSet.apps": (
        ("template", "metadata", "labels"),
        ("selector",),
        ("template",),
        ("minReadySeconds",),
        ("updateStrategy",),
        ("revisionHistoryLimit",),
    ),
    "CronJob.batch": (
        ("schedule",),
        ("timeZone",),
        ("startingDeadlineSeconds",),
        ("concurrencyPolicy",),
        ("jobTemplate",),
        ("successfulJobsHistoryLimit",),
        ("failedJobsHistoryLimit",),
    ),
}


# The same of a pod's spec, wherever it stands. Source: pkg/apis/core/validation ValidatePodSpec.
_POD: tuple[str, ...] = (
    "volumes",
    "resourceClaims",
    "containers",
    "initContainers",
    "ephemeralContainers",
    "resources",
    "restartPolicy",
    "dnsPolicy",
    "nodeSelector",
    "securityContext",
    "imagePullSecrets",
    "affinity",
    "dnsConfig",
    "readinessGates",
    "schedulingGates",
    "topologySpreadConstraints",
    "serviceAccountName",
    "nodeName",
    "activeDeadlineSeconds",
    "hostname",
    "subdomain",
    "tolerations",
    "hostAliases",
    "priorityClassName",
    "runtimeClassName",
    "preemptionPolicy",
    "overhead",
)
_POD_SPECS: dict[str, Path] = {
    "Pod": ("spec",),
    "CronJob.batch": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        (
            "Job.batch",
            "Deployment.apps",
            "ReplicaSet.apps",
            "ReplicationController",
            "StatefulSet.apps",
            "DaemonSet.apps",
        ),
        ("spec", "template", "spec"),
    ),
}


def in_kubes_order(gk: str, problems: list[Problem]) -> list[Problem]:
    """The same problems; those of one field stay in their order."""
    order, pod = _SPECS.get(gk, ()), _POD_SPECS.get(gk)
    if pod is None or len(problems) < 2:
        return problems
    return sorted(problems, key=lambda problem: (_place(problem.path, order), _pod_place(problem.path, pod)))


def _place(path: Path, order: tuple[Path, ...]) -> int:
    if not path or path[0] != "spec":
        return -1
    for place, prefix in enumerate(order):
        if path[1 : 1 + len(prefix)] == prefix:
            return place
    return len(order)


def _pod_place(path: Path, pod: Path) -> int:
    """Where a pod's field is looked at; what is said of the pod as a whole, and of anything else, stays put."""
    if path[: len(pod)] != pod or len(path) == len(pod):
        return len(_POD)
    name = path[len(pod)]
    return _POD.index(name) if name in _POD else len(_POD)
