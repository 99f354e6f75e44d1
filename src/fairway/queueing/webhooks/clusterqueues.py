"""What do the webhooks of ClusterQueue and Cohort refuse?

Source: pkg/webhooks/clusterqueue_webhook.go, cohort_webhook.go; apimachinery pkg/apis/meta/v1/validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, spec_of
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault
from fairway.queueing.webhooks.quotas import fair_sharing_faults, resource_group_faults
from fairway.queueing.webhooks.settings import Settings

_SPEC: Path = ("spec",)
_GROUPS: Path = ("spec", "resourceGroups")
_CHECKS: Path = ("spec", "admissionChecksStrategy", "admissionChecks")
_MIGRATION: Path = ("spec", "concurrentAdmissionPolicy", "migration", "constraints")
_MAX_TOTAL = 256
_MAX_COMBINATIONS = 512
_MAX_VARIANTS = 16


def cohort_faults(cohort: Obj, _old: Obj | None, _settings: Settings) -> list[Fault]:
    spec = spec_of(cohort)
    has_parent = bool(spec.get("parentName"))
    groups = spec.get("resourceGroups") or ()
    return [
        *fair_sharing_faults(spec.get("fairSharing"), (*_SPEC, "fairSharing")),
        *resource_group_faults(groups, _GROUPS, parent="parent", has_parent=has_parent),
    ]


def cluster_queue_faults(queue: Obj, old: Obj | None, settings: Settings) -> list[Fault]:
    spec = spec_of(queue)
    groups = spec.get("resourceGroups") or []
    has_cohort = bool(spec.get("cohortName"))
    out = resource_group_faults(groups, _GROUPS, parent="cohort", has_parent=has_cohort)
    out += label_selector_faults(spec.get("namespaceSelector"), (*_SPEC, "namespaceSelector"))
    out += _preemption_faults(spec.get("preemption"))
    out += _fungibility_faults(spec.get("flavorFungibility") or {})
    out += fair_sharing_faults(spec.get("fairSharing"), (*_SPEC, "fairSharing"))
    out += _total_faults(groups)
    if settings.is_on("ConcurrentAdmission"):
        out += _concurrency_faults(spec, groups)
    out += _check_faults(spec, old, settings)
    if old is not None:
        name = "concurrentAdmissionPolicy"
        out += f.immutable((*_SPEC, name), spec.get(name), spec_of(old).get(name))
    return out


def label_selector_faults(selector: Mapping[str, Any] | None, path: Path) -> list[Fault]:
    """Source: ValidateLabelSelector."""
    selector = selector or {}
    out: list[Fault] = []
    for key, value in (selector.get("matchLabels") or {}).items():
        out += f.invalids((*path, "matchLabels"), key, names.label_key(key))
        out += f.invalids((*path, "matchLabels"), value, names.label_value(value))
    for i, wanted in enumerate(selector.get("matchExpressions") or ()):
        at: Path = (*path, "matchExpressions", i)
        out += _requirement_faults(wanted, at)
    return out


def _requirement_faults(wanted: Obj, at: Path) -> list[Fault]:
    out: list[Fault] = []
    operator, values = wanted.get("operator"), wanted.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            why = "must be specified when `operator` is 'In' or 'NotIn'"
            out.append(f.required((*at, "values"), why))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            out.append(f.forbidden((*at, "values"), why))
    else:
        out.append(f.invalid((*at, "operator"), operator, "not a valid selector operator"))
    key = wanted.get("key", "")
    out += f.invalids((*at, "key"), key, names.label_key(key))
    for index, value in enumerate(values):
        out += f.invalids((*at, "values", index), value, names.label_value(value))
    return out


def _preemption_faults(preemption: Mapping[str, Any] | None) -> list[Fault]:
    if preemption is None or preemption.get("reclaimWithinCohort") != "Never":
        return []
    borrowing = preemption.get("borrowWithinCohort")
    if borrowing is None or borrowing.get("policy") == "Never":
        return []
    why = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
    return [f.invalid((*_SPEC, "preemption"), dict(preemption), why)]


def _fungibility_faults(fungibility: Mapping[str, Any]) -> list[Fault]:
    preference = fungibility.get("preference")
    wants = (fungibility.get("whenCanBorrow"), fungibility.get("whenCanPreempt"))
    if preference is None or wants == ("TryNextFlavor", "TryNextFlavor"):
        return []
    why = f'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor'
    return [f.invalid((*_SPEC, "flavorFungibility", "preference"), preference, why)]


def _total_faults(groups: Sequence[Obj]) -> list[Fault]:
    out = []
    for field, what in (("flavors", "flavors"), ("coveredResources", "covered resources")):
        total = sum(len(g.get(field) or ()) for g in groups)
        if total > _MAX_TOTAL:
            why = f"total number of {what} across all resourceGroups must be ≤ {_MAX_TOTAL}, got {total}"
            out.append(f.invalid(_GROUPS, total, why))
    for i, group in enumerate(groups):
        total = sum(len(flavor.get("resources") or ()) for flavor in group.get("flavors") or ())
        if total > _MAX_COMBINATIONS:
            why = (
                "number of flavor-resource combinations in a resourceGroup must be ≤ "
                f"{_MAX_COMBINATIONS}, got {total}"
            )
            out.append(f.invalid((*_GROUPS, i), total, why))
    return out


def _concurrency_faults(spec: Obj, groups: Sequence[Obj]) -> list[Fault]:
    policy = spec.get("concurrentAdmissionPolicy")
    if policy is None:
        return []
    out = []
    flavors = _flavors(groups)
    if len(groups) != 1:
        why = "must have exactly one ResourceGroup when ConcurrentAdmissionPolicy is defined"
        out.append(f.invalid(_GROUPS, len(groups), why))
    elif len(flavors) > _MAX_VARIANTS:
        why = (
            f"cannot have more than {_MAX_VARIANTS} resource flavors in the ResourceGroup "
            "when ConcurrentAdmissionPolicy is defined"
        )
        out.append(f.invalid((*_GROUPS, 0, "flavors"), len(flavors), why))
    out += _migration_faults(policy.get("migration") or {}, flavors)
    if spec.get("queueingStrategy") == "StrictFIFO":
        why = "StrictFIFO queueing strategy cannot be used when ConcurrentAdmissionPolicy is defined"
        out.append(f.invalid((*_SPEC, "queueingStrategy"), "StrictFIFO", why))
    return out


def _migration_faults(migration: Obj, flavors: Sequence[str]) -> list[Fault]:
    constraints, mode = migration.get("constraints"), migration.get("mode") or ""
    if constraints is None:
        return []
    if mode not in ("", "TryPreferredFlavors"):
        why = f'may only be set when migration.mode is "TryPreferredFlavors" (got "{mode}")'
        return [f.forbidden(_MIGRATION, why)]
    last = constraints.get("lastAcceptableFlavorName")
    if last is None or last in flavors:
        return []
    why = f"must be one of the flavors defined in the ClusterQueue: [{' '.join(flavors)}]"
    return [f.invalid((*_MIGRATION, "lastAcceptableFlavorName"), last, why)]


def _check_faults(spec: Obj, old: Obj | None, settings: Settings) -> list[Fault]:
    """Admission checks on flavors the queue does not have. What was so before may stay while flavors stay."""
    checks = _checks(spec)
    flavors = _flavors(spec.get("resourceGroups") or ())
    before: dict[str, set[str]] = {}
    if old is not None and not settings.is_on("RejectUpdatesToCQWithInvalidOnFlavors"):
        was = spec_of(old)
        if set(_flavors(was.get("resourceGroups") or ())) == set(flavors):
            before = {c.get("name", ""): set(c.get("onFlavors") or ()) for c in _checks(was)}
    return [
        f.unsupported((*_CHECKS, i, "onFlavors", j), flavor, flavors)
        for i, check in enumerate(checks)
        if before.get(check.get("name", "")) != set(check.get("onFlavors") or ())
        for j, flavor in enumerate(check.get("onFlavors") or ())
        if flavor not in flavors
    ]


def _checks(spec: Obj) -> Sequence[Obj]:
    found: Sequence[Obj] = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    return found


def _flavors(groups: Sequence[Obj]) -> list[str]:
    """Unlike kube: in their order in the queue, where Go's order is that of a set."""
    return list(dict.fromkeys(fl.get("name", "") for g in groups for fl in g.get("flavors") or ()))
