"""Can a job start now in a partition, and on what? (select_nodes and what it calls in node_scheduler.c.)

Pure: a `Verdict` says where, or why not; the controller carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter

from fairway.slurm import limits, preemption, reservations
from fairway.slurm.ahead import without_share
from fairway.slurm.cluster import Cluster, billing_of
from fairway.slurm.features import parse
from fairway.slurm.limits import Ask
from fairway.slurm.model.job import Job, NodeShare
from fairway.slurm.model.node import Node
from fairway.slurm.model.partition import Partition
from fairway.slurm.model.tres import Tres
from fairway.slurm.placing.need import GresNeed, Need
from fairway.slurm.placing.placing import Part, Placement, World, fits_ever, place
from fairway.slurm.placing.uses import Uses, bitmap, bits
from fairway.slurm.sharing import shares_cores, strangers
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.hostlist import compress_sorted

MOST_NODES = 500_000
MOST_SETS = 10_000
"""Sets of nodes kept between looks."""
YEAR_MINUTES = 365 * 24 * 60


@dataclass(slots=True, init=False)
class Verdict:
    """`code`: OK, BUSY, LIMIT, PART_CONFIG, NEVER, UNAVAILABLE, RESERVED; `reason`, `detail`: for the job's record."""

    code: str
    placement: Placement | None
    victims: tuple[Job, ...]
    reason: str
    detail: str
    preferred: bool
    """On nodes that have what --prefer names."""

    def __init__(
        self, code: str, placement: Placement | None = None, victims: tuple[Job, ...] = (),
        reason: str = "", detail: str = "", preferred: bool = False,
    ) -> None:  # fmt: skip
        self.code, self.placement, self.victims, self.reason = code, placement, victims, reason
        self.detail, self.preferred = detail, preferred


@dataclass(slots=True, init=False)
class Looking:
    """One look at the cluster. `closed`: bitmap of the nodes the pass has closed; `kept`: those backfill keeps for
    others, which are no less available for that."""

    cluster: Cluster
    rules: preemption.Preemption
    now: int
    closed: int
    kept: int
    completing_ok: bool
    layers: Callable[[Job, Partition], Sequence[Mapping[int, int]]] | None
    busy_first: bool
    queued: int
    """Jobs in the queue it was made for, one for each of their partitions, and how many of them were `tried`."""
    tried: int

    def __init__(
        self, cluster: Cluster, rules: preemption.Preemption, now: int, closed: int = 0, kept: int = 0,
        completing_ok: bool = False,
        layers: Callable[[Job, Partition], Sequence[Mapping[int, int]]] | None = None,
        busy_first: bool = False, queued: int = 0, tried: int = 0,
    ) -> None:  # fmt: skip
        self.cluster, self.rules, self.now, self.closed, self.kept = cluster, rules, now, closed, kept
        self.completing_ok, self.layers, self.busy_first = completing_ok, layers, busy_first
        self.queued, self.tried = queued, tried


def select(look: Looking, job: Job, part: Partition) -> Verdict:
    """Numbered as there: 1 limits that need no nodes, 2 nodes, 3 place, 4 limits of what it would get, 5 preempt."""
    cluster = look.cluster
    policy = cluster.policy(job, part)
    reason = (
        "" if policy.free else limits.before_select(policy, ask_of(cluster, job, part, None), part.max_time)
    )
    if reason:
        return Verdict("LIMIT", reason=reason)
    need = need_of(cluster, job, part)
    if need.max_nodes < need.min_nodes:
        return Verdict("PART_CONFIG", reason="PartitionNodeLimit")
    verdict = _pick(look, job, part, need)
    if policy.free:
        return verdict
    reason = limits.after_select(policy, ask_of(cluster, job, part, verdict.placement))
    if reason:
        return Verdict("LIMIT", reason=reason)
    return verdict


