"""Which pods keep their node from being emptied? Annotations and PodDisruptionBudgets.

Source: pkg/utils/pdb/pdb.go, pkg/utils/pod/scheduling.go, StateNode.ValidatePodsDisruptable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fairway.kube.conditions import get_condition
from fairway.kube.labels import Selector, label_selector
from fairway.kube.objects import Obj, meta_of, spec_of, status_of
from fairway.kube.taints import NO_SCHEDULE, Taint, is_tolerated, parse_tolerations
from fairway.kube.timestamps import parse_duration, parse_rfc3339
from fairway.provisioning.karpenter.labels import DISRUPTED_TAINT, DO_NOT_DISRUPT
from fairway.provisioning.karpenter.podfacts import is_active, is_owned_by, is_reschedulable
from fairway.provisioning.karpenter.why import wrapped

DISRUPTED: Final = Taint(DISRUPTED_TAINT, "", NO_SCHEDULE)


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget. `is_blocking`: it never lets a pod go, whatever runs."""

    namespace: str
    name: str
    selector: Selector
    allowed: int
    is_blocking: bool
    lets_unhealthy_go: bool


def budgets_of(objects: Iterable[Obj]) -> tuple[Budget, ...]:
    return tuple(_budget(o) for o in objects)


def _budget(obj: Obj) -> Budget:
    meta, spec, status = meta_of(obj), obj.get("spec") or {}, obj.get("status") or {}
    return Budget(
        namespace=meta.get("namespace") or "",
        name=meta.get("name") or "",
        selector=label_selector(spec.get("selector")),
        allowed=int(status.get("disruptionsAllowed") or 0),
        is_blocking=spec.get("maxUnavailable") in (0, "0%") or spec.get("minAvailable") == "100%",
        lets_unhealthy_go=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
    )


def why_not_evictable(pods: Sequence[Obj], budgets: Sequence[Budget], now_us: int) -> str | None:
    """What keeps a node with these pods; None where all may go."""
    for pod in pods:
        if is_active(pod) and is_do_not_disrupt(pod, now_us):
            return wrapped(f'pod has "{DO_NOT_DISRUPT}" annotation', Pod=_key(pod))
    for pod in pods:
        blocking = _blocking(pod, budgets, now_us, fully=False)
        if blocking:
            names = f"[{' '.join(f'{b.namespace}/{b.name}' for b in blocking)}]"
            if len(blocking) > 1:
                return f"eviction does not support multiple PDBs (PodDisruptionBudget(s)={names})"
            return wrapped("pdb prevents pod evictions", PodDisruptionBudget=names)
    return None


def is_currently_reschedulable(pod: Obj, budgets: Sequence[Budget], now_us: int) -> bool:
    """Whether room should be made for it elsewhere: it can really be moved."""
    return (
        is_reschedulable(pod)
        and not (is_active(pod) and is_do_not_disrupt(pod, now_us))
        and not _blocking(pod, budgets, now_us, fully=True)
    )


def is_do_not_disrupt(pod: Obj, now_us: int) -> bool:
    """`karpenter.sh/do-not-disrupt: "true"`, or a duration since it started that is not over."""
    value = (meta_of(pod).get("annotations") or {}).get(DO_NOT_DISRUPT)
    if value is None or value == "true":
        return value == "true"
    try:
        lasts_us = parse_duration(value)
    except ValueError:
        return False
    started = status_of(pod).get("startTime")
    return lasts_us > 0 and (not started or now_us - parse_rfc3339(started) < lasts_us)


def _blocking(pod: Obj, budgets: Sequence[Budget], now_us: int, *, fully: bool) -> list[Budget]:
    if not _is_evictable(pod, now_us):
        return []
    meta = meta_of(pod)
    namespace, labels = meta.get("namespace") or "", meta.get("labels") or {}
    matching = [b for b in budgets if b.namespace == namespace and b.selector.matches(labels)]
    if len(matching) > 1:
        return matching
    for budget in matching:
        if budget.lets_unhealthy_go and _is_unready(pod):
            return []
        if budget.is_blocking if fully else budget.allowed == 0:
            return [budget]
    return []


def _is_evictable(pod: Obj, now_us: int) -> bool:
    tolerations = parse_tolerations(spec_of(pod).get("tolerations"))
    return (
        is_active(pod)
        and not is_tolerated(DISRUPTED, tolerations)
        and not is_owned_by(pod, "Node")
        and not is_do_not_disrupt(pod, now_us)
    )


def _is_unready(pod: Obj) -> bool:
    ready = get_condition(status_of(pod).get("conditions"), "Ready")
    return ready is not None and ready.get("status") == "False"


def _key(pod: Obj) -> str:
    meta = meta_of(pod)
    return f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"
