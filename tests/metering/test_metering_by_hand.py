"""Ledger, bill and FOCUS export against plain arithmetic, claim by claim and column by column."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from random import Random
from typing import Any

import numpy as np
import pytest

from fairway.metering.bill import Basis, Kind, Measure, Owners, bill_of, totals
from fairway.metering.cells import HOUR_US, cells_of
from fairway.metering.focus import MANDATORY, FocusFacts, focus_of
from fairway.metering.ground import UNKNOWN_USE, Machines, Stays
from fairway.metering.ledger import BOOTING, SYSTEM, UNALLOCATED, Ledger, LedgerOptions, ledger_of
from fairway.metering.rates import UNPRICED, Rates
from fairway.metering.split import REFERENCE, ReferencePrices, SplitRule, split_of

GIB = 2**30
Row = dict[str, Any]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _machines(rows: list[Row]) -> Machines:
    def column(name: str, otherwise: int = 0) -> np.ndarray:
        return ints(*(r.get(name, otherwise) for r in rows))

    return Machines(
        names=tuple(f"n{i}" for i in range(len(rows))),
        instance_types=tuple(r.get("type", "t") for r in rows),
        zones=tuple(r.get("zone", "") for r in rows),
        capacity_types=tuple(r.get("capacity", "on-demand") for r in rows),
        gpu_models=tuple(r.get("model", "") for r in rows),
        start_us=column("start"),
        ready_us=column("ready"),
        end_us=column("end"),
        gpus=column("gpus").astype(float),
        cpu_milli=column("cpu"),
        memory_bytes=column("memory"),
        system_cpu_milli=column("system_cpu"),
        system_memory_bytes=column("system_memory"),
    )


def _stays(rows: list[Row]) -> Stays:
    def column(name: str) -> np.ndarray:
        return ints(*(r.get(name, 0) for r in rows))

    def use(name: str) -> np.ndarray:
        return np.array([r.get(name, UNKNOWN_USE) for r in rows], np.float64)

    return Stays(
        column("machine"),
        column("owner"),
        column("start"),
        column("end"),
        column("gpus").astype(float),
        column("cpu"),
        column("memory"),
        use("sm"),
        use("mem"),
    )


def _weights(machine: Row, price: int, rule: SplitRule) -> list[Fraction]:
    """Of GPU, CPU and memory in the machine's price."""
    cpu = Fraction(machine["cpu"], 1000) * REFERENCE.cpu
    memory = Fraction(machine["memory"], GIB) * REFERENCE.memory_gib
    gpu = Fraction(machine["gpus"] * REFERENCE.gpu)
    if machine["gpus"] and rule == SplitRule.GPU:
        return [Fraction(1), Fraction(0), Fraction(0)]
    if machine["gpus"] and rule == SplitRule.RESIDUAL and price > cpu + memory:
        gpu = price - cpu - memory
    return [gpu, cpu, memory]


