"""The scores of one node at a time, in thousandth parts as kube-scheduler rounds them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from fairway.scheduling.plainscores import _balance, _least

AMOUNTS = (0, 1, 3, 50, 99, 100, 250)


@pytest.mark.parametrize("there", list(product((1, 3, 100), repeat=2)))
def test_balance_is_what_two_shares_lie_apart_halved(there: tuple[int, int]) -> None:
    cpu, memory = there
    for cpu_use, memory_use in product(AMOUNTS, repeat=2):
        shares = [min(Fraction(use, of), Fraction(1)) for use, of in ((cpu_use, cpu), (memory_use, memory))]
        exact = (1 - abs(shares[0] - shares[1]) / 2) * 100
        # Floats round towards what is just below or at the exact score.
        assert _balance(cpu_use, cpu, memory_use, memory) in {int(exact), int(exact - Fraction(1, 10**9))}


def test_nothing_to_balance_is_balanced() -> None:
    assert _balance(5, 0, 5, 10) == _balance(5, 10, 5, 0) == 100


@pytest.mark.parametrize("there", list(product((0, 1, 3, 100), repeat=2)))
def test_the_least_allocated_is_the_mean_of_what_is_free(there: tuple[int, int]) -> None:
    for uses in product(AMOUNTS, repeat=2):
        parts = [
            (of - use) * 100 // of if use <= of else 0 for use, of in zip(uses, there, strict=True) if of
        ]
        wanted = sum(parts) // len(parts) if parts else 0
        assert _least(there[0], uses[0], there[1], uses[1]) == wanted