def first_look(look: Looking, job: Job, part: Partition) -> Verdict:
    """Could it run with nothing else running (select_nodes, test only)? `OK`, or why not as `select`."""
    cluster = look.cluster
    policy = cluster.policy(job, part)
    reason = (
        "" if policy.free else limits.before_select(policy, ask_of(cluster, job, part, None), part.max_time)
    )
    if reason:
        return Verdict("LIMIT", reason=reason)
    need = need_of(cluster, job, part)
    if need.max_nodes < need.min_nodes:
        return Verdict("PART_CONFIG", reason="PartitionNodeLimit")
    wanted = parse(job.features) if job.features else None
    if wanted and sum(count for _, count in wanted.counts) > need.max_nodes:
        return Verdict("NEVER", reason="BadConstraints")
    usable = reservations.usable_nodes(cluster, job, part, look.now, end_of(job, part, look.now))
    if usable.error:
        return Verdict("RESERVED", reason="Reservation")
    best = Verdict("NEVER", reason="BadConstraints")
    required = bitmap(job.nodelist)
    for wide in node_alternatives(cluster, job, part):
        up = wide & cluster.up
        world = _world(look, job, part)
        if required & ~wide or not fits_ever(need, world, wide, job.nodelist):
            continue
        if usable.only is not None and required & ~usable.only:
            continue
        if not fits_ever(need, world, usable.left_of(wide), job.nodelist):
            best = _reserved_verdict(look, job, part, usable)
        elif not required & ~up and fits_ever(need, world, up, job.nodelist):
            reason = "" if policy.free else limits.after_select(policy, ask_of(cluster, job, part, None))
            return Verdict("LIMIT", reason=reason) if reason else Verdict("OK")
        else:
            best = _not_available(look, job, part)
    return best


def need_of(cluster: Cluster, job: Job, part: Partition) -> Need:
    """What the job needs in a partition; `max_nodes` below `min_nodes`: the partition allows no such number."""
    found: Need | None = job.needs.get(part.name)
    if found is None:
        gres = gres_needs(job)
        key = (part.name, gres, _OF_JOB(job), _OF_REQUEST(job.request))
        found = cluster.needs.get(key)
        if found is None:
            if len(cluster.needs) >= MOST_SETS:
                cluster.needs.clear()
            found = cluster.needs[key] = _need(cluster, job, part, gres)
        job.needs[part.name] = found
    return found


_OF_JOB = attrgetter(
    "min_nodes", "max_nodes", "whole_node", "share", "min_cpus", "cpus_per_task", "ntasks_per_node",
    "mem_per_cpu", "mem_per_node", "num_tasks", "few_switches",
)  # fmt: skip
_OF_REQUEST = attrgetter(
    "use_min_nodes", "num_tasks", "node_min_cpus", "ntasks_per_socket", "ntasks_per_core", "threads_per_core",
    "sockets_per_node", "cores_per_socket", "mem_per_cpu", "mem_per_node", "overcommit", "contiguous", "spread",
    "gres_flags", "distribution",
)  # fmt: skip
"""What a need is made of, beside its partition and GRES: every field that `_need` reads."""


def _need(cluster: Cluster, job: Job, part: Partition, gres: tuple[GresNeed, ...]) -> Need:
    conf, request = cluster.conf, job.request
    params = conf.select_parameters
    min_nodes = max(job.min_nodes, part.min_nodes)
    most = min(job.max_nodes or part.max_nodes, part.max_nodes, MOST_NODES)
    wished = most if job.max_nodes and not request.use_min_nodes else min_nodes
    whole = job.whole_node == "node" or part.oversubscribe == "EXCLUSIVE"
    sharing = "row"
    if part.oversubscribe == "EXCLUSIVE":
        sharing = "node"
    elif shares_cores(job, part):
        sharing = "shared"
    return Need(
        min_cpus=job.min_cpus,
        min_nodes=min_nodes,
        max_nodes=most,
        req_nodes=wished,
        asked_max_nodes=job.max_nodes,
        num_tasks=request.num_tasks or 0,
        cpus_per_task=job.cpus_per_task,
        node_min_cpus=max(request.node_min_cpus or 1, job.cpus_per_task * max(job.ntasks_per_node, 1)),
        tasks_per_node=job.ntasks_per_node,
        tasks_per_socket=request.ntasks_per_socket or 0,
        tasks_per_core=request.ntasks_per_core or int("CR_ONE_TASK_PER_CORE" in params),
        threads_per_core=request.threads_per_core or 0,
        sockets_per_node=request.sockets_per_node or 0,
        cores_per_socket=request.cores_per_socket or 0,
        mem_per_cpu=job.mem_per_cpu,
        mem_per_node=job.mem_per_node,
        mem_set=request.mem_per_cpu is not None or request.mem_per_node is not None,
        gres=tuple(_for_the_job(one, job.num_tasks) for one in gres),
        whole_node=whole,
        overcommit=request.overcommit,
        contiguous=request.contiguous,
        spread=request.spread,
        enforce_binding="enforce-binding" in request.gres_flags,
        block_cores=_is_block(request.distribution, by_default="CR_CORE_DEFAULT_DIST_BLOCK" in params),
        sharing=sharing,
        max_cpus_per_node=0 if part.max_cpus_per_node >= INFINITE else part.max_cpus_per_node,
        lln=part.lln or "CR_LLN" in params,
        units=conf.select_units,
        counts_memory=any(p.endswith("MEMORY") for p in params),
        one_task_per_core="CR_ONE_TASK_PER_CORE" in params,
        serial_at_end=conf.has_option("pack_serial_at_end"),
        few_switches=job.few_switches,
    )


