"""What is the smallest number that meets an objective?

The objective is an assertion of scenarios, such as `wait p95 < 10m where namespace == "prod"`. It is taken to hold from
some amount on: the amount is bisected, and the one below the answer has been seen to fail. It holds where it does so
under every seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from fairway.answers.whatif.changes import Alteration, scaled
from fairway.answers.whatif.playing import Changes, World, play
from fairway.scenario.assertions.grammar import Assertion


@dataclass(frozen=True, slots=True)
class Tried:
    """An amount, under how many seeds the objective held, and what was measured (the median over seeds)."""

    amount: int
    held: int
    seeds: int
    measured: str


@dataclass(frozen=True, slots=True)
class Searched:
    """`smallest`: None where the objective is not met even with the most."""

    ground: str
    objective: str
    change: str
    smallest: int | None
    tried: tuple[Tried, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def search(
    world: World,
    changes: Changes,
    varied: Alteration,
    objective: Assertion,
    *,
    between: tuple[int, int],
    seeds: int = 3,
    progress: Callable[[int, int], None] | None = None,
) -> Searched:
    """`varied`: the change whose amount is looked for; O(log) runs. Raises: UserError, ApiError."""
    known: dict[int, Tried] = {}

    def holds(amount: int) -> bool:
        if amount not in known:
            what = (*changes, scaled(varied, amount))
            verdicts = [play(world, n, what, objective).verdict for n in range(seeds)]
            ordered = sorted(
                (v for v in verdicts if v is not None), key=lambda v: (v.measured is None, v.measured or 0)
            )
            held = sum(v.passed for v in ordered)
            known[amount] = Tried(amount, held, seeds, ordered[len(ordered) // 2].shown)
            if progress is not None:
                progress(len(known), (between[1] - between[0]).bit_length() + 1)
        return known[amount].held == seeds

    low, high = between
    smallest = None
    if holds(high):
        while low < high:
            middle = (low + high) // 2
            if holds(middle):
                high = middle
            else:
                low = middle + 1
        smallest = high
    tried = tuple(known[amount] for amount in sorted(known))
    change = varied.text.partition("=")[0] + "=" + varied.sign
    return Searched(world.ground.name, objective.text, change, smallest, tried)
