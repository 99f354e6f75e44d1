"""How few cards hold these MIG instances, and how far from the fewest possible is the answer?

A card is cut into one of its *patterns*: how many instances of each profile it has at once. Cards are chosen among
the patterns that no other contains. The bound is the linear relaxation's, solved exactly in fractions; where the
search ends within its steps the answer is the fewest cards, else the gap says how many too many they may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Final

from fairway.catalog.gpus import GpuModel, MigProfile
from fairway.catalog.placements import layouts
from fairway.errors import UserError

# States looked at before the search takes the best answer it has.
_STEPS: Final = 20_000
# More than these many cards of one demand are not counted out: a fleet has fewer.
CARDS_MOST: Final = 1_000_000

Pattern = tuple[int, ...]
"""Instances of each wanted profile on one card."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Cards cut alike with how many of them there are; `bound`: fewer cards cannot do."""

    profiles: tuple[MigProfile, ...]
    cuts: tuple[tuple[Pattern, int], ...]
    bound: int

    @property
    def cards(self) -> int:
        return sum(n for _, n in self.cuts)

    @property
    def gap(self) -> int:
        return self.cards - self.bound


def pack(model: GpuModel, wanted: Mapping[str, int]) -> Packing:
    """The fewest cards of a model for so many instances of each profile, by profile name.

    Raises: UserError for a profile that the model lacks, and for more instances than a million cards have.
    """
    profiles, counts = [], []
    for name in sorted(wanted):
        profile = model.profile(name)
        if profile is None:
            known = ", ".join(p.name for p in model.mig) or "none: it cannot be cut"
            raise UserError(f"{model.name} has no MIG profile {name}; its profiles: {known}")
        if wanted[name] < 0 or wanted[name] > CARDS_MOST:
            raise UserError(f"{wanted[name]} instances of {name}: expected 0 to {CARDS_MOST:,}")
        if wanted[name]:
            profiles.append(profile)
            counts.append(wanted[name])
    if not profiles:
        return Packing((), (), 0)
    choices = patterns(model, tuple(profiles))
    shares = _relaxed(choices, counts)
    bound = ceil(sum(shares))
    # Whole parts of the relaxation are bought as they are; the search covers what is left.
    bought = [floor(x) for x in shares]
    left = tuple(
        [
            max(0, n - sum(c[i] * b for c, b in zip(choices, bought, strict=True)))
            for i, n in enumerate(counts)
        ]
    )
    best = _covered(choices, left, bound - sum(bought))
    small = _covered(choices, tuple(counts), bound) if sum(counts) <= 8 * model.compute_slices else None
    if small is not None and len(small) <= sum(bought) + len(best):
        best, bought = small, [0] * len(choices)
    cuts = {c: b for c, b in zip(choices, bought, strict=True) if b}
    for pattern in best:
        cuts[pattern] = cuts.get(pattern, 0) + 1
    ordered = tuple(sorted(cuts.items(), reverse=True))
    return Packing(tuple(profiles), ordered, bound)


@lru_cache(maxsize=256)
def patterns(model: GpuModel, profiles: tuple[MigProfile, ...]) -> tuple[Pattern, ...]:
    """What one card can have of these profiles at once, without patterns that another contains."""
    found = {
        tuple([sum(at.profile == p for at in layout) for p in profiles])
        for layout in layouts(model)
        if all(at.profile in profiles for at in layout)
    }
    return tuple(
        sorted(
            (
                one
                for one in found
                if not any(o != one and all(a >= b for a, b in zip(o, one, strict=True)) for o in found)
            ),
            reverse=True,
        )
    )


def _covered(choices: Sequence[Pattern], wanted: tuple[int, ...], bound: int) -> tuple[Pattern, ...]:
    """The fewest patterns that together have at least this much: greedy first, then branch and bound within
    `_STEPS` states."""
    best = _greedy(choices, wanted)
    steps = 0
    seen: dict[tuple[int, ...], int] = {}
    stack: list[tuple[tuple[int, ...], tuple[Pattern, ...]]] = [(wanted, ())]
    while stack and steps < _STEPS and len(best) > bound:
        left, taken = stack.pop()
        steps += 1
        if not any(left):
            best = min(best, taken, key=len)
            continue
        least = max(ceil(Fraction(n, max(c[i] for c in choices))) for i, n in enumerate(left))
        if len(taken) + max(least, 1) >= len(best) or seen.get(left, len(best) + 1) <= len(taken):
            continue
        seen[left] = len(taken)
        most = next(i for i, n in enumerate(left) if n)
        useful = sorted((c for c in choices if c[most]), key=lambda c: sum(map(min, c, left)))
        stack += [
            (tuple([max(0, n - c) for n, c in zip(left, choice, strict=True)]), (*taken, choice))
            for choice in useful
        ]
    return best


def _greedy(choices: Sequence[Pattern], wanted: tuple[int, ...]) -> tuple[Pattern, ...]:
    left, taken = wanted, list[Pattern]()
    largest = [max(c[i] for c in choices) for i in range(len(wanted))]
    while any(left):
        choice = max(
            choices,
            key=lambda c: sum(Fraction(min(a, b), m) for a, b, m in zip(c, left, largest, strict=True)),
        )
        taken.append(choice)
        left = tuple([max(0, n - c) for n, c in zip(left, choice, strict=True)])
    return tuple(taken)


def _relaxed(choices: Sequence[Pattern], wanted: Sequence[int]) -> list[Fraction]:
    """Shares of each pattern that cover the demand at the least sum: the simplex method on the dual, whose start is
    feasible, with Bland's rule, in fractions. Its slack variables' prices are the shares."""
    rows, columns = len(choices), len(wanted)
    table = [
        [Fraction(v) for v in choice] + [Fraction(i == r) for i in range(rows)] + [Fraction(1)]
        for r, choice in enumerate(choices)
    ]
    price = [Fraction(-n) for n in wanted] + [Fraction(0)] * (rows + 1)
    while True:
        enter = next((j for j in range(columns + rows) if price[j] < 0), None)
        if enter is None:
            return price[columns : columns + rows]
        ratios = [(row[-1] / row[enter], r) for r, row in enumerate(table) if row[enter] > 0]
        leave = min(ratios)[1]
        scale = table[leave][enter]
        table[leave] = [v / scale for v in table[leave]]
        for r, row in enumerate(table):
            if r != leave and row[enter]:
                factor = row[enter]
                table[r] = [a - factor * b for a, b in zip(row, table[leave], strict=True)]
        factor = price[enter]
        price = [a - factor * b for a, b in zip(price, table[leave], strict=True)]
