"""Does spot pay, with interruptions and checkpoints reckoned in?

Interruptions come as a Poisson process. Work is saved every `interval_h` hours of progress, which takes `save_h`; an
interruption loses what was not saved, and `restore_h` passes before work goes on. Daly's model then says how much
longer than undisturbed the work takes, failures during saving and restoring included.

Source: J. W. Young, CACM 17(9), 1974 (first-order interval); J. T. Daly, FGCS 22(3), 2006 (complete model: equation 13
for the run time, 37 for the interval).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, inf, isfinite, sqrt

from fairway.errors import UserError

# Beyond this exponent the work never ends in practice, and exp() overflows.
_HOPELESS = 700.0


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Hours. `interval_h`: progress between the end of one checkpoint and the start of the next."""

    interval_h: float
    save_h: float = 0.0
    restore_h: float = 0.0


@dataclass(frozen=True, slots=True)
class SpotEconomics:
    """Prices are µ$ an hour of the whole gang. `slowdown`: wall-clock over undisturbed time; inf: it never ends."""

    slowdown: float
    lost_share: float
    """Share of paid time that is saving, restoring, or work done twice."""
    on_demand_micros: float
    """Per hour of useful work: on-demand capacity is not interrupted, and saves nothing."""
    spot_micros: float
    effective_micros: float
    """Per hour of useful work on spot."""
    kept_saving: float | None
    """Share of the price difference that remains; negative: spot is dearer. None: there is no difference."""
    best_interval_h: float | None
    """Daly's; None where saving costs nothing (the shorter the better) or nothing is ever interrupted."""
    young_interval_h: float | None
    break_even_hazard_per_h: float
    """Interruptions an hour at which spot costs what on-demand does; inf: never."""


def spot_economics(
    on_demand_micros: float,
    spot_micros: float,
    hazard_per_h: float,
    checkpoints: Checkpoints,
    machines: int = 1,
) -> SpotEconomics:
    """What spot saves a gang of machines that all stop when one is interrupted. Prices and hazard are one machine's.

    Raises: UserError for numbers that cannot be.
    """
    _check(on_demand_micros, spot_micros, hazard_per_h, checkpoints, machines)
    hazard = hazard_per_h * machines
    slow = slowdown(hazard, checkpoints)
    effective = spot_micros * machines * slow
    difference = (on_demand_micros - spot_micros) * machines
    return SpotEconomics(
        slowdown=slow,
        lost_share=1.0 - 1.0 / slow,
        on_demand_micros=on_demand_micros * machines,
        spot_micros=spot_micros * machines,
        effective_micros=effective,
        kept_saving=(on_demand_micros * machines - effective) / difference if difference else None,
        best_interval_h=daly_interval_h(hazard, checkpoints.save_h),
        young_interval_h=young_interval_h(hazard, checkpoints.save_h),
        break_even_hazard_per_h=break_even_hazard(on_demand_micros / spot_micros, checkpoints) / machines
        if spot_micros
        else inf,
    )


def slowdown(hazard_per_h: float, checkpoints: Checkpoints) -> float:
    """Wall-clock time per time of undisturbed work. Daly's equation 13; its limit where nothing is interrupted."""
    step = checkpoints.interval_h + checkpoints.save_h
    if hazard_per_h == 0:
        return step / checkpoints.interval_h
    exponent = step * hazard_per_h
    if exponent + checkpoints.restore_h * hazard_per_h > _HOPELESS:
        return inf
    return exp(checkpoints.restore_h * hazard_per_h) * expm1(exponent) / hazard_per_h / checkpoints.interval_h


def young_interval_h(hazard_per_h: float, save_h: float) -> float | None:
    """The interval between checkpoints that loses least, to first order."""
    if hazard_per_h == 0 or save_h == 0:
        return None
    return sqrt(2 * save_h / hazard_per_h)


def daly_interval_h(hazard_per_h: float, save_h: float) -> float | None:
    """The same to higher order; the mean time between interruptions where saving takes more than twice that."""
    if hazard_per_h == 0 or save_h == 0:
        return None
    mean = 1 / hazard_per_h
    if save_h >= 2 * mean:
        return mean
    ratio = save_h / (2 * mean)
    return sqrt(2 * save_h * mean) * (1 + sqrt(ratio) / 3 + ratio / 9) - save_h


def break_even_hazard(price_ratio: float, checkpoints: Checkpoints) -> float:
    """Interruptions an hour at which the slowdown eats a price ratio (on-demand over spot); 0: it does so at once."""
    if slowdown(0.0, checkpoints) >= price_ratio:
        return 0.0
    low, high = 0.0, _HOPELESS / checkpoints.interval_h
    if not isfinite(high):
        return inf
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if slowdown(middle, checkpoints) < price_ratio else (low, middle)
    return low


def _check(on_demand: float, spot: float, hazard: float, checkpoints: Checkpoints, machines: int) -> None:
    wrong = [
        f"{name} is {value:g}: expected {expected}"
        for name, value, is_right, expected in (
            ("the on-demand price", on_demand, on_demand >= 0, "0 or more"),
            ("the spot price", spot, spot >= 0, "0 or more"),
            ("the hazard", hazard, hazard >= 0, "0 or more interruptions an hour"),
            (
                "the checkpoint interval",
                checkpoints.interval_h,
                checkpoints.interval_h > 0,
                "more than 0 hours",
            ),
            ("the time to save", checkpoints.save_h, checkpoints.save_h >= 0, "0 or more hours"),
            ("the time to restore", checkpoints.restore_h, checkpoints.restore_h >= 0, "0 or more hours"),
            ("the number of machines", machines, machines >= 1, "1 or more"),
        )
        if not is_right
    ]
    if wrong:
        raise UserError("; ".join(wrong))
