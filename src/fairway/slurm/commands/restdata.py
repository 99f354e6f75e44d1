"""--json and --yaml: jobs and nodes as slurmrestd's data parser v0.0.38 tells them, in its names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fairway.slurm import dependencies
from fairway.slurm.commands import jobtext, nodetext
from fairway.slurm.commands.call import Call
from fairway.slurm.model.job import Job
from fairway.slurm.model.node import Node
from fairway.slurm.words.durations import INFINITE


def job_data(call: Call, job: Job) -> dict[str, Any]:
    """One job of squeue --json and of /slurm/v0.0.38/jobs."""
    site, request = call.site, job.request
    uid = site.uid(job.user)
    return {
        "account": job.account,
        "array_job_id": job.array_job_id,
        "array_task_id": job.array_task,
        "array_max_tasks": job.array_max_running,
        "association_id": job.assoc_id,
        "batch_flag": job.batch,
        "batch_host": job.batch_host,
        "cluster": site.name,
        "command": request.extra.get("command", ""),
        "comment": request.extra.get("comment", ""),
        "cpus": jobtext.cpu_count(job),
        "cpus_per_task": job.cpus_per_task,
        "dependency": dependencies.written(job) or "",
        "derived_exit_code": job.derived_exit,
        "eligible_time": job.eligible,
        "end_time": jobtext.end_time(job),
        "exit_code": job.exit_code << 8 | job.signal,
        "features": jobtext.features_used(job) or "",
        "group_id": uid,
        "job_id": job.job_id,
        "job_state": jobtext.state_text(job),
        "last_sched_evaluation": job.last_sched_eval,
        "licenses": request.licenses or "",
        "memory_per_cpu": job.mem_per_cpu,
        "memory_per_node": job.mem_per_node,
        "name": request.name,
        "nice": job.nice,
        "node_count": jobtext.node_count(site, job),
        "nodes": jobtext.node_list(job.nodes),
        "partition": job.partition,
        "priority": job.priority,
        "qos": job.qos,
        "restart_cnt": job.restarts,
        "resv_name": job.reservation,
        "standard_error": jobtext.output_path(site, job, "err"),
        "standard_input": request.extra.get("std_in", "/dev/null"),
        "standard_output": jobtext.output_path(site, job, "out"),
        "start_time": job.start,
        "state_reason": jobtext.reason_text(job),
        "submit_time": job.submit,
        "suspend_time": job.suspend_time,
        "tasks": job.num_tasks,
        "time_limit": None if job.time_limit >= INFINITE else job.time_limit,
        "tres_alloc_str": jobtext.tres_text(site, job.alloc_tres),
        "tres_req_str": jobtext.tres_text(site, job.req_tres),
        "tres_per_job": request.extra.get("tres_per_job", ""),
        "tres_per_node": request.extra.get("tres_per_node", ""),
        "tres_per_task": request.extra.get("tres_per_task", ""),
        "user_id": uid,
        "user_name": job.user,
        "current_working_directory": request.work_dir,
    }


def node_data(call: Call, node: Node) -> dict[str, Any]:
    """One node of sinfo --json and of /slurm/v0.0.38/nodes."""
    conf = node.conf
    return {
        "name": node.name,
        "hostname": node.name,
        "address": conf.address or node.name,
        "architecture": "x86_64",
        "boards": conf.boards,
        "cores": conf.cores_per_socket,
        "cpus": conf.cpus,
        "sockets": conf.sockets,
        "threads": conf.threads,
        "real_memory": conf.real_memory,
        "alloc_cpus": node.used_cpus,
        "alloc_memory": node.used_mem,
        "idle_cpus": conf.cpus - node.used_cpus,
        "features": ",".join(node.features),
        "active_features": ",".join(node.active_features),
        "gres": conf.gres_text,
        "gres_used": nodetext.gres_used_text(call.site, node),
        "partitions": [p.name for p in call.site.cluster.partitions.values() if node.index in p.nodes],
        "port": conf.port,
        "reason": node.reason,
        "reason_changed_at": node.reason_time,
        "reason_set_by_user": node.reason_user,
        "state": nodetext.base_state(node).lower(),
        "state_flags": sorted(nodetext.flags_of(node)),
        "tres": nodetext.tracked_text(call.site, nodetext.cfg_tres(node)),
        "tres_used": nodetext.tracked_text(call.site, nodetext.alloc_tres(node)),
        "weight": node.weight,
        "boot_time": node.boot_time,
    }


def meta(plugin: str = "openapi/v0.0.38", name: str = "Slurm OpenAPI v0.0.38") -> dict[str, Any]:
    return {
        "meta": {
            "plugin": {"type": plugin, "name": name},
            "Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": "22.05.8"},
        },
        "errors": [],
    }


def print_data(call: Call, kind: str, things: Iterable[Any], yaml: bool) -> None:
    """kind: jobs, nodes, or accounting (sacct's jobs)."""
    database = kind == "accounting"
    head = meta("openapi/dbv0.0.38", "Slurm OpenAPI DB v0.0.38") if database else meta()
    told = head | {
        "nodes" if kind == "nodes" else "jobs": [
            node_data(call, thing) if kind == "nodes" else job_data(call, thing) for thing in things
        ]
    }
    if yaml:
        from fairway.kube.manifestwriting import write_yaml

        call.write(write_yaml([told]))
        return
    call.print(json.dumps(told, indent=2).replace("/", "\\/"))
