"""The whole state of one Slurm cluster: slurmctld's records, and what is derived from them for speed.

One writer, the controller; commands read. What runs on a node is held twice, in the node's record (for commands) and
as a `Use` (for placing); `take` and `free` change both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairway.slurm.ahead import Ahead
from fairway.slurm.conf import Configuration
from fairway.slurm.limits import Policy, qos_order, settle
from fairway.slurm.model.archive import Archive
from fairway.slurm.model.association import Accounts
from fairway.slurm.model.job import Job
from fairway.slurm.model.node import Node, NodeConf
from fairway.slurm.model.partition import License, Partition, Reservation
from fairway.slurm.placing.need import Need, Use
from fairway.slurm.placing.placing import Fits, Placement
from fairway.slurm.placing.uses import MOST_KINDS, Numbering, Uses, all_uses, bitmap


@dataclass(slots=True)
class Cluster:
    """`jobs` in order of job id as given; `archive`: ended runs as they were (slurmdbd's job table)."""

    conf: Configuration
    accounts: Accounts
    nodes: list[Node] = field(default_factory=list)
    node_index: dict[str, int] = field(default_factory=dict)
    partitions: dict[str, Partition] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    arrays: dict[int, list[int]] = field(default_factory=dict)
    """Array job id → job ids of its records, the one of tasks still to start first."""
    behind: dict[int, int] = field(default_factory=dict)
    """Job id of an array's tasks still to start → the job after which they stand in slurmctld's list."""
    reservations: dict[str, Reservation] = field(default_factory=dict)
    licenses: dict[str, License] = field(default_factory=dict)
    next_job_id: int = 1
    boot_time: int = 0
    archive: Archive = field(default_factory=Archive)
    pending: dict[int, Job] = field(default_factory=dict)
    running: dict[int, Job] = field(default_factory=dict)
    """Running and suspended."""
    fits: Fits = field(default_factory=lambda: Fits(Numbering(())))
    uses: Uses = field(default_factory=lambda: all_uses(Numbering(()), ()))
    ahead: Ahead | None = None
    """When what runs will have ended, as far as the backfill scheduler looked."""
    moved: dict[int, None] = field(default_factory=dict)
    """Jobs that started, ended, or will end at another time, since then."""
    up: int = 0
    """Bitmap of the nodes a job may start on as far as their state goes."""
    idle_state: int = 0
    """Bitmap of the nodes that are not down, drained ones included."""
    reservation_count: int = 0
    """Reservations made so far: nameless ones are numbered by it."""
    planned: int = 0
    """Bitmap of the nodes that show they are planned for."""
    completing: int = 0
    """Bitmap of the nodes where a job is completing."""
    owners: dict[int, str] = field(default_factory=dict)
    """Node → the user of --exclusive=user jobs there."""
    policies: dict[tuple[int, str, str], Policy] = field(default_factory=dict)
    """Whose limits jobs are under, by association, QOS and the partition's QOS; emptied when accounts are edited."""
    sets: dict[Any, Any] = field(default_factory=dict)
    """Sets of nodes once worked out from partitions and features; emptied when those change."""
    needs: dict[tuple[Any, ...], Need] = field(default_factory=dict)
    """What jobs asking alike need in a partition; emptied then, too."""
    facts: int = 0
    """Counts changes of nodes' features and partitions' nodes: what depends on them is worked out anew."""
    backfills: int = 0
    """Counts cycles of the backfill scheduler."""
    het_starts: dict[int, dict[int, int]] = field(default_factory=dict)
    """Heterogeneous job → component → when backfill would start it, since the last even cycle."""
    het_before: dict[int, int] = field(default_factory=dict)
    """Heterogeneous job → when the last of its components would start, as the last even cycle found it."""
    switches: tuple[frozenset[int], ...] = ()
    weights: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def names(self, nodes: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(self.nodes[node].name for node in nodes)

    def counted(self) -> Accounts:
        """The accounts, with all that waits and runs in their counts."""
        settle(self.policies.values())
        return self.accounts

    def forget_policies(self) -> None:
        """Limits, or whose they are, are different."""
        self.counted()
        self.policies.clear()

    def policy(self, job: Job, partition: Partition | None) -> Policy:
        """Whose limits the job is under in that partition."""
        key = (job.assoc_id, job.qos, partition.qos if partition else "")
        found = self.policies.get(key)
        if found is None:
            found = self.policies[key] = self._policy(job, partition)
        return found

    def _policy(self, job: Job, partition: Partition | None) -> Policy:
        accounts, enforce = self.accounts, self.conf.enforce
        if "limits" not in enforce:
            return Policy(accounts, (), None)
        part_qos = accounts.qos.get(partition.qos) if partition and partition.qos else None
        return Policy(
            accounts,
            qos_order(accounts.qos.get(job.qos), part_qos),
            accounts.associations.get(job.assoc_id),
            self.conf.tracked,
            "safe" in enforce,
        )

    def is_administrator(self, user: str) -> bool:
        """root, SlurmUser, or a user of AdminLevel=Administrator (validate_super_user)."""
        known = self.accounts.users.get(user)
        return user in ("root", self.conf.get("SlurmUser", "root")) or (
            known is not None and known.admin_level == "Administrator"
        )

    def is_operator(self, user: str) -> bool:
        """An administrator, or a user of AdminLevel=Operator (validate_operator)."""
        known = self.accounts.users.get(user)
        return self.is_administrator(user) or (known is not None and known.admin_level == "Operator")

    def is_in(self, user: str, groups: tuple[str, ...]) -> bool:
        """Only each user's own group is known here: who else is in one is not, and is believed."""
        return user in groups or any(group not in self.accounts.users for group in groups)

    def shows(self, partition: Partition, user: str) -> bool:
        """Is it told to who has not asked for all? (_part_is_visible in partition_mgr.c.)"""
        if self.is_operator(user):
            return True
        groups = partition.allow_groups
        return not partition.hidden and (not groups or self.is_in(user, groups))

    def take(self, job: Job, *, sign: int = 1, cores: bool = True, rest: bool = True) -> None:
        """The job's shares become used (sign -1: free). `cores` only, or the `rest` (memory, GRES) only."""
        self.moved[job.job_id] = None
        for share in job.shares:
            node = self.nodes[share.node]
            if cores:
                node.used_cores = (
                    node.used_cores | share.cores if sign > 0 else node.used_cores & ~share.cores
                )
                node.used_cpus += sign * share.cpus
            if rest:
                node.used_mem += sign * share.mem
                for name, bits in share.gres.items():
                    held = node.used_gres.get(name, 0)
                    node.used_gres[name] = held | bits if sign > 0 else held & ~bits
            self.uses.put(share.node, use_of(node))

    def listed(self) -> list[Job]:
        """Records in the order of the controller's list: a task that was split off has its array's place, and the
        array goes to the end (job_array_split)."""
        chains = {
            ids[0]: [at for at in ids if at in self.jobs] for ids in self.arrays.values() if len(ids) > 1
        }
        place: dict[int, int] = {}
        for chain in chains.values():
            place.update(zip(chain, chain[1:] + chain[:1], strict=True))
        return [self.jobs[place.get(at, at)] for at in self.jobs] if place else list(self.jobs.values())

    def nodes_of(self, part: Partition) -> int:
        """The partition's nodes as a bitmap."""
        found: int | None = self.sets.get(part.name)
        if found is None:
            found = self.sets[part.name] = bitmap(part.nodes)
        return found

    def cpus_of(self, part: Partition) -> int:
        """All CPUs of the partition's nodes."""
        found: int | None = self.sets.get((part.name,))
        if found is None:
            found = self.sets[(part.name,)] = sum(self.nodes[node].conf.cpus for node in part.nodes)
        return found

    def facts_changed(self) -> None:
        """Nodes' features or weights, or partitions' nodes, are different."""
        self.facts += 1
        self.sets.clear()
        self.needs.clear()
        self.fits.runs.clear()

    def touch(self, node: Node) -> None:
        """Its state or flags changed, or what completes there."""
        bit = 1 << node.index
        self.up = self.up | bit if node.available else self.up & ~bit
        self.idle_state = self.idle_state | bit if node.state == "IDLE" else self.idle_state & ~bit
        if node.owner:
            self.owners[node.index] = node.owner
        else:
            self.owners.pop(node.index, None)
        self.completing = self.completing | bit if node.completing else self.completing & ~bit

    def tidy(self) -> None:
        """Number kinds of uses anew when there are many."""
        numbering = self.fits.numbering
        if len(numbering.examples) > MOST_KINDS:
            numbering.forget()
            self.fits.forget()
            self.uses = all_uses(numbering, self.uses.exact)

    def counts_of(self, placement: Placement) -> dict[int, dict[str, int]]:
        """Node → name → how many, of GRES that are only counted."""
        found: dict[int, dict[str, int]] = {}
        for part in placement.parts:
            counted = {gres.name for gres in self.nodes[part.node].conf.gres if not gres.files}
            found[part.node] = {name: bits.bit_count() for name, bits in part.gres if name in counted}
        return found


def use_of(node: Node) -> Use:
    gres = tuple(node.used_gres.get(one.name, 0) for one in node.conf.gres)
    return node.used_cores, node.used_mem, gres


def build_cluster(conf: Configuration, accounts: Accounts, now: int) -> Cluster:
    """All nodes idle and registered, unless their line says State=."""
    cluster = Cluster(conf, accounts, boot_time=now, next_job_id=max(conf.number("FirstJobId", 1), 1))
    for at, node in enumerate(conf.nodes):
        cluster.nodes.append(_node(at, node, now))
        cluster.node_index[node.name] = at
    cluster.partitions = {partition.name: partition for partition in conf.partitions}
    cluster.weights = np.array([node.weight for node in cluster.nodes], dtype=np.int64)
    cluster.fits = Fits(Numbering(tuple(node.conf for node in cluster.nodes)))
    cluster.uses = all_uses(cluster.fits.numbering, (use_of(node) for node in cluster.nodes))
    for made in cluster.nodes:
        cluster.touch(made)
    for part in filter(None, conf.get("Licenses").split(",")):
        name, _, count = part.replace("*", ":").partition(":")
        cluster.licenses[name] = License(name, int(count) if count.isdecimal() else 1)
    leaves = [switch for switch in conf.topology if switch.nodes]
    if len(leaves) > 1 and conf.get("TopologyPlugin") == "topology/tree":
        cluster.switches = tuple(
            frozenset(cluster.node_index[name] for name in leaf.nodes if name in cluster.node_index)
            for leaf in leaves
        )
    return cluster


def _node(at: int, conf: NodeConf, now: int) -> Node:
    node = Node(
        at, conf, conf.weight, conf.features, conf.features, boot_time=now, started=now, last_busy=now
    )
    state = conf.state.split("+")[0]
    if state in ("DOWN", "FUTURE"):
        node.state = state
    elif state in ("DRAIN", "FAIL", "CLOUD"):
        node.flags.add("DRAIN" if state == "DRAIN" else state)
    if "CLOUD" in node.flags:
        node.flags.add("POWERED_DOWN")
    if node.state != "IDLE" or node.flags & {"DRAIN", "FAIL"}:
        node.reason, node.reason_user, node.reason_time = conf.reason, "root" if conf.reason else "", now
    return node


def cluster_tres(nodes: list[Node]) -> dict[str, int]:
    """All these nodes together have."""
    total = {"cpu": 0, "mem": 0, "node": len(nodes)}
    for node in nodes:
        total["cpu"] += node.conf.cpus
        total["mem"] += node.conf.real_memory
        for gres in node.conf.gres:
            total[f"gres/{gres.name}"] = total.get(f"gres/{gres.name}", 0) + gres.count
            for kind in gres.types:
                if kind:
                    name = f"gres/{gres.name}:{kind}"
                    total[name] = total.get(name, 0) + 1
    return total


def billing_of(partition: Partition, tres: dict[str, int], flags: frozenset[str] = frozenset()) -> int:
    """Billing units of these resources: weights of the partition, else CPUs; truncated."""
    weights = partition.tres_billing_weights
    if not weights:
        return tres.get("cpu", 0)
    parts = [weight * tres.get(name, 0) for name, weight in weights.items()]
    return int(max(parts) if "MAX_TRES" in flags else sum(parts))
