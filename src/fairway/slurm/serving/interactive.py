"""srun and salloc: commands that wait for an allocation, and whose processes run where they were typed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway.kube.integers import natural
from fairway.slurm.commands import jobtext
from fairway.slurm.commands.binding import check_cpu_bind, check_mpi
from fairway.slurm.commands.call import Call, Quit
from fairway.slurm.commands.environment import asked_variables, job_variables, tres_variables
from fairway.slurm.commands.hetvariables import allocation_variables, choose_component, components_of
from fairway.slurm.commands.joboptions import AGAIN, JobOptions
from fairway.slurm.commands.jobrequests import request_of
from fairway.slurm.commands.multiprog import read_programs
from fairway.slurm.commands.sbatch import task_environment, tell_notes, will_run
from fairway.slurm.commands.steplaunch import Task, plan_step
from fairway.slurm.model.job import Job, JobRequest, Step
from fairway.slurm.words import durations
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.errors import SlurmError, refusals

if TYPE_CHECKING:
    from fairway.slurm.serving.connections import Connection
    from fairway.slurm.serving.host import Host

_SIGNALS = {
    1: "Hangup",
    2: "Interrupt",
    3: "Quit",
    4: "Illegal instruction",
    6: "Aborted",
    7: "Bus error",
    8: "Floating point exception",
    9: "Killed",
    10: "User defined signal 1",
    11: "Segmentation fault",
    12: "User defined signal 2",
    13: "Broken pipe",
    14: "Alarm clock",
    15: "Terminated",
}


def begin(host: Host, connection: Connection, call: Call) -> None:
    """Read the options; then a step of the job around it, or an allocation first."""
    try:
        if call.name == "srun":
            typed = JobOptions(call)
            typed.take(call.arguments, "cli")
            choose_component(call, typed.get("het-group") or typed.get("pack-group"))
        options = JobOptions(call)
        options.take_environment()
        rest = options.take(call.arguments, "cli")
        if call.name == "salloc":
            _allocate(host, connection, call, options, rest, _salloc)
            return
        if ":" in rest:
            _refuse_components(call, rest)
        check_mpi(options)
        if not rest and not options.get("test-only"):
            call.fatal("No command given to execute.")
        _check_step(call, options, rest)
        number = str(options.get("jobid") or call.environment.get("SLURM_JOB_ID") or "")
        if number and not options.get("test-only"):
            _in_job(host, connection, call, options, rest, number)
        else:
            _allocate(host, connection, call, options, rest, _srun)
    except Quit as left:
        connection.flush(call, left.code)


def _refuse_components(call: Call, rest: list[str]) -> None:
    """A step over several components is not known here."""
    if rest[-1] == ":":
        call.fatal("No command given to execute.")
    call.fail(f"Unable to allocate resources: {refusals()['NOT_SUPPORTED'][1]}")


def _check_step(call: Call, options: JobOptions, rest: list[str]) -> None:
    """What srun itself finds wrong, or leaves out, before it asks for anything (_opt_verify)."""
    if options.get("cpu-bind"):
        check_cpu_bind(call, str(options.get("cpu-bind")))
    if str(options.get("distribution", "")).lower().startswith("arbitrary") and not options.get("nodelist"):
        call.fail("With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option")
    least = options.get("nodes", (0, 0))[0]
    each, tasks = options.get("ntasks-per-node"), options.get("ntasks")
    if each and tasks and least and each != tasks // least:
        if tasks > each:
            call.info(
                f"Warning: can't honor --ntasks-per-node set to {each} which doesn't match the requested tasks {tasks}"
                f" with the number of requested nodes {least}. Ignoring --ntasks-per-node."
            )
        options.forget("ntasks-per-node")
    if options.get("multi-prog") and rest:
        programs = read_programs(call, rest[0], tasks)
        options.values["programs"] = programs
        options.values.setdefault("ntasks", len(programs))
        options.source.setdefault("ntasks", "cli")


_NOWHERE = ("/dev/null", "")
"""Where output goes of tasks that `-o 1` leaves out."""
_USERS_OWN = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL)
"""Signals after which salloc's own exit code is 0: the user most likely sent them."""

