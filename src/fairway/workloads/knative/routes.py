"""Where a Route's requests go: Revisions and their shares, addresses, and which Revisions are routed to.

Source: pkg/reconciler/route/{route.go,traffic,domains}, pkg/reconciler/labeler/metasync.go,
pkg/apis/serving/v1/route_lifecycle.go.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.cluster.actions import NOTHING_TO_DO, Action, Create, Patch, Reconciliation, SetStatus, View
from fairway.kube.objects import Key, Obj, annotations_of, controller_of, labels_of
from fairway.kube.timestamps import rfc3339
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
from fairway.workloads.podtemplate import owned_by

_ASSIGNED, _CERTIFIED, _INGRESS = "AllTrafficAssigned", "CertificateProvisioned", "IngressReady"
# The address that istio's gateway has inside a cluster: istio is the default ingress class.
_GATEWAY: Final = "knative-local-gateway.istio-system.svc.cluster.local"


class _Bad(NamedTuple):
    """Why traffic cannot be assigned."""

    status: str
    reason: str
    message: str


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one Route. O(Revisions of its namespace)."""
    route = view.get(key)
    if route is None or "deletionTimestamp" in route["metadata"]:
        return NOTHING_TO_DO
    before: dict[str, Any] = route.get("status") or {}
    conditions = Conditions(before, (_ASSIGNED, _CERTIFIED, _INGRESS), now_us)
    status: dict[str, Any] = {**before, "observedGeneration": route["metadata"].get("generation", 1)}
    host = f"{key.name}.{key.namespace}.{names.DOMAIN}"
    status["url"] = f"http://{host}"
    actions: list[Action] = []
    traffic = _traffic(view, route)
    if isinstance(traffic, _Bad):
        conditions.mark(_ASSIGNED, *traffic)
        if conditions.status(_INGRESS) != TRUE:
            conditions.mark(_INGRESS, UNKNOWN, "IngressNotConfigured", "Ingress has not yet been reconciled.")
    else:
        status["traffic"] = traffic
        conditions.mark(_ASSIGNED, TRUE)
        status["address"] = {"url": f"http://{host}"}
        actions += _placeholder(view, route, conditions)
    conditions.mark(_CERTIFIED, TRUE, "TLSNotEnabled", "external-domain-tls is not enabled")
    status["conditions"] = conditions.listed()
    is_settled = conditions.status(READY) != UNKNOWN
    actions += _label(view, route, status.get("traffic") or [], now_us, is_settled=is_settled)
    if status != before:
        actions.append(SetStatus(key, status))
    return Reconciliation(tuple(actions))


def _placeholder(view: View, route: Obj, conditions: Conditions) -> list[Action]:
    """A core Service of the Route's name, for whoever calls it from inside the cluster."""
    meta = route["metadata"]
    there = view.get(Key("Service", meta["namespace"], meta["name"]))
    if there is None:
        metadata = {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": {f"{names.GROUP}/route": meta["name"], names.OF_SERVICE: meta["name"]},
            "ownerReferences": owned_by(route, names.VERSION, "Route"),
        }
        ports = [{"name": "http2", "port": 80, "targetPort": 80, "protocol": "TCP"}]
        spec = {"type": "ExternalName", "externalName": _GATEWAY, "sessionAffinity": "None", "ports": ports}
        conditions.mark(_INGRESS, TRUE)
        return [Create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})]
    owner = controller_of(there)
    if owner is None or owner.get("uid") != meta["uid"]:
        told = f'There is an existing placeholder Service "{meta["name"]}" that we do not own.'
        conditions.mark(_INGRESS, FALSE, "NotOwned", told)
    else:
        conditions.mark(_INGRESS, TRUE)
    return []


# Traffic


