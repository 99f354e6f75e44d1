"""scontrol show job: a job's lines, as slurm_sprint_job_info writes them."""

from __future__ import annotations

import re

from fairway.slurm import dependencies
from fairway.slurm.commands import jobtext, nodetext
from fairway.slurm.commands.call import Call
from fairway.slurm.model.job import Job, NodeShare
from fairway.slurm.model.node import Node
from fairway.slurm.submitting import switch_wait_s
from fairway.slurm.words import durations, sizes
from fairway.slurm.words.durations import INFINITE


def job_lines(call: Call, job: Job, detail: bool) -> list[str]:
    """One entry a line, in slurm_sprint_job_info's order."""
    return [
        *_identity(call, job, detail),
        *_job_times(call, job),
        *_placement(call, job),
        *_job_counts(call, job),
        *(_job_shares(call, job) if detail and job.shares and job.active else ()),
        *_needs(job),
        *_files(call, job),
        *_further(call, job),
    ]


def _identity(call: Call, job: Job, detail: bool) -> list[str]:
    """Which job it is, whose, and how it stands."""
    site, request, extra = call.site, job.request, job.request.extra
    ids = f"JobId={job.job_id} "
    if job.array_job_id:
        tasks = jobtext.tasks_left(job, call.environment) if job.array_left else job.array_task
        ids += f"ArrayJobId={job.array_job_id} ArrayTaskId={tasks} "
        if job.array_max_running:
            ids += f"ArrayTaskThrottle={job.array_max_running} "
    elif job.het_job_id:
        ids += f"HetJobId={job.het_job_id} HetJobOffset={job.het_offset} "
    uid = site.uid(job.user)
    lines = [
        f"{ids}JobName={request.name}",
        *([f"HetJobIdSet={jobtext.components(site, job)}"] if job.het_job_id else []),
        f"UserId={job.user}({uid}) GroupId={job.user}({uid}) MCS_label={extra.get('mcs_label', 'N/A')}",
        f"Priority={job.priority} Nice={job.nice} Account={job.account} QOS={job.qos}",
        f"JobState={jobtext.state_text(job)} Reason={re.sub(chr(92) + 's', '_', jobtext.reason_text(job))} "
        f"Dependency={dependencies.written(job) or '(null)'}",
        f"Requeue={int(job.requeue)} Restarts={job.restarts} BatchFlag={int(job.batch)} "
        f"Reboot={int(request.reboot)} ExitCode={job.exit_code}:{job.signal}",
    ]
    if detail:
        lines.append(f"DerivedExitCode={job.derived_exit}:0")
    return lines


def _placement(call: Call, job: Job) -> list[str]:
    site, request, extra = call.site, job.request, job.request.extra
    nodes = jobtext.node_list(job.nodes)
    planned = (
        f" SchedNodeList={jobtext.node_list(job.scheduled_nodes)}"
        if job.scheduled_nodes and job.pending
        else ""
    )
    lines = [
        f"Partition={job.partition} AllocNode:Sid={site.host}:{extra.get('sid', 0)}",
        f"ReqNodeList={jobtext.node_list(request.nodelist) or '(null)'} "
        f"ExcNodeList={jobtext.node_list(request.exclude) or '(null)'}",
        f"NodeList={nodes}{planned}",
    ]
    if job.batch_host and job.batch:
        lines.append(f"BatchHost={job.batch_host}")
    return lines


