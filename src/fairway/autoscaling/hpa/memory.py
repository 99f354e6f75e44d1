"""What does the controller remember of an autoscaler between two syncs?

Kept in the controller, not in the object: a restart forgets it. Entries that are too old are overwritten in place,
as upstream does it, so that their number stays bounded.

Source: horizontal.go timestampedRecommendation, timestampedScaleEvent (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Recommendation(NamedTuple):
    """What the metrics asked for, before any limit."""

    replicas: int
    at_us: int


class ScaleEvent(NamedTuple):
    """A change that was made, by its size. Outdated ones are overwritten; they still count while their time does."""

    change: int
    at_us: int
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """None: the autoscaler was never looked at."""

    recommendations: tuple[Recommendation, ...] | None = None
    ups: tuple[ScaleEvent, ...] = ()
    downs: tuple[ScaleEvent, ...] = ()


NOTHING = Memory()
