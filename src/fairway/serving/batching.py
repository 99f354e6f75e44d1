"""Continuous batching: what does every replica of a model server do until a time?

As vLLM's scheduler (V1): each step gives every running sequence one token and fills the step's token budget with
prompts, in order of arrival, chunked where they are longer; a prompt is taken up when a sequence slot and its blocks of
the cache are free; where the cache runs out, the youngest sequence is put back in front and computes anew.

Steps in which nobody joins or leaves are not counted one by one: their times grow evenly with the cache, so their sum
is closed. A request costs its joins and its leave, whatever its length.

Tables: `when` float64[request, ARRIVED…], `what` int64[request, PROMPT…], `replicas` int64[replica, STATE…], `clocks`
float64[replica], heaps int64[replica, sequence]. Times are seconds since the run's start.

Source: vllm/v1/core/sched/scheduler.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairway.kernels import kernel, leaf

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


@leaf
def _finish_due(
    r: int, is_whole: int, when: Floats, what: Ints, replicas: Ints, clocks: Floats, keys: Ints, owners: Ints
) -> None:
    """Whoever has all its tokens leaves. `is_whole`: its client hears of it only now."""
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
def _preempt_youngest(r: int, what: Ints, replicas: Ints, keys: Ints, owners: Ints) -> None:
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
def _drop_impatient(
    r: int, patience_s: float, when: Floats, what: Ints, replicas: Ints, clocks: Floats
) -> None:
    """Whose client went away before anything was said is not begun."""
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
def _find_thing(r: int, t: int, replicas: Ints, resident: Ints, things: Ints, limits: Ints) -> bool:
    """Whether a thing was resident; it is from now on, and those used longest ago make room."""
    rep = replicas[r]
    hit = resident[r, t] > 0
    if hit:
        rep[HITS] += 1
    else:
        rep[RESIDENT] += things[t, SAVES]
    resident[r, t] = rep[SEEN] * 1000 + rep[STEPS] + 1
    while True:
        count, oldest = 0, -1
        for i in range(resident.shape[1]):
            if resident[r, i] > 0:
                count += 1
                if i != t and (oldest < 0 or resident[r, i] < resident[r, oldest]):
                    oldest = i
        is_full = limits[THINGS] > 0 and count > limits[THINGS]
        if oldest < 0 or not (is_full or rep[CACHED] + rep[RESIDENT] > limits[CACHE]):
            return bool(hit)
        resident[r, oldest] = 0
        rep[RESIDENT] -= things[oldest, SAVES]


@leaf
def _mixed_step(
    r: int,
    when: Floats,
    what: Ints,
    replicas: Ints,
    clocks: Floats,
    keys: Ints,
    owners: Ints,
    joining: Ints,
    resident: Ints,
    things: Ints,
    linear: Floats,
    costs: Floats,
    limits: Ints,
) -> bool:
    """One step with prompts in it. False: no prompt may be taken up now."""
    rep = replicas[r]
    while rep[CACHED] + rep[RUNNING] > limits[CACHE] and rep[RUNNING] > 1:
        _preempt_youngest(r, what, replicas, keys, owners)
    budget = limits[TOKENS] - rep[RUNNING]
    writing, tokens, pairs, joined, loads_s = rep[RUNNING], 0, 0.0, 0, 0.0
    while budget > 0:
        if rep[READING_NOW] < 0:
            if rep[WAITING] == 0 or rep[RUNNING] + joined >= limits[SEQS]:
                break
            if limits[BATCHES] and rep[RUNNING] > 0:
                break
            q = rep[HEAD]
            if rep[CACHED] + what[q, TO_READ] + writing > limits[CACHE]:
                break
            rep[HEAD] = what[q, NEXT]
            rep[WAITING] -= 1
            if rep[WAITING] == 0:
                rep[TAIL] = -1
            saved = what[q, SAVED]
            if what[q, THING] >= 0:
                hit = _find_thing(r, what[q, THING], replicas, resident, things, limits)
                if hit:
                    saved = max(saved, things[what[q, THING], SAVES])
                else:
                    loads_s += things[what[q, THING], LOADS] * 1e-6
            rep[READING_NOW], rep[READ_LEFT] = q, max(what[q, TO_READ] - saved, 1)
            rep[CACHED] += what[q, TO_READ]
            what[q, STATUS] = READING
            if np.isnan(when[q, BEGAN]):
                when[q, BEGAN] = clocks[r]
        q = rep[READING_NOW]
        chunk = min(budget, rep[READ_LEFT])
        before = what[q, TO_READ] - rep[READ_LEFT]
        pairs += chunk * (before + 0.5 * chunk)
        tokens += chunk
        budget -= chunk
        rep[READ_LEFT] -= chunk
        if rep[READ_LEFT] == 0:
            joining[joined] = q
            joined += 1
            rep[READING_NOW] = -1
    if tokens == 0:
        return False
    checked = min(tokens + writing * (1 + limits[DRAFT]), linear.shape[1] - 1)
    step_s = (
        linear[0, checked] + costs[0] * rep[CACHED] * (1.0 if writing else 0.0) + costs[1] * pairs + loads_s
    )
    clocks[r] += step_s * (rep[SLOW] * 0.001)
    rep[STEPS] += 1
    rep[CACHED] += writing
    rep[WRITTEN] += writing + joined
    rep[READ] += tokens
    _finish_due(r, limits[BATCHES], when, what, replicas, clocks, keys, owners)
    longest = 0
    for i in range(joined):
        longest = max(longest, what[joining[i], LEFT])
    for i in range(joined):
        q = joining[i]
        if np.isnan(when[q, FIRST]):
            when[q, FIRST] = clocks[r]
        what[q, STATUS], what[q, JOINED], what[q, CONTEXT] = WRITING, rep[STEPS], what[q, TO_READ] + 1
        rep[CACHED] += 1
        # Of a batch all are computed as long as the longest.
        left = longest if limits[BATCHES] else what[q, LEFT]
        _push(keys, owners, r, rep[RUNNING], rep[STEPS] + left - 1, q)
        rep[RUNNING] += 1
    _finish_due(r, limits[BATCHES], when, what, replicas, clocks, keys, owners)
    return True


@leaf
def _write(
    r: int,
    until_s: float,
    when: Floats,
    what: Ints,
    replicas: Ints,
    clocks: Floats,
    keys: Ints,
    owners: Ints,
    linear: Floats,
    costs: Floats,
    limits: Ints,
) -> None:
    """Steps without prompts: to the next that finishes, the end of the cache, or the first that ends at the time."""
    rep = replicas[r]
    writing = rep[RUNNING]
    steps = keys[r, 0] - rep[STEPS]
    room = (limits[CACHE] - rep[CACHED]) // writing
    if room <= 0 and writing > 1:
        _preempt_youngest(r, what, replicas, keys, owners)
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
    _finish_due(r, limits[BATCHES], when, what, replicas, clocks, keys, owners)


@leaf
def _batch_begins(r: int, delay_s: float, when: Floats, what: Ints, replicas: Ints, seqs: int) -> float:
    """When the next batch of an idle server is full, or its oldest has waited long enough for others."""
    q, count, last = replicas[r, HEAD], 1, 0.0
    last = when[q, ARRIVED]
    deadline = last + delay_s
    while count < seqs and what[q, NEXT] >= 0 and when[what[q, NEXT], ARRIVED] <= deadline:
        q = what[q, NEXT]
        last = when[q, ARRIVED]
        count += 1
    return float(last if count == seqs else deadline)


@leaf
def _advance_one(
    r: int,
    until_s: float,
    when: Floats,
    what: Ints,
    replicas: Ints,
    clocks: Floats,
    keys: Ints,
    owners: Ints,
    joining: Ints,
    resident: Ints,
    things: Ints,
    linear: Floats,
    costs: Floats,
    limits: Ints,
) -> None:
    rep = replicas[r]
    while clocks[r] < until_s:
        if rep[WAITING] and costs[2] < np.inf:
            _drop_impatient(r, costs[2], when, what, replicas, clocks)
        if limits[BATCHES] and rep[WAITING] and rep[RUNNING] == 0 and rep[READING_NOW] < 0:
            begins_s = _batch_begins(r, costs[4], when, what, replicas, limits[SEQS])
            if begins_s >= until_s:
                return
            clocks[r] = max(clocks[r], begins_s)
        if (rep[WAITING] or rep[READING_NOW] >= 0) and _mixed_step(
            r,
            when,
            what,
            replicas,
            clocks,
            keys,
            owners,
            joining,
            resident,
            things,
            linear,
            costs,
            limits,
        ):
            continue
        if rep[RUNNING] == 0:
            return
        _write(r, until_s, when, what, replicas, clocks, keys, owners, linear, costs, limits)


@leaf
def _may_get(r: int, group: int, replicas: Ints) -> bool:
    is_open = replicas[r, STATE] == READY or replicas[r, STATE] == CLOSED
    return is_open and (group == -1 or (group >= 0 and (replicas[r, GROUP] >> group) & 1 == 1))


@leaf
def _group_of(q: int, limits: Ints) -> int:
    """Of the replicas that share requests by weight, whose this one is; -1: there are no groups, -2: nobody's."""
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
def _chosen(
    policy: int, q: int, turn: int, draw: float, what: Ints, replicas: Ints, resident: Ints, limits: Ints
) -> int:
    """The replica that gets a request; -1: none is ready."""
    n = replicas.shape[0]
    group = _group_of(q, limits)
    ready = 0
    for r in range(n):
        ready += _may_get(r, group, replicas)
    if ready == 0:
        return -1
    if policy in (LEAST_REQUESTS, LEAST_CACHE, PREFIX):
        column = CACHED if policy == LEAST_CACHE else HELD
        best = -1
        for i in range(n):
            r = (turn + i) % n
            if _may_get(r, group, replicas) and (best < 0 or replicas[r, column] < replicas[best, column]):
                best = r
        t = what[q, THING]
        if policy == PREFIX and t >= 0:
            # Who has it is preferred, unless that would make it wait for far more than elsewhere.
            most, has = 2 * replicas[best, HELD] + 4, -1
            for r in range(n):
                is_fit = _may_get(r, group, replicas) and resident[r, t] > 0 and replicas[r, HELD] <= most
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
        if _may_get(r, group, replicas):
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
def _enqueue(
    r: int, q: int, at_s: float, when: Floats, what: Ints, replicas: Ints, clocks: Floats, limits: Ints
) -> None:
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
def redirect(
    who: Ints,
    at_s: float,
    policy: int,
    when: Floats,
    what: Ints,
    replicas: Ints,
    clocks: Floats,
    resident: Ints,
    limits: Ints,
) -> None:
    """Send requests that were on a replica that is gone to others, now. Where none is ready they are lost."""
    for i in range(who.shape[0]):
        q = who[i]
        r = _chosen(policy, q, q, 0.5, what, replicas, resident, limits)
        if r < 0:
            what[q, STATUS] = LOST
            when[q, DONE] = at_s
        else:
            _enqueue(r, q, at_s, when, what, replicas, clocks, limits)


