"""Jobs and CronJobs.

Source: pkg/apis/batch/validation/validation.go (v1.36).
"""

from __future__ import annotations

import re
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.validation.context import Context
from fairway.kube.validation.problem import (
    UNSUPPORTED,
    Problem,
    duplicate,
    invalid,
    invalids,
    required,
    too_many,
    unsupported,
)
from fairway.kube.validation.rules.selectors import check_label_selector, check_matches_template

# Caps on the length of status.completedIndexes and failedIndexes.
_MAX_INDEXED = 100_000
_MAX_PARALLELISM_ABOVE = 10_000
_MAX_RULES = 20
_MAX_EXIT_CODES = 255
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")
_MAX_CRON_NAME = 52
_CRON_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_CRON_WORDS = frozenset(["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"])
_CRON_NAMES = {
    3: ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    4: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
}


def check_job(job: dict[str, Any], path: Path, context: Context) -> None:
    spec = job.get("spec") or {}
    if spec.get("template") is None:
        context.out.append(required(("spec", "template", "spec", "containers")))
    name, completions = (job.get("metadata") or {}).get("name") or "", spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0 and name:
        hostname = f"{name}-{completions - 1}"
        if names.dns_label(hostname):
            detail = f"will not able to create pod with invalid DNS label: {hostname}"
            context.out.append(invalid(("metadata", "name"), name, detail))
    if spec.get("selector") is not None:
        check_label_selector(spec["selector"], ("spec", "selector"), context.out)
        if spec.get("manualSelector"):
            check_matches_template(spec, ("spec",), context.out)
    elif spec.get("manualSelector"):
        context.out.append(required(("spec", "selector")))


