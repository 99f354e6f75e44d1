"""The export keeps every micro-dollar."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import polars as pl

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


def test_rows_of_a_million_dollars_and_more() -> None:
    """Costs are decimals of eighteen digits, six of them after the point."""
    machines = Machines(
        ("n",), ("a.1",), ("z",), ("on-demand",), ("",), ints(0), ints(0), ints(1000 * HOUR_US),
        np.array([8.0]), ints(0), ints(0), ints(0), ints(0),
    )  # fmt: skip
    none = np.array([UNKNOWN_USE])
    stays = Stays(ints(), ints(), ints(), ints(), np.array([]), ints(), ints(), none[:0], none[:0])
    rates = Rates(ints(0), ints(0), ints(1000 * HOUR_US), ints(2_000_000_001), {})
    bill = bill_of(ledger_of(machines, stays, rates), Owners({"namespace": []}))
    (row,) = (rows := focus_of(bill)).to_dicts()
    assert row["BilledCost"] == row["ListCost"] == Decimal("2000000.001000")
    assert rows.schema["BilledCost"] == rows.schema["ListCost"] == pl.Decimal(18, 6)
    assert row["Tags"] == "{}"


def test_a_labels_words_are_its_own_and_labels_nobody_set_are_no_tags() -> None:
    machines = Machines(
        ("n",), ("a.1",), ("z",), ("on-demand",), ("",), ints(0), ints(0), ints(HOUR_US),
        np.array([3.0]), ints(0), ints(0), ints(0), ints(0),
    )  # fmt: skip
    none = np.full(3, UNKNOWN_USE)
    zero = ints(0, 0, 0)
    stays = Stays(zero, ints(0, 1, 2), zero, ints(*[HOUR_US] * 3), np.ones(3), zero, zero, none, none)
    rates = Rates(ints(0), ints(0), ints(HOUR_US), ints(3_000_000), {})
    owners = Owners({"namespace": ["a", "b", "c"], "team": ["Köln", "", "__x"], "queue": ["", "fast", "__"]})
    bill = bill_of(ledger_of(machines, stays, rates), owners)
    rows = {r["SubAccountId"]: r["Tags"] for r in focus_of(bill).to_dicts()}
    assert rows == {"a": '{"team": "Köln"}', "b": '{"queue": "fast"}', "c": "{}"}
    only = {r["SubAccountId"]: r["Tags"] for r in focus_of(bill, tags=("queue", "model")).to_dicts()}
    assert only == {"a": "{}", "b": '{"queue": "fast"}', "c": "{}"}


def test_without_facts_the_account_is_fairways() -> None:
    machines = Machines(
        ("n",), ("",), ("",), ("reserved",), ("",), ints(0), ints(0), ints(HOUR_US),
        np.array([1.0]), ints(0), ints(0), ints(0), ints(0),
    )  # fmt: skip
    none = np.array([UNKNOWN_USE])
    stays = Stays(ints(), ints(), ints(), ints(), np.array([]), ints(), ints(), none[:0], none[:0])
    rates = Rates(ints(0), ints(0), ints(HOUR_US), ints(5), {})
    bill = bill_of(ledger_of(machines, stays, rates), Owners({"namespace": []}), origin_us=31 * 24 * HOUR_US)
    (row,) = focus_of(bill).to_dicts()
    want = {
        "BilledCost": Decimal("0.000005"),
        "BillingAccountId": "fairway",
        "BillingAccountName": "fairway",
        "BillingCurrency": "USD",
        "BillingPeriodEnd": "1970-03-01T00:00:00Z",
        "BillingPeriodStart": "1970-02-01T00:00:00Z",
        "ChargeCategory": "Usage",
        "ChargeClass": None,
        "ChargeDescription": "(no instance type), held by nobody",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": "1970-02-01T01:00:00Z",
        "ChargePeriodStart": "1970-02-01T00:00:00Z",
        "CommitmentDiscountCategory": "Usage",
        "CommitmentDiscountId": "reserved",
        "CommitmentDiscountStatus": "Used",
        "ConsumedQuantity": 1.0,
        "ConsumedUnit": "GPU Hours",
        "ContractedCost": Decimal("0.000005"),
        "EffectiveCost": Decimal("0.000005"),
        "InvoiceIssuerName": "Fairway",
        "ListCost": Decimal("0.000005"),
        "PricingCategory": "Committed",
        "PricingQuantity": 1.0,
        "PricingUnit": "Hours",
        "ProviderName": "Fairway",
        "PublisherName": "Fairway",
        "AvailabilityZone": None,
        "RegionId": None,
        "ResourceId": "n",
        "ResourceName": "n",
        "ResourceType": None,
        "ServiceCategory": "Compute",
        "ServiceName": "Kubernetes",
        "SubAccountId": "__idle__",
        "SubAccountName": "__idle__",
        "Tags": "{}",
        "x_Kind": "unallocated",
        "x_GpuModel": None,
        "x_Unpriced": False,
    }
    assert row == want
    assert list(row) == list(want)


def test_list_prices_are_rounded_to_the_micro_dollar() -> None:
    """What a part of an hour costs on demand is whole micro-dollars, the nearest; a price of one has hours, too."""
    for paid, hours_us, listed, hours, want in (
        (3_000_000, 1_200_000_000, 5_000_000, 1 / 3, 1_666_667),
        (3_000_000, 1_200_000_000, 4_000_000, 1 / 3, 1_333_333),
        (7_000_000, HOUR_US, 1, 1.0, 1),
        (1, HOUR_US, 9, 1.0, 9),
        (1, HOUR_US // 2, 9, 0.0, 0),
        (2, 2 * HOUR_US, 3, 2.0, 6),
    ):
        machines = Machines(
            ("n",), ("a.1",), ("z",), ("on-demand",), ("",), ints(0), ints(0), ints(hours_us),
            np.array([1.0]), ints(0), ints(0), ints(0), ints(0),
        )  # fmt: skip
        none = np.array([UNKNOWN_USE])
        stays = Stays(ints(), ints(), ints(), ints(), np.array([]), ints(), ints(), none[:0], none[:0])
        rates = Rates(ints(0), ints(0), ints(hours_us), ints(paid), {})
        bill = bill_of(ledger_of(machines, stays, rates), Owners({"namespace": []}))
        facts = FocusFacts(list_micros={("a.1", "z"): listed, ("a.1", "y"): 10**9, ("b", "z"): 10**9})
        found = [(r["ListCost"], r["PricingQuantity"]) for r in focus_of(bill, facts).to_dicts()]
        assert sum((cost for cost, _ in found), Decimal(0)) == Decimal(want) / 10**6
        assert abs(sum(quantity for _, quantity in found) - hours) < 1e-12
