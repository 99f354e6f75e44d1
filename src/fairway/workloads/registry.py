"""All controllers, and which of them a change concerns.

A runner follows the change log, asks `affected` for (controller, key) pairs, reconciles each key once and
carries the actions out. Order within one batch is the registry's, so two runs agree.
"""

from __future__ import annotations

from fairway.cluster.actions import View
from fairway.cluster.changes import Change
from fairway.kube.objects import Key
from fairway.workloads import adoption, replicaset
from fairway.workloads.controller import Controller
from fairway.workloads.deployment import rollout
from fairway.workloads.job import cleanup, decide

CONTROLLERS: tuple[Controller, ...] = (
    adoption.PODS,
    adoption.REPLICA_SETS,
    decide.CONTROLLER,
    cleanup.RELEASE,
    cleanup.EXPIRE,
    rollout.CONTROLLER,
    replicaset.CONTROLLER,
)


def _by_watched_kind() -> dict[str, tuple[Controller, ...]]:
    kinds = sorted({gk for c in CONTROLLERS for gk in c.watches})
    return {gk: tuple(c for c in CONTROLLERS if gk in c.watches) for gk in kinds}


WATCHERS = _by_watched_kind()


def affected(view: View, change: Change) -> list[tuple[Controller, Key]]:
    """Who has to look at what after this change. Mostly nobody: a pod has one controller."""
    out = []
    for controller in WATCHERS.get(change.key[0], ()):
        out.extend([(controller, key) for key in controller.map_change(view, change)])
    return out
