"""May this pod be evicted now?

A decision about the Eviction subresource: what kubectl drain, a descheduler or a node consolidation ask for.
Allowed evictions spend one disruption of the budget at once, so that two asked for in the same moment cannot
both spend the last.

Source: pkg/registry/core/pod/storage/eviction.go (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway.cluster.actions import Action, Delete, SetStatus, View
from fairway.cluster.errors import not_found
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import rfc3339
from fairway.workloads.disruption.budget import PDB, budgets_of, with_condition
from fairway.workloads.pods import PENDING, is_deleting, is_ready, is_terminal, phase_of

VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

# Evictions not confirmed by the controller before the API server refuses more. Source: MaxDisruptedPodSize.
MAX_DISRUPTED_PODS = 2000
# Source: createTooManyRequestsError.
RETRY_AFTER_S = 10


@dataclass(frozen=True, slots=True)
class Eviction:
    """`code` 201: evict, by these actions. Otherwise the API server's answer: 404, 429, 403 or 500.

    `cause` is the detail kubectl shows beneath the message; `retry_after_s` the header's value.
    """

    code: int
    reason: str = ""
    message: str = ""
    cause: str = ""
    retry_after_s: int = 0
    actions: tuple[Action, ...] = ()

    @property
    def is_allowed(self) -> bool:
        return self.code == 201


def evict(view: View, key: Key, now_us: int, *, grace_s: int | None = None) -> Eviction:
    """Whether the pod may go, and what its going writes."""
    pod = view.get(key)
    if pod is None:
        missing = not_found(key)
        return Eviction(missing.code, missing.reason, missing.message)
    if is_terminal(pod) or phase_of(pod) == PENDING or is_deleting(pod):
        return _gone(key, pod, now_us, grace_s, ())
    budgets = budgets_of(view, pod)
    if len(budgets) > 1:
        return Eviction(500, "InternalError", SEVERAL)
    if not budgets:
        return _gone(key, pod, now_us, grace_s, ())
    budget = budgets[0]
    if not is_ready(pod) and _lets_unhealthy_go(budget):
        return _gone(key, pod, now_us, grace_s, ())
    refusal = _refusal(budget)
    if refusal is not None:
        return refusal
    return _gone(key, pod, now_us, grace_s, (_spend(budget, key.name, now_us),))


def _lets_unhealthy_go(budget: Obj) -> bool:
    """AlwaysAllow lets every unready pod go; IfHealthyBudget (the default) when enough others are healthy."""
    status: dict[str, Any] = budget.get("status") or {}
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _refusal(budget: Obj) -> Eviction | None:
    name = budget["metadata"]["name"]
    status: dict[str, Any] = budget.get("status") or {}
    allowed = status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        cause = f"The disruption budget {name} is still being processed by the server."
        return Eviction(429, "TooManyRequests", VIOLATES, cause, RETRY_AFTER_S)
    if allowed < 0:
        message = f'poddisruptionbudgets.policy "{name}" is forbidden: pdb disruptions allowed is negative'
        return Eviction(403, "Forbidden", message)
    if len(status.get("disruptedPods") or {}) > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        return Eviction(403, "Forbidden", f'poddisruptionbudgets.policy "{name}" is forbidden: {why}')
    if allowed == 0:
        return Eviction(429, "TooManyRequests", VIOLATES, _why_none(name, status))
    return None


def _why_none(name: str, status: dict[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionAllowed" and condition.get("reason") == "SyncFailed":
            why = condition.get("message", "")
            return (
                f"The disruption budget {name} does not allow evicting pods currently because it failed sync: "
                f"{why}"
            )
    return (
        f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has "
        f"{status.get('currentHealthy', 0)} currently"
    )


def _spend(budget: Obj, pod_name: str, now_us: int) -> Action:
    status: dict[str, Any] = dict(budget["status"])
    status["disruptionsAllowed"] -= 1
    if status["disruptionsAllowed"] == 0:
        generation = status.get("observedGeneration", 0)
        status["conditions"] = with_condition(status, False, generation, now_us)
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod_name: rfc3339(now_us)}
    meta = budget["metadata"]
    return SetStatus(Key(PDB, meta["namespace"], meta["name"]), status)


def _gone(key: Key, pod: Obj, now_us: int, grace_s: int | None, before: tuple[Action, ...]) -> Eviction:
    """Mark the pod as disrupted (a Job's failure policy reads it), then delete it."""
    marked: tuple[Action, ...] = ()
    if not is_terminal(pod) and not is_deleting(pod):
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": rfc3339(now_us),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        status = pod.get("status") or {}
        others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionTarget"]
        marked = (SetStatus(key, {**status, "conditions": [*others, target]}),)
    deletion = Delete(key, pod["metadata"]["uid"], grace_s=grace_s)
    return Eviction(201, "Created", actions=(*before, *marked, deletion))
