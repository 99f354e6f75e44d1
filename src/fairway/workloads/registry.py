"""All controllers, and which of them a change concerns.

A runner follows the change log, asks `affected` for (controller, key) pairs, reconciles each key once and
carries the actions out. Order within one batch is the registry's, so two runs agree.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.cluster.actions import View
from fairway.cluster.changes import MODIFIED, Change
from fairway.cluster.quotausage import QUOTA
from fairway.kube.objects import Key
from fairway.workloads import adoption, namespaces, replicaset, resourcequota
from fairway.workloads.controller import Controller
from fairway.workloads.cronjob import decide as cronjob
from fairway.workloads.daemonset import decide as daemonset
from fairway.workloads.deployment import rollout
from fairway.workloads.disruption import budget
from fairway.workloads.job import cleanup
from fairway.workloads.job import decide as job
from fairway.workloads.jobset import decide as jobset
from fairway.workloads.kubeflow import controllers as kubeflow
from fairway.workloads.kubeflow.framework import JOB_ROLE
from fairway.workloads.leaderworkerset import decide as leaderworkerset
from fairway.workloads.leaderworkerset import groups as leaderworkergroups
from fairway.workloads.leaderworkerset.marks import SET_NAME
from fairway.workloads.ray import cluster as raycluster
from fairway.workloads.ray import job as rayjob
from fairway.workloads.statefulset import decide as statefulset

# `podgc.CONTROLLER` is left to runners that have no pod garbage collection of their own.
CONTROLLERS: tuple[Controller, ...] = (
    adoption.PODS,
    adoption.REPLICA_SETS,
    cronjob.CONTROLLER,
    job.CONTROLLER,
    cleanup.RELEASE,
    cleanup.EXPIRE,
    rollout.CONTROLLER,
    replicaset.CONTROLLER,
    statefulset.CONTROLLER,
    daemonset.CONTROLLER,
    jobset.CONTROLLER,
    *kubeflow.CONTROLLERS,
    raycluster.CONTROLLER,
    rayjob.CONTROLLER,
    leaderworkerset.CONTROLLER,
    leaderworkergroups.CONTROLLER,
    budget.CONTROLLER,
    resourcequota.CONTROLLER,
    namespaces.CONTROLLER,
)


def _by_watched_kind() -> dict[str, tuple[Controller, ...]]:
    kinds = sorted({gk for c in CONTROLLERS for gk in c.watches})
    return {gk: tuple(c for c in CONTROLLERS if gk in c.watches) for gk in kinds}


WATCHERS = _by_watched_kind()

# Kinds whose changes, not only their coming and going, change what a quota counts.
_COUNTED_BY_CONTENT = ("Pod", "PersistentVolumeClaim", "Service", QUOTA)


def _concerned_by_updates(gk: str) -> tuple[Controller, ...]:
    """The watchers of a kind less those that only care for coming and going. Most changes are updates."""
    unconcerned = [] if gk == namespaces.NAMESPACE else [namespaces.CONTROLLER]
    if gk not in _COUNTED_BY_CONTENT:
        unconcerned.append(resourcequota.CONTROLLER)
    if gk == job.JOB:
        unconcerned.append(cleanup.RELEASE)
    return tuple(c for c in WATCHERS[gk] if c not in unconcerned)


_ON_UPDATE = {gk: _concerned_by_updates(gk) for gk in WATCHERS}


# Pods have one controller, so only that one needs asking; these by its kind.
_OF_POD_OWNER: dict[str, tuple[Controller, ...]] = {
    "": (adoption.PODS, cleanup.RELEASE),
    "Job": (job.CONTROLLER, cleanup.RELEASE),
    "ReplicaSet": (replicaset.CONTROLLER,),
    "StatefulSet": (statefulset.CONTROLLER,),
    "DaemonSet": (daemonset.CONTROLLER,),
    **{c.gk.partition(".")[0]: (c,) for c in kubeflow.CONTROLLERS},
    "RayCluster": (raycluster.CONTROLLER,),
}


def affected(view: View, change: Change) -> list[tuple[Controller, Key]]:
    """Who has to look at what after this change. Mostly nobody."""
    gk = change.key[0]
    asked: Sequence[Controller]
    if gk == "Pod":
        asked = _asked_about_pod(view, change)
    elif change.type == MODIFIED:
        asked = _ON_UPDATE.get(gk, ())
    else:
        asked = WATCHERS.get(gk, ())
    out: list[tuple[Controller, Key]] = []
    for controller in asked:
        for key in controller.map_change(view, change):
            out.append((controller, key))  # noqa: PERF401  (a comprehension costs more: mostly there is none)
    return out


_NOBODY = "nobody"


def _is_new_to_adopters(change: Change) -> bool:
    """Whether a pod without owners appeared, left, or changed its labels: only then could somebody take it."""
    old = change.old
    if change.type != MODIFIED or old is None:
        return True
    return old["metadata"].get("labels") is not change.obj["metadata"].get("labels")


def _asked_about_pod(view: View, change: Change) -> Sequence[Controller]:
    """The controllers a pod's change can concern: asking them all takes a third of a short Job's time."""
    references = change.obj["metadata"].get("ownerReferences")
    if change.old is not None and change.old["metadata"].get("ownerReferences") is not references:
        return WATCHERS["Pod"]
    kind = "" if references or _is_new_to_adopters(change) else _NOBODY
    for ref in references or ():
        if ref.get("controller"):
            kind = ref["kind"]
            break
    asked: Sequence[Controller] = _OF_POD_OWNER.get(kind, ())
    if kind == "Job" and JOB_ROLE in (change.obj["metadata"].get("labels") or ()):
        asked = (*asked, kubeflow.LAUNCHERS)
    if kind == "StatefulSet" and SET_NAME in (change.obj["metadata"].get("labels") or ()):
        asked = (*asked, leaderworkerset.CONTROLLER, leaderworkergroups.CONTROLLER)
    namespace = change.key[1]
    if view.objects(budget.PDB, namespace):
        asked = (*asked, budget.CONTROLLER)
    if view.objects(QUOTA, namespace):
        asked = (*asked, resourcequota.CONTROLLER)
    if change.type != MODIFIED:
        asked = (*asked, namespaces.CONTROLLER)
    return asked