def check_job_spec(spec: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        out.append(required((*path, "backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
    if spec.get("completionMode") == "Indexed":
        _check_indexed(spec, path, out)
    elif spec.get("completionMode") in (None, "NonIndexed"):
        for member in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if spec.get(member) is not None:
                out.append(invalid((*path, member), spec[member], "requires indexed completion mode"))
    _check_replacement(spec, path, out)
    _check_failure_policy(spec, path, out)
    _check_success_policy(spec, path, out)
    _check_managed_by(spec, path, out)
    _check_restart_policy(spec, (*path, "template", "spec", "restartPolicy"), out)


def _check_indexed(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        out.append(required((*path, "completions"), "when completion mode is Indexed"))
    if parallelism > _MAX_INDEXED:
        detail = f"must be less than or equal to {_MAX_INDEXED} when completion mode is Indexed"
        out.append(invalid((*path, "parallelism"), parallelism, detail))
    if completions is not None and failed is not None and failed > completions:
        out.append(invalid((*path, "maxFailedIndexes"), failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MAX_INDEXED:
        detail = f"must be less than or equal to {_MAX_INDEXED}"
        out.append(invalid((*path, "maxFailedIndexes"), failed, detail))
    if (completions or 0) <= _MAX_INDEXED or spec.get("backoffLimitPerIndex") is None:
        return
    above = f"when completions are above {_MAX_INDEXED} and used with backoff limit per index"
    if failed is None:
        detail = f"must be specified when completions is above {_MAX_INDEXED}"
        out.append(required((*path, "maxFailedIndexes"), detail))
    for member, value in (("parallelism", parallelism), ("maxFailedIndexes", failed or 0)):
        if value > _MAX_PARALLELISM_ABOVE:
            detail = f"must be less than or equal to {_MAX_PARALLELISM_ABOVE} {above}"
            out.append(invalid((*path, member), value, detail))


def _check_replacement(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if policy not in allowed:
        out.append(unsupported((*path, "podReplacementPolicy"), policy, allowed))


def _check_failure_policy(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    at = (*path, "podFailurePolicy", "rules")
    rules = policy.get("rules") or ()
    if len(rules) > _MAX_RULES:
        out.append(too_many(at, len(rules), _MAX_RULES))
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {c.get("name") for kind in ("containers", "initContainers") for c in pod.get(kind) or ()}
    for index, rule in enumerate(rules):
        _check_failure_rule(rule, spec, containers, (*at, index), out)


def _check_failure_rule(
    rule: dict[str, Any], spec: dict[str, Any], containers: set[Any], at: Path, out: list[Problem]
) -> None:
    action = rule.get("action") or ""
    if not action:
        out.append(required((*at, "action"), 'valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'))
    elif action not in _ACTIONS:
        out.append(unsupported((*at, "action"), action, _ACTIONS))
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        out.append(invalid((*at, "action"), action, "requires the backoffLimitPerIndex to be set"))
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if codes is not None:
        _check_exit_codes(codes, containers, (*at, "onExitCodes"), out)
    for index, pattern in enumerate(conditions):
        where = (*at, "onPodConditions", index)
        type_, status = pattern.get("type") or "", pattern.get("status") or ""
        out.extend(invalids((*where, "type"), type_, names.label_key(type_)))
        if not status:
            out.append(required((*where, "status"), 'valid values: ["False" "True" "Unknown"]'))
        elif status not in _STATUSES:
            out.append(unsupported((*where, "status"), status, _STATUSES))
    if codes is not None and conditions:
        out.append(invalid(at, rule, "specifying both OnExitCodes and OnPodConditions is not supported"))
    elif codes is None and not conditions:
        out.append(invalid(at, rule, "specifying one of OnExitCodes and OnPodConditions is required"))


def _check_exit_codes(codes: dict[str, Any], containers: set[Any], at: Path, out: list[Problem]) -> None:
    operator, values = codes.get("operator") or "", codes.get("values") or []
    if not operator:
        out.append(required((*at, "operator"), 'valid values: ["In" "NotIn"]'))
    elif operator not in ("In", "NotIn"):
        out.append(unsupported((*at, "operator"), operator, ("In", "NotIn")))
    name = codes.get("containerName")
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        out.append(invalid((*at, "containerName"), name, detail))
    where = (*at, "values")
    if not values:
        out.append(invalid(where, values, "at least one value is required"))
    elif len(values) > _MAX_EXIT_CODES:
        out.append(too_many(where, len(values), _MAX_EXIT_CODES))
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            out.append(invalid((*where, index), value, "must not be 0 for the In operator"))
        if value in values[:index]:
            out.append(duplicate((*where, index), value))
    if values != sorted(values):
        out.append(invalid(where, values, "must be ordered"))


def _check_success_policy(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    policy = spec.get("successPolicy")
    if policy is None or spec.get("completionMode") != "Indexed":
        return
    at = (*path, "successPolicy", "rules")
    rules = policy.get("rules") or ()
    if not rules:
        out.append(required(at, "at least one rules must be specified when the successPolicy is specified"))
    if len(rules) > _MAX_RULES:
        out.append(too_many(at, len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        if rule.get("succeededCount") is None and not rule.get("succeededIndexes"):
            detail = "at least one of succeededCount or succeededIndexes must be specified"
            out.append(required((*at, index), detail))
        count = rule.get("succeededCount")
        if count is not None and count <= 0:
            out.append(invalid((*at, index, "succeededCount"), count, "must be greater than 0"))


def _check_managed_by(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    manager = spec.get("managedBy")
    if manager is None:
        return
    domain, _, rest = manager.partition("/")
    at = (*path, "managedBy")
    if not domain or not rest:
        out.append(invalid(at, manager, 'must be a domain-prefixed path (such as "acme.io/foo")'))
        return
    out.extend(invalids(at, domain, names.dns_subdomain(domain)))


def _check_restart_policy(spec: dict[str, Any], at: Path, out: list[Problem]) -> None:
    pod = (spec.get("template") or {}).get("spec")
    if not pod:
        return
    policy = pod.get("restartPolicy") or ""
    if policy in ("", "Always"):
        out.append(required(at, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        out[:] = [p for p in out if not (p.path == at and p.reason == UNSUPPORTED)]
        out.append(unsupported(at, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        out.append(invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified'))


def check_cron_job(cron_job: dict[str, Any], path: Path, context: Context) -> None:
    name = (cron_job.get("metadata") or {}).get("name") or ""
    if len(name) > _MAX_CRON_NAME:
        detail = f"must be no more than {_MAX_CRON_NAME} characters"
        context.out.append(invalid(("metadata", "name"), name, detail))


def check_cron_spec(spec: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    schedule = spec.get("schedule") or ""
    if "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        out.append(invalid((*path, "schedule"), schedule, detail))
    elif schedule and (wrong := schedule_complaint(schedule)):
        out.append(invalid((*path, "schedule"), schedule, wrong))
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    at = (*path, "jobTemplate", "spec")
    if job.get("template") is None:
        out.append(required((*at, "template", "spec", "containers")))
    if job.get("selector") is not None:
        out.append(invalid((*at, "selector"), job["selector"], "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        out.append(unsupported((*at, "manualSelector"), True, ("nil", "false")))


def schedule_complaint(schedule: str) -> str:
    """What is wrong with a cron schedule, empty for nothing. Source: robfig/cron/v3 ParseStandard."""
    if schedule.startswith("@"):
        if schedule in _CRON_WORDS or re.fullmatch(r"@every ([0-9.]+(ns|us|µs|ms|s|m|h))+", schedule):
            return ""
        return f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for index, field in enumerate(fields):
        for part in field.split(","):
            wrong = _cron_part_complaint(part, index)
            if wrong:
                return wrong
    return ""


def _cron_part_complaint(part: str, index: int) -> str:
    low_end, high_end = _CRON_RANGES[index]
    range_text, _, step = part.partition("/")
    if "/" in part and not (step.isdigit() and int(step) > 0):
        return f"failed to parse int from {step}: expected a positive step: {part}"
    if range_text in ("*", "?"):
        return ""
    bounds = range_text.split("-")
    if len(bounds) > 2:
        return f"too many hyphens: {part}"
    numbers = []
    for bound in bounds:
        named = _CRON_NAMES.get(index, [])
        if bound.lower() in named:
            numbers.append(named.index(bound.lower()) + (1 if index == 3 else 0))
        elif bound.isdigit():
            numbers.append(int(bound))
        else:
            return f"failed to parse int from {bound}: expected a number: {part}"
    if numbers[0] < low_end:
        return f"beginning of range ({numbers[0]}) below minimum ({low_end}): {part}"
    if numbers[-1] > high_end:
        return f"end of range ({numbers[-1]}) above maximum ({high_end}): {part}"
    if numbers[0] > numbers[-1]:
        return f"beginning of range ({numbers[0]}) beyond end of range ({numbers[-1]}): {part}"
    return ""


RULES = {
    "Job": check_job,
    "JobSpec": check_job_spec,
    "CronJob": check_cron_job,
    "CronJobSpec": check_cron_spec,
}
