"""How much of one node could a job have? (can_job_run_on_node, and _select_cores after it.)

A `Fit` depends only on the need, the node's configuration and its use, so equal nodes are looked at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairway.slurm.model.node import Gres, NodeConf
from fairway.slurm.placing.need import GresNeed, Need, Use

NO_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class GresFit:
    """What of one GRES a job could have on a node. `free`: bitmap of its devices (counts: so many low bits)."""

    need: GresNeed
    at: int
    """Place in the node's `gres`."""
    total: int
    free: int
    by_socket: tuple[int, ...] = ()
    """Bitmaps of the devices tied to each socket; empty: none is tied."""
    any_socket: int = 0
    most: int = 0
    """At most so many for this job here; 0: no limit."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What a job could have of a node. `cores`: bitmap; `max_cpus`: free CPUs before the job's own limits."""

    cpus: int
    max_cpus: int
    gpus: int
    near_gpus: int
    cores: int
    gres: tuple[GresFit, ...] = ()


@dataclass(frozen=True, slots=True)
class Cores:
    """What of a Fit the job would use: CPUs, cores left after binding, GRES counts, cores its GRES need."""

    cpus: int
    cores: int
    totals: tuple[int, ...] = ()
    min_cores: int = 0


def node_cores(conf: NodeConf, need: Need) -> int:
    """Bitmap of the cores jobs may have: specialised ones are the last of each socket in turn."""
    cores = (1 << conf.cores) - 1
    left = conf.core_spec
    for core in range(conf.cores_per_socket - 1, -1, -1):
        for socket in range(conf.sockets - 1, -1, -1):
            if left > 0:
                cores &= ~(1 << (socket * conf.cores_per_socket + core))
                left -= 1
    return cores


def fit(
    need: Need, conf: NodeConf, use: Use, *, ever: bool = False, excluded: int = 0, held: int = 0
) -> Fit | None:
    """None: not this node. `ever`: as if it were empty; `excluded`: cores reserved for others; `held`: CPUs the
    job's partition holds here already."""
    usable = node_cores(conf, need)
    used, mem_used = (0, 0) if ever else (use[0], use[1])
    free_cores = usable & ~used & ~excluded
    if need.whole_node and free_cores != usable:
        return None
    gres = _gres_fits(need, conf, use, ever)
    if gres is None or not _memory_left(need, conf, mem_used):
        return None
    counted = _count_cpus(need, conf, free_cores, held)
    if counted is None:
        return None
    cpus, max_cpus, cores = counted
    tasks = need.tasks_per_node or 1
    if not need.tasks_per_node and not need.overcommit and need.asked_max_nodes == 1 and need.num_tasks:
        tasks = need.num_tasks
    if cpus < tasks * need.cpus_per_task:
        return None
    free_mem = conf.real_memory - conf.mem_spec - mem_used if need.counts_memory else NO_LIMIT
    limited = _usable_gres(need, conf, gres, cpus, cores, free_mem)
    if limited is None:
        return None
    gres, gpus, near = limited
    cpus = _cpus_for_memory(need, conf, cpus, free_mem)
    return Fit(cpus, max_cpus, gpus, near, cores, gres) if cpus else None


def _memory_left(need: Need, conf: NodeConf, used: int) -> bool:
    """The node-level check of _verify_node_state."""
    if not need.counts_memory:
        return True
    if need.gres and not need.mem_set and any(one.mem_each for one in need.gres):
        return True
    asked = need.mem_per_node
    if need.mem_per_cpu is not None:
        asked = need.mem_per_cpu * max(need.tasks_per_node, need.node_min_cpus, need.cpus_per_task, 1)
    free = max(conf.real_memory - conf.mem_spec - used, 0)
    return free >= asked if asked else not used


def _gres_fits(need: Need, conf: NodeConf, use: Use, ever: bool) -> tuple[GresFit, ...] | None:
    found = []
    for one in need.gres:
        at = next((i for i, gres in enumerate(conf.gres) if gres.name == one.name), -1)
        if at < 0:
            return None
        gres = conf.gres[at]
        taken = use[2][at] if use[2] and not ever else 0
        free = gres.mask(one.kind) & ~taken
        by_socket, any_socket = _sockets_of(gres, conf, free)
        total = free.bit_count()
        if one.per_socket and by_socket:
            by_socket = tuple(
                _lowest(bits, one.per_socket) if bits.bit_count() >= one.per_socket else 0
                for bits in by_socket
            )
            total = sum(bits.bit_count() for bits in by_socket) + any_socket.bit_count()
        if total < max(one.per_node, one.per_task, 1):
            return None
        found.append(GresFit(one, at, total, free, by_socket, any_socket))
    return tuple(found)


