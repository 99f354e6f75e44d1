"""For how long does a group that failed not grow?"""

from __future__ import annotations

from typing import NamedTuple

from fairway.provisioning.clusterautoscaler.groups import Options


class Backoff(NamedTuple):
    """A group that may not grow until then; `lasts_us` doubles when it fails again, if that is soon enough."""

    until_us: int
    lasts_us: int
    why: str


def backed_off(before: Backoff | None, why: str, now_us: int, options: Options) -> Backoff:
    """A group failed, having failed `before`. Source: utils/backoff/exponential_backoff.go."""
    lasts_us = options.backoff_us
    if before is not None and now_us - (before.until_us - before.lasts_us) <= options.backoff_reset_us:
        again = before.until_us < now_us
        lasts_us = min(2 * before.lasts_us, options.most_backoff_us) if again else before.lasts_us
    return Backoff(now_us + lasts_us, lasts_us, why)