def _for_the_job(one: GresNeed, tasks: int) -> GresNeed:
    """A count for each task is one for the job too (_test_gres_cnt): what a node has beyond it weighs nothing."""
    return replace(one, per_job=one.per_task * tasks) if one.per_task and not one.per_job else one


def _is_block(distribution: str | None, *, by_default: bool) -> bool:
    """Socket after socket, or the sockets in turn? (dist_tasks in cons_common.)"""
    parts = (distribution or "").lower().split(",")[0].split(":")
    if parts[0].startswith("plane"):
        return True
    return parts[1] == "block" if len(parts) > 1 and parts[1] != "*" else by_default


def gres_needs(job: Job) -> tuple[GresNeed, ...]:
    """One for each GRES and type asked for, whatever option asked."""
    request = job.request
    asked = (request.tres_per_job, request.tres_per_node, request.tres_per_socket, request.tres_per_task)
    if not any(asked):
        return ()
    each = (request.cpus_per_tres, request.mem_per_tres)
    return _gres_needs(
        tuple([tuple(one.items()) for one in asked]),
        tuple([tuple(one.items()) for one in each]),
        request.ntasks_per_gpu or 0,
    )


Items = tuple[tuple[str, int], ...]


@lru_cache(maxsize=4_096)
def _gres_needs(asked: tuple[Items, ...], each: tuple[Items, ...], tasks_each: int) -> tuple[GresNeed, ...]:
    per_job, per_node, per_socket, per_task = (dict(one) for one in asked)
    cpus_each, mem_each = (dict(one) for one in each)
    found = []
    for full in dict.fromkeys([name for one in asked for name, _ in one]):
        name, _, kind = full.partition(":")
        found.append(
            GresNeed(
                name,
                kind,
                per_job.get(full, 0),
                per_node.get(full, 0),
                per_socket.get(full, 0),
                per_task.get(full, 0),
                cpus_each.get(name, 0),
                mem_each.get(name, 0),
                tasks_each if name == "gpu" else 0,
            )
        )
    return tuple(one for one in found if one.per_job or one.per_node or one.per_socket or one.per_task)


def ask_of(cluster: Cluster, job: Job, part: Partition, placement: Placement | None) -> Ask:
    """What limits look at: what is asked, or what it would get."""
    limit = job.time_limit
    if not job.limit_set:
        default = part.default_time if part.default_time is not None else part.max_time
        limit = default
    given = job.req_tres if placement is None else tres_of(cluster, job, part, placement)
    return Ask(job.user, job.account, limit, given, placement.nodes if placement else ())


def tres_of(cluster: Cluster, job: Job, part: Partition, placement: Placement) -> Tres:
    """The allocation as TRES: cpu, mem, node, billing, then tracked GRES and licences."""
    found = held_tres(cluster, placement.parts)
    for name, count in job.licenses.items():
        if f"license/{name}" in cluster.conf.tracked:
            found[f"license/{name}"] = count
    found["billing"] = billing_of(part, found)
    return found


