"""In which order are the objects of some files created? What others refer to comes first, else as they were written."""

from __future__ import annotations

from typing import Final

from fairway.kube.objects import Obj, gk_of

_ADMISSION: Final = "admissionregistration.k8s.io"
_STEPS: Final = (
    ("CustomResourceDefinition.apiextensions.k8s.io", "Namespace"),
    tuple(
        f"{how}{what}.{_ADMISSION}"
        for what in ("AdmissionPolicy", "AdmissionPolicyBinding", "WebhookConfiguration")
        for how in ("Validating", "Mutating")
    ),
    (
        "ConfigMap",
        "Secret",
        "ServiceAccount",
        "PriorityClass.scheduling.k8s.io",
        "RuntimeClass.node.k8s.io",
        "StorageClass.storage.k8s.io",
        "IngressClass.networking.k8s.io",
        "ResourceFlavor.kueue.x-k8s.io",
        "Cohort.kueue.x-k8s.io",
        "WorkloadPriorityClass.kueue.x-k8s.io",
    ),
    ("ClusterQueue.kueue.x-k8s.io", "LimitRange", "ResourceQuota"),
    ("LocalQueue.kueue.x-k8s.io", "Service", "PodDisruptionBudget.policy"),
    ("Node",),
)
_STEP_OF: Final = {gk: number for number, kinds in enumerate(_STEPS) for gk in kinds}


def creation_step(obj: Obj) -> int:
    """To sort by."""
    return _STEP_OF.get(gk_of(obj), len(_STEPS))
