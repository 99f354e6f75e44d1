"""Partitions, reservations and licences."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairway.slurm.words.durations import INFINITE


@dataclass(slots=True)
class Partition:
    """A partition. Times in minutes (`INFINITE`: none), memory in MiB, grace in seconds."""

    name: str
    nodes: tuple[int, ...]
    nodes_text: str = ""
    default: bool = False
    state: str = "UP"
    """UP, DOWN (queues, does not start), DRAIN (starts, does not queue), INACTIVE."""
    max_time: int = INFINITE
    default_time: int | None = None
    min_nodes: int = 0
    max_nodes: int = INFINITE
    max_cpus_per_node: int = INFINITE
    priority_job_factor: int = 1
    priority_tier: int = 1
    oversubscribe: str = "NO"
    """NO, EXCLUSIVE, YES, FORCE."""
    max_share: int = 1
    preempt_mode: str | None = None
    grace_time: int = 0
    def_mem_per_cpu: int | None = None
    def_mem_per_node: int | None = None
    max_mem_per_cpu: int | None = None
    max_mem_per_node: int | None = None
    allow_accounts: tuple[str, ...] | None = None
    deny_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] | None = None
    deny_qos: tuple[str, ...] = ()
    allow_groups: tuple[str, ...] | None = None
    allow_nodes: tuple[str, ...] | None = None
    qos: str = ""
    exclusive_user: bool = False
    hidden: bool = False
    root_only: bool = False
    require_reservation: bool = False
    lln: bool = False
    over_time_limit: int | None = None
    tres_billing_weights: dict[str, float] = field(default_factory=dict)
    alternate: str = ""
    suspend_time: int | None = None
    disable_root_jobs: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    """Every key of its line as written (lower case)."""


@dataclass(slots=True)
class Reservation:
    """A reservation of nodes, cores or licences for users or accounts. Seconds since 1970."""

    name: str
    start: int
    end: int
    nodes: tuple[int, ...]
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """MAINT, FLEX, IGNORE_JOBS, DAILY, WEEKLY, ANY_NODES, PART_NODES, OVERLAP, SPEC_NODES, PURGE_COMP, …"""
    partition: str = ""
    features: str = ""
    licenses: dict[str, int] = field(default_factory=dict)
    core_count: int = 0
    cores: dict[int, int] = field(default_factory=dict)
    """Node → bitmap of its reserved cores; empty: whole nodes."""
    watts: str = "n/a"
    duration: int = 0
    purge_after_s: int = 0
    idle_since: int = 0


@dataclass(slots=True)
class License:
    """A cluster-wide licence."""

    name: str
    total: int
    used: int = 0
    reserved: int = 0
    remote: bool = False
