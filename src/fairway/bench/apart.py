"""Measuring in a process of its own: peak memory is the process's, and must not be another benchmark's."""

from __future__ import annotations

import multiprocessing
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple


class Measured(NamedTuple):
    took_s: float
    peak_bytes: int


def measured_apart(measure: Callable[[int], float], size: int) -> Measured:
    """What `measure(size)` returns (seconds), and the most memory its process ever held."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        return executor.submit(_measured, measure, size).result()


def _measured(measure: Callable[[int], float], size: int) -> Measured:
    took_s = measure(size)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Measured(took_s, peak * (1 if sys.platform == "darwin" else 1024))
