"""Controllers that keep pods running: Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController.

Source: pkg/apis/apps/validation/validation.go; pkg/apis/core/validation ValidateReplicationController (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.internals import Typed
from fairway.kube.objects import Obj, spec_of, status_of
from fairway.kube.problem import Faults
from fairway.kube.quantity import MAX_INT64
from fairway.kube.validation.kinds import texts
from fairway.kube.validation.kinds.claims import claim_spec
from fairway.kube.validation.kinds.metadata import object_meta, object_meta_update
from fairway.kube.validation.kinds.pods import restarts_always, template
from fairway.kube.validation.kinds.sameness import immutable, is_same
from fairway.kube.validation.kinds.selectors import (
    controller_selector,
    is_usable,
    label_selector_of,
    matches_template,
    shown,
    sorted_map,
)

Part = Mapping[str, Any]
_AT: Path = ("spec",)
_INT64_DIGITS = 19
_STATEFUL_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_STATEFUL_WHY = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_RETENTION = ("Retain", "Delete")
_ABOVE = "cannot be greater than status.replicas"
# Kind → the counts of its status, which of them are bounded by its replicas, and how a message names the ready ones.
_COUNTS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "Deployment": (
        (
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ),
        ("updatedReplicas", "readyReplicas", "availableReplicas"),
        "readyReplicas",
    ),
    "StatefulSet": (
        (
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ),
        ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
        "status.readyReplicas",
    ),
    "ReplicaSet": (
        (
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ),
        ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        "readyReplicas",
    ),
    "DaemonSet": (
        (
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ),
        (),
        "",
    ),
}
_COUNTS["ReplicationController"] = (_COUNTS["ReplicaSet"][0][:5], *_COUNTS["ReplicaSet"][1:])


def deployment(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    _deployment_spec(spec_of(obj), out)


def _deployment_spec(spec: Part, out: Faults) -> None:
    out.negative((*_AT, "replicas"), spec.get("replicas"))
    controller_selector(spec, _AT, "deployment", out)
    _template_of(spec, out)
    _strategy(spec.get("strategy") or {}, (*_AT, "strategy"), out)
    out.negative((*_AT, "minReadySeconds"), spec.get("minReadySeconds"))
    out.negative((*_AT, "revisionHistoryLimit"), spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    out.negative((*_AT, "progressDeadlineSeconds"), deadline)
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        out.invalid((*_AT, "progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")


def _template_of(spec: Part, out: Faults) -> None:
    """The template of a Deployment or ReplicaSet."""
    if not is_usable(spec.get("selector")):
        out.invalid((*_AT, "selector"), shown(spec.get("selector")), "invalid label selector")
        return
    found, at = spec.get("template") or {}, (*_AT, "template")
    matches_template(spec.get("selector"), found, at, out)
    template(found, at, out)
    restarts_always(found, at, "ReplicaSet", out)


def _strategy(strategy: Part, at: Path, out: Faults) -> None:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            said = "may not be specified when strategy `type` is 'Recreate'"
            out.forbidden((*at, "rollingUpdate"), said)
    elif kind == "RollingUpdate":
        if rolling is None:
            out.required((*at, "rollingUpdate"), "this should be defaulted and never be nil")
        else:
            _rolling_deployment(rolling, (*at, "rollingUpdate"), out)
    else:
        out.unsupported(at, Typed("apps.DeploymentStrategy", strategy), ("Recreate", "RollingUpdate"))


def _rolling_deployment(rolling: Part, at: Path, out: Faults) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    int_or_percent(unavailable, (*at, "maxUnavailable"), out)
    int_or_percent(surge, (*at, "maxSurge"), out)
    if not _amount(unavailable) and not _amount(surge):
        out.invalid((*at, "maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0")
    at_most_all(unavailable, (*at, "maxUnavailable"), out)


def int_or_percent(value: Any, at: Path, out: Faults) -> None:
    if isinstance(value, str):
        out.invalids(at, value, names.percent(value))
    else:
        out.negative(at, value)


def at_most_all(value: Any, at: Path, out: Faults) -> None:
    if isinstance(value, str) and not names.percent(value) and _amount(value) > 100:
        out.invalid(at, value, "must not be greater than 100%")


def _amount(value: Any) -> int:
    """A percentage's number, or the number itself. As strconv.Atoi, which stops at the largest."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        if not (digits.isascii() and digits.isdigit()):
            return 0
        return int(digits) if len(digits) < _INT64_DIGITS else MAX_INT64
    return value or 0


