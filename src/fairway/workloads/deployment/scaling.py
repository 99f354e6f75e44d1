"""How is a change of `spec.replicas` shared out in the middle of a rollout?

In proportion to the ReplicaSets' sizes, so that scaling neither hastens nor delays the rollout.

Source: pkg/controller/deployment/sync.go scale; util GetReplicaSetProportion (v1.36).
"""

from __future__ import annotations

from fairway.kube.integers import natural
from fairway.workloads.deployment.sets import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    Rollout,
    Sized,
    active,
    remember_size,
    scale,
    total,
)


def is_scaling_event(rollout: Rollout) -> bool:
    """Whether an active ReplicaSet still carries another size of the Deployment."""
    for one in active(rollout.everything):
        desired = natural(one.annotations.get(DESIRED_REPLICAS))
        if desired is not None and desired != rollout.wishes.replicas:
            return True
    return False


def share_out(rollout: Rollout) -> None:
    """Scale the only active ReplicaSet (or the newest), or all of them in proportion."""
    wishes = rollout.wishes
    one = _only_active_or_latest(rollout)
    if one is not None:
        if one.replicas != wishes.replicas:
            scale(rollout, one, wishes.replicas)
        else:
            remember_size(rollout, one)
        return
    if _is_saturated(rollout):
        for old in active(rollout.old):
            scale(rollout, old, 0)
        return
    if wishes.is_rolling:
        _proportionally(rollout)


def _only_active_or_latest(rollout: Rollout) -> Sized | None:
    running = active(rollout.everything)
    if len(running) == 1:
        return running[0]
    if running:
        return None
    if rollout.new is not None:
        return rollout.new
    return max(rollout.old, key=lambda s: s.age_order, default=None)


def _is_saturated(rollout: Rollout) -> bool:
    new, wanted = rollout.new, rollout.wishes.replicas
    if new is None or new.annotations.get(DESIRED_REPLICAS) != str(wanted):
        return False
    return new.replicas == wanted and new.available == wanted


def _proportionally(rollout: Rollout) -> None:
    wishes = rollout.wishes
    sets = active(rollout.everything)
    allowed = wishes.max_replicas if wishes.replicas > 0 else 0
    to_add = allowed - total(sets)
    # Larger ones first; among equals the newer gain first and the older lose first.
    sets.sort(key=lambda s: s.age_order, reverse=to_add > 0)
    sets.sort(key=lambda s: s.replicas, reverse=True)
    sizes = []
    added = 0
    for one in sets:
        share = _share(rollout, one, to_add, added)
        sizes.append(one.replicas + share)
        added += share
    if to_add:
        sizes[0] = max(sizes[0] + to_add - added, 0)
    for one, size in zip(sets, sizes, strict=True):
        scale(rollout, one, size)


def _share(rollout: Rollout, one: Sized, to_add: int, added: int) -> int:
    if one.replicas == 0 or to_add in (0, added):
        return 0
    fraction = _fraction(rollout, one)
    left = to_add - added
    return min(fraction, left) if to_add > 0 else max(fraction, left)


def _fraction(rollout: Rollout, one: Sized) -> int:
    """By how much this set grows when all grow from the old maximum to the new one, rounded to nearest."""
    if rollout.wishes.replicas == 0:
        return -one.replicas
    before = natural(one.annotations.get(MAX_REPLICAS)) or 0
    if before == 0:
        before = (rollout.deployment.get("status") or {}).get("replicas", 0)
        if before == 0:
            return 0
    return (2 * one.replicas * rollout.wishes.max_replicas + before) // (2 * before) - one.replicas
