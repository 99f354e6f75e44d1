"""Continuous batching against the same rules told step by step, and against what must hold in any run."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairway.catalog.catalog import load_catalog
from fairway.serving import batching as b
from fairway.serving.fleet import Fleet, Gateway
from fairway.serving.models import model_named
from fairway.serving.steptimes import Deployed, StepTimes, step_times
from fairway.serving.traffic import Requests, Tokens, Traffic, made, steady


def deployed(**changes: Any) -> Deployed:
    gpu = load_catalog().gpu("A100-SXM4-80GB")
    assert gpu is not None
    return replace(Deployed(model_named("llama-2-7b"), gpu), **changes)


def fleet(
    requests: Requests, replicas: int = 1, cache: int = 0, gateway: Gateway | None = None, **changes: Any
) -> Fleet:
    found = Fleet(deployed(**changes), requests, gateway or Gateway())
    if cache:
        found._limits[b.CACHE] = cache
    found.add(replicas)
    return found


def step_by_step(
    requests: Requests, times: StepTimes, cache: int, seqs: int, tokens: int
) -> list[tuple[float, float]]:
    """One replica, every step by itself: when each request had its first token and its last."""
    n = len(requests)
    first: list[float] = [math.nan] * n
    last: list[float] = [math.nan] * n
    waiting: list[int] = []
    running: list[int] = []
    context = [int(v) for v in requests.prompt]
    left = [int(v) for v in requests.output]
    read = [0] * n
    reading = -1
    now, coming, held = 0.0, 0, 0
    while True:
        while coming < n and requests.arrived_s[coming] <= now:
            waiting.append(coming)
            coming += 1
        if not waiting and not running and reading < 0:
            if coming == n:
                return list(zip(first, last, strict=True))
            now = float(requests.arrived_s[coming])
            continue
        while held + len(running) > cache and len(running) > 1:
            youngest = max(running)
            running.remove(youngest)
            held -= context[youngest]
            waiting.insert(0, youngest)
        budget, writers, joined, taken, pairs = tokens - len(running), len(running), [], 0, 0.0
        while budget > 0:
            if reading < 0:
                if not waiting or len(running) + len(joined) >= seqs:
                    break
                if held + context[waiting[0]] + writers > cache:
                    break
                reading = waiting.pop(0)
                read[reading] = 0
                held += context[reading]
            chunk = min(budget, context[reading] - read[reading])
            pairs += chunk * (read[reading] + 0.5 * chunk)
            read[reading] += chunk
            budget, taken = budget - chunk, taken + chunk
            if read[reading] == context[reading]:
                joined.append(reading)
                reading = -1
        now += times.linear_s[taken + writers] + times.attended_pair_s * pairs
        now += times.cached_token_s * held if writers else 0.0
        held += writers
        for q in list(running):
            context[q] += 1
            left[q] -= 1
            if left[q] == 0:
                running.remove(q)
                held -= context[q]
                last[q] = now
        for q in joined:
            first[q] = now if math.isnan(first[q]) else first[q]
            context[q] += 1
            left[q] -= 1
            held += 1
            if left[q] == 0:
                held -= context[q]
                last[q] = now
            else:
                running.append(q)


@pytest.mark.parametrize("cache", [100_000, 3_000])
@pytest.mark.parametrize(("seqs", "tokens"), [(256, 8192), (8, 64), (3, 512)])
@pytest.mark.parametrize("seed", [1, 2])
def test_it_is_what_single_steps_make(cache: int, seqs: int, tokens: int, seed: int) -> None:
    traffic = Traffic(steady(3.0, 40), Tokens(200, 1.0, 1200), Tokens(60, 1.0, 500), burstiness=2)
    requests = made(traffic, seed)
    one = fleet(requests, cache=cache, seqs_most=seqs, tokens_most=tokens)
    one.drain()
    limits = (cache, seqs, tokens)
    want = step_by_step(requests, one.times, *limits)
    assert np.allclose(one.when[:, [b.FIRST, b.DONE]], want, rtol=1e-9)
    assert cache > 3_000 or seqs < 8 or one.load().preempted > 0


def test_slices_of_time_change_nothing() -> None:
    requests = made(Traffic(steady(20, 60), Tokens(300, 0.5), Tokens(100, 0.5)), 3)
    whole, sliced = fleet(requests, 3), fleet(requests, 3)
    whole.drain()
    for second in range(1, 80):
        sliced.advance(second * 1.7)
    sliced.drain()
    assert np.allclose(whole.when, sliced.when, rtol=1e-9)


def test_every_token_is_accounted_for() -> None:
    requests = made(Traffic(steady(30, 60), Tokens(300, 0.5), Tokens(100, 0.5)), 4)
    many = fleet(requests, 2, cache=20_000)
    many.drain()
    assert (many.what[:, b.STATUS] == b.DONE_WELL).all()
    load = many.load()
    assert load.tokens_written == requests.output.sum()
    assert load.tokens_read >= requests.prompt.sum()
    assert (load.waiting, load.running, load.cache_share) == (0, 0, 0.0)
    in_order = [many.when[:, i] for i in (b.ARRIVED, b.BEGAN, b.FIRST, b.DONE)]
    assert all((earlier <= later).all() for earlier, later in itertools.pairwise(in_order))


def at_once(n: int, prompt: int = 500, output: int = 50, gap_s: float = 0.01) -> Requests:
    times = np.arange(n) * gap_s
    return Requests(times, np.full(n, prompt), np.full(n, output), np.arange(n))


def test_a_full_queue_refuses() -> None:
    one = fleet(at_once(50), gateway=Gateway(queue_most=4), seqs_most=2)
    one.drain()
    assert set(one.what[:, b.STATUS]) == {b.DONE_WELL, b.REFUSED}


def test_clients_go_away() -> None:
    one = fleet(at_once(50), gateway=Gateway(patience_s=0.5), seqs_most=2)
    one.drain()
    gone = one.what[:, b.STATUS] == b.TIMED_OUT
    assert gone.any() and not gone[0]
    assert np.allclose(one.when[gone, b.DONE] - one.when[gone, b.ARRIVED], 0.5)


def test_a_request_longer_than_the_cache_is_refused_alone() -> None:
    requests = at_once(3)
    requests.prompt[1] = 5_000
    one = fleet(requests, cache=4_000)
    one.drain()
    assert list(one.what[:, b.STATUS]) == [b.DONE_WELL, b.TOO_LONG, b.DONE_WELL]


@pytest.mark.parametrize(("retries", "lost"), [(False, True), (True, False)])
def test_what_a_dead_replica_held(retries: bool, lost: bool) -> None:
    two = fleet(at_once(100, output=400), 2, gateway=Gateway(retries=retries))
    two.advance(2.0)
    assert two.kill(0) > 0
    two.drain()
    assert bool((two.what[:, b.STATUS] == b.LOST).any()) is lost
    assert two.kill(0) == 0


def test_draining_loses_nothing_and_takes_nothing() -> None:
    two = fleet(at_once(100, output=400), 2)
    two.advance(0.5)
    seen = two.replicas[0, b.SEEN]
    two.set_state(0, gets_requests=False)
    two.advance(60)
    assert two.is_idle(0) and two.replicas[0, b.SEEN] == seen and two.kill(0) == 0
    two.drain()
    assert (two.what[:, b.STATUS] == b.DONE_WELL).all()


def test_without_a_replica_requests_wait_or_are_refused() -> None:
    waits, refuses = (fleet(at_once(5), 0, gateway=Gateway(holds=holds)) for holds in (True, False))
    for one in (waits, refuses):
        one.advance(10.0)
        held = one.load().waiting
        one.add()
        one.drain()
        assert (held, set(one.what[:, b.STATUS])) == (
            (5, {b.DONE_WELL}) if one is waits else (0, {b.REFUSED})
        )
    assert (waits.when[:, b.BEGAN] >= 10.0).all()


@pytest.mark.parametrize(
    "policy", ["RoundRobin", "Random", "LeastRequests", "LeastKVCache", "SessionAffinity"]
)
def test_policies_spread_and_sessions_stay(policy: str) -> None:
    requests = made(Traffic(steady(50, 40), Tokens(200), Tokens(50), sessions=40), 5)
    four = fleet(requests, 4, gateway=Gateway(policy=policy))
    four.drain()
    shares = four.replicas[:, b.SEEN] / len(requests)
    assert shares.min() > (0.05 if policy == "SessionAffinity" else 0.2)
    if policy == "SessionAffinity":
        pairs = set(zip(requests.session.tolist(), four.what[:, b.WHERE].tolist(), strict=True))
        assert len(pairs) == 40


def test_a_replica_alone_takes_what_its_steps_take() -> None:
    times = step_times(deployed())
    one = fleet(at_once(1, prompt=100, output=3))
    one.drain()
    read = times.linear_s[100] + times.attended_pair_s * 100 * 50
    written = 2 * times.linear_s[1] + times.cached_token_s * (101 + 102)
    assert one.when[0, b.FIRST] == pytest.approx(read)
    assert one.when[0, b.DONE] == pytest.approx(read + written)
