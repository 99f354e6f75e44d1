"""Ingresses, network policies, roles, bindings, volumes, classes and devices: the rules of kinds without a table.

Their fields' names and types are those of the OpenAPI document; here is what else kube-apiserver asks of them, in its
order.

Source: pkg/apis/{networking,rbac,core,storage}/validation/validation.go (v1.36).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from fairway.kube import names, quantity
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.objects import Obj, gk_of, spec_of
from fairway.kube.validation.problem import Problem, forbidden, invalid, invalids, required, unsupported
from fairway.kube.validation.rules.selectors import check_label_selector

_RBAC = "rbac.authorization.k8s.io"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_PATH_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_PATH_ENDS = ("/..", "/.")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_DIRECTIONS = ("Ingress", "Egress")
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_MAX_CONTROLLER_LENGTH = 250
# Members of a volume's spec that are not its source.
_VOLUME_OPTIONS = frozenset(
    (
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    )
)


def check_configuration(obj: Obj) -> list[Problem]:
    """What is wrong with an object of one of these kinds; nothing for others. Its shape has been checked."""
    check = _BY_KIND.get(gk_of(obj))
    out: list[Problem] = []
    if check is not None:
        check(obj, out)
    return out


def has_rules(gk: str) -> bool:
    return gk in _BY_KIND


# Ingresses


def _ingress(obj: Obj, out: list[Problem]) -> None:
    spec, at = spec_of(obj), ("spec",)
    rules = spec.get("rules")
    if not rules and spec.get("defaultBackend") is None:
        out.append(invalid(at, rules, "either `defaultBackend` or `rules` must be specified"))
    if spec.get("defaultBackend") is not None:
        _backend(spec["defaultBackend"], (*at, "defaultBackend"), out)
    for index, rule in enumerate(rules or ()):
        _ingress_rule(rule, (*at, "rules", index), out)
    for index, tls in enumerate(spec.get("tls") or ()):
        _ingress_tls(tls, (*at, "tls", index), out)
    class_name = spec.get("ingressClassName")
    if class_name is not None:
        out.extend(invalids((*at, "ingressClassName"), class_name, names.dns_subdomain(class_name)))


def _ingress_rule(rule: Mapping[str, Any], at: Path, out: list[Problem]) -> None:
    host = rule.get("host") or ""
    if host and _is_address(host):
        out.append(invalid((*at, "host"), host, "must be a DNS name, not an IP address"))
    elif host:
        _host(host, (*at, "host"), out)
    http = rule.get("http")
    if http is None:
        return
    if not http.get("paths"):
        out.append(required((*at, "http", "paths")))
    for index, path in enumerate(http.get("paths") or ()):
        _ingress_path(path, (*at, "http", "paths", index), out)


def _host(host: str, at: Path, out: list[Problem]) -> None:
    if "*" in host:
        out.extend(invalids(at, host, names.wildcard_subdomain(host)))
    else:
        out.extend(invalids(at, host, names.dns_subdomain(host)))


def _ingress_path(path: Mapping[str, Any], at: Path, out: list[Problem]) -> None:
    kind, text = path.get("pathType"), path.get("path") or ""
    if kind is None:
        out.append(required((*at, "pathType"), "pathType must be specified"))
        return
    if kind not in _PATH_TYPES:
        out.append(unsupported((*at, "pathType"), kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        out.append(invalid((*at, "path"), text, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        said = [f"must not contain '{s}'" for s in _PATH_SEQUENCES if s in text]
        said += [f"cannot end with '{s}'" for s in _PATH_ENDS if text.endswith(s)]
        out.extend(invalids((*at, "path"), text, said))
    _backend(path.get("backend") or {}, (*at, "backend"), out)


def _backend(backend: Mapping[str, Any], at: Path, out: list[Problem]) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        out.append(invalid(at, "", "cannot set both resource and service backends"))
    elif service is not None:
        _service_backend(service, at, out)
    elif resource is None:
        out.append(invalid(at, "", "resource or service backend is required"))


def _service_backend(service: Mapping[str, Any], at: Path, out: list[Problem]) -> None:
    name, port = service.get("name") or "", service.get("port") or {}
    if not name:
        out.append(required((*at, "service", "name")))
    else:
        out.extend(invalids((*at, "service", "name"), name, names.dns1035_label(name)))
    if port.get("name") and port.get("number"):
        out.append(invalid(at, "", "cannot set both port name & port number"))
    elif port.get("name"):
        where = (*at, "service", "port", "name")
        out.extend(invalids(where, port["name"], names.port_name(port["name"])))
    elif port.get("number"):
        where = (*at, "service", "port", "number")
        out.extend(invalids(where, port["number"], names.port_number(port["number"])))
    else:
        out.append(required(at, "port name or number is required"))


def _ingress_tls(tls: Mapping[str, Any], at: Path, out: list[Problem]) -> None:
    for index, host in enumerate(tls.get("hosts") or ()):
        _host(host, (*at, "hosts", index), out)
    secret = tls.get("secretName")
    if secret:
        out.extend(invalids((*at, "secretName"), secret, names.dns_subdomain(secret)))


def _ingress_class(obj: Obj, out: list[Problem]) -> None:
    controller, at = spec_of(obj).get("controller") or "", ("spec", "controller")
    domain, slash, path = controller.partition("/")
    if not controller:
        out.append(required(at))
    elif not slash or not domain or not path:
        out.append(invalid(at, controller, 'must be a domain-prefixed path (such as "acme.io/foo")'))
    else:
        out.extend(invalids(at, domain, names.dns_subdomain(domain)))
    if len(controller) > _MAX_CONTROLLER_LENGTH:
        out.append(Problem(at, "", "Too long", f"may not be more than {_MAX_CONTROLLER_LENGTH} bytes"))


# Network policies


def _network_policy(obj: Obj, out: list[Problem]) -> None:
    spec, at = spec_of(obj), ("spec",)
    check_label_selector(spec.get("podSelector"), (*at, "podSelector"), out)
    for side, peers in (("ingress", "from"), ("egress", "to")):
        for number, rule in enumerate(spec.get(side) or ()):
            where = (*at, side, number)
            for index, port in enumerate(rule.get("ports") or ()):
                _policy_port(port, (*where, "ports", index), out)
            for index, peer in enumerate(rule.get(peers) or ()):
                _policy_peer(peer, (*where, peers, index), out)
    types = spec.get("policyTypes") or ()
    if len(types) > len(_DIRECTIONS):
        out.append(invalid((*at, "policyTypes"), types, "may not specify more than two policyTypes"))
        return
    for index, kind in enumerate(types):
        if kind not in _DIRECTIONS:
            out.append(unsupported((*at, "policyTypes", index), kind, _DIRECTIONS))


def _policy_port(port: Mapping[str, Any], at: Path, out: list[Problem]) -> None:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        out.append(unsupported((*at, "protocol"), protocol, _PROTOCOLS))
    if isinstance(number, int):
        out.extend(invalids((*at, "port"), number, names.port_number(number)))
        if end is not None:
            if end < number:
                out.append(invalid((*at, "endPort"), end, "must be greater than or equal to `port`"))
            out.extend(invalids((*at, "endPort"), end, names.port_number(end)))
        return
    if end is not None:
        why = "non-numeric" if number is not None else "not specified"
        out.append(invalid((*at, "endPort"), end, f"may not be specified when `port` is {why}"))
    if number is not None:
        out.extend(invalids((*at, "port"), number, names.port_name(number)))


def _policy_peer(peer: Mapping[str, Any], at: Path, out: list[Problem]) -> None:
    for name in ("podSelector", "namespaceSelector"):
        check_label_selector(peer.get(name), (*at, name), out)
    block = peer.get("ipBlock")
    if block is not None:
        _ip_block(block, (*at, "ipBlock"), out)
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    if not given:
        out.append(required(at, "must specify a peer"))
    elif len(given) > 1 and block is not None:
        out.append(forbidden(at, "may not specify both ipBlock and another peer"))


_NO_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def _ip_block(block: Mapping[str, Any], at: Path, out: list[Problem]) -> None:
    text = block.get("cidr") or ""
    if not text:
        out.append(required((*at, "cidr")))
        return
    whole = _network(text)
    if whole is None:
        out.append(invalid((*at, "cidr"), text, _NO_CIDR))
        return
    for index, part in enumerate(block.get("except") or ()):
        where, network = (*at, "except", index), _network(part)
        if network is None:
            out.append(invalid(where, part, _NO_CIDR))
        elif (
            network.version != whole.version
            or network.network_address not in whole
            or whole.prefixlen >= network.prefixlen
        ):
            out.append(invalid(where, part, "must be a strict subset of `cidr`"))


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    if "/" not in text:
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


# Roles and bindings


def _role(obj: Obj, out: list[Problem]) -> None:
    is_namespaced = obj["kind"] == "Role"
    for index, rule in enumerate(obj.get("rules") or ()):
        _policy_rule(rule, ("rules", index), out, is_namespaced=is_namespaced)


def _policy_rule(rule: Mapping[str, Any], at: Path, out: list[Problem], *, is_namespaced: bool) -> None:
    if not rule.get("verbs"):
        out.append(required((*at, "verbs"), "verbs must contain at least one value"))
    urls, where = rule.get("nonResourceURLs"), (*at, "nonResourceURLs")
    if urls:
        if is_namespaced:
            out.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            out.append(invalid(where, urls, why))
        return
    if not rule.get("apiGroups"):
        out.append(required((*at, "apiGroups"), "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        out.append(required((*at, "resources"), "resource rules must supply at least one resource"))


def _binding(obj: Obj, out: list[Problem]) -> None:
    is_namespaced, reference = obj["kind"] == "RoleBinding", obj.get("roleRef") or {}
    if reference.get("apiGroup") != _RBAC:
        out.append(unsupported(("roleRef", "apiGroup"), reference.get("apiGroup") or "", (_RBAC,)))
    kinds = ("Role", "ClusterRole") if is_namespaced else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        out.append(unsupported(("roleRef", "kind"), reference.get("kind") or "", kinds))
    name = reference.get("name") or ""
    if not name:
        out.append(required(("roleRef", "name")))
    else:
        out.extend(invalids(("roleRef", "name"), name, names.path_segment(name)))
    for index, subject in enumerate(obj.get("subjects") or ()):
        _subject(subject, ("subjects", index), out, is_namespaced=is_namespaced)


def _subject(subject: Mapping[str, Any], at: Path, out: list[Problem], *, is_namespaced: bool) -> None:
    kind, name, group = subject.get("kind") or "", subject.get("name") or "", subject.get("apiGroup") or ""
    if not name:
        out.append(required((*at, "name")))
    if kind == "ServiceAccount":
        out.extend(invalids((*at, "name"), name, names.dns_subdomain(name) if name else ()))
        if group:
            out.append(unsupported((*at, "apiGroup"), group, ("",)))
        if not is_namespaced and not subject.get("namespace"):
            out.append(required((*at, "namespace")))
    elif kind in ("User", "Group"):
        if not name:
            out.append(invalid((*at, "name"), name, f"{kind.lower()} name cannot be empty"))
        if group != _RBAC:
            out.append(unsupported((*at, "apiGroup"), group, (_RBAC,)))
    else:
        out.append(unsupported((*at, "kind"), kind, ("ServiceAccount", "User", "Group")))


# Volumes and classes


def _volume(obj: Obj, out: list[Problem]) -> None:
    spec, at = spec_of(obj), ("spec",)
    modes, capacity = spec.get("accessModes") or (), spec.get("capacity")
    if not modes:
        out.append(required((*at, "accessModes")))
    unknown = [mode for mode in modes if mode not in _ACCESS_MODES]
    out.extend(unsupported((*at, "accessModes"), mode, _ACCESS_MODES) for mode in unknown)
    if not capacity:
        out.append(required((*at, "capacity")))
    if not capacity or "storage" not in capacity or len(capacity) > 1:
        out.append(unsupported((*at, "capacity"), capacity, ("storage",)))
    for name, value in (capacity or {}).items():
        if quantity.parse(value) <= 0:
            where = (*at, "capacity", MapKey(name))
            out.append(invalid(where, str(value), "must be greater than zero"))
    if not [member for member in spec if member not in _VOLUME_OPTIONS and spec[member] is not None]:
        out.append(required(at, "must specify a volume type"))


def _storage_class(obj: Obj, out: list[Problem]) -> None:
    provisioner = obj.get("provisioner") or ""
    if not provisioner:
        out.append(required(("provisioner",)))
    else:
        out.extend(invalids(("provisioner",), provisioner, names.label_key(provisioner.lower())))


# Devices and claims


def _of_devices(module: str, function: str) -> Callable[[Obj, list[Problem]], None]:
    """A rule that is imported when it is asked: selectors bring an interpreter."""

    def check(obj: Obj, out: list[Problem]) -> None:
        rules = import_module(f"fairway.kube.validation.devices.{module}")
        getattr(rules, function)(obj, out)

    return check


_BY_KIND: dict[str, Callable[[Obj, list[Problem]], None]] = {
    "Ingress.networking.k8s.io": _ingress,
    "IngressClass.networking.k8s.io": _ingress_class,
    "NetworkPolicy.networking.k8s.io": _network_policy,
    f"Role.{_RBAC}": _role,
    f"ClusterRole.{_RBAC}": _role,
    f"RoleBinding.{_RBAC}": _binding,
    f"ClusterRoleBinding.{_RBAC}": _binding,
    "PersistentVolume": _volume,
    "StorageClass.storage.k8s.io": _storage_class,
    "ResourceClaim.resource.k8s.io": _of_devices("requests", "claim"),
    "ResourceClaimTemplate.resource.k8s.io": _of_devices("requests", "template"),
    "DeviceClass.resource.k8s.io": _of_devices("requests", "device_class"),
    "ResourceSlice.resource.k8s.io": _of_devices("slices", "check_slice"),
}
