"""From a request to a job record, or Slurm's refusal. (_job_create and job_allocate, job_mgr.c.)

The order of the checks is theirs: it decides which of several mistakes is named, and whether a job id is used up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from fairway.slurm import dependencies, features, limits, reservations, widening
from fairway.slurm.cluster import Cluster, billing_of
from fairway.slurm.conf import Configuration
from fairway.slurm.limits import Ask
from fairway.slurm.model.association import Association, Qos
from fairway.slurm.model.job import Job, JobRequest, copied
from fairway.slurm.model.partition import Partition
from fairway.slurm.model.tres import Tres
from fairway.slurm.queueing import partition_reason
from fairway.slurm.selecting import gres_needs
from fairway.slurm.words import hostlist
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.errors import SlurmError
from fairway.slurm.words.sizes import whole

MAX_ARRAY_TASKS = 1_001
"""MaxArraySize's default; the highest index is one less."""
_PATH_MOST = 4096
"""MAXPATHLEN."""


def make_job(cluster: Cluster, request: JobRequest, user: str, now: int) -> Job:
    """The record of a pending job; counted as submitted by the caller. Raises: SlurmError."""
    check_lengths(cluster, request)
    _check_counts(request)
    tasks, most_running = array_tasks(cluster, request.array)
    request = copied(request)
    request.nodelist = _known(cluster, request.nodelist)
    if request.nodelist:
        request.min_nodes = max(request.min_nodes or 1, len(request.nodelist))
        if request.max_nodes and request.min_nodes > request.max_nodes:
            raise SlurmError("INVALID_NODE_COUNT")
    parts = partitions_of(cluster, request.partition)
    assoc = association_of(cluster, request.account, user, parts[0].name)
    account = request.account or (assoc.account if assoc else "")
    qos = qos_of(cluster, request.qos, assoc)
    _check_partitions(cluster, request, parts, user)
    widening.widen(cluster, request, parts[0])
    widening.default_per_gpu(cluster, request, parts[0])
    job = _record(cluster, request, user, account, qos.name if qos else "", assoc, parts, now)
    job.licenses = licenses_of(cluster, request.licenses)
    _check_gres(cluster, job)
    job.req_tres = requested_tres(cluster, job, parts[0])
    _check_limits(cluster, job, parts[0], qos, max(len(tasks), 1))
    job.exclude = tuple(sorted(cluster.node_index[name] for name in _known(cluster, request.exclude)))
    if set(job.exclude) & set(job.nodelist):
        raise SlurmError("INVALID_NODE_NAME")
    if job.max_nodes and job.max_nodes < job.min_nodes:
        raise SlurmError("INVALID_NODE_COUNT")
    job.job_id = cluster.next_job_id
    cluster.next_job_id += 1
    _check_with_id(cluster, job)
    if tasks:
        job.array_job_id, job.array_left, job.array_max_running = job.job_id, tasks, most_running
    return job


def check_lengths(cluster: Cluster, request: JobRequest) -> None:
    """No text of a request fills the controller's memory (_test_job_desc_fields). Raises: SlurmError."""
    extra = request.extra
    texts = (
        (request.account, 1024),
        (request.array, 4 * 1024),
        (extra.get("comment"), 1024),
        (request.dependency, 128 * 1024),
        (request.features, 1024),
        (request.licenses, 1024),
        (extra.get("mail_user"), 1024),
        (request.name, 1024),
        (extra.get("network"), 1024),
        (request.partition, 1024),
        (request.prefer, 1024),
        (request.qos, 1024),
        (request.reservation, 1024),
        (extra.get("std_err"), _PATH_MOST),
        (extra.get("std_in"), _PATH_MOST),
        (extra.get("std_out"), _PATH_MOST),
        (extra.get("submit_line"), 1 << 20),
        (extra.get("tres_per_job"), 1024),
        (extra.get("tres_per_node"), 1024),
        (extra.get("tres_per_socket"), 1024),
        (extra.get("tres_per_task"), 1024),
        (extra.get("wckey"), 1024),
        (request.work_dir, _PATH_MOST),
        (request.script, cluster.conf.parameter("max_script_size", 4 << 20)),
    )
    for text, most in texts:
        # four bytes are the most of a letter
        if text and len(text) * 4 > most and len(str(text).encode("utf-8", "surrogatepass")) > most:
            raise SlurmError("PATHNAME_TOO_LONG")


