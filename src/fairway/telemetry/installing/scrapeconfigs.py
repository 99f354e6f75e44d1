"""What does a Prometheus scrape? ServiceMonitors and PodMonitors as its configuration.

As the Prometheus Operator translates them (labels, order), with one difference: pods of a served cluster have no
address on this machine, so every target is reached through the API server's proxy, and keeps its own as `instance`.
Samples carry the time at which they are scraped: a cluster's clock may be another.

Source: prometheus-operator pkg/prometheus/promcfg.go generateServiceMonitorConfig, generatePodMonitorConfig.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from fairway.kube.objects import Obj, name_of, namespace_of, spec_of
from fairway.telemetry.statemetrics.rules import sanitized

Config = dict[str, Any]
_SELECTED: Final = {"In": "keep", "NotIn": "drop"}


class Server(NamedTuple):
    """An API server, and the files by which it is reached. `has_kubernetes`: whether Prometheus itself discovers what
    is on it; else the server tells by HTTP service discovery, in the same labels."""

    url: str
    has_kubernetes: bool
    ca: str
    certificate: str
    key: str

    @property
    def tls(self) -> Config:
        return {"ca_file": self.ca, "cert_file": self.certificate, "key_file": self.key}

    @property
    def address(self) -> str:
        return self.url.partition("://")[2].rstrip("/")


def scrape_configs(monitors: Iterable[Obj], server: Server) -> list[Config]:
    """The API server, kubelets, and what the monitors select."""
    found = [_api_server(server), *(_kubelets(server, path) for path in ("", "/cadvisor", "/resource"))]
    for monitor in monitors:
        if monitor.get("kind") == "ServiceMonitor":
            for at, endpoint in enumerate(spec_of(monitor).get("endpoints") or ()):
                found.append(_monitored(monitor, at, endpoint, server, "endpoints"))
        elif monitor.get("kind") == "PodMonitor":
            for at, endpoint in enumerate(spec_of(monitor).get("podMetricsEndpoints") or ()):
                found.append(_monitored(monitor, at, endpoint, server, "pod"))
    return found


def _discovery(server: Server, role: str, namespaces: list[str] | None = None) -> list[Config]:
    if not server.has_kubernetes:
        query = "".join(f"&namespace={name}" for name in namespaces or ())
        url = f"{server.url.rstrip('/')}/fairway/discovery?role={role}{query}"
        return [{"url": url, "refresh_interval": "30s", "tls_config": server.tls}]
    sd: Config = {"role": role, "api_server": server.url, "tls_config": server.tls}
    if namespaces:
        sd["namespaces"] = {"names": namespaces}
    return [sd]


def _job(server: Server, name: str, discovery: list[Config], relabel: list[Config], **more: Any) -> Config:
    return {
        "job_name": name,
        "honor_timestamps": False,
        "scheme": "https",
        "tls_config": server.tls,
        "kubernetes_sd_configs" if server.has_kubernetes else "http_sd_configs": discovery,
        "relabel_configs": relabel,
        **more,
    }


def _api_server(server: Server) -> Config:
    relabel: list[Config] = [
        {
            "source_labels": ["__meta_kubernetes_namespace", "__meta_kubernetes_service_name"],
            "regex": "default;kubernetes",
            "action": "keep",
        },
        {"target_label": "job", "replacement": "apiserver"},
    ]
    # A Prometheus evaluates the same rules itself: the server's own ALERTS would count each alert twice.
    dropped = [{"source_labels": ["__name__"], "regex": "ALERTS", "action": "drop"}]
    sd = _discovery(server, "endpoints", ["default"])
    return _job(server, "apiserver", sd, relabel, metric_relabel_configs=dropped)


def _kubelets(server: Server, path: str) -> Config:
    relabel: list[Config] = [
        {"source_labels": ["__address__"], "target_label": "instance"},
        {"source_labels": ["__meta_kubernetes_node_name"], "target_label": "node"},
        {"target_label": "__address__", "replacement": server.address},
        {
            "source_labels": ["__meta_kubernetes_node_name"],
            "target_label": "__metrics_path__",
            "replacement": f"/api/v1/nodes/$1/proxy/metrics{path}",
        },
        {"target_label": "job", "replacement": "kubelet"},
        {"target_label": "metrics_path", "replacement": f"/metrics{path}"},
    ]
    more = {"honor_labels": True}
    return _job(server, f"kubelet{path.replace('/', '-')}", _discovery(server, "node"), relabel, **more)


def _monitored(monitor: Obj, at: int, endpoint: Mapping[str, Any], server: Server, role: str) -> Config:
    home = namespace_of(monitor)
    named = spec_of(monitor).get("namespaceSelector") or {}
    namespaces = None if named.get("any") else named.get("matchNames") or [home]
    is_service = role == "endpoints"
    of = "service" if is_service else "pod"
    relabel: list[Config] = [*_selection(spec_of(monitor).get("selector") or {}, of), *_ports(endpoint, role)]
    relabel += [
        {"source_labels": ["__address__"], "target_label": "instance"},
        _copy("__meta_kubernetes_namespace", "namespace"),
        *([_copy("__meta_kubernetes_service_name", "service")] if is_service else ()),
        _copy("__meta_kubernetes_pod_name", "pod"),
        _copy("__meta_kubernetes_pod_container_name", "container"),
        _copy("__meta_kubernetes_service_name", "job")
        if is_service
        else {"target_label": "job", "replacement": f"{home}/{name_of(monitor)}"},
        {
            "target_label": "endpoint",
            "replacement": str(endpoint.get("port") or endpoint.get("portNumber") or ""),
        },
        *(_relabeling(r) for r in endpoint.get("relabelings") or ()),
        *_through(server, str(endpoint.get("path") or "/metrics")),
    ]
    more: Config = {"honor_labels": bool(endpoint.get("honorLabels"))}
    for field, name in (
        ("interval", "scrape_interval"),
        ("scrapeTimeout", "scrape_timeout"),
        ("params", "params"),
    ):
        if endpoint.get(field):
            more[name] = endpoint[field]
    if endpoint.get("metricRelabelings"):
        more["metric_relabel_configs"] = [_relabeling(r) for r in endpoint["metricRelabelings"]]
    kind = "serviceMonitor" if is_service else "podMonitor"
    name = f"{kind}/{home}/{name_of(monitor)}/{at}"
    return _job(server, name, _discovery(server, role, namespaces), relabel, **more)


def _copy(source: str, target: str) -> Config:
    return {"source_labels": [source], "target_label": target}


def _selection(selector: Mapping[str, Any], of: str) -> Iterator[Config]:
    """A label selector as relabelling. `of`: service or pod."""
    label = f"__meta_kubernetes_{of}_label_"
    present = f"__meta_kubernetes_{of}_labelpresent_"
    for key, value in sorted((selector.get("matchLabels") or {}).items()):
        yield {"source_labels": [label + sanitized(key)], "regex": re.escape(str(value)), "action": "keep"}
    for wanted in selector.get("matchExpressions") or ():
        key, operator = sanitized(str(wanted.get("key"))), wanted.get("operator")
        if operator in _SELECTED:
            values = "|".join(re.escape(str(v)) for v in wanted.get("values") or ())
            yield {"source_labels": [label + key], "regex": values, "action": _SELECTED[operator]}
        else:
            action = "keep" if operator == "Exists" else "drop"
            yield {"source_labels": [present + key], "regex": "true", "action": action}


def _ports(endpoint: Mapping[str, Any], role: str) -> Iterator[Config]:
    """Which port of what was found. A port that a pod does not declare is written into its address."""
    port, number = endpoint.get("port"), endpoint.get("portNumber") or endpoint.get("targetPort")
    named = (
        "__meta_kubernetes_endpoint_port_name"
        if role == "endpoints"
        else "__meta_kubernetes_pod_container_port_name"
    )
    if port:
        yield {"source_labels": [named], "regex": re.escape(str(port)), "action": "keep"}
    elif number:
        yield {
            "source_labels": ["__meta_kubernetes_pod_ip"],
            "target_label": "__address__",
            "replacement": f"$1:{number}",
        }


def _relabeling(said: Mapping[str, Any]) -> Config:
    """A RelabelConfig in Prometheus' spelling."""
    names = {
        "sourceLabels": "source_labels",
        "separator": "separator",
        "targetLabel": "target_label",
        "regex": "regex",
        "modulus": "modulus",
        "replacement": "replacement",
    }
    found = {name: said[field] for field, name in names.items() if field in said}
    if said.get("action"):
        found["action"] = str(said["action"]).lower()
    return found


def _through(server: Server, path: str) -> Iterator[Config]:
    """By way of the API server: `/api/v1/namespaces/NS/pods/POD:PORT/proxy/PATH`."""
    yield {
        "source_labels": ["__meta_kubernetes_namespace", "__meta_kubernetes_pod_name", "__address__"],
        "regex": r"([^;]+);([^;]+);.*:(\d+)",
        "target_label": "__metrics_path__",
        "replacement": f"/api/v1/namespaces/$1/pods/$2:$3/proxy/{path.lstrip('/')}",
    }
    yield {"target_label": "__address__", "replacement": server.address}
