"""Ingresses, their classes, network policies, endpoint slices, service ranges and addresses.

Source: pkg/apis/networking/validation/validation.go, pkg/apis/discovery/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.internals import Typed
from fairway.kube.names import Complaints
from fairway.kube.objects import Obj, annotations_of, spec_of, status_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts
from fairway.kube.validation.kinds.metadata import object_meta, object_meta_update
from fairway.kube.validation.kinds.sameness import IMMUTABLE, immutable, is_same
from fairway.kube.validation.kinds.selectors import label_selector_of
from fairway.kube.validation.kinds.services import load_balancer

Part = Mapping[str, Any]
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_PATH_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_PATH_ENDS = ("/..", "/.")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_SLICE_PROTOCOLS = ("SCTP", "TCP", "UDP")
_DIRECTIONS = ("Ingress", "Egress")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_NOT_A_NAME = "must be a DNS name, not an IP address"
_TWO_FAMILIES = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


def ingress(obj: Obj, out: Faults) -> None:
    _ingress(obj, out)
    note, name = annotations_of(obj).get(_CLASS_ANNOTATION), spec_of(obj).get("ingressClassName")
    if note is not None and name is not None and note != name:
        said = "must match `ingressClassName` when both are specified"
        out.invalid(("annotations", _CLASS_ANNOTATION), note, said)


def _ingress(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    spec, at = spec_of(obj), ("spec",)
    rules = spec.get("rules")
    if not rules and spec.get("defaultBackend") is None:
        shown = Typed("[]networking.IngressRule", rules)
        out.invalid(at, shown, "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        _backend(spec["defaultBackend"], (*at, "defaultBackend"), out)
    for index, rule in enumerate(rules or ()):
        _rule(rule, (*at, "rules", index), out)
    for index, tls in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(tls.get("hosts") or ()):
            _host(host, (*at, "tls", index, "hosts", number), out)
        if tls.get("secretName"):
            texts.dns_subdomain(tls["secretName"], (*at, "tls", index, "secretName"), out)
    if spec.get("ingressClassName") is not None:
        texts.dns_subdomain(spec["ingressClassName"], (*at, "ingressClassName"), out)


def ingress_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    _ingress(new, out)


def ingress_status(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    found, known = ((status_of(o).get("loadBalancer") or {}).get("ingress") or () for o in (new, old))
    load_balancer(found, known, ("status", "loadBalancer", "ingress"), out, has_mode=False)


def _host(host: str, at: Path, out: Faults) -> None:
    out.invalids(at, host, names.wildcard_subdomain(host) if "*" in host else names.dns_subdomain(host))


def _rule(rule: Part, at: Path, out: Faults) -> None:
    host, http = rule.get("host") or "", rule.get("http")
    if host:
        if texts.address_of(host) is not None:
            out.invalid((*at, "host"), host, _NOT_A_NAME)
        _host(host, (*at, "host"), out)
    if http is None:
        return
    if not http.get("paths"):
        out.required((*at, "http", "paths"))
    for index, path in enumerate(http.get("paths") or ()):
        _path(path, (*at, "http", "paths", index), out)


def _path(path: Part, at: Path, out: Faults) -> None:
    kind, text, where = path.get("pathType"), path.get("path") or "", (*at, "path")
    if kind is None:
        out.required((*at, "pathType"), "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        out.unsupported((*at, "pathType"), kind, _PATH_TYPES)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        out.invalid(where, text, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        said = [f"must not contain '{s}'" for s in _PATH_SEQUENCES if s in text]
        said += [f"cannot end with '{s}'" for s in _PATH_ENDS if text.endswith(s)]
        out.invalids(where, text, said)
    _backend(path.get("backend") or {}, (*at, "backend"), out)


def _backend(backend: Part, at: Path, out: Faults) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        out.invalid(at, "", "cannot set both resource and service backends")
    elif resource is not None:
        _reference(resource, (*at, "resource"), out)
    elif service is not None:
        _service_backend(service, at, out)
    else:
        out.invalid(at, "", "resource or service backend is required")


def _service_backend(service: Part, at: Path, out: Faults) -> None:
    name, port, where = service.get("name") or "", service.get("port") or {}, (*at, "service")
    if not name:
        out.required((*where, "name"))
    else:
        texts.dns_label(name, (*where, "name"), out)
    if port.get("name") and port.get("number"):
        out.invalid(at, "", "cannot set both port name & port number")
    elif port.get("name"):
        out.invalids((*where, "port", "name"), port["name"], names.port_name(port["name"]))
    elif port.get("number"):
        out.invalids((*where, "port", "number"), port["number"], names.port_number(port["number"]))
    else:
        out.required(at, "port name or number is required")


def _reference(reference: Part, at: Path, out: Faults) -> None:
    if reference.get("apiGroup") is not None:
        texts.dns_subdomain(reference["apiGroup"], (*at, "apiGroup"), out)
    for name in ("kind", "name"):
        if not reference.get(name):
            out.required((*at, name))
        else:
            texts.path_segment(reference[name], (*at, name), out)


def ingress_class(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False, core=True)
    spec, at = spec_of(obj), ("spec",)
    controller, parameters = spec.get("controller") or "", spec.get("parameters")
    if len(controller) > 250:
        out.too_long((*at, "controller"), 250)
    texts.domain_prefixed_path(controller, (*at, "controller"), out)
    if parameters is not None:
        _parameters(parameters, (*at, "parameters"), out)


def _parameters(found: Part, at: Path, out: Faults) -> None:
    _reference(found, at, out)
    scope, namespace, where = found.get("scope"), found.get("namespace"), (*at, "namespace")
    if scope is None:
        out.required((*at, "scope"))
    elif scope not in ("Cluster", "Namespace"):
        out.unsupported((*at, "scope"), scope, ("Cluster", "Namespace"))
    elif scope == "Cluster":
        if namespace is not None:
            out.forbidden(where, "`parameters.scope` is set to 'Cluster'")
    elif namespace is None:
        out.required(where, "`parameters.scope` is set to 'Namespace'")
    else:
        texts.dns_label(namespace, where, out)


def ingress_class_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    at = ("spec", "controller")
    immutable(spec_of(new).get("controller") or "", spec_of(old).get("controller") or "", at, out)
    ingress_class(new, out)


def network_policy(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    _policy_spec(spec_of(obj), (), out)


def network_policy_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    known: list[str] = []
    for side, peers in (("ingress", "from"), ("egress", "to")):
        for rule in spec_of(old).get(side) or ():
            for peer in rule.get(peers) or ():
                block = peer.get("ipBlock") or {}
                known += [block.get("cidr") or "", *(block.get("except") or ())]
    _policy_spec(spec_of(new), known, out)


def _policy_spec(spec: Part, known: Sequence[str], out: Faults) -> None:
    at = ("spec",)
    label_selector_of(spec.get("podSelector"), (*at, "podSelector"), out)
    for side, peers in (("ingress", "from"), ("egress", "to")):
        for number, rule in enumerate(spec.get(side) or ()):
            where = (*at, side, number)
            for index, port in enumerate(rule.get("ports") or ()):
                _policy_port(port, (*where, "ports", index), out)
            for index, peer in enumerate(rule.get(peers) or ()):
                _policy_peer(peer, known, (*where, peers, index), out)
    types = spec.get("policyTypes") or ()
    if len(types) > len(_DIRECTIONS):
        out.invalid((*at, "policyTypes"), types, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(types):
        if kind not in _DIRECTIONS:
            out.unsupported((*at, "policyTypes", index), kind, _DIRECTIONS)


def _policy_port(port: Part, at: Path, out: Faults) -> None:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        out.unsupported((*at, "protocol"), protocol, _PROTOCOLS)
    if isinstance(number, int):
        out.invalids((*at, "port"), number, names.port_number(number))
        if end is not None:
            if end < number:
                out.invalid((*at, "endPort"), number, "must be greater than or equal to `port`")
            out.invalids((*at, "endPort"), end, names.port_number(end))
        return
    if end is not None:
        why = "non-numeric" if number is not None else "not specified"
        out.invalid((*at, "endPort"), end, f"may not be specified when `port` is {why}")
    if number is not None:
        out.invalids((*at, "port"), number, names.port_name(number))


def _policy_peer(peer: Part, known: Sequence[str], at: Path, out: Faults) -> None:
    for name in ("podSelector", "namespaceSelector"):
        label_selector_of(peer.get(name), (*at, name), out)
    block = peer.get("ipBlock")
    if block is not None:
        _block(block, known, (*at, "ipBlock"), out)
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    if not given:
        out.required(at, "must specify a peer")
    elif len(given) > 1 and block is not None:
        out.forbidden(at, "may not specify both ipBlock and another peer")


def _block(block: Part, known: Sequence[str], at: Path, out: Faults) -> None:
    text = block.get("cidr") or ""
    if not text:
        out.required((*at, "cidr"))
        return
    texts.network(text, (*at, "cidr"), out, known)
    whole = texts.network_of(text)
    for index, part in enumerate(block.get("except") or () if whole is not None else ()):
        where, inner = (*at, "except", index), texts.network_of(part)
        texts.network(part, where, out, known)
        if inner is None or whole is None:
            continue
        inside = inner.version == whole.version and inner.network_address in whole
        if not inside or whole.prefixlen >= inner.prefixlen:
            out.invalid(where, part, "must be a strict subset of `cidr`")


def endpoint_slice(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    _slice(obj, None, out)


def endpoint_slice_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta(new, out, core=True)
    _slice(new, old, out)
    immutable(new.get("addressType"), old.get("addressType"), ("addressType",), out)


def _slice(obj: Obj, old: Obj | None, out: Faults) -> None:
    kind, ports, endpoints = obj.get("addressType") or "", obj.get("ports") or (), obj.get("endpoints") or ()
    if not kind:
        out.required(("addressType",))
    elif kind not in _ADDRESS_TYPES:
        out.unsupported(("addressType",), kind, _ADDRESS_TYPES)
    if len(ports) > 20000:
        out.too_many(("ports",), len(ports), 20000)
    else:
        _slice_ports(ports, out)
    if old is not None and is_same(old.get("endpoints"), obj.get("endpoints")):
        return
    if len(endpoints) > 1000:
        out.too_many(("endpoints",), len(endpoints), 1000)
        return
    for index, endpoint in enumerate(endpoints):
        _endpoint(endpoint, kind, ("endpoints", index), out)


def _slice_ports(ports: Sequence[Part], out: Faults) -> None:
    seen = set()
    for index, port in enumerate(ports):
        at, name, protocol = ("ports", index), port.get("name") or "", port.get("protocol", "TCP")
        if name:
            texts.dns_label(name, (*at, "name"), out)
        if name in seen:
            out.duplicate((*at, "name"), name)
        seen.add(name)
        if protocol not in _SLICE_PROTOCOLS:
            out.unsupported((*at, "protocol"), protocol, _SLICE_PROTOCOLS)
        if port.get("appProtocol") is not None:
            texts.qualified_name(port["appProtocol"], (*at, "appProtocol"), out)


def _endpoint(endpoint: Part, kind: str, at: Path, out: Faults) -> None:
    addresses, where = endpoint.get("addresses") or (), (*at, "addresses")
    if not addresses:
        out.required(where, "must contain at least 1 address")
    elif len(addresses) > 100:
        out.too_many(where, len(addresses), 100)
    for index, address in enumerate(addresses):
        _slice_address(address, kind, (*where, index), out)
    if endpoint.get("nodeName") is not None:
        texts.dns_subdomain(endpoint["nodeName"], (*at, "nodeName"), out)
    topology = endpoint.get("deprecatedTopology") or {}
    if len(topology) > 16:
        out.too_many((*at, "deprecatedTopology"), len(topology), 16)
    texts.label_map(topology, (*at, "deprecatedTopology"), out)
    if endpoint.get("hostname") is not None:
        texts.dns_label(endpoint["hostname"], (*at, "hostname"), out)
    for name, check in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        hints, place = (endpoint.get("hints") or {}).get(name) or (), (*at, "hints", name)
        if len(hints) > 8:
            out.too_many(place, len(hints), 8)
            return
        seen = set()
        for index, hint in enumerate(hints):
            target = hint.get("name") or ""
            if target in seen:
                out.duplicate((*place, index, "name"), target)
            seen.add(target)
            out.invalids((*place, index, "name"), target, check(target))


def _slice_address(address: str, kind: str, at: Path, out: Faults) -> None:
    if kind == "FQDN":
        texts.fully_qualified_domain(address, at, out)
    elif kind in ("IPv4", "IPv6"):
        check = texts.address if kind == "IPv4" else texts.canonical_address
        if check(address, at, out):
            if (":" in address) != (kind == "IPv6"):
                out.invalid(at[:-1], address, f"must be an {kind} address")
            texts.endpoint_address(address, at, out)


def service_range(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False, core=True)
    _ranges(spec_of(obj), out)


def _ranges(spec: Part, out: Faults) -> None:
    at, cidrs = ("spec", "cidrs"), spec.get("cidrs") or ()
    if not cidrs:
        out.required(at, "at least one CIDR required")
        return
    if len(cidrs) > 2:
        out.invalid(at, Typed("networking.ServiceCIDRSpec", spec), "may only hold up to 2 values")
        return
    for index, cidr in enumerate(cidrs):
        texts.canonical_network(cidr, (*at, index), out)
    found = [texts.network_of(cidr) for cidr in cidrs]
    if len(cidrs) == 2 and all(found) and not texts.is_one_of_each_family(cidrs):
        out.invalid(at, cidrs, _TWO_FAMILIES)


def service_range_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    now, then, at = spec_of(new).get("cidrs") or [], spec_of(old).get("cidrs") or [], ("spec", "cidrs")
    if len(now) not in (len(then), 2) or len(then) > len(now):
        out.invalid(at, now or None, IMMUTABLE)
        return
    for index, cidr in enumerate(then):
        if now[index] != cidr:
            out.invalid((*at, index), now[index], IMMUTABLE)
    if len(now) > len(then):
        _ranges(spec_of(new), out)


def _address_name(name: str) -> Complaints:
    found = Faults()
    texts.canonical_address(name, (), found)
    return tuple(problem.detail for problem in found)


def ip_address(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False, rule=_address_name, core=True)
    parent, at = spec_of(obj).get("parentRef"), ("spec", "parentRef")
    if parent is None:
        out.required(at)
        return
    if parent.get("group"):
        texts.dns_subdomain(parent["group"], (*at, "group"), out)
    for name in ("resource", "name"):
        if not parent.get(name):
            out.required((*at, name))
        else:
            texts.path_segment(parent[name], (*at, name), out)
    if parent.get("namespace"):
        texts.path_segment(parent["namespace"], (*at, "namespace"), out)


def ip_address_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    parent = spec_of(new).get("parentRef")
    value = Typed("*networking.ParentReference", parent)
    immutable(parent, spec_of(old).get("parentRef"), ("spec", "parentRef"), out, value)
