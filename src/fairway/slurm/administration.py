"""What administrators ask of nodes, partitions and reservations, and what happens to nodes by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairway.slurm.clockwork import SECOND
from fairway.slurm.conf.partitions import set_field
from fairway.slurm.controller import Controller
from fairway.slurm.lifecycle import Behaviour
from fairway.slurm.model.job import Job
from fairway.slurm.model.node import Node
from fairway.slurm.model.partition import Partition, Reservation
from fairway.slurm.words.errors import SlurmError

RETURN_US = 500_000
"""A node set down whose slurmd lives answers the next message and, with ReturnToService=2, is up again."""
LAUNCH_FAILS_US = 11 * SECOND
"""Until the launch of a job on a dead node is given up; measured on the recorded cluster."""
DEAD_AFTER_S = 15
"""A node that does not answer is set down SlurmdTimeout and about half of PING_INTERVAL's slack later; measured."""

_STATES = {
    "DRAIN",
    "DOWN",
    "FAIL",
    "RESUME",
    "UNDRAIN",
    "IDLE",
    "FUTURE",
    "POWER_DOWN",
    "POWER_UP",
    "CANCEL_REBOOT",
}


class Slurmctld(Controller):
    """The whole controller."""

    def update_node(self, names: Iterable[str], changes: Mapping[str, Any], user: str = "root") -> None:
        """`changes`: state, reason, weight, features, active_features, comment. Raises: SlurmError."""
        if not self.cluster.is_administrator(user):
            raise SlurmError("ACCESS_DENIED")
        nodes = [self._node(name) for name in names]
        state = str(changes.get("state") or "").upper()
        if state and state not in _STATES:
            raise SlurmError("INVALID_NODE_STATE")
        for node in nodes:
            if state:
                self._set_state(node, state)
            if changes.get("reason"):
                node.reason, node.reason_user, node.reason_time = changes["reason"], user, self.now
            if state:
                self._note(node)
            self._set_facts(node, changes)
        self.changed()

    def _note(self, node: Node) -> None:
        """Open or close the node's event."""
        self.cluster.touch(node)
        state = "+".join([node.state, *sorted(node.flags & {"DRAIN", "FAIL"})])
        if node.events and not node.events[-1][1]:
            node.events[-1] = (node.events[-1][0], self.now, *node.events[-1][2:])
        if state != "IDLE":
            node.events.append((self.now, 0, state, node.reason, node.reason_user))

    def _node(self, name: str) -> Node:
        if name not in self.cluster.node_index:
            raise SlurmError("INVALID_NODE_NAME")
        return self.cluster.nodes[self.cluster.node_index[name]]

    def _set_facts(self, node: Node, changes: Mapping[str, Any]) -> None:
        if changes.get("weight") is not None:
            node.weight = int(changes["weight"])
            self.cluster.weights[node.index] = node.weight
        self.cluster.facts_changed()
        if changes.get("features") is not None:
            node.features = tuple(changes["features"])
            if changes.get("active_features") is None:
                node.active_features = node.features
        if changes.get("active_features") is not None:
            active = tuple(changes["active_features"])
            if not set(active) <= set(node.features):
                raise SlurmError("ACTIVE_FEATURE_NOT_SUBSET")
            node.active_features = active
        if changes.get("comment") is not None:
            node.comment = changes["comment"]

    def _set_state(self, node: Node, state: str) -> None:
        if state in ("DRAIN", "FAIL"):
            node.flags.add(state)
        elif state == "DOWN":
            self._down(node)
        elif state == "UNDRAIN":
            node.flags.discard("DRAIN")
            _forgive(node)
        elif state == "RESUME":
            if node.state == "IDLE" and not node.flags & {
                "DRAIN",
                "FAIL",
                "REBOOT_REQUESTED",
                "REBOOT_ISSUED",
            }:
                raise SlurmError("INVALID_NODE_STATE")
            node.flags -= {"DRAIN", "FAIL", "REBOOT_REQUESTED", "REBOOT_ISSUED"}
            node.state = "IDLE" if node.state in ("DOWN", "FUTURE") else node.state
            _forgive(node)
        elif state == "IDLE":
            if node.allocated:
                raise SlurmError("INVALID_NODE_STATE")
            node.state = "IDLE"
            _forgive(node)
        elif state == "FUTURE":
            node.state = "FUTURE"
        elif state == "POWER_DOWN":
            node.flags.add("POWERED_DOWN")
        elif state == "POWER_UP":
            node.flags.discard("POWERED_DOWN")
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
        for key, value in changes.items():
            wrong = set_field(part, key, value, self.cluster.node_index, self.cluster.conf.node_sets)
            if wrong:
                raise SlurmError("INVALID_NODE_NAME" if key.lower() == "nodes" else "INVALID_TIME_LIMIT")
        self.cluster.facts_changed()
        for job in self.cluster.pending.values():
            job.needs.pop(part.name, None)
        self.totals = self._totals()
        self.cluster.policies.clear()
        self.changed()

    def create_partition(self, name: str, changes: Mapping[str, str], user: str = "root") -> None:
        """Raises: SlurmError."""
        if not self.cluster.is_administrator(user):
            raise SlurmError("ACCESS_DENIED")
        if name in self.cluster.partitions:
            raise SlurmError("INVALID_PARTITION_NAME")
        part = Partition(name, ())
        self._set_partition(part, changes)
        self.cluster.partitions[name] = part
        self.totals = self._totals()
        self.cluster.policies.clear()

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
        if reservation.name in cluster.reservations:
            raise SlurmError("RESERVATION_NAME_DUP")
        if reservation.end <= reservation.start or reservation.end <= self.now:
            raise SlurmError("INVALID_TIME_VALUE")
        if not reservation.name:
            first = (reservation.users or reservation.accounts)[0].lstrip("-")
            number = 1
            while f"{first}_{number}" in cluster.reservations:
                number += 1
            reservation.name = f"{first}_{number}"
        if not {"MAINT", "OVERLAP"} & set(reservation.flags):
            self._check_overlap(reservation)
        cluster.reservations[reservation.name] = reservation
        self._watch_reservation(reservation)
        return reservation.name

    def _check_overlap(self, new: Reservation) -> None:
        nodes = set(new.nodes)
        for other in self.cluster.reservations.values():
            if other.name == new.name or {"MAINT", "OVERLAP"} & set(other.flags):
                continue
            if new.start < other.end and other.start < new.end and nodes & set(other.nodes):
                raise SlurmError("RESERVATION_OVERLAP")
        if "IGNORE_JOBS" not in new.flags:
            for job in self.cluster.running.values():
                if job.end > new.start and any(share.node in nodes for share in job.shares):
                    raise SlurmError("NODES_BUSY")

    def _watch_reservation(self, reservation: Reservation) -> None:
        for when in (reservation.start, reservation.end):
            self.clock.at(when * SECOND, "reservation", reservation.name)
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
                flags.add("MAINT" if "MAINT" in found.flags else "RESERVED")
            else:
                flags -= {"MAINT", "RESERVED"}
        if self.now >= found.end:
            step = {"HOURLY": 3600, "DAILY": 86400, "WEEKLY": 7 * 86400}
            again = next((step[flag] for flag in found.flags if flag in step), 0)
            if again:
                found.start, found.end = found.start + again, found.end + again
                self._watch_reservation(found)
            elif not any(job.reservation == name for job in self.cluster.running.values()):
                del self.cluster.reservations[name]
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
        """Raises: SlurmError RESERVATION_BUSY while a job of it runs."""
        cluster = self.cluster
        if not self.cluster.is_operator(user):
            raise SlurmError("ACCESS_DENIED")
        found = cluster.reservations.get(name)
        if found is None:
            raise SlurmError("RESERVATION_INVALID")
        if any(job.reservation == name for job in cluster.running.values()):
            raise SlurmError("RESERVATION_BUSY")
        del cluster.reservations[name]
        for index in found.nodes:
            cluster.nodes[index].flags -= {"MAINT", "RESERVED"}
        for job in cluster.pending.values():
            if job.reservation == name:
                job.priority, job.reason = 0, "ReservationDeleted"
            if "maintenance" in job.reason_detail:
                job.reason, job.reason_detail = "None", ""
        self.changed()


def _forgive(node: Node) -> None:
    if not node.flags & {"DRAIN", "FAIL"}:
        node.reason = node.reason_user = ""
        node.reason_time = 0
