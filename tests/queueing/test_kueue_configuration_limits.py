"""Both sides of every bound that a Configuration is held to."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube import names
from fairway.queueing.configuration import faults_in
from fairway.queueing.webhooks.settings import FRAMEWORKS

Raw = dict[str, Any]


def _said(section: Raw) -> list[str]:
    return [str(fault) for fault in faults_in(section)]


def _mappings(*mappings: Raw) -> Raw:
    return {"resources": {"deviceClassMappings": list(mappings)}}


def _labels(*labels: Raw) -> Raw:
    return {"metrics": {"customLabels": list(labels)}}


def _mapping(i: int, *classes: str, **more: Any) -> Raw:
    return {"name": f"r{i}", "deviceClassNames": list(classes) or [f"c{i}"], **more}


def _label(name: str, **more: Any) -> Raw:
    return {"name": name, **more}


_SELECTOR = {"deviceSelector": {"cel": {"expression": "true"}}}
_COUNTER = {"counter": {"name": "n", "driver": "d", **_SELECTOR}}
_OTHER = {"counter": {"name": "m", "driver": "d", **_SELECTOR}}
_CAPACITY = {"capacity": {"name": "n", "driver": "d", **_SELECTOR}}
_GATE = {"featureGates": {"KueueDRAIntegrationConsumableCapacity": True}}

_LONG = "d" * 190 + "/" + "n" * 62

_FINE: dict[str, Raw] = {
    "sixteen mappings": _mappings(*(_mapping(i) for i in range(16))),
    "eight classes": _mappings(_mapping(0, *(f"c{i}" for i in range(8)))),
    "one class, two counters": _mappings(
        _mapping(0, "c", sources=[_COUNTER]),
        _mapping(1, "c", sources=[_OTHER]),
    ),
    "capacity": _mappings(_mapping(0, sources=[_CAPACITY])) | _GATE,
    "two counters": _mappings(_mapping(0, sources=[_COUNTER, _COUNTER])),
    "the first port": {"visibilityServer": {"bindPort": 1, "bindAddress": "10.0.0.1"}},
    "the last port": {"visibilityServer": {"bindPort": 65535, "bindAddress": "::1"}},
    "no wait at all": {"waitForPodsReady": {"timeout": "0s", "recoveryTimeout": "0s"}},
    "no backoff at all": {
        "waitForPodsReady": {
            "requeuingStrategy": {
                "backoffLimitCount": 0,
                "backoffBaseSeconds": 0,
                "backoffMaxSeconds": 0,
                "timestamp": "Creation",
            }
        }
    },
    "the smallest interval": {
        "admissionFairSharing": {"usageSamplingInterval": "1ns", "usageHalfLifeTime": "0s"}
    },
    "weights of nothing": {"admissionFairSharing": {"resourceWeights": {"cpu": 0, "memory": 1}}},
    "steps of one": {
        "multiKueue": {
            "dispatcherName": "kueue.x-k8s.io/multikueue-dispatcher-incremental",
            "incrementalDispatcherConfig": {"stepSize": 1},
        }
    },
    "frameworks of others": {
        "integrations": {
            "frameworks": ["pod"],
            "externalFrameworks": ["Foo.v1.example.com", "Bar.v1.example.com"],
        }
    },
    "TLS 1.2 and its ciphers": {
        "tls": {"minVersion": "VersionTLS12", "cipherSuites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]}
    },
    "TLS 1.3 alone": {"tls": {"minVersion": "VersionTLS13"}},
    "exclusions where the undeclared is blocked": {
        "resources": {"quotaCheckStrategy": "BlockUndeclared", "excludeResourcePrefixes": ["a"]}
    },
    "the undeclared ignored": {"resources": {"quotaCheckStrategy": "IgnoreUndeclared"}},
    "six labels of each kind and two of Workloads": _labels(
        *(
            _label(f"{kind}{i}", sourceKind=kind)
            for kind in ("Cohort", "LocalQueue", "ClusterQueue")
            for i in range(6)
        ),
        *(_label(f"w{i}", sourceKind="Workload", trackedValues=["a"]) for i in range(2)),
    ),
    "sixteen values": _labels(_label("a", trackedValues=[str(i) for i in range(16)])),
    "twelve values of a Workload": _labels(
        _label("a", sourceKind="Workload", trackedValues=[str(i) for i in range(12)])
    ),
    "a label's key": _labels(
        _label("a", sourceLabelKey="example.com/team"), _label("b", sourceAnnotationKey="x")
    ),
    "a name without strangeness": _labels(_label("aZ_9")),
    "an origin": {"multiKueue": {"origin": "o" * 63}},
    "a driver of 63 letters": _mappings(
        _mapping(0, sources=[{"counter": {"name": "n", "driver": "d" * 63, **_SELECTOR}}])
    ),
    "a mapping and a class of 253 letters": _mappings(_mapping(0, _LONG, name=_LONG)),
    "a capacity that is no label": _mappings(
        _mapping(0, sources=[{"capacity": {"name": "x.io/A_b", "driver": "d", **_SELECTOR}}])
    )
    | _GATE,
    "no certificates": {"internalCertManagement": {"enable": False, "webhookServiceName": "Bad_Name"}},
}

_WHY_ONE = "exactly one source type must be set per entry"
_AT = "resources.deviceClassMappings"
_NO_CONFIGURATION = (
    'apiVersion: Invalid value: "{}": expected a Configuration of config.kueue.x-k8s.io/v1beta2 or '
    "config.kueue.x-k8s.io/v1beta1"
)
_WRONG: dict[str, tuple[Raw, list[str]]] = {
    "seventeen mappings": (
        _mappings(*(_mapping(i) for i in range(17))),
        [f"{_AT}: Too many: 17: must have at most 16 items"],
    ),
    "nine classes": (
        _mappings(_mapping(0, *(f"c{i}" for i in range(9)))),
        [f"{_AT}[0].deviceClassNames: Too many: 9: must have at most 8 items"],
    ),
    "a class twice": (
        _mappings(_mapping(0, "c", "d", "c")),
        [f'{_AT}[0].deviceClassNames[2]: Duplicate value: "c"'],
    ),
    "a resource twice": (
        _mappings(_mapping(0, "c"), _mapping(0, "d")),
        [f'{_AT}[1].name: Duplicate value: "r0"'],
    ),
    "a counter twice": (
        _mappings(_mapping(0, "c", sources=[_COUNTER]), _mapping(1, "c", sources=[_COUNTER])),
        [
            f'{_AT}[1].deviceClassNames[0]: Invalid value: "c": device class already has a counter source for '
            'counter "n"'
        ],
    ),
    "a counter after three": (
        _mappings(
            _mapping(0, "c", sources=[_COUNTER]),
            _mapping(1, "c", sources=[_OTHER]),
            _mapping(2, "c", sources=[_OTHER]),
        ),
        [
            f'{_AT}[2].deviceClassNames[0]: Invalid value: "c": device class already has a counter source for '
            'counter "m"'
        ],
    ),
    "a counter beside none": (
        _mappings(_mapping(0, "c"), _mapping(1, "c", sources=[_COUNTER])),
        [f'{_AT}[1].deviceClassNames[0]: Invalid value: "c": device class already mapped to resource r0'],
    ),
    "none beside a counter": (
        _mappings(_mapping(0, "c", sources=[_COUNTER]), _mapping(1, "c")),
        [f'{_AT}[1].deviceClassNames[0]: Invalid value: "c": device class already mapped to resource r0'],
    ),
    "a source of nothing": (
        _mappings(_mapping(0, sources=[{}])),
        [f"{_AT}[0].sources[0]: Required value: {_WHY_ONE}"],
    ),
    "a source of both": (
        _mappings(_mapping(0, sources=[{**_COUNTER, **_CAPACITY}])),
        [f'{_AT}[0].sources[0]: Invalid value: "counter+capacity": {_WHY_ONE}'],
    ),
    "sources that differ": (
        _mappings(_mapping(0, sources=[_COUNTER, _CAPACITY])) | _GATE,
        [f"{_AT}[0].sources: Invalid value: 2: cannot mix counter and capacity sources in the same mapping"],
    ),
    "a counter of no driver": (
        _mappings(_mapping(0, sources=[{"counter": {"name": "n", **_SELECTOR}}])),
        [f"{_AT}[0].sources[0].counter.driver: Required value"],
    ),
    "a counter that is no label": (
        _mappings(_mapping(0, sources=[{"counter": {"name": "A_b", "driver": "d", **_SELECTOR}}])),
        [f'{_AT}[0].sources[0].counter.name: Invalid value: "A_b": {"; ".join(names.dns_label("A_b"))}'],
    ),
    "a capacity with a dash before it": (
        _mappings(_mapping(0, sources=[{"capacity": {"name": "-b", "driver": "d", **_SELECTOR}}])) | _GATE,
        [f'{_AT}[0].sources[0].capacity.name: Invalid value: "-b": {"; ".join(names.label_key("-b"))}'],
    ),
    "a driver of 64 letters": (
        _mappings(_mapping(0, sources=[{"counter": {"name": "n", "driver": "d" * 64, **_SELECTOR}}])),
        [f'{_AT}[0].sources[0].counter.driver: Invalid value: "{"d" * 64}": must not exceed 63 characters'],
    ),
    "a mapping and a class of 254 letters": (
        _mappings(_mapping(0, _LONG + "n", name=_LONG + "n")),
        [
            f'{_AT}[0].{field}: Invalid value: "{_LONG}n": must not exceed 253 characters'
            for field in ("name", "deviceClassNames[0]")
        ],
    ),
    "a mapping and a class of odd names": (
        _mappings(_mapping(0, "b_", name="a/b/c")),
        [
            f'{_AT}[0].name: Invalid value: "a/b/c": {"; ".join(names.label_key("a/b/c"))}',
            f'{_AT}[0].deviceClassNames[0]: Invalid value: "b_": {"; ".join(names.label_key("b_"))}',
        ],
    ),
    "a framework that Kueue does not know": (
        {"integrations": {"frameworks": ["pod", "foo"]}},
        [
            'integrations.frameworks[1]: Unsupported value: "foo": supported values: '
            + ", ".join(f'"{name}"' for name in sorted(FRAMEWORKS))
        ],
    ),
    "an origin that is no label": (
        {"multiKueue": {"origin": "o_"}},
        [f'multiKueue.origin: Invalid value: "o_": {",".join(names.label_value("o_"))}'],
    ),
    "certificates of odd names": (
        {"internalCertManagement": {"webhookServiceName": "1a", "webhookSecretName": "a_b"}},
        [
            f'internalCertManagement.webhookServiceName: Invalid value: "1a": {names.dns1035_label("1a")[0]}',
            f'internalCertManagement.webhookSecretName: Invalid value: "a_b": {names.dns_subdomain("a_b")[0]}',
        ],
    ),
    "a selector of odd labels, once": (
        {"managedJobsNamespaceSelector": {"matchLabels": {"-": "x"}}},
        [f'managedJobsNamespaceSelector.matchLabels: Invalid value: "-": {names.label_key("-")[0]}'],
    ),
    "gates nobody knows, by name": (
        {"featureGates": {"X": True, "PartialAdmission": True, "A": False}},
        [
            'featureGates: Invalid value: {"A":false,"PartialAdmission":true,"X":true}: '
            "unrecognized feature gate: A"
        ],
    ),
    "a strategy of quotas nobody knows": (
        {"resources": {"quotaCheckStrategy": "Ask", "excludeResourcePrefixes": ["a"]}},
        [
            'resources.quotaCheckStrategy: Unsupported value: "Ask": supported values: '
            '"IgnoreUndeclared", "BlockUndeclared"'
        ],
    ),
    "a group alone": (
        {"apiVersion": "config.kueue.x-k8s.io/v1"},
        [_NO_CONFIGURATION.format("config.kueue.x-k8s.io/v1")],
    ),
    "a version alone": ({"apiVersion": "kueue.io/v1beta2"}, [_NO_CONFIGURATION.format("kueue.io/v1beta2")]),
    "another kind alone": (
        {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Config"},
        [_NO_CONFIGURATION.format("config.kueue.x-k8s.io/v1beta2")],
    ),
    "port 0": (
        {"visibilityServer": {"bindPort": 0}},
        ["visibilityServer.bindPort: Invalid value: 0: must be a valid port number (1-65535)"],
    ),
    "port 65536": (
        {"visibilityServer": {"bindPort": 65536}},
        ["visibilityServer.bindPort: Invalid value: 65536: must be a valid port number (1-65535)"],
    ),
    "an address that is a name": (
        {"visibilityServer": {"bindAddress": "localhost"}},
        ['visibilityServer.bindAddress: Invalid value: "localhost": must be a valid IP address'],
    ),
    "an interval in the past": (
        {"admissionFairSharing": {"usageSamplingInterval": "-1ns", "usageHalfLifeTime": "168h"}},
        ['admissionFairSharing.usageSamplingInterval: Invalid value: "168h0m0s": must be greater than 0'],
    ),
    "a recovery in the past": (
        {"waitForPodsReady": {"recoveryTimeout": "-1ns"}},
        ['waitForPodsReady.recoveryTimeout: Invalid value: "-1ns": must be greater than or equal to 0'],
    ),
    "a lost worker in the past": (
        {"multiKueue": {"workerLostTimeout": "-1s"}},
        ["multiKueue.workerLostTimeout: Invalid value: -1000000000: must be greater than or equal to 0"],
    ),
    "retention after deactivation in the past": (
        {"objectRetentionPolicies": {"workloads": {"afterDeactivatedByKueue": "-1s"}}},
        [
            'objectRetentionPolicies.workloads.afterDeactivatedByKueue: Invalid value: "-1s": must be greater than '
            "or equal to 0"
        ],
    ),
    "an external framework that is one of Kueue's": (
        {
            "integrations": {
                "frameworks": ["pod"],
                "externalFrameworks": ["Foo.v1.example.com", "Foo.v1.example.com"],
            }
        },
        ['integrations.externalFrameworks[1]: Duplicate value: "Foo.v1.example.com"'],
    ),
    "frameworks of MultiKueue": (
        {"multiKueue": {"externalFrameworks": [{"name": n} for n in ("A.v1.b", "A.v1", "A.v1.b")]}},
        [
            "multiKueue.externalFrameworks[1].name: Invalid value: \"A.v1\": must be in 'kind.version.group' format",
            'multiKueue.externalFrameworks[2].name: Duplicate value: "A.v1.b"',
        ],
    ),
    "a label twice": (
        _labels(_label("a"), _label("a")),
        ['metrics.customLabels[1].name: Duplicate value: "a"'],
    ),
    "a Workload's label of no values": (
        _labels(_label("a", sourceKind="Workload")),
        [
            "metrics.customLabels[0].trackedValues: Invalid value: null: "
            "must not be empty when sourceKind is 'Workload'"
        ],
    ),
    "a value twice": (
        _labels(_label("a", trackedValues=["x", "y", "x"])),
        [
            'metrics.customLabels[0].trackedValues: Invalid value: ["x","y","x"]: must not contain duplicates',
        ],
    ),
}


@pytest.mark.parametrize("name", _FINE)
def test_what_is_within_its_bounds_is_taken(name: str) -> None:
    assert _said(_FINE[name]) == []


@pytest.mark.parametrize("name", _WRONG)
def test_what_is_beyond_them_is_refused(name: str) -> None:
    given, want = _WRONG[name]
    assert _said(given) == want


def _end(complaints: list[str]) -> str:
    return complaints[0].rpartition(": ")[2]


def test_counts_of_labels_and_values() -> None:
    def heads(*labels: Raw) -> list[str]:
        return [
            line.partition(": Invalid value")[0] + "|" + line.rpartition(": ")[2]
            for line in _said(_labels(*labels))
        ]

    for kind, most in (("Cohort", 6), ("LocalQueue", 6), ("ClusterQueue", 6), ("Workload", 2)):
        values = {"trackedValues": ["v"]} if kind == "Workload" else {}
        many = [_label(f"a{i}", sourceKind=kind, **values) for i in range(most + 1)]
        assert heads(*many) == [f"metrics.customLabels|found {most + 1}, expected <= {most}"]
    assert heads(_label("a", trackedValues=[str(i) for i in range(17)])) == [
        "metrics.customLabels[0].trackedValues: Too many: 17: must have at most 16 items|must have at most 16 items"
    ]
    assert heads(_label("a", sourceKind="Workload", trackedValues=[str(i) for i in range(13)])) == [
        "metrics.customLabels[0].trackedValues|must not be greater than 12 when sourceKind is 'Workload'"
    ]
    both = _label("a", sourceLabelKey="x", sourceAnnotationKey="y")
    assert heads(both) == [
        "metrics.customLabels[0]|sourceLabelKey and sourceAnnotationKey are mutually exclusive"
    ]
    odd = _label("a", sourceAnnotationKey="-")
    assert heads(odd) == [f"metrics.customLabels[0].sourceAnnotationKey|{_end(names.label_key('-'))}"]
    odd = _label("a", sourceLabelKey="b_")
    assert heads(odd) == [f"metrics.customLabels[0].sourceLabelKey|{_end(names.label_key('b_'))}"]
    odd = _label("a_")
    assert heads(odd) == [f"metrics.customLabels[0].name|{_end(names.label_key('a_'))}"]
    kinds = ("Pod", *["LocalQueue"] * 7, "Node")
    assert heads(*(_label(f"a{i}", sourceKind=kind) for i, kind in enumerate(kinds))) == [
        "metrics.customLabels|found 7, expected <= 6",
        "metrics.customLabels|Node",
        "metrics.customLabels|Pod",
    ]
    twenty_one = [
        _label(f"a{i}", sourceKind=("Cohort", "LocalQueue", "ClusterQueue")[i % 3]) for i in range(21)
    ]
    assert (
        "metrics.customLabels: Too many: 21: must have at most 20 items|must have at most 20 items"
        in heads(*twenty_one)
    )
