"""Which devices does a container get? The kubelet's device manager, and what NVIDIA's plugin prefers.

Source: pkg/kubelet/cm/devicemanager/{manager,topology_hints}.go (v1.36); NVIDIA/go-gpuallocator besteffort_policy.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

from fairway.devices.numa.hints import Hint, masks_over, preferred_at
from fairway.devices.numa.refusals import unexpected

Prefer = Callable[[Sequence[str], Sequence[str], int], Sequence[str]]
"""The plugin's choice: of these, with those included, so many."""


@dataclass(frozen=True, slots=True)
class DeviceSort:
    """The devices of one resource. `numa`: nodes that each is near, none where it does not say; in the order in which
    they are given out. `unhealthy`: those nobody gets."""

    numa: Mapping[str, tuple[int, ...]]
    unhealthy: frozenset[str] = frozenset()
    prefer: Prefer | None = None

    @property
    def has_locality(self) -> bool:
        return any(self.numa.values())

    def near(self, device: str, mask: int) -> bool:
        return any(mask >> node & 1 for node in self.numa[device])


@dataclass(frozen=True, slots=True)
class DeviceBook:
    """`given`: by pod, container and resource. `reusable`: of the pod that is being let in, by resource."""

    given: Mapping[str, Mapping[str, Mapping[str, frozenset[str]]]] = field(default_factory=dict)
    reusable: tuple[str, Mapping[str, frozenset[str]]] = ("", field(default_factory=dict))

    def taken(self, resource: str) -> frozenset[str]:
        found: set[str] = set()
        for containers in self.given.values():
            for resources in containers.values():
                found |= resources.get(resource, frozenset())
        return frozenset(found)

    def of(self, pod: str, container: str, resource: str) -> frozenset[str]:
        return ((self.given.get(pod) or {}).get(container) or {}).get(resource, frozenset())

    def of_pod(self, pod: str, resource: str) -> frozenset[str]:
        mine = self.given.get(pod) or {}
        return frozenset().union(*(r.get(resource, frozenset()) for r in mine.values()))

    def reusable_by(self, pod: str, resource: str) -> frozenset[str]:
        return self.reusable[1].get(resource, frozenset()) if self.reusable[0] == pod else frozenset()


def device_hints(
    sorts: Mapping[str, DeviceSort],
    book: DeviceBook,
    pod: str,
    container: str | None,
    asked: Mapping[str, int],
    nodes: Sequence[int],
) -> dict[str, list[Hint] | None]:
    """For a container, or a pod as a whole (None). `nodes`: the machine's NUMA nodes."""
    hints: dict[str, list[Hint] | None] = {}
    for resource, count in sorted(asked.items()):
        sort = sorts[resource]
        if not sort.has_locality:
            hints[resource] = None
            continue
        has = book.of_pod(pod, resource) if container is None else book.of(pod, container, resource)
        if has:
            hints[resource] = [] if len(has) != count else hints_over(sort, has, frozenset(), count, nodes)
            continue
        free = _free(sort, book, resource)
        reusable = frozenset[str]() if container is None else book.reusable_by(pod, resource)
        hints[resource] = (
            hints_over(sort, free, reusable, count, nodes) if len(free | reusable) >= count else []
        )
    return hints


def _free(sort: DeviceSort, book: DeviceBook, resource: str) -> frozenset[str]:
    return frozenset(sort.numa) - sort.unhealthy - book.taken(resource)


def hints_over(
    sort: DeviceSort, free: frozenset[str], reusable: frozenset[str], count: int, nodes: Sequence[int]
) -> list[Hint]:
    """Sets of NUMA nodes near enough devices; of those nodes that have any, as a GB200 has dozens without."""
    with_devices = sorted({n for near in sort.numa.values() for n in near} & set(nodes)) or list(nodes)
    size, found = len(with_devices), list[int]()
    tied = [d for d in reusable if sort.numa[d]]
    for mask in masks_over(with_devices):
        if sum(sort.near(d, mask) for d in sort.numa) >= count:
            size = min(size, mask.bit_count())
        if not all(sort.near(d, mask) for d in tied):
            continue
        if len(tied) + sum(sort.near(d, mask) for d in free) >= count:
            found.append(mask)
    return preferred_at(size, found)


