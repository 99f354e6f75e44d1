"""The ledger: exact, whatever is metered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.catalog.prices import MICROS_PER_HOUR_MOST
from fairway.errors import BugError
from fairway.metering.apportion import apportion
from fairway.metering.cells import HOUR_US, cells_of
from fairway.metering.ground import UNKNOWN_USE, Machines, Stays
from fairway.metering.ledger import BOOTING, SYSTEM, UNALLOCATED, Ledger, LedgerOptions, ledger_of
from fairway.metering.rates import UNPRICED, Rates
from fairway.metering.split import GPU, SplitRule

GIB = 2**30


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def machines(
    *lives: tuple[int, int], gpus: int = 8, cpus: int = 96, gib: int = 1152, system: int = 0
) -> Machines:
    n = len(lives)
    return Machines(
        names=tuple(f"n-{i}" for i in range(n)),
        instance_types=("p4d.24xlarge",) * n,
        zones=("",) * n,
        capacity_types=("on-demand",) * n,
        gpu_models=("A100-SXM4-40GB",) * n,
        start_us=ints(*(a for a, _ in lives)),
        ready_us=ints(*(a for a, _ in lives)),
        end_us=ints(*(b for _, b in lives)),
        gpus=np.full(n, float(gpus)),
        cpu_milli=ints(*[cpus * 1000] * n),
        memory_bytes=ints(*[gib * GIB] * n),
        system_cpu_milli=ints(*[system * 1000] * n),
        system_memory_bytes=ints(*[0] * n),
    )


def stays(*rows: tuple[int, int, int, int, int], used: tuple[float, ...] = ()) -> Stays:
    """Rows of machine, owner, start, end, GPUs."""
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    use = np.array(used or [UNKNOWN_USE] * len(rows), np.float64)
    zero = np.zeros(len(rows), np.int64)
    return Stays(
        columns[0], columns[1], columns[2], columns[3], columns[4].astype(float), zero, zero, use, use
    )


def flat(m: Machines, *prices: int) -> Rates:
    return Rates(np.arange(len(m)), m.start_us, m.end_us, ints(*prices), {})


def owed(ledger: Ledger, owner: int) -> int:
    return int(ledger.debits[ledger.owner == owner].sum())


BY_GPU = LedgerOptions(rule=SplitRule.GPU)


def test_a_machine_that_boots_is_nobodys_under_a_name_of_its_own() -> None:
    m = replace(machines((0, 10 * HOUR_US), system=2), ready_us=ints(2 * HOUR_US))
    rates = Rates(
        ints(0, 0), ints(0, 2 * HOUR_US), ints(2 * HOUR_US, 10 * HOUR_US), ints(8_000_000, 8_000_000), {}
    )
    ledger = ledger_of(m, stays((0, 0, 2 * HOUR_US, 10 * HOUR_US, 8)), rates, LedgerOptions(SplitRule.GPU))
    ledger.check()
    assert owed(ledger, BOOTING) == 16_000_000
    assert owed(ledger, 0) == 64_000_000 and owed(ledger, UNALLOCATED) == owed(ledger, SYSTEM) == 0
    assert float(ledger.gpu_us[ledger.owner == BOOTING].sum()) == 16 * HOUR_US


def test_an_hour_of_one_gpu_of_eight_costs_an_eighth() -> None:
    m = machines((0, HOUR_US))
    ledger = ledger_of(m, stays((0, 7, 0, HOUR_US, 1)), flat(m, 32_770_000), BY_GPU)
    assert owed(ledger, 7) == 32_770_000 // 8
    assert owed(ledger, UNALLOCATED) == 32_770_000 - 32_770_000 // 8
    ledger.check()


def test_a_micro_dollar_that_cannot_be_divided_is_owed_by_one() -> None:
    m = machines((0, HOUR_US), gpus=3)
    rows = [(0, owner, 0, HOUR_US, 1) for owner in range(3)]
    ledger = ledger_of(m, stays(*rows), flat(m, 100), BY_GPU)
    assert [owed(ledger, owner) for owner in range(3)] == [34, 33, 33]
    assert owed(ledger, UNALLOCATED) == 0


def test_what_the_node_keeps_for_itself_is_the_systems() -> None:
    m = machines((0, HOUR_US), gpus=0, cpus=10, gib=0, system=1)
    ledger = ledger_of(m, stays(), flat(m, 1_000_000))
    assert (owed(ledger, SYSTEM), owed(ledger, UNALLOCATED)) == (100_000, 900_000)


def test_half_used_is_half_unused_and_still_owed() -> None:
    m = machines((0, HOUR_US), gpus=1)
    ledger = ledger_of(m, stays((0, 0, 0, HOUR_US, 1), used=(0.5,)), flat(m, 1_000_000), BY_GPU)
    assert owed(ledger, 0) == 1_000_000
    assert int(ledger.unused_sm.sum()) == 500_000


def test_without_a_price_gpu_hours_are_kept_and_nothing_is_owed() -> None:
    m = machines((0, HOUR_US))
    ledger = ledger_of(m, stays((0, 0, 0, HOUR_US, 8)), flat(m, UNPRICED))
    assert ledger.total == 0
    assert not ledger.is_priced.any()
    assert ledger.gpu_us.sum() == 8 * HOUR_US


def test_a_gpu_node_by_residual_charges_cpu_at_the_reference_price() -> None:
    m = machines((0, HOUR_US))
    ledger = ledger_of(m, stays(), flat(m, 32_770_000))
    cpu_and_memory = 96 * 31_611 + 1152 * 4_237
    assert int(ledger.micros[:, GPU].sum()) == 32_770_000 - cpu_and_memory


@pytest.mark.parametrize("by", [-30, -4, 0, 5])
def test_times_count_from_any_origin(by: int) -> None:
    shift = by * HOUR_US
    m = machines(
        (shift, shift + 3 * HOUR_US), (shift + HOUR_US, shift + 9 * HOUR_US), (shift, shift + 2 * HOUR_US)
    )
    held = [(1, 0, 2, 7, 3), (0, 1, 1, 2, 8), (2, 2, 0, 2, 1), (1, 3, 5, 9, 5)]
    rows = [(n, o, shift + a * HOUR_US, shift + b * HOUR_US, g) for n, o, a, b, g in held]
    options = LedgerOptions(rule=SplitRule.GPU, period_us=HOUR_US, phase_us=shift)
    ledger = ledger_of(m, stays(*rows), flat(m, 80_000_000, 16_000_000, 8_000_000), options)
    ledger.check()
    assert [owed(ledger, owner) for owner in range(4)] == [30_000_000, 80_000_000, 2_000_000, 40_000_000]


def test_periods_cut_a_stay_and_lose_nothing() -> None:
    m = machines((0, 10 * HOUR_US + 7))
    options = LedgerOptions(rule=SplitRule.GPU, period_us=HOUR_US, phase_us=HOUR_US // 3)
    whole = ledger_of(m, stays((0, 0, 5, 9 * HOUR_US, 3)), flat(m, 32_770_001), BY_GPU)
    cut = ledger_of(m, stays((0, 0, 5, 9 * HOUR_US, 3)), flat(m, 32_770_001), options)
    cut.check()
    assert cut.total == whole.total
    assert len(cut.cells) == 11
    assert abs(owed(cut, 0) - owed(whole, 0)) <= len(cut.cells)


@given(
    totals=st.lists(st.integers(0, 10**13), min_size=1, max_size=6),
    claims=st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1e18)), max_size=40),
)
def test_apportion_is_exact_and_fair(totals: list[int], claims: list[tuple[int, float]]) -> None:
    # Every cell has at least one claim.
    rows = [(i, 1.0) for i in range(len(totals))] + [(c % len(totals), w) for c, w in claims]
    cells = ints(*(c for c, _ in rows))
    weights = np.array([w for _, w in rows])
    shares = apportion(ints(*totals), cells, weights)
    assert (shares >= 0).all()
    for cell, total in enumerate(totals):
        here = cells == cell
        assert int(shares[here].sum()) == total
        exact = total * (weights[here] / weights[here].sum())
        assert (np.abs(shares[here] - exact) <= 1 + total * 1e-12).all()


@pytest.mark.parametrize(
    ("weights", "want"),
    [
        ([0.1, 0.3], [25, 75]),
        ([0.5, 0.5], [50, 50]),
        ([0.0, 0.0], [50, 50]),
        ([0.0, 1.0], [0, 100]),
        ([3.0, 1.0], [75, 25]),
    ],
)
def test_weights_are_ratios_however_small(weights: list[float], want: list[int]) -> None:
    both = apportion(ints(100, 100), ints(0, 0, 1, 1), np.array([*weights, 7.0, 1.0]))
    assert both.tolist() == [*want, 88, 12]
    assert apportion(ints(100), ints(0, 0), np.array(weights)).tolist() == want


@pytest.mark.parametrize(
    ("total", "weights"),
    [
        (8438520688543876, [3.7, 0.1, 2.2, 0.1, 0.3]),
        (7442911967476127, [3.7, 3.7, 0.1, 0.1]),
        (6094898972673153, [2.2, 2.2, 1 / 3, 1 / 3]),
    ],
)
def test_what_floats_hand_out_too_much_is_given_back(total: int, weights: list[float]) -> None:
    floors = np.floor(total * (np.array(weights) / sum(weights))).astype(np.int64)
    assert floors.sum() == total + 1, "no such case any more"
    shares = apportion(ints(total), ints(*[0] * len(weights)), np.array(weights))
    assert shares.sum() == total
    assert sorted(floors - shares) == [0] * (len(weights) - 1) + [1]


_LIVES = st.tuples(st.integers(0, 5 * HOUR_US), st.integers(0, 9 * HOUR_US)).map(lambda t: (min(t), max(t)))


@settings(deadline=None)
@given(data=st.data())
def test_every_machine_is_owed_in_full(data: st.DataObject) -> None:
    lives = data.draw(st.lists(_LIVES, min_size=1, max_size=4))
    m = machines(*lives, gpus=data.draw(st.integers(0, 8)), system=data.draw(st.integers(0, 4)))
    rows = data.draw(
        st.lists(
            st.tuples(st.integers(0, len(lives) - 1), st.integers(0, 3), _LIVES, st.integers(0, 8)),
            max_size=12,
        )
    )
    held = stays(*((i, owner, a, b, gpus) for i, owner, (a, b), gpus in rows))
    prices = data.draw(st.lists(st.integers(-1, 10**8), min_size=len(lives), max_size=len(lives)))
    options = LedgerOptions(
        rule=data.draw(st.sampled_from(SplitRule)),
        period_us=data.draw(st.sampled_from([0, 1000 * 1_000_000, HOUR_US])),
        phase_us=data.draw(st.integers(-HOUR_US, HOUR_US)),
    )
    ledger = ledger_of(m, held, flat(m, *prices), options)
    ledger.check()
    # An independent reckoning of the sum, in whole integers.
    expected = sum(p * (b - a) // HOUR_US for (a, b), p in zip(lives, prices, strict=True) if p > 0)
    assert ledger.total == expected
    assert len(cells_of(flat(m, *prices), 0)) == sum(a < b for a, b in lives)


def test_a_ledger_that_does_not_add_up_is_a_fault() -> None:
    m = machines((0, HOUR_US), (0, HOUR_US))
    ledger = ledger_of(m, stays((0, 0, 0, HOUR_US, 8), (1, 0, 0, HOUR_US, 8)), flat(m, 100, 100), BY_GPU)
    ledger.check()
    # Both owners, and for each machine nobody, who holds its CPUs.
    assert (len(ledger), ledger.owner.tolist()) == (4, [0, 0, UNALLOCATED, UNALLOCATED])
    wrong = ledger.micros.copy()
    wrong[1, GPU] += 1
    with pytest.raises(BugError, match=r"cell 1: 101 µ\$ are owed of a cost of 100 µ\$"):
        replace(ledger, micros=wrong).check()
    wrong[0, GPU] -= 2
    with pytest.raises(BugError, match=r"cell 0: 98 µ\$ are owed of a cost of 100 µ\$"):
        replace(ledger, micros=wrong).check()
    negative = ledger.micros.copy()
    negative[0, :2] += (1, -1)
    with pytest.raises(BugError, match="a debit is negative"):
        replace(ledger, micros=negative).check()
    none = ledger_of(m, stays(), Rates(ints(), ints(), ints(), ints(), {}))
    none.check()
    assert (len(none), none.total) == (0, 0)


def test_prices_are_metered_exactly_up_to_the_dearest() -> None:
    m = machines((0, 100_000 * HOUR_US + HOUR_US - 1))
    cells = cells_of(flat(m, MICROS_PER_HOUR_MOST), 0)
    assert len(cells) == 1
    assert int(cells.cost[0]) == MICROS_PER_HOUR_MOST * (100_001 * HOUR_US - 1) // HOUR_US
    for prices in ((MICROS_PER_HOUR_MOST + 1,), (5, MICROS_PER_HOUR_MOST + 1)):
        dear = machines(*[(0, HOUR_US)] * len(prices))
        with pytest.raises(BugError, match="cannot be metered exactly"):
            cells_of(flat(dear, *prices), 0)
    assert len(cells_of(Rates(ints(), ints(), ints(), ints(), {}), HOUR_US)) == 0


def test_who_holds_seven_sevenths_leaves_nothing() -> None:
    """What floats leave of a whole is nobody's row; a millionth that is really free is one."""
    m = machines((0, HOUR_US), gpus=1)
    sevenths = replace(stays(*[(0, 0, 0, HOUR_US, 1)] * 7), gpus=np.full(7, 1 / 7))
    options = LedgerOptions(rule=SplitRule.GPU)
    assert ledger_of(m, sevenths, flat(m, 700), options).owner.tolist() == [0] * 7 + [UNALLOCATED]
    full = replace(sevenths, cpu_milli=ints(*[96_000] + [0] * 6), memory_bytes=ints(*[1152 * GIB] + [0] * 6))
    ledger = ledger_of(m, full, flat(m, 700), options)
    assert (ledger.owner.tolist(), ledger.debits.tolist()) == ([0] * 7, [100] * 7)
    nearly = replace(full, gpus=np.array([*[1 / 7] * 6, 1 / 7 - 1e-6]))
    ledger = ledger_of(m, nearly, flat(m, 700_000_000), options)
    assert ledger.owner.tolist() == [0] * 7 + [UNALLOCATED]
    assert int(ledger.debits[-1]) == 700
    # A millionth of a millionth is still what floats leave; twice that is somebody's GPU.
    long = machines((0, 10**12), gpus=1, cpus=0, gib=0)
    for short, left in ((0, 0), (1, 0), (2, 2)):
        ledger = ledger_of(long, stays((0, 0, 0, 10**12 - short, 1)), flat(long, 0), options)
        assert int(ledger.gpu_us[ledger.owner == UNALLOCATED].sum()) == left
    # More than there is: nobody has less than nothing.
    both = stays((0, 0, 0, HOUR_US, 1), (0, 1, 0, HOUR_US, 1))
    assert owed(ledger_of(m, both, flat(m, 700), options), UNALLOCATED) == 0


