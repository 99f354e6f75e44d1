"""Out of which NUMA nodes' memory does a container live? The memory manager's policy `Static`.

Containers of Guaranteed pods get memory and huge pages of a group of NUMA nodes. A node that serves a group of several
serves no other group until all of that is given back.

Source: pkg/kubelet/cm/memorymanager/policy_static.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from fairway.devices.numa.hints import Hint, bits_of, mask_of, masks_over
from fairway.devices.numa.refusals import unexpected

MEMORY: Final = "memory"


class Table(NamedTuple):
    """Bytes of one resource on one NUMA node. `reserved`: given out; `system`: kept for the system."""

    allocatable: int
    free: int
    reserved: int = 0
    system: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class NumaMemory:
    """`group`: the nodes it gives memory together with; itself alone where it gave none."""

    tables: Mapping[str, Table]
    group: tuple[int, ...]
    assignments: int = 0


class Block(NamedTuple):
    """Memory that a container has, of these NUMA nodes together."""

    nodes: tuple[int, ...]
    resource: str
    size: int


@dataclass(frozen=True, slots=True)
class MemoryBook:
    """`given`: blocks by pod and container. `reusable`: of the pod that is being let in, by NUMA nodes and resource:
    what its init containers leave."""

    nodes: Mapping[int, NumaMemory]
    given: Mapping[str, Mapping[str, tuple[Block, ...]]] = field(default_factory=dict)
    reusable: tuple[str, Mapping[tuple[int, str], int]] = ("", field(default_factory=dict))

    def reusable_by(self, pod: str, nodes: int, resource: str) -> int:
        return self.reusable[1].get((nodes, resource), 0) if self.reusable[0] == pod else 0


def fresh_memory(
    sizes: Mapping[int, Mapping[str, int]], system: Mapping[int, Mapping[str, int]]
) -> MemoryBook:
    """A machine that gave nothing out. `sizes`: bytes of memory and huge pages by NUMA node; `system`: kept of them."""
    nodes = {}
    for node, resources in sizes.items():
        huge = sum(size for name, size in resources.items() if name != MEMORY)
        tables = {}
        for name, size in resources.items():
            kept = (system.get(node) or {}).get(name, 0)
            there = size - kept - (huge if name == MEMORY else 0)
            tables[name] = Table(there, there, 0, kept, size)
        nodes[node] = NumaMemory(tables, (node,))
    return MemoryBook(nodes)


def memory_hints(
    book: MemoryBook, pod: str, containers: Iterable[str], asked: Mapping[str, int]
) -> dict[str, list[Hint]] | None:
    """For a container, or several of a pod together. None: no preference."""
    for container in containers:
        blocks = (book.given.get(pod) or {}).get(container)
        if blocks is not None:
            return _again(blocks, asked)
    return hints_for(book, pod, asked) if asked else None


def _again(blocks: tuple[Block, ...], asked: Mapping[str, int]) -> dict[str, list[Hint]] | None:
    """Where it is already."""
    if len(blocks) != len(asked) or any(asked.get(b.resource) != b.size for b in blocks):
        return None
    return {b.resource: [Hint(mask_of(b.nodes), preferred=True)] for b in blocks}


def hints_for(book: MemoryBook, pod: str, asked: Mapping[str, int]) -> dict[str, list[Hint]]:
    """Groups of NUMA nodes that have it all; those of the smallest size that could ever are preferred."""
    numa = sorted(book.nodes)
    size, found = len(numa), list[int]()
    for mask in masks_over(numa):
        group = tuple(bits_of(mask))
        tables = [book.nodes[n].tables for n in group]
        if any(sum(t[r].allocatable for t in tables if r in t) < amount for r, amount in asked.items()):
            continue
        size = min(size, len(group))
        if not _may_serve(book, group):
            continue
        if all(
            sum(t[r].free for t in tables if r in t) + book.reusable_by(pod, mask, r) >= amount
            for r, amount in asked.items()
        ):
            found.append(mask)
    hints = [Hint(mask, mask.bit_count() == size) for mask in found]
    return {resource: list(hints) for resource in asked} if hints else {}


def _may_serve(book: MemoryBook, group: tuple[int, ...]) -> bool:
    if len(group) == 1:
        return len(book.nodes[group[0]].group) == 1
    used = (book.nodes[n].group for n in group if book.nodes[n].assignments)
    return all(len(other) > 1 and tuple(sorted(other)) == group for other in used)


def give_memory(
    book: MemoryBook,
    pod: str,
    container: str,
    asked: Mapping[str, int],
    hint: Hint,
    *,
    is_init: bool,
    init_before: tuple[str, ...] = (),
) -> MemoryBook:
    """The book with memory for the container. `init_before`: the pod's init containers that end before it starts.

    Raises: Refused.
    """
    mine = dict(book.given.get(pod) or {})
    if container in mine:
        return _reused(book, pod, mine[container], is_init=is_init)
    best = _fitting(book, pod, asked, hint)
    group = tuple(bits_of(best))
    nodes = dict(book.nodes)
    blocks = []
    for resource, size in asked.items():
        blocks.append(Block(group, resource, size))
        _take(nodes, group, resource, max(size - book.reusable_by(pod, best, resource), 0))
    mine[container] = tuple(blocks)
    left = {(b.nodes, b.resource): b.size for b in blocks}
    for name in init_before:
        if name in mine:
            mine[name] = _less(mine[name], left)
    book = replace(book, nodes=nodes, given={**book.given, pod: mine})
    return _reused(book, pod, tuple(blocks), is_init=is_init)


def _fitting(book: MemoryBook, pod: str, asked: Mapping[str, int], hint: Hint) -> int:
    """The hinted nodes, or more where they do not have it all."""
    mask, preferred = hint.nodes, hint.preferred
    if mask is None:
        found = hints_for(book, pod, asked)
        if not found:
            raise unexpected(
                "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
            )
        best = _best(found.get(MEMORY, []))
        if best is None or (preferred and not best.preferred):
            raise unexpected("[memorymanager] failed to find the default preferred hint")
        mask, preferred = best.nodes or 0, best.preferred
    tables = [book.nodes[n].tables for n in bits_of(mask)]
    if any(sum(t[r].free for t in tables if r in t) < amount for r, amount in asked.items()):
        wider = [h for h in hints_for(book, pod, asked).get(MEMORY, []) if (h.nodes or 0) & mask == mask]
        best = _best(wider)
        if best is None:
            raise unexpected("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
        if preferred and not best.preferred:
            raise unexpected("[memorymanager] failed to find the extended preferred hint")
        mask = best.nodes or 0
    if not may_give(book, mask):
        raise unexpected("[memorymanager] preferred hint violates NUMA node allocation")
    return mask


def may_give(book: MemoryBook, mask: int) -> bool:
    """Whether these nodes may give together; one of them alone may, whatever it gave before."""
    return mask.bit_count() == 1 or _may_serve(book, tuple(bits_of(mask)))


def _best(hints: list[Hint]) -> Hint | None:
    return min(hints, key=lambda h: (not h.preferred, (h.nodes or 0).bit_count(), h.nodes or 0), default=None)


def _take(nodes: dict[int, NumaMemory], group: tuple[int, ...], resource: str, size: int) -> None:
    for number in group:
        node = nodes[number]
        tables = dict(node.tables)
        table = tables.get(resource)
        if table is not None:
            taken = min(size, max(table.free, 0))
            size -= taken
            tables[resource] = table._replace(free=table.free - taken, reserved=table.reserved + taken)
        nodes[number] = NumaMemory(tables, group, node.assignments + 1)


def _less(blocks: tuple[Block, ...], left: dict[tuple[tuple[int, ...], str], int]) -> tuple[Block, ...]:
    """An init container's blocks without what a later container of its pod takes over, of what is left to take."""
    found = []
    for b in blocks:
        over = min(left.get((b.nodes, b.resource), 0), b.size)
        left[b.nodes, b.resource] = left.get((b.nodes, b.resource), 0) - over
        found.append(b._replace(size=b.size - over))
    return tuple(found)