@kernel
def advance(
    begin: int,
    resumed_s: float,
    until_s: float,
    policy: int,
    draws: Floats,
    when: Floats,
    what: Ints,
    replicas: Ints,
    clocks: Floats,
    keys: Ints,
    owners: Ints,
    joining: Ints,
    resident: Ints,
    things: Ints,
    linear: Floats,
    costs: Floats,
    limits: Ints,
) -> int:
    """Everything that begins before a time, from request `begin` on; the first request that has not arrived by then.

    A step that is under way at that time is finished: a replica's clock may stand after it. `linear`: float64[2,
    tokens], a step's time, and that of a token of everybody who writes. `costs`: seconds for a cached token, for an
    attended pair, a client's patience, tokens of each sequence a step, how long a batch waits for others. `resident`:
    int64[replica, thing], when used last. Where no replica is ready it stops at the request that waits; `resumed_s` is
    when that was over.
    """
    q, n = begin, replicas.shape[0]
    looks_at_all = policy in (LEAST_REQUESTS, LEAST_CACHE, PREFIX)
    while q < when.shape[0] and when[q, ARRIVED] < until_s:
        at_s = max(when[q, ARRIVED], resumed_s)
        if looks_at_all:
            for r in range(n):
                if replicas[r, HELD] and clocks[r] < at_s:
                    _advance_one(
                        r,
                        at_s,
                        when,
                        what,
                        replicas,
                        clocks,
                        keys,
                        owners,
                        joining,
                        resident,
                        things,
                        linear,
                        costs,
                        limits,
                    )
        r = _chosen(policy, q, q, draws[q % draws.shape[0]], what, replicas, resident, limits)
        if r < 0:
            if limits[HOLDS]:
                break
            what[q, STATUS] = REFUSED
            when[q, DONE] = at_s
            q += 1
            continue
        if not looks_at_all:
            _advance_one(
                r,
                at_s,
                when,
                what,
                replicas,
                clocks,
                keys,
                owners,
                joining,
                resident,
                things,
                linear,
                costs,
                limits,
            )
        _enqueue(r, q, at_s, when, what, replicas, clocks, limits)
        q += 1
    for r in range(n):
        if replicas[r, HELD]:
            _advance_one(
                r,
                until_s,
                when,
                what,
                replicas,
                clocks,
                keys,
                owners,
                joining,
                resident,
                things,
                linear,
                costs,
                limits,
            )
    return q
