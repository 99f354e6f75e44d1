"""Where does a Service of the cluster lead, for a server that calls it? To its first endpoint that is ready.

Source: apiserver pkg/util/proxy ResolveEndpoint (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, labels_of

_PORT = 443


class Unresolved(ValueError):
    """There is nowhere to send the call. The text is kube-apiserver's."""


def resolved(view: View, service: dict[str, Any]) -> tuple[str, int]:
    """Where the Service's port leads: its first ready endpoint, or the host of an ExternalName.

    Raises: Unresolved.
    """
    namespace, name = service.get("namespace", ""), service.get("name", "")
    port = service.get("port") or _PORT
    found = view.get(Key("Service", namespace, name))
    if found is None:
        raise Unresolved(f'service "{name}" not found')
    spec = found.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName")), port
    declared = next((p for p in spec.get("ports") or () if p.get("port") == port), None)
    if declared is None:
        raise Unresolved(f'no service port {port} found for service "{name}"')
    for endpoints in view.objects("EndpointSlice.discovery.k8s.io", namespace):
        if labels_of(endpoints).get("kubernetes.io/service-name") != name:
            continue
        number = _port_of(endpoints, declared)
        for endpoint in endpoints.get("endpoints") or ():
            addresses = endpoint.get("addresses")
            if number and addresses and (endpoint.get("conditions") or {}).get("ready") is not False:
                return str(addresses[0]), number
    raise Unresolved(f'no endpoints available for service "{name}"')


def _port_of(endpoints: Obj, declared: dict[str, Any]) -> int:
    """The endpoints' port that goes by the Service port's name."""
    for port in endpoints.get("ports") or ():
        if (port.get("name") or "") == (declared.get("name") or ""):
            return int(port.get("port") or 0)
    return 0
