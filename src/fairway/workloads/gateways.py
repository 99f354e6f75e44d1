"""What a Gateway's controller says of Gateways, HTTPRoutes and InferencePools: accepted, programmed, resolved?

One for every GatewayClass that there is: its data plane is the simulated servers' (room `serving`), so a Gateway is
programmed at once. Without an address of its own it has the name of the Service that Istio makes for it.

Unlike kube: hostnames, listeners' allowed routes and ReferenceGrants are not looked at.

Source: Gateway API v1 (conditions and reasons); istio pilot/pkg/config/kube/gateway (conversion.go, addresses).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairway.cluster.actions import NOTHING_TO_DO, Reconciliation, SetStatus, View
from fairway.cluster.changes import DELETED, Change
from fairway.kube.conditions import FALSE, TRUE, Condition, set_condition
from fairway.kube.objects import Key, Obj, key_of
from fairway.kube.timestamps import rfc3339
from fairway.workloads.controller import NO_KEYS, Controller, is_desire_changed

_GROUP: Final = "gateway.networking.k8s.io"
GATEWAY, CLASS, ROUTE = f"Gateway.{_GROUP}", f"GatewayClass.{_GROUP}", f"HTTPRoute.{_GROUP}"
POOL: Final = "InferencePool.inference.networking.k8s.io"
_KINDS: Final = {"Service": "Service", "InferencePool": POOL}


def _of_class(view: View, gateway: Obj) -> Obj | None:
    return view.get(Key(CLASS, "", str(gateway["spec"].get("gatewayClassName"))))


def _said(
    before: Sequence[Condition], wanted: dict[str, tuple[bool, str, str]], of: Obj, now: str
) -> list[Condition]:
    conditions = list(before)
    generation = of["metadata"].get("generation", 1)
    for type_, (holds, reason, message) in wanted.items():
        status = TRUE if holds else FALSE
        conditions = set_condition(
            conditions, type_, status, reason, message, now, observed_generation=generation
        )
    return conditions


def reconcile_gateway(view: View, key: Key, now_us: int) -> Reconciliation:
    gateway = view.get(key)
    if gateway is None or _of_class(view, gateway) is None:
        return NOTHING_TO_DO
    before, now = gateway.get("status") or {}, rfc3339(now_us)
    fine = {
        "Accepted": (True, "Accepted", "Resource accepted"),
        "Programmed": (True, "Programmed", "Resource programmed"),
    }
    routes = [r for r in view.objects(ROUTE) if key in _parents(r)]
    was = {one["name"]: one for one in before.get("listeners") or ()}
    listeners = []
    for one in gateway["spec"].get("listeners") or ():
        there = was.get(one["name"], {}).get("conditions") or ()
        resolved = {**fine, "ResolvedRefs": (True, "ResolvedRefs", "No errors found")}
        kinds = [{"group": _GROUP, "kind": "HTTPRoute"}]
        attached = sum(1 for r in routes if one["name"] in _parents(r)[key])
        attached += sum(1 for r in routes if not _parents(r)[key])
        listeners.append(
            {
                "name": one["name"],
                "supportedKinds": kinds,
                "attachedRoutes": attached,
                "conditions": _said(there, resolved, gateway, now),
            }
        )
    meta = gateway["metadata"]
    default = f"{meta['name']}-{gateway['spec']['gatewayClassName']}.{meta['namespace']}.svc.cluster.local"
    given = gateway["spec"].get("addresses") or [{"type": "Hostname", "value": default}]
    status = {"addresses": given, "conditions": _said(before.get("conditions") or (), fine, gateway, now)}
    status = {**before, **status, "listeners": listeners}
    return Reconciliation((SetStatus(key, status),)) if status != before else NOTHING_TO_DO


def reconcile_route(view: View, key: Key, now_us: int) -> Reconciliation:
    route = view.get(key)
    if route is None:
        return NOTHING_TO_DO
    before, now = route.get("status") or {}, rfc3339(now_us)
    was = before.get("parents") or []
    parents = []
    for ref in route["spec"].get("parentRefs") or ():
        gateway = view.get(_gateway_key(route, ref))
        of_class = None if gateway is None else _of_class(view, gateway)
        if gateway is None or of_class is None:
            continue
        there = next((p.get("conditions") or () for p in was if p.get("parentRef") == ref), ())
        wanted = {"Accepted": _accepted(gateway, ref), "ResolvedRefs": _resolved(view, route)}
        name = str((of_class.get("spec") or {}).get("controllerName") or "")
        parents.append(
            {"parentRef": ref, "controllerName": name, "conditions": _said(there, wanted, route, now)}
        )
    status = {**before, "parents": parents}
    return Reconciliation((SetStatus(key, status),)) if parents != was else NOTHING_TO_DO


def _accepted(gateway: Obj, ref: dict[str, Any]) -> tuple[bool, str, str]:
    names = [one["name"] for one in gateway["spec"].get("listeners") or ()]
    if ref.get("sectionName") and ref["sectionName"] not in names:
        return (False, "NoMatchingParent", f'sectionName "{ref["sectionName"]}" not found')
    return (True, "Accepted", "Route was valid")


def _resolved(view: View, route: Obj) -> tuple[bool, str, str]:
    for rule in route["spec"].get("rules") or ():
        for ref in rule.get("backendRefs") or ():
            kind = ref.get("kind", "Service")
            namespace = ref.get("namespace") or route["metadata"]["namespace"]
            if kind not in _KINDS:
                said = f'referencing unsupported backendRef: group "{ref.get("group", "")}" kind "{kind}"'
                return (False, "InvalidKind", said)
            if view.get(Key(_KINDS[kind], namespace, ref["name"])) is None:
                host = f"{ref['name']}.{namespace}.svc.cluster.local"
                return (False, "BackendNotFound", f"backend({host}) not found")
    return (True, "ResolvedRefs", "All references resolved")


def reconcile_pool(view: View, key: Key, now_us: int) -> Reconciliation:
    """A pool's parents are the Gateways whose routes lead to it."""
    pool = view.get(key)
    if pool is None:
        return NOTHING_TO_DO
    before, now = pool.get("status") or {}, rfc3339(now_us)
    was = before.get("parents") or []
    gateways = sorted(
        {
            gateway
            for route in view.objects(ROUTE, key.namespace)
            if key.name in _pools(route)
            for gateway in _parents(route)
            if (there := view.get(gateway)) is not None and _of_class(view, there) is not None
        }
    )
    picker = (pool["spec"].get("endpointPickerRef") or {}).get("name")
    is_found = view.get(Key("Service", key.namespace, str(picker))) is not None
    resolved = (
        (True, "ResolvedRefs", "All ExtensionRef references resolved")
        if is_found
        else (
            False,
            "InvalidExtensionRef",
            f"Referenced ExtensionRef not found: Service {key.namespace}/{picker} not found",
        )
    )
    wanted = {
        "Accepted": (True, "Accepted", "Referenced by an HTTPRoute accepted by the parentRef Gateway"),
        "ResolvedRefs": resolved,
    }
    parents = []
    for gateway in gateways:
        ref = {"group": _GROUP, "kind": "Gateway", "name": gateway.name, "namespace": gateway.namespace}
        said = next((p.get("conditions") or () for p in was if p.get("parentRef") == ref), ())
        parents.append({"parentRef": ref, "conditions": _said(said, wanted, pool, now)})
    return (
        Reconciliation((SetStatus(key, {**before, "parents": parents}),)) if parents != was else NOTHING_TO_DO
    )


