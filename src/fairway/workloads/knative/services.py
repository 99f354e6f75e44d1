"""A Service's Configuration and Route; a Configuration's Revisions.

Source: pkg/reconciler/{service,configuration}, pkg/apis/serving/v1/{service,configuration}_lifecycle.go.
"""

from __future__ import annotations

from typing import Any, Final

from fairway.cluster.actions import NOTHING_TO_DO, Action, Create, Patch, Reconciliation, SetStatus, View
from fairway.kube.objects import Key, Obj, annotations_of, controller_of, labels_of
from fairway.kube.timestamps import rfc3339
from fairway.workloads.controller import WARNING, event
from fairway.workloads.knative import names
from fairway.workloads.knative.conditions import (
    FALSE,
    READY,
    TRUE,
    UNKNOWN,
    Conditions,
    condition_of,
    is_ready,
)
from fairway.workloads.knative.revisionpods import defaulted
from fairway.workloads.podtemplate import owned_by

OF_SERVICES: Final = "service-controller"
OF_CONFIGURATIONS: Final = "configuration-controller"
_READY_ROUTES, _READY_CONFIGURATIONS = "RoutesReady", "ConfigurationsReady"
_OUT_OF_DATE: Final = "The {} is still working to reflect the latest desired specification."
_NOT_MIGRATED: Final = ("TrafficNotMigrated", "Traffic is not yet migrated to the latest revision.")
# Everything goes to the latest Revision. Source: route_defaults.go.
_ALL_TO_LATEST: Final[list[dict[str, Any]]] = [{"latestRevision": True, "percent": 100}]


# Services


