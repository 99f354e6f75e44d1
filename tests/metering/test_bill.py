"""The bill says who owes what, and adds up."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from fairway.errors import WorldError
from fairway.metering.bill import IDLE, NO_LABEL, Basis, Kind, Measure, Owners, bill_of, totals
from fairway.metering.cells import HOUR_US
from fairway.metering.ground import Machines, Stays
from fairway.metering.ledger import Ledger, LedgerOptions, ledger_of
from fairway.metering.rates import Rates
from fairway.metering.split import SplitRule


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def one_gpu_two_owners(dollars: int = 40) -> Ledger:
    """Ten hours: `a` holds the GPU for four of them and uses 30 of 80 GB, `b` (no team) for two and says nothing."""
    machines = Machines(
        ("n",), ("p5.48xlarge",), ("z",), ("on-demand",), ("H100",), ints(0), ints(0), ints(10 * HOUR_US),
        np.array([1.0]), ints(8000), ints(2**36), ints(0), ints(0),
    )  # fmt: skip
    zero = ints(0, 0)
    stays = Stays(
        zero, ints(0, 1), ints(0, 5 * HOUR_US), ints(4 * HOUR_US, 7 * HOUR_US), np.array([1.0, 1.0]), zero, zero,
        np.array([0.5, -1.0]), np.array([30 / 80, -1.0]),
    )  # fmt: skip
    rates = Rates(ints(0), ints(0), ints(10 * HOUR_US), ints(dollars * 1_000_000), {})
    return ledger_of(machines, stays, rates, LedgerOptions(rule=SplitRule.GPU))


OWNERS = Owners({"namespace": ["ml", "ml"], "team": ["vision", ""]})


def test_by_team_everything_has_a_name() -> None:
    table = totals(bill_of(one_gpu_two_owners(), OWNERS), ["team"])
    owed = dict(table.select("team", "micros").iter_rows())
    assert owed == {"vision": 160_000_000, NO_LABEL: 80_000_000, IDLE: 160_000_000}


def test_a_pod_that_holds_80_gb_and_uses_30_of_a_40_dollar_gpu_wastes_25_dollars_an_hour() -> None:
    bill = bill_of(one_gpu_two_owners(), OWNERS, basis=Basis.USAGE, measure=Measure.MEMORY)
    by_kind = dict(totals(bill, ["kind"]).select("kind", "micros").iter_rows())
    assert by_kind["allocated-unused"] == 4 * 25_000_000
    assert sum(by_kind.values()) == 400_000_000


def test_both_bases_bill_the_same_sum() -> None:
    ledger = one_gpu_two_owners(33)
    for basis in Basis:
        for measure in Measure:
            assert bill_of(ledger, OWNERS, basis=basis, measure=measure)["micros"].sum() == ledger.total


def test_times_are_since_1970_where_no_origin_is_said() -> None:
    ledger = one_gpu_two_owners()
    said = bill_of(ledger, OWNERS, origin_us=0)
    assert bill_of(ledger, OWNERS).equals(said)
    moved = bill_of(ledger, OWNERS, origin_us=60_000_000)
    for column in ("start_us", "end_us"):
        assert [late - early for late, early in zip(moved[column], said[column], strict=True)] == [
            60_000_000
        ] * len(said)


def test_a_micro_dollar_held_in_vain_has_its_row() -> None:
    bill = bill_of(one_gpu_two_owners(0), OWNERS, basis=Basis.USAGE)
    assert Kind.UNUSED.value not in bill["kind"].to_list()
    ledger = one_gpu_two_owners()
    one = replace(ledger, unused_sm=ints(*[1] + [0] * (len(ledger) - 1)))
    rows = bill_of(one, OWNERS, basis=Basis.USAGE).filter(pl.col("kind") == Kind.UNUSED.value).to_dicts()
    assert [(r["micros"], r["unused_micros"], r["team"]) for r in rows] == [(1, 1, "vision")]


@pytest.mark.parametrize("measure", Measure)
def test_by_use_an_owner_keeps_what_he_used_of_the_gpu_and_his_other_parts(measure: Measure) -> None:
    """Row by row: what was in vain is taken from the GPU's part alone, and is a row of the same cell and owner."""
    ledger = one_gpu_two_owners(41)
    parts = ["gpu_micros", "cpu_micros", "memory_micros"]
    ledger = replace(ledger, micros=ledger.micros + np.array([[0, 5, 7]]))
    held = bill_of(ledger, OWNERS, measure=measure).to_dicts()
    rows = bill_of(ledger, OWNERS, basis=Basis.USAGE, measure=measure).to_dicts()
    assert all(sum(r[p] for p in parts) == r["micros"] for r in (*held, *rows))
    wasted = [r for r in held if r["unused_micros"]]
    assert len(wasted) == 1 and wasted[0]["owner"] == 0
    for before, after in zip(held, rows, strict=False):
        vain = before["unused_micros"]
        changed = {"gpu_micros": before["gpu_micros"] - vain, "micros": before["micros"] - vain}
        assert after == before | changed | {"unused_micros": 0}
    vain = wasted[0]["unused_micros"]
    money = {"gpu_micros": vain, "cpu_micros": 0, "memory_micros": 0, "micros": vain, "unused_micros": vain}
    assert rows[len(held) :] == [wasted[0] | money | {"kind": Kind.UNUSED.value, "gpu_hours": 0.0}]


def test_without_polars_a_bill_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = one_gpu_two_owners()
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(WorldError, match=r"made with Polars.*pip install 'fairway\[cost\]'"):
        bill_of(ledger, OWNERS)


def test_hours_add_up_alike_in_every_order() -> None:
    """Polars adds a column in parts, by as many threads as there are, and their order is nobody's."""
    one = bill_of(one_gpu_two_owners(), OWNERS).filter(pl.col("kind") == "owned").head(1)
    lengths = [i / 7 + 1e-3 * (i % 13) for i in range(5000)]
    many = pl.concat([one] * 5000).with_columns(pl.Series("gpu_hours", lengths), priced=False)
    assert sum(lengths) != sum(reversed(lengths))
    found = {
        (row["gpu_hours"], row["unpriced_gpu_hours"])
        for rows in (many, many.reverse(), many.sample(fraction=1.0, shuffle=True, seed=1))
        for row in totals(rows, ["team"]).iter_rows(named=True)
    }
    exact = sum(round(hours * HOUR_US) for hours in lengths) / HOUR_US
    assert found == {(exact, exact)}
    assert exact == pytest.approx(sum(lengths), abs=5000 / HOUR_US)
