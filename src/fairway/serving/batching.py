"""Continuous batching: what does every replica of a model server do until a time?

As vLLM's scheduler (V1): each step gives every running sequence one token and fills the step's token budget with
prompts, in order of arrival, chunked where they are longer; a prompt is taken up when a sequence slot and its blocks of
the cache are free; where the cache runs out, the youngest sequence is put back in front and computes anew.

Steps in which nobody joins or leaves are not counted one by one: their times grow evenly with the cache, so their sum
is closed. A request costs its joins and its leave, whatever its length.

All it goes by and writes is in one bundle of arrays (`Tables`). Times are seconds since the run's start.

Source: vllm/v1/core/sched/scheduler.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.kernels import inlined, kernel, leaf

ARRIVED, BEGAN, FIRST, DONE = 0, 1, 2, 3
PROMPT, OUTPUT, STATUS, WHERE, LEFT, TO_READ, NEXT, JOINED, CONTEXT, SESSION, THING, SAVED = range(12)
# THING: what it would like to find on its replica (a prefix that is cached, an adapter that is loaded), -1: nothing.
# SAVED: tokens of its prompt that need no computing wherever it goes.
OF_REQUEST = 12
# Of a thing: tokens it saves where it is resident, µs it takes to come where it is not.
SAVES, LOADS = 0, 1
# Of a request.
COMING, QUEUED, READING, WRITING, DONE_WELL, REFUSED, LOST, TIMED_OUT, TOO_LONG, FAILED = range(10)
STATE, STEPS, CACHED, RUNNING, HEAD, TAIL, WAITING, READING_NOW, READ_LEFT, HELD = range(10)
WRITTEN, READ, PREEMPTED, SEEN, SLOW, FAILS, GROUP, RESIDENT, HITS = range(10, 19)
COLUMNS = 19
# SLOW: steps take so many thousandths of their time. FAILS: so many of a thousand requests get an error at once.
# GROUP: a bit for every group it is of. RESIDENT: tokens of the things it keeps; HITS: how often one was there.
# Of a replica. One that is closed is sent requests, but does not listen (yet, or any more): they are lost.
ABSENT, READY, DRAINING, GONE, CLOSED = 0, 1, 2, 3, 4
ROUND_ROBIN, RANDOM, LEAST_REQUESTS, SESSION_HASH, LEAST_CACHE, PREFIX = 0, 1, 2, 3, 4, 5
# Limits: sequences at once, tokens a step, tokens of the cache, requests that may wait at a replica (0: any number),
# whether requests wait while no replica is ready, how many groups of replicas share the requests by weight (0: no
# matter), and those weights.
SEQS, TOKENS, CACHE, QUEUE, HOLDS, THINGS, DRAFT, BATCHES, GROUPS, WEIGHTS = range(10)
# THINGS: how many may be resident at once, 0: as the cache lets. DRAFT: tokens that are guessed for each step of a
# sequence and checked in it. BATCHES: whether the next requests are taken up only once all those before have ended.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Tables(NamedTuple):
    """Requests, replicas, and what both go by."""

    when: Floats
    """float64[request, ARRIVED…]"""
    what: Ints
    """int64[request, PROMPT…]"""
    replicas: Ints
    """int64[replica, STATE…]"""
    clocks: Floats
    """float64[replica]: may stand after the time that was asked for, as a step that is under way is finished."""
    keys: Ints
    """int64[replica, sequence]: heaps of the steps at which who writes is done; `owners`: who."""
    owners: Ints
    joining: Ints
    """int64[sequence]: room for those whose prompt was read in one step."""
    resident: Ints
    """int64[replica, thing]: when used last."""
    things: Ints
    """int64[thing, SAVES…]"""
    linear: Floats
    """float64[2, tokens]: a step's time, and that of a token of everybody who writes."""
    costs: Floats
    """Seconds for a cached token, for an attended pair, a client's patience, tokens of each sequence a step, how long a
    batch waits for others."""
    limits: Ints
    """SEQS…"""


@leaf
def _push(keys: Ints, owners: Ints, r: int, size: int, key: int, owner: int) -> None:
    at = size
    while at > 0:
        up = (at - 1) // 2
        if keys[r, up] <= key:
            break
        keys[r, at], owners[r, at] = keys[r, up], owners[r, up]
        at = up
    keys[r, at], owners[r, at] = key, owner


