"""How good is a flavor for a workload, and is it good enough to stop looking?

Source: pkg/scheduler/flavorassigner/flavorassigner.go granularMode, isPreferred, shouldTryNextFlavor; KEP-582.
"""

from __future__ import annotations

from typing import Final

from fairway.queueing.facts.objects import PREEMPTION_OVER_BORROWING, TRY_NEXT_FLAVOR, FlavorFungibility
from fairway.queueing.flavors.assignment import Mode, Possibility

# How good a flavor is, finer than `Mode`: worse is smaller.
NO_FIT: Final = 0
NO_CANDIDATES: Final = 1
PREEMPT: Final = 2
RECLAIM: Final = 3
FIT: Final = 4
MODE_OF: Final = (Mode.NO_FIT, Mode.PREEMPT, Mode.PREEMPT, Mode.PREEMPT, Mode.FIT)
POSSIBILITY_OF: Final = (None, Possibility.NO_CANDIDATES, Possibility.PREEMPT, Possibility.RECLAIM, None)
OF_POSSIBILITY: Final = {
    Possibility.NO_CANDIDATES: NO_CANDIDATES,
    Possibility.PREEMPT: PREEMPT,
    Possibility.RECLAIM: RECLAIM,
}


class Grade:
    """How good a flavor is, and how far up the tree it would borrow."""

    def __init__(self, mode: int, borrow: int) -> None:
        self.mode = mode
        self.borrow = borrow


# How far it would borrow nobody asks of what does not fit.
WORST: Final = Grade(NO_FIT, 0)
BEST: Final = Grade(FIT, 0)


def should_try_next(grade: Grade, fungibility: FlavorFungibility) -> bool:
    if grade.mode in (NO_FIT, NO_CANDIDATES):
        return True
    if grade.mode in (PREEMPT, RECLAIM) and fungibility.when_can_preempt == TRY_NEXT_FLAVOR:
        return True
    return grade.borrow != 0 and fungibility.when_can_borrow == TRY_NEXT_FLAVOR


def is_preferred(a: Grade, b: Grade, fungibility: FlavorFungibility) -> bool:
    """Whether `a` is strictly better than `b`."""
    if a.mode == NO_FIT:
        return False
    if b.mode == NO_FIT:
        return True
    if (a.mode == NO_CANDIDATES) != (b.mode == NO_CANDIDATES):
        return a.mode != NO_CANDIDATES
    if fungibility.preference == PREEMPTION_OVER_BORROWING:
        return a.borrow < b.borrow or (a.borrow == b.borrow and a.mode > b.mode)
    return a.mode > b.mode or (a.mode == b.mode and a.borrow < b.borrow)
