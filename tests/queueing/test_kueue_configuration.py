"""Kueue's Configuration file: what it means, and what is refused with which words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.errors import InvalidInput
from fairway.kube.durations import duration_ns, go_duration
from fairway.kube.manifest import read_text
from fairway.queueing.configuration import configured, faults_in, read_configuration
from fairway.queueing.control.settings import PodsReady
from fairway.queueing.facts.featuregates import DEFAULTS
from fairway.queueing.facts.gates import FeatureGates, field_of

V1 = {"apiVersion": "config.kueue.x-k8s.io/v1beta1", "kind": "Configuration"}
MINUTE_US = 60_000_000
STRATEGIES = (
    'supported values: "LessThanOrEqualToFinalShare", "LessThanInitialShare", '
    '"LessThanOrEqualToFinalShare,LessThanInitialShare"'
)
BELOW_0 = "must be greater than or equal to 0"

WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an unknown field": ({"fairShare": {}}, ["fairShare: unknown field"]),
    "v1beta1's switch in v1beta2": (
        {"fairSharing": {"enable": True, "preemptionStrategies": ["LessThanInitialShare"]}},
        ["fairSharing.enable: unknown field"],
    ),
    "another kind of thing": (
        {"apiVersion": "v1", "kind": "ConfigMap"},
        [
            'apiVersion: Invalid value: "v1": expected a Configuration of config.kueue.x-k8s.io/v1beta2 or '
            "config.kueue.x-k8s.io/v1beta1"
        ],
    ),
    "a word for a truth value": (
        {"manageJobsWithoutQueueName": "yes"},
        [
            'manageJobsWithoutQueueName: Invalid value: "string": manageJobsWithoutQueueName in body must be of type '
            'boolean: "string"'
        ],
    ),
    "a duration nobody can read": (
        {"waitForPodsReady": {"timeout": "5 minutes"}},
        ['waitForPodsReady.timeout: Invalid value: "5 minutes": time: invalid duration "5 minutes"'],
    ),
    "days, which Go does not know": (
        {"admissionFairSharing": {"usageHalfLifeTime": "7d"}},
        ['admissionFairSharing.usageHalfLifeTime: Invalid value: "7d": time: invalid duration "7d"'],
    ),
    "a gate nobody knows": (
        {"featureGates": {"FairShare": True}},
        ['featureGates: Invalid value: {"FairShare":true}: unrecognized feature gate: FairShare'],
    ),
    "a gate that is locked": (
        {"featureGates": {"TLSOptions": False}},
        [
            'featureGates: Invalid value: {"TLSOptions":false}: cannot set feature gate TLSOptions to false, feature '
            "is locked to true"
        ],
    ),
    "a topology profile without topologies": (
        {"featureGates": {"TopologyAwareScheduling": False}},
        ["featureGates: Invalid value: 1: cannot use a TAS profile with TAS disabled"],
    ),
    "fair sharing without strategies": (
        {"fairSharing": {}},
        ["fairSharing.preemptionStrategies: Required value: must be specified"],
    ),
    "strategies in the other order": (
        {"fairSharing": {"preemptionStrategies": ["LessThanInitialShare", "LessThanOrEqualToFinalShare"]}},
        [
            "fairSharing.preemptionStrategies: Unsupported value: "
            f'["LessThanInitialShare","LessThanOrEqualToFinalShare"]: {STRATEGIES}'
        ],
    ),
    "a negative timeout": (
        {"waitForPodsReady": {"timeout": "-5m", "recoveryTimeout": "1m"}},
        [f'waitForPodsReady.timeout: Invalid value: "-5m0s": {BELOW_0}'],
    ),
    "a requeuing order nobody knows": (
        {"waitForPodsReady": {"requeuingStrategy": {"timestamp": "Now"}}},
        [
            'waitForPodsReady.requeuingStrategy.timestamp: Unsupported value: "Now": supported values: "Creation", '
            '"Eviction"'
        ],
    ),
    "negative backoffs": (
        {
            "waitForPodsReady": {
                "requeuingStrategy": {
                    "backoffLimitCount": -1,
                    "backoffBaseSeconds": -2,
                    "backoffMaxSeconds": -3,
                }
            }
        },
        [
            f"waitForPodsReady.requeuingStrategy.backoffLimitCount: Invalid value: -1: {BELOW_0}",
            f"waitForPodsReady.requeuingStrategy.backoffBaseSeconds: Invalid value: -2: {BELOW_0}",
            f"waitForPodsReady.requeuingStrategy.backoffMaxSeconds: Invalid value: -3: {BELOW_0}",
        ],
    ),
    "a framework twice": (
        {"integrations": {"frameworks": ["pod", "pod"]}},
        ['integrations.frameworks[1]: Duplicate value: "pod"'],
    ),
    "an external framework without a version": (
        {"integrations": {"frameworks": ["pod"], "externalFrameworks": ["Foo"]}},
        [
            "integrations.externalFrameworks[0]: Invalid value: \"Foo\": must be format, 'Kind.version.group.com'"
        ],
    ),
    "a selector that takes Kueue's own namespace": (
        {"managedJobsNamespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kueue-system"}}},
        [
            'managedJobsNamespaceSelector: Invalid value: {"matchLabels":{"kubernetes.io/metadata.name":'
            '"kueue-system"}}: should not match the "kueue-system" namespace'
        ],
    ),
    "a transformation nobody knows": (
        {"resources": {"transformations": [{"input": "a", "strategy": "Keep"}]}},
        [
            'resources.transformations[0].strategy: Unsupported value: "Keep": supported values: "Retain", "Replace"'
        ],
    ),
    "two transformations of one resource": (
        {"resources": {"transformations": [{"input": "a"}, {"input": "a"}]}},
        ['resources.transformations[1].input: Duplicate value: "a"'],
    ),
    "a device class for two resources": (
        {
            "resources": {
                "deviceClassMappings": [
                    {"name": "gpus", "deviceClassNames": ["gpu.example.com"]},
                    {"name": "cards", "deviceClassNames": ["gpu.example.com"]},
                ]
            }
        },
        [
            'resources.deviceClassMappings[1].deviceClassNames[0]: Invalid value: "gpu.example.com": device class '
            "already mapped to resource gpus"
        ],
    ),
    "a resource without device classes": (
        {"resources": {"deviceClassMappings": [{"name": "gpus"}]}},
        [
            "resources.deviceClassMappings[0].deviceClassNames: Required value: at least one device class name is "
            "required"
        ],
    ),
    "sources that are not allowed, or say too little": (
        {
            "resources": {
                "deviceClassMappings": [
                    {
                        "name": "gpus",
                        "deviceClassNames": ["gpu.example.com"],
                        "sources": [
                            {"counter": {"name": "memory", "driver": "a_b", "deviceSelector": {}}},
                            {"counter": {"driver": "x", "deviceSelector": {"cel": {"expression": "1"}}}},
                        ],
                    },
                    {
                        "name": "shares",
                        "deviceClassNames": ["share.example.com"],
                        "sources": [{"capacity": {"name": "memory", "driver": "x"}}],
                    },
                ]
            }
        },
        [
            'resources.deviceClassMappings[0].sources[0].counter.driver: Invalid value: "a_b": a lowercase RFC '
            "1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
            "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            "resources.deviceClassMappings[0].sources[0].counter.deviceSelector.cel.expression: Required value",
            "resources.deviceClassMappings[0].sources[1].counter.name: Required value",
            'resources.deviceClassMappings[0].sources[1].counter.deviceSelector.cel.expression: Invalid value: "1": '
            "CEL compilation failed: must evaluate to bool or the unknown type, not int",
            "resources.deviceClassMappings[1].sources[0].capacity: Invalid value: true: capacity sources require "
            "KueueDRAIntegrationConsumableCapacity to be enabled",
        ],
    ),
    "exclusions where undeclared resources are free": (
        {"resources": {"quotaCheckStrategy": "IgnoreUndeclared", "excludeResourcePrefixes": ["a"]}},
        [
            'resources.quotaCheckStrategy: Invalid value: "IgnoreUndeclared": excludeResourcePrefixes is not allowed '
            "when quotaCheckStrategy is IgnoreUndeclared"
        ],
    ),
    "negative weights of two resources, by name": (
        {"admissionFairSharing": {"resourceWeights": {"memory": -1, "gpu": 1, "cpu": -2}}},
        [
            f'admissionFairSharing.resourceWeights[{name}]: Invalid value: {{"cpu":-2,"gpu":1,"memory":-1}}: {BELOW_0}'
            for name in ("cpu", "memory")
        ],
    ),
    "a negative weight of a resource": (
        {"admissionFairSharing": {"resourceWeights": {"cpu": -1}}},
        [f'admissionFairSharing.resourceWeights[cpu]: Invalid value: {{"cpu":-1}}: {BELOW_0}'],
    ),
    "negative retention": (
        {"objectRetentionPolicies": {"workloads": {"afterFinished": "-1h"}}},
        [f'objectRetentionPolicies.workloads.afterFinished: Invalid value: "-1h0m0s": {BELOW_0}'],
    ),
    "a negative interval of MultiKueue": (
        {"multiKueue": {"gcInterval": "-1s"}},
        [f"multiKueue.gcInterval: Invalid value: -1000000000: {BELOW_0}"],
    ),
    "steps for another dispatcher": (
        {"multiKueue": {"incrementalDispatcherConfig": {"stepSize": 0}}},
        [
            'multiKueue.incrementalDispatcherConfig: Invalid value: {"stepSize":0}: incrementalDispatcherConfig is '
            "only valid when dispatcherName is set to the incremental dispatcher",
            "multiKueue.incrementalDispatcherConfig.stepSize: Invalid value: 0: must be greater than or equal to 1",
        ],
    ),
    "a port that is none": (
        {"visibilityServer": {"bindPort": 70000}},
        ["visibilityServer.bindPort: Invalid value: 70000: must be a valid port number (1-65535)"],
    ),
    "a metric's label with a dash": (
        {"metrics": {"customLabels": [{"name": "cost-center"}]}},
        [
            'metrics.customLabels[0].name: Invalid value: "cost-center": must match ^[a-zA-Z][a-zA-Z0-9_]*$',
        ],
    ),
    "ciphers of TLS 1.3": (
        {"tls": {"minVersion": "VersionTLS13", "cipherSuites": ["A"]}},
        [
            "tls.cipherSuites: Invalid value: [\"A\"]: may not be specified when `minVersion` is 'VersionTLS13'"
        ],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_kueue_refuses(name: str) -> None:
    given_, want = WRONG[name]
    assert [str(fault) for fault in faults_in(given_)] == want


def test_defaults() -> None:
    config = configured()
    assert config.pods_ready == PodsReady()
    assert config.strategies is None
    assert not config.uses_fair_sharing
    assert "pod" in config.frameworks
    alone = read_text("kind: Configuration\napiVersion: config.kueue.x-k8s.io/v1beta2", "f")[0]
    assert read_configuration(alone).frameworks == ("batch/job",)
    assert not config.managed_namespaces.matches({"kubernetes.io/metadata.name": "kueue-system"})
    assert config.managed_namespaces.matches({"kubernetes.io/metadata.name": "team"})
    assert config.raw["multiKueue"]["origin"] == "multikueue"
    assert (config.client_qps, config.client_burst) == (300.0, 500)


def test_v1beta1_waits_for_pods_only_where_it_says_so() -> None:
    assert configured(V1).pods_ready is None
    waits = configured({**V1, "waitForPodsReady": {"enable": True}}).pods_ready
    assert waits is not None
    assert (waits.timeout_us, waits.recovery_us, waits.blocks_admission) == (
        5 * MINUTE_US,
        5 * MINUTE_US,
        True,
    )
    assert configured({**V1, "waitForPodsReady": {"enable": False, "timeout": "1m"}}).pods_ready is None


def test_v1beta1_shares_fairly_only_where_it_says_so() -> None:
    both = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    assert configured({**V1, "fairSharing": {"enable": True}}).strategies == both
    assert configured({**V1, "fairSharing": {"enable": False}}).strategies is None


def test_a_gate_turns_waiting_off() -> None:
    config = configured({"featureGates": {"DisableWaitForPodsReady": True}})
    assert config.pods_ready is None
    assert not config.kueue_settings().jobs.reports_pods_ready


def test_every_section_reaches_those_it_concerns() -> None:
    config = configured(
        {
            "manageJobsWithoutQueueName": True,
            "integrations": {
                "frameworks": ["batch/job"],
                "externalFrameworks": ["Foo.v1.example.com"],
                "labelKeysToCopy": ["team"],
            },
            "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]},
            "waitForPodsReady": {
                "timeout": "10m",
                "blockAdmission": True,
                "requeuingStrategy": {"timestamp": "Creation", "backoffLimitCount": 2},
            },
            "resources": {
                "excludeResourcePrefixes": ["example.com/"],
                "transformations": [{"input": "a", "strategy": "Replace", "outputs": {"b": "2"}}],
                "deviceClassMappings": [{"name": "gpus", "deviceClassNames": ["gpu.example.com"]}],
            },
            "admissionFairSharing": {"usageHalfLifeTime": "168h", "resourceWeights": {"cpu": 2.5}},
            "objectRetentionPolicies": {
                "workloads": {"afterFinished": "1h", "afterDeactivatedByKueue": "0s"}
            },
            "featureGates": {"ConcurrentAdmission": True, "PartialAdmission": False},
            "metrics": {"enableClusterQueueResources": True},
        }
    )
    kueue, door = config.kueue_settings(), config.webhook_settings()
    assert kueue.pods_ready is not None
    assert (kueue.pods_ready.backoff_limit, kueue.pods_ready.requeues_by_eviction_time) == (2, False)
    assert (kueue.strategies, kueue.uses_fair_sharing) == (("LessThanInitialShare",), True)
    assert kueue.pods_ready.blocks_admission
    assert kueue.transformations.apply({"a": 3, "example.com/x": 1}) == {"b": 6}
    assert kueue.usage is not None
    assert (kueue.usage.half_life_s, kueue.usage.sampling_interval_s) == (168 * 3600, 300)
    assert (kueue.retained_us, kueue.jobs.retained_us) == (60 * MINUTE_US, 0)
    assert kueue.gates.concurrent_admission
    assert not kueue.gates.partial_admission
    assert kueue.jobs.label_keys_to_copy == ("team",)
    assert door.external == ("Foo.example.com",)
    assert door.manages_without_queue_name
    assert not door.is_on("PartialAdmission")
    assert config.device_classes.resource_of("gpu.example.com") == "gpus"
    assert config.metrics.per_cluster_queue_resources


def test_problems_are_found_in_the_file() -> None:
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nfairSharing:\n  preemptionStrategies: [A]\n"
    with pytest.raises(InvalidInput) as caught:
        read_configuration(read_text(text, "kueue.yaml")[0])
    assert str(caught.value).startswith(
        'kueue.yaml:4: Configuration: fairSharing.preemptionStrategies: Unsupported value: ["A"]: supported values: '
    )


def test_gates_that_decide_something_have_the_default_of_all_gates() -> None:
    named = {field_of(gate): on for gate, on in DEFAULTS.items()}
    gates = asdict(FeatureGates())
    assert {name: named[name] for name in gates} == gates


GO = {
    "5m": "5m0s",
    "90s": "1m30s",
    "1h": "1h0m0s",
    "1.5s": "1.5s",
    "250ms": "250ms",
    "0": "0s",
    "-2us": "-2µs",
}


@pytest.mark.parametrize("text", GO)
def test_durations_print_as_in_go(text: str) -> None:
    assert go_duration(text) == GO[text]


@given(st.integers(min_value=-(10**18), max_value=10**18))
def test_a_printed_duration_reads_as_itself(ns: int) -> None:
    assert duration_ns(go_duration(f"{'-' if ns < 0 else ''}{abs(ns)}ns")) == ns