def _reused(book: MemoryBook, pod: str, blocks: tuple[Block, ...], *, is_init: bool) -> MemoryBook:
    """What the pod's next containers may use again."""
    left = dict(book.reusable[1]) if book.reusable[0] == pod else {}
    for b in blocks:
        at = (mask_of(b.nodes), b.resource)
        left[at] = max(left.get(at, 0), b.size) if is_init else max(left.get(at, 0) - b.size, 0)
    return replace(book, reusable=(pod, left))


def take_back_memory(book: MemoryBook, pod: str, container: str) -> MemoryBook:
    """The book once a container is gone."""
    mine = dict(book.given.get(pod) or {})
    blocks = mine.pop(container, None)
    if blocks is None:
        return book
    nodes = dict(book.nodes)
    for b in blocks:
        size = b.size
        for number in b.nodes:
            node = nodes[number]
            tables = dict(node.tables)
            table = tables[b.resource]
            back = min(size, table.reserved)
            size -= back
            tables[b.resource] = table._replace(free=table.free + back, reserved=table.reserved - back)
            count = node.assignments - 1
            nodes[number] = NumaMemory(tables, node.group if count else (number,), count)
    given = {name: found for name, found in book.given.items() if name != pod}
    return replace(book, nodes=nodes, given={**given, pod: mine} if mine else given)
