"""How many CPUs, and which cores, of each chosen node? (dist_tasks.)

Tasks are dealt over the nodes one each, then a core's worth each in turn; cores are taken from the sockets in turn
(cyclic, the default) or from the tightest socket (block).
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.slurm.model.node import NodeConf
from fairway.slurm.placing.need import Need


def deal_tasks(
    need: Need, confs: Sequence[NodeConf], room: Sequence[int], total: int, task_limits: Sequence[int] | None
) -> tuple[list[int], list[int]]:
    """(CPUs, tasks) of each node. `room`: CPUs each could give; `total`: CPUs the job needs in all (ncpus).

    `task_limits`: the most tasks GRES per task allow on each node.
    """
    per_task = max(need.cpus_per_task, 1)
    tasks_left = total
    if not need.overcommit and per_task > 1:
        tasks_left = total // per_task if not need.tasks_per_node else need.tasks_per_node * len(room)
    tasks_left = max(tasks_left, 1)
    cpus, tasks = [0] * len(room), [0] * len(room)

    def give(at: int) -> None:
        tasks[at] += 1
        cpus[at] = min(cpus[at] + per_task, max(room[at], cpus[at]))

    space = False
    for at in range(len(room)):
        if tasks_left and room[at]:
            give(at)
            tasks_left -= 1
            space |= cpus[at] < room[at]

    def may(at: int) -> bool:
        if room[at] - cpus[at] < per_task or (task_limits and tasks[at] >= task_limits[at]):
            return False
        return not need.tasks_per_node or tasks[at] < need.tasks_per_node

    for at, conf in enumerate(confs):
        for _ in range((cpus[at] % conf.threads) // per_task):
            if tasks_left and may(at):
                give(at)
                tasks_left -= 1
    if need.overcommit and not any(one.per_task for one in need.gres):
        tasks_left = 0
    over = not space
    while tasks_left:
        more = False
        for at, conf in enumerate(confs):
            for _ in range(max(conf.threads // per_task, 1)):
                if not tasks_left or not (over or may(at)):
                    break
                give(at)
                tasks_left -= 1
                more |= room[at] - cpus[at] >= per_task
        over = over or not more
    return cpus, tasks


def pick_cores(need: Need, conf: NodeConf, free: int, cpus: int) -> int:
    """Bitmap of the cores for so many CPUs. `free` has enough of them."""
    usable = need.cpus_per_core(conf.threads)
    if need.block_cores or need.units == "cpu":
        return _block(need, conf, free, -(-cpus // usable))
    return _cyclic(need, conf, free, cpus, usable)


def _sockets(conf: NodeConf, free: int) -> list[list[int]]:
    """The free cores of each socket, in order."""
    span = conf.cores_per_socket
    return [[c for c in range(s * span, (s + 1) * span) if free >> c & 1] for s in range(conf.sockets)]


def _cyclic(need: Need, conf: NodeConf, free: int, cpus: int, usable: int) -> int:
    sockets = _sockets(conf, free)
    picked: list[int] = []
    used: set[int] = set()
    avoid: set[int] = set()
    if need.tasks_per_socket:
        avoid = _avoided(need, sockets, cpus, usable)
    elif need.cpus_per_task > 1:
        cpus = _whole_tasks(need, sockets, cpus, usable, picked, used)
    while cpus > 0:
        before = cpus
        for at, cores in enumerate(sockets):
            if cpus > 0 and cores and at not in avoid:
                picked.append(cores.pop(0))
                used.add(at)
                cpus = max(cpus - usable, 0)
        if cpus == before:
            break
    bits = sum(1 << core for core in picked)
    if need.units == "socket":
        whole = (1 << conf.cores_per_socket) - 1
        bits |= sum(whole << (at * conf.cores_per_socket) for at in used)
    return bits


def _avoided(need: Need, sockets: list[list[int]], cpus: int, usable: int) -> set[int]:
    """Sockets not needed with so many tasks on each."""
    most = need.tasks_per_socket * need.cpus_per_task
    counts = [len(cores) * usable for cores in sockets]
    total = sum(counts)
    for at, count in enumerate(counts):
        if total > cpus and count > most:
            total -= count - most
            counts[at] = most
    avoid = set()
    for at, count in enumerate(counts):
        if total > cpus and count <= most and total - count >= cpus:
            avoid.add(at)
            total -= count
    return avoid


def _whole_tasks(
    need: Need, sockets: list[list[int]], cpus: int, usable: int, picked: list[int], used: set[int]
) -> int:
    """Put the CPUs of each task on one socket, as far as that goes; the CPUs still to place."""
    for at, cores in enumerate(sockets):
        room = len(cores) * usable
        room -= room % need.cpus_per_task
        while cores and room > 0 and cpus > 0:
            picked.append(cores.pop(0))
            used.add(at)
            room -= usable
            cpus = max(cpus - usable, 0)
    return cpus


def _block(need: Need, conf: NodeConf, free: int, wanted: int) -> int:
    """The tightest socket that holds all, else the fullest one, again and again."""
    sockets = _sockets(conf, free)
    bits = 0
    while wanted > 0 and any(sockets):
        holding = [s for s, cores in enumerate(sockets) if len(cores) >= wanted]
        at = (
            min(holding, key=lambda s: len(sockets[s]))
            if holding
            else max(range(len(sockets)), key=lambda s: (len(sockets[s]), -s))
        )
        taken, sockets[at] = sockets[at][:wanted], sockets[at][wanted:]
        bits |= sum(1 << core for core in taken)
        wanted -= len(taken)
        if need.units == "socket":
            bits |= ((1 << conf.cores_per_socket) - 1) << (at * conf.cores_per_socket)
            sockets[at] = []
    return bits