def reconcile_service(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one Service of Serving."""
    service = view.get(key)
    if service is None or "deletionTimestamp" in service["metadata"]:
        return NOTHING_TO_DO
    before: dict[str, Any] = service.get("status") or {}
    conditions = Conditions(before, (_READY_CONFIGURATIONS, _READY_ROUTES), now_us)
    status: dict[str, Any] = {**before, "observedGeneration": service["metadata"].get("generation", 1)}
    configuration, actions = _ensure(
        view, service, names.CONFIGURATION, configuration_for(view, service), "Configuration"
    )
    if configuration is not None:
        _follow_configuration(configuration, status, conditions)
        route, more = _ensure(view, service, names.ROUTE, route_for(service), "Route")
        actions += more
        if route is not None:
            _follow_route(route, configuration, status, conditions)
    elif not actions:
        told = f'There is an existing Configuration "{key.name}" that we do not own.'
        conditions.mark(_READY_CONFIGURATIONS, FALSE, "NotOwned", told)
    status["conditions"] = conditions.listed()
    if status != before:
        actions.append(SetStatus(key, status))
    return Reconciliation(tuple(actions))


def configuration_for(view: View, service: Obj) -> Obj:
    """The Configuration of a Service."""
    meta = service["metadata"]
    left_out = (names.LAST_APPLIED, names.ROLLOUT_DURATION)
    annotations = {k: v for k, v in annotations_of(service).items() if k not in left_out}
    there = view.get(Key(names.CONFIGURATION, meta["namespace"], meta["name"]))
    routes = {r for r in annotations_of(there or {}).get(names.ROUTES, "").split(",") if r}
    annotations[names.ROUTES] = ",".join(sorted({*routes, meta["name"]}))
    labels = {**labels_of(service), names.OF_SERVICE: meta["name"], names.OF_SERVICE_UID: meta["uid"]}
    spec = {"template": service["spec"].get("template") or {}}
    return _owned(service, "Configuration", labels, annotations, spec)


def route_for(service: Obj) -> Obj:
    """The Route of a Service."""
    name = service["metadata"]["name"]
    annotations = {k: v for k, v in annotations_of(service).items() if k != names.LAST_APPLIED}
    traffic = [
        target if target.get("revisionName") else {**target, "configurationName": name}
        for target in service["spec"].get("traffic") or _ALL_TO_LATEST
    ]
    labels = {**labels_of(service), names.OF_SERVICE: name}
    return _owned(service, "Route", labels, annotations, {"traffic": traffic})


def _owned(
    owner: Obj, kind: str, labels: dict[str, str], annotations: dict[str, str], spec: dict[str, Any]
) -> Obj:
    meta = owner["metadata"]
    metadata = {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": owned_by(owner, names.VERSION, owner["kind"]),
    }
    return {"apiVersion": names.VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _ensure(view: View, owner: Obj, gk: str, wanted: Obj, kind: str) -> tuple[Obj | None, list[Action]]:
    """What is there (None: nothing yet, or somebody else's), and what brings it about."""
    meta = wanted["metadata"]
    key = Key(gk, meta["namespace"], meta["name"])
    there = view.get(key)
    about = Key(names.SERVICE, meta["namespace"], meta["name"])
    if there is None:
        told = event(about, "Created", f'Created {kind} "{meta["name"]}"', OF_SERVICES)
        return None, [Create(wanted), told]
    controller = controller_of(there)
    if controller is None or controller.get("uid") != owner["metadata"]["uid"]:
        return None, []
    patch: dict[str, Any] = {}
    differs = {
        member: names.changed(there["metadata"].get(member) or {}, meta[member])
        for member in ("labels", "annotations")
    }
    differs = {member: what for member, what in differs.items() if what}
    if differs:
        patch["metadata"] = differs
    if any(there["spec"].get(member) != value for member, value in wanted["spec"].items()):
        patch["spec"] = wanted["spec"]
    return there, [Patch(key, patch)] if patch else []


def _is_current(obj: Obj) -> bool:
    return bool((obj.get("status") or {}).get("observedGeneration") == obj["metadata"].get("generation"))


def _follow_configuration(configuration: Obj, status: dict[str, Any], conditions: Conditions) -> None:
    if not _is_current(configuration):
        told = _OUT_OF_DATE.format("Configuration")
        conditions.mark(_READY_CONFIGURATIONS, UNKNOWN, "OutOfDate", told)
        return
    of: dict[str, Any] = configuration.get("status") or {}
    for member in ("latestCreatedRevisionName", "latestReadyRevisionName"):
        if of.get(member):
            status[member] = of[member]
    conditions.copy(_READY_CONFIGURATIONS, condition_of(configuration))


def _follow_route(route: Obj, configuration: Obj, status: dict[str, Any], conditions: Conditions) -> None:
    if not _is_current(route):
        conditions.mark(_READY_ROUTES, UNKNOWN, "OutOfDate", _OUT_OF_DATE.format("Route"))
        return
    of: dict[str, Any] = route.get("status") or {}
    for member in ("url", "address", "traffic"):
        if of.get(member):
            status[member] = of[member]
    conditions.copy(_READY_ROUTES, condition_of(route))
    if conditions.status(_READY_ROUTES) == TRUE and not _is_migrated(route, configuration):
        conditions.mark(_READY_ROUTES, UNKNOWN, *_NOT_MIGRATED)


def _is_migrated(route: Obj, configuration: Obj) -> bool:
    """Traffic goes where the Route wants it, the latest ready Revision taken for its Configuration."""
    latest = (configuration.get("status") or {}).get("latestReadyRevisionName")
    mine = configuration["metadata"]["name"]
    wanted = [
        latest if target.get("configurationName") == mine else target.get("revisionName")
        for target in route["spec"].get("traffic") or ()
    ]
    return wanted == [t.get("revisionName") for t in (route.get("status") or {}).get("traffic") or ()]


# Configurations


def reconcile_configuration(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one Configuration. O(Revisions of its namespace)."""
    configuration = view.get(key)
    if configuration is None or "deletionTimestamp" in configuration["metadata"]:
        return NOTHING_TO_DO
    before: dict[str, Any] = configuration.get("status") or {}
    status = dict(before)
    conditions = Conditions(before, (), now_us)
    status["observedGeneration"] = configuration["metadata"].get("generation", 1)
    actions: list[Action] = []
    revisions = [
        r
        for r in view.objects(names.REVISION, key.namespace)
        if labels_of(r).get(names.OF_CONFIGURATION) == key.name
    ]
    newest, fault = _latest_created(view, configuration, revisions)
    if fault:
        conditions.mark(READY, FALSE, "RevisionFailed", f"Revision creation failed with message: {fault}.")
    elif newest is None:
        newest = revision_for(configuration, now_us)
        name = newest["metadata"]["name"]
        actions += [Create(newest), event(key, "Created", f'Created Revision "{name}"', OF_CONFIGURATIONS)]
    if newest is not None:
        actions += _follow_revisions(key, newest, revisions, status, conditions)
    status["conditions"] = conditions.listed()
    if status != before:
        actions.append(SetStatus(key, status))
    return Reconciliation(tuple(actions))


def _latest_created(view: View, configuration: Obj, revisions: list[Obj]) -> tuple[Obj | None, str]:
    """The Revision of this generation, or why there cannot be one."""
    meta = configuration["metadata"]
    generation = meta.get("generation", 1)
    name = ((configuration["spec"].get("template") or {}).get("metadata") or {}).get("name")
    if name:
        there = view.get(Key(names.REVISION, meta["namespace"], name))
        if there is None:
            return None, ""
        owner = controller_of(there)
        is_ours = owner is not None and owner.get("uid") == meta["uid"]
        is_same = names.generation_of(there) == generation
        if is_ours and (is_same or there["spec"] == revision_for(configuration, 0)["spec"]):
            return there, ""
        return None, f'revisions.{names.GROUP} "{name}" already exists'
    return next((r for r in revisions if names.generation_of(r) == generation), None), ""


def revision_for(configuration: Obj, now_us: int) -> Obj:
    """The Revision of a Configuration's generation."""
    meta = configuration["metadata"]
    template = configuration["spec"].get("template") or {}
    told: dict[str, Any] = template.get("metadata") or {}
    generation = meta.get("generation", 1)
    labels = {
        **(told.get("labels") or {}),
        names.OF_CONFIGURATION: meta["name"],
        names.OF_GENERATION: str(generation),
        names.OF_CONFIGURATION_UID: meta["uid"],
        names.ROUTING_STATE: "pending",
    }
    for label in (names.OF_SERVICE, names.OF_SERVICE_UID):
        if labels_of(configuration).get(label):
            labels[label] = labels_of(configuration)[label]
    annotations = {**(told.get("annotations") or {}), names.ROUTING_STATE_MODIFIED: rfc3339(now_us)}
    routes = annotations_of(configuration).get(names.ROUTES)
    if routes:
        annotations[names.ROUTES] = routes
        labels[names.ROUTING_STATE] = "active"
    metadata = {
        "name": told.get("name") or f"{meta['name']}-{generation:05d}",
        "namespace": meta["namespace"],
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": owned_by(configuration, names.VERSION, "Configuration"),
    }
    spec = defaulted(template.get("spec") or {})
    return {"apiVersion": names.VERSION, "kind": "Revision", "metadata": metadata, "spec": spec}


def _follow_revisions(
    key: Key, newest: Obj, revisions: list[Obj], status: dict[str, Any], conditions: Conditions
) -> list[Action]:
    """Which Revision is the latest that was made, and which the latest that is ready; what is told of it."""
    actions: list[Action] = []
    name, ready_before = newest["metadata"]["name"], status.get("latestReadyRevisionName", "")
    status["latestCreatedRevisionName"] = name
    if ready_before != name:
        conditions.mark(READY, UNKNOWN)
    condition = condition_of(newest)
    if condition is not None and condition["status"] == TRUE and not ready_before:
        actions.append(event(key, "ConfigurationReady", "Configuration becomes ready", OF_CONFIGURATIONS))
    elif condition is not None and condition["status"] == FALSE:
        before = conditions.get(READY)
        message = f'Revision "{name}" failed with message: {condition.get("message", "")}.'
        conditions.mark(READY, FALSE, "RevisionFailed", message)
        if conditions.get(READY) != before:
            which = "ready" if name == ready_before else "created"
            said = f'Latest {which} revision "{name}" has failed'
            actions.append(event(key, f"Latest{which.capitalize()}Failed", said, OF_CONFIGURATIONS, WARNING))
    since = next((names.generation_of(r) for r in revisions if r["metadata"]["name"] == ready_before), 0)
    there = sorted(revisions, key=lambda r: (r["metadata"]["name"] != name, -names.generation_of(r)))
    for revision in there:
        if names.generation_of(revision) < since or not is_ready(revision):
            continue
        found = revision["metadata"]["name"]
        status["latestReadyRevisionName"] = found
        if found == name:
            conditions.mark(READY, TRUE)
        if found != ready_before:
            said = f'LatestReadyRevisionName updated to "{found}"'
            actions.append(event(key, "LatestReadyUpdate", said, OF_CONFIGURATIONS))
        break
    return actions
