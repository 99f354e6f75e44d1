"""Deployments, ReplicaSets, StatefulSets, DaemonSets, disruption budgets.

Source: pkg/apis/apps/validation/validation.go, pkg/apis/policy/validation/validation.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.validation.context import Context, PodFacts
from fairway.kube.validation.problem import Problem, forbidden, invalid, invalids, required, unsupported
from fairway.kube.validation.rules.pods import check_restart_always
from fairway.kube.validation.rules.selectors import (
    check_label_selector,
    check_matches_template,
    check_selects_template,
)


def enter_stateful_set(spec: dict[str, Any], path: Path, context: Context) -> None:
    """The claims of a StatefulSet's templates are volumes of its pods."""
    claims = spec.get("volumeClaimTemplates") or ()
    volumes = {
        (c.get("metadata") or {}).get("name") or "": {"persistentVolumeClaim": {"claimName": "x"}}
        for c in claims
    }
    context.pod = PodFacts(volumes=volumes, is_pod=False)


def check_deployment(spec: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    check_selects_template(spec, path, "deployment", out)
    _check_template(spec, path, "ReplicaSet", out)
    strategy = spec.get("strategy") or {}
    at = (*path, "strategy")
    if strategy.get("type") == "Recreate":
        if strategy.get("rollingUpdate") is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            out.append(forbidden((*at, "rollingUpdate"), detail))
    elif strategy.get("type") == "RollingUpdate":
        _check_rolling_deployment(strategy.get("rollingUpdate") or {}, (*at, "rollingUpdate"), out)
    else:
        out.append(unsupported(at, strategy, ("Recreate", "RollingUpdate")))
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        out.append(
            invalid((*path, "progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")
        )


def _check_template(spec: dict[str, Any], path: Path, kind: str, out: list[Problem]) -> None:
    template = spec.get("template")
    if template is None:
        out.append(required((*path, "template", "spec", "containers")))
        return
    check_restart_always(template, (*path, "template"), kind, out)


def _check_rolling_deployment(rolling: dict[str, Any], at: Path, out: list[Problem]) -> None:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    check_count_or_percent(unavailable, (*at, "maxUnavailable"), out)
    check_count_or_percent(surge, (*at, "maxSurge"), out)
    if count_or_percent(unavailable) == 0 and count_or_percent(surge) == 0:
        detail = "may not be 0 when `maxSurge` is 0"
        out.append(invalid((*at, "maxUnavailable"), unavailable, detail))
    check_at_most_all(unavailable, (*at, "maxUnavailable"), out)


def check_count_or_percent(value: Any, path: Path, out: list[Problem]) -> None:
    if isinstance(value, str):
        out.extend(invalids(path, value, names.percent(value)))
    elif value is not None and value < 0:
        out.append(invalid(path, value, "must be greater than or equal to 0"))


def count_or_percent(value: Any) -> int:
    """The number in `3` or `25%`; 0 for anything else."""
    if isinstance(value, str):
        return 0 if names.percent(value) else int(value[:-1])
    return value or 0


def check_at_most_all(value: Any, path: Path, out: list[Problem]) -> None:
    if isinstance(value, str) and count_or_percent(value) > 100:
        out.append(invalid(path, value, "must not be greater than 100%"))


def check_replica_set(spec: dict[str, Any], path: Path, context: Context) -> None:
    check_selects_template(spec, path, "deployment", context.out)
    _check_template(spec, path, "ReplicaSet", context.out)


def check_replication_controller(spec: dict[str, Any], path: Path, context: Context) -> None:
    template, selector = spec.get("template"), spec.get("selector")
    if not template:
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector and any(labels.get(k) != v for k, v in selector.items()):
        detail = "`selector` does not match template `labels`"
        context.out.append(invalid((*path, "template", "metadata", "labels"), labels, detail))
    check_restart_always(template, (*path, "template"), "ReplicationController", context.out)


def check_stateful_set(spec: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    at = (*path, "updateStrategy")
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "OnDelete":
        if rolling is not None:
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            out.append(invalid((*at, "rollingUpdate"), rolling, detail))
    elif strategy.get("type") != "RollingUpdate":
        out.append(invalid(at, strategy, "must be 'RollingUpdate' or 'OnDelete'"))
    elif rolling and rolling.get("maxUnavailable") is not None:
        unavailable = rolling["maxUnavailable"]
        where = (*at, "rollingUpdate", "maxUnavailable")
        check_count_or_percent(unavailable, where, out)
        if count_or_percent(unavailable) == 0:
            out.append(invalid(where, unavailable, "cannot be 0"))
        check_at_most_all(unavailable, where, out)
    check_selects_template(spec, path, "statefulset", out)
    _check_template(spec, path, "StatefulSet", out)


def check_daemon_set(spec: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    check_label_selector(spec.get("selector"), (*path, "selector"), out)
    check_matches_template(spec, path, out)
    selector = spec.get("selector")
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        out.append(invalid((*path, "selector"), selector, "empty selector is invalid for daemonset"))
    _check_template(spec, path, "DaemonSet", out)
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "RollingUpdate":
        at = (*path, "updateStrategy", "rollingUpdate")
        _check_rolling_daemon_set(strategy.get("rollingUpdate") or {}, at, out)
    elif strategy.get("type") != "OnDelete":
        out.append(unsupported((*path, "updateStrategy"), strategy, ("RollingUpdate", "OnDelete")))


def _check_rolling_daemon_set(rolling: dict[str, Any], at: Path, out: list[Problem]) -> None:
    for member in ("maxUnavailable", "maxSurge"):
        check_count_or_percent(rolling.get(member), (*at, member), out)
        check_at_most_all(rolling.get(member), (*at, member), out)
    unavailable, surge = (count_or_percent(rolling.get(m)) for m in ("maxUnavailable", "maxSurge"))
    if unavailable and surge:
        detail = "may not be set when maxUnavailable is non-zero"
        out.append(invalid((*at, "maxSurge"), rolling.get("maxSurge"), detail))
    elif not unavailable and not surge:
        out.append(required((*at, "maxUnavailable"), "cannot be 0 when maxSurge is 0"))


def check_disruption_budget(spec: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        out.append(invalid(path, spec, "minAvailable and maxUnavailable cannot be both set"))
    for member in ("minAvailable", "maxUnavailable"):
        check_count_or_percent(spec.get(member), (*path, member), out)
        check_at_most_all(spec.get(member), (*path, member), out)
    check_label_selector(spec.get("selector"), (*path, "selector"), out)


ENTER_RULES = {"StatefulSetSpec": enter_stateful_set}
RULES = {
    "DeploymentSpec": check_deployment,
    "ReplicaSetSpec": check_replica_set,
    "ReplicationControllerSpec": check_replication_controller,
    "StatefulSetSpec": check_stateful_set,
    "DaemonSetSpec": check_daemon_set,
    "PodDisruptionBudgetSpec": check_disruption_budget,
}
