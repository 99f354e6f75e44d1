"""What squeue prints of a job, column by column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairway.slurm import dependencies
from fairway.slurm.commands import jobtext
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.formats import Table
from fairway.slurm.model.job import Job, NodeShare
from fairway.slurm.submitting import switch_wait_s
from fairway.slurm.words import durations, sizes
from fairway.slurm.words.durations import INFINITE


@dataclass(slots=True)
class Row:
    """A job in one of its partitions; `job` may stand for an array's tasks that wait."""

    call: Call
    job: Job
    partition: str


def left_of(row: Row) -> int:
    return row.job.time_limit * 60 - jobtext.seconds_used(row.job, row.call.now)


def _null(text: str | None) -> str:
    return "(null)" if text is None else text


def _moment(row: Row, when: int) -> str:
    return row.call.stamp(when) if when else "N/A"


def _extra(name: str, missing: str = "(null)") -> Callable[[Row], str]:
    return lambda r: str(r.job.request.extra.get(name, missing))


def _count(field: str, missing: str) -> Callable[[Row], str]:
    """A number of the request, or what stands where none was asked."""

    def value(row: Row) -> str:
        number = getattr(row.job.request, field)
        return missing if number is None else str(number)

    return value


def _reason_list(row: Row) -> str:
    job = row.job
    told = job.pending or job.state in ("TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "FAILED")
    if told and "COMPLETING" not in job.flags:
        return f"({jobtext.reason_text(job)})"
    return jobtext.node_list(job.nodes)


def _sharing(row: Row) -> str:
    job = row.job
    if job.whole_node:
        return {"node": "NO", "user": "USER", "mcs": "MCS"}[job.whole_node]
    return "YES" if job.share else "OK"


def limit_text(limit: int) -> str:
    return "UNLIMITED" if limit == INFINITE else durations.short(_int32(limit * 60))


def _int32(value: int) -> int:
    """As C's unsigned arithmetic has it."""
    return value % 2**32


def _end(row: Row) -> str:
    if row.job.time_limit >= INFINITE and not row.job.finished and row.job.start:
        return "NONE"
    return _moment(row, jobtext.end_time(row.job))


def _array_task(row: Row) -> str:
    if row.job.array_left:
        return jobtext.tasks_left(row.job, row.call.environment)
    return "N/A" if row.job.array_task is None else str(row.job.array_task)


def _std(which: str) -> Callable[[Row], str]:
    """The path as it was asked for: squeue leaves %j and the like as they are."""

    def value(row: Row) -> str:
        job = row.job
        if not job.batch and which == "err":
            return "N/A"
        extra, folder = job.request.extra, job.request.work_dir
        asked = (extra.get("std_err") if which == "err" else "") or extra.get("std_out")
        if not asked:
            return f"{folder}/slurm-{job.job_id}.out"
        return str(asked) if str(asked).startswith("/") else f"{folder}/{asked}"

    return value


def _share(share: NodeShare) -> int:
    return share.cpus


def _min_cpus(row: Row) -> str:
    request = row.job.request
    per_node = request.ntasks_per_node or 1
    return str(max(request.node_min_cpus or 0, (request.cpus_per_task or 1) * per_node, 1))


def _mebibytes(row: Row, amount: int) -> str:
    """In the largest unit that keeps it exact; as it is with --noconvert."""
    if amount and any(word.startswith("--noc") for word in row.call.arguments):
        return f"{amount}M"
    return sizes.memory_text(amount)


VALUES: dict[str, Callable[[Row], str]] = {
    "account": lambda r: r.job.account,
    "job_id2": lambda r: str(r.job.job_id),
    "tres_per_node": _extra("tres_per_node", "N/A"),
    "batch_host": lambda r: (r.job.batch_host or "n/a") if r.job.batch else r.call.site.host,
    "min_cpus": _min_cpus,
    "num_cpus": lambda r: str(jobtext.cpu_count(r.job)),
    "min_tmp_disk": lambda r: _mebibytes(r, r.job.request.min_tmp_disk or 0),
    "num_nodes": lambda r: str(jobtext.node_count(r.call.site, r.job)),
    "time_end": _end,
    "dependency": lambda r: dependencies.written(r.job) or "(null)",
    "features": lambda r: _null(jobtext.features_used(r.job)),
    "array_job_id": lambda r: str(r.job.array_job_id or r.job.job_id),
    "group_name": lambda r: r.job.user,
    "group_id": lambda r: str(r.call.site.uid(r.job.user)),
    "over_subscribe": _sharing,
    "sockets": _count("sockets_per_node", "*"),
    "job_id": lambda r: jobtext.job_number(r.job, r.call.environment),
    "cores": _count("cores_per_socket", "*"),
    "name": lambda r: r.job.request.name,
    "threads": _count("threads_per_core", "*"),
    "comment": _extra("comment"),
    "array_task_id": _array_task,
    "time_limit": lambda r: limit_text(r.job.time_limit),
    "time_left": lambda r: "UNLIMITED" if r.job.time_limit == INFINITE else durations.short(left_of(r)),
    "min_memory": lambda r: _mebibytes(r, jobtext.min_memory(r.job)),
    "time_used": lambda r: durations.short(jobtext.seconds_used(r.job, r.call.now)),
    "req_nodes": lambda r: jobtext.node_list(r.job.request.nodelist),
    "nodes": lambda r: jobtext.node_list(r.job.nodes),
    "command": _extra("command"),
    "contiguous": lambda r: str(int(r.job.request.contiguous)),
    "priority": lambda r: f"{r.job.priority / 0xFFFFFFFF:16.14f}",
    "partition": lambda r: r.partition,
    "qos": lambda r: r.job.qos,
    "priority_long": lambda r: str(r.job.priority),
    "reason": lambda r: jobtext.reason_text(r.job),
    "reason_list": _reason_list,
    "select_jobinfo": lambda r: "",
    "time_start": lambda r: _moment(r, jobtext.start_time(r.job)),
    "job_state_compact": lambda r: jobtext.COMPACT[jobtext.state_text(r.job)],
    "job_state": lambda r: jobtext.state_text(r.job),
    "user_id": lambda r: str(r.call.site.uid(r.job.user)),
    "user_name": lambda r: r.job.user,
    "reservation": lambda r: r.job.reservation or "(null)",
    "time_submit": lambda r: _moment(r, r.job.submit),
    "wckey": _extra("wckey"),
    "licenses": lambda r: _null(r.job.request.licenses),
    "exc_nodes": lambda r: jobtext.node_list(r.job.request.exclude),
    "core_spec": _count("core_spec", "N/A"),
    "nice": lambda r: str(r.job.nice),
    "schednodes": lambda r: jobtext.node_list(r.job.scheduled_nodes) or "(null)",
    "num_sct": lambda r: ":".join(VALUES[c](r) for c in ("sockets", "cores", "threads")),
    "work_dir": lambda r: r.job.request.work_dir,
    "container": _extra("container"),
    "burst_buffer": lambda r: "(null)",
    "burst_buffer_state": lambda r: "(null)",
    "cluster_name": lambda r: r.call.site.name,
    "delay_boot": lambda r: durations.short(r.job.request.delay_boot or 0),
    "num_tasks": lambda r: str(r.job.num_tasks),
    "cluster_features": lambda r: "(null)",
    "prefer": lambda r: _null(r.job.request.prefer),
    "admin_comment": _extra("admin_comment"),
    "system_comment": _extra("system_comment"),
    "job_last_sched_eval": lambda r: r.call.stamp(r.job.last_sched_eval),
    "time_pending": lambda r: str(
        (r.job.start if 0 < r.job.start < r.call.now else r.call.now) - r.job.submit
    ),
    "accrue_time": lambda r: _moment(r, r.job.eligible),
    "alloc_nodes": lambda r: r.call.site.host,
    "alloc_sid": lambda r: "0",
    "assoc_id": lambda r: str(r.job.assoc_id),
    "batch_flag": lambda r: str(int(r.job.batch)),
    "boards_per_node": lambda r: "0",
    "cpus_per_task": lambda r: str(r.job.cpus_per_task),
    "derived_ec": lambda r: str(r.job.derived_exit),
    "eligible_time": lambda r: _moment(r, jobtext.eligible_time(r.job)),
    "exit_code": lambda r: str(r.job.exit_code << 8 | r.job.signal),
    "fed_origin": lambda r: "NA",
    "fed_origin_raw": lambda r: "NA",
    "fed_siblings_active": lambda r: "NA",
    "fed_siblings_active_raw": lambda r: "NA",
    "fed_siblings_viable": lambda r: "NA",
    "fed_siblings_viable_raw": lambda r: "NA",
    "max_cpus": lambda r: str(jobtext.cpu_count(r.job)),
    "max_nodes": lambda r: str(r.job.max_nodes or jobtext.node_count(r.call.site, r.job)),
    "network": _extra("network"),
    "ntasks_per_core": _count("ntasks_per_core", "N/A"),
    "ntasks_per_node": _count("ntasks_per_node", "0"),
    "ntasks_per_socket": _count("ntasks_per_socket", "N/A"),
    "ntasks_per_board": lambda r: "0",
    "preempt_time": lambda r: _moment(r, r.job.preempt_time),
    "profile": lambda r: jobtext.profile_text(r.job),
    "reboot": lambda r: str(int(r.job.request.reboot)),
    "req_switch": lambda r: str(r.job.request.switches or 0),
    "requeue": lambda r: str(int(r.job.requeue)),
    "resize_time": lambda r: "N/A",
    "restart_cnt": lambda r: str(r.job.restarts),
    "sockets_per_board": lambda r: "0",
    "std_err": _std("err"),
    "std_in": lambda r: str(r.job.request.extra.get("std_in", "/dev/null")),
    "std_out": _std("out"),
    "min_time": lambda r: durations.short((r.job.request.time_min or 0) * 60),
    "wait4switch": lambda r: durations.short(switch_wait_s(r.call.site.conf, r.job.request)),
    "cpus_per_tres": _extra("cpus_per_tres", "N/A"),
    "mem_per_tres": _extra("mem_per_tres", "N/A"),
    "tres_alloc": lambda r: jobtext.tres_text(r.call.site, r.job.alloc_tres or r.job.req_tres) or "N/A",
    "tres_bind": _extra("tres_bind", "N/A"),
    "tres_freq": _extra("tres_freq", "N/A"),
    "tres_per_job": _extra("tres_per_job", "N/A"),
    "tres_per_socket": _extra("tres_per_socket", "N/A"),
    "tres_per_task": _extra("tres_per_task", "N/A"),
    "mcs_label": _extra("mcs_label", "(null)"),
    "deadline": lambda r: _moment(r, r.job.request.deadline),
    "het_job_id": lambda r: str(r.job.het_job_id or "N/A"),
    "het_job_offset": lambda r: str(r.job.het_offset) if r.job.het_job_id else "N/A",
    "het_job_id_set": lambda r: jobtext.components(r.call.site, r.job) or "N/A",
}
_UNCUT = frozenset(
    ("reason_list", "nodes", "req_nodes", "exc_nodes", "time_limit", "time_left", "time_used", "schednodes")
)
TABLE: Table[Row] = Table(VALUES, _UNCUT)