def held_tres(cluster: Cluster, parts: Iterable[Part | NodeShare]) -> Tres:
    """cpu, mem, node and tracked GRES of what is held on some nodes."""
    found: Tres = {"cpu": 0, "mem": 0, "node": 0}
    for one in parts:
        found["cpu"] += one.cpus
        found["mem"] += one.mem
        found["node"] += 1
        for gres in cluster.nodes[one.node].conf.gres:
            bits = dict(one.gres).get(gres.name, 0)
            if not bits:
                continue
            _add(found, f"gres/{gres.name}", bits.bit_count())
            for kind in dict.fromkeys(gres.types):
                count = (bits & gres.mask(kind)).bit_count() if kind else 0
                if count:
                    _add(found, f"gres/{gres.name}:{kind}", count)
    return {name: count for name, count in found.items() if "/" not in name or name in cluster.conf.tracked}


def _add(into: Tres, name: str, count: int) -> None:
    into[name] = into.get(name, 0) + count


def node_alternatives(cluster: Cluster, job: Job, part: Partition) -> list[int]:
    """Bitmaps of the partition's nodes that have what is asked for, one for each alternative of its constraint."""
    return _with_features(cluster, job, part, job.features)


def preferred_nodes(cluster: Cluster, job: Job, part: Partition) -> list[int]:
    """As `node_alternatives`, of --prefer instead of --constraint: what is tried before, and never waited for."""
    return _with_features(cluster, job, part, job.request.prefer) if job.request.prefer else []


def _with_features(cluster: Cluster, job: Job, part: Partition, constraint: str | None) -> list[int]:
    asked = job.request
    sizes = (
        asked.node_min_cpus,
        asked.min_tmp_disk,
        asked.sockets_per_node,
        asked.cores_per_socket,
        asked.threads_per_core,
    )
    per_node = (job.mem_per_node, job.mem_per_cpu, job.cpus_per_task * job.ntasks_per_node)
    key = (part.name, job.exclude, constraint, per_node, sizes)
    found: list[int] | None = cluster.sets.get(key)
    if found is None:
        if len(cluster.sets) > MOST_SETS:
            cluster.sets.clear()
        found = cluster.sets[key] = _alternatives(cluster, job, part, constraint)
    return found


def _alternatives(cluster: Cluster, job: Job, part: Partition, constraint: str | None) -> list[int]:
    nodes = [n for n in part.nodes if n not in job.exclude and _is_large_enough(cluster.nodes[n], job)]
    if not constraint:
        return [bitmap(nodes)]
    wanted = parse(constraint)
    if wanted is None:
        return [0]
    if wanted.counts:
        return [bitmap(node for node in nodes if wanted.counted(cluster.nodes[node].active_features))]
    return [
        bitmap(node for node in nodes if wanted.matching(cluster.nodes[node].active_features, at))
        for at in range(len(wanted.alternatives))
    ]


def _pick(look: Looking, job: Job, part: Partition, need: Need) -> Verdict:
    cluster = look.cluster
    usable = reservations.usable_nodes(cluster, job, part, look.now, end_of(job, part, look.now))
    if usable.error:
        return Verdict("RESERVED", reason="Reservation")
    for wide in preferred_nodes(cluster, job, part):
        verdict = _pick_among(look, job, part, need, usable.left_of(wide), usable.cores)
        if verdict.code == "OK":
            return replace(verdict, preferred=True)
    best: Verdict | None = None
    for wide in node_alternatives(cluster, job, part):
        allowed = usable.left_of(wide)
        if job.features and "*" in job.features:
            return _pick_counted(look, job, part, need, allowed)
        verdict = _pick_among(look, job, part, need, allowed, usable.cores)
        if verdict.code == "OK" or verdict.victims:
            return verdict
        if (
            verdict.code == "NEVER"
            and allowed != wide
            and fits_ever(need, _world(look, job, part), wide, job.nodelist)
        ):
            verdict = _reserved_verdict(look, job, part, usable)
        if best is None or _ORDER.index(verdict.code) < _ORDER.index(best.code):
            best = verdict
    return best or Verdict("NEVER", reason="BadConstraints")


_ORDER = ("BUSY", "RESERVED", "UNAVAILABLE", "NEVER")
"""Of several alternatives, the one nearest to starting says why not."""


def _reserved_verdict(look: Looking, job: Job, part: Partition, usable: reservations.Usable) -> Verdict:
    """Reservations keep it from nodes it would need (_get_req_features, select_nodes)."""
    if job.reservation:
        return Verdict("RESERVED", reason="Reservation")
    if usable.maintenance:
        return Verdict(
            "RESERVED", reason="ReqNodeNotAvail", detail="ReqNodeNotAvail, Reserved for maintenance"
        )
    return _not_available(look, job, part)


