"""From a file or a mapping to a Configuration, or to everything that is wrong with it, with file and line.

As Kueue's strict decoding does it: unknown fields and wrong types first; then defaults, conversion, validation.

Source: pkg/config/config.go Load, cmd/kueue/main.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.durations import duration_ns
from fairway.kube.fieldpath import Path, path_text
from fairway.kube.manifest import Manifest, capped
from fairway.kube.schema.decoding import unknown_paths
from fairway.kube.schema.values import validate_custom
from fairway.queueing.configuration.defaulting import settled, without_nulls
from fairway.queueing.configuration.model import Configuration, configuration_of
from fairway.queueing.configuration.tables import schema_of
from fairway.queueing.configuration.validating import configuration_faults
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault
from fairway.queueing.webhooks.settings import INSTALLED_FRAMEWORKS

GROUP = "config.kueue.x-k8s.io"
KIND = "Configuration"
VERSIONS = ("v1beta2", "v1beta1")

_DURATIONS: tuple[Path, ...] = (
    ("waitForPodsReady", "timeout"),
    ("waitForPodsReady", "recoveryTimeout"),
    ("multiKueue", "gcInterval"),
    ("multiKueue", "workerLostTimeout"),
    ("admissionFairSharing", "usageHalfLifeTime"),
    ("admissionFairSharing", "usageSamplingInterval"),
    ("objectRetentionPolicies", "workloads", "afterFinished"),
    ("objectRetentionPolicies", "workloads", "afterDeactivatedByKueue"),
    ("leaderElection", "leaseDuration"),
    ("leaderElection", "renewDeadline"),
    ("leaderElection", "retryPeriod"),
)


def read_configuration(manifest: Manifest) -> Configuration:
    """The Configuration of a document. One that names no apiVersion is read as v1beta2.

    Raises: InvalidInput with every problem, in Kueue's words.
    """
    raw, faults = _read(manifest.obj)
    if raw is None or faults:
        raise InvalidInput(capped([_problem(manifest, fault) for fault in faults]))
    return configuration_of(raw)


def faults_in(obj: Mapping[str, Any]) -> tuple[Fault, ...]:
    """What is wrong with a configuration; empty: nothing."""
    return tuple(_read(obj)[1])


def configured(given: Mapping[str, Any] | None = None) -> Configuration:
    """What a Kueue that was installed from its manifests does, with these fields of the Configuration on top.

    Raises: InvalidInput.
    """
    base: dict[str, Any] = {"integrations": {"frameworks": list(INSTALLED_FRAMEWORKS)}, **(given or {})}
    return read_configuration(Manifest(base, "configuration"))


def _read(obj: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[Fault]]:
    api_version = obj.get("apiVersion", f"{GROUP}/{VERSIONS[0]}")
    group, _, version = str(api_version).rpartition("/")
    if group != GROUP or version not in VERSIONS or obj.get("kind", KIND) != KIND:
        why = f"expected a {KIND} of {GROUP}/{VERSIONS[0]} or {GROUP}/{VERSIONS[1]}"
        return None, [f.invalid(("apiVersion",), api_version, why)]
    # Whoever wrote it as an object gave it a name: it means nothing.
    body = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata")}
    schema = schema_of(version)
    found = [Fault(path, f.OMITTED, "unknown field", "") for path in unknown_paths(body, schema)]
    found += [Fault(*problem) for problem in validate_custom(without_nulls(body), schema)]
    found += [fault for path in _DURATIONS for fault in _duration_faults(body, path)]
    if found:
        return None, found
    raw = settled(body, version)
    return raw, configuration_faults(raw)


def _duration_faults(body: Mapping[str, Any], path: Path) -> list[Fault]:
    at: Any = body
    for step in path:
        at = at.get(step) if isinstance(at, dict) else None
    if not isinstance(at, str):
        return []
    try:
        duration_ns(at)
    except ValueError as wrong:
        return [f.invalid(path, at, str(wrong))]
    return []


def _problem(manifest: Manifest, fault: Fault) -> FieldProblem:
    line = manifest.line_of(fault.path)
    return FieldProblem(manifest.file, line, path_text(fault.path), "", fault.body, KIND)
