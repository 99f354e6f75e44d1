"""A look at a Workload whose pods claim devices: what they count as in quota is known before it waits for any.

What is missing from the cluster may come: such a look is repeated, ever later. Source: workload_controller.go
handleDRA, markDRAInadmissible; client-go's default rate limiter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairway.cluster.actions import SetStatus
from fairway.kube.objects import Key, Obj, meta_of, status_of
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.conditions import with_condition
from fairway.queueing.facts.workloads import key_of
from fairway.queueing.facts.workloadstate import is_finished, is_on_hold
from fairway.queueing.outcomes.statuses import without_quota

if TYPE_CHECKING:
    from fairway.queueing.devices.charging import Refused
    from fairway.twin.kueue.component import Kueue

INADMISSIBLE: Final = "Inadmissible"


def concerns(kueue: Kueue, obj: Obj) -> bool:
    """Whether it is without quota, and claims devices; one that does no longer is queued as it is."""
    if is_finished(obj) or is_on_hold(obj) or conds.is_true(status_of(obj), conds.QUOTA_RESERVED):
        return False
    if kueue.backlog.needs_charge(obj):
        return True
    if kueue.backlog.charges.pop(key_of(obj), None) is not None:
        kueue.backlog.enqueue(obj, kueue.host.loop.now_us)
    return False


def look(kueue: Kueue, key: Key, obj: Obj) -> tuple[tuple[SetStatus, ...], bool] | None:
    """What to write, and whether to look again soon; None: its claims do not stand in the way."""
    from fairway.queueing.devices.charging import Refused, charge_of

    settings, backlog, now_us = kueue.settings, kueue.backlog, kueue.host.loop.now_us
    found = charge_of(kueue.host.store, settings.device_classes, settings.gates, backlog.adjusted(obj))
    if isinstance(found, Refused):
        changed = _refused(obj, found, now_us, kueue)
        actions = () if changed == obj else (SetStatus(key, changed["status"]),)
        return actions, found.is_retried
    backlog.charge(key_of(obj), found)
    backlog.enqueue(obj, now_us)
    conditions = status_of(obj).get("conditions") or ()
    kept = [c for c in conditions if not _was_refused(c)]
    if len(kept) == len(conditions):
        return None
    return (SetStatus(key, {**status_of(obj), "conditions": kept}),), False


def _refused(obj: Obj, refused: Refused, now_us: int, kueue: Kueue) -> Obj:
    gates = kueue.settings.gates
    reason = conds.MISCONFIGURED if gates.unadmitted_workloads_observability else INADMISSIBLE
    changed = without_quota(obj, reason, refused.message, now_us, gates)
    if status_of(changed) == status_of(obj):
        return obj
    status = dict(status_of(changed))
    status["conditions"] = with_condition(
        status["conditions"],
        conds.REQUEUED,
        conds.FALSE,
        reason=INADMISSIBLE,
        message=refused.requeued,
        now_us=now_us,
        generation=int(meta_of(obj).get("generation") or 0),
    )
    return {**obj, "status": status}


def _was_refused(condition: conds.Condition) -> bool:
    kind, value, reason = condition["type"], condition["status"], condition["reason"]
    if value != conds.FALSE:
        return False
    return (kind, reason) == (conds.REQUEUED, INADMISSIBLE) or (
        kind == conds.QUOTA_RESERVED and reason in (conds.MISCONFIGURED, INADMISSIBLE)
    )
