"""Services, as far as workloads and platforms depend on them.

Source: pkg/apis/core/validation/validation.go validateService, validateServicePort (v1.36). Addresses and the
rules of dual-stack are left to a real cluster.
"""

from __future__ import annotations

from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.validation.context import Context
from fairway.kube.validation.metadata import check_labels
from fairway.kube.validation.problem import Problem, duplicate, forbidden, invalid, invalids, required

_OUTSIDE = ("NodePort", "LoadBalancer")
# Source: core.MaxClientIPServiceAffinitySeconds, one day.
_MAX_AFFINITY_SECONDS = 86400


def check_service(spec: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    type_ = spec.get("type")
    is_headless = spec.get("clusterIP") == "None"
    ports = spec.get("ports") or ()
    if not ports and not is_headless and type_ != "ExternalName":
        out.append(required((*path, "ports")))
    if is_headless and type_ in _OUTSIDE:
        detail = f"may not be set to 'None' for {type_} services"
        out.append(invalid((*path, "clusterIPs", 0), "None", detail))
    if type_ == "ExternalName":
        _check_external_name(spec, path, out)
    _check_ports(spec, path, out)
    check_labels(spec.get("selector"), (*path, "selector"), out)
    _check_affinity(spec, path, out)
    if spec.get("externalTrafficPolicy") and type_ not in _OUTSIDE and not spec.get("externalIPs"):
        detail = "may only be set for externally-accessible services"
        out.append(invalid((*path, "externalTrafficPolicy"), spec["externalTrafficPolicy"], detail))
    for member in ("loadBalancerSourceRanges", "allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(member) not in (None, []) and type_ != "LoadBalancer":
            out.append(forbidden((*path, member), "may only be used when `type` is 'LoadBalancer'"))


def _check_external_name(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    if spec.get("clusterIPs") or spec.get("clusterIP"):
        out.append(forbidden((*path, "clusterIPs"), "may not be set for ExternalName services"))
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        out.append(required((*path, "externalName")))
    out.extend(invalids((*path, "externalName"), name, names.dns_subdomain(name) if name else ()))


def _check_ports(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    ports = spec.get("ports") or ()
    seen_names: set[str] = set()
    seen: set[tuple[str, int]] = set()
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        at = (*path, "ports", index)
        name, protocol = port.get("name") or "", port.get("protocol") or ""
        if not name and len(ports) > 1:
            out.append(required((*at, "name")))
        elif name:
            out.extend(invalids((*at, "name"), name, names.dns_label(name)))
            if name in seen_names:
                out.append(duplicate((*at, "name"), name))
            seen_names.add(name)
        if port.get("port") is None:
            out.append(invalid((*at, "port"), 0, "must be between 1 and 65535, inclusive"))
        key = (protocol, port.get("port") or 0)
        if key in seen:
            out.append(duplicate(at, {"protocol": key[0], "port": key[1]}))
        seen.add(key)
        node_port = port.get("nodePort")
        if not node_port:
            continue
        if spec.get("type") == "ClusterIP":
            out.append(forbidden((*at, "nodePort"), "may not be used when `type` is 'ClusterIP'"))
        if (protocol, node_port) in node_ports:
            out.append(duplicate((*at, "nodePort"), node_port))
        node_ports.add((protocol, node_port))


def _check_affinity(spec: dict[str, Any], path: Path, out: list[Problem]) -> None:
    config = spec.get("sessionAffinityConfig")
    at = (*path, "sessionAffinityConfig")
    if spec.get("sessionAffinity") == "None" and config is not None:
        out.append(forbidden(at, "must not be set when session affinity is None"))
    if spec.get("sessionAffinity") == "ClientIP" and config:
        seconds = (config.get("clientIP") or {}).get("timeoutSeconds")
        if seconds is not None and not 0 < seconds <= _MAX_AFFINITY_SECONDS:
            detail = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
            out.append(invalid((*at, "clientIP", "timeoutSeconds"), seconds, detail))


RULES = {"ServiceSpec": check_service}