def test_stays_count_while_their_machine_is_there() -> None:
    """Before, after and beside its life nothing is owed; machines that touch in time are told apart."""
    m = machines((10, 20), (20, 30), (5, 25), gpus=2)
    rows = [
        (0, 0, 0, 15, 1),
        (0, 1, 15, 99, 1),
        (0, 2, 0, 10, 1),
        (0, 3, 20, 30, 1),
        (1, 4, 0, 21, 1),
        (1, 5, 29, 31, 1),
        (2, 6, 0, 99, 2),
    ]
    for period in (0, 10, 3):
        ledger = ledger_of(m, stays(*rows), flat(m, 0, 0, 0), LedgerOptions(period_us=period))
        ledger.check()
        held = [int(ledger.time_us[ledger.owner == owner].sum()) for owner in range(7)]
        assert held == [5, 5, 0, 0, 1, 1, 20]
        assert int(ledger.gpu_us.sum()) == 2 * 40


def test_a_machine_is_split_as_its_first_price_says() -> None:
    """A price that changes does not change the machine; one that nobody says leaves the reference prices."""
    m = machines((0, 3 * HOUR_US), (0, 2 * HOUR_US), cpus=10, gib=100)
    first, later, after = 40_000_000, 80_000_000, 8_000_000
    rates = Rates(
        ints(0, 0, 0, 1, 1),
        ints(0, HOUR_US, 2 * HOUR_US, 0, HOUR_US),
        ints(HOUR_US, 2 * HOUR_US, 3 * HOUR_US, HOUR_US, 2 * HOUR_US),
        ints(first, later, UNPRICED, UNPRICED, after),
        {},
    )
    ledger = ledger_of(m, stays(), rates)
    ledger.check()
    cpu, memory, gpu = 10 * 31_611, 100 * 4_237, 8 * 950_000
    rest = cpu + memory
    whole = gpu + rest
    want = [
        [first - rest, cpu, memory],
        [later - 2 * rest, 2 * cpu, 2 * memory],
        [0, 0, 0],
        [0, 0, 0],
        [after * part / whole for part in (gpu, cpu, memory)],
    ]
    assert ledger.cell.tolist() == [0, 1, 2, 3, 4]
    assert np.abs(ledger.micros - np.array(want)).max() <= 1
    assert ledger.is_priced.tolist() == [True, True, False, False, True]