def _check_counts(request: JobRequest) -> None:
    """What begins with a digit behind the last colon is a count (valid_tres_cnt). Raises: SlurmError INVALID_TRES."""
    for field in _TRES_TEXTS:
        for part in filter(None, str(request.extra.get(field, "")).split(",")):
            value = part.rpartition(":")[2]
            if not value or (value[0].isdigit() and value.lstrip("0123456789").lower() not in _MULTIPLES):
                raise SlurmError("INVALID_TRES")


_MULTIPLES = frozenset(("", *(f"{letter}{unit}" for letter in "kmgtp" for unit in ("", "b", "ib"))))
_TRES_TEXTS = ("tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task")


def check_asker(cluster: Cluster, request: JobRequest, user: str, now: int) -> None:
    """What only an administrator may ask for, and times that contradict each other."""
    plain = not cluster.is_operator(user)
    if plain and request.nice is not None and request.nice < 0:
        raise SlurmError("INVALID_NICE")
    if plain and request.reboot:
        raise SlurmError("ACCESS_DENIED", notes=("rebooting of nodes is only allowed for admins",))
    if request.time_min and request.time_limit is not None and request.time_min > request.time_limit:
        raise SlurmError("INVALID_TIME_MIN_LIMIT")
    if request.deadline and request.deadline < now:
        raise SlurmError("INVALID_TIME_LIMIT")
    # A limit that ends too late is accepted, and the job is over at the next look: _valid_job_part refuses it only with
    # a least limit of 0, which no command sends.
    if request.deadline and request.time_min and request.deadline < now + request.time_min * 60:
        raise SlurmError("INVALID_TIME_MIN_LIMIT")


def switch_wait_s(conf: Configuration, request: JobRequest) -> int:
    """How long it would wait for so few switches: as asked, at most max_switch_wait of SchedulerParameters."""
    most, asked = conf.parameter("max_switch_wait", 300), request.extra.get("switches_wait")
    return 0 if not request.switches else most if asked is None else min(int(str(asked)), most)


def _known(cluster: Cluster, names: tuple[str, ...]) -> tuple[str, ...]:
    if any(name not in cluster.node_index for name in names):
        raise SlurmError("INVALID_NODE_NAME")
    return names


def partitions_of(cluster: Cluster, names: str | None) -> tuple[Partition, ...]:
    """The partitions asked for, the default one otherwise; higher tiers first, as they will be tried."""
    if names is None:
        default = next((part for part in cluster.partitions.values() if part.default), None)
        if default is None:
            raise SlurmError("DEFAULT_PARTITION_NOT_SET")
        return (default,)
    found = [cluster.partitions.get(name) for name in dict.fromkeys(names.split(","))]
    if not found or any(part is None for part in found):
        raise SlurmError("INVALID_PARTITION_NAME")
    return tuple(sorted((part for part in found if part), key=lambda part: -part.priority_tier))


def association_of(cluster: Cluster, account: str | None, user: str, partition: str) -> Association | None:
    """Raises: SlurmError INVALID_ACCOUNT where associations are enforced and the user has none such."""
    accounts = cluster.accounts
    known = accounts.users.get(user)
    name = (account if account is not None else known.default_account if known else "").lower()
    found = accounts.find(name, user, partition) if name else None
    if found is None and "associations" in cluster.conf.enforce:
        raise SlurmError("INVALID_ACCOUNT")
    return found


def qos_of(cluster: Cluster, name: str | None, assoc: Association | None) -> Qos | None:
    """The QOS asked for, else the association's default, else `normal`. Raises: SlurmError INVALID_QOS."""
    accounts = cluster.accounts
    if name is None and assoc is not None:
        name = next((one.default_qos for one in accounts.up(assoc) if one.default_qos), None)
    found = accounts.qos.get("normal" if name is None else name.lower())
    if name is not None and found is None:
        raise SlurmError("INVALID_QOS")
    if found and assoc and "qos" in cluster.conf.enforce and found.name not in accounts.allowed_qos(assoc):
        raise SlurmError("INVALID_QOS")
    return found


