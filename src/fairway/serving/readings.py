"""What did requests get: percentiles, throughput, goodput, where the time went, and how many got nothing?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairway.serving import batching as b

PERCENTILES = (50, 95, 99)
ENDS = {
    b.DONE_WELL: "ok",
    b.REFUSED: "refused",
    b.LOST: "lost",
    b.TIMED_OUT: "timed out",
    b.TOO_LONG: "too long",
    b.FAILED: "failed",
}


@dataclass(frozen=True, slots=True)
class Slo:
    """Seconds at most; infinity: no matter."""

    ttft_s: float = np.inf
    tpot_s: float = np.inf
    end_to_end_s: float = np.inf


@dataclass(frozen=True, slots=True)
class Readings:
    """Times in seconds. `percentiles`: by reading, those of PERCENTILES, NaN where nothing was answered."""

    requests: int
    ends: Mapping[str, int]
    percentiles: Mapping[str, tuple[float, ...]]
    means: Mapping[str, float]
    tokens_per_s: float
    requests_per_s: float
    attained: float
    """The share of all requests that were answered within the SLO."""
    goodput_per_s: float

    def as_json(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "ends": dict(self.ends),
            "seconds": {
                name: {f"p{p}": v for p, v in zip(PERCENTILES, values, strict=True)}
                | {"mean": self.means[name]}
                for name, values in self.percentiles.items()
            },
            "tokensPerSecond": self.tokens_per_s,
            "requestsPerSecond": self.requests_per_s,
            "sloAttained": self.attained,
            "goodputPerSecond": self.goodput_per_s,
        }


def readings(when: NDArray[np.float64], what: NDArray[np.int64], slo: Slo | None = None) -> Readings:
    """Of `batching`'s tables. Requests that have not ended count as such and are in no percentile."""
    slo = slo or Slo()
    status = what[:, b.STATUS]
    good = status == b.DONE_WELL
    arrived, began, first, done = (when[good, i] for i in (b.ARRIVED, b.BEGAN, b.FIRST, b.DONE))
    output = what[good, b.OUTPUT]
    seconds = {
        "ttft": first - arrived,
        "tpot": (done - first) / np.maximum(output - 1, 1),
        "end_to_end": done - arrived,
        "queue": began - arrived,
        "prefill": first - began,
        "decode": done - first,
    }
    lasted = float(done.max() - when[:, b.ARRIVED].min()) if good.any() else 0.0
    within = (
        (seconds["ttft"] <= slo.ttft_s)
        & (seconds["tpot"] <= slo.tpot_s)
        & (seconds["end_to_end"] <= slo.end_to_end_s)
    )
    counts = {said: int((status == which).sum()) for which, said in ENDS.items()}
    return Readings(
        requests=len(what),
        ends={**counts, "unfinished": len(what) - sum(counts.values())},
        percentiles={name: _percentiles(values) for name, values in seconds.items()},
        means={
            name: float(values.mean()) if len(values) else float("nan") for name, values in seconds.items()
        },
        tokens_per_s=float(output.sum()) / lasted if lasted else 0.0,
        requests_per_s=len(output) / lasted if lasted else 0.0,
        attained=float(within.sum()) / len(what) if len(what) else 1.0,
        goodput_per_s=float(within.sum()) / lasted if lasted else 0.0,
    )


def _percentiles(values: NDArray[np.float64]) -> tuple[float, ...]:
    if not len(values):
        return (float("nan"),) * len(PERCENTILES)
    return tuple(float(v) for v in np.percentile(values, PERCENTILES))
