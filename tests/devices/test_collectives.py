"""Collective operations: as fast as people published, never faster than the wires or for being farther apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.catalog.boards import Board, boards
from fairway.catalog.catalog import load_catalog
from fairway.catalog.gpus import GpuModel
from fairway.devices.collectives import (
    ALL_REDUCE,
    GB,
    KINDS,
    NVLS,
    PUBLISHED,
    RING,
    TREE,
    Place,
    Published,
    algorithms,
    factor,
    time_of,
)


def model(name: str) -> GpuModel:
    found = load_catalog().gpu(name)
    assert found is not None
    return found


def board(name: str) -> Board:
    """`hgx-a100-8/4`: with four network cards instead."""
    plain, _, cards = name.partition("/")
    found = boards()[plain]
    return (
        replace(found, nics=type(found.nics)(int(cards), found.nics.gbit_per_s, found.nics.kind))
        if cards
        else found
    )


def bus(place: Place, size: int, only: str = "") -> float:
    return factor(ALL_REDUCE, place.ranks) * size / GB / time_of(place, ALL_REDUCE, size, only=only).seconds


# The last of them is the one farthest off: NCCL gets less out of bridges than out of a switch.
MOST_OFF = {"2 x A100 PCIe, bridged": 0.16}


@pytest.mark.parametrize("run", PUBLISHED, ids=lambda r: r.what)
def test_published_bus_bandwidths(run: Published) -> None:
    place = Place(board(run.board), model(run.model), run.nodes, run.per_node)
    off = bus(place, 8 << 30, run.algorithm) / run.bus - 1
    assert abs(off) <= MOST_OFF.get(run.what, 0.035)


def test_which_algorithm_is_taken() -> None:
    one = Place(boards()["dgx-h100"], model("H100-SXM5-80GB"), 1, 8)
    assert time_of(one, ALL_REDUCE, 1 << 30).algorithm == NVLS
    assert set(algorithms(replace(one, nodes=4), ALL_REDUCE)) == {RING, TREE}
    assert time_of(replace(one, nodes=64), ALL_REDUCE, 1 << 10).algorithm == TREE
    assert time_of(one, ALL_REDUCE, 8).protocol == "LL"


PLACES = st.builds(
    lambda name, nodes, gpus, rdma, over: Place(
        boards()[name], model(boards()[name].models[0]), nodes, min(gpus, boards()[name].gpus), rdma, over
    ),
    st.sampled_from(sorted(boards())),
    st.integers(1, 64),
    st.integers(1, 16),
    st.booleans(),
    st.sampled_from([1.0, 2.0, 4.0]),
)


@given(PLACES, st.sampled_from(KINDS), st.integers(0, 34))
def test_never_faster_than_the_wires_or_for_being_farther_apart(place: Place, kind: str, power: int) -> None:
    size = 1 << power
    took = time_of(place, kind, size)
    assert took.seconds >= 0
    if place.ranks > 1 and kind == ALL_REDUCE:
        # Whatever the way: NVLS adds in the switch, all else sends at least that through the narrower wire.
        wire = min(place.inside, 2 * place.between)
        assert took.seconds >= 0.5 * factor(kind, place.ranks) * size / GB / wire
    assert time_of(place, kind, 2 * size).seconds >= took.seconds
    assert (
        time_of(replace(place, oversubscribed=place.oversubscribed * 2), kind, size).seconds >= took.seconds
    )
    if place.has_rdma:
        assert time_of(replace(place, has_rdma=False), kind, size).seconds >= took.seconds


# Small ones may be: a tree over two nodes has shorter chains inside each, as NCCL's own tuner reckons.
@given(st.sampled_from(sorted(boards())), st.integers(27, 33))
def test_large_ones_on_one_node_are_not_slower_than_over_two(name: str, power: int) -> None:
    found = boards()[name]
    gpus = found.gpus - found.gpus % 2
    packed = Place(found, model(found.models[0]), 1, gpus)
    spread = Place(found, model(found.models[0]), 2, gpus // 2)
    if packed.uses_nvlink:
        assert (
            time_of(packed, ALL_REDUCE, 1 << power).seconds <= time_of(spread, ALL_REDUCE, 1 << power).seconds
        )
