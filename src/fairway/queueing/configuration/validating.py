"""What is wrong with a Configuration, in Kueue's words? It has its defaults by now.

Source: pkg/config/validation.go.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.durations import duration_ns, go_duration
from fairway.kube.fieldpath import Path
from fairway.kube.labels import label_selector
from fairway.queueing.configuration.defaulting import BOTH_STRATEGIES, INCREMENTAL
from fairway.queueing.configuration.deviceclasses import device_class_faults
from fairway.queueing.facts.featuregates import DEFAULTS as GATE_DEFAULTS
from fairway.queueing.facts.featuregates import gate_problem
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.clusterqueues import label_selector_faults
from fairway.queueing.webhooks.faults import Fault
from fairway.queueing.webhooks.settings import FRAMEWORKS, NAMESPACE_LABEL

Raw = Mapping[str, Any]

_STRATEGY_SETS = ([BOTH_STRATEGIES[0]], [BOTH_STRATEGIES[1]], BOTH_STRATEGIES)
_MAX_LABELS, _MAX_VALUES, _MAX_WORKLOAD_VALUES = 20, 16, 12
_LABEL_KINDS = {"Cohort": 6, "LocalQueue": 6, "ClusterQueue": 6, "Workload": 2}
_KIND_ARG = re.compile(r"[^.]+\.[^.]+\..+")
_LABEL_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


def configuration_faults(config: Raw) -> list[Fault]:
    """In Kueue's order, feature gates first: the others depend on them."""
    gates = {**GATE_DEFAULTS, **(config.get("featureGates") or {})}
    out = gate_faults(config)
    if not gates.get("DisableWaitForPodsReady"):
        out += _wait_faults(config.get("waitForPodsReady"))
    out += _integration_faults(config)
    out += _multi_kueue_faults(config["multiKueue"])
    out += _fair_sharing_faults(config.get("fairSharing"))
    out += _usage_faults(config.get("admissionFairSharing"))
    out += _certificate_faults(config["internalCertManagement"])
    resources = config.get("resources") or {}
    out += _transformation_faults(resources)
    if resources.get("deviceClassMappings"):
        out += device_class_faults(resources["deviceClassMappings"], gates)
    out += _namespace_faults(config)
    out += _retention_faults((config.get("objectRetentionPolicies") or {}).get("workloads") or {})
    out += _tls_faults(config.get("tls") or {})
    out += _visibility_faults(config["visibilityServer"])
    out += _custom_label_faults(config["metrics"].get("customLabels") or [])
    if gates.get("QuotaCheckStrategy"):
        out += _quota_check_faults(resources)
    return _without_repeats(out)


def _without_repeats(found: Sequence[Fault]) -> list[Fault]:
    said: dict[str, Fault] = {}
    for fault in found:
        said.setdefault(str(fault), fault)
    return list(said.values())


def gate_faults(config: Raw) -> list[Fault]:
    """Source: LoadAndValidateFeatureGates."""
    named = config.get("featureGates") or {}
    problem = gate_problem(named)
    if problem:
        return [f.invalid(("featureGates",), dict(sorted(named.items())), problem)]
    gates = {**GATE_DEFAULTS, **named}
    if gates["TASProfileMixed"] and not gates["TopologyAwareScheduling"]:
        return [f.invalid(("featureGates",), 1, "cannot use a TAS profile with TAS disabled")]
    return []


def _negative(text: str | None, path: Path, *, in_ns: bool = False) -> list[Fault]:
    if text is None or duration_ns(text) >= 0:
        return []
    return [f.invalid(path, duration_ns(text) if in_ns else go_duration(text), f.NEGATIVE)]


def _wait_faults(waits: Raw | None) -> list[Fault]:
    if waits is None:
        return []
    at: Path = ("waitForPodsReady",)
    out = _negative(waits.get("timeout"), (*at, "timeout"))
    out += _negative(waits.get("recoveryTimeout"), (*at, "recoveryTimeout"))
    strategy = waits.get("requeuingStrategy") or {}
    here: Path = (*at, "requeuingStrategy")
    if strategy.get("timestamp") not in ("Creation", "Eviction"):
        out.append(f.unsupported((*here, "timestamp"), strategy.get("timestamp"), ("Creation", "Eviction")))
    for name in ("backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds"):
        if name in strategy and strategy[name] < 0:
            out.append(f.invalid((*here, name), strategy[name], f.NEGATIVE))
    return out