Then = Callable[["Host", "Connection", Call, JobOptions, "list[str]", Job], None]


def _allocate(
    host: Host, connection: Connection, call: Call, options: JobOptions, rest: list[str], then: Then
) -> None:
    """Submit, and go on when the job has started."""
    request = replace(request_of(options), batch=False, environment=dict(call.environment))
    default = "no-shell" if options.get("no-shell") else "interactive"
    if call.name == "srun" and rest:
        default = rest[0].rsplit("/", 1)[-1]
    request = replace(request, name=request.name or default)
    parts = [request]
    while call.name == "salloc" and rest[:1] == [":"]:
        options, rest = _next_component(call, options, rest[1:])
        one = replace(request_of(options), batch=False, environment=dict(call.environment))
        parts.append(replace(one, name=one.name or default))
    if len(parts) > 1:
        request = JobRequest(het=tuple(parts), batch=False)
    if options.get("test-only"):
        will_run(call, request)
    job = _submit(call, request)
    connection.gone = lambda: _revoke(host, job)
    host.try_now(job)
    if job.pending:
        if "immediate" in options.source:
            _refuse_at_once(call, host.site.controller.refuse_at_once(job))
        if job.reason.startswith("Partition") and job.reason != "PartitionDown":
            call.info(refusals()["REQUESTED_PART_CONFIG_UNAVAILABLE"][1])
        if call.name == "salloc":
            call.info(f"Pending job allocation {job.job_id}")
        call.info(f"job {job.job_id} queued and waiting for resources")
        connection.flush(call)
        host.when(
            lambda: not any(one.pending for one in components_of(host.site, job)),
            lambda: _granted(host, connection, call, options, rest, job, then, True),
        )
        return
    _granted(host, connection, call, options, rest, job, then, False)


def _next_component(call: Call, before: JobOptions, typed: list[str]) -> tuple[JobOptions, list[str]]:
    """The options behind a `:`, where those before it hold on (reset_each_pass)."""
    options = JobOptions(call)
    options.values.update({name: value for name, value in before.values.items() if name not in AGAIN})
    options.source.update({name: value for name, value in before.source.items() if name not in AGAIN})
    return options, options.take(typed, "cli")


def _refuse_at_once(call: Call, refused: SlurmError) -> None:
    """Of a job that had to start at once; slurmctld tells salloc of its end before it answers."""
    is_busy = refused.name in ("NOT_TOP_PRIORITY", "NODES_BUSY")
    what = (
        "Job submit/allocate failed"
        if call.name == "salloc" and not is_busy
        else "Unable to allocate resources"
    )
    if call.name == "salloc":
        call.info(f"Job allocation {refused.job_id} has been revoked.")
    call.fail(f"{what}: {refused.message}")


def _revoke(host: Host, job: Job) -> None:
    """Whoever waited for the allocation, or held it, has gone."""
    if not job.finished:
        host.site.controller.cancel(job.job_id, job.user)


def _submit(call: Call, request: JobRequest) -> Job:
    try:
        job: Job = call.site.controller.submit(request, call.user)
    except SlurmError as refused:
        tell_notes(call, refused, request)
        what = "Job submit/allocate failed" if call.name == "salloc" else "Unable to allocate resources"
        call.error(f"{what}: {refused.message}")
        if call.name == "salloc" and refused.job_id:
            call.info(f"Job allocation {refused.job_id} has been revoked.")
        call.quit(1)
    return job


def _granted(
    host: Host,
    connection: Connection,
    call: Call,
    options: JobOptions,
    rest: list[str],
    job: Job,
    then: Then,
    waited: bool,
) -> None:
    try:
        if job.finished:
            call.error(f"Job allocation {job.job_id} has been revoked")
            call.quit(1)
        if waited:
            call.info(f"job {job.job_id} has been allocated resources")
        then(host, connection, call, options, rest, job)
    except Quit as left:
        connection.flush(call, left.code)


