"""Stores that models are fetched from: shares of a bottleneck against a plain computation, and who finds what where."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeletworld import S, container, node, pod

from fairway.kube.objects import Key, Obj
from fairway.twin.components import Component
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.kubelet.stores import Line, Store
from fairway.twin.latency import NONE
from fairway.twin.twin import EPOCH_US, Twin

MB, GB = 10**6, 10**9
arrivals = st.lists(
    st.tuples(st.integers(0, 60 * S), st.integers(1, 50 * GB), st.none() | st.integers(0, 60 * S)),
    min_size=1,
    max_size=12,
)


def shared(rate: int, limit: int, readers: list[tuple[int, int, int | None]]) -> dict[int, Fraction]:
    """When each is done, in µs: every reader's bytes counted down, in fractions, from one change to the next."""
    left: dict[int, Fraction] = {}
    ends: dict[int, Fraction] = {}
    now = Fraction(0)
    starts = sorted((at, i) for i, (at, _, _) in enumerate(readers))
    stops = sorted((at + after, i) for i, (at, _, after) in enumerate(readers) if after is not None)
    while starts or left:
        share = Fraction(rate, len(left) * S) if left else Fraction(0)
        if limit:
            share = min(share, Fraction(limit, S))
        times = [now + b / share for b in left.values()] + [Fraction(at) for at, _ in starts[:1] + stops[:1]]
        then = min(t for t in times if t >= now)
        left = {i: b - share * (then - now) for i, b in left.items()}
        now = then
        for i in [i for i, b in left.items() if b == 0]:
            ends[i] = now
            del left[i]
        while stops and stops[0][0] <= now:
            left.pop(stops.pop(0)[1], None)
        while starts and starts[0][0] <= now:
            i = starts.pop(0)[1]
            left[i] = Fraction(readers[i][1])
    return ends


@given(st.integers(MB, 20 * GB), st.just(0) | st.integers(MB, 3 * GB), arrivals)
def test_ends_are_those_of_processor_sharing(
    rate: int, limit: int, readers: list[tuple[int, int, int | None]]
) -> None:
    # No two changes at one time, so that their order is not in question.
    readers = [
        (at * 100 + 2 * i, b, None if a is None else a * 100 + 51) for i, (at, b, a) in enumerate(readers)
    ]
    line = Line(Store("s", rate, limit, 0, ()))
    changes = [(at, 0, i) for i, (at, _, _) in enumerate(readers)]
    changes += [(at + a, 1, i) for i, (at, _, a) in enumerate(readers) if a is not None]
    ends: dict[int, int] = {}

    def run_until(time_us: int | None) -> None:
        while (next_us := line.next_us()) >= 0 and (time_us is None or next_us <= time_us):
            line.advance(next_us)
            ends.update({int(t.readers[0][0]): next_us for t in line.done()})

    for at, stops, i in sorted(changes):
        run_until(at)
        line.advance(at)
        if not stops:
            line.begin("n", str(i), readers[i][1], (str(i), 0))
        elif (str(i), 0) in line.readers:
            line.leave((str(i), 0))
    run_until(None)
    expected = shared(rate, limit, readers)
    near = {i for i, e in expected.items() if any(abs(e - at) <= 20 for at, _, _ in changes)}
    assert set(ends) - near == set(expected) - near
    if not near:
        # Each end is rounded up by less than 1 µs, and later ones with it.
        for i, end in ends.items():
            assert -1 <= end - expected[i] <= len(readers) + 1
    assert not line.readers and not line.transfers


def fetching(name: str, model: str = "m", on: str = "n") -> Obj:
    return pod(
        name,
        container("main"),
        says={"run-time": "1h", "weights.load": model},
        initContainers=[container("load")],
        nodeName=on,
    )


def world(nodes: int, *stores: Store) -> Twin:
    components: list[Component] = [Faults(), Kubelet(stores=stores)]
    twin = Twin(seed=1, latency=NONE, components=components)
    twin.apply([node(f"n{i}") for i in range(nodes)])
    twin.run(EPOCH_US + S)
    return twin


def started_s(twin: Twin, name: str) -> float:
    """When its main container began, since the start of the world."""
    kubelet: Any = twin.host.parts["kubelet"]
    (state,) = [p for p in kubelet.pods.values() if p.key == Key("Pod", "default", name)]
    return (state.containers[1].started_us - EPOCH_US) / S if state.containers[1].started_us >= 0 else -1