def array_tasks(cluster: Cluster, text: str | None) -> tuple[list[int], int]:
    """(indexes, the number after %). Raises: SlurmError INVALID_ARRAY."""
    if not text:
        return [], 0
    most = cluster.conf.number("MaxArraySize", MAX_ARRAY_TASKS)
    body, _, running = text.partition("%")
    running = running if running.isdecimal() else ""
    found: set[int] = set()
    for part in filter(None, body.strip("[]").split(",")):
        span, colon, step = part.partition(":")
        low, dash, high = span.partition("-")
        if not all(word.isdecimal() for word in (low, *([high] if dash else []), *([step] if colon else []))):
            raise SlurmError("INVALID_ARRAY")
        first, last, by = whole(low), whole(high or low), whole(step or "1")
        if last < first or last >= most or (colon and (by <= 0 or by >= most)):
            raise SlurmError("INVALID_ARRAY")
        found.update(range(first, last + 1, by))
    if running and not body:
        found.add(0)
    return sorted(found), int(running or 0)


def _check_partitions(cluster: Cluster, request: JobRequest, parts: tuple[Partition, ...], user: str) -> None:
    for part in parts:
        if part.state in ("DRAIN", "INACTIVE"):
            raise SlurmError("PARTITION_NOT_AVAIL")
        if part.root_only and user != "root":
            raise SlurmError("ACCESS_DENIED")
        if part.require_reservation and not request.reservation:
            raise SlurmError("ACCESS_DENIED")
        if part.allow_groups and user != "root" and not cluster.is_in(user, part.allow_groups):
            raise SlurmError("JOB_MISSING_REQUIRED_PARTITION_GROUP")
    least = min(part.min_nodes for part in parts)
    if request.min_nodes is None:
        request.min_nodes = max(least, 1)
    elif request.min_nodes < least <= (request.max_nodes or least):
        request.min_nodes = least
    wanted = {cluster.node_index[name] for name in request.nodelist}
    if _enforced(cluster) and not any(wanted <= set(part.nodes) for part in parts):
        raise SlurmError("REQUESTED_NODES_NOT_IN_PARTITION")


def _enforced(cluster: Cluster) -> bool:
    return cluster.conf.get("EnforcePartLimits", "NO").upper() not in ("NO", "N", "0", "FALSE")


def _record(
    cluster: Cluster,
    request: JobRequest,
    user: str,
    account: str,
    qos: str,
    assoc: Association | None,
    parts: tuple[Partition, ...],
    now: int,
) -> Job:
    part, per_task = parts[0], max(request.cpus_per_task or 1, 1)
    tasks = request.num_tasks or 0
    min_nodes = 1 if request.min_nodes is None else request.min_nodes
    shared_tasks = tasks or max(min_nodes * (request.ntasks_per_node or 1), 1)
    min_cpus = request.min_cpus or (max(min_nodes, 1) if request.overcommit else shared_tasks * per_task)
    per_cpu, per_node = memory_of(cluster, request, part)
    default = part.default_time if part.default_time is not None else part.max_time
    job = Job(
        0,
        request,
        user,
        account,
        qos,
        assoc.id if assoc else 0,
        request.partition or part.name,
        tuple(one.name for one in parts),
        now,
        0,
        default if request.time_limit is None else request.time_limit,
        request.time_limit is not None or part.default_time is not None,
        nice=request.nice or 0,
        begin=request.begin if request.begin > now else 0,
        requeue=cluster.conf.number("JobRequeue", 1) != 0 if request.requeue is None else request.requeue,
        batch=request.batch,
        min_nodes=min_nodes,
        max_nodes=request.max_nodes or 0,
        min_cpus=max(min_cpus, min_nodes),
        num_tasks=shared_tasks,
        cpus_per_task=per_task,
        ntasks_per_node=request.ntasks_per_node or 0,
        mem_per_cpu=per_cpu,
        mem_per_node=per_node,
        features=None if request.features is None else request.features.replace(",", "&"),
        nodelist=tuple(sorted(cluster.node_index[name] for name in request.nodelist)),
        whole_node=request.exclusive if request.exclusive in ("node", "user", "mcs") else "",
        share=True if request.exclusive == "ok" else None,
        reservation=request.reservation or "",
        last_sched_eval=now,
    )
    if cluster.switches and switch_wait_s(cluster.conf, request):
        job.few_switches = request.switches or 0
    if request.spread and not job.max_nodes and tasks:
        job.max_nodes = min(len(cluster.nodes), tasks)
    if part.oversubscribe == "EXCLUSIVE":
        job.whole_node = "node"
    elif part.exclusive_user and not job.whole_node:
        job.whole_node = "user"
    return job


