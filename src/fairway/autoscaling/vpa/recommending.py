"""From samples of usage to a recommendation: a percentile, a margin, a minimum, and bounds that narrow with time.

Source: pkg/recommender/logic/{recommender,estimator}.go, model/{container,aggregate_container_state}.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from fairway.autoscaling.vpa.histograms import CPU, MEMORY, Histogram
from fairway.kube.quantity import format_milli
from fairway.kube.timestamps import DAY_US

_CPU_WEIGHT: Final = 0.1
_MARGIN: Final = 0.15
_MIN_CPU_CORES: Final = 0.025
_MIN_MEMORY_BYTES: Final = 250 * 1024 * 1024
_TARGET, _LOWER, _UPPER = 0.9, 0.5, 0.95
# After running out of memory: so much more, at least. Source: DefaultOOMBumpUpRatio, DefaultOOMMinBumpUp.
_BUMP_RATIO: Final = 1.2
_BUMP_BYTES: Final = 100 * 1024 * 1024
# Peaks of memory count per such window.
_WINDOW_US: Final = DAY_US


@dataclass(slots=True)
class Peak:
    """The memory peak of one container in its present window."""

    window_end_us: int = -1
    bytes: int = 0
    oom_bytes: int = 0
    last_us: int = -1


@dataclass(slots=True)
class Usage:
    """What all containers of one name of an autoscaler's pods used."""

    cpu: Histogram = field(default_factory=lambda: Histogram(CPU))
    memory: Histogram = field(default_factory=lambda: Histogram(MEMORY))
    first_us: int = -1
    last_us: int = -1
    samples: int = 0
    peaks: dict[str, Peak] = field(default_factory=dict)
    """By the pod's uid."""

    def copy(self) -> Usage:
        peaks = {uid: replace(peak) for uid, peak in self.peaks.items()}
        return Usage(self.cpu.copy(), self.memory.copy(), self.first_us, self.last_us, self.samples, peaks)


def add_cpu(usage: Usage, milli: int, at_us: int) -> None:
    usage.cpu.add(milli / 1000, _CPU_WEIGHT, at_us)
    usage.last_us = max(usage.last_us, at_us)
    usage.first_us = at_us if usage.first_us < 0 else min(usage.first_us, at_us)
    usage.samples += 1


def add_memory(usage: Usage, pod: str, size: int, at_us: int, *, is_oom: bool = False) -> None:
    """A higher peak of a window takes the place of the lower one."""
    peak = usage.peaks.setdefault(pod, Peak())
    if not is_oom and at_us < peak.last_us:
        return
    peak.last_us = at_us
    if peak.window_end_us < 0:
        peak.window_end_us = at_us
    if at_us < peak.window_end_us:
        before = max(peak.bytes, peak.oom_bytes)
        if not before or size <= before:
            return
        usage.memory.subtract(before, 1.0, peak.window_end_us)
    else:
        peak.window_end_us += (at_us - peak.window_end_us) // _WINDOW_US * _WINDOW_US + _WINDOW_US
        peak.bytes = peak.oom_bytes = 0
    usage.memory.add(size, 1.0, peak.window_end_us)
    if is_oom:
        peak.oom_bytes = size
    else:
        peak.bytes = size


def add_oom(usage: Usage, pod: str, requested: int, at_us: int) -> None:
    """A container ran out of memory: it needs more than it asked for or had. Told a window late, it counts no more."""
    peak = usage.peaks.setdefault(pod, Peak())
    if peak.last_us >= 0 and at_us < peak.last_us - _WINDOW_US:
        return
    used = max(requested, peak.bytes)
    needed = max(used + _BUMP_BYTES, int(used * _BUMP_RATIO))
    add_memory(usage, pod, needed, at_us, is_oom=True)


class Recommendation(NamedTuple):
    """Of one container: CPU in thousandths, memory in bytes."""

    target: Mapping[str, int]
    lower: Mapping[str, int]
    upper: Mapping[str, int]


def recommend(usages: Mapping[str, Usage]) -> dict[str, Recommendation]:
    """By container; the minimum of a pod is divided among its containers."""
    if not usages:
        return {}
    share = 1.0 / len(usages)
    least = {"cpu": int(_MIN_CPU_CORES * 1000 * share), "memory": int(_MIN_MEMORY_BYTES * share)}
    return {name: _estimate(usage, least) for name, usage in sorted(usages.items())}


def _estimate(usage: Usage, least: Mapping[str, int]) -> Recommendation:
    confidence = min((usage.last_us - usage.first_us) / DAY_US, usage.samples / 1440)

    def at(share: float, multiplier: float, exponent: float) -> dict[str, int]:
        factor = _power(multiplier, exponent, confidence)
        found = {}
        for name, base in (
            ("cpu", int(usage.cpu.percentile(share) * 1000)),
            ("memory", int(usage.memory.percentile(share))),
        ):
            with_margin = base + int(base * _MARGIN)
            found[name] = max(_scaled(with_margin, factor), least[name])
        return found

    return Recommendation(at(_TARGET, 0.0, 1.0), at(_LOWER, 0.001, -2.0), at(_UPPER, 1.0, 1.0))


# What does not fit is the largest amount there is. Source: model.MaxResourceAmount.
_MOST: Final = 100_000_000_000_000


def _power(multiplier: float, exponent: float, confidence: float) -> float:
    if not multiplier:
        return 1.0
    if confidence <= 0:
        return math.inf if exponent > 0 else 0.0
    return math.pow(1.0 + multiplier / confidence, exponent)


def _scaled(amount: int, factor: float) -> int:
    if not amount:
        return 0
    return int(min(amount * factor, float(_MOST)))


def amounts_text(amounts: Mapping[str, int]) -> dict[str, str]:
    """As a ResourceList: memory in the decimal family, as the recommender writes it."""
    return {
        "cpu": format_milli(amounts["cpu"]),
        "memory": format_milli(amounts["memory"] * 1000),
    }