def _integration_faults(config: Raw) -> list[Fault]:
    given = config["integrations"]
    out: list[Fault] = []
    managed: set[str] = set()
    for i, framework in enumerate(given.get("frameworks") or ()):
        at: Path = ("integrations", "frameworks", i)
        if framework not in FRAMEWORKS:
            out.append(f.unsupported(at, framework, sorted(FRAMEWORKS)))
        elif framework in managed:
            out.append(f.duplicate(at, framework))
        managed.add(framework)
    for i, framework in enumerate(given.get("externalFrameworks") or ()):
        at = ("integrations", "externalFrameworks", i)
        if not _KIND_ARG.fullmatch(framework):
            out.append(f.invalid(at, framework, "must be format, 'Kind.version.group.com'"))
        elif framework in managed:
            out.append(f.duplicate(at, framework))
        managed.add(framework)
    return out


def _multi_kueue_faults(multi: Raw) -> list[Fault]:
    at: Path = ("multiKueue",)
    out = _negative(multi.get("gcInterval"), (*at, "gcInterval"), in_ns=True)
    out += _negative(multi.get("workerLostTimeout"), (*at, "workerLostTimeout"), in_ns=True)
    complaints = names.label_value(multi["origin"])
    if complaints:
        out.append(f.invalid((*at, "origin"), multi["origin"], ",".join(complaints)))
    seen: set[str] = set()
    for i, framework in enumerate(multi.get("externalFrameworks") or ()):
        name = framework.get("name", "")
        here: Path = (*at, "externalFrameworks", i, "name")
        if not _KIND_ARG.fullmatch(name):
            out.append(f.invalid(here, name, "must be in 'kind.version.group' format"))
        elif name in seen:
            out.append(f.duplicate(here, name))
        seen.add(name)
    dispatcher = multi.get("incrementalDispatcherConfig")
    if dispatcher is not None:
        here = (*at, "incrementalDispatcherConfig")
        if multi.get("dispatcherName") != INCREMENTAL:
            why = "incrementalDispatcherConfig is only valid when dispatcherName is set to the incremental dispatcher"
            out.append(f.invalid(here, dict(dispatcher), why))
        if "stepSize" in dispatcher and dispatcher["stepSize"] < 1:
            why = "must be greater than or equal to 1"
            out.append(f.invalid((*here, "stepSize"), dispatcher["stepSize"], why))
    return out


def _fair_sharing_faults(fair: Raw | None) -> list[Fault]:
    if fair is None:
        return []
    at: Path = ("fairSharing", "preemptionStrategies")
    strategies = fair.get("preemptionStrategies") or []
    if not strategies:
        return [f.required(at, "must be specified")]
    if strategies in _STRATEGY_SETS:
        return []
    return [f.unsupported(at, strategies, (",".join(s) for s in _STRATEGY_SETS))]


def _usage_faults(usage: Raw | None) -> list[Fault]:
    if usage is None:
        return []
    at: Path = ("admissionFairSharing",)
    half_life = usage.get("usageHalfLifeTime", "0s")
    out = _negative(half_life, (*at, "usageHalfLifeTime"))
    if duration_ns(usage["usageSamplingInterval"]) < 1:
        # Kueue shows the half-life here.
        out.append(
            f.invalid((*at, "usageSamplingInterval"), go_duration(half_life), "must be greater than 0")
        )
    weights = usage.get("resourceWeights") or {}
    for name in sorted(weights):
        if weights[name] < 0:
            out.append(
                f.invalid(f.at_key((*at, "resourceWeights"), name), dict(sorted(weights.items())), f.NEGATIVE)
            )
    return out


def _certificate_faults(certificates: Raw) -> list[Fault]:
    if not certificates.get("enable"):
        return []
    out = []
    rules = (("webhookServiceName", names.dns1035_label), ("webhookSecretName", names.dns_subdomain))
    for name, rule in rules:
        complaints = rule(certificates.get(name) or "")
        if complaints:
            out.append(f.invalid(("internalCertManagement", name), certificates[name], ",".join(complaints)))
    return out


def _transformation_faults(resources: Raw) -> list[Fault]:
    out = []
    seen: set[str] = set()
    for i, rule in enumerate(resources.get("transformations") or ()):
        at: Path = ("resources", "transformations", i)
        if rule["strategy"] not in ("Retain", "Replace"):
            out.append(f.unsupported((*at, "strategy"), rule["strategy"], ("Retain", "Replace")))
        name = rule.get("input", "")
        if name in seen:
            out.append(f.duplicate((*at, "input"), name))
        seen.add(name)
    return out


def _namespace_faults(config: Raw) -> list[Fault]:
    at: Path = ("managedJobsNamespaceSelector",)
    selector = config["managedJobsNamespaceSelector"]
    out = label_selector_faults(selector, at)
    if out:
        return out
    compiled = label_selector(selector)
    for name in dict.fromkeys(("kube-system", config.get("namespace") or "kube-system")):
        if compiled.matches({NAMESPACE_LABEL: name}):
            out.append(f.invalid(at, selector, f'should not match the "{name}" namespace'))
    return out