def _needs(job: Job) -> list[str]:
    """What each node must have, and whether it is shared."""
    request, extra, used = job.request, job.request.extra, jobtext.features_used(job)
    per_cpu = job.mem_per_cpu is not None and not request.mem_per_tres
    memory = "0" if request.mem_per_tres else sizes.memory_text(jobtext.min_memory(job))
    lines = [
        f"MinCPUsNode={_min_cpus(job)} MinMemory{'CPU' if per_cpu else 'Node'}={memory} "
        f"MinTmpDiskNode={sizes.with_unit(request.min_tmp_disk or 0, 'M')}",
        f"Features={'(null)' if used is None else used} DelayBoot={durations.clock(request.delay_boot or 0)}",
    ]
    if request.prefer:
        lines.append(f"Prefer={request.prefer}")
    if job.reservation:
        lines.append(f"Reservation={job.reservation}")
    shared = {"node": "NO", "user": "USER", "mcs": "MCS"}.get(job.whole_node, "YES" if job.share else "OK")
    lines.append(
        f"OverSubscribe={shared} Contiguous={int(request.contiguous)} "
        f"Licenses={request.licenses or '(null)'} Network={extra.get('network', '(null)')}"
    )
    return lines


def _files(call: Call, job: Job) -> list[str]:
    """What runs where, what is said of it, and where its output goes."""
    site, extra = call.site, job.request.extra
    lines = [f"Command={extra.get('command', '(null)')}", f"WorkDir={job.request.work_dir}"]
    for name, key in (
        ("AdminComment", "admin_comment"),
        ("SystemComment", "system_comment"),
        ("Comment", "comment"),
    ):
        if extra.get(key) is not None:
            lines.append(f"{name}={extra[key]} ")
    if job.batch:
        lines += [
            f"StdErr={jobtext.output_path(site, job, 'err')}",
            f"StdIn={jobtext.output_path(site, job, 'in')}",
            f"StdOut={jobtext.output_path(site, job, 'out')}",
        ]
    return lines


def _further(call: Call, job: Job) -> list[str]:
    """What is told only of jobs that asked for it."""
    request, extra, lines = job.request, job.request.extra, list[str]()
    if request.switches:
        lines.append(f"Switches={request.switches}@{durations.clock(switch_wait_s(call.site.conf, request))}")
    lines.append("Power=")
    if request.gres_flags:
        lines.append(
            "GresEnforceBind=Yes" if "enforce-binding" in request.gres_flags else "GresEnforceBind=No"
        )
    if request.kill_on_invalid_dep is not None:
        lines.append(f"KillOInInvalidDependent={'Yes' if request.kill_on_invalid_dep else 'No'}")
    for name, key in (
        ("CpusPerTres", "cpus_per_tres"),
        ("MemPerTres", "mem_per_tres"),
        ("TresBind", "tres_bind"),
        ("TresFreq", "tres_freq"),
        ("TresPerJob", "tres_per_job"),
        ("TresPerNode", "tres_per_node"),
        ("TresPerSocket", "tres_per_socket"),
        ("TresPerTask", "tres_per_task"),
    ):
        if extra.get(key):
            lines.append(f"{name}={extra[key]}")
    if extra.get("mail_type"):
        lines.append(f"MailUser={_mail_user(call, job)} MailType={extra['mail_type']}")
    if request.ntasks_per_gpu:
        lines.append(f"NtasksPerTRES={request.ntasks_per_gpu}")
    return lines


def _mail_user(call: Call, job: Job) -> str:
    """Whom is written to: the user, at MailDomain (_get_mail_user)."""
    domain = call.site.conf.get("MailDomain")
    return job.request.extra.get("mail_user") or (f"{job.user}@{domain}" if domain else job.user)


