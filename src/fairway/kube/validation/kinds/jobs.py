"""Jobs and CronJobs.

Source: pkg/apis/batch/validation/validation.go; pkg/registry/batch/job/strategy.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fairway.kube import cron, names
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.internals import Typed
from fairway.kube.objects import Obj, meta_of, name_of, spec_of, status_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts
from fairway.kube.validation.kinds.indexes import IndexesError, count_of
from fairway.kube.validation.kinds.metadata import object_meta, object_meta_update
from fairway.kube.validation.kinds.pods import template
from fairway.kube.validation.kinds.sameness import immutable
from fairway.kube.validation.kinds.selectors import is_usable, label_selector_of, matches_template, shown

Part = Mapping[str, Any]
_AT: Path = ("spec",)
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_SOFT_LIMIT = 100_000
_HIGH_LIMIT = 10_000
_MAX_NAME = 52
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_FIXED = ("podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_FIXED_TYPES = {"podFailurePolicy": "*batch.PodFailurePolicy", "successPolicy": "*batch.SuccessPolicy"}
_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")


def job(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    spec = spec_of(obj)
    _generated_selector(obj, spec, out)
    _job_and_selector(spec, out)
    completions, name = spec.get("completions") or 0, name_of(obj)
    if spec.get("completionMode") == "Indexed" and completions > 0:
        hostname = f"{name}-{completions - 1}"
        if names.dns_label(hostname):
            said = f"will not able to create pod with invalid DNS label: {hostname}"
            out.invalid(("metadata", "name"), name, said)


def _generated_selector(obj: Obj, spec: Part, out: Faults) -> None:
    """Before a server has given it a uid nothing is generated."""
    uid, selector = meta_of(obj).get("uid"), spec.get("selector")
    if spec.get("manualSelector") or selector is None or not uid:
        return
    wanted = dict(zip(_LABELS, (uid, name_of(obj)) * 2, strict=True))
    found = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    for key, value in wanted.items():
        at = (*_AT, "template", "metadata", "labels", MapKey(key))
        if key not in found:
            out.required(at, f"must be '{value}'")
        elif found[key] != value:
            out.invalid(at, dict(sorted(found.items())), f"must be '{value}'")
    faults = Faults()
    if is_usable(selector):
        matches_template(selector, {"metadata": {"labels": wanted}}, (), faults)
    if faults:
        out.invalid((*_AT, "selector"), shown(selector), "`selector` not auto-generated")


def _job_and_selector(spec: Part, out: Faults) -> None:
    job_spec(spec, _AT, out)
    selector = spec.get("selector")
    if selector is None:
        if spec.get("manualSelector"):
            out.required((*_AT, "selector"))
    else:
        label_selector_of(selector, (*_AT, "selector"), out)
    if is_usable(selector) and (selector is not None or spec.get("manualSelector")):
        matches_template(selector, spec.get("template") or {}, (*_AT, "template"), out)


def job_spec(spec: Part, at: Path, out: Faults) -> None:
    """A Job's spec, or that of a CronJob's template."""
    for name in _COUNTS:
        out.negative((*at, name), spec.get(name))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        out.required((*at, "backoffLimitPerIndex"), "when maxFailedIndexes is specified")
    if spec.get("managedBy") is not None:
        texts.domain_prefixed_path(spec["managedBy"], (*at, "managedBy"), out)
        if len(spec["managedBy"]) > 63:
            out.too_long((*at, "managedBy"), 63)
    _completion_mode(spec, at, out)
    if spec.get("podFailurePolicy") is not None:
        _failure_policy(spec, spec["podFailurePolicy"], (*at, "podFailurePolicy", "rules"), out)
    _success_policy(spec, (*at, "successPolicy"), out)
    _replacement(spec, (*at, "podReplacementPolicy"), out)
    found, where = spec.get("template") or {}, (*at, "template")
    template(found, where, out)
    _restart_policy(spec, (found.get("spec") or {}).get("restartPolicy"), where, out)


def _restart_policy(spec: Part, policy: str | None, at: Path, out: Faults) -> None:
    at = (*at, "spec", "restartPolicy")
    if policy in ("Always", "", None):
        out.required(at, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        out.unsupported(at, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        out.invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _completion_mode(spec: Part, at: Path, out: Faults) -> None:
    mode = spec.get("completionMode")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        out.unsupported((*at, "completionMode"), mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        _indexed(spec, at, out)
    if mode in (None, "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                out.invalid((*at, name), spec[name], "requires indexed completion mode")


def _indexed(spec: Part, at: Path, out: Faults) -> None:
    completions, parallelism, failed = (
        spec.get(n) for n in ("completions", "parallelism", "maxFailedIndexes")
    )
    if completions is None:
        out.required((*at, "completions"), "when completion mode is Indexed")
    if (parallelism or 0) > _SOFT_LIMIT:
        said = f"must be less than or equal to {_SOFT_LIMIT} when completion mode is Indexed"
        out.invalid((*at, "parallelism"), parallelism, said)
    if completions is not None and failed is not None and failed > completions:
        out.invalid((*at, "maxFailedIndexes"), failed, "must be less than or equal to completions")
    if (failed or 0) > _SOFT_LIMIT:
        out.invalid((*at, "maxFailedIndexes"), failed, f"must be less than or equal to {_SOFT_LIMIT}")
    if (completions or 0) <= _SOFT_LIMIT or spec.get("backoffLimitPerIndex") is None:
        return
    said = (
        f"must be less than or equal to {_HIGH_LIMIT} when completions are above {_SOFT_LIMIT} and used with backoff "
        "limit per index"
    )
    if failed is None:
        out.required((*at, "maxFailedIndexes"), f"must be specified when completions is above {_SOFT_LIMIT}")
    if (parallelism or 0) > _HIGH_LIMIT:
        out.invalid((*at, "parallelism"), parallelism, said)
    if (failed or 0) > _HIGH_LIMIT:
        out.invalid((*at, "maxFailedIndexes"), failed, said)


def _replacement(spec: Part, at: Path, out: Faults) -> None:
    policy = spec.get("podReplacementPolicy")
    known = ("Failed",) if spec.get("podFailurePolicy") is not None else _REPLACEMENTS
    if policy is not None and policy not in known:
        out.unsupported(at, policy, known)


def _listed(choices: Sequence[str]) -> str:
    """As Go's %q of a list."""
    return "valid values: [" + " ".join(f'"{choice}"' for choice in choices) + "]"


