"""A Configuration that says everything, one that says nothing, and one of v1beta1: all of what each comes to."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import Any

import pytest

from fairway.kube.labels import label_selector
from fairway.queueing.configuration import configured
from fairway.queueing.configuration.defaulting import settled
from fairway.queueing.configuration.model import MultiKueue
from fairway.queueing.control.settings import CustomLabel, Metrics, PodsReady
from fairway.queueing.devices.mapping import DeviceClassMapping, Source
from fairway.queueing.facts.transformations import Transformation, transformations
from fairway.queueing.preemption.fairsharing import DEFAULT_STRATEGIES
from fairway.queueing.quota.queueusage import UsageSettings

Raw = dict[str, Any]
_MINUTE = 60_000_000
_CEL = {"deviceSelector": {"cel": {"expression": "true"}}}

EVERYTHING: Raw = {
    "namespace": "kueue",
    "manageJobsWithoutQueueName": True,
    "managedJobsNamespaceSelector": {"matchLabels": {"team": "a"}},
    "integrations": {
        "frameworks": ["pod", "batch/job"],
        "externalFrameworks": ["Foo.v1.example.com", "Bar.v2.other.example.com"],
        "labelKeysToCopy": ["team", "cost"],
    },
    "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]},
    "waitForPodsReady": {
        "timeout": "10m",
        "recoveryTimeout": "3m",
        "blockAdmission": True,
        "requeuingStrategy": {
            "timestamp": "Creation",
            "backoffLimitCount": 2,
            "backoffBaseSeconds": 7,
            "backoffMaxSeconds": 77,
        },
    },
    "resources": {
        "excludeResourcePrefixes": ["example.com/", "x"],
        "transformations": [
            {"input": "a", "strategy": "Replace", "multiplyBy": "n", "outputs": {"b": "2", "c": "500m"}},
            {"input": "d"},
        ],
        "deviceClassMappings": [
            {
                "name": "gpus",
                "deviceClassNames": ["gpu.example.com", "gpu2.example.com"],
                "sources": [
                    {"counter": {"name": "slices", "driver": "d.example.com", **_CEL}},
                    {"counter": {"name": "memory", "driver": "e.example.com", **_CEL}},
                ],
            },
            {
                "name": "shares",
                "deviceClassNames": ["share.example.com"],
                "sources": [{"capacity": {"name": "memory", "driver": "s.example.com", **_CEL}}],
            },
        ],
    },
    "admissionFairSharing": {
        "usageHalfLifeTime": "1h30m",
        "usageSamplingInterval": "2m30s",
        "resourceWeights": {"cpu": 2.5},
    },
    "objectRetentionPolicies": {"workloads": {"afterFinished": "1h", "afterDeactivatedByKueue": "0s"}},
    "featureGates": {
        "PartialAdmission": False,
        "ConcurrentAdmission": True,
        "KueueDRAIntegrationConsumableCapacity": True,
    },
    "multiKueue": {
        "gcInterval": "2m",
        "origin": "here",
        "workerLostTimeout": "5m",
        "dispatcherName": "kueue.x-k8s.io/multikueue-dispatcher-incremental",
        "externalFrameworks": [{"name": "Foo.v1.example.com"}],
    },
    "metrics": {
        "enableClusterQueueResources": True,
        "localQueueMetrics": {"enable": True, "localQueueSelector": {"matchLabels": {"tier": "gold"}}},
        "customLabels": [
            {"name": "team"},
            {
                "name": "cost",
                "sourceKind": "Workload",
                "sourceAnnotationKey": "x/cost",
                "trackedValues": ["a", "b"],
            },
            {"name": "area", "sourceLabelKey": "x/area"},
        ],
    },
    "clientConnection": {"qps": 12.5, "burst": 34},
    "controller": {"groupKindConcurrency": {"Job.batch": 5}},
}


def test_everything() -> None:
    config = configured(EVERYTHING)
    assert config.raw["integrations"]["frameworks"] == ["pod", "batch/job"]
    want: Raw = {
        "raw": config.raw,
        "namespace": "kueue",
        "frameworks": ("pod", "batch/job"),
        "external_frameworks": ("Foo.v1.example.com", "Bar.v2.other.example.com"),
        "label_keys_to_copy": ("team", "cost"),
        "manages_without_queue_name": True,
        "managed_namespaces": label_selector({"matchLabels": {"team": "a"}}),
        "gates_named": {
            "ConcurrentAdmission": True,
            "KueueDRAIntegrationConsumableCapacity": True,
            "PartialAdmission": False,
        },
        "pods_ready": PodsReady(
            timeout_us=10 * _MINUTE,
            recovery_us=3 * _MINUTE,
            backoff_limit=2,
            backoff_base_us=7_000_000,
            backoff_max_us=77_000_000,
            blocks_admission=True,
            requeues_by_eviction_time=False,
        ),
        "strategies": ("LessThanInitialShare",),
        "usage": UsageSettings(5400.0, 150.0, {"cpu": 2.5}),
        "ignores_undeclared": False,
        "retained_us": 60 * _MINUTE,
        "deactivated_retained_us": 0,
        "multi_kueue": MultiKueue(
            2 * _MINUTE,
            "here",
            5 * _MINUTE,
            "kueue.x-k8s.io/multikueue-dispatcher-incremental",
            3,
            ("Foo.v1.example.com",),
        ),
        "metrics": Metrics(
            per_cluster_queue_resources=True,
            per_local_queue=True,
            local_queues=label_selector({"matchLabels": {"tier": "gold"}}),
            custom_labels=(
                CustomLabel("team", "ClusterQueue", "", ""),
                CustomLabel("cost", "Workload", "", "x/cost", ("a", "b")),
                CustomLabel("area", "ClusterQueue", "x/area", ""),
            ),
        ),
        "client_qps": 12.5,
        "client_burst": 34,
        "concurrency": {"Job.batch": 5},
    }
    for name, value in want.items():
        assert getattr(config, name) == value, name
    assert config.transformations.excluded_prefixes == ("example.com/", "x")
    assert config.transformations.rules == (
        Transformation("a", False, "n", (("b", Fraction(2)), ("c", Fraction(1, 2)))),
        Transformation("d", True, "", ()),
    )
    assert config.device_classes.entries == (
        DeviceClassMapping(
            "gpus",
            ("gpu.example.com", "gpu2.example.com"),
            (Source("d.example.com", "slices", "true"), Source("e.example.com", "memory", "true")),
        ),
        DeviceClassMapping(
            "shares", ("share.example.com",), (), (Source("s.example.com", "memory", "true"),)
        ),
    )
    kueue, door = config.kueue_settings(), config.webhook_settings()
    assert (kueue.frameworks, kueue.pods_ready) == (config.frameworks, config.pods_ready)
    assert (kueue.transformations, kueue.device_classes) == (config.transformations, config.device_classes)
    assert (kueue.uses_fair_sharing, kueue.strategies) == (True, ("LessThanInitialShare",))
    assert (kueue.usage, kueue.retained_us, kueue.metrics) == (config.usage, 60 * _MINUTE, config.metrics)
    assert (kueue.webhooks, kueue.gates) == (door, config.gates)
    assert not kueue.ignores_undeclared
    assert kueue.jobs.retained_us == 0
    assert kueue.jobs.gates == config.gates
    assert kueue.jobs.reports_pods_ready and kueue.jobs.manages_without_queue_name
    assert kueue.jobs.managed_namespaces == config.managed_namespaces
    assert kueue.jobs.label_keys_to_copy == ("team", "cost")
    assert (door.frameworks, door.external) == (
        ("pod", "batch/job"),
        ("Foo.example.com", "Bar.other.example.com"),
    )
    assert door.manages_without_queue_name
    assert (door.managed_namespaces, door.gates) == (config.managed_namespaces, config.gates_named)
    assert (config.is_on("PartialAdmission"), config.is_on("TopologyAwareScheduling")) == (False, True)


def test_nothing() -> None:
    """Defaults of apis/config/v1beta2/defaults.go."""
    config = configured({"integrations": {}})
    exempt = {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["kube-system", "kueue-system"],
            }
        ]
    }
    want: Raw = {
        "namespace": "kueue-system",
        "webhook": {"port": 9443, "certDir": "/tmp/k8s-webhook-server/serving-certs"},
        "metrics": {"bindAddress": ":8443", "localQueueMetrics": {"enable": True}},
        "health": {"healthProbeBindAddress": ":8081"},
        "leaderElection": {
            "leaderElect": True,
            "leaseDuration": "15s",
            "renewDeadline": "10s",
            "retryPeriod": "2s",
            "resourceLock": "leases",
            "resourceName": "c1f6bfd2.kueue.x-k8s.io",
        },
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": "kueue-webhook-service",
            "webhookSecretName": "kueue-webhook-server-cert",
        },
        "clientConnection": {"qps": 300.0, "burst": 500},
        "waitForPodsReady": {
            "timeout": "30m",
            "recoveryTimeout": "30m",
            "blockAdmission": False,
            "requeuingStrategy": {
                "timestamp": "Eviction",
                "backoffBaseSeconds": 60,
                "backoffMaxSeconds": 3600,
            },
        },
        "integrations": {"frameworks": ["batch/job"]},
        "managedJobsNamespaceSelector": exempt,
        "multiKueue": {
            "gcInterval": "1m",
            "origin": "multikueue",
            "workerLostTimeout": "15m",
            "dispatcherName": "kueue.x-k8s.io/multikueue-dispatcher-all-at-once",
        },
        "visibilityServer": {"bindPort": 8082},
    }
    assert config.raw == want
    assert config.pods_ready == PodsReady()
    assert config.metrics == Metrics()
    assert config.multi_kueue == MultiKueue(
        _MINUTE, "multikueue", 15 * _MINUTE, want["multiKueue"]["dispatcherName"], None
    )
    assert (config.retained_us, config.deactivated_retained_us, config.usage) == (None, None, None)
    assert not config.manages_without_queue_name
    assert (config.external_frameworks, config.label_keys_to_copy, config.concurrency) == ((), (), {})
    kueue = config.kueue_settings()
    assert (kueue.uses_fair_sharing, kueue.strategies) == (False, DEFAULT_STRATEGIES)
    assert kueue.jobs.retained_us is None


@pytest.mark.parametrize(
    ("version", "said", "path", "want"),
    [
        ("v1beta2", {"waitForPodsReady": {"timeout": "0s"}}, "waitForPodsReady.timeout", "30m"),
        ("v1beta2", {"waitForPodsReady": {"timeout": "1m"}}, "waitForPodsReady.recoveryTimeout", "1m"),
        ("v1beta1", {"waitForPodsReady": {"enable": True}}, "waitForPodsReady.timeout", "5m"),
        ("v1beta1", {"waitForPodsReady": {"enable": True}}, "waitForPodsReady.blockAdmission", True),
        (
            "v1beta1",
            {"waitForPodsReady": {"enable": True, "blockAdmission": False}},
            "waitForPodsReady.blockAdmission",
            False,
        ),
        ("v1beta1", {"waitForPodsReady": {"enable": True}}, "waitForPodsReady.enable", None),
        ("v1beta1", {}, "waitForPodsReady", None),
        (
            "v1beta2",
            {"waitForPodsReady": {"requeuingStrategy": {"backoffBaseSeconds": 5}}},
            "waitForPodsReady.requeuingStrategy",
            {"timestamp": "Eviction", "backoffBaseSeconds": 5, "backoffMaxSeconds": 3600},
        ),
        ("v1beta1", {"queueVisibility": {"clusterQueues": {}}}, "queueVisibility", None),
        ("v1beta1", {"integrations": {"podOptions": {}}}, "integrations", {"frameworks": ["batch/job"]}),
        ("v1beta2", {"integrations": {"frameworks": ["pod"]}}, "integrations", {"frameworks": ["pod"]}),
        ("v1beta2", {"webhook": {"port": 1, "certDir": ""}}, "webhook.port", 1),
        (
            "v1beta2",
            {"webhook": {"certDir": ""}},
            "webhook.certDir",
            "/tmp/k8s-webhook-server/serving-certs",
        ),
        (
            "v1beta2",
            {"internalCertManagement": {"enable": False}},
            "internalCertManagement",
            {"enable": False},
        ),
        (
            "v1beta2",
            {"namespace": "k"},
            "managedJobsNamespaceSelector.matchExpressions.0.values",
            ["kube-system", "k"],
        ),
        ("v1beta1", {"fairSharing": {"enable": True}}, "fairSharing.enable", None),
        (
            "v1beta1",
            {"fairSharing": {"enable": True, "preemptionStrategies": ["LessThanInitialShare"]}},
            "fairSharing.preemptionStrategies",
            ["LessThanInitialShare"],
        ),
        ("v1beta1", {"fairSharing": {}}, "fairSharing", None),
        ("v1beta2", {"fairSharing": {}}, "fairSharing", {}),
        (
            "v1beta2",
            {"admissionFairSharing": {"usageSamplingInterval": "0s"}},
            "admissionFairSharing.usageSamplingInterval",
            "5m",
        ),
        (
            "v1beta2",
            {"admissionFairSharing": {"usageSamplingInterval": "1s"}},
            "admissionFairSharing.usageSamplingInterval",
            "1s",
        ),
        (
            "v1beta2",
            {"admissionFairSharing": {"usageSamplingInterval": "0m"}},
            "admissionFairSharing.usageSamplingInterval",
            "5m",
        ),
        ("v1beta2", {"waitForPodsReady": {"timeout": "0h0m"}}, "waitForPodsReady.timeout", "30m"),
        ("v1beta2", {"multiKueue": {"origin": ""}}, "multiKueue.origin", "multikueue"),
        (
            "v1beta2",
            {
                "multiKueue": {
                    "dispatcherName": "kueue.x-k8s.io/multikueue-dispatcher-incremental",
                    "incrementalDispatcherConfig": {"stepSize": 9},
                }
            },
            "multiKueue.incrementalDispatcherConfig.stepSize",
            9,
        ),
        (
            "v1beta2",
            {"resources": {"transformations": [{"input": "a"}, {"input": "b", "strategy": "Replace"}]}},
            "resources.transformations",
            [{"input": "a", "strategy": "Retain"}, {"input": "b", "strategy": "Replace"}],
        ),
        ("v1beta2", {"health": None, "tls": {"minVersion": None, "a": [None]}}, "tls", {"a": [None]}),
    ],
)
def test_what_is_filled_in(version: str, said: Raw, path: str, want: Any) -> None:
    found: Any = settled(said, version)
    for step in path.split("."):
        found = found[int(step)] if isinstance(found, list) else (found or {}).get(step)
    assert found == want


def test_durations_are_those_of_go() -> None:
    section: Raw = {"usageHalfLifeTime": "+1h", "usageSamplingInterval": ".5m"}
    assert configured({"admissionFairSharing": section}).usage == UsageSettings(3600.0, 30.0, {})
    assert configured({"admissionFairSharing": {}}).usage == UsageSettings(0.0, 300.0, {})
    found = configured({"multiKueue": {"gcInterval": "0s", "workerLostTimeout": "+.5ms"}}).multi_kueue
    assert (found.gc_interval_us, found.worker_lost_timeout_us) == (0, 500)


@pytest.mark.parametrize(
    ("gates", "resources", "want"),
    [
        ({}, {"quotaCheckStrategy": "IgnoreUndeclared"}, True),
        ({"QuotaCheckStrategy": True}, {"quotaCheckStrategy": "IgnoreUndeclared"}, True),
        ({"QuotaCheckStrategy": True}, {"quotaCheckStrategy": "BlockUndeclared"}, False),
        ({"QuotaCheckStrategy": True}, {}, False),
        ({"QuotaCheckStrategy": False}, {"quotaCheckStrategy": "IgnoreUndeclared"}, False),
    ],
)
def test_undeclared_resources_are_free_where_a_gate_and_the_strategy_say_so(
    gates: Raw, resources: Raw, want: bool
) -> None:
    config = configured({"featureGates": gates, "resources": resources})
    assert config.ignores_undeclared == want
    assert config.kueue_settings().ignores_undeclared == want


def test_metrics_of_local_queues_need_their_gate_and_their_switch() -> None:
    for gate, switch in ((True, True), (True, False), (False, True), (False, False)):
        config = configured(
            {
                "featureGates": {"LocalQueueMetrics": gate},
                "metrics": {"localQueueMetrics": {"enable": switch}},
            }
        )
        assert config.metrics.per_local_queue == (gate and switch)
    assert asdict(configured({"metrics": {}}).metrics)["per_cluster_queue_resources"] is False


@pytest.mark.parametrize(
    ("requests", "want"),
    [
        ({}, {}),
        ({"x-1": 4, "y": 4}, {"y": 4}),
        ({"cpu": 1500}, {"cpu": 1500, "cores": 2}),
        ({"cpu": 1500, "cores": 1}, {"cpu": 1500, "cores": 3}),
        ({"half": 3}, {"cpu": 1500}),
        ({"half": 3, "cpu": 250}, {"cpu": 1750, "cores": 1}),
        ({"minus": 3}, {"debt": 0}),
        ({"minus": 3, "debt": 5}, {"debt": 5}),
        ({"card": 2}, {"card": 2, "points": 20}),
        ({"card": 2, "cpu": 3000}, {"card": 2, "points": 60, "cpu": 3000, "cores": 3}),
        ({"third": 1}, {"points": 1}),
        ({"third": 4, "card": 1}, {"points": 12, "card": 1}),
    ],
)
def test_transformed_requests(requests: dict[str, int], want: dict[str, int]) -> None:
    """Cores are whole where they are put out as another resource; parts of a unit count as one."""
    rules = transformations(
        {
            "excludeResourcePrefixes": ["x"],
            "transformations": [
                {"input": "cpu", "strategy": "Retain", "outputs": {"cores": "1"}},
                {"input": "half", "strategy": "Replace", "outputs": {"cpu": "500m"}},
                {"input": "minus", "strategy": "Replace", "outputs": {"debt": "-1"}},
                {"input": "card", "multiplyBy": "cpu", "outputs": {"points": "10"}},
                {"input": "third", "strategy": "Replace", "outputs": {"points": "300m"}},
                {"input": "absent", "outputs": {"points": "7"}},
            ],
        }
    )
    assert rules.apply(requests) == want