def _gateway_key(route: Obj, ref: dict[str, Any]) -> Key:
    return Key(GATEWAY, ref.get("namespace") or route["metadata"]["namespace"], ref["name"])


def _parents(route: Obj) -> dict[Key, list[str]]:
    """The Gateways a route hangs on, each with the listeners it names."""
    found: dict[Key, list[str]] = {}
    for ref in route["spec"].get("parentRefs") or ():
        names = found.setdefault(_gateway_key(route, ref), [])
        names += [ref["sectionName"]] if ref.get("sectionName") else []
    return found


def _pools(route: Obj) -> set[str]:
    refs = [ref for rule in route["spec"].get("rules") or () for ref in rule.get("backendRefs") or ()]
    return {ref["name"] for ref in refs if ref.get("kind") == "InferencePool"}


def _map_to(gk: str, *concerned: str) -> Any:
    """Own changes of what is asked for; all of the kind where one of `concerned` comes, changes or goes."""

    def map_change(view: View, change: Change) -> Sequence[Key]:
        if change.key.gk == gk:
            return (change.key,) if is_desire_changed(change) else NO_KEYS
        if change.key.gk not in concerned or not (change.type == DELETED or is_desire_changed(change)):
            return NO_KEYS
        namespace = change.key.namespace if change.key.gk in ("Service", POOL) else None
        return [key_of(obj) for obj in view.objects(gk, namespace)]

    return map_change


GATEWAYS: Final = Controller(
    "gateway", GATEWAY, (GATEWAY, CLASS, ROUTE), _map_to(GATEWAY, CLASS, ROUTE), reconcile_gateway
)
ROUTES: Final = Controller(
    "httproute",
    ROUTE,
    (ROUTE, GATEWAY, CLASS, "Service", POOL),
    _map_to(ROUTE, GATEWAY, CLASS, "Service", POOL),
    reconcile_route,
)
POOLS: Final = Controller(
    "inferencepool",
    POOL,
    (POOL, ROUTE, GATEWAY, CLASS, "Service"),
    _map_to(POOL, ROUTE, GATEWAY, CLASS, "Service"),
    reconcile_pool,
)
CONTROLLERS: Final = (GATEWAYS, ROUTES, POOLS)
