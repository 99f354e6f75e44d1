"""How long does something take? A duration that may vary, as text and as draws.

`250ms`, `uniform(1s, 3s)`, `lognormal(20s, 0.5)` (median, sigma of the logarithm), `exponential(2s)` (mean).
Draws are integer microseconds, never below zero, rounded to nearest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from random import Random
from statistics import NormalDist
from typing import NamedTuple

from fairway.kube.timestamps import SECOND_US, format_duration, parse_duration

EXPECTED = (
    "expected a duration (250ms, 1h30m), uniform(LOW, HIGH), lognormal(MEDIAN, SIGMA) or exponential(MEAN)"
)
_FORM = re.compile(
    r"\s*(constant|uniform|lognormal|exponential)\s*\(\s*([^,()]+?)\s*(?:,\s*([^,()]+?)\s*)?\)\s*"
)
# Draws that belong to a subject come as one number in [0, 1); 0 and 1 have no logarithm or quantile.
_EDGE = 1e-12


class Distribution(NamedTuple):
    """A duration's distribution. `a_us`: the constant, low end, median or mean; `b`: high end (µs) or sigma.

    (A frozen dataclass takes three times as long to make, and every pod with a run time of its own makes one.)
    """

    form: str
    a_us: int
    b: float = 0.0

    @property
    def is_zero(self) -> bool:
        return self.form == "constant" and self.a_us == 0

    def at_quantile(self, u: float) -> int:
        """The duration below which a share `u` of draws lies."""
        if self.form == "constant":
            return self.a_us
        if self.form == "uniform":
            return round(self.a_us + (self.b - self.a_us) * u)
        u = min(max(u, _EDGE), 1.0 - _EDGE)
        if self.form == "exponential":
            return round(-self.a_us * math.log(1.0 - u))
        return round(self.a_us * math.exp(self.b * NormalDist().inv_cdf(u)))

    def sampler(self, random: Random) -> Callable[[], int]:
        """A function that draws from the stream; a constant leaves the stream alone."""
        if self.form == "constant":
            value = self.a_us
            return lambda: value
        if self.form == "uniform":
            low, span = self.a_us, self.b - self.a_us
            return lambda: round(low + span * random.random())
        if self.form == "exponential":
            rate = 1.0 / self.a_us
            return lambda: round(random.expovariate(rate))
        mu, sigma = math.log(self.a_us), self.b
        return lambda: round(random.lognormvariate(mu, sigma))

    def __str__(self) -> str:
        if self.form == "constant":
            return format_duration(self.a_us)
        if self.form == "uniform":
            return f"uniform({format_duration(self.a_us)}, {format_duration(round(self.b))})"
        if self.form == "lognormal":
            return f"lognormal({format_duration(self.a_us)}, {self.b:g})"
        return f"exponential({format_duration(self.a_us)})"


ZERO = Distribution("constant", 0)


def constant(duration_us: int) -> Distribution:
    return Distribution("constant", duration_us)


def parse_distribution(text: str | int | float) -> Distribution:
    """From text or a number of seconds.

    Raises: ValueError, saying what is expected.
    """
    if isinstance(text, str) and text[-1:] == "s" and text[:-1].isdecimal():
        # What traces write, tens of thousands of different ones, is spared three regular expressions.
        return constant(int(text[:-1]) * SECOND_US)
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return constant(_duration(text))
    form, first, second = match.groups()
    a_us = _duration(first)
    if form in ("constant", "exponential"):
        if second is not None:
            raise ValueError(EXPECTED)
        return constant(a_us) if form == "constant" or a_us == 0 else Distribution(form, a_us)
    if second is None:
        raise ValueError(EXPECTED)
    if form == "uniform":
        b_us = _duration(second)
        if b_us < a_us:
            raise ValueError(f"{EXPECTED}, with LOW at most HIGH")
        return Distribution(form, a_us, b_us)
    return _lognormal(a_us, second)


def _lognormal(median_us: int, sigma_text: str) -> Distribution:
    try:
        sigma = float(sigma_text)
    except ValueError:
        raise ValueError(EXPECTED) from None
    if not 0 <= sigma <= 10:
        raise ValueError(f"{EXPECTED}, with SIGMA from 0 to 10")
    return Distribution("lognormal", median_us, sigma) if median_us and sigma else constant(median_us)


def _duration(text: str | int | float) -> int:
    try:
        value = parse_duration(text)
    except (ValueError, AttributeError):
        raise ValueError(EXPECTED) from None
    if value < 0:
        raise ValueError(EXPECTED)
    return value
