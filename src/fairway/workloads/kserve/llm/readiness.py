"""What an LLMInferenceService's conditions follow from: its workloads, its scheduler, its pool, routes and Gateways.

Source: kserve v0.20 llm_inference_service_lifecycle.go, router.go, router_validation.go, router_discovery.go.
"""

from __future__ import annotations

from typing import Any, Final

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj
from fairway.workloads.knative.conditions import FALSE, TRUE, Conditions
from fairway.workloads.kserve.llm import routing
from fairway.workloads.kserve.llm.presets import Settings, pool_name
from fairway.workloads.kserve.llm.workloads import names, service_name

# In the order in which the first that is False speaks for all.
_WORKLOADS: Final = (
    "MainWorkloadReady",
    "WorkerWorkloadReady",
    "PrefillWorkloadReady",
    "PrefillWorkerWorkloadReady",
)
_ROUTER: Final = ("GatewaysReady", "HTTPRoutesReady", "InferencePoolReady", "SchedulerWorkloadReady")
_KEYS: Final = {
    "Deployment": "Deployment.apps",
    "LeaderWorkerSet": "LeaderWorkerSet.leaderworkerset.x-k8s.io",
}
Said = tuple[str, str, str]
_READY: Final[Said] = (TRUE, "", "")


class NotReconciled(Exception):
    """Why networking stopped halfway."""


def stopped(conditions: Conditions) -> None:
    for type_ in (*_WORKLOADS, *_ROUTER):
        conditions.mark(type_, FALSE, "Stopped", "Service is stopped")
    _roll_up(conditions, "WorkloadsReady", _WORKLOADS)
    _roll_up(conditions, "RouterReady", _ROUTER)


def of_workloads(view: View, service: Obj, spec: dict[str, Any], conditions: Conditions) -> None:
    where = names(service, spec)
    for which, types in (("primary", _WORKLOADS[:2]), ("prefill", _WORKLOADS[2:])):
        for kind, type_ in zip(_KEYS, types, strict=True):
            if which in where and where[which][0] == kind:
                child = view.get(Key(_KEYS[kind], service["metadata"]["namespace"], where[which][1]))
                conditions.mark(type_, *_of_workload(child, kind))
            else:
                conditions.clear(type_)
    _roll_up(conditions, "WorkloadsReady", _WORKLOADS)


def of_router(
    view: View, service: Obj, spec: dict[str, Any], settings: Settings, conditions: Conditions
) -> dict[str, Any]:
    """What the status says of addresses and Gateways. Raises: NotReconciled; conditions are up to date then, too."""
    try:
        return _router(view, service, spec, settings, conditions)
    finally:
        _roll_up(conditions, "RouterReady", _ROUTER)


def _roll_up(conditions: Conditions, type_: str, parts: tuple[str, ...]) -> None:
    for part in parts:
        found = conditions.get(part)
        if found is not None and found["status"] == FALSE:
            conditions.mark(type_, FALSE, found.get("reason", ""), found.get("message", ""))
            return
    conditions.mark(type_, TRUE)


def _of_workload(child: Obj | None, kind: str) -> Said:
    said = {c["type"]: c for c in ((child or {}).get("status") or {}).get("conditions") or ()}
    found = said.get("Available")
    if found is None:
        return (FALSE, "Progressing", "LWS is progressing" if kind == "LeaderWorkerSet" else "")
    return _READY if found["status"] == TRUE else (FALSE, found.get("reason", ""), found.get("message", ""))


def _of_scheduler(child: Obj | None) -> Said:
    """Of several replicas one leads and the others are never available."""
    status = (child or {}).get("status") or {}
    said = {c["type"]: c for c in status.get("conditions") or ()}
    if status.get("availableReplicas"):
        return _READY
    progressing = said.get("Progressing") or {}
    if progressing.get("status") == FALSE and progressing.get("reason") == "ProgressDeadlineExceeded":
        return (FALSE, progressing["reason"], progressing.get("message", ""))
    found = said.get("Available")
    if found is None:
        return (FALSE, "Progressing", "Deployment rollout in progress")
    return _READY if found["status"] == TRUE else (FALSE, found.get("reason", ""), found.get("message", ""))


