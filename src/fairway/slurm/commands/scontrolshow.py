"""scontrol show: jobs, nodes, partitions, reservations, steps, configuration, as slurm_sprint_… write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from importlib.resources import files

from fairway.slurm.commands import jobtext, nodetext
from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.scontroljobs import job_lines
from fairway.slurm.commands.scontrolreservations import SHOWN_FLAGS
from fairway.slurm.commands.steps import StepRow, step_rows
from fairway.slurm.model.node import Node
from fairway.slurm.model.partition import Partition, Reservation
from fairway.slurm.placing.uses import bits
from fairway.slurm.words import durations, hostlist, sizes
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.errors import refusals

BREAK = "\n   "


def show_job(call: Call, name: str, detail: bool, line: bool) -> None:
    wanted = call.site.cluster.listed()
    if name:
        match = re.fullmatch(r"(\d{1,10})(?:_(\d{1,10}))?(?:\+(\d{1,10}))?", name)
        if match is None:
            call.say(f"scontrol_print_job error: {refusals()['INVALID_JOB_ID'][1]}")
            call.quit(1)
        number, task = int(match[1]), int(match[2]) if match[2] else None
        all_jobs = call.site.cluster.jobs.values()
        wanted = [j for j in all_jobs if number in (j.job_id, j.array_job_id, j.het_job_id)]
        if not wanted:
            call.say(f"slurm_load_jobs error: {refusals()['INVALID_JOB_ID'][1]}")
            call.quit(1)
        # Found through the array's chain: what still waits, then the tasks, the last split off first.
        wanted = [j for j in wanted if j.job_id == j.array_job_id or not j.array_job_id] + [
            j for j in wanted if j.array_job_id not in (0, j.job_id)
        ][::-1]
        if task is not None:
            wanted = [
                replace(j, array_task=task, array_left=[]) if task in j.array_left else j
                for j in wanted
                if task == j.array_task or task in j.array_left
            ]
        if match[3]:
            wanted = [j for j in wanted if j.het_job_id and j.het_offset == int(match[3])]
        if not wanted:
            call.print(f"Job {name} not found")
            call.quit(1)
    elif not wanted:
        call.print("No jobs in the system")
    for job in wanted:
        call.write(_joined(job_lines(call, job, detail), line) + (" \n" if line else BREAK + "\n\n"))


def _joined(lines: Iterable[str], line: bool) -> str:
    return (" " if line else BREAK).join(lines)


def show_node(call: Call, name: str, detail: bool, line: bool) -> None:
    nodes = call.site.cluster.nodes
    if not name:
        for node in nodes:
            if node.state != "FUTURE":
                call.write(_joined(node_lines(call, node, detail), line) + ("\n" if line else "\n\n"))
        return
    by_name = {node.name: node for node in nodes if node.state != "FUTURE"}
    for one in hostlist.expand(name):
        if one not in by_name:
            call.print(f"Node {one} not found")
            call.code = 1
            continue
        call.write(_joined(node_lines(call, by_name[one], detail), line) + ("\n" if line else "\n\n"))


def node_lines(call: Call, node: Node, detail: bool) -> list[str]:
    site, conf = call.site, node.conf
    parts = [p.name for p in site.cluster.partitions.values() if node.index in p.nodes]
    lines = [
        f"NodeName={node.name} Arch=x86_64 {f'CpuBind={node.cpu_bind} ' if node.cpu_bind else ''}"
        f"CoresPerSocket={conf.cores_per_socket} ",
        f"CPUAlloc={node.used_cpus} CPUEfctv={conf.cpus - conf.core_spec * conf.threads} CPUTot={conf.cpus} "
        "CPULoad=0.00",
        f"AvailableFeatures={','.join(node.features) or '(null)'}",
        f"ActiveFeatures={','.join(node.active_features) or '(null)'}",
        f"Gres={nodetext.gres_text(node)}",
    ]
    if detail:
        lines += ["GresDrain=N/A", f"GresUsed={nodetext.gres_used_text(site, node)}"]
    lines += [
        f"NodeAddr={conf.address or node.name} NodeHostName={node.name}"
        f"{f' Port={conf.port}' if conf.port != 6818 else ''} Version={VERSION.split()[1]}",
        "OS=Linux ",
        f"RealMemory={conf.real_memory} AllocMem={node.used_mem} FreeMem={conf.real_memory - node.used_mem} "
        f"Sockets={conf.sockets} Boards={conf.boards}",
        f"State={nodetext.complete_state(node)} ThreadsPerCore={conf.threads} TmpDisk={conf.tmp_disk} "
        f"Weight={node.weight} Owner={node.owner or 'N/A'} MCS_label=N/A",
    ]
    if parts:
        lines.append(f"Partitions={','.join(parts)} ")
    lines += [
        f"BootTime={call.stamp(node.boot_time)} SlurmdStartTime={call.stamp(node.started)}",
        f"LastBusyTime={call.stamp(node.last_busy)}",
        f"CfgTRES={nodetext.tracked_text(site, nodetext.cfg_tres(node))}",
        f"AllocTRES={nodetext.tracked_text(site, nodetext.alloc_tres(node))}",
        "CapWatts=n/a",
        "CurrentWatts=0 AveWatts=0",
        "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s",
    ]
    if node.reason:
        lines.append(f"Reason={node.reason} [{node.reason_user}@{call.stamp(node.reason_time)}]")
    if node.comment:
        lines.append(f"Comment={node.comment}")
    if node.extra:
        lines.append(f"Extra={node.extra}")
    return lines


def show_partition(call: Call, name: str, detail: bool, line: bool) -> None:
    cluster = call.site.cluster
    partitions = {
        n: p for n, p in cluster.partitions.items() if call.shows_all or cluster.shows(p, call.user)
    }
    if name and name not in partitions:
        call.print(f"Partition {name} not found")
        call.quit(1)
    if not partitions:
        call.print("No partitions in the system")
    for one in [partitions[name]] if name else partitions.values():
        call.write(_joined(partition_lines(call, one), line) + ("\n" if line else "\n\n"))


def partition_lines(call: Call, one: Partition) -> list[str]:
    site = call.site
    nodes = [site.cluster.nodes[n] for n in one.nodes]
    yes = {True: "YES", False: "NO"}

    def names(of: tuple[str, ...] | None) -> str:
        return ",".join(of) if of else "ALL"

    def limit(minutes: int | None) -> str:
        return "NONE" if minutes is None else durations.clock_of_minutes(minutes)

    def number(value: int) -> str:
        return "UNLIMITED" if value >= INFINITE else str(value)

    tres: dict[str, int] = {"node": len(nodes)}
    for node in nodes:
        for key, amount in nodetext.cfg_tres(node).items():
            tres[key] = tres.get(key, 0) + amount
    share = one.oversubscribe.upper()
    share = share if share in ("NO", "EXCLUSIVE") else f"{share}:{one.max_share}"
    accounts = (
        f"DenyAccounts={','.join(one.deny_accounts)}"
        if one.allow_accounts is None and one.deny_accounts
        else f"AllowAccounts={names(one.allow_accounts)}"
    )
    qos = (
        f"DenyQos={','.join(one.deny_qos)}"
        if one.allow_qos is None and one.deny_qos
        else f"AllowQos={names(one.allow_qos)}"
    )
    alternate = f" Alternate={one.alternate}" if one.alternate else ""
    mode = (one.preempt_mode or site.conf.get("PreemptMode", "OFF")).upper()
    over = "NONE" if one.over_time_limit is None else number(one.over_time_limit)
    return [
        f"PartitionName={one.name}",
        f"AllowGroups={names(one.allow_groups)} {accounts} {qos}",
        f"AllocNodes={names(one.allow_nodes)}{alternate} Default={yes[one.default]}{_cpu_bind(one)} "
        f"QoS={one.qos or 'N/A'}",
        f"DefaultTime={limit(one.default_time)} DisableRootJobs={yes[one.disable_root_jobs]} "
        f"ExclusiveUser={yes[one.exclusive_user]} GraceTime={one.grace_time} Hidden={yes[one.hidden]}",
        f"MaxNodes={number(one.max_nodes)} MaxTime={limit(one.max_time)} MinNodes={one.min_nodes} "
        f"LLN={yes[one.lln]} MaxCPUsPerNode={number(one.max_cpus_per_node)}",
        f"Nodes={jobtext.node_list(n.name for n in nodes) or jobtext.known_list(one.nodes_text) or '(null)'}",
        f"PriorityJobFactor={one.priority_job_factor} PriorityTier={one.priority_tier} "
        f"RootOnly={yes[one.root_only]} ReqResv={yes[one.require_reservation]} OverSubscribe={share}",
        f"OverTimeLimit={over} PreemptMode={mode}",
        f"State={one.state} TotalCPUs={sum(n.conf.cpus for n in nodes)} TotalNodes={len(nodes)} "
        "SelectTypeParameters=NONE",
        f"JobDefaults={_job_defaults(one)}",
        _memory_limits(one),
        f"TRES={nodetext.tracked_text(site, tres) or '(null)'}",
        *([f"TRESBillingWeights={one.settings['tresbillingweights']}"] if one.tres_billing_weights else []),
    ]


def _cpu_bind(one: Partition) -> str:
    word = one.settings.get("cpubind", "off").lower().removesuffix("s")
    return "" if word == "off" else f" CpuBind={'none' if word in ('no', 'none') else word + 's'} "


def _job_defaults(one: Partition) -> str:
    """In Slurm's spelling, whatever was typed."""
    words = {"defcpupergpu": "DefCpuPerGPU", "defmempergpu": "DefMemPerGPU"}
    pairs = (part.partition("=") for part in one.settings.get("jobdefaults", "").split(",") if part)
    return ",".join(f"{words.get(key.lower(), key)}={value}" for key, _, value in pairs) or "(null)"


