"""Services and Endpoints.

Source: pkg/apis/core/validation/validation.go validateService, ValidateServiceUpdate, ValidateEndpoints (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.internals import Typed
from fairway.kube.objects import Obj, annotations_of, spec_of, status_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts
from fairway.kube.validation.kinds.metadata import object_meta, object_meta_update
from fairway.kube.validation.kinds.sameness import is_same
from fairway.kube.validation.kinds.texts import one_of

Part = Mapping[str, Any]
_AT: Path = ("spec",)
PROTOCOLS = ("SCTP", "TCP", "UDP")
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_TRAFFIC = ("Cluster", "Local")
_OUTSIDE = ("NodePort", "LoadBalancer")
_MAX_AFFINITY_S = 86400
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MODE = "service.kubernetes.io/topology-mode"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
_FIXED = "may not change once set"


def service(obj: Obj, out: Faults) -> None:
    # Whoever hands out addresses looks at them first, and refuses alone: Allocators.initIPFamilyFields.
    if spec_of(obj).get("type") != "ExternalName":
        _cluster_addresses(spec_of(obj), (), out)
    if out:
        return
    object_meta(obj, out, rule=names.dns_label, core=True)
    _service(obj, None, out)


def service_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    spec, before = spec_of(new), spec_of(old)
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        _kept_addresses(spec, before, out)
        _kept_families(spec, before, out)
    stays = spec.get("type") == before.get("type") == "LoadBalancer"
    if stays and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
        out.invalid((*_AT, "loadBalancerClass"), spec.get("loadBalancerClass"), _FIXED)
    _balancer_class(spec, out)
    checked = _needs_health_check(spec) and _needs_health_check(before)
    if checked and spec.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
        out.forbidden((*_AT, "healthCheckNodePort"), "field is immutable")
    _service(new, old, out)


def _addresses(spec: Part) -> list[str]:
    return spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])


def _is_headless(spec: Part) -> bool:
    return _addresses(spec) == ["None"]


def _kept_addresses(spec: Part, before: Part, out: Faults) -> None:
    now, then, at = _addresses(spec), _addresses(before), (*_AT, "clusterIPs")
    if _is_headless(spec) and _is_headless(before):
        return
    if len(then) == len(now):
        for index, address in enumerate(then):
            if address != now[index]:
                out.invalid((*at, index), now, _FIXED)
        return
    if len(then) > len(now):
        if not now:
            out.invalid((*at, 0), spec.get("clusterIPs"), "primary clusterIP can not be unset")
        elif now[0] != then[0]:
            out.invalid((*at, 0), now, _FIXED)
        if len(now) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
            said = "must be set to 'SingleStack' when releasing the secondary clusterIP"
            out.invalid((*_AT, "ipFamilyPolicy"), spec.get("ipFamilyPolicy"), said)
    elif then and now[0] != then[0]:
        out.invalid((*at, 0), now, _FIXED)


def _kept_families(spec: Part, before: Part, out: Faults) -> None:
    now, then, at = spec.get("ipFamilies") or [], before.get("ipFamilies") or [], (*_AT, "ipFamilies", 0)
    if _is_headless(spec) or _is_headless(before):
        return
    if len(then) == len(now):
        for one, other in zip(then, now, strict=True):
            if one != other:
                out.invalid(at, now, _FIXED)
        return
    if len(then) > len(now) and not _addresses(spec):
        out.invalid(at, spec.get("ipFamilies"), "primary ipFamily can not be unset")
    if now and then and now[0] != then[0]:
        out.invalid(at, spec.get("clusterIPs"), _FIXED)
    if len(then) > len(now) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        said = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        out.invalid((*_AT, "ipFamilyPolicy"), spec.get("ipFamilyPolicy"), said)


def _service(obj: Obj, old: Obj | None, out: Faults) -> None:
    spec, notes = spec_of(obj), annotations_of(obj)
    before = {} if old is None else spec_of(old)
    if _HINTS in notes and _MODE in notes and notes[_HINTS] != notes[_MODE]:
        said = f"must match annotations[{_HINTS}] when both are specified"
        out.invalid(("metadata", "annotations", MapKey(_MODE)), notes[_MODE], said)
    kind, ports = spec.get("type") or "", spec.get("ports") or ()
    if not ports and not _is_headless(spec) and kind != "ExternalName":
        out.required((*_AT, "ports"))
    if kind in _OUTSIDE and _is_headless(spec):
        said = f"may not be set to 'None' for {kind} services"
        out.invalid((*_AT, "clusterIPs", 0), "None", said)
    if kind == "ExternalName":
        _external_name(spec, out)
    seen: set[str] = set()
    for index, port in enumerate(ports):
        _port(port, seen, (*_AT, "ports", index), out, named=len(ports) > 1)
    texts.label_map(spec.get("selector"), (*_AT, "selector"), out)
    _affinity(spec, out)
    if kind != "ExternalName":
        _cluster_addresses(spec, before.get("clusterIPs") or (), out)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        at = (*_AT, "externalIPs", index)
        if texts.address(address, at, out, before.get("externalIPs") or ()):
            texts.endpoint_address(address, at, out)
    one_of(kind, _TYPES, (*_AT, "type"), out)
    _port_numbers(kind, ports, out)
    _source_ranges(spec, notes, before, old, out)
    balanced = spec.get("allocateLoadBalancerNodePorts")
    if balanced is not None and kind != "LoadBalancer":
        out.forbidden((*_AT, "allocateLoadBalancerNodePorts"), _BALANCER_ONLY)
    _balancer_class(spec, out)
    _traffic(spec, out)


def _external_name(spec: Part, out: Faults) -> None:
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name) or (name == "clusterIPs" and _addresses(spec)):
            out.forbidden((*_AT, name), "may not be set for ExternalName services")
    target = (spec.get("externalName") or "").removesuffix(".")
    if target:
        texts.dns_subdomain(target, (*_AT, "externalName"), out)
    else:
        out.required((*_AT, "externalName"))


def _port(port: Part, seen: set[str], at: Path, out: Faults, *, named: bool) -> None:
    _name(port, (*at, "name"), out, named=named)
    name = port.get("name") or ""
    if name and name in seen:
        out.duplicate((*at, "name"), name)
    seen.add(name)
    number = port.get("port") or 0
    out.invalids((*at, "port"), number, names.port_number(number))
    one_of(port.get("protocol"), PROTOCOLS, (*at, "protocol"), out)
    texts.port_reference(port.get("targetPort", number), (*at, "targetPort"), out)
    if port.get("appProtocol") is not None:
        texts.qualified_name(port["appProtocol"], (*at, "appProtocol"), out)


def _name(port: Part, at: Path, out: Faults, *, named: bool) -> None:
    name = port.get("name") or ""
    if name:
        texts.dns_label(name, at, out)
    elif named:
        out.required(at)


def _affinity(spec: Part, out: Faults) -> None:
    kind, config, at = (
        spec.get("sessionAffinity"),
        spec.get("sessionAffinityConfig"),
        (*_AT, "sessionAffinityConfig"),
    )
    one_of(kind, ("ClientIP", "None"), (*_AT, "sessionAffinity"), out)
    if kind == "None" and config is not None:
        out.forbidden(at, "must not be set when session affinity is None")
    if kind != "ClientIP":
        return
    said = "when session affinity type is ClientIP"
    client = (config or {}).get("clientIP")
    seconds = (client or {}).get("timeoutSeconds")
    if config is None:
        out.required(at, said)
    elif client is None:
        out.required((*at, "clientIP"), said)
    elif seconds is None:
        out.required((*at, "clientIP", "timeoutSeconds"), said)
    elif not 0 < seconds <= _MAX_AFFINITY_S:
        what = f"must be greater than 0 and less than {_MAX_AFFINITY_S}"
        out.invalid((*at, "clientIP", "timeoutSeconds"), seconds, what)


def _cluster_addresses(spec: Part, known: Sequence[str], out: Faults) -> None:
    first, found, at = spec.get("clusterIP") or "", _addresses(spec), (*_AT, "clusterIPs")
    families, policy = spec.get("ipFamilies") or (), spec.get("ipFamilyPolicy")
    if first and found[0] != first:
        out.invalid(at, found, "first value must match `clusterIP`")
    elif not first and found:
        out.invalid(at, found, "must be empty when `clusterIP` is not specified")
    seen = set()
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            out.unsupported((*_AT, "ipFamilies", index), family, _FAMILIES)
        if family in seen:
            out.duplicate((*_AT, "ipFamilies", index), family)
        seen.add(family)
    if policy is not None and policy not in _FAMILY_POLICIES:
        out.unsupported((*_AT, "ipFamilyPolicy"), policy, _FAMILY_POLICIES)
    fine = True
    for index, address in enumerate(found):
        if index == 0 and address == "None":
            if len(found) > 1:
                fine = False
                out.invalid(at, found, "'None' must be the first and only value")
            continue
        fine = texts.address(address, (*at, index), out, known) and fine
    if len(found) > 2:
        out.invalid(at, found, "may only hold up to 2 values")
    if fine:
        _families_match(found, families, at, out)


def _families_match(found: Sequence[str], families: Sequence[str], at: Path, out: Faults) -> None:
    if len(found) > 1 and len({":" in address for address in found}) < 2:
        out.invalid(at, found, "may specify no more than one IP for each IP family")
    if list(found) == ["None"]:
        return
    for index, (address, family) in enumerate(zip(found, families, strict=False)):
        if family in _FAMILIES and (":" in address) != (family == "IPv6"):
            said = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            out.invalid((*at, index), address, said)


def _port_numbers(kind: str, ports: Sequence[Part], out: Faults) -> None:
    for index, port in enumerate(ports):
        if kind == "ClusterIP" and port.get("nodePort"):
            said = "may not be used when `type` is 'ClusterIP'"
            out.forbidden((*_AT, "ports", index, "nodePort"), said)
    seen = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol") or "", port.get("nodePort"))
        if port.get("nodePort") and key in seen:
            out.duplicate((*_AT, "ports", index, "nodePort"), port["nodePort"])
        seen.add(key)
    seen = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol") or "", port.get("port") or 0)
        if key in seen:
            shown = Typed("core.ServicePort", {"protocol": key[0], "port": key[1]})
            out.duplicate((*_AT, "ports", index), shown)
        seen.add(key)


def _source_ranges(spec: Part, notes: Mapping[str, str], before: Part, old: Obj | None, out: Faults) -> None:
    ranges, note = spec.get("loadBalancerSourceRanges") or (), notes.get(_RANGES)
    is_balancer, at = spec.get("type") == "LoadBalancer", (*_AT, "LoadBalancerSourceRanges")
    if ranges:
        if not is_balancer:
            out.forbidden(at, _BALANCER_ONLY)
        known = [text.strip() for text in before.get("loadBalancerSourceRanges") or ()]
        for index, text in enumerate(ranges):
            texts.network(text.strip(), (*at, index), out, known)
    elif note is not None:
        where = ("metadata", "annotations", MapKey(_RANGES))
        if not is_balancer:
            out.forbidden(where, _BALANCER_ONLY)
        if (old is None or annotations_of(old).get(_RANGES) != note) and note.strip():
            for text in note.strip().split(","):
                texts.network(text.strip(), where, out)


def _balancer_class(spec: Part, out: Faults) -> None:
    name, at = spec.get("loadBalancerClass"), (*_AT, "loadBalancerClass")
    if name is not None and spec.get("type") == "LoadBalancer":
        texts.qualified_name(name, at, out)
    elif name is not None:
        out.forbidden(at, _BALANCER_ONLY)


def _needs_health_check(spec: Part) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _traffic(spec: Part, out: Faults) -> None:
    policy, inside = spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    is_outside = spec.get("type") in _OUTSIDE or (spec.get("type") == "ClusterIP" and spec.get("externalIPs"))
    if not is_outside:
        if policy:
            said = "may only be set for externally-accessible services"
            out.invalid((*_AT, "externalTrafficPolicy"), policy, said)
    else:
        one_of(policy or "Cluster", _TRAFFIC, (*_AT, "externalTrafficPolicy"), out)
    check = spec.get("healthCheckNodePort") or 0
    if check and not _needs_health_check(spec):
        said = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        out.invalid((*_AT, "healthCheckNodePort"), check, said)
    elif check:
        out.invalids((*_AT, "healthCheckNodePort"), check, names.port_number(check))
    if inside is not None and inside not in _TRAFFIC:
        out.unsupported((*_AT, "internalTrafficPolicy"), inside, _TRAFFIC)
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        out.unsupported((*_AT, "trafficDistribution"), distribution, _DISTRIBUTIONS)


def service_status(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    found = (status_of(new).get("loadBalancer") or {}).get("ingress") or ()
    known = (status_of(old).get("loadBalancer") or {}).get("ingress") or ()
    at = ("status", "loadBalancer", "ingress")
    if found and spec_of(new).get("type") != "LoadBalancer":
        out.forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    load_balancer(found, known, at, out, has_mode=True)


def load_balancer(
    found: Sequence[Part], known: Sequence[Part], at: Path, out: Faults, *, has_mode: bool
) -> None:
    """Where a load balancer or an ingress is reached."""
    addresses = [entry["ip"] for entry in known if entry.get("ip")]
    for index, entry in enumerate(found):
        where, address, mode = (*at, index), entry.get("ip") or "", entry.get("ipMode")
        if address:
            texts.address(address, (*where, "ip"), out, addresses)
        if has_mode and mode is None and address:
            out.required((*where, "ipMode"), "must be specified when `ip` is set")
        elif has_mode and mode is not None and not address:
            out.forbidden((*where, "ipMode"), "may not be specified when `ip` is not set")
        elif has_mode and mode is not None and mode not in ("Proxy", "VIP"):
            out.unsupported((*where, "ipMode"), mode, ("Proxy", "VIP"))
        hostname = entry.get("hostname") or ""
        if hostname:
            texts.dns_subdomain(hostname, (*where, "hostname"), out)
            if texts.address_of(hostname) is not None:
                out.invalid((*where, "hostname"), hostname, "must be a DNS name, not an IP address")


def endpoints(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    _subsets(obj.get("subsets") or (), out)


def endpoints_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    object_meta(new, out, core=True)
    if not is_same(new.get("subsets"), old.get("subsets")):
        _subsets(new.get("subsets") or (), out)


def _subsets(subsets: Sequence[Part], out: Faults) -> None:
    for number, subset in enumerate(subsets):
        at, ports = ("subsets", number), subset.get("ports") or ()
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            out.required(at, "must specify `addresses` or `notReadyAddresses`")
        for name in ("addresses", "notReadyAddresses"):
            for index, address in enumerate(subset.get(name) or ()):
                _endpoint(address, (*at, name, index), out)
        for index, port in enumerate(ports):
            where, value = (*at, "ports", index), port.get("port") or 0
            _name(port, (*where, "name"), out, named=len(ports) > 1)
            out.invalids((*where, "port"), value, names.port_number(value))
            one_of(port.get("protocol"), PROTOCOLS, (*where, "protocol"), out)
            if port.get("appProtocol") is not None:
                texts.qualified_name(port["appProtocol"], (*where, "appProtocol"), out)


def _endpoint(address: Part, at: Path, out: Faults) -> None:
    text = address.get("ip") or ""
    texts.address(text, (*at, "ip"), out)
    if address.get("hostname"):
        texts.dns_label(address["hostname"], (*at, "hostname"), out)
    if address.get("nodeName") is not None:
        texts.dns_subdomain(address["nodeName"], (*at, "nodeName"), out)
    texts.endpoint_address(text, (*at, "ip"), out)
