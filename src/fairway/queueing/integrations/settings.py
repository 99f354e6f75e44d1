"""What of Kueue's Configuration concerns jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairway.kube.labels import Selector, label_selector
from fairway.queueing.facts.gates import DEFAULT_GATES, FeatureGates

# Source: apis/config/v1beta2/defaults.go: the namespaces of Kubernetes and of Kueue itself are left alone.
_EVERYBODY_ELSE = {
    "matchExpressions": [
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", "kueue-system"],
        }
    ]
}


@dataclass(frozen=True, slots=True)
class JobSettings:
    """`manages_without_queue_name`: every job of the managed namespaces is Kueue's.

    `reports_pods_ready`: Workloads carry the condition PodsReady (waitForPodsReady is configured, as it is by
    default). `retained_us`: how long jobs stay that Kueue deactivated; None: for ever.
    """

    gates: FeatureGates = DEFAULT_GATES
    manages_without_queue_name: bool = False
    managed_namespaces: Selector = field(default_factory=lambda: label_selector(_EVERYBODY_ELSE))
    reports_pods_ready: bool = True
    label_keys_to_copy: Sequence[str] = ()
    retained_us: int | None = None

    def manages_namespace(self, name: str, labels: Mapping[str, str]) -> bool:
        """The API server labels every namespace with its name."""
        return self.managed_namespaces.matches({"kubernetes.io/metadata.name": name, **labels})


DEFAULT_SETTINGS = JobSettings()
