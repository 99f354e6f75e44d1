"""Merging hints: the folded merge is the one over all permutations; what is let in fits and comes back."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.devices.numa.admitting import Book, Machine, admitted, released
from fairway.devices.numa.cpus import CpuOptions, CpuPolicy
from fairway.devices.numa.cputopology import NO_CPUS, regular_topology
from fairway.devices.numa.devices import DeviceSort, best_set
from fairway.devices.numa.hints import POLICIES, Hint, NumaNodes, merged
from fairway.devices.numa.memory import fresh_memory
from fairway.devices.numa.refusals import Refused

NODES = 3
HINTS = st.lists(
    st.builds(Hint, st.one_of(st.none(), st.integers(1, 2**NODES - 1)), st.booleans()), max_size=4
)


def by_permutations(wanted: list[list[Hint]], count: int) -> Hint:
    """Kubernetes' own way: every permutation merged and compared with the best so far, narrowest first."""
    everywhere = 2**count - 1
    at_least = max((min((h.nodes.bit_count() for h in hs if h.nodes), default=0) for hs in wanted), default=0)
    best: Hint | None = None
    for chosen in product(*wanted):
        mask, seen = everywhere, [h.nodes for h in chosen if h.nodes is not None]
        for nodes in seen:
            mask &= nodes
        new = Hint(mask, all(h.preferred for h in chosen) and len(set(seen)) <= 1)
        if mask and (best is None or _is_better(best, new, at_least)):
            best = new
    return best or Hint(everywhere, preferred=False)


def _is_better(old: Hint, new: Hint, at_least: int) -> bool:
    assert old.nodes is not None and new.nodes is not None
    size, new_size = old.nodes.bit_count(), new.nodes.bit_count()
    narrower = (new_size, new.nodes) < (size, old.nodes)
    if old.preferred != new.preferred:
        return new.preferred
    if old.preferred or size > at_least:
        return narrower
    if size == at_least:
        return new_size == at_least and narrower
    if new_size > at_least:
        return False
    return new_size == at_least or new_size > size or (new_size == size and narrower)


@given(st.lists(st.dictionaries(st.sampled_from("ab"), st.one_of(st.none(), HINTS), max_size=2), max_size=3))
def test_the_fold_is_the_merge_over_all_permutations(providers: list[dict[str, Any]]) -> None:
    wanted: list[list[Hint]] = []
    for hints in providers:
        wanted += [] if hints else [[Hint(None, preferred=True)]]
        for found in hints.values():
            wanted.append(
                [Hint(None, preferred=True)] if found is None else found or [Hint(None, preferred=False)]
            )
    got, is_let_in = merged("restricted", providers, NumaNodes(tuple(range(NODES))))
    assert got == by_permutations(wanted, NODES)
    assert is_let_in == got.preferred


def pod(name: str, cpus: int, gpus: int, gib: int) -> dict[str, Any]:
    needs = {"cpu": str(cpus), "memory": f"{gib}Gi", "nvidia.com/gpu": str(gpus)}
    containers = [{"name": "c", "resources": {"requests": needs, "limits": needs}}]
    return {"metadata": {"name": name, "uid": name}, "spec": {"containers": containers}}


GIB = 2**30


