"""Borrowed quota against a reckoning moment by moment."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.metering.borrowing import Holdings, Lender, borrowed


def holdings(*rows: tuple[int, int, int, int, int]) -> Holdings:
    """Rows of queue, start, end, GPUs, µ$."""
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return Holdings(columns[0], columns[1], columns[2], columns[3].astype(float), columns[4])


def test_over_its_quota_a_queue_borrows_from_those_with_some_to_spare() -> None:
    queues = [Lender("a", "all", 2), Lender("b", "all", 3), Lender("c", "all", 1), Lender("d", "", 1)]
    # a holds six for ten µs: four are borrowed. b has two to spare, c one: nobody has the fourth.
    held = holdings((0, 0, 10, 6, 600), (1, 0, 10, 1, 100), (3, 0, 10, 1, 100))
    a, b, c, d = borrowed(queues, held)
    assert (a.owed_micros, a.own_micros, a.borrowed_micros, a.borrowed_gpu_us) == (600, 200, 400, 40)
    assert (b.borrowed_micros, c.borrowed_micros, d.borrowed_micros) == (0, 0, 0)
    assert (b.lent_micros, c.lent_micros, d.lent_micros) == (267, 133, 0)


def test_who_is_alone_borrows_from_nobody() -> None:
    (alone,) = borrowed([Lender("a", "", 1)], holdings((0, 0, 10, 2, 100)))
    assert (alone.borrowed_micros, alone.lent_micros) == (50, 0)


def test_nothing_held() -> None:
    (none,) = borrowed([Lender("a", "x", 1)], holdings())
    assert (none.owed_micros, none.borrowed_micros, none.lent_micros) == (0, 0, 0)


_ROW = st.tuples(
    st.integers(0, 2), st.integers(0, 9), st.integers(1, 6), st.integers(1, 4), st.integers(0, 5)
).map(lambda r: (r[0], r[1], r[1] + r[2], r[3], r[2] * r[3] * r[4]))


@given(rows=st.lists(_ROW, max_size=8), quotas=st.tuples(*[st.integers(0, 5)] * 3))
def test_every_moment_is_reckoned_as_by_hand(
    rows: list[tuple[int, int, int, int, int]], quotas: tuple[int, int, int]
) -> None:
    found = borrowed([Lender(f"q{i}", "all", float(q)) for i, q in enumerate(quotas)], holdings(*rows))
    money, gpus = [0.0] * 3, [0.0] * 3
    for moment in range(20):
        for queue in range(3):
            now = [r for r in rows if r[0] == queue and r[1] <= moment < r[2]]
            held = sum(r[3] for r in now)
            over = max(0, held - quotas[queue])
            gpus[queue] += over
            if held:
                money[queue] += sum(r[4] / (r[2] - r[1]) for r in now) * over / held
    for queue, row in enumerate(found):
        assert row.borrowed_gpu_us == pytest.approx(gpus[queue])
        assert row.borrowed_micros == pytest.approx(money[queue], abs=1)
        assert row.owed_micros == sum(r[4] for r in rows if r[0] == queue)
    assert sum(r.lent_micros for r in found) <= sum(r.borrowed_micros for r in found)


def _by_hand(queues: list[Lender], rows: list[tuple[int, int, int, int, int]]) -> list[list[Fraction]]:
    """By queue: µ$ borrowed and lent, GPU-µs borrowed and lent, moment by moment."""
    sums = [[Fraction(0)] * 4 for _ in queues]
    for moment in range(40):
        for cohort in {(q.cohort or f"alone {i}") for i, q in enumerate(queues)}:
            members = [i for i, q in enumerate(queues) if (q.cohort or f"alone {i}") == cohort]
            spare = {}
            taken = [Fraction(0), Fraction(0)]
            for i in members:
                now = [r for r in rows if r[0] == i and r[1] <= moment < r[2]]
                held = sum(r[3] for r in now)
                spare[i] = max(Fraction(queues[i].gpus) - held, Fraction(0))
                over = max(held - Fraction(queues[i].gpus), Fraction(0))
                money = sum((Fraction(r[4], r[2] - r[1]) for r in now), Fraction(0))
                sums[i][0] += money * over / held if held else 0
                sums[i][2] += over
                taken[0] += money * over / held if held else 0
                taken[1] += over
            for i in members:
                share = spare[i] / sum(spare.values()) if sum(spare.values()) else 0
                sums[i][1] += taken[0] * share
                sums[i][3] += taken[1] * share
    return sums


@pytest.mark.parametrize("seed", range(20))
def test_who_borrowed_and_who_lent_in_several_cohorts(seed: int) -> None:
    draw = Random(seed)
    queues = [
        Lender(f"q{i}", draw.choice(("x", "x", "y", "")), draw.choice((0.0, 1.0, 2.5, 4.0)))
        for i in range(draw.randint(1, 6))
    ]
    rows = []
    for _ in range(draw.randint(0, 12)):
        start = draw.randint(0, 30)
        rows.append(
            (
                draw.randrange(len(queues)),
                start,
                start + draw.randint(1, 9),
                draw.randint(1, 5),
                draw.randint(0, 900),
            )
        )
    found = borrowed(queues, holdings(*rows))
    assert [(f.queue, f.cohort) for f in found] == [(q.name, q.cohort) for q in queues]
    for i, (row, (money, lent, gpus, lent_gpus)) in enumerate(
        zip(found, _by_hand(queues, rows), strict=True)
    ):
        assert row.owed_micros == sum(r[4] for r in rows if r[0] == i) == row.own_micros + row.borrowed_micros
        assert row.borrowed_micros == pytest.approx(float(money), abs=0.51)
        assert row.lent_micros == pytest.approx(float(lent), abs=3)
        assert row.borrowed_gpu_us == pytest.approx(float(gpus))
        assert row.lent_gpu_us == pytest.approx(float(lent_gpus))


def test_what_floats_leave_of_sevenths_is_nothing() -> None:
    """Seven sevenths that come and go one by one: afterwards nothing is held, and nothing of it borrowed."""
    seventh = 1 / 7
    n = 7
    held = Holdings(
        np.zeros(n, np.int64),
        np.arange(n),
        np.arange(n) + 10,
        np.full(n, seventh),
        np.full(n, 1000, np.int64),
    )
    none, all_of_it = borrowed([Lender("a", "x", 0.0), Lender("b", "x", 1.0)], held)
    assert (none.own_micros, none.borrowed_micros, none.lent_micros) == (0, 7000, 0)
    assert none.borrowed_gpu_us == pytest.approx(10.0)
    assert (all_of_it.lent_micros, all_of_it.lent_gpu_us) == (7000, pytest.approx(10.0))


def test_in_hours_after_dear_stays_nothing_is_borrowed() -> None:
    """Who begins to have quota to spare once the others' GPUs are given back lent nothing of them."""
    held = Holdings(
        ints(0, 0, 0, 1, 1),
        ints(0, 1, 2, 0, 10**9),
        ints(3, 4, 5, 5, 10**9 + 1),
        np.array([0.1, 0.2, 0.3, 1.0, 1.0]),
        ints(10**12, 3 * 10**12, 7 * 10**12, 50, 50),
    )
    a, b = borrowed([Lender("a", "x", 0.0), Lender("b", "x", 1.0)], held)
    assert (a.own_micros, a.borrowed_micros, a.borrowed_gpu_us) == (0, 11 * 10**12, pytest.approx(1.8))
    assert (b.own_micros, b.lent_micros, b.lent_gpu_us) == (100, 0, 0.0)


@pytest.mark.parametrize(("part", "counts"), [(2e-9, True), (1e-9, True), (0.9e-9, False), (1e-12, False)])
def test_less_than_a_billionth_of_all_that_was_held_is_nothing(part: float, counts: bool) -> None:
    """It could be what floats leave of a sum; a billionth is held, and borrowed from who has it to spare."""
    rest = 1.0 - part
    held = Holdings(ints(0, 0), ints(0, 5), ints(1, 6), np.array([part, rest]), ints(0, 0))
    a, b = borrowed([Lender("a", "x", 0.0), Lender("b", "x", 2.0)], held)
    for found in (a.borrowed_gpu_us, b.lent_gpu_us):
        assert found == pytest.approx(rest + part if counts else rest, abs=1e-14)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)