def _failure_policy(spec: Part, policy: Part, at: Path, out: Faults) -> None:
    rules, pod = policy.get("rules") or (), (spec.get("template") or {}).get("spec") or {}
    if len(rules) > 20:
        out.too_many(at, len(rules), 20)
    containers = {c.get("name") for k in ("containers", "initContainers") for c in pod.get(k) or ()}
    for index, rule in enumerate(rules):
        where, action = (*at, index), rule.get("action") or ""
        if not action:
            out.required((*where, "action"), _listed(_ACTIONS))
        elif action == "FailIndex":
            if spec.get("backoffLimitPerIndex") is None:
                out.invalid((*where, "action"), action, "requires the backoffLimitPerIndex to be set")
        elif action not in _ACTIONS:
            out.unsupported((*where, "action"), action, _ACTIONS)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if codes is not None:
            _exit_codes(codes, containers, (*where, "onExitCodes"), out)
        _pod_conditions(conditions or (), (*where, "onPodConditions"), out)
        if codes is not None and conditions:
            out.omitted(where, "specifying both OnExitCodes and OnPodConditions is not supported")
        if codes is None and not conditions:
            out.omitted(where, "specifying one of OnExitCodes and OnPodConditions is required")


def _exit_codes(codes: Part, containers: set[Any], at: Path, out: Faults) -> None:
    operator, values, name = codes.get("operator") or "", codes.get("values"), codes.get("containerName")
    if not operator:
        out.required((*at, "operator"), _listed(_OPERATORS))
    elif operator not in _OPERATORS:
        out.unsupported((*at, "operator"), operator, _OPERATORS)
    if name is not None and name not in containers:
        said = "must be one of the container or initContainer names in the pod template"
        out.invalid((*at, "containerName"), name, said)
    if not values:
        out.invalid((*at, "values"), values, "at least one value is required")
        return
    if len(values) > 255:
        out.too_many((*at, "values"), len(values), 255)
    seen = set()
    for index, code in enumerate(values):
        if operator == "In" and code == 0:
            out.invalid((*at, "values", index), code, "must not be 0 for the In operator")
        if code in seen:
            out.duplicate((*at, "values", index), code)
        seen.add(code)
    if list(values) != sorted(values):
        out.invalid((*at, "values"), values, "must be ordered")


