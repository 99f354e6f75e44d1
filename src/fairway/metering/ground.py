"""What is metered: machines that were there, and stays on them.

Columns, not rows: a month of a large fleet has millions of stays. Times are µs, from any one origin. GPUs are whole
ones, as floats: a seventh of one is 1/7 here, since it only weighs claims against each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairway.metering.apportion import Floats, Ints

UNKNOWN_USE = -1.0
"""A share of use that nobody measured."""


@dataclass(frozen=True, slots=True)
class Machines:
    """One row per life of a machine: `[start_us, end_us)`, from its launch on; a node only since `ready_us`.

    `system_*` is what the node keeps for itself (capacity less allocatable).
    """

    names: tuple[str, ...]
    instance_types: tuple[str, ...]
    zones: tuple[str, ...]
    capacity_types: tuple[str, ...]
    gpu_models: tuple[str, ...]
    start_us: Ints
    ready_us: Ints
    end_us: Ints
    gpus: Floats
    cpu_milli: Ints
    memory_bytes: Ints
    system_cpu_milli: Ints
    system_memory_bytes: Ints

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class Stays:
    """One row per stretch in which an owner held the same part of one machine: `[start_us, end_us)`.

    `owner` numbers whoever owes it (a pod); who that is, and under which labels, the caller knows.
    `used_sm`, `used_memory`: means of the part of its GPUs that it used, 0 to 1, or `UNKNOWN_USE`.
    """

    machine: Ints
    owner: Ints
    start_us: Ints
    end_us: Ints
    gpus: Floats
    cpu_milli: Ints
    memory_bytes: Ints
    used_sm: Floats
    used_memory: Floats

    def __len__(self) -> int:
        return len(self.machine)
