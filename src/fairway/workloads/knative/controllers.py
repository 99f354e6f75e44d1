"""Serving's controllers, and which of them a change concerns: hardly ever any.

They run in a process of their own (knative-serving/controller), so they are no part of `workloads.registry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairway.cluster.actions import View
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, labels_of, spec_of
from fairway.workloads.controller import NO_KEYS, Controller, is_desire_changed, owner_key
from fairway.workloads.knative import names, revisions, routes, services


def _own_or_owner(change: Change, gk: str, kind: str) -> Sequence[Key]:
    """The object itself where its wishes changed, or its owner of that kind."""
    if change.key.gk == gk:
        return (change.key,) if change.type != DELETED and is_desire_changed(change) else NO_KEYS
    key = owner_key(change.obj, kind, names.GROUP, gk)
    return NO_KEYS if key is None else (key,)


def _map_service(view: View, change: Change) -> Sequence[Key]:
    return _own_or_owner(change, names.SERVICE, "Service")


def _map_configuration(view: View, change: Change) -> Sequence[Key]:
    return _own_or_owner(change, names.CONFIGURATION, "Configuration")


def _map_revision(view: View, change: Change) -> Sequence[Key]:
    return _own_or_owner(change, names.REVISION, "Revision")


def _map_route(view: View, change: Change) -> Sequence[Key]:
    """Every Route that names the Configuration or Revision that changed."""
    if change.key.gk == names.ROUTE:
        return _own_or_owner(change, names.ROUTE, "Route")
    named = {change.key.name, labels_of(change.obj).get(names.OF_CONFIGURATION, "")}
    return tuple(
        Key(names.ROUTE, change.key.namespace, route["metadata"]["name"])
        for route in view.objects(names.ROUTE, change.key.namespace)
        if any(
            {t.get("configurationName"), t.get("revisionName")} & named
            for t in spec_of(route).get("traffic") or ()
        )
    )


CONTROLLERS: Final[tuple[Controller, ...]] = (
    Controller(
        "knative-service",
        names.SERVICE,
        (names.SERVICE, names.CONFIGURATION, names.ROUTE),
        _map_service,
        services.reconcile_service,
    ),
    Controller(
        "knative-configuration",
        names.CONFIGURATION,
        (names.CONFIGURATION, names.REVISION),
        _map_configuration,
        services.reconcile_configuration,
    ),
    Controller(
        "knative-revision",
        names.REVISION,
        (names.REVISION, names.DEPLOYMENT, names.POD_AUTOSCALER),
        _map_revision,
        revisions.reconcile,
    ),
    Controller(
        "knative-route",
        names.ROUTE,
        (names.ROUTE, names.CONFIGURATION, names.REVISION),
        _map_route,
        routes.reconcile,
    ),
)
_OF_KIND: Final = {
    gk: tuple(c for c in CONTROLLERS if gk in c.watches)
    for gk in sorted({gk for c in CONTROLLERS for gk in c.watches})
}


def affected(view: View, change: Change) -> list[tuple[Controller, Key]]:
    """Who has to look at what. A Deployment of nobody's Revision, which most are, costs a look at its owners."""
    return [(c, key) for c in _OF_KIND.get(change.key.gk, ()) for key in c.map_change(view, change)]
