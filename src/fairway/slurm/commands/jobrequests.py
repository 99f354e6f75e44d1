"""From checked options to what is sent to the controller.

What does not fit together is refused here, before the controller hears of it, as sbatch's `_opt_verify` and the GRES
checks of `slurm_opt_create_job_desc` do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fairway.slurm.commands.call import Call
from fairway.slurm.commands.joboptions import REFUSED, JobOptions
from fairway.slurm.model.job import JobRequest
from fairway.slurm.words import hostlist
from fairway.slurm.words.errors import refusals

_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")


@dataclass(slots=True)
class Counts:
    """The numbers that are adjusted to each other before a request is made."""

    min_nodes: int
    max_nodes: int
    nodes_set: bool
    ntasks: int
    ntasks_set: bool
    cpus: int
    min_cpus_per_node: int


def request_of(options: JobOptions) -> JobRequest:
    """The request, without script, argv, environment and files."""
    call = options.call
    _check_memory(options)
    _check_tasks_per_gpu(options)
    if options.get("quiet") and options.get("verbose"):
        call.error("don't specify both --verbose (-v) and --quiet (-Q)")
    nodelist = _node_names(options)
    counts = _counts(options, nodelist)
    _check_counts(options, counts)
    if options.get("deadline") and options.get("begin") and options.get("deadline") < options.get("begin"):
        call.fail("Incompatible begin and deadline time specification")
    request = _request(options, counts, nodelist)
    check_gres(call, request)
    return request


def _check_memory(options: JobOptions) -> None:
    """The three ways to say memory exclude each other; the command line wins over the rest."""
    typed = [name for name in _MEMORY if options.source.get(name) in ("cli", "data")]
    if len(typed) > 1:
        options.call.fatal("--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.")
    if typed:
        options.forget(*(name for name in _MEMORY if name != typed[0]))
    elif sum(options.source.get(name) == "env" for name in _MEMORY) > 1:
        variables = "SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE"
        options.call.fatal(f"{variables} are mutually exclusive.")


def _check_tasks_per_gpu(options: JobOptions) -> None:
    if not (options.is_set("ntasks-per-gpu") or options.is_set("ntasks-per-tres")):
        return
    for name in ("gpus-per-task", "gpus-per-socket", "ntasks-per-node"):
        where = options.source.get(name)
        if where:
            said = f"--{name}" if where != "env" else "SLURM_" + name.upper().replace("-", "_")
            options.call.fatal(f"{said} is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU")


def _node_names(options: JobOptions) -> list[str]:
    call = options.call
    text = options.get("nodelist") or ""
    if options.get("nodefile"):
        read = call.site.read_file(call, options.get("nodefile"))
        if read is None:
            path = options.get("nodefile")
            call.error(f"slurm_allocate_resources error opening file {path}, No such file or directory")
            call.fail("Invalid --nodefile node file", REFUSED)
        text = ",".join(line.partition("#")[0].strip() for line in read.splitlines())
    try:
        return list(dict.fromkeys(hostlist.expand(text)))
    except hostlist.HostlistError:
        return [text]


def _counts(options: JobOptions, nodelist: list[str]) -> Counts:
    least, most = options.get("nodes", (1, 0))
    counts = Counts(
        least,
        most,
        options.is_set("nodes"),
        options.get("ntasks", 1),
        options.is_set("ntasks"),
        options.get("cpus-per-task", 0),
        options.get("mincpus", -1),
    )
    if options.get("nodelist") == "":
        counts.min_nodes, counts.nodes_set = 0, True
    if nodelist:
        counts.min_nodes = max(len(nodelist), counts.min_nodes) if counts.nodes_set else len(nodelist)
        counts.nodes_set = True
    per_node = options.get("ntasks-per-node", 0)
    if per_node > 0 and not counts.ntasks_set and counts.max_nodes in (0, counts.min_nodes):
        counts.ntasks, counts.ntasks_set = counts.min_nodes * per_node, True
    if counts.cpus:
        counts.min_cpus_per_node = max(counts.min_cpus_per_node, counts.cpus)
    return counts


def _check_counts(options: JobOptions, counts: Counts) -> None:
    if counts.max_nodes and counts.min_nodes > counts.max_nodes:
        options.call.fail(f"invalid number of nodes (-N {counts.min_nodes}-{counts.max_nodes})")
    shaped = counts.nodes_set or options.is_set("extra-node-info")
    if shaped and counts.max_nodes in (0, counts.min_nodes) and not counts.ntasks_set:
        counts.ntasks = max(counts.min_nodes, 1)
        for name in ("sockets-per-node", "cores-per-socket", "threads-per-core"):
            if options.get(name):
                counts.ntasks *= options.get(name)
                counts.ntasks_set = True
    elif counts.nodes_set and counts.ntasks_set:
        counts.max_nodes = min(counts.max_nodes, counts.ntasks)
        if counts.ntasks < counts.min_nodes:
            options.call.info(
                f"Warning: can't run {counts.ntasks} processes on {counts.min_nodes} "
                f"nodes, setting nnodes to {counts.ntasks}"
            )
            counts.min_nodes = counts.max_nodes = counts.ntasks


def _request(options: JobOptions, counts: Counts, nodelist: list[str]) -> JobRequest:
    get = options.get
    batch = options.call.name == "sbatch"
    return JobRequest(
        name=get("job-name") or "",
        account=get("account"),
        partition=get("partition"),
        qos=get("qos"),
        time_limit=get("time"),
        time_min=get("time-min"),
        min_nodes=counts.min_nodes if counts.nodes_set else None,
        max_nodes=counts.max_nodes or None if counts.nodes_set else None,
        num_tasks=counts.ntasks if counts.ntasks_set else None,
        cpus_per_task=counts.cpus or None,
        min_cpus=counts.min_nodes if get("overcommit") else counts.ntasks * max(counts.cpus, 1),
        ntasks_per_node=get("ntasks-per-node"),
        ntasks_per_socket=get("ntasks-per-socket"),
        ntasks_per_core=get("ntasks-per-core"),
        ntasks_per_gpu=get("ntasks-per-tres") or get("ntasks-per-gpu"),
        sockets_per_node=get("sockets-per-node"),
        cores_per_socket=get("cores-per-socket"),
        threads_per_core=get("threads-per-core"),
        node_min_cpus=counts.min_cpus_per_node if counts.min_cpus_per_node > 0 else None,
        core_spec=get("core-spec"),
        mem_per_node=get("mem") if get("mem-per-cpu") != 0 else get("mem") or 0,
        mem_per_cpu=get("mem-per-cpu") or None
        if get("mem") is None
        else None,  # 0 is a whole node's, as of --mem
        min_tmp_disk=get("tmp"),
        tres_per_job=_gpus(get("gpus")),
        tres_per_node=_gpus(get("gpus-per-node")) | _gres(get("gres")),
        tres_per_socket=_gpus(get("gpus-per-socket")),
        tres_per_task=_gpus(get("gpus-per-task")),
        cpus_per_tres={"gpu": get("cpus-per-gpu")} if get("cpus-per-gpu") else {},
        mem_per_tres={"gpu": get("mem-per-gpu")} if get("mem-per-gpu") is not None else {},
        gres_flags=get("gres-flags", ()),
        features=get("constraint"),
        prefer=get("prefer"),
        nodelist=tuple(nodelist),
        exclude=_excluded(options),
        exclusive=get("exclusive"),
        contiguous=bool(get("contiguous")),
        spread=bool(get("spread-job")),
        use_min_nodes=bool(get("use-min-nodes")),
        overcommit=bool(get("overcommit")),
        distribution=get("distribution"),
        begin=get("begin", 0),
        deadline=get("deadline", 0),
        array=get("array") or None,
        dependency=get("dependency") or None,
        kill_on_invalid_dep=get("kill-on-invalid-dep"),
        nice=get("nice"),
        priority=get("priority") or None,  # 0 is as if nothing were asked
        hold="user" if get("hold") else "",
        requeue=get("requeue"),
        reservation=get("reservation"),
        licenses=get("licenses"),
        immediate=get("immediate") is not None,
        reboot=bool(get("reboot")),
        switches=get("switches"),
        batch=batch,
        work_dir=get("chdir") or options.call.cwd,
        extra=_extra(options),
    )


def _excluded(options: JobOptions) -> tuple[str, ...]:
    text = options.get("exclude") or ""
    try:
        return tuple(hostlist.expand(text))
    except hostlist.HostlistError:
        return (text,)


_ASKED = {"tres_per_job": "gpus", "tres_per_socket": "gpus-per-socket", "tres_per_task": "gpus-per-task"}


def _extra(options: JobOptions) -> dict[str, object]:
    """What no decision depends on. `tres_per_…` are the words as Slurm keeps and prints them."""
    extra: dict[str, object] = {
        name.replace("-", "_"): options.get(name)
        for name in (
            "comment",
            "wckey",
            "mail-type",
            "mail-user",
            "signal",
            "network",
            "constraint",
            "mcs-label",
            "profile",
        )
        if options.get(name) is not None
    }
    extra["submit_line"] = " ".join((options.call.name, *options.call.arguments))
    for field, name in _ASKED.items():
        if options.get(name):
            extra[field] = ",".join(f"gres:gpu:{part}" for part in options.get(name).split(",") if part)
    per_node = [f"gres:gpu:{part}" for part in (options.get("gpus-per-node") or "").split(",") if part]
    gres = options.get("gres") or ""
    if gres.lower() != "none" and (gres or options.is_set("gres")):
        per_node.append("gres:" + gres.replace("gres:", "").replace(",", ",gres:"))
    if per_node:
        extra["tres_per_node"] = ",".join(per_node)
    if options.get("cpus-per-gpu"):
        extra["cpus_per_tres"] = f"gres:gpu:{options.get('cpus-per-gpu')}"
    for field, name in (("tres_bind", "gpu-bind"), ("tres_freq", "gpu-freq")):
        if options.get(name):
            extra[field] = f"gpu:{options.get(name)}"
    if options.get("switches-wait") is not None:
        extra["switches_wait"] = options.get("switches-wait")
    if options.get("mem-per-gpu") is not None:
        extra["mem_per_tres"] = f"gres:gpu:{options.get('mem-per-gpu')}"
    return extra


def _gpus(text: str | None) -> dict[str, int]:
    """`2`, `h100:4`, `h100:1,a100:2` of --gpus."""
    return _gres(",".join(f"gpu:{part}" for part in text.split(",") if part) if text else None)


def _gres(text: str | None) -> dict[str, int]:
    """`gpu:h100:2,gpu:1` → GRES name with its type → count. A count that is none counts as a type's name."""
    found: dict[str, int] = {}
    if not text or text.lower() == "none":
        return found
    for part in filter(None, text.replace("gres:", "").split(",")):
        words = part.split(":")
        number = gres_count(words[-1]) if len(words) > 1 else None
        if len(words) == 3 and number is None:
            name, count = part, -1  # refused as a whole by `check_gres`
        else:
            name = ":".join(words[: len(words) - (number is not None)])
            count = 1 if number is None else number
        if count:
            found[name] = count  # of one name the last counts (gres_job_state_validate)
    return found


