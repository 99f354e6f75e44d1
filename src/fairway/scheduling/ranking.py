"""Which nodes does a search come by, and which of them are the best? For one pod shape, kept up to date node by node.

A search begins where the last one ended, ends as soon as it has found enough nodes, and picks among the best of those.
Where fewer nodes fit than are wanted (most searches of a full cluster) it comes by all of them: their places are then
kept in order by score, and a search is a look into a list. Otherwise it is a few array calls on a stretch.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from fairway.cluster.accounts import Ints, elements

_REFUSED = -1

Found = tuple[int, int, int, int, int]
"""(row, score, nodes equally good, nodes that fit, nodes looked at)."""


class Ranking:
    """`twice`: `accounts.order_twice()`, which it belongs to; `turns`: each row's place in it; `scores`: int64[place]
    of the first half, -1 where a node is refused."""

    def __init__(self, twice: Ints, turns: memoryview, scores: Ints) -> None:
        self.twice = twice
        self._turns = turns
        self._count = len(scores)
        # Two times over, as the order is: a search that wraps around is one slice.
        self._scores = np.concatenate((scores, scores))
        self._score_at = elements(self._scores)
        self._fitting = int(np.count_nonzero(scores != _REFUSED))
        self._by_score: dict[int, list[int]] | None = None
        """The places of nodes that fit, rising; made when they are first asked for."""

    def put(self, row: int, score: int) -> None:
        """What a row is worth now."""
        turn = self._turns[row]
        before = self._score_at[turn]
        if score == before:
            return
        self._score_at[turn] = self._score_at[turn + self._count] = score
        self._fitting += (score != _REFUSED) - (before != _REFUSED)
        by_score = self._by_score
        if by_score is not None:
            if before != _REFUSED:
                turns = by_score[before]
                del turns[bisect_left(turns, turn)]
                if not turns:
                    del by_score[before]
            if score != _REFUSED:
                insort(by_score.setdefault(score, []), turn)

    def best(self, start: int, wanted: int, draw: int) -> Found | None:
        """The best of the first `wanted` nodes that fit, from a place on; `draw` picks among equals. None: none
        fits."""
        if not self._fitting:
            return None
        if self._fitting < wanted:
            return self._best_of_all(start, draw)
        evaluated = wanted
        seen = self._scores[start : start + wanted]
        if int(seen[seen.argmin()]) == _REFUSED:
            fitting = (self._scores[start : start + self._count] != _REFUSED).nonzero()[0]
            evaluated = int(fitting[wanted - 1]) + 1
            seen = self._scores[start : start + evaluated]
        best = int(seen[seen.argmax()])
        tied = (seen == best).nonzero()[0]
        turn = start + int(tied[draw % len(tied)])
        return int(self.twice[turn]), best, len(tied), wanted, evaluated

    def stretch(self, start: int, wanted: int) -> Ints | None:
        """The rows a search comes by from a place on, where it need not pass over any; None: it has to."""
        if self._fitting < wanted:
            return None
        seen = self._scores[start : start + wanted]
        if int(seen[seen.argmin()]) == _REFUSED:
            return None
        return self.twice[start : start + wanted]

    def _best_of_all(self, start: int, draw: int) -> Found:
        by_score = self._by_score
        if by_score is None:
            by_score = self._by_score = {}
            for turn in (self._scores[: self._count] != _REFUSED).nonzero()[0].tolist():
                by_score.setdefault(self._score_at[turn], []).append(turn)
        best = max(by_score)
        turns = by_score[best]
        first = bisect_left(turns, start)
        turn = turns[(first + draw) % len(turns)]
        return int(self.twice[turn]), best, len(turns), self._fitting, self._count