def end_of(job: Job, part: Partition, start: int) -> int:
    """When it would be over at the latest."""
    limit = job.time_limit if job.limit_set else part.default_time or part.max_time
    return start + min(limit, part.max_time, YEAR_MINUTES) * 60


def _is_large_enough(node: Node, job: Job) -> bool:
    return not _shortage(node, job)


def _shortage(node: Node, job: Job) -> str:
    """What the node's configuration alone has too little of (_build_node_list, _set_err_msg)."""
    request, conf = job.request, node.conf
    if conf.cpus < max(request.node_min_cpus or 1, job.cpus_per_task * job.ntasks_per_node):
        return "CPU count per node can not be satisfied"
    if conf.real_memory < (job.mem_per_node or job.mem_per_cpu or 0):
        return "Memory specification can not be satisfied"
    if conf.tmp_disk < (request.min_tmp_disk or 0):
        return "Temporary disk specification can not be satisfied"
    if (
        conf.sockets < (request.sockets_per_node or 1)
        or conf.cores_per_socket < (request.cores_per_socket or 1)
        or conf.threads < (request.threads_per_core or 1)
    ):
        return "Socket, core and/or thread specification can not be satisfied"
    return ""


def short_of(cluster: Cluster, job: Job, part: Partition) -> tuple[str, ...]:
    """What a refusal says beside it: the shortage of the last node that has one."""
    nodes = [cluster.nodes[node] for node in part.nodes if node not in job.exclude]
    if job.reservation and job.nodelist:
        return ("Problem using reservation",)
    return tuple([text for text in (_shortage(node, job) for node in nodes) if text][-1:])


def _world(look: Looking, job: Job, part: Partition, uses: Uses | None = None) -> World:
    cluster = look.cluster
    return World(
        cluster.fits,
        cluster.uses if uses is None else uses,
        cluster.weights,
        cluster.switches,
        held=_held(cluster, part) if part.max_cpus_per_node < INFINITE else None,
        layers=look.layers(job, part) if look.layers and part.oversubscribe in ("FORCE", "YES") else (),
        busy_first=look.busy_first,
    )


def _held(cluster: Cluster, part: Partition) -> Callable[[int], int]:
    held: dict[int, int] = {}
    for job in cluster.running.values():
        if job.partition == part.name:
            for share in job.shares:
                held[share.node] = held.get(share.node, 0) + share.cpus
    return lambda node: held.get(node, 0)


def open_nodes(look: Looking, job: Job, part: Partition, nodes: int) -> int:
    """Those of the nodes the job may start on now, whatever is left of them."""
    cluster = look.cluster
    found = nodes & cluster.up & ~look.closed & ~look.kept
    if not look.completing_ok:
        found &= ~cluster.completing
    return found & ~strangers(cluster, look.rules, job, part)


def _pick_counted(look: Looking, job: Job, part: Partition, need: Need, nodes: int) -> Verdict:
    """`a*2&b*1`: the nodes of each counted feature first, then the rest around them (_get_req_features)."""
    cluster = look.cluster
    wanted = parse(job.features or "")
    assert wanted is not None
    world, free = _world(look, job, part), open_nodes(look, job, part, nodes)
    taken = list(job.nodelist)
    for name, count in wanted.counts:
        having = bitmap(node for node in bits(nodes) if name in cluster.nodes[node].active_features)
        if having.bit_count() < count:
            return Verdict("NEVER", reason="BadConstraints")
        tasks = count * need.tasks_per_node or need.num_tasks
        some = replace(
            need,
            min_nodes=count,
            max_nodes=count,
            req_nodes=count,
            min_cpus=count,
            num_tasks=min(tasks, need.num_tasks),
        )
        found = place(some, world, having & free, ())
        if found is None:
            return Verdict("BUSY", reason="Resources")
        taken += [node for node in found.nodes if node not in taken]
    least = max(need.min_nodes, len(taken))
    if least > need.max_nodes:
        return Verdict("NEVER", reason="BadConstraints")
    whole = replace(
        need, min_nodes=least, max_nodes=max(need.max_nodes, least), req_nodes=max(need.req_nodes, least)
    )
    placement = place(whole, world, free, tuple(sorted(taken)))
    return Verdict("OK", placement) if placement is not None else Verdict("BUSY", reason="Resources")