def _lowest(bits: int, count: int) -> int:
    kept = 0
    for _ in range(count):
        low = bits & -bits
        kept |= low
        bits ^= low
    return kept


def _sockets_of(gres: Gres, conf: NodeConf, free: int) -> tuple[tuple[int, ...], int]:
    """Devices by the first socket they are near to, and those near to all."""
    if not gres.cores:
        return (), free
    tied, anywhere = [0] * conf.sockets, 0
    whole = (1 << conf.cores_per_socket) - 1
    for device, cores in enumerate(gres.cores):
        bit = free & (1 << device)
        near = [s for s in range(conf.sockets) if cores >> (s * conf.cores_per_socket) & whole]
        if not near or len(near) == conf.sockets:
            anywhere |= bit
        else:
            tied[near[0]] |= bit
    return tuple(tied), anywhere


def _count_cpus(need: Need, conf: NodeConf, free: int, held: int) -> tuple[int, int, int] | None:
    """(CPUs, free CPUs, cores) of _allocate_sc; None: too few."""
    per_socket, whole = conf.cores_per_socket, (1 << conf.cores_per_socket) - 1
    counts = []
    for socket in range(conf.sockets):
        part = free >> (socket * per_socket) & whole
        if need.units == "socket" and part != whole:
            free &= ~(whole << (socket * per_socket))
            part = 0
        counts.append(part.bit_count())
    max_cpus = sum(counts) * conf.threads
    limit = NO_LIMIT
    if need.max_cpus_per_node and max_cpus + held > need.max_cpus_per_node:
        limit = need.max_cpus_per_node - held
        if need.whole_node or limit <= 0 or (limit == 1 and need.cpus_per_task > 1):
            return None
    smallest = need.cores_per_socket or 1
    for socket, count in enumerate(counts):
        if count < smallest:
            counts[socket] = 0
            free &= ~(whole << (socket * per_socket))
    if sum(1 for count in counts if count) < (need.sockets_per_node or 1) or not any(counts):
        return None
    threads = need.cpus_per_core(conf.threads)
    cpus = sum(counts) * threads
    tasks = sum(min(count * threads, need.tasks_per_socket or NO_LIMIT) for count in counts)
    if cpus < need.node_min_cpus or (
        need.tasks_per_node and tasks < need.tasks_per_node and not need.overcommit
    ):
        return None
    if need.tasks_per_socket:
        most = need.tasks_per_socket * need.cpus_per_task
        cpus = sum(min(count * threads, -(-most // threads) * threads) for count in counts)
        free = _trim_sockets(free, conf, -(-most // threads))
    return min(cpus, limit), max_cpus, free


def _trim_sockets(free: int, conf: NodeConf, most: int) -> int:
    """At most so many cores of each socket, the lowest."""
    kept, whole = 0, (1 << conf.cores_per_socket) - 1
    for socket in range(conf.sockets):
        shift = socket * conf.cores_per_socket
        kept |= _lowest(free >> shift & whole, most) << shift
    return kept


def _usable_gres(
    need: Need, conf: NodeConf, fits: tuple[GresFit, ...], cpus: int, cores: int, free_mem: int
) -> tuple[tuple[GresFit, ...], int, int] | None:
    """gres_select_filter_remove_unusable: (fits with their limits, GPUs, GPUs near free cores)."""
    kept, gpus, near_gpus = [], 0, 0
    for one in fits:
        asked, total, most = one.need, one.total, one.most
        least = total if need.whole_node else asked.per_node or 1
        if asked.per_socket:
            least = max(least, asked.per_socket * (1 if need.min_cpus <= 1 else need.sockets_per_node or 1))
        if asked.per_task:
            least = max(least, asked.per_task * (need.tasks_per_node or 1))
        each = asked.cpus_per(need.cpus_per_task)
        if each and max(1, asked.per_node, asked.per_task, asked.per_socket) > cpus // each:
            return None
        if asked.mem_each and free_mem < NO_LIMIT:
            if asked.mem_each > free_mem:
                return None
            most = free_mem // asked.mem_each
        near = total - sum(
            bits.bit_count()
            for socket, bits in enumerate(one.by_socket)
            if not cores >> (socket * conf.cores_per_socket) & ((1 << conf.cores_per_socket) - 1)
        )
        if need.enforce_binding:
            total = near
        if not need.whole_node:
            wanted = asked.per_node or asked.per_job
            most = wanted if wanted and (not most or most > wanted) else most
        if each and not (asked.tasks_each and need.whole_node):
            bound = cores.bit_count() * conf.threads // each
            if not bound:
                return None
            most = bound if not most or most > bound else most
        if asked.mem_each and free_mem < NO_LIMIT:
            total = min(total, free_mem // asked.mem_each)
        if total < least or (most and most < least):
            return None
        if asked.name == "gpu":
            gpus += total
            near_gpus = min(near_gpus + (min(near, most) if most else near), 255)
        kept.append(replace(one, total=total, most=most))
    return tuple(kept), gpus, near_gpus


def _cpus_for_memory(need: Need, conf: NodeConf, cpus: int, free: int) -> int:
    """CPUs left when memory is asked for each of them, or for the node."""
    if not need.counts_memory:
        return cpus
    if need.mem_per_cpu is None:
        return cpus if (need.mem_per_node or 0) <= free else 0
    each = need.mem_per_cpu
    unit = 1
    if need.units == "core":
        unit = need.cpus_per_core(conf.threads)
    elif need.units == "socket":
        unit = conf.cores_per_socket * conf.threads
    if need.whole_node and each * cpus > free:
        return 0
    weigh = (
        conf.threads if need.tasks_per_core == 1 and need.cpus_per_task == 1 and need.units != "cpu" else 1
    )
    while cpus > 0 and each * cpus * weigh > free:
        cpus -= 1 if weigh > 1 else unit
    cpus = max(cpus, 0)
    if need.cpus_per_task > 1:
        cpus -= cpus % need.cpus_per_task
    return 0 if cpus < need.tasks_per_node else cpus


def select_cores(need: Need, conf: NodeConf, found: Fit, left: tuple[int, ...], first_pass: bool) -> Cores:
    """What the job would use of the node (_select_cores). `left`: of each GRES, how many a per-job count still lacks.

    cpus 0: nothing.
    """
    least, most = _tasks_here(need, conf)
    if need.cpus_per_task and not need.overcommit:
        room = found.cpus // need.cpus_per_task
        most = 0 if room < least else min(most, room)
    cpus, cores, totals, min_cores = found.cpus, found.cores, tuple(one.total for one in found.gres), 0
    if found.gres:
        cpus, cores, totals, min_cores, most = _cores_for_gres(
            need, conf, found, left, first_pass, least, most
        )
    if most == 0:
        cpus = 0
    elif need.one_task_per_core and not need.tasks_per_core and not need.min_gres_cpus:
        cpus = cores.bit_count()
    return Cores(cpus, cores, totals, min_cores)


def _tasks_here(need: Need, conf: NodeConf) -> tuple[int, int]:
    """Fewest and most tasks on this node before its resources are looked at."""
    if need.tasks_per_node:
        return need.tasks_per_node, need.tasks_per_node
    if need.tasks_per_socket:
        return need.tasks_per_socket, need.tasks_per_socket * conf.sockets
    if need.tasks_per_core:
        return need.tasks_per_core, need.tasks_per_core * (conf.cores - conf.core_spec)
    if any(one.tasks_each for one in need.gres):
        each = need.num_tasks if need.min_nodes == 1 else need.num_tasks // max(need.min_nodes, 1)
        return each, each
    if need.asked_max_nodes == 1:
        return (need.num_tasks, need.num_tasks) if need.num_tasks else (1, NO_LIMIT)
    if need.num_tasks == 1 or (need.num_tasks and need.num_tasks == need.min_nodes == need.asked_max_nodes):
        return 1, 1
    return 1, NO_LIMIT


def _cores_for_gres(
    need: Need, conf: NodeConf, found: Fit, left: tuple[int, ...], first: bool, least: int, most: int
) -> tuple[int, int, tuple[int, ...], int, int]:
    """gres_select_filter_sock_core: (CPUs, cores, totals, cores needed, most tasks)."""
    state = _Sockets(conf, found.cores, found.cpus)
    totals = [one.total for one in found.gres]
    step, min_cores, has_cpus_each = max(least, 1), NO_LIMIT, False
    for at in sorted(range(len(found.gres)), key=lambda i: -found.gres[i].need.per_socket):
        if most == 0:
            break
        one, asked = found.gres[at], found.gres[at].need
        limit = min(left[at], one.most) if one.most and left[at] else one.most
        if limit and (asked.per_node > limit or asked.per_socket * max(1, need.sockets_per_node) > limit):
            most = 0
            break
        each = asked.cpus_per(need.cpus_per_task)
        has_cpus_each |= bool(asked.cpus_each)
        count, required = state.filter(
            need, one, limit, each, first, -(-max(least, 1) * need.cpus_per_task // conf.threads)
        )
        if each:
            limit = min(state.cpus // each, limit) if limit else state.cpus // each
            count = min(count, limit)
        if count == 0 or asked.per_node > count or asked.per_task > count:
            most = 0
        if asked.per_task:
            most = min(most, count // asked.per_task)
        least, most = least // step * step, most if most == NO_LIMIT else most // step * step
        if most == 0:
            break
        if need.enforce_binding or first:
            state.drop([s for s in range(conf.sockets) if not required[s]])
        if most == NO_LIMIT:
            if each:
                totals[at] = min(state.cpus // each, totals[at])
            continue
        most, wanted = _cores_wanted(need, conf, asked, most, least, each, count, state, sum(required))
        if wanted > state.total or (need.enforce_binding and wanted * conf.threads > state.cpus):
            most = 0
            break
        state.shrink(required, wanted, need.enforce_binding or first)
        if each:
            totals[at] = min(state.cpus // each, totals[at])
            if asked.per_node > totals[at] or asked.per_task > totals[at]:
                most = 0
        if need.enforce_binding:
            min_cores = min(min_cores, wanted)
    cpus = state.cpus
    if not has_cpus_each and (need.cpus_per_task > 1 or not need.one_task_per_core):
        cpus = min(cpus, most * need.cpus_per_task)
    return cpus, state.cores, tuple(totals), 0 if min_cores == NO_LIMIT or not most else min_cores, most


def _cores_wanted(
    need: Need,
    conf: NodeConf,
    asked: GresNeed,
    most: int,
    least: int,
    each: int,
    count: int,
    state: _Sockets,
    sockets: int,
) -> tuple[int, int]:
    """(most tasks, cores they and the GRES take)."""
    threads = min(conf.threads, need.threads_per_core) if need.threads_per_core else conf.threads
    per_task = need.cpus_per_task
    if need.tasks_per_core == 1 and per_task % threads:
        per_task = (per_task // threads + 1) * threads
    wanted = -(-most * per_task // threads)
    while wanted > state.total and most > least:
        most -= 1
        wanted = -(-most * per_task // threads)
    if each:
        gres = asked.per_node or asked.per_socket * sockets or asked.per_task * most or count or 1
        wanted = max(wanted, -(-gres * each // conf.threads))
    if need.enforce_binding:
        wanted = max(wanted, sockets)
    return most, wanted


class _Sockets:
    """Cores left of each socket while GRES narrow them down."""

    def __init__(self, conf: NodeConf, cores: int, cpus: int) -> None:
        self.conf, self.cores, self.cpus = conf, cores, cpus
        whole = (1 << conf.cores_per_socket) - 1
        self.counts = [
            (cores >> (s * conf.cores_per_socket) & whole).bit_count() for s in range(conf.sockets)
        ]

    @property
    def total(self) -> int:
        return sum(self.counts)

    def _clear_top(self, socket: int) -> None:
        shift = socket * self.conf.cores_per_socket
        part = self.cores >> shift & ((1 << self.conf.cores_per_socket) - 1)
        self.cores &= ~(1 << (shift + part.bit_length() - 1))
        self.counts[socket] -= 1
        if self.cores.bit_count() * self.conf.threads < self.cpus:
            self.cpus -= self.conf.threads

    def filter(
        self, need: Need, one: GresFit, limit: int, each: int, first: bool, least_cores: int
    ) -> tuple[int, list[bool]]:
        """(GRES to be had, which sockets are used for them); sockets without any lose cores on the first pass."""
        anywhere = one.any_socket.bit_count()
        count, enough = anywhere, False
        required = [False] * self.conf.sockets
        for socket in sorted(range(self.conf.sockets), key=lambda s: -self.counts[s]):
            here = one.by_socket[socket].bit_count() if one.by_socket else 0
            if each and (need.enforce_binding or first):
                here = min(here, self.counts[socket] * self.conf.threads // each)
            if one.need.per_socket > anywhere + here or anywhere + here == 0:
                while first and self.counts[socket] and self.total > least_cores:
                    self._clear_top(socket)
            if (need.enforce_binding or first) and not self.counts[socket]:
                continue
            count += here
            required[socket] = not enough
            reached = (limit and count >= limit) or (one.need.per_node and count >= one.need.per_node)
            enough = enough or bool(not anywhere and reached)
        return count, required

    def drop(self, sockets: list[int]) -> None:
        for socket in sockets:
            while self.counts[socket]:
                self._clear_top(socket)

    def shrink(self, required: list[bool], wanted: int, bound: bool) -> None:
        """Down to `wanted` cores: first those of sockets not used, then of the fullest one."""
        if not bound:
            for socket in range(self.conf.sockets):
                while not required[socket] and self.counts[socket] and self.total > wanted:
                    self._clear_top(socket)
        while self.total > wanted:
            used = [s for s in range(self.conf.sockets) if required[s] and self.counts[s]]
            if not used:
                return
            self._clear_top(max(used, key=lambda s: (self.counts[s], -s)))
