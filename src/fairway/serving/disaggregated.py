"""Prompts are read on some servers and answers written on others: when does each request get its tokens?

`Apart` is a fleet of those who write, with another of those who read before it. The cache of a prompt travels over the
network in between (`link_bytes_per_s`). Whoever writes computes one token anew.

Source: DistServe (OSDI 2024); vLLM's disaggregated prefilling.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairway.serving import batching as b
from fairway.serving.fleet import Fleet, Gateway, Load
from fairway.serving.steptimes import Deployed
from fairway.serving.traffic import Requests

LINK_BYTES_PER_S = 50e9


class Apart(Fleet):
    """Requests come to `before`; this one has a row for each that is passed on, in order of coming."""

    def __init__(
        self,
        deployed: Deployed,
        requests: Requests,
        gateway: Gateway,
        reads: Deployed,
        link_bytes_per_s: float = LINK_BYTES_PER_S,
    ) -> None:
        n = len(requests)
        nobody = Requests(
            np.full(n, np.inf), np.ones_like(requests.prompt), np.ones_like(requests.prompt), requests.session
        )
        super().__init__(deployed, nobody, gateway)
        self.asked = requests
        self.before = Fleet(reads, replace(requests, output=np.ones_like(requests.output)), gateway)
        self.travels_s = reads.model.cache_values * reads.kv_bytes / link_bytes_per_s
        """Of one token's cache."""
        self._origin = np.full(n, -1, dtype=np.int64)
        self._is_passed = np.zeros(n, dtype=np.bool_)
        self._come = 0

    def fork(self) -> Apart:
        twin = super().fork()
        assert isinstance(twin, Apart)
        twin.before = self.before.fork()
        twin._origin, twin._is_passed = self._origin.copy(), self._is_passed.copy()
        return twin

    @property
    def arrived(self) -> int:
        return self.before.arrived

    @property
    def is_over(self) -> bool:
        read = self.before.what[:, b.STATUS] == b.DONE_WELL
        is_passed = bool((self._is_passed | ~read | (self.asked.output <= 1)).all())
        return (
            self.before.is_over
            and is_passed
            and self._next == self._come
            and not self.replicas[:, b.HELD].any()
        )

    def advance(self, until_s: float) -> None:
        self.before.advance(until_s)
        self._pass_on(until_s)
        super().advance(until_s)

    def _pass_on(self, until_s: float) -> None:
        """Whose prompt has been read and whose cache arrives before a time. O(requests)."""
        before = self.before
        read = (before.what[:, b.STATUS] == b.DONE_WELL) & ~self._is_passed & (self.asked.output > 1)
        goes = np.flatnonzero(read)
        comes_s = before.when[goes, b.DONE] + self.travels_s * self.asked.prompt[goes]
        order = np.argsort(comes_s, kind="stable")
        goes, comes_s = goes[order], comes_s[order]
        goes, comes_s = goes[comes_s < until_s], comes_s[comes_s < until_s]
        rows = slice(self._come, self._come + len(goes))
        self.when[rows, b.ARRIVED] = comes_s
        self.what[rows, b.PROMPT], self.what[rows, b.OUTPUT] = (
            self.asked.prompt[goes] + 1,
            self.asked.output[goes] - 1,
        )
        self.what[rows, b.SAVED], self.what[rows, b.SESSION] = (
            self.asked.prompt[goes],
            self.asked.session[goes],
        )
        self._origin[rows] = goes
        self._is_passed[goes] = True
        self._come += len(goes)

    def tables(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        when, what = self.before.when.copy(), self.before.what.copy()
        what[:, b.OUTPUT] = self.asked.output
        goes_on = (what[:, b.STATUS] == b.DONE_WELL) & (self.asked.output > 1)
        when[goes_on, b.DONE], what[goes_on, b.STATUS] = np.nan, b.WRITING
        here = self._origin[: self._come]
        when[here, b.DONE] = self.when[: self._come, b.DONE]
        for column in (b.STATUS, b.WHERE):
            what[here, column] = self.what[: self._come, column]
        return when, what

    def load(self) -> Load:
        here, before = super().load(), self.before.load()
        waiting = int(self.replicas[:, b.WAITING].sum()) + max(self._come - self._next, 0) + before.waiting
        return replace(
            here,
            waiting=waiting,
            running=here.running + before.running,
            tokens_written=here.tokens_written + before.tokens_written,
            tokens_read=before.tokens_read,
            preempted=here.preempted + before.preempted,
        )


def served_apart(
    requests: Requests,
    reads: tuple[Deployed, int],
    writes: tuple[Deployed, int],
    link_bytes_per_s: float = LINK_BYTES_PER_S,
    gateway: Gateway | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """`batching`'s tables of all requests. `reads`, `writes`: the servers of each kind, and how many."""
    fleet = Apart(writes[0], requests, gateway or Gateway(), reads[0], link_bytes_per_s)
    fleet.before.add(reads[1])
    fleet.add(writes[1])
    fleet.drain()
    return fleet.tables()
