"""Random faults: every matching node has its own luck, drawn from the run's seed.

The n-th failure of a node comes at the same age under every policy, so that two runs differ by what they do
about it.
"""

from __future__ import annotations

from typing import Any

from fairway.catalog.nodegpus import gpus_of_node
from fairway.cluster.changes import ADDED, Change
from fairway.devices.breaking import rates_of
from fairway.kube.objects import Key, Obj, labels_of, name_of
from fairway.scenario.entering import enter
from fairway.scenario.model import FaultProcess
from fairway.twin.components import Host
from fairway.twin.devices.gpuhealth import break_gpu
from fairway.twin.faults import plan_fault
from fairway.twin.loop import INPUT

NODE_FAILURE, SPOT_PREEMPTION, GPU_FAILURE = "NodeFailure", "SpotPreemption", "GPUFailure"
_CRITICAL_US = 15_000_000


class Hazards:
    """The random processes of a scenario."""

    name = "hazards"
    kinds: tuple[str, ...] = ("Node",)

    def __init__(self, processes: tuple[FaultProcess, ...]) -> None:
        self.processes = processes
        self.strikes: dict[tuple[int, str], int] = {}
        """How often each process has struck each node: by process number and node name."""
        self.gone: dict[str, Obj] = {}
        """Nodes taken back that will be replaced."""

    def attach(self, host: Host) -> None:
        self.host = host
        self._strike = host.loop.register("hazards.strike", self._on_strike)
        self._replace = host.loop.register("hazards.replace", self._on_replace)

    def start(self) -> None:
        """Processes begin with their nodes."""

    def fork(self) -> Hazards:
        twin = Hazards(self.processes)
        twin.strikes = dict(self.strikes)
        twin.gone = dict(self.gone)
        return twin

    def observe(self, change: Change) -> None:
        if change.type == ADDED:
            for number, process in enumerate(self.processes):
                if concerns(process, change.obj):
                    self._arm(number, name_of(change.obj), change.obj["metadata"]["uid"])

    def _draw(self, process: FaultProcess, what: str, node: str, turn: int) -> float:
        return self.host.streams.draw_for("hazard", process.name, what, node, str(turn))

    def _arm(self, number: int, node: str, uid: str, from_us: int = 0) -> None:
        process = self.processes[number]
        turn = self.strikes.get((number, node), 0)
        after_us = process.after.at_quantile(self._draw(process, "after", node, turn))
        if process.kind == GPU_FAILURE:
            obj = self.host.store.get(Key("Node", "", node))
            count = 0 if obj is None else gpus_of_node(obj).count
            if not count:
                return
            after_us //= count
        at_us = max(from_us, self.host.loop.now_us) + max(after_us, 1)
        self.host.loop.at(at_us, self._strike, (number, node, uid), INPUT)

    def _on_strike(self, data: tuple[int, str, str]) -> None:
        number, node, uid = data
        obj = self.host.store.get(Key("Node", "", node))
        if obj is None or obj["metadata"]["uid"] != uid:
            return
        process = self.processes[number]
        turn = self.strikes.get((number, node), 0)
        self.strikes[(number, node)] = turn + 1
        repair_us = None
        if process.repair is not None:
            repair_us = process.repair.at_quantile(self._draw(process, "repair", node, turn))
        if process.kind == GPU_FAILURE:
            self._break(number, obj, turn, repair_us or 0)
        elif process.kind == NODE_FAILURE:
            self._fail(number, node, uid, repair_us)
        else:
            self._take_back(process, obj, repair_us)

    def _fail(self, number: int, node: str, uid: str, repair_us: int | None) -> None:
        plan_fault(self.host, "crash", node)
        if repair_us is not None:
            plan_fault(self.host, "recover", node, after_us=repair_us)
            self._arm(number, node, uid, self.host.loop.now_us + repair_us)

    def _break(self, number: int, obj: Obj, turn: int, repair_us: int) -> None:
        """One of the node's cards, by the fleet's causes; the next comes whether or not this one is mended."""
        process, node = self.processes[number], name_of(obj)
        count = gpus_of_node(obj).count
        card = min(int(self._draw(process, "card", node, turn) * count), count - 1)
        cause = rates_of(process.fleet).cause_at(self._draw(process, "cause", node, turn))
        break_gpu(self.host, node, card, cause, repair_us=repair_us, drains=process.drains)
        self._arm(number, node, obj["metadata"]["uid"])

    def _take_back(self, process: FaultProcess, obj: Obj, replace_us: int | None) -> None:
        node = name_of(obj)
        if process.warning_us:
            critical_us = min(process.warning_us // 4, _CRITICAL_US)
            plan_fault(self.host, "shutDown", node, process.warning_us, critical_us)
        plan_fault(self.host, "remove", node, after_us=process.warning_us)
        if replace_us is not None:
            at_us = self.host.loop.now_us + process.warning_us + max(replace_us, 1)
            self.host.loop.at(at_us, self._replace, node, INPUT)
            self.gone[node] = fresh_node(obj)

    def _on_replace(self, node: str) -> None:
        obj = self.gone.pop(node, None)
        if obj is not None:
            enter(self.host, obj)


def concerns(process: FaultProcess, node: Obj) -> bool:
    if process.nodes and name_of(node) not in process.nodes:
        return False
    return process.selector.matches(labels_of(node))


def fresh_node(node: Obj) -> Obj:
    """A new machine like this one: its labels, taints of its owner and capacity, nothing of its state."""
    meta = node["metadata"]
    status: dict[str, Any] = node.get("status") or {}
    spec = {k: v for k, v in (node.get("spec") or {}).items() if k not in ("taints", "unschedulable")}
    taints = [t for t in (node.get("spec") or {}).get("taints") or () if not _is_of_system(t)]
    if taints:
        spec["taints"] = taints
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": meta["name"], "labels": meta.get("labels") or {}},
        "spec": spec,
        "status": {k: status[k] for k in ("capacity", "allocatable") if k in status},
    }


def _is_of_system(taint: dict[str, Any]) -> bool:
    return str(taint.get("key", "")).startswith("node.kubernetes.io/")