def memory_of(cluster: Cluster, request: JobRequest, part: Partition) -> tuple[int | None, int | None]:
    """(MiB per CPU, MiB per node): as asked, else the partition's default, else the cluster's; `--mem=0` is all."""
    if request.mem_per_cpu is not None:
        return request.mem_per_cpu, None
    if request.mem_per_node is not None:
        return None, request.mem_per_node
    if part.def_mem_per_cpu is not None or part.def_mem_per_node is not None:
        return part.def_mem_per_cpu, None if part.def_mem_per_cpu is not None else part.def_mem_per_node
    conf = cluster.conf
    if conf.get("DefMemPerCPU"):
        return conf.number("DefMemPerCPU", 0) or None, None
    return None, conf.number("DefMemPerNode", 0)


def licenses_of(cluster: Cluster, text: str | None) -> dict[str, int]:
    """`name:count,…`. Raises: SlurmError INVALID_LICENSES."""
    found: dict[str, int] = {}
    for part in filter(None, (text or "").replace(";", ",").split(",")):
        name, _, count = part.replace("=", ":").partition(":")
        known = cluster.licenses.get(name)
        if known is None or not (count or "1").isdecimal() or int(count or 1) > known.total:
            raise SlurmError("INVALID_LICENSES")
        found[name] = found.get(name, 0) + int(count or 1)
    return found


def _check_gres(cluster: Cluster, job: Job) -> None:
    """Names must be in GresTypes; counts that belong together set tasks and nodes (gres_job_state_validate)."""
    request, types = job.request, cluster.conf.words("GresTypes")
    needs = gres_needs(job)
    plain = {one.name for one in needs if not one.kind}
    for one in needs:
        if one.name not in types:
            raise SlurmError("INVALID_GRES")
        if one.kind and one.name in plain:
            raise SlurmError("INVALID_GRES_TYPE")
        if one.per_job and one.per_node:
            nodes, rest = divmod(one.per_job, one.per_node)
            if rest or not nodes or (request.min_nodes or 0) > nodes or nodes > (request.max_nodes or nodes):
                raise SlurmError("INVALID_GRES")
            job.min_nodes = job.max_nodes = nodes
        tasks = 0
        if one.per_task and one.per_job:
            tasks = one.per_job // one.per_task
        elif one.tasks_each and one.per_job:
            tasks = one.per_job * one.tasks_each
        if tasks:
            if request.num_tasks is not None and request.num_tasks != tasks:
                raise SlurmError("INVALID_GRES")
            request.num_tasks = job.num_tasks = tasks
            job.min_cpus = max(job.min_cpus, tasks * job.cpus_per_task)
        elif one.per_task and request.num_tasks is None and request.ntasks_per_node is None:
            raise SlurmError("INVALID_GRES")


def requested_tres(cluster: Cluster, job: Job, part: Partition) -> Tres:
    """What is asked for, as far as it is known before a node is chosen."""
    found: Tres = {"cpu": job.min_cpus, "node": max(job.min_nodes, 1)}
    nodes, tracked = found["node"], set(cluster.conf.tracked)
    by_gres = 0
    for one in gres_needs(job):
        count = one.total(nodes, job.request.sockets_per_node or 1, job.num_tasks)
        by_gres += one.mem_each * count
        for name in (f"gres/{one.name}", f"gres/{one.name}:{one.kind}" if one.kind else ""):
            if name in tracked:
                found[name] = found.get(name, 0) + count
    if by_gres and job.request.mem_per_cpu is None and job.request.mem_per_node is None:
        mem = by_gres
    elif job.mem_per_cpu is not None:
        mem = job.mem_per_cpu * found["cpu"]
    else:
        mem = (job.mem_per_node or _smallest_memory(cluster, part)) * nodes
    found["mem"] = mem
    for name, count in job.licenses.items():
        if f"license/{name}" in tracked:
            found[f"license/{name}"] = count
    found["billing"] = billing_of(part, found)
    return found


