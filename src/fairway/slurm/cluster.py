"""The whole state of one Slurm cluster: slurmctld's records, nothing derived elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairway.slurm.conf import Configuration
from fairway.slurm.model.association import Accounts
from fairway.slurm.model.job import Job
from fairway.slurm.model.node import Node
from fairway.slurm.model.partition import License, Partition, Reservation


@dataclass(slots=True)
class Cluster:
    """One writer (the controller); commands read. `jobs` in order of job id as given."""

    conf: Configuration
    accounts: Accounts
    nodes: list[Node] = field(default_factory=list)
    node_index: dict[str, int] = field(default_factory=dict)
    partitions: dict[str, Partition] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    arrays: dict[int, list[int]] = field(default_factory=dict)
    """Array job id → job ids of its records, started ones first."""
    reservations: dict[str, Reservation] = field(default_factory=dict)
    licenses: dict[str, License] = field(default_factory=dict)
    next_job_id: int = 1
    boot_time: int = 0
    archive: list[dict[str, object]] = field(default_factory=list)
    """slurmdbd's job table: a row per run (accounting.py)."""