def _world(draw: Random) -> tuple[list[Row], list[Row]]:
    machines, stays = [], []
    for number in range(draw.randint(1, 3)):
        start = draw.randint(0, 3) * HOUR_US
        end = start + draw.randint(2, 5) * HOUR_US
        gpus = draw.choice((0, 2, 8))
        machine = {
            "start": start,
            "ready": start + draw.choice((0, 0, HOUR_US)),
            "end": end,
            "gpus": gpus,
            "cpu": 16_000,
            "memory": 64 * GIB,
            "system_cpu": draw.choice((0, 2000)),
            "system_memory": draw.choice((0, GIB)),
            "price": draw.choice((0, 400_000, 9_999_999)),
        }
        machines.append(machine)
        for _ in range(draw.randint(0, 3)):
            since = draw.randint(machine["ready"] // HOUR_US * 2, end // HOUR_US * 2 - 1) * HOUR_US // 2
            until = draw.randint(since // HOUR_US * 2 + 1, end // HOUR_US * 2 + 1) * HOUR_US // 2
            stays.append(
                {
                    "machine": number,
                    "owner": draw.randint(0, 2),
                    "start": since,
                    "end": until,
                    "gpus": draw.randint(0, gpus // 2),
                    "cpu": draw.choice((0, 1000, 3000)),
                    "memory": draw.choice((0, 4 * GIB)),
                    "sm": draw.choice((UNKNOWN_USE, 0.0, 0.25, 1.0, 1.5)),
                    "mem": draw.choice((UNKNOWN_USE, 0.5)),
                }
            )
    return machines, stays


def _rates(machines: list[Row]) -> Rates:
    rows = []
    for number, m in enumerate(machines):
        cuts = [m["start"], *([m["ready"]] if m["start"] < m["ready"] < m["end"] else []), m["end"]]
        rows += [(number, a, b, m["price"]) for a, b in pairwise(cuts)]
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return Rates(columns[0], columns[1], columns[2], columns[3], {})


@pytest.mark.parametrize("seed", range(30))
def test_every_claim_owes_its_part_of_its_cell(seed: int) -> None:
    draw = Random(seed)
    machines, stays = _world(draw)
    options = LedgerOptions(
        rule=draw.choice(list(SplitRule)), period_us=draw.choice((0, HOUR_US, 2 * HOUR_US))
    )
    rates = _rates(machines)
    ledger = ledger_of(_machines(machines), _stays(stays), rates, options)
    ledger.check()
    cells = cells_of(rates, options.period_us)
    want: dict[tuple[int, int, int], tuple[float, float, int, list[float]]] = {}
    for cell in range(len(cells)):
        m = machines[int(cells.machine[cell])]
        since, until = int(cells.start_us[cell]), int(cells.end_us[cell])
        length = until - since
        is_booting = since < m["ready"]
        claims: dict[tuple[int, int], list[Fraction]] = {}
        times = {}
        for number, s in enumerate(stays):
            time = min(s["end"], until) - max(s["start"], since)
            if s["machine"] == cells.machine[cell] and time > 0:
                claims[number, s["owner"]] = [Fraction(s[part] * time) for part in ("gpus", "cpu", "memory")]
                times[number, s["owner"]] = time
        system = [
            Fraction(0),
            *(Fraction(0 if is_booting else m[k] * length) for k in ("system_cpu", "system_memory")),
        ]
        offered = [Fraction(m[k] * length) for k in ("gpus", "cpu", "memory")]
        taken = [sum((c[i] for c in claims.values()), system[i]) for i in range(3)]
        claims[-1, SYSTEM] = system
        claims[-1, BOOTING if is_booting else UNALLOCATED] = [
            max(o - t, Fraction(0)) for o, t in zip(offered, taken, strict=True)
        ]
        weights = _weights(m, m["price"], options.rule)
        whole = sum(weights)
        parts = [int(cells.cost[cell]) * (w / whole if whole else Fraction(1, 3)) for w in weights]
        for (number, owner), held in claims.items():
            owed = []
            for i in range(3):
                total = sum(c[i] for c in claims.values())
                owed.append(parts[i] * (held[i] / total if total else Fraction(1, len(claims))))
            if number >= 0 or any(held) or sum(owed) > 3:
                time = times.get((number, owner), length)
                want[cell, number, owner] = (float(held[0]), float(sum(owed)), time, [float(o) for o in owed])
    got = {}
    for row in range(len(ledger)):
        key = int(ledger.cell[row]), int(ledger.stay[row]), int(ledger.owner[row])
        assert key not in got
        got[key] = row
        if key not in want:
            assert key[1] < 0 and ledger.debits[row] <= 6, "crumbs alone"
    for key, (gpu_us, owed, time, by_part) in want.items():
        row = got[key]
        assert ledger.gpu_us[row] == pytest.approx(gpu_us)
        assert ledger.time_us[row] == time
        assert abs(int(ledger.debits[row]) - owed) <= 6
        for part in range(3):
            assert abs(int(ledger.micros[row, part]) - by_part[part]) <= 2
        for name, unused in (("sm", ledger.unused_sm), ("mem", ledger.unused_memory)):
            used = stays[key[1]][name] if key[1] >= 0 else UNKNOWN_USE
            idle = 0.0 if used == UNKNOWN_USE else 1 - min(used, 1.0)
            assert int(unused[row]) == int(ledger.micros[row, 0] * idle)


def test_a_split_states_its_rule() -> None:
    machine = {"cpu": 8000, "memory": 32 * GIB}
    prices = ReferencePrices(cpu=1000, memory_gib=10, gpu=5000)
    cpu, memory = 8000.0, 320.0
    for gpus, price, rule in product((0, 2), (0, 8320, 8321, 20_000), SplitRule):
        split = split_of(_machines([{**machine, "gpus": gpus}]), np.array([float(price)]), rule, prices)
        gpu = gpus * 5000.0
        if gpus and rule == SplitRule.RESIDUAL and price > cpu + memory:
            gpu = price - cpu - memory
        alone = gpus and rule == SplitRule.GPU
        assert split.weights.tolist() == [[gpu, 0.0 if alone else cpu, 0.0 if alone else memory]], (
            gpus,
            price,
            rule,
        )


def test_parts_cost_what_opencost_says_where_nobody_says_more() -> None:
    """$0.031611 a core, $0.004237 a GiB and $0.95 a GPU, each an hour."""
    machine = {"cpu": 1000, "memory": GIB, "gpus": 1}
    two = {"cpu": 2500, "memory": GIB // 2, "gpus": 0}
    weights = split_of(_machines([machine, two]), np.array([0.0, 0.0])).weights
    assert weights.tolist() == [[950_000.0, 31_611.0, 4_237.0], [0.0, 79_027.5, 2_118.5]]


# Bill and export

_FLEET: list[Row] = [
    {"type": "p5", "zone": "a", "capacity": "spot", "model": "H100", "price": 8_000_000},
    {"type": "p5", "zone": "b", "capacity": "on-demand", "model": "H100", "price": 16_000_000},
    {"type": "p5", "zone": "b", "capacity": "reserved", "model": "H100", "price": 4_000_000},
    {"type": "x", "zone": "", "capacity": "odd", "model": "", "price": UNPRICED},
]


def _ledger() -> Ledger:
    rows = [
        {"start": 0, "ready": 0, "end": 2 * HOUR_US, "gpus": 8, "cpu": 0, "memory": 0, **m} for m in _FLEET
    ]
    rows[1]["ready"] = HOUR_US
    held = [
        {
            "machine": i,
            "owner": i % 2,
            "start": HOUR_US,
            "end": 2 * HOUR_US,
            "gpus": 2,
            "sm": 0.25,
            "mem": 0.75,
        }
        for i in range(4)
    ]
    return ledger_of(_machines(rows), _stays(held), _rates(rows), LedgerOptions(rule=SplitRule.GPU))


_OWNERS = Owners({"namespace": ["ml", "web"], "team": ["vision", ""], "queue": ["", "fast"]})


def _sums(rows: list[Row], *by: str) -> dict[Any, int]:
    found: dict[Any, int] = defaultdict(int)
    for row in rows:
        found[tuple(row[b] for b in by)] += row["micros"]
    return dict(found)


def test_the_bill_names_owners_machines_and_what_was_in_vain() -> None:
    ledger = _ledger()
    rows = bill_of(ledger, _OWNERS, origin_us=7).to_dicts()
    assert len(rows) == len(ledger)
    names = {-1: ("__idle__",) * 3, -2: ("__system__",) * 3, -3: ("__booting__",) * 3}
    names |= {0: ("ml", "vision", "__unallocated__"), 1: ("web", "__unallocated__", "fast")}
    kinds = {-1: "unallocated", -2: "system", -3: "booting", 0: "owned", 1: "owned"}
    for i, row in enumerate(rows):
        machine = int(ledger.cells.machine[ledger.cell[i]])
        facts = _FLEET[machine]
        assert (row["namespace"], row["team"], row["queue"]) == names[row["owner"]]
        assert row["kind"] == kinds[row["owner"]]
        assert (
            row["machine"],
            row["instance_type"],
            row["zone"],
            row["capacity_type"],
            row["gpu_model"],
        ) == (
            f"n{machine}",
            facts["type"],
            facts["zone"],
            facts["capacity"],
            facts["model"],
        )
        assert row["priced"] == (facts["price"] != UNPRICED)
        assert row["micros_per_hour"] == facts["price"]
        assert row["start_us"] == int(ledger.cells.start_us[ledger.cell[i]]) + 7
        assert row["end_us"] == int(ledger.cells.end_us[ledger.cell[i]]) + 7
        assert row["gpu_hours"] == pytest.approx(ledger.gpu_us[i] / HOUR_US)
        assert row["gpu_micros"] + row["cpu_micros"] + row["memory_micros"] == row["micros"]
    for measure, wasted in ((Measure.SM, 0.75), (Measure.MEMORY, 0.25)):
        used = bill_of(ledger, _OWNERS, basis=Basis.USAGE, measure=measure).to_dicts()
        assert sum(r["micros"] for r in used) == sum(r["micros"] for r in rows)
        assert sum(r["gpu_hours"] for r in used) == pytest.approx(sum(r["gpu_hours"] for r in rows))
        owned = _sums([r for r in rows if r["kind"] == "owned"], "machine")
        by_kind = _sums(used, "machine", "kind")
        for (machine_,), micros in owned.items():
            vain = int(micros * wasted)
            assert by_kind.get((machine_, Kind.UNUSED.value), 0) == vain
            assert by_kind[machine_, "owned"] == micros - vain
        assert all(r["unused_micros"] == 0 for r in used if r["kind"] == "owned")
        for r in used:
            if r["kind"] == Kind.UNUSED.value:
                assert (r["cpu_micros"], r["memory_micros"], r["gpu_hours"]) == (0, 0, 0.0)
                assert r["gpu_micros"] == r["micros"] > 0


def test_totals_come_the_dearest_first_with_hours_nobody_priced() -> None:
    bill = bill_of(_ledger(), _OWNERS)
    rows = bill.to_dicts()
    for by in (["namespace"], ["machine", "kind"], ["owner"]):
        found = totals(bill, by).to_dicts()
        assert {tuple(r[b] for b in by): r["micros"] for r in found} == _sums(rows, *by)
        order = [(-r["micros"], *(r[b] for b in by)) for r in found]
        assert order == sorted(order)
        for r in found:
            mine = [x for x in rows if all(x[b] == r[b] for b in by)]
            assert r["gpu_hours"] == pytest.approx(sum(x["gpu_hours"] for x in mine))
            assert r["unpriced_gpu_hours"] == pytest.approx(
                sum(x["gpu_hours"] for x in mine if not x["priced"])
            )
            assert r["unused_micros"] == sum(x["unused_micros"] for x in mine)


@pytest.mark.parametrize("commitment", ["", "1y"])
def test_the_export_column_by_column(commitment: str) -> None:
    facts = FocusFacts(
        account="lab",
        providers={"p5": "AWS"},
        regions={"a": "east", "b": "west"},
        list_micros={("p5", "a"): 20_000_000},
        commitment=commitment,
    )
    bill = bill_of(_ledger(), _OWNERS)
    rows = focus_of(bill, facts).to_dicts()
    assert set(MANDATORY) <= set(rows[0])
    want = _sums([r for r in bill.to_dicts() if r["priced"]], "machine", "kind", "start_us")
    assert (
        sum(r["BilledCost"] for r in rows if r["BilledCost"] is not None)
        == Decimal(sum(want.values())) / 10**6
    )
    order = [(r["ChargePeriodStart"], r["ResourceId"], r["SubAccountId"], r["x_Kind"]) for r in rows]
    assert order == sorted(order)
    says = {
        "owned": "held by pods",
        "unallocated": "held by nobody",
        "booting": "not a node yet",
        "system": "kept by the node for itself",
    }
    for r in rows:
        machine = _FLEET[int(r["ResourceId"][1:])]
        capacity = machine["capacity"]
        committed = capacity == "reserved" or (bool(commitment) and capacity != "spot")
        pricing = {"spot": "Dynamic", "on-demand": "Standard", "odd": "Other"}
        assert r["PricingCategory"] == ("Committed" if committed else pricing[capacity])
        assert r["CommitmentDiscountId"] == ((commitment or "reserved") if committed else None)
        assert r["CommitmentDiscountCategory"] == ("Usage" if committed else None)
        assert r["CommitmentDiscountStatus"] == ("Used" if committed else None)
        assert r["x_Unpriced"] == (machine["price"] == UNPRICED)
        assert (r["BilledCost"] is None) == r["x_Unpriced"] == (r["ListCost"] is None)
        assert r["EffectiveCost"] == r["ContractedCost"] == r["BilledCost"]
        if not r["x_Unpriced"]:
            hours = float(r["BilledCost"]) * 10**6 / machine["price"]
            assert r["PricingQuantity"] == pytest.approx(hours)
            listed = 20_000_000 if machine["zone"] == "a" else machine["price"]
            assert float(r["ListCost"]) == pytest.approx(hours * listed / 10**6)
        provider = "AWS" if machine["type"] == "p5" else "Fairway"
        assert r["ProviderName"] == r["PublisherName"] == r["InvoiceIssuerName"] == provider
        assert r["BillingAccountId"] == r["BillingAccountName"] == "lab"
        assert r["AvailabilityZone"] == (machine["zone"] or None)
        assert r["RegionId"] == {"a": "east", "b": "west"}.get(machine["zone"])
        assert (r["ResourceType"], r["x_GpuModel"]) == (machine["type"], machine["model"] or None)
        assert r["ResourceName"] == r["ResourceId"] and r["SubAccountName"] == r["SubAccountId"]
        assert r["ChargeDescription"] == f"{machine['type']}, {says[r['x_Kind']]}"
        assert (r["BillingPeriodStart"], r["BillingPeriodEnd"]) == (
            "1970-01-01T00:00:00Z",
            "1970-02-01T00:00:00Z",
        )
        tags = {"ml": {"team": "vision"}, "web": {"queue": "fast"}}
        assert json.loads(r["Tags"]) == tags.get(r["SubAccountId"], {})
        constant = ("BillingCurrency", "ChargeCategory", "ChargeFrequency", "ConsumedUnit", "PricingUnit")
        assert [r[c] for c in constant] == ["USD", "Usage", "Usage-Based", "GPU Hours", "Hours"]
        assert (r["ServiceCategory"], r["ServiceName"], r["ChargeClass"]) == ("Compute", "Kubernetes", None)
    assert all(json.loads(r["Tags"]) == {} for r in focus_of(bill, facts, tags=()).to_dicts())
    assert focus_of(bill, replace(facts, list_micros={})).height == len(rows)