def _salloc(
    host: Host, connection: Connection, call: Call, options: JobOptions, rest: list[str], job: Job
) -> None:
    tell: Callable[[str], None] = (lambda text: None) if options.get("quiet") else call.info
    tell(f"Granted job allocation {job.job_id}")
    if options.get("no-shell"):
        call.quit(0)
    variables = _salloc_variables(host, call, options, job)
    command = rest or [call.environment.get("SHELL", "/bin/sh")]
    connection.flush(call)
    over: list[str] = []
    """Who ended it first: the command, or the controller."""

    def revoked() -> None:
        if over:
            return
        over.append("controller")
        late = "has exceeded its time limit and its allocation has been revoked."
        told = f"Job {job.job_id} {late}" if job.state == "TIMEOUT" else ""
        tell(told or f"Job allocation {job.job_id} has been revoked.")
        connection.flush(call)

    def ended(told: dict[str, Any]) -> None:
        status = int(told["ended"][0])
        kill = status & 0x7F
        if not over:
            over.append("command")
            tell(f"Relinquishing job allocation {job.job_id}")
            if job.steps:  # the end of its steps is waited for, and the controller's word comes first
                tell(f"Job allocation {job.job_id} has been revoked.")
            for one in components_of(host.site, job):
                if one.active:
                    host.site.controller.finish(one.job_id, status >> 8, kill)
        connection.flush(call, (0 if kill in _USERS_OWN else 1) if kill else status >> 8)

    connection.then = lambda told: host.answer_told(connection, told, lambda: ended(told))
    connection.pid = 0
    connection.send(
        run=[{"arguments": command, "environment": variables, "label": "", "stdin": True, "node": ""}]
    )
    host.when(lambda: bool(over) or job.finished, revoked)


def _salloc_variables(host: Host, call: Call, options: JobOptions, job: Job) -> dict[str, str]:
    """What salloc's command finds; memory is told where it was asked for (env_array_for_job)."""
    if job.het_job_id:
        return allocation_variables(host.site, job) | {"PATH": _path(host, call)}
    found = job_variables(host.site, job) | asked_variables(options.values) | tres_variables(options.values)
    found["SLURM_NODE_ALIASES"] = "(null)"
    found["PATH"] = _path(host, call)
    if options.get("mem-per-cpu"):
        found["SLURM_MEM_PER_CPU"] = str(options.get("mem-per-cpu"))
    elif options.get("mem"):
        found["SLURM_MEM_PER_NODE"] = str(options.get("mem"))
    return found


def _path(host: Host, call: Call) -> str:
    return f"{host.bin / 'jobs'}:{host.bin}:{call.environment.get('PATH', '/usr/bin:/bin')}"


def _srun(
    host: Host, connection: Connection, call: Call, options: JobOptions, rest: list[str], job: Job
) -> None:
    step, tasks = plan_step(call, job, options, True)
    _run_step(host, connection, call, options, rest, job, step, tasks, True)


def _in_job(
    host: Host, connection: Connection, call: Call, options: JobOptions, rest: list[str], number: str
) -> None:
    job = host.site.job(int(number)) if number.isdecimal() else None
    if job is None or not job.active:
        call.error(f"Unable to confirm allocation for job {number}: {refusals()['INVALID_JOB_ID'][1]}")
        call.info(f"Check SLURM_JOB_ID environment variable. Expired or invalid job {number}")
        call.quit(1)
    least = options.get("nodes", (0, 0))[0] if options.source.get("nodes") == "cli" else 0
    if least > len(job.nodes):
        call.fail(f"Only allocated {len(job.nodes)} nodes asked for {least}")
    if options.source.get("ntasks") != "cli" and options.source.get("nodes") == "cli":
        options.forget("ntasks")
    step, tasks = plan_step(call, job, options, False)
    asked = step.tasks * (options.get("cpus-per-task") or 1)
    has = sum(share.cpus for share in job.shares)
    if asked > has and not options.get("overcommit"):
        call.error(f"Unable to create step for job {job.job_id}: {refusals()['TOO_MANY_REQUESTED_CPUS'][1]}")
        call.quit(1)
    if (
        options.source.get("gres") == "cli"
        and "gpu" in options.get("gres")
        and not any(s.gres for s in job.shares)
    ):
        call.error("Step requested GRES but job doesn't have GRES")
        call.fail(f"Unable to create step for job {job.job_id}: {refusals()['INVALID_GRES'][1]}")
    _run_step(host, connection, call, options, rest, job, step, tasks, False)


