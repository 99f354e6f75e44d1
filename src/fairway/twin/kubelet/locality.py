"""A kubelet that was told about NUMA: it lets pods in by its managers, and writes down what it gave them.

Only nodes with a KubeletConfiguration have managers. On a pod: `fairway.dev/numa-nodes: c=0,1` and `fairway.dev/cpus:
c=4-7` of its containers, and the GPUs as the device plugin's choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fairway.cluster.actions import Patch, perform
from fairway.cluster.devices import GPU_INDEX_ANNOTATION
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, status_of
from fairway.twin.kubeevents import WARNING
from fairway.twin.kubelet.admission import Rejection
from fairway.twin.kubelet.states import NodeState

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

NUMA_NODES: Final = "fairway.dev/numa-nodes"
CPUS: Final = "fairway.dev/cpus"
# Annotations and labels of a node that its machine is made of.
_MADE_OF: Final = ("kubelet-configuration", "board", "gpus", "gpu-layout", "gpu-unhealthy")
_LABELS: Final = ("nvidia.com/mig.strategy", "nvidia.com/gpu.product", "node.kubernetes.io/instance-type")


class Managers:
    """Of one node. `made_of`: what the machine was made of."""

    def __init__(self, made_of: Any, machine: Any, book: Any) -> None:
        self.made_of = made_of
        self.machine = machine
        self.book = book
        """Frozen: a copy of the node may share it."""

    def copy(self) -> Managers:
        return Managers(self.made_of, self.machine, self.book)


def learn(k: Kubelet, node: NodeState, obj: Obj) -> None:
    """What the node object says of its kubelet; one that would not start says why, and manages nothing."""
    from fairway.devices.numa.machines import machine_of, options_of
    from fairway.devices.numa.options import OptionError

    notes, labels = annotations_of(obj), labels_of(obj)
    made_of = (
        tuple([notes.get(f"fairway.dev/{name}", "") for name in _MADE_OF]),
        tuple([labels.get(name, "") for name in _LABELS]),
        status_of(obj).get("capacity"),
    )
    before: Managers | None = node.managers
    if before is not None and before.made_of == made_of:
        return
    try:
        options = options_of(obj)
        machine, book = (None, None) if options is None else machine_of(obj, options)
    except OptionError as wrong:
        at = f"{wrong.field}: " if wrong.field else ""
        k.tell(node.key, node.uid, WARNING, "KubeletSetupFailed", f"{at}{wrong}")
        machine, book = None, None
    known = None if before is None else before.machine
    if before is not None and known is not None and machine is not None:
        has_the_same = (known.cpus, known.nodes) == (machine.cpus, machine.nodes)
        book = before.book if has_the_same else book
    node.managers = Managers(made_of, machine, book)


def refusal(k: Kubelet, node: NodeState, key: Key, pod: Obj) -> Rejection | None:
    """Why the managers do not let a pod in. What they give it otherwise is written on it."""
    from fairway.devices.numa.admitting import admitted
    from fairway.devices.numa.refusals import Refused

    managers: Managers = node.managers
    if managers.machine is None:
        return None
    try:
        given = admitted(managers.machine, managers.book, pod)
    except Refused as refused:
        return Rejection(refused.reason, refused.message)
    managers.book = given.book
    notes = _notes(managers, pod, given)
    if notes:
        perform(k.store, Patch(key, {"metadata": {"annotations": notes}}))
    return None


def _notes(managers: Managers, pod: Obj, given: Any) -> dict[str, str]:
    from fairway.catalog.nodegpus import INSTANCES
    from fairway.devices.numa.cputopology import cpus_text
    from fairway.devices.numa.hints import bits_of
    from fairway.devices.numa.machines import SHARE

    uid = pod["metadata"]["uid"]
    book = given.book
    cpus = {} if book.cpus is None else book.cpus.given.get(uid) or {}
    devices: set[str] = set()
    for resources in (book.devices.given.get(uid) or {}).values():
        for found in resources.values():
            devices |= {d.partition(SHARE)[0] for d in found}
    nodes = [f"{name}={cpus_text(bits_of(mask))}" for name, mask in given.hints.items() if mask is not None]
    notes = {
        NUMA_NODES: ";".join(nodes),
        CPUS: ";".join([f"{name}={cpus_text(found)}" for name, found in sorted(cpus.items())]),
        INSTANCES: ",".join(sorted(d for d in devices if "/" in d)),
        GPU_INDEX_ANNOTATION: ",".join(sorted({d for d in devices if "/" not in d}, key=int)),
    }
    return {name: text for name, text in notes.items() if text}


def leave(node: NodeState, uid: str) -> None:
    """What a pod had is free again."""
    from fairway.devices.numa.admitting import released

    managers: Managers = node.managers
    book = managers.book
    if book is None:
        return
    names: dict[str, None] = dict.fromkeys(book.devices.given.get(uid) or {})
    for part in (book.cpus, book.memory):
        names.update(dict.fromkeys([] if part is None else part.given.get(uid) or {}))
    if names:
        managers.book = released(book, uid, names)
