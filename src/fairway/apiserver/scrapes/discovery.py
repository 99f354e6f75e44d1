"""`/fairway/discovery`: what Prometheus' Kubernetes service discovery would find, for a Prometheus built without it.

The answer is HTTP service discovery's; addresses and `__meta_kubernetes_…` labels are those of the roles `node`, `pod`
and `endpoints`, so that relabelling is the same. Debian's package is such a Prometheus.

Source: prometheus discovery/kubernetes/{node,pod,endpoints}.go (3.14).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from fairway.apiserver.statuses import bad_request
from fairway.apiserver.wire.messages import Request, Response, json_response
from fairway.kube.conditions import get_condition
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    labels_of,
    meta_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from fairway.telemetry.statemetrics.rules import sanitized

if TYPE_CHECKING:
    from fairway.cluster.store import Store

_META: Final = "__meta_kubernetes_"
_KUBELET_PORT: Final = 10250
_ADDRESSES: Final = ("InternalIP", "InternalDNS", "ExternalIP", "ExternalDNS", "Hostname")
Group = dict[str, Any]
Labels = dict[str, str]


def answer(store: Store, request: Request) -> Response:
    """Raises: StatusError (400)."""
    role = request.option("role")
    walk = _WALKS.get(role)
    if walk is None:
        raise bad_request(f"role: expected node, pod or endpoints, not {role!r}")
    named = [] if role == "node" else request.query.get("namespace", [])
    homes: list[str | None] = [*named] or [None]
    return json_response(200, [group for home in homes for group in walk(store, home)])


def _walk_nodes(store: Store, _home: str | None) -> Iterator[Group]:
    return (_node(node) for node in store.walk("Node"))


def _walk_pods(store: Store, home: str | None) -> Iterator[Group]:
    return (group for pod in store.walk("Pod", home) for group in _pods(pod))


def _walk_endpoints(store: Store, home: str | None) -> Iterator[Group]:
    return (group for ends in store.walk("Endpoints", home) for group in _endpoints(store, ends))


_WALKS: Final = {"node": _walk_nodes, "pod": _walk_pods, "endpoints": _walk_endpoints}


def _node(node: Obj) -> Group:
    addresses = {
        a.get("type"): str(a.get("address")) for a in reversed(status_of(node).get("addresses") or ())
    }
    address = next((addresses[kind] for kind in _ADDRESSES if kind in addresses), name_of(node))
    port = ((status_of(node).get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    labels = {
        f"{_META}node_provider_id": str(spec_of(node).get("providerID") or ""),
        **{f"{_META}node_address_{sanitized(str(kind))}": value for kind, value in addresses.items()},
        **_object(node, "node"),
        "instance": name_of(node),
    }
    return {"targets": [f"{address}:{port or _KUBELET_PORT}"], "labels": labels}


def _pods(pod: Obj) -> Iterator[Group]:
    """A target for every port of every container; one without a port for a container that declares none."""
    address = status_of(pod).get("podIP")
    if not address:
        return
    labels = {f"{_META}namespace": namespace_of(pod), **_of_pod(pod)}
    for field in ("containers", "initContainers"):
        for container in spec_of(pod).get(field) or ():
            own = {
                f"{_META}pod_container_name": str(container.get("name")),
                f"{_META}pod_container_image": str(container.get("image") or ""),
                f"{_META}pod_container_init": str(field == "initContainers").lower(),
            }
            ports = container.get("ports") or ()
            if not ports:
                yield {"targets": [address], "labels": {**labels, **own}}
            for port in ports:
                found = {**labels, **own, **_port(port)}
                yield {"targets": [f"{address}:{port['containerPort']}"], "labels": found}


def _port(declared: Obj) -> Labels:
    return {
        f"{_META}pod_container_port_number": str(declared["containerPort"]),
        f"{_META}pod_container_port_name": str(declared.get("name") or ""),
        f"{_META}pod_container_port_protocol": str(declared.get("protocol") or "TCP"),
    }


def _endpoints(store: Store, ends: Obj) -> Iterator[Group]:
    """A target for every address and port of a Service, and for the other ports of the pods behind it."""
    home, name = namespace_of(ends), name_of(ends)
    labels = {f"{_META}namespace": home, **_object(ends, "endpoints")}
    service = store.get(Key("Service", home, name))
    if service is not None:
        labels |= _object(service, "service")
    served: dict[str, set[int]] = {}
    for subset in ends.get("subsets") or ():
        for port in subset.get("ports") or ():
            for field, ready in (("addresses", "true"), ("notReadyAddresses", "false")):
                for address in subset.get(field) or ():
                    pod = _target(store, home, address)
                    found = {**labels, **_address(address, port, ready), **_behind(pod, int(port["port"]))}
                    if pod is not None:
                        served.setdefault(name_of(pod), set()).add(int(port["port"]))
                    yield {"targets": [f"{address['ip']}:{port['port']}"], "labels": found}
    for of_pod, ports in served.items():
        pod = store.get(Key("Pod", home, of_pod)) or {}
        for group in _pods(pod):
            number = group["labels"].get(f"{_META}pod_container_port_number")
            if number is not None and int(number) not in ports:
                yield {**group, "labels": {**labels, **group["labels"]}}


def _target(store: Store, home: str, address: Obj) -> Obj | None:
    target = address.get("targetRef") or {}
    is_pod = target.get("kind") == "Pod"
    return (
        store.get(Key("Pod", str(target.get("namespace") or home), str(target.get("name"))))
        if is_pod
        else None
    )


def _address(address: Obj, port: Obj, ready: str) -> Labels:
    target = address.get("targetRef") or {}
    said = {
        "endpoint_port_name": port.get("name"),
        "endpoint_port_protocol": port.get("protocol") or "TCP",
        "endpoint_ready": ready,
        "endpoint_address_target_kind": target.get("kind"),
        "endpoint_address_target_name": target.get("name"),
        "endpoint_node_name": address.get("nodeName"),
        "endpoint_hostname": address.get("hostname"),
    }
    return {f"{_META}{name}": str(value) for name, value in said.items() if value}


def _behind(pod: Obj | None, number: int) -> Labels:
    """The pod behind an address, and its container that declares the port."""
    if pod is None:
        return {}
    found = _of_pod(pod)
    for container in spec_of(pod).get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("containerPort") == number:
                own = {
                    f"{_META}pod_container_name": str(container.get("name")),
                    f"{_META}pod_container_image": str(container.get("image") or ""),
                    f"{_META}pod_container_init": "false",
                }
                return {**found, **own, **_port(port)}
    return found


def _object(obj: Obj, role: str) -> Labels:
    """Its name, labels and annotations."""
    found = {f"{_META}{role}_name": name_of(obj)}
    for word, pairs in (("label", labels_of(obj)), ("annotation", annotations_of(obj))):
        for key, value in pairs.items():
            found[f"{_META}{role}_{word}_{sanitized(key)}"] = str(value)
            found[f"{_META}{role}_{word}present_{sanitized(key)}"] = "true"
    return found


def _of_pod(pod: Obj) -> Labels:
    status, by = status_of(pod), controller_of(pod) or {}
    ready = get_condition(status.get("conditions"), "Ready") or {}
    said = {
        "pod_ip": status.get("podIP"),
        "pod_ready": str(ready.get("status") or "unknown").lower(),
        "pod_phase": status.get("phase"),
        "pod_node_name": spec_of(pod).get("nodeName"),
        "pod_host_ip": status.get("hostIP"),
        "pod_uid": meta_of(pod).get("uid"),
        "pod_controller_kind": by.get("kind"),
        "pod_controller_name": by.get("name"),
    }
    found = {f"{_META}{name}": str(value) for name, value in said.items() if value}
    return {**found, **_object(pod, "pod")}
