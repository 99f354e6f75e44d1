"""Small scenarios in the form of the recordings, played step by step, and what the conditions say afterwards.

    history = History(configuration={...})
    history.step(queue("a", 4), local_queue("a"), node("n1", 8))
    history.step(job("train", "a", gpus=8))
    history.said("train")["QuotaReserved"] == "False ExceedsMaxQuota: couldn't assign …"

Nodes become ready, as those of the recordings were.
"""

from __future__ import annotations

from typing import Any

from kueueworld import node

from fairway.conformance.kueue_player import Observed, Player
from fairway.kube.objects import Obj, gk_of

READY = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]


class History:
    def __init__(self, configuration: Obj | None = None) -> None:
        self.player = Player({"configuration": configuration})
        self.seen: Observed = {}

    def step(self, *objects: Obj, wait: float = 0) -> History:
        """Apply the objects one after another and let all settle."""
        return self.do(*[("apply", obj) for obj in objects], wait=wait)

    def do(self, *actions: tuple[str, Obj], wait: float = 0) -> History:
        doing = [{"verb": verb, "object": _ready(obj) if verb == "apply" else obj} for verb, obj in actions]
        self.seen = self.player.play({"do": doing, "wait_s": wait})
        return self

    def patch(self, kind: str, name: str, namespace: str = "default", **change: Any) -> History:
        """As the recordings have it: without the API version."""
        return self.do(
            ("patch", {"kind": kind, "metadata": {"name": name, "namespace": namespace}, **change})
        )

    @property
    def refused(self) -> list[str]:
        return [r["message"] for r in self.player.refused]

    def workload(self, job: str) -> dict[str, Any]:
        found = [w for name, w in self.seen["workloads"].items() if name.partition("/")[2] == job]
        assert len(found) == 1, f"{job} has {len(found)} Workloads"
        return dict(found[0])

    def said(self, job: str) -> dict[str, str]:
        """Its Workload's conditions: type → `Status Reason: message`."""
        conditions = self.workload(job)["conditions"]
        return {t: f"{c['status']} {c['reason']}: {c['message']}" for t, c in conditions.items()}

    def admitted(self) -> list[str]:
        """Jobs whose Workload is admitted and goes on."""
        return sorted(
            name.partition("/")[2]
            for name, w in self.seen["workloads"].items()
            if w["conditions"].get("Admitted", {}).get("status") == "True"
            and "Finished" not in w["conditions"]
        )

    def flavors(self, job: str) -> list[str]:
        """The flavors of its first pod set."""
        admission = self.workload(job)["admission"]
        return sorted(set(admission[0]["flavors"].values())) if admission else []

    def bound(self, job: str) -> int:
        """How many pods of `namespace/job` have a node."""
        return sum(count for node, count in self.seen["pods"].get(job, {}).items() if node)

    def job(self, name: str) -> dict[str, Any]:
        found = [j for n, j in self.seen["jobs"].items() if n.partition("/")[2] == name]
        return dict(found[0])


def _ready(obj: Obj) -> Obj:
    if gk_of(obj) != "Node":
        return obj
    status = obj.get("status") or {}
    return {**obj, "status": {**status, "conditions": status.get("conditions") or READY}}


def rack_node(block: str, rack: str, number: int, gpus: int = 8) -> Obj:
    """`n-a-1-2`: node 2 of rack 1 in block a."""
    labels = {"pool": "tas", "block": block, "rack": f"{block}{rack}"}
    return node(f"n-{block}-{rack}-{number}", gpus, **labels)