def _smallest_memory(cluster: Cluster, part: Partition) -> int:
    return max((cluster.nodes[node].conf.real_memory for node in part.nodes), default=0)


def _check_limits(cluster: Cluster, job: Job, part: Partition, qos: Qos | None, count: int) -> None:
    policy = cluster.policy(job, part)
    strict = any("DenyOnLimit" in one.flags for one in policy.qos)
    ask = Ask(job.user, job.account, job.time_limit if job.limit_set else INFINITE, job.req_tres, (), count)
    reason = limits.at_submit(policy, ask, part.max_time, strict=strict)
    if reason:
        raise SlurmError("ACCOUNTING_POLICY", notes=(reason,))
    if _enforced(cluster):
        reasons = {partition_reason(cluster, job, cluster.partitions[name]) for name in job.partitions}
        if "" not in reasons:
            raise SlurmError(_PART_ERRORS.get(min(reasons), "REQUESTED_PART_CONFIG_UNAVAILABLE"))


_PART_ERRORS = {"PartitionTimeLimit": "INVALID_TIME_LIMIT", "PartitionNodeLimit": "INVALID_NODE_COUNT"}


def _check_with_id(cluster: Cluster, job: Job) -> None:
    """Mistakes found after the job has its id."""
    try:
        job.dependencies = dependencies.parse(cluster, job.request.dependency or "", job.job_id)
    except SlurmError as error:
        raise SlurmError(error.name, job.job_id) from error
    job.dependency_text = job.request.dependency or ""
    if job.features:
        wanted = features.parse(job.features)
        known = {name for node in cluster.nodes for name in node.features}
        if wanted is None or not wanted.names <= known:
            raise SlurmError("INVALID_FEATURE", job.job_id)
    if job.request.prefer:
        wanted = features.parse(job.request.prefer)
        known = {name for node in cluster.nodes for name in node.features}
        if wanted is None or not wanted.names <= known:
            raise SlurmError("INVALID_PREFER", job.job_id)
    if job.reservation:
        for name in job.reservation.split(","):
            found = cluster.reservations.get(name)
            if found is None:
                raise SlurmError("RESERVATION_INVALID", job.job_id)
            if not reservations.may_use(found, job.user, job.account):
                raise SlurmError("RESERVATION_ACCESS", job.job_id)


def nodes_text(cluster: Cluster, nodes: tuple[int, ...]) -> str:
    """Node numbers as a host list."""
    return hostlist.compress_sorted(cluster.names(nodes))


_FIELDS = {one.name for one in fields(JobRequest)}


_WRITTEN = ("tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task")
"""Fields that are kept as words beside."""


def changed(request: JobRequest, changes: Mapping[str, object], but: tuple[str, ...] = ()) -> JobRequest:
    """The request with some fields set (`scontrol update job`), but those that are the record's own."""
    made = copied(request)
    made.extra = dict(request.extra)
    for name, value in changes.items():
        if name == "nodes" and isinstance(value, tuple):
            made.min_nodes, made.max_nodes = value[0], value[1] or request.max_nodes
        elif name == "switches" and isinstance(value, tuple):
            made.switches = value[0] or None
            waits = value[1] if value[1] is not None or request.switches else 0
            made.extra["switches_wait"] = request.extra.get("switches_wait") if waits is None else waits
        elif name in _WRITTEN and isinstance(value, tuple):
            text, counts = value
            made.extra[name] = text
            setattr(made, name, getattr(request, name) | counts if text else {})
        elif name in _FIELDS:
            setattr(made, name, value)
            if name in _WRITTEN and isinstance(value, Mapping):
                made.extra[name] = ",".join(f"gres:{gres}:{count}" for gres, count in value.items())
        elif name not in but:
            made.extra[name] = value
    return made
