"""The scheduler (endpoint picker), InferencePool and HTTPRoute of an LLMInferenceService, and where it is reached.

Unlike kube: Roles and bindings, routing groups, adapters' routes and InferencePools of v1alpha2 are left out.

Source: kserve v0.20 llmisvc/scheduler.go, router.go, router_discovery.go.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj
from fairway.workloads.kserve.llm.models import with_weights
from fairway.workloads.kserve.llm.presets import Settings, has_pool_ref, pool_name
from fairway.workloads.kserve.llm.templates import child_name
from fairway.workloads.kserve.llm.workloads import labelled, meta
from fairway.workloads.kserve.storage import MOUNT

GATEWAY: Final = "Gateway.gateway.networking.k8s.io"
CLASS: Final = "GatewayClass.gateway.networking.k8s.io"
ROUTE: Final = "HTTPRoute.gateway.networking.k8s.io"
POOL: Final = "InferencePool.inference.networking.k8s.io"
_PORTS: Final = ("grpc", "grpc-health", "metrics", "zmq")
_CONFIG_FLAGS: Final = ("config-text", "configText", "config-file", "configFile")
_SCHEMES: Final = {"HTTP": "http", "HTTPS": "https", "TLS": "https"}
_ALONE: Final = (("queue", 2), ("kv-cache-utilization", 2), ("prefix-cache", 3), ("no-hit-lru", 2))
_PREFILL: Final = (("prefix-cache", 3), ("queue", 2), ("kv-cache-utilization", 2))
_DECODE: Final = (("active-request", 2), ("prefix-cache", 3))


def has_scheduler(spec: dict[str, Any]) -> bool:
    """One that is ours to run."""
    scheduler = (spec.get("router") or {}).get("scheduler") or {}
    return bool(scheduler.get("template")) and not has_pool_ref(spec)


def scheduler_name(service: Obj) -> str:
    return child_name(service["metadata"]["name"], "-kserve-router-scheduler")


def route_name(service: Obj) -> str:
    return child_name(service["metadata"]["name"], "-kserve-route")


def picker_service(service: Obj, spec: dict[str, Any]) -> str:
    pool = ((spec.get("router") or {}).get("scheduler") or {}).get("pool") or {}
    said = ((pool.get("spec") or {}).get("endpointPickerRef") or {}).get("name")
    return str(said or child_name(service["metadata"]["name"], "-epp-service"))


def routing(service: Obj, spec: dict[str, Any]) -> list[Obj]:
    """Raises: ValueError: the scheduler cannot have the model's tokenizer."""
    made = _scheduler(service, spec) if has_scheduler(spec) else []
    route = _route_spec(spec)
    if route:
        own = meta(service, route_name(service), labelled(service, "router"))
        api = "gateway.networking.k8s.io/v1"
        made.append({"apiVersion": api, "kind": "HTTPRoute", "metadata": own, "spec": route})
    return made


def _route_spec(spec: dict[str, Any]) -> dict[str, Any]:
    http = ((spec.get("router") or {}).get("route") or {}).get("http") or {}
    return dict(http.get("spec") or {}) if not http.get("refs") else {}


def _scheduler(service: Obj, spec: dict[str, Any]) -> list[Obj]:
    scheduler, labels = spec["router"]["scheduler"], labelled(service, "router-scheduler")
    pod = scheduler["template"]
    told = scheduler.get("annotations") or {}
    more = scheduler.get("labels") or {}
    containers = [_configured(c, spec) if c.get("name") == "main" else c for c in pod.get("containers") or ()]
    pod = {**pod, "containers": containers}
    if any(c.get("name") == "tokenizer" for c in containers):
        pod = with_weights(pod, spec, "tokenizer", f"{MOUNT}/base")
    deployment: dict[str, Any] = {
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": {**labels, **more}, "annotations": told}, "spec": pod},
    }
    if scheduler.get("replicas") is not None:
        deployment["replicas"] = scheduler["replicas"]
    ports = {p["name"]: p for c in containers for p in c.get("ports") or () if p.get("name") in _PORTS}
    name = service["metadata"]["name"]
    made = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta(service, scheduler_name(service), {**labels, **more}, told),
            "spec": deployment,
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta(service, picker_service(service, spec), labels),
            "spec": {
                "selector": labels,
                "ports": [
                    {
                        "name": port,
                        "port": ports[port]["containerPort"],
                        "targetPort": port,
                        "protocol": ports[port].get("protocol", "TCP"),
                    }
                    for port in sorted(ports)
                ],
            },
        },
        {
            "apiVersion": "inference.networking.k8s.io/v1",
            "kind": "InferencePool",
            "metadata": meta(service, child_name(name, "-inference-pool"), labels),
            "spec": (scheduler.get("pool") or {}).get("spec") or {},
        },
    ]
    account = pod.get("serviceAccountName")
    if account == child_name(name, "-epp-sa"):
        made.insert(
            0, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(service, account, labels)}
        )
    return made