def _memory_limits(one: Partition) -> str:
    def limit(word: str, per_cpu: int | None, per_node: int | None) -> str:
        if per_cpu is not None:
            return f"{word}MemPerCPU={per_cpu}"
        return f"{word}MemPerNode={per_node if per_node else 'UNLIMITED'}"

    default = limit("Def", one.def_mem_per_cpu, one.def_mem_per_node)
    return f"{default} {limit('Max', one.max_mem_per_cpu, one.max_mem_per_node)}"


def show_reservation(call: Call, name: str, detail: bool, line: bool) -> None:
    reservations = call.site.cluster.reservations
    if name and name not in reservations:
        call.print(f"Reservation {name} not found")
        call.quit(1)
    if not reservations:
        call.print("No reservations in the system")
    for one in [reservations[name]] if name else reservations.values():
        call.write(_joined(reservation_lines(call, one), line) + ("\n" if line else "\n\n"))


def reservation_lines(call: Call, one: Reservation) -> list[str]:
    nodes = [call.site.cluster.nodes[n] for n in one.nodes]
    cores = one.core_count or sum(n.conf.cores for n in nodes)
    threads = max((n.conf.threads for n in nodes), default=1)

    def names(of: tuple[str, ...]) -> str:
        return ",".join(of) or "(null)"

    state = "ACTIVE" if one.start <= call.now <= one.end else "INACTIVE"
    licenses = ",".join(f"{n}:{c}" for n, c in one.licenses.items()) or "(null)"
    return [
        f"ReservationName={one.name} StartTime={call.stamp(one.start)} EndTime={call.stamp(one.end)} "
        f"Duration={durations.clock(one.end - one.start)}",
        f"Nodes={jobtext.node_list(n.name for n in nodes) or '(null)'} NodeCnt={len(nodes)} CoreCnt={cores} "
        f"Features={one.features or '(null)'} PartitionName={one.partition or '(null)'} "
        f"Flags={','.join(sorted(one.flags, key=_flag_place))}",
        *(f"  NodeName={name} CoreIDs={ids}" for name, ids in _cores_by_name(call, one)),
        f"TRES=cpu={cores * threads}" if cores else "TRES=(null)",
        f"Users={names(one.users)} Groups={names(one.groups)} Accounts={names(one.accounts)} "
        f"Licenses={licenses} State={state} BurstBuffer=(null) Watts={one.watts}",
        "MaxStartDelay=(null)",
    ]


