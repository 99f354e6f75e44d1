"""A Rollout as it stands: its ReplicaSets by role, its step, whether it is aborted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, status_of
from fairway.workloads.intorpercent import scaled
from fairway.workloads.podtemplate import stable_hash

ROLLOUT: Final = "Rollout.argoproj.io"
KIND: Final = "Rollout"
GROUP: Final = "argoproj.io"
REPLICA_SET: Final = "ReplicaSet.apps"
HASH: Final = "rollouts-pod-template-hash"
REVISION: Final = "rollout.argoproj.io/revision"
MOST_WEIGHT: Final = 100
STEP_PAUSE: Final = "CanaryPauseStep"
INCONCLUSIVE: Final = "InconclusiveAnalysisRun"


@dataclass(frozen=True, slots=True)
class Facts:
    """`new` is of the template as it is, `stable` of the last one that was rolled out; both None until made."""

    rollout: Obj
    status: dict[str, Any]
    hash: str
    step_hash: str
    new: Obj | None
    stable: Obj | None
    others: tuple[Obj, ...]

    @property
    def canary(self) -> dict[str, Any]:
        return (self.rollout["spec"].get("strategy") or {}).get("canary") or {}

    @property
    def steps(self) -> list[dict[str, Any]]:
        return self.canary.get("steps") or []

    @property
    def index(self) -> int:
        """Of the current step; as many as there are: all done."""
        return min(int(self.status.get("currentStepIndex") or 0), len(self.steps))

    @property
    def step(self) -> dict[str, Any]:
        return self.steps[self.index] if self.index < len(self.steps) else {}

    @property
    def replicas(self) -> int:
        given = self.rollout["spec"].get("replicas")
        return 1 if given is None else int(given)

    @property
    def is_aborted(self) -> bool:
        return bool(self.status.get("abort"))

    @property
    def is_promoted(self) -> bool:
        return bool(self.status.get("stableRS")) and self.status.get("stableRS") == self.status.get(
            "currentPodHash"
        )

    @property
    def is_new_template(self) -> bool:
        return (
            self.status.get("currentPodHash") != self.hash
            or self.status.get("currentStepHash") != self.step_hash
        )

    @property
    def revision(self) -> int:
        return int(annotations_of(self.rollout).get(REVISION) or 0)

    @property
    def routes_traffic(self) -> bool:
        return bool(self.canary.get("trafficRouting"))

    @property
    def all(self) -> list[Obj]:
        found = [*self.others]
        for one in (self.new, self.stable):
            if one is not None and all(one is not other for other in found):
                found.append(one)
        return found

    def limit(self, field: str) -> int:
        """maxSurge or maxUnavailable in pods, not both zero."""
        surge = scaled(self.canary.get("maxSurge", "25%"), self.replicas, round_up=True)
        unavailable = scaled(self.canary.get("maxUnavailable", "25%"), self.replicas, round_up=False)
        if field == "maxSurge":
            return surge
        return 1 if surge == 0 and unavailable == 0 else unavailable

    def weight_now(self) -> int:
        """Of the last setWeight step up to here."""
        if self.is_aborted:
            return 0
        if self.index == len(self.steps):
            return MOST_WEIGHT
        return self.weight_before(self.index)

    def weight_before(self, index: int) -> int:
        for step in reversed(self.steps[: index + 1]):
            if step.get("setWeight") is not None:
                return int(step["setWeight"])
        return 0


def facts_of(view: View, rollout: Obj) -> Facts:
    """O(its ReplicaSets)."""
    sets = []
    for key in view.dependents(rollout["metadata"]["uid"]):
        found = view.get(key) if key.gk == REPLICA_SET else None
        if found is not None and "deletionTimestamp" not in found["metadata"]:
            sets.append(found)
    status = rollout.get("status") or {}
    wanted = stable_hash(rollout["spec"].get("template") or {})
    by_hash = {labels_of(obj).get(HASH, ""): obj for obj in sets}
    new, stable = by_hash.get(wanted), by_hash.get(status.get("stableRS") or "-")
    others = tuple(obj for obj in sets if obj is not new and obj is not stable)
    steps = ((rollout["spec"].get("strategy") or {}).get("canary") or {}).get("steps") or []
    return Facts(rollout, status, wanted, stable_hash(steps), new, stable, others)


def replicas_of(obj: Obj | None) -> int:
    return 0 if obj is None else int(obj["spec"].get("replicas", 1))


def available_of(obj: Obj | None) -> int:
    return int(status_of(obj or {}).get("availableReplicas") or 0)


def count_of(obj: Obj | None) -> int:
    return int(status_of(obj or {}).get("replicas") or 0)


def service_of(view: View, facts: Facts, which: str) -> Obj | None:
    """`canaryService` or `stableService`, where named and there."""
    name = facts.canary.get(which)
    return view.get(Key("Service", facts.rollout["metadata"]["namespace"], name)) if name else None