def deployment_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    _deployment_spec(spec_of(new), out)
    _fixed_selector(new, old, out)


def _fixed_selector(new: Obj, old: Obj, out: Faults) -> None:
    selector = spec_of(new).get("selector")
    immutable(selector, spec_of(old).get("selector"), (*_AT, "selector"), out, shown(selector))


def replica_set(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    _replica_set_spec(spec_of(obj), out)


def _replica_set_spec(spec: Part, out: Faults) -> None:
    out.negative((*_AT, "replicas"), spec.get("replicas"))
    out.negative((*_AT, "minReadySeconds"), spec.get("minReadySeconds"))
    controller_selector(spec, _AT, "deployment", out)
    _template_of(spec, out)


def replica_set_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    _replica_set_spec(spec_of(new), out)
    _fixed_selector(new, old, out)


def replication_controller(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    _controller_spec(spec_of(obj), out)


def _controller_spec(spec: Part, out: Faults) -> None:
    out.negative((*_AT, "minReadySeconds"), spec.get("minReadySeconds"))
    selector, found, at = spec.get("selector") or {}, spec.get("template"), (*_AT, "template")
    if not selector:
        out.required((*_AT, "selector"))
    out.negative((*_AT, "replicas"), spec.get("replicas"))
    if found is None:
        out.required(at)
        return
    labels = (found.get("metadata") or {}).get("labels")
    if any((labels or {}).get(key) != value for key, value in selector.items()):
        said = "`selector` does not match template `labels`"
        out.invalid((*at, "metadata", "labels"), sorted_map(labels), said)
    template(found, at, out)
    restarts_always(found, at, "ReplicationController", out)


def replication_controller_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    _controller_spec(spec_of(new), out)


def stateful_set(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, rule=names.dns_label, core=True)
    _stateful_spec(spec_of(obj), out, is_new=True)


def _stateful_spec(spec: Part, out: Faults, *, is_new: bool) -> None:
    policy = spec.get("podManagementPolicy")
    if not policy:
        out.required((*_AT, "podManagementPolicy"))
    elif policy not in ("OrderedReady", "Parallel"):
        out.invalid((*_AT, "podManagementPolicy"), policy, "must be 'OrderedReady' or 'Parallel'")
    _stateful_strategy(spec.get("updateStrategy") or {}, (*_AT, "updateStrategy"), out)
    retention, at = spec.get("persistentVolumeClaimRetentionPolicy"), "persistentVolumeClaimRetentionPolicy"
    for name in ("whenDeleted", "whenScaled") if retention is not None else ():
        if (retention or {}).get(name) not in _RETENTION:
            out.unsupported((*_AT, at, name), (retention or {}).get(name) or "", _RETENTION)
    claims = spec.get("volumeClaimTemplates") or ()
    for index, claim in enumerate(claims if is_new else ()):
        claim_spec(claim.get("spec") or {}, (*_AT, "volumeClaimTemplates", index, "spec"), out)
    out.negative((*_AT, "replicas"), spec.get("replicas"))
    out.negative((*_AT, "minReadySeconds"), spec.get("minReadySeconds"))
    out.negative((*_AT, "ordinals.start"), (spec.get("ordinals") or {}).get("start"))
    if is_new and spec.get("serviceName"):
        texts.dns_label(spec["serviceName"], (*_AT, "serviceName"), out)
    controller_selector(spec, _AT, "statefulset", out)
    found, where = spec.get("template") or {}, (*_AT, "template")
    if not is_usable(spec.get("selector")):
        out.invalid((*_AT, "selector"), shown(spec.get("selector")), "")
    else:
        _stateful_template(spec, found, where, out)
    restarts_always(found, where, "StatefulSet", out)


def _stateful_template(spec: Part, found: Part, at: Path, out: Faults) -> None:
    """The set gives its pods their host names and volumes. Labels and annotations are looked at twice upstream."""
    matches_template(spec.get("selector"), found, at, out)
    named = [(c.get("metadata") or {}).get("name") or "" for c in spec.get("volumeClaimTemplates") or ()]
    added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in named]
    plain = {k: v for k, v in (found.get("spec") or {}).items() if k not in ("hostname", "subdomain")}
    template({**found, "spec": plain}, at, out, extra=added)
    meta = found.get("metadata") or {}
    texts.label_map(meta.get("labels"), (*at, "labels"), out)
    texts.annotation_map(meta.get("annotations"), (*at, "annotations"), out)


def _stateful_strategy(strategy: Part, at: Path, out: Faults) -> None:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if not kind:
        out.required(at)
    elif kind == "OnDelete":
        if rolling is not None:
            value = Typed("apps.RollingUpdateStatefulSetStrategy", rolling)
            said = "only allowed for updateStrategy 'RollingUpdate'"
            out.invalid((*at, "rollingUpdate"), value, said)
    elif kind != "RollingUpdate":
        value = Typed("apps.StatefulSetUpdateStrategy", strategy)
        out.invalid(at, value, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        out.negative((*at, "rollingUpdate", "partition"), rolling.get("partition"))


def stateful_set_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    _stateful_spec(spec_of(new), out, is_new=False)
    pair = [{k: v for k, v in spec_of(o).items() if k not in _STATEFUL_MUTABLE} for o in (new, old)]
    if not is_same(*pair):
        out.forbidden(_AT, _STATEFUL_WHY)


def daemon_set(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    _daemon_spec(spec_of(obj), out)


def _daemon_spec(spec: Part, out: Faults) -> None:
    selector, found, at = spec.get("selector"), spec.get("template") or {}, (*_AT, "template")
    label_selector_of(selector, (*_AT, "selector"), out)
    if is_usable(selector):
        matches_template(selector, found, at, out)
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        out.invalid((*_AT, "selector"), shown(selector), "empty selector is invalid for daemonset")
    template(found, at, out)
    restarts_always(found, at, "DaemonSet", out)
    out.negative((*_AT, "minReadySeconds"), spec.get("minReadySeconds"))
    strategy, where = spec.get("updateStrategy") or {}, (*_AT, "updateStrategy")
    if strategy.get("type") == "RollingUpdate":
        if strategy.get("rollingUpdate") is None:
            out.required((*where, "rollingUpdate"))
        else:
            _rolling_daemons(strategy["rollingUpdate"], (*where, "rollingUpdate"), out)
    elif strategy.get("type") != "OnDelete":
        value = Typed("apps.DaemonSetUpdateStrategy", strategy)
        out.unsupported(where, value, ("RollingUpdate", "OnDelete"))
    out.negative((*_AT, "revisionHistoryLimit"), spec.get("revisionHistoryLimit"))


def _rolling_daemons(rolling: Part, at: Path, out: Faults) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for check in (int_or_percent, at_most_all):
        check(unavailable, (*at, "maxUnavailable"), out)
        check(surge, (*at, "maxSurge"), out)
    if _amount(unavailable) and _amount(surge):
        out.invalid((*at, "maxSurge"), surge, "may not be set when maxUnavailable is non-zero")
    elif not _amount(unavailable) and not _amount(surge):
        out.required((*at, "maxUnavailable"), "cannot be 0 when maxSurge is 0")


def daemon_set_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    _fixed_selector(new, old, out)
    _daemon_spec(spec_of(new), out)


def controller_status(new: Obj, old: Obj, out: Faults) -> None:
    """The counts of any of these kinds."""
    kind = new["kind"]
    if kind != "StatefulSet":
        object_meta_update(new, old, out, core=True)
    counted, bounded, ready = _COUNTS[kind]
    status, at = status_of(new), ("status",)
    for name in counted:
        out.negative((*at, name), status.get(name))
    total = status.get("replicas") or 0
    for name in bounded:
        if (status.get(name) or 0) > total:
            out.invalid((*at, name), status[name], _ABOVE)
    if bounded and (status.get("availableReplicas") or 0) > (status.get("readyReplicas") or 0):
        said = f"cannot be greater than {ready}"
        out.invalid((*at, "availableReplicas"), status["availableReplicas"], said)
    if kind == "StatefulSet":
        object_meta_update(new, old, out, core=True)
    then, now = status_of(old).get("collisionCount"), status.get("collisionCount")
    if then is not None and (now is None or now < then):
        out.invalid((*at, "collisionCount"), now or 0, "cannot be decremented")


def controller_revision(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    out.negative(("revision",), obj.get("revision"))
    if obj.get("data") is None:
        out.required(("data",), "data is mandatory")
    elif not isinstance(obj["data"], dict):
        out.required(("data",), "data must be a valid JSON object")


def controller_revision_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    object_meta(new, out, core=True)
    out.negative(("revision",), new.get("revision"))
    immutable(new.get("data"), old.get("data"), ("data",), out)