def _cores_by_name(call: Call, one: Reservation) -> list[tuple[str, str]]:
    nodes = call.site.cluster.nodes
    return [(nodes[n].name, jobtext.index_list(bits(one.cores[n]))) for n in one.nodes if n in one.cores]


def _flag_place(flag: str) -> int:
    name = flag.partition("=")[0]
    return SHOWN_FLAGS.index(name) if name in SHOWN_FLAGS else len(SHOWN_FLAGS)


def _steps_named(call: Call, rows: list[StepRow], name: str) -> list[StepRow]:
    """Those of `7`, `7.0` or `5_3.0`; a step's name counts as 0, as strtol reads it. Ends the command without any."""
    job, dot, step = name.partition(".")
    if not re.match(r"\d*[1-9]", job):  # job 0, as strtol reads it: every one
        found = [r for r in rows if not r.job.array_job_id]
        if not found:
            call.print("Job step 0.Invalid not found")
            call.quit(1)
        return found
    if call.site.job(int(job)) is None if job.isdecimal() and len(job) < 11 else "_" not in job:
        call.say(f"slurm_get_job_steps error: {refusals()['INVALID_JOB_ID'][1]}")
        call.quit(1)
    number = re.match(r"\d{1,10}", step)
    wanted = str(int(number[0])) if number else "0"
    of_job = [r for r in rows if job in (str(r.job.job_id), r.job.label)]
    found = [r for r in of_job if not dot or r.step.step_id == wanted]
    if not found:
        call.print(f"Job step {job}.{wanted if dot else ''} not found")
        call.quit(1)
    return found


