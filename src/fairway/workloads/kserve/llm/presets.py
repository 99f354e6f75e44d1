"""What an LLMInferenceService comes to once KServe's presets and the configs it names are put under it.

Presets follow from what is asked for: a scheduler, a route, prefill beside decode, workers on other nodes. Configs come
from the service's namespace, else from `kserve`; KServe's own presets are there without being applied.

Source: kserve v0.20 config_merge.go, config/llmisvcconfig (data/llmpresets.json, made by tools/importing).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj
from fairway.workloads.kserve.llm.templates import TemplateError, child_name, filled

CONFIG_KIND: Final = "LLMInferenceServiceConfig.serving.kserve.io"
SYSTEM: Final = "kserve"
INSTALLED: Final = Key("ConfigMap", SYSTEM, "inferenceservice-config")
PREFIX: Final = "kserve-config-llm-"
_ROUTED_BY_MODEL: Final = "serving.kserve.io/model-based-routing-enabled"
# What the items of a pod's lists are told apart by. Source: core/v1 (patchMergeKey).
_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Of the installation, from the ConfigMap `inferenceservice-config`."""

    gateway: tuple[str, str] = (SYSTEM, "kserve-ingress-gateway")
    """Namespace and name."""
    scheme: str = "http"
    has_tls: bool = False
    model_header: str = "X-Gateway-Model-Name"
    routes_by_model: bool = True


@dataclass(frozen=True, slots=True)
class Resolved:
    """`applied`: the configs, as the status names them."""

    spec: dict[str, Any]
    applied: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class Unresolved:
    """What PresetsCombined says, and the error that is told of ("": none; a config that comes is waited for)."""

    reason: str
    message: str
    error: str


def settings_of(view: View) -> Settings:
    """Raises: ValueError: the ConfigMap cannot be read."""
    data = (view.get(INSTALLED) or {}).get("data") or {}
    said = json.loads(data.get("ingress") or "{}")
    if not isinstance(said, dict):
        raise ValueError("ingress is not an object")
    namespace, _, name = str(
        said.get("kserveIngressGateway") or f"{SYSTEM}/kserve-ingress-gateway"
    ).rpartition("/")
    return Settings(
        gateway=(namespace or SYSTEM, name),
        scheme=str(said.get("urlScheme") or "http"),
        has_tls=bool(said.get("enableLLMInferenceServiceTLS")),
        model_header=str(said.get("modelBasedRoutingHeaderName") or "X-Gateway-Model-Name"),
        routes_by_model=str(said.get("modelBasedRoutingMode") or "").lower() != "disabled",
    )


def resolved(view: View, service: Obj, settings: Settings) -> Resolved | Unresolved:
    """O(configs)."""
    meta, own = service["metadata"], named(service)
    for_now = own["spec"]
    try:
        for ref in own["spec"].get("baseRefs") or ():
            for_now = merged(for_now, _config(view, meta["namespace"], ref["name"])[1])
        own["spec"]["model"] = {**own["spec"]["model"], "name": for_now["model"]["name"]}
        wanted = [("Preset", name) for name in _presets_for(for_now)]
        wanted += [("UserRef", ref["name"]) for ref in own["spec"].get("baseRefs") or ()]
        found = [(source, name, *_config(view, meta["namespace"], name)) for source, name in wanted]
    except LookupError as missing:
        said = str(missing.args[0])
        return Unresolved("ConfigNotFound", said, "")
    spec: dict[str, Any] = {}
    for _, _, _, one in found:
        spec = merged(spec, one)
    spec = merged(spec, own["spec"])
    try:
        spec = filled(_defaulted(spec, meta["name"]), _data(own, spec, settings))
    except TemplateError as wrong:
        said = f"failed to merge config: {wrong}"
        return Unresolved("CombineBaseError", said, f"failed to combine base-configurations: {said}")
    applied = tuple({"name": name, "namespace": where, "source": source} for source, name, where, _ in found)
    return Resolved(_routed(spec, service, settings), applied)


def named(service: Obj) -> Obj:
    """With the model's name, which the webhook takes from the service's where it is not given."""
    model = service["spec"].get("model") or {}
    spec = {**service["spec"], "model": {**model, "name": model.get("name") or service["metadata"]["name"]}}
    return {**service, "spec": spec}


def _presets_for(spec: dict[str, Any]) -> list[str]:
    router = spec.get("router") or {}
    found = []
    if router.get("scheduler") is not None and not has_pool_ref(spec):
        found.append("scheduler")
    if router.get("route") is not None and not ((router["route"].get("http") or {}).get("refs")):
        found.append("router-route")
    if spec.get("tracing") is not None:
        found.append("tracing")
    if spec.get("prefill") is not None:
        found += _for_pods(spec["prefill"], "prefill-", "prefill-template")
        found += _for_pods(spec, "decode-", "decode-template")
    else:
        found += _for_pods(spec, "", "template")
    return [PREFIX + name for name in found]


def _for_pods(part: dict[str, Any], kind: str, alone: str) -> list[str]:
    parallel = part.get("parallelism") or {}
    if part.get("worker") is None:
        return [alone]
    if parallel.get("data") or parallel.get("dataLocal"):
        return [f"{kind}worker-data-parallel"]
    return [f"{kind}worker-pipeline-parallel"] if parallel.get("pipeline") else []


