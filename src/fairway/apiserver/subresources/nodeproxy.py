"""`nodes/NAME/proxy/…`: the pages of a node's kubelet that are there, usage and health.

Source: kubelet server.go InstallDefaultHandlers; pkg/registry/core/node/rest/proxy.go (v1.36).
"""

from __future__ import annotations

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.metricsserver.nodepages import resource_metrics, summary
from fairway.apiserver.statuses import StatusError, not_found
from fairway.apiserver.wire.messages import Response, json_response
from fairway.kube.timestamps import parse_rfc3339

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


def answer(api: Api, ask: Ask) -> Response:
    """Raises: StatusError (404, 503)."""
    # `NAME:PORT` names the kubelet's port; it has one.
    name = ask.info.name.partition(":")[0]
    node = api.store.get(ask.key._replace(name=name))
    if node is None:
        raise not_found(ask.resource.kind, name)
    at_us = api.store.now_us
    use = api.kubelets.of(name).use(name, at_us)
    if use is None:
        raise StatusError(
            503, "ServiceUnavailable", f"error trying to reach service: node {name} does not answer", {}
        )
    path = ask.info.rest.strip("/")
    if path == "metrics/resource":
        return Response(200, resource_metrics(use, at_us).encode(), _TEXT)
    if path == "stats/summary":
        return json_response(200, summary(use, parse_rfc3339(node["metadata"]["creationTimestamp"]), at_us))
    if path == "healthz":
        return Response(200, b"ok", "text/plain; charset=utf-8")
    page = api.exporters.page_of_kubelet(name, path)
    if page is not None:
        return Response(page.status, page.body, page.content_type)
    return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