def _traffic(view: View, route: Obj) -> list[dict[str, Any]] | _Bad:
    """Each target with the Revision it means now, or why not."""
    meta = route["metadata"]
    found = []
    for target in route["spec"].get("traffic") or ():
        revision = _revision_of(view, meta["namespace"], target)
        if isinstance(revision, _Bad):
            return revision
        one: dict[str, Any] = {
            "revisionName": revision,
            "percent": target.get("percent", 0),
            "latestRevision": bool(target.get("configurationName")),
        }
        if target.get("tag"):
            one["tag"] = target["tag"]
            one["url"] = f"http://{target['tag']}-{meta['name']}.{meta['namespace']}.{names.DOMAIN}"
        found.append(one)
    return found


def _revision_of(view: View, namespace: str, target: dict[str, Any]) -> str | _Bad:
    name = target.get("revisionName")
    if name:
        revision = view.get(Key(names.REVISION, namespace, name))
        if revision is None:
            return _missing("Revision", name)
        condition = condition_of(revision)
        if condition is not None and condition["status"] == FALSE:
            return _Bad(FALSE, "RevisionMissing", f'Revision "{name}" failed to become ready.')
        if not is_ready(revision):
            return _Bad(UNKNOWN, "RevisionMissing", f'Revision "{name}" is not yet ready.')
        return str(name)
    name = target.get("configurationName", "")
    configuration = view.get(Key(names.CONFIGURATION, namespace, name))
    if configuration is None:
        return _missing("Configuration", name)
    latest = (configuration.get("status") or {}).get("latestReadyRevisionName")
    if latest:
        return str(latest)
    condition = condition_of(configuration)
    if condition is not None and condition["status"] == FALSE:
        told = f'Configuration "{name}" does not have any ready Revision.'
        return _Bad(FALSE, "RevisionMissing", told)
    told = f'Configuration "{name}" is waiting for a Revision to become ready.'
    return _Bad(UNKNOWN, "RevisionMissing", told)


def _missing(kind: str, name: str) -> _Bad:
    return _Bad(FALSE, f"{kind}Missing", f'{kind} "{name}" referenced in traffic not found.')


# Which Revisions are routed to


def _label(
    view: View, route: Obj, traffic: list[dict[str, Any]], now_us: int, *, is_settled: bool
) -> list[Action]:
    """Marks on the Revisions and Configurations of a Route; those it no longer names are let go once it is settled."""
    meta = route["metadata"]
    revisions = {t["revisionName"] for t in traffic}
    configurations = set()
    for target in route["spec"].get("traffic") or ():
        name = target.get("configurationName")
        if target.get("revisionName"):
            revisions.add(target["revisionName"])
        elif name:
            configurations.add(name)
            configuration = view.get(Key(names.CONFIGURATION, meta["namespace"], name)) or {}
            created = (configuration.get("status") or {}).get("latestCreatedRevisionName")
            if created:
                revisions.add(created)
    actions: list[Action] = []
    for gk, listed in ((names.REVISION, revisions), (names.CONFIGURATION, configurations)):
        for obj in view.objects(gk, meta["namespace"]):
            is_listed = obj["metadata"]["name"] in listed
            if is_listed or is_settled:
                actions += _mark(obj, gk, meta["name"], now_us, is_listed=is_listed)
    return actions


def _mark(obj: Obj, gk: str, route: str, now_us: int, *, is_listed: bool) -> list[Action]:
    meta = obj["metadata"]
    routes = {r for r in annotations_of(obj).get(names.ROUTES, "").split(",") if r}
    wanted = routes | {route} if is_listed else routes - {route}
    patch: dict[str, Any] = {}
    if wanted != routes:
        patch["annotations"] = {names.ROUTES: ",".join(sorted(wanted)) or None}
    if gk == names.REVISION and (is_listed or wanted != routes):
        state = "active" if wanted else "reserve"
        if labels_of(obj).get(names.ROUTING_STATE) != state:
            patch["labels"] = {names.ROUTING_STATE: state}
            modified = {names.ROUTING_STATE_MODIFIED: rfc3339(now_us)}
            patch["annotations"] = {**patch.get("annotations", {}), **modified}
    return [Patch(Key(gk, meta["namespace"], meta["name"]), {"metadata": patch})] if patch else []
