"""Intervals as wide as they should have been: what earlier forecasts teach about new ones.

Of forecasts whose truth is known, each says how far beyond its median the truth was, as a multiple of the distance to
its P90 (below: to its P10), on a logarithmic scale of seconds. The new intervals are stretched or shrunk by the
multiple that would have left a tenth of the truths outside, each side by itself, and the median is moved by what half
of the truths were above. Source: conformalized quantile regression (Romano, Patterson & Candès 2019), with later
forecasts weighing more, since clusters change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

QUANTILES: Final = (0.1, 0.5, 0.9)
LEAST_CASES: Final = 30
"""With fewer known truths nothing is changed."""
_HALF_S: Final = 60.0
"""Below a minute, differences count as they are rather than by their ratio."""
_BEYOND_S: Final = 1e9
_FADING: Final = 0.9985
_LEAST_SPREAD: Final = 0.05
_DOUBT: Final = 2.0
"""Moments it takes for half of the belief. Chosen on weeks that no figure of the docs comes from."""
WIDEST: Final = 20.0


@dataclass(frozen=True, slots=True)
class Case:
    """A forecast and what came. Seconds from `at_us`; p10, p50, p90 as they were before any calibration."""

    at_us: int
    object: str
    p10: float
    p50: float
    p90: float
    truth: float

    @property
    def known_us(self) -> int:
        return self.at_us + round(self.truth * 1e6)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How to change intervals: on the logarithmic scale, a shift of the median and a factor for each side."""

    shift: float = 0.0
    below: float = 1.0
    above: float = 1.0
    cases: int = 0
    until: str = ""
    """Truths were read at that time."""
    coverage: float | None = None
    """Percent of truths that were inside, each calibrated by those before it."""

    def apply(self, p10: float, p50: float, p90: float) -> tuple[float, float, float]:
        """Calibrated seconds; what is beyond the horizon (inf) stays there."""
        if not self.cases or not np.isfinite(p50):
            return p10, p50, p90
        low, middle, high = (float(scale(np.array(v))) for v in (p10, p50, p90))
        lower = max(middle - low, _LEAST_SPREAD)
        upper = max(high - middle, _LEAST_SPREAD)
        # A P90 beyond the horizon says nothing of how far the median is to move.
        centre = middle + self.shift * (upper if self.shift > 0 and np.isfinite(upper) else lower)
        found = (middle - self.below * lower, centre, middle + self.above * upper)
        a, b, c = sorted(max(0.0, float(unscale(np.array(v)))) if np.isfinite(v) else v for v in found)
        return a, b, c

    @property
    def words(self) -> str:
        told = [f"until {self.until}"] if self.until else []
        told += [] if self.coverage is None else [f"{self.coverage:g} % inside"]
        return f"by {self.cases} earlier forecasts" + (f" ({', '.join(told)})" if told else "")

    def as_json(self) -> dict[str, Any]:
        return {
            "cases": self.cases,
            "shift": round(self.shift, 3),
            "below": round(self.below, 3),
            "above": round(self.above, 3),
            "until": self.until,
            "coverage": self.coverage,
        }


RAW: Final = Calibration()


def known_by(cases: Sequence[Case], now_us: int, horizon_us: int) -> list[Case]:
    """What can be learned from by then. Only forecasts older than the horizon: of newer ones the short truths are known
    and the long ones are not. What is still open then has lasted at least until now."""
    return [
        c if c.known_us <= now_us else replace(c, truth=(now_us - c.at_us) / 1e6)
        for c in cases
        if c.at_us + horizon_us <= now_us
    ]


def scale(seconds: Floats) -> Floats:
    found: Floats = np.log(seconds + _HALF_S)
    return found


def unscale(values: Floats) -> Floats:
    found: Floats = np.exp(values) - _HALF_S
    return found


def calibrated(cases: Sequence[Case]) -> Calibration:
    """From forecasts whose truth is known, oldest first. O(n log n)."""
    usable = [c for c in cases if np.isfinite(c.p50) and np.isfinite(c.truth)]
    if len(usable) < LEAST_CASES:
        return RAW
    truth = scale(np.array([c.truth for c in usable]))
    middle = scale(np.array([c.p50 for c in usable]))
    low = scale(np.array([c.p10 for c in usable]))
    high = scale(np.array([min(c.p90, _BEYOND_S) for c in usable]))
    lower, upper = np.maximum(middle - low, _LEAST_SPREAD), np.maximum(high - middle, _LEAST_SPREAD)
    # One number per case: how many interval halves above (positive) or below the median the truth was.
    off = np.where(truth >= middle, (truth - middle) / upper, (truth - middle) / lower)
    weights = _FADING ** np.arange(len(usable) - 1, -1, -1.0)
    at = [weighted_quantile(off, weights, q) for q in QUANTILES]
    # Cases of one moment share their luck: what few moments teach is believed in part.
    moments = len({c.at_us for c in usable})
    belief = moments / (moments + _DOUBT)
    # A factor below zero would put P10 above the median: then the median itself is off, and is moved.
    below, above = (_partly(float(np.clip(v, -WIDEST, WIDEST)), belief) for v in (-at[0], at[2]))
    return Calibration(belief * float(np.clip(at[1], -WIDEST, WIDEST)), below, above, len(usable))


def _partly(factor: float, belief: float) -> float:
    return float(factor**belief) if factor > 0 else belief * factor + 1 - belief


def weighted_quantile(values: Floats, weights: Floats, quantile: float) -> float:
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order][min(np.searchsorted(sums, quantile * sums[-1]), len(values) - 1)])
