"""All controllers, in the order in which they look at a change, and which kinds they watch.

`concerned.py` says which of them one change concerns.
"""

from __future__ import annotations

from fairway.cluster.quotausage import QUOTA
from fairway.workloads import adoption, gateways, namespaces, replicaset, resourcequota
from fairway.workloads.controller import Controller
from fairway.workloads.cronjob import decide as cronjob
from fairway.workloads.daemonset import decide as daemonset
from fairway.workloads.deployment import rollout
from fairway.workloads.disruption import budget
from fairway.workloads.job import cleanup
from fairway.workloads.job import decide as job
from fairway.workloads.jobset import decide as jobset
from fairway.workloads.kserve import decide as kserve
from fairway.workloads.kserve.llm import decide as llm
from fairway.workloads.kubeflow import controllers as kubeflow
from fairway.workloads.kubeflow import mpi
from fairway.workloads.leaderworkerset import decide as leaderworkerset
from fairway.workloads.leaderworkerset import groups as leaderworkergroups
from fairway.workloads.ray import cluster as raycluster
from fairway.workloads.ray import job as rayjob
from fairway.workloads.rollouts import decide as rollouts
from fairway.workloads.statefulset import decide as statefulset

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
    kserve.CONTROLLER,
    llm.CONTROLLER,
    *gateways.CONTROLLERS,
    rollouts.CONTROLLER,
    budget.CONTROLLER,
    resourcequota.CONTROLLER,
    namespaces.CONTROLLER,
)


def _by_watched_kind() -> dict[str, tuple[Controller, ...]]:
    kinds = sorted({gk for c in CONTROLLERS for gk in c.watches})
    return {gk: tuple(c for c in CONTROLLERS if gk in c.watches) for gk in kinds}


WATCHERS: dict[str, tuple[Controller, ...]] = _by_watched_kind()

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


ON_UPDATE: dict[str, tuple[Controller, ...]] = {gk: _concerned_by_updates(gk) for gk in WATCHERS}
"""Who watches changes of what is there."""

# They watch Jobs for the sake of those they own.
_OWNERS_OF_JOBS = (cronjob.CONTROLLER, jobset.CONTROLLER, mpi.CONTROLLER, rayjob.CONTROLLER)


def _of_nobody(watchers: tuple[Controller, ...]) -> tuple[Controller, ...]:
    return tuple(c for c in watchers if c not in _OWNERS_OF_JOBS)


OF_NOBODYS_JOB: tuple[Controller, ...] = _of_nobody(WATCHERS[job.JOB])
"""Who watches a Job without owners come and go; and, below, change."""
OF_NOBODYS_JOB_UPDATED: tuple[Controller, ...] = _of_nobody(ON_UPDATE[job.JOB])

# Pods have one controller, so only that one needs asking; these by its kind.
OF_POD_OWNER: dict[str, tuple[Controller, ...]] = {
    "": (adoption.PODS, cleanup.RELEASE),
    "Job": (job.CONTROLLER,),
    "ReplicaSet": (replicaset.CONTROLLER,),
    "StatefulSet": (statefulset.CONTROLLER,),
    "DaemonSet": (daemonset.CONTROLLER,),
    **{c.gk.partition(".")[0]: (c,) for c in kubeflow.CONTROLLERS},
    "RayCluster": (raycluster.CONTROLLER,),
}
"""Kinds of a pod's controller, without their group; `""`: a pod that has none."""
OF_LEAVING_JOB_PODS: tuple[Controller, ...] = (cleanup.RELEASE,)
OF_LAUNCHERS: tuple[Controller, ...] = (kubeflow.LAUNCHERS,)
OF_LEADER_SETS: tuple[Controller, ...] = (leaderworkerset.CONTROLLER, leaderworkergroups.CONTROLLER)
OF_BUDGETS: tuple[Controller, ...] = (budget.CONTROLLER,)
OF_QUOTAS: tuple[Controller, ...] = (resourcequota.CONTROLLER,)
OF_NAMESPACES: tuple[Controller, ...] = (namespaces.CONTROLLER,)