@pytest.mark.parametrize(("replicas", "seconds"), [(1, 16.0), (10, 16.0), (100, 160.0)])
def test_a_stampede_is_as_slow_as_the_store(replicas: int, seconds: float) -> None:
    """16 GB, 1 GB/s a reader, 10 GB/s in all."""
    twin = world(replicas, Store("hub", 10 * GB, GB, 0, (("m", 16 * GB),)))
    twin.apply([fetching(f"p{i}", on=f"n{i}") for i in range(replicas)])
    twin.run(EPOCH_US + 500 * S)
    assert {started_s(twin, f"p{i}") - 1 for i in range(replicas)} == {seconds}


def test_a_node_that_keeps_models_fetches_each_once() -> None:
    models = (("a", 6 * GB), ("b", 6 * GB), ("c", 11 * GB))
    twin = world(2, Store("hub", GB, 0, 10 * GB, models))
    plan = [
        (10, "a0", "a", "n0", 16.0),
        (12, "a1", "a", "n0", 16.0),  # waits for the same transfer
        (20, "a2", "a", "n0", 20.0),  # finds it
        (30, "b0", "b", "n0", 36.0),  # takes the place of a
        (40, "a3", "a", "n0", 46.0),  # again, in the place of b
        (50, "a4", "a", "n1", 56.0),  # another node has nothing
        (60, "c0", "c", "n1", 71.0),  # larger than the cache
        (80, "a5", "a", "n1", 80.0),  # and took nobody's place
    ]
    for at, name, model, on, _ in plan:
        twin.run(EPOCH_US + at * S)
        twin.apply([fetching(name, model, on)])
    twin.run(EPOCH_US + 200 * S)
    assert [(name, started_s(twin, name)) for _, name, *_ in plan] == [(name, s) for _, name, *_, s in plan]


def test_who_is_deleted_leaves_the_rest_to_others_and_forks_go_on_alike() -> None:
    twin = world(2, Store("hub", GB, 0, 0, (("m", 10 * GB),)))
    twin.apply([fetching(f"p{i}", on=f"n{i}") for i in range(2)])
    twin.run(EPOCH_US + 7 * S)
    fork = twin.fork()
    for one in (twin, fork):
        # After 6 s each has 3 GB; the other fetches its last 7 GB at 1 GB/s.
        one.store.delete(Key("Pod", "default", "p0"), grace_s=0)
        one.wake()
        one.run(EPOCH_US + 100 * S)
        assert started_s(one, "p1") == 14.0
    assert twin.host.log.digest() == fork.host.log.digest()


def test_without_stores_the_kubelet_has_none() -> None:
    twin = world(1)
    twin.apply([fetching("p", on="n0")])
    twin.run(EPOCH_US + 10 * S)
    kubelet: Any = twin.host.parts["kubelet"]
    assert kubelet.stores is None and started_s(twin, "p") == 2.0


def test_what_was_used_longest_ago_goes_first() -> None:
    line = Line(Store("s", GB, 0, 10, ()))
    for model in ("a", "b"):
        line.keep("n", model, 4)
    assert [line.finds("n", "a"), line.finds("n", "c"), line.finds("m", "a")] == [True, False, False]
    line.keep("n", "c", 6)
    assert line.caches == {"n": {"a": 4, "c": 6}}, "there is room for both, to the byte"
    line.keep("n", "a", 5)
    assert line.caches == {"n": {"a": 5}}, "it is larger now, and the other has no room beside it"
    line.keep("n", "d", 11)
    line.keep("m", "d", 10)
    assert line.caches == {"n": {"a": 5}, "m": {"d": 10}}
    copied = line.copy()
    line.keep("n", "e", 10)
    assert (line.caches["n"], copied.caches["n"]) == ({"e": 10}, {"a": 5})


def test_readers_of_a_node_share_a_transfer_where_it_keeps_models() -> None:
    for cache, transfers in ((0, 3), (10, 2)):
        line = Line(Store("s", 8, 0, cache, ()))
        assert line.next_us() == -1
        for uid, where in (("p", "n"), ("q", "n"), ("r", "m")):
            line.begin(where, "a", 4, (uid, 0))
        assert len(line.transfers) == transfers == line.begun
        # Eight bytes a second, four for each transfer; a third of eight is rounded down.
        assert line.next_us() == {2: 1_000_000, 3: 1_500_001}[transfers]
        line.leave(("p", 0))
        left = {number: [r[0] for r in one.readers] for number, one in line.transfers.items()}
        assert left == ({1: ["q"], 2: ["r"]} if cache else {2: ["q"], 3: ["r"]})
        line.leave(("q", 0))
        line.begin("n", "a", 4, ("s", 0))
        line.advance(line.next_us())
        assert [[r[0] for r in one.readers] for one in line.done()] == [["r"], ["s"]]
        assert (line.next_us(), line.transfers, line.readers, line.coming) == (-1, {}, {}, {})
