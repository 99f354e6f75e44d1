"""What a VerticalPodAutoscaler lets its parts do: update modes, container policies, limits.

Source: pkg/utils/vpa/{api,capping}.go, pkg/apis/autoscaling.k8s.io/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairway.autoscaling.vpa.recommending import Recommendation
from fairway.kube.objects import Obj
from fairway.kube.quantity import milli_ceil, whole_ceil

OFF, INITIAL, RECREATE, AUTO, IN_PLACE = "Off", "Initial", "Recreate", "Auto", "InPlaceOrRecreate"
MODES: Final = (OFF, INITIAL, RECREATE, AUTO, IN_PLACE)


def mode(autoscaler: Obj) -> str:
    """Recreate where nothing is said."""
    return ((autoscaler.get("spec") or {}).get("updatePolicy") or {}).get("updateMode") or RECREATE


def min_replicas(autoscaler: Obj) -> int:
    """With fewer pods the updater leaves them alone. Source: --min-replicas, default 2."""
    told = ((autoscaler.get("spec") or {}).get("updatePolicy") or {}).get("minReplicas")
    return 2 if told is None else int(told)


def container_policy(autoscaler: Obj, container: str) -> dict[str, Any]:
    """The container's own, or the one for all others."""
    policies = ((autoscaler.get("spec") or {}).get("resourcePolicy") or {}).get("containerPolicies") or ()
    chosen: dict[str, Any] = {}
    for policy in policies:
        if policy.get("containerName") == container:
            return dict(policy)
        if policy.get("containerName") == "*":
            chosen = policy
    return chosen


def is_scaled(autoscaler: Obj, container: str) -> bool:
    return container_policy(autoscaler, container).get("mode") != "Off"


def within(amounts: Mapping[str, int], policy: Mapping[str, Any]) -> dict[str, int]:
    """Between what the policy allows at least and at most, of the resources it controls."""
    controlled = policy.get("controlledResources") or ("cpu", "memory")
    found = {}
    for name, amount in amounts.items():
        if name not in controlled:
            continue
        least, most = ((policy.get(member) or {}).get(name) for member in ("minAllowed", "maxAllowed"))
        read = milli_ceil if name == "cpu" else whole_ceil
        if least is not None:
            amount = max(amount, read(least))
        if most is not None:
            amount = min(amount, read(most))
        found[name] = amount
    return found


def capped(autoscaler: Obj, container: str, recommendation: Recommendation) -> Recommendation:
    policy = container_policy(autoscaler, container)
    return Recommendation(*(within(amounts, policy) for amounts in recommendation))
