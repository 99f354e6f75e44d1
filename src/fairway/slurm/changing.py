"""What an update of a waiting job makes of the amounts it asks for: what is changed is counted anew, the rest stays.

Source: _update_job of job_mgr.c and gres_job_state_validate of gres.c, 22.05.8.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairway.slurm.cluster import billing_of
from fairway.slurm.model.job import Job, JobRequest
from fairway.slurm.model.partition import Partition
from fairway.slurm.model.tres import Tres
from fairway.slurm.words.errors import SlurmError

GRES = frozenset(("tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task"))


def check_gres(job: Job, fresh: JobRequest) -> None:
    """A count per job and one per node make a number of nodes, which a job that named no most cannot have.

    Raises: SlurmError INVALID_GRES.
    """
    for name, each in fresh.tres_per_node.items():
        if each and fresh.tres_per_job.get(name, 0) // each > job.max_nodes:
            raise SlurmError("INVALID_GRES")


def changed_tres(job: Job, made: Job, changes: Mapping[str, object], part: Partition) -> Tres:
    """What the job asks for now; `made` is its record as if it were submitted as changed."""
    found, request = dict(job.req_tres), made.request
    cpus = request.min_cpus if "min_cpus" in changes else None
    counts_memory = bool({"mem_per_cpu", "mem_per_node"} & changes.keys())
    found |= _counted_gres(made, changes)
    if "licenses" in changes:
        found |= {name: count for name, count in made.req_tres.items() if name.startswith("license/")}
    if "nodes" in changes:
        found["node"] = max(made.min_nodes, 1)
        least = max(
            max(made.num_tasks, found["node"]) * made.cpus_per_task, _least_cpus(request, found["node"])
        )
        if least > (cpus or found["cpu"]):
            cpus, counts_memory = least, True
    if cpus is None and request.node_min_cpus and "node_min_cpus" in changes:
        cpus = _least_cpus(request, found["node"])
    found["cpu"] = cpus or found["cpu"]
    if counts_memory and made.mem_per_cpu is not None:
        found["mem"] = made.mem_per_cpu * found["cpu"]
    elif counts_memory and made.mem_per_node:
        found["mem"] = made.mem_per_node * found["node"]
    if found != job.req_tres:
        found["billing"] = billing_of(part, found)
    return found


def _counted_gres(made: Job, changes: Mapping[str, object]) -> Tres:
    """Of the names that were given counts, for these alone are counted, though others stand beside them."""
    found: Tres = {}
    given = [value[1] for key, value in changes.items() if key in GRES and isinstance(value, tuple)]
    for full in dict.fromkeys(name for counts in given for name in counts):
        plain, typed = f"gres/{full.partition(':')[0]}", f"gres/{full}"
        count = made.req_tres.get(typed) or made.req_tres.get(plain, 0)
        if count:
            found[plain] = count if typed == plain else found.get(plain, 0) + count
        if typed in made.req_tres:
            found[typed] = made.req_tres[typed]
    return found


def _least_cpus(request: JobRequest, nodes: int) -> int:
    return max(request.node_min_cpus or 1, 1) * nodes
