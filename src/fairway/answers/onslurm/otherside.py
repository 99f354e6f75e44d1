"""A Slurm site's accounting on Kubernetes: the converted site and a Job for each record, by Kueue and kube-scheduler.

Jobs run as long as they ran. A job of several nodes is an Indexed Job, one pod a node, that starts as a gang; its
partition is its nodes' label; its QOS its class.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from fairway.answers.onslurm.telling import Stay
from fairway.kube.manifestwriting import write_yaml
from fairway.kube.objects import Obj
from fairway.kube.quantity import milli_ceil
from fairway.kube.timestamps import SECOND_US
from fairway.recorder.tables import PodRow
from fairway.scenario.loading import load_scenario
from fairway.scenario.model import Scenario
from fairway.scenario.running import run_scenario
from fairway.slurm.converting.converting import Conversion
from fairway.slurm.converting.jobs import object_name
from fairway.slurm.converting.placement import partition_label
from fairway.slurm.converting.sites import convert_site, kueue_configuration, scenario_of
from fairway.slurm.records.record import JobRecord, request_of
from fairway.slurm.sitefolder import SiteFolder
from fairway.traces.jobs import MILLI, JobTrace, TraceJob, in_order
from fairway.traces.sources import TraceUse

_MIB = 1 << 20
_PRIORITY = "kueue.x-k8s.io/priority-class"


def played_on_kubernetes(
    site: SiteFolder, records: Sequence[JobRecord], nodes: frozenset[str] | None = None
) -> tuple[list[Stay], list[str]]:
    """Every job that ran, as it would have there; and what was left out. `nodes`: these alone have moved."""
    records = [r for r in records if r.ran_s > 0]
    if not records:
        return [], []
    scenario = _scenario(site, nodes)
    first = min(r.submit for r in records)
    by_name = {f"j{at}": record for at, record in enumerate(records)}
    known = {obj["metadata"]["name"] for obj in scenario.objects if obj["kind"] == "Namespace"}
    classes = {obj["metadata"]["name"] for obj in scenario.objects if obj["kind"] == "WorkloadPriorityClass"}
    left_out = [f"job {r.label}: account {r.account or 'none'} is not in the site" for r in records
                if known and object_name(r.account) not in known]  # fmt: skip
    jobs = [_job(name, r, first, classes, bool(known)) for name, r in by_name.items()
            if not known or object_name(r.account) in known]  # fmt: skip
    machines = [obj for obj in scenario.objects if obj["kind"] == "Node"]
    fitting = []
    for job in jobs:
        short = _short(job, machines)
        if short:  # it would hold quota for good: Kueue admits by sums, not by nodes
            left_out.append(f"job {by_name[job.job_id].label}: {short}")
        else:
            fitting.append(job)
    trace = TraceUse(JobTrace("sacct", in_order(fitting)), "sacct", kind="Job")
    from dataclasses import replace

    finished = run_scenario(replace(scenario, traces=(trace,), start_us=first * SECOND_US))
    stays = _stays(finished.outcome.pods, by_name)
    waiting = len(records) - len(left_out) - len(stays)
    if waiting:
        left_out.append(f"{waiting} jobs never start on Kubernetes")
    return stays, left_out


def _scenario(site: SiteFolder, nodes: frozenset[str] | None) -> Scenario:
    controller = site.controller(0, enforce=False)
    made = Conversion(site=convert_site(site, controller.cluster, nodes))
    assert made.site is not None
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        (folder / "nodes.yaml").write_text(write_yaml(made.site.machines))
        (folder / "queues.yaml").write_text(write_yaml(made.site.objects))
        (folder / "kueue.yaml").write_text(write_yaml([kueue_configuration()]))
        (folder / "scenario.yaml").write_text(write_yaml([scenario_of("migration", False)]))
        return load_scenario(folder)


def _job(name: str, record: JobRecord, first: int, classes: set[str], has_accounts: bool) -> TraceJob:
    request = request_of(record)
    nodes = request.min_nodes or 1
    gpus = sum(request.tres_per_node.values())
    qos = object_name(record.qos) if record.qos else ""
    partition = record.partition.split(",")[0]
    return TraceJob(
        name,
        (record.submit - first) * SECOND_US,
        record.ran_s * SECOND_US,
        gpu_milli=gpus * MILLI,
        cpu_milli=(request.cpus_per_task or 1) * MILLI,
        memory_bytes=(request.mem_per_node or 0) * _MIB,
        replicas=nodes,
        namespace=object_name(record.account) if has_accounts else "default",
        queue=object_name(partition),
        labels=((_PRIORITY, qos),) if qos in classes else (),
        node_selector=((partition_label(partition), "true"),),
    )


def _short(job: TraceJob, machines: Sequence[Obj]) -> str:
    """What every node of its partition has too little of; '' where some node would do, or there is none at all."""
    asked = {
        "cpu": job.cpu_milli,
        "memory": job.memory_bytes * MILLI,
        "nvidia.com/gpu": job.gpu_milli,
    }
    wanted = dict(job.node_selector).items()
    most: dict[str, int] = {}
    for machine in machines:
        if not wanted <= machine["metadata"]["labels"].items():
            continue
        has = {name: milli_ceil(machine["status"]["allocatable"].get(name, 0)) for name in asked}
        if all(count <= has[name] for name, count in asked.items()):
            return ""
        most = {name: max(count, most.get(name, 0)) for name, count in has.items()}
    over = [name for name in most if asked[name] > most[name]]
    told = [f"{name} {_told(name, asked[name])} of {_told(name, most[name])}" for name in over]
    return f"asks for more than a node of its partition has: {', '.join(told)}" if most else ""


def _told(name: str, milli: int) -> str:
    return f"{milli / MILLI / _MIB:,.0f} MiB" if name == "memory" else f"{milli / MILLI:g}"


def _stays(pods: Iterable[PodRow], by_name: dict[str, JobRecord]) -> list[Stay]:
    """A job starts when its last pod does, and ends with the last one."""
    found: dict[str, list[PodRow]] = {}
    for pod in pods:
        found.setdefault(pod.root_name or pod.owner_name, []).append(pod)
    stays = []
    for name, rows in found.items():
        record = by_name.get(name)
        if record is None:
            continue
        nodes = max(record.nodes, 1)
        good = [pod for pod in rows if pod.started_us is not None]
        if len(good) < nodes:
            continue
        last = sorted(good, key=lambda pod: pod.started_us or 0)[-nodes:]
        start = max(pod.started_us or 0 for pod in last) // SECOND_US
        end = max(pod.finished_us or pod.started_us or 0 for pod in last) // SECOND_US
        cpus = (record.alloc or record.tres).get("cpu", 0)
        wait = max(start - max(record.submit, record.eligible), 0)
        stays.append(
            Stay(
                record.label,
                record.account,
                record.partition.split(",")[0],
                wait,
                start,
                end,
                record.gpus,
                cpus,
            )
        )
    return stays
