"""Which CPUs are a container's own? The CPU manager's policy `static`.

Containers of Guaranteed pods that ask for whole CPUs get some for themselves; all others share the rest. CPUs of init
containers that have ended are used again by the pod's later ones.

Source: pkg/kubelet/cm/cpumanager/policy_static.go, policy_options.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fairway.devices.numa.cpupicking import PickError, distributed, packed
from fairway.devices.numa.cputopology import NO_CPUS, Cpus, CpuTopology
from fairway.devices.numa.hints import Hint, bits_of, masks_over
from fairway.devices.numa.refusals import Refused, unexpected

CPU: Final = "cpu"


@dataclass(frozen=True, slots=True)
class CpuOptions:
    """Of `cpuManagerPolicyOptions`."""

    full_cores: bool = False
    across_numa: bool = False
    by_socket: bool = False
    across_cores: bool = False
    strict_reservation: bool = False
    by_cache: bool = False


@dataclass(frozen=True, slots=True)
class CpuPolicy:
    topology: CpuTopology
    reserved: Cpus = NO_CPUS
    options: CpuOptions = field(default_factory=CpuOptions)

    def start(self) -> CpuBook:
        """Nothing is given out; strictly reserved CPUs are not shared either."""
        every = frozenset(self.topology.cpus)
        return CpuBook(every - self.reserved if self.options.strict_reservation else every)

    def picked(self, free: Cpus, count: int) -> Cpus:
        """Raises: PickError."""
        spread = self.options.across_cores
        if self.options.across_numa:
            group = self.topology.per_core if self.options.full_cores else 1
            return distributed(self.topology, free, count, group, spread=spread)
        return packed(self.topology, free, count, spread=spread, by_cache=self.options.by_cache)


@dataclass(frozen=True, slots=True)
class CpuBook:
    """`shared`: CPUs that nobody has for itself. `given`: by pod and container. `reusable`: of the pod that is being
    let in: CPUs of its init containers."""

    shared: Cpus
    given: Mapping[str, Mapping[str, Cpus]] = field(default_factory=dict)
    reusable: tuple[str, Cpus] = ("", NO_CPUS)

    def reusable_by(self, pod: str) -> Cpus:
        return self.reusable[1] if self.reusable[0] == pod else NO_CPUS


def reserved_cpus(topology: CpuTopology, count: int) -> Cpus:
    """So many of the machine's, those of the first cores."""
    return packed(topology, frozenset(topology.cpus), count)


def cpu_hints(
    policy: CpuPolicy, book: CpuBook, pod: str, asked: Mapping[str, int], count: int
) -> dict[str, list[Hint]] | None:
    """For containers of a pod, with the CPUs each asks for, that need `count` together; None: none of their own."""
    if not count:
        return None
    mine = {name: cpus for name, cpus in (book.given.get(pod) or {}).items() if name in asked}
    if any(len(cpus) != asked[name] for name, cpus in mine.items()):
        return {CPU: []}
    has = NO_CPUS.union(*mine.values())
    if len(has) == count:
        return {CPU: _hints(policy, has, NO_CPUS, count)}
    return {CPU: _hints(policy, book.shared - policy.reserved, book.reusable_by(pod) | has, count)}


def _hints(policy: CpuPolicy, free: Cpus, reusable: Cpus, count: int) -> list[Hint]:
    """Sets of NUMA nodes with enough CPUs; those of the smallest size that the machine allows are preferred."""
    topology = policy.topology
    size, found = len(topology.numa_nodes), list[int]()
    needs = {topology.cpus[n].numa for n in reusable}
    for mask in masks_over(topology.numa_nodes):
        there = topology.within(bits_of(mask))
        if len(there) >= count:
            size = min(size, mask.bit_count())
        # CPUs that are shared and reusable count twice, as upstream counts them.
        enough = len(free & there) + len(reusable) >= count
        if enough and all(mask >> numa & 1 for numa in needs):
            found.append(mask)
    return [Hint(m, m.bit_count() == size or _by_socket(policy, m, size)) for m in found]


def _by_socket(policy: CpuPolicy, mask: int, size: int) -> bool:
    topology = policy.topology
    per_socket = topology.numa // topology.sockets if topology.sockets else 0
    if not policy.options.by_socket or not per_socket:
        return False
    return len(topology.sockets_of(bits_of(mask))) == -(-size // per_socket)


def give_cpus(
    policy: CpuPolicy,
    book: CpuBook,
    pod: str,
    container: str,
    count: int,
    nodes: int | None,
    *,
    is_init: bool,
) -> CpuBook:
    """The book with CPUs for the container. `nodes`: NUMA nodes chosen. `is_init`: it ends before the next begins.

    Raises: Refused.
    """
    if not count:
        return book
    _check_cores(policy, book, count)
    mine = dict(book.given.get(pod) or {})
    reusable = book.reusable_by(pod)
    if container in mine:
        cpus, shared = mine[container], book.shared
    else:
        free = (book.shared - policy.reserved) | reusable
        try:
            cpus = _aligned(policy, free, count, nodes)
        except PickError as short:
            raise unexpected(str(short)) from short
        shared = book.shared - cpus
    mine[container] = cpus
    reusable = reusable | cpus if is_init else reusable - cpus
    return CpuBook(shared, {**book.given, pod: mine}, (pod, reusable))


def _check_cores(policy: CpuPolicy, book: CpuBook, count: int) -> None:
    per_core = policy.topology.per_core
    if not policy.options.full_cores:
        return
    if count % per_core:
        raise Refused(
            "SMTAlignmentError",
            f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {per_core}",
        )
    there = len(book.shared - policy.topology.cores_of(policy.reserved))
    if count > there:
        raise Refused(
            "SMTAlignmentError",
            f"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {there}, "
            f"requested CPUs = {count}, CPUs per core = {per_core}",
        )


def _aligned(policy: CpuPolicy, free: Cpus, count: int, nodes: int | None) -> Cpus:
    """Of these NUMA nodes as far as they have them (their sockets, where aligned by those), then of others."""
    topology, first = policy.topology, NO_CPUS
    if nodes is not None:
        there = topology.within(bits_of(nodes))
        if policy.options.by_socket:
            there = topology.within_sockets(topology.sockets_of(bits_of(nodes)))
        near = free & there
        first = policy.picked(near, min(count, len(near)))
    return first | policy.picked(free - first, count - len(first))


def take_back(book: CpuBook, pod: str, container: str) -> CpuBook:
    """The book once a container is gone. CPUs that others of its pod have stay theirs."""
    mine = dict(book.given.get(pod) or {})
    gone = mine.pop(container, None)
    if gone is None:
        return book
    for others in mine.values():
        gone -= others
    given = {name: cpus for name, cpus in book.given.items() if name != pod}
    return replace(book, shared=book.shared | gone, given={**given, pod: mine} if mine else given)
