"""Measuring in a process of its own: peak memory is the process's, and must not be another benchmark's."""

from __future__ import annotations

import multiprocessing
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple, TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")


class Measured(NamedTuple):
    took_s: float
    peak_bytes: int


def measured_in_own_process(measure: Callable[[int], float], size: int) -> Measured:
    """What `measure(size)` returns (seconds), and the most memory its process ever held."""
    return Measured(*run_in_own_process(measure, size))


def run_in_own_process(measure: Callable[[Given], Found], given: Given) -> tuple[Found, int]:
    """What `measure(given)` returns, and the most memory its process ever held, in bytes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        return executor.submit(_measured, measure, given).result()


def _measured(measure: Callable[[Given], Found], given: Given) -> tuple[Found, int]:
    found = measure(given)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found, peak * (1 if sys.platform == "darwin" else 1024)
