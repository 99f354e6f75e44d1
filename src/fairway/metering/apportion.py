"""Exact division: how many micro-dollars does each claim get, so that none is lost?

The largest remainder method: every claim gets the whole part of its share, and what is left over goes, one
each, to those whose fractions were largest; of equals, to the first. A cell without claims that weigh
anything is shared evenly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def apportion(totals: Ints, cells: Ints, weights: Floats) -> Ints:
    """Shares of `totals: int64[cell]` for claims `cells, weights: [claim]`; they add up to the total exactly.

    Every cell with a total other than 0 has a claim; weights are finite and not negative. O(n log n) in claims.
    """
    heavy = np.bincount(cells, weights, len(totals))
    weights = np.where(heavy[cells] > 0, weights, 1.0)
    heavy = np.where(heavy > 0, heavy, np.bincount(cells, minlength=len(totals)))
    exact = totals[cells] * (weights / heavy[cells])
    shares = np.floor(exact).astype(np.int64)
    given = np.zeros(len(totals), np.int64)
    np.add.at(given, cells, shares)
    left = totals - given
    # Only cells with something left over need to be put in order.
    open_ = np.flatnonzero(left[cells] != 0)
    shares[open_] += _turns(left, cells[open_], (exact - shares)[open_])
    return shares


def _turns(left: Ints, cells: Ints, fractions: Floats) -> Ints:
    """Who gets one more: the `left[cell]` claims of each cell with the largest fractions (one less, if negative)."""
    # One key instead of two: a cell's claims lie between its number and the next, the largest fraction first.
    order = np.argsort(cells + 0.5 * (1.0 - fractions), kind="stable")
    sorted_cells = cells[order]
    counts = np.bincount(cells, minlength=len(left))
    first = np.cumsum(counts) - counts
    rank = np.arange(len(order)) - first[sorted_cells]
    due = left[sorted_cells]
    # Floats may hand out one too many where a share is a hair above a whole number: the last give it back.
    wins = np.where(rank < due, 1, 0) - np.where(counts[sorted_cells] - 1 - rank < -due, 1, 0)
    more = np.zeros(len(cells), np.int64)
    more[order] = wins
    return more