@leaf
def _remove(keys: Ints, owners: Ints, r: int, size: int, at: int) -> None:
    """Take out the entry at a place of a heap of this size."""
    key, owner = keys[r, size - 1], owners[r, size - 1]
    last = size - 1
    if at == last:
        return
    while at > 0 and keys[r, (at - 1) // 2] > key:
        up = (at - 1) // 2
        keys[r, at], owners[r, at] = keys[r, up], owners[r, up]
        at = up
    while True:
        down = 2 * at + 1
        if down >= last:
            break
        if down + 1 < last and keys[r, down + 1] < keys[r, down]:
            down += 1
        if keys[r, down] >= key:
            break
        keys[r, at], owners[r, at] = keys[r, down], owners[r, down]
        at = down
    keys[r, at], owners[r, at] = key, owner


@inlined
def _finish_due(t: Tables, r: int, is_whole: int) -> None:
    """Whoever has all its tokens leaves. `is_whole`: its client hears of it only now."""
    when, what, replicas, clocks, keys, owners = t.when, t.what, t.replicas, t.clocks, t.keys, t.owners
    rep = replicas[r]
    while rep[RUNNING] > 0 and keys[r, 0] <= rep[STEPS]:
        q = owners[r, 0]
        if is_whole:
            when[q, FIRST] = clocks[r]
        _remove(keys, owners, r, rep[RUNNING], 0)
        rep[RUNNING] -= 1
        rep[CACHED] -= what[q, CONTEXT] + rep[STEPS] - what[q, JOINED]
        rep[HELD] -= 1
        what[q, STATUS] = DONE_WELL
        when[q, DONE] = clocks[r]


@leaf
def _preempt_youngest(t: Tables, r: int) -> None:
    what, replicas, keys, owners = t.what, t.replicas, t.keys, t.owners
    rep = replicas[r]
    youngest = 0
    for i in range(rep[RUNNING]):
        if owners[r, i] > owners[r, youngest]:
            youngest = i
    q = owners[r, youngest]
    left = keys[r, youngest] - rep[STEPS]
    context = what[q, CONTEXT] + rep[STEPS] - what[q, JOINED]
    _remove(keys, owners, r, rep[RUNNING], youngest)
    rep[RUNNING] -= 1
    rep[CACHED] -= context
    rep[PREEMPTED] += 1
    what[q, LEFT], what[q, TO_READ], what[q, STATUS] = left, context, QUEUED
    what[q, NEXT] = rep[HEAD]
    rep[HEAD] = q
    if rep[TAIL] < 0:
        rep[TAIL] = q
    rep[WAITING] += 1


@leaf
def _drop_impatient(t: Tables, r: int, patience_s: float) -> None:
    """Whose client went away before anything was said is not begun."""
    when, what, replicas, clocks = t.when, t.what, t.replicas, t.clocks
    rep = replicas[r]
    while rep[WAITING] > 0:
        q = rep[HEAD]
        if when[q, ARRIVED] + patience_s > clocks[r] or not np.isnan(when[q, FIRST]):
            return
        rep[HEAD] = what[q, NEXT]
        rep[WAITING] -= 1
        rep[HELD] -= 1
        if rep[WAITING] == 0:
            rep[TAIL] = -1
        what[q, STATUS] = TIMED_OUT
        when[q, DONE] = when[q, ARRIVED] + patience_s


@leaf
def _find_thing(t: Tables, r: int, thing: int) -> bool:
    """Whether a thing was resident; it is from now on, and those used longest ago make room."""
    replicas, resident, things, limits = t.replicas, t.resident, t.things, t.limits
    rep = replicas[r]
    hit = resident[r, thing] > 0
    if hit:
        rep[HITS] += 1
    else:
        rep[RESIDENT] += things[thing, SAVES]
    resident[r, thing] = rep[SEEN] * 1000 + rep[STEPS] + 1
    while True:
        count, oldest = 0, -1
        for i in range(resident.shape[1]):
            if resident[r, i] > 0:
                count += 1
                if i != thing and (oldest < 0 or resident[r, i] < resident[r, oldest]):
                    oldest = i
        is_full = limits[THINGS] > 0 and count > limits[THINGS]
        if oldest < 0 or not (is_full or rep[CACHED] + rep[RESIDENT] > limits[CACHE]):
            return bool(hit)
        resident[r, oldest] = 0
        rep[RESIDENT] -= things[oldest, SAVES]


@inlined
def _take_up(t: Tables, r: int, joined: int) -> float:
    """The next in the queue is begun: seconds until what it needs is there; -1: nobody may be begun now."""
    when, what, replicas, things, limits = t.when, t.what, t.replicas, t.things, t.limits
    rep = replicas[r]
    if rep[WAITING] == 0 or rep[RUNNING] + joined >= limits[SEQS] or (limits[BATCHES] and rep[RUNNING] > 0):
        return -1.0
    q = rep[HEAD]
    if rep[CACHED] + what[q, TO_READ] + rep[RUNNING] > limits[CACHE]:
        return -1.0
    rep[HEAD] = what[q, NEXT]
    rep[WAITING] -= 1
    if rep[WAITING] == 0:
        rep[TAIL] = -1
    saved, loads_s = what[q, SAVED], 0.0
    if what[q, THING] >= 0:
        if _find_thing(t, r, what[q, THING]):
            saved = max(saved, things[what[q, THING], SAVES])
        else:
            loads_s = things[what[q, THING], LOADS] * 1e-6
    rep[READING_NOW], rep[READ_LEFT] = q, max(what[q, TO_READ] - saved, 1)
    rep[CACHED] += what[q, TO_READ]
    what[q, STATUS] = READING
    if np.isnan(when[q, BEGAN]):
        when[q, BEGAN] = t.clocks[r]
    return loads_s


@inlined
def _join(t: Tables, r: int, joined: int) -> None:
    """Those whose prompts were read in this step have their first token, and write from now on."""
    when, what, rep = t.when, t.what, t.replicas[r]
    longest = 0
    for i in range(joined):
        longest = max(longest, what[t.joining[i], LEFT])
    for i in range(joined):
        q = t.joining[i]
        if np.isnan(when[q, FIRST]):
            when[q, FIRST] = t.clocks[r]
        what[q, STATUS], what[q, JOINED], what[q, CONTEXT] = WRITING, rep[STEPS], what[q, TO_READ] + 1
        rep[CACHED] += 1
        # Of a batch all are computed as long as the longest.
        left = longest if t.limits[BATCHES] else what[q, LEFT]
        _push(t.keys, t.owners, r, rep[RUNNING], rep[STEPS] + left - 1, q)
        rep[RUNNING] += 1


@leaf
def _mixed_step(t: Tables, r: int) -> bool:
    """One step with prompts in it. False: no prompt may be taken up now."""
    what, linear, costs, limits = t.what, t.linear, t.costs, t.limits
    rep = t.replicas[r]
    while rep[CACHED] + rep[RUNNING] > limits[CACHE] and rep[RUNNING] > 1:
        _preempt_youngest(t, r)
    writing, tokens, pairs, joined, loads_s = rep[RUNNING], 0, 0.0, 0, 0.0
    budget = limits[TOKENS] - writing
    while budget > 0:
        if rep[READING_NOW] < 0:
            comes_s = _take_up(t, r, joined)
            if comes_s < 0:
                break
            loads_s += comes_s
        q = rep[READING_NOW]
        chunk = min(budget, rep[READ_LEFT])
        before = what[q, TO_READ] - rep[READ_LEFT]
        pairs += chunk * (before + 0.5 * chunk)
        tokens += chunk
        budget -= chunk
        rep[READ_LEFT] -= chunk
        if rep[READ_LEFT] == 0:
            t.joining[joined] = q
            joined += 1
            rep[READING_NOW] = -1
    if tokens == 0:
        return False
    checked = min(tokens + writing * (1 + limits[DRAFT]), linear.shape[1] - 1)
    step_s = (
        linear[0, checked] + costs[0] * rep[CACHED] * (1.0 if writing else 0.0) + costs[1] * pairs + loads_s
    )
    t.clocks[r] += step_s * (rep[SLOW] * 0.001)
    rep[STEPS] += 1
    rep[CACHED] += writing
    rep[WRITTEN] += writing + joined
    rep[READ] += tokens
    _finish_due(t, r, limits[BATCHES])
    _join(t, r, joined)
    _finish_due(t, r, limits[BATCHES])
    return True


@leaf
def _write(t: Tables, r: int, until_s: float) -> None:
    """Steps without prompts: to the next that finishes, the end of the cache, or the first that ends at the time."""
    replicas, clocks, keys, linear, costs, limits = t.replicas, t.clocks, t.keys, t.linear, t.costs, t.limits
    rep = replicas[r]
    writing = rep[RUNNING]
    steps = keys[r, 0] - rep[STEPS]
    room = (limits[CACHE] - rep[CACHED]) // writing
    if room <= 0 and writing > 1:
        _preempt_youngest(t, r)
        return
    steps = min(steps, max(room, 1))
    slow = rep[SLOW] * 0.001
    # Guessed tokens that turn out right come for the price of one step.
    each = (linear[1, writing] + costs[0] * rep[CACHED] / costs[3]) * slow
    grows = costs[0] * writing * slow / costs[3]
    if until_s < np.inf:
        gap = until_s - clocks[r]
        if grows > 0:
            half = each - 0.5 * grows
            needed = (np.sqrt(half * half + 2.0 * grows * gap) - half) / grows
        else:
            needed = gap / each
        steps = min(steps, int(np.ceil(needed)))
    steps = max(steps, 1)
    clocks[r] += steps * each + 0.5 * grows * steps * (steps - 1)
    rep[STEPS] += steps
    rep[CACHED] += writing * steps
    rep[WRITTEN] += writing * steps
    _finish_due(t, r, limits[BATCHES])


@leaf
def _batch_begins(t: Tables, r: int, delay_s: float, seqs: int) -> float:
    """When the next batch of an idle server is full, or its oldest has waited long enough for others."""
    when, what, replicas = t.when, t.what, t.replicas
    q, count, last = replicas[r, HEAD], 1, 0.0
    last = when[q, ARRIVED]
    deadline = last + delay_s
    while count < seqs and what[q, NEXT] >= 0 and when[what[q, NEXT], ARRIVED] <= deadline:
        q = what[q, NEXT]
        last = when[q, ARRIVED]
        count += 1
    return float(last if count == seqs else deadline)


@leaf
def _advance_one(t: Tables, r: int, until_s: float) -> None:
    replicas, clocks, costs, limits = t.replicas, t.clocks, t.costs, t.limits
    rep = replicas[r]
    while clocks[r] < until_s:
        if rep[WAITING] and costs[2] < np.inf:
            _drop_impatient(t, r, costs[2])
        if limits[BATCHES] and rep[WAITING] and rep[RUNNING] == 0 and rep[READING_NOW] < 0:
            begins_s = _batch_begins(t, r, costs[4], limits[SEQS])
            if begins_s >= until_s:
                return
            clocks[r] = max(clocks[r], begins_s)
        if (rep[WAITING] or rep[READING_NOW] >= 0) and _mixed_step(t, r):
            continue
        if rep[RUNNING] == 0:
            return
        _write(t, r, until_s)


@inlined
def _may_get(t: Tables, r: int, group: int) -> bool:
    replicas = t.replicas
    is_open = replicas[r, STATE] == READY or replicas[r, STATE] == CLOSED
    return is_open and (group == -1 or (group >= 0 and (replicas[r, GROUP] >> group) & 1 == 1))


@leaf
def _group_of(t: Tables, q: int) -> int:
    """Of the replicas that share requests by weight, whose this one is; -1: there are no groups, -2: nobody's."""
    limits = t.limits
    if limits[GROUPS] == 0:
        return -1
    total = 0
    for g in range(limits[GROUPS]):
        total += limits[WEIGHTS + g]
    if total == 0:
        return -2
    at = (q * 2654435761) % 4294967296 * total // 4294967296
    for g in range(limits[GROUPS]):
        at -= limits[WEIGHTS + g]
        if at < 0:
            return g
    return -2


@leaf
def _chosen(t: Tables, policy: int, q: int, turn: int, draw: float) -> int:
    """The replica that gets a request; -1: none is ready."""
    what, replicas, resident = t.what, t.replicas, t.resident
    n = replicas.shape[0]
    group = _group_of(t, q)
    ready = 0
    for r in range(n):
        ready += _may_get(t, r, group)
    if ready == 0:
        return -1
    if policy in (LEAST_REQUESTS, LEAST_CACHE, PREFIX):
        column = CACHED if policy == LEAST_CACHE else HELD
        best = -1
        for i in range(n):
            r = (turn + i) % n
            if _may_get(t, r, group) and (best < 0 or replicas[r, column] < replicas[best, column]):
                best = r
        thing = what[q, THING]
        if policy == PREFIX and thing >= 0:
            # Who has it is preferred, unless that would make it wait for far more than elsewhere.
            most, has = 2 * replicas[best, HELD] + 4, -1
            for r in range(n):
                is_fit = _may_get(t, r, group) and resident[r, thing] > 0 and replicas[r, HELD] <= most
                if is_fit and (has < 0 or replicas[r, HELD] < replicas[has, HELD]):
                    has = r
            return has if has >= 0 else best
        return best
    if policy == SESSION_HASH:
        nth = (what[q, SESSION] * 2654435761) % 4294967296 % ready
    elif policy == RANDOM:
        nth = int(draw * ready)
    else:
        nth = turn % ready
    for r in range(n):
        if _may_get(t, r, group):
            if nth == 0:
                return r
            nth -= 1
    return -1


@leaf
def _lot(q: int) -> int:
    """0 to 999, evenly and without regard to how requests are shared among groups."""
    x = (q + 1) * 73244475 % 4294967296
    x = (x ^ (x >> 16)) * 73244475 % 4294967296
    return (x ^ (x >> 16)) % 1000


@leaf
def _enqueue(t: Tables, r: int, q: int, at_s: float) -> None:
    when, what, replicas, clocks, limits = t.when, t.what, t.replicas, t.clocks, t.limits
    rep = replicas[r]
    if rep[STATE] == CLOSED:
        what[q, STATUS], what[q, WHERE] = LOST, r
        when[q, DONE] = at_s
        return
    if rep[FAILS] and _lot(q) < rep[FAILS]:
        what[q, STATUS], what[q, WHERE] = FAILED, r
        when[q, DONE] = at_s
        return
    if what[q, PROMPT] + what[q, OUTPUT] > limits[CACHE]:
        what[q, STATUS] = TOO_LONG
        when[q, DONE] = at_s
        return
    if limits[QUEUE] and rep[WAITING] >= limits[QUEUE]:
        what[q, STATUS] = REFUSED
        when[q, DONE] = at_s
        return
    if rep[RUNNING] == 0 and rep[WAITING] == 0 and rep[READING_NOW] < 0 and clocks[r] < at_s:
        clocks[r] = at_s
    what[q, STATUS], what[q, WHERE], what[q, NEXT] = QUEUED, r, -1
    what[q, LEFT], what[q, TO_READ] = what[q, OUTPUT], what[q, PROMPT]
    if rep[TAIL] >= 0:
        what[rep[TAIL], NEXT] = q
    else:
        rep[HEAD] = q
    rep[TAIL] = q
    rep[WAITING] += 1
    rep[HELD] += 1
    rep[SEEN] += 1


@kernel
def redirect(t: Tables, who: Ints, at_s: float, policy: int) -> None:
    """Send requests that were on a replica that is gone to others, now. Where none is ready they are lost."""
    when, what = t.when, t.what
    for i in range(who.shape[0]):
        q = who[i]
        r = _chosen(t, policy, q, q, 0.5)
        if r < 0:
            what[q, STATUS] = LOST
            when[q, DONE] = at_s
        else:
            _enqueue(t, r, q, at_s)


@kernel
def advance(t: Tables, begin: int, resumed_s: float, until_s: float, policy: int, draws: Floats) -> int:
    """Everything that begins before a time, from request `begin` on; the first request that has not arrived by then.

    Where no replica is ready it stops at the request that waits; `resumed_s` is when that was over.
    """
    when, what, replicas, clocks, limits = t.when, t.what, t.replicas, t.clocks, t.limits
    q, n = begin, replicas.shape[0]
    looks_at_all = policy in (LEAST_REQUESTS, LEAST_CACHE, PREFIX)
    while q < when.shape[0] and when[q, ARRIVED] < until_s:
        at_s = max(when[q, ARRIVED], resumed_s)
        if looks_at_all:
            for r in range(n):
                if replicas[r, HELD] and clocks[r] < at_s:
                    _advance_one(t, r, at_s)
        r = _chosen(t, policy, q, q, draws[q % draws.shape[0]])
        if r < 0:
            if limits[HOLDS]:
                break
            what[q, STATUS] = REFUSED
            when[q, DONE] = at_s
            q += 1
            continue
        if not looks_at_all:
            _advance_one(t, r, at_s)
        _enqueue(t, r, q, at_s)
        q += 1
    for r in range(n):
        if replicas[r, HELD]:
            _advance_one(t, r, until_s)
    return q
