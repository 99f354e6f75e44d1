"""What came of every flavor tried, merged over the resources of a pod set.

Source: pkg/scheduler/flavorassigner/flavor_assigner_attempts.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.queueing.facts import conditions as conds
from fairway.queueing.flavors.assignment import Attempt, Mode, most_severe
from fairway.queueing.quota.accounts import QueueAccount


def merge_resource(
    merged: dict[str, Attempt], attempts: Sequence[Attempt], resource: str, queue: QueueAccount
) -> None:
    """Add what was found for one resource; flavors of its group that were not tried do not provide it.

    The attempts are taken over, not copied; a reason that several resources give is kept once.
    """
    for attempt in attempts:
        known = merged.get(attempt.flavor)
        if known is not None:
            attempt = _worse(known, attempt)
        elif len(attempt.reasons) > 1:
            attempt.reasons = _union(attempt.reasons, ())
        merged[attempt.flavor] = attempt
    group = queue.spec.group_of(resource)
    if not attempts or group is None or len(merged) == len(attempts):
        return
    tried = {a.flavor for a in attempts}
    for flavor, attempt in merged.items():
        if flavor in group.flavors and flavor not in tried:
            reason = f"flavor {flavor} does not provide resource {resource}"
            attempt.mode = Mode.NO_FIT
            attempt.reasons = _union(attempt.reasons, (reason,))
            attempt.no_fit_reason = conds.NO_MATCHING_FLAVOR


def finalized(merged: dict[str, Attempt]) -> list[Attempt]:
    return [merged[flavor] for flavor in sorted(merged)] if len(merged) > 1 else list(merged.values())


def _worse(a: Attempt, b: Attempt) -> Attempt:
    possibilities = [p for p in (a.possibility, b.possibility) if p is not None]
    return Attempt(
        flavor=b.flavor,
        mode=min(a.mode, b.mode),
        borrow=max(a.borrow, b.borrow),
        possibility=min(possibilities, default=None),
        reasons=_union(a.reasons, b.reasons),
        no_fit_reason=most_severe(a.no_fit_reason, b.no_fit_reason),
    )


def _union(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*a, *b}))