def show_slurmd(call: Call, name: str, detail: bool, line: bool) -> None:
    """Nodes have no slurmd on the machine where somebody types."""
    call.error("slurm_slurmd_info: Connection refused")
    call.say("slurm_load_slurmd_status: Connection refused")
    call.quit(1)


def show_step(call: Call, name: str, detail: bool, line: bool) -> None:
    rows = step_rows(call)
    if name:
        rows = _steps_named(call, rows, name)
    else:
        rows = [r for r in rows if not r.job.array_job_id]
    if not rows:
        call.print("No job steps in the system")
    for row in rows:
        call.write(_joined(_step_lines(call, row), line) + ("\n" if line else "\n\n"))


def _step_lines(call: Call, row: StepRow) -> list[str]:
    step = row.step
    batch = step.step_id in ("batch", "extern")
    tres = (
        "" if batch else sizes.tres_text_sorted({name: count for name, count in step.tres.items() if count})
    )
    host = "(null):0" if batch else f"{call.site.host}:{step.extra.get('pid', 0)}"
    return [
        f"StepId={row.number} UserId={call.site.uid(row.job.user)} StartTime={call.stamp(step.start)} "
        f"TimeLimit={durations.clock_of_minutes(row.time_limit)}",
        f"State={step.state} Partition={row.job.partition} NodeList={jobtext.node_list(step.nodes)}",
        f"Nodes={len(step.nodes)} CPUs={0 if batch else step.cpus} Tasks={step.tasks} Name={step.name} Network=(null)",
        f"TRES={tres or '(null)'}",
        "ResvPorts=(null)",
        "CPUFreqReq=Default"
        + ("" if batch else f" Dist={'Cyclic' if step.tasks <= len(step.nodes) else 'Block'}"),
        f"SrunHost:Pid={host}",
    ]


def show_config(call: Call, name: str, detail: bool, line: bool) -> None:
    """Every setting with its value: the configuration's own, or Slurm's default."""
    call.print(f"Configuration data as of {call.stamp(call.now)}")
    slurm = call.site.conf.get("SlurmUser", "root")
    own = {
        "BOOT_TIME": call.stamp(call.site.cluster.boot_time),
        "NEXT_JOB_ID": str(call.site.cluster.next_job_id),
        "MaxNodeCount": str(len(call.site.cluster.nodes)),
        "AccountingStorageTRES": ",".join(call.site.tres_names),
        "SLURM_VERSION": VERSION.split()[1],
        "SlurmUser": f"{slurm}({call.site.uid(slurm)})",
        "SlurmctldHost[0]": call.site.conf.get("SlurmctldHost", call.site.host),
        "ClusterName": call.site.name,
    }
    for key, default in _defaults().items():
        found = own.get(key) or _configured(call.site.conf.get(key), default)
        call.print(f"{key:<23} = {found}")
    call.print()
    call.print(f"Slurmctld(primary) at {call.site.host} is UP")


