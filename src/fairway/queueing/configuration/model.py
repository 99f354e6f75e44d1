"""What is this Kueue configured to do? One frozen answer, and what of it each part of Kueue goes by.

Times are integer µs. Sections a simulation has no use for (TLS, leader election, webhook ports) are checked when
read and kept in `raw`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairway.kube.durations import duration_ns, duration_us
from fairway.kube.labels import EVERYTHING, Selector, label_selector
from fairway.queueing.control.settings import CustomLabel, KueueSettings, Metrics, PodsReady
from fairway.queueing.devices.mapping import DeviceClassMappings, device_class_mappings
from fairway.queueing.facts.featuregates import DEFAULTS as GATE_DEFAULTS
from fairway.queueing.facts.gates import FeatureGates, gates_from
from fairway.queueing.facts.transformations import Transformations, transformations
from fairway.queueing.integrations.settings import JobSettings
from fairway.queueing.preemption.fairsharing import DEFAULT_STRATEGIES
from fairway.queueing.quota.queueusage import UsageSettings, usage_settings
from fairway.queueing.webhooks.settings import Settings

_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class MultiKueue:
    gc_interval_us: int
    origin: str
    worker_lost_timeout_us: int
    dispatcher: str
    step_size: int | None
    external_frameworks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Configuration:
    """`raw`: the whole of it in v1beta2, defaulted. `gates_named`: feature gates it sets.

    `pods_ready` None: not waited for. `retained_us`, `deactivated_retained_us` None: kept for ever.
    """

    raw: Mapping[str, Any] = field(repr=False)
    namespace: str
    frameworks: tuple[str, ...]
    external_frameworks: tuple[str, ...]
    label_keys_to_copy: tuple[str, ...]
    manages_without_queue_name: bool
    managed_namespaces: Selector
    gates_named: Mapping[str, bool]
    pods_ready: PodsReady | None
    strategies: tuple[str, ...] | None
    usage: UsageSettings | None
    transformations: Transformations
    device_classes: DeviceClassMappings
    ignores_undeclared: bool
    retained_us: int | None
    deactivated_retained_us: int | None
    multi_kueue: MultiKueue
    metrics: Metrics
    client_qps: float
    client_burst: int
    concurrency: Mapping[str, int]

    @property
    def gates(self) -> FeatureGates:
        return gates_from(self.gates_named)[0]

    @property
    def uses_fair_sharing(self) -> bool:
        return self.strategies is not None

    def is_on(self, gate: str) -> bool:
        return self.gates_named.get(gate, GATE_DEFAULTS[gate])

    def webhook_settings(self) -> Settings:
        """What Kueue's webhooks go by."""
        return Settings(
            frameworks=self.frameworks,
            external=tuple(_group_kind(name) for name in self.external_frameworks),
            manages_without_queue_name=self.manages_without_queue_name,
            managed_namespaces=self.managed_namespaces,
            gates=self.gates_named,
        )

    def kueue_settings(self) -> KueueSettings:
        """What Kueue's controllers go by."""
        jobs = JobSettings(
            gates=self.gates,
            manages_without_queue_name=self.manages_without_queue_name,
            managed_namespaces=self.managed_namespaces,
            reports_pods_ready=self.pods_ready is not None,
            label_keys_to_copy=self.label_keys_to_copy,
            retained_us=self.deactivated_retained_us,
        )
        return KueueSettings(
            gates=self.gates,
            jobs=jobs,
            pods_ready=self.pods_ready,
            frameworks=self.frameworks,
            transformations=self.transformations,
            device_classes=self.device_classes,
            uses_fair_sharing=self.uses_fair_sharing,
            strategies=self.strategies or DEFAULT_STRATEGIES,
            ignores_undeclared=self.ignores_undeclared,
            usage=self.usage,
            retained_us=self.retained_us,
            webhooks=self.webhook_settings(),
            metrics=self.metrics,
        )


def _group_kind(argument: str) -> str:
    """`Foo.v1.example.com` → `Foo.example.com`."""
    kind, _, rest = argument.partition(".")
    return f"{kind}.{rest.partition('.')[2]}"


