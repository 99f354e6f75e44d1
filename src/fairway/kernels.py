"""How are array loops compiled?

On first call, and kept beside the source: the second process loads them. Kernels take a few arrays with many
columns rather than many arrays, because every array argument adds to the time compiling and calling take.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from fairway.extras import need

njit: Any = need("numba").njit

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A loop Python calls. Runs without the interpreter lock, divides like NumPy (no ZeroDivisionError)."""
    try:
        return cast(Callable[P, R], njit(cache=True, nogil=True, error_model="numpy")(function))
    except (
        RuntimeError
    ):  # nowhere to keep machine code: neither the source's directory nor the home can be written
        return leaf(function)


def leaf(function: Callable[P, R]) -> Callable[P, R]:
    """A piece of kernels: not kept on disk, since the kernels that use it contain it."""
    return cast(Callable[P, R], njit(nogil=True, error_model="numpy")(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A leaf that is written out where it is called: for those called often with a bundle of arrays, each of which
    would be counted as used once more at every call."""
    return cast(Callable[P, R], njit(nogil=True, error_model="numpy", inline="always")(function))