def _run_step(
    host: Host,
    connection: Connection,
    call: Call,
    options: JobOptions,
    rest: list[str],
    job: Job,
    step: Step,
    tasks: list[Task],
    whole: bool,
) -> None:
    step.name = step.name if options.source.get("job-name") == "cli" else rest[0].rsplit("/", 1)[-1]
    step.tres = _step_tres(host, job, step)
    step.extra["submit_line"] = " ".join((call.name, *call.arguments))
    limit = None if whole else options.get("time")  # of srun's own job it is the job's
    if limit and limit < INFINITE:
        most = host.site.cluster.partitions[job.partition].max_time
        if limit > most:
            call.fail(f"Unable to create step for job {job.job_id}: {refusals()['INVALID_TIME_LIMIT'][1]}")
        step.extra["time_limit"] = limit
    host.site.controller.step_start(job.job_id, step)
    connection.flush(call)
    path = _path(host, call)
    label = options.get("label")
    kept = task_environment(call, options)
    where = str(options.get("chdir") or "") if options.source.get("chdir") == "cli" else ""
    programs = options.get("programs")
    until = _until(call, options)
    stdin = _stdin_task(options)
    own = {"SLURM_JOB_NAME": step.name} if options.source.get("jobid") == "cli" else {}
    if job.het_job_id:  # the steps of all components are told the first one's number
        own |= {"SLURM_JOB_ID": str(job.het_job_id), "SLURM_JOBID": str(job.het_job_id)}
    files = _files(host, call, job, step, options)
    only = natural(str(options.get("output") or "")) if options.source.get("output") == "cli" else None
    plan = [
        {
            "arguments": programs[task.number] if programs else rest,
            "environment": (kept or {})
            | task.variables
            | asked_variables(options.values if whole else {})
            | own
            | ({"PATH": path} if kept is None or "PATH" in kept else {}),
            "bare": kept is not None,
            "cwd": host.site.real_path(where) if where else "",
            "shown": where,
            "group": bool(until),
            "label": f"{task.number}: " if label else "",
            "stdin": stdin is None or task.number == stdin,
            "node": task.node,
            "files": [
                text and _filled(text, task) for text in (files if only in (None, task.number) else _NOWHERE)
            ],
        }
        for task in tasks
    ]

    def ended(told: dict[str, Any]) -> None:
        statuses = [int(s) for s in told["ended"]]
        options.values["cut"] = str(told.get("cut") or "")
        code = _told(call, job, step, tasks, statuses, options)
        kill = next((s & 0x7F for s in statuses if s & 0x7F), 0)
        for one in job.steps:
            if one is step and one.state != "TIMEOUT":
                one.state = "CANCELLED" if kill else "FAILED" if code else "COMPLETED"
        host.site.controller.step_end(job.job_id, step.step_id, 0 if kill else code, kill)
        job.derived_exit = max(job.derived_exit, 0 if kill else code)
        if whole and job.active:
            host.site.controller.finish(job.job_id, 0 if kill else code, kill)
        connection.flush(call, code)

    def left() -> None:
        step.state = "CANCELLED"
        host.site.controller.step_end(job.job_id, step.step_id, 0, signal.SIGKILL)
        if whole:
            _revoke(host, job)

    connection.then = lambda told: host.answer_told(connection, told, lambda: ended(told))
    connection.gone = left
    step.extra["pid"] = connection.pid
    connection.send(run=plan, until=until)


def _stdin_task(options: JobOptions) -> int | None:
    """The one task that reads srun's input; None: each (-i all), -1: none."""
    text = str(options.get("input") or "") if options.source.get("input") == "cli" else ""
    return -1 if text.lower() == "none" else natural(text)


def _until(call: Call, options: JobOptions) -> dict[str, int]:
    """When the client ends the tasks that still run (-K, -W; KillOnBadExit, WaitTime)."""
    conf = call.site.conf
    bad = options.get("kill-on-bad-exit")
    is_bad = conf.number("KillOnBadExit", 0) != 0 if bad is None else str(bad) not in ("0", "False")
    wait = options.get("wait")
    given = natural(str(wait or ""))
    seconds = conf.number("WaitTime", 0) or 0 if given is None else given
    return ({"bad": 1} if is_bad else {}) | ({"wait": seconds} if seconds else {})


