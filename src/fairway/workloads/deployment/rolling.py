"""How many replicas does each ReplicaSet get next during a rollout?

Source: pkg/controller/deployment/rolling.go, recreate.go; util NewRSNewReplicas (v1.36).
"""

from __future__ import annotations

from fairway.workloads.deployment.sets import Rollout, Sized, Wishes, active, scale, total


def new_size(wishes: Wishes, everything: list[Sized], new: Sized) -> int:
    """The new ReplicaSet's size: as many more as maxSurge leaves room for, never more than wanted."""
    if not wishes.is_rolling:
        return wishes.replicas
    room = wishes.max_replicas - total(everything)
    if room <= 0:
        return new.replicas
    return new.replicas + min(room, wishes.replicas - new.replicas)


def scale_new(rollout: Rollout, new: Sized) -> bool:
    """Whether the new ReplicaSet changed its size."""
    size = rollout.wishes.replicas
    if new.replicas < size:
        size = new_size(rollout.wishes, rollout.everything, new)
    if new.replicas == size:
        return False
    scale(rollout, new, size)
    return True


def scale_old(rollout: Rollout, new: Sized) -> bool:
    """Take down as many old replicas as availability allows, those not available first."""
    wishes = rollout.wishes
    old = sorted(active(rollout.old), key=lambda s: s.age_order)
    if not old:
        return False
    # Unavailable pods of the new set must not let the old sets shrink any further.
    removable = total(rollout.everything) - wishes.min_available - (new.replicas - new.available)
    if removable <= 0:
        return False
    cleaned = _drop_unavailable(rollout, old, removable)
    return _drop_available(rollout, old) or cleaned


def _drop_unavailable(rollout: Rollout, old: list[Sized], at_most: int) -> bool:
    dropped = 0
    for one in old:
        unavailable = one.replicas - one.available
        if dropped >= at_most:
            break
        if one.replicas == 0 or unavailable <= 0:
            continue
        count = min(at_most - dropped, unavailable)
        scale(rollout, one, one.replicas - count)
        dropped += count
    return dropped > 0


def _drop_available(rollout: Rollout, old: list[Sized]) -> bool:
    spare = sum(s.available for s in rollout.everything) - rollout.wishes.min_available
    dropped = 0
    for one in old:
        if dropped >= spare:
            break
        if one.replicas == 0:
            continue
        count = min(one.replicas, spare - dropped)
        scale(rollout, one, one.replicas - count)
        dropped += count
    return dropped > 0


def stop_old(rollout: Rollout) -> bool:
    """Recreate: every old replica goes first."""
    running = active(rollout.old)
    for one in running:
        scale(rollout, one, 0)
    return bool(running)