def _pod_conditions(patterns: Sequence[Part], at: Path, out: Faults) -> None:
    if len(patterns) > 20:
        out.too_many(at, len(patterns), 20)
    for index, pattern in enumerate(patterns):
        where, status = (*at, index), pattern.get("status") or ""
        texts.qualified_name(pattern.get("type") or "", (*where, "type"), out)
        if not status:
            out.required((*where, "status"), _listed(_STATUSES))
        elif status not in _STATUSES:
            out.unsupported((*where, "status"), status, _STATUSES)


def _success_policy(spec: Part, at: Path, out: Faults) -> None:
    policy = spec.get("successPolicy")
    if policy is None:
        return
    if spec.get("completionMode") != "Indexed":
        out.invalid(at, Typed("batch.SuccessPolicy", policy), "requires indexed completion mode")
        return
    rules, at, completions = policy.get("rules") or (), (*at, "rules"), spec.get("completions") or 0
    if not rules:
        out.required(at, "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > 20:
        out.too_many(at, len(rules), 20)
    for index, rule in enumerate(rules):
        _success_rule(rule, completions, (*at, index), out)


def _success_rule(rule: Part, completions: int, at: Path, out: Faults) -> None:
    count, indexes, total = rule.get("succeededCount"), rule.get("succeededIndexes"), 0
    if count is None and indexes is None:
        out.required(at, "at least one of succeededCount or succeededIndexes must be specified")
    if indexes is not None:
        where = (*at, "succeededIndexes")
        if len(indexes) > 65536:
            out.too_long(where, 65536)
        try:
            total = count_of(indexes, completions)
        except IndexesError as wrong:
            out.invalid(where, indexes, f"error parsing succeededIndexes: {wrong}")
    if count is None:
        return
    where, said = (*at, "succeededCount"), "must be less than or equal to"
    out.negative(where, count)
    if count > completions:
        out.invalid(where, count, f"{said} {completions} (the number of specified completions)")
    if indexes is not None and count > total:
        what = f"{said} {total} (the number of indexes in the specified succeededIndexes field)"
        out.invalid(where, count, what)


def job_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    spec, before = spec_of(new), spec_of(old)
    _job_and_selector(spec, out)
    _completions(spec, before, out)
    immutable(
        spec.get("selector"), before.get("selector"), (*_AT, "selector"), out, shown(spec.get("selector"))
    )
    _template(new, old, out)
    immutable(spec.get("completionMode"), before.get("completionMode"), (*_AT, "completionMode"), out)
    for name in _FIXED:
        kind = _FIXED_TYPES.get(name)
        value = Typed(kind, spec.get(name)) if kind else None
        immutable(spec.get(name), before.get(name), (*_AT, name), out, value)


def _completions(spec: Part, before: Part, out: Faults) -> None:
    now, at = spec.get("completions"), (*_AT, "completions")
    if spec.get("completionMode") != "Indexed":
        immutable(now, before.get("completions"), at, out)
    elif now is not None and now != before.get("completions") and now != spec.get("parallelism"):
        out.invalid(at, now, "can only be modified in tandem with spec.parallelism")


def _template(new: Obj, old: Obj, out: Faults) -> None:
    spec, before = spec_of(new), spec_of(old)
    now, then = spec.get("template") or {}, before.get("template") or {}
    status = status_of(old)
    is_suspended = bool(before.get("suspend"))
    if (is_suspended and not status.get("startTime")) or _is_stopped(old):
        then = _with_directives(then, now)
    if is_suspended and not status.get("active"):
        pod, was = now.get("spec") or {}, _with_resources(then.get("spec") or {}, now.get("spec") or {})
        immutable(pod, was, (*_AT, "template.spec"), out, Typed("core.PodSpec", pod))
    else:
        immutable(now, then, (*_AT, "template"), out, Typed("core.PodTemplateSpec", _flat(now)))


def _is_stopped(old: Obj) -> bool:
    """Suspended, with no pod left. Source: job strategy.go validationOptionsForJob."""
    conditions = status_of(old).get("conditions") or ()
    said = any(c.get("type") == "Suspended" and c.get("status") == "True" for c in conditions)
    return said and bool(spec_of(old).get("suspend")) and not status_of(old).get("active")


def _flat(found: Part) -> dict[str, Any]:
    """Go embeds a template's metadata."""
    return {**(found.get("metadata") or {}), "spec": found.get("spec")}


def _with_directives(then: Part, now: Part) -> dict[str, Any]:
    pod, new = dict(then.get("spec") or {}), now.get("spec") or {}
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        pod[name] = new.get(name)
    affinity = {k: v for k, v in (pod.get("affinity") or {}).items() if k != "nodeAffinity"}
    node = (new.get("affinity") or {}).get("nodeAffinity")
    pod["affinity"] = {**affinity, "nodeAffinity": node} if node is not None else affinity
    meta, after = dict(then.get("metadata") or {}), now.get("metadata") or {}
    meta["labels"], meta["annotations"] = after.get("labels"), after.get("annotations")
    return {**then, "spec": pod, "metadata": meta}


def _with_resources(then: Part, now: Part) -> dict[str, Any]:
    pod = dict(then)
    for kind in ("containers", "initContainers"):
        before, after = then.get(kind) or (), now.get(kind) or ()
        if before and len(before) == len(after):
            pairs = zip(before, after, strict=True)
            pod[kind] = [
                {**b, "resources": a.get("resources")} if a.get("name") == b.get("name") else b
                for b, a in pairs
            ]
    return pod


def cron_job(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    _cron_spec(spec_of(obj), None, out)
    if len(name_of(obj)) > _MAX_NAME:
        out.invalid(("metadata", "name"), name_of(obj), f"must be no more than {_MAX_NAME} characters")


def cron_job_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    _cron_spec(spec_of(new), spec_of(old), out)


def _cron_spec(spec: Part, before: Part | None, out: Faults) -> None:
    schedule, zone = spec.get("schedule") or "", spec.get("timeZone")
    if not schedule:
        out.required((*_AT, "schedule"))
    else:
        zoned = before is not None and "TZ" in (before.get("schedule") or "")
        _schedule(schedule, zone, (*_AT, "schedule"), out, zoned=zoned)
    out.negative((*_AT, "startingDeadlineSeconds"), spec.get("startingDeadlineSeconds"))
    if zone is not None and (before is None or before.get("timeZone") != zone):
        _time_zone(zone, (*_AT, "timeZone"), out)
    texts.one_of(spec.get("concurrencyPolicy"), _CONCURRENCY, (*_AT, "concurrencyPolicy"), out)
    inner, at = (spec.get("jobTemplate") or {}).get("spec") or {}, (*_AT, "jobTemplate", "spec")
    job_spec(inner, at, out)
    if inner.get("selector") is not None:
        out.invalid((*at, "selector"), shown(inner["selector"]), "`selector` will be auto-generated")
    if inner.get("manualSelector"):
        out.unsupported((*at, "manualSelector"), True, ("nil", "false"))
    out.negative((*_AT, "successfulJobsHistoryLimit"), spec.get("successfulJobsHistoryLimit"))
    out.negative((*_AT, "failedJobsHistoryLimit"), spec.get("failedJobsHistoryLimit"))


def _schedule(text: str, zone: str | None, at: Path, out: Faults, *, zoned: bool) -> None:
    has_zone = "TZ" in text
    try:
        cron.parse(text.partition(" ")[2] if text.startswith(("TZ=", "CRON_TZ=")) else text)
    except cron.ScheduleError as wrong:
        out.invalid(at, text, str(wrong))
    if zoned and has_zone and zone is not None:
        out.invalid(at, text, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
    elif has_zone and not zoned:
        out.invalid(at, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")


def _time_zone(zone: str, at: Path, out: Faults) -> None:
    if not zone:
        out.invalid(at, zone, "timeZone must be nil or non-empty string")
        return
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            out.invalid(at, zone, f"unknown time zone {zone}")
            return
    if zone.lower() == "local":
        said = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        out.invalid(at, zone, said)
    elif not _is_zone(zone):
        out.invalid(at, zone, f"unknown time zone {zone}")


def _is_zone(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
