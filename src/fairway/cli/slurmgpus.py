"""What does `nvidia-smi` print within a job of a served Slurm cluster? Of the GPUs its step has on its node.

The job becomes a pod of a store made for the question, whose container has these devices; `#FAIRWAY gpu=` says how
busy they are. On nodes without GPUs there is no such command, and a job without GPUs sees none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway.apiserver.kubelets import nvidiasmi
from fairway.apiserver.kubelets.place import Place
from fairway.catalog.catalog import load_catalog
from fairway.catalog.nodegpus import HARDWARE
from fairway.cluster.devices import GPU_INDEX_ANNOTATION
from fairway.cluster.store import Store
from fairway.kube.integers import natural
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.slurm.behaviours import BadHint, hints
from fairway.slurm.commands.site import Site
from fairway.slurm.converting.sitenodes import PRODUCT
from fairway.slurm.model.job import Job
from fairway.slurm.model.node import Gres, Node

Said = tuple[str, int]
"""What is printed, and the exit code."""
_NOT_FOUND: Said = "nvidia-smi: command not found\n", 127
_NO_DEVICES: Said = "No devices were found\n", 6


def shown(site: Site, environment: Mapping[str, str], arguments: Sequence[str]) -> Said:
    """`environment`: of the step's process; what it says that is not so shows nothing of others."""
    job = site.cluster.jobs.get(natural(environment.get("SLURM_JOB_ID", "")) or 0)
    name = environment.get("SLURMD_NODENAME", "")
    if job is None or job.finished or name not in site.cluster.node_index:
        return _NOT_FOUND
    node = site.cluster.nodes[site.cluster.node_index[name]]
    gres = next((one for one in node.conf.gres if one.name == "gpu"), None)
    if gres is None:
        return _NOT_FOUND
    devices = _devices(job, name, environment.get("SLURM_STEP_GPUS"))
    if not devices:
        return _NO_DEVICES
    place = _place(job, node, gres, devices, site.controller.now_us)
    told = nvidiasmi.shown(list(arguments), place)
    return _NO_DEVICES if told is None else (told.text, told.code)


def _devices(job: Job, node: str, step: str | None) -> list[int]:
    """Which of the node's GPUs the job has, of those its step was given."""
    share = next((share for at, share in zip(job.nodes, job.shares, strict=True) if at == node), None)
    bits = share.gres.get("gpu", 0) if share is not None else 0
    mine = [at for at in range(bits.bit_length()) if bits >> at & 1]
    return mine if step is None else [at for at in mine if str(at) in step.split(",")]


def _place(job: Job, node: Node, gres: Gres, devices: list[int], now_us: int) -> Place:
    kind = gres.types[devices[0]]
    resource = f"nvidia.com/mig-{kind.rpartition('_')[2]}" if "g." in kind else "nvidia.com/gpu"
    store = Store(now_us=now_us)
    name = node.conf.name
    product = _product(kind, node)
    labels, annotations = {PRODUCT: product}, {HARDWARE: f"{gres.count} {product}"}
    store.create({"kind": "Node", "metadata": {"name": name, "labels": labels, "annotations": annotations}})
    command = job.request.argv[0] if job.request.argv else job.request.name
    pod: Obj = {
        "kind": "Pod",
        "metadata": {
            "name": f"job-{job.job_id}",
            "namespace": "slurm",
            "uid": str(job.job_id),
            "annotations": {
                GPU_INDEX_ANNOTATION: ",".join(map(str, devices)),
                "fairway.dev/gpu-utilization": f"{_busy_percent(job)}%",
            },
        },
        "spec": {
            "nodeName": name,
            "restartPolicy": "Never",
            "containers": [
                {"name": "job", "command": [command], "resources": {"limits": {resource: str(len(devices))}}}
            ],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "job", "state": {"running": {"startedAt": rfc3339(job.start * SECOND_US)}}}
            ],
        },
    }
    return Place(pod, "job", name, store, now_us)


def _product(kind: str, node: Node) -> str:
    """The GPU's name in the catalog, by the GRES' type or, where that tells a slice or nothing, a feature."""
    catalog = load_catalog()
    words = (kind, kind.rpartition("_")[0], *node.conf.features)
    found = next((model for word in words if word and (model := catalog.gpu(word)) is not None), None)
    return found.product if found is not None else kind or "NVIDIA-GPU"


def _busy_percent(job: Job) -> int:
    try:
        told = hints(job.request.script)
    except BadHint:
        return 0
    return (told.gpu_percent or 0) if told is not None else 0
