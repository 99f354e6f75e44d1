"""Which GPUs of each node? (gres_select_filter_select_and_set.)

The lowest free device first: those near every socket, then those of the sockets whose cores the job has, then any;
with NVLinks the best linked to what is taken already.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairway.slurm.model.node import Gres, NodeConf
from fairway.slurm.placing.fitting import GresFit
from fairway.slurm.placing.need import GresNeed


@dataclass(slots=True)
class _Pick:
    """Devices of one GRES on one node while they are picked."""

    fit: GresFit
    gres: Gres
    conf: NodeConf
    cores: int
    free: int
    taken: int = 0

    def sockets(self, used: bool) -> list[int]:
        span = self.conf.cores_per_socket
        whole = (1 << span) - 1
        if not self.fit.by_socket:
            return []
        return [s for s in range(self.conf.sockets) if bool(self.cores >> (s * span) & whole) == used]

    def from_bits(self, bits: int, count: int) -> int:
        """Take up to `count` of these, best linked first, lowest first; how many were taken."""
        got = 0
        while got < count:
            left = bits & self.free & ~self.taken
            if not left:
                break
            device = self._best(left) if self.gres.links else (left & -left).bit_length() - 1
            self.taken |= 1 << device
            got += 1
        return got

    def _best(self, left: int) -> int:
        links, held = self.gres.links, [d for d in range(self.gres.count) if self.taken >> d & 1]
        devices = [d for d in range(self.gres.count) if left >> d & 1]
        return max(devices, key=lambda d: (sum(links[h][d] for h in held), -d))

    def take(self, count: int) -> int:
        """`count` devices: one from each place in turn, then all of a place."""
        got = 0
        used = [self.fit.by_socket[s] for s in self.sockets(True)]
        for bits in (self.fit.any_socket, *used):
            if got < count:
                got += self.from_bits(bits, 1)
        for bits in (self.fit.any_socket, *used, *(self.fit.by_socket[s] for s in self.sockets(False))):
            got += self.from_bits(bits, count - got)
        return got


def pick_devices(
    need: GresNeed, nodes: list[tuple[GresFit, Gres, NodeConf, int, int]], tasks: list[int], *, all_of: bool
) -> list[int] | None:
    """Bitmap of devices on each node; None: they cannot be had.

    `nodes`: (fit, the GRES, the node, the job's cores there, its devices taken by others) in node order; `tasks`: how
    many run on each; `all_of`: an exclusive job gets everything.
    """
    picks = [_Pick(fit, gres, conf, cores, fit.free & ~taken) for fit, gres, conf, cores, taken in nodes]
    if all_of:
        return [pick.fit.free for pick in picks]
    if need.per_job and not (need.per_node or need.per_socket or need.per_task):
        return _per_job(need, picks, tasks)
    for pick, count in zip(picks, tasks, strict=True):
        wanted = need.per_node or need.per_task * count
        if need.per_socket:
            wanted = need.per_socket * max(
                len(pick.sockets(True)) if pick.fit.by_socket else _sockets_used(pick), 1
            )
        if pick.take(wanted) < wanted:
            return None
    return [pick.taken for pick in picks]


def _sockets_used(pick: _Pick) -> int:
    span = pick.conf.cores_per_socket
    return sum(1 for s in range(pick.conf.sockets) if pick.cores >> (s * span) & ((1 << span) - 1))


def _per_job(need: GresNeed, picks: list[_Pick], tasks: list[int]) -> list[int] | None:
    """As many on the first node as leave one for each further node, and so on (_set_job_bits1, _set_job_bits2)."""
    got = 0
    for at, pick in enumerate(picks):
        most = need.per_job - got - (len(picks) - at - 1)
        if need.cpus_each:
            most = min(most, pick.cores.bit_count() * pick.conf.threads // need.cpus_each)
        used = [pick.fit.by_socket[s] for s in pick.sockets(True)]
        here = 0
        for bits in (pick.fit.any_socket, *used):
            here += pick.from_bits(bits, most - here)
        if here == 0:
            here = next((1 for s in pick.sockets(False) if pick.from_bits(pick.fit.by_socket[s], 1)), 0)
        got += here
    for pick in picks:
        for bits in (pick.fit.any_socket, *pick.fit.by_socket):
            got += pick.from_bits(bits, need.per_job - got)
    return [pick.taken for pick in picks] if got >= need.per_job else None