def machine(policy: str, scope: str, options: CpuOptions) -> tuple[Machine, Book]:
    topology = regular_topology(2, 1, 4, 2)
    cpus = CpuPolicy(topology, NO_CPUS, options)
    sort = DeviceSort({str(i): (i // 2,) for i in range(4)})
    memory = fresh_memory({n: {"memory": 8 * GIB} for n in (0, 1)}, {0: {"memory": GIB}})
    found = Machine(NumaNodes((0, 1)), policy, scope, False, cpus, True, {"nvidia.com/gpu": sort})
    return found, Book(cpus.start(), memory)


PODS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(1, 9)), max_size=6)


@settings(max_examples=60)
@given(PODS, st.sampled_from(POLICIES), st.sampled_from(["container", "pod"]), st.booleans(), st.booleans())
def test_what_is_let_in_fits_is_aligned_and_comes_back(
    asked: list[tuple[int, int, int]], policy: str, scope: str, cores: bool, across: bool
) -> None:
    made, fresh = machine(policy, scope, CpuOptions(full_cores=cores, across_numa=across))
    book, held = fresh, list[str]()
    for i, (cpus, gpus, gib) in enumerate(asked):
        name = f"p{i}"
        try:
            after = admitted(made, book, pod(name, cpus, gpus, gib))
        except Refused as refused:
            assert refused.reason in (
                "TopologyAffinityError",
                "SMTAlignmentError",
                "UnexpectedAdmissionError",
            )
            continue
        book = after.book
        held.append(name)
        assert book.cpus is not None and book.memory is not None
        mine, devices = book.cpus.given[name]["c"], book.devices.of(name, "c", "nvidia.com/gpu")
        assert (len(mine), len(devices)) == (cpus, gpus)
        if policy == "single-numa-node":
            nodes = {made.cpus.topology.cpus[n].numa for n in mine} if made.cpus else set()
            nodes |= {int(d) // 2 for d in devices}
            nodes |= {n for b in book.memory.given[name]["c"] for n in b.nodes}
            assert len(nodes) == 1
    assert book.cpus is not None and book.memory is not None
    own = [n for cs in book.cpus.given.values() for cpus in cs.values() for n in cpus]
    assert len(own) == len(set(own)) and not set(own) & book.cpus.shared
    assert all(t.free >= 0 for n in book.memory.nodes.values() for t in n.tables.values())
    for name in held:
        book = released(book, name, ["c"])
    assert (
        fresh.cpus is not None
        and fresh.memory is not None
        and book.cpus is not None
        and book.memory is not None
    )
    assert book.cpus.shared == fresh.cpus.shared and not book.cpus.given
    assert book.memory.nodes == fresh.memory.nodes and not book.devices.given


# GPUs of a DGX-1 with V100: two fours, NVLinks single and double within and across. Source: go-gpuallocator's tests.
SINGLE_LINKS = ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))
DOUBLE_LINKS = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))


def _scores(count: int, links: dict[tuple[int, int], int]) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(0 if a == b else links.get((min(a, b), max(a, b)), 0) for b in range(count))
        for a in range(count)
    )


def _sets(left: tuple[int, ...], size: int) -> list[list[tuple[int, ...]]]:
    if not left:
        return [[]]
    found = []
    from itertools import combinations

    for others in combinations(left[1:], size - 1):
        chosen = (left[0], *others)
        found += [[chosen, *rest] for rest in _sets(tuple(i for i in left if i not in chosen), size)]
    return found


@settings(max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=15, max_size=15), st.sampled_from([1, 2, 3]))
def test_the_preferred_set_is_the_best_of_the_best_partition(weights: list[int], size: int) -> None:
    pairs = [(a, b) for a in range(6) for b in range(a + 1, 6)]
    scores = _scores(6, dict(zip(pairs, weights, strict=True)))

    def total(sets: list[tuple[int, ...]]) -> int:
        return sum(scores[a][b] for s in sets for a in s for b in s if a < b)

    best = max(total(p) for p in _sets(tuple(range(6)), size))
    good = [p for p in _sets(tuple(range(6)), size) if total(p) == best]
    chosen = best_set(scores, tuple(range(6)), frozenset(), size)
    assert any(chosen in p and total([chosen]) == max(total([s]) for s in p) for p in good)


def test_a_dgx_1_keeps_its_fours_together() -> None:
    links = dict.fromkeys(SINGLE_LINKS, 100) | dict.fromkeys(DOUBLE_LINKS, 200)
    # Beside NVLinks: PCIe, nearer within a four than across.
    every = {(a, b): 20 if (a < 4) == (b < 4) else 10 for a in range(8) for b in range(a + 1, 8)}
    scores = _scores(8, {pair: near + links.get(pair, 0) for pair, near in every.items()})
    assert set(best_set(scores, tuple(range(8)), frozenset({4}), 4)) == {4, 5, 6, 7}
    assert best_set(scores, (0, 1, 2, 3), frozenset({0, 1, 2, 3, 4}), 4) == ()
    assert len(best_set(scores, tuple(range(8)), frozenset(), 5)) == 5
