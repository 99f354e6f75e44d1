"""A fleet of alike model servers: replicas come, drain and die; requests go to them by a policy.

Time only goes forward, in slices: `advance` to a moment, then say what changed, then on. Nothing is lost in between: a
replica that drains finishes what it holds; one that is killed loses it, or hands it to others where clients try again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairway.serving import batching as b
from fairway.serving.pipelines import Pipeline, pipeline_times
from fairway.serving.steptimes import Deployed, StepTimes, step_times
from fairway.serving.traffic import Requests

POLICIES = {
    "RoundRobin": b.ROUND_ROBIN,
    "Random": b.RANDOM,
    "LeastRequests": b.LEAST_REQUESTS,
    "SessionAffinity": b.SESSION_HASH,
    "LeastKVCache": b.LEAST_CACHE,
    "PrefixAware": b.PREFIX,
}
_UNFINISHED = (b.QUEUED, b.READING, b.WRITING)


@dataclass(frozen=True, slots=True)
class Gateway:
    """`queue_most`: requests that may wait at one replica, 0: any number; more are refused (503). `holds`: requests
    wait while no replica is ready, instead of being refused. `patience_s`: so long a client waits for its first
    token. `retries`: what was on a replica that died is sent again."""

    policy: str = "LeastRequests"
    queue_most: int = 0
    holds: bool = False
    patience_s: float = math.inf
    retries: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """What the fleet holds at a moment."""

    at_s: float
    ready: int
    waiting: int
    """At replicas and, while none is ready, at the gateway."""
    running: int
    cache_share: float
    arrived: int
    tokens_written: int
    tokens_read: int
    preempted: int


@dataclass(eq=False)
class Fleet:
    """`when` and `what` are `batching`'s tables, a row a request."""

    deployed: Deployed | Pipeline
    requests: Requests
    gateway: Gateway
    seed: int = 1
    when: NDArray[np.float64] = field(init=False)
    what: NDArray[np.int64] = field(init=False)
    replicas: NDArray[np.int64] = field(init=False)
    times: StepTimes = field(init=False)
    now_s: float = 0.0
    _next: int = 0
    _resumed_s: float = 0.0

    def __post_init__(self) -> None:
        n = len(self.requests)
        served = self.deployed
        self.times = pipeline_times(served) if isinstance(served, Pipeline) else step_times(served)
        self.when = np.full((n, 4), np.nan)
        self.when[:, b.ARRIVED] = self.requests.arrived_s
        self.what = np.zeros((n, b.OF_REQUEST), dtype=np.int64)
        self.what[:, b.PROMPT], self.what[:, b.OUTPUT] = self.requests.prompt, self.requests.output
        self.what[:, b.SESSION], self.what[:, b.WHERE] = self.requests.session, -1
        things = self.requests.things
        self.what[:, b.THING] = -1 if things is None else things.of
        self._things = np.zeros((0, 2), dtype=np.int64) if things is None else things.table
        most = 0 if things is None else things.most
        self._draws = np.random.Generator(np.random.PCG64(self.seed)).random(min(n, 65_536) or 1)
        deployed, gateway = self.deployed, self.gateway
        of_server = (deployed.seqs_most, deployed.tokens_most, self.times.cache_tokens)
        self._limits = np.array(
            [
                *of_server,
                gateway.queue_most,
                int(gateway.holds),
                most,
                deployed.draft_tokens,
                int(deployed.batch_delay_s >= 0),
                0,
            ],
            dtype=np.int64,
        )
        self._costs = np.array(
            [
                self.times.cached_token_s,
                self.times.attended_pair_s,
                self.gateway.patience_s,
                self.deployed.tokens_a_step,
                self.deployed.batch_delay_s,
            ]
        )
        self._linear = np.stack([self.times.linear_s, self.times.writing_s])
        self._joining = np.zeros(self.deployed.seqs_most + 1, dtype=np.int64)
        self._clocks = np.zeros(0)
        self.replicas = np.zeros((0, b.COLUMNS), dtype=np.int64)
        self._keys = np.zeros((0, self.deployed.seqs_most), dtype=np.int64)
        self._owners = self._keys.copy()
        self._resident = np.zeros((0, len(self._things)), dtype=np.int64)

    def add(self, count: int = 1) -> range:
        """So many more replicas, ready now."""
        first = len(self.replicas)
        fresh = np.zeros((count, b.COLUMNS), dtype=np.int64)
        fresh[:, b.SLOW] = 1000
        fresh[:, b.STATE], fresh[:, [b.HEAD, b.TAIL, b.READING_NOW]] = b.READY, -1
        self.replicas = np.concatenate([self.replicas, fresh])
        self._clocks = np.concatenate([self._clocks, np.full(count, self.now_s)])
        room = np.zeros((count, self.deployed.seqs_most), dtype=np.int64)
        self._keys, self._owners = np.concatenate([self._keys, room]), np.concatenate([self._owners, room])
        fresh_things = np.zeros((count, len(self._things)), dtype=np.int64)
        self._resident = np.concatenate([self._resident, fresh_things])
        return range(first, first + count)

    def set_state(self, replica: int, *, gets_requests: bool, listens: bool = True) -> None:
        """Whether new requests are sent to it, and whether anybody is there; what it has it goes on with."""
        if self.replicas[replica, b.STATE] != b.GONE:
            state = (b.READY if listens else b.CLOSED) if gets_requests else b.DRAINING
            self.replicas[replica, b.STATE] = state

    def set_nature(self, replica: int, *, slow_permille: int = 1000, fails_permille: int = 0) -> None:
        """How much longer its steps take, and how many of a thousand requests it answers with an error."""
        self.replicas[replica, [b.SLOW, b.FAILS]] = slow_permille, fails_permille

    def set_groups(self, replica: int, groups: Sequence[int]) -> None:
        """It gets requests of these groups."""
        self.replicas[replica, b.GROUP] = sum(1 << group for group in groups)

    def set_weights(self, weights: Sequence[int]) -> None:
        """So many of all requests go to the replicas of each group; none: there are no groups."""
        self._limits = np.array([*self._limits[: b.GROUPS], len(weights), *weights], dtype=np.int64)

    def is_idle(self, replica: int) -> bool:
        return bool(self.replicas[replica, b.HELD] == 0)

    def kill(self, replica: int) -> int:
        """It is gone, now. What it held: how many; lost, unless clients try again."""
        if self.replicas[replica, b.STATE] == b.GONE:
            return 0
        self.replicas[replica, b.STATE] = b.GONE
        return self.abort(replica)

    def abort(self, replica: int) -> int:
        """What it holds is dropped: how many; lost, unless clients try again."""
        if self.is_idle(replica):
            return 0
        done = self.what[: self._next]
        held = np.flatnonzero((done[:, b.WHERE] == replica) & np.isin(done[:, b.STATUS], _UNFINISHED))
        row = self.replicas[replica]
        row[[b.HELD, b.RUNNING, b.WAITING, b.CACHED]] = 0
        row[[b.HEAD, b.TAIL, b.READING_NOW]] = -1
        if self.gateway.retries:
            b.redirect(self._tables(), held, self.now_s, POLICIES[self.gateway.policy])
        else:
            self.what[held, b.STATUS], self.when[held, b.DONE] = b.LOST, self.now_s
        return len(held)

    def fork(self) -> Fleet:
        """An independent copy; the requests themselves are shared."""
        twin = copy(self)
        for name in (
            "when",
            "what",
            "replicas",
            "_clocks",
            "_keys",
            "_owners",
            "_joining",
            "_limits",
            "_resident",
        ):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    @property
    def arrived(self) -> int:
        """Requests that have come so far."""
        return int(np.searchsorted(self.requests.arrived_s, self.now_s, side="right"))

    @property
    def is_over(self) -> bool:
        """Whether every request has come and ended."""
        return self._next == len(self.requests) and not self.replicas[:, b.HELD].any()

    def advance(self, until_s: float) -> None:
        """Everything that begins before this time."""
        if not np.isin(self.replicas[:, b.STATE], (b.READY, b.CLOSED)).any():
            self._resumed_s = max(until_s, self._resumed_s) if self.gateway.holds else self._resumed_s
        resumed_s, policy = min(self._resumed_s, until_s), POLICIES[self.gateway.policy]
        self._next = b.advance(self._tables(), self._next, resumed_s, until_s, policy, self._draws)
        self.now_s = until_s

    def _tables(self) -> b.Tables:
        return b.Tables(
            self.when,
            self.what,
            self.replicas,
            self._clocks,
            self._keys,
            self._owners,
            self._joining,
            self._resident,
            self._things,
            self._linear,
            self._costs,
            self._limits,
        )

    def tables(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """`when` and `what` of every request, in order of arrival."""
        return self.when, self.what

    def drain(self) -> None:
        """To the end of all that was offered."""
        self.advance(math.inf)

    def load(self) -> Load:
        here = self.replicas[self.replicas[:, b.STATE] != b.GONE]
        ready = int((here[:, b.STATE] == b.READY).sum())
        come = self.arrived
        cache = self.times.cache_tokens * max(len(here), 1)
        return Load(
            at_s=self.now_s,
            ready=ready,
            waiting=int(here[:, b.WAITING].sum()) + max(come - self._next, 0),
            running=int(here[:, b.RUNNING].sum() + (here[:, b.READING_NOW] >= 0).sum()),
            cache_share=float(here[:, b.CACHED].sum() / cache),
            arrived=come,
            tokens_written=int(self.replicas[:, b.WRITTEN].sum()),
            tokens_read=int(self.replicas[:, b.READ].sum()),
            preempted=int(self.replicas[:, b.PREEMPTED].sum()),
        )
