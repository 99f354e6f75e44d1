"""Which address does a new Service get, and which ports on every node?

Addresses come from 10.96.0.0/16, ports from 30000–32767, the lowest that is free; nobody else hands them out.

Source: pkg/registry/core/service/storage/alloc.go; kube-apiserver --service-cluster-ip-range (kubeadm's default),
--service-node-port-range (v1.36). Unlike kube: the lowest free one instead of a random one, so that two runs agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from fairway.apiserver.statuses import internal
from fairway.apiserver.statuses import invalid as status_invalid
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.store import Store
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Obj, spec_of
from fairway.kube.problem import invalid

NETWORK = IPv4Network("10.96.0.0/16")
# The first addresses are kept for those who ask for one: 10.96.0.1 is the API's, 10.96.0.10 usually DNS'.
_FIRST = int(NETWORK.network_address) + 257
_LAST = int(NETWORK.broadcast_address) - 1
_PORTS = range(30_000, 32_768)
_WITH_PORTS = ("NodePort", "LoadBalancer")
# Members that only some types of Service have.
_OF_TYPES = {
    "externalTrafficPolicy": _WITH_PORTS,
    "internalTrafficPolicy": ("ClusterIP", *_WITH_PORTS),
    "healthCheckNodePort": ("LoadBalancer",),
    "allocateLoadBalancerNodePorts": ("LoadBalancer",),
    "loadBalancerClass": ("LoadBalancer",),
}


class Addresses:
    """A store follower: what is taken follows the Services there are."""

    def __init__(self, store: Store) -> None:
        self._taken: dict[str, tuple[frozenset[int], frozenset[int]]] = {}
        self._addresses: set[int] = set()
        self._ports: set[int] = set()
        for service in store.objects("Service"):
            self._take(service)
        store.followers.append(self)

    def apply(self, change: Change) -> None:
        if change.key.gk != "Service":
            return
        uid = change.obj["metadata"]["uid"]
        addresses, ports = self._taken.pop(uid, (frozenset(), frozenset()))
        self._addresses -= addresses
        self._ports -= ports
        if change.type != DELETED:
            self._take(change.obj)

    def _take(self, service: Obj) -> None:
        spec = spec_of(service)
        addresses = frozenset(int(IPv4Address(ip)) for ip in spec.get("clusterIPs") or () if _is_ours(ip))
        ports = frozenset(p["nodePort"] for p in spec.get("ports") or () if p.get("nodePort"))
        self._taken[service["metadata"]["uid"]] = (addresses, ports)
        self._addresses |= addresses
        self._ports |= ports

    def complete(self, service: Obj) -> Obj:
        """The new Service with what it did not ask for by name.

        Raises: StatusError (422) where it asks for what is taken, or not ours to give.
        """
        status = service.get("status") or {"loadBalancer": {}}
        return {**self.allocated(service, None), "status": status}

    def adjusted(self, new: Obj, old: Obj) -> Obj:
        """A Service's new state: what it does not say stays, and what its new type has no use for goes.

        Source: pkg/registry/core/service/strategy.go patchAllocatedValues, dropTypeDependentFields.
        """
        spec, before = dict(spec_of(new)), spec_of(old)
        kind, old_kind = spec.get("type") or "ClusterIP", before.get("type") or "ClusterIP"
        if kind != "ExternalName" and old_kind != "ExternalName":
            if not spec.get("clusterIP"):
                spec["clusterIP"] = before.get("clusterIP")
            spec["clusterIPs"] = [spec["clusterIP"]]
        elif kind == "ExternalName" and spec.get("clusterIP") == before.get("clusterIP"):
            for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec.pop(name, None)
        if kind in _WITH_PORTS and old_kind in _WITH_PORTS:
            spec["ports"] = _with_known_ports(spec.get("ports") or (), before.get("ports") or ())
        elif kind not in _WITH_PORTS and _node_ports(spec) == _node_ports(before):
            spec["ports"] = [_without_node_port(port) for port in spec.get("ports") or ()]
        for name, kinds in _OF_TYPES.items():
            if kind not in kinds and spec.get(name) is not None and spec[name] == before.get(name):
                del spec[name]
        return {**new, "spec": {k: v for k, v in spec.items() if v is not None}}

    def allocated(self, service: Obj, old: Obj | None) -> Obj:
        """The Service with an address and ports of its own. Raises: StatusError (422; 500 where none is left)."""
        spec = spec_of(service)
        kind = spec.get("type") or "ClusterIP"
        if kind == "ExternalName":
            return service
        ip = spec.get("clusterIP") or self._free_address()
        if old is None or ip != spec_of(old).get("clusterIP"):
            self._check_address(service, ip)
        families = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
        spec = {**families, **spec, "clusterIP": ip, "clusterIPs": spec.get("clusterIPs") or [ip]}
        if kind in _WITH_PORTS and spec.get("allocateLoadBalancerNodePorts") is not False:
            self._check_ports(service, _node_ports(spec_of(old or {})))
            spec["ports"] = self._with_node_ports(spec.get("ports") or ())
        return {**service, "spec": spec}

    def _check_address(self, service: Obj, ip: str) -> None:
        if ip == "None":
            return
        why = ""
        if not _is_ours(ip):
            why = f"the provided IP ({ip}) is not in the valid range. The range of valid IPs is {NETWORK}"
        elif int(IPv4Address(ip)) in self._addresses:
            why = "provided IP is already allocated"
        if why:
            problem = invalid(("spec", "clusterIPs"), [ip], f"failed to allocate IP {ip}: {why}")
            raise status_invalid(kind_named("Service"), service["metadata"]["name"], [problem])

    def _check_ports(self, service: Obj, held: frozenset[int]) -> None:
        for index, port in enumerate(spec_of(service).get("ports") or ()):
            number = port.get("nodePort")
            if not number or number in held:
                continue
            why = ""
            if number not in _PORTS:
                valid = f"{_PORTS[0]}-{_PORTS[-1]}"
                why = f"provided port is not in the valid range. The range of valid ports is {valid}"
            elif number in self._ports:
                why = "provided port is already allocated"
            if why:
                problem = invalid(("spec", "ports", index, "nodePort"), number, why)
                raise status_invalid(kind_named("Service"), service["metadata"]["name"], [problem])

    def _free_address(self) -> str:
        number = next((n for n in range(_FIRST, _LAST + 1) if n not in self._addresses), None)
        if number is None:
            raise internal("failed to allocate a serviceIP: range is full")
        return str(IPv4Address(number))

    def _with_node_ports(self, ports: Any) -> list[dict[str, Any]]:
        given: list[dict[str, Any]] = []
        mine = set(_node_ports({"ports": ports}))
        for port in ports:
            if not port.get("nodePort"):
                free = next((n for n in _PORTS if n not in self._ports and n not in mine), None)
                if free is None:
                    raise internal("failed to allocate a nodePort: range is full")
                mine.add(free)
                port = {**port, "nodePort": free}
            given.append(port)
        return given


def _node_ports(spec: Mapping[str, Any]) -> frozenset[int]:
    return frozenset(port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))


def _without_node_port(port: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in port.items() if name != "nodePort"}


def _with_known_ports(ports: Any, before: Any) -> list[dict[str, Any]]:
    """Ports that do not say theirs keep the one they had."""
    known = {(p.get("protocol"), p.get("port")): p.get("nodePort") for p in before}
    used = {p["nodePort"] for p in ports if p.get("nodePort")}
    out = []
    for port in ports:
        held = known.get((port.get("protocol"), port.get("port")))
        out.append(port if port.get("nodePort") or not held or held in used else {**port, "nodePort": held})
    return out


def _is_ours(ip: str) -> bool:
    try:
        return IPv4Address(ip) in NETWORK
    except ValueError:
        return False
