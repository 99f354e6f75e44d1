"""What Slurm's commands print about a job: the same facts in squeue, scontrol, sacct and the job's environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from fairway.slurm.commands.site import Site
from fairway.slurm.model.job import Job
from fairway.slurm.words import hostlist, sizes
from fairway.slurm.words.durations import INFINITE

COMPACT = {
    "PENDING": "PD",
    "RUNNING": "R",
    "SUSPENDED": "S",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": "TO",
    "NODE_FAIL": "NF",
    "PREEMPTED": "PR",
    "BOOT_FAIL": "BF",
    "DEADLINE": "DL",
    "OUT_OF_MEMORY": "OOM",
    "COMPLETING": "CG",
    "CONFIGURING": "CF",
    "RESIZING": "RS",
    "RESV_DEL_HOLD": "RD",
    "REQUEUED": "RQ",
    "REQUEUE_FED": "RF",
    "REQUEUE_HOLD": "RH",
    "REVOKED": "RV",
    "SIGNALING": "SI",
    "SPECIAL_EXIT": "SE",
    "STAGE_OUT": "SO",
    "STOPPED": "ST",
}
"""Job states in Slurm's order, with their short forms; from COMPLETING on they stand beside a state."""

BASE_STATES = tuple(COMPACT)[:12]
_SHOWN_FIRST = (
    "COMPLETING",
    "STAGE_OUT",
    "CONFIGURING",
    "RESIZING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "STOPPED",
    "REVOKED",
    "RESV_DEL_HOLD",
    "SIGNALING",
)


def state_text(job: Job) -> str:
    """The state as `squeue %T` says it: a flag beside it goes before."""
    return next((flag for flag in _SHOWN_FIRST if flag in job.flags), job.state)


def reason_text(job: Job) -> str:
    return job.reason_detail or job.reason


def job_number(job: Job, environment: Mapping[str, str] | None = None) -> str:
    """`7`, `5_3`, `5_[4-6%2]`, `9+1`."""
    return f"{job.array_job_id}_[{tasks_left(job, environment)}]" if job.array_left else job.label


def features_used(job: Job) -> str | None:
    """What its nodes have been chosen by: --prefer, where all of them have it, else --constraint."""
    return job.request.prefer if job.by_preference else job.features


def tasks_left(job: Job, environment: Mapping[str, str] | None = None) -> str:
    """`1-3,7%2` or `0-20:5`; cut to SLURM_BITSTR_LEN bytes (64) as Slurm cuts it (xlate_array_task_str)."""
    text = _stepped(job.array_left)
    if not text:
        text = index_list(job.array_left)
        said = re.match(r"\s*[+-]?\d{1,6}", (environment or {}).get("SLURM_BITSTR_LEN", "64"))
        most = int(said[0]) if said else 0
        most = 64 if most < 0 else min(most, 4096)
        if most and len(text) > most - 3:
            text = text[: max(most - 4, 0)] + "..."
    return f"{text}%{job.array_max_running}" if job.array_max_running else text


def _stepped(left: Sequence[int]) -> str:
    """`first-last:step` of more than five indexes that are evenly apart, over a span of more than ten."""
    if len(left) < 6 or left[-1] - left[0] <= 10 or left[1] == left[0] + 1:
        return ""
    steps = {after - before for before, after in pairwise(left)}
    return f"{left[0]}-{left[-1]}:{steps.pop()}" if len(steps) == 1 else ""


def index_list(indexes: Iterable[int]) -> str:
    """`1-3,7`; steps of an array are told one by one."""
    return hostlist.compress(f"{n}" for n in indexes).strip("[]")


def node_list(names: Iterable[str]) -> str:
    return hostlist.compress_sorted(names)


def known_list(text: str) -> str:
    """A list of hosts as somebody wrote it, as `node_list` writes it; '' for one that is none."""
    try:
        return node_list(hostlist.expand(text)) if text else ""
    except hostlist.HostlistError:
        return ""


def seconds_used(job: Job, now: int) -> int:
    """How long it has run, without the time it was suspended."""
    if not job.start or job.pending or job.start > now:
        return 0
    if job.state == "SUSPENDED":
        return job.pre_suspend_s
    end = job.end if job.finished else now
    if job.suspend_time and job.suspend_time > job.start:
        return end - job.suspend_time + job.pre_suspend_s
    return max(end - job.start, 0)


def cpu_count(job: Job) -> int:
    return (job.alloc_tres if job.shares or job.nodes else job.req_tres).get("cpu", job.min_cpus)


