"""Borrowed quota against a reckoning moment by moment."""

from __future__ import annotations

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