def _router(
    view: View, service: Obj, spec: dict[str, Any], settings: Settings, conditions: Conditions
) -> dict[str, Any]:
    namespace, router = service["metadata"]["namespace"], spec.get("router") or {}
    _check_references(view, namespace, router, conditions)
    if routing.has_scheduler(spec):
        child = view.get(Key("Deployment.apps", namespace, routing.scheduler_name(service)))
        conditions.mark("SchedulerWorkloadReady", *_of_scheduler(child))
    else:
        conditions.clear("SchedulerWorkloadReady")
    if router.get("route") is None:
        for type_ in ("GatewaysReady", "HTTPRoutesReady", "InferencePoolReady"):
            conditions.clear(type_)
        scheme = "https" if settings.has_tls else "http"
        if router.get("scheduler") is not None:
            conditions.mark("InferencePoolReady", *_of_pool(view, service, spec, []))
        return {"addresses": [{"url": f"{scheme}://{service_name(service)}.{namespace}.svc.cluster.local"}]}
    routes = routing.routes_of(view, service, spec)
    try:
        gateways = {route["metadata"]["name"]: routing.gateways_of(view, route) for route in routes}
    except LookupError as missing:
        route = next(r["metadata"] for r in routes)
        wrong = (
            f"failed to discover gateways for route {route['namespace']}/{route['name']}: {missing.args[0]}"
        )
        conditions.mark(
            "HTTPRoutesReady", FALSE, "HTTPRouteReconcileError", f"Failed to reconcile HTTPRoute: {wrong}"
        )
        raise NotReconciled(f"failed to reconcile HTTP routes: {wrong}") from None
    reached = [found for route in routes for found in gateways[route["metadata"]["name"]]]
    if router.get("scheduler") is None:
        conditions.clear("InferencePoolReady")
    else:
        conditions.mark("InferencePoolReady", *_of_pool(view, service, spec, [g for g, _ in reached]))
    if (router.get("gateway") or {}).get("refs"):
        conditions.mark("GatewaysReady", *_of_gateways([g for g, _ in reached]))
    conditions.mark("HTTPRoutesReady", *_of_routes(routes))
    return _addresses(service, spec, routes, gateways, settings)


def _check_references(view: View, namespace: str, router: dict[str, Any], conditions: Conditions) -> None:
    """Gateways and routes that are named have to be there. Raises: NotReconciled."""
    missing = []
    for ref in (router.get("gateway") or {}).get("refs") or ():
        where = ref.get("namespace") or namespace
        if view.get(Key(routing.GATEWAY, where, ref["name"])) is None:
            missing.append(f"Gateway {where}/{ref['name']} does not exist")
    _refuse(conditions, "GatewaysReady", missing)
    conditions.clear("GatewaysReady")
    http = (router.get("route") or {}).get("http") or {}
    missing = [
        f"HTTPRoute {namespace}/{ref['name']} does not exist"
        for ref in http.get("refs") or ()
        if view.get(Key(routing.ROUTE, namespace, ref["name"])) is None
    ]
    for parent in ((http.get("spec") or {}).get("parentRefs") or ()) if not http.get("refs") else ():
        where = parent.get("namespace") or namespace
        if view.get(Key(routing.GATEWAY, where, parent["name"])) is None:
            missing.append(f"Managed HTTPRoute references non-existent Gateway {where}/{parent['name']}")
    _refuse(conditions, "HTTPRoutesReady", missing)


def _refuse(conditions: Conditions, type_: str, missing: list[str]) -> None:
    if missing:
        conditions.mark(type_, FALSE, "RefsInvalid", "; ".join(missing))
        raise NotReconciled("; ".join(missing))


def _of_gateways(gateways: list[Obj]) -> Said:
    waiting = [
        f"{g['metadata']['namespace']}/{g['metadata']['name']}"
        for g in gateways
        if not any(
            c["type"] == "Programmed" and c["status"] == TRUE
            for c in (g.get("status") or {}).get("conditions") or ()
        )
    ]
    if waiting:
        return (FALSE, "GatewaysNotReady", f"The following Gateways are not ready: [{' '.join(waiting)}]")
    return _READY


def _of_routes(routes: list[Obj]) -> Said:
    waiting = []
    for route in routes:
        parents = (route.get("status") or {}).get("parents") or []
        where = f"{route['metadata']['namespace']}/{route['metadata']['name']}"
        if len(parents) < len(route["spec"].get("parentRefs") or ()) or not parents:
            waiting.append(
                f"{where}: v1.HTTPRouteStatus{{RouteStatus:v1.RouteStatus{{Parents:[]v1.RouteParentStatus(nil)}}}}"
            )
            continue
        wrong = _unmet(parents, route["metadata"].get("generation", 0), ("Accepted", "ResolvedRefs"))
        if wrong is not None:
            reason, message = wrong.get("reason", ""), wrong.get("message", "")
            waiting.append(f'{where}: "{wrong["status"]}" (reason "{reason}", message "{message}")')
    if waiting:
        return (FALSE, "HTTPRoutesNotReady", f"The following HTTPRoutes are not ready: [{' '.join(waiting)}]")
    return _READY


def _unmet(parents: list[dict[str, Any]], generation: int, wanted: tuple[str, ...]) -> dict[str, Any] | None:
    """The first condition of any parent that does not hold for this generation."""
    for parent in parents:
        said = {c["type"]: c for c in parent.get("conditions") or ()}
        for type_ in wanted:
            found = said.get(type_, {"type": type_, "status": "Unknown", "reason": "ConditionMissing"})
            if found["status"] != TRUE or 0 < found.get("observedGeneration", 0) < generation:
                return dict(found)
    return None


