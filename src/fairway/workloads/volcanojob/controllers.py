"""Volcano's controllers, and which of them a change concerns: hardly ever any.

They run in a process of their own (vc-controller-manager), so they are no part of `workloads.registry`.
"""

from __future__ import annotations

from typing import Final

from fairway.cluster.actions import View
from fairway.cluster.changes import Change
from fairway.kube.objects import Key
from fairway.workloads.controller import Controller
from fairway.workloads.volcanojob import decide, podgroups, queues
from fairway.workloads.volcanojob.gang import POD_GROUP

CONTROLLERS: Final[tuple[Controller, ...]] = (decide.CONTROLLER, podgroups.CONTROLLER, queues.CONTROLLER)
_SCHEDULER: Final = "volcano"


def affected(view: View, change: Change) -> list[tuple[Controller, Key]]:
    """Who has to look at what. Pods of other schedulers, which are most, cost two look-ups."""
    gk = change.key.gk
    if gk == "Pod":
        if change.obj["spec"].get("schedulerName") != _SCHEDULER:
            return []
        asked: tuple[Controller, ...] = (decide.CONTROLLER, podgroups.CONTROLLER)
    elif gk == POD_GROUP:
        asked = (decide.CONTROLLER, queues.CONTROLLER)
    else:
        asked = tuple(c for c in CONTROLLERS if gk in c.watches)
    return [(c, key) for c in asked for key in c.map_change(view, change)]
