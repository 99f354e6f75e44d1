"""The export keeps every micro-dollar."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np

from fairway.metering.bill import Owners, bill_of
from fairway.metering.cells import HOUR_US
from fairway.metering.focus import FocusFacts, focus_of
from fairway.metering.ground import UNKNOWN_USE, Machines, Stays
from fairway.metering.ledger import ledger_of
from fairway.metering.rates import UNPRICED, Rates


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_costs_periods_and_tags() -> None:
    machines = Machines(
        ("n", "m"), ("p5.48xlarge", "unknown"), ("us-east-1a", ""), ("spot", "on-demand"), ("H100", ""), ints(0, 0),
        ints(0, 0), ints(HOUR_US, HOUR_US), np.array([8.0, 1.0]), ints(0, 0), ints(0, 0), ints(0, 0), ints(0, 0),
    )  # fmt: skip
    use = np.array([UNKNOWN_USE])
    stays = Stays(ints(0), ints(0), ints(0), ints(HOUR_US), np.array([2.0]), ints(0), ints(0), use, use)
    rates = Rates(ints(0, 1), ints(0, 0), ints(HOUR_US, HOUR_US), ints(98_320_001, UNPRICED), {})
    owners = Owners({"namespace": ["ml"], "team": ["vision"], "project": [""]})
    rows = focus_of(bill_of(ledger_of(machines, stays, rates), owners)).to_dicts()
    held = next(r for r in rows if r["x_Kind"] == "owned")
    assert (held["ChargePeriodStart"], held["ChargePeriodEnd"]) == (
        "1970-01-01T00:00:00Z",
        "1970-01-01T01:00:00Z",
    )
    assert (held["PricingCategory"], held["SubAccountId"], held["ResourceId"]) == ("Dynamic", "ml", "n")
    assert json.loads(held["Tags"]) == {"team": "vision"}
    assert sum(r["BilledCost"] for r in rows if r["BilledCost"] is not None) == Decimal("98.320001")
    unpriced = next(r for r in rows if r["ResourceId"] == "m")
    assert unpriced["BilledCost"] is None
    assert unpriced["ConsumedQuantity"] == 1.0


def test_what_costs_nothing_has_no_hours_that_could_be_priced() -> None:
    """A price of nothing says nothing of how many hours were used: the list price is what was paid."""
    machines = Machines(
        ("n", "m"), ("a.1", "a.1"), ("z", "z"), ("on-demand", "on-demand"), ("", ""), ints(0, 0),
        ints(0, 0), ints(HOUR_US, HOUR_US), np.array([8.0, 8.0]), ints(0, 0), ints(0, 0), ints(0, 0), ints(0, 0),
    )  # fmt: skip
    none = np.array([UNKNOWN_USE])
    stays = Stays(ints(), ints(), ints(), ints(), np.array([]), ints(), ints(), none[:0], none[:0])
    rates = Rates(ints(0, 1), ints(0, 0), ints(HOUR_US, HOUR_US), ints(0, 3_000_000), {})
    owners = Owners({"namespace": [], "team": [], "project": []})
    facts = FocusFacts(list_micros={("a.1", "z"): 5_000_000})
    rows = focus_of(bill_of(ledger_of(machines, stays, rates), owners), facts).to_dicts()
    costs = {r["ResourceId"]: (r["BilledCost"], r["ListCost"], r["PricingQuantity"]) for r in rows}
    assert costs == {"n": (Decimal(0), Decimal(0), None), "m": (Decimal(3), Decimal(5), 1.0)}