def _job_times(call: Call, job: Job) -> list[str]:
    request = job.request
    limit = (
        "Partition_Limit"
        if job.time_limit == durations.NO_VAL
        else durations.clock_of_minutes(job.time_limit)
    )
    least = durations.clock_of_minutes(request.time_min) if request.time_min else "N/A"
    end = "Unknown" if job.time_limit >= INFINITE and not job.finished else call.stamp(jobtext.end_time(job))
    eligible = 0 if job.pending and job.reason == "JobArrayTaskLimit" else jobtext.eligible_time(job)
    lines = [
        f"RunTime={durations.clock(jobtext.seconds_used(job, call.now))} TimeLimit={limit} TimeMin={least}",
        f"SubmitTime={call.stamp(job.submit)} EligibleTime={call.stamp(eligible)}",
        f"AccrueTime={call.stamp(jobtext.accrue_time(job, call.now))}",
        f"StartTime={call.stamp(jobtext.start_time(job))} EndTime={end} "
        f"Deadline={call.stamp(request.deadline) if request.deadline else 'N/A'}",
    ]
    if job.preempt_time:
        lines.append(
            f"PreemptEligibleTime={call.stamp(job.start)} PreemptTime={call.stamp(job.preempt_time)}"
        )
    scheduler = "Main" if job.scheduler in ("", "Submit") else job.scheduler
    star = ":*" if job.scheduler == "Backfill" and job.pending else ""
    suspended = call.stamp(job.suspend_time) if job.suspend_time else "None"
    lines.append(
        f"SuspendTime={suspended} SecsPreSuspend={job.pre_suspend_s} "
        f"LastSchedEval={call.stamp(job.last_sched_eval)} Scheduler={scheduler}{star}"
    )
    return lines


def _min_cpus(job: Job) -> int:
    request = job.request
    return max(request.node_min_cpus or 0, job.cpus_per_task * (request.ntasks_per_node or 1), 1)


def _job_counts(call: Call, job: Job) -> list[str]:
    request = job.request
    count = jobtext.node_count(call.site, job)
    nodes = f"{count}"
    if job.pending and job.max_nodes:
        nodes = f"{count}-{max(job.max_nodes, count)}"
    tasks = request.num_tasks or (job.min_nodes if job.pending else len(job.nodes)) or "N/A"
    cores, threads = (
        n if n is not None else "*" for n in (request.cores_per_socket, request.threads_per_core)
    )
    tres = jobtext.tres_text(call.site, job.alloc_tres or job.req_tres)
    per_socket = request.ntasks_per_socket if request.ntasks_per_socket is not None else "*"
    per_core = request.ntasks_per_core if request.ntasks_per_core is not None else "*"
    sockets = request.sockets_per_node if request.sockets_per_node is not None else "*"
    spec = request.core_spec if request.core_spec is not None else "*"
    return [
        f"NumNodes={nodes} NumCPUs={jobtext.cpu_count(job)} NumTasks={tasks} "
        f"CPUs/Task={job.cpus_per_task} ReqB:S:C:T=0:0:{cores}:{threads}",
        f"TRES={tres}",
        f"Socks/Node={sockets} NtasksPerN:B:S:C={request.ntasks_per_node or 0}:0:{per_socket}:{per_core} "
        f"CoreSpec={spec}",
    ]


def _job_shares(call: Call, job: Job) -> list[str]:
    """The nodes with the cores, memory and devices it has there; nodes that look alike share a line."""
    site = call.site
    total: dict[str, int] = {}
    told: list[tuple[list[str], str]] = []
    for share in job.shares:
        node = site.cluster.nodes[share.node]
        gres = _share_gres(node, share, total)
        cores = nodetext.bit_list(share.cores)
        text = f"CPU_IDs={cores} Mem={share.mem} GRES={gres}"
        if told and told[-1][1] == text:
            told[-1][0].append(node.name)
        else:
            told.append(([node.name], text))
    gres_total = ",".join(f"{name}:{count}" for name, count in total.items()) or "(null)"
    return [f"JOB_GRES={gres_total}", *(f"  Nodes={jobtext.node_list(names)} {text}" for names, text in told)]


def _share_gres(node: Node, share: NodeShare, total: dict[str, int]) -> str:
    parts = []
    for name, bits in share.gres.items():
        of = next(g for g in node.conf.gres if g.name == name)
        for kind in dict.fromkeys(of.types):
            mine = bits & of.mask(kind)
            if mine:
                full = f"{name}:{kind}" if kind else name
                total[full] = total.get(full, 0) + mine.bit_count()
                parts.append(f"{full}:{mine.bit_count()}(IDX:{nodetext.bit_list(mine)})")
    for name, count in share.gres_counts.items():
        total[name] = total.get(name, 0) + count
        parts.append(f"{name}:{count}")
    return ",".join(parts)
