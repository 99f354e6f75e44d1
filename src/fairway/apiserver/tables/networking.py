"""Lines of Services, Endpoints, EndpointSlices, Ingresses, NetworkPolicies and address ranges.

Source: pkg/printers/internalversion/printers.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.apiserver.tables.wording import (
    NONE,
    UNSET,
    age,
    first_few,
    labels_text,
    name,
    selector_text,
)
from fairway.kube.objects import Obj, annotations_of, spec_of, status_of

SERVICE = "Name:name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector*"
ENDPOINTS = "Name:name | Endpoints | Age"
ENDPOINT_SLICE = "Name:name | AddressType | Ports | Endpoints | Age"
INGRESS = "Name:name | Class | Hosts | Address | Ports | Age"
INGRESS_CLASS = "Name:name | Controller | Parameters | Age"
NETWORK_POLICY = "Name:name | Pod-Selector | Age"
SERVICE_CIDR = "Name:name | CIDRs | Age"
IP_ADDRESS = "Name:name | ParentRef"
_MOST = 3


def service(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    return [
        name(obj),
        spec.get("type") or "",
        spec.get("clusterIP") or NONE,
        _external_ip(obj),
        _ports(spec.get("ports") or []) or NONE,
        age(obj, now_us),
        labels_text(spec.get("selector")),
    ]


def _external_ip(obj: Obj) -> str:
    spec = spec_of(obj)
    kind, external = spec.get("type"), list(spec.get("externalIPs") or ())
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(external) or NONE
    if kind == "LoadBalancer":
        balanced = _balancer(status_of(obj))
        return ",".join([*balanced.split(","), *external] if balanced else external) or "<pending>"
    if kind == "ExternalName":
        return str(spec.get("externalName") or "")
    return "<unknown>"


def _balancer(status: Obj) -> str:
    points = (status.get("loadBalancer") or {}).get("ingress") or ()
    return ",".join(
        sorted({p.get("ip") or p.get("hostname") for p in points if p.get("ip") or p.get("hostname")})
    )


def _ports(ports: list[Obj]) -> str:
    texts = []
    for port in ports:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node}/{port.get('protocol') or 'TCP'}")
    return ",".join(texts)


def endpoints(obj: Obj, now_us: int) -> list[Any]:
    texts = []
    for subset in obj.get("subsets") or ():
        addresses = [a.get("ip", "") for a in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            texts.extend(addresses)
        texts.extend(_host_port(ip, port.get("port")) for port in ports for ip in addresses)
    return [name(obj), first_few(texts, _MOST, absent="" if obj.get("subsets") else NONE), age(obj, now_us)]


def _host_port(ip: str, port: Any) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def endpoint_slice(obj: Obj, now_us: int) -> list[Any]:
    ports = [
        str(p["port"]) if p.get("port") is not None else p.get("name", "*") for p in obj.get("ports") or ()
    ]
    addresses = [a for e in obj.get("endpoints") or () for a in e.get("addresses") or ()]
    return [
        name(obj),
        obj.get("addressType") or "",
        first_few(ports, _MOST, absent=UNSET),
        first_few(addresses, _MOST, absent=UNSET),
        age(obj, now_us),
    ]


def ingress(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    return [
        name(obj),
        spec.get("ingressClassName") or NONE,
        _hosts(spec.get("rules") or []),
        _balancer(status_of(obj)),
        "80, 443" if spec.get("tls") else "80",
        age(obj, now_us),
    ]


def _hosts(rules: list[Obj]) -> str:
    hosts = [r["host"] for r in rules if r.get("host")]
    if not hosts:
        return "*"
    # As upstream: what is left over counts rules, with a host or without.
    shown = ",".join(hosts[:_MOST])
    return f"{shown} + {len(rules) - _MOST} more..." if len(hosts) > _MOST else shown


def ingress_class(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    is_default = annotations_of(obj).get("ingressclass.kubernetes.io/is-default-class") == "true"
    parameters, text = spec.get("parameters"), NONE
    if parameters is not None:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        text = f"{parameters.get('kind')}{group}/{parameters.get('name')}"
    shown = name(obj) + (" (default)" if is_default else "")
    return [shown, spec.get("controller") or "", text, age(obj, now_us)]


def network_policy(obj: Obj, now_us: int) -> list[Any]:
    return [name(obj), selector_text(spec_of(obj).get("podSelector") or {}), age(obj, now_us)]


def service_cidr(obj: Obj, now_us: int) -> list[Any]:
    return [name(obj), ",".join(spec_of(obj).get("cidrs") or ()), age(obj, now_us)]


def ip_address(obj: Obj, _now_us: int) -> list[Any]:
    parent = spec_of(obj).get("parentRef")
    if parent is None:
        return [name(obj), NONE]
    group = f".{parent['group']}" if parent.get("group") else ""
    namespace = f"/{parent['namespace']}" if parent.get("namespace") else ""
    return [name(obj), f"{parent.get('resource', '')}{group}".lower() + f"{namespace}/{parent.get('name')}"]
