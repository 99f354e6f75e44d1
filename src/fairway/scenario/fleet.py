"""Many nodes from one description.

nodes:
  - name: gpu-{i:2}            # gpu-00, gpu-01, …; {i} counts without zeros
    count: 16
    gpuModel: NVIDIA-H100-80GB-HBM3
    capacity: {cpu: 192, memory: 2Ti, nvidia.com/gpu: 8}
    reserved: {cpu: 2, memory: 16Gi}
    zones: [a, b]              # dealt out in turn
    labels: {pool: train}
    taints: [nvidia.com/gpu=present:NoSchedule]
    board: dgx-h100            # how CPUs, GPUs and network cards hang together
    kubelet: kubelet.yaml      # a KubeletConfiguration, or what it says
"""

from __future__ import annotations

import re
from typing import Any

from fairway.kube import names
from fairway.kube.located import Field
from fairway.kube.objects import Obj
from fairway.kube.quantity import canonical, format_binary, format_milli, milli_ceil, whole_ceil
from fairway.kube.resources import CPU, GPU_MILLI, NVIDIA_GPU
from fairway.kube.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint

# A cluster of Kubernetes' documented limits has 5,000 nodes; ten of them are still simulated quickly.
MAX_COUNT = 50_000
# kubelet --max-pods, default.
DEFAULT_PODS = "110"
EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)

_INDEX = re.compile(r"\{i(?::(\d))?\}")
_TAINT = re.compile(r"([\w./-]+?)(?:=([\w.-]*))?:(\w+)")
FIELDS = (
    "name",
    "count",
    "first",
    "capacity",
    "reserved",
    "gpuModel",
    "sharesGpus",
    "instanceType",
    "zones",
    "labels",
    "annotations",
    "taints",
    "unschedulable",
    "board",
    "kubelet",
)


def read_fleet(field: Field) -> list[Obj]:
    """The Node objects of one template."""
    parts = field.members(*FIELDS, required=("name", "capacity"))
    count = parts["count"].integer(1, 1, MAX_COUNT)
    first = parts["first"].integer(0, 0, 10**9)
    pattern = parts["name"].text("node-{i}")
    if count > 1 and not _INDEX.search(pattern):
        parts["name"].reject("expected a pattern with {i} in it, such as gpu-{i}, since count is above 1")
        return []
    if names.dns_subdomain(_name(pattern, 0)):
        parts["name"].reject("expected a node name in lower case, such as gpu-{i}")
        return []
    capacity = parts["capacity"].quantities()
    capacity.setdefault("pods", DEFAULT_PODS)
    if parts["sharesGpus"].flag():
        capacity.setdefault(GPU_MILLI, str(1000 * whole_ceil(capacity.get(NVIDIA_GPU, "0"))))
    status = _status(capacity, parts["reserved"])
    zones = parts["zones"].texts()
    spec = _spec(parts)
    labels, annotations = parts["labels"].words(), parts["annotations"].words()
    for key, value in (
        ("node.kubernetes.io/instance-type", parts["instanceType"].text()),
        ("nvidia.com/gpu.product", parts["gpuModel"].text()),
        ("nvidia.com/gpu.count", capacity.get(NVIDIA_GPU, "")),
    ):
        if value:
            labels.setdefault(key, value)
    nodes = [
        _node(_name(pattern, first + i), _labels(labels, zones, i), annotations, spec, status)
        for i in range(count)
    ]
    if parts["board"].is_given or parts["kubelet"].is_given:
        from fairway.scenario.kubeletreading import with_kubelet

        return with_kubelet(nodes, parts["board"], parts["kubelet"])
    return nodes


def _name(pattern: str, index: int) -> str:
    return _INDEX.sub(lambda m: str(index).zfill(int(m[1] or 1)), pattern)


def _labels(labels: dict[str, str], zones: tuple[str, ...], index: int) -> dict[str, str]:
    return {**labels, "topology.kubernetes.io/zone": zones[index % len(zones)]} if zones else labels


def _node(
    name: str,
    labels: dict[str, str],
    annotations: dict[str, str],
    spec: dict[str, Any],
    status: dict[str, Any],
) -> Obj:
    own = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name}
    meta: dict[str, Any] = {"name": name, "labels": {**own, **labels}}
    if annotations:
        meta["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def _spec(parts: dict[str, Field]) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    taints = read_taints(parts["taints"])
    if taints:
        spec["taints"] = [taint_object(t) for t in taints]
    if parts["unschedulable"].flag():
        spec["unschedulable"] = True
    return spec


def taint_object(taint: Taint) -> dict[str, str]:
    """As it stands in a Node's spec."""
    named = {"key": taint.key, "effect": taint.effect}
    return {**named, "value": taint.value} if taint.value else named


def read_taints(field: Field) -> list[Taint]:
    """`key=value:Effect`, or mappings as in a Node."""
    return [t for item in field.one_or_many() if (t := read_taint(item)) is not None]


def read_taint(field: Field) -> Taint | None:
    if isinstance(field.value, dict):
        parts = field.members("key", "value", "effect", required=("key", "effect"))
        effect = parts["effect"].choice(EFFECTS, NO_SCHEDULE)
        return Taint(parts["key"].text(), parts["value"].text(), effect)
    match = _TAINT.fullmatch(field.text())
    if match is None or match[3] not in EFFECTS:
        field.reject(f"expected a taint such as key=value:NoSchedule, with one of {', '.join(EFFECTS)}")
        return None
    return Taint(match[1], match[2] or "", match[3])


def _status(capacity: dict[str, Any], reserved: Field) -> dict[str, Any]:
    whole = {name: canonical(value) for name, value in capacity.items()}
    free = dict(whole)
    for name, amount in reserved.quantities().items():
        if name not in whole or milli_ceil(amount) > milli_ceil(whole[name]):
            reserved.reject(f"expected at most what capacity has of {name}", amount)
        else:
            free[name] = _less(name, whole[name], amount)
    return {"capacity": whole, "allocatable": free}


def _less(name: str, whole: str, taken: str) -> str:
    if name == CPU:
        return format_milli(milli_ceil(whole) - milli_ceil(taken))
    return format_binary(whole_ceil(whole) - whole_ceil(taken))
