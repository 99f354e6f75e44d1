"""A node: what it has, in which state it is, and how much of it is taken."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Gres:
    """One kind of GRES on a node: `types[i]` is device i's type ('' none). `cores[i]`: bitmap of its cores, 0 for any.

    `files` False: only a count, devices have no identity. `links[i][j]`: NVLinks between devices.
    """

    name: str
    types: tuple[str, ...]
    files: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    links: tuple[tuple[int, ...], ...] = ()
    masks: dict[str, int] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def count(self) -> int:
        return len(self.types)

    def mask(self, kind: str) -> int:
        """Bitmap of the devices of a type ('' all)."""
        found = self.masks.get(kind)
        if found is None:
            found = sum(1 << at for at, of in enumerate(self.types) if not kind or of == kind)
            if found:
                self.masks[kind] = found
        return found


@dataclass(frozen=True, slots=True)
class NodeConf:
    """A NodeName line's facts of one node. Memory and disk in MiB."""

    name: str
    cpus: int = 1
    boards: int = 1
    sockets: int = 1
    cores_per_socket: int = 1
    threads: int = 1
    real_memory: int = 1
    tmp_disk: int = 0
    weight: int = 1
    features: tuple[str, ...] = ()
    gres: tuple[Gres, ...] = ()
    gres_text: str = ""
    mem_spec: int = 0
    core_spec: int = 0
    port: int = 6818
    address: str = ""
    state: str = "UNKNOWN"
    reason: str = ""
    tres_weights: str = ""
    cpu_spec: str = ""

    @property
    def cores(self) -> int:
        return self.sockets * self.cores_per_socket


@dataclass(slots=True)
class Node:
    """A node of the cluster. `used_…` is what running jobs hold; `allocated` who they are, in order of start."""

    index: int
    conf: NodeConf
    weight: int
    features: tuple[str, ...]
    active_features: tuple[str, ...]
    state: str = "IDLE"
    """The base state: IDLE, DOWN, UNKNOWN, FUTURE, ERROR; MIXED and ALLOCATED are derived (`shown`)."""
    flags: set[str] = field(default_factory=set)
    """DRAIN FAIL MAINT POWERED_DOWN POWERING_DOWN POWERING_UP REBOOT_REQUESTED REBOOT_ISSUED NOT_RESPONDING …"""
    reason: str = ""
    reason_user: str = ""
    reason_time: int = 0
    boot_time: int = 0
    started: int = 0
    last_busy: int = 0
    comment: str = ""
    extra: str = ""
    cpu_bind: str = ""
    events: list[tuple[int, int, str, str, str]] = field(default_factory=list)
    """(start, end or 0, state, reason, user) of every time it was down, drained or failing."""
    responding: bool = True
    used_cores: int = 0
    used_cpus: int = 0
    used_mem: int = 0
    used_gres: dict[str, int] = field(default_factory=dict)
    """Name → bitmap of devices (of a count without files: that many low bits)."""
    allocated: list[int] = field(default_factory=list)
    completing: list[int] = field(default_factory=list)
    owner: str = ""
    """The user of --exclusive=user jobs here."""
    exclusive: int = 0
    """The job that has all of it."""

    @property
    def name(self) -> str:
        return self.conf.name

    @property
    def shown(self) -> str:
        """The base state as sinfo derives it: ALLOCATED, MIXED, IDLE, DOWN …"""
        if self.state != "IDLE" or not self.allocated:
            return self.state
        usable = self.conf.cpus - self.conf.core_spec * self.conf.threads
        return "ALLOCATED" if self.used_cpus >= usable else "MIXED"

    @property
    def available(self) -> bool:
        """May a job start here now (reservations aside)?"""
        return self.state == "IDLE" and not self.flags & UNAVAILABLE


UNAVAILABLE = frozenset(
    ("DRAIN", "FAIL", "NOT_RESPONDING", "POWERING_DOWN", "REBOOT_REQUESTED", "REBOOT_ISSUED", "INVALID_REG")
)