@cache
def _defaults() -> dict[str, str]:
    text = files("fairway.slurm").joinpath("data/config.tsv").read_text(encoding="utf-8")
    return dict(line.split("\t") for line in text.splitlines()[1:])


def _configured(text: str, default: str) -> str:
    """A setting as it is told: with the unit of its default, times in full, yes and no alike."""
    if not text:
        return default
    unit = re.fullmatch(r"\d+( [a-z/]+)", default)
    if unit and text.isdecimal():
        return text + unit[1]
    if re.fullmatch(r"(\d+-)?\d\d:\d\d:\d\d", default):
        minutes = durations.minutes(text)
        return text if minutes is None else durations.clock_of_minutes(minutes)
    if default in ("Yes", "No"):
        return "Yes" if text.lower() in ("yes", "y", "true", "1", "up") else "No"
    return text.upper() if default.startswith("CR_") else text


Shower = Callable[[Call, str, bool, bool], None]


def show_hostnames(call: Call, name: str, detail: bool, line: bool) -> None:
    try:
        for host in hostlist.expand(name):
            call.print(host)
    except hostlist.HostlistError as bad:
        if bad.reason:
            call.error(bad.reason)
        call.say(str(bad))


def show_hostlist(call: Call, name: str, detail: bool, line: bool) -> None:
    call.print(hostlist.compress(_hosts(call, name)))


def show_hostlist_sorted(call: Call, name: str, detail: bool, line: bool) -> None:
    call.print(hostlist.compress(sorted(_hosts(call, name), key=hostlist.range_key)))


def _hosts(call: Call, name: str) -> list[str]:
    """The hosts of a list, or of the file whose path it is."""
    if not name.startswith("/"):
        return hostlist.expand(name)
    text = call.site.read_file(call, name)
    if text is None:
        call.say(f"Can not open {name}")
        call.quit(1)
    return hostlist.expand(text)


def show_licenses(call: Call, name: str, detail: bool, line: bool) -> None:
    licenses = call.site.cluster.licenses
    if not licenses:
        call.print("No licenses configured in Slurm.")
    for one in licenses.values():
        if name in ("", one.name):
            remote = "yes" if one.remote else "no"
            counts = f"Total={one.total} Used={one.used} Free={one.total - one.used} Reserved={one.reserved}"
            call.write(
                _joined([f"LicenseName={one.name}", f"{counts} Remote={remote}"], line).replace("   ", "    ")
                + "\n"
            )


def show_topology(call: Call, name: str, detail: bool, line: bool) -> None:
    switches = call.site.conf.topology
    if name and not any(name == one.name or name in one.nodes for one in switches):
        call.error(f"Topology information contains no switch or node named {name}")
    elif not switches:
        call.error("No topology information available")
    for one in switches:
        if name in ("", one.name) or name in one.nodes:
            below = f" Switches={hostlist.compress(one.switches)}" if one.switches else ""
            level = 1 if one.switches else 0
            call.print(
                f"SwitchName={one.name} Level={level} LinkSpeed={one.speed} Nodes={hostlist.compress(one.nodes)}{below}"
            )


def show_frontend(call: Call, name: str, detail: bool, line: bool) -> None:
    call.print("No nodes in the system")


def show_aliases(call: Call, name: str, detail: bool, line: bool) -> None:
    """The node of that name: no node's host is another's here."""
    if name in call.site.cluster.node_index:
        call.print(name)


def show_nothing(call: Call, name: str, detail: bool, line: bool) -> None:
    """Aliases, burst buffers and federations: there are none."""


def show_daemons(call: Call, name: str, detail: bool, line: bool) -> None:
    call.print("slurmctld ")
