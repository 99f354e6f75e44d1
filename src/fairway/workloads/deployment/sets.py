"""A Deployment and its ReplicaSets while a decision is made: desired sizes that may change, and what changed.

Source: pkg/controller/deployment/util/deployment_util.go (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairway.cluster.actions import Action, Create, Patch
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339
from fairway.workloads.controller import event
from fairway.workloads.intorpercent import scaled

DEPLOYMENT = "Deployment.apps"
REPLICA_SET = "ReplicaSet.apps"
COMPONENT = "deployment-controller"

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
TEMPLATE_HASH = "pod-template-hash"

# API defaults. Source: pkg/apis/apps/v1/defaults.go SetDefaults_Deployment (v1.36).
DEFAULT_MAX_SURGE = "25%"
DEFAULT_MAX_UNAVAILABLE = "25%"
DEFAULT_HISTORY_LIMIT = 10
DEFAULT_PROGRESS_DEADLINE_S = 600
NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the Deployment asks for, defaults filled in."""

    replicas: int
    is_rolling: bool
    max_surge: int
    max_unavailable: int
    is_paused: bool
    min_ready_s: int
    history_limit: int
    progress_deadline_s: int

    @property
    def max_replicas(self) -> int:
        return self.replicas + self.max_surge

    @property
    def min_available(self) -> int:
        return self.replicas - self.max_unavailable

    @property
    def has_deadline(self) -> bool:
        return self.progress_deadline_s != NO_LIMIT


def wishes_of(deployment: Obj) -> Wishes:
    spec: dict[str, Any] = deployment.get("spec") or {}
    replicas = spec.get("replicas")
    replicas = 1 if replicas is None else replicas
    strategy = spec.get("strategy") or {}
    is_rolling = strategy.get("type", "RollingUpdate") != "Recreate"
    surge, unavailable = fenceposts(strategy.get("rollingUpdate") or {}, replicas) if is_rolling else (0, 0)
    history, deadline = spec.get("revisionHistoryLimit"), spec.get("progressDeadlineSeconds")
    return Wishes(
        replicas=replicas,
        is_rolling=is_rolling,
        max_surge=surge,
        max_unavailable=0 if replicas == 0 else min(unavailable, replicas),
        is_paused=bool(spec.get("paused")),
        min_ready_s=spec.get("minReadySeconds") or 0,
        history_limit=DEFAULT_HISTORY_LIMIT if history is None else history,
        progress_deadline_s=DEFAULT_PROGRESS_DEADLINE_S if deadline is None else deadline,
    )


def fenceposts(rolling: dict[str, Any], replicas: int) -> tuple[int, int]:
    """(maxSurge rounded up, maxUnavailable rounded down); never both zero, or nothing could ever move."""
    surge = scaled(_or(rolling.get("maxSurge"), DEFAULT_MAX_SURGE), replicas, round_up=True)
    unavailable = scaled(
        _or(rolling.get("maxUnavailable"), DEFAULT_MAX_UNAVAILABLE), replicas, round_up=False
    )
    return (surge, 1) if surge == 0 and unavailable == 0 else (surge, unavailable)


def _or(value: int | str | None, default: str) -> int | str:
    return default if value is None else value


@dataclass(slots=True)
class Sized:
    """One ReplicaSet. `replicas` and `annotations` are what it is to have; `obj` what it has.

    `is_new_born`: it exists only in this decision and is created by it.
    """

    obj: Obj
    replicas: int
    annotations: dict[str, str]
    min_ready_s: int
    is_new_born: bool = False

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def status(self) -> dict[str, Any]:
        return self.obj.get("status") or {}

    @property
    def available(self) -> int:
        """Available pods that will stay.

        Unlike kube: never more than `replicas`. A ReplicaSet scaled down a moment ago still reports the pods
        it is about to delete; counting them would take down more than maxUnavailable.
        """
        return min(int(self.status.get("availableReplicas", 0)), self.replicas)

    @property
    def age_order(self) -> tuple[int, str]:
        """Of those there are, older first."""
        return parse_rfc3339(self.obj["metadata"]["creationTimestamp"]), self.name


def sized(replica_set: Obj) -> Sized:
    spec = replica_set.get("spec") or {}
    replicas = spec.get("replicas")
    return Sized(
        replica_set,
        1 if replicas is None else replicas,
        dict(replica_set["metadata"].get("annotations") or {}),
        spec.get("minReadySeconds") or 0,
    )


@dataclass(slots=True)
class Rollout:
    """The Deployment, its ReplicaSets (`new` None: not there yet), and the events told so far."""

    key: Key
    deployment: Obj
    wishes: Wishes
    old: list[Sized]
    new: Sized | None = None
    events: list[Action] = field(default_factory=list)

    @property
    def everything(self) -> list[Sized]:
        return self.old if self.new is None else [*self.old, self.new]


def active(sets: list[Sized]) -> list[Sized]:
    return [s for s in sets if s.replicas > 0]


def total(sets: list[Sized]) -> int:
    return sum(s.replicas for s in sets)


def scale(rollout: Rollout, one: Sized, replicas: int) -> None:
    """Give one ReplicaSet a size, and say so where it is a new one."""
    remember_size(rollout, one)
    if one.replicas == replicas:
        return
    direction = "up" if replicas > one.replicas else "down"
    message = f"Scaled {direction} replica set {one.name} from {one.replicas} to {replicas}"
    rollout.events.append(event(rollout.key, "ScalingReplicaSet", message, COMPONENT))
    one.replicas = replicas


def remember_size(rollout: Rollout, one: Sized) -> None:
    """Write the Deployment's size on the ReplicaSet: how scaling is told from rolling out."""
    one.annotations[DESIRED_REPLICAS] = str(rollout.wishes.replicas)
    one.annotations[MAX_REPLICAS] = str(rollout.wishes.max_replicas)


def writes(rollout: Rollout) -> list[Action]:
    """The creations and patches that make every ReplicaSet as decided."""
    actions: list[Action] = []
    for one in rollout.everything:
        if one.is_new_born:
            meta = {**one.obj["metadata"], "annotations": one.annotations}
            spec = {**one.obj["spec"], "replicas": one.replicas}
            actions.append(Create({**one.obj, "metadata": meta, "spec": spec}))
            continue
        patch = _difference(one)
        if patch:
            actions.append(Patch(Key(REPLICA_SET, rollout.key.namespace, one.name), patch))
    return actions


def _difference(one: Sized) -> dict[str, Any]:
    before = sized(one.obj)
    patch: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    if one.replicas != before.replicas:
        spec["replicas"] = one.replicas
    if one.min_ready_s != before.min_ready_s:
        spec["minReadySeconds"] = one.min_ready_s
    if spec:
        patch["spec"] = spec
    changed = {k: v for k, v in one.annotations.items() if before.annotations.get(k) != v}
    if changed:
        patch["metadata"] = {"annotations": changed}
    return patch
