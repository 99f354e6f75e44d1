"""`custom.metrics.k8s.io` and `external.metrics.k8s.io`: what an adapter would serve of the series a load describes.

Served as soon as a load (or KEDA) has such metrics, as if Prometheus Adapter and KEDA's metrics server were installed.

Source: k8s.io/metrics pkg/apis/{custom_metrics,external_metrics}, custom-metrics-apiserver pkg/registry (v1.36).
"""

from __future__ import annotations

from typing import Any, Final

from fairway.apiserver.asking import Api
from fairway.apiserver.requests import RequestInfo
from fairway.apiserver.statuses import StatusError, bad_request
from fairway.apiserver.wire.messages import Request, Response, json_response
from fairway.autoscaling.hpa.wording import milli_quantity
from fairway.autoscaling.source import MetricsError
from fairway.kube.kinds import find_kind
from fairway.kube.labelparsing import parse_selector
from fairway.kube.labels import EVERYTHING, Selector, SelectorError
from fairway.kube.timestamps import rfc3339
from fairway.twin.autoscaling.component import Autoscaling

CUSTOM: Final = "custom.metrics.k8s.io"
EXTERNAL: Final = "external.metrics.k8s.io"
GROUPS: Final = (CUSTOM, EXTERNAL)


def answer(api: Api, info: RequestInfo, request: Request) -> Response:
    """One metric. Raises: StatusError (400, 404)."""
    room = _room(api, info.group)
    if room is None:
        raise _missing("the server could not find the requested resource")
    room.measured.begin()
    try:
        if info.group == EXTERNAL:
            items = _external(room, api, info, _selector(request, "labelSelector"))
        else:
            items = _custom(room, api, info, request)
    except MetricsError as error:
        raise _missing(str(error)) from None
    kind = "ExternalMetricValueList" if info.group == EXTERNAL else "MetricValueList"
    body = {"kind": kind, "apiVersion": f"{info.group}/{info.version}", "metadata": {}, "items": items}
    return json_response(200, body)


def page(api: Api, path: str) -> Response | None:
    """The discovery of one of the two groups, where it is served."""
    parts = [part for part in path.split("/") if part]
    if len(parts) not in (2, 3) or parts[0] != "apis" or parts[1] not in GROUPS:
        return None
    room = _room(api, parts[1])
    if room is None:
        return None
    group = parts[1]
    if len(parts) == 2:
        version = {"groupVersion": f"{group}/v1beta1", "version": "v1beta1"}
        body: dict[str, Any] = {"kind": "APIGroup", "apiVersion": "v1", "name": group}
        return json_response(200, {**body, "versions": [version], "preferredVersion": version})
    kind = "ExternalMetricValueList" if group == EXTERNAL else "MetricValueList"
    names = room.metric_names(of_objects=group == CUSTOM)
    listed = [
        {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]}
        for name in names
    ]
    body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{parts[2]}"}
    return json_response(200, {**body, "resources": listed})


def _room(api: Api, group: str) -> Autoscaling | None:
    """Who knows the metrics; None where nobody feeds this group."""
    twin = api.cluster.twin
    room = None if twin is None else twin.component("autoscaling")
    is_served = isinstance(room, Autoscaling) and bool(room.metric_names(of_objects=group == CUSTOM))
    return room if is_served and isinstance(room, Autoscaling) else None


def _missing(message: str) -> StatusError:
    return StatusError(404, "NotFound", message, {})


def _selector(request: Request, option: str) -> Selector | None:
    text = request.option(option)
    try:
        return parse_selector(text) if text else None
    except SelectorError as wrong:
        raise bad_request(str(wrong)) from None


def _external(
    room: Autoscaling, api: Api, info: RequestInfo, selector: Selector | None
) -> list[dict[str, Any]]:
    now = rfc3339(api.store.now_us)
    found = room.measured.external_series(info.namespace, info.resource, selector)
    return [
        {
            "metricName": info.resource,
            "metricLabels": dict(labels),
            "timestamp": now,
            "value": milli_quantity(v),
        }
        for labels, v in found
    ]


def _custom(room: Autoscaling, api: Api, info: RequestInfo, request: Request) -> list[dict[str, Any]]:
    """Of all pods that a selector selects (`*`), or of one object."""
    now, metric = rfc3339(api.store.now_us), info.subresource
    kind = find_kind(info.resource)
    about = {"kind": kind.kind if kind else info.resource, "namespace": info.namespace}
    about["apiVersion"] = (
        f"/{kind.api_version}" if kind and not kind.group else kind.api_version if kind else ""
    )
    chosen = _selector(request, "metricLabelSelector")

    def row(name: str, milli: int) -> dict[str, Any]:
        told = {"metricName": metric, "timestamp": now, "value": milli_quantity(milli), "selector": None}
        return {"describedObject": {**about, "name": name}, **told}

    if info.resource == "pods":
        selector = (_selector(request, "labelSelector") or EVERYTHING) if info.name == "*" else EVERYTHING
        values = room.measured.of_pods(info.namespace, metric, selector, chosen)
        return [row(name, v.value) for name, v in values.items() if info.name in ("*", name)]
    described = {"kind": about["kind"], "name": info.name}
    return [row(info.name, room.measured.of_object(info.namespace, metric, described, chosen))]
