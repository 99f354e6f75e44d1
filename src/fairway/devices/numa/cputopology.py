"""Which CPUs does a machine have, and which of them share a core, a cache, a socket, a NUMA node?

Source: pkg/kubelet/cm/cpumanager/topology/topology.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

Cpus = frozenset[int]
NO_CPUS: Final[Cpus] = frozenset()


class Cpu(NamedTuple):
    """Where a CPU (a hardware thread) is."""

    numa: int
    socket: int
    core: int
    uncore: int = 0


@dataclass(frozen=True)
class CpuTopology:
    """CPUs by their numbers. Counts are of the whole machine."""

    cpus: Mapping[int, Cpu]
    sockets: int
    cores: int
    caches: int = 1
    numa: int = 1

    @cached_property
    def numa_nodes(self) -> tuple[int, ...]:
        return tuple(sorted({c.numa for c in self.cpus.values()}))

    @property
    def per_core(self) -> int:
        return len(self.cpus) // self.cores if self.cores else 0

    @property
    def per_socket(self) -> int:
        return len(self.cpus) // self.sockets if self.sockets else 0

    @property
    def per_cache(self) -> int:
        return len(self.cpus) // self.caches if self.caches else 0

    def within(self, numa_nodes: Iterable[int]) -> Cpus:
        wanted = set(numa_nodes)
        return frozenset(n for n, c in self.cpus.items() if c.numa in wanted)

    def cores_of(self, cpus: Iterable[int]) -> Cpus:
        """All CPUs of the cores that these are of."""
        wanted = {self.cpus[n].core for n in cpus if n in self.cpus}
        return frozenset(n for n, c in self.cpus.items() if c.core in wanted)

    def sockets_of(self, numa_nodes: Iterable[int]) -> set[int]:
        wanted = set(numa_nodes)
        return {c.socket for c in self.cpus.values() if c.numa in wanted}

    def within_sockets(self, sockets: Iterable[int]) -> Cpus:
        wanted = set(sockets)
        return frozenset(n for n, c in self.cpus.items() if c.socket in wanted)


def regular_topology(
    sockets: int, numa_per_socket: int, cores_per_numa: int, threads: int, caches: int = 1
) -> CpuTopology:
    """A machine as Linux numbers it: cores of the first NUMA node, of the second, …, then their second threads.
    `caches`: last-level caches of a NUMA node."""
    numa_nodes = sockets * numa_per_socket
    cores = numa_nodes * cores_per_numa
    found = {}
    for thread in range(threads):
        for core in range(cores):
            numa, inside = divmod(core, cores_per_numa)
            cache = numa * caches + inside * caches // cores_per_numa
            found[thread * cores + core] = Cpu(numa, numa // numa_per_socket, core, cache)
    return CpuTopology(found, sockets, cores, numa_nodes * caches, numa_nodes)


def cpus_text(cpus: Iterable[int]) -> str:
    """As Linux lists CPUs: `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