def give_devices(
    sort: DeviceSort,
    book: DeviceBook,
    pod: str,
    container: str,
    resource: str,
    count: int,
    nodes: int | None,
    *,
    is_init: bool,
) -> DeviceBook:
    """The book with devices for the container. Raises: Refused."""
    reusable = book.reusable_by(pod, resource)
    if not sort.numa or frozenset(sort.numa) <= sort.unhealthy:
        raise unexpected(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
    chosen = _chosen(sort, _free(sort, book, resource), reusable, count, nodes, resource)
    mine = {name: dict(found) for name, found in (book.given.get(pod) or {}).items()}
    mine.setdefault(container, {})[resource] = chosen
    reusable = reusable | chosen if is_init else reusable - chosen
    before = book.reusable[1] if book.reusable[0] == pod else {}
    return DeviceBook({**book.given, pod: mine}, (pod, {**before, resource: reusable}))


def _chosen(
    sort: DeviceSort,
    free: frozenset[str],
    reusable: frozenset[str],
    count: int,
    nodes: int | None,
    resource: str,
) -> frozenset[str]:
    order = list(sort.numa)
    chosen = [d for d in order if d in reusable][:count]
    if len(chosen) == count:
        return frozenset(chosen)
    needed = count - len(chosen)
    if len(free) < needed:
        raise unexpected(
            f"requested number of devices unavailable for {resource}. Requested: {needed}, Available: {len(free)}"
        )
    aligned, others, anywhere = by_affinity(sort, free, nodes)
    if needed < len(aligned):
        return frozenset([*chosen, *_some(sort, aligned, chosen, count)][:count])
    chosen += aligned
    rest = _some(sort, [d for d in order if d in free], chosen, count) if len(chosen) < count else []
    for part in (rest if sort.prefer else [], others, anywhere):
        chosen += [d for d in part if d not in chosen]
    return frozenset(chosen[:count])


def _some(sort: DeviceSort, there: Sequence[str], chosen: Sequence[str], count: int) -> list[str]:
    """Those that the plugin prefers of what is there, then the rest in order."""
    first: list[str] = []
    if sort.prefer is not None:
        offered = [d for d in sort.numa if d in {*there, *chosen}]
        preferred = sort.prefer(offered, list(chosen), count)
        first = [d for d in preferred if d in there and d not in chosen]
    return [*first, *(d for d in there if d not in first and d not in chosen)]


def by_affinity(
    sort: DeviceSort, free: frozenset[str], nodes: int | None
) -> tuple[list[str], list[str], list[str]]:
    """Free devices near these nodes, near others, and such that do not say where they are."""
    order = [d for d in sort.numa if d in free]
    if nodes is None or not sort.has_locality:
        return [], [], order
    return (
        [d for d in order if sort.near(d, nodes)],
        [d for d in order if sort.numa[d] and not sort.near(d, nodes)],
        [d for d in order if not sort.numa[d]],
    )


def take_back_devices(book: DeviceBook, pod: str, container: str) -> DeviceBook:
    """The book once a container is gone. What later containers of its pod use again stays theirs."""
    mine = {name: found for name, found in (book.given.get(pod) or {}).items() if name != container}
    given = {name: found for name, found in book.given.items() if name != pod}
    return DeviceBook({**given, pod: mine} if mine else given, book.reusable)


# NVIDIA's plugin


Scores = tuple[tuple[int, ...], ...]
"""How near each two GPUs are: by the kind of their connection."""


def best_effort(scores: Scores, order: Sequence[str]) -> Prefer:
    """go-gpuallocator's best-effort policy: split what there is into sets of that size so that the sum of scores within
    sets is greatest, and take the set with the greatest: others keep good sets, too."""
    index = {device: i for i, device in enumerate(order)}

    def prefer(available: Sequence[str], required: Sequence[str], size: int) -> Sequence[str]:
        there = sorted(index[d] for d in available if d in index)
        must = frozenset(index[d] for d in required if d in index)
        found = best_set(scores, tuple(there), must, size)
        return [order[i] for i in found]

    return prefer


# From here on, numbers are none of devices: they fill the last set up.
_PADDING = 1 << 16


@lru_cache(maxsize=4096)
def best_set(scores: Scores, available: tuple[int, ...], must: frozenset[int], size: int) -> tuple[int, ...]:
    """Empty where there are too few, or more must be in it than fit."""
    if size <= 0 or len(available) < size or len(must) > size or not must <= set(available):
        return ()
    padding = tuple(range(_PADDING, _PADDING + -len(available) % size))
    sets = _best_partition(scores, available + padding, must, size, {})[1]
    able = [s for s in sets if must <= set(s) and s[-1] < _PADDING]
    return max(able, key=lambda s: _score(scores, s), default=())


Partition = tuple[int, tuple[tuple[int, ...], ...]]
_IMPOSSIBLE = -1


def _best_partition(
    scores: Scores,
    left: tuple[int, ...],
    must: frozenset[int],
    size: int,
    known: dict[tuple[int, ...], Partition],
) -> Partition:
    """The first of the best partitions in the order of their members. All padding is in one set, and nothing that must
    be together in that."""
    if not left:
        return 0, ()
    if left in known:
        return known[left]
    best: Partition = (_IMPOSSIBLE, ())
    padding = sum(i >= _PADDING for i in left)
    for others in combinations(left[1:], size - 1):
        chosen = (left[0], *others)
        padded = sum(i >= _PADDING for i in chosen)
        if padded not in (0, padding) or (must and _splits(must, chosen, padded)):
            continue
        rest = tuple([i for i in left if i not in chosen])
        score, sets = _best_partition(scores, rest, must, size, known)
        here = score + _score(scores, chosen)
        if score != _IMPOSSIBLE and here > best[0]:
            best = (here, (chosen, *sets))
    known[left] = best
    return best


def _splits(must: frozenset[int], chosen: Sequence[int], padded: int) -> bool:
    inside = must & set(chosen)
    return bool(inside) and (inside != must or padded > 0)


def _score(scores: Scores, chosen: Sequence[int]) -> int:
    return sum(scores[a][b] for a, b in combinations(chosen, 2) if b < _PADDING)
