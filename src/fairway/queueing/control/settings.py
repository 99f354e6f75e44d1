"""What of Kueue's Configuration concerns Workloads and queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairway.kube.labels import EVERYTHING, Selector
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US
from fairway.queueing.devices.mapping import NO_MAPPINGS, DeviceClassMappings
from fairway.queueing.facts.gates import DEFAULT_GATES, FeatureGates
from fairway.queueing.facts.transformations import NO_TRANSFORMATIONS, Transformations
from fairway.queueing.integrations.settings import DEFAULT_SETTINGS, JobSettings
from fairway.queueing.preemption.fairsharing import DEFAULT_STRATEGIES
from fairway.queueing.quota.queueusage import UsageSettings
from fairway.queueing.webhooks.settings import DEFAULTS as DEFAULT_WEBHOOKS
from fairway.queueing.webhooks.settings import INSTALLED_FRAMEWORKS
from fairway.queueing.webhooks.settings import Settings as WebhookSettings

# Events of one cohort tree wake its queues together. Source: pkg/cache/queue requeueBatchPeriod.
WAKE_BATCH_US: Final = SECOND_US
# Changes of Workloads reach the status of their queues together. Source: pkg/constants UpdatesBatchPeriod.
STATUS_BATCH_US: Final = SECOND_US


@dataclass(frozen=True, slots=True)
class PodsReady:
    """`waitForPodsReady`, which is on by default.

    `recovery_us` None: a pod that fails may take for ever to come back. `backoff_limit` None: requeued for ever.
    `blocks_admission`: one Workload after another, each once the pods of all before are ready.

    Source: apis/config/v1beta2/defaults.go.
    """

    timeout_us: int = 30 * MINUTE_US
    recovery_us: int | None = 30 * MINUTE_US
    backoff_limit: int | None = None
    backoff_base_us: int = MINUTE_US
    backoff_max_us: int = HOUR_US
    blocks_admission: bool = False
    requeues_by_eviction_time: bool = True


@dataclass(frozen=True, slots=True)
class CustomLabel:
    """A label of metrics: `name`, taken from a label or an annotation of objects of a kind."""

    name: str
    source_kind: str
    label_key: str
    annotation_key: str
    tracked_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metrics:
    """`per_cluster_queue_resources`: quotas and usage are exported. `local_queues`: of LocalQueues that match."""

    per_cluster_queue_resources: bool = False
    per_local_queue: bool = True
    local_queues: Selector = EVERYTHING
    custom_labels: tuple[CustomLabel, ...] = ()

    def shows(self, labels: Mapping[str, str]) -> bool:
        """Whether metrics of a LocalQueue with these labels are exported."""
        return self.per_local_queue and self.local_queues.matches(labels)


@dataclass(frozen=True, slots=True)
class KueueSettings:
    """How this Kueue was configured; the defaults are Kueue's.

    `pods_ready` None: not watched. `frameworks`: the kinds of jobs it looks after; its webhooks go by the same
    list. `retained_us`: how long finished Workloads stay; None: for ever. `usage`: admission fair sharing, None
    where it is off. `metrics`: quotas and usage are among them unless a Configuration leaves them out.
    """

    gates: FeatureGates = DEFAULT_GATES
    jobs: JobSettings = DEFAULT_SETTINGS
    webhooks: WebhookSettings = DEFAULT_WEBHOOKS
    pods_ready: PodsReady | None = field(default_factory=PodsReady)
    frameworks: tuple[str, ...] = INSTALLED_FRAMEWORKS
    transformations: Transformations = NO_TRANSFORMATIONS
    device_classes: DeviceClassMappings = NO_MAPPINGS
    uses_fair_sharing: bool = False
    strategies: tuple[str, ...] = DEFAULT_STRATEGIES
    ignores_undeclared: bool = False
    usage: UsageSettings | None = None
    retained_us: int | None = None
    wake_batch_us: int = WAKE_BATCH_US
    status_batch_us: int = STATUS_BATCH_US
    metrics: Metrics = Metrics(per_cluster_queue_resources=True)


DEFAULT_KUEUE: Final = KueueSettings()
