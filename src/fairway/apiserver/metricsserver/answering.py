"""`metrics.k8s.io/v1beta1`: get and list of NodeMetrics and PodMetrics, as JSON or as a Table.

Unlike kube: the virtual clock is the clock; `timestamp` and `creationTimestamp` are the cluster's time.

Source: metrics-server pkg/api/{node,pod,table}.go, pkg/storage/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.representing import PARTIAL, TABLE, YAML, form_of, partial, yaml_response
from fairway.apiserver.resources import METRICS_GROUP
from fairway.apiserver.selecting import selection
from fairway.apiserver.statuses import StatusError, method_not_allowed
from fairway.apiserver.tables.columns import columns
from fairway.apiserver.wire.messages import Response, json_response
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Key, Obj, labels_of
from fairway.kube.quantity import format_binary
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.twin.kubelet.sampling import Sample, Scrapes, node_sample, pod_sample, scrapes
from fairway.twin.kubelet.usage import NodeUse, PodUse

API_VERSION = f"{METRICS_GROUP}/v1beta1"
# The usage's resources in the order of the table: by name.
_TABLE = columns("Name:name | cpu | memory | swap | Window")
_NANO_SUFFIXES = (("", 10**9), ("m", 10**6), ("u", 10**3), ("n", 1))


def answer(api: Api, ask: Ask) -> Response:
    """Raises: StatusError (404, 405)."""
    if ask.info.verb not in ask.resource.verbs:
        raise method_not_allowed(ask.resource.kind, ask.info.verb)
    find = _nodes if ask.info.resource == "nodes" else _pods
    if ask.info.verb == "get":
        return _one(api, ask, find)
    chosen = selection(ask.request, ask.resource, _namespace(ask), ask.info.name)
    walk = api.store.walk(_gk(ask), chosen.namespace or None)
    items = list(find(api, (obj for obj in walk if chosen.matches(obj))))
    form = form_of(ask.accept)
    if form == TABLE:
        return json_response(200, _table(items, ask.include))
    if form == PARTIAL:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}}
        return json_response(200, {**head, "items": [partial(item) for item in items]})
    body = {
        "kind": f"{ask.resource.kind.kind}List",
        "apiVersion": API_VERSION,
        "metadata": {},
        "items": items,
    }
    return yaml_response(200, body) if form == YAML else json_response(200, body)


def _namespace(ask: Ask) -> str:
    return ask.info.namespace if ask.resource.kind.namespaced else ""


def _gk(ask: Ask) -> str:
    return "Node" if ask.info.resource == "nodes" else "Pod"


def _one(api: Api, ask: Ask, find: Any) -> Response:
    """A pod that is not there is a pod not found; one without samples a PodMetrics not found."""
    name, namespace = ask.info.name, _namespace(ask)
    obj = api.store.get(Key(_gk(ask), namespace, name))
    if obj is None:
        raise _not_found(kind_named(_gk(ask)).plural, "", name)
    found = next(iter(find(api, [obj])), None)
    if found is None:
        plural = ask.resource.kind.kind.lower()
        raise _not_found(plural, METRICS_GROUP, f"{namespace}/{name}" if namespace else name)
    form = form_of(ask.accept)
    if form == TABLE:
        return json_response(200, _table([found], ask.include))
    if form == PARTIAL:
        return json_response(200, partial(found))
    return yaml_response(200, found) if form == YAML else json_response(200, found)


def _not_found(plural: str, group: str, name: str) -> StatusError:
    qualified = f"{plural}.{group}" if group else plural
    details = {k: v for k, v in {"name": name, "group": group, "kind": plural}.items() if v}
    return StatusError(404, "NotFound", f'{qualified} "{name}" not found', details)


def _nodes(api: Api, nodes: Iterable[Obj]) -> Iterator[Obj]:
    """Those that were scraped twice."""
    when = scrapes(api.store.now_us)
    for node in nodes:
        meta = node["metadata"]
        if parse_rfc3339(meta["creationTimestamp"]) > when.previous_us:
            continue
        kubelet = api.kubelets.of(meta["name"])
        uses = [kubelet.use(meta["name"], at_us) for at_us in (when.last_us, when.previous_us)]
        sample = node_sample(uses[0], uses[1], when)
        if sample is not None:
            yield {**_head(api, node, "NodeMetrics"), **_window(sample), "usage": _usage(sample)}


def _pods(api: Api, pods: Iterable[Obj]) -> Iterator[Obj]:
    """Those that run and whose containers all have two points."""
    when = scrapes(api.store.now_us)
    scraped: dict[str, tuple[dict[str, PodUse], dict[str, PodUse]]] = {}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") != "Running":
            continue
        node = pod["spec"].get("nodeName") or ""
        if node not in scraped:
            scraped[node] = _scraped(api, node, when)
        last, previous = scraped[node]
        uid = pod["metadata"]["uid"]
        sample = pod_sample(last[uid], previous.get(uid), when) if uid in last else None
        if sample is not None:
            containers = [{"name": name, "usage": _usage(of)} for name, of in sample.containers]
            yield {**_head(api, pod, "PodMetrics"), **_window(sample), "containers": containers}


def _scraped(api: Api, node: str, when: Scrapes) -> tuple[dict[str, PodUse], dict[str, PodUse]]:
    kubelet = api.kubelets.of(node)
    last, previous = kubelet.use(node, when.last_us), kubelet.use(node, when.previous_us)
    return _by_uid(last), _by_uid(previous)


def _by_uid(use: NodeUse | None) -> dict[str, PodUse]:
    return {} if use is None else {pod.uid: pod for pod in use.pods}


def _head(api: Api, obj: Obj, kind: str) -> dict[str, Any]:
    told = obj["metadata"]
    meta: dict[str, Any] = {"name": told["name"]}
    if told.get("namespace"):
        meta["namespace"] = told["namespace"]
    meta["creationTimestamp"] = rfc3339(api.store.now_us)
    if labels_of(obj):
        meta["labels"] = labels_of(obj)
    return {"kind": kind, "apiVersion": API_VERSION, "metadata": meta}


def _window(sample: Any) -> dict[str, str]:
    return {"timestamp": rfc3339(sample.at_us), "window": go_seconds(sample.window_us)}


def _usage(sample: Sample) -> dict[str, str]:
    return {"cpu": nano(sample.cpu_nano), "memory": format_binary(sample.memory_bytes), "swap": "0"}


def nano(value: int) -> str:
    """Billionths in the decimal family, as resource.Quantity prints them: `250m`, `1200u`, `2`."""
    if value == 0:
        return "0"
    suffix, factor = next((s, f) for s, f in _NANO_SUFFIXES if value % f == 0)
    if suffix:
        return f"{value // factor}{suffix}"
    cores, larger = value // factor, ""
    for name in ("k", "M", "G"):
        if cores % 1000:
            break
        cores, larger = cores // 1000, name
    return f"{cores}{larger}"


def go_seconds(duration_us: int) -> str:
    """As Go prints a time.Duration: `15s`, `12.5s`, `1m0s`."""
    minutes, rest_us = divmod(duration_us, 60 * SECOND_US)
    seconds = f"{rest_us / SECOND_US:.6f}".rstrip("0").rstrip(".")
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def _table(items: list[Obj], include: str) -> dict[str, Any]:
    """An empty list has no columns."""
    rows = []
    for item in items:
        usages = [item["usage"]] if "usage" in item else [c["usage"] for c in item["containers"]]
        cells = [item["metadata"]["name"], *(_sum(usages, name) for name in ("cpu", "memory", "swap"))]
        shown = item if include == "Object" else None if include == "None" else partial(item)
        rows.append({"cells": [*cells, item["window"]], "object": shown})
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": _TABLE if items else [],
        "rows": rows,
    }


def _sum(usages: list[dict[str, str]], name: str) -> str:
    from fairway.kube import quantity

    total = sum(quantity.of(usage[name]) for usage in usages)
    return nano(int(total * 10**9)) if name == "cpu" else format_binary(int(total))
