"""What does an hour of every machine cost, from when to when?

A price may change while a machine is there, and there may be none: hours without a price are kept and reported
as such, never taken as free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairway.catalog.catalog import Catalog
from fairway.catalog.prices import Price, Unpriced
from fairway.metering.apportion import Ints
from fairway.metering.ground import Machines

UNPRICED = -1


@dataclass(frozen=True, slots=True)
class Rates:
    """Stretches of constant price, by machine and then by time: they cover each machine's life without gaps.

    The moment at which a machine is a node ends a stretch, too.

    `micros_per_hour` is UNPRICED where nobody says; `reasons` then says why, by stretch.
    """

    machine: Ints
    start_us: Ints
    end_us: Ints
    micros_per_hour: Ints
    reasons: dict[int, Unpriced]


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which terms the fleet is bought: a commitment (`1y`, `3y`) turns on-demand machines into reserved ones."""

    commitment: str = ""


def rates_of(machines: Machines, catalog: Catalog, origin_us: int = 0, terms: Terms | None = None) -> Rates:
    """The rates of machines by the price books; `origin_us` is the time since 1970 that their times begin at."""
    commitment = (terms or Terms()).commitment
    rows: list[tuple[int, int, int, int]] = []
    reasons: dict[int, Unpriced] = {}
    edges: dict[str, set[int]] = {}
    for index in range(len(machines)):
        name = machines.instance_types[index]
        if name not in edges:
            edges[name] = _changes(catalog, name)
        start, end = int(machines.start_us[index]), int(machines.end_us[index])
        changes = {*(t - origin_us for t in edges[name]), int(machines.ready_us[index])}
        within = sorted(t for t in changes if start < t < end)
        for since, until in zip([start, *within], [*within, end], strict=True):
            found = catalog.price(
                name,
                machines.capacity_types[index] or "on-demand",
                zone=machines.zones[index],
                at_us=origin_us + since,
                commitment=commitment if machines.capacity_types[index] != "spot" else "",
            )
            if not isinstance(found, Price):
                reasons[len(rows)] = found
            rows.append(
                (index, since, until, found.micros_per_hour if isinstance(found, Price) else UNPRICED)
            )
    columns = np.array(rows, np.int64).reshape(len(rows), 4)
    return Rates(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3], reasons)


def _changes(catalog: Catalog, instance_type: str) -> set[int]:
    """Every time at which some price of a type begins or ends."""
    return {t for p in catalog.prices(instance_type) for t in (p.from_us, p.until_us)}
