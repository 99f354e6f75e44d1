"""A ranking that was kept up to date finds what a search node by node finds."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.cluster.accounts import elements
from fairway.scheduling.ranking import Found, Ranking


def searched(scores: list[int], rows: list[int], start: int, wanted: int, draw: int) -> Found | None:
    """Node by node: from `start` on, until as many fit as are wanted or all were looked at."""
    fitting: list[int] = []
    evaluated = 0
    for i in range(len(scores)):
        turn = (start + i) % len(scores)
        evaluated += 1
        if scores[turn] >= 0:
            fitting.append(turn)
        if len(fitting) == wanted:
            break
    if not fitting:
        return None
    best = max(scores[turn] for turn in fitting)
    tied = [turn for turn in fitting if scores[turn] == best]
    return rows[tied[draw % len(tied)]], best, len(tied), len(fitting), evaluated


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_a_ranking_finds_what_a_search_finds(seed: int) -> None:
    r = Random(seed)
    count = r.choice((1, 2, 7, 30))
    rows = r.sample(range(40), count)
    refused = r.choice((0.0, 0.3, 0.9))
    scores = [-1 if r.random() < refused else r.randrange(4) for _ in rows]
    turns = np.zeros(40, np.int64)
    turns[rows] = np.arange(count)
    ranking = Ranking(np.array([*rows, *rows], np.int64), elements(turns), np.array(scores, np.int64))
    for _ in range(30):
        start, wanted, draw = r.randrange(count), r.randint(1, count), r.randrange(1000)
        found = searched(scores, rows, start, wanted, draw)
        assert ranking.best(start, wanted, draw) == found
        at_once = ranking.stretch(start, wanted)
        if found is not None and found[3:] == (wanted, wanted):
            assert at_once is not None
            assert at_once.tolist() == [rows[(start + i) % count] for i in range(wanted)]
        else:
            assert at_once is None
        turn = r.randrange(count)
        scores[turn] = r.choice((-1, 0, 1, 2, 3))
        ranking.put(rows[turn], scores[turn])
