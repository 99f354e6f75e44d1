"""On which NUMA nodes should all of a container's resources be? The topology manager's policies.

Every provider (CPUs, memory, each device) hints at sets of NUMA nodes that could serve it; one hint of each is taken,
and the nodes that all of them share are a candidate. Candidates are many, but only their nodes and whether they are
preferred matter: providers are folded in one by one, which keeps the work small and the answer the same.

Source: pkg/kubelet/cm/topologymanager policy*.go, numa_info.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, NamedTuple

NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
POLICIES: Final = (NONE, BEST_EFFORT, RESTRICTED, SINGLE)
CONTAINER, POD = "container", "pod"
MAX_NODES: Final = 8
"""NUMA nodes above which the kubelet does not start with a policy, unless `max-allowable-numa-nodes` allows more."""


class Hint(NamedTuple):
    """`nodes`: a bit for each NUMA node; None: any."""

    nodes: int | None
    preferred: bool


Hints = Mapping[str, Sequence[Hint] | None]
"""Of one provider, by resource: None: it does not matter where; empty: nowhere."""


@dataclass(frozen=True, slots=True)
class NumaNodes:
    """`distances`: from each node to all, by their numbers; needed where the closest nodes are preferred."""

    ids: tuple[int, ...]
    distances: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @property
    def mask(self) -> int:
        return mask_of(self.ids)

    def mean_distance(self, mask: int) -> float:
        """Between all pairs of its nodes, each with itself included."""
        found = bits_of(mask)
        pairs = [self.distances[a][b] for a in found for b in found]
        return sum(pairs) / len(pairs) if pairs else 0.0


def mask_of(bits: Iterable[int]) -> int:
    found = 0
    for bit in bits:
        found |= 1 << bit
    return found


def bits_of(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def masks_over(nodes: Sequence[int]) -> Iterator[int]:
    """Every set of these nodes but the empty one, small ones first."""
    for size in range(1, len(nodes) + 1):
        for chosen in combinations(nodes, size):
            yield mask_of(chosen)


def merged(
    policy: str, providers: Iterable[Hints], nodes: NumaNodes, *, closest: bool = False
) -> tuple[Hint, bool]:
    """The best hint that all agree on, and whether the policy lets the container in with it."""
    if policy == NONE:
        return Hint(None, preferred=False), True
    wanted = [list(hints) for hints in _by_resource(providers)]
    if policy == SINGLE:
        wanted = [
            [h for h in hints if h.preferred and (h.nodes is None or h.nodes.bit_count() == 1)]
            for hints in wanted
        ]
    best = _best(wanted, nodes, closest=closest and policy != SINGLE)
    if policy == SINGLE and best.nodes == nodes.mask:
        best = Hint(None, best.preferred)
    return best, policy == BEST_EFFORT or best.preferred


def _by_resource(providers: Iterable[Hints]) -> Iterator[Sequence[Hint]]:
    for hints in providers:
        if not hints:
            yield (Hint(None, preferred=True),)
        for _, found in sorted(hints.items()):
            if found is None:
                yield (Hint(None, preferred=True),)
            else:
                yield found or (Hint(None, preferred=False),)


def _best(wanted: Sequence[Sequence[Hint]], nodes: NumaNodes, *, closest: bool) -> Hint:
    everywhere = nodes.mask
    # What a candidate is so far: its nodes, and what all hints had in common while each was preferred (0: no longer;
    # None: nothing said yet).
    candidates: set[tuple[int, int | None]] = {(everywhere, None)}
    for hints in wanted:
        candidates = {_with(at, hint) for at in candidates for hint in hints}
    # A provider that needs many nodes at least is not served by fewer.
    narrowest = [
        min((h.nodes.bit_count() for h in hints if h.nodes is not None), default=0) for hints in wanted
    ]
    wanted_count = max(narrowest, default=0)

    def rank(at: tuple[int, int | None]) -> tuple[float, ...]:
        mask, count = at[0], at[0].bit_count()
        fit = (nodes.mean_distance(mask), mask) if closest else (0, mask)
        if at[1] != 0:
            return 0, 0, count, *fit
        if count == wanted_count:
            return 1, 0, 0, *fit
        return (1, 1, -count, *fit) if count < wanted_count else (1, 2, count, *fit)

    best = min((at for at in candidates if at[0]), key=rank, default=(everywhere, 0))
    return Hint(best[0], best[1] != 0)


def _with(at: tuple[int, int | None], hint: Hint) -> tuple[int, int | None]:
    mask, common = at
    if hint.nodes is None:
        return mask, common if hint.preferred else 0
    if not hint.preferred or common == 0 or (common is not None and common != hint.nodes):
        return mask & hint.nodes, 0
    return mask & hint.nodes, hint.nodes


def preferred_at(size: int, found: Iterable[int]) -> list[Hint]:
    """Hints of these sets of nodes, of which those of this size are preferred."""
    return [Hint(mask, mask.bit_count() == size) for mask in found]
