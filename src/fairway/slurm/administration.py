"""What administrators ask of nodes, partitions and reservations, and what happens to nodes by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairway.slurm.clockwork import SECOND
from fairway.slurm.conf.partitions import set_field
from fairway.slurm.lifecycle import Behaviour
from fairway.slurm.model.job import Job
from fairway.slurm.model.node import Node
from fairway.slurm.model.partition import Partition, Reservation
from fairway.slurm.steering import Steering
from fairway.slurm.words import durations
from fairway.slurm.words.errors import SlurmError

RESERVATIONS_EVERY_S = 5
"""How often slurmctld looks which reservations are in force (controller.c, last_resv_time)."""
RETURN_US = 500_000
"""A node set down whose slurmd lives answers the next message and, with ReturnToService=2, is up again."""
LAUNCH_FAILS_US = 11 * SECOND
"""Until the launch of a job on a dead node is given up; measured on the recorded cluster."""
DEAD_AFTER_S = 15
"""A node that does not answer is set down SlurmdTimeout and about half of PING_INTERVAL's slack later; measured."""


class Slurmctld(Steering):
    """The whole controller."""

    def update_node(self, names: Iterable[str], changes: Mapping[str, Any], user: str = "root") -> None:
        """`changes`: state, reason, weight, features, active_features, comment, extra, cpu_bind, gres.

        A node whose state may not change keeps it, the others change; what was refused last is told.
        Raises: SlurmError. Source: node_mgr.c, update_node.
        """
        if not self.cluster.is_administrator(user):
            raise SlurmError("ACCESS_DENIED")
        asked, refused, nodes = dict(changes), "", []
        for name in names:
            if name not in self.cluster.node_index:
                refused = "INVALID_NODE_NAME"
                break
            node = self._node(name)
            nodes.append(node)
            refused = self._set_features(node, asked) or refused
            for fact in ("comment", "extra", "cpu_bind"):
                if asked.get(fact) is not None:
                    setattr(node, fact, asked[fact])
            refused = self._set_condition(node, asked, user) or refused
        refused = refused or self._set_facts(nodes, asked)
        self.changed()
        if refused:
            raise SlurmError(refused)

    def _set_condition(self, node: Node, asked: Mapping[str, Any], user: str) -> str:
        """State and reason; a node that is neither down nor drained afterwards has no reason."""
        state, reason = str(asked.get("state") or "").upper(), asked.get("reason") or ""
        same = not state or state == node.state == "DOWN" or state in node.flags & {"DRAIN", "FAIL"}
        if same and reason == node.reason:
            return ""
        if reason:
            node.reason, node.reason_user, node.reason_time = reason, user, self.now
        refused = "INVALID_NODE_STATE" if state and not self._may_become(node, state) else ""
        if state and not refused:
            self._set_state(node, state)
            self._note(node, state)
        if node.state != "DOWN":
            _forgive(node)
        return refused

    def _may_become(self, node: Node, state: str) -> bool:
        """Source: node_mgr.c, _valid_node_state_change; from scontrol a node is ALLOCATED only by its jobs."""
        if state in ("DOWN", "DRAIN", "FAIL", "NORESP", "UNDRAIN"):
            return True
        if state.startswith("POWER_"):
            return self.cluster.conf.saves_power
        if state == "RESUME":
            held = {"DRAIN", "FAIL", "REBOOT_REQUESTED", "POWERING_DOWN"}
            return node.state in ("DOWN", "FUTURE") or bool(node.flags & held)
        if state == "CANCEL_REBOOT":
            return "REBOOT_REQUESTED" in node.flags
        if state in ("IDLE", "FUTURE"):
            return node.state == "DOWN" or (node.state == "IDLE" and not node.allocated)
        return False

    def _node(self, name: str) -> Node:
        if name not in self.cluster.node_index:
            raise SlurmError("INVALID_NODE_NAME")
        return self.cluster.nodes[self.cluster.node_index[name]]

    def _set_features(self, node: Node, asked: dict[str, Any]) -> str:
        """Active features are a subset of the available ones; refused for one node, they change on none after it."""
        if asked.get("features") is None and asked.get("active_features") is None:
            return ""
        refused = ""
        active = asked.get("active_features")
        available = asked.get("features")
        if not set(node.active_features if active is None else active) <= set(
            node.features if available is None else available
        ):
            asked["features"] = asked["active_features"] = None
            return "ACTIVE_FEATURE_NOT_SUBSET"
        if available is not None:
            node.features = tuple(available)
            if active is None:
                asked["active_features"] = active = available
        if active is not None:
            node.active_features = tuple(active)
        self.cluster.facts_changed()
        return refused

    def _set_facts(self, nodes: list[Node], asked: Mapping[str, Any]) -> str:
        """GRES and weight, when nothing before was refused. How many devices there are is gres.conf's word."""
        if asked.get("gres") is not None:
            for node in nodes:
                if not _has_gres(node, asked["gres"]):
                    return "INVALID_GRES"
        if asked.get("weight") is not None:
            for node in nodes:
                node.weight = int(asked["weight"])
                self.cluster.weights[node.index] = node.weight
            self.cluster.facts_changed()
        return ""

    def _set_state(self, node: Node, state: str) -> None:
        if state in ("DRAIN", "FAIL"):
            node.flags -= {"DRAIN", "FAIL"}
            node.flags.add(state)
        elif state == "DOWN":
            self._down(node)
        elif state == "UNDRAIN":
            node.flags.discard("DRAIN")
        elif state == "NORESP":
            node.flags.add("NOT_RESPONDING")
        elif state in ("RESUME", "IDLE"):
            node.flags -= {"DRAIN", "FAIL"}
            if state == "RESUME":
                node.flags -= {"REBOOT_REQUESTED", "REBOOT_ISSUED"}
            if node.state in ("DOWN", "FUTURE"):
                node.state = "IDLE"
                node.flags.discard("NOT_RESPONDING")  # it is asked to register, and does
        elif state == "FUTURE":
            self._down(node)
            node.state = "FUTURE"
            node.flags.clear()
        elif state == "POWER_UP":
            node.flags.discard("POWERED_DOWN")
        elif state.startswith("POWER_DOWN"):
            node.flags.add("POWERED_DOWN")
        else:
            node.flags -= {"REBOOT_REQUESTED", "REBOOT_ISSUED"}

    def _down(self, node: Node) -> None:
        """Its jobs are requeued or fail; with ReturnToService=2 it comes back when its slurmd is heard of."""
        had_jobs = bool(node.allocated)
        node.state = "DOWN"
        self.cluster.touch(node)
        for job_id in list(node.allocated):
            self._lost(self.cluster.jobs[job_id])
        conf = self.cluster.conf
        if conf.number("ReturnToService", 0) == 2 and node.index not in self.dead_nodes:
            ping = conf.number("SlurmdTimeout", 300) * SECOND // 3
            self.clock.at(self.now_us + (RETURN_US if had_jobs else ping), "back", node.index)

    def _lost(self, job: Job, *, wait: bool = True) -> None:
        if job.batch and job.requeue:
            self._requeue(job, "NODE_FAIL", wait=wait, reason="NodeDown")
        else:
            self._end(job, "NODE_FAIL", reason="NodeDown")

    def script_lost(self, job_id: int) -> None:
        """Its node answers again and knows nothing of the script: as after a reboot, it is requeued or fails."""
        self.behaviours[job_id] = Behaviour()  # nothing is left to be killed
        self._lost(self.cluster.jobs[job_id])

    def _on_back(self, index: int) -> None:
        node = self.cluster.nodes[index]
        if node.state == "DOWN" and index not in self.dead_nodes:
            node.state = "IDLE"
            node.flags.discard("NOT_RESPONDING")
            _forgive(node)
            self._note(node)
            self.changed()

    def lose_node(self, name: str) -> None:
        """Its slurmd dies; slurmctld notices only later."""
        node = self._node(name)
        self.dead_nodes.add(node.index)
        for job_id in node.allocated:
            self.cluster.jobs[job_id].version += 1
        after = self.cluster.conf.number("SlurmdTimeout", 300) + DEAD_AFTER_S
        self.clock.at(self.now_us + after * SECOND, "dead", node.index)

    def revive_node(self, name: str) -> None:
        """Its slurmd is there again and registers."""
        node = self._node(name)
        self.dead_nodes.discard(node.index)
        if self.cluster.conf.number("ReturnToService", 0) >= 1:
            self.clock.at(self.now_us + RETURN_US, "back", node.index)

    def _on_dead(self, index: int) -> None:
        node = self.cluster.nodes[index]
        if index not in self.dead_nodes or node.state == "DOWN":
            return
        node.state = "DOWN"
        node.flags.add("NOT_RESPONDING")
        node.reason, node.reason_user, node.reason_time = "Not responding", "slurm", self.now
        for job_id in list(node.allocated):
            job = self.cluster.jobs[job_id]
            self._lost(job, wait=bool(self.behaviours.get(job_id)))
        self._note(node)
        self.changed()

    def update_partition(self, name: str, changes: Mapping[str, str], user: str = "root") -> None:
        """`changes`: keys as in slurm.conf. Raises: SlurmError."""
        if not self.cluster.is_administrator(user):
            raise SlurmError("ACCESS_DENIED")
        part = self.cluster.partitions.get(name)
        if part is None:
            raise SlurmError("INVALID_PARTITION_NAME")
        self._set_partition(part, changes)

    def _set_partition(self, part: Partition, changes: Mapping[str, str]) -> None:
        """Everything that can be set is; what was refused last is told. (update_part in partition_mgr.c.)

        Nodes are looked at last: one that is unknown leaves the partition without any, and without one an earlier
        refusal is forgotten.
        """
        if not all("=" in word for word in changes.get("tresbillingweights", "").split(",") if word):
            raise SlurmError("INVALID_TRES_BILLING_WEIGHTS")
        refused = ""
        for key, value in sorted(
            changes.items(), key=lambda change: (change[0] == "nodes", change[0] == "defaulttime")
        ):
            if key == "qos" and value and value not in self.cluster.accounts.qos:
                refused = "INVALID_QOS"
            elif key == "jobdefaults" and not _are_job_defaults(value):
                refused = "INVALID_JOB_DEFAULTS"
            elif key == "defaulttime" and (durations.minutes(value) or 0) > part.max_time:
                continue
            elif key == "nodes":
                refused = self._set_partition_nodes(part, value)
            else:
                set_field(part, key, value, self.cluster.node_index, self.cluster.conf.node_sets)
            if key == "default" and part.default:
                for other in self.cluster.partitions.values():
                    other.default = other is part
        self._partitions_changed()
        if refused:
            raise SlurmError(refused)

    def _set_partition_nodes(self, part: Partition, value: str) -> str:
        before = part.nodes_text
        wrong = set_field(part, "nodes", value, self.cluster.node_index, self.cluster.conf.node_sets)
        if wrong:
            part.nodes, part.nodes_text = (), before
        return "INVALID_NODE_NAME" if wrong else ""

    def _partitions_changed(self) -> None:
        self.cluster.facts_changed()
        for job in self.cluster.pending.values():
            job.needs.clear()
        self.totals = self._totals()
        self.cluster.forget_policies()
        self.changed()

    def create_partition(self, name: str, changes: Mapping[str, str], user: str = "root") -> None:
        """It is there also where something of it was refused, but for weights that are none. Raises: SlurmError."""
        if not self.cluster.is_administrator(user):
            raise SlurmError("ACCESS_DENIED")
        if name in self.cluster.partitions:
            raise SlurmError("INVALID_PARTITION_NAME")
        part = self.cluster.partitions[name] = Partition(name, (), min_nodes=1)
        try:
            self._set_partition(part, changes)
        except SlurmError as refused:
            if refused.name == "INVALID_TRES_BILLING_WEIGHTS":
                del self.cluster.partitions[name]
            raise

    def reconfigure(self, partitions: Iterable[Partition], user: str = "root") -> None:
        """Partitions are as the configuration has them; jobs of one that is no more end. Raises: SlurmError."""
        if not self.cluster.is_administrator(user):
            raise SlurmError("USER_ID_MISSING")
        cluster = self.cluster
        found = {part.name: part for part in partitions}
        for job in [*cluster.pending.values(), *cluster.running.values()]:
            if all(name in found for name in job.partitions):
                continue
            if job.pending:
                self._end(job, "CANCELLED", kill=True)
            else:
                self._end(job, "NODE_FAIL", kill=True, reason="PartitionDown")
        cluster.partitions = found
        self._partitions_changed()

    def delete_partition(self, name: str, user: str = "root") -> None:
        """Raises: SlurmError PARTITION_IN_USE."""
        cluster = self.cluster
        if not self.cluster.is_administrator(user):
            raise SlurmError("ACCESS_DENIED")
        if name not in cluster.partitions:
            raise SlurmError("INVALID_PARTITION_NAME")
        if any(
            name in job.partitions for group in (cluster.pending, cluster.running) for job in group.values()
        ):
            raise SlurmError("PARTITION_IN_USE")
        del cluster.partitions[name]

    def create_reservation(self, reservation: Reservation, user: str = "root") -> str:
        """Its nodes and times are set by the caller; the name is made up where it is ''. Raises: SlurmError."""
        cluster = self.cluster
        if not self.cluster.is_operator(user):
            raise SlurmError("ACCESS_DENIED")
        if not reservation.users and not reservation.accounts and not reservation.groups:
            raise SlurmError("RESERVATION_EMPTY")
        if reservation.end <= reservation.start or reservation.end <= self.now:
            raise SlurmError("INVALID_TIME_VALUE")
        if not {"MAINT", "OVERLAP"} & set(reservation.flags):
            self._check_overlap(reservation)
        cluster.reservation_count += 1
        if not reservation.name:
            first = (reservation.accounts or reservation.users or reservation.groups)[0].lstrip("-")
            reservation.name = f"{first}_{cluster.reservation_count}"
        if reservation.name in cluster.reservations:
            raise SlurmError("RESERVATION_NAME_DUP")
        cluster.reservations[reservation.name] = reservation
        self._watch_reservation(reservation)
        return reservation.name

    def _check_overlap(self, new: Reservation) -> None:
        nodes = set(new.nodes)
        for other in self.cluster.reservations.values():
            if other.name == new.name or {"MAINT", "OVERLAP"} & set(other.flags):
                continue
            if not (new.start < other.end and other.start < new.end):
                continue
            if new.cores and other.cores:
                if any(cores & new.cores.get(node, 0) for node, cores in other.cores.items()):
                    raise SlurmError("RESERVATION_OVERLAP")
            elif nodes & set(other.nodes):
                raise SlurmError("RESERVATION_OVERLAP")
        if "IGNORE_JOBS" not in new.flags and not new.cores:
            for job in self.cluster.running.values():
                if job.end > new.start and any(share.node in nodes for share in job.shares):
                    raise SlurmError("NODES_BUSY")

    def _watch_reservation(self, reservation: Reservation) -> None:
        for when in (reservation.start, reservation.end):
            since = max(when - 1, self.now) - self.cluster.boot_time
            shown = self.cluster.boot_time + (since // RESERVATIONS_EVERY_S + 1) * RESERVATIONS_EVERY_S
            self.clock.at(max(shown, when) * SECOND, "reservation", reservation.name)
        self.changed()

    def _on_reservation(self, name: str) -> None:
        """It begins or ends: maintenance shows on its nodes; a daily or weekly one moves on."""
        found = self.cluster.reservations.get(name)
        if found is None:
            return
        active = found.start <= self.now < found.end
        for index in found.nodes:
            flags = self.cluster.nodes[index].flags
            if active:
                flags |= {"MAINT", "RESERVED"} if "MAINT" in found.flags else {"RESERVED"}
            else:
                flags -= {"MAINT", "RESERVED"}
        if self.now >= found.end:
            step = {"HOURLY": 3600, "DAILY": 86400, "WEEKLY": 7 * 86400}
            again = next((step[flag] for flag in found.flags if flag in step), 0)
            if again:
                found.start, found.end = found.start + again, found.end + again
                self._watch_reservation(found)
            elif not any(job.reservation == name for job in self.cluster.running.values()):
                self._end_reservation(found)
        self.changed()

    def update_reservation(self, name: str, changes: Mapping[str, Any], user: str = "root") -> None:
        """`changes`: fields of Reservation. Raises: SlurmError."""
        if not self.cluster.is_operator(user):
            raise SlurmError("ACCESS_DENIED")
        found = self.cluster.reservations.get(name)
        if found is None:
            raise SlurmError("RESERVATION_INVALID")
        for key, value in changes.items():
            setattr(found, key, value)
        self._watch_reservation(found)

    def delete_reservation(self, name: str, user: str = "root") -> None:
        """Raises: SlurmError RESERVATION_BUSY while a job of it waits or runs."""
        cluster = self.cluster
        if not self.cluster.is_operator(user):
            raise SlurmError("ACCESS_DENIED")
        found = cluster.reservations.get(name)
        if found is None:
            raise SlurmError("RESERVATION_INVALID")
        if any(
            job.reservation == name for group in (cluster.running, cluster.pending) for job in group.values()
        ):
            raise SlurmError("RESERVATION_BUSY")
        self._end_reservation(found)
        self.changed()

    def _end_reservation(self, found: Reservation) -> None:
        """Jobs that asked for it have none any more, and those that wait are held (_clear_job_resv)."""
        cluster = self.cluster
        del cluster.reservations[found.name]
        for index in found.nodes:
            cluster.nodes[index].flags -= {"MAINT", "RESERVED"}
        for job in cluster.jobs.values():
            if "MAINT" in found.flags and "maintenance" in job.reason_detail:
                job.reason, job.reason_detail = "None", ""
            if job.reservation != found.name:
                continue
            job.reservation = ""
            if job.pending and "NO_HOLD_JOBS_AFTER_END" not in found.flags and job.reason != "JobHeldUser":
                job.priority, job.reason, job.reason_detail = 0, "ReservationDeleted", ""


def _forgive(node: Node) -> None:
    if not node.flags & {"DRAIN", "FAIL"}:
        node.reason = node.reason_user = ""
        node.reason_time = 0


def _are_job_defaults(text: str) -> bool:
    pairs = [word.partition("=") for word in text.split(",") if word]
    return all(
        key.lower() in ("defcpupergpu", "defmempergpu") and value.isdecimal() for key, _, value in pairs
    )


def _has_gres(node: Node, text: str) -> bool:
    """Are the GRES of a text (`gpu:a100:4`) as many as the node's?"""
    counts: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        words = part.split("(")[0].split(":")
        count = words[-1] if len(words) > 1 and words[-1].isdecimal() else "1"
        counts[words[0]] = counts.get(words[0], 0) + int(count[:9])
    return counts == {gres.name: gres.count for gres in node.conf.gres}