def _files(host: Host, call: Call, job: Job, step: Step, options: JobOptions) -> list[str]:
    """Where -o and -e send what the tasks write, but for what is a task's own; '' is srun's own output."""
    found = []
    for name in ("output", "error"):
        text = str(options.get(name) or "") if options.source.get(name) == "cli" else ""
        if text == "" or text.lower().startswith("all") or text.isdecimal():
            found.append("")
            continue
        text = "/dev/null" if text.lower() == "none" else text
        text = jobtext.filled(host.site, job, text, more={"s": step.step_id, "t": "%t", "n": "%n", "N": "%N"})
        path = text if text.startswith("/") else f"{call.cwd}/{text}"
        found.append(path if path == "/dev/null" else host.site.real_path(path))
    return found if found[1] else [found[0], found[0]]


def _filled(text: str, task: Task) -> str:
    return text.replace("%t", str(task.number)).replace("%N", task.node).replace("%n", "0")


def _step_tres(host: Host, job: Job, step: Step) -> dict[str, int]:
    tres = {"cpu": step.cpus, "node": len(step.nodes), "mem": 0}
    for name, share in zip(job.nodes, job.shares, strict=False):
        if name in step.nodes:
            tres["mem"] += share.mem
    if len(step.nodes) == len(job.nodes):
        tres |= {name: count for name, count in job.alloc_tres.items() if name.startswith("gres/")}
    return tres


def _code(status: int) -> int:
    return 128 + (status & 0x7F) if status & 0x7F else status >> 8


def _told(
    call: Call, job: Job, step: Step, tasks: list[Task], statuses: list[int], options: JobOptions
) -> int:
    """Say which tasks failed, by node and code; returns srun's own exit code: the largest."""
    groups: dict[tuple[str, int], list[int]] = {}
    for task, status in zip(tasks, statuses, strict=True):
        if status:
            groups.setdefault((task.node, status), []).append(task.number)
    cut = options.get("cut", "")
    number, ended = f"{job.label}.{step.step_id}", signal.SIGTERM if cut == "bad" else signal.SIGKILL
    stopped = [key for key in groups if cut and key[1] & 0x7F == ended]
    for key in groups:
        if key not in stopped:
            call.error(_failed(key, groups[key]))
    if cut == "wait":
        call.info(f"First task exited {options.get('wait') or call.site.conf.number('WaitTime', 0)}s ago")
        for running in (True, False):
            which = [t.number for t, s in zip(tasks, statuses, strict=True) if (s & 0x7F == ended) is running]
            if which:
                call.info(f"StepId={number} {_tasks_text(which)}: {'running' if running else 'exited'}")
    if cut:
        call.info(f"launch/slurm: _step_signal: Terminating StepId={number}")
        if cut == "wait":
            seconds = (call.site.conf.number("KillWait", 30) or 0) + 2
            call.info(f"Job step aborted: Waiting up to {seconds} seconds for job step to finish.")
        call.say(
            f"slurmstepd-{step.nodes[0]}: error: *** STEP {number} ON {step.nodes[0]} CANCELLED AT "
            f"{durations.stamp(call.now)} ***"
        )
    for key in stopped:
        call.error(_failed(key, groups[key]))
    if cut != "wait" and any(s & 0x7F in (signal.SIGKILL, signal.SIGTERM) for s in statuses):
        call.info(f"Force Terminated StepId={number}")
    return max((_code(status) for status in statuses), default=0)


def _tasks_text(numbers: list[int]) -> str:
    return f"tasks {jobtext.index_list(numbers)}" if len(numbers) > 1 else f"task {numbers[0]}"


def _failed(key: tuple[str, int], numbers: list[int]) -> str:
    (node, status), kill = key, key[1] & 0x7F
    how = _SIGNALS.get(kill, f"Unknown signal {kill}") if kill else f"Exited with exit code {status >> 8}"
    return f"{node}: {_tasks_text(numbers)}: {how}"