def _retention_faults(workloads: Raw) -> list[Fault]:
    at: Path = ("objectRetentionPolicies", "workloads")
    out = _negative(workloads.get("afterFinished"), (*at, "afterFinished"))
    return out + _negative(workloads.get("afterDeactivatedByKueue"), (*at, "afterDeactivatedByKueue"))


def _tls_faults(tls: Raw) -> list[Fault]:
    if tls.get("minVersion") == "VersionTLS13" and tls.get("cipherSuites"):
        why = "may not be specified when `minVersion` is 'VersionTLS13'"
        return [f.invalid(("tls", "cipherSuites"), tls["cipherSuites"], why)]
    return []


def _visibility_faults(server: Raw) -> list[Fault]:
    out = []
    address, port = server.get("bindAddress"), server.get("bindPort")
    if address is not None and not _is_address(address):
        out.append(f.invalid(("visibilityServer", "bindAddress"), address, "must be a valid IP address"))
    if port is not None and not 1 <= port <= 65535:
        out.append(f.invalid(("visibilityServer", "bindPort"), port, "must be a valid port number (1-65535)"))
    return out


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _custom_label_faults(labels: Sequence[Raw]) -> list[Fault]:
    root: Path = ("metrics", "customLabels")
    out = [f.too_many(root, len(labels), _MAX_LABELS)] if len(labels) > _MAX_LABELS else []
    seen: set[str] = set()
    per_kind: dict[str, int] = {}
    for i, label in enumerate(labels):
        at: Path = (*root, i)
        name = label.get("name", "")
        if not _LABEL_NAME.fullmatch(name):
            out.append(f.invalid((*at, "name"), name, "must match ^[a-zA-Z][a-zA-Z0-9_]*$"))
        if name in seen:
            out.append(f.duplicate((*at, "name"), name))
        seen.add(name)
        out += _label_source_faults(label, at)
        kind = label.get("sourceKind", "ClusterQueue")
        per_kind[kind] = per_kind.get(kind, 0) + 1
        out += _tracked_faults(label, kind, (*at, "trackedValues"))
    for kind in sorted(per_kind):
        limit = _LABEL_KINDS.get(kind)
        if limit is None:
            out.append(f.invalid(root, list(labels), f"unknown source kind: {kind}"))
        elif per_kind[kind] > limit:
            why = (
                f"too many custom labels for source kind {kind}: found {per_kind[kind]}, expected <= {limit}"
            )
            out.append(f.invalid(root, list(labels), why))
    return out


def _label_source_faults(label: Raw, at: Path) -> list[Fault]:
    keys = [name for name in ("sourceLabelKey", "sourceAnnotationKey") if label.get(name)]
    out = []
    if len(keys) > 1:
        why = "sourceLabelKey and sourceAnnotationKey are mutually exclusive"
        out.append(f.invalid(at, dict(label), why))
    field = keys[0] if keys else "name"
    complaints = names.label_key(label.get(field, ""))
    if complaints:
        out.append(f.invalid((*at, field), label.get(field, ""), "; ".join(complaints)))
    return out


def _tracked_faults(label: Raw, kind: str, path: Path) -> list[Fault]:
    values = label.get("trackedValues") or []
    out = []
    if kind == "Workload" and not values:
        out.append(f.invalid(path, None, "must not be empty when sourceKind is 'Workload'"))
    if kind == "Workload" and len(values) > _MAX_WORKLOAD_VALUES:
        why = f"must not be greater than {_MAX_WORKLOAD_VALUES} when sourceKind is 'Workload'"
        out.append(f.invalid(path, values, why))
    elif kind != "Workload" and len(values) > _MAX_VALUES:
        out.append(f.too_many(path, len(values), _MAX_VALUES))
    if len(set(values)) < len(values):
        out.append(f.invalid(path, values, "must not contain duplicates"))
    return out


def _quota_check_faults(resources: Raw) -> list[Fault]:
    strategy = resources.get("quotaCheckStrategy")
    if strategy is None:
        return []
    at: Path = ("resources", "quotaCheckStrategy")
    out = []
    if resources.get("excludeResourcePrefixes") and strategy == "IgnoreUndeclared":
        why = "excludeResourcePrefixes is not allowed when quotaCheckStrategy is IgnoreUndeclared"
        out.append(f.invalid(at, strategy, why))
    if strategy not in ("IgnoreUndeclared", "BlockUndeclared"):
        out.append(f.unsupported(at, strategy, ("IgnoreUndeclared", "BlockUndeclared")))
    return out
