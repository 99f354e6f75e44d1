"""What does a Configuration say in v1beta2, with every field it leaves out?

A v1beta1 file is defaulted as v1beta1 and then converted: what it does not turn on is off, where v1beta2 waits for
pods to be ready by default.

Source: apis/config/v1beta1/defaults.go, configuration_conversion.go, apis/config/v1beta2/defaults.go.
"""

from __future__ import annotations

from typing import Any

from fairway.kube.durations import duration_ns

Raw = dict[str, Any]

NAMESPACE = "kueue-system"
BOTH_STRATEGIES = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
_ALL_AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"


def settled(raw: Raw, version: str) -> Raw:
    """The configuration as Kueue works with it."""
    config: Raw = without_nulls(raw)
    config.pop("queueVisibility", None)
    config.setdefault("namespace", NAMESPACE)
    _fill(config, "webhook", {"port": 9443, "certDir": "/tmp/k8s-webhook-server/serving-certs"})
    _fill(config, "metrics", {"bindAddress": ":8443", "localQueueMetrics": {"enable": True}})
    _fill(config, "health", {"healthProbeBindAddress": ":8081"})
    _fill(config, "leaderElection", _LEADER_ELECTION)
    _fill(config, "internalCertManagement", {"enable": True})
    if config["internalCertManagement"]["enable"]:
        _fill(config, "internalCertManagement", _CERTIFICATES)
    _fill(config, "clientConnection", {"qps": 300.0, "burst": 500})
    _wait_for_pods_ready(config, version)
    _fill(config, "integrations", {})
    config["integrations"].pop("podOptions", None)
    if not config["integrations"].get("frameworks"):
        config["integrations"]["frameworks"] = ["batch/job"]
    exempt = {"key": "kubernetes.io/metadata.name", "operator": "NotIn"}
    exempt_names = ["kube-system", config["namespace"]]
    config.setdefault(
        "managedJobsNamespaceSelector", {"matchExpressions": [{**exempt, "values": exempt_names}]}
    )
    _multi_kueue(config)
    _sharing(config, version)
    _fill(config, "visibilityServer", {"bindPort": 8082})
    for rule in (config.get("resources") or {}).get("transformations") or ():
        rule["strategy"] = rule.get("strategy") or "Retain"
    return config


_LEADER_ELECTION = {
    "resourceName": "c1f6bfd2.kueue.x-k8s.io",
    "resourceLock": "leases",
    "leaseDuration": "15s",
    "renewDeadline": "10s",
    "retryPeriod": "2s",
    "leaderElect": True,
}
_CERTIFICATES = {
    "webhookServiceName": "kueue-webhook-service",
    "webhookSecretName": "kueue-webhook-server-cert",
}
_REQUEUING = {"timestamp": "Eviction", "backoffBaseSeconds": 60, "backoffMaxSeconds": 3600}


def without_nulls(value: Any) -> Any:
    """An own copy; null reads as absent."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value


def _fill(config: Raw, name: str, defaults: Raw) -> None:
    """Empty texts count as left out, as in Go."""
    given = {k: v for k, v in (config.get(name) or {}).items() if v != ""}
    config[name] = {**defaults, **given}


def _wait_for_pods_ready(config: Raw, version: str) -> None:
    waits = config.get("waitForPodsReady")
    if version == "v1beta1":
        if not (waits or {}).get("enable"):
            config.pop("waitForPodsReady", None)
            return
        assert waits is not None
        waits.pop("enable")
        waits.setdefault("timeout", "5m")
        waits.setdefault("blockAdmission", True)
    waits = dict(waits or {})
    if duration_ns(waits.get("timeout") or "0") == 0:
        waits["timeout"] = "30m"
    waits.setdefault("blockAdmission", False)
    waits.setdefault("recoveryTimeout", waits["timeout"])
    waits["requeuingStrategy"] = {**_REQUEUING, **(waits.get("requeuingStrategy") or {})}
    config["waitForPodsReady"] = waits


def _multi_kueue(config: Raw) -> None:
    defaults = {
        "gcInterval": "1m",
        "origin": "multikueue",
        "workerLostTimeout": "15m",
        "dispatcherName": _ALL_AT_ONCE,
    }
    _fill(config, "multiKueue", defaults)
    if config["multiKueue"]["dispatcherName"] == INCREMENTAL:
        steps = {"stepSize": 3, **(config["multiKueue"].get("incrementalDispatcherConfig") or {})}
        config["multiKueue"]["incrementalDispatcherConfig"] = steps


def _sharing(config: Raw, version: str) -> None:
    fair = config.get("fairSharing")
    if fair is not None and version == "v1beta1":
        if not fair.pop("enable", False):
            config.pop("fairSharing")
        elif not fair.get("preemptionStrategies"):
            fair["preemptionStrategies"] = list(BOTH_STRATEGIES)
    usage = config.get("admissionFairSharing")
    if usage is not None and duration_ns(usage.get("usageSamplingInterval") or "0") == 0:
        usage["usageSamplingInterval"] = "5m"
