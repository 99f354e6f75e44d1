"""Which controllers does a change concern, and which of their keys?

A runner follows the change log, asks `affected` for (controller, key) pairs, reconciles each key once and
carries the actions out. Order within one batch is the registry's, so two runs agree.
"""

from __future__ import annotations

from typing import Final

from fairway.cluster.actions import View
from fairway.cluster.changes import MODIFIED, Change
from fairway.cluster.quotausage import QUOTA
from fairway.kube.objects import Key, Obj, meta_of
from fairway.workloads.controller import Controller
from fairway.workloads.disruption.budget import PDB
from fairway.workloads.job.decide import JOB
from fairway.workloads.kubeflow.framework import JOB_ROLE
from fairway.workloads.leaderworkerset.marks import SET_NAME
from fairway.workloads.registry import (
    OF_BUDGETS,
    OF_LAUNCHERS,
    OF_LEADER_SETS,
    OF_LEAVING_JOB_PODS,
    OF_NAMESPACES,
    OF_NOBODYS_JOB,
    OF_NOBODYS_JOB_UPDATED,
    OF_POD_OWNER,
    OF_QUOTAS,
    ON_UPDATE,
    WATCHERS,
)


def affected(view: View, change: Change) -> list[tuple[Controller, Key]]:
    """Who has to look at what after this change. Mostly nobody."""
    gk = change.key[0]
    asked: tuple[Controller, ...]
    if gk == "Pod":
        asked = _asked_about_pod(view, change)
    elif gk == JOB and _is_nobodys(change):
        asked = OF_NOBODYS_JOB_UPDATED if change.type == MODIFIED else OF_NOBODYS_JOB
    elif change.type == MODIFIED:
        asked = ON_UPDATE.get(gk, ())
    else:
        asked = WATCHERS.get(gk, ())
    out: list[tuple[Controller, Key]] = []
    for controller in asked:
        for key in controller.map_change(view, change):
            out.append((controller, key))  # noqa: PERF401  (a comprehension costs more: mostly there is none)
    return out


def _is_nobodys(change: Change) -> bool:
    """Whether the object has no owners, and had none."""
    if meta_of(change.obj).get("ownerReferences"):
        return False
    return change.old is None or not meta_of(change.old).get("ownerReferences")


_NOBODY: Final = "nobody"


def _is_new_to_adopters(change: Change) -> bool:
    """Whether a pod without owners appeared, left, or changed its labels: only then could somebody take it."""
    old = change.old
    if change.type != MODIFIED or old is None:
        return True
    return meta_of(old).get("labels") is not meta_of(change.obj).get("labels")


def _asked_about_pod(view: View, change: Change) -> tuple[Controller, ...]:
    """The controllers a pod's change can concern: asking them all takes a third of a short Job's time."""
    meta: Obj = change.obj["metadata"]
    references: list[Obj] | None = meta.get("ownerReferences")
    if change.old is not None and meta_of(change.old).get("ownerReferences") is not references:
        return WATCHERS["Pod"]
    kind = "" if references or _is_new_to_adopters(change) else _NOBODY
    if references:
        for ref in references:
            if ref.get("controller"):
                kind = ref["kind"]
                break
    asked: tuple[Controller, ...] = OF_POD_OWNER.get(kind, ())
    if kind == "Job":
        if "deletionTimestamp" in meta:
            asked = asked + OF_LEAVING_JOB_PODS
        if JOB_ROLE in (meta.get("labels") or ()):
            asked = asked + OF_LAUNCHERS
    elif kind == "StatefulSet" and SET_NAME in (meta.get("labels") or ()):
        asked = asked + OF_LEADER_SETS
    namespace = change.key[1]
    if view.objects(PDB, namespace):
        asked = asked + OF_BUDGETS
    if view.objects(QUOTA, namespace):
        asked = asked + OF_QUOTAS
    if change.type != MODIFIED:
        asked = asked + OF_NAMESPACES
    return asked
