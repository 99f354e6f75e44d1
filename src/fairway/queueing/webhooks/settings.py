"""What of Kueue's Configuration do its webhooks depend on?

`Settings` is what `configuration.Configuration` hands them; `DEFAULTS` is a Kueue as its manifests install it.

Source: pkg/features/kube_features.go, apis/config/v1beta2/defaults.go, config/components/manager (main, 2026-08).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairway.kube.labels import NOT_IN, Requirement, Selector
from fairway.queueing.facts.featuregates import DEFAULTS as GATE_DEFAULTS

NAMESPACE = "kueue-system"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
MANAGED_NAMESPACES = Selector((Requirement(NAMESPACE_LABEL, NOT_IN, ("kube-system", NAMESPACE)),))

# Kinds of jobs Kueue has an integration for: framework → group kinds. Source: pkg/controller/jobs/*/ FrameworkName.
FRAMEWORKS: Mapping[str, str] = {
    "batch/job": "Job.batch",
    "deployment": "Deployment.apps",
    "jobset.x-k8s.io/jobset": "JobSet.jobset.x-k8s.io",
    "kubeflow.org/jaxjob": "JAXJob.kubeflow.org",
    "kubeflow.org/mpijob": "MPIJob.kubeflow.org",
    "kubeflow.org/paddlejob": "PaddleJob.kubeflow.org",
    "kubeflow.org/pytorchjob": "PyTorchJob.kubeflow.org",
    "kubeflow.org/tfjob": "TFJob.kubeflow.org",
    "kubeflow.org/xgboostjob": "XGBoostJob.kubeflow.org",
    "leaderworkerset.x-k8s.io/leaderworkerset": "LeaderWorkerSet.leaderworkerset.x-k8s.io",
    "pod": "Pod",
    "ray.io/raycluster": "RayCluster.ray.io",
    "ray.io/rayjob": "RayJob.ray.io",
    "ray.io/rayservice": "RayService.ray.io",
    "sparkoperator.k8s.io/sparkapplication": "SparkApplication.sparkoperator.k8s.io",
    "statefulset": "StatefulSet.apps",
    "trainer.kubeflow.org/trainjob": "TrainJob.trainer.kubeflow.org",
    "workload.codeflare.dev/appwrapper": "AppWrapper.workload.codeflare.dev",
}
# What Kueue's own manifests turn on.
INSTALLED_FRAMEWORKS = (
    "batch/job",
    "kubeflow.org/mpijob",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "jobset.x-k8s.io/jobset",
    "workload.codeflare.dev/appwrapper",
    "trainer.kubeflow.org/trainjob",
    "pod",
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """`frameworks`: integrations that are on; `external`: group kinds managed by others' controllers.

    `gates`: feature gates that differ from their defaults.
    """

    frameworks: tuple[str, ...] = INSTALLED_FRAMEWORKS
    external: tuple[str, ...] = ()
    manages_without_queue_name: bool = False
    managed_namespaces: Selector = MANAGED_NAMESPACES
    gates: Mapping[str, bool] = field(default_factory=dict)

    def is_on(self, gate: str) -> bool:
        """Whether a feature gate is enabled."""
        return self.gates.get(gate, GATE_DEFAULTS[gate])

    def manages(self, group_kind: str) -> bool:
        """Whether jobs of this kind pass Kueue's webhooks."""
        return group_kind in self.external or any(
            FRAMEWORKS.get(name) == group_kind for name in self.frameworks
        )

    def defaults_and_checks(self, group_kind: str) -> bool:
        """Whether this kind has a webhook of Kueue's that is on (external frameworks have none)."""
        return any(FRAMEWORKS.get(name) == group_kind for name in self.frameworks)


DEFAULTS = Settings()
