"""ResourceQuota admission: does this object still fit, and what does it use up?

A quota's `status.used` is the account: letting an object in charges it at once, so that the next one sees it
before the quota controller has looked. A quota its controller has not seen yet is counted on the spot.

Source: apiserver pkg/admission/plugin/pkg/admission/resourcequota/controller.go checkRequest (v1.36).
"""

from __future__ import annotations

from typing import Any, Final

from fairway.admission.request import CREATE, UPDATE, AdmissionRequest
from fairway.cluster import quotausage
from fairway.cluster.actions import SetStatus, View
from fairway.cluster.quotausage import amount, format_used, hard_of, quota_key, quotas_in
from fairway.kube import quantity
from fairway.kube.objects import Obj, gk_of, namespace_of, spec_of, status_of
from fairway.kube.podrequests import container_requests
from fairway.kube.resources import CPU, MEMORY, Resources, parse_resources

PLUGIN: Final = "ResourceQuota"

# Where a quota bounds one of these, every container has to say how much it wants.
# Source: pkg/quota/v1/evaluator/core/pods.go validationSet.
_MUST_BE_SAID: Final = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")


def is_counted_request(request: AdmissionRequest) -> bool:
    """Whether a request can use up quota: creations, and updates of what counts by its size."""
    if not request.namespace:
        return False
    if request.subresource:
        return request.subresource == "resize" and request.kind.kind == "Pod"
    if request.operation == CREATE:
        return not (request.kind.kind == "Namespace" and not request.kind.group)
    kinds = ("Service", "PersistentVolumeClaim")
    return request.operation == UPDATE and not request.kind.group and request.kind.kind in kinds


def quota_violation(view: View, obj: Obj, old: Obj | None = None) -> str | None:
    """The sentence after `is forbidden:` if a quota has no room for this object; None if all have.

    With `old`, only what the update adds counts.
    """
    for quota in quotas_in(view, namespace_of(obj) or "default"):
        if not quotausage.matches_scopes(quota, obj):
            continue
        wanted = _wanted(quota, obj, old)
        if not wanted:
            continue
        name = quota["metadata"]["name"]
        unsaid = _unsaid(wanted, obj)
        if unsaid:
            return f"failed quota: {name}: must specify {unsaid}"
        exceeded = _exceeded(view, quota, wanted)
        if exceeded is not None:
            return exceeded
    return None


def charges(view: View, obj: Obj, old: Obj | None = None) -> tuple[SetStatus, ...]:
    """What letting it in writes: every matching quota's `status.used`, grown by what it counts."""
    written = []
    for quota in quotas_in(view, namespace_of(obj) or "default"):
        status = status_of(quota)
        if not status.get("used") or not quotausage.matches_scopes(quota, obj):
            continue
        wanted = _wanted(quota, obj, old)
        grown = {
            n: format_used(n, amount(n, v) + wanted[n]) if wanted.get(n) else v
            for n, v in status["used"].items()
        }
        if grown != status["used"]:
            written.append(SetStatus(quota_key(quota), {**status, "used": grown}))
    return tuple(written)


def _wanted(quota: Obj, obj: Obj, old: Obj | None = None) -> Resources:
    """What the object counts, of what the quota bounds."""
    hard = spec_of(quota).get("hard") or {}
    usage = quotausage.usage_of(obj)
    if old is not None and quotausage.matches_scopes(quota, old):
        before = quotausage.usage_of(old)
        usage = {n: v - before.get(n, 0) for n, v in usage.items() if v > before.get(n, 0)}
    wanted = {n: v for n, v in usage.items() if n in hard}
    if gk_of(obj) == "Pod":
        # Bounded but not asked for: nothing is used, but it has to be said.
        wanted.update({n: 0 for n in _MUST_BE_SAID if n in hard and n not in wanted})
    return wanted


def _unsaid(wanted: Resources, obj: Obj) -> str:
    """`requests.cpu for: a,b; limits.memory for: a`: what containers leave open although it is bounded."""
    if gk_of(obj) != "Pod":
        return ""
    spec = spec_of(obj)
    stated = [_stated(c) for c in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]
    pod_level = _stated(spec)[1]
    parts = []
    for name in sorted(n for n in _MUST_BE_SAID if n in wanted and n not in pod_level):
        silent = sorted(container for container, names in stated if name not in names)
        if silent:
            parts.append(f"{name} for: {','.join(silent)}")
    return "; ".join(parts)


def _stated(container: dict[str, Any]) -> tuple[str, list[str]]:
    """(name, quota names the container speaks to)."""
    names: list[str] = []
    requests = container_requests(container)
    limits = parse_resources((container.get("resources") or {}).get("limits"))
    for resource in (CPU, MEMORY):
        if resource in requests:
            names += [resource, f"requests.{resource}"]
        if resource in limits:
            names.append(f"limits.{resource}")
    return container.get("name", ""), names


def _exceeded(view: View, quota: Obj, wanted: Resources) -> str | None:
    hard, used = hard_of(quota), _used(view, quota)
    over = sorted(n for n, v in wanted.items() if v > 0 and used.get(n, 0) + v > hard[n])
    if not over:
        return None
    raw = spec_of(quota).get("hard") or {}
    name = quota["metadata"]["name"]
    requested = ",".join(f"{n}={format_used(n, wanted[n])}" for n in over)
    taken = ",".join(f"{n}={format_used(n, used.get(n, 0))}" for n in over)
    limited = ",".join(f"{n}={quantity.canonical(raw[n])}" for n in over)
    return f"exceeded quota: {name}, requested: {requested}, used: {taken}, limited: {limited}"


def _used(view: View, quota: Obj) -> Resources:
    """The account, where the controller has set one up for what the quota bounds now."""
    hard = spec_of(quota).get("hard") or {}
    recorded = status_of(quota).get("used") or {}
    if all(n in recorded for n in hard):
        return {n: amount(n, v) for n, v in recorded.items()}
    return quotausage.used(view, quota)