def gres_count(text: str) -> int | None:
    """`4`, `2K`: a GRES count."""
    found = re.fullmatch(r"(\d{1,15})([kKmMgGtTpP]?)", text)
    return int(found[1]) * 1024 ** " KMGTP".index(found[2].upper() or " ") if found else None


def check_gres(call: Call, request: JobRequest) -> None:
    """What contradicts itself among the GRES asked for is refused before it is sent."""
    known = call.site.gres_names
    asked: dict[str, dict[str, int]] = {}
    for of in ("job", "node", "socket", "task"):
        for name, count in getattr(request, f"tres_per_{of}").items():
            if name.partition(":")[0] not in known or count < 0 or name.endswith(":") or name.count(":") > 1:
                _refuse_gres(call, "")
            asked.setdefault(name, {})[of] = count
    if any(name.partition(":")[0] in asked for name in asked if ":" in name):
        call.fail(refusals()["INVALID_GRES_TYPE"][1])
    if request.ntasks_per_gpu and not asked and not request.num_tasks:
        needs = "either a GRES GPU specification or a node/ntask specification"
        _refuse_gres(call, f"gres_job_state_validate: --ntasks-per-tres needs {needs}")
    if request.mem_per_tres and not any(name.startswith("gpu") for name in asked):
        _refuse_gres(
            call, f"Requested mem_per_tres={request.extra['mem_per_tres']} but did not request any GPU."
        )
    if request.ntasks_per_gpu and not asked and request.num_tasks:
        request.tres_per_job = {"gpu": request.num_tasks // request.ntasks_per_gpu}
    if request.ntasks_per_gpu and asked:
        gpus = sum(c.get("job") or c.get("node", 0) * (request.min_nodes or 1) for c in asked.values())
        request.num_tasks = gpus * request.ntasks_per_gpu or request.num_tasks
    elif (
        request.tres_per_task
        and request.num_tasks is None
        and request.min_nodes
        and (request.min_nodes == request.max_nodes)
    ):
        request.num_tasks = request.min_nodes * (request.ntasks_per_node or 1)
    for name, counts in asked.items():
        _refuse_gres(call, _contradiction(request, name.partition(":")[0], counts), only_if=True)


def _refuse_gres(call: Call, said: str, only_if: bool = False) -> None:
    if only_if and not said:
        return
    if said:
        call.error(said)
    call.fail(refusals()["INVALID_GRES"][1])


def _contradiction(request: JobRequest, gres: str, counts: dict[str, int]) -> str:
    """What Slurm says is wrong with one GRES's counts per job, node, socket and task; "" for nothing."""
    job, node = counts.get("job", 0), counts.get("node", 0)
    socket, task = counts.get("socket", 0), counts.get("task", 0)
    per = f"--gres={gres}/--{gres}s-per-node"
    failed = "Failed to validate job spec"
    if job and max(node, task, socket) > job:
        return f"Failed to ensure --{gres}ss >= {per} >= --{gres}s-per-socket".replace("ss >=", "s >=")
    if node and max(task, socket) > node:
        return f"Failed to ensure --{gres}s >= --{gres}s-per-task"
    if socket and request.sockets_per_node is None:
        return f"--{gres}s-per-socket option requires --sockets-per-node specification"
    if request.cpus_per_tres and request.cpus_per_task is not None:
        return f"--cpus-per-{gres} is mutually exclusive with --cpus-per-task"
    if job and node:
        if job % node:
            return f"{failed}, --{gres}s is not multiple of {per}"
        nodes = job // node
        low, high = request.min_nodes, request.max_nodes
        if (low is not None and nodes < low) or nodes > (high or 0xFFFFFFFE):
            shown = (low if low is not None else 0xFFFFFFFE, high or 0xFFFFFFFE)
            return (
                f"{failed}. Based on --{gres} and {per} required nodes ({nodes}) doesn't fall "
                f"between min_nodes ({shown[0]}) and max_nodes ({shown[1]}) boundaries."
            )
        request.min_nodes = request.max_nodes = nodes
    if node and socket:
        if node % socket:
            return f"{failed}, {per} not multiple of --{gres}s-per-socket."
        if request.sockets_per_node != node // socket:
            said = f"Based on {per} and --{gres}s-per-socket required number of sockets differ from --sockets-per-node."
            return f"{failed}. {said}"
    if request.ntasks_per_gpu and request.num_tasks and request.num_tasks % request.ntasks_per_gpu:
        return f"{failed}, -n/--ntasks has to be a multiple of --ntasks-per-{gres}."
    if task:
        said = _task_contradiction(request, gres, job, node, task, per)
        if said:
            return f"{failed}{said}"
    if job and request.min_nodes is not None and job < request.min_nodes:
        return f"{failed}, --{gres}s < -N"
    if job and request.max_nodes is not None and job < request.max_nodes:
        request.max_nodes = job
    return ""


def _task_contradiction(request: JobRequest, gres: str, job: int, node: int, task: int, per: str) -> str:
    if job:
        if job % task:
            return f", --{gres}s not multiple of --{gres}s-per-task"
        if request.num_tasks is None:
            request.num_tasks = job // task
        elif request.num_tasks != job // task:
            return f". Based on --{gres}s and --{gres}s-per-task number of requested tasks differ from -n/--ntasks."
    elif request.num_tasks is None:
        return f". --{gres}s-per-task used without either --{gres}s or -n/--ntasks is not allowed."
    if node:
        if node % task:
            return f", {per} not multiple of --{gres}s-per-task."
        if not request.ntasks_per_node:
            request.ntasks_per_node = node // task
        elif request.ntasks_per_node != node // task:
            said = f"Based on {per} and --{gres}s-per-task requested number of tasks per node"
            return f". {said} differ from --ntasks-per-node."
    wanted = request.cpus_per_tres.get(gres, 0) * task
    if wanted:
        if not request.cpus_per_task:
            request.cpus_per_task = wanted
        elif request.cpus_per_task != wanted:
            said = f"Based on --cpus-per-{gres} and --{gres}s-per-task requested number of cpus"
            return f". {said} differ from -c/--cpus-per-task."
    return ""