def _pick_among(
    look: Looking, job: Job, part: Partition, need: Need, nodes: int, cores: Mapping[int, int]
) -> Verdict:
    cluster, required = look.cluster, bitmap(job.nodelist)
    available = nodes & cluster.up & ~look.closed & ~look.kept
    if required & ~nodes:
        return Verdict("NEVER", reason="BadConstraints")
    if required & ~available:
        return _not_available(look, job, part)
    world = _world(look, job, part)
    world.excluded = cores
    free = open_nodes(look, job, part, nodes)
    if not required & ~free:
        found = place(need, world, free, job.nodelist)
        if found is not None:
            return Verdict("OK", found)
        if look.rules.enabled:
            verdict = _preempt(look, job, part, need, free)
            if verdict is not None:
                return verdict
    if fits_ever(need, world, available, job.nodelist):
        return Verdict("BUSY", reason="Resources")
    if not fits_ever(need, world, nodes, job.nodelist):
        return Verdict("NEVER", reason="BadConstraints")
    if cluster.completing & nodes:
        return Verdict("BUSY", reason="Resources")
    return _not_available(look, job, part)


def _not_available(look: Looking, job: Job, part: Partition) -> Verdict:
    """Names the nodes that are down or drained (select_nodes, ESLURM_NODE_NOT_AVAIL)."""
    cluster = look.cluster
    nodes = bitmap(job.nodelist) if job.nodelist else cluster.nodes_of(part)
    closed = cluster.names(
        bits(nodes & (~cluster.up | look.closed | strangers(cluster, look.rules, job, part)))
    )
    if closed:
        text = f"ReqNodeNotAvail, UnavailableNodes:{compress_sorted(closed)}"
    else:
        text = "ReqNodeNotAvail, May be reserved for other job"
    return Verdict("UNAVAILABLE", reason="ReqNodeNotAvail", detail=text)


def without(cluster: Cluster, uses: Uses, jobs: Iterable[Job]) -> Uses:
    """The uses as if these jobs had ended."""
    left = uses.copy()
    for job in jobs:
        for share in job.shares:
            conf, suspended = cluster.nodes[share.node].conf, job.state == "SUSPENDED"
            left.put(share.node, without_share(left.exact[share.node], share, conf, keeps_cores=suspended))
    return left


def _preempt(look: Looking, job: Job, part: Partition, need: Need, nodes: int) -> Verdict | None:
    """Remove candidates one by one until it fits; reorder once to disturb fewer (_run_now)."""
    cluster, rules = look.cluster, look.rules
    found = preemption.candidates(
        rules, cluster.accounts, cluster.partitions, cluster.running.values(), job, part, look.now
    )
    order = [
        one
        for one in found
        if preemption.mode_of(rules, cluster.accounts, one, cluster.partitions[one.partition])
        in preemption.REMOVING
    ]
    passes = 0
    while order:
        uses = cluster.uses
        placement, last = None, -1
        for at, victim in enumerate(order):
            uses = without(cluster, uses, [victim])
            placement = place(need, _world(look, job, part, uses), nodes, job.nodelist, exact=False)
            if placement is not None:
                last = at
                break
        if placement is None:
            return None
        taken = frozenset(placement.nodes)
        passes += 1
        if passes > rules.reorder_count + 1 or len(order) <= passes:
            victims = [one for one in order[: last + 1] if any(share.node in taken for share in one.shares)]
            whole = place(need, _world(look, job, part, uses), nodes, job.nodelist)  # limits look at its GRES
            return Verdict("BUSY", whole or placement, tuple(victims), reason="Resources")
        order = _reordered(rules, order, last, taken)
    return None


def _reordered(rules: preemption.Preemption, order: list[Job], last: int, taken: frozenset[int]) -> list[Job]:
    final = order[last]
    rest = order[:last] + order[last + 1 :]
    if rules.strict_order:
        return [final, *rest]
    overlap = {one.job_id: sum(1 for share in one.shares if share.node in taken) for one in order[:last]}
    return [final, *sorted(rest, key=lambda one: -overlap.get(one.job_id, 0))]