def _of_pool(view: View, service: Obj, spec: dict[str, Any], gateways: list[Obj]) -> Said:
    pool, where = routing.pool_of(view, service, spec), service["metadata"]["namespace"]
    name = f"{where}/{pool_name(service['metadata']['name'], spec)}"
    if pool is None:
        return (
            FALSE,
            "InferencePoolFetchError",
            f"Inference Pool {name} not found (checked v1 and v1alpha2)",
        )
    parents = (pool.get("status") or {}).get("parents") or []
    here = {(p["parentRef"].get("namespace") or where, p["parentRef"]["name"]): p for p in parents}
    keys = [(g["metadata"]["namespace"], g["metadata"]["name"]) for g in gateways]
    relevant = [here[key] for key in keys if key in here]
    if not relevant:
        said = f"Inference Pool {name} exists but no Gateway controller has accepted it yet"
        return (FALSE, "WaitingForGateway", said)
    for key in keys:
        if key not in here:
            return (
                FALSE,
                "WaitingForGateway",
                f"Inference Pool {name} is not yet accepted by gateway {key[0]}/{key[1]}",
            )
    wrong = _unmet(relevant, pool["metadata"].get("generation", 0), ("Accepted",))
    if wrong is None:
        return _READY
    reason, message = wrong.get("reason", ""), wrong.get("message", "")
    said = f'{name}: {wrong["type"]}="{wrong["status"]}" (reason "{reason}", message "{message}")'
    return (FALSE, "InferencePoolNotReady", said)


def _addresses(
    service: Obj,
    spec: dict[str, Any],
    routes: list[Obj],
    gateways: dict[str, list[tuple[Obj, dict[str, Any]]]],
    settings: Settings,
) -> dict[str, Any]:
    meta, model = service["metadata"], spec["model"]["name"]
    full = f"publishers/{meta['namespace']}/models/{model}"
    addresses: list[dict[str, Any]] = []
    observed: dict[str, dict[str, Any]] = {}
    for route in routes:
        here = gateways[route["metadata"]["name"]]
        for url, kind, gateway in routing.urls_of(route, here, settings):
            models = [full] if kind.endswith("-model-routing") else [full, model]
            addresses.append(
                {
                    "name": kind,
                    "url": url,
                    "origin": _reference(gateway),
                    "models": [{"name": m} for m in models],
                }
            )
        ref = {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}
        ref |= {"name": route["metadata"]["name"], "namespace": meta["namespace"]}
        for gateway, parent in here:
            which = f"{gateway['metadata']['namespace']}/{gateway['metadata']['name']}"
            found = observed.setdefault(which, {**_reference(gateway), "httpRoutes": []})
            found["httpRoutes"].append(ref)
            if parent.get("sectionName"):
                found["listeners"] = sorted({*found.get("listeners", ()), parent["sectionName"]})
    said: dict[str, Any] = {"addresses": addresses}
    external = [a for a in addresses if a["name"].startswith("gateway-external")] or addresses
    if external:
        own = f"/{meta['namespace']}/{meta['name']}"
        by_path = [a["url"] for a in external if own in a["url"]]
        said["url"] = (by_path or [external[0]["url"]])[0]
    if observed:
        said["router"] = {"gateways": [observed[name] for name in sorted(observed)]}
        if (spec.get("router") or {}).get("scheduler") is not None:
            group = "inference.networking.k8s.io"
            pool = {"group": group, "kind": "InferencePool", "name": pool_name(meta["name"], spec)}
            picker = {"group": "", "kind": "Service", "name": routing.picker_service(service, spec)}
            said["router"]["scheduler"] = {"inferencePool": pool, "service": picker}
    return said


def _reference(gateway: Obj) -> dict[str, str]:
    meta = gateway["metadata"]
    group = "gateway.networking.k8s.io"
    return {"group": group, "kind": "Gateway", "name": meta["name"], "namespace": meta["namespace"]}


def observed_workloads(view: View, service: Obj, spec: dict[str, Any]) -> dict[str, Any]:
    """References to the workloads, each with how many of it serve."""
    namespace = service["metadata"]["namespace"]
    where = names(service, spec)
    if routing.has_scheduler(spec):
        where["scheduler"] = ("Deployment", routing.scheduler_name(service))
    found: dict[str, Any] = {"service": {"kind": "Service", "name": service_name(service)}}
    for which, (kind, name) in where.items():
        status = (view.get(Key(_KEYS[kind], namespace, name)) or {}).get("status") or {}
        count = status.get("readyReplicas" if kind == "LeaderWorkerSet" else "availableReplicas", 0)
        group = _KEYS[kind].partition(".")[2]
        found[which] = {"apiGroup": group, "kind": kind, "name": name, "readyReplicas": count}
    return found