def node_count(site: Site, job: Job) -> int:
    """Nodes it has; of a pending job, where it was last thought to go or as many as its tasks need at least.

    Source: _pack_default_job_details, job_mgr.c.
    """
    if job.nodes or job.scheduled_nodes:
        return len(job.nodes or job.scheduled_nodes)
    cpus = max((node.conf.cpus for node in site.cluster.nodes), default=1)
    tasks = job.request.num_tasks or 0
    if job.ntasks_per_node:
        return max(tasks // job.ntasks_per_node, job.min_nodes)
    if job.cpus_per_task > 1:
        each = max(cpus // job.cpus_per_task, 1)
        return max(tasks // each, job.min_nodes) + (tasks % each > 0)
    return max(-(-tasks // cpus), job.min_nodes)


def min_memory(job: Job) -> int:
    if job.request.mem_per_tres:
        return 0
    if job.mem_per_cpu is not None:
        return job.mem_per_cpu
    return job.mem_per_node or 0


_PROFILES = ("Energy", "Lustre", "Network", "Task")


def profile_text(job: Job) -> str:
    return profile_words(str(job.request.extra.get("profile", "")))


def profile_words(text: str) -> str:
    """`Energy,Task` of --profile, in Slurm's order (acct_gather_profile_to_string)."""
    asked = [word.strip().lower() for word in text.split(",")]
    if "none" in asked:
        return "None"
    return ",".join(one for one in _PROFILES if {one.lower(), "all"} & set(asked)) or "NotSet"


def components(site: Site, job: Job) -> str:
    """The job ids of a heterogeneous job's components: `7-8`."""
    if not job.het_job_id:
        return ""
    same = (one.job_id for one in site.cluster.jobs.values() if one.het_job_id == job.het_job_id)
    return index_list(sorted(same))


def eligible_time(job: Job) -> int:
    """Since when it may start; of a job whose begin time is to come, that."""
    return job.eligible or (job.begin if job.pending else 0)


def accrue_time(job: Job, now: int) -> int:
    """Since when it gathers age."""
    if job.request.hold or (job.pending and (job.begin > now or job.reason in ("BeginTime", "Dependency"))):
        return 0
    since = eligible_time(job)
    return since if since or job.pending else int(job.request.extra.get("accrue_time", 0))


def start_time(job: Job) -> int:
    """When it started or is planned to; of a job without a plan, its begin time to come (pack_job)."""
    return job.start or (job.begin if job.pending and not job.eligible else 0)


def end_time(job: Job) -> int:
    """When it ended or will have to."""
    if job.finished or job.end:
        return job.end
    start = start_time(job)
    if not start or job.time_limit >= INFINITE:
        return 0 if not start else start + 365 * 86400
    return start + job.time_limit * 60


def tres_text(site: Site, tres: dict[str, int]) -> str:
    """In the order of TRES ids, zero counts left out."""
    return sizes.tres_text((name, tres[name]) for name in site.tres_order(tres) if tres[name])


def output_path(site: Site, job: Job, which: str) -> str:
    """Where stdout or stderr goes, as scontrol prints it: five patterns, without widths (_fname_format)."""
    task = 0xFFFFFFFE if job.array_task is None else job.array_task
    text = _asked_path(job, which)
    for pattern, value in (
        ("%A", job.array_job_id or job.job_id),
        ("%a", task),
        ("%j", job.job_id),
        ("%u", job.user),
        ("%x", job.request.name),
    ):
        text = text.replace(pattern, str(value))
    return text if text.startswith("/") else f"{job.request.work_dir}/{text}"


def _asked_path(job: Job, which: str) -> str:
    extra = job.request.extra
    if which == "in":
        return str(extra.get("std_in") or "/dev/null")
    text = str(extra.get(f"std_{which}") or (extra.get("std_out") if which == "err" else "") or "")
    return text or ("slurm-%A_%a.out" if job.array_job_id else "slurm-%j.out")


def batch_path(site: Site, job: Job, which: str) -> str:
    """Where a script's input comes from and its output goes, with every pattern filled in (fname_create)."""
    text = filled(site, job, _asked_path(job, which), {"N": site.host, "n": "0", "t": "0", "s": "batch"})
    return text if text.startswith("/") else f"{job.request.work_dir}/{text}"


def filled(site: Site, job: Job, pattern: str, more: dict[str, str] | None = None) -> str:
    """File patterns: `%j`, `%5j`, `%A_%a`, `%x`, `%u` …; what is not known here stays.

    A backslash anywhere keeps all of them; it goes, but for one behind another (remove_path_slashes).
    """
    if "\\" in pattern:
        return re.sub(r"\\(\\?)", r"\1", pattern)
    task = 0xFFFFFFFE if job.array_task is None else job.array_task
    known = {
        "A": f"{job.array_job_id or job.job_id}",
        "a": f"{task}",
        "j": f"{job.job_id}",
        "J": f"{job.job_id}",
        "u": job.user,
        "x": job.request.name,
    } | (more or {})

    def one(found: re.Match[str]) -> str:
        letter = found[2]
        if letter == "%":
            return "%"
        if letter not in known:
            return found[0]
        width = min(int(found[1] or 0), 10)
        return known[letter].zfill(width) if known[letter].isdecimal() else known[letter]

    return re.sub(r"%(\d*)([a-zA-Z%])", one, pattern)


def exit_text(code: int, signal: int) -> str:
    return f"{code}:{signal & 0x7F}"