def configuration_of(raw: Mapping[str, Any]) -> Configuration:
    """From a complete and valid configuration in v1beta2."""
    integrations = raw["integrations"]
    resources = raw.get("resources") or {}
    gates = dict(raw.get("featureGates") or {})
    fair = raw.get("fairSharing")
    retention = (raw.get("objectRetentionPolicies") or {}).get("workloads") or {}
    usage = raw.get("admissionFairSharing")
    shows_local = gates.get("LocalQueueMetrics", GATE_DEFAULTS["LocalQueueMetrics"])
    checks_quota = gates.get("QuotaCheckStrategy", GATE_DEFAULTS["QuotaCheckStrategy"])
    return Configuration(
        raw=raw,
        namespace=raw["namespace"],
        frameworks=tuple(integrations["frameworks"]),
        external_frameworks=tuple(integrations.get("externalFrameworks") or ()),
        label_keys_to_copy=tuple(integrations.get("labelKeysToCopy") or ()),
        manages_without_queue_name=bool(raw.get("manageJobsWithoutQueueName")),
        managed_namespaces=label_selector(raw["managedJobsNamespaceSelector"]),
        gates_named=gates,
        pods_ready=None if gates.get("DisableWaitForPodsReady") else _pods_ready(raw.get("waitForPodsReady")),
        strategies=None if fair is None else tuple(fair["preemptionStrategies"]),
        usage=None if usage is None else _usage(usage),
        transformations=transformations(resources),
        device_classes=device_class_mappings(resources.get("deviceClassMappings") or ()),
        ignores_undeclared=checks_quota and resources.get("quotaCheckStrategy") == "IgnoreUndeclared",
        retained_us=duration_us(retention.get("afterFinished")),
        deactivated_retained_us=duration_us(retention.get("afterDeactivatedByKueue")),
        multi_kueue=_multi_kueue(raw["multiKueue"]),
        metrics=_metrics(raw["metrics"], is_gated_in=shows_local),
        client_qps=float(raw["clientConnection"]["qps"]),
        client_burst=int(raw["clientConnection"]["burst"]),
        concurrency=dict((raw.get("controller") or {}).get("groupKindConcurrency") or {}),
    )


def _pods_ready(waits: Mapping[str, Any] | None) -> PodsReady | None:
    if waits is None:
        return None
    strategy = waits["requeuingStrategy"]
    return PodsReady(
        timeout_us=_us(waits["timeout"]),
        recovery_us=duration_us(waits["recoveryTimeout"]),
        backoff_limit=strategy.get("backoffLimitCount"),
        backoff_base_us=strategy["backoffBaseSeconds"] * _SECOND_US,
        backoff_max_us=strategy["backoffMaxSeconds"] * _SECOND_US,
        blocks_admission=bool(waits["blockAdmission"]),
        requeues_by_eviction_time=strategy["timestamp"] == "Eviction",
    )


def _us(text: str) -> int:
    return duration_ns(text) // 1000


def _usage(section: Mapping[str, Any]) -> UsageSettings:
    """Go's durations in seconds, which the ledger reads too."""
    names = ("usageHalfLifeTime", "usageSamplingInterval")
    seconds = {name: duration_ns(section[name]) / 1e9 for name in names if section.get(name)}
    return usage_settings({**section, **seconds})


def _multi_kueue(section: Mapping[str, Any]) -> MultiKueue:
    return MultiKueue(
        gc_interval_us=_us(section["gcInterval"]),
        origin=section["origin"],
        worker_lost_timeout_us=_us(section["workerLostTimeout"]),
        dispatcher=section["dispatcherName"],
        step_size=(section.get("incrementalDispatcherConfig") or {}).get("stepSize"),
        external_frameworks=tuple(x["name"] for x in section.get("externalFrameworks") or ()),
    )


def _metrics(section: Mapping[str, Any], *, is_gated_in: bool) -> Metrics:
    of_queues = section["localQueueMetrics"]
    selector = of_queues.get("localQueueSelector")
    return Metrics(
        per_cluster_queue_resources=bool(section.get("enableClusterQueueResources")),
        per_local_queue=is_gated_in and bool(of_queues.get("enable")),
        local_queues=EVERYTHING if selector is None else label_selector(selector),
        custom_labels=tuple(
            CustomLabel(
                name=label["name"],
                source_kind=label.get("sourceKind", "ClusterQueue"),
                label_key=label.get("sourceLabelKey", ""),
                annotation_key=label.get("sourceAnnotationKey", ""),
                tracked_values=tuple(label.get("trackedValues") or ()),
            )
            for label in section.get("customLabels") or ()
        ),
    )