def has_pool_ref(spec: dict[str, Any]) -> bool:
    pool = (((spec.get("router") or {}).get("scheduler") or {}).get("pool") or {}).get("ref") or {}
    return bool(pool.get("name"))


def pool_name(name: str, spec: dict[str, Any]) -> str:
    if has_pool_ref(spec):
        return str(spec["router"]["scheduler"]["pool"]["ref"]["name"])
    return child_name(name, "-inference-pool")


def _config(view: View, namespace: str, name: str) -> tuple[str, dict[str, Any]]:
    """Where it is, and its spec. Raises: LookupError in the controller's words."""
    for where in (namespace, SYSTEM):
        there = view.get(Key(CONFIG_KIND, where, name))
        if there is not None:
            return where, dict(there.get("spec") or {})
    if name in _shipped():
        return SYSTEM, _shipped()[name]
    raise LookupError(f'LLMInferenceServiceConfig "{name}" not found in namespaces [{namespace} {SYSTEM}]')


@cache
def _shipped() -> dict[str, dict[str, Any]]:
    text = (files("fairway.workloads.kserve") / "data" / "llmpresets.json").read_text(encoding="utf-8")
    return dict(json.loads(text)["presets"])


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """A strategic merge: items of lists by their key, everything else by name."""
    found = dict(base)
    for name, value in over.items():
        here = base.get(name)
        if isinstance(value, dict) and isinstance(here, dict):
            found[name] = merged(here, value)
        elif name in _KEYS and isinstance(value, list) and isinstance(here, list):
            found[name] = _merged_items(here, value, _KEYS[name])
        elif value is not None:
            found[name] = value
    return found


def _merged_items(base: list[Any], over: list[Any], key: str) -> list[Any]:
    items = {item.get(key) if isinstance(item, dict) else i: item for i, item in enumerate(base)}
    for i, item in enumerate(over):
        which = item.get(key) if isinstance(item, dict) else len(base) + i
        here = items.get(which)
        items[which] = merged(here, item) if isinstance(here, dict) and isinstance(item, dict) else item
    return list(items.values())


def _defaulted(spec: dict[str, Any], name: str) -> dict[str, Any]:
    """The scheduler's account, where its template names none."""
    scheduler = (spec.get("router") or {}).get("scheduler") or {}
    if not scheduler.get("template") or scheduler["template"].get("serviceAccountName"):
        return spec
    template = {**scheduler["template"], "serviceAccountName": child_name(name, "-epp-sa")}
    return {**spec, "router": {**spec["router"], "scheduler": {**scheduler, "template": template}}}


def _data(own: Obj, spec: dict[str, Any], settings: Settings) -> dict[str, Any]:
    meta = own["metadata"]
    return {
        **own,
        "globalConfig": {
            "systemNamespace": SYSTEM,
            "ingressGatewayNamespace": settings.gateway[0],
            "ingressGatewayName": settings.gateway[1],
            "enableTLS": settings.has_tls,
            "modelBasedRoutingHeaderName": settings.model_header,
            "inferencePoolNamespacedName": f"{meta['namespace']}/{pool_name(meta['name'], spec)}",
        },
    }


def _routed(spec: dict[str, Any], service: Obj, settings: Settings) -> dict[str, Any]:
    """The route as it leads to the Gateways named, and to the Service where there is no scheduler."""
    router = spec.get("router") or {}
    route = ((router.get("route") or {}).get("http") or {}).get("spec")
    if not route:
        return spec
    meta = service["metadata"]
    refs = (router.get("gateway") or {}).get("refs") or ()
    parents = [_parent(ref) for ref in refs] or route.get("parentRefs") or []
    default, service_name = (
        child_name(meta["name"], "-inference-pool"),
        child_name(meta["name"], "-kserve-workload-svc"),
    )
    by_model = settings.routes_by_model and (spec.get("annotations") or {}).get(_ROUTED_BY_MODEL) == "true"

    def led(ref: dict[str, Any]) -> dict[str, Any]:
        if ref.get("kind") != "InferencePool" or ref.get("name") != default:
            return ref
        if router.get("scheduler") is None:
            return {**ref, "group": "", "kind": "Service", "name": service_name}
        return {**ref, "name": pool_name(meta["name"], spec)}

    rules = []
    for rule in route.get("rules") or ():
        matches = [
            m for m in rule.get("matches") or () if by_model or not _is_by_model(m, settings.model_header)
        ]
        if matches or not rule.get("matches"):
            kept = {**rule, "backendRefs": [led(ref) for ref in rule.get("backendRefs") or ()]}
            rules.append({**kept, "matches": matches} if matches else kept)
    http = {**router["route"]["http"], "spec": {**route, "parentRefs": parents, "rules": rules}}
    return {**spec, "router": {**router, "route": {**router["route"], "http": http}}}


def _parent(ref: dict[str, Any]) -> dict[str, Any]:
    found = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": ref["name"]}
    return found | {k: ref[k] for k in ("namespace", "sectionName") if ref.get(k)}


def _is_by_model(match: dict[str, Any], header: str) -> bool:
    return any(one.get("name") == header for one in match.get("headers") or ())
