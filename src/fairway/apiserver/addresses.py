"""Which address does a new Service get, and which ports on every node?

Addresses come from 10.96.0.0/16, ports from 30000–32767, the lowest that is free; nobody else hands them out.

Source: pkg/registry/core/service/storage/alloc.go; kube-apiserver --service-cluster-ip-range (kubeadm's default),
--service-node-port-range (v1.36). Unlike kube: the lowest free one instead of a random one, so that two runs agree.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Any

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Obj, spec_of

NETWORK = IPv4Network("10.96.0.0/16")
# The first addresses are kept for those who ask for one: 10.96.0.1 is the API's, 10.96.0.10 usually DNS'.
_FIRST = int(NETWORK.network_address) + 257
_LAST = int(NETWORK.broadcast_address) - 1
_PORTS = range(30_000, 32_768)
_WITH_PORTS = ("NodePort", "LoadBalancer")


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
        """The Service with what it did not ask for by name."""
        spec = spec_of(service)
        kind = spec.get("type") or "ClusterIP"
        if kind == "ExternalName":
            return service
        ip = spec.get("clusterIP") or self._free_address()
        families = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
        spec = {**families, **spec, "clusterIP": ip, "clusterIPs": spec.get("clusterIPs") or [ip]}
        if kind in _WITH_PORTS and spec.get("allocateLoadBalancerNodePorts") is not False:
            spec["ports"] = self._with_node_ports(spec.get("ports") or ())
        status = service.get("status") or {"loadBalancer": {}}
        return {**service, "spec": spec, "status": status}

    def _free_address(self) -> str:
        number = next((n for n in range(_FIRST, _LAST) if n not in self._addresses), _LAST)
        return str(IPv4Address(number))

    def _with_node_ports(self, ports: Any) -> list[dict[str, Any]]:
        given: list[dict[str, Any]] = []
        mine: set[int] = set()
        for port in ports:
            if not port.get("nodePort"):
                free = next((n for n in _PORTS if n not in self._ports and n not in mine), _PORTS[-1])
                port = {**port, "nodePort": free}
            mine.add(port["nodePort"])
            given.append(port)
        return given


def _is_ours(ip: str) -> bool:
    try:
        return IPv4Address(ip) in NETWORK
    except ValueError:
        return False