def test_a_stay_on_a_machine_without_prices_owes_nothing() -> None:
    m = machines((0, HOUR_US), (0, HOUR_US))
    rates = Rates(ints(0), ints(0), ints(HOUR_US), ints(8_000_000), {})
    ledger = ledger_of(m, stays((0, 0, 0, HOUR_US, 8), (1, 1, 0, HOUR_US, 8)), rates, BY_GPU)
    assert (owed(ledger, 0), owed(ledger, 1)) == (8_000_000, 0)


def test_what_lasts_no_time_has_no_row_and_no_cell() -> None:
    """A stay that is over as it begins, one that begins as its machine ends, a machine that was never there."""
    m = machines((10, 20), (15, 15), (20, 20), (20, 30), gpus=2)
    rows = [
        (0, 0, 12, 12, 1),
        (0, 1, 20, 25, 1),
        (0, 2, 5, 10, 1),
        (1, 3, 10, 20, 1),
        (2, 4, 0, 99, 1),
        (3, 5, 20, 20, 1),
        (3, 6, 30, 40, 1),
        (3, 7, 24, 25, 2),
    ]
    for period, cut in ((0, 2), (10, 2), (4, 6)):
        ledger = ledger_of(m, stays(*rows), flat(m, 9, 9, 9, 9), LedgerOptions(period_us=period))
        ledger.check()
        assert (len(ledger.cells), set(ledger.cells.machine.tolist())) == (cut, {0, 3})
        assert (ledger.cells.end_us > ledger.cells.start_us).all()
        held = ledger.stay >= 0
        assert (ledger.stay[held].tolist(), ledger.owner[held].tolist()) == ([7], [7])
        assert (ledger.time_us[held].tolist(), ledger.gpu_us[held].tolist()) == ([1], [2.0])


def test_claims_of_the_last_machine_at_its_last_moment_are_its_own() -> None:
    """Machines that are there all the time, held from the first to the last of it: none holds another's."""
    for first in (-7, 0, 5):
        m = machines(*[(first, first + 10)] * 3, gpus=1)
        rows = [(n, n, first, first + 10, 1) for n in (2, 0, 1)]
        ledger = ledger_of(m, stays(*rows), flat(m, 0, 0, 0), LedgerOptions(period_us=5, phase_us=first))
        held = ledger.stay >= 0
        at = ledger.cells.machine[ledger.cell[held]]
        assert at.tolist() == ledger.owner[held].tolist() == [2, 2, 0, 0, 1, 1]
        assert ledger.time_us[held].tolist() == [5] * 6


def test_an_hour_is_sixty_minutes() -> None:
    """Said in seconds, not in the hours of the code that is asked."""
    second = 1_000_000
    lives = [(0, s * second) for s in (1800, 3599, 3600, 3601, 10_800)]
    cells = cells_of(flat(machines(*lives), *[36_000_000] * 5), 0)
    assert cells.cost.tolist() == [18_000_000, 35_990_000, 36_000_000, 36_010_000, 108_000_000]