def _configured(container: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """With its plugins and their weights, unless it is told of them."""
    scheduler = spec["router"]["scheduler"]
    args = list(container.get("args") or ())
    if (scheduler.get("replicas") or 0) > 1 and not any("ha-enable-leader-election" in str(a) for a in args):
        args.append("--ha-enable-leader-election")
    inline = (scheduler.get("config") or {}).get("inline")
    said = [str(word).lstrip("-").partition("=")[0] for word in (*(container.get("command") or ()), *args)]
    if inline is not None or not any(flag in said for flag in _CONFIG_FLAGS):
        args += ["--config-text", yaml.safe_dump(inline or picker_config(spec), sort_keys=False)]
    return {**container, "args": args}


def picker_config(spec: dict[str, Any]) -> dict[str, Any]:
    """By which scores an endpoint is picked where nobody says."""
    adapters = ((spec.get("model") or {}).get("lora") or {}).get("adapters")
    lora = (("lora-affinity", 4),) if adapters else ()

    def profile(name: str, scores: tuple[tuple[str, int], ...], *filters: str) -> dict[str, Any]:
        plugins: list[dict[str, Any]] = [{"pluginRef": one} for one in filters]
        plugins += [{"pluginRef": f"{score}-scorer", "weight": weight} for score, weight in scores]
        return {"name": name, "plugins": [*plugins, {"pluginRef": "max-score-picker"}]}

    def typed(*names: str) -> list[dict[str, Any]]:
        return [{"type": one} for one in names]

    plugins: list[dict[str, Any]]
    if spec.get("prefill") is None:
        plugins = typed("single-profile-handler", *(f"{s}-scorer" for s, _ in _ALONE), "max-score-picker")
        profiles = [profile("default", (*lora, *_ALONE))]
    else:
        scores = ("queue", "kv-cache-utilization", "active-request", "prefix-cache")
        plugins = typed("disagg-headers-handler", "prefill-filter", "decode-filter")
        plugins += typed(*(f"{s}-scorer" for s in scores), "max-score-picker", "always-disagg-pd-decider")
        deciders = {"deciders": {"prefill": "always-disagg-pd-decider"}}
        plugins.append({"type": "disagg-profile-handler", "parameters": deciders})
        profiles = [
            profile("prefill", (*lora, *_PREFILL), "prefill-filter"),
            profile("decode", (*lora, *_DECODE), "decode-filter"),
        ]
    plugins += typed("lora-affinity-scorer") if lora else []
    return {
        "apiVersion": "inference.networking.x-k8s.io/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": plugins,
        "schedulingProfiles": profiles,
    }


def routes_of(view: View, service: Obj, spec: dict[str, Any]) -> list[Obj]:
    """Those named, and its own: as they are, or as they will be."""
    namespace = service["metadata"]["namespace"]
    http = ((spec.get("router") or {}).get("route") or {}).get("http") or {}
    found = [view.get(Key(ROUTE, namespace, ref["name"])) for ref in http.get("refs") or ()]
    if http.get("spec") and not http.get("refs"):
        own = view.get(Key(ROUTE, namespace, route_name(service)))
        found.append(
            own or {"metadata": {"name": route_name(service), "namespace": namespace}, "spec": http["spec"]}
        )
    return [route for route in found if route is not None]


def gateways_of(view: View, route: Obj) -> list[tuple[Obj, dict[str, Any]]]:
    """The Gateways a route hangs on, each with the reference to it. Raises: LookupError in the controller's words."""
    found = []
    where, route_named = route["metadata"]["namespace"], route["metadata"]["name"]
    for parent in route["spec"].get("parentRefs") or ():
        namespace, name = parent.get("namespace") or where, parent["name"]
        of = f"for route {where}/{route_named}"
        gateway = view.get(Key(GATEWAY, namespace, name))
        if gateway is None:
            raise LookupError(
                f'failed to get Gateway {namespace}/{name} {of}: gateways.gateway.networking.k8s.io "{name}" not found'
            )
        class_name = str(gateway["spec"].get("gatewayClassName"))
        if view.get(Key(CLASS, "", class_name)) is None:
            raise LookupError(
                f'failed to get GatewayClass "{class_name}" for gateway {namespace}/{name}: '
                f'gatewayclasses.gateway.networking.k8s.io "{class_name}" not found'
            )
        found.append((gateway, parent))
    return found


def urls_of(
    route: Obj, gateways: list[tuple[Obj, dict[str, Any]]], settings: Settings
) -> list[tuple[str, str, Obj]]:
    """Addresses, what kind of address each is, and by which Gateway."""
    found = []
    for gateway, parent in gateways:
        listeners = [
            one
            for one in gateway["spec"].get("listeners") or ()
            if one.get("protocol") in _SCHEMES and parent.get("sectionName") in (None, one.get("name"))
        ]
        listeners.sort(
            key=lambda one: (_SCHEMES[one["protocol"]] != settings.scheme, one["protocol"] == "HTTP")
        )
        addresses = [
            a["value"] for a in (gateway.get("status") or {}).get("addresses") or () if a.get("value")
        ]
        for path in _paths(route, settings.model_header):
            for listener in listeners if addresses else ():
                for host in _hosts(route, listener, addresses):
                    scheme, port = _SCHEMES[listener["protocol"]], listener.get("port")
                    at = "" if (scheme, port) in (("http", 80), ("https", 443)) else f":{port}"
                    kind = "gateway-internal" if host.endswith("cluster.local") else "gateway-external"
                    kind += "-model-routing" if path == "/" else ""
                    found.append((f"{scheme}://{host}{at}{path}", kind, gateway))
    return sorted(found, key=lambda one: one[0])


def _hosts(route: Obj, listener: dict[str, Any], addresses: list[str]) -> list[str]:
    named = [h for h in route["spec"].get("hostnames") or () if h not in ("", "*")]
    if named:
        return named
    host = listener.get("hostname")
    if host:
        return [f"inference.{host[2:]}" if host.startswith("*.") else host]
    return addresses


def _paths(route: Obj, model_header: str) -> list[str]:
    """The shallowest of each way to ask: by path, by publisher, by the header that names the model."""
    ways: dict[str, list[tuple[bool, str]]] = {}
    for rule in route["spec"].get("rules") or ():
        is_service = any(ref.get("kind", "Service") == "Service" for ref in rule.get("backendRefs") or ())
        for match in rule.get("matches") or ():
            path = (match.get("path") or {}).get("value", "/")
            way = "publisher" if path.startswith("/publishers/") else "path"
            if match.get("headers"):
                if not any(h.get("name") == model_header for h in match["headers"]):
                    continue
                way = "model"
            ways.setdefault(way, []).append((not is_service, path))
    found = {min(paths, key=lambda p: (p[0], p[1].count("/"), len(p[1])))[1] for paths in ways.values()}
    return sorted(found, key=lambda p: (p.count("/"), len(p), p)) or ["/"]


def pool_of(view: View, service: Obj, spec: dict[str, Any]) -> Obj | None:
    meta_ = service["metadata"]
    return view.get(Key(POOL, meta_["namespace"], pool_name(meta_["name"], spec)))
